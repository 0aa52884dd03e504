//! What the log engine writes to media, as pure encode and decode: chunks, superblocks, pages of maps and of the unit
//! table, and what groups keep beside them.
//!
//! `docs/develop/FORMAT.md` describes the bytes, the order of recovery and what every writer must keep to;
//! `docs/use/GROUPS.md` the same of groups.
//!
//! Invariants:
//! * No decoder panics or computes with an unchecked number, whatever the bytes; lengths are bounded before use.
//! * A structure is refused unless pool, place and generation are the expected ones and every checksum is right.
//! * What is encoded can be decoded, and encodes to the same bytes again.
//! * Nothing here does I/O; bytes come from the caller and go back to it.
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod checksum;
mod chunk;
mod entry;
mod error;
mod geometry;
mod id;
mod layout;
mod map;
mod packed;
mod raid;
mod superblock;
mod units;
mod volume;

pub use checksum::{crc32c, crc32c_append, home_mark, prefix_checksum};
pub use chunk::{ARRIVALS, ChunkCause, ChunkHeader, ChunkOrigin, ChunkPrefix, Expected, METADATA};
pub use entry::{Entry, NAME_PARTS};
pub use error::{DecodeError, ErrorKind, Structure};
pub use geometry::{
    ADDRESS_BITS, BLOCK_BYTES, DeviceState, Geometry, GeometryError, LogicalBlock, MIN_UNIT_BYTES,
    MediaClass, PerUnit, PoolDevice,
};
pub use id::{Epoch, Generation, Location, PageId, PoolId, Revision, Sequence, VolumeId};
pub use layout::{
    CHUNK_PREFIX_BYTES, LINE_BYTES, MAX_CHUNK_BYTES, MAX_DEVICES, MAX_HEADER_BYTES, MAX_LINES,
    PLAIN_VERSION as OLDEST_VERSION, SUPERBLOCK_PREFIX_BYTES, VERSION,
};
pub use map::{MapEntry, MapPage, PAGE_ENTRIES, TAG_BITS};
pub use packed::{PackedBlock, Packer, Places, packed_block, unpack};
pub use raid::{
    MAX_MEMBERS, RAID_PLACE_BYTES, RaidLabel, RaidLevel, RaidLog, RaidShape, RaidShapeError,
    RowEntry, Span,
};
pub use superblock::{
    MAX_EPOCH, MAX_NUMBER, MAX_OPEN_UNITS, MAX_ROOTS, MAX_SUPERBLOCK_BYTES, MAX_VOLUMES, OpenUnit,
    Superblock, SuperblockPrefix,
};
pub use units::{MAX_UNIT_PAGES, MAX_UNITS, PAGE_UNITS, UnitEntry, UnitPage};
pub use volume::{
    BLOCKS_PER_ROOT, MAX_NAME_BYTES, MAX_VOLUME_BLOCKS, NameError, StackLayer, Volume, VolumeMedia,
    VolumeMediaError, VolumeName,
};
