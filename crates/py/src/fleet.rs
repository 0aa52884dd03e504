//! Fleets: what rows of drives say of their future, as JSON of schema `thermocline.fleet/1`.

use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::json;
use thermocline::lab::WhatIf;
use thermocline::lab::fleet::{FleetQuestion, FleetRows, SERVICE_YEARS, assess, trial};

use crate::watched::watched;
use crate::{refused, workload_of};

/// What is asked beside the rows; `None`: the default of the lab.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct FleetAsked {
    service_years: Option<f64>,
    price: Option<f64>,
    /// Workloads of each class, as JSON.
    traces: Vec<(String, Vec<String>)>,
    device: String,
    utilisation: f64,
    loops: Option<u32>,
}

/// The answer for files, each with its name and bytes.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python gives objects of its own")]
pub fn fleet(py: Python<'_>, files: Vec<(String, Vec<u8>)>, asked: FleetAsked) -> PyResult<String> {
    let mut rows = FleetRows::default();
    for (name, bytes) in &files {
        rows.read(name, bytes).map_err(|reason| refused(format!("cannot use {name}: {reason}")))?;
    }
    let of = |text: &String| {
        let usual = WhatIf::new(&asked.device, workload_of(text)?);
        Ok(WhatIf { utilisation: asked.utilisation, loops: asked.loops, ..usual })
    };
    let traces = asked.traces.iter().map(|(class, all)| {
        let all: PyResult<Vec<WhatIf>> = all.iter().map(of).collect();
        Ok((class.clone(), all?))
    });
    let traces: Vec<(String, Vec<WhatIf>)> = traces.collect::<PyResult<_>>()?;
    let trials = watched(py, Arc::default(), move |stop| {
        let one = |(class, all): &(String, Vec<WhatIf>)| trial(class, all, stop, &|_, _, _| ());
        traces.iter().map(one).collect()
    })?;
    let service_years = asked.service_years.unwrap_or(SERVICE_YEARS);
    let answer = assess(&rows, &FleetQuestion { service_years, price: asked.price, trials });
    Ok(json!(answer.map_err(refused)?).to_string())
}
