//! The tables as one page.

use thermocline_lab::bench_placement::Table;
use thermocline_report::{BarChart, PlotPage, TextTable, render_plots};

use super::{facts, heads, title, waf};

/// A chart and a table for each table: the best WAF of each policy beside the limit, and all figures.
pub fn render(tables: &[Table]) -> String {
    render_plots(&PlotPage {
        title: "Placement policies on a full drive".to_owned(),
        introduction: "WAF of every policy with every victim rule. The limit is a policy that knows every rate and not \
            the future."
            .to_owned(),
        bars: tables.iter().map(chart).collect(),
        tables: tables.iter().map(numbers).collect(),
        ..PlotPage::default()
    })
}

fn chart(table: &Table) -> BarChart {
    let lines = table.lines.iter().map(|line| {
        let best = line.best();
        let victim = best.map_or(String::new(), |(_, victim)| format!(", {victim}"));
        (format!("{}{victim}", line.policy), vec![best.map(|(waf, _)| waf)])
    });
    let limit = table.limit.map(|limit| ("limit".to_owned(), vec![Some(limit)]));
    BarChart {
        title: table.workload.clone(),
        caption: format!("{}. Each policy with its best victim rule.", title(table)),
        unit: "WAF".to_owned(),
        series: vec!["WAF".to_owned()],
        groups: lines.chain(limit).collect(),
        origin: None,
    }
}

fn numbers(table: &Table) -> TextTable {
    let row = |line: &thermocline_lab::bench_placement::Line| {
        let wafs = line.wafs.iter().map(|(_, value)| waf(*value));
        std::iter::once(line.policy.clone()).chain(facts(line)).chain(wafs).collect()
    };
    TextTable {
        title: table.workload.clone(),
        text: title(table),
        heads: heads(table),
        rows: table.lines.iter().map(row).collect(),
        ..TextTable::default()
    }
}
