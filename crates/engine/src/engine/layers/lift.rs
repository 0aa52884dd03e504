//! Lifting: blocks of a deleted snapshot move into the layer above, so that its layer goes though nobody overwrites
//! them.
//!
//! Invariants:
//! * A block is staged in the layer above only while that layer has no entry for it. Later writes and trims go over it,
//!   in memory and in the log.
//! * Nothing is unmapped here: the next walk finds the block covered. At each crash one layer has it.

use std::ops::Range;

use thermocline_format::{Entry, MediaClass, VolumeId, VolumeMedia};
use thermocline_ftl::placement::{Part, Write};
use thermocline_types::{Lba, Version};

use super::cover::{Ask, has};
use crate::bugs::bug;
use crate::device::DeviceCmd;
use crate::engine::{Op, Parts, Phase};
use crate::map::{Bits, Mapping, PAGE, Value, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{Loaded, Needs, WORDS};
use crate::payload::Payload;
use crate::write_cache::{Owners, Staged};

/// Blocks that are read at once. Chosen, not measured.
const BATCH: usize = 64;

/// A block of a nameless layer that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifted {
    pub(crate) layer: u16,
    pub(crate) id: VolumeId,
    pub(crate) lba: u64,
    pub(crate) value: Value,
}

impl Lifted {
    /// Where the block is, with the tag of its bytes alone.
    pub(crate) fn expected(&self) -> Value {
        self.value.of_bytes(self.id, self.lba)
    }
}

/// Moves the blocks of one nameless layer.
#[derive(Debug)]
pub(super) struct Lift {
    pub(super) layer: u16,
    pub(super) id: VolumeId,
    /// The next page of the layer.
    page: u64,
    asks: Option<Ask>,
    /// The page in work, its covered blocks, and the next block to be looked at.
    work: Option<(u64, Bits, u64)>,
    /// Blocks that are being read.
    reads: u32,
    /// Whether any block was moved.
    pub(super) moved: bool,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    On,
    Waits,
    Over,
}

impl Lift {
    pub(super) fn new(layer: u16, id: VolumeId) -> Lift {
        Lift { layer, id, page: 0, asks: None, work: None, reads: 0, moved: false }
    }

    pub(super) fn step<P: Payload>(&mut self, p: &mut Parts<P>) -> Went {
        if self.reads > 0 {
            return Went::Waits;
        }
        if p.phase != Phase::Open || !p.volumes.is_nameless(self.layer, self.id) {
            return Went::Over;
        }
        if self.work.is_some() {
            return self.lift_some(p);
        }
        if let Some(ask) = &mut self.asks {
            if !ask.step(p) {
                return Went::Waits;
            }
            let (page, bits) = (ask.page, ask.bits);
            (self.asks, self.work) = (None, Some((page, bits, page * PAGE)));
            return Went::On;
        }
        if self.page == u64::MAX {
            return self.await_seal(p);
        }
        let mut budget = WORDS;
        let map = p.volumes.map(self.layer);
        let Some(page) = map.next_page(&mut self.page, Wanted::Held, &mut budget) else {
            p.stats.looked_at += u64::from(WORDS - budget);
            return if budget > 0 { self.await_seal(p) } else { Went::On };
        };
        self.asks = Some(Ask::new(p, page, self.layer));
        Went::On
    }

    /// Waits until a walk can find what was moved.
    fn await_seal<P: Payload>(&mut self, p: &mut Parts<P>) -> Went {
        self.page = u64::MAX;
        if p.cache.lifted() == 0 {
            return Went::Over;
        }
        p.cache.seal_all_soon();
        Went::Waits
    }

    /// Moves some blocks of the page in work.
    fn lift_some<P: Payload>(&mut self, p: &mut Parts<P>) -> Went {
        let Some((page, bits, next)) = self.work else { return Went::On };
        let Some(above) = p.volumes.only_child(self.layer) else { return Went::Over };
        let Range { start, end } = range_of(p, self.layer, above, page);
        // The layer above may have become smaller.
        let from = next.max(start);
        if from >= end {
            self.end_page(p);
            return Went::On;
        }
        for (needs, layer) in [(Needs::Covered, self.layer), (Needs::Covering, above)] {
            p.pages.need(needs, Some((layer, page)));
            match p.loaded(layer, from, end, Share::Upkeep) {
                Loaded::Yes => {}
                Loaded::Wait(_) | Loaded::NoRoom => return Went::Waits,
                Loaded::No(_) => {
                    self.end_page(p);
                    return Went::On;
                }
            }
        }
        if p.host_has_no_unit() || p.cache.waiting() > p.config.max_staged_blocks / 4 {
            return Went::Waits;
        }
        if !p.has_room_for_page(above, page) {
            return Went::Waits;
        }
        let moves = |lba: &u64| !has(&bits, *lba) && is_to_move(p, self.layer, above, *lba);
        let lbas: Vec<u64> = (from..end).filter(moves).take(BATCH).collect();
        let new = lbas.len() as u64;
        let pages = u64::from(p.volumes.map(above).begins(page));
        if new > 0 && !p.has_room_for(above, new, new, pages) {
            return Went::Over;
        }
        p.stats.looked_at += end - from;
        match lbas.last() {
            None => self.end_page(p),
            Some(last) => self.work = Some((page, bits, last + 1)),
        }
        self.lift(p, above, &lbas);
        Went::On
    }

    /// Moves blocks: holes at once, others when they are read.
    fn lift<P: Payload>(&mut self, p: &mut Parts<P>, above: u16, lbas: &[u64]) {
        let (layer, id) = (self.layer, self.id);
        let mut holes: Vec<Range<u64>> = Vec::new();
        for &lba in lbas {
            let Mapping::At(value) = p.volumes.map(layer).get(lba) else { continue };
            if value == Value::HOLE {
                p.unmap_block(above, lba, Mapping::Unmapped, true, &mut Vec::new());
                match holes.last_mut() {
                    Some(last) if last.end == lba => last.end += 1,
                    _ => holes.push(lba..lba + 1),
                }
                continue;
            }
            let lifted = Lifted { layer, id, lba, value };
            let at = p.addresses.location(value.address());
            if p.space.has_writers(at.unit)
                && let Some(block) = p.flights.in_flight(at, &p.config).cloned()
            {
                self.moved |= p.stage_lifted(lifted, block);
                continue;
            }
            self.reads += 1;
            p.space.add_reader(at.unit);
            let op = p.ops.insert(Op::Lift { lifted });
            p.device(op, DeviceCmd::Read { at, blocks: 1, into: None, version: Version::AS_READ });
        }
        self.moved |= !holes.is_empty();
        let volume = p.volumes.map(above).id;
        let hole = |run: &Range<u64>| {
            let (lba, blocks) = (Lba(run.start), run.end - run.start);
            Entry::LayerHole { volume, lba, blocks }
        };
        if !holes.is_empty() {
            mark!(HoleLifted);
            p.cache.say(holes.iter().map(hole).collect(), Vec::new());
        }
    }

    /// A block was read; `None` if it is damaged.
    pub(super) fn read<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        lifted: Lifted,
        payload: Option<P>,
    ) {
        self.reads -= 1;
        self.moved |= payload.is_some_and(|payload| p.stage_lifted(lifted, payload));
    }

    fn end_page<P: Payload>(&mut self, p: &mut Parts<P>) {
        self.work = None;
        p.pages.need(Needs::Covered, None);
        p.pages.need(Needs::Covering, None);
    }
}

/// The blocks of a page of a layer that the layer above can show.
fn range_of<P: Payload>(p: &Parts<P>, layer: u16, above: u16, page: u64) -> Range<u64> {
    let over = p.volumes.map(above);
    let end = ((page + 1) * PAGE).min(p.volumes.map(layer).blocks);
    page * PAGE..end.min(over.layer.least).min(over.blocks)
}

fn is_to_move<P: Payload>(p: &Parts<P>, layer: u16, above: u16, lba: u64) -> bool {
    let there = matches!(p.volumes.map(layer).look_up(lba), Some(Mapping::At(value)) if value != Value::LOST);
    there && p.volumes.map(above).look_up(lba) == Some(Mapping::Unmapped)
}

impl<P: Payload> Parts<P> {
    /// Stages a block of a nameless layer in the layer above, if that has room and no entry for it. Returns whether it
    /// did.
    fn stage_lifted(&mut self, lifted: Lifted, payload: P) -> bool {
        let Lifted { layer, id, lba, value } = lifted;
        if self.phase != Phase::Open || !self.volumes.is_nameless(layer, id) {
            return false;
        }
        let Some(above) = self.volumes.only_child(layer) else { return false };
        let map = self.volumes.map(above);
        let shows = lba < map.layer.least.min(map.blocks);
        let pages = u64::from(map.begins(lba / PAGE));
        if !shows
            || !(is_to_move(self, layer, above, lba) || bug!(self.config, LiftedOverNewer))
            || !self.has_room_for(above, 1, 1, pages)
            || !self.has_room_for_page(above, lba / PAGE)
        {
            mark!(LiftOutrun);
            return false;
        }
        mark!(BlockLifted);
        let map = self.volumes.map(above);
        let (id, base, media) = (map.id, map.base, map.media);
        let fast = self.config.geometry.is_tiered() && media == VolumeMedia::Fast;
        let media = if fast { MediaClass::Fast } else { MediaClass::Capacity };
        let (part, now) = (Part { offset: 0, length: 1 }, self.host_writes);
        let old = Some(self.addresses.location(value.address()).unit);
        let write = Write { lba: Lba(base + lba), handle: 0, now, part, old };
        let staged = Staged {
            volume: above,
            id,
            copy: false,
            lifted: true,
            replaces: false,
            alive: true,
            acknowledged: false,
            crc: payload.crc(0) ^ thermocline_format::home_mark(id, Lba(lba)),
            lba,
            class: self.class_of_write(media, write),
            ticket: 0,
            old: None,
            owners: Owners::Nobody,
            payload,
        };
        let slot = self.cache.push(staged, self.now);
        self.volumes.map_more(1);
        self.volumes.map_mut(above).set(lba, Mapping::Staged(slot));
        self.volumes.note_pages(above);
        true
    }
}
