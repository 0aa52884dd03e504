//! The table of truth as Markdown: made of points, and read back, so that some rows can be made anew.

use std::collections::HashSet;

use serde::Serialize;

use super::{DOCUMENTS, Evidence, Point, Reference};

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
    evidence: Evidence,
    /// The difference in percent, to two places.
    percent: f64,
}

/// Why a line is no row of the table.
#[derive(Debug, thiserror::Error)]
#[error("`{line}` is no row of the table of truth: {reason}")]
pub struct RowError {
    line: String,
    reason: &'static str,
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
        Row { cells, evidence: document.evidence, percent }
    }

    /// The rows of the table in `text`, which may have more around it; lines of other tables are passed over.
    ///
    /// # Errors
    /// [`RowError`] for a line with as many columns that says nothing of a known document.
    pub fn read(text: &str) -> Result<Vec<Row>, RowError> {
        let cells = |line: &str| -> Option<[String; 8]> {
            let inner = line.trim().strip_prefix("| ")?.strip_suffix(" |")?;
            let cells: Vec<String> = inner.split(" | ").map(str::to_owned).collect();
            cells.try_into().ok()
        };
        let begins = |line: &&str| cells(line).is_some_and(|cells| cells == HEADS);
        let lines = text.lines().skip_while(|line| !begins(line)).skip(2);
        let rows = lines.map_while(|line| Some((line, cells(line)?)));
        rows.map(|(line, cells)| Row::new(line, cells)).collect()
    }

    fn new(line: &str, cells: [String; 8]) -> Result<Row, RowError> {
        let refuse = |reason| RowError { line: line.to_owned(), reason };
        let document = DOCUMENTS.iter().find(|document| document.name == cells[0]);
        let evidence = document.ok_or_else(|| refuse("no document is called so"))?.evidence;
        let percent = cells[5].strip_suffix(" %").and_then(|percent| percent.parse().ok());
        let percent = percent.ok_or_else(|| refuse("the difference is no number of percent"))?;
        Ok(Row { cells, evidence, percent })
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

/// Median and worst of the differences of some rows, without sign, as they are written there: to a hundredth of a
/// percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Rows.
    pub rows: usize,
    /// Different published values among them.
    pub values: usize,
    /// The middle difference; of an even number, the mean of both. 0.01 is one percent.
    pub median: f64,
    /// The largest, likewise.
    pub worst: f64,
}

impl Errors {
    /// Errors of the test rows; `None` without test rows.
    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<Errors> {
        let rows: Vec<&Row> = rows.into_iter().filter(|row| row.is_test()).collect();
        let mut all: Vec<f64> = rows.iter().map(|row| row.percent.abs() / 100.0).collect();
        all.sort_by(f64::total_cmp);
        let count = all.len();
        let median = (all.get(count.checked_sub(1)? / 2)? + all[count / 2]) / 2.0;
        let worst = *all.last()?;
        let values = rows.iter().map(|row| row.value()).collect::<HashSet<_>>().len();
        Some(Errors { rows: count, values, median, worst })
    }
}

/// The table of truth as Markdown that reads well as it is: errors first, then the rows.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = summary(rows);
    text.push('\n');
    for cells in [HEADS, RULES] {
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    rows.iter().for_each(|row| text.push_str(&format!("| {} |\n", row.cells.join(" | "))));
    text
}

/// Median and worst error, of all and by what published them.
fn summary(rows: &[Row]) -> String {
    let mut text = String::from(
        "| against | published values | rows | median error | worst error |\n|---|--:|--:|--:|--:|\n",
    );
    let kinds = Evidence::ALL.map(|evidence| {
        let of = rows.iter().filter(move |row| row.evidence == evidence);
        (evidence.name(), Errors::of(of))
    });
    for (name, errors) in [("everything", Errors::of(rows))].into_iter().chain(kinds) {
        let Some(Errors { rows, values, median, worst }) = errors else { continue };
        let (median, worst) = (median * 100.0, worst * 100.0);
        text.push_str(&format!("| {name} | {values} | {rows} | {median:.2} % | {worst:.2} % |\n"));
    }
    let fitted = rows.iter().filter(|row| !row.is_test()).count();
    if fitted > 0 {
        text.push_str(&format!(
            "\nLeft out of the errors: {fitted} that a parameter of ours was fitted to.\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{CHOI, Standing};
    use super::*;
    use crate::reproduce::Figure;

    const EQUAL: Reference = Reference::new(CHOI, "times as long", "times");

    fn row(reference: Reference, theirs: f64, ours: f64) -> Row {
        let figure = Figure::new("terms", theirs, ours, reference);
        Row::of(&Point::of("lsm-zgc", &figure).unwrap())
    }

    #[test]
    fn errors_have_no_sign_and_leave_out_what_was_fitted() {
        let fitted = EQUAL.standing(Standing::Fitted);
        let mut rows = vec![row(EQUAL, 1.0, 0.9), row(EQUAL, 1.0, 1.3), row(fitted, 1.0, 9.0)];
        let errors = Errors::of(&rows).unwrap();
        assert_eq!((errors.rows, errors.values), (2, 1));
        assert!((errors.median - 0.2).abs() < 1e-9 && (errors.worst - 0.3).abs() < 1e-9);
        rows.push(row(EQUAL, 2.0, 2.1));
        let errors = Errors::of(&rows).unwrap();
        assert_eq!((errors.rows, errors.values), (3, 2));
        assert!((errors.median - 0.1).abs() < 1e-9);
        assert!(Errors::of(&[]).is_none());
    }

    #[test]
    fn a_row_says_theirs_ours_and_what_explains_it() {
        let cause = Standing::Cause { what: "small", theirs: 1.02 };
        let text = table(&[row(EQUAL.standing(cause), 1.0, 1.03)]);
        for part in [
            "| everything | 1 | 1 | 3.00 % | 3.00 % |",
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
        let text = table(&rows);
        assert_eq!(Row::read(&format!("before\n\n{text}\nafter | all\n")).unwrap(), rows);
        assert_eq!(table(&Row::read(&text).unwrap()), text);
        let error = Row::read(&text.replace("Choi, HotStorage 2020", "nobody")).unwrap_err();
        assert!(error.to_string().contains("no document is called so"), "{error}");
    }

    #[test]
    fn the_head_of_the_document_is_that_of_its_rows() {
        let text = include_str!("../../../../../docs/use/TRUTH.md");
        let rows = Row::read(text).unwrap();
        assert!(rows.len() > 100 && text.contains(&table(&rows)), "{}", summary(&rows));
    }
}
