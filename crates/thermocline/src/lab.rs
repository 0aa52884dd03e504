//! The lab: workloads against simulated drives, in virtual time.
//!
//! ```
//! # fn main() -> Result<(), thermocline::lab::Error> {
//! use thermocline::lab::{self, RunSpec, WorkloadSpec};
//!
//! let spec = RunSpec { seed: 7, ..RunSpec::new("raw:ideal", WorkloadSpec::generator("uniform")) };
//! # let mut spec = spec;
//! # lab::set(&mut spec, "span", "16MiB")?;
//! let record = lab::run(&spec)?;
//! println!("write amplification {:.2}", record.waf.unwrap());
//! # assert!(record.waf.unwrap() > 1.0);
//! # Ok(())
//! # }
//! ```
//!
//! A [`RunSpec`] decides a run; [`run`] gives its [`RunRecord`]. Both are data, with one JSON form for every program.

use std::path::Path;

use thermocline_lab::headroom::QUICK_WRITES;
use thermocline_lab::spec;

pub use thermocline_lab::Error;
pub use thermocline_lab::analyze::Analysis;
pub use thermocline_lab::bench_placement::{OwnPolicy, Yardstick};
pub use thermocline_lab::fleet;
pub use thermocline_lab::spec::{files, run_with};
pub use thermocline_lab::sweep::{Axis, Combination, set};
pub use thermocline_lab::whatif::{Tried, WhatIf};
pub use thermocline_record::{RunRecord, RunSpec, WorkloadSpec};

/// Runs `spec`, and returns its record with the specification in it.
///
/// # Errors
/// [`Error`], for a key that cannot be or a workload that cannot be read.
pub fn run(spec: &RunSpec) -> Result<RunRecord, Error> {
    spec::run(spec)
}

/// Reads a specification, or a run record that holds one, and checks the hashes of its files.
///
/// # Errors
/// [`Error`], if it cannot be read, or a file is another one.
pub fn load(path: impl AsRef<Path>) -> Result<RunSpec, Error> {
    spec::load(path.as_ref())
}

/// A combination of a sweep with its record.
#[derive(Debug)]
pub struct Swept {
    /// The values.
    pub combination: Combination,
    /// The record, or why the run cannot be made.
    pub record: Result<RunRecord, Error>,
}

/// Runs `spec` for every combination of values, as many at a time as there are processors. An axis is
/// `KEY=A..B[:STEPS][:lin|:log]` or `KEY=V,V,...`.
///
/// ```
/// # use thermocline::lab::{self, RunSpec, WorkloadSpec};
/// # let mut spec = RunSpec::new("raw:ideal", WorkloadSpec::generator("uniform"));
/// # lab::set(&mut spec, "span", "16MiB")?;
/// for one in lab::sweep(&spec, &["device.op=0.1,0.3"])? {
///     println!("{}: {:.2}", one.combination.spec.set[0], one.record?.waf.unwrap());
/// }
/// # Ok::<(), lab::Error>(())
/// ```
///
/// # Errors
/// [`Error`], if an axis cannot be understood, or the run does not have its key.
pub fn sweep(spec: &RunSpec, axes: &[&str]) -> Result<Vec<Swept>, Error> {
    let axes: Vec<Axis> = axes.iter().map(|axis| axis.parse()).collect::<Result<_, _>>()?;
    let swept = thermocline_lab::sweep::sweep(spec, &axes)?.into_iter();
    Ok(swept.map(|(combination, record)| Swept { combination, record }).collect())
}

/// Runs what discards, hints, streams, FDP, zones or a fast tier would buy: each alone, on equal media.
///
/// # Errors
/// [`Error`], if the drive or the workload cannot be used.
pub fn whatif(question: &WhatIf) -> Result<Vec<Tried>, Error> {
    question.run()
}

/// Analyses a workload: sizes, alignment, working set, skew, and what placement could reach.
///
/// ```
/// # use thermocline::lab::{self, WorkloadSpec};
/// let analysis = lab::analyze(&WorkloadSpec::trace("cassandra-ycsb-a"))?;
/// println!("{} requests", analysis.profile.requests);
/// # Ok::<(), lab::Error>(())
/// ```
///
/// # Errors
/// [`Error`], if the workload cannot be read.
pub fn analyze(workload: &WorkloadSpec) -> Result<Analysis, Error> {
    thermocline_lab::analyze::analyze(
        &spec::input(workload, 1)?,
        Some(QUICK_WRITES),
        &mut |_, _| (),
    )
}

#[cfg(feature = "papers")]
mod papers {
    use super::Error;
    use thermocline_lab::reproduce::point::Point;
    use thermocline_lab::reproduce::{EXPERIMENTS, Experiment, Figure, Options};

    /// A published experiment, repeated.
    #[derive(Clone, Debug)]
    pub struct Reproduced {
        /// Its name.
        pub experiment: &'static str,
        /// The document with the published figures.
        pub source: &'static str,
        /// Published figures and ours.
        pub figures: Vec<Figure>,
        /// The figures that test a model against a published value.
        pub points: Vec<Point>,
    }

    /// Names of the experiments.
    pub fn experiments() -> impl Iterator<Item = &'static str> {
        EXPERIMENTS.iter().map(|experiment| experiment.name)
    }

    /// Repeats the experiment called `name`; `quick`: smaller, if it is of the size of its document.
    ///
    /// # Errors
    /// [`Error::Key`] for an unknown name; others if a run fails.
    pub fn reproduce(name: &str, quick: bool) -> Result<Reproduced, Error> {
        let experiment = Experiment::find(name).ok_or_else(|| Error::Key {
            key: "experiment",
            reason: format!("`{name}` is unknown"),
        })?;
        let options = Options { seed: 1, traces: None, quick, points: false };
        let figures = experiment.run(&options, &mut |_| ())?;
        let points = experiment.points(&figures);
        let (experiment, source) = (experiment.name, experiment.facts.source);
        Ok(Reproduced { experiment, source, figures, points })
    }
}

#[cfg(feature = "papers")]
pub use papers::{Reproduced, experiments, reproduce};
