//! `lab sweep`: one run for each value of a key, or for each pair of values of two keys.

mod cell;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use thermocline_lab::sweep::{Axis, Combination, combinations};
use thermocline_lab::{each, spec};
use thermocline_record::{RunRecord, RunSpec};
use thermocline_report::{SweepCell, SweepKey, sweep_page};

use self::cell::RunCache;
use super::args::{
    CONVENTIONS, DeviceArgs, ENDS_EARLY, ReplayArgs, RunOf, SourceArgs, check_fast_capacity, load,
    of_arguments, told,
};
use super::run::DECIDING;
use crate::file;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::table::{TableForm, in_form, plain};

/// Help text about sweeps, with examples.
const ABOUT: &str = "\
A range A..B has 6 values, or as many as A..B:STEPS says; those that are equal
when rounded are tried once. Numbers are spaced linearly, sizes geometrically;
:lin and :log say otherwise. A list is V,V,V.
Keys: device.KEY, fast.KEY and log.KEY as for --set, tag.placement, and stack,
workload, span, drive_writes, writes, io_size, read_share, trim_share, rate,
loops, capacity, fast_capacity, utilisation, at_rest, queue_depth, think_us,
speed, placement, victim, seed.

Each run is kept in the folder --cache under the hash of its specification and
of this program: a sweep that was interrupted, or is made finer, runs only what
is missing. Values of which a run cannot be made are shown as such.

Examples:
  thermocline lab sweep --stack raw:ideal --workload uniform --span 64MiB \\
    --sweep device.op=0.07..0.5
  thermocline lab sweep --stack raw:ideal --workload zipf:0.9 --span 64MiB \\
    --sweep device.op=0.07..0.5:3 --sweep device.unit=256KiB..1MiB:3 \\
    --jobs 2 --report sweep.html
  thermocline lab sweep --stack tag:pm9d3,buffer.merge=false --trace postgres-tpcc \\
    --loops 2 --sweep tag.placement=tenant,auto,volume --json";

/// Arguments of `lab sweep`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}\n{ENDS_EARLY}"))]
pub struct SweepArgs {
    /// `KEY=A..B[:STEPS][:lin|:log]` or `KEY=V,V,...`; once for curves, twice for one key against the other
    #[arg(long = "sweep", value_name = "KEY=VALUES", required = true)]
    axes: Vec<Axis>,
    /// LAYER:DEVICE[,KEY=VALUE...], such as raw:p5316 (`lab list layers` and `devices`)
    #[arg(long, value_name = "STACK", required_unless_present = "spec")]
    stack: Option<String>,
    /// The run that is varied from a file instead: a specification, or the record of a run
    #[arg(long, value_name = "FILE", conflicts_with_all = DECIDING)]
    spec: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    replay: ReplayArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Runs at a time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Folder in which records are kept and found again
    #[arg(long, value_name = "DIR", default_value = "thermocline-sweep")]
    cache: PathBuf,
    /// What the table shows of two keys; JSON and report have everything
    #[arg(long, value_name = "NAME", default_value = "waf", help_heading = "Output")]
    metric: Metric,
    /// Print JSON instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Print the figures as CSV or as a table of Markdown, a row for each combination
    #[arg(long, value_name = "FORM", help_heading = "Output", conflicts_with = "json")]
    table: Option<TableForm>,
    /// Write an HTML report with curves or heat maps: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Metric {
    /// Media bytes over host bytes, in steady state where that was reached
    Waf,
    /// Bytes that the layer wrote over host bytes
    Alwa,
    /// Media bytes over the bytes that the drive was given
    Dlwa,
    /// Median life in years
    Life,
    /// 99th percentile of write latency, in milliseconds
    P99,
    /// Host writes, MB/s
    Rate,
}

impl Metric {
    const ALL: [Metric; 6] =
        [Metric::Waf, Metric::Alwa, Metric::Dlwa, Metric::Life, Metric::P99, Metric::Rate];

    fn title(self) -> &'static str {
        match self {
            Metric::Waf => "WAF",
            Metric::Alwa => "ALWA",
            Metric::Dlwa => "DLWA",
            Metric::Life => "life P50, years",
            Metric::P99 => "write p99, ms",
            Metric::Rate => "host writes, MB/s",
        }
    }

    fn of(self, record: &RunRecord) -> Option<f64> {
        match self {
            Metric::Waf => record.lasting.waf,
            Metric::Alwa => record.lasting.alwa,
            Metric::Dlwa => record.lasting.dlwa,
            Metric::Life => record.life.as_ref().map(|life| life.years_p50),
            Metric::P99 => {
                let ns = record.latency_ns.as_ref()?.get("write")?.p99?;
                Some(ns as f64 / 1e6)
            }
            Metric::Rate => Some(record.bandwidth.as_ref()?.host_write_bytes_per_second / 1e6),
        }
    }
}

/// The result of a combination. `record` is `None` if an interrupt came before the run.
#[derive(Default)]
struct Made {
    cached: bool,
    record: Option<Result<RunRecord, String>>,
}

/// A cell as JSON.
#[derive(Serialize)]
struct CellOut<'a> {
    values: Vec<&'a str>,
    /// Name of the record in the cache.
    key: String,
    cached: bool,
    error: Option<&'a str>,
    waf: Option<f64>,
    steady: bool,
    alwa: Option<f64>,
    dlwa: Option<f64>,
    life_years_p50: Option<f64>,
    write_p99_ms: Option<f64>,
    host_write_mb_per_second: Option<f64>,
}

#[derive(Serialize)]
struct Outcome<'a> {
    schema: &'static str,
    /// The run that was varied.
    spec: &'a RunSpec,
    keys: &'a [Axis],
    interrupted: bool,
    cells: Vec<CellOut<'a>>,
}

/// `lab sweep`.
pub fn sweep(args: &SweepArgs) -> anyhow::Result<()> {
    ensure!(
        args.axes.len() <= 2,
        "--sweep is given once or twice: one key, or one against the other"
    );
    if let [a, b] = &args.axes[..] {
        ensure!(a.key != b.key, "both --sweep are of {}", a.key);
    }
    if let Some(path) = &args.report {
        file::check(path)?;
    }
    ensure!(args.jobs != Some(0), "--jobs must be at least 1");
    let base = args.base()?;
    let combinations = combinations(&base, &args.axes).map_err(of_arguments)?;
    let specs = combinations.iter().map(|combination| &combination.spec);
    let given = specs.clone().any(|spec| spec.fast_capacity_bytes.is_some());
    let mut stacks: Vec<&str> = specs.map(|spec| spec.stack.as_str()).collect();
    stacks.dedup();
    check_fast_capacity(given, stacks.into_iter())?;
    let cache = RunCache::open(&args.cache)?;
    let interrupt = Interrupt::watch()?;
    let made = args.run_all(&combinations, &cache, &interrupt)?;
    let found = made.iter().filter(|made| made.cached).count();
    if found > 0 {
        eprintln!("{found} of {} runs were found in {}", made.len(), args.cache.display());
    }
    args.give(&base, &combinations, &made, &cache, &interrupt)?;
    interrupt.check()
}

impl SweepArgs {
    /// The run that is varied.
    fn base(&self) -> anyhow::Result<RunSpec> {
        if let Some(path) = &self.spec {
            return load(path);
        }
        let (source, replay) = (self.source.clone(), self.replay.clone());
        let stack = self.stack.clone().context("clap asks for a stack")?;
        let spec = RunOf { stack, source, replay, device: self.device.clone() }.spec()?;
        let files = spec::files(&spec.stack, &spec.workload).map_err(of_arguments)?;
        Ok(RunSpec { files, ..spec })
    }

    /// Finds or runs all combinations, several at a time. An impossible run is a result. An unwritable record ends the
    /// sweep.
    fn run_all(
        &self,
        combinations: &[Combination],
        cache: &RunCache,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Vec<Made>> {
        let count = combinations.len();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or(processors).min(count);
        let bars = Progress::default();
        let bar = bars.bar(&format!("{count} runs, {jobs} at a time"));
        let shares = Mutex::new(vec![0.0; count]);
        let tell = |index: usize, share: f64| {
            let mut shares = shares.lock().expect("no thread panics while it tells");
            shares[index] = share;
            bar.set(shares.iter().sum::<f64>() / count as f64);
        };
        let made = each(combinations, Some(jobs), &interrupt.flag(), |index, combination| {
            let spec = &combination.spec;
            let found =
                cache.find(spec).map(|record| Made { cached: true, record: Some(Ok(record)) });
            let new = found.unwrap_or_else(|| {
                let mut progress = |share| tell(index, share);
                let record = match cache.make(spec, interrupt, &mut progress) {
                    Ok(record) => record.map(Ok),
                    Err(error) => Some(Err(told(&error))),
                };
                Made { cached: false, record }
            });
            tell(index, 1.0);
            if new.record.is_some() {
                interrupt.something_to_show();
            }
            new
        });
        drop(bar);
        let made: Vec<Made> = made.into_iter().map(Option::unwrap_or_default).collect();
        let errors = || made.iter().filter_map(|made| made.record.as_ref()?.as_ref().err());
        if errors().count() == count {
            bail!("no run can be made: {}", errors().next().map_or("", String::as_str));
        }
        Ok(made)
    }

    fn give(
        &self,
        base: &RunSpec,
        combinations: &[Combination],
        made: &[Made],
        cache: &RunCache,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let shown = if self.json {
            let cells = combinations.iter().zip(made);
            let cells =
                cells.map(|(combination, made)| self.cell(combination, made, cache)).collect();
            let outcome = Outcome {
                schema: "thermocline.sweep/1",
                spec: base,
                keys: &self.axes,
                interrupted: interrupt.is_asked(),
                cells,
            };
            writeln!(out, "{}", serde_json::to_string_pretty(&outcome)?)
        } else {
            let text = match self.table {
                Some(form) => self.flat(combinations, made, form),
                None => self.text(made),
            };
            out.write_all(text.as_bytes())
        };
        let reported = self.report.as_ref().map_or(Ok(()), |path| {
            file::write(
                path,
                &sweep_page(&self.title(base), &self.keys(), &cells(combinations, made)),
            )
        });
        reported?;
        shown?;
        if let (Some(path), false) = (&self.report, self.json || self.table.is_some()) {
            writeln!(out, "report: {}", path.display())?;
        }
        Ok(())
    }

    fn title(&self, base: &RunSpec) -> String {
        let keys: Vec<&str> = self.axes.iter().map(|axis| axis.key.as_str()).collect();
        format!("Thermocline: {} by {}", base.stack, keys.join(" and "))
    }

    fn keys(&self) -> Vec<SweepKey> {
        let key = |axis: &Axis| SweepKey {
            key: axis.key.clone(),
            spacing: axis.spacing.name().to_owned(),
            values: axis.values.clone(),
        };
        self.axes.iter().map(key).collect()
    }

    fn cell<'a>(
        &'a self,
        combination: &Combination,
        made: &'a Made,
        cache: &RunCache,
    ) -> CellOut<'a> {
        let record = made.record.as_ref().and_then(|record| record.as_ref().ok());
        let figure = |metric: Metric| record.and_then(|record| metric.of(record));
        let at = combination.at.iter().zip(&self.axes);
        CellOut {
            values: at.map(|(&index, axis)| axis.values[index].as_str()).collect(),
            key: cache.key(&combination.spec),
            cached: made.cached,
            error: made
                .record
                .as_ref()
                .and_then(|record| record.as_ref().err())
                .map(String::as_str),
            waf: figure(Metric::Waf),
            steady: record.is_some_and(|record| record.steady_state.reached),
            alwa: figure(Metric::Alwa),
            dlwa: figure(Metric::Dlwa),
            life_years_p50: figure(Metric::Life),
            write_p99_ms: figure(Metric::P99),
            host_write_mb_per_second: figure(Metric::Rate),
        }
    }

    /// A row for each combination, with every metric.
    fn flat(&self, combinations: &[Combination], made: &[Made], form: TableForm) -> String {
        let keys = self.axes.iter().map(|axis| axis.key.clone());
        let metrics = Metric::ALL.map(|metric| metric.title().to_owned());
        let heads: Vec<String> = keys.chain(metrics).collect();
        let row = |(combination, made): (&Combination, &Made)| {
            let at = combination.at.iter().zip(&self.axes);
            let values = at.map(|(index, axis)| axis.values[*index].clone());
            values.chain(Metric::ALL.map(|metric| shown(made, metric))).collect()
        };
        let rows: Vec<Vec<String>> = combinations.iter().zip(made).map(row).collect();
        in_form(&heads, &rows, form)
    }

    /// The sweep as text. One key: a line per value, with every metric. Two keys: a line per value of the first key,
    /// and a column per value of the second key.
    fn text(&self, made: &[Made]) -> String {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let mut table = plain();
        let heading = |axis: &Axis| format!("{} ({})", axis.key, axis.spacing.name());
        match &self.axes[..] {
            [rows, columns] => {
                let mut header = vec![Cell::new(format!("{} \\ {}", rows.key, columns.key))];
                header.extend(columns.values.iter().map(|value| right(value.clone())));
                table.set_header(header);
                for (value, line) in rows.values.iter().zip(made.chunks(columns.values.len())) {
                    let cells = line.iter().map(|made| right(shown(made, self.metric)));
                    table.add_row([Cell::new(value)].into_iter().chain(cells));
                }
                let (down, across) = (heading(rows), heading(columns));
                let notes = notes(made);
                format!(
                    "{}, by {down} down and {across} across\n{table}\n{notes}",
                    self.metric.title()
                )
            }
            axes => {
                let axis = &axes[0];
                let titles = Metric::ALL.map(|metric| right(metric.title().to_owned()));
                table.set_header([Cell::new(heading(axis))].into_iter().chain(titles));
                for (value, made) in axis.values.iter().zip(made) {
                    let cells = Metric::ALL.map(|metric| right(shown(made, metric)));
                    table.add_row([Cell::new(value)].into_iter().chain(cells));
                }
                format!("{table}\n{}", notes(made))
            }
        }
    }
}

/// The figure of a cell as text: `~` marks a transient WAF, and words explain a missing figure.
fn shown(made: &Made, metric: Metric) -> String {
    match &made.record {
        None => "not run".into(),
        Some(Err(_)) => "cannot run".into(),
        Some(Ok(record)) => {
            let ratio = matches!(metric, Metric::Waf | Metric::Alwa | Metric::Dlwa);
            let mark = if ratio && !record.steady_state.reached { "~" } else { "" };
            metric.of(record).map_or("-".into(), |figure| format!("{mark}{figure:.3}"))
        }
    }
}

/// Notes that explain the cells.
fn notes(made: &[Made]) -> String {
    let mut text = String::new();
    let all = || made.iter().filter_map(|made| made.record.as_ref());
    if all().any(|record| record.as_ref().is_ok_and(|record| !record.steady_state.reached)) {
        text += "~ is transient: the run was not in steady state by its end\n";
    }
    let mut errors: Vec<&String> = all().filter_map(|record| record.as_ref().err()).collect();
    errors.dedup();
    errors.iter().take(3).for_each(|error| text += &format!("cannot run: {error}\n"));
    text
}

fn cells<'a>(combinations: &[Combination], made: &'a [Made]) -> Vec<SweepCell<'a>> {
    let cell = |(combination, made): (&Combination, &'a Made)| SweepCell {
        at: combination.at.clone(),
        record: match &made.record {
            None => Err("not run"),
            Some(Ok(record)) => Ok(record),
            Some(Err(reason)) => Err(reason.as_str()),
        },
    };
    combinations.iter().zip(made).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_key() {
        let text = ABOUT.split_once("Keys: ").and_then(|(_, rest)| rest.split_once(".\n\n"));
        let (keys, _) = text.expect("a paragraph of keys");
        let named: Vec<&str> = keys.split([',', ' ', '\n']).collect();
        let left_out: Vec<&&str> =
            thermocline_lab::sweep::KEYS.iter().filter(|key| !named.contains(*key)).collect();
        assert!(left_out.is_empty(), "{left_out:?}");
    }
}
