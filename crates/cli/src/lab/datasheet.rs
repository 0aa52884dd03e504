//! `lab datasheet`: answers the usual questions about a drive for one stack, on one page.

mod advice;
mod answers;
mod origins;
mod page;
mod questions;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use thermocline_lab::Stack;
use thermocline_lab::tco::Prices;
use thermocline_lab::tco::prices::DEFAULT_PRICES;
use thermocline_record::RunRecord;
use thermocline_types::Bytes;

use super::args::{CONVENTIONS, ENDS_AT_ONCE, test_volume};
use super::parallel;
use super::run::run_planned;
use crate::file;
use crate::interrupt::Interrupt;
use questions::{Measure, Question, measures};

/// Help text: the answered questions, and examples.
const ABOUT: &str = "\
The questions that the SNIA tutorial of 2009 has a buyer ask: size, mix, burst or
steady, relation in time, requests in flight, reserve, latency, begin and end of
life, endurance, correction, parity, retention, wear, throttling, and how it was
tested; then what a system can do about what was found. Measured on the stack scaled down to --capacity, filled before, rates over
the later half of each run; --commands and the page have the command of each row.
What keeps data whole is closed forms over mostly assumed values (`lab theory
integrity`).

Examples:
  thermocline lab datasheet --stack raw:p5316 --quick
  thermocline lab datasheet --stack log:zn540 --quick --report zn540.html
  thermocline lab datasheet --stack tier:p5800x+p5316 --quick --json";

/// Arguments of `lab datasheet`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}\n{ENDS_AT_ONCE}"))]
pub struct DatasheetArgs {
    /// LAYER:DEVICE[,KEY=VALUE...], such as raw:p5316 (`lab list layers` and `devices`)
    #[arg(long, value_name = "STACK")]
    stack: String,
    /// What the workloads address, and so about the capacity that is simulated [default: 2GiB, with --quick 256MiB]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Share of the drive that they fill, above 0 to 1 [default: 0.8]
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share)]
    utilisation: Option<f64>,
    /// Fewer sizes and depths, shorter runs: the same page, roughly, in seconds
    #[arg(long)]
    quick: bool,
    /// Runs at a time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Show the command of each row
    #[arg(long, help_heading = "Output")]
    commands: bool,
    /// Print JSON instead of tables
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write an HTML page with charts: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// Default share of the drive in use, the same for every stack, so that sheets are comparable. Chosen: a log takes its
/// reserve from unused space, and does only garbage collection without unused space.
const FULL: f64 = 0.8;

/// Everything that was measured.
struct Sheet {
    stack: Stack,
    measured: Vec<(Measure, RunRecord)>,
    /// Labels of runs without enough unused space for the log's reserve.
    too_full: Vec<String>,
    prices: Prices,
    span: Bytes,
    /// Default share of the drive in use.
    full: f64,
}

/// `lab datasheet`.
pub fn datasheet(args: &DatasheetArgs) -> anyhow::Result<()> {
    args.report.iter().try_for_each(|path| file::check(path))?;
    ensure!(args.jobs != Some(0), "--jobs must be at least 1");
    let stack = Stack::parse(&args.stack, &[])?;
    ensure!(
        stack.profile.timing.is_some() || stack.profile.disk.is_some(),
        "{} models no time: there is nothing to be measured of its speed; `lab list devices` shows timed ones",
        args.stack
    );
    let span = args.capacity.unwrap_or(test_volume(args.quick));
    let full = args.utilisation.unwrap_or(FULL);
    let asked = measures(&stack, span, full, args.quick);
    let interrupt = Interrupt::watch()?;
    let results =
        parallel::each(&asked, args.jobs, ("datasheet", &interrupt), |measure, mut tell| {
            run_planned(&measure.run.planned()?, &interrupt, &mut tell)
        });
    interrupt.check()?;
    let prices = Prices::from_toml("built-in", DEFAULT_PRICES, &[])?;
    let mut sheet = Sheet { stack, measured: Vec::new(), too_full: Vec::new(), prices, span, full };
    for (measure, result) in asked.into_iter().zip(results) {
        sheet.take(measure, result.context("it was not run")?)?;
    }
    let answers = answers::answers(&sheet);
    let advice = advice::advice(&sheet);
    let mut out = std::io::stdout().lock();
    let shown = if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&page::json(&sheet, &answers, &advice))?)
    } else {
        out.write_all(page::text(&sheet, &answers, &advice, args.commands).as_bytes())
    };
    if let Some(path) = &args.report {
        file::write(path, &page::html(&sheet, &answers, &advice))?;
    }
    shown?;
    if let Some(path) = args.report.as_ref().filter(|_| !args.json) {
        writeln!(out, "report: {}", path.display())?;
    }
    Ok(())
}

impl Sheet {
    /// Adds the record of a run. For the question of reserve, a data set that does not fit into a log is no error.
    fn take(&mut self, measure: Measure, result: Done) -> anyhow::Result<()> {
        let does_not_fit = |error: &anyhow::Error| {
            matches!(error.downcast_ref(), Some(thermocline_lab::Error::DoesNotFit(_)))
        };
        match result {
            Err(error) if measure.question == Question::Reserve && does_not_fit(&error) => {
                self.too_full.push(measure.label);
            }
            Err(error) => {
                return Err(error.context(format!("cannot run {}", measure.run.command())));
            }
            Ok(record) => self.measured.push((measure, record.context("it was interrupted")?)),
        }
        Ok(())
    }
}

/// The record of a run, or `None` if Ctrl-C ended the run before any measurement.
type Done = anyhow::Result<Option<RunRecord>>;
