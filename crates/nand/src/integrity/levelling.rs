//! The wear of many blocks: when the first is worn out, and when the spares are used up.
//!
//! Blocks differ in what they endure, and erases differ between blocks. Both are taken as normal, so that of `n` blocks
//! with mean erases `m` the expected number worn out is `n · Φ((m − C) / √(spread² C² + s²))`, where `C` is the rated
//! number of cycles. Dynamic levelling alone never touches what rests: if a share `h` of the data is never rewritten,
//! the rest wears `1 / (1 − h)` times as fast. Static levelling moves it and keeps erases within a span.

use crate::profile::Wear;

/// How erases are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Share of the blocks that hold data which rests and is not moved.
    pub resting: f64,
    /// Standard deviation of erases between the other blocks, in erases.
    pub deviation: f64,
}

impl Spread {
    /// Under static levelling to within `span` erases, assumed uniform within the span.
    #[must_use]
    pub fn static_levelling(span: f64) -> Spread {
        Spread { resting: 0.0, deviation: span / 12_f64.sqrt() }
    }

    /// Without static levelling, with a share `resting` of the data never rewritten.
    #[must_use]
    pub fn dynamic_only(resting: f64) -> Spread {
        Spread { resting, deviation: 0.0 }
    }
}

/// Mean erases over all blocks, as shares of the rated cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WearOut {
    /// When one block is worn out, as likely as not.
    pub first_block: f64,
    /// When the spares are used up.
    pub spares_used_up: f64,
}

/// When `blocks` blocks of `wear` are worn out.
#[must_use]
pub fn wear_out(wear: &Wear, blocks: f64, spread: Spread) -> Option<WearOut> {
    let cycles = wear.pe_cycles?;
    let active = 1.0 - spread.resting;
    let deviation = (wear.pe_spread * cycles).hypot(spread.deviation).max(1e-9 * cycles);
    // Mean erases at which the share `worn` of the blocks that are erased is worn out.
    let at = |worn: f64| {
        let (mut low, mut high) = (0.0, 4.0 * cycles);
        for _ in 0..80 {
            let middle = 0.5 * (low + high);
            if normal((middle - cycles) / deviation) < worn { low = middle } else { high = middle }
        }
        high * active / cycles
    };
    let spare = (wear.spare - wear.factory_bad).max(0.0);
    let first_block = at(std::f64::consts::LN_2 / (blocks * active));
    let spares_used_up = at((spare / active).min(1.0)).max(first_block);
    Some(WearOut { first_block, spares_used_up })
}

/// The cumulative normal distribution, by the Chebyshev fit of erfc in Numerical Recipes (relative error 1.2e-7).
fn normal(z: f64) -> f64 {
    let x = (z / std::f64::consts::SQRT_2).abs();
    let t = 1.0 / (1.0 + 0.5 * x);
    let series = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let sum = series.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    let half = 0.5 * t * (sum - x * x).exp();
    if z > 0.0 { 1.0 - half } else { half }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_as_tabled() {
        for (z, tabled) in
            [(0.0, 0.5), (-1.2816, 0.1), (1.6449, 0.95), (-3.0902, 0.001), (-4.7534, 1e-6)]
        {
            assert!((normal(z) / tabled - 1.0_f64).abs() < 1e-3, "{z}: {}", normal(z));
        }
    }

    #[test]
    fn the_first_block_wears_out_before_the_mean_and_resting_data_shortens_life() {
        let wear = Wear { pe_cycles: Some(1000.0), spare: 0.01, ..Wear::default() };
        let level = wear_out(&wear, 1e4, Spread::static_levelling(100.0)).unwrap();
        // 1e4 blocks, spread 10 %, and 29 erases: z = -3.81; 1 % spare: z = -2.326.
        let deviation = (100.0_f64).hypot(100.0 / 12.0_f64.sqrt()) / 1000.0;
        assert!((level.first_block - (1.0 - 3.81 * deviation)).abs() < 2e-3, "{level:?}");
        assert!((level.spares_used_up - (1.0 - 2.326 * deviation)).abs() < 2e-3, "{level:?}");
        let resting = wear_out(&wear, 1e4, Spread::dynamic_only(0.8)).unwrap();
        assert!(resting.spares_used_up < 0.25 * level.spares_used_up, "{resting:?}");
        assert!(wear_out(&Wear::default(), 1e4, Spread::dynamic_only(0.0)).is_none());
    }
}
