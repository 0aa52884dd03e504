//! `drive calibrate`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use std::io::Write as _;
use thermocline_lab::counters::{Curve, CurveComparison, Forecast, RealDrive, Sourced, predict};
use thermocline_types::Bytes;

use super::found::{FoundDrive, Stated, read, stack};
use crate::file;
use crate::lab::args::{CONVENTIONS, ENDS_AT_ONCE, share};
use crate::progress::Progress;

/// Difference of two median errors from which on a curve shows which of the two drives it is.
const CLEAR: f64 = 0.01;

const ABOUT: &str = "\
The host bytes before the drive relocates anything show its spare: write the empty drive at random, 1.5 times its
capacity or more. The steps of the erase counter show the erase unit. With --workload, the curve is predicted twice, with
survivors of collections apart from host writes and among them; the better one is taken. The profile has the source of
each number, or \"assumed\".";

const EXAMPLES: &str = "\
Examples:
  thermocline drive calibrate --log drive.log --capacity 8GiB --workload random-map --out drive.toml
  thermocline lab run --stack raw:./drive.toml --workload zipf:0.99 --span 128MiB";

/// Arguments of `drive calibrate`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{}\n\n{EXAMPLES}\n\n{CONVENTIONS}\n{ENDS_AT_ONCE}", super::LOG))]
pub struct CalibrateArgs {
    /// Counters of the drive over time
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Bytes that the drive exports
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// What wrote to the drive (`lab list workloads`); random writes of fio are random-map
    #[arg(long, value_name = "SPEC")]
    workload: Option<String>,
    /// State the overprovisioning, (media - capacity) / capacity [default: from the log]
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Sourced otherwise")]
    op: Option<f64>,
    /// State the erase unit [default: from the log]
    #[arg(long, value_name = "SIZE", help_heading = "Sourced otherwise")]
    unit: Option<Bytes>,
    /// Number of placement handles: the profile is of an FDP drive [default: a drive of one stream]
    #[arg(long, value_name = "N", help_heading = "Sourced otherwise")]
    handles: Option<u8>,
    /// Write buffer of the drive [default: none; counters do not show it]
    #[arg(long, value_name = "SIZE", help_heading = "Sourced otherwise")]
    buffer: Option<Bytes>,
    /// Capacity of the simulated drives of --workload
    #[arg(long, value_name = "SIZE", default_value = "4GiB", help_heading = "Simulation")]
    span: Bytes,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Simulation")]
    seed: u64,
    /// Write the profile to a file [default: print it]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print what was found as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What was found, as JSON.
#[derive(Serialize)]
struct Output<'a> {
    schema: &'static str,
    log: &'a Path,
    capacity_bytes: u64,
    overprovisioning: f64,
    overprovisioning_source: &'a str,
    unit_bytes: u64,
    unit_source: &'a str,
    survivors_apart: bool,
    survivors_apart_source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    apart: Option<&'a CurveComparison>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mixed: Option<&'a CurveComparison>,
    notes: &'a [String],
    profile: &'a str,
}

/// Calibrates a profile.
pub fn calibrate(args: &CalibrateArgs) -> anyhow::Result<()> {
    if let Some(out) = &args.out {
        file::check(out)?;
    }
    let curve = read(&args.log)?;
    let stated = Stated {
        log: &args.log,
        capacity: args.capacity,
        op: args.op,
        unit: args.unit,
        handles: args.handles,
        buffer: args.buffer,
    };
    let FoundDrive { mut drive, mut notes } = stated.find(&curve)?;
    stack(&drive)?;
    let both = match &args.workload {
        Some(workload) => Some(decide(&mut drive, &curve, workload, args)?),
        None => {
            notes.push(
                "without --workload, nothing shows whether survivors lie apart: it is assumed"
                    .to_owned(),
            );
            None
        }
    };
    let profile = drive.profile();
    if let Some(out) = &args.out {
        file::write(out, &profile)?;
    }
    let shown = if args.json {
        let output = Output {
            schema: "thermocline.drive-calibrate/1",
            log: &args.log,
            capacity_bytes: drive.capacity.value.0,
            overprovisioning: drive.op.value,
            overprovisioning_source: &drive.op.source,
            unit_bytes: drive.unit.value.0,
            unit_source: &drive.unit.source,
            survivors_apart: drive.apart.value,
            survivors_apart_source: &drive.apart.source,
            apart: both.as_ref().map(|[apart, _]| apart),
            mixed: both.as_ref().map(|[_, mixed]| mixed),
            notes: &notes,
            profile: &profile,
        };
        serde_json::to_string_pretty(&output)? + "\n"
    } else {
        notes.iter().for_each(|note| eprintln!("note: {note}"));
        if args.out.is_some() { findings(&drive) } else { profile }
    };
    Ok(std::io::stdout().write_all(shown.as_bytes())?)
}

/// Predicts `curve` with survivors apart and among host writes, and takes the better one.
fn decide(
    drive: &mut RealDrive,
    curve: &Curve,
    workload: &str,
    args: &CalibrateArgs,
) -> anyhow::Result<[CurveComparison; 2]> {
    let bar = Progress::default().bar("survivors apart, mixed");
    let mut compared = Vec::new();
    for (apart, begin) in [(true, 0.0), (false, 0.5)] {
        drive.apart.value = apart;
        let (stack, generator) = (stack(drive)?, workload.to_owned());
        let forecast = Forecast { stack, generator, span: args.span, seed: args.seed };
        let progress = &mut |share: f64| bar.set(begin + share / 2.0);
        compared.push(predict(curve, &forecast, progress)?.1);
    }
    drop(bar);
    let [apart, mixed]: [CurveComparison; 2] = compared.try_into().expect("two were pushed");
    let (ours, theirs) = (apart.median_error, mixed.median_error);
    let errors = format!(
        "median error of the predicted curve {:.1} % apart, {:.1} % mixed, under {workload}",
        ours * 100.0,
        theirs * 100.0
    );
    drive.apart = match (ours - theirs).abs() < CLEAR {
        true => Sourced::new(true, format!("assumed: the curve does not tell ({errors})")),
        false => Sourced::new(ours < theirs, format!("{}: {errors}", args.log.display())),
    };
    Ok([apart, mixed])
}

/// What was found, a line each.
fn findings(drive: &RealDrive) -> String {
    let RealDrive { capacity, op, unit, apart, .. } = drive;
    let units = capacity.value.as_f64() / unit.value.as_f64();
    let where_to = if apart.value { "apart from host writes" } else { "among host writes" };
    format!(
        "spare      {:.2} % of the capacity ({})\nerase unit {}, {units:.0} in the capacity ({})\nsurvivors  {where_to} ({})\n",
        op.value * 100.0,
        op.source,
        unit.value,
        unit.source,
        apart.source
    )
}
