//! Rows of which it is not known whether they fit their parity: after a crash, those in which anything could be
//! written.
//!
//! What nobody reads is in nobody's way. Whoever opens a pool reads all that was not flushed and counts all the same,
//! and flushes before it builds on it; so a row that was read is made to fit before the next flush is answered, and a
//! flush waits for no other.

use std::collections::BTreeSet;
use std::ops::Range;

use thermocline_types::UnitId;

use crate::bugs::{self, ArrayBug};

/// In which units rows may not fit.
#[derive(Debug)]
enum Where {
    /// Nobody said.
    Anywhere,
    In(BTreeSet<u32>),
}

/// Rows that may not fit their parity, by unit and row.
#[derive(Debug)]
pub(super) struct Doubt {
    units: Where,
    /// Of those units, the rows that do fit.
    settled: BTreeSet<(u32, u32)>,
    /// Rows that are to be made to fit.
    wanted: BTreeSet<(u32, u32)>,
}

impl Doubt {
    /// With `open`, everything may be wrong until [`Doubt::only`] says more. Rows that the log has are wanted.
    pub(super) fn new<'a>(open: bool, logged: impl Iterator<Item = &'a (u32, u32)>) -> Doubt {
        let in_doubt = open && !bugs::has(ArrayBug::NotCompared);
        let units = if in_doubt { Where::Anywhere } else { Where::In(BTreeSet::new()) };
        Doubt { units, settled: BTreeSet::new(), wanted: logged.copied().collect() }
    }

    /// Rows of these units alone may be wrong.
    pub(super) fn only(&mut self, units: Vec<UnitId>) {
        if matches!(self.units, Where::Anywhere) {
            let units: BTreeSet<u32> = units.into_iter().map(|unit| unit.0).collect();
            self.settled.retain(|(unit, _)| units.contains(unit));
            self.units = Where::In(units);
        }
    }

    fn is_in(&self, unit: u32) -> bool {
        match &self.units {
            Where::Anywhere => true,
            Where::In(units) => units.contains(&unit),
        }
    }

    /// A row was read.
    pub(super) fn read(&mut self, unit: u32, row: u32) {
        if self.is_in(unit) && !self.settled.contains(&(unit, row)) {
            self.wanted.insert((unit, row));
        }
    }

    /// Whoever writes to rows sees to their parity.
    pub(super) fn written(&mut self, unit: u32, rows: &Range<u32>) {
        if self.is_in(unit) {
            rows.clone().for_each(|row| self.settled(unit, row));
        }
    }

    /// A row fits, or nothing can be done about it.
    pub(super) fn settled(&mut self, unit: u32, row: u32) {
        self.wanted.remove(&(unit, row));
        if self.is_in(unit) {
            self.settled.insert((unit, row));
        }
    }

    /// Nothing in a unit counts any more.
    pub(super) fn emptied(&mut self, unit: u32) {
        self.wanted.retain(|(of, _)| *of != unit);
        self.settled.retain(|(of, _)| *of != unit);
        if let Where::In(units) = &mut self.units {
            units.remove(&unit);
        }
    }

    /// A row to be made to fit.
    pub(super) fn next(&self) -> Option<(u32, u32)> {
        self.wanted.first().copied()
    }
}
