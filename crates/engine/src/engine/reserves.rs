//! Units that are free, or about to be, and who may take them.

use thermocline_format::{MAX_LINES, MediaClass};

use crate::bugs::bug;
use crate::engine::{Parts, Phase};
use crate::map::Value;
use crate::marks::mark;
use crate::payload::Payload;
use crate::volumes::Held;

/// Fast units that blocks of failed writes may take beyond what hosts may. Chosen, not measured.
const REPLACED: u32 = 2;

/// Fast units for what stays on fast devices when it leaves a unit: a unit for the staying blocks, and a unit that
/// control entries may have taken.
const STAYING: u32 = 2;

/// Victims whose copies wait at once, at most. With one, WAF of Zipf 1.0 on 2,297 units is 0.6 % higher, with eight and
/// twice as many copies 0.6 % lower; uniform writes fill all chunks with one.
const ENDING: usize = 3;

/// Copies wait only in units of at most this many chunks. In units of 16 chunks they gain 0.2 %, and the slowest writes
/// take longer.
const CHUNKS: usize = 8;

impl<P: Payload> Parts<P> {
    pub(crate) fn most_listed(&self) -> usize {
        self.config.max_listed_units as usize
    }

    /// Units that the table may list now. A checkpoint in progress gets as many as a record can hold, so that failing
    /// writes do not keep it from shortening the table, and so do the blocks of failed writes that it waits for.
    pub(crate) fn table_limit(&self) -> usize {
        let most = if self.due.is_under_way() || self.cache.has_replacements() {
            self.config.most_listed_ever()
        } else {
            self.config.max_listed_units
        };
        most as usize
    }

    /// Whether units may be opened for users' blocks: the checkpoint that shortens the table needs the rest of the
    /// table.
    pub(crate) fn table_has_room(&self) -> bool {
        let held = (self.most_listed() / 4).max(self.metadata_hold() as usize);
        self.space.opened() + held < self.most_listed()
    }

    /// Whether a unit may be opened for what must not wait for a checkpoint.
    pub(crate) fn table_has_last_room(&self) -> bool {
        self.space.opened() + (self.metadata_hold() as usize) < self.table_limit()
    }

    /// Whether units of `media` are about to be free: for fast units, which staying blocks need, also units that wait
    /// for a flush or a running checkpoint.
    pub(crate) fn units_are_coming(&self, media: MediaClass) -> bool {
        let dead = self.space.dead(media);
        let about = dead.is_moving() || dead.has_held() && self.due.is_under_way();
        self.space.resetting_on(media) > 0 || media == MediaClass::Fast && about
    }

    /// Whether `new` more blocks of the volume at `index`, in `pages` pages that come into use, fit into the pool.
    /// Blocks for which the volume itself has a reservation need only room in the pool. The new blocks replace
    /// `replaced` blocks of deleted snapshots, which go later: both have room for so long.
    pub(crate) fn has_room_for(&self, index: u16, new: u64, replaced: u64, pages: u64) -> bool {
        let own = self.volumes.has_reserves() && new <= self.volumes.shortfall(index);
        let own = own || bug!(self.config, ReserveNotHeld);
        let held = if own { Held::default() } else { self.volumes.held_beside(Some(index)) };
        let (taken, pages) = (self.volumes.mapped() + new + held.blocks, pages + held.pages);
        let more = taken - replaced <= self.room_blocks(pages) || replaced == new && new > 0;
        more && taken <= self.capacity_blocks(pages)
    }

    /// Blocks that hosts may have in the pool when `more` pages of maps come into use. A pool with snapshots keeps a
    /// unit: in a full pool, what is written over blocks of deleted snapshots stands there until a walk removes these.
    pub(crate) fn room_blocks(&self, more: u64) -> u64 {
        let layered = self.volumes.depth() > 0;
        let kept = if layered { self.config.blocks_per_unit() } else { 0 };
        self.capacity_blocks(more).saturating_sub(kept)
    }

    /// Fast units that are not about to be free.
    fn fast_units_in_use(&self) -> u32 {
        let all = self.config.geometry.active_units(MediaClass::Fast);
        all.saturating_sub(self.coming_units(MediaClass::Fast))
    }

    /// Whether fast units are to be emptied although they do not run short.
    pub(crate) fn destages_early(&mut self) -> bool {
        let used = self.fast_units_in_use();
        let wants = self.config.geometry.is_tiered() && self.destage.wants(used);
        mark!(DestagedEarly if wants);
        wants
    }

    /// How fast fast units are emptied although they do not run short, as that of units that do; `None` if none is.
    fn urgency_of_destaging(&mut self) -> Option<f64> {
        /// What is overdue leaves as fast as if all units held ahead were used up. Chosen, not measured.
        const OVERDUE: f64 = 1.0;
        let overdue = self.destage.overdue(self.now).map(|_| OVERDUE);
        let early = self.destages_early().then(|| self.destage.urgency(self.fast_units_in_use()));
        overdue.into_iter().chain(early).reduce(f64::max)
    }

    /// Free units on `media` that neither the host nor what is destaged may use.
    pub(crate) fn reserve_of(&self, media: MediaClass) -> u32 {
        match (self.config.geometry.is_tiered(), media) {
            (false, _) => self.config.relocation_reserve() + self.metadata_hold(),
            (true, MediaClass::Capacity) => self.config.relocation_reserve() + 1,
            (true, MediaClass::Fast) => {
                self.metadata_hold() + REPLACED + STAYING + self.config.unused_fast_units()
            }
        }
    }

    /// Whether a fast unit is left for what stays on fast devices, beside those for metadata and failed writes.
    pub(crate) fn has_fast_unit_for_copies(&self) -> bool {
        self.space.free_units(MediaClass::Fast) + STAYING > self.reserve_of(MediaClass::Fast)
    }

    /// Free units that the host may not use.
    fn host_reserve(&self) -> u32 {
        self.reserve_of(self.config.host_media())
    }

    /// Free units for capacity that copies may not use: destage must leave the relocation reserve free.
    pub(crate) fn held_from_destage(&self) -> u32 {
        let victim = self.collection.victim();
        let destages = victim.is_some_and(|one| self.space.media_of(one.unit) == MediaClass::Fast);
        if destages { self.config.relocation_reserve() } else { 0 }
    }

    /// Free units on `media` at which collection begins. What is destaged, or emptied for good, finds room for two
    /// units at least.
    fn gc_start(&self, media: MediaClass) -> u32 {
        let takes = self.config.geometry.is_tiered() || self.space.has_condemned();
        let least = if takes { 2 } else { 0 };
        self.reserve_of(media) + self.config.gc.ahead_units.max(least)
    }

    /// Units of `media` that are free, or will be without further victims; dead ones, and those that will be as soon as
    /// the last copies are sealed, are not freed while a checkpoint is taken.
    fn coming_units(&self, media: MediaClass) -> u32 {
        let free = self.space.free_units(media) + self.space.resetting_on(media);
        let later = self.space.dead(media).len() as u32 + self.collection.ending_on(media);
        free + if !self.due.is_under_way() { later } else { 0 }
    }

    /// Whether units of `media` are to be freed.
    pub(crate) fn is_short(&self, media: MediaClass) -> bool {
        self.coming_units(media) <= self.gc_start(media)
    }

    /// A chunk of `blocks` logical blocks was sealed that is no copy: as many are to be freed.
    #[inline]
    pub(crate) fn gc_earn(&mut self, media: MediaClass, blocks: u32) {
        if media != self.config.host_media() {
            return;
        }
        let (free, start) = (self.coming_units(media), self.gc_start(media));
        let urgency = if free <= start {
            f64::from(start - free) / f64::from(self.config.gc.ahead_units.max(1))
        } else if let Some(urgency) = self.urgency_of_destaging() {
            urgency
        } else {
            self.collection.pace_mut().forgive();
            return;
        };
        self.collection.pace_mut().earn(blocks, urgency);
    }

    /// Whether blocks of the host may take up units of `media` now. Awaited blocks may earlier than others. Host writes
    /// that bypass the fast devices earn no copies. Collection frees capacity units at full speed when they run short.
    pub(crate) fn host_may_seal(&self, media: MediaClass, awaited: bool) -> bool {
        let pace = self.collection.pace();
        let owes = || if awaited { pace.is_far_behind() } else { pace.is_behind() };
        let pays = media == self.config.host_media();
        self.space.free_units(media) > self.reserve_of(media)
            && (!pays || !self.is_short(media) || !owes())
    }

    /// Whether awaited blocks may fill open units on `media` although the host may open no unit. Relocation has enough
    /// free units, regardless of the open units.
    pub(crate) fn host_may_fill(&self, media: MediaClass) -> bool {
        media == self.config.host_media()
            && self.space.free_units(media) == self.reserve_of(media)
            && !self.collection.pace().is_far_behind()
    }

    /// Whether blocks of the host wait that have no unit to go to, whatever is owed.
    pub(crate) fn host_is_stuck(&self) -> bool {
        let (tiered, capacity) = (self.config.geometry.is_tiered(), MediaClass::Capacity);
        let below = tiered && self.space.free_units(capacity) <= self.reserve_of(capacity);
        self.host_has_no_unit() || below && self.cache.hosts_wait_below(&self.config)
    }

    /// Whether as many copies wait as there is room for.
    pub(crate) fn copies_are_many(&self) -> bool {
        self.cache.copies() > 2 * thermocline_format::MAX_LINES
    }

    /// Whether no unit is left but those that the host may not use.
    pub(crate) fn host_has_no_unit(&self) -> bool {
        self.space.free_units(self.config.host_media()) <= self.host_reserve()
    }

    /// Units that a checkpoint of all maps may need, and the one after it: the next checkpoint does not give back the
    /// room of pages written for the first time.
    pub(crate) fn metadata_hold(&self) -> u32 {
        let pages = self.volumes.pages_in_use() + self.unit_table.pages().len() as u64;
        2 + ((pages + self.volumes.pages_unwritten()) / self.dense) as u32
    }

    /// Whether copies of a queue should be sealed though they do not fill a chunk. That a host finds no unit is no
    /// reason: a part of a victim frees none.
    pub(crate) fn copies_are_urgent(&self, queue: usize) -> bool {
        let ends = self.collection.has_staged_all()
            && !self.may_hand_over()
            && (self.collection.ending().len() < ENDING || self.is_awaited_by_ending(queue));
        ends || self.cache.has_replacements() || self.pages.waiting() > 0
    }

    /// Whether the next copy of a queue is of the victim that waits longest.
    fn is_awaited_by_ending(&self, queue: usize) -> bool {
        let from = self.cache.first(queue).and_then(|slot| self.cache.block(slot).old);
        let victim = self.collection.ending().first().map(|ending| ending.victim);
        let is = victim.is_some() && from.map(|from| self.unit_of(from)) == victim;
        mark!(ManyVictimsEnd if is);
        is
    }

    /// Whether the last copies of the victim may wait for those of the next: free units are low enough that another
    /// victim follows, but not so low that the host is blocked on this victim.
    pub(crate) fn may_hand_over(&self) -> bool {
        let Some(victim) = self.collection.victim() else { return false };
        let (media, waiting) = (MediaClass::Capacity, self.collection.ending().len());
        victim.is_over
            && self.dense <= (CHUNKS * MAX_LINES) as u64
            && waiting < ENDING
            && self.space.media_of(victim.unit) == media
            && self.is_short(media)
            && self.coming_units(media) > self.reserve_of(media) + waiting as u32
            && self.phase == Phase::Open
            && !self.space.has_condemned()
            && !self.cache.has_replacements()
            && self.pages.waiting() == 0
    }

    /// A copy of the block at `from` leaves its queue.
    #[inline]
    pub(crate) fn copy_leaves(&mut self, from: Value) {
        if !self.collection.ending().is_empty() {
            let unit = self.unit_of(from);
            self.collection.copy_leaves(unit);
        }
    }

    /// Whether a victim is free as soon as the copies that wait are durable: without a control entry or a checkpoint,
    /// also after a crash. Then they may take the last unit there is.
    fn is_freed_by_copies(&self) -> bool {
        let ending = self.collection.ending().iter();
        let others: usize = ending.clone().map(|ending| ending.copies).sum();
        let ending = ending.map(|ending| (ending.victim, ending.copies));
        let last = self.collection.victim().filter(|victim| victim.staged_all);
        let last = last.map(|victim| (victim.unit, self.cache.copies() - others));
        !self.cache.has_replacements()
            && ending.chain(last).any(|(victim, copies)| {
                let left = self.space.units().valid_count(victim) as usize;
                left <= copies && !self.space.listed().contains_key(&victim.0)
            })
    }

    /// Lets waiting copies take a unit from the metadata reserve. A crash may have closed the open unit of the copies
    /// when only the metadata reserve was left. Returns whether that helps.
    pub(crate) fn gc_borrow(&mut self) -> bool {
        let media = self.config.host_media();
        let same = media == MediaClass::Capacity;
        let waits = same && self.host_has_no_unit() && self.cache.copies() > 0;
        let helps = waits && self.space.free_units(media) > self.held_from_borrowers();
        helps && self.collection.borrow()
    }

    /// Units that copies leave to metadata when they [borrow](Parts::gc_borrow).
    pub(crate) fn held_from_borrowers(&self) -> u32 {
        u32::from(!self.is_freed_by_copies())
    }

    /// As [`crate::Engine::least_empty`].
    pub(crate) fn least_empty(&self) -> u32 {
        self.reserve_of(MediaClass::Capacity) + 1
    }
}

#[cfg(test)]
mod tests {
    use crate::config::DestageConfig;
    use crate::engine::parts::testing::{free, tiered};

    #[test]
    fn fast_units_are_emptied_early_from_the_high_watermark_to_the_low_one() {
        let destage = DestageConfig { high_units: 20, low_units: 10, ..Default::default() };
        let mut p = tiered(destage);
        let used = p.fast_units_in_use();
        assert!(p.destages_early() && used > 20);
        free(&mut p, 66, used - 11);
        assert!(p.destages_early(), "11 are in use");
        free(&mut p, 95, 1);
        assert!(!p.destages_early(), "10 are in use");
    }
}
