//! Bit errors, by cause.
//!
//! ```text
//! rate = fresh + program_disturb + cycled · w^m
//!      + retained · (0.05 + 0.95 w^m) · (t / 90 days)^a + per_read · (0.1 + 0.9 w) · reads
//! ```
//!
//! `w` is the share of the rated cycles that is used up. Growth by a power of the cycles is after Mielke et al. (IRPS
//! 2008); by a power of the age, a straight line on two logarithmic axes, after Luo et al. (SIGMETRICS 2018); linear in
//! reads with a slope that grows with wear, after Cai et al. (DSN 2015). All three were read as abstracts or are
//! remembered (unverified), and so are the shares that a new block has, which are assumed. Age is stretched by
//! temperature as JEDEC JESD22-A117 does (Arrhenius): `e^(Ea / k · (1 / 313.15 K − 1 / T))` times as long as at 40 °C.
//! Yang et al. (TCAD 2025) find that one activation energy does not fit QLC at all temperatures.
//!
//! Pages differ: the rate of a page is log-normal around the mean with [`BitErrors::spread`].

use serde::Deserialize;

use super::Integrity;

/// Boltzmann's constant in eV per kelvin (exact since 2019).
const BOLTZMANN_EV: f64 = 8.617_333e-5;
/// 0 °C in kelvin.
const ZERO_CELSIUS: f64 = 273.15;
/// The temperature for which retention is stated, °C: that of JESD218 for drives without power.
pub const STATED_CELSIUS: f64 = 40.0;
/// The age for which it is stated, days: the three months of JESD218 for drives of data centres.
pub const STATED_DAYS: f64 = 90.0;
/// Shares of retention loss and of read disturb that a block has without wear. Assumed.
const UNWORN_RETENTION: f64 = 0.05;
const UNWORN_DISTURB: f64 = 0.1;

/// Bit error rates.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BitErrors {
    /// Of a new block that was just written.
    pub fresh: f64,
    /// Rate added by the rated cycles.
    pub cycled: f64,
    /// Exponent of the growth with cycles.
    pub cycle_exponent: f64,
    /// Rate added by 90 days at 40 °C after the rated cycles.
    pub retained: f64,
    /// Exponent by which that grows with age.
    pub age_exponent: f64,
    /// Activation energy of retention loss, eV.
    pub activation_ev: f64,
    /// What each read of a page of the block adds after the rated cycles.
    pub per_read: f64,
    /// What programming neighbours adds.
    pub program_disturb: f64,
    /// Standard deviation of the logarithm between pages.
    pub spread: f64,
    /// Factor by which all rates may be off either way.
    pub uncertainty: f64,
}

/// The history of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// Share of the rated cycles used up.
    pub wear: f64,
    /// Days since it was written.
    pub age_days: f64,
    /// Temperature meanwhile, °C.
    pub celsius: f64,
    /// Reads of pages of its block meanwhile.
    pub reads: f64,
}

/// Mean bit error rate by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RawErrors {
    /// Of new cells.
    pub fresh: f64,
    /// By wear.
    pub wear: f64,
    /// By age.
    pub retention: f64,
    /// By reads.
    pub read_disturb: f64,
    /// By programming neighbours.
    pub program_disturb: f64,
}

impl RawErrors {
    /// The parts by name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f64); 5] {
        [
            ("fresh", self.fresh),
            ("wear", self.wear),
            ("retention", self.retention),
            ("read disturb", self.read_disturb),
            ("program disturb", self.program_disturb),
        ]
    }

    /// Their sum.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.parts().iter().map(|(_, rate)| rate).sum()
    }
}

/// By what time is stretched at `celsius` against 40 °C for the activation energy `ev`.
#[must_use]
pub fn acceleration(ev: f64, celsius: f64) -> f64 {
    let inverse = |celsius: f64| 1.0 / (celsius + ZERO_CELSIUS);
    (ev / BOLTZMANN_EV * (inverse(STATED_CELSIUS) - inverse(celsius))).exp()
}

impl Integrity {
    /// The mean bit error rate under `condition`.
    #[must_use]
    pub fn errors(&self, condition: &Condition) -> RawErrors {
        let Condition { wear, age_days, celsius, reads } = *condition;
        let errors = &self.errors;
        let worn = wear.powf(errors.cycle_exponent);
        let age = age_days * acceleration(errors.activation_ev, celsius) / STATED_DAYS;
        let leaking = UNWORN_RETENTION + (1.0 - UNWORN_RETENTION) * worn;
        let disturbed = UNWORN_DISTURB + (1.0 - UNWORN_DISTURB) * wear;
        RawErrors {
            fresh: errors.fresh,
            wear: errors.cycled * worn,
            retention: errors.retained * leaking * age.powf(errors.age_exponent),
            read_disturb: errors.per_read * disturbed * reads,
            program_disturb: errors.program_disturb,
        }
    }
}
