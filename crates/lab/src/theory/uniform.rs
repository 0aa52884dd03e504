//! Uniform random overwrites: every mapping unit is equally likely to be written next.

use std::num::NonZeroU32;

use lambert_w::lambert_w0;
use statrs::function::gamma::digamma;

use super::Overprovisioning;
use super::solve::bisect;

/// Victim is the block written longest ago (FIFO, also called LRU): `WAF = α / (α + W0(−α e^−α))`.
///
/// The share X of the victim still valid solves `X = e^(−α(1−X))`, and WAF = 1/(1 − X). Also the limit of greedy for
/// infinitely large blocks. Menon 1995; Xiang and Kurkoski 2012; Desnoyers, SYSTOR 2012.
#[must_use]
pub fn fifo_waf(op: Overprovisioning) -> f64 {
    let alpha = op.alpha();
    alpha / (alpha + lambert_w0(-alpha * (-alpha).exp()))
}

/// Victim is a block chosen at random: `WAF = α/(α − 1) = 1/GP`, as the victim's valid share is the average one, L/P.
///
/// Van Houdt, SIGMETRICS 2013 (random GC algorithm).
#[must_use]
pub fn random_victim_waf(op: Overprovisioning) -> f64 {
    1.0 / op.garbage()
}

/// Victim is the block with the fewest valid units (greedy), blocks of `b` units, infinitely many blocks.
///
/// The number x of valid units in the victim solves `α(1 − x/b) = H_b − H_x`, H the harmonic numbers continued to real
/// arguments by digamma; WAF = b/(b − x). A block waits `(H_b − H_x)` times the mean unit lifetime until it is a
/// victim: with i valid units the next invalidation comes at rate i. Fluid limit of the greedy chains of Bux and
/// Iliadis 2010 and Desnoyers 2012; equal to [`d_choices_waf`] for d → ∞ (Van Houdt 2013).
#[must_use]
pub fn greedy_waf(op: Overprovisioning, units_per_block: NonZeroU32) -> f64 {
    let b = f64::from(units_per_block.get());
    let alpha = op.alpha();
    let harmonic_b = digamma(b + 1.0);
    // Divided by (1 - x/b) to remove the trivial root x = b; the result increases with x.
    let excess = |x: f64| alpha - (harmonic_b - digamma(x + 1.0)) / (1.0 - x / b);
    let valid_in_victim = bisect(0.0, b * (1.0 - 1e-9), excess);
    b / (b - valid_in_victim)
}

/// Victim is the best of `choices` blocks drawn at random (d-choices), blocks of `b` units, infinitely many blocks.
///
/// Fixed point of the mean-field model of Van Houdt, SIGMETRICS 2013. With T_i the share of blocks that hold at least i
/// valid units, a block falls from i to i − 1 valid units as often as a victim with fewer than i is replaced by a full
/// block: `i (T_i − T_{i+1}) = c (1 − T_i^d)` with c = bL/(P W) and W = Σ_{i=1..b} (1 − T_i^d), the free units gained
/// per victim. Solved for T_b down to T_1 for a given c, then for the c that fills L units. WAF = b/W.
#[must_use]
pub fn d_choices_waf(
    op: Overprovisioning,
    units_per_block: NonZeroU32,
    choices: NonZeroU32,
) -> f64 {
    let b = units_per_block.get();
    let valid_per_block = f64::from(b) / op.alpha();
    let filled = |c: f64| c * gained_per_victim(c, b, choices) - valid_per_block;
    // c = WAF/alpha, and no number of choices is worse than one, whose WAF is 1/GP.
    let most = 1.0 / op.garbage();
    let c = bisect(0.0, most, filled);
    f64::from(b) / gained_per_victim(c, b, choices)
}

/// W of [`d_choices_waf`] for a given c.
fn gained_per_victim(c: f64, units_per_block: u32, choices: NonZeroU32) -> f64 {
    let d = f64::from(choices.get());
    let mut above = 0.0;
    let mut gained = 0.0;
    for i in (1..=units_per_block).rev() {
        let rate = c / f64::from(i);
        above = share_with_at_least(above, rate, d);
        gained += 1.0 - above.powf(d);
    }
    gained
}

/// The T in `above..=1` with `T − above = rate (1 − T^d)`. Newton from the right end: the difference of the two sides
/// is convex and increasing, so the iterates fall onto the root without overshooting.
fn share_with_at_least(above: f64, rate: f64, d: f64) -> f64 {
    let mut t = 1.0_f64;
    loop {
        let power = t.powf(d - 1.0);
        let step = (t - above - rate * (1.0 - power * t)) / (1.0 + rate * d * power);
        if step <= f64::EPSILON {
            return t;
        }
        t -= step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(ratio: f64) -> Overprovisioning {
        Overprovisioning::from_ratio(ratio).expect("in range")
    }

    fn n(value: u32) -> NonZeroU32 {
        NonZeroU32::new(value).expect("not zero")
    }

    /// Devices at 7, 12 and 21.9 % spare, from the ftlsim documentation; 30 % OP from Xiang and Kurkoski's abstract.
    #[test]
    fn fifo_matches_published_points() {
        for (spare, waf) in [(0.07, 7.318), (0.12, 4.348), (0.219, 2.479)] {
            let ours = fifo_waf(Overprovisioning::from_spare(spare).expect("in range"));
            assert!((ours - waf).abs() < 0.5e-3, "{spare}: {ours}");
        }
        assert!((fifo_waf(op(0.30)) - 2.364).abs() < 0.5e-3);
        for (ratio, waf) in [
            (0.07, 7.82),
            (0.12, 4.85),
            (0.15, 4.02),
            (0.20, 3.19),
            (0.28, 2.48),
            (0.5, 1.72),
            (1.0, 1.26),
        ] {
            let ours = fifo_waf(op(ratio));
            assert!((ours - waf).abs() < 0.5e-2, "{ratio}: {ours}");
        }
    }

    #[test]
    fn greedy_rises_with_the_block_size_towards_fifo() {
        for ratio in [0.07, 0.15, 0.28, 1.0] {
            let mut last = 1.0;
            for b in [4, 16, 64, 256, 1024, 1 << 20] {
                let waf = greedy_waf(op(ratio), n(b));
                assert!(waf >= last, "OP {ratio}, b {b}: {waf} after {last}");
                last = waf;
            }
            assert!((last - fifo_waf(op(ratio))).abs() < 1e-3 * last);
        }
        // One unit per block: a victim is always empty.
        assert!((greedy_waf(op(0.1), n(1)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn d_choices_joins_random_and_greedy() {
        let b = n(128);
        for ratio in [0.07, 0.15, 0.28] {
            let one = d_choices_waf(op(ratio), b, n(1));
            assert!((one - random_victim_waf(op(ratio))).abs() < 1e-6 * one, "{one}");
            let many = d_choices_waf(op(ratio), b, n(5000));
            let greedy = greedy_waf(op(ratio), b);
            assert!((many - greedy).abs() < 0.01 * greedy, "{many} against {greedy}");
        }
    }

    /// A simulation of 262144 units in blocks of 128 at 15 % gave 5.38 for d = 2 and 4.03 for d = 10.
    #[test]
    fn d_choices_matches_simulation_within_one_per_cent() {
        for (d, simulated) in [(2, 5.38), (10, 4.03)] {
            let ours = d_choices_waf(op(0.15), n(128), n(d));
            assert!((ours / simulated - 1.0).abs() < 0.01, "d {d}: {ours}");
        }
    }
}
