//! Counters of real drives: curves of media bytes over host bytes, the drive that they show, and predictions of them.
//!
//! A [`Curve`] is read from a log. [`Shown`] is what it shows of the drive, and a [`RealDrive`] makes a profile of it.
//! [`predict`] plays a workload on a simulated drive from the same start over the same host bytes, and
//! [`CurveComparison`] holds the two curves against each other.

mod cells;
mod curve;
mod log;
mod predict;
mod profile;
mod shown;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub(crate) use cells::{bad, number, rows};
pub use curve::Curve;
pub use log::read;
pub(crate) use predict::{AGED, FILLS};
pub use predict::{Forecast, predict};
pub use profile::{RealDrive, Sourced};
pub use shown::{Onset, Shown};

/// Parts of a curve, equal in host bytes, whose write amplification is compared.
pub const TENTHS: usize = 10;

/// Write amplification of a curve, as measured and as predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurveComparison {
    /// Media bytes by host bytes over the whole curve, as measured.
    pub waf_measured: f64,
    /// The same, predicted.
    pub waf_predicted: f64,
    /// Median over the tenths of the curve of |predicted / measured − 1|.
    pub median_error: f64,
    /// Write amplification of each tenth, as measured.
    pub measured: Vec<f64>,
    /// Write amplification of each tenth, predicted.
    pub predicted: Vec<f64>,
}

impl CurveComparison {
    /// Compares the write amplification of tenths, `measured` and `predicted`.
    #[must_use]
    pub fn new(measured: Vec<f64>, predicted: Vec<f64>) -> CurveComparison {
        let errors =
            predicted.iter().zip(&measured).map(|(ours, theirs)| (ours / theirs - 1.0).abs());
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        CurveComparison {
            waf_measured: mean(&measured),
            waf_predicted: mean(&predicted),
            median_error: median(errors.collect()),
            measured,
            predicted,
        }
    }
}

/// The middle of `values`, or the mean of the two in the middle; not a number of none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}
