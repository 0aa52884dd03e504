//! Decides when blocks leave fast devices that still have room: above a watermark, or at an age limit.
//!
//! Invariants:
//! * Destaging that began above the high watermark goes on down to the low watermark.
//! * A block is at most as old as its unit: ages count from the opening of the unit.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use thermocline_types::{Time, UnitId};

use crate::config::DestageConfig;

/// Settings that decide when fast units are emptied early.
#[derive(Debug)]
pub(crate) struct Destage {
    config: DestageConfig,
    /// Whether the high watermark was passed, and the low one not reached since.
    falling: bool,
    /// Since when each closed unit holds what it holds, if ages count.
    since: FxHashMap<UnitId, Time>,
    /// The same, in the order of time.
    oldest: BTreeSet<(Time, UnitId)>,
    /// When the unit that is open was opened.
    opened: Option<Time>,
}

impl Destage {
    pub(crate) fn new(config: DestageConfig) -> Destage {
        let (since, oldest) = (FxHashMap::default(), BTreeSet::new());
        Destage { config, falling: false, since, oldest, opened: None }
    }

    /// Whether to empty units until fewer than `used` are in use.
    pub(crate) fn wants(&mut self, used: u32) -> bool {
        let DestageConfig { low_units, high_units, .. } = self.config;
        self.falling = used > if self.falling { low_units } else { high_units };
        self.falling
    }

    /// How far `used` units are from the low watermark towards the high one: beyond that, more than 1.
    pub(crate) fn urgency(&self, used: u32) -> f64 {
        let DestageConfig { low_units, high_units, .. } = self.config;
        f64::from(used.saturating_sub(low_units)) / f64::from((high_units - low_units).max(1))
    }

    /// A unit was opened for host data.
    pub(crate) fn opened(&mut self, now: Time) {
        self.opened = Some(now);
    }

    /// `unit`, which was open for host data, was closed. The age of the unit is the age of its first block.
    pub(crate) fn closed(&mut self, unit: UnitId, now: Time) {
        let since = self.opened.take().unwrap_or(now);
        self.begin_age(unit, since);
    }

    /// The age of the blocks in `unit` counts from `since` on.
    pub(crate) fn begin_age(&mut self, unit: UnitId, since: Time) {
        if self.config.max_age.is_some() {
            self.end_age(unit);
            self.since.insert(unit, since);
            self.oldest.insert((since, unit));
        }
    }

    /// The age of the blocks in `unit` no longer counts.
    pub(crate) fn end_age(&mut self, unit: UnitId) {
        if let Some(since) = self.since.remove(&unit) {
            self.oldest.remove(&(since, unit));
        }
    }

    /// Whether the blocks in the open unit are past the age limit.
    pub(crate) fn is_open_overdue(&self, now: Time) -> bool {
        self.opened.zip(self.config.max_age).is_some_and(|(opened, age)| opened + age <= now)
    }

    /// The oldest closed unit, if the unit is past the age limit.
    pub(crate) fn overdue(&self, now: Time) -> Option<UnitId> {
        let (since, unit) = *self.oldest.first()?;
        self.config.max_age.filter(|age| since + *age <= now).map(|_| unit)
    }

    /// When the oldest unit with host data, open or closed, reaches the age limit.
    pub(crate) fn due(&self) -> Option<Time> {
        let closed = self.oldest.first().map(|(since, _)| *since);
        let first = closed.into_iter().chain(self.opened).min();
        first.zip(self.config.max_age).map(|(since, age)| since + age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destage(max_age: Option<Time>) -> Destage {
        Destage::new(DestageConfig { high_units: 8, low_units: 6, max_age, ..Default::default() })
    }

    #[test]
    fn it_falls_from_the_high_watermark_to_the_low_one() {
        let mut destage = destage(None);
        let wants = [7, 8, 9, 8, 7, 6, 7, 8].map(|used| destage.wants(used));
        assert_eq!(wants, [false, false, true, true, true, false, false, false]);
        let urgency = [6, 7, 8, 10].map(|used| (destage.urgency(used) * 10.0) as u32);
        assert_eq!(urgency, [0, 5, 10, 20]);
        let mut never = Destage::new(DestageConfig::default());
        assert!(!never.wants(u32::MAX));
    }

    #[test]
    fn what_was_opened_first_is_overdue_first() {
        let mut destage = destage(Some(Time(10)));
        assert_eq!(destage.due(), None);
        destage.opened(Time(1));
        assert_eq!(destage.due(), Some(Time(11)));
        assert!(!destage.is_open_overdue(Time(10)) && destage.is_open_overdue(Time(11)));
        destage.closed(UnitId(3), Time(2));
        destage.opened(Time(4));
        destage.closed(UnitId(4), Time(7));
        // It was emptied, and written once more.
        destage.opened(Time(5));
        destage.closed(UnitId(3), Time(8));
        assert!(!destage.is_open_overdue(Time(100)));
        assert_eq!((destage.overdue(Time(13)), destage.due()), (None, Some(Time(14))));
        assert_eq!(destage.overdue(Time(14)), Some(UnitId(4)));
        destage.end_age(UnitId(4));
        assert_eq!((destage.overdue(Time(14)), destage.due()), (None, Some(Time(15))));
        assert_eq!(destage.overdue(Time(15)), Some(UnitId(3)));
    }

    #[test]
    fn without_an_age_nothing_is_overdue_and_nothing_is_kept_in_mind() {
        let mut destage = destage(None);
        destage.opened(Time(1));
        destage.closed(UnitId(3), Time(2));
        assert_eq!((destage.overdue(Time(u64::MAX)), destage.due()), (None, None));
        assert!(destage.since.is_empty() && !destage.is_open_overdue(Time(u64::MAX)));
    }
}
