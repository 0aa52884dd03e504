//! The folder of runs: `logs.csv`, `curves/ID.csv`, `handles/ID.csv`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::counters::{Curve, bad, number, rows};

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
        let curve = Curve::new(points, Vec::new());
        curve.ok_or_else(|| bad(&file, "is no curve: host and media bytes must rise"))
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
