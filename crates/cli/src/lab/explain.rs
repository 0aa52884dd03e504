//! `lab explain`.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use thermocline_lab::explain::{Explanation, explain};
use thermocline_record::waterfall::Waterfall;
use thermocline_record::{RunRecord, WorkloadSpec};
use thermocline_report::{BarChart, PlotPage, render_plots};
use thermocline_workload::trace;

use super::bench_placement::bar_of;
use crate::file;
use crate::progress::Progress;
use crate::table::plain;
use crate::waterfall;

/// Arguments of `lab explain`.
#[derive(Args)]
#[command(after_help = "\
Of a trace: every policy runs on a full drive (15 % garbage, units of 2 MiB or smaller) with several victim rules, discards
ignored. Rates, recency and sequence are those of `lab analyze`; oracles know what no policy can.

Of the record of a run: where its bytes come from, from the application down to the media, and what would lower them.

Examples:
  thermocline lab explain --trace postgres-tpcc
  thermocline lab explain --trace rocksdb-overwrite --jobs 2 --json
  thermocline lab run --stack raw:p5316 --trace postgres-tpcc --record run.json
  thermocline lab explain --record run.json")]
pub struct ExplainArgs {
    /// Block trace: a file, plain, gzip or zstd, of any format (`lab list formats`), or one that comes with the program
    /// (`lab list traces`)
    #[arg(long, value_name = "FILE", required_unless_present = "record")]
    trace: Option<PathBuf>,
    /// Leave out and count lines of the trace that cannot be read, instead of ending at the first
    #[arg(long, conflicts_with = "record")]
    skip_bad: bool,
    /// Record of a run, as `lab run --record FILE` writes it
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    record: Option<PathBuf>,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of sentences and a table
    #[arg(long)]
    json: bool,
    /// Write an HTML page with charts: a single file, readable offline
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// `lab explain`.
pub fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    args.report.iter().try_for_each(|path| file::check(path))?;
    match (&args.record, &args.trace) {
        (Some(record), _) => explain_record(record, args),
        (None, Some(trace)) => explain_trace(trace, args),
        (None, None) => unreachable!("one of them is required"),
    }
}

/// Explains the written bytes of a run by their causes.
fn explain_record(path: &Path, args: &ExplainArgs) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let record = RunRecord::from_json(&text)
        .with_context(|| format!("{} is no record of a run", path.display()))?;
    let waterfall = Waterfall::of(&record);
    let mut out = std::io::stdout().lock();
    if let Some(report) = &args.report {
        let title = format!("Thermocline: where the bytes of {} come from", record.stack);
        file::write(report, &thermocline_report::render(&title, std::slice::from_ref(&record)))?;
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&waterfall)?)?;
        return Ok(());
    }
    out.write_all(format!("{}\n{}", record.stack, waterfall::show(&waterfall)).as_bytes())?;
    let fast = record.fast.as_ref().map(|fast| (&fast.device, &fast.life));
    for (device, life) in fast.into_iter().chain([(&record.device, &record.life)]) {
        if let Some(life) = life {
            writeln!(out, "{}: {}", device.profile, life.verdict)?;
        }
    }
    let (sentence, command) = answer_of_record(path, &record, &waterfall);
    writeln!(out, "\n{sentence}\n  {command}")?;
    told_of(args, &mut out)
}

/// Names the written report.
fn told_of(args: &ExplainArgs, out: &mut impl std::io::Write) -> anyhow::Result<()> {
    match &args.report {
        Some(path) => Ok(writeln!(out, "report: {}", path.display())?),
        None => Ok(()),
    }
}

/// The largest addition and its remedy in one sentence, and the command that shows it.
fn answer_of_record(path: &Path, record: &RunRecord, waterfall: &Waterfall) -> (String, String) {
    let whatif = match record.spec.as_deref().map(|spec| &spec.workload) {
        Some(WorkloadSpec::Trace { path, .. }) => {
            format!("thermocline lab whatif --device {} --trace {path}", record.device.profile)
        }
        _ => format!("thermocline lab run --spec {}", path.display()),
    };
    let host = record.host_bytes_written.max(1) as f64;
    let sentence = match waterfall.additions().first() {
        Some(first) if first.bytes as f64 >= 0.01 * host => format!(
            "Answer: most is added by {}, {:.2} bytes for each of the host. Less of it takes {}.",
            first.cause.replace('_', " "),
            first.bytes as f64 / host,
            first.remedy
        ),
        _ => "Answer: nothing is added that is worth an effort.".to_owned(),
    };
    (sentence, whatif)
}

fn explain_trace(path: &Path, args: &ExplainArgs) -> anyhow::Result<()> {
    let bars = Progress::default();
    let bar = bar_of(&bars);
    let progress = |name: &str, share| {
        bar(name, share);
        ControlFlow::Continue(())
    };
    let reading = trace::Options { skip_bad: args.skip_bad, ..trace::Options::default() };
    let explanation = explain(path, &reading, args.jobs, args.seed, &progress)?;
    drop(bar);
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&explanation)?)?;
    } else {
        let (sentence, command) = answer(path, &explanation);
        write!(out, "{}\n{sentence}\n  {command}\n", text(&explanation))?;
    }
    if let Some(report) = &args.report {
        file::write(report, &render_plots(&page(path, &explanation)))?;
    }
    if args.json { Ok(()) } else { told_of(args, &mut out) }
}

/// Share of the writes that a policy must save to be worth its effort. Chosen, not measured.
const WORTH: f64 = 0.02;

/// Which policy to use in one sentence, and the command that shows it.
fn answer(path: &Path, about: &Explanation) -> (String, String) {
    let winner = &about.winner;
    let run = |more: String| {
        format!("thermocline lab run --stack log:p5316 --trace {}{more}", path.display())
    };
    if about.waf_without - winner.waf < WORTH * about.waf_without {
        let sentence = format!(
            "Answer: no placement helps this workload: {} has a WAF of {:.3}, and {:.3} without separation.",
            winner.policy, winner.waf, about.waf_without
        );
        return (sentence, run(String::new()));
    }
    let sentence = format!(
        "Answer: place by {} with victims by {}: WAF {:.3} instead of {:.3}.",
        winner.policy, winner.victim, winner.waf, about.waf_without
    );
    let victim = match winner.victim.as_str() {
        "own" => String::new(),
        victim => format!(" --victim {victim}"),
    };
    (sentence, run(format!(" --placement {}{victim}", winner.policy)))
}

/// The policies as bars, and why.
fn page(path: &Path, about: &Explanation) -> PlotPage {
    let (sentence, command) = answer(path, about);
    let group = |line: &thermocline_lab::bench_placement::Line| {
        let (waf, victim) = line.best()?;
        Some((waf, (format!("{}, {victim}", line.policy), vec![Some(waf)])))
    };
    let mut lines: Vec<_> = about.table.lines.iter().filter_map(group).collect();
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    PlotPage {
        title: format!("Placement on {}", path.display()),
        introduction: format!("{sentence} {command}"),
        bars: vec![BarChart {
            title: "WAF by policy".to_owned(),
            caption: "On a full drive with 15 % garbage, each policy with its best victim rule. Oracles know more than any \
                policy can."
                .to_owned(),
            unit: "WAF".to_owned(),
            series: vec!["WAF".to_owned()],
            groups: lines.into_iter().map(|(_, group)| group).collect(),
            origin: None,
        }],
        notes: about.sentences.clone(),
        ..PlotPage::default()
    }
}

fn text(about: &Explanation) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut table = plain();
    table.set_header(vec![
        Cell::new("policy"),
        right("WAF".into()),
        Cell::new("victims"),
        right("of what is possible".into()),
    ]);
    let mut lines: Vec<_> =
        about.table.lines.iter().filter_map(|line| Some((line.best()?, &line.policy))).collect();
    lines.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
    let possible = about.waf_without - about.waf_perfect;
    for ((waf, victim), policy) in lines {
        let share = 100.0 * (about.waf_without - waf) / possible;
        table.add_row(vec![
            Cell::new(policy),
            right(format!("{waf:.3}")),
            Cell::new(victim),
            right(if possible > 0.0 { format!("{share:.0} %") } else { "-".into() }),
        ]);
    }
    format!("{}\n\n{table}\n", about.sentences.join("\n"))
}
