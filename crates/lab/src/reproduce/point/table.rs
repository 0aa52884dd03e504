//! The table of truth: made of points, kept as CSV so that some rows can be made anew, and summed up as Markdown.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::counters::median;

use super::{DOCUMENTS, Point, Reference};

/// Heads of the columns.
const HEADS: [&str; 8] = [
    "document",
    "quantity, unit",
    "our terms",
    "theirs",
    "ours",
    "difference",
    "explained",
    "`lab reproduce`",
];
/// How they stand.
const RULES: [&str; 8] = ["---", "---", "---", "--:", "--:", "--:", "---", "---"];
/// Marks a row with a fitted parameter, in place of an explanation.
pub(super) const FITTED: &str = "fitted: no test";

/// A row of the table: a point with its figures rounded as they are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Text of each column.
    cells: [String; 8],
    document: &'static str,
    /// The difference in percent, to two places.
    percent: f64,
}

/// Why a text is no table of truth.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// The text is no CSV, or has other columns.
    #[error("no table of truth: {0}")]
    Csv(#[from] csv::Error),
    /// A row is of no document, or has no difference.
    #[error("`{0}` is no row of the table of truth: {1}")]
    Row(String, &'static str),
}

impl Row {
    /// The row of `point`.
    #[must_use]
    pub fn of(point: &Point) -> Row {
        let Reference { document, quantity, part, unit, .. } = point.reference;
        let of = if part.is_empty() { String::new() } else { format!(", {part}") };
        let percent = format!("{:+.2}", point.difference * 100.0);
        let cells = [
            document.name.to_owned(),
            format!("{quantity}{of}, {unit}"),
            point.terms.clone(),
            point.theirs_as_meant(),
            format!("{:.3}", point.ours),
            format!("{percent} %"),
            point.explained(),
            format!("`{}`", point.experiment),
        ];
        let percent = percent.parse().expect("a number was written");
        Row { cells, document: document.name, percent }
    }

    fn new(cells: [String; 8]) -> Result<Row, RowError> {
        let refuse = |cells: &[String; 8], reason| RowError::Row(cells.join(", "), reason);
        let document = DOCUMENTS.iter().find(|document| document.name == cells[0]);
        let Some(document) = document else {
            return Err(refuse(&cells, "no document is called so"));
        };
        let percent = cells[5].strip_suffix(" %").and_then(|percent| percent.parse().ok());
        let Some(percent) = percent else {
            return Err(refuse(&cells, "the difference is no number of percent"));
        };
        Ok(Row { cells, document: document.name, percent })
    }

    /// Name of the row's experiment.
    #[must_use]
    pub fn experiment(&self) -> &str {
        self.cells[7].trim_matches('`')
    }

    /// Whether the row is a test: a fitted value is not.
    fn is_test(&self) -> bool {
        self.cells[6] != FITTED
    }

    /// Which published value it is held against; several rows may be held against one, on terms that the document
    /// leaves open.
    fn value(&self) -> [&str; 3] {
        [&self.cells[0], &self.cells[1], &self.cells[3]]
    }
}

/// Differences of published values, without sign, as they are written in the rows: to a hundredth of a percent. Where
/// several rows are held against one value, on terms that the document leaves open, the value has the median of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Rows.
    pub rows: usize,
    /// Published values that are no bounds.
    pub values: usize,
    /// Their median difference. 0.01 is one percent; `None` if all are bounds.
    pub median: Option<f64>,
    /// The largest, likewise.
    pub worst: Option<f64>,
    /// Published bounds, such as "more than".
    pub bounds: usize,
    /// Those that every row keeps.
    pub kept: usize,
}

impl Errors {
    /// Errors of the test rows; `None` without test rows.
    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<Errors> {
        let (mut values, mut count) = (BTreeMap::<_, Vec<f64>>::new(), 0);
        for row in rows.into_iter().filter(|row| row.is_test()) {
            values.entry(row.value()).or_default().push(row.percent.abs() / 100.0);
            count += 1;
        }
        let is_bound = |value: &[&str; 3]| value[2].starts_with(['<', '>']);
        let (bounds, exact): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|(value, _)| is_bound(value));
        let kept = bounds.iter().filter(|(_, errors)| errors.iter().all(|error| *error < 1e-9));
        let of_values: Vec<f64> = exact.into_iter().map(|(_, errors)| median(errors)).collect();
        let found = (!of_values.is_empty()).then(|| median(of_values.clone()));
        (count > 0).then(|| Errors {
            rows: count,
            values: of_values.len(),
            median: found,
            worst: of_values.iter().copied().reduce(f64::max),
            bounds: bounds.len(),
            kept: kept.count(),
        })
    }
}

/// The rows that a CSV has.
///
/// # Errors
/// [`RowError`] for other columns, and for a row of an unknown document.
pub fn read(text: &str) -> Result<Vec<Row>, RowError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|cells| Row::new(cells?)).collect()
}

/// The rows as CSV.
#[must_use]
pub fn to_csv(rows: &[Row]) -> String {
    let mut text = csv::Writer::from_writer(Vec::new());
    let lines =
        std::iter::once(HEADS.map(str::to_owned)).chain(rows.iter().map(|row| row.cells.clone()));
    for cells in lines {
        text.write_record(&cells).expect("memory takes all");
    }
    let bytes = text.into_inner().expect("memory takes all");
    String::from_utf8(bytes).expect("the cells are text")
}

/// The table of truth as Markdown: a figure for each document, the largest differences, then the rows.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = summary(rows);
    text.push('\n');
    text.push_str(&lines(rows.iter(), 0));
    text
}

/// The rows as Markdown, from column `from` on.
fn lines<'a>(rows: impl Iterator<Item = &'a Row>, from: usize) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells[from..].join(" | "));
    let heads = [HEADS, RULES].map(|cells| line(&cells.map(str::to_owned)));
    heads.into_iter().chain(rows.map(|row| line(&row.cells))).collect()
}

/// How many of the largest differences the summary has.
const WORST: usize = 20;

/// A figure for each document, and the rows with the largest differences.
#[must_use]
pub fn summary(rows: &[Row]) -> String {
    let mut text = String::from(
        "| document | published values | rows | median error | worst error | bounds kept |\n|---|--:|--:|--:|--:|--:|\n",
    );
    let percent = |share: Option<f64>| {
        share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0))
    };
    for document in DOCUMENTS {
        let of_it = rows.iter().filter(|row| row.document == document.name);
        let Some(errors) = Errors::of(of_it) else { continue };
        let Errors { rows, values, bounds, kept, .. } = errors;
        let bounds = if bounds > 0 { format!("{kept} of {bounds}") } else { "-".to_owned() };
        let (median, worst) = (percent(errors.median), percent(errors.worst));
        let name = document.name;
        text.push_str(&format!("| {name} | {values} | {rows} | {median} | {worst} | {bounds} |\n"));
    }
    let mut worst: Vec<&Row> = rows.iter().filter(|row| row.is_test()).collect();
    worst.sort_by(|a, b| b.percent.abs().total_cmp(&a.percent.abs()));
    worst.truncate(WORST);
    text.push_str("\nThe largest differences:\n\n");
    text.push_str(&lines(worst.into_iter(), 2));
    text
}

#[cfg(test)]
mod tests {
    use super::super::{CHOI, Meant, Standing};
    use super::*;
    use crate::reproduce::Figure;

    const EQUAL: Reference = Reference::new(CHOI, "times as long", "times");

    fn row(reference: Reference, theirs: f64, ours: f64) -> Row {
        let figure = Figure::new("terms", theirs, ours, reference);
        Row::of(&Point::of("lsm-zgc", &figure).unwrap())
    }

    #[test]
    fn a_published_value_counts_once_bounds_apart_and_what_was_fitted_not_at_all() {
        let fitted = EQUAL.standing(Standing::Fitted);
        let mut rows = vec![row(EQUAL, 1.0, 0.9), row(EQUAL, 1.0, 1.3), row(fitted, 1.0, 9.0)];
        let errors = Errors::of(&rows).unwrap();
        assert_eq!((errors.rows, errors.values, errors.bounds), (2, 1, 0));
        assert!((errors.median.unwrap() - 0.2).abs() < 1e-9);
        rows.push(row(EQUAL, 2.0, 2.1));
        let errors = Errors::of(&rows).unwrap();
        assert_eq!((errors.rows, errors.values), (3, 2));
        assert!((errors.median.unwrap() - 0.125).abs() < 1e-9);
        let over = EQUAL.meant(Meant::AtLeast);
        let bounds = [row(over, 2.0, 3.0), row(over, 4.0, 3.0), row(over, 4.0, 5.0)];
        let errors = Errors::of(&bounds).unwrap();
        assert_eq!((errors.values, errors.bounds, errors.kept), (0, 2, 1));
        assert!(errors.median.is_none() && Errors::of(&[]).is_none());
    }

    #[test]
    fn a_row_says_theirs_ours_and_what_explains_it() {
        let cause = Standing::Cause { what: "small", theirs: 1.02 };
        let text = table(&[row(EQUAL.standing(cause), 1.0, 1.03)]);
        for part in [
            "| Choi, HotStorage 2020 | 1 | 1 | 3.00 % | 3.00 % | - |",
            "| 1.000 | 1.030 | +3.00 % |",
            "small: 1.020 on our terms, +0.98 % left",
            "`lsm-zgc`",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let knob = Standing::Knob { what: "half as much", ours: 1.1 };
        let text = table(&[row(EQUAL.part("drive").standing(knob), 1.0, 1.3)]);
        for part in ["times as long, drive, times", "with half as much ours is 1.100, +10.00 %"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_table_is_read_back_as_it_was_written() {
        let fitted = EQUAL.standing(Standing::Fitted);
        let rows = vec![row(EQUAL, 1.0, 0.913), row(fitted, 1.0, 9.0), row(EQUAL, 3.0, 3.1)];
        let text = to_csv(&rows);
        assert_eq!(read(&text).unwrap(), rows);
        let error = read(&text.replace("Choi, HotStorage 2020", "nobody")).unwrap_err();
        assert!(error.to_string().contains("no document is called so"), "{error}");
    }

    #[test]
    fn the_page_has_the_summary_of_the_rows() {
        let rows = read(include_str!("../truth.csv")).unwrap();
        let page = include_str!("../../../../../docs/use/VALIDATION.md");
        assert!(rows.len() > 100 && page.contains(&summary(&rows)), "{}", summary(&rows));
    }
}
