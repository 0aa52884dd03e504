//! What a workload costs over some years on several stacks: drives and their replacements, energy, servers, racks and
//! carbon, with the uncertainty of what is put in.
//!
//! Formulas, for `n` drives of a kind, `y` years of service and a life of `l` years under the load:
//!
//! ```text
//! n         = ⌈redundancy · max(data / data a drive holds, peak rate / rate a drive reached)⌉
//! bought    = n · (max(1, y / l) + failures a year · y)
//! kWh       = n · (idle W · (1 − d) + active W · d) · 8760 y / 1000 · PUE        d = mean rate / n · rate reached
//! servers   = ⌈drives / slots⌉;  racks = max(servers · units, kW) by what a rack has, in fractions
//! kg CO2e   = bought · raw GB · factor + servers · factor + kWh · factor of the grid
//! USD       = bought · price + kWh · price + servers · price + racks · price a year · y
//! ```
//!
//! Where fast drives have slots of their own, `drives / slots` is the larger of both kinds. Life is that of the run
//! record; energy by duty is SNIA Emerald's (unverified); carbon by GB is Tannu and Nair's (2022). No interest, no work
//! of people, no residual value.
//!
//! Uncertainty: each input named in [`prices::Deviations`] is multiplied by `exp(deviation · z)`, `z` standard normal
//! (the sum of twelve uniform numbers, less 6), so that its median is what was put in. One generator draws them all,
//! input by input in alphabetical order. What stacks share (the load, the kilowatt-hour, the price of one kind of
//! drive) is drawn once for all of them. The number of drives stays as planned.

pub mod case;
mod fleet;
mod flip;
pub mod prices;
mod trials;
mod verdict;

use serde::Serialize;
use thermocline_types::Bytes;

pub use fleet::{Device, Fleet, MeasuredStack};
pub use flip::Flip;
pub use prices::Prices;
pub use trials::{bills, compare};
pub use verdict::usd;

/// What is to be stored and done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Bytes of data.
    pub data_bytes: f64,
    /// Bytes that the host writes a day.
    pub daily_write_bytes: f64,
    /// Bytes that the host writes a second at most, or the price file's multiple of the mean.
    pub peak_write_bytes_per_second: Option<f64>,
    /// Requests a second at most, in the mix of the workload that was run.
    pub peak_requests_per_second: Option<f64>,
}

impl Demand {
    /// `data` stored, `daily` written a day.
    #[must_use]
    pub fn new(data: Bytes, daily: Bytes) -> Demand {
        Demand {
            data_bytes: data.as_f64(),
            daily_write_bytes: daily.as_f64(),
            peak_write_bytes_per_second: None,
            peak_requests_per_second: None,
        }
    }
}

/// A quantity with its uncertainty: 10 %, 50 % and 90 % of the trials are below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Band {
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
}

/// Where the money goes, US dollars over the years of service, all inputs at their medians.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bill {
    /// The first drives.
    pub drives: f64,
    /// Replacements of worn-out and failed drives.
    pub replacements: f64,
    /// Electricity of drives and servers.
    pub energy: f64,
    /// Servers for the drives.
    pub servers: f64,
    /// Racks for the servers.
    pub racks: f64,
}

impl Bill {
    /// The parts by name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f64); 5] {
        [
            ("drives", self.drives),
            ("replacements", self.replacements),
            ("energy", self.energy),
            ("servers", self.servers),
            ("racks", self.racks),
        ]
    }

    /// The sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|(_, usd)| usd).sum()
    }
}

/// Cost of one stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackCost {
    /// The stack.
    pub stack: String,
    /// Drives, servers and racks as planned.
    pub fleet: Fleet,
    /// Requests a second of one drive in the run, where time is modelled.
    pub requests_per_second: Option<f64>,
    /// Where the money goes at the medians.
    pub bill: Bill,
    /// Total cost, US dollars.
    pub usd: Band,
    /// The same for each TB of data and year.
    pub usd_per_tb_year: f64,
    /// Drives bought over the years, of all kinds.
    pub drives_bought: Band,
    /// Energy, kWh.
    pub kwh: Band,
    /// Embodied and emitted carbon, kg CO2e.
    pub kg_co2e: Band,
    /// Share of the trials in which it costs least.
    pub cheapest_share: f64,
    /// What each input changes by itself between its 10th and 90th percentile, US dollars, the largest first.
    pub sensitivity: Vec<Sensitivity>,
}

/// The total cost with one input at the 10th and 90th percentile and all other inputs at the median.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The input.
    pub input: String,
    /// US dollars.
    pub usd_at_p10: f64,
    /// US dollars.
    pub usd_at_p90: f64,
}

/// Several stacks for the same demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Years of service.
    pub years: f64,
    /// The demand.
    pub demand: Demand,
    /// Trials of all inputs.
    pub trials: u32,
    /// Seed of the trials.
    pub seed: u64,
    /// The stacks, in the order given.
    pub costs: Vec<StackCost>,
    /// The conclusion, in a sentence.
    pub verdict: String,
    /// The input whose change flips it first; `None` where no input does.
    pub flip: Option<Flip>,
}
