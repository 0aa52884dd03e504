//! `lab pts`: the tests of the SNIA Solid State Storage Performance Test Specification.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Serialize;
use thermocline_lab::pts::{PtsCell, PtsOptions, PtsResult, PtsUnit, TESTS, mix, plots};
use thermocline_lab::{Layer, Stack, pts::stack_under_test};
use thermocline_record::plot::Plot;
use thermocline_report::{Origin, PlotPage, TextTable, render_plots};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Pattern;

use super::args::{CONVENTIONS, ENDS_AT_ONCE, test_volume};
use super::parallel;
use crate::file;
use crate::interrupt::Interrupt;
use crate::table::draw;

/// Help text: the tests, and examples.
const ABOUT: &str = "\
Each test makes the stack anew (purge), writes it twice over in order, and repeats
rounds until five are steady: within 20 % of their mean, the fitted line within
10 % of it; 25 rounds at most. Figures are means over these five. IOPS has all 56
combinations of size and mix; write saturation begins on an empty stack and writes
four capacities. A pattern runs for 50 ms of simulated time in each round (--quick:
12), where the specification has a minute. Under log and tier there is no write
cache in memory, unless the stack says pool.write_cache=on.

Examples:
  thermocline lab pts --stack raw:p5800x --quick --capacity 128MiB
  thermocline lab pts --stack raw:p5316 --quick --test latency --capacity 256MiB
  thermocline lab pts --stack log:zn540 --quick --capacity 128MiB --report pts.html";

/// Arguments of `lab pts`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}\n{ENDS_AT_ONCE}"))]
pub struct PtsArgs {
    /// LAYER:DEVICE[,KEY=VALUE...], such as raw:p5316 (`lab list layers` and `devices`)
    #[arg(long, value_name = "STACK")]
    stack: String,
    /// Only this test: iops, throughput, latency or saturation; may be given several times [default: all]
    #[arg(long = "test", value_name = "NAME")]
    tests: Vec<String>,
    /// What is accessed, and so about the capacity that is simulated [default: 2GiB, with --quick 256MiB]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// Share of the drive that this is, above 0 to 1 [default: 1, under log and tier, whose reserve is in the rest,
    /// 0.8]
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share)]
    utilisation: Option<f64>,
    /// Requests in flight, but for latency, which has one
    #[arg(long, value_name = "N", default_value_t = 32)]
    depth: u32,
    /// Override a key of the stack, as for `lab run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of all randomness; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Shorter rounds: roughly the same, in seconds
    #[arg(long)]
    quick: bool,
    /// Tests at a time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print JSON instead of tables
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write an HTML page with the charts of the specification: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// Share of a log in use. A drive without a log is full, as the specification requires. Chosen: a log takes its reserve
/// from unused space.
const LOG_FULL: f64 = 0.8;

/// Source of the tests.
const SOURCE: &str = "SNIA Solid State Storage Performance Test Specification, version 2.0.x, as far as the program's \
                      documentation of `lab pts` says";

/// The output as JSON.
#[derive(Serialize)]
struct Output<'a> {
    schema: &'static str,
    stack: &'a str,
    title: &'a str,
    volume_bytes: u64,
    depth: u32,
    seed: u64,
    quick: bool,
    tests: &'a [PtsResult],
    charts: Vec<Plot>,
}

/// `lab pts`.
pub fn pts(args: &PtsArgs) -> anyhow::Result<()> {
    args.report.iter().try_for_each(|path| file::check(path))?;
    ensure!(args.jobs != Some(0), "--jobs must be at least 1");
    ensure!(args.depth > 0, "--depth must be at least 1");
    let chosen = chosen(&args.tests)?;
    let stack = stack_under_test(&args.stack, &args.set)?;
    check_zones(&chosen, &stack)?;
    let options = args.options(&stack);
    let interrupt = Interrupt::watch()?;
    let results = parallel::each(&chosen, args.jobs, ("pts", &interrupt), |test, progress| {
        TESTS[*test].run(&stack, &options, progress)
    });
    interrupt.check()?;
    let results = results.into_iter().map(|result| Ok(result.context("it was not run")??));
    let results: Vec<PtsResult> = results.collect::<anyhow::Result<_>>()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let output = args.output(&stack, &options, &results);
        writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?;
    } else {
        writeln!(out, "{}: {}\n", args.stack, stack.profile.title)?;
        for table in results.iter().flat_map(tables) {
            writeln!(out, "{}\n{}\n", table.title, draw(&table.heads, &table.rows))?;
        }
    }
    let Some(path) = &args.report else { return Ok(()) };
    file::write(path, &args.page(&stack, &options, &results))?;
    if !args.json {
        writeln!(out, "report: {}", path.display())?;
    }
    Ok(())
}

/// Indices of the tests called `names`; all tests if `names` is empty.
fn chosen(names: &[String]) -> anyhow::Result<Vec<usize>> {
    for name in names {
        let known = ["iops", "throughput", "latency", "saturation"];
        ensure!(known.contains(&name.as_str()), "--test {name}: there are {}", known.join(", "));
    }
    let is_asked = |test: &str| {
        let test = test.to_lowercase();
        names.is_empty() || names.iter().any(|name| test.contains(name.as_str()))
    };
    Ok((0..TESTS.len()).filter(|&index| is_asked(TESTS[index].name)).collect())
}

/// Refuses tests with random writes on a drive without random writes.
fn check_zones(chosen: &[usize], stack: &Stack) -> anyhow::Result<()> {
    let is_random = |index: &usize| TESTS[*index].pattern != Pattern::Sequential;
    let is_zoned = !matches!(stack.layer, Layer::Log | Layer::Tier) && stack.profile.zns.is_some();
    let Some(test) = chosen.iter().find(|index| is_zoned && is_random(index)) else {
        return Ok(());
    };
    bail!(
        "{}: {} writes at random, which a zoned drive takes only below a log: give --stack log:{}, or only --test \
         throughput",
        stack.text,
        TESTS[*test].name,
        stack.text.split_once(':').map_or("", |(_, device)| device)
    )
}

impl PtsArgs {
    fn options(&self, stack: &Stack) -> PtsOptions {
        let logged = matches!(stack.layer, Layer::Log | Layer::Tier);
        PtsOptions {
            volume: self.capacity.unwrap_or(test_volume(self.quick)),
            utilisation: self.utilisation.unwrap_or(if logged { LOG_FULL } else { 1.0 }),
            depth: self.depth,
            seed: self.seed,
            quick: self.quick,
        }
    }

    fn output<'a>(
        &'a self,
        stack: &'a Stack,
        options: &PtsOptions,
        results: &'a [PtsResult],
    ) -> Output<'a> {
        Output {
            schema: "thermocline.pts/1",
            stack: &self.stack,
            title: &stack.profile.title,
            volume_bytes: options.volume.0,
            depth: self.depth,
            seed: self.seed,
            quick: self.quick,
            tests: results,
            charts: results.iter().flat_map(plots).collect(),
        }
    }

    /// The command that repeats the whole suite.
    fn command(&self, options: &PtsOptions) -> String {
        let mut command = format!(
            "thermocline lab pts --stack {} --capacity {} --utilisation {} --depth {} --seed {}",
            self.stack, options.volume.0, options.utilisation, self.depth, self.seed
        );
        for (flag, values) in [("--set", &self.set), ("--test", &self.tests)] {
            values.iter().for_each(|value| command += &format!(" {flag} {value}"));
        }
        command + if self.quick { " --quick" } else { "" }
    }

    fn page(&self, stack: &Stack, options: &PtsOptions, results: &[PtsResult]) -> String {
        let plots: Vec<Plot> = results.iter().flat_map(plots).collect();
        let name = "SNIA PTS".to_owned();
        render_plots(&PlotPage {
            title: format!("Performance test specification: {}", self.stack),
            introduction: format!(
                "{}, {} of it accessed, {} in flight; in virtual time. Purge, preconditioning, rounds until five are steady, \
                 and the figures of these five.",
                stack.profile.title, options.volume, self.depth
            ),
            plot_origins: plots.iter().map(|_| name.clone()).collect(),
            plots,
            tables: results.iter().flat_map(tables).collect(),
            origins: vec![Origin {
                name,
                source: SOURCE.into(),
                command: self.command(options),
            }],
            notes: vec![
                "each pattern of a round runs for milliseconds, where the specification has a minute: the capacity is scaled \
                 down with it"
                    .into(),
                "the write buffer of the drive keeps the size of the product's and absorbs more of a volume that is small \
                 beside it (device.buffer.size)"
                    .into(),
                "latency is that of the simulated stack; there is no host around it".into(),
            ],
            ..PlotPage::default()
        })
    }
}

/// The results as tables: the window, and the figures.
fn tables(result: &PtsResult) -> Vec<TextTable> {
    let [first, last] = result.window.rounds;
    let window = format!(
        "{}: {}, rounds {first} to {last}: within {:.1} % of the mean, the fitted line {:+.1} %",
        result.name,
        if result.window.steady { "steady" } else { "NOT STEADY" },
        100.0 * result.window.range,
        100.0 * result.window.drift
    );
    let (heads, rows) = match result.unit {
        PtsUnit::Iops if result.cells.len() > 1 => matrix(&result.cells),
        PtsUnit::Iops => saturation(result),
        PtsUnit::MbPerSecond | PtsUnit::Microseconds => listed(result),
    };
    let origin = Some("SNIA PTS".to_owned());
    vec![TextTable { title: window, heads, rows, origin, ..TextTable::default() }]
}

type Cells = (Vec<String>, Vec<Vec<String>>);

/// Requests a second: a row for each size, a column for each mix.
fn matrix(cells: &[PtsCell]) -> Cells {
    let mut heads = vec!["IOPS, reads/writes".to_owned()];
    let mut rows: Vec<(u64, Vec<String>)> = Vec::new();
    for cell in cells {
        let head = mix(cell.read_share);
        if !heads.contains(&head) {
            heads.push(head);
        }
        let value = format!("{:.0}", cell.value);
        match rows.iter_mut().find(|(size, _)| *size == cell.io_size) {
            Some((_, values)) => values.push(value),
            None => rows.push((cell.io_size, vec![value])),
        }
    }
    let rows = rows
        .into_iter()
        .map(|(size, values)| std::iter::once(Bytes(size).to_string()).chain(values).collect());
    (heads, rows.collect())
}

/// A row for each pattern.
fn listed(result: &PtsResult) -> Cells {
    let is_latency = result.unit == PtsUnit::Microseconds;
    let first = if is_latency { vec![] } else { vec!["MB/s"] };
    let heads = ["size", "reads/writes"].into_iter().chain(first);
    let heads = heads.chain(["mean, us", "99 % within, us", "99.999 %, us", "longest, us"]);
    let row = |cell: &PtsCell| {
        let value = (!is_latency).then(|| format!("{:.0}", cell.value));
        let latencies = [cell.mean_us, cell.p99_us, cell.p99_999_us, cell.max_us];
        let labels = [Bytes(cell.io_size).to_string(), mix(cell.read_share)];
        labels.into_iter().chain(value).chain(latencies.map(|us| format!("{us:.1}"))).collect()
    };
    (heads.map(str::to_owned).collect(), result.cells.iter().map(row).collect())
}

/// The first rounds, and the rounds of the window.
fn saturation(result: &PtsResult) -> Cells {
    let heads = ["capacities written", "IOPS", "WAF"].map(str::to_owned).to_vec();
    let rounds = &result.cells[0].rounds;
    let step = (rounds.len() / 8).max(1);
    let row = |index: usize| {
        vec![
            format!("{:.2}", result.written[index]),
            format!("{:.0}", rounds[index]),
            result.waf[index].map_or("-".into(), |waf| format!("{waf:.2}")),
        ]
    };
    (
        heads,
        (0..rounds.len())
            .filter(|index| index % step == 0 || index + 1 == rounds.len())
            .map(row)
            .collect(),
    )
}
