//! Memory for map pages: the choice of pages to evict, and the fallback when no page can leave.

use crate::bugs::bug;
use crate::engine::values::flying;
use crate::engine::{Parts, Phase};
use crate::map::{FRAME_BYTES, Forget, VolumeMap};
use crate::marks::mark;
use crate::memory::{Room, Share};
use crate::pages::{PAGES, WORDS};
use crate::payload::Payload;
use crate::volumes::PageCursor;

/// Pages that garbage collection may need at once, at most: as many blocks as it reads ahead, in pages of their own,
/// some times over. Chosen, not measured.
const MOST_PINS: u64 = 1024;

/// The share of the memory for pages that differs from media when a checkpoint begins: numerator and denominator.
/// Chosen, not measured.
const DIRTY: (u64, u64) = (3, 4);

/// An empty range of pages.
const NOBODY: (u16, u64, u64) = (u16::MAX, 0, 0);

impl<P: Payload> Parts<P> {
    /// Pages that may be in memory or on their way there.
    pub(crate) fn frame_limit(&self) -> u64 {
        let left = self.config.map_memory_bytes.saturating_sub(self.volumes.fixed_bytes());
        (left / FRAME_BYTES).max(self.least_pages(self.volumes.depth_after_crash()))
    }

    /// Pages of maps with which everything goes on where at most `depth` layers are below another: a read may need two
    /// pages of each layer at once.
    pub(crate) fn least_pages(&self, depth: u64) -> u64 {
        self.config.least_pages() + 2 * depth
    }

    /// Pages that garbage collection may need at once.
    pub(crate) fn most_pins(&self) -> usize {
        let least = u64::from(self.config.gc.pages);
        (self.frame_limit() / 8).min(MOST_PINS).max(least) as usize
    }

    /// Pages that may be in memory or on their way there when one for `share` has come.
    fn limit_for(&self, share: Share) -> u64 {
        let all = self.frame_limit();
        let left = self.most_pins().saturating_sub(self.collection.pins()) as u64;
        match (self.phase, share) {
            // Where the unit table is damaged every page is read, and goes again.
            (Phase::Opening, _) => u64::MAX,
            // Dirty pages can no longer become clean. A few pages beyond the dirty pages serve reads, one at a time.
            (Phase::Failed, _) => {
                let tally = self.volumes.tally();
                all.max(self.pages_taken() - tally.idle) + 4
            }
            (_, Share::Collection) => all,
            (_, Share::Upkeep) => all - left,
            (_, Share::Read | Share::Write) => all - left - 3,
        }
    }

    /// Whether so much of the memory is for what differs from media that a checkpoint should begin: the rest is for
    /// what comes meanwhile.
    pub(crate) fn many_are_dirty(&self) -> bool {
        let dirty = self.volumes.dirty_pages() + self.volumes.patch_bytes() / FRAME_BYTES;
        dirty * DIRTY.1 > self.frame_limit() * DIRTY.0
    }

    /// Memory in use, in pages: pages in memory, pages being read, emptied pages, and patches.
    fn pages_taken(&self) -> u64 {
        let tally = self.volumes.tally();
        let patches = tally.patch_bytes.div_ceil(FRAME_BYTES);
        tally.frames + tally.emptied + patches + self.pages.on_their_way() as u64
    }

    /// Whether there is memory for what `copies` blocks change in maps, whose pages may not be in memory.
    pub(crate) fn may_copy(&mut self, copies: u64) -> bool {
        if self.volumes.tally().absent == 0 {
            return true;
        }
        let pages = VolumeMap::patch_bytes_for(copies, copies).div_ceil(FRAME_BYTES);
        match self.make_room(pages, Share::Collection, NOBODY) {
            Room::Yes => true,
            Room::Later => {
                self.pages.note_goes_on();
                false
            }
            Room::No => {
                mark!(CopiesAwaitMemory);
                self.pages.note_short();
                false
            }
        }
    }

    /// Whether every page that is on media may be in memory at once.
    pub(crate) fn all_pages_fit(&self) -> bool {
        let tally = self.volumes.tally();
        tally.frames + tally.emptied + tally.absent <= self.limit_for(Share::Read)
    }

    /// Makes room for `count` pages, without taking away those that `own` needs, pages of one volume.
    pub(crate) fn make_room(&mut self, count: u64, share: Share, own: (u16, u64, u64)) -> Room {
        let limit = self.limit_for(share);
        loop {
            if self.pages_taken() + count <= limit {
                return Room::Yes;
            }
            if self.volumes.tally().idle <= self.idle_and_needed(own) {
                return Room::No;
            }
            if !self.evict_one(own) {
                return Room::Later;
            }
        }
    }

    /// Idle pages that are still needed.
    fn idle_and_needed(&self, (volume, from, end): (u16, u64, u64)) -> u64 {
        let mut needed: Vec<(u16, u64)> = (from..end).map(|page| (volume, page)).collect();
        needed.extend(self.pages.needed());
        needed.sort_unstable();
        needed.dedup();
        needed.retain(|&(volume, page)| self.volumes.is_idle(volume, page));
        needed.len() as u64
    }

    fn evict_one(&mut self, (volume, from, end): (u16, u64, u64)) -> bool {
        let forget = Forget {
            dirty: bug!(self.config, DirtyPageEvicted),
            staged: bug!(self.config, StagedPageEvicted),
        };
        let mut budget = WORDS;
        let pages = &self.pages;
        let own = |(of, page)| of == volume && (from..end).contains(&page);
        let keep = |at| own(at) || pages.is_needed(at);
        let flies = flying(&self.space, &self.flights, self.addresses);
        let mut hand = pages.hand();
        let evicted = self.volumes.sweep(&mut hand, &mut budget, forget, keep, flies);
        self.pages.set_hand(hand);
        self.stats.looked_at += u64::from(WORDS - budget);
        self.stats.pages_evicted += u64::from(evicted);
        mark!(PageEvicted if evicted);
        evicted
    }

    /// Where nothing in memory could go: what is dirty is to become clean, and what is staged to be sealed. Returns
    /// whether that begins now.
    pub(crate) fn relieve_step(&mut self) -> bool {
        if !self.pages.take_short() {
            return false;
        }
        let mut begins = false;
        let tally = self.volumes.tally();
        let dirty = tally.dirty + tally.patched > 0;
        let since = self.pages.short_since(self.stats.checkpoints);
        if !dirty || self.stats.checkpoints > since {
            mark!(StageSealedEarly if self.cache.waiting() > 0);
            begins |= self.cache.seal_all_soon();
        }
        if dirty && !self.due.is_under_way() && self.pages.landing().is_none() {
            mark!(CheckpointForMemory);
            begins |= !self.due.is_wanted();
            self.want_checkpoint();
        }
        begins
    }

    /// A record is flushed: pages written for the record may leave memory.
    pub(crate) fn pages_landed(&mut self) {
        self.volumes.cut_landed();
        self.pages.set_landing(Some(PageCursor::default()));
    }

    /// Gives back what an opening took beyond the budget, a bounded number of pages. Returns whether anything was done.
    pub(crate) fn shed_step(&mut self) -> bool {
        if !self.pages.has_excess() || self.pages.landing().is_some() {
            return false;
        }
        for _ in 0..PAGES {
            let tally = self.volumes.tally();
            if self.pages_taken() <= self.frame_limit() {
                self.pages.excess_is_over();
                return true;
            }
            // What cannot go now is dirty, and a checkpoint will come.
            if tally.idle <= self.idle_and_needed(NOBODY) || !self.evict_one(NOBODY) {
                return tally.idle > self.idle_and_needed(NOBODY);
            }
        }
        true
    }

    pub(crate) fn land_step(&mut self) -> bool {
        let Some(mut cursor) = self.pages.landing() else { return false };
        let mut budget = WORDS;
        let over = self.volumes.land(&mut cursor, &mut budget);
        self.stats.looked_at += u64::from(WORDS - budget);
        self.pages.set_landing((!over).then_some(cursor));
        true
    }
}
