//! DAC: dynamic data clustering by levels.

use thermocline_types::Class;

use super::per_block::PerBlock;
use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// Levels that go up when the host writes a block and down when it is relocated (Chiang, Lee and Chang, "Using data
/// clustering to improve cleaning performance for flash memory", Software: Practice and Experience 1999, in the form
/// that SepBIT, FAST 2022, compares with: without the age criterion of promotion).
///
/// A block begins at level 0; its level is its class. Default: 6 classes. State: 1 byte per block.
#[derive(Clone, Debug, PartialEq)]
pub struct Dac {
    classes: u8,
    /// One more than the level, 0 if never written.
    level: PerBlock<u8>,
}

impl Dac {
    /// Levels `0..classes`.
    ///
    /// # Panics
    /// If `classes` is 0 or 255.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!((1..255).contains(&classes), "1 to 254 classes");
        Dac { classes, level: PerBlock::default() }
    }
}

impl Default for Dac {
    fn default() -> Self {
        Dac::new(6)
    }
}

impl Classifier for Dac {
    fn topology(&self) -> Topology {
        Topology::new(self.classes, 0..self.classes)
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        let level = self.level.get_mut(write.lba);
        *level = (*level + 1).min(self.classes);
        Class(*level - 1)
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        let level = self.level.get_mut(survivor.lba);
        *level = level.saturating_sub(1).max(1);
        Class(*level - 1)
    }

    fn memory_bytes(&self) -> usize {
        self.level.memory_bytes()
    }
}

impl VictimRule for Dac {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    #[test]
    fn writes_raise_and_relocations_lower_the_level_of_a_block() {
        let mut dac = Dac::new(4);
        let write = |dac: &mut Dac| dac.place(Write::plain(Lba(3), 0)).0;
        let raised: Vec<u8> = (0..6).map(|_| write(&mut dac)).collect();
        assert_eq!(raised, [0, 1, 2, 3, 3, 3]);
        let survivor = Survivor { lba: Lba(3), from: Class(3), utilisation: 0.5 };
        let lowered: Vec<u8> = (0..5).map(|_| dac.place_survivor(survivor, 0).0).collect();
        assert_eq!(lowered, [2, 1, 0, 0, 0]);
        assert_eq!(write(&mut dac), 1);
        assert_eq!(dac.place(Write::plain(Lba(4), 0)), Class(0), "another block has its own level");
    }
}
