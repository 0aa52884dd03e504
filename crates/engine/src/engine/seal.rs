//! The write path: blocks wait in the stage, are sealed into chunks, and are on their way until the device answers.
//!
//! The map changes when a chunk is sealed, so the order of sequences is the order of all changes to the map. A block
//! written by the host is in the map from its submission, as a slot of the stage; the replaced block stays valid until
//! the new block is sealed, since recovery from an earlier crash needs the replaced block.
//!
//! Invariants:
//! * Control entries are sealed before any block that was staged after them.
//! * A block that is written again before it was sealed is replaced in its slot, and what is trimmed then leaves a slot
//!   that is never written.

mod failed;
mod packing;

use std::fmt::Debug;

use thermocline_format::{Entry, Location, MediaClass, Packer};
use thermocline_ftl::placement::Classifier as _;
use thermocline_types::{Class, Lba};

use crate::bugs::bug;
use crate::config::{Config, MAX_IO_BLOCKS};
use crate::device::Body;
use crate::engine::Parts;
use crate::engine::chunks::owe;
use crate::map::{Mapping, PAGE, Value};
use crate::marks::mark;
use crate::payload::Payload;
use crate::volumes::PageCursor;
use crate::write_cache::{Owner, Staged, class_of, is_of_copies};

/// Blocks below which a chunk is filled up with blocks of other classes: they would have a header each, of up to 4 KiB,
/// which costs more than their separation gains. Chosen, not measured.
const JOINED: usize = 16;

/// Seals what waits in memory.
#[derive(Debug, Default)]
pub(crate) struct Sealer {
    /// Scratch: the slots of a chunk, and queues of the host.
    picked: Vec<u32>,
    order: Vec<usize>,
    packer: Packer,
}

impl Sealer {
    /// Seals what waits in a queue, or what of class `own` goes before all queues, at most one chunk. Returns whether
    /// it did; needs an open unit or, with `opens`, a unit that may be opened.
    fn seal<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        own: Class,
        queue: Option<usize>,
        opens: bool,
    ) -> bool {
        if !p.seal_control() {
            return false;
        }
        let class = p.space.shared_class(own, opens && p.may_open(own));
        if !opens && !p.has_room_for_block(class) {
            return false;
        }
        mark!(OpenUnitFilled if !opens);
        mark!(ClassesShareUnit if class != own);
        let block = p.config.geometry.logical_block();
        let Some((at, room)) = p.room(class, block.per_block()) else { return false };
        let limit = block.blocks_in_chunk(room);
        let mut owners = Vec::new();
        // Waiters of failed writes whose blocks the host has replaced. They now wait for the newer write.
        let mut outlived = Vec::new();
        let mut picked = std::mem::take(&mut self.picked);
        picked.clear();
        // Only then can a block be copied by garbage collection and as part of a failed write at once.
        let twice = p.flights.has_abandoned();
        while picked.len() < limit
            && let Some(slot) = match queue {
                Some(queue) => self.next_staged(p, queue, picked.len()),
                None => self.next_urgent(p, own, picked.len()),
            }
        {
            let current = self.is_current(p, slot);
            let staged = p.cache.block(slot);
            let copied = staged.old.filter(|_| staged.copy && !staged.replaces);
            let alive = current && !(staged.copy && twice && p.cache.holds(&picked, staged));
            mark!(CopyOutdated if !alive && staged.copy);
            mark!(CopiedTwice if staged.copy && twice && p.cache.holds(&picked, staged));
            let waiting = if alive || !staged.replaces { &mut owners } else { &mut outlived };
            staged.owners.each().iter().for_each(|owner| owe(waiting, *owner));
            if alive {
                picked.push(slot);
            } else {
                p.cache.discard(slot);
            }
            copied.into_iter().for_each(|from| p.copy_leaves(from));
        }
        if p.config.geometry.is_tiered() && p.config.media_of(class) == MediaClass::Capacity {
            // Destaged blocks are sorted by address, so that sequential reads stay sequential on media.
            p.cache.sort_by_address(&mut picked);
        }
        if picked.is_empty() {
            p.settle_owners(&owners);
        } else {
            if queue.is_none() {
                p.cache.urgent().sealed(p.flights.next(), p.config.media_of(own));
            }
            self.launch_blocks(p, class, at, &picked, owners);
        }
        self.picked = picked;
        for (owner, _) in &outlived {
            if let Owner::Failed(sequence) = *owner {
                mark!(ReplacementOutlived);
                p.await_successors(sequence);
            }
        }
        p.settle_owners(&outlived);
        true
    }

    /// Whether what waits in a slot is still to be written: a copy is written only if its original still counts.
    fn is_current<P: Payload>(&mut self, p: &mut Parts<P>, slot: u32) -> bool {
        let Staged { copy, alive, volume, id, lba, replaces, old, .. } = *p.cache.block(slot);
        if !copy || bug!(p.config, CopyNotCheckedAgain) {
            return alive;
        }
        if !p.volumes.is(volume, id) || lba >= p.volumes.map(volume).blocks {
            return false;
        }
        // A victim is not written again before its copies are sealed. A unit with failed writes may be.
        let valid = old.filter(|_| !replaces).and_then(|old| p.is_valid(volume, lba, old));
        valid.unwrap_or_else(|| p.on_media(volume, lba) == old)
    }

    /// Takes the next block of a queue; of the nearest like it if that is empty and its chunk would be small.
    fn next_staged<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        queue: usize,
        picked: usize,
    ) -> Option<u32> {
        if let Some(slot) = p.cache.pop(queue) {
            return Some(slot);
        }
        if picked >= JOINED {
            return None;
        }
        let media = |queue: usize| p.config.media_of(class_of(queue));
        let alike = |other: &usize| p.cache.length(*other) > 0 && media(*other) == media(queue);
        let some = (queue % 2..p.cache.queues()).step_by(2).filter(alike);
        let nearest = some.min_by_key(|other| other.abs_diff(queue))?;
        mark!(QueuesJoined);
        p.cache.pop(nearest)
    }

    /// Takes the next block of `class` that goes before all queues; of any of its media if the chunk would be small.
    fn next_urgent<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        class: Class,
        picked: usize,
    ) -> Option<u32> {
        if let Some(slot) = p.cache.pop_urgent(|other| other == class) {
            return Some(slot);
        }
        let (media, config) = (p.config.media_of(class), &p.config);
        let joins = picked < JOINED;
        joins.then(|| p.cache.pop_urgent(|other| config.media_of(other) == media))?
    }

    /// Seals the picked blocks into a chunk at `at` and sends it off.
    fn launch_blocks<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        class: Class,
        at: Location,
        picked: &[u32],
        owners: Vec<(Owner, u32)>,
    ) {
        let geometry = p.config.geometry;
        let block = geometry.logical_block();
        let packed = self.pack_one(p, picked);
        let header = geometry.address(at);
        let mut next = header + u64::from(block.chunk_header(picked.len()));
        let mut entries = Vec::with_capacity(picked.len());
        let mut body = Vec::with_capacity(picked.len());
        let (mut copies, mut destaged, mut staged_blocks) = (0, 0, 0);
        let capacity = p.config.media_of(class) == MediaClass::Capacity;
        for (number, &slot) in (0..).zip(picked) {
            let in_header = packed.as_ref().is_some_and(|(_, packed)| packed.entry == number);
            let address = if in_header { header } else { next };
            next += if in_header { 0 } else { u64::from(block.per_block()) };
            let staged = p.cache.launch(slot);
            let leaves =
                capacity && staged.copy && staged.old.is_some_and(|old| self.is_fast(p, old));
            let volume = p.volumes.map_mut(staged.volume);
            if capacity {
                let in_pool = Lba(volume.base + staged.lba);
                p.config.placement.stored(in_pool, at.unit, p.host_writes);
            }
            entries.push(Entry::Data { volume: volume.id, lba: Lba(staged.lba), crc: staged.crc });
            volume.traffic.destaged_blocks += u64::from(leaves);
            let copied = staged.copy || staged.lifted;
            volume.traffic.relocated_blocks += u64::from(copied && !leaves);
            volume.traffic.host_blocks_written += u64::from(!copied);
            let new = Value::new(address, staged.crc);
            let over = staged.copy.then(|| volume.look_up(staged.lba)).flatten();
            if let Some(Mapping::Staged(other)) = over {
                mark!(StagedBlockMoved);
                // A copy of what a staged block replaces: the page on media is to say so all the same.
                p.cache.replaces(other, new);
                if !bug!(p.config, PageNotDirtyAfterCopy) {
                    volume.mark_dirty(staged.lba / PAGE);
                }
            } else if staged.copy && !volume.is_loaded(staged.lba / PAGE) {
                // What it was copied from is what the page leads to, if no patch says otherwise.
                volume.patch(staged.lba, Mapping::At(new), false);
            } else {
                volume.set(staged.lba, Mapping::At(new));
            }
            p.volumes.note_pages(staged.volume);
            let from = staged.old.filter(|_| !bug!(p.config, OldBlockStaysValid));
            let page = PageCursor::at(staged.volume, staged.lba / PAGE);
            p.note_move(page, from, Some(at.unit));
            if let Some(old) = from {
                p.drop_value(old);
            }
            p.space.add_block(address);
            destaged += u32::from(leaves);
            copies += u32::from(copied);
            staged_blocks += u32::from(!staged.copy);
            body.push(staged.payload);
        }
        let host = picked.len() as u32 - copies;
        let cause = p.count_blocks(capacity, host, copies, destaged);
        p.launch(class, at, cause, entries, (Body::User(body), packed), owners, staged_blocks);
    }

    /// Whether a block is on a fast device.
    #[inline]
    fn is_fast<P: Payload>(&self, p: &Parts<P>, value: Value) -> bool {
        p.space.media_of(p.addresses.location(value.address()).unit) == MediaClass::Fast
    }

    /// Seals whatever may be sealed now. Returns whether anything was.
    pub(crate) fn seal_ready<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let before = p.flights.sealed();
        if p.cache.has_control() {
            p.seal_control();
        }
        let mut worked = p.flights.sealed() > before;
        let tiered = p.config.geometry.is_tiered();
        let media = p.config.host_media();
        let hosts = self.may_seal_host_data(p)
            && (tiered || p.host_may_seal(media, true) || p.host_may_fill(media));
        if hosts {
            worked |= self.seal_urgent(p);
            // The oldest queues come first: the host may have to stop for its debt after any chunk.
            let mut order = std::mem::take(&mut self.order);
            p.cache.oldest_first(&mut order);
            for &queue in &order {
                let class = class_of(queue);
                while self.is_to_be_sealed(p, queue) {
                    let awaited = p.is_cached() && p.cache.is_awaited(queue);
                    if !self.seal_of_host(p, class, Some(queue), awaited) {
                        break;
                    }
                    worked = true;
                }
            }
            self.order = order;
        }
        for queue in (1..p.cache.queues()).step_by(2) {
            while p.cache.copies() > 0
                && self.is_to_be_sealed(p, queue)
                && self.seal(p, class_of(queue), Some(queue), true)
            {
                worked = true;
            }
        }
        if hosts {
            p.cache.update_may_seal();
        }
        p.flush_sealed();
        worked
    }

    /// Seals a chunk of what hosts wrote, as [`Sealer::seal`], if that may be.
    fn seal_of_host<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        class: Class,
        queue: Option<usize>,
        awaited: bool,
    ) -> bool {
        let media = p.config.media_of(class);
        let opens = p.host_may_seal(media, awaited);
        let may = opens || awaited && p.host_may_fill(media);
        may && self.seal(p, class, queue, opens)
    }

    /// Seals the urgent blocks, which precede all queues. The classes of media do not wait for each other.
    fn seal_urgent<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let mut worked = false;
        for media in MediaClass::ALL {
            let is_there = |config: &Config, class| config.media_of(class) == media;
            while p.cache.urgent().chunks(media) < p.config.write_depth
                && let Some(class) = p.cache.express_class(|class| is_there(&p.config, class))
                && self.seal_of_host(p, class, None, true)
            {
                worked = true;
            }
        }
        worked
    }

    /// Whether any queue of the host may be to be sealed: what [`Sealer::is_to_be_sealed`] looks at, at a glance.
    pub(crate) fn may_seal_host_data<P: Payload>(&self, p: &Parts<P>) -> bool {
        let waiting = p.cache.waiting();
        waiting > 0 && (p.cache.may_seal() || !p.is_cached() || waiting > self.patient(p))
    }

    /// Blocks of the host beyond which the longest queue is sealed: they leave room for the longest request.
    fn patient<P: Payload>(&self, p: &Parts<P>) -> u32 {
        let most = p.config.max_staged_blocks;
        (most / 2).min(most - MAX_IO_BLOCKS as u32)
    }

    /// Whether blocks of a queue are to be sealed as soon as that can be: they fill a chunk, or need not wait until
    /// they do.
    fn is_to_be_sealed<P: Payload>(&self, p: &Parts<P>, queue: usize) -> bool {
        if p.cache.length(queue) == 0 {
            return false;
        }
        let full = p.cache.is_full(queue);
        let copies = is_of_copies(queue);
        let cached = !copies && p.is_cached();
        // The device is kept busy, without a long queue there.
        if full && (!cached || p.cache.flying() <= p.config.max_staged_blocks / 2) {
            return true;
        }
        if p.space.in_flight(class_of(queue)) >= p.config.write_depth {
            return false;
        }
        match (copies, cached) {
            (true, _) => {
                p.copies_are_urgent(queue) || p.copies_are_many() && p.cache.is_longest(queue)
            }
            (false, false) => true,
            (false, true) => {
                p.cache.is_awaited(queue)
                    || p.cache.waiting() > self.patient(p) && p.cache.is_longest(queue)
            }
        }
    }

    /// Whether blocks of the host wait in memory, and nothing is to be sealed as yet.
    pub(crate) fn waits_for_deadline<P: Payload>(&self, p: &Parts<P>) -> bool {
        let mut copies = (1..p.cache.queues()).step_by(2);
        p.cache.waiting() > 0
            && !p.cache.has_control()
            && !self.may_seal_host_data(p)
            && (p.cache.copies() == 0 || !copies.any(|queue| self.is_to_be_sealed(p, queue)))
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::Time;

    use super::*;
    use crate::device::DeviceCmd;
    use crate::engine::parts::testing::{blocks, free, parts};
    use crate::request::{Action, RequestId};

    fn chunks(p: &mut Parts<()>) -> usize {
        let is_chunk = |action: &Action<()>| {
            matches!(action, Action::Device { cmd: DeviceCmd::WriteChunk(_), .. })
        };
        p.actions.drain(..).filter(is_chunk).count()
    }

    #[test]
    fn what_hosts_write_waits_in_memory_until_it_is_awaited() {
        let mut p = parts();
        free(&mut p, 8, 40);
        let mut sealer = Sealer::default();
        assert!(p.write_at_once(RequestId(1), blocks(0, 4), &(), 0));
        assert!(!sealer.seal_ready(&mut p) && sealer.waits_for_deadline(&p) && chunks(&mut p) == 0);
        p.cache.seal_all_soon();
        assert!(!sealer.waits_for_deadline(&p) && sealer.seal_ready(&mut p));
        assert_eq!((chunks(&mut p), p.cache.waiting()), (1, 0));
    }

    #[test]
    fn nothing_is_sealed_without_a_unit_that_hosts_may_take() {
        let mut p = parts();
        let mut sealer = Sealer::default();
        assert!(p.write_at_once(RequestId(1), blocks(0, 4), &(), 0));
        p.cache.seal_all_soon();
        assert!(!sealer.seal_ready(&mut p));
        let reserve = p.reserve_of(p.config.host_media());
        free(&mut p, 8, reserve);
        assert!(!sealer.seal_ready(&mut p), "those are for metadata and copies");
        free(&mut p, 50, 1);
        assert!(sealer.seal_ready(&mut p));
        assert_eq!(chunks(&mut p), 1);
    }

    #[test]
    fn a_block_that_is_written_again_before_it_is_sealed_is_sealed_once() {
        let mut p = parts();
        free(&mut p, 8, 40);
        let mut sealer = Sealer::default();
        for id in 0..3 {
            p.now = Time::micros(id);
            assert!(p.write_at_once(RequestId(id), blocks(7, 1), &(), 0));
        }
        p.cache.seal_all_soon();
        assert!(sealer.seal_ready(&mut p));
        assert_eq!((p.stats.host_blocks_written, p.stats.absorbed_blocks), (1, 2));
    }
}
