//! Errors of pools and volumes.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thermocline_engine::{HostError, OpenError};
use thermocline_runtime::opening::OpeningError;
use thermocline_runtime::{DriverError, MediaError};
use thermocline_target::TargetError;

/// Class of an error. Callers can act on each class in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The settings cannot be read, contradict themselves, or contradict the devices.
    Settings,
    /// The devices hold no pool.
    NoPool,
    /// The devices of a new pool hold data.
    Occupied,
    /// Another process has the pool open.
    InUse,
    /// A device of the pool is missing, or cannot be used as it is.
    Device,
    /// The pool is damaged: flushed data is missing, or its structures cannot be read.
    Damaged,
    /// The pool has no such volume, or the volume was deleted.
    NoVolume,
    /// The name cannot be that of a new volume, or a volume has it.
    Name,
    /// The range ends beyond the volume.
    OutOfRange,
    /// The pool has no room, or too little memory for its maps.
    NoSpace,
    /// A device failed a transfer, or a block cannot be read.
    Io,
    /// The pool is closed, or the volume was deleted.
    Closed,
    /// The pool cannot do this.
    Unsupported,
}

impl ErrorKind {
    /// The kind in a few words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            ErrorKind::Settings => "the settings cannot be used",
            ErrorKind::NoPool => "there is no pool",
            ErrorKind::Occupied => "the device holds data",
            ErrorKind::InUse => "another process has the pool open",
            ErrorKind::Device => "a device cannot be used",
            ErrorKind::Damaged => "the pool is damaged",
            ErrorKind::NoVolume => "there is no such volume",
            ErrorKind::Name => "the name cannot be used",
            ErrorKind::OutOfRange => "the range ends beyond the volume",
            ErrorKind::NoSpace => "the pool is full",
            ErrorKind::Io => "input/output error",
            ErrorKind::Closed => "the pool is closed, or the volume was deleted",
            ErrorKind::Unsupported => "the pool does not support this",
        }
    }
}

/// Why an operation on a pool or volume failed: a kind, and the facts that are known.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    path: Option<PathBuf>,
    volume: Option<String>,
    offset: Option<u64>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Error {
        Error { kind, path: None, volume: None, offset: None, source: None }
    }

    pub(crate) fn caused(
        kind: ErrorKind,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        Error { source: Some(source.into()), ..Error::new(kind) }
    }

    pub(crate) fn at(self, path: &Path) -> Error {
        Error { path: self.path.or_else(|| Some(path.to_owned())), ..self }
    }

    pub(crate) fn of_volume(self, name: &str) -> Error {
        Error { volume: Some(name.to_owned()), ..self }
    }

    pub(crate) fn at_byte(self, offset: u64) -> Error {
        Error { offset: Some(offset), ..self }
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The settings file, file or device that the error is about.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The volume that the error is about.
    #[must_use]
    pub fn volume(&self) -> Option<&str> {
        self.volume.as_deref()
    }

    /// The first byte of the failed range in the volume.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(volume) = &self.volume {
            write!(f, "volume `{volume}`: ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "byte {offset}: ")?;
        }
        f.write_str(self.kind.text())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind {
            ErrorKind::NoPool | ErrorKind::NoVolume => io::ErrorKind::NotFound,
            ErrorKind::Occupied => io::ErrorKind::AlreadyExists,
            ErrorKind::InUse => io::ErrorKind::ResourceBusy,
            ErrorKind::Settings | ErrorKind::Name | ErrorKind::OutOfRange => {
                io::ErrorKind::InvalidInput
            }
            ErrorKind::Damaged => io::ErrorKind::InvalidData,
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl From<OpeningError> for Error {
    fn from(error: OpeningError) -> Error {
        let (kind, path) = match &error {
            OpeningError::Media(media) => (of_media(media), media.path()),
            OpeningError::Driver(driver) => (of_driver(driver), None),
            OpeningError::Volume { source, .. } => (of_host(source.error), None),
            OpeningError::Pool(failed) => (of_host(failed.error), None),
            OpeningError::NoDevice { path } => (ErrorKind::Device, Some(path.as_path())),
            _ => (ErrorKind::Settings, None),
        };
        let path = path.map(Path::to_owned);
        Error { path, ..Error::caused(kind, error) }
    }
}

fn of_media(error: &MediaError) -> ErrorKind {
    match error {
        MediaError::Settings(_) => ErrorKind::Settings,
        MediaError::NoPool { .. } => ErrorKind::NoPool,
        MediaError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            ErrorKind::NoPool
        }
        MediaError::Superblock { .. } => ErrorKind::Damaged,
        error if error.is_in_use() => ErrorKind::InUse,
        _ => ErrorKind::Device,
    }
}

fn of_driver(error: &DriverError) -> ErrorKind {
    match error {
        DriverError::Config(_) => ErrorKind::Settings,
        DriverError::Open(OpenError::NoPool) => ErrorKind::NoPool,
        DriverError::Open(OpenError::NoRoom { .. } | OpenError::NoFreeUnit) => ErrorKind::NoSpace,
        DriverError::Open(OpenError::DeviceMissing(_) | OpenError::DeviceOlder(_)) => {
            ErrorKind::Device
        }
        DriverError::Open(_) => ErrorKind::Damaged,
        _ => ErrorKind::Io,
    }
}

/// The kind of an error of the engine.
pub(crate) fn of_host(error: HostError) -> ErrorKind {
    match error {
        HostError::NoVolume(_) => ErrorKind::NoVolume,
        HostError::OutOfRange => ErrorKind::OutOfRange,
        HostError::NameTaken | HostError::LongName => ErrorKind::Name,
        HostError::NoSpace
        | HostError::NothingToReserve { .. }
        | HostError::NoMemory { .. }
        | HostError::TooManyVolumes
        | HostError::TooManySnapshots
        | HostError::VolumeTooLarge
        | HostError::TooManyRoots { .. } => ErrorKind::NoSpace,
        HostError::NoFastDevice
        | HostError::ReadOnly
        | HostError::NoSnapshot
        | HostError::HasSnapshots => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}

/// The kind of an error of a block target.
pub(crate) fn of_target(error: TargetError) -> ErrorKind {
    match error {
        TargetError::OutOfBounds => ErrorKind::OutOfRange,
        TargetError::NoSpace => ErrorKind::NoSpace,
        TargetError::Gone => ErrorKind::Closed,
        TargetError::Unsupported | TargetError::Misaligned => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}
