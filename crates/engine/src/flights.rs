//! Chunks on their way to media.
//!
//! Invariants:
//! * A flight is done when its blocks are on media. After a failed write, the replacements must be on media.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use thermocline_format::{
    ChunkCause, Entry, Geometry, Location, LogicalBlock, MAX_DEVICES, Sequence, VolumeId,
};
use thermocline_types::{DeviceId, UnitId};

use crate::bugs::bug;
use crate::config::Config;
use crate::device::{Body, Chunk, PageBytes};
use crate::durability::OnMedia;
use crate::marks::mark;
use crate::write_cache::Owner;

/// A chunk on its way.
#[derive(Debug)]
struct Flight<P> {
    chunk: Arc<Chunk<P>>,
    /// Waiters, each with its number of blocks in the chunk.
    owners: Vec<(Owner, u32)>,
    /// Blocks of the host in it, as long as these count as on their way.
    host_blocks: u32,
    /// Blocks of the host in it.
    written: u32,
    /// Whether the flight no longer counts: its own write, or an earlier write in its unit, failed.
    abandoned: bool,
    /// Pending writes: one for the chunk itself, and one for each block that replaces a block of a failed write.
    pending: u32,
}

impl<P> Flight<P> {
    fn sequence(&self) -> Sequence {
        self.chunk.header.origin.sequence
    }

    fn at(&self) -> Location {
        self.chunk.header.origin.location
    }
}

/// Result of a chunk that is done.
#[derive(Debug)]
pub(crate) struct Landed {
    /// Waiters, each with its number of blocks in the chunk.
    pub(crate) owners: Vec<(Owner, u32)>,
    /// Host blocks of the chunk, if they counted as in flight until now. A flight may be done twice: an earlier write
    /// in its unit may fail after the flight was done.
    pub(crate) host_blocks: u32,
    /// The unit where the write of this chunk, or of an earlier chunk, failed. The blocks were written elsewhere.
    pub(crate) replaced: Option<UnitId>,
}

/// Chunks in flight, and the sequences of completed chunks.
#[derive(Debug)]
pub(crate) struct Flights<P> {
    /// Flights from sequence `first` on; flights behind the first may be done already.
    flights: VecDeque<Flight<P>>,
    first: u64,
    /// For each device, host blocks in the flights before `first`.
    host_blocks: [u64; MAX_DEVICES],
    /// Host blocks in all flights so far.
    launched: u64,
    /// The newest chunk that was reported to the host.
    newest_done: Sequence,
    /// Writes that failed in a row.
    failures: u32,
}

impl<P> Flights<P> {
    /// The first chunk gets sequence `first`.
    pub(crate) fn new(first: Sequence) -> Flights<P> {
        let (flights, host_blocks) = (VecDeque::new(), [0; MAX_DEVICES]);
        let newest_done = Sequence(first.0 - 1);
        Flights { flights, first: first.0, host_blocks, launched: 0, newest_done, failures: 0 }
    }

    /// Chunk `sequence` was reported to the host.
    pub(crate) fn told(&mut self, sequence: Sequence) {
        self.newest_done = self.newest_done.max(sequence);
    }

    /// The newest chunk that was reported to the host.
    pub(crate) fn newest_done(&self) -> Sequence {
        self.newest_done
    }

    /// Sends a chunk with `host_blocks` blocks of the host and the next sequence; `owners` wait for the chunk.
    pub(crate) fn launch(
        &mut self,
        chunk: Arc<Chunk<P>>,
        owners: Vec<(Owner, u32)>,
        host_blocks: u32,
    ) {
        debug_assert_eq!(chunk.header.origin.sequence, self.next());
        let (written, abandoned, pending) = (host_blocks, false, 1);
        let flight = Flight { chunk, owners, host_blocks, written, abandoned, pending };
        self.flights.push_back(flight);
        self.launched += u64::from(host_blocks);
    }

    /// Blocks of hosts in all flights so far, those included that came from layers below.
    pub(crate) fn launched(&self) -> u64 {
        self.launched
    }

    /// The chunk of this sequence.
    pub(crate) fn chunk(&self, sequence: Sequence) -> Arc<Chunk<P>> {
        Arc::clone(&self.flights[self.index(sequence)].chunk)
    }

    /// Chunk `sequence` made progress: `count` of its pending writes are on media. Returns the result when all writes
    /// are done.
    pub(crate) fn progress(&mut self, sequence: Sequence, count: u32) -> Option<Landed> {
        let flight = self.flight(sequence);
        flight.pending -= count;
        (flight.pending == 0).then(|| Landed {
            owners: std::mem::take(&mut flight.owners),
            host_blocks: std::mem::take(&mut flight.host_blocks),
            replaced: flight.abandoned.then(|| flight.at().unit),
        })
    }

    /// Retires flights from the front, up to the first flight that is not done.
    pub(crate) fn retire(&mut self, geometry: &Geometry) {
        while let Some(flight) = self.flights.pop_front_if(|flight| flight.pending == 0) {
            let device = geometry.device_of(flight.at().unit);
            self.host_blocks[device.index()] += u64::from(flight.written);
            self.first += 1;
        }
    }

    /// A write has succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// A write has failed. Returns how many did in a row.
    pub(crate) fn failed(&mut self) -> u32 {
        self.failures += 1;
        self.failures
    }

    /// Chunk `sequence` counts no more. Returns whether it did.
    pub(crate) fn abandon(&mut self, sequence: Sequence) -> bool {
        !std::mem::replace(&mut self.flight(sequence).abandoned, true)
    }

    /// Whether a flight no longer counts.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.flights.iter().any(|flight| flight.abandoned)
    }

    /// The trims in flight: each with its volume and the range that the trim unmaps.
    pub(crate) fn trims(&self) -> impl Iterator<Item = (VolumeId, Range<u64>)> + '_ {
        let control = |flight: &&Flight<P>| {
            flight.chunk.header.origin.cause == ChunkCause::Host && flight.written == 0
        };
        let control = self.flights.iter().filter(control);
        let entries = control.flat_map(|flight| flight.chunk.header.entries.iter());
        entries.filter_map(|entry| match *entry {
            Entry::Trim { volume, lba, blocks } | Entry::LayerHole { volume, lba, blocks } => {
                Some((volume, lba.0..lba.0 + blocks))
            }
            _ => None,
        })
    }

    /// Chunks behind `at` in the same unit that are done already. Chunks in flight are handled when the device answers.
    pub(crate) fn done_behind(&self, at: Location) -> Vec<(Sequence, Arc<Chunk<P>>)> {
        let behind = |flight: &&Flight<P>| {
            let place = flight.at();
            flight.pending == 0 && place.unit == at.unit && place.block > at.block
        };
        let found = self.flights.iter().filter(behind);
        found.map(|flight| (flight.sequence(), Arc::clone(&flight.chunk))).collect()
    }

    /// Chunk `sequence` waits for `count` more.
    pub(crate) fn need(&mut self, sequence: Sequence, count: u32) {
        self.flight(sequence).pending += count;
    }

    /// Has a failed chunk wait for later chunks in flight, of `unit` alone if `unit` is given. Returns the number of
    /// chunks awaited.
    pub(crate) fn await_later(&mut self, sequence: Sequence, unit: Option<UnitId>) -> u32 {
        let mut count = 0;
        for flight in self.flights.iter_mut().filter(|flight| flight.pending > 0) {
            if flight.sequence() > sequence && unit.is_none_or(|unit| flight.at().unit == unit) {
                flight.owners.push((Owner::Failed(sequence), 1));
                count += 1;
            }
        }
        self.need(sequence, count);
        count
    }

    /// The sequence that the next chunk gets.
    pub(crate) fn next(&self) -> Sequence {
        Sequence(self.first + self.flights.len() as u64)
    }

    /// The newest sequence that was given out.
    pub(crate) fn sealed(&self) -> Sequence {
        Sequence(self.next().0 - 1)
    }

    /// Every chunk up to this sequence is on media.
    pub(crate) fn completed(&self) -> Sequence {
        Sequence(self.first - 1)
    }

    /// How far the log is on media of `device`. Hosts wait for their blocks, for control entries, and for every earlier
    /// chunk of the same unit: after a hole, recovery may miss a chunk, or the chunk may be rewritten elsewhere.
    pub(crate) fn on_media(&self, device: DeviceId, config: &Config) -> OnMedia {
        let sealed = self.sealed();
        let host_blocks = self.host_blocks[device.index()];
        let mut reached = OnMedia { all: sealed, for_hosts: sealed, host_blocks };
        // Units to which copies or pages are on their way.
        let mut passed: Vec<UnitId> = Vec::new();
        for flight in &self.flights {
            let origin = &flight.chunk.header.origin;
            if config.geometry.device_of(origin.location.unit) != device {
                continue;
            }
            let awaited = origin.cause == ChunkCause::Host
                && (flight.written > 0 || !bug!(config, FlushForgetsControl));
            let behind = passed.contains(&origin.location.unit) && !bug!(config, FlushPassesUnit);
            mark!(FlushAwaitsUnit if awaited && flight.pending == 0 && behind);
            if awaited && (flight.pending > 0 || behind) {
                reached.for_hosts = Sequence(origin.sequence.0 - 1);
                reached.all = reached.all.min(reached.for_hosts);
                break;
            }
            if flight.pending > 0 {
                reached.all = reached.all.min(Sequence(origin.sequence.0 - 1));
                passed.push(origin.location.unit);
            }
            reached.host_blocks += u64::from(flight.written);
        }
        reached
    }

    fn index(&self, sequence: Sequence) -> usize {
        (sequence.0 - self.first) as usize
    }

    fn flight(&mut self, sequence: Sequence) -> &mut Flight<P> {
        let index = self.index(sequence);
        &mut self.flights[index]
    }

    /// The block at `at` if its chunk is still on its way.
    pub(crate) fn in_flight(&self, at: Location, config: &Config) -> Option<&P> {
        let geometry = &config.geometry;
        let covers = |flight: &&Flight<P>| {
            let origin = &flight.chunk.header.origin.location;
            let end = origin.block + flight.chunk.header.blocks;
            flight.pending > 0 && origin.unit == at.unit && (origin.block..end).contains(&at.block)
        };
        let flight = self.flights.iter().find(covers)?;
        let header = &flight.chunk.header;
        mark!(PackedInFlight if header.packed.is_some());
        let shift = header.packed.is_some() && bug!(config, PackedShiftForgotten);
        let number = header.places(geometry).number(at)? + u32::from(shift);
        match &flight.chunk.body {
            Body::User(blocks) => blocks.get(number as usize),
            Body::Pages(_) => None,
        }
    }

    /// The page of a map at `at` if its chunk is still on its way.
    pub(crate) fn page_in_flight(&self, at: Location, block: LogicalBlock) -> Option<&PageBytes> {
        self.flights.iter().find_map(|flight| {
            let header = &flight.chunk.header;
            let origin = header.origin.location;
            match &flight.chunk.body {
                Body::Pages(pages) if flight.pending > 0 && origin.unit == at.unit => {
                    let first = origin.block + block.chunk_header(pages.len());
                    pages.get((at.block.checked_sub(first)? / block.per_block()) as usize)
                }
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests;
