//! Steady state by the rule of the SNIA Solid State Storage Performance Test Specification, applied to write
//! amplification.
//!
//! The specification takes five rounds and asks that all lie within ±10 % of their mean and that the least-squares line
//! through them rises or falls by no more than 10 % of it. A round here is a quarter of a drive fill, and at least
//! three drive fills must have been written.

/// Rounds looked at together.
const ROUNDS: usize = 5;
/// Drive fills in one round.
pub const FILLS_PER_ROUND: f64 = 0.25;
/// Drive fills needed in all.
const FILLS_NEEDED: f64 = 3.0;
/// Largest difference between rounds, and largest drift over them, as shares of their mean.
const RANGE: f64 = 0.2;
const DRIFT: f64 = 0.1;

/// The rule in words.
pub const RULE: &str = "SNIA PTS on write amplification: 5 rounds of 0.25 drive fills within ±10 % of their mean, fitted \
                        slope at most 10 % of it over the window, at least 3 drive fills written";

/// The first round of the first window of rounds that is steady, if there is one.
#[must_use]
pub fn first_steady_round(rounds: &[f64]) -> Option<usize> {
    let needed = (FILLS_NEEDED / FILLS_PER_ROUND) as usize;
    (ROUNDS..=rounds.len())
        .filter(|&end| end >= needed)
        .map(|end| end - ROUNDS)
        .find(|&start| is_steady(&rounds[start..start + ROUNDS]))
}

fn is_steady(window: &[f64]) -> bool {
    let n = window.len() as f64;
    let mean = window.iter().sum::<f64>() / n;
    let (low, high) = window
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    let middle = (n - 1.0) / 2.0;
    let (products, squares) = window.iter().enumerate().fold((0.0, 0.0), |(xy, xx), (i, &y)| {
        let x = i as f64 - middle;
        (xy + x * y, xx + x * x)
    });
    let drift = (products / squares).abs() * (n - 1.0);
    high - low <= RANGE * mean && drift <= DRIFT * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_is_steady_as_soon_as_enough_is_written() {
        assert_eq!(first_steady_round(&[2.0; 11]), None);
        assert_eq!(first_steady_round(&[2.0; 12]), Some(7));
    }

    #[test]
    fn drift_and_noise_beyond_the_rule_are_not() {
        let rising: Vec<f64> = (0..20).map(|i| 1.0 + 0.1 * f64::from(i)).collect();
        assert_eq!(first_steady_round(&rising), None);
        let noisy: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { 1.0 } else { 1.3 }).collect();
        assert_eq!(first_steady_round(&noisy), None);
        let settling: Vec<f64> = (0..40).map(|i| 3.0 - 2.0 * 0.8_f64.powi(i)).collect();
        let start = first_steady_round(&settling).unwrap();
        assert!((6..12).contains(&start), "{start}");
    }
}
