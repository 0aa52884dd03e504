//! Charts of bars: rows of parts, histograms, pairs.

use super::{Area, Axis, Canvas, HEIGHT, ROOM, WIDTH, fill};
use crate::palette::style;
use crate::text::{escape, significant, words};

/// A part of a row.
pub(crate) struct Part {
    /// Name of the cause, which decides the colour.
    pub cause: String,
    /// From where to where.
    pub range: (f64, f64),
}

/// A row of a chart of horizontal bars.
pub(crate) struct Row {
    /// Its name. Not escaped.
    pub name: String,
    /// Its parts.
    pub parts: Vec<Part>,
    /// The figure at its end.
    pub figure: String,
}

/// Height of a row with its name above it.
const ROW: f64 = 42.0;

/// Horizontal bars of parts from 0 on, each with its name above it: the name may be as long as the chart is wide.
pub(crate) fn rows(title: &str, unit: &str, rows: &[Row]) -> String {
    let ends = rows.iter().flat_map(|row| &row.parts).map(|part| part.range.1);
    let axis = Axis::linear(unit, ends);
    let (left, width) = (4.0, WIDTH - 84.0);
    let at = |value: f64| left + axis.at(value).unwrap_or(0.0) * width;
    let bottom = ROW * rows.len() as f64 + 6.0;
    let mut canvas = Canvas::default();
    canvas.grid_to(bottom, &axis, "start", at);
    for (index, row) in rows.iter().enumerate() {
        let y = ROW * index as f64 + 4.0;
        canvas.text(left, y + 14.0, "start ink", &row.name);
        for part in &row.parts {
            let (from, to) = (at(part.range.0), at(part.range.1));
            let (colour, hatch) = fill(&part.cause);
            let area = [from, y + 20.0, (to - from).max(1.0), 16.0];
            let tip = format!(
                "{}: {}",
                part.cause.replace('_', " "),
                significant(part.range.1 - part.range.0)
            );
            canvas.rect(area, &format!("fill=\"{colour}\" class=\"part\""), &tip);
            if hatch != "none" {
                canvas.rect(area, &format!("fill=\"url(#hatch-{hatch})\""), &tip);
            }
        }
        let end = row.parts.iter().map(|part| at(part.range.1)).fold(left, f64::max);
        canvas.text(end + 6.0, y + 33.0, "start strong", &row.figure);
    }
    canvas.text(left + width / 2.0, bottom + 38.0, "mid name", unit);
    canvas.done(title, bottom + 46.0)
}

/// The legend of the causes that occur in `rows`, in their order.
pub(crate) fn causes(rows: &[Row]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for part in rows.iter().flat_map(|row| &row.parts) {
        if !seen.contains(&part.cause.as_str()) {
            seen.push(&part.cause);
        }
    }
    let key = |cause: &&str| {
        let (colour, hatch) = fill(cause);
        let over = match hatch {
            "none" => String::new(),
            hatch => format!("<rect width=\"22\" height=\"12\" fill=\"url(#hatch-{hatch})\"/>"),
        };
        format!(
            "<li><svg class=\"swatch\" width=\"22\" height=\"12\" aria-hidden=\"true\"><rect width=\"22\" height=\"12\" \
             fill=\"{colour}\"/>{over}</svg>{}</li>",
            words(cause)
        )
    };
    format!("<ul class=\"keys\">{}</ul>", seen.iter().map(key).collect::<String>())
}

/// Bars of bins that touch.
pub(crate) struct Histogram<'a> {
    /// Title, read out in place of the picture.
    pub title: &'a str,
    /// Names of the axes.
    pub names: [&'a str; 2],
    /// Label and height of each bin.
    pub bins: Vec<(String, f64)>,
    /// Colour of the bars.
    pub colour: &'a str,
    /// How many bins at the start are set apart, in grey.
    pub apart: usize,
}

/// A histogram. Of many bins only some have their label written.
pub(crate) fn histogram(of: &Histogram<'_>) -> String {
    let count = of.bins.len().max(1) as f64;
    let y = Axis::linear(of.names[1], of.bins.iter().map(|(_, height)| *height));
    let x = Axis { name: of.names[0].to_owned(), ..Axis::linear("", std::iter::empty()) };
    let area = Area { x: x.within((0.0, count)).shown(|_| String::new()), y };
    let mut canvas = Canvas::default();
    area.frame(&mut canvas);
    let width = Area::width() / count;
    let every = of.bins.len().div_ceil(7).max(1);
    let bottom = ROOM[3] + Area::height();
    for (index, (label, height)) in of.bins.iter().enumerate() {
        let left = ROOM[0] + index as f64 * width;
        let top = area.up(*height).unwrap_or(bottom);
        let gap = if width > 6.0 { 1.0 } else { 0.0 };
        let colour = if index < of.apart { "#8A8A8A" } else { of.colour };
        let place = [left + gap, top, width - 2.0 * gap, bottom - top];
        canvas.rect(
            place,
            &format!("fill=\"{colour}\""),
            &format!("{label}: {}", significant(*height)),
        );
        if index % every == 0 {
            canvas.text(left + width / 2.0, bottom + 19.0, "mid", label);
        }
    }
    canvas.done(of.title, HEIGHT)
}

/// Bars of several series: for each group a bar of each series.
pub(crate) struct Pairs<'a> {
    /// Title, read out in place of the picture.
    pub title: &'a str,
    /// Quantity and unit.
    pub unit: &'a str,
    /// Names of the series.
    pub series: &'a [String],
    /// Name of each group, and its figure in each series.
    pub groups: &'a [(String, Vec<Option<f64>>)],
}

/// Horizontal bars, which leave room for long names.
pub(crate) fn pairs(of: &Pairs<'_>) -> String {
    let values = of.groups.iter().flat_map(|(_, values)| values).flatten().copied();
    let axis = Axis::linear(of.unit, values);
    let (left, width, bar) = (4.0, WIDTH - 84.0, 13.0);
    let at = |value: f64| left + axis.at(value).unwrap_or(0.0) * width;
    let height = 24.0 + bar * of.series.len() as f64 + 6.0;
    let bottom = height * of.groups.len() as f64 + 4.0;
    let mut canvas = Canvas::default();
    canvas.grid_to(bottom, &axis, "mid", at);
    for (index, (name, values)) in of.groups.iter().enumerate() {
        let y = height * index as f64 + 4.0;
        canvas.text(left, y + 14.0, "start ink", name);
        for (series, value) in values.iter().enumerate() {
            let top = y + 20.0 + bar * series as f64;
            let Some(value) = value else {
                canvas.text(left, top + 11.0, "start", "not known");
                continue;
            };
            let name = of.series.get(series).map_or("", String::as_str);
            let (from, to) = (at(value.min(0.0)), at(value.max(0.0)));
            let more = format!("fill=\"{}\"", style(series).colour);
            canvas.rect([from, top, (to - from).max(1.0), bar - 2.0], &more, name);
            canvas.text(to + 6.0, top + 10.0, "start", &significant(*value));
        }
    }
    canvas.text(left + width / 2.0, bottom + 38.0, "mid name", of.unit);
    let key = |(index, name): (usize, &String)| {
        let colour = style(index).colour;
        format!("<li><i class=\"cell\" style=\"background:{colour}\"></i> {}</li>", escape(name))
    };
    let keys: String = of.series.iter().enumerate().map(key).collect();
    format!("<ul class=\"keys\">{keys}</ul>{}", canvas.done(of.title, bottom + 46.0))
}
