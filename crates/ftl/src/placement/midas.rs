//! MiDAS: relocation-count groups whose sizes a model chooses.

mod model;

use std::ops::Range;

use thermocline_types::{Class, Lba, UnitId};

use self::model::Intervals;
use super::per_block::{LastWrite, PerBlock};
use super::{Classifier, Survivor, Topology, VictimRule, Write};
use crate::victim::CostBenefit;
use crate::{UnitState, Units};

/// Classes: the hot group, and seven others. Theirs has no limit; chosen, not published.
const CLASSES: u8 = 8;
/// The class of blocks that the filter holds for hot, and the first of the others.
const HOT: Class = Class(0);
const FIRST: u8 = 1;
/// Groups by number of relocations while no sizes are chosen.
const NAIVE: u8 = 4;
/// Highest count of the filter.
const MOST: u8 = 3;
/// The update intervals of every `SAMPLED`-th block are recorded.
const SAMPLED: u64 = 100;
/// Device writes in an epoch, after which sizes are chosen anew.
const EPOCH: u64 = 4;
/// Share of an epoch after which a group is held to its prediction, by how much it may miss it, and collected units
/// that make a figure (the last chosen, not published).
const TRIAL: f64 = 0.3;
const TOLERANCE: f64 = 0.1;
const TRIAL_UNITS: u64 = 16;
/// Victims without a host write between them that make sizes be given up.
const PATIENCE: u32 = 25;
/// Weight of a new unit's age in the mean age of hot units. Chosen, not published.
const RECENT: f64 = 1.0 / 16.0;

/// Groups in a row, a block going one further with each relocation, whose sizes are chosen so that a model of the whole
/// predicts the least write amplification (Oh et al., "MIDAS: Minimizing Write Amplification in Log-Structured Systems
/// through Adaptive Group Number and Size Configuration", FAST 2024).
///
/// A filter of 2 bits per block counts up (to 3) when a block is overwritten in the hot group, or in the first before
/// its unit is as old as hot units become, down when it is overwritten there later, and when it survives in either (in
/// the hot group by 2). Host writes of blocks at 3 go to the hot group, others to the first. At first, groups are by
/// number of relocations (MiDA) and all are cleaned by cost-benefit with square-root age. At the end of each epoch of
/// four device writes, a model chooses sizes; they are used if they promise less than was measured. From then on the
/// first group larger than its size is cleaned, in order of age; if there is none, the hot group and the last by
/// cost-benefit. A group whose units hold more valid blocks than predicted, by 0.1 after 0.3 of an epoch, is merged
/// with all behind it into groups by number of relocations again; so is everything if 25 victims give no room. The
/// policy's own victim rule cleans like this; another victim policy reduces MIDAS to MiDA with a hot group. Default: 8
/// classes. State: 2 bits per block, 4 bytes for every hundredth, and 4 bytes for each quarter of a unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Midas {
    /// Four blocks to a byte.
    filter: PerBlock<u8>,
    sampled: LastWrite,
    intervals: Intervals,
    /// When each unit was opened, and for which class.
    opened: Vec<(u64, Class)>,
    hot_age: f64,
    /// Sizes of the groups from the first on that have one, in units, and the valid share predicted for their victims.
    sizes: Vec<(u32, f64)>,
    /// Groups behind them.
    tail: u8,
    epoch: Epoch,
    /// The last time a victim was asked for, and how often at that time.
    asked: (u64, u32),
}

/// What was seen since the epoch began.
#[derive(Clone, Debug, Default, PartialEq)]
struct Epoch {
    begun: u64,
    relocated: u64,
    /// Units collected of each class, and blocks valid in them.
    collected: [(u64, u64); CLASSES as usize],
}

impl Default for Midas {
    fn default() -> Self {
        Midas {
            filter: PerBlock::default(),
            sampled: LastWrite::default(),
            intervals: Intervals::default(),
            opened: Vec::new(),
            hot_age: f64::INFINITY,
            sizes: Vec::new(),
            tail: NAIVE,
            epoch: Epoch::default(),
            asked: (0, 0),
        }
    }
}

impl Midas {
    fn filter(&self, lba: Lba) -> u8 {
        self.filter.get(Lba(lba.0 / 4)) >> (lba.0 % 4 * 2) & MOST
    }

    fn move_filter(&mut self, lba: Lba, by: i8) {
        let to = self.filter(lba).saturating_add_signed(by).min(MOST);
        let shift = lba.0 % 4 * 2;
        let byte = self.filter.get_mut(Lba(lba.0 / 4));
        *byte = *byte & !(MOST << shift) | to << shift;
    }

    /// Counts that `lba` is overwritten in `unit`, which holds blocks of `class`.
    fn overwritten(&mut self, lba: Lba, unit: UnitId, now: u64) {
        let Some(&(opened, class)) = self.opened.get(unit.index()) else { return };
        if class == HOT {
            self.move_filter(lba, 1);
        } else if class == Class(FIRST) {
            let young = now.saturating_sub(opened) as f64 <= self.hot_age;
            self.move_filter(lba, if young { 1 } else { -1 });
        }
    }

    /// The last class in use.
    fn last(&self) -> u8 {
        (self.sizes.len() as u8 + self.tail).min(CLASSES - 1)
    }

    /// Chooses sizes at the end of an epoch, and gives up what did not hold within one.
    fn reconsider(&mut self, units: &Units, now: u64) {
        let blocks = u64::from(units.most_valid());
        let epoch = EPOCH * u64::from(units.count()) * blocks;
        let written = now - self.epoch.begun;
        if written >= epoch {
            let measured = 1.0 + self.epoch.relocated as f64 / written as f64;
            self.choose_sizes(units, measured);
            self.intervals.clear();
            self.epoch = Epoch { begun: now, ..Epoch::default() };
        } else if written as f64 >= TRIAL * epoch as f64 {
            let misses = |index: usize| {
                let (count, valid) = self.epoch.collected[usize::from(FIRST) + index];
                let share = valid as f64 / (count * blocks).max(1) as f64;
                count >= TRIAL_UNITS && share > self.sizes[index].1 + TOLERANCE
            };
            if let Some(index) = (0..self.sizes.len()).find(|&index| misses(index)) {
                self.sizes.truncate(index);
                self.tail = NAIVE;
            }
        }
    }

    fn choose_sizes(&mut self, units: &Units, measured: f64) {
        let in_hot =
            |unit: &UnitId| units.state(*unit) != UnitState::Free && units.class(*unit) == HOT;
        let hot = units.ids().filter(in_hot).count() as u32;
        let live = units.ids().map(|unit| u64::from(units.valid_count(unit))).sum::<u64>();
        let device = model::Device {
            // Open and reserve units, and those of the hot group, are not for the groups.
            units: units.count().saturating_sub(hot + u32::from(CLASSES)),
            blocks_per_unit: units.most_valid(),
            live,
        };
        let chosen = model::choose(&self.intervals, device, usize::from(CLASSES - FIRST) - 1);
        if chosen.waf < measured && !chosen.sizes.is_empty() {
            self.sizes = chosen.sizes;
            self.tail = 1;
        }
    }

    /// The oldest unit of the first group that is larger than its size.
    fn beyond_its_size(
        &self,
        units: &Units,
        range: Range<u32>,
        allowed: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        let mut counts = vec![0_u32; self.sizes.len()];
        let mut oldest: Vec<Option<UnitId>> = vec![None; self.sizes.len()];
        for unit in range.map(UnitId) {
            let state = units.state(unit);
            let group = usize::from(units.class(unit).0).wrapping_sub(usize::from(FIRST));
            if group >= counts.len() || !matches!(state, UnitState::Open | UnitState::Closed) {
                continue;
            }
            counts[group] += 1;
            let older = |than: UnitId| units.closed_at(unit) < units.closed_at(than);
            if state == UnitState::Closed && oldest[group].is_none_or(older) && allowed(unit) {
                oldest[group] = Some(unit);
            }
        }
        let over = (0..counts.len()).find(|&group| counts[group] > self.sizes[group].0)?;
        oldest[over]
    }
}

impl Classifier for Midas {
    fn topology(&self) -> Topology {
        Topology::new(CLASSES, FIRST..CLASSES)
    }

    fn place(&mut self, write: Write) -> Class {
        if let Some(unit) = write.old {
            self.overwritten(write.lba, unit, write.now);
        }
        if write.lba.0.is_multiple_of(SAMPLED) {
            let interval = self.sampled.renew(Lba(write.lba.0 / SAMPLED), write.now);
            interval.into_iter().for_each(|interval| self.intervals.add(interval));
        }
        if self.filter(write.lba) == MOST { HOT } else { Class(FIRST) }
    }

    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        match survivor.from {
            HOT => self.move_filter(survivor.lba, -2),
            Class(FIRST) => self.move_filter(survivor.lba, -1),
            _ => {}
        }
        Class((survivor.from.0 + 1).min(self.last()))
    }

    fn opened(&mut self, units: &Units, unit: UnitId, now: u64) {
        if self.opened.len() <= unit.index() {
            self.opened.resize(units.count() as usize, (0, HOT));
        }
        self.opened[unit.index()] = (now, units.class(unit));
        self.intervals.measure_in(units.most_valid());
    }

    fn collected(&mut self, units: &Units, unit: UnitId, now: u64) {
        let (class, valid) = (units.class(unit), u64::from(units.valid_count(unit)));
        if let Some((count, sum)) = self.epoch.collected.get_mut(class.index()) {
            *count += 1;
            *sum += valid;
        }
        self.epoch.relocated += valid;
        if let Some(&(opened, HOT)) = self.opened.get(unit.index()) {
            let age = now.saturating_sub(opened) as f64;
            let known = self.hot_age.is_finite();
            self.hot_age = if known { self.hot_age + RECENT * (age - self.hot_age) } else { age };
        }
        self.reconsider(units, now);
    }

    fn memory_bytes(&self) -> usize {
        self.filter.memory_bytes()
            + self.sampled.memory_bytes()
            + self.intervals.memory_bytes()
            + self.opened.capacity() * size_of::<(u64, Class)>()
    }
}

impl VictimRule for Midas {
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
        self.asked = if self.asked.0 == now { (now, self.asked.1 + 1) } else { (now, 1) };
        if self.asked.1 > PATIENCE {
            self.sizes.clear();
            self.tail = NAIVE;
        }
        if let Some(unit) = self.beyond_its_size(units, range.clone(), &allowed) {
            return Some(unit);
        }
        let sized = FIRST..FIRST + self.sizes.len() as u8;
        let blocks = f64::from(units.most_valid());
        let score = |valid: u32, closed_at: u64| {
            let age = now.saturating_sub(closed_at) as f64;
            CostBenefit::SquareRootAge.score(f64::from(valid) / blocks, age)
        };
        let may = |unit: UnitId| allowed(unit) && !sized.contains(&units.class(unit).0);
        units.best_closed(range, may, score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy and units of four blocks: unit 0 open for the hot group, unit 1 for the first.
    fn begun() -> (Midas, Units) {
        let (mut policy, mut units) = (Midas::default(), Units::new(100, 4));
        for (unit, class) in [(UnitId(0), HOT), (UnitId(1), Class(FIRST))] {
            units.open(unit, class);
            policy.opened(&units, unit, 0);
        }
        (policy, units)
    }

    fn write(policy: &mut Midas, old: Option<u32>, now: u64) -> u8 {
        policy.place(Write { old: old.map(UnitId), ..Write::plain(Lba(6), now) }).0
    }

    #[test]
    fn three_early_overwrites_make_a_block_hot_and_survival_cools_it() {
        let (mut policy, units) = begun();
        let classes = [None, Some(1), Some(1), Some(1)].map(|old| write(&mut policy, old, 5));
        assert_eq!(classes, [1, 1, 1, 0]);
        assert_eq!(policy.filter(Lba(7)), 0, "the block beside it counts for itself");
        let survivor = |from| Survivor { lba: Lba(6), from: Class(from), utilisation: 0.5 };
        assert_eq!(policy.place_survivor(survivor(0), 6), Class(1));
        assert_eq!(policy.filter(Lba(6)), 1, "two less");
        assert_eq!(policy.place_survivor(survivor(1), 6), Class(2));
        assert_eq!(policy.place_survivor(survivor(2), 6), Class(3));
        assert_eq!(policy.filter(Lba(6)), 0, "only the first two groups count");
        assert_eq!(policy.place_survivor(survivor(4), 6), Class(4), "four groups at first");
        // Hot units become 10 old; what is overwritten later in the first group is not hot.
        policy.collected(&units, UnitId(0), 10);
        assert!((policy.hot_age - 10.0).abs() < 1e-9, "{}", policy.hot_age);
        write(&mut policy, Some(1), 10);
        assert_eq!(policy.filter(Lba(6)), 1);
        write(&mut policy, Some(1), 11);
        assert_eq!(policy.filter(Lba(6)), 0);
    }

    /// Units 2 to 9 closed in order at 20 to 90: even ones for the first group, odd ones for the second, half valid.
    fn closed() -> (Midas, Units) {
        let (policy, mut units) = begun();
        for unit in (2..10).map(UnitId) {
            units.open(unit, Class(FIRST + (unit.0 % 2) as u8));
            (0..2).for_each(|_| units.add_valid(unit));
            units.close(unit, 4, u64::from(unit.0) * 10);
        }
        (policy, units)
    }

    #[test]
    fn the_first_group_beyond_its_size_loses_its_oldest_unit() {
        let (mut policy, mut units) = closed();
        policy.sizes = vec![(5, 0.5)];
        policy.tail = 1;
        assert_eq!(
            policy.victim(&units, 0..100, 100, |_| true),
            Some(UnitId(3)),
            "the last by age and garbage"
        );
        policy.sizes = vec![(4, 0.5)];
        assert_eq!(
            policy.victim(&units, 0..100, 101, |_| true),
            Some(UnitId(2)),
            "five with the open one"
        );
        units.drop_valid(UnitId(9));
        units.drop_valid(UnitId(9));
        policy.sizes.clear();
        assert_eq!(
            policy.victim(&units, 0..100, 102, |_| true),
            Some(UnitId(9)),
            "nothing to copy"
        );
    }

    #[test]
    fn sizes_that_give_no_room_or_miss_their_prediction_are_given_up() {
        let (mut policy, units) = closed();
        policy.sizes = vec![(1, 0.5), (1, 0.3)];
        policy.tail = 1;
        (0..PATIENCE).for_each(|_| _ = policy.victim(&units, 0..100, 100, |_| true));
        assert_eq!((policy.sizes.len(), policy.tail), (2, 1));
        policy.victim(&units, 0..100, 100, |_| true);
        assert_eq!((policy.sizes.len(), policy.tail), (0, NAIVE));
        policy.sizes = vec![(1, 0.45), (1, 0.3)];
        policy.tail = 1;
        // 0.3 epochs of 4 times 400 blocks; both groups' victims are half valid, only the second should be less so.
        (0..TRIAL_UNITS)
            .for_each(|_| (2..4).for_each(|unit| policy.collected(&units, UnitId(unit), 479)));
        assert_eq!(policy.sizes.len(), 2);
        policy.collected(&units, UnitId(2), 480);
        assert_eq!((policy.sizes.len(), policy.tail, policy.last()), (1, NAIVE, 5));
    }
}
