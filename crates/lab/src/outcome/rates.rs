//! Rates of each device over time, and valid bytes at the end.

use thermocline_format::MediaClass;
use thermocline_nand::UnitView;
use thermocline_record::DeviceSeries;
use thermocline_types::{Bytes, UnitId};

use super::Outcome;
use crate::log::machine::Machine;
use crate::rates::DeviceRates;

/// Tiers, as records name them, in the order of [`Outcome::rates`].
const TIERS: [&str; 2] = [super::TIER, "fast"];

/// The series of each device.
pub fn series(outcome: &Outcome) -> Vec<DeviceSeries> {
    let stack = outcome.stack;
    let profiles = std::iter::once(&stack.profile).chain(&stack.fast);
    let devices = outcome.rates.iter().zip(profiles).zip(TIERS).enumerate();
    devices
        .map(|(index, ((rates, profile), tier))| DeviceSeries {
            valid_bytes: valid(outcome, index),
            occupied_bytes: outcome.held.map(|held| held[index].occupied),
            ..of(rates, tier, &profile.name)
        })
        .collect()
}

fn of(rates: &DeviceRates, tier: &str, profile: &str) -> DeviceSeries {
    let steps = rates.steps();
    DeviceSeries {
        tier: tier.to_owned(),
        profile: profile.to_owned(),
        step_seconds: rates.step().as_secs_f64(),
        bytes_read: steps.iter().map(|step| step.read).collect(),
        bytes_written: steps.iter().map(|step| step.written).collect(),
        ..DeviceSeries::default()
    }
}

/// Valid bytes on a device: as the log has them, or else the drive.
fn valid(outcome: &Outcome, device: usize) -> Option<u64> {
    if let Some(held) = outcome.held {
        return Some(held[device].valid);
    }
    let unit = outcome.drive.cut().unit().as_f64();
    let bytes = |view: &UnitView| (f64::from(view.valid) * unit).round() as u64;
    let maps = outcome.stack.profile.kind.relocates();
    maps.then(|| outcome.units.iter().map(bytes).sum())
}

/// What a log has on a drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Bytes of valid blocks.
    pub valid: u64,
    /// Bytes written in units since the last reset of each unit.
    pub occupied: u64,
}

/// What a log has on the drive for capacity and on the fast one.
pub fn held(machine: &Machine) -> [Held; 2] {
    let device = machine.device();
    let geometry = device.geometry();
    let block = geometry.logical_block().bytes() as u64;
    let on = |media| {
        let units = geometry.units_of(media).map(UnitId);
        let written: u64 = units.map(|unit| u64::from(device.written_in(unit))).sum();
        let valid = machine.engine().valid_blocks_on(media) * Bytes::BLOCK.0;
        Held { valid, occupied: written * block }
    };
    let fast = device.fast().map(|_| on(MediaClass::Fast));
    [on(MediaClass::Capacity), fast.unwrap_or_default()]
}
