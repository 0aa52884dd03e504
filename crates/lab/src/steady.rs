//! Steady state by the rule of the SNIA Solid State Storage Performance Test Specification, applied
//! to write amplification.
//!
//! The specification takes five rounds and asks that all lie within ±10 % of their mean and that the
//! least-squares line through them rises or falls by no more than 10 % of it. A round here is a
//! quarter of a drive fill, or one pass of a trace, since what differs
//! within a pass is the trace's own doing. At least three drive fills must have been written. One
//! thing is asked beyond the specification: the mean of what follows must lie within ±10 % of the
//! window's, lest a quiet phase pass for the steady state.

use thermocline_types::Bytes;

/// Rounds looked at together.
pub(crate) const ROUNDS: usize = 5;
/// Drive fills in one round of a workload that does not repeat itself.
const FILLS_PER_ROUND: f64 = 0.25;
/// Drive fills needed in all.
const FILLS_NEEDED: f64 = 3.0;
/// Largest difference between rounds, and largest drift over them, as shares of their mean.
const RANGE: f64 = 0.2;
const DRIFT: f64 = 0.1;
/// Largest difference of what follows from the window.
const BEYOND: f64 = 0.1;

/// How a run is divided into rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// Host bytes written in a round.
    pub length: Bytes,
    /// Rounds until the needed drive fills are reached.
    needed: usize,
    unit: &'static str,
}

impl Rounds {
    /// Rounds of a workload on a drive of `capacity`; `pass` is the bytes written by one pass of a trace.
    #[must_use]
    pub fn new(capacity: Bytes, pass: Option<Bytes>) -> Self {
        let quarter = Bytes(((capacity.as_f64() * FILLS_PER_ROUND) as u64).max(1));
        let length = pass.unwrap_or(quarter).max(Bytes(1));
        let needed = (FILLS_NEEDED * capacity.as_f64() / length.as_f64()).ceil() as usize;
        let unit = if pass.is_some() { "one pass of the trace" } else { "0.25 drive fills" };
        Rounds { length, needed, unit }
    }

    /// The rule in words.
    #[must_use]
    pub fn rule(&self) -> String {
        format!(
            "SNIA PTS on write amplification: {ROUNDS} rounds of {} within ±10 % of their mean, fitted \
             slope at most 10 % of it over the window, at least {FILLS_NEEDED} drive fills written, and \
             what follows within ±10 % of the window",
            self.unit
        )
    }

    /// The first round of the first window that is steady, if there is one, given the write amplification of every
    /// round.
    #[must_use]
    pub fn first_steady(&self, rounds: &[f64]) -> Option<usize> {
        (ROUNDS..=rounds.len()).filter(|&end| end >= self.needed).map(|end| end - ROUNDS).find(
            |&start| {
                let (window, rest) = rounds[start..].split_at(ROUNDS);
                is_steady(window) && continues(window, rest)
            },
        )
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn continues(window: &[f64], rest: &[f64]) -> bool {
    rest.is_empty() || (mean(rest) / mean(window) - 1.0).abs() <= BEYOND
}

/// How far values are from constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// Their mean.
    pub(crate) mean: f64,
    /// Largest difference between any two of them.
    pub(crate) range: f64,
    /// What the least-squares line rises from the first of them to the last; negative where it falls.
    pub(crate) drift: f64,
}

impl Fit {
    /// The fit of `values`, two at least.
    pub(crate) fn of(values: &[f64]) -> Fit {
        let n = values.len() as f64;
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        let middle = (n - 1.0) / 2.0;
        let (products, squares) =
            values.iter().enumerate().fold((0.0, 0.0), |(xy, xx), (i, &y)| {
                let x = i as f64 - middle;
                (xy + x * y, xx + x * x)
            });
        Fit { mean: mean(values), range: high - low, drift: products / squares * (n - 1.0) }
    }

    /// Whether they are steady by the specification.
    pub(crate) fn is_steady(&self) -> bool {
        self.range <= RANGE * self.mean && self.drift.abs() <= DRIFT * self.mean
    }
}

fn is_steady(window: &[f64]) -> bool {
    Fit::of(window).is_steady()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarters(rounds: &[f64]) -> Option<usize> {
        Rounds::new(Bytes::gib(4), None).first_steady(rounds)
    }

    #[test]
    fn constant_is_steady_as_soon_as_enough_is_written() {
        assert_eq!(quarters(&[2.0; 11]), None);
        assert_eq!(quarters(&[2.0; 12]), Some(7));
    }

    #[test]
    fn drift_and_noise_beyond_the_rule_are_not() {
        let rising: Vec<f64> = (0..20).map(|i| 1.0 + 0.1 * f64::from(i)).collect();
        assert_eq!(quarters(&rising), None);
        let noisy: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { 1.0 } else { 1.3 }).collect();
        assert_eq!(quarters(&noisy), None);
        let settling: Vec<f64> = (0..40).map(|i| 3.0 - 2.0 * 0.8_f64.powi(i)).collect();
        let start = quarters(&settling).unwrap();
        assert!((6..14).contains(&start), "{start}");
    }

    #[test]
    fn a_quiet_phase_is_not_the_steady_state() {
        let phases: Vec<f64> = (0..40).map(|i| if i / 10 % 2 == 1 { 4.0 } else { 1.1 }).collect();
        let start = quarters(&phases).unwrap();
        assert!(start >= 30, "only the last phase has nothing else after it: {start}");
    }

    #[test]
    fn passes_of_a_trace_are_its_rounds() {
        let passes = Rounds::new(Bytes::gib(4), Some(Bytes::gib(3)));
        assert_eq!(passes.first_steady(&[2.0; 4]), None, "five passes are needed");
        assert_eq!(passes.first_steady(&[1.5, 2.0, 2.0, 2.0, 2.0, 2.0]), Some(1));
        assert!(passes.rule().contains("one pass"));
        let short = Rounds::new(Bytes::gib(4), Some(Bytes::gib(1)));
        assert_eq!(short.first_steady(&[2.0; 11]), None, "three drive fills are needed");
        assert_eq!(short.first_steady(&[2.0; 12]), Some(7));
    }
}
