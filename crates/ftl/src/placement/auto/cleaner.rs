//! Which unit is cleaned next.

use std::ops::Range;

use thermocline_types::UnitId;

use super::deaths::DeathRates;
use super::rule::Rule;
use crate::{UnitState, Units};

/// Units on the shortlist when it is drawn up, and at which it is drawn up anew. Between, a unit that becomes a
/// better victim than those on it has to wait, which is not only cheaper: blocks die in bursts, and a unit that has
/// just become the best is in the middle of one. Lists of 8 to 64 gave the same within 0.02 on every workload tried,
/// and 0.03 less on traces than a look at all units at every turn; from 128 on it is lost again.
const LISTED: usize = 16;
const LEFT: usize = 8;

/// Chooses victims: the emptiest if the rule says so; else looks at all units now and then, and otherwise at the best
/// of those.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cleaner {
    rates: DeathRates,
    listed: Vec<UnitId>,
    /// The rule that the list is of.
    rule: Rule,
    scored: Vec<(f32, UnitId)>,
}

impl Cleaner {
    /// For a device that exports `capacity` blocks. Ages begin with less than `step` host writes.
    pub(super) fn new(units: u32, capacity: u64, step: u32) -> Cleaner {
        let rates = DeathRates::new(units, capacity, step);
        Cleaner { rates, listed: Vec::new(), rule: Rule::Recency, scored: Vec::new() }
    }

    /// Classes mean something else from now on.
    pub(super) fn forget(&mut self) {
        self.rates.forget();
        self.listed.clear();
    }

    /// The unit of `range` that `rule` cleans next; `None` if no allowed unit has room to gain.
    pub(super) fn choose(
        &mut self,
        rule: Rule,
        units: &Units,
        range: Range<u32>,
        now: u64,
        allowed: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        if rule == Rule::Recency {
            self.rates.census(units, range.clone(), now);
        }
        let may = |unit: &UnitId| {
            units.state(*unit) == UnitState::Closed
                && units.valid_count(*unit) < units.most_valid()
                && range.contains(&unit.0)
                && allowed(*unit)
        };
        // Empty units cost nothing, listed or not.
        let empty =
            units.emptiest_closed(range.clone()).filter(|&unit| units.valid_count(unit) == 0);
        if let Some(empty) = empty.filter(may) {
            return Some(empty);
        }
        if rule.is_greedy() {
            let emptiest = |valid: u32, _| -f64::from(valid);
            return units.best_closed(range.clone(), |unit| may(&unit), emptiest);
        }
        self.listed.retain(may);
        if self.listed.len() <= LEFT || self.rule != rule {
            self.rule = rule;
            self.draw_up(units, range.clone().map(UnitId).filter(may), now);
        }
        let score = |unit: &UnitId| score(rule, &self.rates, units, *unit, now);
        let scored = self.listed.iter().map(|unit| (score(unit), *unit));
        // Of equals the first.
        scored.reduce(|best, one| if one.0 > best.0 { one } else { best }).map(|(_, unit)| unit)
    }

    /// Lists the best of `candidates`.
    fn draw_up(&mut self, units: &Units, candidates: impl Iterator<Item = UnitId>, now: u64) {
        let (rule, rates) = (self.rule, &self.rates);
        self.scored.clear();
        self.scored.reserve_exact(units.count() as usize);
        self.scored.extend(candidates.map(|unit| (score(rule, rates, units, unit, now), unit)));
        let better =
            |a: &(f32, UnitId), b: &(f32, UnitId)| b.0.total_cmp(&a.0).then(a.1.0.cmp(&b.1.0));
        if self.scored.len() > LISTED {
            self.scored.select_nth_unstable_by(LISTED, better);
            self.scored.truncate(LISTED);
        }
        self.scored.sort_unstable_by(better);
        self.listed.clear();
        self.listed.extend(self.scored.iter().map(|(_, unit)| *unit));
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.rates.memory_bytes() + self.scored.capacity() * size_of::<(f32, UnitId)>()
    }
}

#[inline]
fn score(rule: Rule, rates: &DeathRates, units: &Units, unit: UnitId, now: u64) -> f32 {
    let u = units.valid_count(unit) as f32 / units.most_valid() as f32;
    let age = now.saturating_sub(units.closed_at(unit)) as f32;
    let patience = if rule == Rule::Recency { rates.patience(units, unit, now) } else { 1.0 };
    rule.score(u, age) * patience
}

#[cfg(test)]
mod tests {
    use thermocline_types::Class;

    use super::*;

    #[test]
    fn the_emptiest_are_cleaned_first_whether_listed_or_not() {
        let mut units = Units::new(100, 100);
        for unit in units.ids() {
            units.open(unit, Class(0));
            (0..50 + unit.0 / 2).for_each(|_| units.add_valid(unit));
            units.close(unit, 100, 1);
        }
        let mut cleaner = Cleaner::new(100, 10_000, 100);
        let mut last = 0;
        for _ in 0..50 {
            let victim =
                cleaner.choose(Rule::Single, &units, 0..100, 10, |unit| unit.0 > 2).unwrap();
            let valid = units.valid_count(victim);
            assert!(victim.0 > 2 && valid >= last, "{victim:?} has {valid}");
            last = valid;
            units.begin_relocation(victim);
        }
        assert_eq!(last, 50 + 52 / 2);
        assert_eq!(cleaner.choose(Rule::Single, &units, 0..3, 10, |unit| unit.0 > 2), None);
    }
}
