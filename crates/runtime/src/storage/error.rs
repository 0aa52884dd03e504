//! Why a storage did not open, and what errors of the system mean to the engine.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thermocline_engine::DeviceError;

use super::Holder;

/// Why a storage did not open.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct OpenError {
    path: PathBuf,
    kind: OpenErrorKind,
    source: Option<io::Error>,
}

/// Reason of the failed opening.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenErrorKind {
    /// The system refused.
    #[error("cannot be opened")]
    System,
    /// The file or device is in use.
    #[error("is in use{}", .0.as_ref().map(|holder| format!(": {holder}")).unwrap_or_default())]
    InUse(Option<Holder>),
    /// It is neither a regular file nor a block device.
    #[error("it is neither a regular file nor a block device")]
    NoStorage,
    /// What is in it cannot be read from media.
    #[error("what was written to it earlier cannot be made durable, or read from media")]
    Cached,
    /// The file or device is smaller than what it should hold.
    #[error("has {has} bytes; {needed} are needed: it was truncated, or is another one")]
    TooSmall {
        /// Its size.
        has: u64,
        /// The size of all units.
        needed: u64,
    },
    /// The device cannot transfer logical blocks of this size.
    #[error("has logical blocks of {has} bytes; {wanted} were asked for")]
    LogicalBlock {
        /// Units of the device.
        has: u32,
        /// Units of the layout.
        wanted: u32,
    },
    /// The device is divided in a way that the format cannot describe.
    #[error("{0}")]
    Zones(&'static str),
}

impl OpenError {
    pub(super) fn new(path: &Path, kind: OpenErrorKind) -> Self {
        OpenError { path: path.to_owned(), kind, source: None }
    }

    pub(super) fn caused(path: &Path, kind: OpenErrorKind, source: io::Error) -> Self {
        OpenError { path: path.to_owned(), kind, source: Some(source) }
    }

    pub(super) fn system(path: &Path, source: impl Into<io::Error>) -> Self {
        let (kind, source) = (OpenErrorKind::System, Some(source.into()));
        OpenError { path: path.to_owned(), kind, source }
    }

    /// The file or device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reason of the failed opening.
    #[must_use]
    pub fn kind(&self) -> &OpenErrorKind {
        &self.kind
    }
}

/// Failure of a command: the engine's error and the system's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// To the engine.
    pub error: DeviceError,
    /// The system's error; `None` without a system call, as for a refusal by a simulated drive.
    pub errno: Option<Errno>,
}

impl From<DeviceError> for Fault {
    fn from(error: DeviceError) -> Fault {
        Fault { error, errno: None }
    }
}

impl From<thermocline_array::Fault> for Fault {
    fn from(fault: thermocline_array::Fault) -> Fault {
        let errno = fault.errno.map(Errno::from_raw_os_error);
        Fault { error: fault.error, errno }
    }
}

impl From<Fault> for thermocline_array::Fault {
    fn from(fault: Fault) -> thermocline_array::Fault {
        let errno = fault.errno.map(Errno::raw_os_error);
        thermocline_array::Fault { error: fault.error, errno }
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        let error = match errno {
            Errno::NODEV | Errno::NXIO | Errno::STALE => DeviceError::Gone,
            Errno::ROFS | Errno::PERM => DeviceError::ReadOnly,
            _ => DeviceError::Io,
        };
        Fault { error, errno: Some(errno) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            Some(Errno::STALE) => {
                f.write_str("the file was removed or cut off while it was in use")
            }
            Some(Errno::TIMEDOUT) => f.write_str("it has not ended a command in time"),
            Some(errno) => io::Error::from(errno).fmt(f),
            None => self.error.fmt(f),
        }
    }
}
