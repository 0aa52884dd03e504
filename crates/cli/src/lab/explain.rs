//! `lab explain`.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use comfy_table::{Cell, CellAlignment};
use thermocline_lab::explain::{Explanation, explain};

use super::bench_placement::bar_of;
use crate::progress::Progress;
use crate::table::plain;

/// Arguments of `lab explain`.
#[derive(Args)]
#[command(after_help = "\
Every policy runs on a full drive (15 % garbage, units of 2 MiB or smaller) with several victim rules, discards
ignored. Rates, recency and sequence are those of `lab analyze`; oracles know what no policy can.

Examples:
  thermocline lab explain --trace postgres-tpcc
  thermocline lab explain --trace rocksdb-overwrite --jobs 2 --json")]
pub struct ExplainArgs {
    /// Block trace: a file, plain, gzip or zstd, of any format (`lab list formats`), or one that comes with the program
    /// (`lab list traces`)
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
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
    let bars = Progress::default();
    let bar = bar_of(&bars);
    let progress = |name: &str, share| {
        bar(name, share);
        ControlFlow::Continue(())
    };
    let explanation = explain(&args.trace, args.jobs, args.seed, &progress)?;
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
