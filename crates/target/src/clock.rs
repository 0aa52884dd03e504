//! The clock of the system, or the clock of a simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock; clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<ByHand>>);

#[derive(Debug)]
struct ByHand {
    origin: Instant,
    /// Nanoseconds since then.
    passed: AtomicU64,
}

impl Clock {
    /// The clock of the system.
    #[must_use]
    pub const fn system() -> Clock {
        Clock(None)
    }

    /// A clock that stands still until a call of [`Clock::advance`].
    #[must_use]
    pub fn by_hand() -> Clock {
        Clock(Some(Arc::new(ByHand { origin: Instant::now(), passed: AtomicU64::new(0) })))
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(clock) => {
                clock.origin + Duration::from_nanos(clock.passed.load(Ordering::Relaxed))
            }
        }
    }

    /// Advances a clock that stands still.
    ///
    /// # Panics
    /// If it is the clock of the system.
    pub fn advance(&self, by: Duration) {
        let clock = self.0.as_ref().expect("the clock of the system advances by itself");
        clock.passed.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// How long a clock that stands still was advanced in all.
    ///
    /// # Panics
    /// If it is the clock of the system.
    #[must_use]
    pub fn passed(&self) -> Duration {
        let clock = self.0.as_ref().expect("the clock of the system advances by itself");
        Duration::from_nanos(clock.passed.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_by_hand_moves_for_all_its_clones() {
        let clock = Clock::by_hand();
        let (other, before) = (clock.clone(), clock.now());
        assert_eq!(clock.now(), before);
        other.advance(Duration::from_millis(3));
        assert_eq!(clock.now() - before, Duration::from_millis(3));
        assert_eq!(clock.passed(), Duration::from_millis(3));
    }
}
