//! Charts as data: what a page draws of theory and of experiments, theirs and ours in one picture.

use serde::{Deserialize, Serialize};

/// A chart of lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Title of the plot.
    pub title: String,
    /// How to read it, and where the published part is from.
    pub caption: String,
    /// The axis across.
    pub x: PlotAxis,
    /// The axis up.
    pub y: PlotAxis,
    /// The lines, in order.
    pub lines: Vec<PlotLine>,
}

/// An axis of a [`Plot`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlotAxis {
    /// Quantity and unit.
    pub name: String,
    /// Whether equal steps are equal factors; all values must be above 0, then.
    pub logarithmic: bool,
}

impl PlotAxis {
    /// Equal steps are equal differences.
    #[must_use]
    pub fn linear(name: &str) -> PlotAxis {
        PlotAxis { name: name.to_owned(), logarithmic: false }
    }

    /// Equal steps are equal factors.
    #[must_use]
    pub fn logarithmic(name: &str) -> PlotAxis {
        PlotAxis { name: name.to_owned(), logarithmic: true }
    }
}

/// A line of a [`Plot`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlotLine {
    /// Name in the legend.
    pub name: String,
    /// Whether the line is a reference (published figures or a closed form) and not measured here. A reference is drawn
    /// as marks only.
    pub reference: bool,
    /// Points in the order of x.
    pub points: Vec<[f64; 2]>,
}

impl PlotLine {
    /// A line of figures measured here.
    #[must_use]
    pub fn ours(name: &str, points: Vec<[f64; 2]>) -> PlotLine {
        PlotLine { name: name.to_owned(), reference: false, points }
    }

    /// A reference line of marks: published figures or a closed form.
    #[must_use]
    pub fn reference(name: &str, points: Vec<[f64; 2]>) -> PlotLine {
        PlotLine { name: name.to_owned(), reference: true, points }
    }
}
