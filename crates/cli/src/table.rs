//! Run records as a table a person can read: one column per run.

use std::sync::OnceLock;

use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, presets};
use thermocline_record::{DriveLife, LatencyNs, Life, PageReads, RunRecord};
use thermocline_types::Bytes;

use crate::lab::args::in_arguments;
use crate::{handles, tenants};

/// Whether tables are as wide as their cells. Set once, from the command line.
static WIDE: OnceLock<bool> = OnceLock::new();

/// Makes tables as wide as their cells, or as the terminal.
pub fn set_wide(wide: bool) {
    let _ = WIDE.set(wide);
}

/// The look of every table. On a terminal, cells wrap to its width. Elsewhere a table is as wide as its cells.
pub fn plain() -> Table {
    let mut table = Table::new();
    if !WIDE.get().is_some_and(|wide| *wide) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    // A serial console tells a width of 0.
    if table.width() == Some(0) {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    let line = LineStyle::none().fill('─').junction('─');
    table.load_style(presets::NOTHING.header_separator(line).bottom_border(line));
    table
}

/// A table of text: the first column is aligned left; all other columns are numbers, aligned right.
pub fn draw(heads: &[String], rows: &[Vec<String>]) -> Table {
    let cell = |(index, text): (usize, &String)| {
        let left = index == 0;
        let side = if left { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    };
    let mut table = plain();
    table.set_header(heads.iter().enumerate().map(cell).collect::<Vec<_>>());
    for row in rows {
        table.add_row(row.iter().enumerate().map(cell).collect::<Vec<_>>());
    }
    table
}

/// The cell of a value that was not measured.
pub const NONE: &str = "-";

type Row = (&'static str, fn(&RunRecord) -> String);

/// The rows, in order; a row without a value in any column is left out.
const ROWS: [Row; 59] = [
    ("WAF (media / host)", |r| lasting_waf(r)),
    ("  over the", |r| before_steady(r, r.lasting.over.clone())),
    ("  over the last half / quarter", |r| {
        let [half, quarter] = [r.waf_last_half, r.waf_last_quarter].map(|waf| number(waf, 3));
        before_steady(r, format!("{half} / {quarter}"))
    }),
    ("whole run, of which", |r| number(r.waf, 3)),
    ("  log: ALWA x DLWA", |r| product(r)),
    ("  log: destage", |r| log_cause(r, "destage")),
    ("  log: relocation", |r| log_cause(r, "relocation")),
    ("  log: metadata", |r| log_cause(r, "metadata")),
    ("  log: read-modify-write", |r| log_cause(r, "read_modify_write")),
    ("  group: parity or copy", |r| log_cause(r, "parity")),
    ("  group: log of parity", |r| log_cause(r, "parity_log")),
    ("  group: heads of that log", |r| log_cause(r, "parity_log_heads")),
    ("  group: padding of rows", |r| log_cause(r, "row_padding")),
    ("  group: labels", |r| log_cause(r, "labels")),
    ("  relocation", |r| cause(r, "relocation")),
    ("  read-modify-write", |r| cause(r, "read_modify_write")),
    ("  padding", |r| cause(r, "padding")),
    ("  wear levelling", |r| cause(r, "wear_levelling")),
    ("  folding", |r| cause(r, "folding")),
    ("  refresh", |r| cause(r, "refresh")),
    ("  programs that failed", |r| cause(r, "program_failure")),
    ("  written to the SLC cache", |r| {
        optional(r.media_bytes_written.in_slc_mode.map(|bytes| share(r, bytes, "")))
    }),
    ("  absorbed in buffer", |r| absorbed(r)),
    ("  left in buffer", |r| share(r, r.media_bytes_written.left_in_buffer, "-")),
    ("host written", |r| Bytes(r.host_bytes_written).to_string()),
    ("fast device written", |r| {
        optional(r.fast.as_ref().map(|fast| {
            let bytes = fast.device_bytes_written;
            let share = bytes as f64 / r.host_bytes_written.max(1) as f64;
            format!("{}, {share:.3} of host's", Bytes(bytes))
        }))
    }),
    ("media written", |r| Bytes(r.media_bytes_written.total).to_string()),
    ("  of one drive, least / most", |r| of_one_drive(r)),
    ("drive fills", |r| format!("{:.2}", r.steady_state.drive_fills)),
    ("  passes of the trace (--loops)", |r| {
        optional(r.config.get("workload.loops").map(ToString::to_string))
    }),
    ("write p50 / p99 / p99.9", |r| latency(r, "write")),
    ("read p50 / p99 / p99.9", |r| latency(r, "read")),
    ("flush p50 / p99 / p99.9", |r| latency(r, "flush")),
    ("  chunks of the host", |r| latency(r, "log.chunk")),
    ("  flushes of the drive", |r| latency(r, "log.flush")),
    ("host write rate", |r| rate(r, |b| b.host_write_bytes_per_second)),
    ("host read rate", |r| rate(r, |b| b.host_read_bytes_per_second)),
    ("requests per second", |r| {
        optional(r.bandwidth.as_ref().map(|b| format!("{:.0}", b.requests_per_second)))
    }),
    ("limited by", |r| limit(r)),
    ("  held back by heat", |r| optional(r.heating.map(|heat| percent(heat.throttled_share)))),
    ("  page reads retried", |r| {
        let share = |all: PageReads| percent(all.retried as f64 / all.reads.max(1) as f64);
        optional(r.read_attempts.map(share))
    }),
    ("  lost of each bit read (UBER)", |r| {
        optional(r.read_attempts.and_then(|all| all.uber).map(|uber| format!("{uber:.0e}")))
    }),
    ("  of the data at the end", |r| {
        let data = r.read_attempts.and_then(|all| all.data);
        optional(
            data.map(|data| format!("{:.0e}, {} days old at most", data.uber, data.oldest_days)),
        )
    }),
    ("  of the theoretical rate", |r| {
        optional(r.bandwidth.as_ref().and_then(|b| b.share_of_theoretical()).map(percent))
    }),
    ("product full to", |r| {
        optional(r.life.as_ref().and_then(|life| life.product_utilisation).map(percent))
    }),
    ("life P50 (P10 - P90)", |r| life(r)),
    ("  from empty to full", |r| life_range(r)),
    ("  left of the drive in use", |r| {
        let left = |life: &DriveLife| three(life.years_p10, life.years_p50, life.years_p90);
        optional(r.life_of_drive.as_ref().map(left))
    }),
    ("erases min / mean / max", |r| wear(r)),
    ("  first unit worn out after", |r| {
        let fills = |bytes: u64| bytes as f64 / r.device.capacity_bytes as f64;
        let of = |bytes: u64| format!("{} ({:.1} drive fills)", Bytes(bytes), fills(bytes));
        optional(r.wear.first_worn_out_host_bytes.map(of))
    }),
    ("  units that failed early", |r| optional(r.wear.failed_early.map(|units| units.to_string()))),
    ("  units a program failed in", |r| {
        optional(r.wear.failed_programs.map(|units| units.to_string()))
    }),
    ("capacity simulated, OP", |r| capacity(r)),
    ("  fast device", |r| {
        optional(r.fast.as_ref().map(|fast| Bytes(fast.device.capacity_bytes).to_string()))
    }),
    ("  of it full", |r| optional(r.device.utilisation.map(percent))),
    ("mapping unit, unit", |r| {
        format!("{}, {}", Bytes(r.device.mapping_unit_bytes), Bytes(r.device.unit_bytes))
    }),
    ("prefill (in no ratio)", |r| Bytes(r.prefill_bytes_written).to_string()),
    ("simulated blocks/CPU-s", |r| format!("{:.2} M", r.host_blocks_per_cpu_second / 1e6)),
    ("seed", |r| r.seed.to_string()),
];

/// A form of tables for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableForm {
    /// Comma-separated values (RFC 4180)
    Csv,
    /// A table of Markdown
    Markdown,
}

/// The table of [`show`] in a form for other programs.
pub fn flat(records: &[RunRecord], form: TableForm) -> String {
    let heads: Vec<String> =
        std::iter::once(String::new()).chain(records.iter().map(|r| r.stack.clone())).collect();
    in_form(&heads, &rows(records), form)
}

/// A table of text in a form for other programs.
pub fn in_form(heads: &[String], rows: &[Vec<String>], form: TableForm) -> String {
    let cell = |text: &String| match form {
        TableForm::Csv if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        TableForm::Csv => text.clone(),
        TableForm::Markdown => text.replace('|', "\\|"),
    };
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|text| cell(&text.trim().to_owned())).collect();
        match form {
            TableForm::Csv => cells.join(",") + "\n",
            TableForm::Markdown => format!("| {} |\n", cells.join(" | ")),
        }
    };
    let below = match form {
        TableForm::Csv => String::new(),
        TableForm::Markdown => format!("|---{}|\n", "|--:".repeat(heads.len() - 1)),
    };
    line(heads) + &below + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// Name and cells of each row with a value in any column.
fn rows(records: &[RunRecord]) -> Vec<Vec<String>> {
    let row = |(name, value): &Row| {
        let values: Vec<String> = records.iter().map(value).collect();
        let any = values.iter().any(|value| value != NONE);
        any.then(|| std::iter::once((*name).to_owned()).chain(values).collect())
    };
    ROWS.iter().filter_map(row).collect()
}

/// Prints the records side by side, then verdicts and notes.
pub fn show(records: &[RunRecord]) -> String {
    let heads: Vec<String> =
        std::iter::once(String::new()).chain(records.iter().map(|r| r.stack.clone())).collect();
    let mut text = format!("{}\n{}\n", workload(&records[0]), draw(&heads, &rows(records)));
    records.iter().filter_map(tenants::show).for_each(|table| text += &table);
    records.iter().filter_map(handles::show).for_each(|table| text += &table);
    for record in records {
        if let Some(life) = &record.life {
            text += &format!("{}: {}\n", record.stack, life.verdict);
            let load = life.assumptions.get(1).map_or("", String::as_str);
            text += &format!("  at {load}\n");
        }
        for note in &record.notes {
            text += &format!("{}: {}\n", record.stack, in_arguments(note));
        }
    }
    if records.iter().any(|record| !record.steady_state.reached) {
        text += "transient: measured before steady state; longer runs (--loops, --drive-writes) give the steady figure\n";
    }
    text
}

fn workload(record: &RunRecord) -> String {
    let workload = &record.workload;
    let mut text = format!("workload {}, {} addressed", workload.name, Bytes(workload.span_bytes));
    if let Some(set) = workload.working_set_bytes {
        text += &format!(", {} distinct", Bytes(set));
    }
    if let Some(format) = &workload.format {
        text += &format!(", {format}");
    }
    text
}

fn optional(value: Option<String>) -> String {
    value.unwrap_or_else(|| NONE.into())
}

fn number(value: Option<f64>, digits: usize) -> String {
    optional(value.map(|value| format!("{value:.digits$}")))
}

/// The WAF to expect of a longer run.
fn lasting_waf(record: &RunRecord) -> String {
    let mark = if record.steady_state.reached { "" } else { "transient " };
    optional(record.lasting.waf.map(|waf| format!("{mark}{waf:.3}")))
}

/// `text` about a run that did not become steady.
fn before_steady(record: &RunRecord, text: String) -> String {
    if record.steady_state.reached { NONE.to_owned() } else { text }
}

fn cause(record: &RunRecord, cause: &str) -> String {
    let bytes = record.media_bytes_written.by_cause.get(cause).copied().unwrap_or(0);
    share(record, bytes, "+")
}

/// ALWA of the log and DLWA of the drive.
fn product(record: &RunRecord) -> String {
    let ratios = record.alwa.zip(record.dlwa).filter(|_| !record.engine_bytes_written.is_empty());
    optional(ratios.map(|(alwa, dlwa)| format!("{alwa:.3} x {dlwa:.3}")))
}

/// Bytes that the log writes to capacity devices for `cause`. ALWA counts writes to capacity devices only.
fn log_cause(record: &RunRecord, cause: &str) -> String {
    let capacity = record.engine_bytes_written.get("capacity");
    share(record, capacity.and_then(|causes| causes.get(cause)).copied().unwrap_or(0), "+")
}

/// Media bytes of the least and the most written drive of a group, per host byte.
fn of_one_drive(record: &RunRecord) -> String {
    let each = record.drives.iter().map(|drive| drive.media_bytes_written.total);
    let least_and_most = each.clone().min().zip(each.max());
    optional(least_and_most.map(|(least, most)| {
        format!("{} / {} of host's", share(record, least, ""), share(record, most, ""))
    }))
}

fn absorbed(record: &RunRecord) -> String {
    share(record, record.media_bytes_written.absorbed_in_buffer, "-")
}

fn share(record: &RunRecord, bytes: u64, sign: &str) -> String {
    let share = bytes as f64 / record.host_bytes_written as f64;
    if share < 0.0005 || record.host_bytes_written == 0 {
        NONE.into()
    } else {
        format!("{sign}{share:.3}")
    }
}

fn latency(record: &RunRecord, kind: &str) -> String {
    let ns = |percentile: Option<u64>| percentile.map_or("in memory".into(), nanos);
    let show = |l: &LatencyNs| format!("{} / {} / {}", ns(l.p50), ns(l.p99), ns(l.p99_9));
    optional(record.latency_ns.as_ref().and_then(|all| all.get(kind)).map(show))
}

/// A time in the unit with the shortest text.
pub fn nanos(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} us", ns as f64 / 1e3),
        1_000_000..100_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn rate(record: &RunRecord, of: fn(&thermocline_record::Bandwidth) -> f64) -> String {
    let rate = record.bandwidth.as_ref().map(of).filter(|rate| *rate > 0.0);
    optional(rate.map(|rate| format!("{:.1} MB/s", rate / 1e6)))
}

/// The resource that limited the run, and the busy share of its busiest instance.
fn limit(record: &RunRecord) -> String {
    optional(record.bandwidth.as_ref().and_then(|bandwidth| {
        let limit = bandwidth.limit.as_ref()?;
        Some(match bandwidth.busy.get(limit) {
            Some(busy) => format!("{limit} ({} busy)", percent(busy.busiest)),
            None => limit.clone(),
        })
    }))
}

fn life(record: &RunRecord) -> String {
    let all = |life: &Life| three(life.years_p10, life.years_p50, life.years_p90);
    optional(record.life.as_ref().map(all))
}

fn three(p10: f64, p50: f64, p90: f64) -> String {
    format!("{} ({} - {}) years", years(p50), years(p10), years(p90))
}

/// Median lives of an empty product and of a product as full as the simulated drive.
fn life_range(record: &RunRecord) -> String {
    let range = record.life.as_ref().map(|life| &life.range[..]);
    optional(range.and_then(|range| match range {
        [empty, full] => {
            Some(format!("{} - {} years", years(empty.years_p50), years(full.years_p50)))
        }
        _ => None,
    }))
}

fn years(years: f64) -> String {
    if years >= 100.0 { format!("{years:.0}") } else { format!("{years:.1}") }
}

/// A share in per cent, with three significant digits at most.
fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 0.01 => "< 0.01 %".into(),
        percent if percent < 10.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn wear(record: &RunRecord) -> String {
    let wear = &record.wear;
    if wear.erase_counts.is_empty() {
        NONE.into()
    } else {
        format!("{} / {:.1} / {}", wear.min, wear.mean, wear.max)
    }
}

fn capacity(record: &RunRecord) -> String {
    let device = &record.device;
    format!("{}, {:.1} %", Bytes(device.capacity_bytes), device.overprovisioning * 100.0)
}
