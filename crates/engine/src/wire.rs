//! Encodes commands into bytes and finds structures in bytes, for real and simulated drivers.
//!
//! Invariants:
//! * Finding never panics nor computes with an unchecked number, whatever the bytes.
//! * A structure written at one place is never found at another, nor under another pool or generation.

mod in_bytes;
mod translator;
mod zone_order;

use std::ops::Range;

use thermocline_format::{
    BLOCK_BYTES, ChunkHeader, ChunkOrigin, ChunkPrefix, DecodeError, Epoch, ErrorKind, Expected,
    Geometry, Location, MAX_SUPERBLOCK_BYTES, PoolId, Revision, SUPERBLOCK_PREFIX_BYTES,
    Superblock, SuperblockPrefix, packed_block,
};
use thermocline_types::UnitId;

use crate::device::{Body, Chunk, ReadChunks};
use crate::marks::mark;

pub use in_bytes::{ByteRun, InBytes};
pub use translator::{Encoding, IoCmd, IoJob, IoStep, Translator};
pub use zone_order::ZoneOrder;

/// Distance of the places at which [`probe`] looks, in bytes: the smallest logical block.
const PROBE_STEP: usize = 512;

/// Appends the header of `chunk` to `out`: whole logical blocks, behind which the blocks of the body belong, all but
/// the packed one, and behind them whatever fills [`ChunkHeader::blocks`]. `packed` are the bytes behind
/// [`Chunk::packed`], none without.
///
/// # Panics
/// When the header cannot be, or the body has not one block for each entry that has one.
pub fn chunk_header<P>(chunk: &Chunk<P>, packed: &[u8], geometry: &Geometry, out: &mut Vec<u8>) {
    let body = match &chunk.body {
        Body::User(blocks) => blocks.len(),
        Body::Pages(pages) => pages.len(),
    };
    assert_eq!(body, chunk.header.data_blocks() as usize, "one block for each entry that has one");
    chunk.header.encode(packed, geometry, out);
}

/// A chunk in the bytes of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InWindow {
    /// Its header.
    pub header: ChunkHeader,
    /// The bytes of those of its blocks that lie whole in the window, from the first on, counted from the first byte of
    /// the window.
    pub data: Range<usize>,
    /// In which window of several it was found: the first that has it.
    pub window: usize,
    /// Windows that have it.
    pub having: usize,
}

/// The chunks of part of a unit, in its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// In order of location.
    pub chunks: Vec<InWindow>,
    /// As in [`crate::FoundChunks::next`].
    pub next: u32,
    /// As in [`crate::FoundChunks::unsound`].
    pub unsound: bool,
    /// As in [`crate::FoundChunks::newest`].
    pub newest: Option<(Revision, Epoch)>,
}

/// Finds the chunks that `request` asks for. `bytes` is the content of the window from [`ReadChunks::at`] on, in whole
/// logical blocks.
///
/// Each chunk names the place of the next chunk. A header that the window cuts off ends the walk; the caller goes on
/// with a further window. A chunk whose header is whole counts, even if the window cuts off the data. A search for
/// chunks of any generation looks behind each header already: data of an earlier life of the unit may end in the middle
/// of a chunk of this life.
#[must_use]
pub fn find_chunks(bytes: &[u8], request: &ReadChunks, geometry: &Geometry) -> Found {
    find_chunks_in(&[bytes], request, geometry)
}

/// As [`find_chunks`], in windows of equal length on the same place: the versions of a device with redundancy. At each
/// place the newest chunk of all windows counts: a version with an older chunk, or without a chunk, missed the last
/// write.
#[must_use]
pub fn find_chunks_in(windows: &[&[u8]], request: &ReadChunks, geometry: &Geometry) -> Found {
    let mut generation = request.generation;
    let any_life = generation.is_none() && request.search;
    let mut found =
        Found { chunks: Vec::new(), next: request.at.block, unsound: false, newest: None };
    let Some(bytes) = windows.first() else { return found };
    while let Some(offset) = offset_within(bytes, request.at, found.next, geometry) {
        let location = Location { block: found.next, ..request.at };
        let expected = Expected { pool: request.pool, location, generation };
        match look_in(windows, offset, &expected, geometry, &mut found.newest) {
            (Seen::Chunk(header), window, having) => {
                if any_life {
                    let header = header.header_bytes(geometry);
                    found.next += geometry.logical_block().to_hold(header);
                } else {
                    generation = Some(header.origin.generation);
                    found.next += header.blocks;
                }
                let data = whole_blocks(bytes.len(), offset, &header, geometry);
                found.chunks.push(InWindow { header, data, window, having });
            }
            (Seen::CutOff, ..) => break,
            (Seen::Nothing, ..) if request.search => found.next += 1,
            (Seen::Nothing, ..) => {
                found.unsound = true;
                break;
            }
        }
    }
    found
}

/// Where logical block `block` begins in the bytes read from `at` on, if they hold it.
fn offset_within(bytes: &[u8], at: Location, block: u32, geometry: &Geometry) -> Option<usize> {
    let logical_block = geometry.logical_block().bytes();
    let offset = (block - at.block) as usize * logical_block;
    let inside = geometry.contains(Location { block, ..at }, 1);
    (inside && offset + logical_block <= bytes.len()).then_some(offset)
}

/// Result of a look at a place.
enum Seen {
    /// An expected chunk, its header whole.
    Chunk(ChunkHeader),
    /// The sound prefix of a chunk, of whatever generation, whose header goes on beyond the bytes.
    CutOff,
    /// Neither.
    Nothing,
}

/// Looks for the newest chunk at `offset` of each window. Also returns the first window with the chunk, and the number
/// of windows with the chunk.
fn look_in(
    windows: &[&[u8]],
    offset: usize,
    expected: &Expected,
    geometry: &Geometry,
    newest: &mut Option<(Revision, Epoch)>,
) -> (Seen, usize, usize) {
    let age = |header: &ChunkHeader| (header.origin.epoch, header.origin.sequence);
    let (mut best, mut first, mut having) = (Seen::Nothing, 0, 0);
    for (window, bytes) in windows.iter().enumerate() {
        let seen = look(&bytes[offset..], expected, geometry, newest);
        match (&best, &seen) {
            (Seen::Chunk(best), Seen::Chunk(other)) if age(other) == age(best) => having += 1,
            (Seen::Chunk(best), Seen::Chunk(other)) if age(other) < age(best) => {
                mark!(OlderVersionPassed);
            }
            (_, Seen::Chunk(_)) => {
                mark!(OtherVersionTaken if window > 0);
                (best, first, having) = (seen, window, 1);
            }
            (Seen::Nothing, Seen::CutOff) => best = seen,
            _ => {}
        }
    }
    (best, first, having)
}

/// Looks for a chunk at the start of `bytes`, and notes in `newest` what a sound prefix of any generation names.
fn look(
    bytes: &[u8],
    expected: &Expected,
    geometry: &Geometry,
    newest: &mut Option<(Revision, Epoch)>,
) -> Seen {
    let any = Expected { generation: None, ..*expected };
    let Ok(prefix) = ChunkPrefix::decode(bytes, &any, geometry) else { return Seen::Nothing };
    let origin = prefix.origin;
    let (revision, epoch) = newest.unwrap_or_default();
    *newest = Some((revision.max(origin.revision), epoch.max(origin.epoch)));
    if prefix.header_bytes as usize > bytes.len() {
        mark!(HeaderCutOff);
        return Seen::CutOff;
    }
    mark!(HeaderStale if ChunkHeader::decode(bytes, expected, geometry).is_err());
    ChunkHeader::decode(bytes, expected, geometry).map_or(Seen::Nothing, Seen::Chunk)
}

/// The bytes of the blocks of the chunk at `offset` that lie whole among `length` bytes.
fn whole_blocks(
    length: usize,
    offset: usize,
    header: &ChunkHeader,
    geometry: &Geometry,
) -> Range<usize> {
    let start = offset + header.header_bytes(geometry);
    let behind = header.data_blocks() as usize - usize::from(header.packed.is_some());
    let whole = behind.min((length - start) / BLOCK_BYTES);
    start..start + whole * BLOCK_BYTES
}

/// The blocks of a chunk's body that stand behind its header, in their order.
pub fn behind_header<'a, B>(header: &ChunkHeader, body: &'a [B]) -> impl Iterator<Item = &'a B> {
    let packed = header.packed_number();
    (0..).zip(body).filter(move |(number, _)| Some(*number) != packed).map(|(_, block)| block)
}

/// The block that lies packed in `header`, which was found in the bytes of a window by [`find_chunks`].
#[must_use]
pub fn unpacked(
    bytes: &[u8],
    request: &ReadChunks,
    header: &ChunkHeader,
    geometry: &Geometry,
) -> Option<Box<[u8; BLOCK_BYTES]>> {
    header.packed?;
    let ChunkOrigin { location, generation, .. } = header.origin;
    let expected = Expected { pool: request.pool, location, generation: Some(generation) };
    let offset = offset_within(bytes, request.at, location.block, geometry)?;
    packed_block(&bytes[offset..], &expected, geometry)
}

/// Finds the superblock records of `pool`, or of any pool, in `unit`, whose bytes from block 0 on are `bytes`.
///
/// Records follow each other. Where no sound record is found, the next is looked for at each logical block, up to the
/// length of the longest record. [`superblock_blocks`] checks whether enough blocks were read.
#[must_use]
pub fn find_superblocks(
    bytes: &[u8],
    unit: UnitId,
    pool: Option<PoolId>,
    geometry: &Geometry,
) -> Vec<Superblock> {
    let mut found = Vec::new();
    let mut block = 0;
    while block < superblock_blocks(&found, geometry) {
        let at = Location { unit, block };
        let Some(offset) = offset_within(bytes, Location { block: 0, ..at }, block, geometry)
        else {
            break;
        };
        match Superblock::decode(&bytes[offset..], at, pool) {
            Ok(record) if record.geometry.is_divided_like(geometry) => {
                block = end_of(&record, geometry);
                found.push(record);
            }
            _ => block += 1,
        }
    }
    found
}

/// Logical blocks of a superblock unit, from block 0 on, that a reader must read after finding the records `found`. On
/// a device without zones, later blocks hold no valid record. A reader that read fewer blocks must read more and find
/// again.
#[must_use]
pub fn superblock_blocks(found: &[Superblock], geometry: &Geometry) -> u32 {
    let end = found.last().map_or(0, |last| end_of(last, geometry));
    let longest = geometry.logical_block().to_hold(MAX_SUPERBLOCK_BYTES);
    end.saturating_add(longest).min(geometry.blocks_per_unit())
}

/// The logical block behind a record.
fn end_of(record: &Superblock, geometry: &Geometry) -> u32 {
    record.location.block + geometry.logical_block().to_hold(record.record_bytes())
}

/// Finds a pool on an unknown device or in an unknown file: the first sound prefix of a superblock record in `bytes`
/// that is at its own location. `bytes` were read at byte `offset`.
///
/// The units of the device are assumed to follow each other from its first byte on, as on every device without zones.
#[must_use]
pub fn probe(bytes: &[u8], offset: u64) -> Option<SuperblockPrefix> {
    let step = PROBE_STEP as u64;
    let first = usize::try_from(offset.next_multiple_of(step) - offset).ok()?;
    let last = bytes.len().checked_sub(SUPERBLOCK_PREFIX_BYTES)?;
    (first..=last).step_by(PROBE_STEP).find_map(|start| {
        let prefix = SuperblockPrefix::probe(&bytes[start..]).ok()?;
        let geometry = prefix.geometry;
        let at = geometry.on_device(prefix.location);
        let place = geometry.address(at) * geometry.logical_block().bytes() as u64;
        (place == offset + start as u64).then_some(prefix)
    })
}

/// Why a superblock record with a valid checksum is refused: its version is newer, or a field is out of range. The
/// record must be in `bytes`, at a multiple of the smallest logical block from their start.
#[must_use]
pub fn refused(bytes: &[u8]) -> Option<DecodeError> {
    bytes.chunks(PROBE_STEP).enumerate().find_map(|(index, _)| {
        let error = SuperblockPrefix::probe(&bytes[index * PROBE_STEP..]).err()?;
        let meant = matches!(
            error.kind,
            ErrorKind::NewerVersion { .. }
                | ErrorKind::OlderVersion { .. }
                | ErrorKind::Impossible { .. }
        );
        meant.then_some(error)
    })
}

#[cfg(test)]
mod tests;
