//! Think time of clients between requests.
//!
//! A client thinks after each transaction's flush if the workload has flushes, else after every request. Times are
//! drawn from an exponential distribution, as terminals of TPC-C have it (clause 5.2.5.4: "taken independently from a
//! negative exponential distribution"), which uses `ln`: the last bit may differ between machines. Clients do not think
//! where time is not modelled.

use thermocline_types::{Op, Rng, Time};

use crate::settings::Pacing;

/// Draws times to think.
pub struct Think {
    /// 0 where nobody thinks.
    mean: f64,
    flushes: bool,
    rng: Rng,
}

impl Think {
    /// Nobody thinks.
    #[must_use]
    pub fn never() -> Think {
        Think { mean: 0.0, flushes: false, rng: Rng::new(0) }
    }

    /// As `pacing` has it, for a workload with or without flushes.
    #[must_use]
    pub fn new(pacing: Pacing, timed: bool, flushes: bool, seed: u64) -> Think {
        let mean = match pacing {
            Pacing::Clients { think, .. } if timed => think.0 as f64,
            _ => 0.0,
        };
        Think { mean, flushes, rng: Rng::new(seed) }
    }

    /// Think time of the client after `op` is complete; `None` if the client continues at once.
    pub fn after(&mut self, op: Op) -> Option<Time> {
        let ends = !self.flushes || op == Op::Flush;
        (self.mean > 0.0 && ends)
            .then(|| Time((-self.mean * (1.0 - self.rng.unit_f64()).ln()) as u64))
    }
}
