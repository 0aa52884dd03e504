//! Charts of lines.

use std::fmt::Write as _;

use super::{Area, Axis, Canvas, HEIGHT, ROOM, legend};
use crate::palette::style;
use crate::text::significant;

/// Marks on a line, about. Chosen: enough to tell lines apart where they cross.
const MARKS: usize = 8;

/// A line of a chart.
pub(crate) struct Line<'a> {
    /// Its name in the legend. Not escaped.
    pub name: &'a str,
    /// Its colour, dash and mark.
    pub style: usize,
    /// Its points in the order of x. A point without a value interrupts the line.
    pub points: Vec<[f64; 2]>,
    /// Marks alone, hollow: figures of others.
    pub reference: bool,
}

/// The part of a run that a mean is of.
pub(crate) struct Window {
    /// The style of the line in the window.
    pub style: usize,
    /// From where to where.
    pub range: [f64; 2],
    /// The mean.
    pub value: f64,
}

/// An area between two lines.
pub(crate) struct Band {
    /// Its colour.
    pub style: usize,
    /// Place across, lower end and upper end, in order.
    pub points: Vec<[f64; 3]>,
}

/// A chart of lines.
pub(crate) struct Lines<'a> {
    /// Title, read out in place of the picture.
    pub title: &'a str,
    /// The axis across.
    pub x: Axis,
    /// The axis up.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line<'a>>,
    /// Means over parts of lines.
    pub windows: Vec<Window>,
    /// Areas behind the lines.
    pub bands: Vec<Band>,
}

impl Lines<'_> {
    /// Legend and drawing.
    pub fn draw(self) -> String {
        let names = self.lines.iter().map(|line| (line.style, line.name));
        let keys = if self.lines.len() > 1 { legend(names) } else { String::new() };
        keys + &self.bare()
    }

    /// The drawing alone.
    pub fn bare(self) -> String {
        let Lines { title, x, y, lines, windows, bands } = self;
        let (area, mut canvas) = (Area { x, y }, Canvas::default());
        area.frame(&mut canvas);
        for Window { style: index, range, value } in windows {
            let ends = range.map(|x| area.across(x));
            if let ([Some(from), Some(to)], Some(y)) = (ends, area.up(value)) {
                let colour = style(index).colour;
                canvas.path(
                    &format!("M{from:.1},{y:.1}H{to:.1}"),
                    &format!("class=\"mean\" stroke=\"{colour}\""),
                );
                let label = format!("steady {}", significant(value));
                canvas.text(to - 4.0, (y - 8.0).max(ROOM[3] + 12.0), "end strong", &label);
            }
        }
        bands.iter().for_each(|band| area.band(&mut canvas, band));
        for line in &lines {
            area.line(&mut canvas, line);
        }
        canvas.done(title, HEIGHT)
    }
}

impl Area {
    fn band(&self, canvas: &mut Canvas, band: &Band) {
        let at = |x: f64, y: f64| Some((self.across(x)?, self.up(y)?));
        let upper = band.points.iter().map(|[x, _, high]| at(*x, *high));
        let lower = band.points.iter().rev().map(|[x, low, _]| at(*x, *low));
        let mut path = String::new();
        for (x, y) in upper.chain(lower).flatten() {
            let _ = write!(path, "{}{x:.1},{y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        let colour = style(band.style).colour;
        canvas.path(&path, &format!("class=\"band\" fill=\"{colour}\""));
    }

    fn line(&self, canvas: &mut Canvas, line: &Line<'_>) {
        let look = style(line.style);
        let at = |point: &[f64; 2]| Some((self.across(point[0])?, self.up(point[1])?));
        let (mut path, mut is_down) = (String::new(), false);
        for point in &line.points {
            let Some((x, y)) = at(point) else {
                is_down = false;
                continue;
            };
            let _ = write!(path, "{}{x:.1},{y:.1}", if is_down { "L" } else { "M" });
            is_down = true;
        }
        let dash: Vec<String> = look.dash.iter().map(u32::to_string).collect();
        if !line.reference {
            let more = format!(
                "class=\"line\" stroke=\"{}\" stroke-dasharray=\"{}\"",
                look.colour,
                dash.join(" ")
            );
            canvas.path(&path, &more);
        }
        let count = line.points.len();
        let step = if line.reference || count <= MARKS { 1 } else { count.div_ceil(MARKS) };
        let first = step * (line.style % 4) / 4;
        for point in line.points.iter().skip(first).step_by(step) {
            let Some((x, y)) = at(point) else { continue };
            let class = if line.reference { "hollow" } else { "mark" };
            let (colour, mark) = (look.colour, look.mark);
            let tip =
                format!("{}: {} at {}", line.name, significant(point[1]), significant(point[0]));
            let _ = write!(
                canvas.0,
                "<path transform=\"translate({x:.1} {y:.1})\" d=\"{mark}\" class=\"{class}\" fill=\"{colour}\" \
                 stroke=\"{colour}\"><title>{}</title></path>",
                crate::text::escape(&tip)
            );
        }
    }
}
