//! What an opening keeps of the chunks of the tail: headers as far as memory allows, and only locations of the
//! remaining chunks. The replay reads the remaining headers again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use thermocline_format::{
    ChunkHeader, ChunkOrigin, Entry, Generation, Location, OpenUnit, Sequence,
};
use thermocline_types::UnitId;

use super::{Life, Recovery};
use crate::bugs::bug;
use crate::device::{DeviceCmd, Done, ReadChunks, Versions};
use crate::engine::Parts;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::OpenError;

/// Chunks ahead of the replay of which headers are read once more. Chosen, not measured.
const AHEAD: usize = 128;

/// How often a header is read once more before its chunk counts as missing. Chosen, not measured.
const TRIES: u8 = 4;

/// A chunk of the tail.
#[derive(Debug)]
pub(super) enum TailChunk {
    /// Its header.
    Kept(Arc<ChunkHeader>),
    /// A chunk with only block entries: life, first logical block and length.
    Known { sequence: Sequence, life: u32, block: u32, blocks: u32 },
    /// A chunk that was replayed, or is lost.
    Over(Sequence),
}

impl TailChunk {
    /// Its number.
    pub(super) fn sequence(&self) -> Sequence {
        match self {
            TailChunk::Kept(header) => header.origin.sequence,
            TailChunk::Known { sequence, .. } | TailChunk::Over(sequence) => *sequence,
        }
    }

    /// The header, if kept in memory.
    pub(super) fn header(&self) -> Option<&ChunkHeader> {
        match self {
            TailChunk::Kept(header) => Some(header),
            TailChunk::Known { .. } | TailChunk::Over(_) => None,
        }
    }

    /// The unit, its generation, and the logical blocks of the unit; `None` if the chunk is over.
    pub(super) fn extent(&self, lives: &[Life]) -> Option<(UnitId, Generation, Range<u32>)> {
        match *self {
            TailChunk::Kept(ref header) => {
                let ChunkOrigin { location: at, generation, .. } = header.origin;
                Some((at.unit, generation, at.block..at.block + header.blocks))
            }
            TailChunk::Known { life, block, blocks, .. } => {
                let OpenUnit { next, generation } = lives[life as usize].listed;
                Some((next.unit, generation, block..block + blocks))
            }
            TailChunk::Over(_) => None,
        }
    }

    /// The entries of a kept header. Headers with entries other than blocks are always kept.
    pub(super) fn entries(&self) -> &[Entry] {
        self.header().map_or(&[], |header| &header.entries)
    }
}

/// Which headers are kept, and which are being read once more.
#[derive(Debug)]
pub(super) struct Headers {
    /// Number of entries that still fit into memory.
    room: u64,
    /// Chunks that are being read once more, and how often they may still be.
    reading: BTreeMap<usize, u8>,
    /// End of the chunks whose headers were requested again.
    asked: usize,
}

impl Headers {
    /// Headers with so many entries together are kept.
    pub(super) fn new(room: u64) -> Headers {
        Headers { room, reading: BTreeMap::new(), asked: 0 }
    }

    /// What is kept of a chunk that was found in life `life`.
    pub(super) fn keep(&mut self, header: &Arc<ChunkHeader>, life: usize) -> TailChunk {
        let entries = header.entries.len() as u64;
        let only_blocks = header.entries.iter().all(|entry| matches!(entry, Entry::Data { .. }));
        if only_blocks && entries > self.room {
            let (sequence, block) = (header.origin.sequence, header.origin.location.block);
            return TailChunk::Known { sequence, life: life as u32, block, blocks: header.blocks };
        }
        self.room = self.room.saturating_sub(entries);
        TailChunk::Kept(Arc::clone(header))
    }
}

impl<P: Payload> Recovery<P> {
    /// Reads once more the headers of all chunks above the durable sequence: blocks of theirs may be torn. If a loss
    /// was overlooked, those of all: what stands where is to be known.
    pub(super) fn read_headers_in_doubt(&mut self, p: &mut Parts<P>) {
        let (durable, all) = (self.durable, self.overlooked);
        let first = self.tail.partition_point(|chunk| !all && chunk.sequence() <= durable);
        for number in first..self.tail.len() {
            self.read_header_again(p, number, TRIES);
        }
    }

    /// Reads once more the headers that replay comes to next. Returns whether anything was done.
    pub(super) fn read_headers_ahead(&mut self, p: &mut Parts<P>) -> bool {
        let until = self.tail.len().min(self.replayed + AHEAD);
        let wanted = self.headers.asked.max(self.replayed)..until;
        self.headers.asked = until;
        let worked = !wanted.is_empty();
        wanted.for_each(|number| self.read_header_again(p, number, TRIES));
        worked
    }

    /// Reads the header of chunk `number` of the tail once more, if it is not kept.
    fn read_header_again(&mut self, p: &mut Parts<P>, number: usize, tries: u8) {
        let geometry = p.config.geometry;
        let TailChunk::Known { life, block, .. } = self.tail[number] else { return };
        mark!(HeaderReadAgain);
        self.headers.reading.insert(number, tries - 1);
        let listed = self.lives[life as usize].listed;
        let longest = thermocline_format::MAX_HEADER_BYTES / geometry.logical_block().bytes();
        let read = ReadChunks {
            at: Location { block, ..listed.next },
            window: (longest as u32).min(geometry.blocks_per_unit() - block),
            pool: p.pool,
            generation: Some(listed.generation),
            search: false,
            data: false,
            versions: Versions::All(p.members_of(listed.next.unit)),
        };
        self.ask(p, number, DeviceCmd::ReadChunks(read));
    }

    /// A header was read once more, or could not be.
    pub(super) fn header_read_again(
        &mut self,
        p: &mut Parts<P>,
        number: usize,
        done: Option<&Done<P>>,
    ) -> Result<(), OpenError> {
        let tries = self.headers.reading.remove(&number).expect("it was asked for");
        let sequence = self.tail[number].sequence();
        let found = match done {
            Some(Done::Chunks(found)) => found.chunks.first(),
            _ => None,
        };
        if bug!(p.config, HeaderNotReadAgain) {
            self.tail[number] = TailChunk::Over(sequence);
            return Ok(());
        }
        if let Some(chunk) = found.filter(|chunk| chunk.header.origin.sequence == sequence) {
            self.tail[number] = TailChunk::Kept(Arc::clone(&chunk.header));
            return Ok(());
        }
        if tries > 0 {
            self.read_header_again(p, number, tries);
            return Ok(());
        }
        mark!(HeaderGone);
        if p.config.open_despite_loss {
            self.tail[number] = TailChunk::Over(sequence);
            return Ok(());
        }
        // The header was read before: a read error now is not a loss.
        let lost = OpenError::ChunksLost { missing: 1, first: sequence.0 };
        Err(if done.is_none() { OpenError::Device } else { lost })
    }
}

impl<P> Recovery<P> {
    /// Takes the next header to replay, if in memory.
    pub(super) fn next_header(&mut self) -> Option<(usize, Option<Arc<ChunkHeader>>)> {
        let number = self.replayed;
        let chunk = self.tail.get_mut(number)?;
        if matches!(chunk, TailChunk::Known { .. }) {
            return None;
        }
        self.replayed += 1;
        let over = TailChunk::Over(chunk.sequence());
        let header = match std::mem::replace(chunk, over) {
            TailChunk::Kept(header) => Some(header),
            TailChunk::Known { .. } | TailChunk::Over(_) => None,
        };
        Some((number, header))
    }
}
