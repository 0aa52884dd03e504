//! LSM-style garbage collection for zoned drives.

use thermocline_types::Class;

use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// LSM_ZGC: blocks descend through levels like the runs of a log-structured merge tree, and one level is split in hot
/// and cold (Choi et al., "A New LSM-style Garbage Collection Scheme for ZNS SSDs", HotStorage 2020).
///
/// Host writes go to C0. What survives in C0 goes to C1C, cold, if the segment it comes from is still used above the
/// threshold, and to C1H, hot, if not. What survives in either goes to C2 and stays there. State: none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LsmZgc {
    threshold: f32,
}

const C0: Class = Class(0);
const C1H: Class = Class(1);
const C1C: Class = Class(2);
const C2: Class = Class(3);

impl LsmZgc {
    /// The share of valid blocks above which the paper takes a segment for cold.
    pub const THRESHOLD: f32 = 0.8;

    /// A segment counts as cold if more than the share `threshold` of its blocks is valid.
    ///
    /// # Panics
    /// If the threshold is not in `0.0..=1.0`.
    #[must_use]
    pub fn new(threshold: f32) -> Self {
        assert!((0.0..=1.0).contains(&threshold), "a share of blocks");
        LsmZgc { threshold }
    }

    /// The share of valid blocks above which a segment counts as cold.
    #[must_use]
    pub fn threshold(&self) -> f32 {
        self.threshold
    }
}

impl Default for LsmZgc {
    fn default() -> Self {
        LsmZgc::new(Self::THRESHOLD)
    }
}

impl Classifier for LsmZgc {
    fn topology(&self) -> Topology {
        Topology::new(4, C1H.0..C2.0 + 1)
    }

    #[inline]
    fn place(&mut self, _write: Write) -> Class {
        C0
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        match survivor.from {
            C0 if survivor.utilisation > self.threshold => C1C,
            C0 => C1H,
            _ => C2,
        }
    }
}

impl VictimRule for LsmZgc {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    /// Where a block of a segment with `valid` of ten blocks valid goes.
    fn moved(mut policy: LsmZgc, from: Class, valid: u8) -> Class {
        let utilisation = f32::from(valid) / 10.0;
        policy.place_survivor(Survivor { lba: Lba(5), from, utilisation }, 99)
    }

    #[test]
    fn new_data_survives_into_cold_only_above_the_threshold() {
        let policy = LsmZgc::default();
        assert_eq!(policy.clone().place(Write::plain(Lba(5), 0)), C0);
        for (valid, to) in [(1, C1H), (7, C1H), (8, C1H), (9, C1C), (10, C1C)] {
            assert_eq!(moved(policy, C0, valid), to, "{valid} of 10 valid");
        }
        assert_eq!(moved(LsmZgc::new(0.5), C0, 5), C1H);
        assert_eq!(moved(LsmZgc::new(0.5), C0, 6), C1C);
        assert_eq!(moved(LsmZgc::new(1.0), C0, 10), C1H);
    }

    #[test]
    fn second_survivals_end_in_the_last_class_however_full_the_segment() {
        for from in [C1H, C1C, C2] {
            for valid in [1, 8, 9, 10] {
                assert_eq!(moved(LsmZgc::default(), from, valid), C2, "{from:?}, {valid} of 10");
            }
        }
    }

    #[test]
    fn every_class_that_survivors_go_to_is_named_as_one() {
        let policy = LsmZgc::default();
        let mut reached: Vec<u8> = [(C0, 9), (C0, 1), (C1H, 1), (C1C, 1), (C2, 1)]
            .into_iter()
            .map(|(from, valid)| moved(policy, from, valid).0)
            .collect();
        reached.sort_unstable();
        reached.dedup();
        assert_eq!(reached, policy.topology().relocation_classes(0).collect::<Vec<u8>>());
        assert_eq!(policy.topology().classes(), 4);
    }
}
