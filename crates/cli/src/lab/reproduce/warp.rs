//! `lab reproduce warp`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use thermocline_lab::counters::median;
use thermocline_lab::reproduce::warp::{Prediction, SOURCE, predict};

use super::{ReproduceArgs, show_points};
use crate::progress::Progress;
use crate::table::draw;

/// Name on the command line.
pub const NAME: &str = "warp";

#[derive(Serialize)]
struct Outcome<'a> {
    schema: &'static str,
    source: &'static str,
    seed: u64,
    /// Median of the median errors of the rows, by kind.
    median_errors: BTreeMap<&'a str, f64>,
    logs: &'a [Prediction],
}

/// The folder of the runs, if `args` ask for `warp`.
///
/// # Errors
/// When `warp` has no folder or is not alone, or another experiment has a folder.
pub fn folder(args: &ReproduceArgs) -> anyhow::Result<Option<&Path>> {
    let named = args.experiments.iter().any(|name| name == NAME);
    match &args.logs {
        None if named => bail!("`warp` predicts runs of a folder: name it with --logs DIR"),
        None => Ok(None),
        Some(folder) => {
            let alone = named && args.experiments.len() == 1;
            ensure!(alone, "--logs goes with `lab reproduce warp` alone");
            Ok(Some(folder))
        }
    }
}

/// Predicts the runs in `folder` and prints measured and predicted write amplification.
///
/// # Errors
/// When the folder cannot be read, or a row lacks what a rule needs.
pub fn warp(folder: &Path, args: &ReproduceArgs) -> anyhow::Result<()> {
    let bar = Mutex::new(Progress::default().aloud(NAME));
    let progress = |_: &str, share: f64| {
        if let Ok(mut bar) = bar.lock() {
            bar.set(share);
        }
    };
    let rows = predict(folder, args.seed, &progress);
    drop(bar);
    let rows = rows.with_context(|| format!("the runs in {}", folder.display()))?;
    if args.points {
        let points = rows.iter().map(Prediction::point).collect();
        return show_points(points, args.kept(&[NAME])?, args, &mut std::io::stdout().lock());
    }
    let mut errors: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in &rows {
        errors.entry(&row.kind).or_default().push(row.curve.median_error);
    }
    let medians = errors.into_iter().map(|(kind, errors)| (kind, median(errors))).collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        let (schema, seed) = ("thermocline.warp/1", args.seed);
        let outcome = Outcome { schema, source: SOURCE, seed, median_errors: medians, logs: &rows };
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&outcome)?)?);
    }
    let heads = ["run", "kind", "WAF measured", "predicted", "median error of tenths", "spare"];
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    writeln!(out, "{}", draw(&heads.map(str::to_owned), &cells))?;
    for (kind, error) in medians {
        writeln!(out, "{kind}: median {:.2} %", error * 100.0)?;
    }
    Ok(writeln!(out, "measured: {SOURCE}")?)
}

fn cells(row: &Prediction) -> Vec<String> {
    vec![
        row.id.clone(),
        row.kind.clone(),
        format!("{:.3}", row.curve.waf_measured),
        format!("{:.3}", row.curve.waf_predicted),
        format!("{:.1} %", row.curve.median_error * 100.0),
        format!("{:.1} %", row.spare * 100.0),
    ]
}
