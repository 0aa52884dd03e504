//! Charts as SVG: drawn when the page is written, so that they need no script and print.
//!
//! Invariants:
//! * Equal data give equal bytes.
//! * Text and lines that are not data take their colours from the page's style, light or dark.
//! * A line differs from the others by its dash and its mark too, a part of a bar by its hatch.

mod axis;
mod bars;
mod lines;
mod map;
mod spans;

use std::fmt::Write as _;

pub(crate) use axis::Axis;
pub(crate) use bars::{Histogram, Pairs, Part, Row, causes, histogram, pairs, rows};
pub(crate) use lines::{Band, Line, Lines, Window};
pub(crate) use map::{grid, units, wear};
pub(crate) use spans::{Span, spans};

use crate::palette::{CAUSES, swatch};
use crate::text::escape;

/// Width of every chart in units of the chart: the page scales a chart to the width of its column.
const WIDTH: f64 = 560.0;
/// Height of a chart with axes.
const HEIGHT: f64 = 300.0;
/// Room for labels left of, below, right of and above the area of a chart.
const ROOM: [f64; 4] = [80.0, 50.0, 18.0, 14.0];

/// A drawing in progress.
#[derive(Default)]
struct Canvas(String);

impl Canvas {
    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escape(text);
        let _ = write!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>");
    }

    /// A path with more attributes.
    fn path(&mut self, path: &str, more: &str) {
        if !path.is_empty() {
            let _ = write!(self.0, "<path d=\"{path}\" {more}/>");
        }
    }

    /// Vertical lines down to `bottom` at the ticks of `axis`, and their values below. `at_zero` anchors the value 0.
    fn grid_to(&mut self, bottom: f64, axis: &Axis, at_zero: &str, at: impl Fn(f64) -> f64) {
        let mut grid = String::new();
        for value in axis.ticks() {
            let _ = write!(grid, "M{:.1},4V{bottom}", at(value));
            let anchor = if value == 0.0 { at_zero } else { "mid" };
            self.text(at(value), bottom + 18.0, anchor, &(axis.show)(value));
        }
        self.path(&grid, "class=\"grid\"");
    }

    /// A box with a tooltip.
    fn rect(&mut self, [x, y, width, height]: [f64; 4], more: &str, tip: &str) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        let _ = write!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {more}><title>{}</title></rect>",
            escape(tip)
        );
    }

    /// The drawing as an element of the page; `title` is read out in its place.
    fn done(self, title: &str, height: f64) -> String {
        format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            escape(title),
            self.0
        )
    }
}

/// The area of a chart between its axes.
struct Area {
    x: Axis,
    y: Axis,
}

impl Area {
    const fn width() -> f64 {
        WIDTH - ROOM[0] - ROOM[2]
    }

    const fn height() -> f64 {
        HEIGHT - ROOM[1] - ROOM[3]
    }

    fn across(&self, value: f64) -> Option<f64> {
        Some(ROOM[0] + self.x.at(value)? * Self::width())
    }

    fn up(&self, value: f64) -> Option<f64> {
        Some(ROOM[3] + (1.0 - self.y.at(value)?) * Self::height())
    }

    /// Grid, labels and names of the axes.
    fn frame(&self, canvas: &mut Canvas) {
        let [left, right] = [ROOM[0], ROOM[0] + Self::width()];
        let [top, bottom] = [ROOM[3], ROOM[3] + Self::height()];
        let mut lines = String::new();
        for value in self.y.ticks() {
            let Some(y) = self.up(value) else { continue };
            let _ = write!(lines, "M{left},{y:.1}H{right}");
            canvas.text(left - 7.0, y + 4.0, "end", &self.y.label(value));
        }
        for value in self.x.ticks() {
            let Some(x) = self.across(value) else { continue };
            let _ = write!(lines, "M{x:.1},{bottom}v5");
            canvas.text(x, bottom + 19.0, "mid", &self.x.label(value));
        }
        canvas.path(&lines, "class=\"grid\"");
        canvas.path(&format!("M{left},{top}V{bottom}H{right}"), "class=\"axis\"");
        canvas.text((left + right) / 2.0, HEIGHT - 10.0, "mid name", &self.x.name);
        let (x, y) = (14.0, (top + bottom) / 2.0);
        let _ = write!(
            canvas.0,
            "<text transform=\"translate({x} {y}) rotate(-90)\" class=\"mid name\">{}</text>",
            escape(&self.y.name)
        );
    }
}

/// The legend of lines: swatch and name each.
pub(crate) fn legend<'a>(names: impl Iterator<Item = (usize, &'a str)>) -> String {
    let key = |(index, name): (usize, &str)| format!("<li>{}{}</li>", swatch(index), escape(name));
    format!("<ul class=\"keys\">{}</ul>", names.map(key).collect::<String>())
}

/// Patterns over the fills of causes, by name. The page holds them once.
pub(crate) fn hatches() -> String {
    let lines = |name: &str, angle: u32| {
        format!(
            "<pattern id=\"hatch-{name}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate({angle})\"><path d=\"M0,0H6\" class=\"hatch\"/></pattern>"
        )
    };
    let dots = "<pattern id=\"hatch-dots\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
        <circle cx=\"3\" cy=\"3\" r=\"1.4\" class=\"dot\"/></pattern>";
    let lines = [("level", 0), ("rising", 135), ("falling", 45), ("upright", 90)]
        .map(|(name, angle)| lines(name, angle));
    format!(
        "<svg width=\"0\" height=\"0\" class=\"defs\" aria-hidden=\"true\"><defs>{}{dots}</defs></svg>",
        lines.concat()
    )
}

/// Colour and hatch of a cause; grey for a cause without a style.
fn fill(cause: &str) -> (&'static str, &'static str) {
    let style = CAUSES.iter().find(|style| style.key == cause);
    style.map_or(("#8A8A8A", "level"), |style| (style.colour, style.hatch))
}
