//! Reads a log of counters: what `nvme fdp stats` prints, as text or JSON, again and again; the lines of
//! `thermocline drive watch --json`; or comma-separated values.
//!
//! Lines that hold no counter are passed over, such as times. Where counters fall, the drive was formatted or replaced:
//! the curve begins there anew.

use std::path::Path;

use super::Curve;
use super::cells::{bad, number, rows_of, text};
use crate::Error;

/// Host, media and erased bytes as `nvme fdp stats` names them.
const TEXT: [&str; 3] = ["(HBMW)", "(MBMW)", "(MBE)"];
/// The same with `--output-format=json`.
const JSON: [&str; 3] = ["\"hbmw\"", "\"mbmw\"", "\"mbe\""];
/// The same in the lines of `thermocline drive watch --json`.
const WATCHED: [&str; 3] = ["\"host_bytes\"", "\"media_bytes\"", "\"erased_bytes\""];
/// Names of columns.
const COLUMNS: [&[&str]; 3] = [
    &["host_bytes", "hbmw", "host_bytes_written"],
    &["media_bytes", "mbmw", "media_bytes_written", "nand_bytes"],
    &["erased_bytes", "mbe", "media_bytes_erased"],
];

/// A reading of the counters: host and media bytes, erased bytes if known.
#[derive(Clone, Copy, Debug, Default)]
struct Sample([Option<f64>; 3]);

/// Reads the log in `file`.
///
/// # Errors
/// [`Error::Read`] when it cannot be read, and [`Error::Settings`] when it has no form that is known, or shows no two
/// counts with host writes between them.
pub fn read(file: &Path) -> Result<Curve, Error> {
    let text = text(file)?;
    let samples = match [TEXT, JSON, WATCHED].into_iter().find(|names| text.contains(names[0])) {
        Some(names) => printed(&text, names),
        None => table(file, &text)?,
    };
    let complete = samples.iter().filter_map(|Sample([host, media, erased])| {
        Some(([(*host)?, (*media)?], erased.unwrap_or(f64::NAN)))
    });
    let (mut points, mut erased): (Vec<[f64; 2]>, Vec<f64>) = (Vec::new(), Vec::new());
    for (point, erases) in complete {
        if points.last().is_some_and(|last| point[0] < last[0] || point[1] < last[1]) {
            points.clear();
            erased.clear();
        }
        points.push(point);
        erased.push(erases);
    }
    if erased.iter().any(|erases| erases.is_nan()) {
        erased.clear();
    }
    let found = points.len();
    Curve::new(points, erased).ok_or_else(|| {
        let what = "counts of host and media bytes since they last fell, without host writes between two of them";
        bad(file, &format!("has {found} {what}"))
    })
}

/// The counters called `names` in what a program printed.
fn printed(text: &str, names: [&str; 3]) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (index, name) in names.iter().enumerate() {
        found.extend(text.match_indices(name).map(|(at, _)| (at + name.len(), index)));
    }
    found.sort_unstable();
    let mut sample = Sample::default();
    for (at, index) in found {
        if sample.0[index].is_some() {
            samples.push(std::mem::take(&mut sample));
        }
        sample.0[index] = count(&text[at..]);
    }
    samples.push(sample);
    samples
}

/// The number after a counter's name, on the same line. Thousands may be set apart.
fn count(text: &str) -> Option<f64> {
    let line = text.lines().next().unwrap_or_default();
    let digits = line.trim_start_matches([' ', '\t', ':', '=', '"']);
    let mut number = String::new();
    let mut letters = digits.chars().peekable();
    while let Some(letter) = letters.next() {
        let apart = matches!(letter, ',' | '.' | '\'' | '\u{a0}' | '\u{202f}');
        match letter {
            '0'..='9' => number.push(letter),
            _ if apart && letters.peek().is_some_and(char::is_ascii_digit) => {}
            _ => break,
        }
    }
    number.parse().ok()
}

/// The counters in comma-separated values.
fn table(file: &Path, text: &str) -> Result<Vec<Sample>, Error> {
    let rows = rows_of(file, text.trim_start_matches('\u{feff}'))?;
    let Some(first) = rows.first() else {
        return Err(bad(file, "is neither output of `nvme fdp stats` nor a table with rows"));
    };
    let column = |names: &[&'static str]| names.iter().copied().find(|n| first.contains_key(*n));
    let [Some(host), Some(media)] = [column(COLUMNS[0]), column(COLUMNS[1])] else {
        let has = first.keys().cloned().collect::<Vec<_>>().join(", ");
        let what = format!(
            "is neither output of `nvme fdp stats` nor a table with the columns host_bytes and media_bytes; it has {has}"
        );
        return Err(bad(file, &what));
    };
    let erased = column(COLUMNS[2]);
    let sample = |row| {
        let erased = erased.and_then(|column| number(file, row, column).ok());
        Ok(Sample([Some(number(file, row, host)?), Some(number(file, row, media)?), erased]))
    };
    rows.iter().map(sample).collect()
}
