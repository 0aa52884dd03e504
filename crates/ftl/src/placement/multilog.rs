//! MultiLog: logs by update frequency.

use std::ops::Range;

use thermocline_types::{Class, UnitId};

use super::per_block::{LastWrite, PerBlock};
use super::{Classifier, Survivor, Topology, VictimRule, Write};
use crate::{UnitState, Units};

/// Logs in a row, each of blocks updated less often than those of the one before (Stoica and Ailamaki, "Improving Flash
/// Write Performance by Using Update Frequency", VLDB 2013, in the form that SepBIT, FAST 2022, compares with).
///
/// Blocks begin in the first log. A relocation moves a block to the next log; a log behind the last in use is begun
/// only when that one holds a unit of valid blocks. A host write after `d` host blocks moves a block of log `i` one
/// log up with probability `(e − d) / e` if that is above 0, where `e = n_i · p_i / 2` is half of the log's `n_i`
/// valid blocks times the valid share `p_i` of what was collected from it. Own victim rule: the oldest unit of the log
/// where taking space away costs least, by the derivative of the FIFO closed form (as in the paper, with the exact
/// function in place of its approximation). Default: 6 classes. State: 5 bytes per block.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiLog {
    /// One more than the log of each block, 0 if it was never written.
    level: PerBlock<u8>,
    last: LastWrite,
    logs: Vec<Log>,
    /// The last log in use.
    deepest: u8,
    blocks_per_unit: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Log {
    valid: u64,
    /// Blocks of units collected from it, and how many of them were valid.
    collected: u64,
    collected_valid: u64,
    /// Host writes of its blocks.
    updates: f64,
}

impl Log {
    /// The expected distance between updates of a block of the log: half of `valid`, scaled by the valid share of
    /// collected units.
    fn expected_distance(&self) -> f64 {
        self.valid as f64 * (self.collected_valid as f64 / self.collected as f64) / 2.0
    }
}

impl MultiLog {
    /// A policy with at most `classes` logs.
    ///
    /// # Panics
    /// If `classes` is 0 or 255.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!((1..255).contains(&classes), "1 to 254 logs");
        MultiLog {
            level: PerBlock::default(),
            last: LastWrite::default(),
            logs: vec![Log::default(); usize::from(classes)],
            deepest: 0,
            blocks_per_unit: 0,
        }
    }
}

impl Default for MultiLog {
    fn default() -> Self {
        MultiLog::new(6)
    }
}

impl Classifier for MultiLog {
    fn topology(&self) -> Topology {
        let classes = self.logs.len() as u8;
        Topology::new(classes, 0..classes)
    }

    fn place(&mut self, write: Write) -> Class {
        let distance = self.last.renew(write.lba, write.now);
        let level = self.level.get_mut(write.lba);
        let Some(distance) = distance.filter(|_| *level > 0) else {
            *level = 1;
            self.logs[0].valid += 1;
            return Class(0);
        };
        let from = usize::from(*level - 1);
        self.logs[from].updates += 1.0;
        let expected = self.logs[from].expected_distance();
        let probability = (expected - distance as f64) / expected;
        if from > 0 && probability > 0.0 && draw(write.lba.0, write.now) < probability {
            *level -= 1;
            self.logs[from].valid = self.logs[from].valid.saturating_sub(1);
            self.logs[from - 1].valid += 1;
        }
        Class(*level - 1)
    }

    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        let level = self.level.get_mut(survivor.lba);
        let from = level.saturating_sub(1);
        let holds_a_unit = self.logs[usize::from(from)].valid >= self.blocks_per_unit;
        let begins = from == self.deepest && from + 1 < self.logs.len() as u8 && holds_a_unit;
        self.deepest += u8::from(begins);
        let to = (from + 1).min(self.deepest);
        *level = to + 1;
        let (from, to) = (usize::from(from), usize::from(to));
        self.logs[from].valid = self.logs[from].valid.saturating_sub(1);
        self.logs[to].valid += 1;
        Class(to as u8)
    }

    fn collected(&mut self, units: &Units, unit: UnitId, _now: u64) {
        self.blocks_per_unit = u64::from(units.most_valid());
        let log = &mut self.logs[units.class(unit).index()];
        log.collected += self.blocks_per_unit;
        log.collected_valid += u64::from(units.valid_count(unit));
    }

    fn memory_bytes(&self) -> usize {
        self.level.memory_bytes() + self.last.memory_bytes()
    }
}

impl VictimRule for MultiLog {
    fn has_rule(&self) -> bool {
        true
    }

    fn victim(
        &mut self,
        units: &Units,
        range: Range<u32>,
        _now: u64,
        allowed: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        let mut oldest: Vec<Option<UnitId>> = vec![None; self.logs.len()];
        let mut space = vec![(0_u64, 0_u64); self.logs.len()];
        for unit in range.map(UnitId).filter(|&unit| units.state(unit) == UnitState::Closed) {
            let class = units.class(unit).index();
            if class >= self.logs.len() {
                continue; // Something of the layer's own, such as its maps.
            }
            space[class].0 += u64::from(units.most_valid());
            space[class].1 += u64::from(units.valid_count(unit));
            let older = |than: UnitId| units.closed_at(unit) < units.closed_at(than);
            if oldest[class].is_none_or(older) && allowed(unit) {
                oldest[class] = Some(unit);
            }
        }
        let cost = |index: usize| {
            let (space, valid) = space[index];
            marginal_cost(space as f64 / valid.max(1) as f64) * self.logs[index].updates
                / valid.max(1) as f64
        };
        let some = (0..self.logs.len()).filter(|&index| space[index].0 > space[index].1);
        let cheapest = some.min_by(|&a, &b| cost(a).total_cmp(&cost(b)))?;
        oldest[cheapest]
    }
}

/// `−dA/dα` of a FIFO log with `α` blocks of space per valid block, where `A` is its write amplification: with `X` the
/// valid share of its oldest unit, `X = exp(−α(1 − X))`, it is `X / ((1 − X)(1 − αX))`.
fn marginal_cost(alpha: f64) -> f64 {
    // The distance of the fixed point from 1 shrinks with each step, the slower the nearer to 1 α is.
    let mut valid = 0.0_f64;
    for _ in 0..60 {
        valid = (-alpha * (1.0 - valid)).exp();
    }
    valid / ((1.0 - valid) * (1.0 - alpha * valid)).max(f64::MIN_POSITIVE)
}

/// A number in [0, 1) that looks random but follows from the write (the mixer of SplitMix64, Steele et al. 2014).
fn draw(lba: u64, now: u64) -> f64 {
    let mut z = (lba ^ now.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    fn survivor(lba: u64) -> Survivor {
        Survivor { lba: Lba(lba), from: Class(0), utilisation: 0.5 }
    }

    /// Collects unit 0 of four blocks and class `class` with `valid` of them valid.
    fn collect(policy: &mut MultiLog, class: u8, valid: u32) {
        let mut units = Units::new(1, 4);
        units.open(UnitId(0), Class(class));
        (0..valid).for_each(|_| units.add_valid(UnitId(0)));
        units.close(UnitId(0), 4, 0);
        policy.collected(&units, UnitId(0), 0);
    }

    #[test]
    fn a_deeper_log_is_begun_only_when_the_last_holds_a_unit() {
        let mut policy = MultiLog::new(3);
        (0..3).for_each(|lba| assert_eq!(policy.place(Write::plain(Lba(lba), lba)), Class(0)));
        collect(&mut policy, 0, 3);
        assert_eq!(
            policy.place_survivor(survivor(0), 9),
            Class(0),
            "three blocks are no unit of 4"
        );
        policy.place(Write::plain(Lba(3), 3));
        assert_eq!(policy.place_survivor(survivor(0), 9), Class(1));
        assert_eq!(policy.place_survivor(survivor(1), 9), Class(1));
        assert_eq!(policy.place_survivor(survivor(1), 9), Class(1), "the second log holds two");
        let valid: Vec<u64> = policy.logs.iter().map(|log| log.valid).collect();
        assert_eq!(valid, [2, 2, 0]);
    }

    #[test]
    fn updates_sooner_than_expected_move_a_block_up_and_later_ones_do_not() {
        let mut policy = MultiLog::new(2);
        (0..400).for_each(|lba| _ = policy.place(Write::plain(Lba(lba), lba)));
        collect(&mut policy, 0, 2);
        (0..400).for_each(|lba| assert_eq!(policy.place_survivor(survivor(lba), 400), Class(1)));
        collect(&mut policy, 1, 2);
        // Expected: 400 valid blocks, half of what was collected valid, halved: 100.
        assert!((policy.logs[1].expected_distance() - 100.0).abs() < 1e-9);
        let late = (0..100).map(|lba| policy.place(Write::plain(Lba(lba), lba + 400)));
        assert!(late.into_iter().all(|class| class == Class(1)));
        // At a quarter of what is expected, three of four move; the log shrinks, and with it what is expected.
        let up =
            (0..100).filter(|lba| policy.place(Write::plain(Lba(*lba), lba + 425)) == Class(0));
        let up = up.count();
        assert!((60..=85).contains(&up), "{up} of 100");
    }

    #[test]
    fn its_victim_is_the_oldest_unit_of_the_log_that_misses_space_least() {
        // At 17.65 % overprovisioning: X = 0.7158 from the closed form A = 3.5187.
        let cost = marginal_cost(1.1765);
        assert!((cost - 0.7158 / (0.2842 * (1.0 - 1.1765 * 0.7158))).abs() < 0.05, "{cost}");
        let mut policy = MultiLog::new(2);
        (policy.logs[0].updates, policy.logs[1].updates) = (90.0, 10.0);
        let mut units = Units::new(4, 4);
        for unit in units.ids() {
            units.open(unit, Class((unit.0 % 2) as u8));
            (0..3).for_each(|_| units.add_valid(unit));
            units.close(unit, 4, 10 - u64::from(unit.0));
        }
        assert_eq!(policy.victim(&units, 0..4, 9, |_| true), Some(UnitId(3)), "few updates: cheap");
        policy.logs[1].updates = 1000.0;
        assert_eq!(policy.victim(&units, 0..4, 9, |_| true), Some(UnitId(2)));
    }
}
