//! The lab as a module of Python, `thermocline_lab._native`. The package in `python/` is what programs import.
//!
//! Invariants:
//! * Specifications, records and analyses cross the border as JSON: a field has one name in every program.
//! * Work runs on a thread of its own without the interpreter's lock. The caller's thread looks for signals.
//! * Every error of the lab is an exception of this module.

mod errors;
mod fleet;
mod policy;
mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use serde_json::json;
use thermocline::lab::{
    self, Analysis, Reproduced, RunRecord, RunSpec, Tried, WhatIf, WorkloadSpec,
};
use thermocline_report::{SweepCell, SweepKey};

use errors::{SettingsError, raised};
use watched::watched;

/// Ends runs from another thread.
#[pyclass(frozen, module = "thermocline_lab._native")]
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop::default()
    }

    /// Ends all runs that were given this object.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A record from its JSON.
fn record(text: &str) -> PyResult<RunRecord> {
    serde_json::from_str(text).map_err(refused)
}

fn spec_of(text: &str) -> PyResult<RunSpec> {
    RunSpec::from_json(text).map_err(refused)
}

fn workload_of(text: &str) -> PyResult<WorkloadSpec> {
    serde_json::from_str(text).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    SettingsError::new_err(error.to_string())
}

/// A specification with defaults for all but the stack and the workload.
#[pyfunction]
fn spec(stack: &str, workload: &str) -> PyResult<String> {
    Ok(RunSpec::new(stack, workload_of(workload)?).to_json())
}

/// A workload with defaults for all but its name: a trace, or else a generator.
#[pyfunction]
fn workload(name: &str, is_trace: bool) -> String {
    let workload = if is_trace { WorkloadSpec::trace(name) } else { WorkloadSpec::generator(name) };
    json!(workload).to_string()
}

/// The specification with these keys set, each as `lab sweep` sets it.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python gives a list of its own")]
fn set(spec: &str, keys: Vec<(String, String)>) -> PyResult<String> {
    let mut spec = spec_of(spec)?;
    for (key, value) in &keys {
        lab::set(&mut spec, key, value).map_err(|error| raised(&error))?;
    }
    Ok(spec.to_json())
}

/// The specification with the SHA-256 of every file that it reads, and the version that is here.
#[pyfunction]
fn hashed(py: Python<'_>, spec: &str) -> PyResult<String> {
    let mut spec = spec_of(spec)?;
    watched(py, Arc::default(), move |_| {
        RunSpec::VERSION.clone_into(&mut spec.version);
        spec.files = lab::files(&spec.stack, &spec.workload)?;
        Ok(spec.to_json())
    })
}

/// The record of a run.
#[pyfunction]
#[pyo3(signature = (spec, stop=None))]
fn run(py: Python<'_>, spec: &str, stop: Option<&Stop>) -> PyResult<String> {
    let spec = spec_of(spec)?;
    let stop = stop.map(|stop| Arc::clone(&stop.0)).unwrap_or_default();
    watched(py, stop, move |stop| Ok(lab::run_with(&spec, stop, &mut |_| ())?.to_json()))
}

/// The analysis of a workload.
#[pyfunction]
fn analyze(py: Python<'_>, workload: &str) -> PyResult<String> {
    let workload = workload_of(workload)?;
    watched(py, Arc::default(), move |_| {
        let analysis: Analysis = lab::analyze(&workload)?;
        Ok(json!(analysis).to_string())
    })
}

/// What `whatif` is asked beside the drive and the workload; `None`: the default of the lab.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Question {
    loops: Option<u32>,
    fast: Option<String>,
    fast_share: Option<f64>,
    utilisation: Option<f64>,
    streams: Option<u8>,
    queue_depth: Option<u32>,
    seed: Option<u64>,
    jobs: Option<usize>,
}

/// Each option with its record, or the reason for a missing record.
#[pyfunction]
fn whatif(py: Python<'_>, device: &str, workload: &str, question: Question) -> PyResult<String> {
    let usual = WhatIf::new(device, workload_of(workload)?);
    let asked = WhatIf {
        loops: question.loops,
        fast: question.fast.unwrap_or(usual.fast),
        fast_share: question.fast_share.unwrap_or(usual.fast_share),
        utilisation: question.utilisation.unwrap_or(usual.utilisation),
        streams: question.streams.unwrap_or(usual.streams),
        queue_depth: question.queue_depth,
        seed: question.seed.unwrap_or(usual.seed),
        jobs: question.jobs,
        ..usual
    };
    watched(py, Arc::default(), move |stop| {
        let tried = asked.run_with(stop, &|_, _| ())?.into_iter().map(|Tried { option, run }| {
            let (record, reason) = (run.as_ref().ok(), run.as_ref().err());
            json!({ "option": option, "record": record, "reason": reason })
        });
        Ok(tried.collect::<serde_json::Value>().to_string())
    })
}

/// Names of the published experiments.
#[pyfunction]
fn experiments() -> Vec<&'static str> {
    lab::experiments().collect()
}

/// A published experiment, repeated: each published figure beside ours.
#[pyfunction]
fn reproduce(py: Python<'_>, name: String, quick: bool) -> PyResult<String> {
    watched(py, Arc::default(), move |_| {
        let Reproduced { experiment, source, figures, .. } = lab::reproduce(&name, quick)?;
        Ok(json!({ "experiment": experiment, "source": source, "figures": figures }).to_string())
    })
}

/// The report on some records as one HTML page.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python gives a list of its own")]
fn page(title: &str, records: Vec<String>) -> PyResult<String> {
    let records: Vec<RunRecord> =
        records.iter().map(|text| record(text)).collect::<PyResult<_>>()?;
    Ok(thermocline_report::render(title, &records))
}

/// The page of a sweep over one or two keys. A cell has the number of its value on each axis, and a record or the
/// reason for a missing record.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python gives lists of its own")]
fn sweep_page(
    title: &str,
    axes: Vec<(String, Vec<String>)>,
    cells: Vec<(Vec<usize>, Option<String>, String)>,
) -> PyResult<String> {
    let axes = axes.into_iter().map(|(key, values)| SweepKey {
        key,
        spacing: "as listed".to_owned(),
        values,
    });
    let read = cells.iter().map(|(_, text, _)| text.as_deref().map(record).transpose());
    let records: Vec<Option<RunRecord>> = read.collect::<PyResult<_>>()?;
    let cells = cells.iter().zip(&records).map(|((at, _, reason), record)| SweepCell {
        at: at.clone(),
        record: record.as_ref().ok_or(reason.as_str()),
    });
    let (axes, cells): (Vec<SweepKey>, Vec<SweepCell<'_>>) = (axes.collect(), cells.collect());
    Ok(thermocline_report::sweep_page(title, &axes, &cells))
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::errors::{DefectError, DriveError, Error, Interrupted, SettingsError, TraceError};
    #[pymodule_export]
    use super::fleet::fleet;
    #[pymodule_export]
    use super::policy::yardstick;
    #[pymodule_export]
    use super::{
        Stop, analyze, experiments, hashed, page, reproduce, run, set, spec, sweep_page, whatif,
        workload,
    };
}
