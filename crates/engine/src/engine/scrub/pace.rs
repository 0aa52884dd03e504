//! A scrub in the background leaves the devices to hosts. No request waits for its end.

use std::fmt::Debug;

use thermocline_types::{Time, UnitId};

use super::{Asked, Scrub, Step};
use crate::engine::scrub::Scrubber;
use crate::engine::{Parts, Phase};
use crate::marks::mark;
use crate::pages::Needs;
use crate::payload::Payload;

/// A rest takes nine times as long as the read before it, so a scrub uses a tenth of an idle device. Chosen, not
/// measured.
const RESTS: u64 = 9;

/// The same factor while hosts or the engine use the devices. Chosen, not measured.
const YIELDS: u64 = 99;

/// Time after a host request in which further requests are expected. Chosen, not measured: a client with one request in
/// flight sends the next request within this time.
const QUIET: Time = Time::micros(10_000);

/// The longest time for which a scrub yields, so that it ends on a device that is always busy. Chosen, not measured.
const LONGEST: Time = Time::seconds(1);

/// When a scrub in the background may read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// When the last read began.
    began: Time,
    /// When the next read may begin if nothing else is on its way.
    idle: Time,
    /// When it may begin in any case.
    busy: Time,
}

impl Pace {
    /// The pace of a new scrub.
    pub(crate) fn new(now: Time) -> Pace {
        Pace { began: now, idle: now, busy: now }
    }

    /// The last read has ended, or the pages of maps for its blocks are in memory.
    pub(super) fn rest(&mut self, now: Time) {
        let took = now.as_nanos().saturating_sub(self.began.as_nanos());
        let after = |times: u64| now + Time::nanos(took.saturating_mul(times));
        self.idle = after(RESTS);
        self.busy = after(YIELDS).min(now + LONGEST).max(self.idle);
    }

    /// Whether a read may begin; if so, it does.
    fn begins(&mut self, now: Time, is_idle: bool) -> bool {
        let begins = now >= if is_idle { self.idle } else { self.busy };
        if begins {
            self.began = now;
        }
        begins
    }

    /// The next time at which a read may begin without any other event. Hosts count as idle from `quiet` on.
    fn wakes(&self, now: Time, quiet: Time) -> Option<Time> {
        [self.idle, quiet.min(self.busy), self.busy].into_iter().filter(|when| *when > now).min()
    }
}

/// How far a scrub in the background is, and what it has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubProgress {
    /// The unit in progress.
    pub unit: UnitId,
    /// Blocks compared before this unit, blocks of maps included.
    pub blocks: u64,
    /// Damaged places found before this unit.
    pub damaged: u64,
    /// Places that a member held wrong, before this unit.
    pub mended: u64,
}

impl Scrubber {
    /// Ends a scrub in the background without a notice.
    pub(crate) fn stop_background(&mut self) {
        for scrub in &mut self.scrubs {
            if let Asked::Background(_) = scrub.asked {
                scrub.asked = Asked::Nobody;
            }
        }
    }

    /// The time at which a scrub in the background continues without any other event.
    pub(crate) fn wakes(&self, now: Time, asked_at: Time) -> Option<Time> {
        match self.scrubs.front()?.asked {
            Asked::Background(pace) => pace.wakes(now, asked_at + QUIET),
            Asked::Host(_) | Asked::Nobody => None,
        }
    }
}

impl Scrub {
    /// Whether the next step must wait. A scrub for which a request waits goes on at once, and so does one that is not
    /// `alone`.
    pub(super) fn rests<P: Payload>(&mut self, p: &Parts<P>, alone: bool) -> bool {
        let reads = match self.step {
            Step::Walk(from) => from < self.end,
            Step::Read => !self.left.is_empty(),
            Step::Versions(_, from) => from < self.seen.len(),
            _ => false,
        };
        let Asked::Background(pace) = &mut self.asked else { return false };
        if !reads || !alone {
            return false;
        }
        let quiet = p.now >= p.asked_at + QUIET;
        let is_idle = quiet && p.ops.is_empty() && p.requests.is_empty();
        mark!(ScrubYields if !is_idle);
        !pace.begins(p.now, is_idle)
    }

    /// Whether a scrub in the background ends here, because it was stopped, or the pool failed or closes.
    pub(super) fn is_given_up<P: Payload>(&self, p: &mut Parts<P>) -> bool {
        let ends = match self.asked {
            Asked::Host(_) => false,
            Asked::Background(_) => p.phase != Phase::Open,
            Asked::Nobody => true,
        };
        let given_up = ends && self.waiting == 0;
        if given_up {
            p.pages.need(Needs::Scrub, None);
        }
        if given_up && self.is_in_unit() {
            mark!(ScrubGivenUp);
            p.space.drop_reader(self.unit);
        }
        given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::parts;
    use crate::request::{Action, Notice};

    #[test]
    fn a_stopped_scrub_ends_when_the_device_has_answered_and_reports_nothing() {
        let mut p = parts();
        let mut scrubber = Scrubber::default();
        let now = p.now;
        scrubber.begin(&mut p, Asked::Background(Pace::new(now)), UnitId(5));
        assert!(scrubber.step(&mut p) && scrubber.in_background().is_some());
        scrubber.scrubs[0].waiting = 1;
        scrubber.stop_background();
        assert!(!scrubber.step(&mut p) && !scrubber.is_idle(), "a read is in flight");
        scrubber.goes_on();
        assert!(scrubber.step(&mut p) && scrubber.is_idle());
        let ended = |action: &Action<_>| matches!(action, Action::Notice(Notice::Scrubbed { .. }));
        assert!(!p.actions.iter().any(ended));
    }

    #[test]
    fn a_scrub_has_a_tenth_of_an_idle_device_and_a_hundredth_of_a_busy_one() {
        let at = |micros: u64| Time::nanos(micros * 1000);
        let mut pace = Pace::default();
        assert!(pace.begins(at(0), false));
        pace.rest(at(100));
        assert!(!pace.begins(at(999), true) && pace.wakes(at(999), at(0)) == Some(at(1000)));
        assert!(!pace.begins(at(1000), false) && pace.wakes(at(1000), at(0)) == Some(at(10_000)));
        assert!(!pace.begins(at(9_999), false) && pace.begins(at(10_000), false));
        pace.rest(at(10_050));
        assert!(pace.begins(at(10_500), true));
        pace.rest(at(30_500));
        let end = at(1_030_500);
        assert_eq!(pace.wakes(at(900_000), at(0)), Some(end), "it waits for a second at most");
        assert_eq!(pace.wakes(at(900_000), at(950_000)), Some(at(950_000)));
        assert_eq!(pace.wakes(at(900_000), at(1_950_000)), Some(end));
        assert!(pace.begins(end, false) && pace.wakes(end, at(0)).is_none());
        // A read that took longer than that is followed by the rest of an idle device.
        pace.rest(at(3_030_500));
        assert!(!pace.begins(at(21_030_499), false) && pace.begins(at(21_030_500), false));
    }
}
