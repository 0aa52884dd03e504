//! What the engine wrote to each unit, as structures: chunks with their headers and map pages, superblock records.
//!
//! Invariants:
//! * Chunks of a unit are in order of location and do not overlap: units are written front to back.

use std::sync::Arc;

use thermocline_engine::{Body, Chunk, FoundChunk, FoundChunks, PageBytes, ReadChunks};
use thermocline_format::{BLOCK_BYTES, Geometry, Location, Superblock};
use thermocline_types::UnitId;

use super::payload::PackDraw;

/// The structures of all units.
#[derive(Debug)]
pub struct StoredChunks {
    geometry: Geometry,
    chunks: Vec<Vec<Arc<Chunk<PackDraw>>>>,
    records: Vec<Arc<Superblock>>,
}

impl StoredChunks {
    /// Units with nothing in them.
    pub fn new(geometry: Geometry) -> StoredChunks {
        let chunks = (0..geometry.units()).map(|_| Vec::new()).collect();
        StoredChunks { geometry, chunks, records: Vec::new() }
    }

    /// A chunk was written.
    pub fn put(&mut self, chunk: Arc<Chunk<PackDraw>>) {
        let unit = chunk.header.origin.location.unit;
        self.chunks[unit.index()].push(chunk);
    }

    /// A superblock record was written.
    pub fn put_superblock(&mut self, record: Arc<Superblock>) {
        self.records.push(record);
    }

    /// Every superblock record there is.
    pub fn superblocks(&self) -> Vec<Superblock> {
        self.records.iter().map(|record| Superblock::clone(record)).collect()
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
    pub fn page(&self, at: Location) -> Option<PageBytes> {
        let chunks = &self.chunks[at.unit.index()];
        let behind = chunks.partition_point(|chunk| block_of(chunk) <= at.block);
        let chunk = chunks.get(behind.checked_sub(1)?)?;
        let Body::Pages(pages) = &chunk.body else { return None };
        let mut places = chunk.header.placed(&self.geometry).filter_map(|(_, at)| at);
        pages.get(places.position(|place| place == at)?).cloned()
    }

    /// The chunks that `request` asks for, as they would be found in the bytes of its window.
    pub fn find(&self, request: &ReadChunks) -> FoundChunks<PackDraw> {
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
                header: Arc::new(chunk.header.clone()),
                data: (request.data && whole > 0).then_some((PackDraw::default(), whole)),
                packed: packed.filter(|_| request.data),
            });
        }
        if found.next < end {
            found.unsound = !request.search;
            found.next = if request.search { end } else { found.next };
        }
        found
    }
}

fn block_of(chunk: &Chunk<PackDraw>) -> u32 {
    chunk.header.origin.location.block
}
