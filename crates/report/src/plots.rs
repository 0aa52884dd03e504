//! A page of charts and tables that are not about runs: theory, and experiments with theirs and ours in one picture.

use thermocline_record::plot::Plot;

use crate::text::escape;

/// A table of text beside the charts; the first column labels the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTable {
    /// What it holds.
    pub title: String,
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// The rows, each with as many cells as there are heads.
    pub rows: Vec<Vec<String>>,
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
    /// The same in numbers.
    pub tables: Vec<TextTable>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

/// The charts, tables and notes as HTML sections.
pub(crate) fn sections(page: &PlotPage) -> String {
    let mut html = String::new();
    if !page.plots.is_empty() {
        let figures: String = page.plots.iter().enumerate().map(figure).collect();
        html += &format!(
            "<section id=\"charts\"><h2>Charts</h2><div class=\"figures\">{figures}</div></section>"
        );
    }
    if !page.tables.is_empty() {
        let tables: String = page.tables.iter().map(table).collect();
        html += &format!("<section id=\"numbers\"><h2>In numbers</h2>{tables}</section>");
    }
    if !page.notes.is_empty() {
        let notes: String =
            page.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        html += &format!("<section id=\"notes\"><h2>Notes</h2><ul>{notes}</ul></section>");
    }
    html
}

fn figure((index, plot): (usize, &Plot)) -> String {
    let (title, caption) = (escape(&plot.title), escape(&plot.caption));
    format!(
        "<figure class=\"wide\"><h3>{title}</h3><div class=\"chart\" data-chart=\"plot\" data-record=\"{index}\" \
         data-title=\"{title}\" role=\"img\" aria-label=\"{title}\" style=\"height:400px\"></div>\
         <figcaption>{caption}</figcaption></figure>"
    )
}

fn table(table: &TextTable) -> String {
    let heads: String =
        table.heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escape(head))).collect();
    let row = |cells: &Vec<String>| {
        let mut cells = cells.iter().map(|cell| escape(cell));
        let label = cells.next().unwrap_or_default();
        let rest: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr class=\"numbers\"><th scope=\"row\">{label}</th>{rest}</tr>")
    };
    let rows: String = table.rows.iter().map(row).collect();
    format!(
        "<h3>{}</h3><div class=\"scroll\" tabindex=\"0\"><table class=\"comparison\"><thead><tr>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table></div>",
        escape(&table.title)
    )
}
