//! Device changes while the pool is served, and files that cannot be opened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thermocline_engine::Config;
use thermocline_format::{DeviceState, PoolDevice};
use thermocline_runtime::{AnyStorage, Driver, ReopenError};
use thermocline_target::Clock;
use thermocline_types::{DeviceId, Rng};

use super::ShellWorld;
use crate::drive::ScriptedDrive;
use crate::settings::{devices_of, in_state};
use crate::storage::{Part, Scripted, ScriptedStorage, SharedDrive};
use crate::up::StorageWoken;

/// Most devices of a pool at once.
const MOST_DEVICES: usize = 3;

/// The result that a callback leaves for the world.
pub(super) type Told<T> = Arc<Mutex<Option<T>>>;

pub(super) fn tell<T>(told: &Told<T>, what: T) {
    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
}

pub(super) fn heard<T>(told: &Told<T>) -> Option<T> {
    told.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The files of all devices. While the files are spoiled no opening succeeds: a path was renamed, or the process has
/// used up its file descriptors.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    spoiled: Arc<AtomicBool>,
}

impl Files {
    /// Draws whether files can be opened from now on.
    pub(super) fn spoil(&self, rng: &mut Rng) {
        self.spoiled.store(rng.below(3) > 0, Ordering::Relaxed);
    }

    /// All files can be opened.
    pub(super) fn heal(&self) {
        self.spoiled.store(false, Ordering::Relaxed);
    }

    fn open(&self) -> Result<(), String> {
        match self.spoiled.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err("too many open files".to_owned()),
        }
    }
}

/// A device change under way.
pub(super) struct Changing {
    config: Config,
    drives: Vec<Option<SharedDrive>>,
    told: Told<Result<(), ReopenError<String>>>,
    /// Whether the last opening of the pool used the new devices.
    opened_new: Arc<AtomicBool>,
    /// Whether files were spoiled at the request of the change, and at any later time.
    spoiled: [bool; 2],
}

/// Opens a pool.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) config: Config,
    pub(super) drives: Vec<Option<SharedDrive>>,
    pub(super) script: Scripted,
    pub(super) clock: Clock,
    pub(super) woken: StorageWoken,
    pub(super) seed: u64,
}

impl Opener {
    /// The storage of the pool's devices.
    pub(super) fn storage(&self) -> AnyStorage {
        let geometry = self.config.geometry;
        let units = geometry.device_units().map(|(_, units)| units);
        let drives = self.drives.iter().cloned();
        let parts = units.zip(drives).map(|(units, drive)| Part { units, drive }).collect();
        let (block, per_unit) = (geometry.logical_block(), geometry.blocks_per_unit());
        let layout =
            thermocline_runtime::storage::Layout::contiguous(block, per_unit, geometry.units());
        let storage = ScriptedStorage::new(layout, parts, &self.script, &self.clock);
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = storage.woken();
        Box::new(storage)
    }

    /// Opens the pool.
    pub(super) fn open(&self) -> Result<Driver<AnyStorage>, String> {
        let (clock, config) = (self.clock.clone(), self.config.clone());
        let driver = Driver::open_by(clock, self.seed, config, self.storage());
        driver.map_err(|error| error.to_string())
    }
}

impl ShellWorld {
    pub(super) fn opener(&mut self) -> Opener {
        Opener {
            config: self.config.clone(),
            drives: self.drives.clone(),
            script: self.script.clone(),
            clock: self.clock.clone(),
            woken: Arc::clone(&self.woken),
            seed: self.rng.next_u64(),
        }
    }

    /// Requests a device change, or a reopening of the unchanged pool.
    pub(super) fn change_devices(&mut self) {
        if self.changing.is_some() || self.up.is_none() {
            return;
        }
        let back = self.opener();
        let (config, drives) =
            self.draw_change().unwrap_or((back.config.clone(), back.drives.clone()));
        let new = Opener { config: config.clone(), drives: drives.clone(), ..back.clone() };
        let told = Told::default();
        let files = self.files.clone();
        let hold = move || files.open();
        let files = self.files.clone();
        let again = new.clone();
        let open = move |()| files.open().and_then(|()| new.open());
        let files = self.files.clone();
        let opened_new = Arc::new(AtomicBool::new(false));
        let is_new = Arc::clone(&opened_new);
        // Try the old devices, then the new: the change may be on media although the opening failed.
        let back = move || {
            files.open().ok()?;
            let old = back.open().ok();
            is_new.store(old.is_none(), Ordering::Relaxed);
            old.or_else(|| again.open().ok())
        };
        let to = Arc::clone(&told);
        self.changing = Some(Changing {
            config,
            drives,
            told,
            opened_new,
            spoiled: [self.files.open().is_err(); 2],
        });
        let Some(up) = &self.up else { return };
        up.pool.begin_reopen(hold, open, back, move |result| tell(&to, result));
    }

    /// Draws a change of the devices with which the pool can work.
    fn draw_change(&mut self) -> Option<(Config, Vec<Option<SharedDrive>>)> {
        let now: Vec<PoolDevice> = self.config.geometry.devices().to_vec();
        let mut drives = self.drives.clone();
        let number = self.rng.below(now.len() as u64) as usize;
        let devices = match (now[number].state, self.rng.below(3)) {
            (DeviceState::Draining, _) if self.is_drained(number) => {
                drives[number] = None;
                in_state(&now, number, DeviceState::Detached)
            }
            (DeviceState::Active, 0) => in_state(&now, number, DeviceState::Draining),
            (_, 1) if now.len() < MOST_DEVICES => {
                let units: Vec<u32> = now.iter().map(|device| device.units).collect();
                let more = units[0] + self.rng.below(8) as u32;
                let new = *devices_of(&[&units[..], &[more]].concat()).last().expect("one more");
                let bytes = self.config.geometry.unit_bytes() * u64::from(more);
                drives.push(Some(Arc::new(Mutex::new(ScriptedDrive::new(bytes)))));
                [&now[..], &[new]].concat()
            }
            _ => return None,
        };
        let config = self.settings.config_with(&self.config, &devices)?;
        Some((config, drives))
    }

    /// Whether a draining device is empty.
    fn is_drained(&mut self, number: usize) -> bool {
        let Some(up) = &self.up else { return false };
        up.looks(|engine| engine.units_in_use(DeviceId(number as u8))) == Some(0)
    }

    /// Judges the result of an ended device change.
    pub(super) fn look_after_changes(&mut self) -> Result<(), String> {
        let Some(changing) = &mut self.changing else { return Ok(()) };
        changing.spoiled[1] |= self.files.open().is_err();
        let Some(result) = heard(&changing.told) else { return Ok(()) };
        let failed = self.script.script().hits;
        let excused = failed.changes + failed.reads > 0;
        let Some(changing) = self.changing.take() else { return Ok(()) };
        let Changing { config, drives, spoiled, opened_new, .. } = changing;
        let is_open = !matches!(result, Err(ReopenError::NotClosed(_) | ReopenError::Lost(_)));
        if is_open && result.is_err() && opened_new.load(Ordering::Relaxed) && excused {
            (self.config, self.drives) = (config.clone(), drives.clone());
        } else if !is_open {
            self.maybe = Some((config.clone(), drives.clone()));
        }
        match result {
            Ok(()) => {
                self.report.changes += 1;
                (self.config, self.drives) = (config, drives);
                Ok(())
            }
            Err(ReopenError::Refused(_)) if spoiled[1] || excused => {
                self.report.refusals += 1;
                Ok(())
            }
            Err(ReopenError::NotClosed(_)) if excused => Ok(()),
            // Files could be opened at the request, but not after the pool was closed.
            Err(ReopenError::Lost(_)) if excused || spoiled == [false, true] => {
                self.kill();
                Ok(())
            }
            Err(error) => Err(format!("a device change: {error}")),
        }
    }

    /// Judges an end of the pool's thread that was not requested.
    pub(super) fn judge_end(&mut self) -> Result<(), String> {
        self.look_after_changes()?;
        match self.up {
            Some(_) => Err("the pool has ended, and serves nobody".to_owned()),
            None => Ok(()),
        }
    }
}
