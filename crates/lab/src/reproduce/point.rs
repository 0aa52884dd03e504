//! Published values as typed points, and the table of truth that is made of them.

use std::collections::HashSet;

use serde::Serialize;

use super::Figure;

/// What kind of thing published a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A formula.
    ClosedForm,
    /// Somebody else's simulator.
    Simulator,
    /// A real device or system.
    Device,
}

impl Evidence {
    /// Every kind, in order of how much agreement with it says.
    pub const ALL: [Evidence; 3] = [Evidence::Device, Evidence::Simulator, Evidence::ClosedForm];

    /// The kind in words, in the plural.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Evidence::ClosedForm => "closed forms",
            Evidence::Simulator => "other simulators",
            Evidence::Device => "real devices and systems",
        }
    }
}

/// A document that published values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Document {
    /// Authors, short title, year.
    pub name: &'static str,
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
/// What dies, buses and a link can do, reconstructed from the charts of a tutorial.
pub const THATCHER: Document = Document {
    name: "Thatcher, SNIA tutorial, 2009 (closed form, reconstructed)",
    evidence: Evidence::ClosedForm,
};
/// AutoStream on multi-stream drives.
pub const AUTOSTREAM: Document =
    Document { name: "Samsung, AutoStream, 2017", evidence: Evidence::Device };

/// Disks, a QLC drive and the same behind a fast tier.
pub const CSAL: Document =
    Document { name: "Intel and Alibaba, CSAL, SDC 2022", evidence: Evidence::Device };

/// A client drive with an SLC cache, as tested in the press.
pub const REVIEWS: Document =
    Document { name: "reviews of the Intel SSD 660p, 2018", evidence: Evidence::Device };

/// How a published value is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Its cause was not measured.
    Unexplained,
    /// A parameter of ours that is not published was chosen to meet this value: it is no test.
    Fitted,
    /// A cause whose share was measured: what the reference gives on our terms.
    Cause {
        /// How our terms differ.
        what: &'static str,
        /// The reference with that difference taken into account.
        theirs: f64,
    },
    /// One term that is not published, changed: it would explain so much, whether or not it was so.
    Knob {
        /// What was changed.
        what: &'static str,
        /// Ours with that change.
        ours: f64,
    },
}

/// What a figure is held against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// Who published it.
    pub document: Document,
    /// Which quantity it is there, and where.
    pub quantity: &'static str,
    /// Which part of it, where a table has several; else empty.
    pub part: &'static str,
    /// Unit of the quantity.
    pub unit: &'static str,
    /// How the value is meant.
    pub meant: Meant,
    /// What is known of the difference.
    pub standing: Standing,
}

impl Reference {
    /// A value of `document` that is meant as it stands, with a difference that is not explained.
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
    /// What it is held against.
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

    /// The published value as it is meant, such as `> 1.400`.
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
            Standing::Fitted => "fitted: no test".into(),
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

/// Median and worst of the differences of some points, without sign.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Rows.
    pub rows: usize,
    /// Different published values among them.
    pub values: usize,
    /// The middle difference; of an even number, the mean of both.
    pub median: f64,
    /// The largest.
    pub worst: f64,
}

impl Errors {
    /// Of the points that test anything; `None` if there are none.
    #[must_use]
    pub fn of<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<Errors> {
        let points: Vec<&Point> = points.into_iter().filter(|point| point.is_test()).collect();
        let mut all: Vec<f64> = points.iter().map(|point| point.difference.abs()).collect();
        all.sort_by(f64::total_cmp);
        let rows = all.len();
        let median = (all.get(rows.checked_sub(1)? / 2)? + all[rows / 2]) / 2.0;
        let worst = *all.last()?;
        Some(Errors { rows, values: values(points), median, worst })
    }
}

/// How many different published values there are: several rows may be held against one, on terms that the document
/// leaves open.
pub fn values<'a>(points: impl IntoIterator<Item = &'a Point>) -> usize {
    let key = |point: &'a Point| {
        let Reference { document, quantity, part, .. } = point.reference;
        (document.name, quantity, part, point.theirs.to_bits())
    };
    points.into_iter().map(key).collect::<HashSet<_>>().len()
}

/// The table of truth as Markdown that reads well as it is: errors first, then a row for each point.
#[must_use]
pub fn table(points: &[Point]) -> String {
    let mut text = summary(points);
    text.push('\n');
    let header = [
        "document",
        "quantity, unit",
        "our terms",
        "theirs",
        "ours",
        "difference",
        "explained",
        "`lab reproduce`",
    ];
    let rows = points.iter().map(|point| {
        let Reference { document, quantity, part, unit, .. } = point.reference;
        let of = if part.is_empty() { String::new() } else { format!(", {part}") };
        [
            document.name.to_owned(),
            format!("{quantity}{of}, {unit}"),
            point.terms.clone(),
            point.theirs_as_meant(),
            format!("{:.3}", point.ours),
            format!("{:+.2} %", point.difference * 100.0),
            point.explained(),
            format!("`{}`", point.experiment),
        ]
    });
    let mut line = |cells: &[String]| text.push_str(&format!("| {} |\n", cells.join(" | ")));
    line(&header.map(str::to_owned));
    line(&["---", "---", "---", "--:", "--:", "--:", "---", "---"].map(str::to_owned));
    rows.for_each(|row| line(&row));
    text
}

/// Median and worst error, of all and by what published them.
#[must_use]
pub fn summary(points: &[Point]) -> String {
    let mut text = String::from(
        "| against | published values | rows | median error | worst error |\n|---|--:|--:|--:|--:|\n",
    );
    let kinds = Evidence::ALL.map(|evidence| {
        let of = points.iter().filter(move |point| point.reference.document.evidence == evidence);
        (evidence.name(), Errors::of(of))
    });
    for (name, errors) in [("everything", Errors::of(points))].into_iter().chain(kinds) {
        let Some(Errors { rows, values, median, worst }) = errors else { continue };
        let (median, worst) = (median * 100.0, worst * 100.0);
        text.push_str(&format!("| {name} | {values} | {rows} | {median:.2} % | {worst:.2} % |\n"));
    }
    let fitted = points.iter().filter(|point| !point.is_test()).count();
    if fitted > 0 {
        text.push_str(&format!(
            "\nLeft out of the errors: {fitted} that a parameter of ours was fitted to.\n"
        ));
    }
    text
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

    #[test]
    fn errors_have_no_sign_and_leave_out_what_was_fitted() {
        let fitted = EQUAL.standing(Standing::Fitted);
        let mut points =
            vec![point(EQUAL, 1.0, 0.9), point(EQUAL, 1.0, 1.3), point(fitted, 1.0, 9.0)];
        let errors = Errors::of(&points).unwrap();
        assert_eq!((errors.rows, errors.values), (2, 1));
        assert!((errors.median - 0.2).abs() < 1e-9 && (errors.worst - 0.3).abs() < 1e-9);
        points.push(point(EQUAL, 2.0, 2.1));
        let errors = Errors::of(&points).unwrap();
        assert_eq!((errors.rows, errors.values), (3, 2));
        assert!((errors.median - 0.1).abs() < 1e-9);
        assert!(Errors::of(&[]).is_none());
    }

    #[test]
    fn a_row_says_theirs_ours_and_what_explains_it() {
        let cause = Standing::Cause { what: "small", theirs: 1.02 };
        let text = table(&[point(EQUAL.standing(cause), 1.0, 1.03)]);
        for part in [
            "| everything | 1 | 1 | 3.00 % | 3.00 % |",
            "| 1.000 | 1.030 | +3.00 % |",
            "small: 1.020 on our terms, +0.98 % left",
            "`lsm-zgc`",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let knob = Standing::Knob { what: "half as much", ours: 1.1 };
        let text = table(&[point(EQUAL.part("drive").standing(knob), 1.0, 1.3)]);
        for part in ["times as long, drive, times", "with half as much ours is 1.100, +10.00 %"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
