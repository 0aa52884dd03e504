//! Published values as typed points, and the table of truth that is made of them.

mod table;

use serde::{Deserialize, Serialize};

use super::Figure;
use super::catalog::{Text, text};

pub use table::{Errors, Row, RowError, read, summary, table, to_csv};

/// What kind of thing published a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A formula.
    ClosedForm,
    /// Somebody else's simulator.
    Simulator,
    /// A real device or system.
    Device,
}

/// A document that published values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Document {
    /// Authors, short title, year.
    #[serde(deserialize_with = "text")]
    pub name: Text,
    /// What published it.
    pub evidence: Evidence,
}

/// Desnoyers' analysis of greedy and FIFO cleaning, with its predecessors.
pub const DESNOYERS: Document =
    Document { name: "Desnoyers, SYSTOR 2012 (closed form)", evidence: Evidence::ClosedForm };
/// The same author's program, as run by us.
pub const FTLSIM: Document =
    Document { name: "ftlsim, Desnoyers 2012, run by us", evidence: Evidence::Simulator };
/// A closed form of read-modify-write for the mix of JESD219.
pub const RAGHAV: Document = Document {
    name: "Raghav, note on indirection units, 2024 (closed form)",
    evidence: Evidence::ClosedForm,
};
/// CacheLib on a drive with and without FDP.
pub const CACHELIB: Document =
    Document { name: "CacheLib-FDP, EuroSys 2025", evidence: Evidence::Device };
/// Cassandra on one drive with conventional and with zoned firmware.
pub const MICRON: Document =
    Document { name: "Micron, Accelerating Flash, 2021", evidence: Evidence::Device };
/// LSM_ZGC on a zoned prototype.
pub const CHOI: Document = Document { name: "Choi, HotStorage 2020", evidence: Evidence::Device };
/// AutoStream on multi-stream drives.
pub const AUTOSTREAM: Document =
    Document { name: "Samsung, AutoStream, 2017", evidence: Evidence::Device };

/// Disks, a QLC drive and the same behind a fast tier.
pub const CSAL: Document =
    Document { name: "Intel and Alibaba, CSAL, SDC 2022", evidence: Evidence::Device };

/// A client drive with an SLC cache, as tested in the press.
pub const REVIEWS: Document =
    Document { name: "reviews of the Intel SSD 660p, 2018", evidence: Evidence::Device };

/// Counters of two drives with placement handles, as `nvme fdp stats` printed them.
pub const WARP_DRIVES: Document =
    Document { name: "WARP, FAST 2026: drives", evidence: Evidence::Device };
/// The first open emulator of such drives.
pub const WARP_EMULATOR: Document =
    Document { name: "WARP, FAST 2026: emulator", evidence: Evidence::Simulator };

/// Every document that a row may be of, in the order of the summary.
pub const DOCUMENTS: [Document; 11] = [
    DESNOYERS,
    FTLSIM,
    RAGHAV,
    CACHELIB,
    WARP_DRIVES,
    WARP_EMULATOR,
    MICRON,
    AUTOSTREAM,
    CSAL,
    CHOI,
    REVIEWS,
];

/// How a published value is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Meant {
    /// It is the value.
    Equal,
    /// "Over" or "up from".
    AtLeast,
    /// "Under".
    AtMost,
}

/// What is known of the difference.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The cause of the difference was not measured.
    Unexplained,
    /// An unpublished parameter was fitted to the published value: the point is no test.
    Fitted,
    /// A cause whose share was measured: what the reference gives on our terms.
    Cause {
        /// How our terms differ.
        #[serde(deserialize_with = "text")]
        what: Text,
        /// The reference with that difference taken into account.
        theirs: f64,
    },
    /// One unpublished term was changed: shows how much of the difference the term could explain.
    Knob {
        /// The changed term.
        #[serde(deserialize_with = "text")]
        what: Text,
        /// Ours with that change.
        ours: f64,
    },
}

/// The published value of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Reference {
    /// Who published it.
    pub document: Document,
    /// The quantity, and the place in the document.
    #[serde(deserialize_with = "text")]
    pub quantity: Text,
    /// Which part of it, where a table has several; else empty.
    #[serde(deserialize_with = "text")]
    pub part: Text,
    /// Unit of the quantity.
    #[serde(deserialize_with = "text")]
    pub unit: Text,
    /// How the value is meant.
    pub meant: Meant,
    /// What is known of the difference.
    pub standing: Standing,
}

impl Reference {
    /// An exact value of `document`, with an unexplained difference.
    #[must_use]
    pub const fn new(document: Document, quantity: &'static str, unit: &'static str) -> Reference {
        let (meant, standing) = (Meant::Equal, Standing::Unexplained);
        Reference { document, quantity, part: "", unit, meant, standing }
    }

    /// The same of a part of the quantity.
    #[must_use]
    pub const fn part(self, part: &'static str) -> Reference {
        Reference { part, ..self }
    }

    /// The same, meant otherwise.
    #[must_use]
    pub const fn meant(self, meant: Meant) -> Reference {
        Reference { meant, ..self }
    }

    /// The same with what is known of the difference.
    #[must_use]
    pub const fn standing(self, standing: Standing) -> Reference {
        Reference { standing, ..self }
    }
}

/// A published value and what an experiment gave for it: a row of the table of truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The published value.
    pub reference: Reference,
    /// Terms on which ours was measured.
    pub terms: String,
    /// Published value, in the unit of the reference.
    pub theirs: f64,
    /// Ours, likewise.
    pub ours: f64,
    /// Ours over theirs, less 1; 0 where theirs is a bound that ours keeps.
    pub difference: f64,
    /// The experiment: `thermocline lab reproduce NAME` repeats it.
    pub experiment: &'static str,
}

impl Point {
    /// The row of `figure`, if it is held against a published value.
    #[must_use]
    pub fn of(experiment: &'static str, figure: &Figure) -> Option<Point> {
        let (reference, theirs) = (figure.reference?, figure.theirs?);
        let exact = figure.ours / theirs - 1.0;
        let difference = match reference.meant {
            Meant::Equal => exact,
            Meant::AtLeast => exact.min(0.0),
            Meant::AtMost => exact.max(0.0),
        };
        let terms = figure.what.clone();
        Some(Point { reference, terms, theirs, ours: figure.ours, difference, experiment })
    }

    /// Whether it tests anything: a value that a parameter was fitted to does not.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.reference.standing != Standing::Fitted
    }

    /// The published value with the bound, such as `> 1.400`.
    #[must_use]
    pub fn theirs_as_meant(&self) -> String {
        let sign = match self.reference.meant {
            Meant::Equal => "",
            Meant::AtLeast => "> ",
            Meant::AtMost => "< ",
        };
        format!("{sign}{:.3}", self.theirs)
    }

    /// Whether the difference is explained, and by what.
    #[must_use]
    pub fn explained(&self) -> String {
        match self.reference.standing {
            Standing::Unexplained => "unexplained".into(),
            Standing::Fitted => table::FITTED.into(),
            Standing::Cause { what, theirs } => {
                let left = (self.ours / theirs - 1.0) * 100.0;
                format!("{what}: {theirs:.3} on our terms, {left:+.2} % left")
            }
            Standing::Knob { what, ours } => {
                let left = (ours / self.theirs - 1.0) * 100.0;
                format!("not known; with {what} ours is {ours:.3}, {left:+.2} % left")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EQUAL: Reference = Reference::new(CHOI, "times as long", "times");

    fn point(reference: Reference, theirs: f64, ours: f64) -> Point {
        let figure = Figure::new("terms", theirs, ours, reference);
        Point::of("lsm-zgc", &figure).unwrap()
    }

    #[test]
    fn a_bound_that_is_kept_is_no_difference() {
        let over = |ours| point(EQUAL.meant(Meant::AtLeast), 2.0, ours).difference;
        assert!(over(3.0).abs() < 1e-12 && (over(1.0) + 0.5).abs() < 1e-12);
        let under = |ours| point(EQUAL.meant(Meant::AtMost), 2.0, ours).difference;
        assert!(under(1.0).abs() < 1e-12 && (under(3.0) - 0.5).abs() < 1e-12);
        assert!(Point::of("lsm-zgc", &Figure::ours("alone", 1.0)).is_none());
    }
}
