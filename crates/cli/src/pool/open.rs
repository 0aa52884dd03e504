//! Opening pools for commands: notes, and errors with remedies.

use std::path::Path;

use thermocline_engine::{HostError, HostRequest, OpenError, Reply};
use thermocline_runtime::opening::{self, OpeningError};
use thermocline_runtime::storage::{Overlay, Storage};
use thermocline_runtime::{
    AnyStorage, Buffer, DeviceChange, Driver, DriverError, MediaError, Settings,
};
use thermocline_serve::Serving;

use super::advice::{MORE_ROOM, NO_UNIT, because_of_damage, more_memory, note};
use super::{Broken, say};

pub use thermocline_runtime::opening::Opened;

/// As [`opening::on_trial`].
///
/// # Errors
/// As there, with a remedy.
pub fn on_trial(settings: &Settings) -> anyhow::Result<Opened<Overlay<AnyStorage>>> {
    opening::on_trial(settings).map_err(|error| advised(settings.file(), error))
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
    opened.map_err(|error| advised(settings.file(), error))
}

/// As [`opening::to_write`]. Notes go to standard error.
///
/// # Errors
/// As there, with a remedy.
pub fn to_write(settings: &Settings, despite_loss: bool) -> anyhow::Result<Opened<AnyStorage>> {
    let opened = opening::to_write(settings, despite_loss);
    let opened = opened.map_err(|error| advised(settings.file(), error))?;
    opened.notes.iter().for_each(|one| say(format_args!("{}", note(settings.file(), one))));
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
        error => advised(settings.file(), error),
    })
}

/// The error with its remedy.
pub fn advised(file: &Path, error: OpeningError) -> anyhow::Error {
    match error {
        OpeningError::Media(error) => unavailable(file, error),
        OpeningError::Settings(error) => error.into(),
        OpeningError::Driver(error) => refused(file, error),
        OpeningError::Memory(little) => anyhow::Error::msg(more_memory(&little)),
        OpeningError::Pool(error) => told(error.error, error.to_string()),
        OpeningError::Volume { volume, source } => {
            told(source.error, source.to_string()).context(format!("volume `{volume}`"))
        }
        error => error.into(),
    }
}

/// The error of a request; `Broken` if the device failed.
fn told(error: HostError, text: String) -> anyhow::Error {
    match error {
        HostError::Failed | HostError::Unreadable(_) => Broken(text).into(),
        other => other.into(),
    }
}

/// The error of a failed open, with a remedy if flushed data is lost.
fn refused(file: &Path, error: DriverError) -> anyhow::Error {
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
        file.display()
    ))
}

/// Whether another process has the pool open.
pub fn is_in_use(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(MediaError::is_in_use)
}

/// The error of unavailable storage. If a server has the pool, the error lists the commands that work meanwhile.
fn unavailable(file: &Path, error: MediaError) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    let server = is_in_use(&error).then(|| Serving::of(file));
    let Some(server) = server.flatten() else { return error };
    let process = server.process();
    if process.is_some_and(|id| u32::try_from(id) == Ok(std::process::id())) {
        // This process owns the socket and is about to serve. The error itself names the process with the pool.
        return error;
    }
    let file = file.display();
    let who = process.map_or("a server".to_owned(), |id| format!("process {id}"));
    error.context(format!(
        "{who} serves this pool; `thermocline stat {file}` tells what it does, `thermocline volume ... {file}` changes \
         its volumes, `scrub`, `check` and `inspect` ask it; for all else it has to be stopped first"
    ))
}

/// The error of a failed device, with the device command that failed.
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
    /// When the request fails, with a remedy.
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
            other => other.into(),
        })
    }

    fn close(mut self) -> anyhow::Result<()> {
        self.ask(HostRequest::Close).map(|_| ())
    }
}
