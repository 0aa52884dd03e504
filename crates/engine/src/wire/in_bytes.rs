//! Structures as bytes.

use std::fmt;
use std::sync::Arc;

use thermocline_format::{BLOCK_BYTES, ChunkHeader, Geometry, Location, Superblock};
use thermocline_types::{UnitId, Version};

use super::translator::Encoding;
use super::{InWindow, behind_header, chunk_header, find_chunks_in, find_superblocks, unpacked};
use crate::bugs::{Bug, bug};
use crate::device::{Body, Chunk, DeviceError, FoundChunk, FoundChunks, PageBytes, ReadChunks};
use crate::payload::Payload;

/// A handle of a run of bytes, which need not be whole blocks.
pub trait ByteRun: Payload {
    /// Where their memory comes from.
    type Memory;

    /// Room for `bytes` bytes, with arbitrary content.
    fn room(memory: &Self::Memory, bytes: usize) -> Self;

    /// One run with all `pieces`, whose lengths are whole logical blocks.
    fn copied(memory: &Self::Memory, pieces: &[&[u8]]) -> Self;

    /// How many bytes there are.
    fn bytes(&self) -> usize;

    /// The handle of `bytes` of these from byte `from` on; whole sectors of 512.
    #[must_use]
    fn part(&self, from: usize, bytes: usize) -> Self;

    /// Shows the bytes.
    fn look<R>(&self, with: impl FnOnce(&[u8]) -> R) -> R;
}

/// The encoding of structures on media that hold bytes.
pub struct InBytes<B: ByteRun> {
    geometry: Geometry,
    memory: B::Memory,
    /// Bytes of the header that is being made.
    header: Vec<u8>,
    bug: Option<Bug>,
}

impl<B: ByteRun> fmt::Debug for InBytes<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InBytes({:?})", self.geometry)
    }
}

impl<B: ByteRun> InBytes<B> {
    /// The bytes of the pool of `geometry`, in `memory`.
    pub const fn new(geometry: Geometry, memory: B::Memory) -> InBytes<B> {
        InBytes { geometry, memory, header: Vec::new(), bug: None }
    }

    fn encode(&mut self, chunk: &Chunk<B>) {
        if !bug!(self, HeaderNotCleared) {
            self.header.clear();
        }
        let (geometry, header) = (&self.geometry, &mut self.header);
        match (&chunk.packed, chunk.header.packed) {
            (Some(packed), Some(said)) => packed.look(|bytes| {
                chunk_header(chunk, &bytes[..said.bytes.into()], geometry, header);
            }),
            _ => chunk_header(chunk, &[], geometry, header),
        }
    }

    fn found(
        &self,
        windows: &[(Version, B)],
        bytes: &[&[u8]],
        request: &ReadChunks,
    ) -> FoundChunks<B> {
        let geometry = &self.geometry;
        let looked_at = if bug!(self, FirstVersionTaken) { &bytes[..1] } else { bytes };
        let found = find_chunks_in(looked_at, request, geometry);
        let packed = |header: &ChunkHeader, window: usize| {
            let block = unpacked(bytes[window], request, header, geometry)?;
            Some(B::copied(&self.memory, &[&block[..]]))
        };
        let chunk = |InWindow { header, data, window, having }: InWindow| {
            let blocks = (data.len() / BLOCK_BYTES) as u32;
            let (version, room) = &windows[window];
            FoundChunk {
                data: request.data.then(|| (room.part(data.start, data.len()), blocks)),
                packed: request.data.then(|| packed(&header, window)).flatten(),
                header: Arc::new(header),
                only_in: (having == 1)
                    .then_some(*version)
                    .filter(|one| one.member_left_out().is_some()),
                everywhere: having == windows.len(),
            }
        };
        let chunks = found.chunks.into_iter().map(chunk).collect();
        FoundChunks { chunks, next: found.next, unsound: found.unsound, newest: found.newest }
    }
}

/// Shows the bytes of all windows at once.
fn looked_at<B: ByteRun, R>(
    windows: &[(Version, B)],
    shown: &[&[u8]],
    with: impl FnOnce(&[&[u8]]) -> R,
) -> R {
    match windows.split_first() {
        None => with(shown),
        Some(((_, window), rest)) => window.look(|bytes| {
            let shown: Vec<&[u8]> = shown.iter().copied().chain([bytes]).collect();
            looked_at(rest, &shown, with)
        }),
    }
}

impl<B: ByteRun> Encoding for InBytes<B> {
    type Payload = B;
    type Parts = Vec<B>;
    type Room = B;

    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Header, blocks and padding.
    fn chunk(&mut self, chunk: Arc<Chunk<B>>) -> Vec<B> {
        self.encode(&chunk);
        let (memory, header) = (&self.memory, &self.header[..]);
        let mut parts = Vec::new();
        match &chunk.body {
            Body::User(blocks) => {
                parts.reserve(blocks.len() + 2);
                parts.push(B::copied(memory, &[header]));
                let behind = behind_header(&chunk.header, blocks);
                parts.extend(behind.map(|block| block.part(0, BLOCK_BYTES)));
                if bug!(self, PackedBlockWritten) && chunk.packed.is_some() {
                    parts.extend(blocks.last().map(|block| block.part(0, BLOCK_BYTES)));
                }
            }
            Body::Pages(pages) => {
                let mut pages: Vec<&[u8]> = pages.iter().map(|page| &page[..]).collect();
                if bug!(self, PagesShifted) {
                    pages.rotate_right(1);
                }
                pages.insert(0, header);
                parts.push(B::copied(memory, &pages));
            }
        }
        let written: usize = parts.iter().map(B::bytes).sum();
        let total = chunk.header.blocks as usize * self.geometry.logical_block().bytes();
        let padding = total.saturating_sub(written);
        if padding > 0 {
            let zeros = B::room(memory, padding);
            zeros.fill_zero();
            parts.push(zeros);
        }
        parts
    }

    fn record(&mut self, record: Arc<Superblock>) -> Vec<B> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        vec![B::copied(&self.memory, &[&bytes])]
    }

    fn room(&mut self, bytes: usize, into: Option<B>) -> B {
        into.map_or_else(|| B::room(&self.memory, bytes), |into| into.part(0, bytes))
    }

    fn data(&self, room: B) -> B {
        room
    }

    fn page(&self, _at: Location, room: &B) -> Result<PageBytes, DeviceError> {
        let mut page = Box::new([0; BLOCK_BYTES]);
        room.look(|bytes| page.copy_from_slice(bytes));
        Ok(page)
    }

    fn chunks(&self, request: &ReadChunks, windows: &[(Version, B)]) -> FoundChunks<B> {
        looked_at(windows, &[], |bytes| self.found(windows, bytes, request))
    }

    fn records(&self, unit: UnitId, room: &B) -> Vec<Superblock> {
        room.look(|bytes| find_superblocks(bytes, unit, None, &self.geometry))
    }

    fn blocks(&self, room: &B) -> u32 {
        self.geometry.logical_block().to_hold(room.bytes())
    }

    fn make(&mut self, bug: Option<Bug>) {
        self.bug = bug;
    }
}
