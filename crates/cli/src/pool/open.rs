//! Opening pools for commands.

mod room;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use thermocline_engine::{Config, HostError, HostRequest, Notice, OpenError, Reply, VolumeInfo};
use thermocline_runtime::storage::{Access, OpenErrorKind, Overlay, Storage};
use thermocline_runtime::{
    AnyStorage, Buffer, DeviceChange, DeviceKind, Driver, DriverError, Group, MediaError, Settings,
    UnitStorage, unit_bytes,
};
use thermocline_types::{Bytes, DeviceId};

use super::serve::control::Serving;
use super::serve::{STATUS, sockets};
use super::{Broken, refusal, say};

/// A pool that was opened, and what that took.
pub struct Opened<S> {
    /// The pool.
    pub driver: Driver<S>,
    /// Its configuration.
    pub config: Config,
    /// Chunks and entries that were replayed.
    pub replayed: (u64, u64),
    /// From the first read to when requests were taken.
    pub took: Duration,
    /// Its devices that are several, each with its number.
    pub groups: Vec<(usize, Group)>,
}

impl<S> Opened<S> {
    /// What is at risk because a member of a group is not current, and what to do, as sentences.
    pub fn risks(&self) -> Vec<String> {
        self.groups.iter().filter_map(|(_, group)| group.status().risk()).collect()
    }
}

/// Opens the pool on an overlay: whatever recovery writes stays in memory.
///
/// # Errors
/// When there is no pool, or it cannot be opened.
pub fn on_trial(settings: &Settings) -> anyhow::Result<Opened<Overlay<AnyStorage>>> {
    let (used, media) = storage_of(settings, Access::ReadOnly)?;
    trial(&used, Ok(media), false)
}

/// As [`on_trial`], as if the device at `path` were lost.
///
/// # Errors
/// As [`on_trial`].
pub fn without_on_trial(
    settings: &Settings,
    path: &Path,
    despite_loss: bool,
) -> anyhow::Result<Opened<Overlay<AnyStorage>>> {
    let media = settings.changed_media(path, DeviceChange::Lose, Access::ReadOnly);
    trial(settings, media, despite_loss)
}

fn trial(
    settings: &Settings,
    media: Result<UnitStorage, MediaError>,
    despite_loss: bool,
) -> anyhow::Result<Opened<Overlay<AnyStorage>>> {
    let media = media.map_err(|error| unavailable(settings, error))?;
    let mut config = settings.config(media.geometry)?;
    config.open_despite_loss = despite_loss;
    // As little as possible is to change: everything that does takes memory.
    config.gc.ahead_units = 0;
    let began = Instant::now();
    let driver = Driver::open(config.clone(), Overlay::new(media.storage));
    opened(driver.map_err(|error| refused(settings, error))?, config, began, media.groups)
}

/// Opens the pool to change it. With `despite_loss`, also if something is missing that was flushed.
///
/// # Errors
/// As [`on_trial`].
pub fn to_write(settings: &Settings, despite_loss: bool) -> anyhow::Result<Opened<AnyStorage>> {
    let (used, media) = storage_of(settings, Access::ReadWrite)?;
    for aside in unused(settings, &used) {
        say(format_args!("{aside}"));
    }
    other_sizes(&used).iter().for_each(|text| say(format_args!("{text}")));
    let mut config = used.config(media.geometry)?;
    config.open_despite_loss = despite_loss;
    let began = Instant::now();
    let driver = Driver::open(config.clone(), media.storage);
    let mut driver = driver.map_err(|error| refused(settings, error))?;
    hold_reserves(settings, &mut driver);
    opened(driver, config, began, media.groups)
}

/// The storage of the pool, and the settings without the devices that they name beside those of the pool.
fn storage_of(settings: &Settings, access: Access) -> anyhow::Result<(Settings, UnitStorage)> {
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
    opened.map_err(|error| unavailable(settings, error))
}

/// What there is to say of devices of which the pool uses another size than the settings state.
fn other_sizes(settings: &Settings) -> Vec<String> {
    let Ok((geometry, numbers)) = settings.device_numbers() else { return Vec::new() };
    let unit = unit_bytes(&geometry);
    let text = |(one, number): (Settings, Option<DeviceId>)| {
        let device = one.device();
        let (size, number) = device.size.zip(number)?;
        let used = Bytes(u64::from(geometry.device(number).units) * unit.0);
        let plain = matches!(one.kind(), DeviceKind::File | DeviceKind::Block);
        if !plain || device.group().is_some() || size.0 / unit.0 == used.0 / unit.0 {
            return None;
        }
        let (path, file) = (device.path.display(), settings.file().display());
        let more = match size > used {
            true => format!("`thermocline device grow {file} {path}` uses more of it"),
            false => "state that size: a device does not become smaller".to_owned(),
        };
        Some(format!(
            "{path}: the settings state a size of {size}, and the pool uses {used}; {more}"
        ))
    };
    settings.each_device().zip(numbers).filter_map(text).collect()
}

/// What there is to say of devices that the settings name and the pool does not use.
pub fn unused(settings: &Settings, used: &Settings) -> Vec<String> {
    let is_used = |path: &Path| used.devices.iter().any(|device| device.path == path);
    let aside = settings.devices.iter().map(|device| &device.path).filter(|path| !is_used(path));
    let file = settings.file().display();
    let text = |path: &std::path::PathBuf| {
        let path = path.display();
        format!(
            "{path} is no device of the pool, which is opened without it: `thermocline device attach {file} {path}` adds \
             it, or take it out of the settings"
        )
    };
    aside.map(text).collect()
}

/// Keeps the room that the settings reserve for volumes. Where the pool has less by now, other volumes have to wait.
fn hold_reserves<S: Storage>(settings: &Settings, driver: &mut Driver<S>) {
    for stated in &settings.volumes {
        let Some(reserve) = stated.reserve else { continue };
        let volumes = driver.engine().volumes();
        let Some(volume) = volumes.iter().find(|one| one.name.as_str() == stated.name) else {
            say(format_args!("reserve is stated of `{}`, which is no volume", stated.name));
            continue;
        };
        let blocks = reserve.0.div_ceil(4096);
        if let Err(error) = driver.reserve_for(volume.id, blocks) {
            say(format_args!(
                "volume `{}` has a reserve of {reserve}, but {error}: no other volume can take new room until there is \
                 more",
                stated.name
            ));
            driver.hold_for(volume.id, blocks);
        }
    }
}

/// Why the pool on this storage does not open; if something that was flushed is missing, with what can be done.
fn refused(settings: &Settings, error: DriverError) -> anyhow::Error {
    let lost = matches!(
        error,
        DriverError::Open(OpenError::ChunksLost { .. } | OpenError::SuperblockLost { .. })
    );
    let error = anyhow::Error::from(error);
    if !lost {
        return error;
    }
    error.context(format!(
        "flushed data is lost; `thermocline check {} --repair` opens the pool all the same, so that what you need can be \
         copied: blocks written since the last checkpoint may read as they were before, or as errors",
        settings.file().display()
    ))
}

/// Opens the pool with a change of the device at `path`, which is made by that. Where too few units are empty on the
/// devices that are to stay, some are emptied first.
///
/// # Errors
/// As [`on_trial`].
pub fn to_change(
    settings: &Settings,
    path: &Path,
    change: DeviceChange,
    despite_loss: bool,
) -> anyhow::Result<Opened<AnyStorage>> {
    let changed = changed(settings, path, change, despite_loss);
    let refused = changed.as_ref().err().and_then(|error| error.downcast_ref());
    match refused {
        Some(DriverError::Open(OpenError::NoFreeUnit)) => {
            room::make(settings, path)?;
            self::changed(settings, path, change, despite_loss)
        }
        _ => changed,
    }
}

fn changed(
    settings: &Settings,
    path: &Path,
    change: DeviceChange,
    despite_loss: bool,
) -> anyhow::Result<Opened<AnyStorage>> {
    let media = settings.changed_media(path, change, Access::ReadWrite);
    let media = media.map_err(|error| unavailable(settings, error))?;
    let mut config = settings.config(media.geometry)?;
    config.open_despite_loss = despite_loss;
    let began = Instant::now();
    opened(Driver::open(config.clone(), media.storage)?, config, began, media.groups)
}

/// Whether a pool was not opened because somebody else has it open.
pub fn is_in_use(error: &anyhow::Error) -> bool {
    let storage = match error.downcast_ref() {
        Some(MediaError::Storage(error)) => Some(error.kind()),
        _ => None,
    };
    matches!(storage, Some(OpenErrorKind::InUse(_)))
}

/// Why there is no storage; if a server has it, with what can be done all the same.
fn unavailable(settings: &Settings, error: MediaError) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    let server = is_in_use(&error).then(|| Serving::at(&sockets::beside(settings.file(), STATUS)));
    let Some(server) = server.flatten() else { return error };
    let process = server.process();
    if process.is_some_and(|id| u32::try_from(id) == Ok(std::process::id())) {
        // The socket is of this process, which is about to serve: whoever has the pool is named by the error itself.
        return error;
    }
    let file = settings.file().display();
    let who = process.map_or("a server".to_owned(), |id| format!("process {id}"));
    error.context(format!(
        "{who} serves this pool; `thermocline stat {file}` tells what it does, `thermocline volume ... {file}` changes \
         its volumes, and for all else it has to be stopped first"
    ))
}

fn opened<S: Storage>(
    driver: Driver<S>,
    config: Config,
    began: Instant,
    groups: Vec<(usize, Group)>,
) -> anyhow::Result<Opened<S>> {
    let took = began.elapsed();
    let replayed = driver.notices().iter().find_map(|notice| match notice {
        Notice::Open { chunks, entries } => Some((*chunks, *entries)),
        _ => None,
    });
    let replayed = replayed.expect("an open pool said so");
    Ok(Opened { driver, config, replayed, took, groups })
}

/// What is wrong if the fast devices are too small for the maps of volumes of these sizes in blocks.
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

/// What to do if they are.
pub const MORE_FAST: &str =
    "add a fast device (`thermocline device attach`), or make the volumes smaller";

/// Why an engine gave up writing though no device failed to do something.
pub const NO_UNIT: &str = "no unit is free, and none can be emptied";

/// What to do then.
pub const MORE_ROOM: &str =
    "attach another device (`thermocline device attach`), or delete a volume";

/// What there is to say of a pool without free units where `damaged` reads have met damaged blocks.
pub fn because_of_damage(damaged: u64) -> String {
    match damaged {
        0 => String::new(),
        reads => format!(
            ". {reads} reads have met damaged blocks, and units with such blocks cannot be collected: `thermocline volume \
             give-up POOL.toml NAME`, with the pool stopped, lists them by range, and lets their units come free"
        ),
    }
}

/// What to say when the device failed: also what it failed to do.
pub fn broken<S: Storage>(driver: &mut Driver<S>, error: HostError) -> Broken {
    Broken(match driver.take_troubles().pop() {
        Some(trouble) => format!("{error}: {trouble}"),
        None if error == HostError::Failed => {
            let damage = because_of_damage(driver.engine().stats().damaged_blocks);
            format!(
                "{NO_UNIT}: {MORE_ROOM}; until it is opened again the pool takes no writes{damage}"
            )
        }
        None => error.to_string(),
    })
}

impl<S: Storage> Opened<S> {
    /// The sizes of the volumes in blocks.
    pub fn sizes(&self) -> Vec<u64> {
        self.driver.engine().volumes().iter().map(|volume| volume.blocks).collect()
    }

    /// How much data the pool holds if all volumes are used, and no less than it has now.
    pub fn holds(&self) -> Bytes {
        Bytes(self.driver.engine().holds_blocks() * 4096)
    }

    /// The volume called `name`, or the only one.
    ///
    /// # Errors
    /// When there is none, or no name was given and there are several.
    pub fn volume(&self, name: Option<&str>) -> anyhow::Result<VolumeInfo> {
        let mut volumes = self.driver.engine().volumes();
        let names: Vec<String> =
            volumes.iter().map(|volume| format!("`{}`", volume.name)).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let Some(name) = name else {
            return match volumes.len() {
                1 => Ok(volumes.remove(0)),
                _ => Err(anyhow!("say which volume; there are {names}")),
            };
        };
        volumes
            .into_iter()
            .find(|volume| volume.name.as_str() == name)
            .ok_or_else(|| anyhow!("there is no volume `{name}`; there are {names}"))
    }

    /// Carries out one request.
    ///
    /// # Errors
    /// As it ends.
    pub fn carry_out(&mut self, what: HostRequest<Buffer>) -> anyhow::Result<Reply> {
        let driver = &mut self.driver;
        driver.carry_out(what).map_err(|error| match error {
            HostError::Failed | HostError::Unreadable(_) => broken(driver, error).into(),
            other => refusal(other),
        })
    }

    /// Closes the pool in order.
    ///
    /// # Errors
    /// When the device failed.
    pub fn close(mut self) -> anyhow::Result<()> {
        self.carry_out(HostRequest::Close).map(|_| ())
    }
}
