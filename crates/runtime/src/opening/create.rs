//! A new pool.

use std::fmt;
use std::path::{Path, PathBuf};

use thermocline_engine::{Config, HostRequest, Reply};
use thermocline_format::PoolId;
use thermocline_types::Bytes;

use super::{CarryOutError, Opened, OpeningError};
use crate::storage::Storage;
use crate::{AnyStorage, Buffer, Driver, Settings};

/// Makes the pool `pool` with the volumes of the settings, and overwrites the data on the devices. A new file is
/// removed again if that fails.
///
/// # Errors
/// [`OpeningError`].
pub fn create(settings: &Settings, pool: PoolId) -> Result<Opened<AnyStorage>, OpeningError> {
    let paths = settings.devices.iter().map(|device| &device.path);
    let made: Vec<NewFile> = paths.map(|path| NewFile::unless_there(path)).collect();
    let media = settings.new_media(pool)?;
    let config = settings.config(media.geometry)?;
    let volumes = settings.volume_sizes(&config)?;
    settings.enough_memory(&config, volumes.iter().map(|(_, blocks)| *blocks))?;
    let began = std::time::Instant::now();
    let driver = Driver::format(config.clone(), pool, media.storage)?;
    let mut opened = Opened::new(driver, config, began, media.groups);
    for ((name, blocks), stated) in volumes.into_iter().zip(&settings.volumes) {
        let volume = name.to_string();
        let failed = |source| OpeningError::Volume { volume: volume.clone(), source };
        let create = HostRequest::CreateVolume { name, blocks };
        let made = opened.carry_out(create).map_err(failed)?;
        if let (Reply::Created(volume), Some(media)) = (made, stated.media) {
            opened.carry_out(HostRequest::SetMedia { volume, media }).map_err(failed)?;
        }
    }
    made.into_iter().for_each(NewFile::keep);
    Ok(opened)
}

impl<S: Storage> Opened<S> {
    /// Carries out one request.
    ///
    /// # Errors
    /// [`CarryOutError`], with the refusal of the device if there was one.
    pub fn carry_out(&mut self, what: HostRequest<Buffer>) -> Result<Reply, CarryOutError> {
        let done = self.driver.carry_out(what);
        done.map_err(|error| CarryOutError { error, trouble: self.driver.take_troubles().pop() })
    }
}

impl Settings {
    /// Checks that the memory in the settings is enough for the maps of `volumes`, sizes in blocks, and for the
    /// placement.
    ///
    /// # Errors
    /// [`LittleMemory`].
    pub fn enough_memory(
        &self,
        config: &Config,
        volumes: impl Iterator<Item = u64>,
    ) -> Result<(), LittleMemory> {
        /// Placements that remember less, from the best to the least.
        const SMALLER: [&str; 4] = ["auto:4", "auto:16", "auto:64", "sepgc"];
        let Some(memory) = self.pool.engine.memory else { return Ok(()) };
        let maps = config.least_map_memory(volumes);
        let needed = |config: &Config| maps + config.most_placement_memory();
        if needed(config) <= memory.0 {
            return Ok(());
        }
        let fits = |name: &&&str| {
            let placement = name.parse().expect("it is listed");
            needed(&Config { placement, ..config.clone() }) <= memory.0
        };
        Err(LittleMemory {
            memory,
            needed: Bytes(needed(config)),
            for_placement: Bytes(config.most_placement_memory()),
            placement: config.placement.to_string(),
            smaller: SMALLER.iter().find(fits).copied(),
        })
    }
}

/// The memory in the settings is too little for maps and placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LittleMemory {
    /// Memory in the settings.
    pub memory: Bytes,
    /// Memory that the pool needs.
    pub needed: Bytes,
    /// The part of it for the placement.
    pub for_placement: Bytes,
    /// The name of the placement.
    pub placement: String,
    /// The best placement that the memory is enough for.
    pub smaller: Option<&'static str>,
}

impl fmt::Display for LittleMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LittleMemory { memory, needed, for_placement, placement, .. } = self;
        write!(
            f,
            "pool.memory is {memory}, and this pool needs up to {needed} at least: {for_placement} for placement \
             `{placement}`, the rest for maps"
        )
    }
}

impl std::error::Error for LittleMemory {}

/// A file made by this process. Dropping the guard removes the file.
struct NewFile(Option<PathBuf>);

impl NewFile {
    fn unless_there(path: &Path) -> NewFile {
        NewFile((!path.exists()).then(|| path.to_owned()))
    }

    /// Leaves the file.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The file may not have been made yet.
            let _none = std::fs::remove_file(path);
        }
    }
}
