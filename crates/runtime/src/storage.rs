//! Media as bytes: files, block devices, zones, memory and simulated drives behind one trait.
//!
//! Invariants:
//! * Every command that was submitted is completed exactly once, in any order.
//! * A flush covers the writes and resets whose completion was handed out before the flush was submitted.
//! * Commands in flight own their memory; dropping a storage waits for them.

mod answers;
#[cfg(test)]
mod bench;
mod bugs;
mod cache;
mod error;
mod file;
mod group;
mod holder;
mod inbox;
#[cfg(target_os = "linux")]
mod inline;
mod io;
#[cfg(target_os = "linux")]
mod ioctl;
mod joined;
mod memory;
mod mirror;
mod overlay;
mod pace;
mod parts;
pub(crate) mod raid;
#[cfg(target_os = "linux")]
mod ring;
mod simulated;
mod threads;
#[cfg(target_os = "linux")]
mod zoned;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::UnitReport;
use thermocline_format::{Location, LogicalBlock};
use thermocline_nand::Counters;
use thermocline_types::{Bytes, Class, DeviceId, UnitId};

use crate::Buffer;

pub(crate) use cache::forget;
pub use error::{Fault, OpenError, OpenErrorKind};
pub(crate) use file::is_storage;
pub use file::{Access, File, Options};
pub(crate) use group::LAST_EVENT;
pub use group::{Group, GroupKind, GroupStatus, MemberState, MemberStatus};
pub use holder::Holder;
pub use io::IoEngine;
pub use joined::Joined;
pub use memory::Memory;
pub use mirror::{FoundPair, Mate, Mirror, PairError, PairStart};
pub(crate) use mirror::{decide, is_alone, label_units, read_label, write_label};
pub use overlay::Overlay;
pub(crate) use raid::FoundMember;
pub use raid::{FoundRaid, MemberStart, Raid, RaidError, RaidStart};
pub use simulated::{Latency, Simulated};
#[cfg(target_os = "linux")]
pub use zoned::Zoned;
pub(crate) use zoned::are_empty as zones_are_empty;

/// Identifies a command between submission and completion. Chosen by whoever submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// How a storage is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The smallest piece that can be read or written.
    pub logical_block: LogicalBlock,
    /// Logical blocks of a unit that can be written; of a zone, its capacity.
    pub blocks_per_unit: u32,
    /// Number of units.
    pub units: u32,
    /// Distance of the starts of neighbouring units; above the size of a unit for zones with a gap behind.
    pub unit_distance: Bytes,
}

impl Layout {
    /// Units side by side.
    #[must_use]
    pub fn contiguous(logical_block: LogicalBlock, blocks_per_unit: u32, units: u32) -> Layout {
        let unit_distance = Bytes(u64::from(blocks_per_unit) * logical_block.bytes() as u64);
        Layout { logical_block, blocks_per_unit, units, unit_distance }
    }

    /// The first byte of `unit`.
    #[must_use]
    pub fn start(&self, unit: UnitId) -> Bytes {
        Bytes(u64::from(unit.0) * self.unit_distance.0)
    }

    /// The first byte at `at`.
    #[must_use]
    pub fn offset(&self, at: Location) -> Bytes {
        self.start(at.unit) + Bytes(u64::from(at.block) * self.logical_block.bytes() as u64)
    }

    /// Bytes of a unit that can be written.
    #[must_use]
    pub fn unit_bytes(&self) -> Bytes {
        Bytes(u64::from(self.blocks_per_unit) * self.logical_block.bytes() as u64)
    }

    /// Bytes from the first unit to the end of the last.
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.start(UnitId(self.units))
    }

    /// Where byte `offset` is.
    pub(crate) fn unit_of(&self, offset: Bytes) -> UnitId {
        UnitId((offset.0 / self.unit_distance.0) as u32)
    }
}

/// What is to be done. Offsets and lengths are whole logical blocks, and no transfer leaves its unit.
#[derive(Debug)]
pub enum Command {
    /// Write the parts one behind the other, as one write.
    Write {
        /// Where the first part begins.
        at: Bytes,
        /// What.
        parts: Vec<Buffer>,
        /// Data of a class is expected to live about as long: for devices that take placement handles.
        class: Class,
    },
    /// Fill the buffer.
    Read {
        /// Where the first byte is.
        at: Bytes,
        /// Where to.
        into: Buffer,
    },
    /// Make durable all that was completed before on a device, of those that the units are on.
    Flush(DeviceId),
    /// Make a unit empty, or at least give back its space. It may read as zeroes or as before.
    Reset(UnitId),
    /// Make a unit read as zeros. Of a zone, make it empty.
    Zero(UnitId),
    /// Let go of a unit that will not be written until it is reset.
    Finish(UnitId),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub token: Token,
    /// How.
    pub result: Result<(), Fault>,
}

/// Ends a [`Storage::reap`] that waits, from any thread; if none does, the next one does not wait.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Media as bytes.
pub trait Storage: Send {
    /// How it is divided.
    fn layout(&self) -> &Layout;

    /// Starts a command. It may begin only with the next [`Storage::reap`], so that many begin together.
    fn submit(&mut self, token: Token, command: Command);

    /// Appends to `done` the commands that are complete. If there are none, waits for one, or for the waker, or until
    /// `wait` is over; `None` waits without end. It may return sooner, so look again at whatever was waited for.
    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>);

    /// What ends waiting.
    fn waker(&self) -> Waker;

    /// For those who wait elsewhere than in [`Storage::reap`]: a descriptor that is readable when that has completions,
    /// or was woken. `None` if there is none, as by default.
    fn descriptor(&mut self) -> Option<OwnedFd> {
        None
    }

    /// How long to wait at most until [`Storage::reap`] is called again, though no command may be complete; `None`: for
    /// ever, as by default. Whoever waits in [`Storage::reap`] heeds it as well.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// The condition of every unit, in order. Waits for the device.
    ///
    /// # Errors
    /// [`Fault`] when the device does not say.
    fn report(&mut self) -> Result<Vec<UnitReport>, Fault>;

    /// Bytes through the drive and onto its media since it was opened, if it is a simulated one; of several storages,
    /// the sum, if all are simulated drives. Others do not say, as by default.
    fn drive_counters(&self) -> Option<Counters> {
        None
    }
}

impl Storage for Box<dyn Storage> {
    fn layout(&self) -> &Layout {
        (**self).layout()
    }

    fn submit(&mut self, token: Token, command: Command) {
        (**self).submit(token, command);
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        (**self).reap(wait, done);
    }

    fn waker(&self) -> Waker {
        (**self).waker()
    }

    fn descriptor(&mut self) -> Option<OwnedFd> {
        (**self).descriptor()
    }

    fn timeout(&self) -> Option<Duration> {
        (**self).timeout()
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        (**self).report()
    }

    fn drive_counters(&self) -> Option<Counters> {
        (**self).drive_counters()
    }
}

#[cfg(test)]
mod tests;
