//! `drive predict`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use thermocline_lab::Stack;
use thermocline_lab::counters::{self, Curve, CurveComparison, Forecast, Shown};
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;

use super::found::{Stated, read, stack};
use crate::file;
use crate::lab::args::{CONVENTIONS, ENDS_AT_ONCE, of_arguments};
use crate::lab::plots::{self, Charts};
use crate::progress::Progress;
use crate::table::draw;

const ABOUT: &str = "\
A simulated drive of the same spare and as many erase units gets the workload, from empty, for as many fills as the log
has (at most 40; then it goes on as its last quarter). A drive that held data when its log began gets three fills first.
The median error is that over the tenths of |predicted / measured - 1|.";

const EXAMPLES: &str = "\
Examples:
  thermocline drive predict --log drive.log --capacity 8GiB --workload random-map
  thermocline drive predict --log drive.log --drive drive.toml --report drive.html";

/// Arguments of `drive predict`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{}\n\n{EXAMPLES}\n\n{CONVENTIONS}\n{ENDS_AT_ONCE}", super::LOG))]
pub struct PredictArgs {
    /// Counters of the drive over time
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// What wrote to the drive (`lab list workloads`); random writes of fio are random-map
    #[arg(long, value_name = "SPEC", default_value = "uniform")]
    workload: String,
    /// Profile of the drive, or a stack such as tag:pm9d3,op=0.18 [default: as `drive calibrate` finds it in the log]
    #[arg(long, value_name = "PROFILE")]
    drive: Option<String>,
    /// Bytes that the drive exports, without --drive
    #[arg(long, value_name = "SIZE", conflicts_with = "drive")]
    capacity: Option<Bytes>,
    /// Of a stack under tag, what has a placement handle of its own
    #[arg(long, value_name = "WHAT", requires = "drive", value_parser = ["file", "directory", "volume"])]
    tag_by: Option<String>,
    /// Capacity of the simulated drive
    #[arg(long, value_name = "SIZE", default_value = "4GiB", help_heading = "Simulation")]
    span: Bytes,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Simulation")]
    seed: u64,
    /// Print JSON instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write an HTML page with both curves: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// The prediction as JSON.
#[derive(Serialize)]
struct Output<'a> {
    schema: &'static str,
    log: &'a Path,
    drive: &'a str,
    workload: &'a str,
    seed: u64,
    span_bytes: u64,
    capacity_bytes: u64,
    overprovisioning: f64,
    /// Host bytes of the log by the capacity.
    fills: f64,
    #[serde(flatten)]
    comparison: &'a CurveComparison,
}

/// Predicts the counters in a log.
pub fn predict(args: &PredictArgs) -> anyhow::Result<()> {
    if let Some(report) = &args.report {
        file::check(report)?;
    }
    let measured = read(&args.log)?;
    let stack = drive(args, &measured)?;
    let (name, profile) = (stack.text.clone(), stack.profile.clone());
    let bar = Progress::default().bar("prediction");
    let generator = args.workload.clone();
    let forecast = Forecast { stack, generator, span: args.span, seed: args.seed };
    let (predicted, comparison) =
        counters::predict(&measured, &forecast, &mut |share| bar.set(share))?;
    drop(bar);
    let fills = Shown::of(&measured, profile.capacity).fills;
    let heads = ["fills", "WAF measured", "predicted", "difference"].map(str::to_owned);
    let rows = rows(&comparison, fills);
    let charts = Charts {
        plots: vec![tenths(&comparison, fills), bytes(&measured, &predicted)],
        ..Charts::default()
    };
    let introduction = format!(
        "{}: counters over {fills:.2} fills of {}, and {name} ({:.2} % spare) under {}. Median error of the tenths \
         {:.1} %.",
        args.log.display(),
        profile.capacity,
        profile.overprovisioning() * 100.0,
        args.workload,
        comparison.median_error * 100.0
    );
    let title = "Thermocline: a drive's counters and their prediction";
    plots::write(args.report.as_deref(), title, &introduction, charts, &[])?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let output = Output {
            schema: "thermocline.drive-predict/1",
            log: &args.log,
            drive: &name,
            workload: &args.workload,
            seed: args.seed,
            span_bytes: args.span.0,
            capacity_bytes: profile.capacity.0,
            overprovisioning: profile.overprovisioning(),
            fills,
            comparison: &comparison,
        };
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?);
    }
    writeln!(out, "{}", draw(&heads, &rows))?;
    writeln!(out, "{introduction}")?;
    if let Some(report) = &args.report {
        writeln!(out, "report: {}", report.display())?;
    }
    Ok(())
}

/// The drive that is simulated.
fn drive(args: &PredictArgs, measured: &Curve) -> anyhow::Result<Stack> {
    let Some(drive) = &args.drive else {
        let (log, capacity) = (&args.log, args.capacity);
        let stated = Stated { log, capacity, op: None, unit: None, handles: None, buffer: None };
        let found = stated.find(measured)?;
        found.notes.iter().for_each(|note| eprintln!("note: {note}"));
        return stack(&found.drive);
    };
    let text = if drive.contains(':') { drive.clone() } else { format!("raw:{drive}") };
    let mut stack = Stack::parse(&text, &[]).map_err(of_arguments)?;
    if let Some(what) = &args.tag_by {
        stack.place(what).map_err(of_arguments)?;
    }
    Ok(stack)
}

/// A row for each tenth of the log, and one for all.
fn rows(comparison: &CurveComparison, fills: f64) -> Vec<Vec<String>> {
    let row = |label: String, measured: f64, predicted: f64| {
        let difference = (predicted / measured - 1.0) * 100.0;
        vec![
            label,
            format!("{measured:.3}"),
            format!("{predicted:.3}"),
            format!("{difference:+.1} %"),
        ]
    };
    let CurveComparison { measured, predicted, waf_measured, waf_predicted, .. } = comparison;
    let step = fills / measured.len() as f64;
    let tenths = measured.iter().zip(predicted).enumerate().map(|(tenth, (theirs, ours))| {
        let (begin, end) = (tenth as f64 * step, (tenth + 1) as f64 * step);
        row(format!("{begin:.2} to {end:.2}"), *theirs, *ours)
    });
    tenths.chain([row("all".to_owned(), *waf_measured, *waf_predicted)]).collect()
}

/// Write amplification of the tenths.
fn tenths(comparison: &CurveComparison, fills: f64) -> Plot {
    let step = fills / comparison.measured.len() as f64;
    let at = |values: &[f64]| {
        values.iter().enumerate().map(|(tenth, waf)| [(tenth as f64 + 0.5) * step, *waf]).collect()
    };
    Plot {
        title: "WAF of each tenth".to_owned(),
        caption: "Media bytes by host bytes in each tenth of the log, at its middle.".to_owned(),
        x: PlotAxis::linear("host bytes by capacity"),
        y: PlotAxis::linear("WAF"),
        lines: vec![
            PlotLine::reference("measured", at(&comparison.measured)),
            PlotLine::ours("predicted", at(&comparison.predicted)),
        ],
    }
}

/// Media bytes over host bytes.
fn bytes(measured: &Curve, predicted: &Curve) -> Plot {
    const TB: f64 = 1e12;
    let points =
        |curve: &Curve| curve.points().map(|point| point.map(|bytes| bytes / TB)).collect();
    Plot {
        title: "Media bytes over host bytes".to_owned(),
        caption: "Both counters since the log began.".to_owned(),
        x: PlotAxis::linear("host bytes (TB)"),
        y: PlotAxis::linear("media bytes (TB)"),
        lines: vec![
            PlotLine::reference("measured", points(measured)),
            PlotLine::ours("predicted", points(predicted)),
        ],
    }
}
