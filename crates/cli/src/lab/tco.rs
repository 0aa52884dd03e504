//! `lab tco`: the cost of a workload on several stacks.

mod page;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Serialize;
use thermocline_lab::tco::case::{CASES, Case, Published};
use thermocline_lab::tco::prices::DEFAULT_PRICES;
use thermocline_lab::tco::{Comparison, Demand, MeasuredStack, Prices, compare};
use thermocline_lab::{Settings, Stack};
use thermocline_record::RunRecord;
use thermocline_types::Bytes;

use super::args::{CONVENTIONS, DeviceArgs, ENDS_AT_ONCE, ReplayArgs, SourceArgs};
use super::run::run_all;
use crate::file;
use crate::interrupt::Interrupt;

/// Help text about the calculation, with examples.
const ABOUT: &str = "\
Runs the workload on each stack, scaled down and as full as --utilisation says, or takes
the records of runs. Write amplification says how long the drives live, the rate
that a drive reached how many it takes; the rest is in the price file: every
number has its source there, and most are assumptions to be replaced by offers.
The verdict names the input whose change flips it first, all others as put in.
P10, P50 and P90 are of trials of all uncertain inputs, log-normal around what was
put in; what stacks share is drawn once for all of them.

Examples:
  thermocline lab tco --stack raw:p5316 --stack log:p5316 --workload zipf:0.99 \\
    --span 128MiB --data 100TB --daily-writes 20TB
  thermocline lab tco --case csal --report csal.html
  thermocline lab tco --print-prices > prices.toml
  thermocline lab run --stack raw:pm9d3 --workload uniform --span 128MiB \\
    --queue-depth 32 --record pm9d3.json
  thermocline lab tco --record pm9d3.json --data 50TB --daily-writes 10TB \\
    --prices prices.toml --price drive.pm9d3.usd_per_tb=95 --json";

/// Arguments of `lab tco`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}\n{ENDS_AT_ONCE}"))]
pub struct TcoArgs {
    /// LAYER:DEVICE[,KEY=VALUE...], to be run; hard disks are raw:hdd; may be repeated
    #[arg(long = "stack", value_name = "STACK", conflicts_with = "case")]
    stacks: Vec<String>,
    /// The record of a run instead (`lab run --record`, or `lab compare --record`); may be repeated
    #[arg(long = "record", value_name = "FILE", conflicts_with = "case")]
    records: Vec<PathBuf>,
    /// A case that comes with the program: wine, cloudmark or llog (2009), csal (2022); or a TOML file like theirs
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Print a case instead, to start your own from
    #[arg(long, requires = "case")]
    print_case: bool,
    /// Data to be stored
    #[arg(long, value_name = "SIZE", help_heading = "Demand")]
    data: Option<Bytes>,
    /// Written a day
    #[arg(long, value_name = "SIZE", help_heading = "Demand")]
    daily_writes: Option<Bytes>,
    /// Written a second at most [default: four times the mean, service.peak_over_mean]
    #[arg(long, value_name = "SIZE", help_heading = "Demand")]
    peak_writes: Option<Bytes>,
    /// Requests a second at most, in the workload's mix
    #[arg(long, value_name = "N", help_heading = "Demand")]
    peak_requests: Option<f64>,
    /// Share of each drive that data fills, above 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share, default_value_t = 0.8, help_heading = "Demand")]
    utilisation: f64,
    /// Price file [default: that of --print-prices]
    #[arg(long, value_name = "FILE", help_heading = "Prices")]
    prices: Option<PathBuf>,
    /// Replace a value, such as energy.usd_per_kwh=0.3; may be repeated
    #[arg(long = "price", value_name = "KEY=VALUE", help_heading = "Prices")]
    price: Vec<String>,
    /// Print the price file that comes with the program
    #[arg(long, help_heading = "Prices")]
    print_prices: bool,
    /// Trials of the uncertain inputs, seeded by --seed
    #[arg(long, value_name = "N", default_value_t = 10_000, help_heading = "Prices")]
    trials: u32,
    /// Requests in flight in the runs
    #[arg(long, value_name = "N", default_value_t = 32)]
    queue_depth: u32,
    /// Capacity of the fast device of a simulated tier [default: beside the other as large as the products are]
    #[arg(long, value_name = "SIZE")]
    fast_capacity: Option<Bytes>,
    /// Replay the trace so many times [default: 5, the passes that steady state takes]
    #[arg(long, value_name = "N")]
    loops: Option<u32>,
    #[command(flatten)]
    source: SourceArgs,
    /// Print JSON instead of tables
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write an HTML page with charts: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// The output as JSON.
#[derive(Serialize)]
struct Output<'a> {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    case: Option<&'a str>,
    workload: &'a str,
    #[serde(flatten)]
    comparison: &'a Comparison,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<Ratio>,
}

/// A published ratio beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    what: String,
    theirs: f64,
    ours: f64,
}

/// The inputs of a comparison.
struct Asked {
    title: String,
    source: Option<String>,
    stacks: Vec<String>,
    records: Vec<RunRecord>,
    run: (SourceArgs, ReplayArgs),
    device: DeviceArgs,
    demand: Demand,
    prices: Prices,
    theirs: Vec<Published>,
    /// Names of the stacks, if other than their texts.
    names: Vec<String>,
}

/// `lab tco`.
pub fn tco(args: &TcoArgs) -> anyhow::Result<()> {
    if args.print_prices {
        return Ok(write!(std::io::stdout(), "{DEFAULT_PRICES}")?);
    }
    if let Some(name) = args.case.as_ref().filter(|_| args.print_case) {
        let text = CASES.iter().find(|(known, _)| known == name);
        let text = text.with_context(|| format!("no case is called {name}"))?.1;
        return Ok(write!(std::io::stdout(), "{text}")?);
    }
    args.report.iter().try_for_each(|path| file::check(path))?;
    let asked = args.asked()?;
    let interrupt = Interrupt::watch()?;
    let mut measured = Vec::new();
    for record in &asked.records {
        let set = record.spec.as_ref().map_or(Vec::new(), |spec| spec.set.clone());
        measured.push(MeasuredStack::of(record, &Stack::parse(&record.stack, &set)?)?);
    }
    let run = asked.run_stacks(&interrupt)?;
    interrupt.check()?;
    for (stack, record) in &run {
        measured.push(MeasuredStack::of(record, stack)?);
    }
    for (measured, name) in measured.iter_mut().zip(&asked.names) {
        measured.stack.clone_from(name);
    }
    let records: Vec<RunRecord> =
        asked.records.iter().cloned().chain(run.into_iter().map(|(_, record)| record)).collect();
    let seed = args.source.seed;
    let comparison = compare(&asked.prices, &asked.demand, &measured, args.trials, seed)?;
    let found =
        Found { asked: &asked, comparison: &comparison, measured: &measured, records: &records };
    found.give(args)
}

impl TcoArgs {
    fn asked(&self) -> anyhow::Result<Asked> {
        if let Some(name) = &self.case {
            let is_file = name.ends_with(".toml") || name.contains('/');
            let read = || {
                std::fs::read_to_string(name)
                    .map_err(|e| anyhow::anyhow!("cannot read {name}: {e}"))
            };
            let text = is_file.then(read).transpose()?;
            return self.of_case(&Case::read(name, text.as_deref())?);
        }
        let is_run = !self.stacks.is_empty();
        ensure!(
            is_run || !self.records.is_empty(),
            "say what is compared: --stack with a workload, --record with the records of runs, or --case"
        );
        let (Some(data), Some(daily)) = (self.data, self.daily_writes) else {
            bail!("say what is stored and written a day: --data 100TB --daily-writes 20TB");
        };
        let replay = ReplayArgs {
            loops: self
                .loops
                .filter(|_| self.source.trace.is_some())
                .or_else(|| self.source.trace.is_none().then_some(1)),
            ..ReplayArgs::default()
        };
        if is_run {
            self.source.input(&replay)?;
        }
        Ok(Asked {
            title: "What the workload costs".into(),
            source: None,
            stacks: self.stacks.clone(),
            records: self.records()?,
            run: (self.source.clone(), replay),
            device: self.device(self.utilisation, self.queue_depth, self.fast_capacity),
            demand: self.demand(data, daily, None)?,
            prices: self.read_prices(&[])?,
            theirs: Vec::new(),
            names: Vec::new(),
        })
    }

    /// The case, with values of the command line in place of its own values.
    fn of_case(&self, case: &Case) -> anyhow::Result<Asked> {
        let mut source = SourceArgs::generated(&case.workload, case.span, case.drive_writes)
            .in_requests(case.io_size, case.read_share);
        source.seed = self.source.seed;
        let (data, daily) =
            (self.data.unwrap_or(case.data), self.daily_writes.unwrap_or(case.daily_writes));
        Ok(Asked {
            title: case.title.clone(),
            source: Some(case.source.clone()),
            stacks: case.stacks.clone(),
            records: Vec::new(),
            run: (source, ReplayArgs::default()),
            device: self.device(
                case.utilisation,
                case.queue_depth,
                self.fast_capacity.or(case.fast_capacity),
            ),
            demand: self.demand(data, daily, case.peak_requests)?,
            prices: self.read_prices(&case.prices)?,
            theirs: case.theirs.clone(),
            names: case.names.clone(),
        })
    }

    fn device(
        &self,
        utilisation: f64,
        queue_depth: u32,
        fast_capacity: Option<Bytes>,
    ) -> DeviceArgs {
        let queue_depth = Some(queue_depth);
        DeviceArgs { utilisation, queue_depth, fast_capacity, ..DeviceArgs::default() }
    }

    fn demand(&self, data: Bytes, daily: Bytes, requests: Option<f64>) -> anyhow::Result<Demand> {
        ensure!(data.0 > 0 && daily.0 > 0, "--data and --daily-writes must be above 0");
        let peak = self.peak_requests.or(requests);
        ensure!(peak.is_none_or(|peak| peak > 0.0), "--peak-requests must be above 0");
        Ok(Demand {
            peak_write_bytes_per_second: self.peak_writes.map(Bytes::as_f64),
            peak_requests_per_second: peak,
            ..Demand::new(data, daily)
        })
    }

    fn read_prices(&self, case: &[String]) -> anyhow::Result<Prices> {
        let name =
            self.prices.as_ref().map_or("built-in".into(), |path| path.display().to_string());
        let text = match &self.prices {
            None => DEFAULT_PRICES.to_owned(),
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| anyhow::anyhow!("cannot read {name}: {error}"))?,
        };
        let split = |text: &String| {
            let (key, value) =
                text.split_once('=').with_context(|| format!("--price {text}: write KEY=VALUE"))?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        };
        let overrides =
            case.iter().chain(&self.price).map(split).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Prices::from_toml(&name, &text, &overrides)?)
    }

    /// The records of all files. A comparison contributes each of its records.
    fn records(&self) -> anyhow::Result<Vec<RunRecord>> {
        let mut records = Vec::new();
        for path in &self.records {
            let shown = path.display();
            let text = std::fs::read_to_string(path)
                .map_err(|error| anyhow::anyhow!("cannot read {shown}: {error}"))?;
            let value: serde_json::Value =
                serde_json::from_str(&text).with_context(|| format!("{shown} is no record"))?;
            let runs = value["runs"].as_array().map(|runs| runs.iter().map(ToString::to_string));
            let texts = runs.map_or_else(|| vec![text.clone()], Iterator::collect);
            for text in texts {
                let record = RunRecord::from_json(&text);
                records.push(record.with_context(|| format!("{shown} is no record"))?);
            }
        }
        Ok(records)
    }
}

impl Asked {
    /// Runs the stacks, all with the same addresses.
    fn run_stacks(&self, interrupt: &Interrupt) -> anyhow::Result<Vec<(Stack, RunRecord)>> {
        if self.stacks.is_empty() {
            return Ok(Vec::new());
        }
        let stacks = self.stacks.iter().map(|text| self.device.stack(text));
        let stacks = stacks.collect::<anyhow::Result<Vec<_>>>()?;
        let (source, replay) = &self.run;
        let settings: Settings = self.device.settings(source.seed)?;
        let records = run_all(&stacks, source, replay, &settings, interrupt)?;
        Ok(stacks.into_iter().zip(records).collect())
    }
}

/// A comparison with its inputs.
struct Found<'a> {
    asked: &'a Asked,
    comparison: &'a Comparison,
    measured: &'a [MeasuredStack],
    records: &'a [RunRecord],
}

impl Found<'_> {
    fn workload(&self) -> &str {
        &self.records[0].workload.name
    }

    fn published(&self) -> Vec<Ratio> {
        let costs = &self.comparison.costs;
        let ratio = |published: &Published| {
            let (of, over) = (&costs[published.of].stack, &costs[published.over].stack);
            let what = format!("{}: {of} over {over}", published.quantity.name());
            Some(Ratio { what, theirs: published.ratio, ours: published.ours(self.comparison)? })
        };
        self.asked.theirs.iter().filter_map(ratio).collect()
    }

    fn give(&self, args: &TcoArgs) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let shown = if args.json {
            let output = Output {
                schema: "thermocline.tco/1",
                case: args.case.as_deref(),
                workload: self.workload(),
                comparison: self.comparison,
                published: self.published(),
            };
            writeln!(out, "{}", serde_json::to_string_pretty(&output)?)
        } else {
            out.write_all(page::text(self).as_bytes())
        };
        if let Some(path) = &args.report {
            file::write(path, &page::html(self, args.trials, args.source.seed)?)?;
        }
        shown?;
        if let Some(path) = args.report.as_ref().filter(|_| !args.json) {
            writeln!(out, "report: {}", path.display())?;
        }
        Ok(())
    }
}
