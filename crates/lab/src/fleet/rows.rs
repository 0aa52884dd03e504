//! Rows of a fleet: one a drive and moment, from CSV, JSON or a range query of Prometheus.
//!
//! Invariant: every row of a file is read, or is refused with its line and the reason.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{day, json};

/// A drive at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetRow {
    /// The host of the drive; may be empty.
    pub host: String,
    /// Its model.
    pub model: String,
    /// Its serial number, which tells drives apart.
    pub serial: String,
    /// Class of the host.
    pub class: Option<String>,
    /// Seconds since 1970.
    pub time: f64,
    /// Bytes that it exports.
    pub capacity_bytes: Option<f64>,
    /// Bytes that hosts wrote, ever.
    pub host_bytes: Option<f64>,
    /// Bytes written to the media, ever.
    pub media_bytes: Option<f64>,
    /// Used share of its endurance, in percent.
    pub used_percent: Option<f64>,
    /// Hours with power, ever.
    pub power_on_hours: Option<f64>,
    /// End of its service, in seconds since 1970.
    pub service_end: Option<f64>,
}

/// A row that was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedRow {
    /// The file.
    pub file: String,
    /// Its line, from 1.
    pub line: u64,
    /// Why not.
    pub reason: String,
}

/// Rows of one file or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetRows {
    /// What was read, in order.
    pub rows: Vec<FleetRow>,
    /// What was not.
    pub refused: Vec<RefusedRow>,
    /// What else a reader of the answer should know, such as columns that have no meaning here.
    pub notes: Vec<String>,
}

/// Columns of CSV, and keys of JSON. The first three are needed.
pub const COLUMNS: [&str; 11] = [
    "serial",
    "model",
    "time",
    "host",
    "class",
    "capacity_bytes",
    "host_bytes",
    "media_bytes",
    "used_percent",
    "power_on_hours",
    "service_end",
];

/// Names and values of a row.
pub(crate) type Fields = BTreeMap<String, String>;

impl FleetRows {
    /// Reads `content` of `file`: JSON where it begins with a brace, else CSV.
    ///
    /// # Errors
    /// The reason, if it has another format.
    pub fn read(&mut self, file: &str, content: &[u8]) -> Result<(), String> {
        if content.starts_with(b"PAR1") {
            return Err("it is Parquet, which the Python package reads: write it as CSV".to_owned());
        }
        let text = std::str::from_utf8(content).map_err(|_| "it is no text".to_owned())?;
        let text = text.trim_start_matches('\u{feff}');
        match text.trim_start().starts_with('{') {
            true => json::read(self, file, text),
            false => self.csv(file, text),
        }
    }

    fn csv(&mut self, file: &str, text: &str) -> Result<(), String> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let heads = reader.headers().map_err(|error| error.to_string())?.clone();
        let missing: Vec<&str> = COLUMNS[..3]
            .iter()
            .copied()
            .filter(|name| !heads.iter().any(|head| head == *name))
            .collect();
        if !missing.is_empty() {
            return Err(format!(
                "its first line has no column {}; known columns: {}",
                missing.join(", "),
                COLUMNS.join(", ")
            ));
        }
        let unknown: Vec<&str> = heads.iter().filter(|head| !COLUMNS.contains(head)).collect();
        if !unknown.is_empty() {
            self.notes
                .push(format!("{file}: columns without a meaning here: {}", unknown.join(", ")));
        }
        for (index, record) in reader.records().enumerate() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    self.refuse(file, index as u64 + 2, error.to_string());
                    continue;
                }
            };
            let line = record.position().map_or(0, csv::Position::line);
            if record.len() != heads.len() {
                let reason =
                    format!("it has {} fields, the first line {}", record.len(), heads.len());
                self.refuse(file, line, reason);
                continue;
            }
            let fields = heads.iter().zip(record.iter());
            self.take(
                file,
                line,
                &fields.map(|(head, value)| (head.to_owned(), value.to_owned())).collect(),
            );
        }
        Ok(())
    }

    /// Adds the row of `fields`, or refuses it.
    pub(crate) fn take(&mut self, file: &str, line: u64, fields: &Fields) {
        match row(fields) {
            Ok(row) => self.rows.push(row),
            Err(reason) => self.refuse(file, line, reason),
        }
    }

    pub(crate) fn refuse(&mut self, file: &str, line: u64, reason: String) {
        self.refused.push(RefusedRow { file: file.to_owned(), line, reason });
    }
}

fn row(fields: &Fields) -> Result<FleetRow, String> {
    let text = |name: &str| fields.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let needed = |name: &str| text(name).ok_or_else(|| format!("it has no {name}"));
    let number = |name: &str, most: f64| match text(name).map(|text| (text, text.parse::<f64>())) {
        None => Ok(None),
        Some((_, Ok(value))) if (0.0..=most).contains(&value) => Ok(Some(value)),
        Some((text, _)) => Err(format!("{name} is `{text}`, must be a number from 0 to {most:e}")),
    };
    Ok(FleetRow {
        host: text("host").unwrap_or_default().to_owned(),
        model: needed("model")?.to_owned(),
        serial: needed("serial")?.to_owned(),
        class: text("class").map(str::to_owned),
        time: day::parse(needed("time")?)?,
        capacity_bytes: number("capacity_bytes", 1e18)?.filter(|bytes| *bytes > 0.0),
        host_bytes: number("host_bytes", 1e21)?,
        media_bytes: number("media_bytes", 1e21)?,
        // A byte of the log page; 255 stands for more.
        used_percent: number("used_percent", 255.0)?,
        power_on_hours: number("power_on_hours", 1e6)?,
        service_end: text("service_end").map(day::parse).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_or_refused_with_line_and_reason() {
        let mut rows = FleetRows::default();
        let text = "model,serial,time,used_percent,rack\n\
                    M,S1,2026-01-01,7,r1\nM,,2026-01-01,7,r1\nM,S2,noon,7,r1\nM,S3,0,-7,r1\nM,S4\nM,S5,9,,r1\n";
        rows.read("a.csv", text.as_bytes()).unwrap();
        let read: Vec<&str> = rows.rows.iter().map(|row| row.serial.as_str()).collect();
        assert_eq!(read, ["S1", "S5"]);
        assert_eq!((rows.rows[0].used_percent, rows.rows[1].used_percent), (Some(7.0), None));
        let lines: Vec<u64> = rows.refused.iter().map(|one| one.line).collect();
        assert_eq!(lines, [3, 4, 5, 6]);
        for (one, part) in rows.refused.iter().zip(["no serial", "`noon`", "`-7`", "2 fields"]) {
            assert!(one.reason.contains(part), "{one:?}");
        }
        assert_eq!(rows.notes, ["a.csv: columns without a meaning here: rack"]);
    }

    #[test]
    fn files_of_other_formats_are_errors() {
        let mut rows = FleetRows::default();
        for (content, part) in [
            (&b"PAR1...."[..], "Python"),
            (b"host,bytes\n", "no column serial, model, time"),
            (b"\xff\xfe", "no text"),
        ] {
            let error = rows.read("f", content).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
