//! How a device is cut into units.

use std::fmt;

use thermocline_types::{Pba, UnitId};

/// How many units a device has, how many blocks each holds, and how many blocks it exports.
///
/// A physical address packs unit and offset: `unit << shift | offset`. Taking an address apart needs no division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    exported: u64,
    units: u32,
    blocks_per_unit: u32,
    shift: u32,
}

/// Why a device cannot be cut that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// A count is zero or beyond what addresses can express.
    Degenerate,
    /// Too few units to hold the exported blocks and the open and reserve units besides.
    TooFewUnits {
        /// Units the device has.
        units: u64,
        /// Units it needs.
        needed: u64,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::Degenerate => {
                write!(f, "units, blocks per unit and exported blocks must be between 1 and 2^31")
            }
            ShapeError::TooFewUnits { units, needed } => write!(
                f,
                "{units} units are too few: exported blocks, open units and reserve need {needed}"
            ),
        }
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// A device of `units` units of `blocks_per_unit` blocks that exports `exported` blocks.
    ///
    /// # Errors
    /// [`ShapeError::Degenerate`] for zero or oversized counts.
    pub fn new(exported: u64, units: u32, blocks_per_unit: u32) -> Result<Self, ShapeError> {
        let in_range = |n: u32| (1..1 << 31).contains(&n);
        if exported == 0 || exported >= 1 << 48 || !in_range(units) || !in_range(blocks_per_unit) {
            return Err(ShapeError::Degenerate);
        }
        let shift = blocks_per_unit.next_power_of_two().trailing_zeros();
        Ok(Shape { exported, units, blocks_per_unit, shift })
    }

    /// Blocks the host may address.
    #[must_use]
    pub fn exported(&self) -> u64 {
        self.exported
    }

    /// Units the device has.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Blocks in a unit.
    #[must_use]
    pub fn blocks_per_unit(&self) -> u32 {
        self.blocks_per_unit
    }

    /// Blocks on the media, open and reserve units included.
    #[must_use]
    pub fn physical(&self) -> u64 {
        u64::from(self.units) * u64::from(self.blocks_per_unit)
    }

    /// One past the largest physical address in packed form.
    #[must_use]
    pub fn pba_limit(&self) -> u64 {
        u64::from(self.units) << self.shift
    }

    /// The physical address of block `offset` of `unit`.
    #[inline]
    #[must_use]
    pub fn pba(&self, unit: UnitId, offset: u32) -> Pba {
        Pba((u64::from(unit.0) << self.shift) | u64::from(offset))
    }

    /// The unit that holds `pba`.
    #[inline]
    #[must_use]
    pub fn unit(&self, pba: Pba) -> UnitId {
        UnitId((pba.0 >> self.shift) as u32)
    }

    /// The offset of `pba` in its unit.
    #[inline]
    #[must_use]
    pub fn offset(&self, pba: Pba) -> u32 {
        (pba.0 & ((1 << self.shift) - 1)) as u32
    }

    /// Position of `pba` when all units are laid end to end.
    #[inline]
    #[must_use]
    pub fn flat_index(&self, pba: Pba) -> usize {
        self.unit(pba).index() * self.blocks_per_unit as usize + self.offset(pba) as usize
    }

    /// How many bits of a physical address hold the offset.
    #[must_use]
    pub fn offset_bits(&self) -> u32 {
        self.shift
    }
}
