//! Makes room for the data of a device to be drained.

use std::path::Path;
use std::time::{Duration, Instant};

use thermocline_engine::{Engine, HostRequest, Payload};
use thermocline_format::{DeviceState, MediaClass};
use thermocline_ftl::UnitState;
use thermocline_types::{DeviceId, UnitId};

use super::{Opened, OpeningError};
use crate::storage::Access;
use crate::{Driver, Settings};

/// Empty units beside those that an opening asks for: as many may be taken to close the pool. Chosen.
const MORE: u32 = 2;

/// How long at most the device is waited for at once.
const TICK: Duration = Duration::from_millis(100);

/// After so many ticks in which nothing was under way collection frees no more. Chosen.
const IDLE: u32 = 5;

/// Runs garbage collection until the remaining capacity devices have enough empty units without the device at `path`.
/// Stops early if collection frees no more: the drain reports the shortage.
///
/// # Errors
/// If the pool cannot be opened or closed.
pub(super) fn make(settings: &Settings, path: &Path) -> Result<(), OpeningError> {
    let leaves = settings.device_number(path)?;
    let leaves = leaves.ok_or_else(|| OpeningError::NoDevice { path: path.to_owned() })?;
    let media = settings.media(Access::ReadWrite)?;
    let mut config = settings.config(media.geometry)?;
    // Collection continues while fewer than `ahead_units` units are free.
    config.gc.ahead_units = config.most_ahead();
    let began = Instant::now();
    let driver = Driver::open(config.clone(), media.storage)?;
    let mut pool = Opened::new(driver, config, began, media.groups);
    let (mut idle, mut ended) = (0, Vec::new());
    while idle < IDLE && is_short_beside(pool.driver.engine(), leaves) {
        pool.driver.poll(Some(TICK), &mut ended);
        pool.driver.clear_notices();
        idle = if pool.driver.device().is_idle() { idle + 1 } else { 0 };
    }
    pool.carry_out(HostRequest::Close)?;
    Ok(())
}

/// Whether fewer units of active devices for capacity but `leaves` are empty than are enough.
fn is_short_beside<P: Payload>(engine: &Engine<P>, leaves: DeviceId) -> bool {
    let (geometry, units) = (engine.geometry(), engine.units());
    let stays = |unit: &UnitId| {
        geometry.device_of(*unit) != leaves
            && geometry.state_of(*unit) == DeviceState::Active
            && !geometry.is_superblock_unit(*unit)
    };
    let there = geometry.units_of(MediaClass::Capacity).map(UnitId).filter(stays);
    let empty = there.filter(|unit| units.state(*unit) == UnitState::Free).count();
    empty < (engine.least_empty() + MORE) as usize
}
