//! Where the numbers come from: device, workload, settings, definitions, and how to run it again.

use std::collections::BTreeSet;

use serde_json::Value;
use thermocline_record::{Bandwidth, RunRecord};

use crate::data::Run;
use crate::text::{UNKNOWN, count, data, duration, escape, fullness, percent, significant, words};

/// One line of the table of facts: a name, and HTML for each run.
type Fact = (String, Vec<String>);

/// The section on configuration and provenance.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let heads: String =
        runs.iter().map(|run| format!("<th scope=\"col\">{}</th>", run.name())).collect();
    let groups = [
        ("Device", device(runs)),
        ("Workload", workload(runs)),
        ("Steady state", steady(runs)),
        ("Run", run_facts(runs)),
        ("Settings", settings(runs)),
    ];
    let body: String =
        groups.iter().map(|(title, facts)| group(title, facts, runs.len())).collect();
    let differ = if runs.len() > 1 {
        "<p class=\"legend\">\u{2260} marks what differs between the stacks.</p>"
    } else {
        ""
    };
    format!(
        "<section id=\"provenance\"><h2>Configuration and provenance</h2>{differ}<div \
         class=\"scroll\" tabindex=\"0\">\
         <table class=\"facts-table\"><thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody>\
         </table></div>{}{}</section>",
        reproduce(runs),
        DEFINITIONS
    )
}

/// A group of lines under a heading.
fn group(title: &str, facts: &[Fact], width: usize) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let mut html = format!(
        "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\">{title}</th></tr>",
        width + 1
    );
    for (name, values) in facts {
        let differs = values.windows(2).any(|pair| pair[0] != pair[1]);
        let mark =
            if differs { " <span class=\"differs\" title=\"differs\">\u{2260}</span>" } else { "" };
        let cells: String = values.iter().map(|value| format!("<td>{value}</td>")).collect();
        html += &format!("<tr><th scope=\"row\">{name}{mark}</th>{cells}</tr>");
    }
    html
}

/// One fact of every run.
fn fact(runs: &[Run<'_>], name: &str, value: impl Fn(&RunRecord) -> String) -> Fact {
    (name.to_owned(), runs.iter().map(|run| value(run.record)).collect())
}

/// The device as simulated.
fn device(runs: &[Run<'_>]) -> Vec<Fact> {
    let capacity = |bytes: u64| format!("{} <small>({} B)</small>", data(bytes), count(bytes));
    vec![
        fact(runs, "profile", |r| escape(&r.device.profile)),
        fact(runs, "product", |r| escape(&r.device.title)),
        fact(runs, "kind", |r| escape(&r.device.kind)),
        fact(runs, "capacity of the product", |r| capacity(r.device.product_capacity_bytes)),
        fact(runs, "capacity simulated", |r| capacity(r.device.capacity_bytes)),
        fact(runs, "of it full of the workload's data", |r| {
            r.device.utilisation.map_or_else(|| UNKNOWN.to_owned(), fullness)
        }),
        fact(runs, "media behind it", |r| capacity(r.device.media_bytes)),
        fact(runs, "overprovisioning (media \u{2212} capacity) / capacity", |r| {
            percent(r.device.overprovisioning)
        }),
        fact(runs, "mapping unit", |r| data(r.device.mapping_unit_bytes)),
        fact(runs, "unit of erasure", |r| data(r.device.unit_bytes)),
        fact(runs, "units", |r| count(r.device.units)),
        fact(runs, "time", |r| if r.device.timed { "modelled" } else { "not modelled" }.to_owned()),
    ]
}

/// The workload as replayed.
fn workload(runs: &[Run<'_>]) -> Vec<Fact> {
    let none = || "none".to_owned();
    vec![
        fact(runs, "name", |r| escape(&r.workload.name)),
        fact(runs, "kind", |r| match &r.workload.format {
            Some(format) => format!("{}, {}", escape(&r.workload.kind), escape(format)),
            None => escape(&r.workload.kind),
        }),
        fact(runs, "span", |r| data(r.workload.span_bytes)),
        fact(runs, "working set", |r| {
            r.workload.working_set_bytes.map_or_else(|| UNKNOWN.to_owned(), data)
        }),
        fact(runs, "recorded over", |r| r.workload.duration_seconds.map_or_else(none, duration)),
        fact(runs, "addresses remapped", |r| r.workload.remap.as_deref().map_or_else(none, escape)),
        fact(runs, "lines left out", |r| count(r.workload.skipped_lines)),
        fact(runs, "prefill", |r| escape(&r.workload.prefill)),
        fact(runs, "prefill bytes, in no ratio", |r| data(r.prefill_bytes_written)),
    ]
}

/// Whether and how the runs became steady.
fn steady(runs: &[Run<'_>]) -> Vec<Fact> {
    let window = |r: &RunRecord| match r.steady_state.window {
        Some([from, to]) if r.steady_state.reached => {
            format!("yes, from {} to {} of host writes", data(from), data(to))
        }
        _ if r.steady_state.reached => "yes".to_owned(),
        _ => format!(
            "no: every ratio is <strong>transient</strong>, over the {}",
            escape(&r.lasting.over)
        ),
    };
    vec![
        fact(runs, "reached", window),
        fact(runs, "rule", |r| escape(&r.steady_state.rule)),
        fact(runs, "drive fills by the host", |r| significant(r.steady_state.drive_fills)),
    ]
}

/// Facts of the run itself.
fn run_facts(runs: &[Run<'_>]) -> Vec<Fact> {
    vec![
        fact(runs, "version", |r| escape(&r.version)),
        fact(runs, "record schema", |r| escape(&r.schema)),
        fact(runs, "seed", |r| r.seed.to_string()),
        fact(runs, "requests served", |r| count(r.requests)),
        fact(runs, "queue depth", |r| {
            match r.bandwidth.as_ref().map(|bandwidth| bandwidth.queue_depth) {
                None => "no time".to_owned(),
                Some(None) => "paced by the workload's clock".to_owned(),
                Some(Some(depth)) => depth.to_string(),
            }
        }),
        fact(runs, "limited by", |r| {
            let limit = r.bandwidth.as_ref().and_then(|bandwidth| bandwidth.limit.as_deref());
            limit.map_or_else(|| "not modelled".to_owned(), words)
        }),
        fact(runs, "share of the theoretical rate", |r| {
            let share = r.bandwidth.as_ref().and_then(Bandwidth::share_of_theoretical);
            share.map_or_else(|| "not modelled".to_owned(), percent)
        }),
        fact(runs, "simulated time", |r| {
            r.bandwidth
                .as_ref()
                .map_or_else(|| "not modelled".to_owned(), |bandwidth| duration(bandwidth.seconds))
        }),
        fact(runs, "host blocks per CPU-second (varies)", |r| {
            significant(r.host_blocks_per_cpu_second)
        }),
        fact(runs, "peak memory (varies)", |r| data(r.peak_rss_bytes)),
    ]
}

/// Every setting that occurs in any record.
fn settings(runs: &[Run<'_>]) -> Vec<Fact> {
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.record.config.keys()).collect();
    let value = |r: &RunRecord, key: &str| match r.config.get(key) {
        None => "\u{2013}".to_owned(),
        Some(Value::String(text)) => escape(text),
        Some(other) => escape(&other.to_string()),
    };
    keys.into_iter()
        .map(|key| {
            (
                format!("<code>{}</code>", escape(key)),
                runs.iter().map(|run| value(run.record, key)).collect(),
            )
        })
        .collect()
}

/// How to get the same numbers again.
fn reproduce(runs: &[Run<'_>]) -> String {
    let mut commands: Vec<&str> =
        runs.iter().filter_map(|run| run.record.command.as_deref()).collect();
    commands.dedup();
    if commands.is_empty() {
        return String::new();
    }
    format!(
        "<h3>Run it again</h3><p>With the same version, in the same folder, every number comes out \
         the same (except those marked \u{201c}varies\u{201d}):</p><pre>{}</pre>",
        escape(&commands.join("\n"))
    )
}

/// Definitions of the ratios.
const DEFINITIONS: &str = "<h3>Definitions</h3><p class=\"prose\">All ratios derive from byte \
    counters. \
    <b>ALWA</b> (application-level write amplification) is bytes the device was asked to write / \
    bytes the host wrote; below 1 \
    when a layer absorbs overwrites. <b>DLWA</b> (device-level) is bytes programmed into the \
    media / bytes the device was \
    asked to write; on FDP drives, MBMW / HBMW. <b>WAF</b> is media / host, that is ALWA \u{00b7} \
    DLWA. <b>OP</b> \
    (overprovisioning) is (media \u{2212} capacity) / capacity. Bytes of the prefill count in no \
    ratio. A ratio taken before \
    steady state is <em>transient</em>: the drive still lives off space that garbage collection \
    has not had to win back. \
    Amounts of data are binary (1 GiB = 2<sup>30</sup> bytes), rates and endurance decimal (1 MB \
    = 10<sup>6</sup>, \
    1 TB = 10<sup>12</sup>). \u{201c}Media\u{201d} is the NAND, or what the drive has in its \
    place.</p>";
