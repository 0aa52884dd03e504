//! Skewed overwrites when the layer keeps hot and cold data in the same blocks.

use super::solve::bisect;
use super::{Overprovisioning, Population};

/// FIFO cleaning of everything in one log: WAF A solves `A = Σ_k r_k / (1 − e^(−r_k α / (s_k A)))`.
///
/// A unit of part k is rewritten at rate r_k/(s_k L) per host write and stays in a block for αL/A host writes, so it is
/// overwritten before its block is cleaned with probability `1 − e^(−r_k α/(s_k A))`; the reciprocal counts its copies
/// per host write. Desnoyers, SYSTOR 2012 (two parts; the sum over parts is the same argument).
#[must_use]
pub fn fifo_waf(population: &Population, op: Overprovisioning) -> f64 {
    let alpha = op.alpha();
    let excess = |a: f64| {
        let copies = population.parts().iter().map(|part| {
            let overwritten = -(-part.writes * alpha / (part.data * a)).exp_m1();
            part.writes / overwritten
        });
        a - copies.sum::<f64>()
    };
    let mut high = 2.0;
    while excess(high) < 0.0 {
        high *= 2.0;
    }
    bisect(1.0, high, excess)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::{Part, uniform};

    fn op(ratio: f64) -> Overprovisioning {
        Overprovisioning::from_ratio(ratio).expect("in range")
    }

    #[test]
    fn without_skew_it_is_the_uniform_formula() {
        for ratio in [0.03, 0.07, 0.15, 0.5, 2.0] {
            let uniform = uniform::fifo_waf(op(ratio));
            let halves = Population::hot_cold(0.5, 0.5).expect("in range");
            let flat = Population::zipf(0.0, 1 << 20).expect("in range");
            for same in [fifo_waf(&halves, op(ratio)), fifo_waf(&flat, op(ratio))] {
                assert!((same / uniform - 1.0).abs() < 1e-9, "{ratio}: {same} against {uniform}");
            }
        }
    }

    /// Binned ranks give the same printed figures as one part per rank at N = 100 000.
    #[test]
    fn binned_zipf_equals_one_part_per_rank() {
        let units = 100_000_u32;
        for theta in [0.6, 1.0, 1.2] {
            let exact =
                (1..=units).map(|rank| Part { data: 1.0, writes: f64::from(rank).powf(-theta) });
            let exact = Population::new(exact.collect()).expect("in range");
            let binned = Population::zipf(theta, u64::from(units)).expect("in range");
            let (a, b) = (fifo_waf(&exact, op(0.15)), fifo_waf(&binned, op(0.15)));
            assert!((a / b - 1.0).abs() < 1e-5, "theta {theta}: {a} against {b}");
        }
    }

    #[test]
    fn skew_without_separation_costs() {
        let hot_cold = Population::hot_cold(0.1, 0.9).expect("in range");
        assert!(fifo_waf(&hot_cold, op(0.15)) > uniform::fifo_waf(op(0.15)));
    }
}
