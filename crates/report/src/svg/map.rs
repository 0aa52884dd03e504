//! Maps of cells: the units of a drive, and grids of shades. Cells of one colour are one path: thousands of cells stay
//! small.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thermocline_record::RunRecord;

use super::{Area, Axis, Canvas, HEIGHT, ROOM, WIDTH};
use crate::palette::{Ramp, VALID, WEAR, at};

/// Paths by their attributes, in a fixed order.
#[derive(Default)]
struct Looks(BTreeMap<String, String>);

impl Looks {
    fn add(&mut self, look: impl Into<String>, [x, y, width, height]: [f64; 4]) {
        let path = self.0.entry(look.into()).or_default();
        let _ = write!(path, "M{x:.1},{y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
    }

    fn draw(self, canvas: &mut Canvas) {
        self.0.iter().for_each(|(look, path)| canvas.path(path, look));
    }
}

/// Cells of equal size in rows that fill the width.
struct Layout {
    columns: usize,
    size: f64,
    gap: f64,
}

impl Layout {
    fn of(count: usize) -> Layout {
        let columns = ((count as f64 * 1.7).sqrt().ceil() as usize).clamp(1, count.max(1)).max(16);
        let size = WIDTH / columns as f64;
        Layout {
            columns,
            size,
            gap: if size > 12.0 {
                2.0
            } else if size > 5.0 {
                1.0
            } else {
                0.4
            },
        }
    }

    fn cell(&self, index: usize) -> [f64; 4] {
        let (x, y) = ((index % self.columns) as f64, (index / self.columns) as f64);
        let side = self.size - self.gap;
        [x * self.size + 1.0, y * self.size + 1.0, side - 1.0, side - 1.0]
    }

    fn height(&self, count: usize) -> f64 {
        (count.div_ceil(self.columns) as f64).mul_add(self.size, 2.0)
    }
}

/// The two strokes of a retired unit.
fn cross(strokes: &mut String, [x, y, width, height]: [f64; 4]) {
    let _ = write!(
        strokes,
        "M{x:.1},{y:.1}l{width:.1},{height:.1}m0,-{height:.1}l-{width:.1},{height:.1}"
    );
}

/// Each unit: the height is the written share, the shade is the valid share, the border is the state.
pub(crate) fn units(title: &str, record: &RunRecord) -> String {
    let units = &record.units;
    let layout = Layout::of(units.fill.len());
    let (mut filled, mut borders, mut crosses) =
        (Looks::default(), Looks::default(), String::new());
    for (index, state) in units.state.chars().enumerate().take(units.fill.len()) {
        let cell @ [x, y, width, height] = layout.cell(index);
        let written = f64::from(units.fill[index]).clamp(0.0, 1.0);
        let valid = units.valid.get(index).copied().map_or(0.0, f64::from);
        if written > 0.0 && state != 'r' {
            let part = [x, y + height * (1.0 - written), width, height * written];
            filled.add(format!("fill=\"{}\"", at(&VALID, valid / written)), part);
        }
        match state {
            'c' => {}
            'o' => borders.add("class=\"unit open\"", cell),
            'm' => borders.add("class=\"unit open mixed\"", cell),
            _ => borders.add("class=\"unit\"", cell),
        }
        if state == 'r' {
            cross(&mut crosses, cell);
        }
    }
    let mut canvas = Canvas::default();
    filled.draw(&mut canvas);
    borders.draw(&mut canvas);
    canvas.path(&crosses, "class=\"unit open\"");
    canvas.done(title, layout.height(units.fill.len()))
}

/// Erase counts in the layout of [`units`].
pub(crate) fn wear(title: &str, record: &RunRecord) -> String {
    let counts = &record.wear.erase_counts;
    let most = counts.iter().copied().filter(|count| count.is_finite()).fold(0.0, f32::max);
    let layout = Layout::of(counts.len());
    let (mut cells, mut crosses) = (Looks::default(), String::new());
    for (index, count) in counts.iter().enumerate() {
        let share = if most > 0.0 { f64::from(count / most) } else { 0.0 };
        cells.add(format!("fill=\"{}\"", at(&WEAR, share)), layout.cell(index));
        if record.units.state.as_bytes().get(index) == Some(&b'r') {
            cross(&mut crosses, layout.cell(index));
        }
    }
    let mut canvas = Canvas::default();
    cells.draw(&mut canvas);
    canvas.path(&crosses, "class=\"unit open\"");
    canvas.done(title, layout.height(counts.len()))
}

/// Shades over two axes: rows from the bottom, each of as many cells. A cell of 0 is left out.
pub(crate) fn grid(title: &str, x: Axis, y: Axis, rows: &[Vec<f64>], ramp: &Ramp) -> String {
    let area = Area { x, y };
    let mut canvas = Canvas::default();
    area.frame(&mut canvas);
    let most = rows.iter().flatten().copied().fold(0.0, f64::max);
    let height = Area::height() / rows.len().max(1) as f64;
    let mut cells = Looks::default();
    for (row, values) in rows.iter().enumerate() {
        let width = Area::width() / values.len().max(1) as f64;
        for (column, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let left = ROOM[0] + column as f64 * width;
            let top = HEIGHT - ROOM[1] - (row + 1) as f64 * height;
            // Of counts that differ by orders of magnitude, a logarithm keeps the small ones visible.
            let share = value.ln_1p() / most.ln_1p();
            cells.add(format!("fill=\"{}\"", at(ramp, share)), [left, top, width, height]);
        }
    }
    cells.draw(&mut canvas);
    canvas.done(title, HEIGHT)
}
