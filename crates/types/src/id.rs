//! Addresses and identifiers.

/// Logical block address: the index of a mapping unit in what the device exports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// Physical block address: unit and offset in the unit, packed as the flash translation layer defines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pba(pub u64);

/// A unit of erasure as the flash translation layer sees it: zone, superblock or reclaim unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

/// A device of a pool, or of a host. Dense from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u8);

/// A lifetime class: all blocks written to one open unit share it. Dense from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u8);

/// Whose request it is: a volume of a multi-volume trace, or a generator of a mix. Dense from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// Which file of its tenant a request belongs to, where the workload knows.
///
/// Sources name the directories; the number of a file is that of its making in its directory, from 0, and begins anew
/// after 65,535.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The directory, or the kind of file, from 1; 0 where the workload does not know.
    pub directory: u16,
    /// The file in it.
    pub file: u16,
}

impl StreamId {
    /// The stream of a workload without files.
    pub const UNKNOWN: StreamId = StreamId { directory: 0, file: 0 };

    /// Whether the workload knows.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.directory > 0
    }
}

impl Lba {
    /// The address as a vector index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Pba {
    /// The address as a vector index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl UnitId {
    /// The identifier as a vector index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl DeviceId {
    /// The identifier as a vector index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Class {
    /// The class as a vector index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
