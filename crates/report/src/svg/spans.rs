//! Spans of time: a band from P10 to P90 with its median, and marks beside it.

use super::{Axis, Canvas, WIDTH};
use crate::palette::style;

/// One span.
pub(crate) struct Span<'a> {
    /// Its name. Not escaped.
    pub name: &'a str,
    /// Its colour.
    pub style: usize,
    /// P10, median and P90.
    pub years: [f64; 3],
    /// Where the diamond is.
    pub warranty: Option<f64>,
    /// Where the triangle is.
    pub rated: Option<f64>,
    /// The span in words.
    pub words: String,
}

/// Height of a row with its name above it.
const ROW: f64 = 58.0;

/// The spans on one axis, which is logarithmic where they differ much.
pub(crate) fn spans(title: &str, rows: &[Span<'_>]) -> String {
    let all =
        || rows.iter().flat_map(|row| row.years.into_iter().chain(row.warranty).chain(row.rated));
    let positive = || all().filter(|years| years.is_finite() && *years > 0.0);
    let (low, high) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    let axis = match high > 20.0 * low {
        true => Axis::logarithmic("years (logarithmic)", all()),
        false => Axis::linear("years", all()),
    };
    let (left, width) = (14.0, WIDTH - 32.0);
    let at = |years: f64| left + axis.at(years).unwrap_or(0.0) * width;
    let bottom = ROW * rows.len() as f64 + 4.0;
    let mut canvas = Canvas::default();
    canvas.grid_to(bottom, &axis, "mid", at);
    for (index, row) in rows.iter().enumerate() {
        let (y, colour) = (ROW * index as f64 + 4.0, style(row.style).colour);
        let [from, median, to] = row.years.map(at);
        canvas.text(left, y + 15.0, "start ink", &format!("{}: {}", row.name, row.words));
        let band = [from, y + 26.0, (to - from).max(2.0), 18.0];
        canvas.rect(
            band,
            &format!("fill=\"{colour}\" class=\"band\" stroke=\"{colour}\""),
            &row.words,
        );
        canvas.rect([median - 2.0, y + 22.0, 4.0, 26.0], &format!("fill=\"{colour}\""), "median");
        if let Some(x) = row.warranty.map(at) {
            canvas.path(&format!("M{x:.1},{:.1}l7,8l-7,8l-7,-8z", y + 27.0), "class=\"sign\"");
        }
        if let Some(x) = row.rated.map(at) {
            canvas.path(&format!("M{x:.1},{:.1}l7,13h-14z", y + 38.0), "class=\"sign\"");
        }
    }
    canvas.text(left + width / 2.0, bottom + 38.0, "mid name", &axis.name);
    canvas.done(title, bottom + 46.0)
}
