//! `thermocline fleet`: which drives of a fleet wear out before their service ends.

mod generate;
mod grade;
mod page;
mod text;
mod traces;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use clap::{Args, Subcommand};
use thermocline_lab::fleet::{
    COLUMNS, FleetAnswer, FleetQuestion, FleetRows, SERVICE_YEARS, assess,
};

use crate::drive::is_stdin;
use crate::file;

const ABOUT: &str = "\
A row is a drive at a moment. CSV names its columns in the first line; serial, model and time are needed, and no
forecast is without used_percent and power_on_hours:
  serial, model, time (2026-01-31T12:30:00Z, or seconds since 1970), host, class, capacity_bytes, host_bytes,
  media_bytes, used_percent, power_on_hours, service_end
JSON is objects with the same keys, or what `drive stat --json` prints with host and time added:
  thermocline drive stat /dev/nvme0 --json | jq -c '. + {host: \"db7\", time: now}' >> fleet.jsonl
An answer of query_range of Prometheus has the metrics of `drive export`; label instance is the host.

Traces of a class (--trace CLASS=FILE, once for each) are simulated on --device: as it is, and with each option of `lab
whatif`. They are taken in turn until the 90 % interval of their WAF is within 10 %, or no trace is left.

Rows of several moments are the history of a drive. Some drives with a history tell how the load of their class
changes; a month is little, a year is good. Every interval is one of 90 %. docs/use/FLEET.md tells how drives are
forecast, and how often that was right.

Examples:
  thermocline fleet generate 300 --seed 1 --into racks
  thermocline fleet racks/drives.csv
  thermocline fleet racks/drives.csv --service-years 6 --csv forecast.csv --report fleet.html
  thermocline fleet racks/drives.csv --trace oltp=postgres-tpcc --price 450 --loops 2";

/// Arguments of `fleet`.
#[derive(Args)]
#[command(after_help = ABOUT, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct FleetArgs {
    #[command(subcommand)]
    command: Option<FleetCommand>,
    /// Rows of drives: CSV, JSON or an answer of Prometheus; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Years of power-on hours after which a service ends, where rows have no service_end
    #[arg(long, value_name = "YEARS", default_value_t = SERVICE_YEARS)]
    service_years: f64,
    /// What a drive costs, in any currency, to tell what a mend saves
    #[arg(long, value_name = "PRICE", value_parser = price)]
    price: Option<f64>,
    #[command(flatten)]
    traces: traces::FleetTraceArgs,
    /// Print JSON, schema thermocline.fleet/1
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write a table with a row for each drive
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write an HTML page: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// Fleets whose future is known.
#[derive(Subcommand)]
enum FleetCommand {
    /// Make a believable fleet whose future is known: rows, and what becomes of each drive
    Generate(generate::FleetGenerateArgs),
    /// Forecast generated fleets, and compare with what became of them
    Grade(grade::FleetGradeArgs),
}

/// `fleet`.
///
/// # Errors
/// When a file cannot be read or written, or no row can be.
pub fn fleet(args: &FleetArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(FleetCommand::Generate(args)) => return generate::generate(args),
        Some(FleetCommand::Grade(args)) => return grade::grade(args),
        None => {}
    }
    ensure!(
        args.service_years > 0.0 && args.service_years <= 50.0,
        "--service-years is {}, must be above 0 and at most 50",
        args.service_years
    );
    [&args.csv, &args.report].into_iter().flatten().try_for_each(|path| file::check(path))?;
    let trials = args.traces.trials()?;
    let question = FleetQuestion { service_years: args.service_years, price: args.price, trials };
    let answer = answer(&args.files, &question)?;
    let mut out = std::io::stdout().lock();
    let shown = match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&answer)?),
        false => write!(out, "{}", text::text(&answer)),
    };
    args.csv.as_ref().map_or(Ok(()), |path| file::write(path, &answer.csv()))?;
    args.report.as_ref().map_or(Ok(()), |path| file::write(path, &page::page(&answer)))?;
    Ok(shown?)
}

/// What is said of the rows in `files`.
fn answer(files: &[PathBuf], question: &FleetQuestion) -> anyhow::Result<FleetAnswer> {
    let mut rows = FleetRows::default();
    for path in files {
        let name = path.display().to_string();
        rows.read(&name, &content(path)?)
            .map_err(|reason| anyhow!("cannot use {name}: {reason}"))?;
    }
    assess(&rows, question)
        .map_err(|reason| anyhow!("{reason}; columns of a row are {}", COLUMNS.join(", ")))
}

/// A price above 0.
fn price(text: &str) -> Result<f64, String> {
    let price = text.parse::<f64>().ok().filter(|price| *price > 0.0 && price.is_finite());
    price.ok_or_else(|| format!("`{text}` is no price above 0"))
}

fn content(path: &Path) -> anyhow::Result<Vec<u8>> {
    if is_stdin(path) {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)
            .context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
