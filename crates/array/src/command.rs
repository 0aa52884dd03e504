//! What is asked of an array and of its members, and how that ends.

use thermocline_format::{Location, LogicalBlock};
use thermocline_types::{Bytes, Class, DeviceError, DeviceId, UnitId, Version};

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

    /// The unit that holds byte `offset`.
    #[must_use]
    pub fn unit_of(&self, offset: Bytes) -> UnitId {
        UnitId((offset.0 / self.unit_distance.0) as u32)
    }
}

/// What is to be done. Offsets and lengths are whole logical blocks, and no transfer leaves its unit.
#[derive(Clone, Debug)]
pub enum Command<B> {
    /// Write the parts one behind the other, as one write.
    Write {
        /// Where the first part begins.
        at: Bytes,
        /// What.
        parts: Vec<B>,
        /// Data of a class is expected to live about as long: for devices that take placement handles.
        class: Class,
    },
    /// Fill the buffer.
    Read {
        /// Where the first byte is.
        at: Bytes,
        /// Where to.
        into: B,
        /// Which version, of a device with redundancy.
        version: Version,
    },
    /// Mend a device with redundancy: its user has verified the bytes of a range in a version. If the version leaves a
    /// member out, the member is written the bytes of its pieces. As read, the parity of all rows of the range is made
    /// to agree. No member gets this command.
    Heal {
        /// Where the first byte is.
        at: Bytes,
        /// How many bytes.
        bytes: u64,
        /// The version with the right bytes.
        version: Version,
    },
    /// Stop to believe the member that the version leaves out: the member lacks flushed data, and is filled anew. No
    /// member gets this command.
    Distrust {
        /// Any byte of the device.
        at: Bytes,
        /// The version with the data.
        version: Version,
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
    /// Of a read, the version with the answer, where a member reported an error.
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

    /// Whether members may hold something else afterwards.
    #[must_use]
    pub const fn changes(&self) -> bool {
        !matches!(self, Command::Read { .. } | Command::Flush(_))
    }
}

/// How a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How the device fails the command.
    pub error: DeviceError,
    /// The error number of the system, where the system was asked.
    pub errno: Option<i32>,
}

impl From<DeviceError> for Fault {
    fn from(error: DeviceError) -> Fault {
        Fault { error, errno: None }
    }
}
