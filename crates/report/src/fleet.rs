//! The page of a fleet: which drives wear out before their service ends.

use crate::page::whole;
use crate::plots::{TextTable, table};
use crate::svg::{Axis, Band, Line, Lines};
use crate::text::escape;

/// What the page says. Texts are plain, not HTML.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetPage {
    /// Title of the page.
    pub title: String,
    /// The answer in a sentence.
    pub answer: String,
    /// Names and values of the large figures.
    pub figures: Vec<(String, String)>,
    /// Date, and drives worn out by then: lower end, expected, upper end of the 90 % interval. Dates are at equal
    /// distances.
    pub curve: Vec<(String, [f64; 3])>,
    /// A row for each class.
    pub classes: TextTable,
    /// Name of each class, and sentences on it.
    pub why: Vec<(String, Vec<String>)>,
    /// What would mend the classes; `None`: not asked for.
    pub mends: Option<TextTable>,
    /// The first drives to wear out.
    pub first: TextTable,
    /// Headings, and sentences below them, such as what cannot be said. Those without a sentence are left out.
    pub lists: Vec<(String, Vec<String>)>,
}

/// The page as HTML that needs no network and no scripts. Equal pages give equal bytes.
///
/// # Examples
/// ```
/// let page = thermocline_report::FleetPage { title: "My fleet".into(), ..Default::default() };
/// assert!(thermocline_report::fleet_page(&page).contains("<h1>My fleet</h1>"));
/// ```
#[must_use]
pub fn fleet_page(page: &FleetPage) -> String {
    let introduction = format!("<p class=\"lead\">{}</p>", escape(&page.answer));
    let figure = |(name, value): &(String, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value))
    };
    let figures: String = page.figures.iter().map(figure).collect();
    let introduction = format!("{introduction}<dl class=\"big\">{figures}</dl>");
    let list = |(index, (heading, all)): (usize, &(String, Vec<String>))| match all.is_empty() {
        true => String::new(),
        false => section(&format!("list-{index}"), heading, &sentences(all)),
    };
    let main = [
        section("when", "When", &curve(&page.curve)),
        section("classes", "Classes", &(tables(&page.classes) + &why(&page.why))),
        page.mends.as_ref().map_or_else(String::new, |mends| {
            section("mends", "What would mend it", &tables(mends))
        }),
        section("first", "The first to wear out", &first(&page.first)),
        page.lists.iter().enumerate().map(list).collect(),
    ];
    whole(&escape(&page.title), &introduction, &main.concat(), "")
}

fn section(id: &str, heading: &str, body: &str) -> String {
    format!("<section id=\"{id}\"><h2>{}</h2>{body}</section>", escape(heading))
}

fn tables(of: &TextTable) -> String {
    table(of)
}

fn first(of: &TextTable) -> String {
    match of.rows.is_empty() {
        true => "<p class=\"absent\">No drive is likely to wear out in service.</p>".to_owned(),
        false => table(of),
    }
}

fn sentences(all: &[String]) -> String {
    let items: String = all.iter().map(|one| format!("<li>{}</li>", escape(one))).collect();
    format!("<ul class=\"prose\">{items}</ul>")
}

/// A card for each class.
fn why(all: &[(String, Vec<String>)]) -> String {
    let card = |(name, why): &(String, Vec<String>)| {
        let items: String = why.iter().map(|one| format!("<li>{}</li>", escape(one))).collect();
        format!("<article class=\"card\"><h3>{}</h3><ul>{items}</ul></article>", escape(name))
    };
    let cards: String = all.iter().map(card).collect();
    format!("<h3 class=\"why\">Why</h3><div class=\"cards\">{cards}</div>")
}

/// Drives worn out over time, with their band.
fn curve(points: &[(String, [f64; 3])]) -> String {
    let (title, name) = ("Drives worn out in service", "drives worn out in service, in all");
    let of = |index: usize| points.iter().map(move |(_, counts)| counts[index]);
    // A label a year: steps are half a year.
    let label = |(index, (date, _)): (usize, &(String, [f64; 3]))| match index % 2 {
        0 => date.chars().take(7).collect(),
        _ => String::new(),
    };
    let x = Axis::listed("month", points.iter().enumerate().map(label).collect());
    let likely = of(1).enumerate().map(|(at, y)| [at as f64, y]).collect();
    let band = of(0).zip(of(2)).enumerate().map(|(at, (low, high))| [at as f64, low, high]);
    let chart = Lines {
        title,
        x,
        y: Axis::linear(name, of(2)),
        lines: vec![Line { name: "expected", style: 0, points: likely, reference: false }],
        windows: Vec::new(),
        bands: vec![Band { style: 0, points: band.collect() }],
    };
    format!(
        "<div class=\"figures\"><figure class=\"wide\">{}<figcaption>The line is what is expected; the band holds 90 % of \
         the drawn futures. Drives whose service has ended do not count.</figcaption></figure></div>",
        chart.draw()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_answer_the_band_and_what_cannot_be_said() {
        let point = |date: &str, high| (date.to_owned(), [0.0, high / 2.0, high]);
        let page = FleetPage {
            answer: "3 of 9 drives <wear out>".to_owned(),
            curve: vec![
                point("2026-01-01", 0.0),
                point("2026-07-02", 4.0),
                point("2027-01-01", 6.0),
            ],
            lists: vec![
                ("What cannot be said".to_owned(), vec!["S1: no counter".to_owned()]),
                ("Empty".to_owned(), Vec::new()),
            ],
            ..FleetPage::default()
        };
        let html = fleet_page(&page);
        for part in [
            "3 of 9 drives &lt;wear out&gt;",
            "class=\"band\"",
            ">2027-01<",
            "<li>S1: no counter</li>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert!(
            !html.contains("Empty")
                && !html.contains("<script")
                && html.contains("No drive is likely")
        );
    }
}
