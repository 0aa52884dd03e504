//! Placement policies that are objects of Python, in the yardstick of the lab.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use thermocline::lab::{OwnPolicy, Yardstick};

use crate::watched::watched;

/// A measurement, and the classes of a policy of Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Course {
    workload: String,
    blocks: u32,
    turnovers: f64,
    garbage: f64,
    blocks_per_unit: NonZeroU32,
    victim: String,
    seed: u64,
    classes: u8,
    survivors: (u8, u8),
}

impl Course {
    fn yardstick(&self) -> Yardstick {
        Yardstick {
            workload: self.workload.clone(),
            blocks: self.blocks,
            turnovers: self.turnovers,
            garbage: self.garbage,
            blocks_per_unit: self.blocks_per_unit,
            victim: self.victim.clone(),
            seed: self.seed,
        }
    }
}

/// WAF of a policy with this name, or of a policy that is an object with `begin`, `place` and `place_survivor`.
#[pyfunction]
pub fn yardstick(py: Python<'_>, course: Course, policy: Bound<'_, PyAny>) -> PyResult<f64> {
    let yardstick = course.yardstick();
    if let Ok(name) = policy.extract::<String>() {
        return watched(py, Arc::default(), move |stop| yardstick.named(&name, stop));
    }
    let policy = policy.unbind();
    watched(py, Arc::default(), move |stop| {
        // The lock is asked for once: each call would take as long again to get it.
        Python::attach(|py| {
            let mut called = Called { object: policy.bind(py), course, raised: None };
            let waf = yardstick.own(&mut called, stop);
            called.raised.map_or_else(|| waf.map(Ok), |raised| Ok(Err(raised)))
        })
    })?
}

/// A policy of Python. After an exception it gives no class.
struct Called<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    course: Course,
    raised: Option<PyErr>,
}

impl Called<'_, '_> {
    fn heard<T>(&mut self, result: PyResult<T>) -> Option<T> {
        result.map_err(|error| self.raised.get_or_insert(error)).ok()
    }
}

impl OwnPolicy for Called<'_, '_> {
    fn classes(&self) -> u8 {
        self.course.classes
    }

    fn survivors(&self) -> Range<u8> {
        self.course.survivors.0..self.course.survivors.1
    }

    fn begin(&mut self, blocks: u64, units: u32, blocks_per_unit: u32) {
        let done = self.object.call_method1("begin", (blocks, units, blocks_per_unit));
        self.heard(done);
    }

    fn place(&mut self, lba: u64, now: u64) -> Option<u8> {
        let class = self.object.call_method1("place", (lba, now)).and_then(|class| class.extract());
        self.heard(class)
    }

    fn place_survivor(&mut self, lba: u64, from: u8, utilisation: f32, now: u64) -> Option<u8> {
        let class = self.object.call_method1("place_survivor", (lba, from, utilisation, now));
        let class = class.and_then(|class| class.extract());
        self.heard(class)
    }
}
