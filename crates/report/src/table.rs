//! The comparison table: one row per stack, the best cell of a column marked by a sign and not only by weight.

use thermocline_record::{Bandwidth, LatencyNs, RunRecord};

use crate::data::Run;
use crate::finding::TRANSIENT;
use crate::text::{NOT_MODELLED, UNKNOWN, gib, latency, megabytes_per_second, ratio, years};

/// Which end of a column is the good one.
#[derive(Clone, Copy)]
enum Better {
    Lower,
    Higher,
    /// The column is an input or not comparable.
    Neither,
}

/// Text of a cell, and its value if cells can be compared.
struct Cell {
    html: String,
    value: Option<f64>,
}

/// A column of the table.
struct Column {
    head: &'static str,
    better: Better,
    cells: Vec<Cell>,
}

/// The section with the comparison table, also for a single record.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let columns = columns(runs);
    let heads: String =
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", column.head)).collect();
    let best: Vec<Option<usize>> = columns.iter().map(best).collect();
    let row = |run: &Run<'_>| {
        let cells: String = columns
            .iter()
            .zip(&best)
            .map(|(column, best)| cell(column, run.index, *best))
            .collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", run.name())
    };
    let rows: String = runs.iter().map(row).collect();
    let title = if runs.len() > 1 { "Comparison" } else { "In numbers" };
    format!(
        "<section id=\"comparison\"><h2>{title}</h2><div class=\"scroll\" \
         tabindex=\"0\"><table class=\"comparison\">\
         <thead><tr><th scope=\"col\">Stack</th>{heads}</tr></thead><tbody>{rows}</tbody>\
         </table></div>{}</section>",
        legend(runs, best.iter().any(Option::is_some))
    )
}

/// What the marks of the table mean, as far as they occur.
fn legend(runs: &[Run<'_>], any_best: bool) -> String {
    let mut parts = Vec::new();
    if any_best {
        parts.push("\u{2605} best of its column.".to_owned());
    }
    if runs.iter().any(|run| !run.is_steady() && run.ratios().waf.is_some()) {
        parts.push(format!("{TRANSIENT} taken before steady state, so not compared."));
    }
    if runs.iter().any(Run::is_steady) {
        parts.push("Ratios are those of the steady window.".to_owned());
    }
    parts.push(
        "Bytes count the measured run, without prefill. Life: median (P10\u{2013}P90) of the product, as full as its \
         finding says.".to_owned(),
    );
    format!("<p class=\"legend\">{}</p>", parts.join(" "))
}

/// A table cell, marked where it is the best.
fn cell(column: &Column, index: usize, best: Option<usize>) -> String {
    let html = &column.cells[index].html;
    if best == Some(index) {
        return format!(
            "<td class=\"best\"><span class=\"star\" title=\"best of this \
             column\">\u{2605}</span> {html}</td>"
        );
    }
    format!("<td>{html}</td>")
}

/// The only best cell of a column, if there is one among at least two that may be compared.
fn best(column: &Column) -> Option<usize> {
    let sign = match column.better {
        Better::Lower => 1.0,
        Better::Higher => -1.0,
        Better::Neither => return None,
    };
    let mut ranked: Vec<(f64, usize)> = column
        .cells
        .iter()
        .enumerate()
        .filter_map(|(i, cell)| Some((sign * cell.value?, i)))
        .collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [first, second, ..] = ranked.as_slice() else {
        return None;
    };
    let differs = column.cells[first.1].html != column.cells[second.1].html;
    (first.0 < second.0 && differs).then_some(first.1)
}

/// A column from a function of the run.
fn column(
    runs: &[Run<'_>],
    head: &'static str,
    better: Better,
    cell: impl Fn(&Run<'_>) -> Cell,
) -> Column {
    Column { head, better, cells: runs.iter().map(cell).collect() }
}

/// All columns after the stack.
fn columns(runs: &[Run<'_>]) -> Vec<Column> {
    let lower = Better::Lower;
    let neither = Better::Neither;
    let host = |run: &Run<'_>| plain(gib(run.record.host_bytes_written));
    let media = |run: &Run<'_>| plain(gib(run.record.media_bytes_written.total));
    let mut columns = vec![
        column(runs, "WAF", lower, |run| ratio_cell(run, run.ratios().waf)),
        column(runs, "ALWA", lower, |run| ratio_cell(run, run.ratios().alwa)),
        column(runs, "DLWA", lower, |run| ratio_cell(run, run.ratios().dlwa)),
        column(runs, "Life<br><small>years</small>", Better::Higher, life_cell),
        column(runs, "Host<br>written<br><small>GiB</small>", neither, host),
        column(runs, "Media<br>written<br><small>GiB</small>", neither, media),
    ];
    let timed = |run: &Run<'_>| run.record.latency_ns.is_some() || run.record.bandwidth.is_some();
    if runs.iter().any(timed) {
        columns.extend(columns_of_time(runs));
    } else {
        let cell = |_: &Run<'_>| plain(NOT_MODELLED.to_owned());
        columns.push(column(runs, "Latency and<br>bandwidth", neither, cell));
    }
    columns
}

/// Latency and bandwidth. They compare only between runs paced alike, bandwidth only where the
/// drive and not the trace set the pace.
fn columns_of_time(runs: &[Run<'_>]) -> Vec<Column> {
    let depth =
        |run: &Run<'_>| run.record.bandwidth.as_ref().map(|bandwidth| bandwidth.queue_depth);
    let paced_alike = runs.windows(2).all(|pair| depth(&pair[0]) == depth(&pair[1]));
    let drive_paced = paced_alike && runs.first().and_then(depth).flatten().is_some();
    let faster = if paced_alike { Better::Lower } else { Better::Neither };
    let more = if drive_paced { Better::Higher } else { Better::Neither };
    let writes = |run: &Run<'_>| rate_cell(run.record, |b| b.host_write_bytes_per_second);
    let reads = |run: &Run<'_>| rate_cell(run.record, |b| b.host_read_bytes_per_second);
    let mut columns = vec![
        column(runs, "Write<br>p50", faster, |run| latency_cell(run.record, "write", |l| l.p50)),
        column(runs, "Write<br>p99", faster, |run| latency_cell(run.record, "write", |l| l.p99)),
        column(runs, "Write<br>p99.9", faster, |run| {
            latency_cell(run.record, "write", |l| l.p99_9)
        }),
        column(runs, "Read<br>p99", faster, |run| latency_cell(run.record, "read", |l| l.p99)),
        column(runs, "Host<br>writes<br><small>MB/s</small>", more, writes),
    ];
    if runs.iter().any(|run| run.record.host_bytes_read > 0) {
        columns.push(column(runs, "Host<br>reads<br><small>MB/s</small>", more, reads));
    }
    columns
}

/// The cell of a figure that needs time, of a run without it.
fn not_modelled() -> Cell {
    plain(format!("<span class=\"unmodelled\">{NOT_MODELLED}</span>"))
}

/// A cell that is shown but not compared.
fn plain(html: String) -> Cell {
    Cell { html, value: None }
}

/// A ratio; only steady ones are compared.
fn ratio_cell(run: &Run<'_>, x: Option<f64>) -> Cell {
    match x {
        None => plain(UNKNOWN.to_owned()),
        Some(_) if run.is_steady() => Cell { html: ratio(x), value: x },
        Some(_) => plain(format!("{} {TRANSIENT}", ratio(x))),
    }
}

/// A latency percentile of one kind of request. What completes in memory takes no time that is modelled, and wins
/// nothing.
fn latency_cell(record: &RunRecord, kind: &str, percentile: fn(&LatencyNs) -> Option<u64>) -> Cell {
    let Some(kinds) = &record.latency_ns else {
        return not_modelled();
    };
    match kinds.get(kind).filter(|latencies| latencies.count > 0) {
        Some(latencies) => match percentile(latencies).map(|ns| ns as f64).filter(|&ns| ns > 0.0) {
            Some(ns) => Cell { html: latency(ns), value: Some(ns) },
            None => plain("<span class=\"unmodelled\">in memory</span>".to_owned()),
        },
        None => plain(format!("no {kind}s")),
    }
}

/// A rate of the host's requests.
fn rate_cell(record: &RunRecord, rate: fn(&Bandwidth) -> f64) -> Cell {
    match &record.bandwidth {
        Some(bandwidth) => {
            Cell { html: megabytes_per_second(rate(bandwidth)), value: Some(rate(bandwidth)) }
        }
        None => not_modelled(),
    }
}

/// Median life and its band; a life that rests on a transient WAF is not compared.
fn life_cell(run: &Run<'_>) -> Cell {
    let Some(life) = &run.record.life else {
        return plain(UNKNOWN.to_owned());
    };
    let html = format!(
        "{} <small>({}\u{2013}{})</small>",
        years(life.years_p50),
        years(life.years_p10),
        years(life.years_p90)
    );
    Cell { html, value: run.is_steady().then_some(life.years_p50) }
}
