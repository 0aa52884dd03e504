//! Data integrity over a drive's life, and the cost of integrity: the models of [`thermocline_nand::integrity`] for a
//! use of the drive.
//!
//! Resting data is read at ages spread evenly from zero to the greatest age: the refresh interval, or the years of
//! service. Refresh adds writes: all resting data once per interval. Every figure is for the assumed bit error rates
//! and for both ends of their uncertainty.

use std::fmt;

use serde::Serialize;
use thermocline_nand::Profile;
use thermocline_nand::integrity::levelling::{Spread, WearOut, wear_out};
use thermocline_nand::integrity::{Condition, Integrity, Outcome};

use super::DomainError;

/// Days of a year, as drive makers count.
const YEAR: f64 = 365.0;
/// Ages over which reads are spread evenly.
const AGES: u32 = 8;
/// Bytes that a read of the host asks of a page; each is a read that disturbs the block. Chosen: the usual block.
const READ_BYTES: f64 = 4096.0;

/// How a drive is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Use {
    /// Temperature of the flash, °C.
    pub celsius: f64,
    /// Capacities read a day, in random reads of 4 KiB.
    pub drive_reads_per_day: f64,
    /// Capacities written a day by the host.
    pub drive_writes_per_day: f64,
    /// Media bytes for each byte of the host, without refresh.
    pub waf: f64,
    /// Share of the data that is never rewritten by the host.
    pub resting: f64,
    /// Years of service: data without refresh gets no older.
    pub service_years: f64,
}

impl Default for Use {
    /// As JESD218 has drives of data centres in use, 55 °C; otherwise chosen: one capacity read a day, a third written
    /// at a WAF of 2, half of the data at rest, five years.
    fn default() -> Use {
        Use {
            celsius: 55.0,
            drive_reads_per_day: 1.0,
            drive_writes_per_day: 0.3,
            waf: 2.0,
            resting: 0.5,
            service_years: 5.0,
        }
    }
}

impl Use {
    /// Checks that every value of the use is in range.
    ///
    /// # Errors
    /// [`DomainError`] naming the first value out of range.
    pub fn checked(self) -> Result<Use, DomainError> {
        let celsius = (-40.0..=125.0).contains(&self.celsius);
        DomainError::unless(celsius, "the temperature", self.celsius, "from -40 to 125 °C")?;
        let rates = [
            ("the capacities read a day", self.drive_reads_per_day),
            ("the capacities written a day", self.drive_writes_per_day),
        ];
        for (name, rate) in rates {
            let holds = (0.0..=1e6).contains(&rate);
            DomainError::unless(holds, name, rate, "from 0 to a million")?;
        }
        DomainError::unless(self.waf >= 1.0, "the write amplification", self.waf, "at least 1")?;
        let resting = (0.0..1.0).contains(&self.resting);
        DomainError::unless(resting, "the share at rest", self.resting, "from 0 to below 1")?;
        let years = self.service_years > 0.0 && self.service_years <= 100.0;
        DomainError::unless(
            years,
            "the years of service",
            self.service_years,
            "above 0, at most 100",
        )?;
        Ok(self)
    }
}

/// A figure at the assumed bit error rates and at both ends of their uncertainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ends {
    /// With the lowest rates.
    pub low: f64,
    /// As assumed.
    pub assumed: f64,
    /// With the highest.
    pub high: f64,
}

/// As assumed, and the ends behind it.
impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [assumed, low, high] = [self.assumed, self.low, self.high].map(order);
        if self.high < LEAST {
            return f.write_str(&high);
        }
        if self.low < LEAST {
            return write!(f, "{assumed}, at most {high}");
        }
        write!(f, "{assumed} ({low} - {high})")
    }
}

/// Smaller figures are shown as `< 1e-30`. Chosen: JESD218 asks for 1e-16.
const LEAST: f64 = 1e-30;

/// Formats a figure known to little more than the order of magnitude.
#[must_use]
pub fn order(value: f64) -> String {
    match value {
        value if value <= 0.0 => "0".into(),
        value if value < LEAST => "< 1e-30".into(),
        value if (10.0..1000.0).contains(&value) => format!("{value:.0}"),
        value if (0.1..10.0).contains(&value) => format!("{value:.1}"),
        value => format!("{value:.0e}"),
    }
}

/// State of a drive at one point of its life.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// Share of the rated cycles used up.
    pub wear: f64,
    /// Age of the oldest data, days.
    pub oldest_days: f64,
    /// Mean bit error rate of the oldest data.
    pub bit_error_rate: f64,
    /// Its parts by name.
    pub parts: Vec<(&'static str, f64)>,
    /// Codewords corrected at once, per drive and year.
    pub corrected_per_year: f64,
    /// Codewords read more than once, per drive and year.
    pub retried_per_year: Ends,
    /// Codewords rebuilt from parity, per drive and year.
    pub rebuilt_per_year: Ends,
    /// Codewords lost, per drive and year.
    pub lost_per_year: Ends,
    /// Lost codewords for each bit read.
    pub uber: Ends,
    /// The same after three months without power at 40 °C, as JESD218 asks.
    pub uber_jesd218: Ends,
    /// Days between refreshes of resting data; `None` if no refresh is due in the years of service.
    pub refresh_days: Option<f64>,
    /// Write amplification added by refresh.
    pub waf_of_refresh: f64,
    /// Read time of a page in the mean, microseconds, where time is modelled.
    pub read_us: Option<f64>,
    /// Read times within which 99, 99.9 and 99.99 % of the reads have their data, microseconds.
    pub read_us_within: Option<[f64; 3]>,
}

/// The wear of the blocks of a drive, in years of its use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WearYears {
    /// Until the first block is worn out.
    pub first_block: f64,
    /// Until the spares are used up.
    pub spares_used_up: f64,
}

/// The drive of `profile` under `usage` when a share `wear` of its cycles is used up; nothing without `[integrity]`.
#[must_use]
pub fn outlook(profile: &Profile, usage: &Use, wear: f64) -> Option<Outlook> {
    let integrity = profile.integrity.as_ref()?;
    let block = profile.geometry.as_ref().map_or(0.0, |geometry| geometry.block.as_f64());
    let disturbing = usage.drive_reads_per_day * block / READ_BYTES;
    let refresh = integrity.refresh_days(wear, usage.celsius, disturbing);
    let service = usage.service_years * YEAR;
    let refresh_days = refresh.filter(|days| *days < service);
    let oldest_days = refresh_days.unwrap_or(service);
    let at = |age_days: f64| Condition {
        wear,
        age_days,
        celsius: usage.celsius,
        reads: disturbing * age_days,
    };
    let [low, assumed, high] = ends(integrity).map(|factor| {
        let ages = (0..AGES).map(|age| oldest_days * (f64::from(age) + 0.5) / f64::from(AGES));
        let all: Vec<Outcome> = ages.map(|age| integrity.outcome(&at(age), factor)).collect();
        Outcome::mean(&all)
    });
    let jesd218 = Condition { wear, age_days: 90.0, celsius: 40.0, reads: 0.0 };
    let [jesd_low, jesd, jesd_high] =
        ends(integrity).map(|factor| integrity.outcome(&jesd218, factor).uber);
    let read_bytes = usage.drive_reads_per_day * YEAR * profile.capacity.as_f64();
    let codewords = read_bytes / integrity.ecc.codeword.as_f64();
    let of = |value: fn(&Outcome) -> f64| Ends {
        low: codewords * value(&low),
        assumed: codewords * value(&assumed),
        high: codewords * value(&high),
    };
    let errors = integrity.errors(&at(oldest_days));
    let read = profile.timing.as_ref().map(|timing| timing.read_us);
    Some(Outlook {
        wear,
        oldest_days,
        bit_error_rate: errors.rate(),
        parts: errors.parts().to_vec(),
        corrected_per_year: codewords * (1.0 - assumed.retried()),
        retried_per_year: of(Outcome::retried),
        rebuilt_per_year: of(|outcome| outcome.rebuilt),
        lost_per_year: of(|outcome| outcome.lost),
        uber: Ends { low: low.uber, assumed: assumed.uber, high: high.uber },
        uber_jesd218: Ends { low: jesd_low, assumed: jesd, high: jesd_high },
        refresh_days,
        waf_of_refresh: refresh_days.map_or(0.0, |days| {
            usage.resting / days / usage.drive_writes_per_day.max(f64::MIN_POSITIVE)
        }),
        read_us: read.map(|read| read + extra_us(integrity, &assumed)),
        read_us_within: read.map(|read| {
            [0.99, 0.999, 0.9999].map(|share| read + within_us(integrity, &assumed, 1.0 - share))
        }),
    })
}

/// Years until blocks of `profile` are worn out under `usage`, with the data at rest moved (static levelling), and
/// left.
#[must_use]
pub fn wear_years(profile: &Profile, usage: &Use) -> Option<[WearYears; 2]> {
    let cycles = profile.wear.pe_cycles?;
    let media = profile.capacity.as_f64() * (1.0 + profile.overprovisioning());
    let block = profile.geometry.as_ref()?.block.as_f64();
    let per_year =
        usage.drive_writes_per_day * usage.waf * YEAR * profile.capacity.as_f64() / media;
    let span = f64::from(profile.wear.levelling_spread.unwrap_or(0));
    let spreads = [Spread::static_levelling(span), Spread::dynamic_only(usage.resting)];
    let years = |WearOut { first_block, spares_used_up }: WearOut| WearYears {
        first_block: first_block * cycles / per_year,
        spares_used_up: spares_used_up * cycles / per_year,
    };
    let [moved, left] = spreads.map(|spread| wear_out(&profile.wear, media / block, spread));
    Some([years(moved?), years(left?)])
}

/// Bit error rates at the low end, as assumed, and at the high end.
fn ends(integrity: &Integrity) -> [f64; 3] {
    let factor = integrity.errors.uncertainty;
    [1.0 / factor, 1.0, factor]
}

/// Time that each attempt after the plain read takes, microseconds, in order.
fn attempts(integrity: &Integrity) -> Vec<f64> {
    let retry = &integrity.retry;
    let soft = (integrity.ecc.soft_bits > 0).then_some(retry.soft_us);
    std::iter::repeat_n(retry.us, retry.steps as usize).chain(soft).collect()
}

/// Time that a read takes beyond the plain read in the mean, microseconds.
pub(crate) fn extra_us(integrity: &Integrity, outcome: &Outcome) -> f64 {
    attempts(integrity).iter().zip(&outcome.beyond).map(|(us, beyond)| us * beyond).sum()
}

/// Time after the plain read within which all but a share `left` of the reads have their data.
fn within_us(integrity: &Integrity, outcome: &Outcome, left: f64) -> f64 {
    let taken = attempts(integrity).into_iter().zip(&outcome.beyond);
    taken.filter(|(_, beyond)| **beyond > left).map(|(us, _)| us).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_nand::profile::builtin;

    fn profile(name: &str) -> Profile {
        Profile::from_toml(name, builtin(name).unwrap()).unwrap()
    }

    #[test]
    fn a_drive_gets_slower_and_busier_with_wear_and_stays_whole_within_its_rating() {
        let (qlc, usage) = (profile("p5316"), Use::default());
        let [new, half, worn] = [0.0, 0.5, 1.0].map(|wear| outlook(&qlc, &usage, wear).unwrap());
        assert_eq!((new.refresh_days, new.waf_of_refresh), (None, 0.0));
        assert!(worn.waf_of_refresh > half.waf_of_refresh, "{worn:?}");
        assert!(worn.read_us > half.read_us && half.read_us >= new.read_us);
        let within = worn.read_us_within.unwrap();
        assert!(within[0] <= within[1] && within[1] <= within[2], "{within:?}");
        for outlook in [&new, &half, &worn] {
            let Ends { low, assumed, high } = outlook.uber;
            assert!(low <= assumed && assumed <= high, "{outlook:?}");
            assert!(assumed < 1e-16 && outlook.uber_jesd218.assumed < 1e-16, "{outlook:?}");
        }
    }

    /// Wear follows the writes: cycles divided by erases a year.
    #[test]
    fn years_until_blocks_are_worn_out_follow_the_writes() {
        let (tlc, usage) = (profile("pm9d3"), Use::default());
        let [moved, left] = wear_years(&tlc, &usage).unwrap();
        let mean = 5700.0 * 1.17 / (0.3 * 2.0 * 365.0);
        assert!(moved.first_block < moved.spares_used_up && moved.spares_used_up < mean);
        assert!(moved.first_block > 0.5 * mean, "{moved:?} of {mean}");
        assert!(left.spares_used_up < 0.55 * moved.spares_used_up, "{left:?}");
        let twice = Use { drive_writes_per_day: 0.6, ..usage };
        let [half, _] = wear_years(&tlc, &twice).unwrap();
        assert!((half.first_block / moved.first_block - 0.5).abs() < 1e-9);
        assert!(wear_years(&profile("ideal"), &usage).is_none());
        assert!(outlook(&profile("hdd"), &usage, 0.5).is_none());
        assert!(Use { celsius: 300.0, ..usage }.checked().is_err());
    }
}
