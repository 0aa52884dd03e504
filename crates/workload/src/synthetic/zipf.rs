//! Zipf-distributed ranks, exactly and in a few nanoseconds.

use std::hint::select_unpredictable;

use thermocline_types::Rng;

/// Ranks drawn one by one; beyond them Euler–Maclaurin sums are exact to the last digits.
const HEAD: u64 = 512;
/// Ratio of the last to the first rank of a bin: small enough to reject few draws, large enough to keep the tables in
/// the first-level cache (chosen, not measured).
const RATIO: f64 = 1.04;

/// `Σ k^−θ` over ranks `first ≤ k < end`.
///
/// Term by term up to rank 512, then by the Euler–Maclaurin formula with three correction terms, whose remainder is
/// below `512^−(θ+5)`: nothing a double can show.
///
/// # Panics
/// If `first` is 0.
#[must_use]
pub fn rank_sum(theta: f64, first: u64, end: u64) -> f64 {
    assert!(first > 0, "ranks count from 1");
    let term = |rank: u64| (rank as f64).powf(-theta);
    let head: f64 = (first..end.min(HEAD)).map(term).sum();
    let start = first.max(HEAD);
    if start >= end {
        return head;
    }
    let (a, b) = (start as f64, end as f64);
    let log_ratio = ((b - a) / a).ln_1p();
    let z = (1.0 - theta) * log_ratio;
    let growth = if z.abs() < 1e-12 { 1.0 } else { z.exp_m1() / z };
    let integral = a.powf(1.0 - theta) * log_ratio * growth;
    let (fa, fb) = (term(start), term(end));
    let slope = theta * (fa / a - fb / b);
    let third = theta * (theta + 1.0) * (theta + 2.0) * (fa / a.powi(3) - fb / b.powi(3));
    head + integral + (fa - fb) / 2.0 + slope / 12.0 - third / 720.0
}

/// Draws ranks `0..n` with probability proportional to `(rank + 1)^−θ`, any θ ≥ 0.
///
/// Two draws: a bin by Walker's alias method (Walker 1977, tables after Vose 1991), where the first 512 ranks are bins
/// of their own and later ranks share geometrically wider ones; then a rank within the bin, uniformly, accepted with
/// probability `(first/rank)^θ`. Nearly all are accepted without computing that power, as it exceeds the value at the
/// bin's last rank. The distribution is exact; memory is 24 bytes for each of at most about 1,500 bins.
#[derive(Clone, Debug)]
pub struct Zipf {
    slots: Vec<Slot>,
    bins: Vec<Bin>,
    theta: f64,
}

/// One column of the alias table: keep the column's own bin if the draw's fraction is below `keep`, else take `alias`.
#[derive(Clone, Copy, Debug)]
struct Slot {
    keep: u64,
    alias: u32,
}

/// Ranks `first..first + width` (from 1). A fraction below `sure` is accepted whatever the rank.
#[derive(Clone, Copy, Debug)]
struct Bin {
    first: u64,
    width: u64,
    sure: u64,
}

impl Zipf {
    /// Ranks `0..n` with exponent `theta`.
    ///
    /// # Panics
    /// If `n` is 0 or `theta` is negative or not finite; [`super::Spec`] refuses these before.
    #[must_use]
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(
            n > 0 && theta.is_finite() && theta >= 0.0,
            "zipf over {n} ranks with exponent {theta}"
        );
        let mut bins = Vec::new();
        let mut first = 1;
        while first <= n {
            let next = if first <= HEAD {
                first + 1
            } else {
                ((first as f64 * RATIO) as u64).max(first + 1)
            };
            let end = next.min(n.saturating_add(1));
            let least = (first as f64 / (end - 1) as f64).powf(theta);
            bins.push(Bin { first, width: end - first, sure: fraction(least) });
            first = end;
        }
        let weights: Vec<f64> =
            bins.iter().map(|bin| rank_sum(theta, bin.first, bin.first + bin.width)).collect();
        Zipf { slots: alias_table(&weights), bins, theta }
    }

    /// The next rank, 0 the most frequent.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        let (column, rest) = split(rng.next_u64(), self.slots.len() as u64);
        let slot = self.slots[column as usize];
        let chosen = select_unpredictable(rest < slot.keep, column as usize, slot.alias as usize);
        let bin = self.bins[chosen];
        loop {
            let (step, rest) = split(rng.next_u64(), bin.width);
            if rest <= bin.sure || self.accept(bin, step, rest) {
                return bin.first - 1 + step;
            }
        }
    }

    #[cold]
    fn accept(&self, bin: Bin, step: u64, rest: u64) -> bool {
        rest <= fraction((bin.first as f64 / (bin.first + step) as f64).powf(self.theta))
    }
}

/// Cuts 64 random bits into a number below `bound` and an independent fraction of 2^64 (multiply and shift).
#[inline]
fn split(bits: u64, bound: u64) -> (u64, u64) {
    let product = u128::from(bits) * u128::from(bound);
    ((product >> 64) as u64, product as u64)
}

/// A probability as a fraction of 2^64; 1 and above become the largest.
fn fraction(probability: f64) -> u64 {
    (probability * 18_446_744_073_709_551_616.0) as u64
}

/// Vose's construction: columns of equal height, each filled by its own weight and at most one other.
fn alias_table(weights: &[f64]) -> Vec<Slot> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let mut height: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
    let mut slots = vec![Slot { keep: u64::MAX, alias: 0 }; weights.len()];
    for (index, slot) in slots.iter_mut().enumerate() {
        slot.alias = index as u32;
    }
    let (mut short, mut tall): (Vec<usize>, Vec<usize>) =
        (0..height.len()).partition(|&index| height[index] < 1.0);
    while let (Some(&low), Some(&high)) = (short.last(), tall.last()) {
        short.pop();
        slots[low] = Slot { keep: fraction(height[low]), alias: high as u32 };
        height[high] -= 1.0 - height[low];
        if height[high] < 1.0 {
            tall.pop();
            short.push(high);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_sums_equal_term_by_term_sums() {
        for theta in [0.0, 0.6, 1.0 - 1e-13, 1.0, 1.2, 3.0] {
            for (first, end) in
                [(1, 2), (1, 100_000), (500, 520), (513, 700), (40_000, 41_000), (7, 7)]
            {
                let exact: f64 = (first..end).rev().map(|k: u64| (k as f64).powf(-theta)).sum();
                let ours = rank_sum(theta, first, end);
                assert!(
                    (ours - exact).abs() <= 1e-11 * exact,
                    "{theta} {first}..{end}: {ours} for {exact}"
                );
            }
        }
    }

    /// Pearson's statistic over the first ranks and ever wider groups of later ones stays near its degrees of freedom.
    #[test]
    fn draws_follow_the_law() {
        const DRAWS: u64 = 2_000_000;
        for (n, theta) in [
            (1, 1.0),
            (7, 0.9),
            (600, 1.0),
            (100_000, 0.0),
            (100_000, 0.6),
            (1 << 30, 1.0),
            (1 << 30, 1.2),
        ] {
            let zipf = Zipf::new(n, theta);
            let mut rng = Rng::new(42);
            let mut bounds: Vec<u64> =
                (0..20).chain((0..30).map(|j| 20 * 2_u64.pow(j))).filter(|&b| b < n).collect();
            bounds.push(n);
            bounds.dedup();
            let mut counts = vec![0_u64; bounds.len() - 1];
            for _ in 0..DRAWS {
                let rank = zipf.sample(&mut rng);
                assert!(rank < n);
                counts[bounds.partition_point(|&b| b <= rank) - 1] += 1;
            }
            let total = rank_sum(theta, 1, n + 1);
            let chi_square: f64 = counts
                .iter()
                .zip(bounds.windows(2))
                .map(|(&count, pair)| {
                    let expected = DRAWS as f64 * rank_sum(theta, pair[0] + 1, pair[1] + 1) / total;
                    (count as f64 - expected).powi(2) / expected
                })
                .sum();
            let freedom = (counts.len() - 1) as f64;
            assert!(
                chi_square < freedom + 4.0 * (2.0 * freedom).sqrt() + 1e-9,
                "n {n} theta {theta}: {chi_square} for {freedom}"
            );
        }
    }

    /// Within one wide bin the weights of theta 3 fall by a ninth, so a uniform draw inside bins would be seen.
    #[test]
    fn draws_follow_the_law_inside_a_bin() {
        let zipf = Zipf::new(10_000, 3.0);
        let bin =
            *zipf.bins.iter().find(|bin| bin.first > 5_000).expect("bins reach past rank 5000");
        let mut rng = Rng::new(9);
        let half = bin.width / 2;
        let only =
            Zipf { slots: vec![Slot { keep: u64::MAX, alias: 0 }], bins: vec![bin], theta: 3.0 };
        let draws = 4_000_000;
        let early =
            (0..draws).filter(|_| only.sample(&mut rng) - (bin.first - 1) < half).count() as f64;
        let share = rank_sum(3.0, bin.first, bin.first + half)
            / rank_sum(3.0, bin.first, bin.first + bin.width);
        let sigma = (share * (1.0 - share) / f64::from(draws)).sqrt();
        assert!(
            (early / f64::from(draws) - share).abs() < 4.0 * sigma,
            "{early} of {draws} for {share}"
        );
        assert!(
            share - half as f64 / bin.width as f64 > 8.0 * sigma,
            "the test can tell uniform from Zipf"
        );
    }
}
