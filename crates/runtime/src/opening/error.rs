//! Reasons why a pool does not open, or a request to an open pool fails.

use std::fmt;
use std::path::PathBuf;

use thermocline_engine::HostError;

use super::LittleMemory;
use crate::{DriverError, MediaError, SettingsError, Trouble};

/// Why a pool does not open, or cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpeningError {
    /// The devices cannot be used.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The settings contradict the devices.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The engine does not open the pool.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The settings give maps and placement too little memory.
    #[error(transparent)]
    Memory(#[from] LittleMemory),
    /// A volume of the settings cannot be made.
    #[error("volume `{volume}`")]
    Volume {
        /// Its name.
        volume: String,
        /// Reason.
        source: CarryOutError,
    },
    /// The device is not part of the pool.
    #[error("{} is no device of the pool", path.display())]
    NoDevice {
        /// The device.
        path: PathBuf,
    },
    /// An opened pool failed.
    #[error(transparent)]
    Pool(#[from] CarryOutError),
}

/// A request to an open pool that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarryOutError {
    /// Reason of the engine.
    pub error: HostError,
    /// The command that the device refused.
    pub trouble: Option<Trouble>,
}

impl fmt::Display for CarryOutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trouble {
            Some(trouble) => write!(f, "{}: {trouble}", self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for CarryOutError {}

/// No volume has the name, or no name was given and the pool has not exactly one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeChoiceError {
    /// The given name, if any.
    pub name: Option<String>,
    /// The names of all volumes.
    pub volumes: Vec<String>,
}

impl fmt::Display for VolumeChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "there is no volume `{name}`; there are ")?,
            None => f.write_str("say which volume; there are ")?,
        }
        if self.volumes.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<String> = self.volumes.iter().map(|name| format!("`{name}`")).collect();
        f.write_str(&names.join(", "))
    }
}

impl std::error::Error for VolumeChoiceError {}
