//! The write path: blocks wait in the stage, are sealed into chunks, and are on their way until the device answers.
//!
//! The map changes when a chunk is sealed, so the order of sequences is the order of all changes to the map. A block
//! written by the host is in the map from its submission, as a slot of the stage; the block that it replaces stays
//! valid until it is sealed, since a crash before that must find it.
//!
//! Invariants:
//! * Control entries are sealed before any block that was staged after them.
//! * A block that is written again before it was sealed is replaced in its slot, and what is trimmed then leaves a slot
//!   that is never written.

mod failed;
mod packing;

use std::sync::Arc;

use thermocline_format::{
    ChunkCause, ChunkHeader, ChunkOrigin, Entry, Location, MAX_LINES, MediaClass, PackedBlock,
    PageId, Sequence, VolumeId,
};
use thermocline_ftl::placement::Classifier as _;
use thermocline_types::{Class, Lba, UnitId};

use crate::bugs::bug;
use crate::config::{Config, MAX_IO_BLOCKS};
use crate::device::{Body, Chunk, DeviceCmd, DeviceError, PageBytes};
use crate::engine::{Engine, Op, Phase};
use crate::map::{Mapping, PAGE, Value};
use crate::marks::mark;
use crate::payload::Payload;
use crate::volumes::PageCursor;
use crate::write_cache::{Owner, Staged, class_of, is_of_copies};

/// Blocks below which a chunk is filled up with blocks of other classes: they would have a header each, of up to 4 KiB,
/// which costs more than their separation gains. Chosen, not measured.
const JOINED: usize = 16;

impl<P: Payload> Engine<P> {
    /// Where the block of `lba` is on media, or was before what is staged, as far as that is known.
    pub(crate) fn on_media(&self, volume: u16, lba: u64) -> Option<Value> {
        self.leads_to(self.volumes.map(volume).look_up(lba)?)
    }

    /// Where a block of which the map says this is on media, or was before what is staged, as far as that is known.
    pub(crate) fn leads_to(&self, mapping: Mapping) -> Option<Value> {
        match mapping {
            Mapping::Unmapped => None,
            Mapping::At(value) => Some(value),
            Mapping::Staged(slot) => self.cache.block(slot).old,
        }
    }

    pub(crate) fn unit_of(&self, value: Value) -> UnitId {
        self.addresses.location(value.address()).unit
    }

    /// Seals what waits in a queue, or what of class `own` goes before all queues, at most one chunk. Returns whether
    /// it did; it does not without a unit that is open, or that may be opened if it `opens` one.
    fn seal(&mut self, own: Class, queue: Option<usize>, opens: bool) -> bool {
        if !self.seal_control() {
            return false;
        }
        let class = self.space.shared_class(own, opens && self.may_open(own));
        if !opens && !self.has_room_for_block(class) {
            return false;
        }
        mark!(OpenUnitFilled if !opens);
        mark!(ClassesShareUnit if class != own);
        let Some((at, room)) = self.room(class, self.config.geometry.logical_block().per_block())
        else {
            return false;
        };
        let block = self.config.geometry.logical_block();
        let limit = block.blocks_in_chunk(room);
        let mut owners = Vec::new();
        // Who waited for blocks of failed writes that were replaced meanwhile: for what replaced them, from now on.
        let mut outlived = Vec::new();
        let mut picked = std::mem::take(&mut self.picked);
        picked.clear();
        // Only then can a block be copied by garbage collection and as part of a failed write at once.
        let twice = self.flights.has_abandoned();
        while picked.len() < limit
            && let Some(slot) = match queue {
                Some(queue) => self.next_staged(queue, picked.len()),
                None => self.next_express(own, picked.len()),
            }
        {
            let current = self.is_current(slot);
            let staged = self.cache.block(slot);
            let copied = staged.old.filter(|_| staged.copy && !staged.replaces);
            let alive = current && !(staged.copy && twice && self.cache.holds(&picked, staged));
            mark!(CopyOutdated if !alive && staged.copy);
            mark!(CopiedTwice if staged.copy && twice && self.cache.holds(&picked, staged));
            let waiting = if alive || !staged.replaces { &mut owners } else { &mut outlived };
            staged.owners.each().iter().for_each(|owner| owe(waiting, *owner));
            if alive {
                picked.push(slot);
            } else {
                self.cache.discard(slot);
            }
            copied.into_iter().for_each(|from| self.copy_leaves(from));
        }
        if self.config.geometry.is_tiered() && self.config.media_of(class) == MediaClass::Capacity {
            // What is destaged lies by address, so that those who read on find it together.
            self.cache.sort_by_address(&mut picked);
        }
        if picked.is_empty() {
            self.settle_owners(&owners);
        } else {
            if queue.is_none() {
                self.cache.express().sealed(self.flights.next(), self.config.media_of(own));
            }
            self.launch_blocks(class, at, &picked, owners);
        }
        self.picked = picked;
        for (owner, _) in &outlived {
            if let Owner::Failed(sequence) = *owner {
                mark!(ReplacementOutlived);
                self.await_successors(sequence);
            }
        }
        self.settle_owners(&outlived);
        true
    }

    /// Whether what waits in a slot is still to be written: if it is a copy, whether what it was made of counts.
    fn is_current(&mut self, slot: u32) -> bool {
        let Staged { copy, alive, volume, id, lba, replaces, old, .. } = *self.cache.block(slot);
        if !copy || bug!(self.config, CopyNotCheckedAgain) {
            return alive;
        }
        if !self.volumes.is(volume, id) || lba >= self.volumes.map(volume).blocks {
            return false;
        }
        // A victim is not written again before its copies are sealed. A unit with failed writes may be.
        let valid = old.filter(|_| !replaces).and_then(|old| self.is_valid(volume, lba, old));
        valid.unwrap_or_else(|| self.on_media(volume, lba) == old)
    }

    /// Whether the block at `value` is the valid one of `lba`; `None` if that is not known without its page.
    #[inline]
    pub(crate) fn is_valid(&mut self, volume: u16, lba: u64, value: Value) -> Option<bool> {
        match self.space.counts(value.address()) {
            Some(true) if self.volumes.map(volume).is_patched(lba / PAGE) => {
                Some(self.is_not_replaced(volume, lba, value))
            }
            None if self.volumes.map(volume).is_loaded(lba / PAGE) => {
                Some(self.on_media(volume, lba) == Some(value))
            }
            counts => counts,
        }
    }

    /// Takes the next block of a queue; of the nearest like it if that is empty and its chunk would be small.
    fn next_staged(&mut self, queue: usize, picked: usize) -> Option<u32> {
        if let Some(slot) = self.cache.pop(queue) {
            return Some(slot);
        }
        if picked >= JOINED {
            return None;
        }
        let media = |queue: usize| self.config.media_of(class_of(queue));
        let alike = |other: &usize| self.cache.length(*other) > 0 && media(*other) == media(queue);
        let some = (queue % 2..self.cache.queues()).step_by(2).filter(alike);
        let nearest = some.min_by_key(|other| other.abs_diff(queue))?;
        mark!(QueuesJoined);
        self.cache.pop(nearest)
    }

    /// Takes the next block of `class` that goes before all queues; of any of its media if the chunk would be small.
    fn next_express(&mut self, class: Class, picked: usize) -> Option<u32> {
        if let Some(slot) = self.cache.pop_express(|other| other == class) {
            return Some(slot);
        }
        let (media, config) = (self.config.media_of(class), &self.config);
        let joins = picked < JOINED;
        joins.then(|| self.cache.pop_express(|other| config.media_of(other) == media))?
    }

    /// Seals the picked blocks into a chunk at `at` and sends it off.
    fn launch_blocks(
        &mut self,
        class: Class,
        at: Location,
        picked: &[u32],
        owners: Vec<(Owner, u32)>,
    ) {
        let geometry = self.config.geometry;
        let block = geometry.logical_block();
        let packed = self.pack_one(picked);
        let header = geometry.address(at);
        let mut next = header + u64::from(block.chunk_header(picked.len()));
        let mut entries = Vec::with_capacity(picked.len());
        let mut body = Vec::with_capacity(picked.len());
        let (mut copies, mut destaged, mut host_blocks) = (0, 0, 0);
        let capacity = self.config.media_of(class) == MediaClass::Capacity;
        for (number, &slot) in (0..).zip(picked) {
            let in_header = packed.as_ref().is_some_and(|(_, packed)| packed.entry == number);
            let address = if in_header { header } else { next };
            next += if in_header { 0 } else { u64::from(block.per_block()) };
            let staged = self.cache.launch(slot);
            let leaves = capacity && staged.copy && staged.old.is_some_and(|old| self.is_fast(old));
            let volume = self.volumes.map_mut(staged.volume);
            if capacity {
                let in_pool = Lba(volume.base + staged.lba);
                self.config.placement.stored(in_pool, at.unit, self.host_writes);
            }
            entries.push(Entry::Data { volume: volume.id, lba: Lba(staged.lba), crc: staged.crc });
            volume.traffic.destaged_blocks += u64::from(leaves);
            volume.traffic.relocated_blocks += u64::from(staged.copy && !leaves);
            volume.traffic.host_blocks_written += u64::from(!staged.copy);
            let new = Value::new(address, staged.crc);
            let over = staged.copy.then(|| volume.look_up(staged.lba)).flatten();
            if let Some(Mapping::Staged(other)) = over {
                mark!(StagedBlockMoved);
                // A copy of what a staged block replaces: the page on media is to say so all the same.
                self.cache.replaces(other, new);
                if !bug!(self.config, PageNotDirtyAfterCopy) {
                    volume.mark_dirty(staged.lba / PAGE);
                }
            } else if staged.copy && !volume.is_loaded(staged.lba / PAGE) {
                // What it was copied from is what the page leads to, if no patch says otherwise.
                volume.patch(staged.lba, Mapping::At(new), false);
            } else {
                volume.set(staged.lba, Mapping::At(new));
            }
            self.volumes.note_pages(staged.volume);
            let from = staged.old.filter(|_| !bug!(self.config, OldBlockStaysValid));
            let page = PageCursor::at(staged.volume, staged.lba / PAGE);
            self.note_move(page, from, Some(at.unit));
            if let Some(old) = from {
                self.drop_value(old);
            }
            self.space.add_block(address);
            destaged += u32::from(leaves);
            copies += u32::from(staged.copy);
            host_blocks += u32::from(!staged.copy);
            body.push(staged.payload);
        }
        let cause = self.count_blocks(capacity, host_blocks, copies, destaged);
        self.launch(class, at, cause, entries, (Body::User(body), packed), owners, host_blocks);
    }

    /// Seals all control entries; `false` when there is no unit for them.
    pub(crate) fn seal_control(&mut self) -> bool {
        let block = self.config.geometry.logical_block();
        while self.cache.has_control() {
            let class = self.config.metadata_class();
            let Some((at, room)) = self.room(class, 0) else { return false };
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
            assert!(!entries.is_empty(), "what stands in one chunk fits into the smallest");
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

    /// Whether a block is on a fast device.
    #[inline]
    fn is_fast(&self, value: Value) -> bool {
        self.space.media_of(self.addresses.location(value.address()).unit) == MediaClass::Fast
    }

    /// Where the next chunk of `class` begins and the logical blocks that it may have, header included: enough for a
    /// header and `least` behind it. Opens a unit if need be; `None` when there is none to open.
    pub(crate) fn room(&mut self, class: Class, least: u32) -> Option<(Location, u32)> {
        let block = self.config.geometry.logical_block();
        let least = block.chunk_header(1) + least;
        loop {
            let at = match self.space.next_of(class) {
                Some(at) => at,
                None => self.open_unit(class)?,
            };
            let room = self.config.geometry.blocks_per_unit() - at.block;
            if room >= least {
                return Some((at, room.min(block.max_chunk())));
            }
            self.close_frontier(class);
        }
    }

    /// Whether the unit that is open for `class` has room for a block.
    fn has_room_for_block(&self, class: Class) -> bool {
        let block = self.config.geometry.logical_block();
        let least = block.chunk_header(1) + block.per_block();
        let units = self.config.geometry.blocks_per_unit();
        self.space.next_of(class).is_some_and(|at| units - at.block >= least)
    }

    /// Opens a unit for `class`. The last ones are for metadata alone: without room for a checkpoint no unit could ever
    /// be freed after a crash.
    fn open_unit(&mut self, class: Class) -> Option<Location> {
        let media = self.config.media_of(class);
        // A device lets so many zones be active, and one stays so until it is full or finished.
        let most = self.config.max_open_units[media as usize];
        let many = most < u32::MAX && self.space.active_units(media) > most;
        if many && !bug!(self.config, ZonesNotCounted) {
            mark!(WaitsForZone);
            return None;
        }
        let may_open = class == self.config.metadata_class() || self.may_open(class);
        mark!(NoUnitForHost if !may_open);
        let at = may_open.then(|| self.space.open(class, media))??;
        if Some(class) == self.config.arrivals() {
            self.destage.opened(self.now);
        } else if class.0 < self.config.placement_classes() {
            self.config.placement.opened(self.space.units(), at.unit, self.host_writes);
            self.close_idle();
        }
        Some(at)
    }

    /// Closes units that are open for classes which nothing goes to any more: what is left of them is of no use.
    fn close_idle(&mut self) {
        while let Some(class) = self.space.idle_class() {
            mark!(IdleUnitClosed);
            self.close_frontier(class);
        }
    }

    /// Whether units may be opened for users' blocks of `class`. Blocks of failed writes take what the table still has:
    /// a release may wait for them, and for that the checkpoint that shortens it.
    fn may_open(&self, class: Class) -> bool {
        let replacing = self.cache.has_replacements() && self.table_has_last_room();
        let media = self.config.media_of(class);
        let held = if media != self.config.host_media() {
            self.held_from_destage()
        } else if self.gc.borrows() {
            self.held_from_borrowers()
        } else {
            self.metadata_hold()
        };
        self.space.free_units(media) > held && (self.table_has_room() || replacing)
    }

    /// Units that a checkpoint of all maps may need, and the one after it: pages that were never written take room that
    /// the next one does not give back.
    pub(crate) fn metadata_hold(&self) -> u32 {
        let pages = self.volumes.pages_in_use() + self.unit_table.pages().len() as u64;
        2 + ((pages + self.volumes.pages_unwritten()) / self.dense) as u32
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a chunk and who waits for it")]
    fn launch(
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

    pub(crate) fn close_frontier(&mut self, class: Class) {
        if let Some(at) = self.space.close(class, self.host_writes) {
            if Some(class) == self.config.arrivals() {
                self.destage.closed(at.unit, self.now);
            }
            self.finish_if_quiet(at.unit);
        }
    }

    /// Lets the device let go of a closed unit that is not full, once nothing is on its way to it.
    pub(crate) fn finish_if_quiet(&mut self, unit: UnitId) {
        if let Some(left) = self.space.finish_if_quiet(unit) {
            let bytes = self.config.geometry.logical_block().bytes() as u64;
            self.stats.unused_bytes += u64::from(left) * bytes;
            let op = self.ops.insert(Op::Finish { unit });
            self.device(op, DeviceCmd::Finish(unit));
        }
    }

    /// The device answered for chunk `sequence` of `class`.
    pub(crate) fn chunk_written(
        &mut self,
        sequence: Sequence,
        class: Class,
        result: Result<(), DeviceError>,
    ) {
        let chunk = self.flights.chunk(sequence);
        let unit = chunk.header.origin.location.unit;
        self.space.chunk_answered(class, unit);
        self.cache.express().answered(sequence);
        let broken = self.space.broken(unit);
        match result {
            Ok(()) if broken.is_none_or(|block| block > chunk.header.origin.location.block) => {
                self.flights.succeeded();
            }
            Ok(()) => {
                mark!(BehindBroken);
                self.replace_chunk(sequence, &chunk, class);
                self.await_successors(sequence);
            }
            Err(error) => self.write_failed(sequence, &chunk, class, error),
        }
        if self.space.units().state(unit) == thermocline_ftl::UnitState::Closed {
            self.finish_if_quiet(unit);
            self.space.closed_if_quiet(unit);
        }
        self.flight_progress(sequence, 1);
    }

    /// `count` of what chunk `sequence` waited for is on media.
    fn flight_progress(&mut self, sequence: Sequence, count: u32) {
        let Some(landed) = self.flights.progress(sequence, count) else { return };
        if let Some(unit) = landed.replaced {
            self.durability.replaced(self.config.geometry.device_of(unit));
        }
        self.cache.landed(landed.host_blocks);
        if !self.phase_failed() {
            self.flights.told(sequence);
        }
        self.settle_owners(&landed.owners);
        self.flights.retire(&self.config.geometry);
    }

    /// Tells owners that what they wait for is on media.
    pub(crate) fn settle_owners(&mut self, owners: &[(Owner, u32)]) {
        for &(owner, count) in owners {
            match owner {
                Owner::Request(request) => self.request_progress(request, count, None),
                Owner::Failed(sequence) => self.flight_progress(sequence, count),
            }
        }
    }

    /// Seals whatever may be sealed now. Returns whether anything was.
    pub(crate) fn seal_ready(&mut self) -> bool {
        let before = self.flights.sealed();
        if self.cache.has_control() {
            self.seal_control();
        }
        let mut worked = self.flights.sealed() > before;
        let tiered = self.config.geometry.is_tiered();
        let media = self.config.host_media();
        let hosts = self.hosts_may_be_ripe()
            && (tiered || self.host_may_seal(media, true) || self.host_may_fill(media));
        if hosts {
            worked |= self.seal_express();
            // Those that wait longest go first: the host may have to stop for its debt after any chunk.
            let mut order = std::mem::take(&mut self.order);
            self.cache.oldest_first(&mut order);
            for &queue in &order {
                let class = class_of(queue);
                while self.is_to_be_sealed(queue) {
                    let awaited = self.is_cached() && self.cache.is_hurried(queue);
                    if !self.seal_of_host(class, Some(queue), awaited) {
                        break;
                    }
                    worked = true;
                }
            }
            self.order = order;
        }
        for queue in (1..self.cache.queues()).step_by(2) {
            while self.cache.copies() > 0
                && self.is_to_be_sealed(queue)
                && self.seal(class_of(queue), Some(queue), true)
            {
                worked = true;
            }
        }
        if hosts {
            self.cache.ripen();
        }
        self.flush_sealed();
        worked
    }

    /// Seals a chunk of what hosts wrote, as [`Engine::seal`], if that may be.
    fn seal_of_host(&mut self, class: Class, queue: Option<usize>, awaited: bool) -> bool {
        let media = self.config.media_of(class);
        let opens = self.host_may_seal(media, awaited);
        let may = opens || awaited && self.host_may_fill(media);
        may && self.seal(class, queue, opens)
    }

    /// Seals what goes before all queues. What goes to one class of media does not wait for what goes to the other.
    fn seal_express(&mut self) -> bool {
        let mut worked = false;
        for media in MediaClass::ALL {
            let is_there = |config: &Config, class| config.media_of(class) == media;
            while self.cache.express().chunks(media) < self.config.write_depth
                && let Some(class) = self.cache.express_class(|class| is_there(&self.config, class))
                && self.seal_of_host(class, None, true)
            {
                worked = true;
            }
        }
        worked
    }

    /// Whether any queue of the host may be to be sealed: what [`Engine::is_to_be_sealed`] looks at, at a glance.
    pub(crate) fn hosts_may_be_ripe(&self) -> bool {
        let waiting = self.cache.waiting();
        waiting > 0 && (self.cache.is_ripe() || !self.is_cached() || waiting > self.patient())
    }

    /// Whether what the host writes has time.
    pub(crate) fn is_cached(&self) -> bool {
        self.config.write_cache && self.phase == Phase::Open
    }

    /// Blocks of the host beyond which the longest queue is sealed: they leave room for the longest request.
    fn patient(&self) -> u32 {
        let most = self.config.max_staged_blocks;
        (most / 2).min(most - MAX_IO_BLOCKS as u32)
    }

    /// Whether blocks of a queue are to be sealed as soon as that can be: they fill a chunk, or need not wait until
    /// they do.
    fn is_to_be_sealed(&self, queue: usize) -> bool {
        if self.cache.length(queue) == 0 {
            return false;
        }
        let full = self.cache.is_full(queue);
        let copies = is_of_copies(queue);
        let cached = !copies && self.is_cached();
        // The device is kept busy, without a long queue there.
        if full && (!cached || self.cache.flying() <= self.config.max_staged_blocks / 2) {
            return true;
        }
        if self.space.in_flight(class_of(queue)) >= self.config.write_depth {
            return false;
        }
        match (copies, cached) {
            (true, _) => {
                self.copies_are_urgent(queue)
                    || self.copies_are_many() && self.cache.is_longest(queue)
            }
            (false, false) => true,
            (false, true) => {
                self.cache.is_hurried(queue)
                    || self.cache.waiting() > self.patient() && self.cache.is_longest(queue)
            }
        }
    }

    /// Whether blocks of the host wait in memory, and nothing is to be sealed as yet.
    pub(crate) fn lingers(&self) -> bool {
        let mut copies = (1..self.cache.queues()).step_by(2);
        self.cache.waiting() > 0
            && !self.cache.has_control()
            && !self.hosts_may_be_ripe()
            && (self.cache.copies() == 0 || !copies.any(|queue| self.is_to_be_sealed(queue)))
    }
}

/// Counts one more that `owner` waits for.
fn owe(owners: &mut Vec<(Owner, u32)>, owner: Owner) {
    match owners.last_mut() {
        Some((last, count)) if *last == owner => *count += 1,
        _ => owners.push((owner, 1)),
    }
}
