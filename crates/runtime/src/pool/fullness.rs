//! How full a pool is, and when it crosses the marks that an operator set.

use std::time::SystemTime;

use thermocline_engine::{Engine, HostError, Occupancy, Payload};
use thermocline_format::VolumeId;

use super::{Event, Job, Pool, Service};

/// Shares of the capacity at which a pool is nearly full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FullnessMarks {
    /// An operator should plan for more room.
    pub warning: f64,
    /// An operator must act now.
    pub critical: f64,
}

impl Default for FullnessMarks {
    /// Chosen, not measured: as thin pools of LVM warn at 80 % (`lvmthin(7)`), with less left for a pool that trims.
    fn default() -> FullnessMarks {
        FullnessMarks { warning: 0.8, critical: 0.95 }
    }
}

/// How near a pool is to refusing writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FullnessLevel {
    /// Below the warning mark.
    Normal,
    /// At or above the warning mark.
    Warning,
    /// At or above the critical mark.
    Critical,
    /// A write was refused, and hardly any room has come free since.
    Full,
}

impl FullnessLevel {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FullnessLevel::Normal => "normal",
            FullnessLevel::Warning => "warning",
            FullnessLevel::Critical => "critical",
            FullnessLevel::Full => "full",
        }
    }
}

/// By how much the share must fall below a mark until its level ends, so that few lines report many small changes.
/// Chosen, not measured.
const SLACK: f64 = 0.01;

/// How full a pool is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fullness {
    /// Occupied bytes and capacity.
    pub occupancy: Occupancy,
    /// The marks.
    pub marks: FullnessMarks,
    /// How near the pool is to refusing writes.
    pub level: FullnessLevel,
    /// Time of the last change of level, or of the pool's start.
    pub since: SystemTime,
    /// Writes that were refused since the pool was started.
    pub refused_writes: u64,
}

impl FullnessMarks {
    /// How near a pool is to refusing writes that has refused none.
    #[must_use]
    pub fn level(&self, occupancy: &Occupancy) -> FullnessLevel {
        self.level_from(occupancy, FullnessLevel::Normal)
    }

    /// As [`FullnessMarks::level`], if the pool was at level `before`.
    fn level_from(&self, occupancy: &Occupancy, before: FullnessLevel) -> FullnessLevel {
        let share = occupancy.fullness();
        let marks =
            [(FullnessLevel::Critical, self.critical), (FullnessLevel::Warning, self.warning)];
        if before == FullnessLevel::Full && share >= 1.0 - SLACK {
            return FullnessLevel::Full;
        }
        let reached = |(level, mark): &(FullnessLevel, f64)| {
            share >= if before >= *level { mark - SLACK } else { *mark }
        };
        marks.iter().find(|mark| reached(mark)).map_or(FullnessLevel::Normal, |(level, _)| *level)
    }
}

/// Watches how full a pool is.
#[derive(Debug)]
pub(super) struct Gauge {
    seen: Fullness,
    /// Writes refused by this engine; earlier engines' refusals are not included.
    refused: u64,
}

impl Gauge {
    /// Of a pool that begins now, below every mark as far as anybody was told.
    pub(super) fn new(marks: FullnessMarks, now: SystemTime) -> Gauge {
        let seen = Fullness {
            occupancy: Occupancy::default(),
            marks,
            level: FullnessLevel::Normal,
            since: now,
            refused_writes: 0,
        };
        Gauge { seen, refused: 0 }
    }

    /// Another engine counts from now on.
    pub(super) fn begin_again(&mut self) {
        self.refused = 0;
    }

    /// Looks at the engine. Returns how full the pool is if it has crossed a mark.
    fn look<P: Payload>(&mut self, engine: &Engine<P>) -> Option<Fullness> {
        self.note(engine.occupancy(), engine.stats().refused_writes, SystemTime::now)
    }

    fn note(
        &mut self,
        occupancy: Occupancy,
        refused: u64,
        now: impl FnOnce() -> SystemTime,
    ) -> Option<Fullness> {
        if occupancy == self.seen.occupancy && refused == self.refused {
            return None;
        }
        let more = refused - self.refused;
        self.refused = refused;
        self.seen.refused_writes += more;
        self.seen.occupancy = occupancy;
        let level = match more {
            0 => self.seen.marks.level_from(&occupancy, self.seen.level),
            _ => FullnessLevel::Full,
        };
        if level == self.seen.level {
            return None;
        }
        (self.seen.level, self.seen.since) = (level, now());
        Some(self.seen)
    }

    /// How full the pool was when it was looked at last.
    pub(super) fn seen(&self) -> Fullness {
        self.seen
    }
}

impl Pool {
    /// Keeps `blocks` blocks writable for a volume until the pool is closed, as [`Engine::reserve_for`].
    ///
    /// # Errors
    /// As there, and [`HostError::Failed`] of a pool that is closed.
    pub fn reserve_for(&self, volume: VolumeId, blocks: u64) -> Result<(), HostError> {
        let (sender, receiver) = std::sync::mpsc::channel();
        // The caller waits below, so the receiver exists.
        let answer = Box::new(move |result| _ = sender.send(result));
        self.shared.push(Job::Reserve { volume, blocks, answer }, None);
        receiver.recv().unwrap_or(Err(HostError::Failed))
    }
}

impl Service {
    /// Reports marks of fullness that were crossed.
    pub(super) fn gauge(&mut self) {
        if let Some(fullness) = self.gauge.look(self.driver.engine()) {
            (self.listener)(Event::Fullness(fullness));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_crossing_of_a_mark_is_reported_once_with_its_time() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut gauge = Gauge::new(FullnessMarks::default(), at(0));
        let (mut refused, mut reported) = (0, Vec::new());
        let steps: [(u64, u64, u64); 11] = [
            (700, 0, 0),
            (790, 20, 0),
            (800, 0, 0),
            (795, 0, 0),
            (960, 0, 0),
            (1000, 0, 2),
            (1000, 0, 1),
            (995, 0, 0),
            (980, 0, 0),
            (900, 0, 0),
            (500, 0, 0),
        ];
        for (second, (mapped, held, more)) in (1..).zip(steps) {
            refused += more;
            let occupancy = Occupancy { mapped, held, capacity: 1000 };
            let crossed = gauge.note(occupancy, refused, || at(second));
            reported.extend(crossed.map(|seen| (second, seen.level)));
            if let Some(seen) = crossed {
                assert_eq!(seen.since, at(second));
            }
        }
        use FullnessLevel::{Critical, Full, Normal, Warning};
        let expected =
            [(2, Warning), (5, Critical), (6, Full), (9, Critical), (10, Warning), (11, Normal)];
        assert_eq!(reported, expected);
        assert_eq!(gauge.seen().refused_writes, 3);
        gauge.begin_again();
        let occupancy = Occupancy { mapped: 500, held: 0, capacity: 1000 };
        assert_eq!(gauge.note(occupancy, 0, || at(20)), None, "another engine counts from 0");
        assert_eq!(gauge.seen().refused_writes, 3);
    }
}
