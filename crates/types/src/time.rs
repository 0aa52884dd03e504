//! Virtual time.

use std::ops::{Add, AddAssign};

/// An instant or a span on the simulated clock, in nanoseconds since the start of the run.
///
/// The clock is a plain number so that simulations jump ahead freely and tests build any instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);

    /// A span of `n` nanoseconds.
    #[must_use]
    pub const fn nanos(n: u64) -> Time {
        Time(n)
    }

    /// A span of `us` microseconds; fractions are rounded to whole nanoseconds.
    #[must_use]
    pub fn micros_f64(us: f64) -> Time {
        Time((us * 1e3).round() as u64)
    }

    /// A span of `n` microseconds.
    #[must_use]
    pub const fn micros(n: u64) -> Time {
        Time(n * 1_000)
    }

    /// A span of `n` seconds.
    #[must_use]
    pub const fn seconds(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    /// The instant in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time from `earlier` to `self`, zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}
