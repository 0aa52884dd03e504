//! Built-in cases: a demand, stacks, prices and published values.

use serde::Deserialize;
use thermocline_nand::profile::{optional_size, read, size};
use thermocline_types::{Bytes, choices};

use super::{Comparison, StackCost};
use crate::Error;

/// A case in a TOML file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Title of the case.
    pub title: String,
    /// Source of the case, and the assumptions.
    pub source: String,
    /// A generator, as `lab run --workload` takes it.
    pub workload: String,
    /// Size of each request.
    #[serde(default, deserialize_with = "optional_size")]
    pub io_size: Option<Bytes>,
    /// Share of requests that read.
    #[serde(default)]
    pub read_share: f64,
    /// Bytes addressed in the runs.
    #[serde(deserialize_with = "size")]
    pub span: Bytes,
    /// Times that the addressed bytes are written.
    pub drive_writes: f64,
    /// Requests in flight.
    pub queue_depth: u32,
    /// Share of each drive that data fills.
    pub utilisation: f64,
    /// Data to be stored.
    #[serde(deserialize_with = "size")]
    pub data: Bytes,
    /// Written a day.
    #[serde(deserialize_with = "size")]
    pub daily_writes: Bytes,
    /// Requests a second at most.
    #[serde(default)]
    pub peak_requests: Option<f64>,
    /// Capacity of the fast device of a simulated tier.
    #[serde(default, deserialize_with = "optional_size")]
    pub fast_capacity: Option<Bytes>,
    /// The stacks.
    pub stacks: Vec<String>,
    /// Names of the stacks, in order; by default the text of the stack.
    #[serde(default)]
    pub names: Vec<String>,
    /// Prices that are replaced, as `KEY=VALUE`.
    #[serde(default)]
    pub prices: Vec<String>,
    /// Published ratios of two stacks.
    #[serde(default)]
    pub theirs: Vec<Published>,
}

/// A published ratio.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Of what: `drives`, `servers`, `racks`, `watts`, `density` (TB in a rack unit), `usd` or `latency`.
    pub quantity: Quantity,
    /// Index of the stack whose quantity is divided.
    pub of: usize,
    /// Index of the stack whose quantity divides.
    pub over: usize,
    /// The published ratio.
    pub ratio: f64,
}

/// The quantity compared with a published value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Drives of all kinds at first.
    Drives,
    /// Servers.
    Servers,
    /// Racks.
    Racks,
    /// Power.
    Watts,
    /// Data in a rack unit.
    Density,
    /// StackCost, the median.
    Usd,
    /// Mean time of a request of the run, at the same requests in flight.
    Latency,
}

impl Quantity {
    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Drives => "drives",
            Quantity::Servers => "servers",
            Quantity::Racks => "racks",
            Quantity::Watts => "watts",
            Quantity::Density => "density",
            Quantity::Usd => "usd",
            Quantity::Latency => "latency",
        }
    }

    fn of(self, cost: &StackCost) -> f64 {
        match self {
            Quantity::Drives => cost.fleet.drives.iter().map(|drives| drives.count).sum(),
            Quantity::Servers => cost.fleet.servers,
            Quantity::Racks => cost.fleet.racks,
            Quantity::Watts => cost.fleet.watts,
            Quantity::Density => cost.fleet.tb_per_rack_unit,
            Quantity::Usd => cost.usd.p50,
            // By Little's law, the requests in flight being equal.
            Quantity::Latency => 1.0 / cost.requests_per_second.unwrap_or(f64::NAN),
        }
    }
}

impl Published {
    /// The ratio in `comparison`.
    #[must_use]
    pub fn ours(&self, comparison: &Comparison) -> Option<f64> {
        let of = |index: usize| comparison.costs.get(index).map(|cost| self.quantity.of(cost));
        Some(of(self.of)? / of(self.over)?)
    }
}

/// The cases by name.
pub const CASES: [(&str, &str); 4] = [
    ("wine", include_str!("../../tco/wine.toml")),
    ("cloudmark", include_str!("../../tco/cloudmark.toml")),
    ("llog", include_str!("../../tco/llog.toml")),
    ("csal", include_str!("../../tco/csal.toml")),
];

impl Case {
    /// The case called `name`, or the one in `text` read from a file of that name.
    ///
    /// # Errors
    /// [`Error::Settings`] with the mistake.
    pub fn read(name: &str, text: Option<&str>) -> Result<Case, Error> {
        let known = CASES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        let text = text.or(known).ok_or_else(|| {
            let names = choices(name, CASES.map(|(name, _)| name));
            Error::Settings(format!("there is no case `{name}`; {names}"))
        })?;
        let refuse =
            |key: &str, reason: &str| Error::Settings(format!("case {name}: `{key}`: {reason}"));
        let case: Case = read(text, &[]).map_err(|wrong| refuse(&wrong.key, &wrong.reason))?;
        let known = |index: usize| index < case.stacks.len();
        if !case.names.is_empty() && case.names.len() != case.stacks.len() {
            return Err(refuse("names", "there must be as many as stacks, or none"));
        }
        if case.theirs.iter().all(|theirs| known(theirs.of) && known(theirs.over)) {
            Ok(case)
        } else {
            Err(refuse("theirs", "of and over are places in the list of stacks, from 0"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stack;
    use crate::tco::Prices;
    use crate::tco::prices::DEFAULT_PRICES;

    #[test]
    fn every_case_can_be_read_and_its_drives_have_prices() {
        for (name, _) in CASES {
            let case = Case::read(name, None).unwrap();
            let split = |text: &String| {
                let (key, value) = text.split_once('=').unwrap();
                (key.to_owned(), value.to_owned())
            };
            let replaced: Vec<_> = case.prices.iter().map(split).collect();
            let prices = Prices::from_toml(name, DEFAULT_PRICES, &replaced).unwrap();
            for text in &case.stacks {
                let stack = Stack::parse(text, &[]).unwrap();
                prices.drive(&stack.profile.name).unwrap();
                if let Some(fast) = &stack.fast {
                    prices.drive(&fast.name).unwrap();
                }
            }
        }
        let csal = CASES[3].1.replace("of = 2", "of = 3");
        let wrong = Case::read("mine.toml", Some(&csal)).unwrap_err().to_string();
        assert!(wrong.contains("mine.toml") && wrong.contains("theirs"), "{wrong}");
    }
}
