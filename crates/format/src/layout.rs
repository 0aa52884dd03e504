//! The layout of every structure, stated here and nowhere else in code. `docs/develop/FORMAT.md` and
//! `docs/use/GROUPS.md` say the same in tables, and a test compares them.
//!
//! Invariants:
//! * All numbers are little-endian and no field needs alignment, so no structure has padding that it does not name.
//! * The first ten bytes of a prefix, and that its last four are the checksum of those before, stay in all versions: a
//!   program can tell a sound structure of a newer version from damage.

use std::mem::size_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{crc32c, prefix_checksum};
use crate::error::ErrorKind;
use crate::id::PoolId;

/// The newest version of a structure: chunks and superblock records of pools that have, or had, snapshots.
pub const VERSION: u16 = 8;
/// The version of every other structure, and the oldest that the program reads.
pub const PLAIN_VERSION: u16 = 7;

/// Bytes in the prefix of a chunk's header.
pub const CHUNK_PREFIX_BYTES: usize = size_of::<ChunkPrefixRaw>();
/// Bytes in a line of a chunk's header: entries take one or two.
pub const LINE_BYTES: usize = size_of::<BlockEntryRaw>();
/// Bytes in the prefix of a superblock record.
pub const SUPERBLOCK_PREFIX_BYTES: usize = size_of::<SuperblockPrefixRaw>();

/// Bytes in the label of a member of a group.
pub(crate) const RAID_LABEL_BYTES: usize = size_of::<RaidLabelRaw>();
/// Bytes in the head of the log of a member of a group, its rows aside.
pub(crate) const RAID_LOG_BYTES: usize = size_of::<RaidLogRaw>();
/// Bytes of a row in it, checksums of pieces aside.
pub(crate) const ROW_ENTRY_BYTES: usize = size_of::<RowEntryRaw>();

/// Most bytes in a chunk, header and padding included. Chosen, not measured: a common limit of drives for one command.
pub const MAX_CHUNK_BYTES: usize = 1 << 20;
/// Most devices in a pool. Chosen, not measured.
pub const MAX_DEVICES: usize = 8;

/// Most lines in a chunk's header: with one block of data each they just fill [`MAX_CHUNK_BYTES`], for either logical
/// block.
pub const MAX_LINES: usize = 255;
/// Most bytes in a chunk's header: no more than a block of data has.
pub const MAX_HEADER_BYTES: usize = 4096;

/// First bytes of a chunk.
pub(crate) const CHUNK_MAGIC: [u8; 8] = *b"THERMOCH";
/// First bytes of the label of a member of a group.
pub(crate) const RAID_LABEL_MAGIC: [u8; 8] = *b"THERMORD";
/// First bytes of the head of the log of a member of a group.
pub(crate) const RAID_LOG_MAGIC: [u8; 8] = *b"THERMORL";
/// First bytes of a superblock record.
pub(crate) const SUPERBLOCK_MAGIC: [u8; 8] = *b"THERMOSB";

/// The first 96 bytes of a chunk.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ChunkPrefixRaw {
    pub magic: [u8; 8],
    pub version: U16,
    pub cause: u8,
    pub class: u8,
    pub epoch: U32,
    pub pool: [u8; 16],
    pub unit: U32,
    pub block: U32,
    pub generation: U64,
    pub sequence: U64,
    pub durable: U64,
    pub revision: U64,
    pub lines: U32,
    pub header_bytes: U32,
    pub blocks: U32,
    pub packed_entry: U16,
    pub packed_bytes: U16,
    pub rest_crc: U32,
    pub prefix_crc: U32,
}

/// An entry of a chunk's header that has a block: one line.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BlockEntryRaw {
    pub kind: u8,
    pub reserved: u8,
    pub volume: U32,
    pub lba: U40,
    pub crc: U32,
}

/// An entry of a chunk's header without a block: two lines. What the fields mean depends on the kind.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct ControlEntryRaw {
    pub kind: u8,
    pub part: u8,
    pub reserved: [u8; 4],
    pub volume: U32,
    pub lba: U64,
    pub argument: U64,
    pub count: U32,
}

/// A number of 40 bits, little-endian.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub(crate) struct U40([u8; 5]);

impl U40 {
    /// # Panics
    /// When the number has more bits.
    pub(crate) fn new(number: u64) -> U40 {
        let [low @ .., 0, 0, 0] = number.to_le_bytes() else {
            panic!("{number} has more than 40 bits")
        };
        U40(low)
    }

    pub(crate) fn get(self) -> u64 {
        let [a, b, c, d, e] = self.0;
        u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
    }
}

/// The first 256 bytes of a superblock record.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SuperblockPrefixRaw {
    pub magic: [u8; 8],
    pub version: U16,
    pub flags: U16,
    pub epoch: U32,
    pub pool: [u8; 16],
    pub unit: U32,
    pub block: U32,
    pub revision: U64,
    pub checkpoint: U64,
    pub next_generation: U64,
    pub tail_epoch: U32,
    pub record_bytes: U32,
    pub logical_block: U32,
    pub blocks_per_unit: U32,
    pub next_volume: U32,
    pub volumes: U32,
    pub open_units: U32,
    pub roots: U32,
    pub tail_end: U64,
    pub device_count: U32,
    pub patches: U32,
    pub vain: U32,
    pub flushed: U32,
    pub devices: [DeviceRaw; MAX_DEVICES],
    pub rest_crc: U32,
    pub prefix_crc: U32,
}

/// A device in a superblock record.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub(crate) struct DeviceRaw {
    pub units: U32,
    pub superblock_units: [U32; 2],
    pub media: u8,
    pub state: u8,
    pub reserved: [u8; 2],
}

/// A volume in a superblock record.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct VolumeRaw {
    pub volume: U32,
    pub name_bytes: u8,
    pub flags: u8,
    pub reserved: [u8; 2],
    pub blocks: U64,
    pub name: [u8; 64],
}

/// A layer in a superblock record: what a volume that is part of a stack has beside [`VolumeRaw`].
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LayerRaw {
    pub user: U32,
    pub below: U32,
    pub least: U64,
}

/// A unit in a page of the unit table.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct UnitRaw {
    pub generation: U64,
    pub valid: U32,
    pub class: u8,
    pub reserved: [u8; 3],
}

/// The label of a member of a group.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RaidLabelRaw {
    pub magic: [u8; 8],
    pub version: U16,
    pub level: u8,
    pub flags: u8,
    pub members: u8,
    pub member: u8,
    pub device: u8,
    pub filling: u8,
    pub pool: [u8; 16],
    pub group: U64,
    pub event: U64,
    pub floor: U64,
    pub units: U32,
    pub unit_blocks: U32,
    pub logical_block: U32,
    pub piece: U32,
    pub slots: U32,
    pub filled: U32,
    pub current: U16,
    pub unused: [u8; 42],
    pub prefix_crc: U32,
}

/// The first 64 bytes of the head of the log of a member of a group.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RaidLogRaw {
    pub magic: [u8; 8],
    pub version: U16,
    pub member: u8,
    pub reserved: u8,
    pub rows: U32,
    pub pool: [u8; 16],
    pub group: U64,
    pub round: U64,
    pub unused: [u8; 8],
    pub rest_crc: U32,
    pub prefix_crc: U32,
}

/// A row in the head of a log, before the checksums of its pieces.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RowEntryRaw {
    pub slot: U32,
    pub unit: U32,
    pub row: U32,
    pub filled: U32,
}

const _: () = assert!(RAID_LABEL_BYTES == 128);
const _: () = assert!(RAID_LOG_BYTES == 64);
const _: () = assert!(ROW_ENTRY_BYTES == 16);
const _: () = assert!(CHUNK_PREFIX_BYTES == 96);
const _: () = assert!(LINE_BYTES == 15);
const _: () = assert!(size_of::<ControlEntryRaw>() == 2 * LINE_BYTES);
const _: () = assert!(SUPERBLOCK_PREFIX_BYTES == 256);
const _: () = assert!(size_of::<DeviceRaw>() == 16);
const _: () = assert!(size_of::<VolumeRaw>() == 80);
const _: () = assert!(size_of::<LayerRaw>() == 16);
const _: () = assert!(size_of::<UnitRaw>() == 16);
const _: () = assert!(CHUNK_PREFIX_BYTES + MAX_LINES * LINE_BYTES <= MAX_HEADER_BYTES);
const _: () =
    assert!(MAX_HEADER_BYTES + MAX_LINES * crate::geometry::BLOCK_BYTES == MAX_CHUNK_BYTES);

/// Bytes at the end of a prefix that hold its checksum.
const CRC_BYTES: usize = 4;

/// The checksum of a prefix: of all its bytes but the last four, which hold it.
pub(crate) fn prefix_crc(prefix: &[u8]) -> u32 {
    prefix_checksum(&prefix[..prefix.len() - CRC_BYTES])
}

/// The first version in which the checksum of a prefix is mixed.
const MIXED: u16 = 6;

/// The checksum of a prefix of an earlier version.
fn plain_crc(prefix: &[u8]) -> u32 {
    crc32c(&prefix[..prefix.len() - CRC_BYTES])
}

/// The prefix at the start of `bytes`, if it is sound, of this version, and of `pool` where that is known.
///
/// The checks that chunks and superblocks share are made in the order in which each check can rely on the earlier
/// checks: magic, checksum, version, pool.
pub(crate) fn read_prefix<T>(
    bytes: &[u8],
    magic: [u8; 8],
    pool: Option<PoolId>,
) -> Result<&T, ErrorKind>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned + Prefix,
{
    let known = bytes.len().min(magic.len());
    if bytes[..known] != magic[..known] {
        return Err(ErrorKind::NotOurs { found: None });
    }
    let Ok((prefix, _)) = T::ref_from_prefix(bytes) else {
        return Err(ErrorKind::Truncated { needed: size_of::<T>(), found: bytes.len() });
    };
    let found = prefix.version();
    let whole = &bytes[..size_of::<T>()];
    let plain = found > 0 && found < MIXED && prefix.stored_crc() == plain_crc(whole);
    if !plain {
        check_crc("prefix", prefix.stored_crc(), prefix_crc(whole))?;
    }
    if found > T::NEWEST {
        return Err(ErrorKind::NewerVersion { found, supported: T::NEWEST });
    }
    if found == 0 {
        let (field, rule) = ("version", "versions count from 1");
        return Err(ErrorKind::Impossible { field, found: 0, rule });
    }
    if found < PLAIN_VERSION {
        return Err(ErrorKind::OlderVersion { found, supported: PLAIN_VERSION });
    }
    let found = prefix.pool();
    if pool.is_some_and(|pool| pool != found) {
        return Err(ErrorKind::NotOurs { found: Some(found) });
    }
    Ok(prefix)
}

/// Whether all bytes are zero. Looks at all of them, which is faster than stopping at the first: they mostly are.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// [`ErrorKind::Corrupt`] unless the checksums are the same.
pub(crate) fn check_crc(part: &'static str, expected: u32, found: u32) -> Result<(), ErrorKind> {
    if expected == found { Ok(()) } else { Err(ErrorKind::Corrupt { part, expected, found }) }
}

/// What every prefix has.
pub(crate) trait Prefix {
    /// The newest version that the structure has.
    const NEWEST: u16;
    fn version(&self) -> u16;
    fn pool(&self) -> PoolId;
    fn stored_crc(&self) -> u32;
}

macro_rules! prefix {
    ($newest:expr; $($raw:ty),+) => {$(
        impl Prefix for $raw {
            const NEWEST: u16 = $newest;
            fn version(&self) -> u16 {
                self.version.get()
            }
            fn pool(&self) -> PoolId {
                PoolId(self.pool)
            }
            fn stored_crc(&self) -> u32 {
                self.prefix_crc.get()
            }
        }
    )+};
}

prefix!(VERSION; ChunkPrefixRaw, SuperblockPrefixRaw);
prefix!(PLAIN_VERSION; RaidLabelRaw, RaidLogRaw);

#[cfg(test)]
mod tests;
