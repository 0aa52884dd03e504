//! How fast devices wear, and whether that is faster than they may.

use std::time::{Duration, Instant};

use thermocline_format::MediaClass;

use super::{Event, Service};

/// What may still be written to the devices of a class of media, and how long they are to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endurance {
    /// Bytes, of all devices of the class together.
    pub bytes: u64,
    /// Days of service.
    pub days: u32,
}

impl Endurance {
    /// Bytes that may be written in a day.
    #[must_use]
    pub fn per_day(&self) -> f64 {
        self.bytes as f64 / f64::from(self.days.max(1))
    }
}

/// How far devices are ahead of what they may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wear {
    /// By less than half of what a day allows.
    Green,
    /// By less than a day.
    Yellow,
    /// By a day: fast devices get nothing that can go elsewhere until it is a tenth of a day less.
    Red,
}

impl Wear {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Wear::Green => "green",
            Wear::Yellow => "yellow",
            Wear::Red => "red",
        }
    }
}

/// Where yellow begins, in days. Chosen, not measured.
const YELLOW: f64 = 0.5;
/// Share of a day's budget by which red devices must recover. Chosen, not measured: 2.4 hours without host writes.
const SPARED: f64 = 0.1;
/// Interval between checks.
const EVERY: Duration = Duration::from_secs(1);

/// Wear of a class of media.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WearStatus {
    /// The class.
    pub media: MediaClass,
    /// Stated endurance.
    pub endurance: Endurance,
    /// Bytes written since the pool was started.
    pub written: u64,
    /// Time since then.
    pub elapsed: Duration,
    /// Days by which writing is ahead of the budget.
    pub ahead_days: f64,
    /// State derived from `ahead_days`.
    pub wear: Wear,
}

impl WearStatus {
    /// Years left at the present rate; `None` before the first write.
    #[must_use]
    pub fn years_left(&self) -> Option<f64> {
        /// Of a Julian year.
        const SECONDS: f64 = 365.25 * 86_400.0;
        let left = self.endurance.bytes.saturating_sub(self.written) as f64;
        let per_second = self.written as f64 / self.elapsed.as_secs_f64().max(1e-9);
        (self.written > 0).then(|| left / per_second / SECONDS)
    }
}

/// A bucket that a day's writes fill and that leaks as time goes by.
#[derive(Debug)]
struct Budget {
    status: WearStatus,
    at: Duration,
    /// Written before the engine began to count.
    earlier: u64,
}

impl Budget {
    fn new(media: MediaClass, endurance: Endurance) -> Budget {
        let (written, elapsed, ahead_days, wear) = (0, Duration::ZERO, 0.0, Wear::Green);
        let status = WearStatus { media, endurance, written, elapsed, ahead_days, wear };
        Budget { status, at: Duration::ZERO, earlier: 0 }
    }

    /// The engine had written `written` bytes when the pool had run for `elapsed`. Returns whether its state is
    /// another.
    fn update(&mut self, elapsed: Duration, written: u64) -> bool {
        let (status, written) = (&mut self.status, self.earlier + written);
        let passed = elapsed.saturating_sub(self.at).as_secs_f64() / 86_400.0;
        let more = written.saturating_sub(status.written) as f64 / status.endurance.per_day();
        status.ahead_days = (status.ahead_days - passed).max(0.0) + more;
        (status.written, status.elapsed, self.at) = (written, elapsed, elapsed);
        let before = status.wear;
        let red = if before == Wear::Red { 1.0 - SPARED } else { 1.0 };
        status.wear = match status.ahead_days {
            days if days >= red => Wear::Red,
            days if days >= YELLOW => Wear::Yellow,
            _ => Wear::Green,
        };
        status.wear != before
    }
}

/// Watches how devices wear.
#[derive(Debug)]
pub(super) struct Governor {
    budgets: Vec<Budget>,
    began: Instant,
    /// When it is looked at again.
    next: Instant,
}

impl Governor {
    pub(super) fn new(stated: &[(MediaClass, Endurance)], now: Instant) -> Governor {
        let budgets = stated.iter().map(|(media, endurance)| Budget::new(*media, *endurance));
        Governor { budgets: budgets.collect(), began: now, next: now }
    }

    /// Periodically checks the bytes `written` to each class of media. Returns classes with a changed state.
    pub(super) fn look(
        &mut self,
        now: Instant,
        written: impl Fn(MediaClass) -> u64,
    ) -> Vec<WearStatus> {
        if self.budgets.is_empty() || now < self.next {
            return Vec::new();
        }
        self.next = now + EVERY;
        let elapsed = now.saturating_duration_since(self.began);
        let changed = self.budgets.iter_mut().filter_map(|budget| {
            budget.update(elapsed, written(budget.status.media)).then_some(budget.status)
        });
        changed.collect()
    }

    /// Keeps the counts of this engine (`written`), because the next engine counts from 0.
    pub(super) fn reopens(&mut self, now: Instant, written: impl Fn(MediaClass) -> u64) {
        let elapsed = now.saturating_duration_since(self.began);
        for budget in &mut self.budgets {
            budget.update(elapsed, written(budget.status.media));
            budget.earlier = budget.status.written;
        }
    }

    /// Whether host writes must bypass fast devices.
    pub(super) fn spares_fast(&self) -> bool {
        let fast = |budget: &&Budget| budget.status.media == MediaClass::Fast;
        self.budgets.iter().find(fast).is_some_and(|budget| budget.status.wear == Wear::Red)
    }

    /// Wear of each class with a stated endurance, at the last check.
    pub(super) fn status(&self) -> Vec<WearStatus> {
        self.budgets.iter().map(|budget| budget.status).collect()
    }
}

impl Service {
    /// Diverts host writes from fast devices that wear too fast, and reports changes.
    pub(super) fn govern(&mut self) {
        let engine = self.driver.engine();
        let changed =
            self.governor.look(self.driver.clock().now(), |media| engine.written_on(media).bytes());
        if !changed.is_empty() {
            self.driver.spare_fast(self.governor.spares_fast());
        }
        for status in changed {
            (self.listener)(Event::Wear(status));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_day_of_writes_ahead_is_red_until_some_of_it_has_passed() {
        let endurance = Endurance { bytes: 100_000, days: 100 };
        let mut budget = Budget::new(MediaClass::Fast, endurance);
        assert!(!budget.update(HOUR, 499));
        assert!(budget.update(HOUR, 500) && budget.status.wear == Wear::Yellow);
        // Twelve hours allow as much.
        assert!(budget.update(13 * HOUR, 500) && budget.status.wear == Wear::Green);
        assert!(budget.update(13 * HOUR, 1500) && budget.status.wear == Wear::Red);
        assert!(!budget.update(15 * HOUR, 1500), "2 hours are less than is to be spared");
        assert!(budget.update(16 * HOUR, 1500) && budget.status.wear == Wear::Yellow);
        let ahead = budget.status.ahead_days;
        assert!((ahead - 0.875).abs() < 1e-9, "three hours of a day: {ahead}");
    }

    #[test]
    fn what_was_not_written_in_time_is_not_owed_later() {
        let mut budget = Budget::new(MediaClass::Fast, Endurance { bytes: 1000, days: 1 });
        budget.update(1000 * HOUR, 0);
        budget.update(1000 * HOUR, 1000);
        assert_eq!(budget.status.wear, Wear::Red);
    }

    #[test]
    fn years_left_are_those_at_the_rate_so_far() {
        let mut budget = Budget::new(MediaClass::Capacity, Endurance { bytes: 36_625, days: 10 });
        assert_eq!(budget.status.years_left(), None);
        budget.update(24 * HOUR, 100);
        assert_eq!(budget.status.years_left(), Some(1.0));
    }

    #[test]
    fn only_fast_devices_are_spared_and_only_when_they_are_red() {
        let stated = [MediaClass::Capacity, MediaClass::Fast]
            .map(|media| (media, Endurance { bytes: 1000, days: 1 }));
        let began = Instant::now();
        let mut governor = Governor::new(&stated, began);
        let all = |bytes| move |media| if media == MediaClass::Fast { bytes } else { 5000 };
        let changed = governor.look(began, all(900));
        assert_eq!(
            changed.iter().map(|one| one.wear).collect::<Vec<_>>(),
            [Wear::Red, Wear::Yellow]
        );
        assert!(!governor.spares_fast());
        assert!(governor.look(began + EVERY / 2, all(9000)).is_empty(), "it is not time yet");
        let changed = governor.look(began + EVERY, all(9000));
        assert_eq!(changed.len(), 1);
        assert!(governor.spares_fast() && governor.status().len() == 2);
    }
}
