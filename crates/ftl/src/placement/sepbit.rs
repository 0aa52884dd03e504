//! SepBIT: by inferred block invalidation time.

use thermocline_types::{Class, UnitId};

use super::per_block::LastWrite;
use super::{Classifier, Survivor, Topology, VictimRule, Write};
use crate::Units;

/// Collected units of class 0 over which their mean lifespan is taken.
const WINDOW: u32 = 16;

/// Separates by inferred invalidation time (Wang et al., "Separating Data via Block Invalidation Time Inference for
/// Write Amplification Reduction in Log-Structured Storage", FAST 2022, algorithm 1).
///
/// A host write whose block lived less than `l` goes to class 0, else to class 1; a survivor from class 0 to class 2,
/// others by age below `4l`, below `16l` and above to classes 3, 4 and 5. `l` is the mean lifespan, from opening to
/// collection, of 16 collected units of class 0, at first infinite. Lifespans are looked up in a queue of recent writes
/// that grows by one and, while longer than `l`, shrinks by two with each write: a block whose last write left the
/// queue counts as long-lived. State: the last write of every block, 4 bytes, which also stands for the queue (theirs
/// has it on the media).
#[derive(Clone, Debug, PartialEq)]
pub struct SepBit {
    last: LastWrite,
    /// `l`, in host blocks.
    lifespan: f64,
    /// Length of the queue of recent writes.
    remembered: u64,
    collected: u32,
    sum: f64,
    /// When each unit was opened, in host blocks.
    opened: Vec<u64>,
}

impl Default for SepBit {
    fn default() -> Self {
        SepBit {
            last: LastWrite::default(),
            lifespan: f64::INFINITY,
            remembered: 0,
            collected: 0,
            sum: 0.0,
            opened: Vec::new(),
        }
    }
}

impl Classifier for SepBit {
    fn topology(&self) -> Topology {
        Topology::new(6, 2..6)
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        let lived = self.last.renew(write.lba, write.now);
        let short =
            lived.is_some_and(|lived| lived < self.remembered && (lived as f64) < self.lifespan);
        let shrinks = self.remembered as f64 > self.lifespan;
        self.remembered = if shrinks { self.remembered - 1 } else { self.remembered + 1 };
        Class(u8::from(!short))
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class {
        if survivor.from == Class(0) {
            return Class(2);
        }
        let age = self.last.age(survivor.lba, now).map_or(f64::INFINITY, |age| age as f64);
        match age / self.lifespan {
            ages if ages < 4.0 => Class(3),
            ages if ages < 16.0 => Class(4),
            _ => Class(5),
        }
    }

    fn opened(&mut self, units: &Units, unit: UnitId, now: u64) {
        if self.opened.len() <= unit.index() {
            self.opened.resize(units.count() as usize, 0);
        }
        self.opened[unit.index()] = now;
    }

    fn collected(&mut self, units: &Units, unit: UnitId, now: u64) {
        if units.class(unit) != Class(0) {
            return;
        }
        // What was opened before a restart is not known.
        let Some(&opened) = self.opened.get(unit.index()) else { return };
        self.sum += now.saturating_sub(opened) as f64;
        self.collected += 1;
        if self.collected == WINDOW {
            self.lifespan = self.sum / f64::from(WINDOW);
            (self.collected, self.sum) = (0, 0.0);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.last.memory_bytes() + self.opened.capacity() * size_of::<u64>()
    }
}

impl VictimRule for SepBit {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    /// A policy that has seen 16 units of class 0 live for `lifespan` host blocks.
    fn taught(lifespan: u64) -> SepBit {
        let mut policy = SepBit::default();
        let mut units = Units::new(16, 4);
        for unit in units.ids() {
            units.open(unit, Class(0));
            policy.opened(&units, unit, 100);
        }
        for unit in units.ids() {
            units.close(unit, 4, 104);
            policy.collected(&units, unit, 100 + lifespan);
        }
        policy
    }

    #[test]
    fn short_lives_go_to_class_0_and_first_writes_and_long_ones_to_class_1() {
        let mut policy = SepBit::default();
        let write = |policy: &mut SepBit, lba, now| policy.place(Write::plain(Lba(lba), now)).0;
        assert_eq!(write(&mut policy, 7, 0), 1, "never written before");
        (1..10).for_each(|now| assert_eq!(write(&mut policy, 100 + now, now), 1));
        assert_eq!(write(&mut policy, 7, 10), 1, "ten ago, and the queue holds ten");
        assert_eq!(write(&mut policy, 7, 11), 0, "one ago; l is infinite");
        let mut policy = taught(50);
        (0..200).for_each(|now| assert_eq!(write(&mut policy, now, now), 1));
        assert_eq!(write(&mut policy, 160, 200), 0, "lived 40");
        assert_eq!(write(&mut policy, 150, 201), 1, "lived 51");
        assert!(policy.remembered <= 51, "the queue is about l long, not {}", policy.remembered);
    }

    #[test]
    fn survivors_go_by_where_they_come_from_and_age() {
        let mut policy = taught(50);
        policy.place(Write::plain(Lba(1), 1000));
        let mut moved = |from: u8, age: u64| {
            let survivor = Survivor { lba: Lba(1), from: Class(from), utilisation: 0.5 };
            policy.place_survivor(survivor, 1000 + age).0
        };
        assert_eq!(moved(0, 10_000), 2);
        let ages = [199, 200, 799, 800].map(|age| moved(1, age));
        assert_eq!(ages, [3, 4, 4, 5]);
        assert_eq!(moved(5, 3), 3, "age alone counts after the first survival");
    }
}
