//! The forward map (L2P): where each logical block lies.

use thermocline_types::{Lba, Pba};

use crate::Packed;

/// Logical to physical map of `blocks` blocks; three to five bytes each.
#[derive(Clone, Debug)]
pub struct Map {
    l2p: Packed,
    mapped: u64,
}

impl Map {
    /// A map of `blocks` unmapped blocks onto physical addresses `0..physical`.
    #[must_use]
    pub fn new(blocks: u64, physical: u64) -> Self {
        Map { l2p: Packed::new(blocks, physical), mapped: 0 }
    }

    /// Where `lba` lies, if it is mapped.
    #[inline]
    #[must_use]
    pub fn get(&self, lba: Lba) -> Option<Pba> {
        self.l2p.get(lba.index()).map(Pba)
    }

    /// Points `lba` at `pba` and returns where it was before.
    #[inline]
    pub fn replace(&mut self, lba: Lba, pba: Pba) -> Option<Pba> {
        let old = self.l2p.replace(lba.index(), pba.0).map(Pba);
        self.mapped += u64::from(old.is_none());
        old
    }

    /// Points the mapped `lba` at `pba`; for copies made by the translation layer itself.
    #[inline]
    pub fn relocate(&mut self, lba: Lba, pba: Pba) {
        self.l2p.set(lba.index(), pba.0);
    }

    /// Unmaps `lba` and returns where it was.
    #[inline]
    pub fn take(&mut self, lba: Lba) -> Option<Pba> {
        let old = self.l2p.take(lba.index()).map(Pba);
        self.mapped -= u64::from(old.is_some());
        old
    }

    /// How many blocks are mapped.
    #[must_use]
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.l2p.memory_bytes()
    }
}
