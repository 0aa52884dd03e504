//! Opens, creates and changes the pool that [`Settings`] describe.
//!
//! Invariants:
//! * An error holds facts only. The program with a user words the remedy.
//! * Opening on trial writes nothing to a device.

mod create;
mod error;
mod room;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thermocline_engine::{Config, HostError, Notice, OpenError, VolumeInfo};
use thermocline_format::Geometry;
use thermocline_types::{Bytes, DeviceId};

pub use create::{LittleMemory, create};
pub use error::{CarryOutError, OpeningError, VolumeChoiceError};

use crate::storage::{Access, Overlay, Storage};
use crate::{
    AnyStorage, DeviceChange, DeviceKind, Driver, DriverError, Group, MediaError, Settings,
    UnitStorage, unit_bytes,
};

/// An open pool on the caller's own thread, with the facts of its opening.
pub struct Opened<S> {
    /// The pool.
    pub driver: Driver<S>,
    /// Its configuration.
    pub config: Config,
    /// Chunks and entries that were replayed.
    pub replayed: (u64, u64),
    /// From the first read to the first accepted request.
    pub took: Duration,
    /// Its mirrored pairs and striped groups, each with its device number.
    pub groups: Vec<(usize, Group)>,
    /// Differences between the settings and the pool.
    pub notes: Vec<OpeningNote>,
}

/// A difference between the settings and the pool, which opens all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpeningNote {
    /// The settings name a device outside the pool.
    UnusedDevice {
        /// The device.
        path: PathBuf,
    },
    /// The settings state another size than the pool uses of a device.
    OtherSize {
        /// The device.
        path: PathBuf,
        /// Size in the settings.
        stated: Bytes,
        /// Size in the pool.
        used: Bytes,
    },
    /// The settings name a volume that the pool does not have.
    NoSuchVolume {
        /// Its name.
        volume: String,
    },
    /// The pool has less room than the settings reserve for a volume.
    ReserveTooLarge {
        /// The volume.
        volume: String,
        /// Reserve in the settings.
        reserve: Bytes,
        /// Reason of the engine.
        error: HostError,
    },
}

impl fmt::Display for OpeningNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpeningNote::UnusedDevice { path } => {
                write!(f, "{} is no device of the pool, which is opened without it", path.display())
            }
            OpeningNote::OtherSize { path, stated, used } => {
                let path = path.display();
                write!(f, "{path}: the settings state a size of {stated}, and the pool uses {used}")
            }
            OpeningNote::NoSuchVolume { volume } => {
                write!(f, "reserve is stated of `{volume}`, which is no volume")
            }
            OpeningNote::ReserveTooLarge { volume, reserve, error } => {
                write!(f, "volume `{volume}` has a reserve of {reserve}, but {error}")
            }
        }
    }
}

/// What is wrong if the fast devices are too small for the maps of volumes of these sizes in blocks.
#[must_use]
pub fn short_of_fast(config: &Config, volumes: &[u64]) -> Option<String> {
    let (has, needed) = config.short_of_fast(volumes.iter().copied())?;
    let total: u64 = volumes.iter().sum();
    let bytes = |units: u32| Bytes(u64::from(units) * config.geometry.unit_bytes());
    Some(format!(
        "volumes of {} that are written all over take {} of fast devices for their maps, which have {}: before that \
         writes get \"no space\"",
        Bytes(total * 4096),
        bytes(needed),
        bytes(has)
    ))
}

/// Opens the pool on an overlay: writes of the recovery stay in memory.
///
/// # Errors
/// [`OpeningError`].
pub fn on_trial(settings: &Settings) -> Result<Opened<Overlay<AnyStorage>>, OpeningError> {
    let (used, media) = storage_of(settings, Access::ReadOnly)?;
    trial(&used, media, false)
}

/// As [`on_trial`], for service: no byte of the devices changes, and the memory of the recovery's writes is kept.
///
/// # Errors
/// [`OpeningError`].
pub fn to_read(settings: &Settings) -> Result<Opened<AnyStorage>, OpeningError> {
    let (used, media) = storage_of(settings, Access::ReadOnly)?;
    let config = without_ahead(&used, media.geometry, false)?;
    let began = Instant::now();
    let storage: AnyStorage = Box::new(Overlay::new(media.storage));
    let driver = Driver::open(config.clone(), storage)?;
    Ok(Opened::new(driver, config, began, media.groups))
}

/// Opens the pool on an overlay, as if the device at `path` were lost.
///
/// # Errors
/// [`OpeningError`].
pub fn without_on_trial(
    settings: &Settings,
    path: &Path,
    despite_loss: bool,
) -> Result<Opened<Overlay<AnyStorage>>, OpeningError> {
    let media = settings.changed_media(path, DeviceChange::Lose, Access::ReadOnly)?;
    trial(settings, media, despite_loss)
}

fn trial(
    settings: &Settings,
    media: UnitStorage,
    despite_loss: bool,
) -> Result<Opened<Overlay<AnyStorage>>, OpeningError> {
    let config = without_ahead(settings, media.geometry, despite_loss)?;
    let began = Instant::now();
    let driver = Driver::open(config.clone(), Overlay::new(media.storage))?;
    Ok(Opened::new(driver, config, began, media.groups))
}

/// The configuration on an overlay: garbage collection ahead of need would write, and each write takes memory there.
fn without_ahead(
    settings: &Settings,
    geometry: Geometry,
    despite_loss: bool,
) -> Result<Config, OpeningError> {
    let mut config = settings.config(geometry)?;
    config.open_despite_loss = despite_loss;
    config.gc.ahead_units = 0;
    Ok(config)
}

/// Opens the pool for writes. With `despite_loss`, also a pool that lost flushed data.
///
/// # Errors
/// [`OpeningError`].
pub fn to_write(
    settings: &Settings,
    despite_loss: bool,
) -> Result<Opened<AnyStorage>, OpeningError> {
    let (used, media) = storage_of(settings, Access::ReadWrite)?;
    let unused = unused(settings, &used).into_iter();
    let mut notes: Vec<OpeningNote> =
        unused.map(|path| OpeningNote::UnusedDevice { path }).collect();
    notes.extend(other_sizes(&used));
    let mut config = used.config(media.geometry)?;
    config.open_despite_loss = despite_loss;
    let began = Instant::now();
    let mut driver = Driver::open(config.clone(), media.storage)?;
    notes.extend(hold_reserves(settings, &mut driver));
    Ok(Opened { notes, ..Opened::new(driver, config, began, media.groups) })
}

/// Opens the pool with a change of the device at `path`; the opening makes the change durable. If too few units are
/// empty on the devices that remain, garbage collection first empties some.
///
/// # Errors
/// [`OpeningError`].
pub fn to_change(
    settings: &Settings,
    path: &Path,
    change: DeviceChange,
    despite_loss: bool,
) -> Result<Opened<AnyStorage>, OpeningError> {
    match changed(settings, path, change, despite_loss) {
        Err(OpeningError::Driver(DriverError::Open(OpenError::NoFreeUnit))) => {
            room::make(settings, path)?;
            changed(settings, path, change, despite_loss)
        }
        opened => opened,
    }
}

fn changed(
    settings: &Settings,
    path: &Path,
    change: DeviceChange,
    despite_loss: bool,
) -> Result<Opened<AnyStorage>, OpeningError> {
    let media = settings.changed_media(path, change, Access::ReadWrite)?;
    let mut config = settings.config(media.geometry)?;
    config.open_despite_loss = despite_loss;
    let began = Instant::now();
    let driver = Driver::open(config.clone(), media.storage)?;
    Ok(Opened::new(driver, config, began, media.groups))
}

/// The storage of the pool, and the settings without devices outside the pool.
fn storage_of(
    settings: &Settings,
    access: Access,
) -> Result<(Settings, UnitStorage), OpeningError> {
    let open = |settings: &Settings| {
        let media = settings.media(access)?;
        Ok((settings.clone(), media))
    };
    let opened = match open(settings) {
        Err(MediaError::NotAttached { .. } | MediaError::HasLeft { .. }) => {
            open(&settings.of_pool())
        }
        opened => opened,
    };
    Ok(opened?)
}

/// Devices that `settings` name and `used` do not.
#[must_use]
pub fn unused(settings: &Settings, used: &Settings) -> Vec<PathBuf> {
    let is_used = |path: &&PathBuf| used.devices.iter().any(|device| device.path == **path);
    let named = settings.devices.iter().map(|device| &device.path);
    named.filter(|path| !is_used(path)).cloned().collect()
}

/// Devices of which the pool uses another size than the settings state.
fn other_sizes(settings: &Settings) -> Vec<OpeningNote> {
    let Ok((geometry, numbers)) = settings.device_numbers() else { return Vec::new() };
    let unit = unit_bytes(&geometry);
    let note = |(one, number): (Settings, Option<DeviceId>)| {
        let device = one.device();
        let (stated, number) = device.size.zip(number)?;
        let used = Bytes(u64::from(geometry.device(number).units) * unit.0);
        let plain = matches!(one.kind(), DeviceKind::File | DeviceKind::Block);
        let same = stated.0 / unit.0 == used.0 / unit.0;
        let differs = plain && device.group().is_none() && !same;
        differs.then(|| OpeningNote::OtherSize { path: device.path.clone(), stated, used })
    };
    settings.each_device().zip(numbers).filter_map(note).collect()
}

/// Keeps the room that the settings reserve for volumes. If the pool has less, other volumes wait for room.
fn hold_reserves<S: Storage>(settings: &Settings, driver: &mut Driver<S>) -> Vec<OpeningNote> {
    let mut notes = Vec::new();
    for stated in &settings.volumes {
        let Some(reserve) = stated.reserve else { continue };
        let name = || stated.name.clone();
        let volumes = driver.engine().volumes();
        let Some(volume) = volumes.iter().find(|one| one.name.as_str() == stated.name) else {
            notes.push(OpeningNote::NoSuchVolume { volume: name() });
            continue;
        };
        let blocks = reserve.0.div_ceil(Bytes::BLOCK.0);
        if let Err(error) = driver.reserve_for(volume.id, blocks) {
            notes.push(OpeningNote::ReserveTooLarge { volume: name(), reserve, error });
            driver.hold_for(volume.id, blocks);
        }
    }
    notes
}

impl<S: Storage> Opened<S> {
    fn new(
        driver: Driver<S>,
        config: Config,
        began: Instant,
        groups: Vec<(usize, Group)>,
    ) -> Opened<S> {
        let took = began.elapsed();
        let replayed = driver.notices().iter().find_map(|notice| match notice {
            Notice::Open { chunks, entries } => Some((*chunks, *entries)),
            _ => None,
        });
        let replayed = replayed.expect("an open pool said so");
        Opened { driver, config, replayed, took, groups, notes: Vec::new() }
    }

    /// The sizes of the volumes in blocks.
    #[must_use]
    pub fn sizes(&self) -> Vec<u64> {
        self.driver.engine().volumes().iter().map(|volume| volume.blocks).collect()
    }

    /// How much data the pool holds if all volumes are used, and no less than it has now.
    #[must_use]
    pub fn holds(&self) -> Bytes {
        Bytes(self.driver.engine().holds_blocks() * Bytes::BLOCK.0)
    }

    /// The volume called `name`; without a name, the only volume.
    ///
    /// # Errors
    /// [`VolumeChoiceError`].
    pub fn volume(&self, name: Option<&str>) -> Result<VolumeInfo, VolumeChoiceError> {
        let mut volumes = self.driver.engine().volumes();
        let found = match name {
            Some(name) => volumes.iter().position(|volume| volume.name.as_str() == name),
            None => (volumes.len() == 1).then_some(0),
        };
        found.map(|at| volumes.swap_remove(at)).ok_or_else(|| VolumeChoiceError {
            name: name.map(str::to_owned),
            volumes: self
                .driver
                .engine()
                .volumes()
                .iter()
                .map(|one| one.name.to_string())
                .collect(),
        })
    }
}
