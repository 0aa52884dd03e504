//! Upkeep that keeps data correctable: a drive periodically reads all data and rewrites blocks with many errors.

use serde::Deserialize;

use super::{Condition, Integrity};

/// Patrol and refresh.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upkeep {
    /// Days in which a patrol reads all of the media once; 0 without patrol.
    pub patrol_days: f64,
    /// A block is rewritten when its bad pages (two standard deviations above the mean) have this share of the wrong
    /// bits that can be corrected; 0 without refresh.
    pub refresh_at: f64,
}

/// Standard deviations above the mean of the pages that refresh looks at. Chosen: one page in forty-four is worse.
const BAD_PAGES: f64 = 2.0;
/// Longest interval reported, days: a hundred years.
const NEVER: f64 = 36_500.0;
/// Most reads reported.
const MOST_READS: f64 = 1e12;

impl Integrity {
    /// Days after which a block is rewritten at `wear`, `celsius` and `reads_per_day` reads of pages; `None` for never,
    /// or without refresh. A slower patrol detects the block later.
    #[must_use]
    pub fn refresh_days(&self, wear: f64, celsius: f64, reads_per_day: f64) -> Option<f64> {
        let at = |age_days: f64| {
            let reads = reads_per_day * age_days;
            Condition { wear, age_days, celsius, reads }
        };
        Some(self.first_bad(NEVER, at)?.max(self.upkeep.patrol_days))
    }

    /// Page reads after which a freshly written block is rewritten at `wear`; `None` for never, or without refresh.
    #[must_use]
    pub fn refresh_reads(&self, wear: f64) -> Option<f64> {
        self.first_bad(MOST_READS, |reads| Condition { wear, age_days: 0.0, celsius: 40.0, reads })
    }

    /// The least value, up to `most`, of what makes a block worse, at which its bad pages have the share of wrong bits
    /// at which it is rewritten.
    fn first_bad(&self, most: f64, at: impl Fn(f64) -> Condition) -> Option<f64> {
        if self.upkeep.refresh_at == 0.0 {
            return None;
        }
        let (errors, ecc) = (&self.errors, &self.ecc);
        let bad = (BAD_PAGES * errors.spread - 0.5 * errors.spread * errors.spread).exp();
        let limit = self.upkeep.refresh_at * f64::from(ecc.most_bits()) / ecc.bits();
        let rate = |value: f64| self.errors(&at(value)).rate() * bad;
        if rate(most) <= limit {
            return None;
        }
        // Rates grow: halve the interval in which the limit is passed.
        let (mut low, mut high) = (0.0, most);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            if rate(middle) <= limit { low = middle } else { high = middle }
        }
        Some(high)
    }
}
