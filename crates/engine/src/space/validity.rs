//! A bit for each logical block of the pool, set while the block is valid. Kept only where memory suffices.
//!
//! Garbage collection then knows which blocks to copy without reading map pages. A unit that was written before this
//! opening has no known bits. For such a unit, and in a pool without bits, the map decides.
//!
//! Invariants:
//! * In a unit with known bits, exactly the bits of valid blocks are set.

use thermocline_format::Geometry;
use thermocline_types::UnitId;

/// The bits of all units.
#[derive(Debug)]
pub(crate) struct Validity {
    /// By address; empty without memory for them.
    bits: Vec<u64>,
    /// Of each unit, whether its bits are known; empty as well.
    known: Vec<bool>,
    blocks_per_unit: u64,
}

impl Validity {
    /// Bits for the units of a pool, or none if they take more than `most` bytes. None is known.
    pub(crate) fn new(geometry: &Geometry, most: u64) -> Validity {
        let (units, blocks_per_unit) =
            (u64::from(geometry.units()), u64::from(geometry.blocks_per_unit()));
        let words = (units * blocks_per_unit).div_ceil(64);
        let fits = words * 8 <= most;
        Validity {
            bits: vec![0; if fits { words as usize } else { 0 }],
            known: vec![false; if fits { units as usize } else { 0 }],
            blocks_per_unit,
        }
    }

    /// `unit` is empty, and its bits are known from now on.
    pub(crate) fn begin(&mut self, unit: UnitId) {
        let Some(known) = self.known.get_mut(unit.index()) else { return };
        *known = true;
        let first = u64::from(unit.0) * self.blocks_per_unit;
        clear(&mut self.bits, first, first + self.blocks_per_unit);
    }

    /// Whether the bits of `unit` are known.
    #[inline]
    pub(crate) fn is_known(&self, unit: UnitId) -> bool {
        self.known.get(unit.index()).copied().unwrap_or(false)
    }

    /// The block at `address` is valid.
    #[inline]
    pub(crate) fn set(&mut self, address: u64) {
        if let Some(word) = self.bits.get_mut((address / 64) as usize) {
            *word |= 1 << (address % 64);
        }
    }

    /// The block at `address` is not valid any more.
    #[inline]
    pub(crate) fn clear(&mut self, address: u64) {
        if let Some(word) = self.bits.get_mut((address / 64) as usize) {
            *word &= !(1 << (address % 64));
        }
    }

    /// Whether the block at `address` is valid, if the bits of its unit are known.
    #[inline]
    pub(crate) fn is_set(&self, address: u64) -> bool {
        let word = self.bits.get((address / 64) as usize);
        word.is_some_and(|word| word >> (address % 64) & 1 == 1)
    }

    /// How many bits of `unit` are set, if they are known.
    pub(crate) fn count(&self, unit: UnitId) -> Option<u32> {
        let first = u64::from(unit.0) * self.blocks_per_unit;
        let addresses = first..first + self.blocks_per_unit;
        self.is_known(unit)
            .then(|| addresses.filter(|address| self.is_set(*address)).count() as u32)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.bits.capacity() * size_of::<u64>() + self.known.capacity()) as u64
    }
}

/// Clears the bits `from` to `end`.
fn clear(bits: &mut [u64], from: u64, end: u64) {
    let (first, last) = ((from / 64) as usize, (end / 64) as usize);
    let (below, above) = ((1_u64 << (from % 64)) - 1, !((1_u64 << (end % 64)) - 1));
    if first == last {
        bits[first] &= below | above;
        return;
    }
    bits[first] &= below;
    bits[first + 1..last].fill(0);
    if let Some(word) = bits.get_mut(last) {
        *word &= above;
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::LogicalBlock;

    use super::*;

    fn geometry(blocks: u32) -> Geometry {
        let geometry = Geometry::new(LogicalBlock::B4096, blocks, 20, [UnitId(0), UnitId(1)]);
        geometry.expect("a geometry")
    }

    #[test]
    fn a_unit_that_begins_has_no_valid_block_and_its_neighbours_keep_theirs() {
        for blocks in [16, 63, 64, 100, 129] {
            let geometry = geometry(blocks);
            let mut validity = Validity::new(&geometry, 1 << 20);
            let all = u64::from(blocks) * 20;
            (0..20).for_each(|unit| validity.begin(UnitId(unit)));
            (0..all).for_each(|address| validity.set(address));
            for unit in [0, 7, 19] {
                validity.begin(UnitId(unit));
            }
            let counts: Vec<u32> =
                (0..20).map(|unit| validity.count(UnitId(unit)).unwrap()).collect();
            let expected = |unit: usize| if [0, 7, 19].contains(&unit) { 0 } else { blocks };
            assert_eq!(counts, (0..20).map(expected).collect::<Vec<_>>(), "{blocks} blocks");
        }
    }

    #[test]
    fn without_memory_nothing_is_known() {
        let geometry = geometry(64);
        let mut validity = Validity::new(&geometry, 20 * 8 - 1);
        validity.begin(UnitId(3));
        validity.set(200);
        assert!(!validity.is_known(UnitId(3)) && !validity.is_set(200));
        assert_eq!((validity.count(UnitId(3)), validity.memory_bytes()), (None, 0));
        validity = Validity::new(&geometry, 20 * 8);
        assert!(!validity.is_known(UnitId(3)), "it may hold something");
        validity.begin(UnitId(3));
        validity.set(200);
        assert!(validity.is_set(200) && !validity.is_set(201));
        validity.clear(200);
        assert_eq!(validity.count(UnitId(3)), Some(0));
    }
}
