//! Opening pools for commands: notes, and errors with remedies.

use std::path::Path;

use thermocline_engine::{Config, HostError, HostRequest, OpenError, Reply};
use thermocline_runtime::opening::{self, LittleMemory, OpeningError, OpeningNote};
use thermocline_runtime::storage::{Overlay, Storage};
use thermocline_runtime::{
    AnyStorage, Buffer, DeviceChange, Driver, DriverError, MediaError, Settings,
};
use thermocline_types::Bytes;

use super::serve::control::Serving;
use super::serve::{STATUS, sockets};
use super::{Broken, refusal, say};

pub use thermocline_runtime::opening::Opened;

/// As [`opening::on_trial`].
///
/// # Errors
/// As there, with a remedy.
pub fn on_trial(settings: &Settings) -> anyhow::Result<Opened<Overlay<AnyStorage>>> {
    opening::on_trial(settings).map_err(|error| advised(settings, error))
}

/// As [`opening::without_on_trial`].
///
/// # Errors
/// As there, with a remedy.
pub fn without_on_trial(
    settings: &Settings,
    path: &Path,
    despite_loss: bool,
) -> anyhow::Result<Opened<Overlay<AnyStorage>>> {
    let opened = opening::without_on_trial(settings, path, despite_loss);
    opened.map_err(|error| advised(settings, error))
}

/// As [`opening::to_read`].
///
/// # Errors
/// As there, with a remedy.
pub fn to_read(settings: &Settings) -> anyhow::Result<Opened<AnyStorage>> {
    opening::to_read(settings).map_err(|error| advised(settings, error))
}

/// As [`opening::to_write`]. Notes go to standard error.
///
/// # Errors
/// As there, with a remedy.
pub fn to_write(settings: &Settings, despite_loss: bool) -> anyhow::Result<Opened<AnyStorage>> {
    let opened = opening::to_write(settings, despite_loss);
    let opened = opened.map_err(|error| advised(settings, error))?;
    opened.notes.iter().for_each(|one| say(format_args!("{}", note(settings, one))));
    Ok(opened)
}

/// As [`opening::to_change`].
///
/// # Errors
/// As there, with a remedy.
pub fn to_change(
    settings: &Settings,
    path: &Path,
    change: DeviceChange,
    despite_loss: bool,
) -> anyhow::Result<Opened<AnyStorage>> {
    let opened = opening::to_change(settings, path, change, despite_loss);
    opened.map_err(|error| match error {
        OpeningError::Driver(error) => error.into(),
        error => advised(settings, error),
    })
}

/// A note with what can be done about it.
fn note(settings: &Settings, note: &OpeningNote) -> String {
    let file = settings.file().display();
    let remedy = match note {
        OpeningNote::UnusedDevice { path } => return unused_device(settings, path),
        OpeningNote::OtherSize { path, stated, used } if stated > used => {
            format!("; `thermocline device grow {file} {}` uses more of it", path.display())
        }
        OpeningNote::OtherSize { .. } => {
            "; state that size: a device does not become smaller".to_owned()
        }
        OpeningNote::NoSuchVolume { .. } => String::new(),
        OpeningNote::ReserveTooLarge { .. } => {
            ": no other volume can take new room until there is more".to_owned()
        }
    };
    format!("{note}{remedy}")
}

/// What there is to say of a device that the settings name and the pool does not use.
pub fn unused_device(settings: &Settings, path: &Path) -> String {
    let note = OpeningNote::UnusedDevice { path: path.to_owned() };
    let (file, path) = (settings.file().display(), path.display());
    format!(
        "{note}: `thermocline device attach {file} {path}` adds it, or take it out of the settings"
    )
}

/// The error with what can be done about it.
pub fn advised(settings: &Settings, error: OpeningError) -> anyhow::Error {
    match error {
        OpeningError::Media(error) => unavailable(settings, error),
        OpeningError::Settings(error) => error.into(),
        OpeningError::Driver(error) => refused(settings, error),
        OpeningError::Memory(little) => anyhow::Error::msg(more_memory(&little)),
        OpeningError::Pool(error) => told(error.error, error.to_string()),
        OpeningError::Volume { volume, source } => {
            told(source.error, source.to_string()).context(format!("volume `{volume}`"))
        }
        error => error.into(),
    }
}

/// The error of a request, of which the device may have been the reason.
fn told(error: HostError, text: String) -> anyhow::Error {
    match error {
        HostError::Failed | HostError::Unreadable(_) => Broken(text).into(),
        other => refusal(other),
    }
}

/// Too little memory, and what to set instead.
pub fn more_memory(little: &LittleMemory) -> String {
    let smaller =
        little.smaller.map_or(String::new(), |name| format!(", or set placement = \"{name}\""));
    format!("{little}. Raise pool.memory{smaller}")
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

/// Whether a pool was not opened because somebody else has it open.
pub fn is_in_use(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(MediaError::is_in_use)
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

/// Requests to an open pool, with remedies in their errors.
pub trait Advised {
    /// Carries out one request.
    ///
    /// # Errors
    /// As it ends, with a remedy.
    fn ask(&mut self, what: HostRequest<Buffer>) -> anyhow::Result<Reply>;

    /// Closes the pool in order.
    ///
    /// # Errors
    /// When the device failed.
    fn close(self) -> anyhow::Result<()>;
}

impl<S: Storage> Advised for Opened<S> {
    fn ask(&mut self, what: HostRequest<Buffer>) -> anyhow::Result<Reply> {
        let driver = &mut self.driver;
        driver.carry_out(what).map_err(|error| match error {
            HostError::Failed | HostError::Unreadable(_) => broken(driver, error).into(),
            other => refusal(other),
        })
    }

    fn close(mut self) -> anyhow::Result<()> {
        self.ask(HostRequest::Close).map(|_| ())
    }
}
