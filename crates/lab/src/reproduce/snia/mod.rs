//! The SNIA tutorial of 2009 (Thatcher, Fusion-io), chart by chart.

mod bandwidth;
mod collisions;
mod controllers;
mod pathological;

use super::job::{PatternJob, mb_per_s};
use super::{FiguresDrawn, Options};
use crate::Error;

pub use bandwidth::bandwidth;
pub use collisions::collisions;
pub use controllers::controllers;
pub use pathological::pathological;

/// Repeats an experiment and draws it, telling the share done.
pub type Draw = fn(&Options, &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error>;

/// The experiments of this tutorial, each with its charts.
const DRAWN: [(&str, Draw); 4] = [
    ("snia-bandwidth", bandwidth),
    ("snia-controllers", controllers),
    ("snia-pathological", pathological),
    ("snia-collisions", collisions),
];

/// What repeats the experiment called `name` with its charts, if it is one of the tutorial's.
pub fn drawn(name: &str) -> Option<Draw> {
    DRAWN.iter().find(|(known, _)| *known == name).map(|(_, draw)| *draw)
}

/// A mix as the tutorial writes it: reads/writes in per cent.
fn mix(read: f64) -> String {
    format!("{:.0}/{:.0}", read * 100.0, (1.0 - read) * 100.0)
}
