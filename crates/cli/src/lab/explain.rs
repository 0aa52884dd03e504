//! `lab explain`.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use thermocline_lab::explain::{Explanation, explain};
use thermocline_record::RunRecord;
use thermocline_record::waterfall::Waterfall;
use thermocline_workload::trace;

use super::bench_placement::bar_of;
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
}

/// `lab explain`.
pub fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    match (&args.record, &args.trace) {
        (Some(record), _) => explain_record(record, args.json),
        (None, Some(trace)) => explain_trace(trace, args),
        (None, None) => unreachable!("one of them is required"),
    }
}

/// Explains the written bytes of a run by their causes.
fn explain_record(path: &Path, json: bool) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let record = RunRecord::from_json(&text)
        .with_context(|| format!("{} is no record of a run", path.display()))?;
    let waterfall = Waterfall::of(&record);
    let mut out = std::io::stdout().lock();
    if json {
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
    Ok(())
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
        out.write_all(text(&explanation).as_bytes())?;
    }
    Ok(())
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
