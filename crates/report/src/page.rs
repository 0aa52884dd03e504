//! The page as a whole.

use thermocline_record::RunRecord;

use crate::data::{Run, runs};
use crate::plots::{self, PlotPage};
use crate::text::{data, duration, escape};
use crate::{bytes, facts, figure, finding, handles, life, svg, table, tenants, units};

const STYLE: &str = include_str!("../assets/report.css");
/// The page may use its own styles only. Loading and scripts are forbidden.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

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
    render_with_workload(title, records, None)
}

/// The same with a section of the charts of `workload`, which all `records` had.
#[must_use]
pub fn render_with_workload(
    title: &str,
    records: &[RunRecord],
    workload: Option<&PlotPage>,
) -> String {
    let runs = runs(records);
    let main = if runs.is_empty() {
        "<p class=\"lead\">There are no runs to report.</p>".to_owned()
    } else {
        sections(&runs, workload)
    };
    let version =
        runs.first().map_or_else(String::new, |run| format!(" {}", escape(&run.record.version)));
    whole(&escape(title), &introduction(&runs), &main, &version)
}

/// A page of charts that are not about runs, as [`render`] makes it: complete, and the same bytes for the same content.
#[must_use]
pub fn render_plots(page: &PlotPage) -> String {
    let introduction = format!("<p class=\"lead\">{}</p>", escape(&page.introduction));
    whole(&escape(&page.title), &introduction, &plots::sections(page), "")
}

/// The page around its parts, all of them HTML.
pub(crate) fn whole(title: &str, introduction: &str, main: &str, version: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{hatches}\n\
         <header><h1>{title}</h1>{introduction}{contents}</header>\n<main>\n{main}\n</main>\n\
         <footer><p>Thermocline{version}. This file is complete: it loads nothing, sends nothing and runs no script. \
         Colours after Okabe and Ito.</p></footer>\n</body>\n</html>\n",
        hatches = svg::hatches(),
        contents = contents(main),
    )
}

/// Links to the sections of `main`, if there are several. A section has an identifier and begins with its heading.
fn contents(main: &str) -> String {
    let entry = |section: &str| {
        let (id, rest) = section.split_once("id=\"")?.1.split_once('"')?;
        let heading = rest.split_once("><h2>")?.1.split_once("</h2>")?.0;
        Some(format!("<li><a href=\"#{id}\">{heading}</a></li>"))
    };
    let entries: Vec<String> = main.split("<section ").skip(1).filter_map(entry).collect();
    if entries.len() < 2 {
        return String::new();
    }
    format!("<nav aria-label=\"Contents\"><ul>{}</ul></nav>", entries.concat())
}

/// Every section, in the order in which an engineer asks.
fn sections(runs: &[Run<'_>], workload: Option<&PlotPage>) -> String {
    [
        finding::section(runs),
        table::section(runs),
        tenants::section(runs),
        handles::section(runs),
        life::section(runs),
        workload.map_or_else(String::new, workload_section),
        bytes::section(runs),
        figure::over_the_run(runs),
        figure::latencies(runs),
        units::sections(runs),
        facts::section(runs),
    ]
    .join("\n")
}

/// What the runs were made of.
fn workload_section(charts: &PlotPage) -> String {
    let figures = plots::figures(charts);
    format!(
        "<section id=\"workload\"><h2>The workload</h2><div class=\"figures\">{figures}</div></section>"
    )
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
