//! Files of comma-separated cells, by the names in their first line.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Error;

/// An error about the content of `file`.
pub(crate) fn bad(file: &Path, what: &str) -> Error {
    Error::Settings(format!("{} {what}", file.display()))
}

/// The text of `file`.
///
/// # Errors
/// [`Error::Read`].
pub(crate) fn text(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|error| Error::Read {
        file: file.display().to_string(),
        reason: error.to_string(),
    })
}

/// The number in `column` of a row.
///
/// # Errors
/// [`Error::Settings`] when it is none.
pub(crate) fn number(
    file: &Path,
    row: &BTreeMap<String, String>,
    column: &str,
) -> Result<f64, Error> {
    let text = row.get(column).map_or("", String::as_str);
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| bad(file, &format!("has `{text}` as `{column}`, which is no number")))
}

/// The rows of `file`, by the names in its first line. Cells may stand in quotation marks.
///
/// # Errors
/// [`Error::Read`], and [`Error::Settings`] when a row has another number of cells than there are names.
pub(crate) fn rows(file: &Path) -> Result<Vec<BTreeMap<String, String>>, Error> {
    rows_of(file, &text(file)?)
}

/// The rows in `text`, which is the content of `file`.
pub(super) fn rows_of(file: &Path, text: &str) -> Result<Vec<BTreeMap<String, String>>, Error> {
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let names = cells(lines.next().unwrap_or_default());
    let mut rows = Vec::new();
    for line in lines {
        let cells = cells(line);
        if cells.len() != names.len() {
            let what = format!("has {} cells under {} names: {line}", cells.len(), names.len());
            return Err(bad(file, &what));
        }
        rows.push(names.iter().cloned().zip(cells).collect());
    }
    Ok(rows)
}

/// The cells of a line.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = cells.len() - 1;
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cells[last].push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            letter => cells[last].push(letter),
        }
    }
    cells
}
