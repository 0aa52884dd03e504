//! Chunks on their way to media: those of control entries, of pages, and of blocks that were picked.

use std::sync::Arc;

use thermocline_format::{
    ChunkCause, ChunkHeader, ChunkOrigin, Entry, Location, MAX_LINES, MediaClass, PackedBlock,
    PageId, VolumeId,
};
use thermocline_types::{Class, UnitId};

use crate::bugs::bug;
use crate::device::{Body, Chunk, DeviceCmd, PageBytes};
use crate::engine::{Op, Parts};
use crate::marks::mark;
use crate::payload::Payload;
use crate::write_cache::Owner;

impl<P: Payload> Parts<P> {
    /// Counts the blocks of a chunk: the host's, and copies, some of which are destaged. Returns its cause.
    pub(crate) fn count_blocks(
        &mut self,
        capacity: bool,
        host: u32,
        copies: u32,
        destaged: u32,
    ) -> ChunkCause {
        // Placement sees what comes to the devices for capacity.
        self.host_writes += u64::from(destaged) + if capacity { u64::from(host) } else { 0 };
        let stats = &mut self.stats;
        stats.host_blocks_written += u64::from(host);
        stats.destaged_blocks += u64::from(destaged);
        stats.relocated_blocks += u64::from(copies - destaged);
        if !capacity {
            stats.carried_blocks += u64::from(copies);
        } else if self.config.geometry.is_tiered() {
            stats.bypassed_blocks += u64::from(host);
        }
        match (host, destaged) {
            (0, 0) => ChunkCause::Relocation,
            (0, _) => ChunkCause::Destage,
            _ => ChunkCause::Host,
        }
    }

    /// Counts the header of a chunk in `unit`.
    fn count_header(&mut self, unit: UnitId, bytes: u64) {
        self.stats.header_bytes += bytes;
        let geometry = &self.config.geometry;
        if geometry.is_tiered() && geometry.media_of(unit) == MediaClass::Capacity {
            self.stats.capacity_header_bytes += bytes;
        }
    }

    /// Seals all control entries; `false` if no unit has room.
    pub(crate) fn seal_control(&mut self) -> bool {
        let block = self.config.geometry.logical_block();
        while let Some(lines) = self.cache.control_lines() {
            let class = self.config.metadata_class();
            let least = block.chunk_header(lines) - block.chunk_header(1);
            let Some((at, room)) = self.room(class, least) else { return false };
            let limit = (room as usize * block.bytes() - thermocline_format::CHUNK_PREFIX_BYTES)
                / thermocline_format::LINE_BYTES;
            let mut left = limit.min(MAX_LINES);
            let mut entries = Vec::new();
            let mut owners = Vec::new();
            while let Some(next) = self.cache.next_control(left) {
                left -= next.lines();
                entries.extend(next.entries);
                next.owners.iter().for_each(|owner| owe(&mut owners, *owner));
            }
            assert!(!entries.is_empty(), "the chunk has room for the first");
            self.space.note_control(at.unit, self.flights.next());
            let body = (Body::User(Vec::new()), None);
            self.launch(class, at, ChunkCause::Host, entries, body, owners, 0);
        }
        self.space.no_control_waits();
        true
    }

    /// Writes pages of maps or roots; the caller sees to it that `room` has place for all. Returns where they go.
    pub(crate) fn seal_pages(
        &mut self,
        at: Location,
        volume: VolumeId,
        pages: Vec<(PageId, PageBytes, u32)>,
    ) {
        let mut entries = Vec::with_capacity(pages.len());
        let mut body = Vec::with_capacity(pages.len());
        for (page, bytes, crc) in pages {
            entries.push(Entry::Data { volume, lba: page.lba(), crc });
            body.push(bytes);
            self.space.add_valid(at.unit);
        }
        self.stats.map_pages_written += body.len() as u64;
        let class = self.config.metadata_class();
        let cause = ChunkCause::Checkpoint;
        self.launch(class, at, cause, entries, (Body::Pages(body), None), Vec::new(), 0);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a chunk and who waits for it")]
    pub(crate) fn launch(
        &mut self,
        class: Class,
        at: Location,
        cause: ChunkCause,
        entries: Vec<Entry>,
        (body, packed): (Body<P>, Option<(P, PackedBlock)>),
        owners: Vec<(Owner, u32)>,
        host_blocks: u32,
    ) {
        let geometry = self.config.geometry;
        let sequence = self.flights.next();
        let origin = ChunkOrigin {
            pool: self.pool,
            location: at,
            generation: self.space.begin_chunk(at.unit, sequence),
            epoch: self.epoch,
            sequence,
            durable: self.durability.durable(),
            revision: self.superblocks.durable_revision(),
            cause,
            class: self.config.named(class),
        };
        let (packed, in_header) = packed.unzip();
        let header = ChunkHeader::with_packed(origin, entries, in_header, &geometry);
        let blocks = header.blocks;
        // Pages come many at once; that units run shorter by them is made good by urgency.
        if cause == ChunkCause::Host {
            self.gc_earn(self.config.media_of(class), blocks);
        }
        self.stats.chunks += 1;
        match header.packed {
            None => self.count_header(at.unit, header.header_bytes(&geometry) as u64),
            Some(_) => self.stats.packed_blocks += 1,
        }
        // Pages are not replayed; if they counted, a checkpoint of many would be followed by the next at once.
        let bytes = u64::from(blocks) * geometry.logical_block().bytes() as u64;
        if cause != ChunkCause::Checkpoint {
            self.due.add(bytes);
        }
        if cause == ChunkCause::Host && class == self.config.metadata_class() {
            self.due.add_control(bytes);
        }
        self.await_unit(&owners, at.unit);
        let device = geometry.device_of(at.unit);
        self.durability.sealed(device, sequence, cause == ChunkCause::Host);
        let chunk = Arc::new(Chunk { header: Arc::new(header), body, packed });
        self.flights.launch(Arc::clone(&chunk), owners, host_blocks);
        self.space.end_chunk(class, Location { block: at.block + blocks, ..at });
        let op = self.ops.insert(Op::WriteChunk { sequence, class });
        self.device(op, DeviceCmd::WriteChunk(chunk));
        if self.config.geometry.blocks_per_unit() - at.block - blocks
            < geometry.logical_block().chunk_header(1)
        {
            self.close_frontier(class);
        }
    }

    /// Has a failed flight wait for what stands before a chunk that replaces a part of it: if a write of those fails,
    /// that chunk is lost, too.
    fn await_unit(&mut self, owners: &[(Owner, u32)], unit: UnitId) {
        if bug!(self.config, UnitNotAwaited) {
            return;
        }
        for &(owner, _) in owners {
            let Owner::Failed(sequence) = owner else { continue };
            let count = self.flights.await_later(sequence, Some(unit));
            mark!(UnitAwaited if count > 0);
        }
    }
}

/// Adds one block to the wait of `owner`.
pub(super) fn owe(owners: &mut Vec<(Owner, u32)>, owner: Owner) {
    match owners.last_mut() {
        Some((last, count)) if *last == owner => *count += 1,
        _ => owners.push((owner, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_counted_once_for_each_block_and_anew_after_another() {
        let (first, second) = (Owner::Request(1), Owner::Request(2));
        let mut owners = Vec::new();
        [first, first, second, first].into_iter().for_each(|owner| owe(&mut owners, owner));
        assert_eq!(owners, [(first, 2), (second, 1), (first, 1)]);
    }
}
