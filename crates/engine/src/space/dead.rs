//! Closed units without a valid block, grouped by the event that they wait for.
//!
//! Invariants:
//! * A unit is looked at when it dies, and again when the awaited event may have happened. The work does not grow with
//!   the number of waiting units.

use std::collections::{BTreeSet, VecDeque};

use thermocline_format::Sequence;
use thermocline_types::UnitId;

/// Whether a dead unit can be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It can.
    Ready,
    /// Not before the unit's newest chunk is durable.
    NotDurable(Sequence),
    /// Not while a read or write of the unit is in flight.
    InUse,
    /// Not on these terms.
    Held,
}

/// Conditions that decide which units are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// *S* of the newest flushed record.
    pub(crate) checkpoint: Sequence,
    /// Whether units with chunks to be replayed can be released.
    pub(crate) any: bool,
    /// How often no control entry had waited, if some wait now.
    pub(crate) control: Option<u64>,
}

/// Dead units of a class of media.
#[derive(Debug, Default)]
pub(crate) struct Dead {
    /// To be looked at.
    fresh: VecDeque<UnitId>,
    /// By their newest chunks.
    not_durable: BTreeSet<(Sequence, UnitId)>,
    /// As few as there are commands on their way.
    in_use: Vec<UnitId>,
    held: Vec<UnitId>,
    /// The terms under which the units of `held` are held.
    terms: Terms,
}

impl Dead {
    pub(crate) fn push(&mut self, unit: UnitId) {
        self.fresh.push_back(unit);
    }

    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.not_durable.len() + self.in_use.len() + self.held.len()
    }

    /// Whether new dead units must be looked at.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Whether a unit waits for no more than a look, or for a flush.
    pub(crate) fn is_moving(&self) -> bool {
        self.has_fresh() || !self.not_durable.is_empty()
    }

    /// Whether a unit is held.
    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The chunk that must be durable for all units.
    pub(crate) fn newest(&self) -> Option<Sequence> {
        self.not_durable.last().map(|(sequence, _)| *sequence)
    }

    /// Has units looked at for which something changed: every chunk up to `durable` is durable, and these are the
    /// terms.
    pub(crate) fn renew(&mut self, durable: Sequence, terms: Terms) {
        while let Some(&(sequence, unit)) = self.not_durable.first()
            && sequence <= durable
        {
            self.not_durable.pop_first();
            self.fresh.push_back(unit);
        }
        self.fresh.extend(self.in_use.drain(..));
        if self.terms != terms {
            self.terms = terms;
            self.fresh.extend(self.held.drain(..));
        }
    }

    /// Looks at units, at most as many as `budget` says, until `ready` has `most` of those that can be released.
    pub(crate) fn look(
        &mut self,
        ready: &mut Vec<UnitId>,
        most: usize,
        budget: &mut usize,
        verdict: impl Fn(UnitId) -> Verdict,
    ) {
        while ready.len() < most
            && *budget > 0
            && let Some(unit) = self.fresh.pop_front()
        {
            *budget -= 1;
            match verdict(unit) {
                Verdict::Ready => ready.push(unit),
                Verdict::NotDurable(newest) => _ = self.not_durable.insert((newest, unit)),
                Verdict::InUse => self.in_use.push(unit),
                Verdict::Held => self.held.push(unit),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(dead: &mut Dead, most: usize, verdict: impl Fn(UnitId) -> Verdict) -> Vec<u32> {
        let (mut ready, mut budget) = (Vec::new(), 100);
        dead.look(&mut ready, most, &mut budget, verdict);
        ready.into_iter().map(|unit| unit.0).collect()
    }

    fn of(units: std::ops::Range<u32>) -> Dead {
        let mut dead = Dead::default();
        units.for_each(|unit| dead.push(UnitId(unit)));
        dead
    }

    #[test]
    fn units_are_looked_at_in_the_order_of_their_death_and_not_more_than_asked_for() {
        let mut dead = of(0..1000);
        assert_eq!(look(&mut dead, 3, |_| Verdict::Ready), [0, 1, 2]);
        let wait = |unit: UnitId| Verdict::NotDurable(Sequence(unit.0.into()));
        assert_eq!(look(&mut dead, 3, wait), [0; 0]);
        assert_eq!((dead.len(), dead.newest()), (997, Some(Sequence(102))), "the budget was 100");
    }

    #[test]
    fn those_that_wait_for_chunks_are_not_looked_at_before_these_are_durable() {
        let mut dead = of(0..10);
        look(&mut dead, 10, |unit| Verdict::NotDurable(Sequence(u64::from(10 - unit.0))));
        dead.renew(Sequence(4), Terms::default());
        assert_eq!(look(&mut dead, 10, |_| Verdict::Ready), [9, 8, 7, 6]);
        assert!(!dead.has_fresh());
        assert_eq!(dead.len(), 6);
    }

    #[test]
    fn those_that_are_held_are_looked_at_when_the_terms_change() {
        let mut dead = of(0..2);
        look(&mut dead, 10, |unit| [Verdict::Held, Verdict::InUse][unit.index()]);
        dead.renew(Sequence(9), Terms::default());
        assert_eq!(look(&mut dead, 10, |_| Verdict::Ready), [1], "it may be in use no more");
        assert!(dead.has_held());
        dead.renew(Sequence(9), Terms { any: true, ..Terms::default() });
        assert_eq!(look(&mut dead, 10, |_| Verdict::Ready), [0]);
        assert_eq!(dead.len(), 0);
    }
}
