//! `lab analyze`.

mod page;

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use comfy_table::{Cell, CellAlignment};
use thermocline_lab::Input;
use thermocline_lab::analyze::{self, Analysis, Stage, heat};
use thermocline_lab::headroom::{Headroom, QUICK_WRITES, WRITES};
use thermocline_types::Bytes;
use thermocline_workload::profile::{Profile, TenantProfile};

use thermocline_report::{PlotPage, TextTable, render_plots};

use super::args::{CONVENTIONS, DeviceArgs, ENDS_AT_ONCE, ReplayArgs, RunOf, SourceArgs};
use super::output::refuse_overwriting;
use crate::file;
use crate::progress::{Bar, Progress};
use crate::table::plain;
use crate::tenants::SHOWN;

pub use page::charts_of;

use page::charts;

/// Help text: results of the analysis, and examples.
const ABOUT: &str = "\
It tells sizes, alignment, working set, sequence, skew, and how soon data is
rewritten. The headroom then simulates a full drive (15 % garbage, units of
2 MiB) whose placement knows nothing, every block's write rate, or the future:
where these differ little, no placement will help this workload. Of more than 16
million block writes four samples are simulated, which takes half a minute or so:
then each figure has an error, +- one standard error of the mean over the samples.

Examples:
  thermocline lab analyze --trace postgres-tpcc
  thermocline lab analyze --workload zipf:0.99 --span 256MiB --json
  thermocline lab analyze --traces postgres-tpcc rocksdb-overwrite --quick
  thermocline lab analyze --trace postgres-tpcc --from 1s --until 2s --quick
  thermocline lab analyze --workload uniform --span 4GiB --drive-writes 2 --quick
  zcat trace.csv.gz | thermocline lab analyze --trace - --no-headroom";

/// Arguments of `lab analyze`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}\n{ENDS_AT_ONCE}"))]
pub struct AnalyzeArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Leave out the simulations of what placement could reach
    #[arg(long)]
    no_headroom: bool,
    /// Simulate a million block writes instead of 16 million: some seconds, larger errors
    #[arg(long, conflicts_with = "no_headroom")]
    quick: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write an HTML page with charts of the workload: a single file, readable offline
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Several traces instead of one: a row of figures for each
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["trace", "workload", "report"])]
    traces: Vec<PathBuf>,
}

/// `lab analyze`.
pub fn analyze(args: &AnalyzeArgs) -> anyhow::Result<()> {
    let headroom = match (args.no_headroom, args.quick) {
        (true, _) => None,
        (false, true) => Some(QUICK_WRITES),
        (false, false) => Some(WRITES),
    };
    if !args.traces.is_empty() {
        return analyze_all(args, headroom);
    }
    if let Some(path) = &args.report {
        args.source.trace.iter().try_for_each(|trace| refuse_overwriting(trace, path))?;
        file::check(path)?;
    }
    let input = args.source.input(&ReplayArgs::default())?;
    let analysis = with_progress(&input, headroom)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&analysis)?)?;
    } else {
        let (sentence, command) = args.answer(&analysis);
        write!(out, "{}\n{sentence}\n  {command}\n", text(&analysis))?;
    }
    let Some(path) = &args.report else { return Ok(()) };
    let heat = match args.source.trace.as_ref().is_some_and(|trace| trace.as_os_str() == "-") {
        true => None,
        false => Some(heat(&input, &analysis.profile)?),
    };
    file::write(path, &render_plots(&args.page(&analysis, charts(&analysis, heat.as_ref()))))?;
    if !args.json {
        writeln!(out, "report: {}", path.display())?;
    }
    Ok(())
}

fn with_progress(input: &Input, headroom: Option<u64>) -> anyhow::Result<Analysis> {
    let bars = Progress::default();
    let mut bar: Option<(Stage, Bar)> = None;
    Ok(analyze::analyze(input, headroom, &mut |stage, share| {
        if bar.as_ref().is_none_or(|(shown, _)| *shown != stage) {
            bar = Some((stage, bars.bar(stage.name())));
        }
        bar.iter().for_each(|(_, bar)| bar.set(share));
    })?)
}

/// A row for each trace.
fn analyze_all(args: &AnalyzeArgs, headroom: Option<u64>) -> anyhow::Result<()> {
    let analyses = args.traces.iter().map(|trace| {
        let mut source = args.source.clone();
        source.trace = Some(trace.clone());
        with_progress(&source.input(&ReplayArgs::default())?, headroom)
    });
    let analyses = analyses.collect::<anyhow::Result<Vec<_>>>()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&analyses)?)?);
    }
    let mut table = plain();
    table.set_header([
        "trace",
        "requests",
        "written",
        "working set",
        "times over",
        "in sequence",
        "below 64 KiB",
        "hottest 10 % take",
        "placement",
    ]);
    for Analysis { workload, profile, headroom, .. } in &analyses {
        let tenth = profile.skew.hottest.iter().find(|hot| hot.share_of_blocks >= 0.1);
        let helps = headroom.as_ref().map_or("not asked", |headroom| match headroom.can_gain() {
            true => "can help",
            false => "cannot help",
        });
        table.add_row(vec![
            Cell::new(workload),
            right(profile.requests.to_string()),
            right(Bytes(profile.bytes_written).to_string()),
            right(Bytes(profile.working_set_bytes).to_string()),
            right(format!("{:.2}", profile.writes_per_working_set)),
            right(percent(profile.sequential_share)),
            right(percent(small_writes(profile))),
            right(tenth.map_or("-".to_owned(), |hot| percent(hot.share_of_writes))),
            Cell::new(helps),
        ]);
    }
    Ok(writeln!(out, "{table}")?)
}

impl AnalyzeArgs {
    /// The finding in one sentence, and the command that shows it.
    fn answer(&self, analysis: &Analysis) -> (String, String) {
        let run = |stack: &str| {
            let (source, stack) = (self.source.clone(), stack.to_owned());
            let (replay, device) =
                (ReplayArgs::default(), DeviceArgs { utilisation: 1.0, ..DeviceArgs::default() });
            RunOf { stack, source, replay, device }.command()
        };
        let small = small_writes(&analysis.profile);
        match (&analysis.headroom, &self.source.trace) {
            (Some(headroom), Some(trace)) if headroom.can_gain() => (
                format!("Answer: placement can help: {}.", headroom.verdict()),
                format!("thermocline lab explain --trace {}", trace.display()),
            ),
            (Some(headroom), None) if headroom.can_gain() => {
                (format!("Answer: placement can help: {}.", headroom.verdict()), run("log:p5316"))
            }
            (Some(_), _) if small < SMALL => (
                "Answer: placement cannot help, and the writes are large enough for any drive."
                    .to_owned(),
                run("raw:p5316"),
            ),
            (_, _) if small >= SMALL => (
                format!(
                    "Answer: {} of the writes are no whole multiple of 64 KiB: drives with a large mapping unit rewrite the rest.",
                    percent(small)
                ),
                run("raw:p5316"),
            ),
            (None, _) => {
                ("Answer: the writes are large enough for any drive.".to_owned(), run("raw:p5316"))
            }
            (Some(_), _) => unreachable!("writes are small or not"),
        }
    }

    fn page(&self, analysis: &Analysis, charts: PlotPage) -> PlotPage {
        let (sentence, command) = self.answer(analysis);
        let profile = &analysis.profile;
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        let rows = vec![
            row("requests", profile.requests.to_string()),
            row("written", Bytes(profile.bytes_written).to_string()),
            row("working set", Bytes(profile.working_set_bytes).to_string()),
            row("times written over", format!("{:.2}", profile.writes_per_working_set)),
            row("written in sequence", percent(profile.sequential_share)),
        ];
        PlotPage {
            title: format!("Workload {}", analysis.workload),
            introduction: format!("{sentence} {command}"),
            tables: vec![TextTable {
                title: "The workload".to_owned(),
                heads: vec!["figure".to_owned(), "value".to_owned()],
                rows,
                ..TextTable::default()
            }],
            notes: analysis.notes.clone(),
            ..charts
        }
    }
}

/// Share of small writes from which they are the finding. Chosen, not measured.
const SMALL: f64 = 0.1;

/// Share of the writes that are no whole multiple of 64 KiB, or do not begin at one.
fn small_writes(profile: &Profile) -> f64 {
    let whole = profile.alignment.iter().find(|share| share.alignment_bytes == 64 << 10);
    whole.map_or(0.0, |whole| 1.0 - whole.share_of_writes)
}

fn text(analysis: &Analysis) -> String {
    let mut text = summary(analysis);
    text += &operations(&analysis.profile);
    text += &alignment(&analysis.profile);
    text += &rewrites(&analysis.profile);
    if analysis.profile.tenants.len() > 1 {
        text += &tenants(analysis);
    }
    if let Some(headroom) = &analysis.headroom {
        text += &headroom_table(headroom);
    }
    if let Some(reason) = &analysis.no_headroom_because {
        text += &format!("no headroom: {reason}\n");
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn summary(analysis: &Analysis) -> String {
    let profile = &analysis.profile;
    let format = analysis.format.as_ref().map_or(String::new(), |format| format!(" ({format})"));
    let mut text = format!("{}{format}: {} requests", analysis.workload, profile.requests);
    if profile.duration_s > 0.0 {
        let _ = write!(text, " in {:.1} s", profile.duration_s);
    }
    let _ = write!(
        text,
        "\n  {} written over a working set of {}, {:.2} times; addresses up to {}\n  {} of the bytes written in sequence",
        Bytes(profile.bytes_written),
        Bytes(profile.working_set_bytes),
        profile.writes_per_working_set,
        Bytes(profile.span_bytes),
        percent(profile.sequential_share),
    );
    if let Some(daily) = profile.daily_bytes_written {
        let _ = write!(text, "; {} a day at this pace", Bytes(daily as u64));
    }
    for note in &analysis.notes {
        let _ = write!(text, "\n  note: {note}");
    }
    let _ = write!(text, "\n  skew:");
    for hot in &profile.skew.hottest {
        let _ = write!(
            text,
            " hottest {} take {},",
            percent(hot.share_of_blocks),
            percent(hot.share_of_writes)
        );
    }
    match profile.skew.zipf_theta {
        Some(theta) => {
            let fit = profile.skew.zipf_r2.map_or(String::new(), |r2| format!(" (R² {r2:.2})"));
            let _ = writeln!(text, " like Zipf {theta:.2}{fit}\n");
        }
        None => text += " no power law fits\n\n",
    }
    text
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn operations(profile: &Profile) -> String {
    let mut table = plain();
    table.set_header(["operation", "requests", "share", "bytes", "sizes (share of requests)"]);
    for operation in profile.operations.iter().filter(|operation| operation.requests > 0) {
        let sizes: Vec<String> = operation
            .sizes
            .iter()
            .filter(|class| class.requests * 100 >= operation.requests)
            .map(|class| {
                let share = class.requests as f64 / operation.requests as f64;
                format!("≤{} {:.0} %", Bytes(class.bytes_max), share * 100.0)
            })
            .collect();
        table.add_row(vec![
            Cell::new(operation.operation),
            right(operation.requests.to_string()),
            right(percent(operation.share_of_requests)),
            right(Bytes(operation.bytes).to_string()),
            Cell::new(sizes.join(", ")),
        ]);
    }
    format!("{table}\n")
}

fn alignment(profile: &Profile) -> String {
    let mut table = plain();
    let mut header = vec![Cell::new("writes aligned to")];
    header.extend(profile.alignment.iter().map(|a| right(Bytes(a.alignment_bytes).to_string())));
    table.set_header(header);
    let mut requests = vec![Cell::new("share of writes")];
    requests.extend(profile.alignment.iter().map(|a| right(percent(a.share_of_writes))));
    table.add_row(requests);
    let mut bytes = vec![Cell::new("share of bytes")];
    bytes.extend(profile.alignment.iter().map(|a| right(percent(a.share_of_bytes))));
    table.add_row(bytes);
    format!("{table}\n")
}

fn rewrites(profile: &Profile) -> String {
    let rewrites = &profile.rewrites;
    let mut table = plain();
    table.set_header(["rewritten after", "block writes", "share"]);
    let total = (rewrites.first_writes + rewrites.rewrites).max(1) as f64;
    let mut row = |name: String, blocks: u64| {
        table.add_row(vec![
            Cell::new(name),
            right(blocks.to_string()),
            right(percent(blocks as f64 / total)),
        ]);
    };
    for class in &rewrites.classes {
        let range = format!("{} to {}", Bytes(class.bytes_min), Bytes(2 * class.bytes_min));
        row(range, class.blocks);
    }
    row("first write".into(), rewrites.first_writes);
    format!("{table}\n")
}

fn tenants(analysis: &Analysis) -> String {
    let mut table = plain();
    table.set_header([
        "tenant",
        "requests",
        "read",
        "written",
        "trimmed",
        "working set",
        "in sequence",
    ]);
    let (shown, more) = largest(&analysis.profile.tenants);
    let mut row = |name: String, tenant: &TenantProfile| {
        table.add_row(vec![
            Cell::new(name),
            right(tenant.requests.to_string()),
            right(Bytes(tenant.bytes_read).to_string()),
            right(Bytes(tenant.bytes_written).to_string()),
            right(Bytes(tenant.bytes_trimmed).to_string()),
            right(Bytes(tenant.working_set_bytes).to_string()),
            right(percent(tenant.sequential_share)),
        ]);
    };
    for tenant in &shown {
        let number = tenant.tenant as usize;
        let name = analysis.volumes.get(number).cloned().unwrap_or_else(|| number.to_string());
        row(name, tenant);
    }
    if !more.is_empty() {
        row(format!("{} more (--json has each)", more.len()), &TenantProfile::sum(&more));
    }
    format!("{table}\n")
}

/// Splits tenants into shown and summed tenants. Above `SHOWN` tenants, only the largest are shown.
fn largest(tenants: &[TenantProfile]) -> (Vec<TenantProfile>, Vec<TenantProfile>) {
    let mut all = tenants.to_vec();
    if all.len() > SHOWN {
        all.sort_by_key(|tenant| Reverse(tenant.bytes_written + tenant.bytes_read));
    }
    let more = all.split_off(all.len().min(SHOWN));
    (all, more)
}

fn headroom_table(headroom: &Headroom) -> String {
    let mut table = plain();
    table.set_header(["placement knows", "WAF", "best victim policy"]);
    for line in &headroom.lines {
        table.add_row(vec![
            Cell::new(line.knowledge),
            right(line.error.map_or_else(
                || format!("{:.3}", line.waf),
                |error| format!("{:.3} +- {error:.3}", line.waf),
            )),
            Cell::new(&line.victim),
        ]);
    }
    let unit = Bytes(u64::from(headroom.blocks_per_unit) * Bytes::BLOCK.0);
    let sampled = headroom.sampled.as_ref().map_or(String::new(), |sampled| {
        let stands_for = Bytes((unit.as_f64() / sampled.share_of_blocks) as u64);
        format!(
            "simulated: {} of its block writes, in {} samples of {} of its blocks, where a unit of {unit} stands for one \
             of {stands_for}; small units lower the first figure by up to a quarter, beyond the error\n",
            percent(sampled.share_of_writes),
            sampled.samples,
            percent(sampled.share_of_blocks),
        )
    });
    format!(
        "headroom on a full drive with {} garbage, units of {unit}, 4 KiB mapping, no trims:\n{table}\n{sampled}{}\n",
        percent(headroom.garbage),
        headroom.verdict(),
    )
}
