//! How the device is divided, checked before anything computes with it.

use thermocline_types::UnitId;
use thiserror::Error;

use crate::id::Location;
use crate::layout::{CHUNK_PREFIX_BYTES, ENTRY_BYTES, MAX_CHUNK_BYTES, MAX_ENTRIES};
use crate::units::{MAX_UNITS, PAGE_UNITS};

/// Bytes in a block of a volume, and in a page of a map.
pub const BLOCK_BYTES: usize = 4096;

/// Bits of a map entry that address a logical block of the device within the pool.
pub const ADDRESS_BITS: u32 = 36;

/// Fewest bytes in a unit. Chosen, not measured: room for a few chunks and superblocks, so that tests can be small.
pub const MIN_UNIT_BYTES: u64 = 64 << 10;

/// Size of the device's logical block: the smallest piece that it reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogicalBlock {
    /// 512 bytes.
    B512,
    /// 4096 bytes.
    B4096,
}

impl LogicalBlock {
    /// The logical block of `bytes` bytes, if the format knows it.
    #[must_use]
    pub const fn from_bytes(bytes: u32) -> Option<LogicalBlock> {
        match bytes {
            512 => Some(LogicalBlock::B512),
            4096 => Some(LogicalBlock::B4096),
            _ => None,
        }
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            LogicalBlock::B512 => 512,
            LogicalBlock::B4096 => 4096,
        }
    }

    /// Logical blocks in a [`BLOCK_BYTES`] block of a volume.
    #[must_use]
    pub const fn per_block(self) -> u32 {
        (BLOCK_BYTES / self.bytes()) as u32
    }

    /// Logical blocks that hold `bytes` bytes.
    #[must_use]
    pub const fn to_hold(self, bytes: usize) -> u32 {
        bytes.div_ceil(self.bytes()) as u32
    }

    /// Logical blocks of a chunk header with `entries` entries, [`MAX_ENTRIES`] at most.
    #[must_use]
    pub const fn chunk_header(self, entries: usize) -> u32 {
        assert!(entries <= MAX_ENTRIES, "a chunk has at most MAX_ENTRIES entries");
        self.to_hold(CHUNK_PREFIX_BYTES + entries * ENTRY_BYTES)
    }

    /// Logical blocks in the longest chunk.
    #[must_use]
    pub const fn max_chunk(self) -> u32 {
        (MAX_CHUNK_BYTES / self.bytes()) as u32
    }
}

/// What is wrong with a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// Less than [`MIN_UNIT_BYTES`].
    #[error("units of {0} bytes; at least {MIN_UNIT_BYTES} are needed")]
    SmallUnit(u64),
    /// Two units hold superblocks and at least one data.
    #[error("{0} units; at least 3 are needed")]
    FewUnits(u32),
    /// More than [`MAX_UNITS`].
    #[error("{0} units; at most {MAX_UNITS} can be listed: make them larger")]
    ManyUnits(u32),
    /// The superblock units are one, or not of the pool.
    #[error("superblock units {0} and {1}; two units of the pool are needed")]
    SuperblockUnits(u32, u32),
    /// More logical blocks than a map entry addresses.
    #[error("{0} logical blocks; fewer than 2^36 can be addressed")]
    TooLarge(u64),
}

/// The device as the pool uses it: `units` units of `blocks_per_unit` logical blocks each. Always valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    logical_block: LogicalBlock,
    blocks_per_unit: u32,
    units: u32,
    superblock_units: [UnitId; 2],
}

impl Geometry {
    /// A geometry of `units` units of `blocks_per_unit` logical blocks that can be written. Two units hold superblocks.
    ///
    /// # Errors
    /// [`GeometryError`] when the format cannot describe it.
    pub fn new(
        logical_block: LogicalBlock,
        blocks_per_unit: u32,
        units: u32,
        superblock_units: [UnitId; 2],
    ) -> Result<Geometry, GeometryError> {
        let unit_bytes = u64::from(blocks_per_unit) * logical_block.bytes() as u64;
        let blocks = u64::from(blocks_per_unit) * u64::from(units);
        let [first, second] = superblock_units;
        if unit_bytes < MIN_UNIT_BYTES {
            return Err(GeometryError::SmallUnit(unit_bytes));
        }
        if units < 3 {
            return Err(GeometryError::FewUnits(units));
        }
        if units > MAX_UNITS {
            return Err(GeometryError::ManyUnits(units));
        }
        if first == second || first.0 >= units || second.0 >= units {
            return Err(GeometryError::SuperblockUnits(first.0, second.0));
        }
        // The last address is left out: with a tag of all ones it would read as unmapped.
        if blocks >= 1 << ADDRESS_BITS {
            return Err(GeometryError::TooLarge(blocks));
        }
        Ok(Geometry { logical_block, blocks_per_unit, units, superblock_units })
    }

    /// The device's logical block.
    #[must_use]
    pub const fn logical_block(&self) -> LogicalBlock {
        self.logical_block
    }

    /// Logical blocks of a unit that can be written: of a zone, its capacity.
    #[must_use]
    pub const fn blocks_per_unit(&self) -> u32 {
        self.blocks_per_unit
    }

    /// Units of the pool, those of superblocks included.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Pages of the unit table.
    #[must_use]
    pub const fn unit_pages(&self) -> usize {
        (self.units as usize).div_ceil(PAGE_UNITS)
    }

    /// The two units that hold superblocks and nothing else.
    #[must_use]
    pub const fn superblock_units(&self) -> [UnitId; 2] {
        self.superblock_units
    }

    /// Bytes of a unit.
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.blocks_per_unit) * self.logical_block.bytes() as u64
    }

    /// Whether `unit` holds superblocks.
    #[must_use]
    pub fn is_superblock_unit(&self, unit: UnitId) -> bool {
        self.superblock_units.contains(&unit)
    }

    /// Whether `blocks` logical blocks from `at` lie within one unit of the pool.
    #[must_use]
    pub fn contains(&self, at: Location, blocks: u32) -> bool {
        let end = u64::from(at.block) + u64::from(blocks);
        at.unit.0 < self.units && end <= u64::from(self.blocks_per_unit)
    }

    /// Whether a block of a volume can be at `at`: within a unit that is not one of the superblocks'.
    #[must_use]
    pub fn can_hold_block(&self, at: Location) -> bool {
        self.contains(at, self.logical_block.per_block()) && !self.is_superblock_unit(at.unit)
    }

    /// The address of `at` within the pool, in logical blocks, as map entries have it.
    ///
    /// # Panics
    /// When `at` is outside the pool.
    #[must_use]
    pub fn address(&self, at: Location) -> u64 {
        assert!(self.contains(at, 1), "{at} is outside the pool");
        u64::from(at.unit.0) * u64::from(self.blocks_per_unit) + u64::from(at.block)
    }

    /// The place of an address within the pool, if the pool has it.
    #[must_use]
    pub fn location(&self, address: u64) -> Option<Location> {
        let per_unit = u64::from(self.blocks_per_unit);
        let (unit, block) = (address / per_unit, address % per_unit);
        (unit < u64::from(self.units)).then(|| Location::new(unit as u32, block as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(per_unit: u32, units: u32) -> Result<Geometry, GeometryError> {
        Geometry::new(LogicalBlock::B4096, per_unit, units, [UnitId(0), UnitId(1)])
    }

    #[test]
    fn addresses_count_through_the_units_and_come_back() {
        let geometry = geometry(1000, 5).unwrap();
        assert_eq!(geometry.address(Location::new(3, 7)), 3007);
        assert_eq!(geometry.location(3007), Some(Location::new(3, 7)));
        assert_eq!(geometry.location(4999), Some(Location::new(4, 999)));
        assert_eq!(geometry.location(5000), None);
        assert_eq!(geometry.location(u64::MAX), None);
    }

    #[test]
    fn what_the_format_cannot_describe_is_refused() {
        assert_eq!(geometry(15, 5), Err(GeometryError::SmallUnit(15 * 4096)));
        assert_eq!(geometry(16, 2), Err(GeometryError::FewUnits(2)));
        assert!(geometry(1 << 20, (1 << 16) - 1).is_ok());
        assert_eq!(geometry(1 << 20, 1 << 16), Err(GeometryError::TooLarge(1 << 36)));
        assert_eq!(geometry(u32::MAX, u32::MAX), Err(GeometryError::ManyUnits(u32::MAX)));
        assert_eq!(geometry(16, MAX_UNITS + 1), Err(GeometryError::ManyUnits(MAX_UNITS + 1)));
        for pair in [[2, 2], [0, 5], [9, 0]] {
            let new = Geometry::new(LogicalBlock::B4096, 16, 5, pair.map(UnitId));
            assert_eq!(new, Err(GeometryError::SuperblockUnits(pair[0], pair[1])));
        }
    }

    #[test]
    fn a_block_lies_in_one_unit_that_holds_no_superblocks() {
        let small = Geometry::new(LogicalBlock::B512, 1001, 4, [UnitId(0), UnitId(2)]).unwrap();
        assert!(small.can_hold_block(Location::new(1, 993)));
        assert!(!small.can_hold_block(Location::new(1, 994)));
        assert!(!small.can_hold_block(Location::new(1, u32::MAX)));
        assert!(!small.can_hold_block(Location::new(2, 0)));
        assert!(!small.can_hold_block(Location::new(4, 0)));
    }

    #[test]
    fn a_lone_write_costs_one_logical_block_of_header() {
        assert_eq!(LogicalBlock::B512.chunk_header(1) + LogicalBlock::B512.per_block(), 9);
        assert_eq!(LogicalBlock::B4096.chunk_header(1) + LogicalBlock::B4096.per_block(), 2);
        assert_eq!(LogicalBlock::B512.chunk_header(13), 1);
        assert_eq!(LogicalBlock::B512.chunk_header(14), 2);
        assert_eq!(LogicalBlock::B4096.chunk_header(125), 1);
        assert_eq!(LogicalBlock::B4096.chunk_header(126), 2);
    }
}
