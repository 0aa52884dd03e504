//! Whether a service works, for supervisors: `/health` and `/ready`.
//!
//! Invariant: a report never waits for the pool. A pool that hangs is reported too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;

use crate::scrubs::DamagedPlace;
use crate::state::State;

/// Damaged places kept for `/scrub`. Chosen.
const PLACES: usize = 100;

/// The life of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The pool is being opened, and recovered after a crash.
    #[default]
    Opening,
    /// Clients can connect.
    Serving,
    /// A stop was requested.
    Stopping,
    /// The pool is closed.
    Closed,
}

/// Trouble with which the pool still takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// A device does not end its commands in time.
    Late,
    /// The pool is full or nearly full.
    Full,
    /// Reads have met damaged blocks.
    Damage,
}

/// Phase and failures of a service.
#[derive(Default)]
pub struct Health {
    /// Why the pool takes no more writes.
    failure: OnceLock<String>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    phase: Phase,
    concerns: BTreeMap<Concern, String>,
    /// Damaged places found since the last scrub began.
    damage: BTreeSet<DamagedPlace>,
}

impl Health {
    /// Reason why the pool is given up, if any.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The pool is given up. The first reason counts.
    pub fn fail(&self, why: String) {
        let _later = self.failure.set(why);
    }

    /// Notes trouble in words; `None` ends it.
    pub fn set(&self, concern: Concern, words: Option<String>) {
        let mut now = self.now();
        match words {
            Some(words) => _ = now.concerns.insert(concern, words),
            None => _ = now.concerns.remove(&concern),
        }
    }

    /// The words of a concern, as long as it lasts.
    pub fn concern(&self, concern: Concern) -> Option<String> {
        self.now().concerns.get(&concern).cloned()
    }

    /// Notes a damaged place, unless too many are known.
    pub fn damaged(&self, place: DamagedPlace) {
        let damage = &mut self.now().damage;
        if damage.len() < PLACES {
            damage.insert(place);
        }
    }

    /// A scrub begins, which finds damaged places again.
    pub fn scrub_begins(&self) {
        self.now().damage.clear();
    }

    /// A scrub has ended. Without damage since it began, earlier damage is over: it was overwritten or trimmed.
    pub fn scrub_ends(&self) {
        let mut now = self.now();
        if now.damage.is_empty() {
            now.concerns.remove(&Concern::Damage);
        }
    }

    /// Damaged places found since the last scrub began.
    pub fn damage(&self) -> Vec<DamagedPlace> {
        self.now().damage.iter().cloned().collect()
    }

    /// The service comes to its next phase.
    pub fn enter(&self, phase: Phase) {
        self.now().phase = phase;
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The report. `state` is `None` until the pool is open.
    pub fn report(&self, state: Option<&State>) -> HealthReport {
        let (phase, mut reasons) = {
            let now = self.now();
            (now.phase, now.concerns.values().cloned().collect::<Vec<_>>())
        };
        reasons.extend(state.into_iter().flat_map(|state| state.devices().risks()));
        let has_ended = state.is_some_and(State::has_ended);
        let (name, reasons) = match (phase, self.failure()) {
            (_, Some(failure)) => ("failed", vec![failure.to_owned()]),
            (Phase::Opening, None) => {
                ("opening", vec!["the pool is being opened or recovered".to_owned()])
            }
            (Phase::Serving, None) if has_ended => {
                ("failed", vec!["the thread of the pool has ended".to_owned()])
            }
            (Phase::Serving, None) if reasons.is_empty() => ("ok", reasons),
            (Phase::Serving, None) => ("degraded", reasons),
            (Phase::Stopping, None) => ("stopping", vec!["a stop was requested".to_owned()]),
            (Phase::Closed, None) => ("closed", vec!["the pool is closed".to_owned()]),
        };
        HealthReport { schema: "thermocline.health/1", state: name, reasons }
    }
}

/// The answer of `/health` and `/ready`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    schema: &'static str,
    /// ok, degraded, failed, opening, stopping or closed.
    state: &'static str,
    /// Sentences; empty if the state is `ok`.
    reasons: Vec<String>,
}

impl HealthReport {
    /// Whether nothing needs an operator who restarts or repairs the service: for liveness probes.
    pub fn is_healthy(&self) -> bool {
        !matches!(self.state, "failed" | "closed")
    }

    /// Whether clients can read and write volumes: for readiness probes.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, "ok" | "degraded")
    }

    /// The state in the first line, then each reason in a line.
    pub fn text(&self) -> String {
        let reasons = self.reasons.iter().map(|reason| format!("\n{reason}"));
        format!("{}{}", self.state, reasons.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_and_trouble_has_a_state() {
        let health = Health::default();
        let seen = || {
            let report = health.report(None);
            (report.state, report.is_healthy(), report.is_ready())
        };
        assert_eq!(seen(), ("opening", true, false));
        health.enter(Phase::Serving);
        assert_eq!(seen(), ("ok", true, true));
        assert_eq!(health.report(None).text(), "ok");
        health.set(Concern::Full, Some("the pool is full".to_owned()));
        health.set(Concern::Late, Some("a.img is late".to_owned()));
        assert_eq!(seen(), ("degraded", true, true));
        assert_eq!(health.report(None).text(), "degraded\na.img is late\nthe pool is full");
        health.set(Concern::Full, None);
        health.set(Concern::Late, None);
        assert_eq!(seen(), ("ok", true, true));
        let place =
            |block| DamagedPlace { unit: 3, block, device: "a.img".to_owned(), holds: None };
        health.set(Concern::Damage, Some("one read has met damage".to_owned()));
        [5, 4, 5].into_iter().for_each(|block| health.damaged(place(block)));
        assert_eq!(health.damage(), [place(4), place(5)]);
        health.scrub_begins();
        health.damaged(place(5));
        health.scrub_ends();
        assert_eq!((seen().0, health.damage()), ("degraded", vec![place(5)]));
        health.scrub_begins();
        health.scrub_ends();
        assert_eq!(seen(), ("ok", true, true), "a scrub found nothing");
        health.enter(Phase::Stopping);
        assert_eq!(seen(), ("stopping", true, false));
        health.enter(Phase::Closed);
        assert_eq!(seen(), ("closed", false, false));
        health.fail("the disk is gone".to_owned());
        health.fail("something later".to_owned());
        assert_eq!(seen(), ("failed", false, false));
        assert_eq!(health.report(None).text(), "failed\nthe disk is gone");
    }
}
