//! Why a run could not be made.

use std::path::PathBuf;

use thermocline_nand::{DriveError, ProfileError};
use thermocline_record::ReadError;
use thermocline_workload::remap::MapError;
use thermocline_workload::{synthetic, trace};

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stack is unknown or cannot be built.
    #[error("stack `{stack}`: {reason}")]
    Stack {
        /// As given.
        stack: String,
        /// The mistake, and the valid form.
        reason: String,
    },
    /// A key of a specification has an invalid value.
    #[error("`{key}` {reason}")]
    Key {
        /// The key.
        key: &'static str,
        /// The value, and the values allowed.
        reason: String,
    },
    /// The text of a swept key cannot be understood.
    #[error("`{text}`: {reason}")]
    Axis {
        /// As given.
        text: String,
        /// The mistake, and the valid form.
        reason: String,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        reason: String,
    },
    /// A file specifies no run.
    #[error("{} specifies no run", path.display())]
    Specification {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ReadError,
    },
    /// A file is another one than that which the specification names.
    #[error(
        "{file} is not the file that {} was written for: SHA-256 {expected}, and now {found}", spec.display()
    )]
    OtherFile {
        /// The file.
        file: String,
        /// The specification.
        spec: PathBuf,
        /// The hash in the specification.
        expected: String,
        /// The hash of the file.
        found: String,
    },
    /// The device profile is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// The trace does not fit the device.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The synthetic workload is wrong.
    #[error(transparent)]
    Workload(#[from] synthetic::Error),
    /// The drive is too small to make units of, or the fast one is.
    #[error("{reason}")]
    TooSmall {
        /// Names the part that is too small and the reason.
        reason: String,
        /// Whether the fast drive is too small.
        fast: bool,
        /// A remedy other than a larger drive; may be empty.
        or: &'static str,
    },
    /// The log sets so much aside that the rest of the drive cannot hold the workload.
    #[error("{0}")]
    DoesNotFit(String),
    /// Settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The drive refused a request.
    #[error("{when}: {reason}{hint}")]
    Drive {
        /// During the prefill, or at which request.
        when: String,
        /// Why.
        reason: DriveError,
        /// A remedy; may be empty.
        hint: &'static str,
    },
    /// The run was told to stop before anything was measured.
    #[error("interrupted while the drive was being filled, before anything was measured")]
    Interrupted,
    /// The log could not go on: the device failed, or a defect of Thermocline.
    #[error("the log cannot go on: {0}")]
    Engine(String),
    /// Bytes do not add up: a defect of Thermocline.
    #[error(
        "the bytes of this run do not add up ({0}); please report this with the command you ran"
    )]
    Accounting(String),
}

impl Error {
    /// A value of `key` that cannot be.
    pub(crate) fn key(key: &'static str, reason: impl Into<String>) -> Error {
        Error::Key { key, reason: reason.into() }
    }
}
