//! Snapshots: freezing the map of a volume, and giving back what a deleted snapshot alone has.
//!
//! A deleted snapshot leaves a *nameless* layer. Blocks there that the layers above cover for everybody are unmapped,
//! in walks through its pages: one after the deletion, more as the volume is written, and one before the pool counts
//! as full. In a deep stack, blocks that nothing covers move up (`lift`). A nameless layer without blocks goes.
//! ADR 0080 has the reasons.
//!
//! Invariants:
//! * A covered block is unmapped only after what covers it is durable: no crash uncovers it.
//! * A nameless layer goes only after it is durably empty: no crash brings back a block that was trimmed above since.

mod cover;
mod lift;

use std::collections::VecDeque;
use std::fmt::Debug;

use thermocline_format::{Entry, VolumeId, VolumeName};
use thermocline_types::Lba;

use crate::bugs::bug;
use crate::durability::Then;
use crate::engine::layers::cover::{Ask, has};
pub(crate) use crate::engine::layers::lift::Lifted;
use crate::engine::layers::lift::{Lift, Went};
use crate::engine::occupancy::Occupancy;
use crate::engine::trim::Trimmer;
use crate::engine::{Parts, Phase};
use crate::map::{Bits, LayerState, Mapping, PAGE, Value, VolumeMap, Wanted};
use crate::marks::mark;
use crate::memory::{Room, Share};
use crate::pages::{Loaded, Needs, PAGES, WORDS};
use crate::payload::Payload;
use crate::request::{HostError, Reply};
use crate::volumes::PageCursor;
use crate::write_cache::Owner;

/// Entries of two lines that fit in a chunk.
const ENTRIES: usize = thermocline_format::MAX_LINES / 2;

/// A walk begins when so many blocks were written or trimmed since the last one, and a quarter of what the layer has.
/// Chosen, not measured.
const LEAST_COVERED: u64 = 1024;

/// A walk through a nameless layer.
#[derive(Debug)]
struct Walk {
    layer: u16,
    id: VolumeId,
    /// [`crate::stats::Stats::covers`] at its begin.
    began: u64,
    /// How many snapshots were deleted at its begin.
    deleted: u64,
    /// The next page of the layer.
    page: u64,
    /// The page whose covered blocks are being found.
    asks: Option<Ask>,
    /// Pages with covered blocks.
    covered: VecDeque<(u64, Bits)>,
    step: Step,
    /// The layer is empty, durably after the next flush.
    emptied: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Finding covered blocks.
    Finding,
    /// Waiting until what covers them is durable.
    Flushing,
    /// Unmapping them.
    Unmapping,
}

/// Makes snapshots, and walks through what deleted ones leave.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    asked: VecDeque<(u32, VolumeId, VolumeName)>,
    walk: Option<Walk>,
    lift: Option<Lift>,
    /// [`crate::stats::Stats::covers`] when nothing could be lifted.
    stays: Option<u64>,
}

impl Layers {
    /// A snapshot of `volume` is asked for.
    pub(crate) fn ask(&mut self, request: u32, volume: VolumeId, name: VolumeName) {
        self.asked.push_back((request, volume, name));
    }

    /// Takes snapshots and walks a bounded step further. Returns whether anything was done.
    pub(crate) fn step<P: Payload>(&mut self, p: &mut Parts<P>, trimmer: &mut Trimmer) -> bool {
        // What a walk says after the last checkpoint would be replayed.
        let walks = p.phase != Phase::Closing || p.pages.is_walk_wanted();
        self.snapshot_step(p, trimmer) | (walks && self.walk_step(p, trimmer))
    }

    /// Makes the next snapshot that is asked for, once a durable record tells earlier programs to keep off, and no trim
    /// or change of the size of the volume is under way.
    fn snapshot_step<P: Payload>(&mut self, p: &mut Parts<P>, trimmer: &Trimmer) -> bool {
        let Some((request, volume, name)) = self.asked.front().cloned() else { return false };
        if !p.superblocks.durable().is_some_and(|record| record.snapshots) {
            mark!(SnapshotAwaitsRecord);
            p.snapshots = true;
            p.want_checkpoint();
            return false;
        }
        let index = p.volumes.index(volume);
        if index.is_some_and(|index| trimmer.works_on(index)) || p.volumes.are_going() {
            mark!(SnapshotAwaitsTrim);
            return false;
        }
        if index.is_some_and(|index| self.awaits_lift(p, index)) {
            mark!(SnapshotAwaitsLift);
            return false;
        }
        self.asked.pop_front();
        match p.may_snapshot(volume, &name) {
            Ok(index) => p.snapshot(request, index, name),
            Err(error) => p.request_progress(request, 1, Some(error)),
        }
        true
    }

    /// Whether a volume has as many layers as it can have, and a deleted one may go.
    fn awaits_lift<P: Payload>(&self, p: &Parts<P>, index: u16) -> bool {
        // A layer that another volume reads too is not lifted.
        let may_go = |layer: u16| {
            let LayerState { nameless, walked, .. } = p.volumes.map(layer).layer;
            nameless && (walked.is_none() || p.volumes.only_child(layer).is_some())
        };
        p.phase == Phase::Open
            && p.volumes.below(index).count() >= p.config.most_layers as usize
            && p.volumes.below(index).any(may_go)
            && (self.walk.is_some() || self.lift.is_some() || self.stays.is_none())
    }

    /// The pool failed.
    pub(crate) fn fail<P: Payload>(&mut self, p: &mut Parts<P>) {
        for (request, ..) in self.asked.drain(..) {
            p.request_progress(request, 1, Some(HostError::Failed));
        }
    }

    /// What covers the blocks that were found is durable.
    pub(crate) fn covers_durably(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.step = Step::Unmapping;
        }
    }

    fn walk_step<P: Payload>(&mut self, p: &mut Parts<P>, trimmer: &mut Trimmer) -> bool {
        let Some(mut walk) = self.walk.take() else {
            if self.lift.is_none() {
                self.walk = p.next_walk();
            }
            return self.walk.is_some() || self.lift_step(p);
        };
        // The volume may have been deleted meanwhile.
        if !p.volumes.is(walk.layer, walk.id) || p.volumes.map(walk.layer).deleted {
            p.pages.need(Needs::Covered, None);
            p.pages.need(Needs::Covering, None);
            let waits = walk.step == Step::Flushing;
            self.walk = Some(walk).filter(|_| waits);
            return !waits;
        }
        let worked = match walk.step {
            Step::Finding => walk.find(p),
            Step::Flushing => false,
            Step::Unmapping => walk.unmap(p),
        };
        if walk.step != Step::Finding || walk.page != u64::MAX || !walk.covered.is_empty() {
            self.walk = Some(walk);
            return worked;
        }
        let tally = p.volumes.map(walk.layer).tally();
        let empty = tally.used + tally.absent == 0;
        if empty && !walk.emptied {
            walk.emptied = walk.make_durable(p);
            let worked = walk.emptied;
            self.walk = Some(walk);
            return worked;
        }
        mark!(WalkOver);
        // A snapshot that was deleted meanwhile may cover more.
        let all = walk.deleted == p.volumes.snapshots_deleted();
        p.volumes.map_mut(walk.layer).layer.walked = Some(walk.began).filter(|_| all);
        if empty {
            mark!(NamelessForgotten);
            p.volumes.unlink(walk.layer);
            p.volumes.hide(walk.layer);
            trimmer.unmap_deleted(p, walk.layer);
        }
        true
    }
}

impl Layers {
    /// Goes on lifting, if a stack is deep.
    fn lift_step<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let Some(mut lift) = self.lift.take() else {
            let covers = p.stats.covers();
            let full = p.volumes.depth() >= u64::from(p.config.most_layers);
            let least = if full { 1 } else { LEAST_COVERED };
            let rests = self.stays.is_some_and(|stays| covers < stays + least);
            self.lift = if rests { None } else { p.next_lift() };
            mark!(LiftBegins if self.lift.is_some());
            return self.lift.is_some();
        };
        let went = lift.step(p);
        if went != Went::Over {
            self.lift = Some(lift);
            return went == Went::On;
        }
        p.pages.need(Needs::Covered, None);
        p.pages.need(Needs::Covering, None);
        self.stays = Some(p.stats.covers()).filter(|_| !lift.moved);
        if lift.moved {
            // The walk finds what was moved.
            p.volumes.walk_again(lift.layer, lift.id);
        }
        true
    }

    /// A block that is to be lifted was read; `None` if it is damaged.
    pub(crate) fn lifted<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        lifted: Lifted,
        payload: Option<P>,
    ) {
        p.space.drop_reader(p.addresses.location(lifted.value.address()).unit);
        if let Some(lift) = &mut self.lift {
            lift.read(p, lifted, payload);
        }
    }
}

impl Walk {
    /// Finds covered blocks of some pages. Returns whether anything was done.
    fn find<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let (mut budget, mut worked) = (WORDS, false);
        for _ in 0..PAGES {
            let over = self.page == u64::MAX && self.asks.is_none();
            if over || self.covered.len() as u64 == PAGES {
                break;
            }
            if self.asks.is_none() {
                let map = p.volumes.map(self.layer);
                let Some(page) = map.next_page(&mut self.page, Wanted::Held, &mut budget) else {
                    if budget > 0 {
                        self.page = u64::MAX;
                    }
                    worked = true;
                    break;
                };
                self.asks = Some(Ask::new(p, page, self.layer));
            }
            if !self.ask(p) {
                return worked;
            }
            worked = true;
        }
        p.stats.looked_at += u64::from(WORDS - budget);
        if self.covered.is_empty() || (self.page != u64::MAX && (self.covered.len() as u64) < PAGES)
        {
            return worked;
        }
        self.make_durable(p) || worked
    }

    /// Begins to make durable what was written and said so far. Returns whether it did.
    fn make_durable<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        // Holes are durable with the entries that say so.
        if !p.seal_control() {
            p.want_checkpoint();
            return false;
        }
        self.step = Step::Flushing;
        let early = bug!(p.config, HiddenTooEarly);
        if early || p.await_flush(p.flights.sealed(), Then::Covered).is_some() {
            self.step = Step::Unmapping;
        }
        true
    }

    /// Finds the covered blocks of a page. Returns whether that is over.
    fn ask<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let Some(ask) = &mut self.asks else { return true };
        if !ask.step(p) {
            return false;
        }
        if ask.bits != Bits::default() && !bug!(p.config, CoveredNotHidden) {
            self.covered.push_back((ask.page, ask.bits));
        }
        self.asks = None;
        true
    }

    /// Unmaps the covered blocks of a page. Returns whether it did.
    fn unmap<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let Some(&(page, bits)) = self.covered.front() else {
            self.step = Step::Finding;
            return true;
        };
        let from = page * PAGE;
        let end = (from + PAGE).min(p.volumes.map(self.layer).blocks);
        p.pages.need(Needs::Covered, Some((self.layer, page)));
        match p.loaded(self.layer, from, end, Share::Upkeep) {
            Loaded::Yes => self.unmap_page(p, from..end, &bits),
            Loaded::Wait(_) | Loaded::NoRoom => return false,
            Loaded::No(_) => {}
        }
        p.pages.need(Needs::Covered, None);
        self.covered.pop_front();
        true
    }

    fn unmap_page<P: Payload>(&self, p: &mut Parts<P>, blocks: std::ops::Range<u64>, bits: &Bits) {
        let (page, mut waiting, mut entries) = (blocks.start / PAGE, Vec::new(), Vec::new());
        if p.volumes.map(self.layer).is_blank(page) {
            return;
        }
        p.stats.looked_at += PAGE;
        for lba in blocks {
            let mapping = p.volumes.map(self.layer).get(lba);
            if mapping == Mapping::Unmapped || !has(bits, lba) {
                continue;
            }
            p.unmap_block(self.layer, lba, mapping, false, &mut waiting);
            match entries.last_mut() {
                Some(Entry::Trim { lba: first, blocks, .. }) if first.0 + *blocks == lba => {
                    *blocks += 1;
                }
                _ => entries.push(Entry::Trim { volume: self.id, lba: Lba(lba), blocks: 1 }),
            }
        }
        mark!(CoveredUnmapped if !entries.is_empty());
        p.volumes.map_mut(self.layer).release(page);
        p.volumes.note_pages(self.layer);
        for entries in entries.chunks(ENTRIES) {
            p.cache.say(entries.to_vec(), std::mem::take(&mut waiting));
        }
    }
}

impl<P: Payload> Parts<P> {
    fn may_snapshot(&mut self, volume: VolumeId, name: &VolumeName) -> Result<u16, HostError> {
        let index = self.volumes.index(volume).ok_or(HostError::NoVolume(volume))?;
        if self.volumes.map(index).layer.frozen {
            return Err(HostError::ReadOnly);
        }
        let depth = self.volumes.below(index).count();
        if depth >= self.config.most_layers as usize {
            return Err(HostError::TooManySnapshots);
        }
        let has_name = |layer: &u16| {
            let map = self.volumes.map(*layer);
            !map.layer.nameless && map.name == *name
        };
        // A volume may have an `@` in its name.
        let whole = VolumeName::of_snapshot(&self.volumes.map(index).name, name);
        let whole = whole.ok_or(HostError::LongName)?;
        let same = |map: &&VolumeMap| !map.layer.frozen && map.name == whole;
        if self.volumes.own_layers(index).skip(1).any(|layer| has_name(&layer))
            || self.volumes.alive().iter().any(same)
        {
            return Err(HostError::NameTaken);
        }
        let volumes = self.may_have_more()?;
        let depth = depth as u64 + 1;
        // The reservation of the volume is for blocks of its new layer.
        let Occupancy { mapped, held, capacity } = self.occupancy();
        let again = self.volumes.map(index).reserve - self.volumes.shortfall(index);
        let kept = if self.volumes.depth() == 0 { self.config.blocks_per_unit() } else { 0 };
        if kept + again > 0 && mapped + held + kept + again > capacity {
            return Err(HostError::NoSpace);
        }
        self.may_grow(0, self.volumes.map(index).blocks, volumes, depth)?;
        Ok(index)
    }

    fn snapshot(&mut self, request: u32, index: u16, name: VolumeName) {
        let layer = self.volumes.next_id();
        let (volume, blocks) = (self.volumes.map(index).id, self.volumes.map(index).blocks);
        let mut entries = vec![Entry::VolumeSnapshot { volume, layer, blocks }];
        entries.extend(Entry::name_parts(layer, &name));
        self.volumes.freeze(index, layer, name, blocks, self.addresses);
        self.requests.set_reply(request, Reply::Created(layer));
        self.requests.need(request, 1);
        self.cache.say(entries, vec![Owner::Request(request)]);
        self.flush(request);
    }

    /// Makes a clone of a snapshot.
    pub(crate) fn clone_volume(&mut self, request: u32, snapshot: VolumeId, name: &VolumeName) {
        let index = match self.may_clone(snapshot, name) {
            Ok(index) => index,
            Err(error) => return self.request_progress(request, 1, Some(error)),
        };
        let layer = self.volumes.next_id();
        let VolumeMap { id: volume, blocks, media, .. } = *self.volumes.map(index);
        let top = self.volumes.branch(index, layer, name.clone(), blocks, self.addresses);
        self.volumes.map_mut(top).media = media;
        let mut entries = vec![Entry::VolumeClone { volume, layer, blocks }];
        entries.extend(Entry::name_parts(layer, name));
        entries.push(Entry::VolumeMedia { volume: layer, media });
        self.requests.set_reply(request, Reply::Created(layer));
        self.cache.say(entries, vec![Owner::Request(request)]);
    }

    fn may_clone(&mut self, snapshot: VolumeId, name: &VolumeName) -> Result<u16, HostError> {
        let index = self.volumes.index(snapshot).ok_or(HostError::NoVolume(snapshot))?;
        if !self.volumes.map(index).layer.frozen {
            return Err(HostError::NoSnapshot);
        }
        let depth = self.volumes.below(index).count() as u64 + 1;
        self.may_have(name, self.volumes.map(index).blocks, depth)?;
        Ok(index)
    }

    /// A snapshot is one no more.
    pub(crate) fn delete_snapshot(&mut self, request: u32, index: u16) {
        let volume = self.volumes.map(index).id;
        self.volumes.make_nameless(index);
        let mut entries = vec![Entry::LayerDelete { volume }];
        if bug!(self.config, SnapshotDeleteNotLogged) {
            entries = vec![Entry::Trim { volume: self.volumes.next_id(), lba: Lba(0), blocks: 1 }];
        }
        self.cache.say(entries, vec![Owner::Request(request)]);
    }

    /// The next walk that is due, if one is.
    fn next_walk(&self) -> Option<Walk> {
        let began = self.stats.covers();
        let due = |layer: &u16| {
            let map = self.volumes.map(*layer);
            let least = LEAST_COVERED.max(map.tally().blocks / 4);
            map.layer.walked.is_none_or(|walked| {
                began > walked && (self.pages.is_walk_wanted() || began - walked >= least)
            })
        };
        let layer = self
            .volumes
            .nameless()
            .iter()
            .copied()
            .find(due)
            .filter(|_| self.superblocks.are_settled())?;
        let (id, page, asks, covered) = (self.volumes.map(layer).id, 0, None, VecDeque::new());
        let (deleted, step) = (self.volumes.snapshots_deleted(), Step::Finding);
        Some(Walk { layer, id, began, deleted, page, asks, covered, step, emptied: false })
    }

    /// The next layer whose blocks are to be lifted: the smallest nameless one of the deep stacks.
    fn next_lift(&self) -> Option<Lift> {
        let deep = u64::from(self.config.lift_beyond);
        let idle = self.phase == Phase::Open && self.pages.waiting() == 0;
        if !idle || self.volumes.depth() < deep || !self.superblocks.are_settled() {
            return None;
        }
        let layers = self.volumes.nameless().iter().copied();
        let may = |layer: &u16| {
            self.volumes.map(*layer).layer.walked.is_some()
                && self.volumes.layers_with(*layer) > deep
                && self.volumes.only_child(*layer).is_some()
        };
        let layer =
            layers.filter(may).min_by_key(|layer| self.volumes.map(*layer).tally().blocks)?;
        Some(Lift::new(layer, self.volumes.map(layer).id))
    }

    /// Whether a write that finds no room is to wait: a walk through nameless layers may give some.
    pub(crate) fn awaits_walk(&mut self) -> bool {
        let covers = self.stats.covers();
        let walked = |layer: u16| self.volumes.map(layer).layer.walked == Some(covers);
        let (mut any, mut all) = (false, true);
        for &layer in self.volumes.nameless() {
            (any, all) = (true, all && walked(layer));
        }
        let waits = any && (!all || self.cache.waiting() > 0);
        if waits {
            self.cache.seal_all_soon();
        }
        self.pages.want_walk(waits);
        waits
    }

    /// Makes room for a page of a map that has no entry yet. Returns whether there is.
    pub(crate) fn has_room_for_page(&mut self, volume: u16, page: u64) -> bool {
        if !self.volumes.map(volume).is_blank(page) {
            return true;
        }
        match self.make_room(1, Share::Upkeep, (volume, page, page + 1)) {
            Room::Yes => return true,
            Room::Later => self.pages.note_goes_on(),
            Room::No => self.pages.note_short(),
        }
        false
    }

    /// Unmaps a block with this mapping, or makes a hole of it; owners of what is staged are appended to `waiting`.
    pub(crate) fn unmap_block(
        &mut self,
        volume: u16,
        lba: u64,
        mapping: Mapping,
        hole: bool,
        waiting: &mut Vec<Owner>,
    ) {
        let now = if hole { Mapping::At(Value::HOLE) } else { Mapping::Unmapped };
        if mapping == now {
            return;
        }
        let mut mapped = true;
        let old = match mapping {
            Mapping::Unmapped => {
                mapped = false;
                None
            }
            Mapping::At(value) => {
                mapped = !value.is_nowhere();
                Some(value)
            }
            Mapping::Staged(slot) => {
                mark!(StagedTrimmed);
                let staged = self.cache.block(slot);
                let absorbed = u64::from(!staged.replaces && !staged.lifted);
                self.stats.absorbed_blocks += absorbed;
                self.volumes.map_mut(volume).traffic.absorbed_blocks += absorbed;
                self.cache.trim(slot, waiting)
            }
        };
        self.volumes.map_mut(volume).set(lba, now);
        self.volumes.map_less(mapped.into());
        self.stats.trimmed_blocks += 1;
        if let Some(value) = old {
            self.note_move(PageCursor::at(volume, lba / PAGE), Some(value), None);
            self.drop_value(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{Location, Superblock};
    use thermocline_types::UnitId;

    use super::*;
    use crate::config::Config;
    use crate::device::DeviceCmd;
    use crate::engine::Op;
    use crate::engine::parts::testing::{completed, free, parts, parts_of, request};
    use crate::request::Action;

    /// The volume of `p` under another one, which is empty: a deleted snapshot with blocks 0 to 4 on media, a hole
    /// behind.
    fn deleted_snapshot(p: &mut Parts<()>) -> (u16, u16) {
        free(p, 8, 40);
        for lba in 0..4 {
            let at = p.config.geometry.address(Location::new(60, lba as u32 + 1));
            p.volumes.map_mut(0).set(lba, Mapping::At(Value::new(at, 0)));
            p.space.add_valid(UnitId(60));
        }
        p.volumes.map_more(4);
        p.volumes.map_mut(0).set(4, Mapping::At(Value::HOLE));
        let name = VolumeName::new("old").expect("a name");
        let top = p.volumes.freeze(0, VolumeId(9), name, 1024, p.addresses);
        p.volumes.make_nameless(0);
        (0, top)
    }

    fn steps(layers: &mut Layers, p: &mut Parts<()>) {
        let mut trimmer = Trimmer::default();
        while layers.step(p, &mut trimmer) {}
    }

    /// Blocks that the map of a layer has, holes included.
    fn held(p: &Parts<()>, layer: u16) -> Vec<u64> {
        let map = p.volumes.map(layer);
        (0..8).filter(|lba| map.get(*lba) != Mapping::Unmapped).collect()
    }

    #[test]
    fn a_snapshot_is_made_once_a_record_keeps_earlier_programs_off() {
        let (mut p, mut layers) = (parts(), Layers::default());
        let asks = request(&mut p, 1);
        layers.ask(asks, VolumeId(1), VolumeName::new("monday").expect("a name"));
        steps(&mut layers, &mut p);
        assert!(p.snapshots && p.due.is_wanted() && p.volumes.depth() == 0);
        let record = p.superblocks.durable().expect("one").clone();
        p.superblocks.adopt(Superblock { snapshots: true, ..record });
        steps(&mut layers, &mut p);
        assert_eq!((p.volumes.depth(), p.cache.has_control()), (1, true));
        let again = request(&mut p, 2);
        layers.ask(again, VolumeId(1), VolumeName::new("monday").expect("a name"));
        steps(&mut layers, &mut p);
        assert_eq!(completed(&mut p), [(2, false)], "the name is taken; the first waits for media");
    }

    #[test]
    fn a_walk_unmaps_what_is_covered_and_only_when_that_is_durable() {
        let (mut p, mut layers) = (parts(), Layers::default());
        let (old, top) = deleted_snapshot(&mut p);
        let covers = p.config.geometry.address(Location::new(61, 1));
        p.volumes.map_mut(top).set(2, Mapping::At(Value::new(covers, 0)));
        p.volumes.map_mut(top).set(4, Mapping::At(Value::HOLE));
        let record = p.superblocks.durable().expect("one").clone();
        p.superblocks.adopt(Superblock { snapshots: true, ..record });
        p.cache.say(vec![Entry::LayerDelete { volume: VolumeId(1) }], Vec::new());
        steps(&mut layers, &mut p);
        assert_eq!(held(&p, old), [0, 1, 2, 3, 4], "the walk waits for a flush");
        layers.covers_durably();
        steps(&mut layers, &mut p);
        assert_eq!((held(&p, old), held(&p, top)), (vec![0, 1, 3], vec![2, 4]));
        assert!(p.volumes.map(old).layer.walked.is_some());
    }

    #[test]
    fn blocks_of_a_deleted_snapshot_move_up_in_a_deep_stack_unless_they_are_written_meanwhile() {
        let geometry = parts().config.geometry;
        let mut p = parts_of(Config { lift_beyond: 1, ..Config::new(geometry) });
        let mut layers = Layers::default();
        let (old, top) = deleted_snapshot(&mut p);
        p.volumes.map_mut(old).layer.walked = Some(p.stats.covers());
        steps(&mut layers, &mut p);
        assert_eq!(held(&p, top), [4], "a hole moves at once");
        let read = |action| match action {
            Action::Device { op, cmd: DeviceCmd::Read { .. } } => Some(op.0 as usize),
            _ => None,
        };
        let reads: Vec<usize> = p.actions.drain(..).filter_map(read).collect();
        assert_eq!(reads.len(), 4);
        let newer = p.config.geometry.address(Location::new(61, 1));
        p.volumes.map_mut(top).set(1, Mapping::At(Value::new(newer, 0)));
        for op in reads {
            let Op::Lift { lifted } = p.ops.remove(op) else { panic!("a read of something else") };
            // Block 3 is damaged.
            layers.lifted(&mut p, lifted, (lifted.lba != 3).then_some(()));
        }
        assert_eq!(held(&p, top), [0, 1, 2, 4]);
        assert_eq!(p.volumes.map(top).get(1), Mapping::At(Value::new(newer, 0)));
        assert_eq!(held(&p, old), [0, 1, 2, 3, 4], "nothing is unmapped by lifting");
        assert_eq!((p.volumes.mapped(), p.cache.waiting()), (6, 2));
        assert!(!p.space.has_readers(UnitId(60)));
    }

    #[test]
    fn a_layer_that_goes_hides_below_what_its_volume_once_ended_before() {
        let mut p = parts();
        let name = || VolumeName::new("old").expect("a name");
        let middle = p.volumes.freeze(0, VolumeId(9), name(), 1024, p.addresses);
        p.volumes.resize(middle, 10);
        let top = p.volumes.freeze(middle, VolumeId(10), name(), 10, p.addresses);
        p.volumes.resize(top, 20);
        p.volumes.make_nameless(middle);
        p.volumes.map_mut(top).layer.least = 20;
        p.volumes.unlink(middle);
        let layer = p.volumes.map(top).layer;
        assert_eq!((layer.below, layer.least), (Some(0), 10));
    }

    #[test]
    fn a_block_that_two_clones_read_goes_when_both_cover_it_or_one_is_gone() {
        let (mut p, mut layers) = (parts(), Layers::default());
        let (old, top) = deleted_snapshot(&mut p);
        let name = VolumeName::new("trial").expect("a name");
        let trial = p.volumes.branch(old, VolumeId(10), name, 1024, p.addresses);
        let at = |block| p.config.geometry.address(Location::new(61, block));
        let at = |block| Mapping::At(Value::new(at(block), 0));
        let (first, second) = (at(1), at(2));
        [0, 1].into_iter().for_each(|lba| p.volumes.map_mut(top).set(lba, first));
        [1, 2].into_iter().for_each(|lba| p.volumes.map_mut(trial).set(lba, second));
        let record = p.superblocks.durable().expect("one").clone();
        p.superblocks.adopt(Superblock { snapshots: true, ..record });
        let walk = |p: &mut Parts<()>, layers: &mut Layers| {
            p.cache.say(vec![Entry::LayerDelete { volume: VolumeId(1) }], Vec::new());
            steps(layers, p);
            layers.covers_durably();
            steps(layers, p);
        };
        walk(&mut p, &mut layers);
        assert_eq!(held(&p, old), [0, 2, 3, 4]);
        assert_eq!(p.volumes.hide_stack(trial), [trial], "the other reads the layer below");
        walk(&mut p, &mut layers);
        assert_eq!(held(&p, old), [2, 3, 4]);
        assert_eq!(p.volumes.hide_stack(top), [top, old], "nobody reads it any more");
    }
}
