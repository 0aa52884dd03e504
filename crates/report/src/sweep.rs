//! The page of a sweep: curves over one key, heat maps of one key against another.

use std::fmt::Write as _;

use thermocline_record::RunRecord;

use crate::page::whole;
use crate::palette::{Ramp, VALID, WEAR};
use crate::svg::{Axis, Line, Lines};
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
    Figure { title: "Write amplification (media / host)", of: |r| r.lasting.waf, ramp: &VALID },
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

/// A sweep over one or two keys as one HTML page that needs no network and no scripts. Equal arguments give equal
/// bytes.
#[must_use]
pub fn sweep_page(title: &str, keys: &[SweepKey], cells: &[SweepCell<'_>]) -> String {
    let mut introduction = String::new();
    for key in keys {
        let (name, spacing, count) = (escape(&key.key), escape(&key.spacing), key.values.len());
        let _ =
            write!(introduction, "<p class=\"lead\"><b>{name}</b>: {count} values, {spacing}.</p>");
    }
    let mut main = String::new();
    for (number, figure) in FIGURES.iter().enumerate() {
        let known =
            |cell: &SweepCell<'_>| cell.record.is_ok_and(|record| (figure.of)(record).is_some());
        if !cells.iter().any(known) {
            continue;
        }
        let body = match keys {
            [rows, columns] => heat_map(figure, rows, columns, cells),
            [key] => curve(figure, key, cells) + &values(figure, key, cells),
            _ => String::new(),
        };
        let _ = write!(
            main,
            "<section id=\"figure-{number}\"><h2>{}</h2>{body}</section>",
            figure.title
        );
    }
    whole(&escape(title), &introduction, &(main + &remarks(cells)), "")
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
    let mut table = format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"grid\">\n<tr><th>{corner}</th>"
    );
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
    table + "</table></div>\n"
}

/// The figure over the values of a key, which lie at equal distances, as they were spaced.
fn curve(figure: &Figure, key: &SweepKey, cells: &[SweepCell<'_>]) -> String {
    let (low, high) = ends(figure, cells);
    let point = |cell: &SweepCell<'_>| Some([*cell.at.first()? as f64, number(figure, cell)?]);
    let points: Vec<[f64; 2]> = cells.iter().filter_map(point).collect();
    let line = Line { name: figure.title, style: 0, points, reference: false };
    let chart = Lines {
        title: figure.title,
        x: Axis::listed(&key.key, key.values.clone()),
        y: Axis::linear(figure.title, [low, high].into_iter()),
        lines: vec![line],
        windows: Vec::new(),
        bands: Vec::new(),
    };
    format!("<div class=\"figures\"><figure class=\"wide\">{}</figure></div>", chart.draw())
}

fn values(figure: &Figure, key: &SweepKey, cells: &[SweepCell<'_>]) -> String {
    let mut table = format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"grid\">\n<tr><th>{}</th>",
        escape(&key.key)
    );
    key.values.iter().for_each(|value| {
        let _ = write!(table, "<th>{}</th>", escape(value));
    });
    let _ = write!(table, "</tr>\n<tr><th>{}</th>", figure.title);
    for index in 0..key.values.len() {
        let cell = cells.iter().find(|cell| cell.at == [index]);
        let _ = write!(table, "<td>{}</td>", shown(figure, cell));
    }
    table + "</tr>\n</table></div>\n"
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
