//! FADaC: counters against a fading average.

use thermocline_types::Class;

use super::per_block::PerBlock;
use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// Set in the counter of a block that was written; the rest counts, up to 2^15 − 1.
const KNOWN: u16 = 1 << 15;
/// Ratio between the bounds of two classes.
const RATIO: f64 = 10.0;

/// A counter per block, up with each host write and down with each relocation, against a fading average of writes per
/// block (Kremer and Brinkmann, "FADaC: A Self-adapting Data Classifier for Flash Memory", SYSTOR 2019).
///
/// With `n` blocks in use and requests of `r` blocks, the average `f` gains `(r − f)/n` with each request. The class is
/// how many of `f, 10f, 100f, …` the counter exceeds, at most the last. Default: 6 classes; beyond 7 no class is
/// reached, as counters end at 32767. State: 2 bytes per block.
#[derive(Clone, Debug, PartialEq)]
pub struct Fadac {
    classes: u8,
    count: PerBlock<u16>,
    /// Blocks ever written.
    in_use: u64,
    average: f64,
}

impl Fadac {
    /// So many classes.
    ///
    /// # Panics
    /// If `classes` is 0.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 0, "at least one class");
        Fadac { classes, count: PerBlock::default(), in_use: 0, average: 0.0 }
    }

    #[inline]
    fn class(&self, count: u16) -> Class {
        let count = f64::from(count & !KNOWN);
        let (mut class, mut bound) = (0, self.average);
        while class + 1 < self.classes && count > bound {
            class += 1;
            bound *= RATIO;
        }
        Class(class)
    }
}

impl Default for Fadac {
    fn default() -> Self {
        Fadac::new(6)
    }
}

impl Classifier for Fadac {
    fn topology(&self) -> Topology {
        Topology::new(self.classes, 0..self.classes)
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        if write.part.offset == 0 && self.in_use > 0 {
            self.average += (f64::from(write.part.length) - self.average) / self.in_use as f64;
        }
        let count = self.count.get_mut(write.lba);
        self.in_use += u64::from(*count == 0);
        *count = count.saturating_add(1) | KNOWN;
        let count = *count;
        self.class(count)
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        let count = self.count.get_mut(survivor.lba);
        *count = (*count & !KNOWN).saturating_sub(1) | KNOWN;
        let count = *count;
        self.class(count)
    }

    fn memory_bytes(&self) -> usize {
        self.count.memory_bytes()
    }
}

impl VictimRule for Fadac {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    #[test]
    fn classes_are_decades_above_the_fading_average() {
        let mut policy = Fadac::new(4);
        (0..10).for_each(|lba| _ = policy.place(Write::plain(Lba(lba), lba)));
        // The average by hand: the first write finds no block in use, the second one, and so on.
        let by_hand = (1..10).fold(0.0, |f, n| f + (1.0 - f) / f64::from(n));
        assert!((policy.average - by_hand).abs() < 1e-12 && policy.in_use == 10);
        policy.average = 0.5;
        let classes = [1, 5, 6, 50, 51, 4000].map(|count| policy.class(count | KNOWN).0);
        assert_eq!(classes, [1, 1, 2, 2, 3, 3]);
        assert_eq!(policy.class(KNOWN), Class(0));
    }

    #[test]
    fn writes_count_up_and_relocations_down_to_zero() {
        let mut policy = Fadac::default();
        (0..3).for_each(|now| _ = policy.place(Write::plain(Lba(1), now)));
        assert_eq!(policy.count.get(Lba(1)), KNOWN + 3);
        let survivor = Survivor { lba: Lba(1), from: Class(0), utilisation: 0.5 };
        (0..5).for_each(|now| _ = policy.place_survivor(survivor, now));
        assert_eq!(policy.count.get(Lba(1)), KNOWN, "and known still");
        (0..70_000).for_each(|now| _ = policy.place(Write::plain(Lba(1), now)));
        assert_eq!(policy.count.get(Lba(1)), u16::MAX);
        assert_eq!(policy.in_use, 1);
    }
}
