//! Why a drive did not serve a request.

use thermocline_types::Bytes;

/// Why a drive did not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The request ends beyond the device.
    #[error("the request ends at byte {} of a device of {}", end.0, capacity.0)]
    OutOfRange {
        /// One past the last byte asked for.
        end: Bytes,
        /// Size of the device.
        capacity: Bytes,
    },
    /// A zoned drive was asked to write part of a logical block.
    #[error("{} bytes at {} are no whole blocks of {unit}", length.0, offset.0)]
    Misaligned {
        /// First byte.
        offset: Bytes,
        /// Number of bytes.
        length: Bytes,
        /// Logical block of the drive.
        unit: Bytes,
    },
    /// A zone command failed.
    #[error("zone {zone}: {error}")]
    Zone {
        /// Which zone.
        zone: u32,
        /// Why.
        error: ZoneError,
    },
    /// So many units are worn out that the drive turned read-only.
    #[error("the drive is worn out and read-only")]
    EndOfLife,
}

/// Why a zone command failed; names and codes as in the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZoneError {
    /// Status B8h.
    #[error("the write or append crosses the end of the zone's capacity (zone boundary error)")]
    Boundary,
    /// Status B9h.
    #[error("the zone is full")]
    Full,
    /// Status BAh.
    #[error("the zone is read-only")]
    ReadOnly,
    /// Status BBh.
    #[error("the zone is offline")]
    Offline,
    /// Status BCh.
    #[error("the write does not start at the zone's write pointer (zone invalid write)")]
    InvalidWrite,
    /// Status BDh.
    #[error("as many zones are active as the drive allows (too many active zones)")]
    TooManyActive,
    /// Status BEh.
    #[error("as many zones are explicitly open as the drive allows (too many open zones)")]
    TooManyOpen,
    /// Status BFh.
    #[error("the zone's state does not allow this (invalid zone state transition)")]
    InvalidTransition,
}
