//! `drive stat`: the wear of a drive, from its log pages, live or recorded.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;
use thermocline_drive::{Counter, DriveFigure, FdpHandle, HealthReading, Waf, Wear};
use thermocline_types::Bytes;

use super::source::{self, decimal};
use crate::table::draw;

const ABOUT: &str = "\
A block device or an NVMe controller is read now, as root; a SATA drive by smartctl. Records are what --record wrote or
what these print, as text or JSON, or a log page as bytes; several records are of one drive:
  nvme smart-log /dev/nvme0          host bytes, used endurance, hours
  nvme ocp smart-add-log /dev/nvme0  media bytes of drives that follow OCP
  nvme fdp stats /dev/nvme0 -e 1     host and media bytes of drives with FDP
  nvme endurance-log /dev/nvme0 -g 1 host and media bytes, in steps of 1 GB
  smartctl -x /dev/sda               everything of a SATA drive

WAF is media bytes / host bytes. Over a whole life it hides what the drive does now: with --since it is of the time
between two records.

Examples:
  thermocline drive stat smart.txt ocp.txt
  thermocline drive stat fdp.json --record today.json
  thermocline drive stat --since monday.json friday.json
  cat smart.txt | thermocline drive stat -";

/// Arguments of `drive stat`.
#[derive(Args)]
#[command(after_help = ABOUT)]
pub struct DriveStatArgs {
    /// A drive, such as /dev/nvme0, or records of one; `-` is standard input
    #[arg(value_name = "DRIVE|RECORD", required = true)]
    records: Vec<PathBuf>,
    /// An earlier record of the drive; may be repeated
    #[arg(long, value_name = "RECORD")]
    since: Vec<PathBuf>,
    /// Drive writes per day that the drive is rated for
    #[arg(long, value_name = "RATING")]
    dwpd: Option<f64>,
    /// Keep what was read of the drive in a file, for `drive stat FILE` and --since
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print JSON, schema thermocline.drive/1
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Outcome<'a> {
    schema: &'static str,
    reading: &'a HealthReading,
    wear: &'a Wear,
    answer: String,
}

/// Prints the counters in the records, and the findings.
///
/// # Errors
/// When a record cannot be read, or has no known counter.
pub fn stat(args: &DriveStatArgs) -> anyhow::Result<()> {
    let last = match &args.record {
        Some(file) => kept(&args.records, file)?,
        None => joined(&args.records)?,
    };
    let first = (!args.since.is_empty()).then(|| joined(&args.since)).transpose()?;
    if let Some((one, other)) =
        first.as_ref().and_then(|first| first.serial.as_ref().zip(last.serial.as_ref()))
    {
        anyhow::ensure!(one == other, "--since is of another drive: serial {one}, not {other}");
    }
    let wear = Wear::of(first.as_ref(), &last);
    let answer = answer(&last, &wear, first.is_some(), args.dwpd);
    let mut out = std::io::stdout().lock();
    if args.json {
        let outcome =
            Outcome { schema: "thermocline.drive/1", reading: &last, wear: &wear, answer };
        writeln!(out, "{}", serde_json::to_string_pretty(&outcome)?)?;
    } else {
        writeln!(out, "{}{}{answer}", counters(&last), more(&last))?;
    }
    Ok(())
}

/// Records of one drive as one reading.
fn joined(records: &[PathBuf]) -> anyhow::Result<HealthReading> {
    let mut all = HealthReading::default();
    for path in records {
        all.join(source::reading(path)?);
    }
    Ok(all)
}

/// Reads the drive of `records`, keeps its record in `file`, and returns its reading.
fn kept(records: &[PathBuf], file: &Path) -> anyhow::Result<HealthReading> {
    let [drive] = records else { bail!("--record is of one drive: name one") };
    let bytes = source::record(drive)?;
    std::fs::write(file, &bytes).with_context(|| format!("cannot write {}", file.display()))?;
    source::reading(file)
}

/// The drive, and a table of its counters.
fn counters(reading: &HealthReading) -> String {
    let known = [&reading.model, &reading.serial, &reading.firmware].map(|one| one.as_deref());
    let name = known.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let heads = ["counter", "value", "from"].map(str::to_owned);
    let rows: Vec<Vec<String>> = reading
        .counters
        .iter()
        .map(|one| vec![one.figure.to_string(), shown(one), one.page.to_string()])
        .collect();
    let name = if name.is_empty() { name } else { name + "\n" };
    format!("{name}{}\n", draw(&heads, &rows))
}

fn shown(counter: &Counter) -> String {
    let Counter { figure, value, .. } = *counter;
    if figure.is_bytes() {
        decimal(value as f64)
    } else if figure.is_percent() {
        format!("{value} %")
    } else {
        value.to_string()
    }
}

/// Flexible data placement, and pages that tell nothing, a line each.
fn more(reading: &HealthReading) -> String {
    let mut lines = String::new();
    if let Some(fdp) = &reading.fdp {
        let is_host = |one: &&FdpHandle| one.used_by == "host";
        let hosts = fdp.handles.iter().filter(is_host).count();
        let apart = fdp.handles.iter().filter(|one| one.stays_apart == Some(true)).count();
        lines += &format!(
            "FDP: {} handles, {hosts} of them for hosts, {apart} persistently isolated; reclaim unit {}, groups {}\n",
            fdp.handles.len(),
            Bytes(fdp.unit_bytes),
            fdp.groups
        );
        for (kind, count) in &fdp.events {
            lines += &format!("FDP event {kind}: {count}\n");
        }
    }
    lines.extend(reading.untold.iter().map(|one| format!("unknown: {one}\n")));
    lines
}

/// The findings, a sentence a line.
fn answer(last: &HealthReading, wear: &Wear, is_window: bool, dwpd: Option<f64>) -> String {
    let time = if is_window { "between the records" } else { "since the drive was new" };
    let is_known = last.counter(DriveFigure::MediaWritten).is_some();
    let mut all = vec![match &wear.waf {
        Some(waf) => amplification(waf, time),
        None if is_known => format!("WAF: unknown {time}: hosts wrote nothing, or the counters fell"),
        None => "WAF: unknown: no record has media bytes that are known; `nvme ocp smart-add-log` or `nvme fdp stats` \
                 may have them"
            .to_owned(),
    }];
    if let Some(bytes) = wear.daily_bytes {
        let of = wear.drive_writes_per_day;
        let share = of.map_or_else(String::new, |share| format!(", {share:.3} drive writes a day"));
        let rated = of.zip(dwpd).map_or_else(String::new, |(share, rated)| {
            format!(", {:.0} % of the rating of {rated}", 100.0 * share / rated)
        });
        all.push(format!("load: {} a day with power{share}{rated}", decimal(bytes)));
    }
    if let Some(years) = wear.years {
        let [least, most] = years.range;
        all.push(format!(
            "life: {:.1} years with power are left ({least:.1} to {most:.1}: the drive counts whole percent), if it \
             goes on as in its whole life",
            years.likely
        ));
    }
    all.join("\n")
}

fn amplification(waf: &Waf, time: &str) -> String {
    let Waf { value, error, host_bytes, media_bytes, host, media } = waf;
    let coarse = match *error {
        error if error >= 0.1 => format!(
            "; it may be {:.0} % off, because the drive counts in large steps: take records further apart",
            100.0 * error
        ),
        _ => String::new(),
    };
    let pages = if host == media { media.to_string() } else { format!("{media}; {host}") };
    format!(
        "WAF: {value:.3} {time}: {} to media for {} of hosts ({pages}){coarse}",
        decimal(*media_bytes as f64),
        decimal(*host_bytes as f64)
    )
}
