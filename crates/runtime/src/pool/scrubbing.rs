//! A pool that scrubs itself on a schedule or on request.
//!
//! The engine sets the pace. This part decides when a scrub begins, and keeps a record of it for whoever stores that
//! across restarts.

use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use thermocline_engine::ScrubProgress;
use thermocline_types::UnitId;

use super::{Event, Job, Pool, Service};

/// How often the schedule is looked at. Chosen.
const EVERY: Duration = Duration::from_secs(1);

/// Seconds after which the record of a scrub in progress is reported again: so much is scrubbed twice after a kill.
/// Chosen.
const NOTED: u64 = 600;

/// Findings of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubFindings {
    /// Blocks compared, blocks of maps included.
    pub blocks: u64,
    /// Places at which something is wrong.
    pub damaged: u64,
    /// Places that a member held wrong, written again from the others.
    pub mended: u64,
}

impl ScrubFindings {
    fn and(self, more: ScrubFindings) -> ScrubFindings {
        ScrubFindings {
            blocks: self.blocks + more.blocks,
            damaged: self.damaged + more.damaged,
            mended: self.mended + more.mended,
        }
    }
}

/// A scrub that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubEnd {
    /// When it began, in seconds since 1970.
    pub began_unix_seconds: u64,
    /// When it ended.
    pub ended_unix_seconds: u64,
    /// Its findings.
    #[serde(flatten)]
    pub found: ScrubFindings,
}

/// A scrub that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubUnderWay {
    /// When it began, in seconds since 1970.
    pub began_unix_seconds: u64,
    /// The unit at which it goes on after a restart.
    pub next_unit: u32,
    /// Findings before this unit.
    #[serde(flatten)]
    pub found: ScrubFindings,
}

/// The scrubs of a pool: a small record that is to outlive restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRecord {
    /// The last scrub that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ScrubEnd>,
    /// The scrub in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<ScrubUnderWay>,
}

impl ScrubRecord {
    /// When the next scrub is due, in seconds since 1970. A pool that was never scrubbed is due at once.
    #[must_use]
    pub fn due(&self, every: Duration) -> u64 {
        self.last.map_or(0, |last| last.ended_unix_seconds + every.as_secs())
    }
}

/// A schedule, and what is known of earlier scrubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubSchedule {
    /// From the end of a scrub to the begin of the next one; `None`: a scrub begins only on request.
    pub every: Option<Duration>,
    /// The record as it was when the pool was served last.
    pub record: ScrubRecord,
}

/// Watches a schedule.
#[derive(Debug)]
pub(super) struct Scrubbing {
    schedule: Option<ScrubSchedule>,
    /// What was found before the engine began with the scrub in progress.
    earlier: ScrubFindings,
    noted: u64,
    looked: Option<Instant>,
    /// A scheduled scrub that was stopped is not due before, in seconds since 1970.
    not_before: u64,
}

impl Scrubbing {
    pub(super) fn new(schedule: Option<ScrubSchedule>) -> Scrubbing {
        let earlier = ScrubFindings::default();
        Scrubbing { schedule, earlier, noted: 0, looked: None, not_before: 0 }
    }

    pub(super) fn schedule(&self) -> Option<&ScrubSchedule> {
        self.schedule.as_ref()
    }

    /// The unit at which a scrub begins, or goes on that a restart interrupted.
    fn next_unit(&self) -> UnitId {
        let record = self.schedule.map(|schedule| schedule.record).unwrap_or_default();
        UnitId(record.current.map_or(0, |current| current.next_unit))
    }

    /// The unit from which the engine is to scrub on, if it is time to.
    fn due(&self, now: u64) -> Option<UnitId> {
        let schedule = self.schedule.as_ref()?;
        if let Some(current) = schedule.record.current {
            return Some(UnitId(current.next_unit));
        }
        let every = schedule.every.filter(|_| now >= self.not_before)?;
        // An end that lies in the future by more than a clock is corrected by says nothing.
        let ended = schedule.record.last.map_or(0, |last| last.ended_unix_seconds);
        let nonsense = ended > now.saturating_add(every.as_secs());
        (nonsense || now >= schedule.record.due(every)).then_some(UnitId(0))
    }

    /// The engine has begun.
    fn begun(&mut self, now: u64) -> Option<ScrubRecord> {
        let record = &mut self.schedule.as_mut()?.record;
        let new = ScrubUnderWay {
            began_unix_seconds: now,
            next_unit: 0,
            found: ScrubFindings::default(),
        };
        self.earlier = record.current.get_or_insert(new).found;
        self.noted = now;
        Some(*record)
    }

    /// The scrub in progress was stopped. Returns the record if there was one.
    fn stopped(&mut self, now: u64) -> Option<ScrubRecord> {
        let ScrubSchedule { every, record } = self.schedule.as_mut()?;
        self.not_before = now + every.map_or(0, |every| every.as_secs());
        record.current.take().map(|_| *record)
    }

    /// The engine has come to a unit. Returns the record if it is time to store it.
    fn comes_to(&mut self, now: u64, progress: ScrubProgress) -> Option<ScrubRecord> {
        let record = &mut self.schedule.as_mut()?.record;
        let current = record.current.as_mut()?;
        let ScrubProgress { unit, blocks, damaged, mended } = progress;
        current.next_unit = unit.0;
        current.found = self.earlier.and(ScrubFindings { blocks, damaged, mended });
        let due = now.saturating_sub(self.noted) >= NOTED;
        self.noted = if due { now } else { self.noted };
        due.then_some(*record)
    }

    /// The engine has ended.
    pub(super) fn ended(&mut self, now: u64, found: ScrubFindings) -> Option<ScrubRecord> {
        let record = &mut self.schedule.as_mut()?.record;
        let current = record.current.take()?;
        // Two ends differ, so that whoever waits for one can tell it from the one before.
        let same = record.last.is_some_and(|last| last.ended_unix_seconds == now);
        record.last = Some(ScrubEnd {
            began_unix_seconds: current.began_unix_seconds,
            ended_unix_seconds: now + u64::from(same),
            found: self.earlier.and(found),
        });
        Some(*record)
    }
}

/// Seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Pool {
    /// Begins a scrub of the whole pool now, at the pace of a scheduled one. A scrub in progress goes on instead.
    /// Returns whether a scrub is in progress: a pool that is read-only, failed or closed begins none.
    #[must_use]
    pub fn scrub_now(&self) -> bool {
        self.ask_scrubs(true)
    }

    /// Stops the scrub in progress. A scheduled one is due again after its interval, or at the next opening. Returns
    /// whether there was one.
    #[must_use]
    pub fn stop_scrub(&self) -> bool {
        self.ask_scrubs(false)
    }

    fn ask_scrubs(&self, begin: bool) -> bool {
        let (answer, receiver) = mpsc::channel();
        self.shared.push(Job::Scrub { begin, answer }, None);
        receiver.recv().unwrap_or(false)
    }
}

impl Service {
    /// As [`Pool::scrub_now`], or as [`Pool::stop_scrub`] unless `begin`.
    pub(super) fn scrub_on_request(&mut self, begin: bool) -> bool {
        let runs = self.driver.engine().background_scrub().is_some();
        let record = match (begin, runs) {
            (true, true) => return true,
            (true, false) => {
                let can = self.scrubbing.schedule.is_some();
                let from = self.scrubbing.next_unit();
                let begins = can && self.driver.scrub_in_background(from);
                begins.then(|| self.scrubbing.begun(unix_seconds())).flatten()
            }
            (false, _) => {
                self.driver.stop_scrub();
                self.scrubbing.stopped(unix_seconds())
            }
        };
        self.store_scrubs(record);
        record.is_some()
    }

    /// Begins a scrub when one is due, and notes how far it is.
    pub(super) fn scrub_on_schedule(&mut self) {
        let now = self.driver.clock().now();
        let looked = |looked| now.saturating_duration_since(looked) < EVERY;
        if self.scrubbing.schedule.is_none() || self.scrubbing.looked.is_some_and(looked) {
            return;
        }
        self.scrubbing.looked = Some(now);
        let now = unix_seconds();
        let record = match self.driver.engine().background_scrub() {
            Some(progress) => self.scrubbing.comes_to(now, progress),
            None => match self.scrubbing.due(now) {
                Some(unit) if self.driver.scrub_in_background(unit) => self.scrubbing.begun(now),
                _ => None,
            },
        };
        self.store_scrubs(record);
    }

    /// The pool is about to be closed: a scrub in progress goes on at the next opening.
    pub(super) fn scrub_is_interrupted(&mut self) {
        if let Some(progress) = self.driver.engine().background_scrub() {
            self.scrubbing.noted = 0;
            let record = self.scrubbing.comes_to(unix_seconds(), progress);
            self.store_scrubs(record);
        }
        self.scrubbing.looked = None;
    }

    pub(super) fn store_scrubs(&mut self, record: Option<ScrubRecord>) {
        if let Some(record) = record {
            (self.listener)(Event::Scrub(record));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn scrubbing(record: ScrubRecord) -> Scrubbing {
        let every = Some(Duration::from_secs(30 * DAY));
        Scrubbing::new(Some(ScrubSchedule { every, record }))
    }

    fn found(blocks: u64, damaged: u64, mended: u64) -> ScrubFindings {
        ScrubFindings { blocks, damaged, mended }
    }

    fn at(unit: u32, found: ScrubFindings) -> ScrubProgress {
        let ScrubFindings { blocks, damaged, mended } = found;
        ScrubProgress { unit: UnitId(unit), blocks, damaged, mended }
    }

    #[test]
    fn a_scrub_begins_at_once_and_then_so_long_after_the_end_of_the_last() {
        let mut pool = scrubbing(ScrubRecord::default());
        let begin = 1000 * DAY;
        assert_eq!(pool.due(begin), Some(UnitId(0)), "it was never scrubbed");
        assert!(pool.begun(begin).is_some());
        let record = pool.ended(begin + 2 * DAY, found(500, 1, 2)).expect("a scrub ended");
        let last = record.last.expect("it is known");
        assert_eq!((last.began_unix_seconds, last.ended_unix_seconds), (begin, begin + 2 * DAY));
        assert_eq!((last.found, record.current), (found(500, 1, 2), None));
        for (days, due) in [(3, None), (31, None), (32, Some(UnitId(0)))] {
            assert_eq!(pool.due(begin + days * DAY), due, "after {days} days");
            // A restart knows the record, and no more.
            assert_eq!(scrubbing(record).due(begin + days * DAY), due, "after {days} days");
        }
        assert_eq!(scrubbing(record).due(begin - 40 * DAY), Some(UnitId(0)), "a clock was wrong");
        assert_eq!(Scrubbing::new(None).due(begin), None);
    }

    #[test]
    fn without_a_schedule_only_an_interrupted_scrub_is_due_and_a_stopped_one_is_over() {
        let on_request = |record| Scrubbing::new(Some(ScrubSchedule { every: None, record }));
        let mut pool = on_request(ScrubRecord::default());
        assert_eq!((pool.due(DAY), pool.next_unit()), (None, UnitId(0)));
        pool.begun(DAY);
        let record = pool.comes_to(DAY + NOTED, at(4, found(40, 0, 0))).expect("it is time");
        let mut again = on_request(record);
        assert_eq!((again.due(2 * DAY), again.next_unit()), (Some(UnitId(4)), UnitId(4)));
        again.begun(2 * DAY);
        assert_eq!(again.stopped(2 * DAY), Some(ScrubRecord::default()));
        assert_eq!((again.stopped(2 * DAY), again.due(3 * DAY)), (None, None));
        let mut scheduled = scrubbing(ScrubRecord::default());
        scheduled.begun(DAY);
        assert!(scheduled.stopped(DAY).is_some());
        assert_eq!((scheduled.due(2 * DAY), scheduled.due(31 * DAY)), (None, Some(UnitId(0))));
    }

    #[test]
    fn a_scrub_that_a_restart_interrupts_goes_on_where_it_was() {
        let mut pool = scrubbing(ScrubRecord::default());
        pool.begun(DAY);
        assert_eq!(pool.comes_to(DAY + NOTED - 1, at(3, found(30, 0, 1))), None);
        let record = pool.comes_to(DAY + NOTED, at(4, found(40, 0, 1))).expect("it is time");
        let mut again = scrubbing(record);
        assert_eq!(again.due(2 * DAY), Some(UnitId(4)));
        let record = again.begun(2 * DAY).expect("it goes on");
        let current = record.current.expect("it has not ended");
        assert_eq!((current.began_unix_seconds, current.found), (DAY, found(40, 0, 1)));
        again.comes_to(2 * DAY, at(5, found(7, 2, 0)));
        let record = again.ended(3 * DAY, found(60, 2, 1)).expect("it ends");
        assert_eq!(record.last.expect("it is known").found, found(100, 2, 2));
    }
}
