//! Names of pools, places, volumes and moments, as they stand on media.

use std::fmt;

use thermocline_types::{Lba, UnitId};

/// Identity of a pool: 16 bytes chosen at random when it is formatted. All zeros is no pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub [u8; 16]);

impl fmt::Display for PoolId {
    /// 32 hexadecimal digits, first byte first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A place in the pool, in logical blocks of the device from the start of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The unit.
    pub unit: UnitId,
    /// Logical block of the device within the unit.
    pub block: u32,
}

impl Location {
    /// The place `block` logical blocks into `unit`.
    #[must_use]
    pub const fn new(unit: u32, block: u32) -> Location {
        Location { unit: UnitId(unit), block }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {} block {}", self.unit.0, self.block)
    }
}

/// Number of a chunk: rises by one with every chunk submitted to the pool, and never returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// Number of a superblock record: rises by one with every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// Number of an opening of a unit: a unit gets the next generation whenever it is reset and written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// Of a unit in use whose generation is lost: the page of the unit table that said it was damaged.
    pub const UNKNOWN: Generation = Generation(1);
}

/// Number of an opening of the pool: every opening for writing raises the number by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

/// A volume of the pool. Never used again after the volume is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

impl VolumeId {
    /// The reserved volume whose blocks are the map pages of all volumes.
    pub const MAP: VolumeId = VolumeId(0xFFFF_FFFE);
    /// The reserved volume whose blocks are the map pages of [`VolumeId::MAP`].
    pub const ROOT: VolumeId = VolumeId(0xFFFF_FFFF);
    /// The reserved volume whose blocks are the pages of the unit table.
    pub const UNITS: VolumeId = VolumeId(0xFFFF_FFFD);
    /// The first identifier that no user's volume may have.
    pub const RESERVED: VolumeId = VolumeId(0xFFFF_FF00);

    /// Whether a user's volume may have this identifier.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 < Self::RESERVED.0
    }
}

/// Which map page of which volume: the address of a page in the reserved volumes. On media the kind of a chunk's entry
/// says which of them it is.
///
/// In [`VolumeId::MAP`], page `index` holds entries `512 index ..` of the volume. In [`VolumeId::ROOT`] it holds the
/// entries of the map pages `512 index ..` of the volume. In [`VolumeId::UNITS`] it is about the units `256 index ..`,
/// and the volume is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The volume whose blocks, or whose map pages, are mapped.
    pub volume: VolumeId,
    /// The page, counted from the start of the volume.
    pub index: u32,
}

impl PageId {
    /// The page as block of a reserved volume: the volume in the upper 32 bits, the index in the lower.
    #[must_use]
    pub const fn lba(self) -> Lba {
        Lba((self.volume.0 as u64) << 32 | self.index as u64)
    }

    /// Page `index` of the unit table, which belongs to no volume.
    #[must_use]
    pub const fn of_units(index: u32) -> PageId {
        PageId { volume: VolumeId(0), index }
    }

    /// The page that is block `lba` of a reserved volume.
    #[must_use]
    pub const fn from_lba(lba: Lba) -> PageId {
        PageId { volume: VolumeId((lba.0 >> 32) as u32), index: lba.0 as u32 }
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "map page {} of volume {}", self.index, self.volume.0)
    }
}
