//! `lab bench-placement`.

mod page;
mod through;

use std::io::Write as _;
use std::num::{NonZeroU8, NonZeroU32};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use thermocline_ftl::victim::Victim;
use thermocline_lab::bench_placement::{Candidate, LAWS, Law, Line, Plan, Table, bench};
use thermocline_workload::trace::{self, BUILT_IN};

use crate::file;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::table::plain;

/// Built-in traces in which whole files die at once, so that placement policies cannot lower WAF.
const WRITTEN_ONCE: [&str; 3] = ["memcached-extstore", "restic-backup", "rocksdb-tiers"];

/// Arguments of `lab bench-placement`.
#[derive(Args)]
#[command(after_help = "\
Every placement policy with every victim rule on a full drive: write amplification (WAF), processor time per block
written and memory per block. The drive exports what the workload writes; open and reserve units lie inside its
space. Generated workloads fill the drive from first to last, then write; the second half is measured. Traces are
packed, filled in the order of first writes, and measured whole.

Examples:
  thermocline lab bench-placement --jobs 2
  thermocline lab bench-placement --only-workload zipf-1.0 --garbage 0.0687,0.15,0.2
  thermocline lab bench-placement --traces my-traces --only-workload traces --report placement.html
  thermocline lab bench-placement --only-policy sepbit,dac:12 --only-victim greedy --blocks 200000
  thermocline lab bench-placement --only-policy auto --only-workload zipf-1.0 --through engine")]
pub struct BenchArgs {
    /// Only these policies, such as sepbit or dac:12 (`lab list placements`), oracle-rates or oracle-future
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only_policy: Vec<Candidate>,
    /// Only these victim rules (`lab list victims`)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only_victim: Vec<Victim>,
    /// Only these workloads: a generated one, the name of a trace up to its first dot, `generated` or `traces`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only_workload: Vec<String>,
    /// Garbage proportions of the drive, 1 - exported / media
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_value = "0.15")]
    garbage: Vec<f64>,
    /// Blocks of 4 KiB in a unit
    #[arg(long, value_name = "N", default_value = "512")]
    segment: NonZeroU32,
    /// Blocks that a generated workload writes
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    blocks: u32,
    /// How many times its blocks a generated workload writes
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    turnovers: f64,
    /// Units kept in reserve [default: 2 and one for every two classes of a policy]
    #[arg(long, value_name = "N")]
    reserve: Option<NonZeroU8>,
    /// Folder of traces [default: traces inside the program, except files that die whole]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Honour the discards of traces instead of ignoring them
    #[arg(long)]
    discards: bool,
    /// Also put each policy, with its best victim rule, through the log engine on equal media, and say what the
    /// difference is made of
    #[arg(long, value_name = "WHAT", conflicts_with = "discards")]
    through: Option<What>,
    /// Override a setting of the log, as log.KEY=VALUE (`lab list settings`)
    #[arg(long, value_name = "KEY=VALUE", requires = "through")]
    set: Vec<String>,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write the JSON to a file as well
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    record: Option<PathBuf>,
    /// Write an HTML report: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// What else a workload can be put through.
#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// The log engine, as it serves pools
    Engine,
}

/// Default victim rules: each rule that is best for some workload, and the policies' own rules.
const VICTIMS: [&str; 6] = ["greedy", "cost-benefit-4", "cost-benefit", "kawaguchi", "lfs", "own"];

/// Generated workloads by name.
type Laws = Vec<(String, Law)>;

#[derive(Serialize)]
struct Outcome<'a> {
    schema: &'static str,
    seed: u64,
    turnovers: f64,
    discards: bool,
    reserve: Option<NonZeroU8>,
    /// Whether Ctrl-C ended the benchmark early. Absent values were not measured.
    interrupted: bool,
    tables: &'a [Table],
}

/// `lab bench-placement`.
pub fn bench_placement(args: &BenchArgs) -> anyhow::Result<()> {
    let plan = args.plan()?;
    [&args.record, &args.report].into_iter().flatten().try_for_each(|path| file::check(path))?;
    let interrupt = Interrupt::watch()?;
    let mut out = std::io::stdout().lock();
    let mut tables = Vec::new();
    let mut failed = None;
    let bars = Progress::default();
    let bar = bar_of(&bars);
    let progress = |name: &str, share| {
        if share > 0.0 {
            interrupt.something_to_clear();
        }
        bar(name, share);
        if interrupt.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    bench(&plan, &progress, |table| {
        if !args.json && failed.is_none() {
            failed = writeln!(out, "{}{}", show(&table), through::show(&table)).err();
        }
        tables.push(table);
        Ok(())
    })?;
    drop(bar);
    if tables.is_empty() {
        interrupt.check()?;
    }
    interrupt.something_to_show();
    let outcome = Outcome {
        schema: "thermocline.bench-placement/1",
        seed: plan.seed,
        turnovers: plan.turnovers,
        discards: plan.discards,
        reserve: plan.reserve,
        interrupted: interrupt.is_asked(),
        tables: &tables,
    };
    let json = format!("{}\n", serde_json::to_string_pretty(&outcome)?);
    let shown = match failed {
        Some(error) => Err(error),
        None if args.json => out.write_all(json.as_bytes()),
        None if tables.len() > 1 => writeln!(out, "{}", summary(&tables)),
        None => Ok(()),
    };
    let recorded = args.record.as_ref().map_or(Ok(()), |path| file::write(path, &json));
    let page = || page::render(&tables);
    let reported = args.report.as_ref().map_or(Ok(()), |path| file::write(path, &page()));
    recorded.and(reported)?;
    shown?;
    interrupt.check()
}

/// Shows one progress bar after the other, each with the name of the measurement.
pub fn bar_of(bars: &Progress) -> impl Fn(&str, f64) + Sync {
    let bar = Mutex::new((String::new(), None));
    move |name: &str, share: f64| {
        let mut shown = bar.lock().expect("no thread panics while it moves the bar");
        if shown.0 != name {
            *shown = (name.to_owned(), Some(bars.bar(name)));
        }
        shown.1.as_ref().expect("there is a bar by now").set(share);
    }
}

impl BenchArgs {
    fn plan(&self) -> anyhow::Result<Plan> {
        ensure!(
            self.turnovers > 0.0 && self.turnovers.is_finite(),
            "--turnovers {}: above 0",
            self.turnovers
        );
        ensure!(
            (64..1 << 31).contains(&self.blocks),
            "--blocks {}: from 64 to 2^31 - 1",
            self.blocks
        );
        let mut candidates = self.only_policy.clone();
        if candidates.is_empty() {
            candidates = Candidate::all();
        }
        let mut victims = self.only_victim.clone();
        if victims.is_empty() {
            victims = VICTIMS.map(|name| name.parse().expect("a victim rule")).to_vec();
        }
        let (laws, traces) = self.workloads()?;
        Ok(Plan {
            candidates,
            victims,
            garbage: self.garbage.clone(),
            blocks_per_unit: self.segment,
            laws,
            blocks: self.blocks,
            turnovers: self.turnovers,
            traces,
            reading: trace::Options::default(),
            discards: self.discards,
            reserve: self.reserve,
            through: self.through.map(|What::Engine| self.set.clone()),
            seed: self.seed,
            jobs: self.jobs,
        })
    }

    /// The generated workloads and the traces wanted.
    fn workloads(&self) -> anyhow::Result<(Laws, Vec<PathBuf>)> {
        let wanted = |kind: &str, name: &str| {
            self.only_workload.is_empty()
                || self.only_workload.iter().any(|only| only == kind || only == name)
        };
        let laws: Laws = LAWS
            .into_iter()
            .filter(|(name, _)| wanted("generated", name))
            .map(|(name, law)| (name.to_owned(), law))
            .collect();
        let generated =
            |only: &String| only == "generated" || LAWS.iter().any(|(name, _)| name == only);
        let mut traces = Vec::new();
        if self.only_workload.is_empty() || !self.only_workload.iter().all(generated) {
            traces = match &self.traces {
                Some(folder) => trace_files(folder)?,
                None => {
                    let names = BUILT_IN.iter().map(|trace| trace.name);
                    names.filter(|name| !WRITTEN_ONCE.contains(name)).map(PathBuf::from).collect()
                }
            };
            traces.sort();
        }
        for only in self.only_workload.iter().filter(|&only| only != "traces") {
            let names: Vec<String> = traces.iter().map(|path| trace_name(path)).collect();
            let laws = LAWS.map(|(name, _)| name).join(", ");
            ensure!(
                generated(only) || names.contains(only),
                "`{only}` is no workload; there are generated ({laws}) and traces ({})",
                names.join(", ")
            );
        }
        traces.retain(|path| wanted("traces", &trace_name(path)));
        Ok((laws, traces))
    }
}

/// The traces in `folder`, by name.
fn trace_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_trace = name.is_some_and(|name| {
            let plain = name.trim_end_matches(".gz").trim_end_matches(".zst");
            plain.ends_with(".csv") && !plain.ends_with(".phases.csv")
        });
        if is_trace {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn trace_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or(&name).to_owned()
}

/// Which workload, how much room.
fn title(table: &Table) -> String {
    let limit = table.limit.map_or(String::new(), |limit| format!(", limit {limit:.3}"));
    format!(
        "{}: garbage {:.2} %, {} blocks, {} writes measured, units of {} blocks{limit}",
        table.workload,
        table.garbage * 100.0,
        table.blocks,
        table.blocks_measured,
        table.blocks_per_unit
    )
}

/// A WAF as text.
fn waf(value: Option<f64>) -> String {
    value.map_or("-".into(), |waf| format!("{waf:.3}"))
}

/// Best WAF, its victim rule, time and memory of a line as text.
fn facts(line: &Line) -> [String; 4] {
    let best = line.best();
    [
        waf(best.map(|(waf, _)| waf)),
        best.map_or("-".into(), |(_, victim)| victim.to_owned()),
        line.nanoseconds_per_write.map_or("-".into(), |time| format!("{time:.0}")),
        line.state_bytes_per_block.map_or("-".into(), |bytes| format!("{bytes:.2}")),
    ]
}

/// Column heads of a table: the policy, the facts, every victim rule.
fn heads(table: &Table) -> Vec<String> {
    let victims = table.lines.first().map(|line| &line.wafs[..]).unwrap_or_default();
    let first = ["policy", "best", "with", "ns/write", "B/block"].map(str::to_owned);
    first.into_iter().chain(victims.iter().map(|(victim, _)| victim.clone())).collect()
}

fn show(table: &Table) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut drawn = plain();
    let mut heads = heads(table).into_iter();
    let corner = Cell::new(heads.next().unwrap_or_default());
    drawn.set_header(std::iter::once(corner).chain(heads.map(right)).collect::<Vec<_>>());
    for line in &table.lines {
        let mut cells = vec![Cell::new(&line.policy)];
        cells.extend(facts(line).into_iter().map(right));
        cells.extend(line.wafs.iter().map(|(_, value)| right(waf(*value))));
        drawn.add_row(cells);
    }
    format!("{}\n{drawn}\n", title(table))
}

/// The best WAF of every policy on every workload: policies are columns.
fn summary(tables: &[Table]) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut drawn = plain();
    let policies = tables[0].lines.iter().map(|line| line.policy.clone());
    let mut header = vec![Cell::new("best WAF"), right("garbage".into()), right("limit".into())];
    header.extend(policies.map(right));
    drawn.set_header(header);
    for table in tables {
        let mut cells = vec![Cell::new(&table.workload)];
        cells.push(right(format!("{:.2} %", table.garbage * 100.0)));
        cells.push(right(waf(table.limit)));
        cells.extend(table.lines.iter().map(|line| right(waf(line.best().map(|(waf, _)| waf)))));
        drawn.add_row(cells);
    }
    drawn.to_string()
}
