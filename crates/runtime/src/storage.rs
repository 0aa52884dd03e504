//! Media as bytes: files, block devices, zones, memory and simulated drives behind one trait.
//!
//! Invariants:
//! * Every command that was submitted is completed exactly once, in any order.
//! * A flush covers the writes and resets whose completion was handed out before the flush was submitted.
//! * Commands in flight own their memory; dropping a storage waits for them.

#[cfg(test)]
mod bench;
mod cache;
mod deadline;
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
mod overlay;
mod parts;
pub(crate) mod raid;
#[cfg(target_os = "linux")]
mod ring;
mod simulated;
mod threads;
mod watch;
#[cfg(target_os = "linux")]
mod zoned;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::{Members, UnitReport};
use thermocline_nand::Counters;
use thermocline_types::{Bytes, Version};

use crate::Buffer;

pub(crate) use cache::forget;
pub(crate) use deadline::{Deadline, Late};
pub use error::{Fault, OpenError, OpenErrorKind};
pub(crate) use file::is_storage;
pub use file::{File, Options};
pub use group::{Group, GroupChange, GroupKind, GroupNotice, GroupStatus, MemberStatus};
pub use holder::Holder;
pub use io::IoEngine;
pub use joined::Joined;
pub use memory::Memory;
pub use overlay::Overlay;
pub(crate) use raid::FoundMember;
pub use raid::{FoundRaid, Raid};
pub use simulated::{Latency, Simulated};
#[cfg(target_os = "linux")]
pub use zoned::Zoned;
pub(crate) use zoned::are_empty as zones_are_empty;

pub use thermocline_array::{Access, Layout, MemberState, Token};
pub(crate) use thermocline_array::{
    ArrayStart as RaidStart, LAST_EVENT, MemberStart, StartError as RaidError,
};

/// A command. Offsets and lengths are whole logical blocks, and no transfer crosses a unit boundary.
pub type Command = thermocline_array::Command<Buffer>;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub token: Token,
    /// How.
    pub result: Result<(), Fault>,
    /// Of a read, the version that answered it because a member reported an error.
    pub degraded: Option<Version>,
}

impl Completion {
    /// How a command ended that no error of a member was in the way of.
    #[must_use]
    pub const fn new(token: Token, result: Result<(), Fault>) -> Completion {
        Completion { token, result, degraded: None }
    }
}

/// Ends a [`Storage::reap`] that waits, from any thread; if none does, the next one does not wait.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Media as bytes.
pub trait Storage: Send {
    /// How it is divided.
    fn layout(&self) -> &Layout;

    /// Starts a command. It may begin only with the next [`Storage::reap`], so that many begin together.
    fn submit(&mut self, token: Token, command: Command);

    /// Appends completed commands to `done`. Without completions, waits for a completion, for the waker, or until
    /// `wait` is over; `None` waits without end. May return early, so callers must check their condition again.
    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>);

    /// Ends a wait in [`Storage::reap`].
    fn waker(&self) -> Waker;

    /// Appends the descriptors for callers that wait outside [`Storage::reap`]. After a completion or a wake, one of
    /// them is readable, or [`Storage::timeout`] is zero.
    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>);

    /// Longest time until the next call of [`Storage::reap`], even without completed commands; `None`, the default: for
    /// ever. Waits inside [`Storage::reap`] keep to this limit as well.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// The condition of every unit, in order. Waits for the device.
    ///
    /// # Errors
    /// [`Fault`] when the device does not say.
    fn report(&mut self) -> Result<Vec<UnitReport>, Fault>;

    /// The fate of a file that was removed or cut off while it was in use, as the beginning of a sentence; `None` if
    /// all files are whole, and by default. Later writes may not outlive the process.
    fn lost(&mut self) -> Option<String> {
        None
    }

    /// The device that has not ended a command within its deadline, as the beginning of a sentence; `None` if no
    /// device is late, and by default.
    fn overdue(&self) -> Option<String> {
        None
    }

    /// Members of each device on it, as the engine counts devices, of which one may be wrong; none, as by default.
    fn members(&self) -> Members {
        Members::NONE
    }

    /// Bytes through the drive and onto its media since it was opened, if it is a simulated one; of several storages,
    /// the sum, if all are simulated drives. By default `None`.
    fn drive_counters(&self) -> Option<Counters> {
        None
    }

    /// Media of the simulated drives under it, spare units with them. By default none.
    fn drive_media(&self) -> Bytes {
        Bytes(0)
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

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        (**self).descriptors(into);
    }

    fn timeout(&self) -> Option<Duration> {
        (**self).timeout()
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        (**self).report()
    }

    fn lost(&mut self) -> Option<String> {
        (**self).lost()
    }

    fn overdue(&self) -> Option<String> {
        (**self).overdue()
    }

    fn members(&self) -> Members {
        (**self).members()
    }

    fn drive_counters(&self) -> Option<Counters> {
        (**self).drive_counters()
    }

    fn drive_media(&self) -> Bytes {
        (**self).drive_media()
    }
}

#[cfg(test)]
mod tests;
