//! What correction makes of wrong bits: corrected at once, retried, rebuilt from parity, or lost.
//!
//! A codeword of `n` bits at bit error rate `p` has more than `t` wrong bits with the upper tail of the binomial
//! distribution. A plain read corrects `hard_bits`; each retry sees `factor` times the rate; the last attempt corrects
//! `soft_bits`. A page whose rate is what fails an attempt fails the earlier ones as well, so that the chance to get
//! beyond an attempt is that attempt's own. Parity rebuilds a page if all others of its stripe can be read; pages of
//! a stripe fail independently of each other. Means are over the log-normal spread of pages, by the trapezoidal rule.

use super::{Condition, Integrity};

/// What becomes of a codeword that is read, as probabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Needing more than each attempt: the plain read, each retry, and soft information if enabled.
    pub beyond: Vec<f64>,
    /// No attempt corrects the codeword.
    pub uncorrectable: f64,
    /// Parity rebuilds the codeword.
    pub rebuilt: f64,
    /// The codeword is lost.
    pub lost: f64,
    /// Lost codewords for each bit of data read (UBER, JESD218).
    pub uber: f64,
}

impl Outcome {
    /// Chance that the first read is not enough.
    #[must_use]
    pub fn retried(&self) -> f64 {
        self.beyond.first().copied().unwrap_or(0.0)
    }

    /// Mean of several outcomes of equal length, all of the same weight.
    ///
    /// # Panics
    /// If `all` is empty.
    #[must_use]
    pub fn mean(all: &[Outcome]) -> Outcome {
        let of =
            |value: &dyn Fn(&Outcome) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
        Outcome {
            beyond: (0..all[0].beyond.len()).map(|step| of(&|o| o.beyond[step])).collect(),
            uncorrectable: of(&|o| o.uncorrectable),
            rebuilt: of(&|o| o.rebuilt),
            lost: of(&|o| o.lost),
            uber: of(&|o| o.uber),
        }
    }
}

/// Steps of the mean over pages, and how many standard deviations it goes to either side: the normal density is below
/// 10^-31 there.
const STEP: f64 = 0.05;
const REACH: i32 = 240;

impl Integrity {
    /// What becomes of a codeword read under `condition`, with all bit error rates multiplied by `factor`: 1, or an end
    /// of their uncertainty.
    #[must_use]
    pub fn outcome(&self, condition: &Condition, factor: f64) -> Outcome {
        self.outcome_at(self.errors(condition).rate() * factor)
    }

    /// What becomes of a codeword at the mean bit error rate `rate`.
    pub(crate) fn outcome_at(&self, rate: f64) -> Outcome {
        let ecc = &self.ecc;
        let mut beyond: Vec<f64> =
            self.attempts().iter().map(|(by, bits)| self.over_pages(rate * by, *bits)).collect();
        // Soft information never fails where a plain read would have done.
        for index in 1..beyond.len() {
            beyond[index] = beyond[index].min(beyond[index - 1]);
        }
        let uncorrectable = beyond.last().copied().unwrap_or(1.0);
        let others = match self.parity.dies {
            0 | 1 => 1.0,
            dies => -(f64::from(dies - 1) * (-uncorrectable).ln_1p()).exp_m1(),
        };
        let lost = uncorrectable * others;
        Outcome {
            beyond,
            uncorrectable,
            rebuilt: uncorrectable - lost,
            lost,
            uber: lost / (ecc.codeword.as_f64() * 8.0),
        }
    }

    /// By what each attempt multiplies the bit error rate, and how many wrong bits it corrects.
    fn attempts(&self) -> Vec<(f64, u32)> {
        let (ecc, retry) = (&self.ecc, &self.retry);
        let mut attempts: Vec<(f64, u32)> =
            (0..=retry.steps).map(|step| (retry.factor.powi(step as i32), ecc.hard_bits)).collect();
        if ecc.soft_bits > 0 {
            attempts.push((retry.factor.powi(retry.steps as i32), ecc.soft_bits));
        }
        attempts
    }

    /// Chance that a codeword of a page with the bit error rate `rate` takes more than each attempt.
    pub(crate) fn beyond_on_page(&self, rate: f64) -> Vec<f64> {
        let n = self.ecc.bits().round() as u64;
        let chance = |(by, bits): (f64, u32)| upper_tail(n, (rate * by).min(0.5), u64::from(bits));
        let mut beyond: Vec<f64> = self.attempts().into_iter().map(chance).collect();
        for index in 1..beyond.len() {
            beyond[index] = beyond[index].min(beyond[index - 1]);
        }
        beyond
    }

    /// Chance of more than `bits` wrong bits in a codeword at the mean rate `rate`, over all pages.
    fn over_pages(&self, rate: f64, bits: u32) -> f64 {
        let n = self.ecc.bits().round() as u64;
        let spread = self.errors.spread;
        if spread == 0.0 {
            return upper_tail(n, rate.min(0.5), u64::from(bits));
        }
        let mut sum = 0.0;
        for step in -REACH..=REACH {
            let z = f64::from(step) * STEP;
            let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let page = (rate * (spread * z - 0.5 * spread * spread).exp()).min(0.5);
            sum += density * STEP * upper_tail(n, page, u64::from(bits));
        }
        sum.min(1.0)
    }
}

/// Chance of more than `bits` of `n` trials at probability `p` each.
fn upper_tail(n: u64, p: f64, bits: u64) -> f64 {
    if p <= 0.0 || bits >= n {
        return 0.0;
    }
    let odds = p / (1.0 - p);
    if (bits as f64) < n as f64 * p {
        // The lower tail, downwards from `bits`.
        let mut term = ln_term(n, p, bits).exp();
        let mut sum = 0.0;
        for k in (0..=bits).rev() {
            sum += term;
            term *= k as f64 / ((n - k + 1) as f64 * odds);
            if term < sum * 1e-17 {
                break;
            }
        }
        return (1.0 - sum).clamp(0.0, 1.0);
    }
    let mut term = ln_term(n, p, bits + 1).exp();
    let mut sum = 0.0;
    for k in bits + 1..=n {
        sum += term;
        term *= (n - k) as f64 * odds / (k + 1) as f64;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum.min(1.0)
}

/// Logarithm of the chance of exactly `k` of `n`.
fn ln_term(n: u64, p: f64, k: u64) -> f64 {
    let choose = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    choose + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()
}

/// Stirling's series, to better than 10^-10 from 10 on; the sum of logarithms below.
fn ln_factorial(n: u64) -> f64 {
    if n < 10 {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    let x = n as f64;
    let square = x * x;
    x * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI * x).ln() + 1.0 / (12.0 * x)
        - 1.0 / (360.0 * x * square)
        + 1.0 / (1260.0 * x * square * square)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_that_of_the_binomial_distribution() {
        // Worked exactly: 1 - (1 - p)^n, and the chance of more than 2 of 4 at 0.5: 5/16.
        assert!((upper_tail(4, 0.5, 2) - 5.0 / 16.0).abs() < 1e-12);
        let none = 1.0 - 0.999_f64.powi(1000);
        assert!((upper_tail(1000, 1e-3, 0) / none - 1.0).abs() < 1e-10);
        assert!(upper_tail(10, 0.0, 0) + upper_tail(10, 0.3, 10) < f64::MIN_POSITIVE);
        // Both ways of summing meet.
        for bits in [30_u64, 39, 40, 41, 50] {
            let direct: f64 = (bits + 1..=4000).map(|k| ln_term(4000, 0.01, k).exp()).sum();
            assert!((upper_tail(4000, 0.01, bits) / direct - 1.0).abs() < 1e-9, "{bits}");
        }
    }

    #[test]
    fn factorials_are_right() {
        let exact: f64 = (2..=50_u64).map(|k| (k as f64).ln()).sum();
        assert!((ln_factorial(50) - exact).abs() < 1e-10);
        let exact: f64 = (2..=10_u64).map(|k| (k as f64).ln()).sum();
        assert!((ln_factorial(10) - exact).abs() < 1e-9);
    }
}
