//! Pools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermocline_format::VolumeName;
use thermocline_runtime::opening::{self, Opened};
use thermocline_runtime::{
    self as runtime, AnyStorage, Contents, Event, Settings, Trouble, new_pool_id,
};
use thermocline_target::Granular;
use thermocline_types::Bytes;

use crate::error::of_host;
use crate::{Error, ErrorKind, Volume};

/// The last refusal of a device.
pub(crate) type LastTrouble = Arc<Mutex<Option<Trouble>>>;

/// An open pool. Dropping the pool closes it in order.
///
/// `thermocline format --example` prints an example of the settings file.
#[derive(Debug)]
pub struct Pool {
    inner: runtime::Pool,
    path: PathBuf,
    trouble: LastTrouble,
    notes: Vec<String>,
    /// Handles that were given out: those of one volume share the order of their changes.
    handles: Mutex<BTreeMap<String, Volume>>,
}

impl Pool {
    /// Opens the pool of the settings file at `path`, and recovers it if it was not closed in order.
    ///
    /// # Errors
    /// [`ErrorKind::Settings`], [`ErrorKind::NoPool`], [`ErrorKind::InUse`], [`ErrorKind::Device`],
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Pool, Error> {
        let path = path.as_ref();
        let settings = load(path)?;
        let opened = opening::to_write(&settings, false).map_err(Error::from);
        Pool::start(path, &settings, opened.map_err(|error| error.at(path))?)
    }

    /// Makes the pool of the settings file at `path`, with the volumes that the file states, and opens it. Files are
    /// made if need be.
    ///
    /// # Errors
    /// As [`Pool::open`]; [`ErrorKind::Occupied`] if a file or device holds data.
    pub fn create(path: impl AsRef<Path>) -> Result<Pool, Error> {
        let path = path.as_ref();
        let settings = load(path)?;
        for one in settings.each_device() {
            let device = &one.device().path;
            let kind_at =
                |error: runtime::MediaError| Error::from(opening::OpeningError::from(error));
            if device.exists() && one.contents().map_err(kind_at)? != Contents::Nothing {
                return Err(Error::new(ErrorKind::Occupied).at(device));
            }
        }
        let id = new_pool_id().map_err(|error| Error::caused(ErrorKind::Io, error).at(path))?;
        let opened = opening::create(&settings, id).map_err(Error::from);
        Pool::start(path, &settings, opened.map_err(|error| error.at(path))?)
    }

    fn start(path: &Path, settings: &Settings, opened: Opened<AnyStorage>) -> Result<Pool, Error> {
        let trouble = LastTrouble::default();
        let last = Arc::clone(&trouble);
        let listener = Box::new(move |event| {
            if let Event::Trouble(now) = event {
                *locked(&last) = Some(now);
            }
        });
        let notes = opened.notes.iter().map(ToString::to_string).collect();
        let inner = runtime::Pool::start_with(opened.driver, listener, &settings.upkeep());
        let inner = inner.map_err(|error| Error::caused(ErrorKind::Io, error).at(path))?;
        settings.set_limits(&inner);
        let handles = Mutex::default();
        Ok(Pool { inner, path: path.to_owned(), trouble, notes, handles })
    }

    /// Differences between the settings and the pool, as sentences.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Names of all volumes, the oldest first.
    #[must_use]
    pub fn volumes(&self) -> Vec<String> {
        self.inner.volume_names().iter().map(ToString::to_string).collect()
    }

    /// The volume called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::NoVolume`].
    pub fn volume(&self, name: &str) -> Result<Volume, Error> {
        let mut handles = locked(&self.handles);
        if let Some(volume) = handles.get(name) {
            return Ok(volume.clone());
        }
        let found = self.inner.volume(name);
        let found = found.ok_or_else(|| self.error(ErrorKind::NoVolume).of_volume(name))?;
        let volume = Volume::new(name, Granular::new(found, Bytes(1)), Arc::clone(&self.trouble));
        handles.insert(name.to_owned(), volume.clone());
        Ok(volume)
    }

    /// Makes a volume of `bytes` bytes, a multiple of 4096; durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Name`], [`ErrorKind::OutOfRange`] for another size, [`ErrorKind::NoSpace`], [`ErrorKind::Io`].
    pub fn create_volume(&self, name: &str, bytes: u64) -> Result<Volume, Error> {
        let new = VolumeName::for_new(name);
        let new = new.map_err(|error| {
            Error::caused(ErrorKind::Name, error).at(&self.path).of_volume(name)
        })?;
        let blocks = self.blocks(name, bytes)?;
        self.inner.create_volume(new, blocks).map_err(|error| self.host(name, error))?;
        self.volume(name)
    }

    /// Gives a volume `bytes` bytes, a multiple of 4096; durable when this returns. Data beyond the new size is lost.
    ///
    /// # Errors
    /// [`ErrorKind::NoVolume`], [`ErrorKind::OutOfRange`] for another size, [`ErrorKind::NoSpace`], [`ErrorKind::Io`].
    pub fn resize_volume(&self, name: &str, bytes: u64) -> Result<(), Error> {
        let id = self.found(name)?.id();
        let blocks = self.blocks(name, bytes)?;
        self.inner.resize_volume(id, blocks).map_err(|error| self.host(name, error))
    }

    /// Deletes a volume and its data; durable when this returns. Its handles refuse everything from then on.
    ///
    /// # Errors
    /// [`ErrorKind::NoVolume`], [`ErrorKind::Io`].
    pub fn delete_volume(&self, name: &str) -> Result<(), Error> {
        let id = self.found(name)?.id();
        locked(&self.handles).remove(name);
        self.inner.delete_volume(id).map_err(|error| self.host(name, error))
    }

    /// Closes the pool in order: all writes are durable, and the next opening has nothing to recover.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the device failed.
    pub fn close(self) -> Result<(), Error> {
        let Pool { inner, path, trouble, .. } = self;
        inner.close().map_err(|error| failed(of_host(error), error, &trouble).at(&path))
    }

    fn found(&self, name: &str) -> Result<runtime::Volume, Error> {
        let found = self.inner.volume(name);
        found.ok_or_else(|| self.error(ErrorKind::NoVolume).of_volume(name))
    }

    fn blocks(&self, name: &str, bytes: u64) -> Result<u64, Error> {
        let whole = bytes > 0 && bytes.is_multiple_of(Bytes::BLOCK.0);
        whole.then_some(bytes / Bytes::BLOCK.0).ok_or_else(|| {
            let text = format!("{bytes} bytes are no multiple of {}", Bytes::BLOCK.0);
            Error::caused(ErrorKind::OutOfRange, text).at(&self.path).of_volume(name)
        })
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind).at(&self.path)
    }

    fn host(&self, name: &str, error: thermocline_engine::HostError) -> Error {
        failed(of_host(error), error, &self.trouble).at(&self.path).of_volume(name)
    }
}

fn load(path: &Path) -> Result<Settings, Error> {
    Settings::load(path).map_err(|error| Error::caused(ErrorKind::Settings, error).at(path))
}

/// An error with the refusal of the device as its source, if there was one.
pub(crate) fn failed(
    kind: ErrorKind,
    source: impl std::error::Error + Send + Sync + 'static,
    trouble: &LastTrouble,
) -> Error {
    match *locked(trouble) {
        Some(trouble) if kind == ErrorKind::Io => Error::caused(kind, trouble.to_string()),
        _ => Error::caused(kind, source),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No foreign code runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
