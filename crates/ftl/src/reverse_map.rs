//! What the blocks of all units hold: the reverse map (P2L) and which blocks are valid.

use thermocline_types::{Lba, Pba, UnitId};

use crate::{Packed, Shape};

/// Reverse map and valid bits of a device that keeps both in memory: three to five bytes and one bit per block.
///
/// Used beside [`Units`](crate::Units), which counts the valid blocks of each unit.
#[derive(Clone, Debug)]
pub struct ReverseMap {
    shape: Shape,
    p2l: Packed,
    valid: Vec<u64>,
}

impl ReverseMap {
    /// All units erased.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        ReverseMap {
            shape,
            p2l: Packed::new(shape.physical(), shape.exported()),
            valid: vec![0; shape.pba_limit().div_ceil(64) as usize],
        }
    }

    /// How the device is cut.
    #[inline]
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The logical block last written to `pba`.
    #[must_use]
    pub fn lba_at(&self, pba: Pba) -> Option<Lba> {
        self.p2l.get(self.shape.flat_index(pba)).map(Lba)
    }

    /// Whether `pba` holds valid data.
    #[must_use]
    pub fn is_valid(&self, pba: Pba) -> bool {
        self.valid[pba.index() >> 6] >> (pba.0 & 63) & 1 == 1
    }

    /// Records that `lba` was written to `pba` and is valid there.
    #[inline]
    pub fn program(&mut self, pba: Pba, lba: Lba) {
        self.p2l.set(self.shape.flat_index(pba), lba.0);
        self.valid[pba.index() >> 6] |= 1 << (pba.0 & 63);
    }

    /// Records that the block at `pba` is no longer valid.
    #[inline]
    pub fn invalidate(&mut self, pba: Pba) {
        debug_assert!(self.is_valid(pba), "a block dies once");
        self.valid[pba.index() >> 6] &= !(1 << (pba.0 & 63));
    }

    /// Records that no block of `unit` is valid any more.
    pub fn erase(&mut self, unit: UnitId) {
        let start = self.shape.pba(unit, 0).index();
        let end = start + self.shape.blocks_per_unit() as usize;
        let mut bit = start;
        while bit < end {
            let span = (64 - (bit & 63)).min(end - bit);
            let mask = if span == 64 { u64::MAX } else { ((1 << span) - 1) << (bit & 63) };
            self.valid[bit >> 6] &= !mask;
            bit += span;
        }
    }

    /// Appends the valid blocks of `unit` with their offsets to `out`, in order of offset.
    pub fn valid_blocks(&self, unit: UnitId, out: &mut Vec<(u32, Lba)>) {
        let blocks = self.shape.blocks_per_unit();
        let base = self.shape.pba(unit, 0).index();
        let mut offset = 0;
        while offset < blocks {
            let bit = base + offset as usize;
            let span = (64 - (bit & 63) as u32).min(blocks - offset);
            let mut word = self.valid[bit >> 6] >> (bit & 63);
            if span < 64 {
                word &= (1 << span) - 1;
            }
            while word != 0 {
                let at = offset + word.trailing_zeros();
                let lba = self.p2l.get(unit.index() * blocks as usize + at as usize);
                out.push((at, Lba(lba.expect("a valid block has an address"))));
                word &= word - 1;
            }
            offset += span;
        }
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.p2l.memory_bytes() + self.valid.capacity() * size_of::<u64>()
    }
}
