//! Data integrity: bit errors, correction, upkeep and loss.
//!
//! Closed forms for one condition (wear, age, temperature, reads), for the `[integrity]` of a profile. They stand
//! beside the simulated drives, which take the limits of `[refresh]` and the chances of `[aged]` from them. Begin at
//! [`Integrity::errors`], [`Integrity::outcome`] and [`Integrity::refresh_days`]; `levelling` has the wear of many
//! blocks.
//!
//! Most values are assumptions of the right order: makers publish hardly any values. [`BitErrors::uncertainty`] is a
//! factor by which every bit error rate may be off either way, and figures must show both ends.
//!
//! A profile names its kind of cells, `cells = "tlc"`, and may replace any value of that class. Without `[integrity]`
//! nothing is modelled. Each part can be switched off: rates of 0, `retry.steps = 0`, `ecc.soft_bits = 0`,
//! `parity.dies = 0`, `upkeep.refresh_at = 0`.

mod correction;
mod errors;
pub mod levelling;
mod upkeep;

use serde::Deserialize;
use thermocline_types::Bytes;

use crate::profile::{WrongKey, size};

pub use correction::Outcome;
pub use errors::{BitErrors, Condition, RawErrors, acceleration};
pub use upkeep::Upkeep;

/// How data is kept whole.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Integrity {
    /// Kind of cells, which has every value that the profile does not give: `slc`, `mlc`, `tlc` or `qlc`.
    pub cells: String,
    /// Bits that are read wrong.
    pub errors: BitErrors,
    /// Error correction.
    pub ecc: Ecc,
    /// Reading again.
    pub retry: Retry,
    /// Parity over dies.
    pub parity: Parity,
    /// Patrol and refresh.
    pub upkeep: Upkeep,
    /// Whole drives that fail, for other reasons than wear.
    pub failures: Failures,
}

/// Error correction of one codeword.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ecc {
    /// Data of a codeword.
    #[serde(deserialize_with = "size")]
    pub codeword: Bytes,
    /// Bytes of correction over bytes of data.
    pub overhead: f64,
    /// Wrong bits of a codeword that a plain read corrects.
    pub hard_bits: u32,
    /// Wrong bits that are corrected with soft information, from several reads at different voltages; 0 without it.
    pub soft_bits: u32,
}

impl Ecc {
    /// Bits of a codeword with its correction.
    #[must_use]
    pub fn bits(&self) -> f64 {
        self.codeword.as_f64() * 8.0 * (1.0 + self.overhead)
    }

    /// The most wrong bits that can be corrected in any way.
    #[must_use]
    pub fn most_bits(&self) -> u32 {
        self.hard_bits.max(self.soft_bits)
    }
}

/// Reading again with moved reference voltages.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How often at most.
    pub steps: u32,
    /// By what the bit error rate is multiplied each time.
    pub factor: f64,
    /// Time of each, microseconds.
    pub us: f64,
    /// Time of reading soft information, microseconds.
    pub soft_us: f64,
}

/// Parity over dies: one page of every stripe.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parity {
    /// Pages of a stripe, including the parity page; 0 without parity.
    pub dies: u32,
}

impl Parity {
    /// Share of the media that parity takes.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.dies < 2 { 0.0 } else { 1.0 / f64::from(self.dies) }
    }
}

/// Drives that fail as a whole: `per_year · (1 + infant_factor · e^(−t / infant_days))`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failures {
    /// Share a year when drives are no longer new.
    pub per_year: f64,
    /// How many times that comes on top when they are new.
    pub infant_factor: f64,
    /// Days in which that falls to a third.
    pub infant_days: f64,
}

impl Failures {
    /// Share of drives that fail between two ages in days.
    #[must_use]
    pub fn between(&self, from: f64, to: f64) -> f64 {
        let tau = self.infant_days;
        let infants = tau * ((-from / tau).exp() - (-to / tau).exp());
        let expected = self.per_year / 365.0 * (to - from + self.infant_factor * infants);
        1.0 - (-expected).exp()
    }
}

/// The classes of cells with their values.
const CLASSES: [(&str, &str); 4] = [
    ("slc", include_str!("classes/slc.toml")),
    ("mlc", include_str!("classes/mlc.toml")),
    ("tlc", include_str!("classes/tlc.toml")),
    ("qlc", include_str!("classes/qlc.toml")),
];

/// The values of the cells called `name` as TOML, each with its source.
#[must_use]
pub fn class(name: &str) -> Option<&'static str> {
    CLASSES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Puts the values of the class into `[integrity]` of `profile`, where it names one and has no own.
pub(crate) fn complete(profile: &mut toml::Table) -> Result<(), WrongKey> {
    let Some(given) = profile.get_mut("integrity").and_then(toml::Value::as_table_mut) else {
        return Ok(());
    };
    let Some(name) = given.get("cells").and_then(toml::Value::as_str) else { return Ok(()) };
    let text = class(name).ok_or_else(|| WrongKey {
        key: "integrity.cells".into(),
        reason: format!("`{name}` is none of {}", CLASSES.map(|(name, _)| name).join(", ")),
    })?;
    let mut values: toml::Table = text.parse().expect("a class is TOML");
    values.remove("source");
    overlay(&mut values, given);
    *given = values;
    Ok(())
}

fn overlay(values: &mut toml::Table, given: &toml::Table) {
    for (key, value) in given {
        match (values.get_mut(key).and_then(toml::Value::as_table_mut), value.as_table()) {
            (Some(inner), Some(given)) => overlay(inner, given),
            _ => {
                values.insert(key.clone(), value.clone());
            }
        }
    }
}

impl Integrity {
    /// The rules for the values: key, whether the value is acceptable, requirement.
    pub(crate) fn rules(&self) -> Vec<(&'static str, bool, &'static str)> {
        let Integrity { errors, ecc, retry, parity, upkeep, failures, .. } = self;
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let rates =
            [errors.fresh, errors.cycled, errors.retained, errors.per_read, errors.program_disturb];
        let exponents = [errors.cycle_exponent, errors.age_exponent, errors.activation_ev];
        let times = [retry.us, retry.soft_us, upkeep.patrol_days];
        let bits = f64::from(ecc.most_bits()) < ecc.bits() / 2.0;
        vec![
            ("integrity.errors", rates.into_iter().all(share), "rates must be between 0 and 1"),
            (
                "integrity.errors",
                exponents.iter().all(|value| (0.0..=10.0).contains(value)),
                "exponents and activation_ev must be between 0 and 10",
            ),
            ("integrity.errors.spread", (0.0..=2.0).contains(&errors.spread), "must be 0 to 2"),
            (
                "integrity.errors.uncertainty",
                (1.0..=100.0).contains(&errors.uncertainty),
                "is a factor, 1 to 100",
            ),
            ("integrity.ecc.codeword", ecc.codeword.0 > 0, "must be above 0"),
            ("integrity.ecc.overhead", share(ecc.overhead), "must be between 0 and 1"),
            ("integrity.ecc", bits, "corrects less than half of the bits"),
            ("integrity.retry.steps", retry.steps <= 100, "must be at most 100"),
            (
                "integrity.retry.factor",
                retry.factor > 0.0 && retry.factor <= 1.0,
                "must be above 0 and at most 1",
            ),
            (
                "integrity",
                times.iter().all(|us| (0.0..1e9).contains(us)),
                "times must be 0 to 10^9",
            ),
            ("integrity.parity.dies", parity.dies != 1, "must be 0 or at least 2"),
            ("integrity.upkeep.refresh_at", share(upkeep.refresh_at), "must be between 0 and 1"),
            ("integrity.failures.per_year", share(failures.per_year), "must be between 0 and 1"),
            (
                "integrity.failures",
                failures.infant_factor >= 0.0 && failures.infant_days > 0.0,
                "infant_factor must be 0 or more, infant_days above 0",
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
