//! The page as a whole.

use thermocline_record::RunRecord;

use crate::data::{Run, json, plots_json, runs};
use crate::plots::{self, PlotPage};
use crate::text::{data, duration, escape};
use crate::{bytes, facts, figure, finding, life, table, tenants, units};

/// The charting library, built as `assets/README.md` says.
const LIBRARY: &str = include_str!("../assets/echarts.min.js");
/// Our charts, in the order in which they use each other.
const CHARTS: [&str; 7] = [
    include_str!("../assets/format.js"),
    include_str!("../assets/options.js"),
    include_str!("../assets/lines.js"),
    include_str!("../assets/bars.js"),
    include_str!("../assets/maps.js"),
    include_str!("../assets/plots.js"),
    include_str!("../assets/report.js"),
];
const STYLE: &str = include_str!("../assets/report.css");
/// Licences of what the page carries, which must travel with it.
const LICENCES: [(&str, &str); 5] = [
    ("Apache ECharts, notice", include_str!("../assets/NOTICE-echarts.txt")),
    ("Apache ECharts, licence", include_str!("../assets/LICENSE-echarts.txt")),
    ("zrender, licence", include_str!("../assets/LICENSE-zrender.txt")),
    ("d3, licence", include_str!("../assets/LICENSE-d3.txt")),
    ("tslib, licence", include_str!("../assets/LICENSE-tslib.txt")),
];
/// The page may run embedded scripts and styles only. Loading is forbidden.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// The report on some runs as one HTML page that needs no network.
///
/// A single record gives a report of that run. Several records give a comparison on shared axes with one line per
/// stack; their workloads should be equal. The same records and title give the same bytes.
///
/// # Examples
/// ```
/// let page = thermocline_report::render("Nothing ran", &[]);
/// assert!(page.starts_with("<!doctype html>"));
/// ```
#[must_use]
pub fn render(title: &str, records: &[RunRecord]) -> String {
    let runs = runs(records);
    let main = if runs.is_empty() {
        "<p class=\"lead\">There are no runs to report.</p>".to_owned()
    } else {
        sections(&runs)
    };
    let version =
        runs.first().map_or_else(String::new, |run| format!(" {}", escape(&run.record.version)));
    whole(&escape(title), &introduction(&runs), &main, &version, &json(&runs))
}

/// A page of charts that are not about runs, as [`render`] makes it: complete, and the same bytes for the same content.
#[must_use]
pub fn render_plots(page: &PlotPage) -> String {
    let introduction = format!("<p class=\"lead\">{}</p>", escape(&page.introduction));
    let (main, data) = (plots::sections(page), plots_json(&page.plots));
    whole(&escape(&page.title), &introduction, &main, "", &data)
}

/// The page around its parts, all of them HTML but `data`, which is JSON.
fn whole(title: &str, introduction: &str, main: &str, version: &str, data: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <noscript><style>.chart {{ display: none; }}</style></noscript>\n</head>\n<body>\n\
         <header><h1>{title}</h1>{introduction}<noscript><p class=\"alarm\">The charts need \
         JavaScript; findings and tables hold without it.</p></noscript></header>\n<main>\n{main}\n</main>\n{footer}\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>{LIBRARY}</script>\n\
         <script>(() => {{\n\"use strict\";\n{charts}}})();</script>\n</body>\n</html>\n",
        footer = footer(version),
        charts = CHARTS.concat(),
    )
}

/// Every section, in the order in which an engineer asks.
fn sections(runs: &[Run<'_>]) -> String {
    [
        finding::section(runs),
        table::section(runs),
        tenants::section(runs),
        figure::over_the_run(runs),
        bytes::section(runs),
        life::section(runs),
        units::sections(runs),
        facts::section(runs),
    ]
    .join("\n")
}

/// The workload in a line, and a warning where the runs do not share it.
fn introduction(runs: &[Run<'_>]) -> String {
    let Some(first) = runs.first().map(|run| &run.record.workload) else {
        return String::new();
    };
    let mut parts = vec![format!("<b>{}</b>", escape(&first.name)), escape(&first.kind)];
    if let Some(seconds) = first.duration_seconds {
        parts.push(format!("recorded over {}", duration(seconds)));
    }
    parts.push(format!("span {}", data(first.span_bytes)));
    if let Some(bytes) = first.working_set_bytes {
        parts.push(format!("working set {}", data(bytes)));
    }
    parts.push(format!("prefill {}", escape(&first.prefill)));
    let same = runs.iter().all(|run| {
        run.record.workload.name == first.name && run.record.workload.span_bytes == first.span_bytes
    });
    let warning = if same {
        ""
    } else {
        "<p class=\"alarm\">These runs had different workloads: their numbers do not compare.</p>"
    };
    format!("<p class=\"workload\">Workload: {}</p>{warning}", parts.join(" \u{00b7} "))
}

/// The program's version and the licences of embedded code.
fn footer(version: &str) -> String {
    let licences: String = LICENCES
        .iter()
        .map(|(name, text)| format!("<h4>{name}</h4><pre>{}</pre>", escape(text.trim())))
        .collect();
    format!(
        "<footer><p>Thermocline{version}. This file is complete: it loads nothing and sends \
         nothing. Charts by Apache ECharts 6.1.0 \
         (Apache-2.0, with parts of d3, BSD-3-Clause) with zrender (BSD-3-Clause) and tslib \
         (0BSD). Colours after Okabe and \
         Ito.</p><details class=\"licences\"><summary>Licences</summary>{licences}</details></footer>"
    )
}
