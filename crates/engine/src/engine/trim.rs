//! Trims, and whatever else makes many blocks unmapped: volumes that shrink or go.
//!
//! Done page by page, a bounded number at a time, so that a trim of a terabyte stops nobody. A trim counts in pieces:
//! each piece is logged when its blocks are unmapped.

use std::fmt::Debug;

use thermocline_format::{Entry, Volume};
use thermocline_types::Lba;

use crate::bugs::bug;
use crate::engine::Engine;
use crate::map::{Mapping, PAGE, Said, Value, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{Loaded, Needs, PAGES};
use crate::payload::Payload;
use crate::request::{Extent, HostError};
use crate::volumes::PageCursor;
use crate::write_cache::Owner;

/// Blocks on their way to being unmapped.
#[derive(Debug)]
pub(crate) struct Unmapping {
    pub(crate) volume: u16,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) request: Option<u32>,
    pub(crate) afterwards: Afterwards,
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

impl<P: Payload> Engine<P> {
    pub(crate) fn trim(&mut self, request: u32, extent: Extent) {
        let volume = match self.parts.locate(extent) {
            Ok(volume) => volume,
            Err(error) => return self.parts.request_progress(request, 1, Some(error)),
        };
        let pages = (extent.lba / PAGE, (extent.lba + extent.blocks).div_ceil(PAGE));
        self.parts.pages.forget_damage(volume, pages.0, pages.1);
        self.unmapping.push_back(Unmapping {
            volume,
            next: extent.lba,
            end: extent.lba + extent.blocks,
            request: Some(request),
            afterwards: Afterwards::Nothing,
        });
        // Short ones of loaded pages are done at once, unless there are many.
        if pages.1 - pages.0 <= PAGES && !self.parts.is_due_to_rest() && !self.trims_wait() {
            self.unmap_some_of(self.unmapping.len() - 1);
        }
    }

    /// Does a bounded part of the first trim that waits. Returns whether anything was done.
    pub(crate) fn unmap_step(&mut self) -> bool {
        if !self.unmapping.is_empty() && self.trims_wait() {
            return false;
        }
        let first = self.unmapping.iter().position(|work| !self.awaits_checkpoint(work));
        first.is_some_and(|index| self.unmap_some_of(index))
    }

    /// Whether no trim is to be logged: units for it are missing, and a checkpoint, which needs the last ones, frees
    /// some. Where it would free none, trims have them: they may be all that helps.
    fn trims_wait(&mut self) -> bool {
        let scarce = self.parts.space.free_units(self.parts.config.host_media())
            <= self.parts.metadata_hold();
        let begins = scarce && self.parts.due.has_control(self.parts.config.geometry.unit_bytes());
        let waits = begins || scarce && self.parts.due.is_under_way();
        mark!(TrimsWait if waits);
        if waits && !self.parts.due.is_under_way() {
            self.parts.want_checkpoint();
        }
        waits
    }

    /// Does a bounded part of one trim. Returns whether anything was done.
    fn unmap_some_of(&mut self, index: usize) -> bool {
        let mut work = self.unmapping.remove(index).expect("it is there");
        let end = work.end.min((work.next / PAGE + PAGES) * PAGE);
        let mut from = work.next;
        let mut waiting = Vec::new();
        let mut stuck = false;
        let mapped = self.parts.volumes.mapped();
        while from < end {
            let until = end.min((from / PAGE + 1) * PAGE);
            self.parts.pages.need(Needs::Trim, Some((work.volume, from / PAGE)));
            match self.parts.loaded(work.volume, from, until, Share::Upkeep) {
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
                    let error = self.parts.damaged_page(work.volume, page);
                    if let Some(request) = work.request {
                        self.parts.pages.need(Needs::Trim, None);
                        self.log_trim(&work, work.next, from, waiting);
                        self.parts.request_progress(request, 1, Some(error));
                        return true;
                    }
                    mark!(DeletedPageLost);
                    self.parts.stats.lost_pages += 1;
                }
            }
            self.unmap(work.volume, from, until, &mut waiting);
            from = until;
        }
        if !stuck {
            self.parts.pages.need(Needs::Trim, None);
        }
        self.parts.volumes.note_pages(work.volume);
        let worked = from > work.next;
        // Nobody asks for a word about the parts of a deleted volume that nothing was in.
        if work.request.is_some() || self.parts.volumes.mapped() < mapped {
            self.log_trim(&work, work.next, from, waiting);
        }
        work.next = from;
        if work.next == work.end
            && !self.awaits_checkpoint(&work)
            && !self.parts.pages.is_loading_of(work.volume)
        {
            self.unmapped(&work);
            return true;
        }
        self.unmapping.insert(index, work);
        worked && !stuck
    }

    /// Unmaps blocks of one page; `waiting` gets who waited for those of them that were staged. Of a page that cannot
    /// be read, those that its patch tells of.
    fn unmap(&mut self, volume: u16, from: u64, until: u64, waiting: &mut Vec<Owner>) {
        if self.parts.volumes.map(volume).is_blank(from / PAGE) {
            self.parts.stats.looked_at += 1;
        } else if self.parts.volumes.map(volume).is_loaded(from / PAGE) {
            self.parts.stats.looked_at += until - from;
            for lba in from..until {
                self.unmap_block(volume, lba, self.parts.volumes.map(volume).get(lba), waiting);
            }
            self.parts.volumes.map_mut(volume).release(from / PAGE);
        } else {
            let said: Vec<Said> = self.parts.volumes.map(volume).all_said(from / PAGE).collect();
            for Said { lba, mapping, .. } in said {
                self.unmap_block(volume, lba, mapping, waiting);
            }
        }
    }

    fn unmap_block(&mut self, volume: u16, lba: u64, mapping: Mapping, waiting: &mut Vec<Owner>) {
        let old = match mapping {
            Mapping::Unmapped => return,
            Mapping::At(value) => Some(value),
            Mapping::Staged(slot) => {
                mark!(StagedTrimmed);
                let absorbed = u64::from(!self.parts.cache.block(slot).replaces);
                self.parts.stats.absorbed_blocks += absorbed;
                self.parts.volumes.map_mut(volume).traffic.absorbed_blocks += absorbed;
                self.parts.cache.trim(slot, waiting)
            }
        };
        self.parts.volumes.map_mut(volume).set(lba, Mapping::Unmapped);
        self.parts.volumes.map_less(u64::from(mapping != Mapping::At(Value::LOST)));
        self.parts.stats.trimmed_blocks += 1;
        if let Some(value) = old {
            self.parts.note_move(PageCursor::at(volume, lba / PAGE), Some(value), None);
            self.parts.drop_value(value);
        }
    }

    /// Logs that the blocks `from` to `until` are unmapped; `owners` wait for that. Of a volume that goes as well: what
    /// its blocks stood in may be reset when it is durable that nothing leads there.
    fn log_trim(&mut self, work: &Unmapping, from: u64, until: u64, mut owners: Vec<Owner>) {
        if until == from || bug!(self.parts.config, TrimNotLogged) {
            return;
        }
        if let Some(request) = work.request {
            self.parts.requests.need(request, 1);
            owners.push(Owner::Request(request));
        }
        let volume = self.parts.volumes.map(work.volume).id;
        let entries = vec![Entry::Trim { volume, lba: Lba(from), blocks: until - from }];
        self.parts.cache.say(entries, owners);
    }

    /// Whether all is unmapped, and pages are to go, which they do not during a checkpoint: it has counted and written
    /// what they lead to, and would have to begin anew, over and over, with ever more pages.
    fn awaits_checkpoint(&self, work: &Unmapping) -> bool {
        let drops = !matches!(work.afterwards, Afterwards::Nothing);
        let awaits = work.next == work.end && drops && self.parts.due.is_under_way();
        mark!(DropAwaitsCheckpoint if awaits);
        awaits
    }

    fn unmapped(&mut self, work: &Unmapping) {
        match work.afterwards {
            Afterwards::Nothing => {}
            Afterwards::Resize(blocks) => {
                self.drop_pages_beyond(work.volume, blocks);
                self.parts.volumes.resize(work.volume, blocks);
                let volume = self.parts.volumes.map(work.volume).id;
                let request = work.request.expect("somebody asked for the size");
                self.parts.requests.need(request, 1);
                let entries = vec![Entry::VolumeResize { volume, blocks }];
                let owners = vec![Owner::Request(request)];
                self.parts.cache.say(entries, owners);
            }
            Afterwards::Forget => {
                self.drop_pages_beyond(work.volume, 0);
                self.parts.volumes.forget(work.volume);
            }
        }
        if let Some(request) = work.request {
            self.parts.request_progress(request, 1, None);
        }
    }

    /// The pages of a volume's map that are all beyond block `end`, and the roots above them, are needed no more, once
    /// no record refers to them.
    pub(crate) fn drop_pages_beyond(&mut self, volume: u16, end: u64) {
        let map = self.parts.volumes.map_mut(volume);
        let (mut from, mut budget, mut cut) = (end.div_ceil(PAGE), u32::MAX, 0);
        while let Some(page) = map.next_page(&mut from, Wanted::Held, &mut budget) {
            let (old, differed) = map.cut_page(page);
            cut += u64::from(differed);
            self.parts.pages.forget(volume, page);
            self.parts.superblocks.drop_later(old);
        }
        for old in map.cut_roots(Volume::roots_for(end)) {
            self.parts.superblocks.drop_later(old);
        }
        self.parts.volumes.cut(cut);
    }

    pub(crate) fn unmapping_failed(&mut self, work: &Unmapping) {
        if let Some(request) = work.request {
            mark!(TrimFailed);
            self.parts.request_progress(request, 1, Some(HostError::Failed));
        }
    }
}
