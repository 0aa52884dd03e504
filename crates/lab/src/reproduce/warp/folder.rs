//! The folder of runs: `logs.csv`, `curves/ID.csv`, `handles/ID.csv`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::TENTHS;
use crate::Error;

/// A row of `logs.csv`, by column.
#[derive(Clone, Debug)]
pub(super) struct Log {
    cells: BTreeMap<String, String>,
}

/// All rows of a folder.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    logs: Vec<Log>,
}

/// Cumulative media bytes against host bytes.
#[derive(Clone, Debug)]
pub(super) struct Curve(Vec<[f64; 2]>);

/// Host bytes of some handles between two points of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interval {
    /// Host bytes of the run at its end.
    pub until: f64,
    /// Share of the host bytes of each handle, by handle.
    pub shares: BTreeMap<u8, f64>,
}

impl Folder {
    /// Reads `logs.csv` of the folder.
    ///
    /// # Errors
    /// [`Error::Read`] when it is not there, and [`Error::Settings`] when it has no rows or no column `id`.
    pub fn read(path: &Path) -> Result<Folder, Error> {
        let file = path.join("logs.csv");
        let logs: Vec<Log> = rows(&file)?.into_iter().map(|cells| Log { cells }).collect();
        if logs.is_empty() {
            return Err(bad(&file, "has no rows"));
        }
        for column in ["id", "kind", "capacity_bytes", "ru_bytes", "workload", "parameters"] {
            if let Some(log) = logs.iter().find(|log| log.text(column).is_empty()) {
                let what = format!("the row `{}` has no `{column}`", log.text("id"));
                return Err(bad(&file, &what));
            }
        }
        Ok(Folder { path: path.to_owned(), logs })
    }

    pub fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// The curve of `log`.
    ///
    /// # Errors
    /// [`Error::Read`] when it is not there, and [`Error::Settings`] when its bytes do not rise.
    pub fn curve(&self, log: &Log) -> Result<Curve, Error> {
        let file = self.path.join("curves").join(format!("{}.csv", log.text("id")));
        let mut points = Vec::new();
        for row in rows(&file)? {
            points.push([number(&file, &row, "host_bytes")?, number(&file, &row, "media_bytes")?]);
        }
        let rises =
            points.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] <= pair[1][1]);
        let written = points.last().is_some_and(|last| last[0] > points[0][0]);
        if !rises || !written {
            return Err(bad(&file, "is no curve: host and media bytes must rise"));
        }
        Ok(Curve(points))
    }

    /// Host bytes by handle in the course of `log`; nothing where no counters by handle are.
    ///
    /// # Errors
    /// [`Error::Settings`] when the file has a cell that is no number.
    pub fn handles(&self, log: &Log) -> Result<Vec<Interval>, Error> {
        let file = self.path.join("handles").join(format!("{}.csv", log.text("id")));
        if !file.is_file() {
            return Ok(Vec::new());
        }
        let rows = rows(&file)?;
        let mut intervals = Vec::new();
        for pair in rows.windows(2) {
            let until = number(&file, &pair[1], "host_bytes")?;
            let mut shares = BTreeMap::new();
            for handle in 0..7_u8 {
                let column = format!("h{handle}_host");
                if pair[1].contains_key(&column) {
                    let wrote =
                        number(&file, &pair[1], &column)? - number(&file, &pair[0], &column)?;
                    shares.insert(handle, wrote.max(0.0));
                }
            }
            let all: f64 = shares.values().sum();
            if all > 0.0 {
                shares.values_mut().for_each(|share| *share /= all);
                intervals.push(Interval { until, shares });
            }
        }
        Ok(intervals)
    }
}

impl Log {
    /// The cell of `column`, empty where there is none.
    pub fn text(&self, column: &str) -> &str {
        self.cells.get(column).map_or("", String::as_str)
    }

    /// The number in `column`.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok()
    }

    /// The number in `column`.
    ///
    /// # Errors
    /// [`Error::Settings`] when the cell is no number above 0.
    pub fn needed(&self, column: &str) -> Result<f64, Error> {
        self.number(column).filter(|value| *value > 0.0).ok_or_else(|| {
            let (id, text) = (self.text("id"), self.text(column));
            Error::Settings(format!(
                "logs.csv, `{id}`: `{column}` is `{text}`, not a number above 0"
            ))
        })
    }

    /// The value of `key` in the cell `parameters`.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        let pairs = self.text("parameters").split(';').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The number that the value of `key` in `parameters` begins with.
    pub fn parameter_number(&self, key: &str) -> Option<f64> {
        self.parameter(key)?.split([' ', '(']).next()?.parse().ok()
    }
}

impl Curve {
    /// Host bytes of the whole run.
    pub fn host_bytes(&self) -> f64 {
        self.0.last().map_or(0.0, |last| last[0]) - self.0[0][0]
    }

    /// Media by host bytes of each tenth of the host bytes.
    pub fn tenths(&self) -> Vec<f64> {
        let step = self.host_bytes() / TENTHS as f64;
        let at = |tenth: usize| self.media_at(self.0[0][0] + tenth as f64 * step);
        (0..TENTHS).map(|tenth| (at(tenth + 1) - at(tenth)) / step).collect()
    }

    /// Media bytes when the host had written `host` bytes, between two points in proportion.
    fn media_at(&self, host: f64) -> f64 {
        let next = self.0.iter().position(|point| point[0] >= host).unwrap_or(self.0.len() - 1);
        let ([x0, y0], [x1, y1]) = (self.0[next.saturating_sub(1)], self.0[next]);
        if x1 > x0 { y0 + (y1 - y0) * (host - x0) / (x1 - x0) } else { y1 }
    }
}

fn bad(file: &Path, what: &str) -> Error {
    Error::Settings(format!("{} {what}", file.display()))
}

fn number(file: &Path, row: &BTreeMap<String, String>, column: &str) -> Result<f64, Error> {
    let text = row.get(column).map_or("", String::as_str);
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| bad(file, &format!("has `{text}` as `{column}`, which is no number")))
}

/// The rows of a file of comma-separated cells, by the names in its first line. Cells may stand in quotation marks.
fn rows(file: &Path) -> Result<Vec<BTreeMap<String, String>>, Error> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| Error::Read {
        file: file.display().to_string(),
        reason: error.to_string(),
    })?;
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
