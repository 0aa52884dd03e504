//! What is wrong with bytes read from media.

use std::fmt;

use thiserror::Error;

use crate::id::{Generation, Location, PageId, PoolId};

/// A structure failed its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The structure that was expected.
    pub structure: Structure,
    /// Where it was read, unless the reader did not know.
    pub at: Option<Location>,
    /// What is wrong with it.
    pub kind: ErrorKind,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at {at}: {}", self.structure, self.kind),
            None => write!(f, "{}: {}", self.structure, self.kind),
        }
    }
}

impl std::error::Error for DecodeError {}

/// The structures on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Structure {
    /// The header of a chunk.
    Chunk,
    /// A superblock record.
    Superblock,
    /// A page of a map.
    MapPage(PageId),
    /// This page of the unit table.
    UnitPage(u32),
    /// The label of a member of a group.
    RaidLabel,
    /// The head of the log of a member of a group.
    RaidLog,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Structure::Chunk => f.write_str("chunk"),
            Structure::Superblock => f.write_str("superblock"),
            Structure::MapPage(page) => write!(f, "{page}"),
            Structure::RaidLabel => f.write_str("label of a group"),
            Structure::RaidLog => f.write_str("log of a group"),
            Structure::UnitPage(index) => write!(f, "page {index} of the unit table"),
        }
    }
}

/// Why bytes are refused. Each kind asks for something else from the reader.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The location holds no structure of this pool: foreign bytes, or another pool's structure. Not damage.
    #[error("not of this pool: {}", found.map_or("no magic".to_owned(), |pool| format!("belongs to pool {pool}")))]
    NotOurs {
        /// The other pool, if the bytes are a structure.
        found: Option<PoolId>,
    },
    /// Remains of an earlier life of the unit. Not damage.
    #[error("left from generation {} of the unit; expected {}", found.0, expected.0)]
    Stale {
        /// The unit's generation.
        expected: Generation,
        /// The generation of what was found.
        found: Generation,
    },
    /// Sound, but written for another place: the device misdirected a write or a read, or media were copied.
    #[error("written for {found}")]
    Misplaced {
        /// The place it was written for.
        found: Location,
    },
    /// There are fewer bytes than the structure has: read more, or the medium ends within it.
    #[error("{found} bytes; {needed} needed")]
    Truncated {
        /// Bytes that the structure has, as far as is known from those given.
        needed: usize,
        /// Bytes given.
        found: usize,
    },
    /// The checksum differs: a torn write, or damage.
    #[error("checksum of {part} is {found:#010x}; expected {expected:#010x}")]
    Corrupt {
        /// What the checksum covers.
        part: &'static str,
        /// The checksum as stored.
        expected: u32,
        /// The checksum of the bytes read.
        found: u32,
    },
    /// Sound, but written by a newer program.
    #[error("version {found}; this program reads up to version {supported}")]
    NewerVersion {
        /// The version found.
        found: u16,
        /// The newest version that can be read.
        supported: u16,
    },
    /// Sound, but written by an older program, from before any was released.
    #[error("version {found}; this program reads none before version {supported}")]
    OlderVersion {
        /// The version found.
        found: u16,
        /// The version that can be read.
        supported: u16,
    },
    /// The checksum is right, but a field has an impossible value: the program that wrote the structure has a defect.
    #[error("{field} is {found}; {rule}")]
    Impossible {
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What would be right.
        rule: &'static str,
    },
}

/// [`ErrorKind::Impossible`] unless `holds`.
pub(crate) fn require(
    holds: bool,
    field: &'static str,
    found: u64,
    rule: &'static str,
) -> Result<(), ErrorKind> {
    if holds { Ok(()) } else { Err(ErrorKind::Impossible { field, found, rule }) }
}
