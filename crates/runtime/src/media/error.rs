//! Reasons why the storage of a pool cannot be used.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thermocline_format::{DecodeError, ErrorKind as DecodeKind, PoolId, RaidLevel};

use super::RaidRefusal;
use crate::Remedy;
use crate::settings::SettingsError;
use crate::storage::{Fault, OpenError, OpenErrorKind};

/// Why a storage cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The settings are wrong for this device.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The storage did not open.
    #[error(transparent)]
    Storage(#[from] OpenError),
    /// The file or device cannot be looked at.
    #[error("{} cannot be read", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file or device of an open pool cannot be opened again.
    #[error("{}: the pool cannot be opened again, so it was not closed", path.display())]
    Reopen {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The path of an open pool leads to another file or device.
    #[error(
        "{}: the file or device that the pool was opened on is not at this path any more, so the pool was not closed: \
         put it back, or stop the service and name its new path in the settings",
        path.display()
    )]
    Replaced {
        /// Where it was.
        path: PathBuf,
    },
    /// The superblock found is not usable by this program.
    #[error("{}: the pool here cannot be opened: {error}", path.display())]
    Superblock {
        /// Where.
        path: PathBuf,
        /// Error of the superblock.
        error: DecodeError,
    },
    /// A device is of another pool than the first.
    #[error("{}: this is of the pool {pool}, and {} of the pool {first}", path.display(), other.display())]
    OtherPool {
        /// Where.
        path: PathBuf,
        /// Its pool.
        pool: PoolId,
        /// The first device.
        other: PathBuf,
        /// The pool of that.
        first: PoolId,
    },
    /// Two are the same device of the pool.
    #[error("{} and {} are copies of one device of the pool; name only the newer one", path.display(), other.display())]
    SameDevice {
        /// The one.
        path: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// A device of the pool is not named.
    #[error(
        "the pool has {of} devices, and its device {number}, which is {}, is none of those named: give its path in a \
         [[device]]",
        if *fast { "a fast one" } else { "one for capacity" }
    )]
    NotNamed {
        /// Its number, from 0 on.
        number: usize,
        /// Devices of the pool.
        of: usize,
        /// Whether the device is fast.
        fast: bool,
    },
    /// The members of a group cannot be used as they are.
    #[error("{0}")]
    Raid(Box<RaidRefusal>),
    /// A side or member takes no label.
    #[error("{}: no label can be written: {fault}", path.display())]
    Label {
        /// Where.
        path: PathBuf,
        /// Why not.
        fault: Fault,
    },
    /// A member of a group is named as a device of its own.
    #[error(
        "{}: this is one {}",
        path.display(),
        if level.copies() {
            "side of a mirrored pair, and would be newer than the other one; name both, each with the same `mirror`"
        } else {
            "member of a striped group; name all of them, each with the same `raid5`, or `raid0`"
        }
    )]
    OneOfGroup {
        /// Where.
        path: PathBuf,
        /// Redundancy of the group.
        level: RaidLevel,
    },
    /// The path is no member of a group.
    #[error(
        "{} is no member of a group in the settings: set it as the path of one of the [[device]] with the same `mirror` or \
         `raid5` first",
        path.display()
    )]
    NoSide {
        /// Where.
        path: PathBuf,
    },
    /// A pair has both its sides.
    #[error("{why}")]
    NoVacancy {
        /// Which ones.
        why: String,
    },
    /// A device is not one of the pool's.
    #[error("{}: this is no device of the pool yet", path.display())]
    NotAttached {
        /// Where.
        path: PathBuf,
    },
    /// A device cannot be attached, drained or detached.
    #[error("{}: {why}", path.display())]
    NoChange {
        /// Where.
        path: PathBuf,
        /// Why not.
        why: String,
        /// The step that makes the change possible.
        remedy: Option<Remedy>,
    },
    /// The device with the records that count is not the one that was last used.
    #[error(
        "{}: this is an older copy of the device that has the superblocks of the pool: other devices were used without it. \
         Bring the newer one back", path.display()
    )]
    OlderHome {
        /// Where.
        path: PathBuf,
    },
    /// A device is none of the pool's any more.
    #[error("{}: this device has left the pool: take it out of the settings", path.display())]
    HasLeft {
        /// Where.
        path: PathBuf,
    },
    /// The fast device of a pool that is there is not.
    #[error(
        "{why}. It is the fast device of the pool, and has the maps of all volumes and what was not destaged: without it \
         nothing of the pool can be read, whatever the other devices hold. Bring it back; if it is lost, so is the pool, and \
         a backup is all there is. Fast devices with `mirror` have a second copy"
    )]
    NoFast {
        /// Reason why the device was not found.
        why: Box<MediaError>,
    },
    /// A device for capacity is missing.
    #[error("{why}")]
    NoCapacity {
        /// Path of the device in the settings.
        path: PathBuf,
        /// Reason why the device was not found.
        why: Box<MediaError>,
    },
    /// No pool was found.
    #[error(
        "{}: there is no pool here. If there should be one, check the path: a device that has left its pool holds none, and \
         the others go on without it", path.display()
    )]
    NoPool {
        /// Where.
        path: PathBuf,
    },
}

impl MediaError {
    /// The step that resolves the error, if any.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            MediaError::NotAttached { path } => Some(Remedy::Attach { path: path.clone() }),
            MediaError::NoCapacity { path, .. } => Some(Remedy::Lose { path: path.clone() }),
            MediaError::NoChange { remedy, .. } => remedy.clone(),
            MediaError::NoPool { .. } => Some(Remedy::Format),
            MediaError::Raid(refusal) => refusal.remedy(),
            MediaError::Superblock { error, .. } => match error.kind {
                DecodeKind::NewerVersion { .. } => Some(Remedy::NewerProgram),
                DecodeKind::OlderVersion { .. } => Some(Remedy::OlderProgram),
                _ => None,
            },
            _ => None,
        }
    }

    /// A device at `path` cannot be changed.
    pub(super) fn no_change(path: &Path, why: impl Into<String>) -> MediaError {
        MediaError::NoChange { path: path.to_owned(), why: why.into(), remedy: None }
    }

    /// A device at `path` cannot be changed before `remedy`.
    pub(super) fn no_change_before(
        path: &Path,
        why: impl Into<String>,
        remedy: Remedy,
    ) -> MediaError {
        MediaError::NoChange { path: path.to_owned(), why: why.into(), remedy: Some(remedy) }
    }

    /// Whether the device holds no pool, or the file is missing.
    pub(super) fn is_blank(&self) -> bool {
        match self {
            MediaError::NoPool { .. } => true,
            MediaError::Read { source, .. } => source.kind() == ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Whether another process has the device open.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        matches!(self, MediaError::Storage(error) if matches!(error.kind(), OpenErrorKind::InUse(_)))
    }

    /// The device, where one is the reason.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            MediaError::Storage(error) => Some(error.path()),
            MediaError::NoFast { why } => why.path(),
            MediaError::Read { path, .. }
            | MediaError::Reopen { path, .. }
            | MediaError::Replaced { path }
            | MediaError::Superblock { path, .. }
            | MediaError::OtherPool { path, .. }
            | MediaError::SameDevice { path, .. }
            | MediaError::Label { path, .. }
            | MediaError::OneOfGroup { path, .. }
            | MediaError::NoSide { path }
            | MediaError::NotAttached { path }
            | MediaError::NoChange { path, .. }
            | MediaError::OlderHome { path }
            | MediaError::HasLeft { path }
            | MediaError::NoCapacity { path, .. }
            | MediaError::NoPool { path } => Some(path),
            MediaError::Settings(_)
            | MediaError::NotNamed { .. }
            | MediaError::Raid(_)
            | MediaError::NoVacancy { .. } => None,
        }
    }
}
