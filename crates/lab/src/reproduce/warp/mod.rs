//! Predictions of counters that drives with placement handles wrote: `lab reproduce warp`.
//!
//! A folder has one row per run in `logs.csv`, and cumulative host and media bytes of the run in `curves/ID.csv`. Every
//! row is predicted by the rules of the module `rules` and compared with its curve. The measured curve is not an input
//! of a prediction beyond where relocation begins.

mod drive;
mod folder;
mod load;
mod rules;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Serialize;

use self::folder::Folder;
use super::Figure;
use super::point::{Point, Reference, WARP_DRIVES, WARP_EMULATOR};
use crate::counters::{Curve, CurveComparison};
use crate::{Error, each};

/// Where the runs of the folder come from.
pub const SOURCE: &str =
    "Characterizing and Emulating FDP SSDs with WARP, FAST 2026 (MoatLab/WARP-FAST26-AE)";

/// A run, as measured and as predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Name of the run in `logs.csv`.
    pub id: String,
    /// `drive` or `emulator`.
    pub kind: String,
    /// The run as measured and as predicted.
    #[serde(flatten)]
    pub curve: CurveComparison,
    /// Blocks on the media by blocks that the host sees, less 1, as the rules derive it.
    pub spare: f64,
    /// Units of erasure in the simulated drive.
    pub units: u32,
    /// What the rules took for the load.
    pub load: String,
}

impl Prediction {
    /// The row of the table of truth: write amplification of the whole run.
    #[must_use]
    pub fn point(&self) -> Point {
        let document = if self.kind == "drive" { WARP_DRIVES } else { WARP_EMULATOR };
        let figure = Figure::new(
            self.id.clone(),
            self.curve.waf_measured,
            self.curve.waf_predicted,
            Reference::new(document, "WAF of a run", "ratio"),
        );
        Point::of("warp", &figure).expect("it has both values")
    }
}

/// Predicts every run of the folder, several at a time, and tells `progress` each one that is done with the share of
/// all.
///
/// # Errors
/// [`Error`] when a file of the folder cannot be read or a row lacks what the rules need.
pub fn predict(
    folder: &Path,
    seed: u64,
    progress: &(impl Fn(&str, f64) + Sync),
) -> Result<Vec<Prediction>, Error> {
    let folder = Folder::read(folder)?;
    let runs = folder.logs().iter().map(|log| Ok((rules::run(&folder, log)?, folder.curve(log)?)));
    let runs = runs.collect::<Result<Vec<_>, Error>>()?;
    // The longest first, so that no processor waits for one at the end.
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(runs[index].0.blocks_written()));
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let work = |_, &index: &usize| {
        let (run, curve) = &runs[index];
        let log = &folder.logs()[index];
        let predicted = run.play(seed).map(|media| compare(log, run, curve, &media));
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress(log.text("id"), count as f64 / order.len() as f64);
        predicted
    };
    let results = each(&order, None, &stop, work);
    let mut results: Vec<_> = order.iter().zip(results).collect();
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().filter_map(|(_, result)| result).collect()
}

/// Holds predicted write amplification of the tenths against the curve.
fn compare(log: &folder::Log, run: &rules::Run, curve: &Curve, predicted: &[f64]) -> Prediction {
    Prediction {
        id: log.text("id").to_owned(),
        kind: log.text("kind").to_owned(),
        curve: CurveComparison::new(curve.tenths(), predicted.to_vec()),
        spare: run.spare(),
        units: run.drive.shape.units(),
        load: run.load.about.clone(),
    }
}
