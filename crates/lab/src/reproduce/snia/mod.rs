//! The SNIA tutorial of 2009 (Thatcher, Fusion-io), chart by chart.

mod life;
mod partial;
mod pathological;
mod scaling;
mod uber;
mod wear;

use thermocline_record::RunRecord;

use super::job::{PatternJob, mb_per_s};

pub use life::life;
pub use partial::partial;
pub use pathological::pathological;
pub use scaling::scaling;
pub use uber::uber;
pub use wear::wear;

/// A mix as the tutorial writes it: reads/writes in per cent.
fn mix(read: f64) -> String {
    format!("{:.0}/{:.0}", read * 100.0, (1.0 - read) * 100.0)
}

/// Transfer sizes, from 512 B to 1 MiB.
const SIZES: [u64; 12] = [
    512,
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 13,
    1 << 14,
    1 << 15,
    1 << 16,
    1 << 17,
    1 << 18,
    1 << 19,
    1 << 20,
];
/// At which the tutorial counts operations and bandwidth.
const FOR_IOPS: u64 = 512;
const FOR_BANDWIDTH: u64 = 1 << 17;

/// The tutorial's score over its five mixes: the root of the mean of the squares.
fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt()
}

/// Requests of any kind a second.
fn per_second(record: &RunRecord) -> f64 {
    record.bandwidth.as_ref().map_or(0.0, |rates| rates.requests_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_a_root_of_a_mean_of_squares() {
        assert!((root_mean_square(&[3.0, 4.0, 5.0, 0.0, 0.0]) - 10.0_f64.sqrt()).abs() < 1e-12);
    }
}
