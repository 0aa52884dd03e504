//! Published experiments, repeated: our figures beside theirs.

mod applications;
mod autostream;
mod catalog;
mod csal;
mod data;
mod job;
pub mod kept;
mod lsm_zgc;
mod micron_hse;
mod micron_size;
mod micron_zones;
pub mod point;
mod refresh;
mod snia;
mod uniform;
pub mod warp;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use point::Reference;

pub use catalog::{EXPERIMENTS, Experiment, FiguresDrawn, Takes};

/// Settings of a repetition.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of all randomness.
    pub seed: u64,
    /// Folder with traces to replay in place of those that come with the program.
    pub traces: Option<PathBuf>,
    /// Runs the small form of each experiment: smaller sizes, or fewer rows.
    pub quick: bool,
    /// Runs only the points of the table of truth; other figures may be left out.
    pub points: bool,
}

impl Options {
    /// Where the trace called `name` is to be opened.
    #[must_use]
    fn trace(&self, name: &str) -> PathBuf {
        match &self.traces {
            Some(folder) => folder.join(format!("{name}.csv.gz")),
            None => name.into(),
        }
    }
}

/// One figure: theirs and ours.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Figure {
    /// What it is.
    pub what: String,
    /// Published value, if any.
    pub theirs: Option<f64>,
    /// Value measured here.
    pub ours: f64,
    /// Source of the published value, if the figure is a row of the table of truth. Figures without a source show how a
    /// published value varies.
    #[serde(skip)]
    pub reference: Option<Reference>,
}

impl Figure {
    /// A point: ours, held against `theirs`.
    #[must_use]
    pub fn new(what: impl Into<String>, theirs: f64, ours: f64, reference: Reference) -> Figure {
        Figure { reference: Some(reference), ..Figure::beside(what, Some(theirs), ours) }
    }

    /// A figure without a published counterpart.
    #[must_use]
    pub fn ours(what: impl Into<String>, ours: f64) -> Figure {
        Figure::beside(what, None, ours)
    }

    /// A figure shown beside a published value, but not a test of the value.
    #[must_use]
    pub fn beside(what: impl Into<String>, theirs: Option<f64>, ours: f64) -> Figure {
        Figure { what: what.into(), theirs, ours, reference: None }
    }

    /// Relative difference of ours from theirs.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        self.theirs.map(|theirs| self.ours / theirs - 1.0)
    }
}

/// Tells `progress` the share done of step `index` out of `count` equal ones.
fn part(progress: &mut dyn FnMut(f64), index: usize, count: usize) -> impl FnMut(f64) {
    move |share| progress((index as f64 + share) / count as f64)
}
