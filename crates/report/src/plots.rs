//! A page of charts and tables that are not about runs: theory, and experiments with theirs and ours in one picture.

use thermocline_record::plot::Plot;

use crate::text::escape;

/// Where figures come from: each is one click away from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// What made the figures, such as the name of an experiment; unique on a page.
    pub name: String,
    /// Who published theirs, and where.
    pub source: String,
    /// The command that gives ours.
    pub command: String,
}

/// A table of text beside the charts; the first column labels the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTable {
    /// What it holds.
    pub title: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// The rows, each with as many cells as there are heads.
    pub rows: Vec<Vec<String>>,
    /// Name of the [`Origin`] of its figures.
    pub origin: Option<String>,
}

/// What a page of charts shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlotPage {
    /// Heading.
    pub title: String,
    /// A paragraph below it.
    pub introduction: String,
    /// The charts.
    pub plots: Vec<Plot>,
    /// Name of the [`Origin`] of each chart, as far as there are any.
    pub plot_origins: Vec<String>,
    /// The same in numbers.
    pub tables: Vec<TextTable>,
    /// Where charts and numbers come from.
    pub origins: Vec<Origin>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

/// The charts, tables and notes as HTML sections.
pub(crate) fn sections(page: &PlotPage) -> String {
    let mut html = String::new();
    if !page.plots.is_empty() {
        let origins = page.plot_origins.iter().map(Some).chain(std::iter::repeat(None));
        let charts = page.plots.iter().enumerate().zip(origins);
        let figures: String = charts.map(|(plot, origin)| figure(plot, origin)).collect();
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
    format!(
        "<dt id=\"origin-{name}\"><b>{name}</b></dt><dd>Theirs: {source}<pre>{command}</pre></dd>"
    )
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

fn figure((index, plot): (usize, &Plot), origin: Option<&String>) -> String {
    let (title, caption) = (escape(&plot.title), escape(&plot.caption));
    let from =
        origin.map_or_else(String::new, |_| " ".to_owned() + &link(origin, "Source and command"));
    format!(
        "<figure class=\"wide\"><h3>{title}</h3><div class=\"chart\" data-chart=\"plot\" data-record=\"{index}\" \
         data-title=\"{title}\" role=\"img\" aria-label=\"{title}\" style=\"height:400px\"></div>\
         <figcaption>{caption}{from}</figcaption></figure>"
    )
}

/// Characters from which on a cell is prose or a command, which wraps. Chosen: figures are shorter.
const PROSE: usize = 32;

fn cell(text: &str) -> String {
    let class = if text.chars().count() < PROSE { "" } else { " class=\"prose\"" };
    format!("<td{class}>{}</td>", escape(text))
}

fn table(table: &TextTable) -> String {
    let heads: String =
        table.heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escape(head))).collect();
    let row = |cells: &Vec<String>| {
        let mut cells = cells.iter();
        let label = cells.next().map_or(String::new(), |cell| escape(cell));
        let label = link(table.origin.as_ref(), &label);
        let rest: String = cells.map(|text| cell(text)).collect();
        format!("<tr class=\"numbers\"><th scope=\"row\">{label}</th>{rest}</tr>")
    };
    let rows: String = table.rows.iter().map(row).collect();
    format!(
        "<h3>{}</h3><div class=\"scroll\" tabindex=\"0\"><table class=\"comparison\"><thead><tr>{heads}</tr></thead>\
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
        let row = vec!["WAF <1>".to_owned(), "3.57".to_owned()];
        let page = PlotPage {
            plots: vec![Plot::default(), Plot::default()],
            plot_origins: vec![name.clone()],
            tables: vec![TextTable {
                rows: vec![row],
                origin: Some(name.clone()),
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
        assert_eq!(cell("3.57"), "<td>3.57</td>");
        assert!(cell(&"word ".repeat(9)).starts_with("<td class=\"prose\">"));
        for part in [
            "title=\"source and command: csal\">WAF &lt;1&gt;</a>",
            "<dt id=\"origin-csal\">",
            "Theirs: Intel &amp; Alibaba<pre>thermocline lab reproduce csal</pre>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
    }
}
