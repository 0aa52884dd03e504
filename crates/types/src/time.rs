//! Virtual time.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

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

/// Text that is no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTimeError {
    text: String,
}

impl fmt::Display for ParseTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no time of 0us to 1000s: write a number and us, ms or s, such as 2ms",
            self.text
        )
    }
}

impl std::error::Error for ParseTimeError {}

/// Reads `0`, `250us`, `2ms`, `1.5s`; at most 1000 s.
impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
        let trimmed = text.trim();
        let split = units.iter().find_map(|(unit, us)| Some((trimmed.strip_suffix(unit)?, *us)));
        let (number, factor) = split.unwrap_or((trimmed, 0.0));
        let number = number.trim().parse::<f64>().ok().filter(|n| factor > 0.0 || *n == 0.0);
        let fits = number.map(|n| n * factor).filter(|us| (0.0..=1e9).contains(us));
        fits.map(Time::micros_f64).ok_or_else(|| ParseTimeError { text: text.to_owned() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, ns) in
            [("0", 0), ("250us", 250_000), ("2ms", 2_000_000), (" 1.5 s", 1_500_000_000)]
        {
            assert_eq!(text.parse(), Ok(Time(ns)), "{text}");
        }
        for wrong in ["", "2", "-1ms", "2m", "1001s", "ms"] {
            assert!(
                wrong.parse::<Time>().unwrap_err().to_string().contains("such as 2ms"),
                "{wrong}"
            );
        }
    }
}
