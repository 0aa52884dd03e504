//! Trials: random draws of uncertain inputs, and the cost of stacks under each draw.

use std::collections::BTreeMap;

use thermocline_types::Rng;

use super::{
    Band, Bill, Comparison, Demand, Fleet, MeasuredStack, Prices, Sensitivity, StackCost, flip,
    verdict,
};
use crate::Error;

/// Hours of a year.
const HOURS: f64 = 8760.0;
/// The 90th percentile of the standard normal distribution.
const Z90: f64 = 1.2816;
/// Longest life, years: a drive that is never written needs no replacement.
const LONGEST_YEARS: f64 = 1e6;

/// Factors by input; inputs without a factor keep their value.
type Factors = BTreeMap<String, f64>;

/// What `stacks` cost for `demand`, with bands from so many `trials`.
///
/// # Errors
/// [`Error::Settings`] for drives without a price, and for no stack or no trial at all.
pub fn compare(
    prices: &Prices,
    demand: &Demand,
    stacks: &[MeasuredStack],
    trials: u32,
    seed: u64,
) -> Result<Comparison, Error> {
    if stacks.is_empty() || trials == 0 {
        return Err(Error::Settings("it takes a stack and a trial at least".into()));
    }
    let planned = stacks.iter().map(|measured| {
        Ok(Planned { measured, fleet: Fleet::plan(measured, demand, prices)?, demand, prices })
    });
    let planned = planned.collect::<Result<Vec<_>, Error>>()?;
    let inputs = inputs(prices, stacks);
    let mut rng = Rng::new(seed);
    let mut totals: Vec<Vec<Total>> = vec![Vec::new(); stacks.len()];
    let mut cheapest = vec![0_u32; stacks.len()];
    for _ in 0..trials {
        let factors = inputs.iter().map(|(name, deviation)| {
            let normal: f64 = (0..12).map(|_| rng.unit_f64()).sum::<f64>() - 6.0;
            (name.clone(), (deviation * normal).exp())
        });
        let factors = factors.collect();
        let drawn: Vec<Total> = planned.iter().map(|stack| stack.total(&factors)).collect();
        let usd = |index: &usize| drawn[*index].bill.total();
        let least = (0..drawn.len()).min_by(|a, b| usd(a).total_cmp(&usd(b)));
        cheapest[least.expect("there are stacks")] += 1;
        totals.iter_mut().zip(drawn).for_each(|(all, total)| all.push(total));
    }
    let costs: Vec<StackCost> = planned
        .iter()
        .zip(&totals)
        .zip(&cheapest)
        .map(|((stack, totals), wins)| {
            stack.cost(totals, f64::from(*wins) / f64::from(trials), &inputs)
        })
        .collect();
    let years = prices.service.years;
    let verdict = verdict::verdict(&costs, years);
    let flip = flip::flip(prices, demand, stacks)?;
    Ok(Comparison { years, demand: *demand, trials, seed, costs, verdict, flip })
}

/// What `stacks` cost for `demand` with all inputs at their medians.
///
/// # Errors
/// [`Error::Settings`] for drives without a price.
pub fn bills(
    prices: &Prices,
    demand: &Demand,
    stacks: &[MeasuredStack],
) -> Result<Vec<Bill>, Error> {
    let bill = |measured: &MeasuredStack| {
        let fleet = Fleet::plan(measured, demand, prices)?;
        Ok(Planned { measured, fleet, demand, prices }.total(&Factors::new()).bill)
    };
    stacks.iter().map(bill).collect()
}

/// Every uncertain input with its deviation, in alphabetical order.
fn inputs(prices: &Prices, stacks: &[MeasuredStack]) -> BTreeMap<String, f64> {
    let mut inputs = BTreeMap::new();
    for (name, deviation) in prices.deviation.named() {
        match name {
            "endurance" | "drive_price" | "failures" => {
                for device in stacks.iter().flat_map(|stack| &stack.devices) {
                    inputs.insert(format!("{name} of {}", device.name), deviation);
                }
            }
            "write_amplification" => {
                for stack in stacks {
                    inputs.insert(format!("{name} of {}", stack.stack), deviation);
                }
            }
            _ => {
                inputs.insert(name.to_owned(), deviation);
            }
        }
    }
    inputs
}

/// A stack with its fleet.
struct Planned<'a> {
    measured: &'a MeasuredStack,
    fleet: Fleet,
    demand: &'a Demand,
    prices: &'a Prices,
}

/// Totals of one trial.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    bill: Bill,
    bought: f64,
    kwh: f64,
    kg: f64,
}

impl Planned<'_> {
    fn total(&self, factors: &Factors) -> Total {
        let of = |name: &str| factors.get(name).copied().unwrap_or(1.0);
        let Prices { service, energy, carbon, server, rack, .. } = self.prices;
        let mut total = Total::default();
        let daily = self.demand.daily_write_bytes * service.redundancy * of("load");
        let amplified = of(&format!("write_amplification of {}", self.measured.stack));
        for (device, drives) in self.measured.devices.iter().zip(&self.fleet.drives) {
            let price = self.prices.drive(&device.name).expect("it was planned with");
            let named = |what: &str| of(&format!("{what} of {}", device.name));
            let life = device.endurance_bytes.map_or(LONGEST_YEARS, |bytes| {
                let wear = daily * device.wear_per_host_byte * amplified * 365.0;
                (bytes * named("endurance") * drives.count / wear).min(LONGEST_YEARS)
            });
            let failed = price.failures_per_year * named("failures") * service.years;
            let bought = drives.count * ((service.years / life).max(1.0) + failed);
            let usd = price.usd_per_tb * device.capacity_bytes / 1e12 * named("drive_price");
            let kg = if price.disk { carbon.disk_kg_per_gb } else { carbon.flash_kg_per_gb };
            total.bill.drives += drives.count * usd;
            total.bill.replacements += (bought - drives.count) * usd;
            total.bought += bought;
            total.kg += bought * device.media_bytes / 1e9 * kg * of("embodied_carbon");
        }
        let watts = self.fleet.watts * of("power");
        total.kwh = watts * HOURS * service.years / 1e3 * energy.pue;
        total.bill.energy = total.kwh * energy.usd_per_kwh * of("energy_price");
        total.bill.servers = self.fleet.servers * server.usd * of("server_price");
        total.bill.racks = self.fleet.racks * rack.usd_per_year * service.years * of("rack_price");
        total.kg += self.fleet.servers * carbon.server_kg * of("embodied_carbon");
        total.kg += total.kwh * energy.kg_co2e_per_kwh * of("grid");
        total
    }

    fn cost(
        &self,
        totals: &[Total],
        cheapest_share: f64,
        inputs: &BTreeMap<String, f64>,
    ) -> StackCost {
        let usd = band(totals.iter().map(|total| total.bill.total()));
        let data = self.demand.data_bytes / 1e12;
        StackCost {
            stack: self.measured.stack.clone(),
            fleet: self.fleet.clone(),
            requests_per_second: self.measured.requests_per_second,
            bill: self.total(&Factors::new()).bill,
            usd,
            usd_per_tb_year: usd.p50 / (data * self.prices.service.years),
            drives_bought: band(totals.iter().map(|total| total.bought)),
            kwh: band(totals.iter().map(|total| total.kwh)),
            kg_co2e: band(totals.iter().map(|total| total.kg)),
            cheapest_share,
            sensitivity: self.sensitivity(inputs),
        }
    }

    fn sensitivity(&self, inputs: &BTreeMap<String, f64>) -> Vec<Sensitivity> {
        let at = |name: &String, z: f64, deviation: f64| {
            let factors = Factors::from([(name.clone(), (deviation * z).exp())]);
            self.total(&factors).bill.total()
        };
        let one = |(name, &deviation): (&String, &f64)| Sensitivity {
            input: name.clone(),
            usd_at_p10: at(name, -Z90, deviation),
            usd_at_p90: at(name, Z90, deviation),
        };
        let width = |s: &Sensitivity| (s.usd_at_p90 - s.usd_at_p10).abs();
        let mut all: Vec<Sensitivity> = inputs.iter().map(one).collect();
        all.retain(|input| width(input) > 0.0);
        all.sort_by(|a, b| width(b).total_cmp(&width(a)));
        all
    }
}

/// 10 %, 50 % and 90 % of `values`, by nearest rank.
fn band(values: impl Iterator<Item = f64>) -> Band {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    };
    Band { p10: at(0.1), p50: at(0.5), p90: at(0.9) }
}

#[cfg(test)]
mod tests;
