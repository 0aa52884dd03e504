//! SFS: hotness of blocks against clusters of units' hotness.

use std::ops::Range;

use thermocline_types::{Class, Lba, UnitId};

use super::per_block::{LastWrite, PerBlock};
use super::{Classifier, Survivor, Topology, VictimRule, Write};
use crate::{UnitState, Units};

/// Rounds of clustering at each collection.
const ROUNDS: usize = 3;
/// Closed units that are clustered at most; of more, evenly spaced ones are taken. Chosen, not published.
const SAMPLE: usize = 4096;

/// Hotness, writes per block and time since the last, in classes whose centres follow the hotness of units (Min et al.,
/// "SFS: Random Write Considered Harmful in Solid State Drives", FAST 2012).
///
/// A block written `w` times, last `a` host blocks ago, has hotness `w / a`, and goes to the class with the nearest
/// centre; first writes are the hottest. The centres come from three rounds of k-means, at each collection, over the
/// hotness of closed units, `Σw / Σa` of their valid blocks. Own victim rule: the greatest `(1 − u) / (u · hotness)`.
/// Default: 6 classes. State: 8 bytes per block.
#[derive(Clone, Debug, PartialEq)]
pub struct Sfs {
    writes: PerBlock<u32>,
    last: LastWrite,
    units: Vec<Sums>,
    /// Hottest first.
    centres: Vec<f64>,
    /// Hotness of the units looked at, kept for its memory.
    scratch: Vec<f64>,
}

/// Sums over the valid blocks of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    blocks: f64,
    writes: f64,
    /// Of the times of last writes.
    times: f64,
}

impl Sums {
    fn add(&mut self, sign: f64, writes: u32, time: f64) {
        self.blocks += sign;
        self.writes += sign * f64::from(writes);
        self.times += sign * time;
    }

    fn hotness(&self, now: u64) -> f64 {
        self.writes / (self.blocks * now as f64 - self.times).max(1.0)
    }
}

impl Sfs {
    /// So many classes.
    ///
    /// # Panics
    /// If `classes` is 0.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 0, "at least one class");
        Sfs {
            writes: PerBlock::default(),
            last: LastWrite::default(),
            units: Vec::new(),
            centres: vec![0.0; usize::from(classes)],
            scratch: Vec::new(),
        }
    }

    #[inline]
    fn class(&self, hotness: f64) -> usize {
        let between = self.centres.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
        between.map(|bound| usize::from(hotness < bound)).sum()
    }

    fn unit(&mut self, unit: UnitId) -> &mut Sums {
        if self.units.len() <= unit.index() {
            self.units.resize(unit.index() + 1, Sums::default());
        }
        &mut self.units[unit.index()]
    }

    /// Moves the centres to where closed units are.
    fn cluster(&mut self, units: &Units, now: u64) {
        let step = units.count() as usize / SAMPLE + 1;
        let mut hotness = std::mem::take(&mut self.scratch);
        hotness.clear();
        let closed =
            units.ids().step_by(step).filter(|&unit| units.state(unit) == UnitState::Closed);
        let known = closed.filter_map(|unit| self.units.get(unit.index()));
        hotness.extend(known.filter(|sums| sums.blocks >= 1.0).map(|sums| sums.hotness(now)));
        for _ in 0..ROUNDS {
            let mut groups = vec![(0.0, 0.0); self.centres.len()];
            for &value in &hotness {
                let (sum, count) = &mut groups[self.class(value)];
                *sum += value;
                *count += 1.0;
            }
            for (centre, (sum, count)) in self.centres.iter_mut().zip(groups) {
                *centre = if count > 0.0 { sum / count } else { 0.0 };
            }
            self.centres.sort_by(|a, b| b.total_cmp(a));
        }
        self.scratch = hotness;
    }
}

impl Default for Sfs {
    fn default() -> Self {
        Sfs::new(6)
    }
}

impl Classifier for Sfs {
    fn topology(&self) -> Topology {
        let classes = self.centres.len() as u8;
        Topology::new(classes, 0..classes)
    }

    fn place(&mut self, write: Write) -> Class {
        let writes = self.writes.get_mut(write.lba);
        let before = *writes;
        *writes = before.saturating_add(1);
        let Some(age) = self.last.renew(write.lba, write.now) else { return Class(0) };
        if let Some(old) = write.old {
            self.unit(old).add(-1.0, before, (write.now - age.min(write.now)) as f64);
        }
        Class(self.class(f64::from(before) / age.max(1) as f64) as u8)
    }

    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class {
        let age = self.last.age(survivor.lba, now).unwrap_or(now).max(1);
        Class(self.class(f64::from(self.writes.get(survivor.lba)) / age as f64) as u8)
    }

    fn stored(&mut self, lba: Lba, unit: UnitId, now: u64) {
        let age = self.last.age(lba, now).unwrap_or(now).min(now);
        let writes = self.writes.get(lba);
        self.unit(unit).add(1.0, writes, (now - age) as f64);
    }

    fn collected(&mut self, units: &Units, unit: UnitId, now: u64) {
        self.cluster(units, now);
        *self.unit(unit) = Sums::default();
    }

    fn memory_bytes(&self) -> usize {
        self.writes.memory_bytes()
            + self.last.memory_bytes()
            + self.units.capacity() * size_of::<Sums>()
            + self.scratch.capacity() * size_of::<f64>()
    }
}

impl VictimRule for Sfs {
    fn has_rule(&self) -> bool {
        true
    }

    fn victim(
        &mut self,
        units: &Units,
        range: Range<u32>,
        now: u64,
        allowed: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        let blocks = f64::from(units.most_valid());
        let score = |unit: UnitId| {
            let utilisation = f64::from(units.valid_count(unit)) / blocks;
            let hotness = self.units.get(unit.index()).map_or(0.0, |sums| sums.hotness(now));
            (1.0 - utilisation) / (utilisation * hotness.max(f64::MIN_POSITIVE))
        };
        let closed = range.map(UnitId).filter(|&unit| units.state(unit) == UnitState::Closed);
        // A full unit of blocks never written again would win with 0 against 0.
        let gains = |unit: UnitId| units.valid_count(unit) < units.most_valid();
        let some = closed.filter(|&unit| gains(unit) && allowed(unit));
        some.map(|unit| (score(unit), unit)).max_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_go_to_the_class_whose_centre_is_nearest_to_their_hotness() {
        let mut policy = Sfs::new(3);
        policy.centres = vec![1.0, 0.1, 0.01];
        assert_eq!(policy.place(Write::plain(Lba(1), 0)), Class(0), "first writes are hottest");
        assert_eq!(policy.place(Write::plain(Lba(1), 5)), Class(1), "1 write in 5");
        assert_eq!(policy.place(Write::plain(Lba(1), 7)), Class(0), "2 writes, 2 ago");
        let survivor = Survivor { lba: Lba(1), from: Class(0), utilisation: 0.5 };
        assert_eq!(policy.place_survivor(survivor, 7 + 100), Class(2), "3 writes, 100 ago");
        assert_eq!(policy.place_survivor(survivor, 7 + 50), Class(1), "3 writes, 50 ago");
    }

    /// Two closed units of two blocks: one of blocks written ten times, one of blocks written once, 20 and 19 ago.
    fn two_units() -> (Sfs, Units) {
        let mut policy = Sfs::new(2);
        let mut units = Units::new(3, 2);
        let mut now = 0;
        for (unit, writes) in [(UnitId(0), 10), (UnitId(1), 1)] {
            units.open(unit, Class(0));
            for lba in [Lba(2 * u64::from(unit.0)), Lba(2 * u64::from(unit.0) + 1)] {
                (0..writes).for_each(|_| _ = policy.place(Write::plain(lba, now)));
                policy.stored(lba, unit, now);
                units.add_valid(unit);
                now += 1;
            }
            units.close(unit, 2, now);
        }
        (policy, units)
    }

    #[test]
    fn centres_follow_the_hotness_of_units_which_follows_their_valid_blocks() {
        let (mut policy, mut units) = two_units();
        assert_eq!(policy.units[0], Sums { blocks: 2.0, writes: 20.0, times: 1.0 });
        policy.cluster(&units, 22);
        // 20 writes over 22 + 21 host blocks, 2 writes over 20 + 19.
        assert_eq!(policy.centres, [20.0 / 43.0, 2.0 / 39.0]);
        let overwrite = Write { old: Some(UnitId(0)), ..Write::plain(Lba(0), 22) };
        policy.place(overwrite);
        units.drop_valid(UnitId(0));
        assert_eq!(policy.units[0], Sums { blocks: 1.0, writes: 10.0, times: 1.0 });
        policy.collected(&units, UnitId(0), 23);
        assert_eq!(policy.units[0], Sums::default());
    }

    #[test]
    fn its_victim_is_the_coldest_of_equally_full_units() {
        let (mut policy, mut units) = two_units();
        (0..2).for_each(|unit| units.drop_valid(UnitId(unit)));
        assert_eq!(policy.victim(&units, 0..3, 22, |_| true), Some(UnitId(1)));
        units.drop_valid(UnitId(0));
        assert_eq!(policy.victim(&units, 0..3, 22, |_| true), Some(UnitId(0)), "nothing to copy");
    }
}
