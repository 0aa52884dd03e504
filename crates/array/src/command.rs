//! Commands to an array and to its members, and their results.

use thermocline_format::{Location, LogicalBlock};
use thermocline_types::{Bytes, Class, DeviceError, DeviceId, UnitId, Version};

/// Identifies a command between submission and completion. The submitter chooses it.
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
    /// Distance of the starts of neighbouring units. Larger than a unit for zones with a gap behind.
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

    /// The unit that holds byte `offset`.
    #[must_use]
    pub fn unit_of(&self, offset: Bytes) -> UnitId {
        UnitId((offset.0 / self.unit_distance.0) as u32)
    }
}

/// A command. Offsets and lengths are whole logical blocks, and no transfer leaves its unit.
#[derive(Clone, Debug)]
pub enum Command<B> {
    /// Write the parts in order, as one write.
    Write {
        /// Where the first part begins.
        at: Bytes,
        /// The bytes.
        parts: Vec<B>,
        /// Data of a class is expected to live about as long: for devices that take placement handles.
        class: Class,
    },
    /// Fill the buffer.
    Read {
        /// The first byte to read.
        at: Bytes,
        /// The destination.
        into: B,
        /// The version to read, on a device with redundancy.
        version: Version,
    },
    /// Heal a device with redundancy: its user has verified ranges of one unit. A row's pieces are all computed before
    /// the array writes one of them. No member gets this command.
    Heal(Vec<HealRange>),
    /// Stop believing the member that the version leaves out. The member lacks flushed data, and is filled anew. No
    /// member gets this command.
    Distrust {
        /// Any byte of the device.
        at: Bytes,
        /// The version with the right data.
        version: Version,
    },
    /// Make all completed changes of units on a device durable.
    Flush(DeviceId),
    /// Empty a unit, or at least give back its space. The unit may read as zeros or keep its bytes.
    Reset(UnitId),
    /// Make a unit read as zeros; empty a zone.
    Zero(UnitId),
    /// Release the resources of a unit that will not be written until its reset.
    Finish(UnitId),
}

/// Verified bytes of a unit, and a version that has them right. If the version leaves a member out, the member gets the
/// bytes of its pieces. If the version is as read, the parity of all rows of the range is made to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealRange {
    /// The first byte to heal.
    pub at: Bytes,
    /// Number of bytes.
    pub bytes: u64,
    /// The version with the right bytes.
    pub version: Version,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command.
    pub token: Token,
    /// The result.
    pub result: Result<(), Fault>,
    /// Of a read, the version of the answer, if a member reported an error.
    pub degraded: Option<Version>,
}

impl Completion {
    /// The end of a command without an error of a member.
    #[must_use]
    pub const fn new(token: Token, result: Result<(), Fault>) -> Completion {
        Completion { token, result, degraded: None }
    }
}

impl<B> Command<B> {
    /// Fills the buffer with bytes as they are read.
    #[must_use]
    pub const fn read(at: Bytes, into: B) -> Command<B> {
        Command::Read { at, into, version: Version::AS_READ }
    }

    /// Whether the command may change data of members.
    #[must_use]
    pub const fn changes(&self) -> bool {
        !matches!(self, Command::Read { .. } | Command::Flush(_))
    }
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error to report for the command.
    pub error: DeviceError,
    /// The system's error number, if the system reported one.
    pub errno: Option<i32>,
}

impl From<DeviceError> for Fault {
    fn from(error: DeviceError) -> Fault {
        Fault { error, errno: None }
    }
}
