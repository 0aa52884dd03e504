//! What the engine wrote to each unit, as structures: chunks with their headers and map pages, superblock records.
//!
//! Invariants:
//! * Chunks of a unit are in order of location and do not overlap: units are written front to back.

use std::sync::Arc;

use thermocline_engine::wire::Encoding;
use thermocline_engine::{
    Body, Chunk, DeviceError, FoundChunk, FoundChunks, PageBytes, ReadChunks,
};
use thermocline_format::{BLOCK_BYTES, Geometry, Location, Superblock};
use thermocline_types::{Bytes, UnitId, Version};

use super::payload::PackDraw;

/// The structure on media of one write.
#[derive(Debug)]
pub enum Structure {
    /// A chunk.
    Chunk(Arc<Chunk<PackDraw>>),
    /// A superblock record.
    Record(Arc<Superblock>),
}

/// The structures of all units.
#[derive(Debug)]
pub struct StoredChunks {
    geometry: Geometry,
    chunks: Vec<Vec<Arc<Chunk<PackDraw>>>>,
    records: Vec<Arc<Superblock>>,
}

impl StoredChunks {
    /// Empty units.
    pub fn new(geometry: Geometry) -> StoredChunks {
        let chunks = (0..geometry.units()).map(|_| Vec::new()).collect();
        StoredChunks { geometry, chunks, records: Vec::new() }
    }

    /// A structure was written.
    pub fn put(&mut self, structure: Structure) {
        match structure {
            Structure::Chunk(chunk) => {
                self.chunks[chunk.header.origin.location.unit.index()].push(chunk);
            }
            Structure::Record(record) => self.records.push(record),
        }
    }

    /// Bytes of a structure on media.
    pub fn bytes_of(&self, structure: &Structure) -> Bytes {
        let block = self.geometry.logical_block();
        let blocks = match structure {
            Structure::Chunk(chunk) => chunk.header.blocks,
            Structure::Record(record) => block.to_hold(record.record_bytes()),
        };
        Bytes(u64::from(blocks) * block.bytes() as u64)
    }

    /// `unit` was reset.
    pub fn clear(&mut self, unit: UnitId) {
        self.chunks[unit.index()].clear();
        if self.geometry.is_superblock_unit(unit) {
            self.records.retain(|record| record.location.unit != unit);
        }
    }

    /// Where the chunks of `unit` end.
    pub fn end(&self, unit: UnitId) -> u32 {
        let last = self.chunks[unit.index()].last();
        last.map_or(0, |chunk| block_of(chunk) + chunk.header.blocks)
    }

    /// The map page at `at`, if one was written there.
    fn stored_page(&self, at: Location) -> Option<PageBytes> {
        let chunks = &self.chunks[at.unit.index()];
        let behind = chunks.partition_point(|chunk| block_of(chunk) <= at.block);
        let chunk = chunks.get(behind.checked_sub(1)?)?;
        let Body::Pages(pages) = &chunk.body else { return None };
        let mut places = chunk.header.placed(&self.geometry).filter_map(|(_, at)| at);
        pages.get(places.position(|place| place == at)?).cloned()
    }

    /// The chunks that `request` asks for, as they would be found in the bytes of its window.
    fn find(&self, request: &ReadChunks) -> FoundChunks<PackDraw> {
        let block_bytes = self.geometry.logical_block().bytes();
        let end = request.at.block + request.window;
        let chunks = &self.chunks[request.at.unit.index()];
        let first = chunks.partition_point(|chunk| block_of(chunk) < request.at.block);
        let mut found = FoundChunks {
            chunks: Vec::new(),
            next: request.at.block,
            unsound: false,
            newest: None,
        };
        let mut generation = request.generation;
        for chunk in &chunks[first..] {
            let (origin, start) = (&chunk.header.origin, block_of(chunk));
            if start != found.next && !request.search || start >= end {
                break;
            }
            let (revision, epoch) = found.newest.unwrap_or_default();
            found.newest = Some((revision.max(origin.revision), epoch.max(origin.epoch)));
            let wanted = generation.is_none_or(|generation| generation == origin.generation);
            if origin.pool != request.pool || !wanted {
                break;
            }
            let header = chunk.header.header_bytes(&self.geometry);
            let window = (end - start) as usize * block_bytes;
            if header > window {
                return found; // Cut off: to be read again from there.
            }
            generation = Some(origin.generation);
            found.next = start + chunk.header.blocks;
            let packed = chunk.header.packed.map(|_| PackDraw::default());
            let behind = chunk.header.data_blocks() - u32::from(packed.is_some());
            let whole = behind.min(((window - header) / BLOCK_BYTES) as u32);
            found.chunks.push(FoundChunk {
                header: Arc::clone(&chunk.header),
                data: (request.data && whole > 0).then_some((PackDraw::default(), whole)),
                packed: packed.filter(|_| request.data),
                only_in: None,
                everywhere: true,
            });
        }
        if found.next < end {
            found.unsound = !request.search;
            found.next = if request.search { end } else { found.next };
        }
        found
    }
}

impl Encoding for StoredChunks {
    type Payload = PackDraw;
    type Parts = Structure;
    type Room = Bytes;

    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn chunk(&mut self, chunk: Arc<Chunk<PackDraw>>) -> Structure {
        Structure::Chunk(chunk)
    }

    fn record(&mut self, record: Arc<Superblock>) -> Structure {
        Structure::Record(record)
    }

    #[inline]
    fn room(&mut self, bytes: usize, _into: Option<PackDraw>) -> Bytes {
        Bytes(bytes as u64)
    }

    #[inline]
    fn data(&self, _room: Bytes) -> PackDraw {
        PackDraw::default()
    }

    fn page(&self, at: Location, _room: &Bytes) -> Result<PageBytes, DeviceError> {
        self.stored_page(at).ok_or(DeviceError::Io)
    }

    fn chunks(&self, request: &ReadChunks, _: &[(Version, Bytes)]) -> FoundChunks<PackDraw> {
        self.find(request)
    }

    fn records(&self, unit: UnitId, room: &Bytes) -> Vec<Superblock> {
        let logical = self.geometry.logical_block();
        let read = |record: &&Arc<Superblock>| {
            let end = record.location.block + logical.to_hold(record.record_bytes());
            record.location.unit == unit && end <= self.blocks(room)
        };
        self.records.iter().filter(read).map(|record| Superblock::clone(record)).collect()
    }

    fn blocks(&self, room: &Bytes) -> u32 {
        self.geometry.logical_block().to_hold(room.0 as usize)
    }
}

fn block_of(chunk: &Chunk<PackDraw>) -> u32 {
    chunk.header.origin.location.block
}
