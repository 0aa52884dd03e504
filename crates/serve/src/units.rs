//! The units of a pool, for `map` and the live page.

use serde::{Deserialize, Serialize};
use thermocline_engine::Engine;
use thermocline_format::{DeviceState, MediaClass};
use thermocline_ftl::UnitState;
use thermocline_runtime::Buffer;
use thermocline_types::UnitId;

/// Schema of a [`UnitsReport`].
const SCHEMA: &str = "thermocline.units/1";

/// State of a unit in one letter.
pub mod letter {
    /// Holds superblocks.
    pub const SUPERBLOCKS: char = 'S';
    /// Holds nothing.
    pub const FREE: char = '.';
    /// Being written.
    pub const OPEN: char = 'o';
    /// Written to its end.
    pub const CLOSED: char = '#';
    /// Emptied, on a device that is to leave.
    pub const LEAVING: char = '-';
    /// Out of service.
    pub const RETIRED: char = 'X';
}

/// The units of a pool at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitsReport {
    /// `thermocline.units/1`.
    pub schema: String,
    /// Blocks of 4096 bytes that a full unit holds.
    pub blocks_per_unit: u32,
    /// Units of each device that is present, in order.
    pub devices: Vec<DeviceUnits>,
}

/// The units of a device. The lists and the text have an element for each unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUnits {
    /// `fast` or `capacity`.
    pub class: String,
    /// Number of the first unit.
    pub first_unit: u32,
    /// A [`letter`] each.
    pub states: String,
    /// Blocks with valid data.
    pub valid_blocks: Vec<u32>,
    /// Class of the placement: units of one class hold blocks of like lifetime.
    pub placement_classes: Vec<u8>,
    /// Blocks that hosts had written when the unit was closed last: a larger number is a younger unit.
    pub closed_at: Vec<u64>,
}

impl UnitsReport {
    /// No units: a drive without a pool.
    #[must_use]
    pub fn none() -> UnitsReport {
        UnitsReport { schema: SCHEMA.to_owned(), blocks_per_unit: 0, devices: Vec::new() }
    }

    /// The units of `engine`.
    #[must_use]
    pub fn of(engine: &Engine<Buffer>) -> UnitsReport {
        let units = engine.units();
        let devices = engine.geometry().present().map(|(_, range)| {
            let ids = || range.clone().map(UnitId);
            let class = match engine.geometry().media_of(UnitId(range.start)) {
                MediaClass::Fast => "fast",
                MediaClass::Capacity => "capacity",
            };
            DeviceUnits {
                class: class.to_owned(),
                first_unit: range.start,
                states: ids().map(|unit| state(engine, unit)).collect(),
                valid_blocks: ids().map(|unit| units.valid_count(unit)).collect(),
                placement_classes: ids().map(|unit| units.class(unit).0).collect(),
                closed_at: ids().map(|unit| units.closed_at(unit)).collect(),
            }
        });
        UnitsReport {
            schema: SCHEMA.to_owned(),
            blocks_per_unit: units.most_valid().max(1),
            devices: devices.collect(),
        }
    }
}

fn state(engine: &Engine<Buffer>, unit: UnitId) -> char {
    let geometry = engine.geometry();
    match engine.units().state(unit) {
        _ if geometry.is_superblock_unit(unit) => letter::SUPERBLOCKS,
        UnitState::Free => letter::FREE,
        UnitState::Open => letter::OPEN,
        UnitState::Retired if geometry.state_of(unit) == DeviceState::Draining => letter::LEAVING,
        UnitState::Retired => letter::RETIRED,
        _ => letter::CLOSED,
    }
}
