//! The page of a sweep: curves over one key, heat maps of one key against another. Drawn without scripts.

use std::fmt::Write as _;

use thermocline_record::RunRecord;

use crate::palette::{Ramp, VALID, WEAR, style};
use crate::text::{escape, significant};

/// A key that was varied.
pub struct SweepKey {
    /// Name of the axis, such as `device.op`.
    pub key: String,
    /// Spacing of the values: `linear`, `geometric` or `as listed`.
    pub spacing: String,
    /// Its values, in order.
    pub values: Vec<String>,
}

/// One combination of values.
pub struct SweepCell<'a> {
    /// Which value of each key.
    pub at: Vec<usize>,
    /// The record, or the reason for a missing record.
    pub record: Result<&'a RunRecord, &'a str>,
}

/// A figure that is drawn.
struct Figure {
    title: &'static str,
    of: fn(&RunRecord) -> Option<f64>,
    ramp: &'static Ramp,
}

/// Figures in the order shown. Ratios of a run that was not steady are those of the whole run, marked `~`.
const FIGURES: [Figure; 4] = [
    Figure {
        title: "Write amplification (media / host)",
        of: |r| r.waf_steady.or(r.waf),
        ramp: &VALID,
    },
    Figure {
        title: "Life, median years",
        of: |r| r.life.as_ref().map(|life| life.years_p50),
        ramp: &WEAR,
    },
    Figure {
        title: "Write latency, 99th percentile, ms",
        of: |r| Some(r.latency_ns.as_ref()?.get("write")?.p99? as f64 / 1e6),
        ramp: &WEAR,
    },
    Figure {
        title: "Host writes, MB/s",
        of: |r| Some(r.bandwidth.as_ref()?.host_write_bytes_per_second / 1e6),
        ramp: &VALID,
    },
];

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta name=\"color-scheme\" content=\"light dark\">\n";
const STYLE: &str = "body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }\n\
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin-bottom: 2rem; }\n\
th, td { text-align: right; padding: .3rem .7rem; border: 1px solid #8884; }\n\
td.none { color: #888; } svg { max-width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }\n\
pre { white-space: pre-wrap; }\n";

/// A sweep over one or two keys as one HTML page that needs no network and no scripts. Equal arguments give equal
/// bytes.
#[must_use]
pub fn sweep_page(title: &str, keys: &[SweepKey], cells: &[SweepCell<'_>]) -> String {
    let title = escape(title);
    let mut page = format!(
        "{HEAD}<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for key in keys {
        let (name, spacing, count) = (escape(&key.key), escape(&key.spacing), key.values.len());
        let _ = writeln!(page, "<p><b>{name}</b>: {count} values, {spacing}.</p>");
    }
    for figure in &FIGURES {
        let known =
            |cell: &SweepCell<'_>| cell.record.is_ok_and(|record| (figure.of)(record).is_some());
        if !cells.iter().any(known) {
            continue;
        }
        let _ = writeln!(page, "<h2>{}</h2>", figure.title);
        page += &match keys {
            [rows, columns] => heat_map(figure, rows, columns, cells),
            [key] => curve(figure, key, cells) + &values(figure, key, cells),
            _ => String::new(),
        };
    }
    page + &remarks(cells) + "</body>\n</html>\n"
}

/// A cell's figure as text; `~` marks a ratio that is transient.
fn shown(figure: &Figure, cell: Option<&SweepCell<'_>>) -> String {
    let Some(Ok(record)) = cell.map(|cell| cell.record) else { return "none".into() };
    let mark = if record.steady_state.reached { "" } else { "~" };
    (figure.of)(record).map_or("none".into(), |x| format!("{mark}{}", significant(x)))
}

fn number(figure: &Figure, cell: &SweepCell<'_>) -> Option<f64> {
    cell.record.ok().and_then(figure.of).filter(|x| x.is_finite())
}

/// Least and most of a figure.
fn ends(figure: &Figure, cells: &[SweepCell<'_>]) -> (f64, f64) {
    let all = cells.iter().filter_map(|cell| number(figure, cell));
    all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
}

/// How far `x` is from `low` to `high`, 0..=1; 0 where both are the same.
fn share(x: f64, (low, high): (f64, f64)) -> f64 {
    if high > low { (x - low) / (high - low) } else { 0.0 }
}

/// A table whose cells are coloured by their figure, light for little.
fn heat_map(
    figure: &Figure,
    rows: &SweepKey,
    columns: &SweepKey,
    cells: &[SweepCell<'_>],
) -> String {
    let range = ends(figure, cells);
    let corner = format!("{} \\ {}", escape(&rows.key), escape(&columns.key));
    let mut table = format!("<table>\n<tr><th>{corner}</th>");
    columns.values.iter().for_each(|value| {
        let _ = write!(table, "<th>{}</th>", escape(value));
    });
    table += "</tr>\n";
    for (row, value) in rows.values.iter().enumerate() {
        let _ = write!(table, "<tr><th>{}</th>", escape(value));
        for column in 0..columns.values.len() {
            let cell = cells.iter().find(|cell| cell.at == [row, column]);
            let text = shown(figure, cell);
            let _ = match cell.and_then(|cell| number(figure, cell)) {
                Some(x) => {
                    let step = (share(x, range) * (figure.ramp.len() - 1) as f64).round() as usize;
                    let ink = if step >= figure.ramp.len() / 2 { "#fff" } else { "#000" };
                    let back = figure.ramp[step];
                    write!(table, "<td style=\"background:{back};color:{ink}\">{text}</td>")
                }
                None => write!(table, "<td class=\"none\">{text}</td>"),
            };
        }
        table += "</tr>\n";
    }
    table + "</table>\n"
}

/// Width and height of a curve, and the room for its labels.
const SIZE: (f64, f64) = (720.0, 280.0);
const ROOM: f64 = 56.0;

/// The figure over the values of a key, which lie at equal distances, as they were spaced.
fn curve(figure: &Figure, key: &SweepKey, cells: &[SweepCell<'_>]) -> String {
    let (low, high) = ends(figure, cells);
    let range = if high > low { (low, high) } else { (low - 0.5, high + 0.5) };
    let last = (key.values.len().max(2) - 1) as f64;
    let x = |index: usize| ROOM + index as f64 / last * (SIZE.0 - 2.0 * ROOM);
    let y = |value: f64| SIZE.1 - ROOM / 2.0 - share(value, range) * (SIZE.1 - ROOM);
    let colour = style(0).colour;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" aria-label=\"{} over {}\">\n",
        SIZE.0,
        SIZE.1,
        SIZE.0,
        figure.title,
        escape(&key.key)
    );
    for value in [range.0, (range.0 + range.1) / 2.0, range.1] {
        let (at, text) = (y(value), significant(value));
        let _ = writeln!(
            svg,
            "<path d=\"M{ROOM},{at:.1}H{}\" stroke=\"#8886\"/><text x=\"{}\" y=\"{at:.1}\" text-anchor=\"end\">{text}</text>",
            SIZE.0 - ROOM,
            ROOM - 6.0
        );
    }
    let mut line = String::new();
    for cell in cells {
        let (Some(value), Some(&index)) = (number(figure, cell), cell.at.first()) else { continue };
        let _ = write!(
            line,
            "{}{:.1},{:.1}",
            if line.is_empty() { "M" } else { "L" },
            x(index),
            y(value)
        );
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>",
            x(index),
            y(value)
        );
    }
    for (index, value) in key.values.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x(index),
            SIZE.1 - 6.0,
            escape(value)
        );
    }
    let _ = write!(
        svg,
        "<path d=\"{line}\" stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"/>\n</svg>\n"
    );
    svg
}

fn values(figure: &Figure, key: &SweepKey, cells: &[SweepCell<'_>]) -> String {
    let mut table = format!("<table>\n<tr><th>{}</th>", escape(&key.key));
    key.values.iter().for_each(|value| {
        let _ = write!(table, "<th>{}</th>", escape(value));
    });
    let _ = write!(table, "</tr>\n<tr><th>{}</th>", figure.title);
    for index in 0..key.values.len() {
        let cell = cells.iter().find(|cell| cell.at == [index]);
        let _ = write!(table, "<td>{}</td>", shown(figure, cell));
    }
    table + "</tr>\n</table>\n"
}

/// What could not be run, and the specification of the first run.
fn remarks(cells: &[SweepCell<'_>]) -> String {
    let mut text = String::from("<p>~ marks what was measured before steady state.</p>\n");
    let mut reasons: Vec<&str> = cells.iter().filter_map(|cell| cell.record.err()).collect();
    reasons.dedup();
    for reason in reasons {
        let _ = writeln!(text, "<p>none: {}</p>", escape(reason));
    }
    let record = cells.iter().find_map(|cell| cell.record.ok());
    if let Some(spec) = record.and_then(|record| record.spec.as_ref()) {
        let _ = writeln!(
            text,
            "<details><summary>Specification of the first run, version {}</summary>\n<pre>{}</pre></details>",
            escape(&spec.version),
            escape(&spec.to_json())
        );
    }
    text
}
