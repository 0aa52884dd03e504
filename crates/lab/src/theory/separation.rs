//! The least write amplification of a policy that knows every write rate, but not the future.

use super::solve::bisect;
use super::{DomainError, Overprovisioning, Population};

/// Parts kept in separate blocks, with the spare space divided so that the WAF is least.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The least WAF, Σ r_k A(α_k).
    pub waf: f64,
    /// The overprovisioning each part gets, in the population's order.
    pub split: Vec<Overprovisioning>,
}

/// Each part in blocks of its own, cleaned FIFO, with the best split of the spare space: the memoryless limit.
///
/// Minimises `Σ r_k A(α_k)` over `Σ s_k α_k = α`, A the uniform FIFO form. Writing each part's block lifetime in units
/// of its mean rewrite interval as t: `α_k = t/(1 − e^−t)`, `A = 1/(1 − e^−t)`, `−dA/dα = 1/(e^t − 1 − t)`. The
/// Karush-Kuhn-Tucker condition `r_k |A'(α_k)| = λ s_k` then reads `e^t − 1 − t = r_k/(λ s_k)`: one root per part for a
/// given multiplier λ, and λ follows from the space. The objective is convex, so this is the minimum. Hot/cold:
/// Desnoyers, ACM TOS 2014; the on-line counterpart is cleaning where the marginal cost is least (Luo and Lomet,
/// "minimum declining cost", ICDE 2021). The same overprovisioning in every part would give exactly the uniform WAF.
#[must_use]
pub fn optimum(population: &Population, op: Overprovisioning) -> Optimum {
    let parts = population.parts();
    let times = |log_price: f64| {
        let price = log_price.exp();
        parts.iter().map(move |part| lifetime_at(part.writes / (part.data * price)))
    };
    let space = |log_price: f64| -> f64 {
        parts.iter().zip(times(log_price)).map(|(part, t)| part.data * spread(t)).sum()
    };
    // Space falls as its price rises. exp(±600) keeps every intermediate within the range of a double.
    let log_price = bisect(-600.0, 600.0, |log_price| op.alpha() - space(log_price));
    let waf =
        parts.iter().zip(times(log_price)).map(|(part, t)| part.writes / -(-t).exp_m1()).sum();
    let split =
        times(log_price).map(|t| Overprovisioning::from_alpha(spread(t).max(1.0 + f64::EPSILON)));
    Optimum {
        waf,
        split: split
            .collect::<Result<_, DomainError>>()
            .expect("t > 0 spreads data over more space than it fills"),
    }
}

/// α of a block lifetime `t`: `t/(1 − e^−t)`.
fn spread(t: f64) -> f64 {
    t / -(-t).exp_m1()
}

/// The t > 0 with `e^t − 1 − t = worth`, by Newton's method from above; the left side is convex and increasing.
fn lifetime_at(worth: f64) -> f64 {
    // Both starts lie above the root: e^t - 1 - t >= t^2/2, and e^t - 1 - t >= e^t / 3 for t >= 1.5.
    let mut t = (2.0 * worth).sqrt().min((3.0 * worth).ln().max(1.5));
    loop {
        let step = (excess_exp(t) - worth) / t.exp_m1();
        if step <= 1e-14 * t {
            return t;
        }
        t -= step;
    }
}

/// `e^t − 1 − t` without cancellation near 0 (Taylor series to a relative error below 1e-14 for t < 0.01).
fn excess_exp(t: f64) -> f64 {
    if t < 0.01 {
        t * t / 2.0
            * (1.0
                + t / 3.0 * (1.0 + t / 4.0 * (1.0 + t / 5.0 * (1.0 + t / 6.0 * (1.0 + t / 7.0)))))
    } else {
        t.exp_m1() - t
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::{Part, uniform};
    use proptest::prelude::*;

    fn op(ratio: f64) -> Overprovisioning {
        Overprovisioning::from_ratio(ratio).expect("in range")
    }

    #[test]
    fn one_part_is_the_uniform_formula() {
        let one = Population::new(vec![Part { data: 1.0, writes: 1.0 }]).expect("in range");
        for ratio in [0.001, 0.07, 0.28, 1.0, 5.0] {
            let best = optimum(&one, op(ratio));
            assert!(
                (best.waf / uniform::fifo_waf(op(ratio)) - 1.0).abs() < 1e-9,
                "{ratio}: {}",
                best.waf
            );
            assert!((best.split[0].ratio() / ratio - 1.0).abs() < 1e-9);
        }
    }

    /// Binning ranks costs less than 1e-5: against one part per rank.
    #[test]
    fn binned_zipf_equals_one_part_per_rank() {
        let units = 20_000_u32;
        for theta in [0.6, 1.0, 1.2] {
            let exact =
                (1..=units).map(|rank| Part { data: 1.0, writes: f64::from(rank).powf(-theta) });
            let exact = Population::new(exact.collect()).expect("in range");
            let binned = Population::zipf(theta, u64::from(units)).expect("in range");
            let (a, b) = (optimum(&exact, op(0.15)).waf, optimum(&binned, op(0.15)).waf);
            assert!((a / b - 1.0).abs() < 1e-5, "theta {theta}: {a} against {b}");
        }
    }

    proptest! {
        /// No other split of the same space does better, and the split uses exactly the space there is.
        #[test]
        fn is_a_minimum(
            data in 0.01_f64..0.9,
            writes in 0.1_f64..0.999,
            ratio in 0.02_f64..1.0,
            shift in -0.3_f64..0.3,
        ) {
            let population = Population::hot_cold(data, writes).expect("in range");
            let best = optimum(&population, op(ratio));
            let used = data * best.split[0].ratio() + (1.0 - data) * best.split[1].ratio();
            prop_assert!((used / ratio - 1.0).abs() < 1e-9);
            let hot = best.split[0].ratio() * (1.0 + shift);
            let cold = (ratio - data * hot) / (1.0 - data);
            if cold > 1e-6 {
                let other = writes * uniform::fifo_waf(op(hot)) + (1.0 - writes) * uniform::fifo_waf(op(cold));
                prop_assert!(other >= best.waf * (1.0 - 1e-12), "{other} < {}", best.waf);
            }
        }

        /// The root of the optimality condition, from the slowest to the fastest part.
        #[test]
        fn lifetime_solves_its_equation(log_worth in -60.0_f64..60.0) {
            let worth = log_worth.exp();
            let t = lifetime_at(worth);
            prop_assert!((excess_exp(t) / worth - 1.0).abs() < 1e-9, "{t}");
        }
    }
}
