//! Trims, and whatever else makes many blocks unmapped: volumes that shrink or go.
//!
//! Done page by page, a bounded number at a time, so that a trim of a terabyte stops nobody. A trim counts in pieces:
//! each piece is logged when its blocks are unmapped.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;

use thermocline_format::{Entry, Sequence, VolumeId};
use thermocline_types::Lba;

use crate::bugs::bug;
use crate::engine::Parts;
use crate::map::{PAGE, Said};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{Loaded, Needs, PAGES};
use crate::payload::Payload;
use crate::request::{Extent, HostError};
use crate::write_cache::Owner;

/// Blocks on their way to being unmapped.
#[derive(Debug)]
pub(crate) struct Unmapping {
    pub(crate) volume: u16,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) request: Option<u32>,
    pub(crate) afterwards: Afterwards,
    /// Blocks of layers go after the deletion of their volume is durable: alone, they would uncover others.
    awaits: Awaits,
}

impl Awaits {
    /// What is left of it by now.
    fn now<P: Payload>(self, p: &Parts<P>) -> Awaits {
        match self {
            Awaits::Entry if !p.cache.has_control() => Awaits::Chunk(p.flights.sealed()).now(p),
            Awaits::Chunk(sequence) if p.durability.durable() >= sequence => Awaits::Nothing,
            other => other,
        }
    }
}

/// What a deletion waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Nothing,
    /// The entry of the deletion is to be sealed.
    Entry,
    /// All up to this chunk is to be durable.
    Chunk(Sequence),
}

/// What follows when the blocks are unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// Nothing.
    Nothing,
    /// The volume gets this size.
    Resize(u64),
    /// The volume, which was deleted, is forgotten.
    Forget,
}

/// Runs of blocks that were unmapped, and whether holes were made of them.
#[derive(Debug, Default)]
struct Runs(Vec<(Range<u64>, bool)>);

impl Runs {
    /// Adds blocks behind all others.
    fn add(&mut self, blocks: Range<u64>, hole: bool) {
        match self.0.last_mut() {
            Some((last, same)) if *same == hole && last.end == blocks.start => {
                last.end = blocks.end;
            }
            _ => self.0.push((blocks, hole)),
        }
    }
}

/// Blocks to be unmapped, in the order of the requests.
#[derive(Debug, Default)]
pub(crate) struct Trimmer {
    unmapping: VecDeque<Unmapping>,
}

impl Trimmer {
    pub(crate) fn trim<P: Payload>(&mut self, p: &mut Parts<P>, request: u32, extent: Extent) {
        let volume = match p.locate_for_writing(extent) {
            Ok(volume) => volume,
            Err(error) => return p.request_progress(request, 1, Some(error)),
        };
        let pages = (extent.lba / PAGE, (extent.lba + extent.blocks).div_ceil(PAGE));
        p.pages.forget_damage(volume, pages.0, pages.1);
        self.unmapping.push_back(Unmapping {
            volume,
            next: extent.lba,
            end: extent.lba + extent.blocks,
            request: Some(request),
            afterwards: Afterwards::Nothing,
            awaits: Awaits::Nothing,
        });
        // Short ones of loaded pages are done at once, unless there are many.
        if pages.1 - pages.0 <= PAGES && !p.is_due_to_rest() && !self.trims_wait(p) {
            self.unmap_some_of(p, self.unmapping.len() - 1);
        }
    }

    /// Does a bounded part of the first trim that waits. Returns whether anything was done.
    pub(crate) fn unmap_step<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        if !self.unmapping.is_empty() && self.trims_wait(p) {
            return false;
        }
        for work in &mut self.unmapping {
            work.awaits = work.awaits.now(p);
        }
        let may =
            |work: &Unmapping| work.awaits == Awaits::Nothing && !self.awaits_checkpoint(p, work);
        let first = self.unmapping.iter().position(may);
        first.is_some_and(|index| self.unmap_some_of(p, index))
    }

    /// Whether no trim is to be logged: units for it are missing, and a checkpoint, which needs the last ones, frees
    /// some. If a checkpoint would free no units, trims may use the last units: a trim may be the only way to free
    /// units.
    fn trims_wait<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let scarce = p.space.free_units(p.config.host_media()) <= p.metadata_hold();
        let begins = scarce && p.due.has_control(p.config.geometry.unit_bytes());
        let waits = begins || scarce && p.due.is_under_way();
        mark!(TrimsWait if waits);
        if waits && !p.due.is_under_way() {
            p.want_checkpoint();
        }
        waits
    }

    /// Does a bounded part of one trim. Returns whether anything was done.
    fn unmap_some_of<P: Payload>(&mut self, p: &mut Parts<P>, index: usize) -> bool {
        let mut work = self.unmapping.remove(index).expect("it is there");
        let end = work.end.min((work.next / PAGE + PAGES) * PAGE);
        let mut from = work.next;
        let mut waiting = Vec::new();
        let mut runs = Runs::default();
        let mut stuck = false;
        let mapped = p.volumes.mapped();
        while from < end {
            let until = end.min((from / PAGE + 1) * PAGE);
            p.pages.need(Needs::Trim, Some((work.volume, from / PAGE)));
            match p.loaded(work.volume, from, until, Share::Upkeep) {
                Loaded::Yes => {}
                Loaded::Wait(_) => {
                    mark!(UnmapWaits);
                    stuck = true;
                    break;
                }
                Loaded::NoRoom => {
                    mark!(UnmapWaitsForMemory);
                    stuck = true;
                    break;
                }
                Loaded::No(page) => {
                    mark!(TrimDamaged);
                    let error = p.damaged_page(work.volume, page);
                    if let Some(request) = work.request {
                        p.pages.need(Needs::Trim, None);
                        self.log_trim(p, &work, runs, waiting);
                        p.request_progress(request, 1, Some(error));
                        return true;
                    }
                    mark!(DeletedPageLost);
                    p.stats.lost_pages += 1;
                }
            }
            let hole = self.makes_holes(p, &work, from / PAGE);
            if hole && !p.has_room_for_page(work.volume, from / PAGE) {
                mark!(HoleWaitsForMemory);
                stuck = true;
                break;
            }
            self.unmap(p, work.volume, from..until, hole, &mut waiting);
            runs.add(from..until, hole);
            from = until;
        }
        if !stuck {
            p.pages.need(Needs::Trim, None);
        }
        p.volumes.note_pages(work.volume);
        let worked = from > work.next;
        // Nobody asks for a word about the parts of a deleted volume that nothing was in.
        if work.request.is_some() || p.volumes.mapped() < mapped {
            self.log_trim(p, &work, runs, waiting);
        }
        work.next = from;
        if work.next == work.end
            && !self.awaits_checkpoint(p, &work)
            && !p.pages.is_loading_of(work.volume)
        {
            self.unmapped(p, &work);
            return true;
        }
        self.unmapping.insert(index, work);
        worked && !stuck
    }

    /// Whether a layer below may have blocks in a page, so that they must be hidden.
    fn makes_holes<P: Payload>(&self, p: &Parts<P>, work: &Unmapping, page: u64) -> bool {
        work.afterwards != Afterwards::Forget
            && p.volumes.is_below(work.volume, page)
            && !bug!(p.config, TrimWithoutHole)
    }

    /// Unmaps blocks of one page, or makes holes of them; Owners of staged blocks are appended to `waiting`. In an
    /// unreadable page, only the blocks of its patch are unmapped.
    fn unmap<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        volume: u16,
        blocks: Range<u64>,
        hole: bool,
        waiting: &mut Vec<Owner>,
    ) {
        let page = blocks.start / PAGE;
        if p.volumes.map(volume).is_blank(page) && !hole {
            p.stats.looked_at += 1;
        } else if p.volumes.map(volume).is_loaded(page) {
            p.stats.looked_at += blocks.end - blocks.start;
            for lba in blocks {
                p.unmap_block(volume, lba, p.volumes.map(volume).get(lba), hole, waiting);
            }
            p.volumes.map_mut(volume).release(page);
        } else {
            let said: Vec<Said> = p.volumes.map(volume).all_said(page).collect();
            for Said { lba, mapping, .. } in said {
                p.unmap_block(volume, lba, mapping, false, waiting);
            }
        }
    }

    /// Logs that `runs` of blocks are unmapped; `owners` wait for the log entries. Blocks of a deleted volume are
    /// logged too: their units may be reset once the unmapping is durable.
    fn log_trim<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        work: &Unmapping,
        runs: Runs,
        mut owners: Vec<Owner>,
    ) {
        if runs.0.is_empty() || bug!(p.config, TrimNotLogged) {
            return;
        }
        if let Some(request) = work.request {
            p.requests.need(request, 1);
            owners.push(Owner::Request(request));
        }
        let volume = p.volumes.map(work.volume).id;
        let entry = |(blocks, hole): (Range<u64>, bool)| {
            let (lba, blocks) = (Lba(blocks.start), blocks.end - blocks.start);
            match hole {
                true => Entry::LayerHole { volume, lba, blocks },
                false => Entry::Trim { volume, lba, blocks },
            }
        };
        // At most one for each page of a step: they fit in a chunk.
        p.cache.say(runs.0.into_iter().map(entry).collect(), owners);
    }

    /// Whether blocks of a volume are to be unmapped.
    pub(crate) fn works_on(&self, volume: u16) -> bool {
        self.unmapping.iter().any(|work| work.volume == volume)
    }

    /// Whether all is unmapped, and pages are to go, which they do not during a checkpoint: it has counted and written
    /// what they lead to, and would have to begin anew, over and over, with ever more pages.
    fn awaits_checkpoint<P: Payload>(&self, p: &Parts<P>, work: &Unmapping) -> bool {
        let drops = !matches!(work.afterwards, Afterwards::Nothing);
        let awaits = work.next == work.end && drops && p.due.is_under_way();
        mark!(DropAwaitsCheckpoint if awaits);
        awaits
    }

    fn unmapped<P: Payload>(&mut self, p: &mut Parts<P>, work: &Unmapping) {
        match work.afterwards {
            Afterwards::Nothing => {}
            Afterwards::Resize(blocks) => {
                p.drop_pages_beyond(work.volume, blocks);
                p.volumes.resize(work.volume, blocks);
                let volume = p.volumes.map(work.volume).id;
                let request = work.request.expect("somebody asked for the size");
                p.requests.need(request, 1);
                let entries = vec![Entry::VolumeResize { volume, blocks }];
                let owners = vec![Owner::Request(request)];
                p.cache.say(entries, owners);
            }
            Afterwards::Forget => {
                p.drop_pages_beyond(work.volume, 0);
                p.volumes.forget(work.volume);
            }
        }
        if let Some(request) = work.request {
            p.request_progress(request, 1, None);
        }
    }

    pub(crate) fn delete_volume<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        request: u32,
        volume: VolumeId,
    ) {
        let Some(index) = p.volumes.index(volume) else {
            return p.request_progress(request, 1, Some(HostError::NoVolume(volume)));
        };
        if p.volumes.map(index).layer.frozen {
            return p.delete_snapshot(request, index);
        }
        let has_name = |layer: u16| !p.volumes.map(layer).layer.nameless;
        if p.volumes.own_layers(index).skip(1).any(has_name) {
            return p.request_progress(request, 1, Some(HostError::HasSnapshots));
        }
        let volume = p.volumes.map(index).id;
        let mut entries = vec![Entry::VolumeDelete { volume }];
        let alone = p.volumes.map(index).layer.below.is_none();
        let layers = p.volumes.hide_stack(index);
        if bug!(p.config, DeleteNotLogged) {
            entries.clear();
            entries.extend([Entry::Trim { volume, lba: thermocline_types::Lba(0), blocks: 1 }]);
        }
        p.cache.say(entries, vec![Owner::Request(request)]);
        let awaits = if alone { Awaits::Nothing } else { Awaits::Entry };
        layers.into_iter().for_each(|layer| self.unmap_hidden(p, layer, awaits));
    }

    /// Unmaps the blocks of a deleted volume, and forgets it then.
    pub(crate) fn unmap_deleted<P: Payload>(&mut self, p: &mut Parts<P>, index: u16) {
        self.unmap_hidden(p, index, Awaits::Nothing);
    }

    fn unmap_hidden<P: Payload>(&mut self, p: &mut Parts<P>, index: u16, awaits: Awaits) {
        let end = p.volumes.map(index).blocks;
        p.pages.forget_damage(index, 0, u64::MAX);
        let afterwards = Afterwards::Forget;
        self.unmapping.push_back(Unmapping {
            volume: index,
            next: 0,
            end,
            request: None,
            afterwards,
            awaits,
        });
    }

    pub(crate) fn resize_volume<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        request: u32,
        volume: VolumeId,
        blocks: u64,
    ) {
        let Some(index) = p.volumes.index(volume) else {
            return p.request_progress(request, 1, Some(HostError::NoVolume(volume)));
        };
        let old = p.volumes.map(index).blocks;
        let may = p.may_grow(old, blocks, p.volumes.all().len(), 0);
        let frozen = p.volumes.map(index).layer.frozen;
        if let Err(error) = if frozen { Err(HostError::ReadOnly) } else { may } {
            return p.request_progress(request, 1, Some(error));
        }
        let map = p.volumes.map_mut(index);
        map.limit = map.limit.min(blocks);
        p.requests.set_resizes(request, volume);
        p.pages.forget_damage(index, 0, u64::MAX);
        self.unmapping.push_back(Unmapping {
            volume: index,
            next: blocks.min(old),
            end: old,
            request: Some(request),
            afterwards: Afterwards::Resize(blocks),
            awaits: Awaits::Nothing,
        });
    }

    /// Nothing more is unmapped: the pool failed.
    pub(crate) fn fail<P: Payload>(&mut self, p: &mut Parts<P>) {
        for request in self.unmapping.drain(..).filter_map(|work| work.request) {
            mark!(TrimFailed);
            p.request_progress(request, 1, Some(HostError::Failed));
        }
    }

    /// Whether nothing is to be unmapped.
    pub(crate) fn is_idle(&self) -> bool {
        self.unmapping.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::{blocks, completed, free, parts, request};

    #[test]
    fn a_trim_is_logged_at_once_unless_a_checkpoint_needs_the_last_units() {
        let mut p = parts();
        let mut trimmer = Trimmer::default();
        let first = request(&mut p, 1);
        trimmer.trim(&mut p, first, blocks(0, 8));
        assert!(trimmer.is_idle() && p.cache.has_control(), "nothing but trims may help");
        p.due.begin();
        let second = request(&mut p, 2);
        trimmer.trim(&mut p, second, blocks(8, 8));
        assert!(!trimmer.is_idle() && !trimmer.unmap_step(&mut p));
        p.due.end();
        assert!(trimmer.unmap_step(&mut p) && trimmer.is_idle());
        assert_eq!(completed(&mut p), [], "both wait until their entries are on media");
    }

    #[test]
    fn pages_of_a_deleted_volume_are_dropped_behind_a_checkpoint_in_progress() {
        let mut p = parts();
        let mut trimmer = Trimmer::default();
        p.due.begin();
        trimmer.unmap_deleted(&mut p, 0);
        while trimmer.unmap_step(&mut p) {}
        assert!(!trimmer.is_idle());
        p.due.end();
        while trimmer.unmap_step(&mut p) {}
        assert!(trimmer.is_idle() && p.volumes.indices().next().is_none());
    }

    #[test]
    fn trims_of_a_pool_that_failed_fail_and_blocks_elsewhere_are_refused() {
        let mut p = parts();
        let mut trimmer = Trimmer::default();
        let beyond = request(&mut p, 1);
        trimmer.trim(&mut p, beyond, blocks(1020, 8));
        assert_eq!(completed(&mut p), [(1, false)]);
        p.due.begin();
        let waits = request(&mut p, 2);
        trimmer.trim(&mut p, waits, blocks(0, 8));
        trimmer.fail(&mut p);
        assert!(trimmer.is_idle());
        assert_eq!(completed(&mut p), [(2, false)]);
    }

    #[test]
    fn trims_wait_for_a_checkpoint_while_units_are_scarce_and_control_entries_fill_one() {
        let mut p = parts();
        let mut trimmer = Trimmer::default();
        let held = p.metadata_hold();
        free(&mut p, 8, held);
        assert!(!trimmer.trims_wait(&mut p), "a checkpoint would free nothing");
        p.due.add_control(p.config.geometry.unit_bytes());
        assert!(trimmer.trims_wait(&mut p) && p.due.is_wanted());
        free(&mut p, 8 + held, 1);
        assert!(!trimmer.trims_wait(&mut p));
        p.due.begin();
        assert!(!trimmer.trims_wait(&mut p), "units are enough");
    }
}
