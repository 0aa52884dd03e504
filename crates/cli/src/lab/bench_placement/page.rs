//! The tables as one static HTML page.

use std::fmt::Write as _;

use thermocline_lab::bench_placement::Table;

use super::{facts, heads, title, waf};

/// The page's policy forbids all network requests, so the style is inline.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta name=\"color-scheme\" content=\"light dark\">\n<title>Thermocline: placement</title>\n<style>\n\
body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }\n\
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin-bottom: 2rem; }\n\
th, td { text-align: right; padding: .15rem .6rem; border-bottom: 1px solid #8884; }\n\
th:first-child, td:first-child { text-align: left; }\n\
.bar { position: relative; min-width: 12rem; height: 1rem; }\n\
.bar div { height: 100%; background: #2a78b8; }\n\
.bar i { position: absolute; top: -.2rem; bottom: -.2rem; border-left: 2px solid #c44; }\n\
.least { font-weight: 700; }\n</style>\n</head>\n<body>\n<h1>Placement policies on a full drive</h1>\n\
<p>WAF of every policy with every victim rule; bars show what is written beyond once with the best rule, the red line \
the limit of a policy that knows every rate and not the future.</p>\n";

/// One section per table: the figures, and bars with the limit line.
pub fn render(tables: &[Table]) -> String {
    let mut page = HEAD.to_owned();
    for table in tables {
        section(table, &mut page);
    }
    page + "</body>\n</html>\n"
}

fn section(table: &Table, page: &mut String) {
    let excess = |waf: f64| (waf - 1.0).max(0.0);
    let best = |index: usize| table.lines[index].best().map(|(waf, _)| waf);
    let all = (0..table.lines.len()).filter_map(best);
    let longest = all.fold(table.limit.unwrap_or(1.0), f64::max);
    let share = |waf: f64| 100.0 * excess(waf) / excess(longest).max(f64::MIN_POSITIVE);
    *page += &format!(
        "<h2>{}</h2>\n<p>{}</p>\n<table>\n<tr>",
        escape(&table.workload),
        escape(&title(table))
    );
    for head in heads(table) {
        let _ = write!(page, "<th>{}</th>", escape(&head));
    }
    *page += "<th>WAF - 1</th></tr>\n";
    for line in &table.lines {
        let _ = write!(page, "<tr><td>{}</td>", escape(&line.policy));
        for fact in facts(line) {
            let _ = write!(page, "<td>{}</td>", escape(&fact));
        }
        let least = line.best().map(|(waf, _)| waf);
        for (_, value) in &line.wafs {
            let class = if value.is_some() && *value == least { " class=\"least\"" } else { "" };
            let _ = write!(page, "<td{class}>{}</td>", waf(*value));
        }
        let width = least.map_or(0.0, share);
        let mark = table
            .limit
            .map_or(String::new(), |limit| format!("<i style=\"left: {:.1}%\"></i>", share(limit)));
        let _ = write!(
            page,
            "<td><div class=\"bar\"><div style=\"width: {width:.1}%\"></div>{mark}</div></td>"
        );
        *page += "</tr>\n";
    }
    *page += "</table>\n";
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
