//! A page of charts and tables that are not about runs: theory, and experiments with theirs and ours in one picture.

use thermocline_record::plot::{Plot, PlotAxis};

use crate::palette::VALID;
use crate::svg::{Axis, Line, Lines, Pairs, grid, pairs};
use crate::text::escape;

/// Source of figures, one click away from each figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// What made the figures, such as the name of an experiment; unique on a page.
    pub name: String,
    /// Source of published figures; may be empty.
    pub source: String,
    /// The commands that give ours, a line each; may be empty.
    pub command: String,
}

/// A table of text beside the charts; the first column labels the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTable {
    /// Title of the table.
    pub title: String,
    /// A sentence below that; may be empty.
    pub text: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// The rows, each with as many cells as there are heads.
    pub rows: Vec<Vec<String>>,
    /// Name of the [`Origin`] of its figures.
    pub origin: Option<String>,
    /// Names of the [`Origin`]s of single rows, as far as there are any; an empty one stands for that of the table.
    pub row_origins: Vec<String>,
}

/// Bars of several series, such as published figures and ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// Title of the chart.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// Quantity and unit.
    pub unit: String,
    /// Names of the series.
    pub series: Vec<String>,
    /// Name of each group of bars, and its figure in each series.
    pub groups: Vec<(String, Vec<Option<f64>>)>,
    /// Name of the [`Origin`] of its figures.
    pub origin: Option<String>,
}

/// Counts over two axes, as shades.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GridChart {
    /// Title of the chart.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// Name and end of the axis across, which begins at 0.
    pub x: (String, f64),
    /// Name and end of the axis up, which begins at 0.
    pub y: (String, f64),
    /// Counts: rows from the bottom, each with as many cells.
    pub rows: Vec<Vec<f64>>,
}

/// Contents of a page of charts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlotPage {
    /// Heading.
    pub title: String,
    /// A paragraph below it.
    pub introduction: String,
    /// Summary before the charts.
    pub summary: Option<TextTable>,
    /// Charts of bars, before those of lines.
    pub bars: Vec<BarChart>,
    /// Charts of shades, before those of lines.
    pub grids: Vec<GridChart>,
    /// The charts of lines.
    pub plots: Vec<Plot>,
    /// Name of the [`Origin`] of each chart, as far as there are any.
    pub plot_origins: Vec<String>,
    /// The same in numbers.
    pub tables: Vec<TextTable>,
    /// Where charts and numbers come from.
    pub origins: Vec<Origin>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
}

/// All charts of a page as HTML.
pub(crate) fn figures(page: &PlotPage) -> String {
    let origins = page.plot_origins.iter().map(Some).chain(std::iter::repeat(None));
    let bars = page.bars.iter().map(bar_chart);
    let grids = page.grids.iter().map(grid_chart);
    let lines = page.plots.iter().zip(origins).map(|(plot, origin)| line_chart(plot, origin));
    bars.chain(grids).chain(lines).collect()
}

/// The charts, tables and notes as HTML sections.
pub(crate) fn sections(page: &PlotPage) -> String {
    let mut html = String::new();
    if let Some(summary) = &page.summary {
        html += &format!("<section id=\"summary\">{}</section>", table(summary));
    }
    let figures = figures(page);
    if !figures.is_empty() {
        html += &format!(
            "<section id=\"charts\"><h2>Charts</h2><div class=\"figures\">{figures}</div></section>"
        );
    }
    if !page.tables.is_empty() {
        let tables: String = page.tables.iter().map(table).collect();
        html += &format!("<section id=\"numbers\"><h2>In numbers</h2>{tables}</section>");
    }
    if !page.origins.is_empty() {
        let origins: String = page.origins.iter().map(origin).collect();
        html += &format!(
            "<section id=\"origins\"><h2>Sources and commands</h2><dl>{origins}</dl></section>"
        );
    }
    if !page.notes.is_empty() {
        let notes: String =
            page.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        html += &format!("<section id=\"notes\"><h2>Notes</h2><ul>{notes}</ul></section>");
    }
    html
}

/// The place that [`link`] leads to: theirs and ours of one origin.
fn origin(origin: &Origin) -> String {
    let Origin { name, source, command } = origin;
    let [name, source, command] = [name, source, command].map(|text| escape(text));
    let part = |text: &str, html: String| if text.is_empty() { String::new() } else { html };
    let source = part(&source, format!("Source: {source}"));
    let command = part(&command, format!("<pre>{command}</pre>"));
    format!("<dt id=\"origin-{name}\"><b>{name}</b></dt><dd>{source}{command}</dd>")
}

/// A link to where figures come from, with `text` as it stands.
fn link(origin: Option<&String>, text: &str) -> String {
    origin.map_or_else(
        || text.to_owned(),
        |name| {
            let name = escape(name);
            format!("<a href=\"#origin-{name}\" title=\"source and command: {name}\">{text}</a>")
        },
    )
}

fn figure(title: &str, drawing: &str, caption: &str, origin: Option<&String>) -> String {
    let (title, caption) = (escape(title), escape(caption));
    let from =
        origin.map_or_else(String::new, |_| " ".to_owned() + &link(origin, "Source and command"));
    format!("<figure><h3>{title}</h3>{drawing}<figcaption>{caption}{from}</figcaption></figure>")
}

fn line_chart(plot: &Plot, origin: Option<&String>) -> String {
    let values = |axis: usize| {
        plot.lines.iter().flat_map(move |line| line.points.iter().map(move |point| point[axis]))
    };
    let axis = |of: &PlotAxis, index: usize| match of.logarithmic {
        true => Axis::logarithmic(&of.name, values(index)),
        false => Axis::linear(&of.name, values(index)),
    };
    let lines = plot.lines.iter().enumerate().map(|(style, line)| Line {
        name: &line.name,
        style,
        points: line.points.clone(),
        reference: line.reference,
    });
    let (x, y) = (axis(&plot.x, 0), axis(&plot.y, 1));
    let chart = Lines {
        title: &plot.title,
        x,
        y,
        lines: lines.collect(),
        windows: Vec::new(),
        bands: Vec::new(),
    };
    figure(&plot.title, &chart.draw(), &plot.caption, origin)
}

fn bar_chart(chart: &BarChart) -> String {
    let BarChart { title, caption, unit, series, groups, origin } = chart;
    let drawing = pairs(&Pairs { title, unit, series, groups });
    figure(title, &drawing, caption, origin.as_ref())
}

fn grid_chart(chart: &GridChart) -> String {
    let axis = |(name, end): &(String, f64)| {
        Axis::linear(name, std::iter::empty()).within((0.0, if *end > 0.0 { *end } else { 1.0 }))
    };
    let drawing = grid(&chart.title, axis(&chart.x), axis(&chart.y), &chart.rows, &VALID);
    figure(&chart.title, &drawing, &chart.caption, None)
}

/// Characters from which on a column of cells is prose or commands, which wrap. Chosen: figures are shorter.
const PROSE: usize = 32;

/// The class of each column: prose if any of its cells is; the first labels the rows.
fn classes(table: &TextTable) -> Vec<&'static str> {
    let is_long = |row: &Vec<String>, column| {
        row.get(column).is_some_and(|cell: &String| cell.chars().count() >= PROSE)
    };
    let of = |column| match column > 0 && table.rows.iter().any(|row| is_long(row, column)) {
        true => " class=\"prose\"",
        false => "",
    };
    (0..table.heads.len()).map(of).collect()
}

/// A table as HTML, with its title.
pub(crate) fn table(table: &TextTable) -> String {
    let classes = classes(table);
    let heads = table.heads.iter().zip(&classes);
    let heads: String = heads
        .map(|(head, class)| format!("<th scope=\"col\"{class}>{}</th>", escape(head)))
        .collect();
    let own = table.row_origins.iter().map(Some).chain(std::iter::repeat(None));
    let row = |(cells, own): (&Vec<String>, Option<&String>)| {
        let mut cells = cells.iter();
        let label = cells.next().map_or(String::new(), |cell| escape(cell));
        let label = link(own.filter(|name| !name.is_empty()).or(table.origin.as_ref()), &label);
        let cells = cells.zip(classes.iter().skip(1));
        let rest: String =
            cells.map(|(text, class)| format!("<td{class}>{}</td>", escape(text))).collect();
        format!("<tr><th scope=\"row\">{label}</th>{rest}</tr>")
    };
    let text = match table.text.as_str() {
        "" => String::new(),
        text => format!("<p class=\"lead small\">{}</p>", escape(text)),
    };
    let rows: String = table.rows.iter().zip(own).map(row).collect();
    format!(
        "<h3>{}</h3>{text}<div class=\"scroll\" tabindex=\"0\"><table class=\"comparison\"><thead><tr>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table></div>",
        escape(&table.title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_a_click_away_from_its_source_and_its_command() {
        let name = "csal".to_owned();
        let row = ["WAF <1>", "3.57", "few"].map(str::to_owned).to_vec();
        let own = ["WAF 2", "3", &"word ".repeat(9)].map(str::to_owned).to_vec();
        let page = PlotPage {
            summary: Some(TextTable { title: "In short".to_owned(), ..TextTable::default() }),
            plots: vec![Plot::default(), Plot::default()],
            plot_origins: vec![name.clone()],
            tables: vec![TextTable {
                heads: ["", "WAF", "words"].map(str::to_owned).to_vec(),
                rows: vec![row, own],
                origin: Some(name.clone()),
                row_origins: vec![String::new(), "2.1".to_owned()],
                ..TextTable::default()
            }],
            origins: vec![Origin {
                name,
                source: "Intel & Alibaba".to_owned(),
                command: "thermocline lab reproduce csal".to_owned(),
            }],
            ..PlotPage::default()
        };
        let html = sections(&page);
        assert_eq!(html.matches("href=\"#origin-csal\"").count(), 2, "{html}");
        assert!(html.find("In short") < html.find("Charts"), "{html}");
        assert!(
            html.contains("<a href=\"#origin-2.1\" title=\"source and command: 2.1\">WAF 2</a>")
        );
        assert!(html.contains("<td>3.57</td><td class=\"prose\">few</td>"), "{html}");
        for part in [
            "title=\"source and command: csal\">WAF &lt;1&gt;</a>",
            "<dt id=\"origin-csal\">",
            "Source: Intel &amp; Alibaba<pre>thermocline lab reproduce csal</pre>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
    }
}
