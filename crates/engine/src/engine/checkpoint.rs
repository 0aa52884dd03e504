//! Checkpoints.
//!
//! A checkpoint chooses *S*, writes every page of the maps that is dirty then, the pages of the unit table that differ,
//! the roots, and a superblock record that refers to all of them. The host goes on writing meanwhile.
//!
//! Invariants:
//! * Pages that the newest flushed record may refer to stay valid until a newer one is flushed.

mod moving;
mod pages;

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashSet;
use thermocline_format::{
    BLOCK_BYTES, Location, MapEntry, OpenUnit, PageId, Sequence, VolumeId, crc32c,
};

use crate::bugs::bug;
use crate::config::Config;
use crate::device::PageBytes;
use crate::durability::Then;
use crate::engine::{Engine, Phase};
use crate::marks::mark;
use crate::pages::WORDS;
use crate::payload::Payload;
use crate::volumes::PageCursor;

pub(crate) use moving::Place;
use pages::Batch;

/// Pages in one chunk, so that pages do not hold up the host. Chosen, not measured.
const PAGES_PER_CHUNK: usize = 64;

/// A checkpoint costs little if its pages are so many times less than what was written since the one before.
const CHEAP: u64 = 64;

/// Chunks after which a checkpoint begins however small they are: an opening keeps 24 bytes of each, at most 200 MB.
const CHUNKS: u64 = 4 << 20;

/// Chunks of pages on their way at once. Chosen, not measured.
const PAGE_CHUNKS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Looking for metadata units with few valid blocks, from this one on.
    Sparse(u32),
    /// Looking for the pages that stand in them.
    Moving(PageCursor),
    /// Writing map pages, from here on.
    Pages(PageCursor),
    /// Writing pages of the unit table, from this one on.
    Units(usize),
    /// Writing root pages, from the one of this page on.
    Roots(PageCursor),
    /// Waiting for all up to here to be durable.
    Flush(Sequence),
    /// The record may be written.
    Record,
    /// It is being written.
    Writing,
}

/// When the next checkpoint is due.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Whether somebody waits for one.
    wanted: bool,
    /// Bytes of chunks since the newest began, but for pages of maps, and chunks; on tiers of lives not released.
    bytes: u64,
    chunks: u64,
    /// Bytes of chunks with control entries since then. Nothing but a checkpoint frees their units.
    control: u64,
    /// Whether it was due and waits for room, and whether it begins without, since there is no other way.
    awaits_room: bool,
    forced: bool,
}

impl Due {
    /// Bytes went into a chunk.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.chunks += 1;
    }

    /// Whether so many bytes of chunks with control entries would be freed.
    pub(crate) fn has_control(&self, bytes: u64) -> bool {
        self.control >= bytes
    }

    /// Control entries went into a chunk.
    pub(crate) fn add_control(&mut self, bytes: u64) {
        self.control += bytes;
    }

    /// That much will not be replayed: the life of its unit was released.
    pub(crate) fn release(&mut self, bytes: u64, chunks: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.chunks = self.chunks.saturating_sub(chunks);
    }

    fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether somebody waits for one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Whether more would be replayed than should be, by as much again.
    fn is_late(&self, config: &Config) -> bool {
        self.bytes / 2 >= config.checkpoint_bytes || self.chunks / 2 >= CHUNKS
    }

    /// Whether it is due when so many pages of maps differ.
    fn is_now(&self, config: &Config, pages: u64) -> bool {
        let cheap = pages.saturating_mul(BLOCK_BYTES as u64 * CHEAP) <= self.bytes;
        self.wanted
            || self.bytes >= config.checkpoint_bytes
            || self.control >= config.control_bytes()
            || self.bytes >= config.early_checkpoint_bytes && cheap
            || self.chunks >= CHUNKS
    }
}

/// A checkpoint in progress.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    sequence: Sequence,
    step: Step,
    table: BTreeMap<u32, OpenUnit>,
    /// Metadata units with few valid blocks: what counts in them is written elsewhere, so that they can be freed.
    sparse: FxHashSet<u32>,
    /// Pages that are not in memory and are to be written elsewhere, as they were read; and those on their way here.
    moved: VecDeque<(Place, PageBytes)>,
    moving: usize,
    /// The pages that are written next.
    batch: Batch,
    pages: u64,
    /// Whether it began when all was done that will ever be: its record can be clean.
    last: bool,
    /// Whether a page could not be read to be written anew, so that something is left to replay.
    leaves: bool,
    /// The number of what is said of such pages, as [`thermocline_format::Superblock::patches`].
    patches: u32,
}

impl Checkpoint {
    /// A checkpoint of all before `sequence`, with this table of units. What it says of pages that cannot be read gets
    /// the number `patches`.
    fn new(
        sequence: Sequence,
        step: Step,
        table: BTreeMap<u32, OpenUnit>,
        last: bool,
        patches: u32,
    ) -> Self {
        let (sparse, moved) = (FxHashSet::default(), VecDeque::new());
        let (batch, leaves) = (Batch::default(), false);
        Checkpoint {
            sequence,
            step,
            table,
            sparse,
            moved,
            moving: 0,
            batch,
            pages: 0,
            last,
            leaves,
            patches,
        }
    }

    /// A page that waits to be written as it was read at `at`. One that was written elsewhere since it was asked for is
    /// not what was read.
    pub(crate) fn moved(&self, index: u16, page: u64, at: MapEntry) -> Option<&PageBytes> {
        let mut moved = self.moved.iter();
        let same = |place: &Place| (place.index, place.page, place.at) == (index, page, at);
        let found = moved.find(|(place, _)| same(place));
        found.map(|(_, bytes)| bytes)
    }

    /// One after which nothing is left to replay: nothing but pages came after *S*.
    pub(crate) fn clean(&self, sequence: Sequence, table: BTreeMap<u32, OpenUnit>) -> Checkpoint {
        Checkpoint::new(sequence, Step::Writing, table, true, self.patches)
    }

    /// Begins to write its record if that is next; `false` if it is not.
    pub(crate) fn begin_writing(&mut self) -> bool {
        let ready = self.step == Step::Record;
        if ready {
            self.step = Step::Writing;
        }
        ready
    }

    /// Whether it began when all was done that will ever be, and nothing is left to replay.
    pub(crate) fn is_clean(&self) -> bool {
        self.last && !self.leaves
    }

    /// Whether it began when all was done that will ever be, and leaves something to replay for good.
    pub(crate) fn ends_unclean(&self) -> bool {
        self.last && self.leaves
    }

    /// *S*, and the units that its record lists.
    pub(crate) fn begins_with(&self) -> (Sequence, BTreeMap<u32, OpenUnit>) {
        (self.sequence, self.table.clone())
    }

    /// Its record lists these units as well.
    pub(crate) fn list(&mut self, fresh: &[OpenUnit]) {
        self.table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
    }

    /// The number of what it says of pages that it could not read.
    pub(crate) fn patches(&self) -> u32 {
        self.patches
    }

    /// Pages that it has written.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }
}

impl<P: Payload> Engine<P> {
    /// Makes sure that a checkpoint is taken soon.
    pub(crate) fn want_checkpoint(&mut self) {
        self.due.want();
    }

    pub(crate) fn begin_closing(&mut self, request: u32) {
        self.phase = Phase::Closing;
        self.closing = Some(request);
    }

    /// Takes a checkpoint further. Returns whether anything was done.
    pub(crate) fn checkpoint_step(&mut self) -> bool {
        let Some(checkpoint) = &self.checkpoint else { return self.begin_checkpoint() };
        match checkpoint.step {
            Step::Sparse(unit) => self.find_sparse(unit),
            Step::Moving(cursor) => self.mark_sparse(cursor),
            Step::Pages(cursor) => self.write_pages(cursor),
            Step::Units(index) => self.write_units(index),
            Step::Roots(cursor) => self.write_roots(cursor),
            Step::Flush(_) | Step::Record | Step::Writing => false,
        }
    }

    fn begin_checkpoint(&mut self) -> bool {
        let urgent = self.space.opened() >= self.most_listed() / 2
            || !self.table_has_room()
            || self.many_are_dirty()
            || self.phase == Phase::Closing && self.is_quiet();
        let due = urgent || self.due.is_now(&self.config, self.volumes.pages_differing());
        if due && !self.has_room_for_checkpoint(urgent) {
            mark!(CheckpointAwaitsRoom);
            self.due.awaits_room = true;
            return false;
        }
        // Counts in Released entries are those of the checkpoint before.
        let releasing = self.space.is_releasing();
        if !due || releasing || self.pages.landing().is_some() || !self.superblocks.are_idle() {
            return false;
        }
        self.due = Due::default();
        let last = self.phase == Phase::Closing && self.is_quiet();
        let mut sequence = self.flights.next();
        let table = self.space.begin_tail(sequence);
        if bug!(self.config, CheckpointOneTooHigh) {
            sequence.0 += 1;
        }
        self.begin_unit_table();
        self.volumes.begin_checkpoint();
        let patches = self.superblocks.durable_patches().wrapping_add(1);
        self.checkpoint = Some(Checkpoint::new(sequence, Step::Sparse(0), table, last, patches));
        true
    }

    /// Whether there is room for every page; and, unless it is `urgent` or somebody waits for it, for as many once
    /// more: a crash at its end leaves them where they are, and the one after that needs as much again. Units that die
    /// during a checkpoint are not free before its end, so one that does not find room would come to nothing.
    fn has_room_for_checkpoint(&self, urgent: bool) -> bool {
        // Before the end of a recovery nothing else gives room.
        if !self.superblocks.are_settled() || self.phase == Phase::Closing || self.due.forced {
            return true;
        }
        let waits = urgent || self.due.is_wanted() || self.due.is_late(&self.config);
        let again = if waits { 0 } else { self.volumes.pages_in_use() / self.dense };
        let free = self.space.free_units(self.config.host_media());
        u64::from(free) >= u64::from(self.metadata_hold()) + again
    }

    /// Has a checkpoint that waits for room begin without. Returns whether one did wait.
    pub(crate) fn force_checkpoint(&mut self) -> bool {
        self.due.awaits_room && !std::mem::replace(&mut self.due.forced, true)
    }

    /// Whether nothing of the host is under way any more.
    fn is_quiet(&self) -> bool {
        self.cache.is_empty()
            && self.unmapping.is_empty()
            && self.flights.completed() == self.flights.sealed()
            && self.gc.is_idle()
            && self.space.resetting() == 0
            && self.pages_idle()
            && self.closing.is_some_and(|request| self.requests.is_only(request))
    }

    /// Room for pages, and how many fit.
    fn room_for_pages(&mut self) -> Option<(Location, usize)> {
        let class = self.config.metadata_class();
        if self.space.in_flight(class) >= PAGE_CHUNKS || !self.seal_control() {
            return None;
        }
        let block = self.config.geometry.logical_block();
        let (at, room) = self.room(class, block.per_block())?;
        Some((at, block.blocks_in_chunk(room).min(PAGES_PER_CHUNK)))
    }

    fn write_units(&mut self, from: usize) -> bool {
        let Some((at, most)) = self.room_for_pages() else { return false };
        let next = self.write_unit_pages(from, at, most);
        let over = next == self.config.geometry.unit_pages();
        self.set_step(if over { Step::Roots(PageCursor::default()) } else { Step::Units(next) });
        true
    }

    fn write_roots(&mut self, mut cursor: PageCursor) -> bool {
        let Some((at, most)) = self.room_for_pages() else { return false };
        let mut picked: Vec<(u16, usize)> = Vec::new();
        let mut looked_at = 0;
        while picked.len() < most
            && looked_at < WORDS
            && let Some((index, root)) = self.volumes.next_root(&mut cursor)
        {
            looked_at += 1;
            let map = self.volumes.map(index);
            if map.has_root_changed(root) || map.root_at(root).is_some_and(|at| self.is_sparse(at))
            {
                picked.push((index, root));
            }
        }
        self.stats.looked_at += u64::from(looked_at);
        self.set_step(Step::Roots(cursor));
        if picked.is_empty() && looked_at == WORDS {
            return true;
        }
        if picked.is_empty() || bug!(self.config, RootsNotWritten) {
            let target = self.flights.sealed();
            self.set_step(Step::Flush(target));
            if bug!(self.config, RecordBeforePages) {
                self.pages_durable(target);
                return true;
            }
            self.await_flush(target, Then::Pages { target });
            return true;
        }
        let geometry = self.config.geometry;
        let block = geometry.logical_block();
        let mut place = Location { block: at.block + block.chunk_header(picked.len()), ..at };
        let mut pages = Vec::with_capacity(picked.len());
        for &(index, number) in &picked {
            let map = self.volumes.map_mut(index);
            let id = PageId { volume: map.id, index: number as u32 };
            let bytes: PageBytes = Box::new(map.root_page(number).encode());
            let crc = crc32c(bytes.as_slice());
            let old = map.move_root(number, MapEntry::new(&geometry, place, crc));
            pages.push((id, bytes, crc));
            self.superblocks.drop_later(old);
            place.block += block.per_block();
        }
        self.count_pages(picked.len());
        self.seal_pages(at, VolumeId::ROOT, pages);
        true
    }

    fn set_step(&mut self, step: Step) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.step = step;
        }
    }

    pub(crate) fn count_pages(&mut self, count: usize) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.pages += count as u64;
        }
    }

    /// The write of a page at `at` failed: it is written again.
    pub(crate) fn page_lost(
        &mut self,
        reserved: VolumeId,
        page: PageId,
        at: Location,
        bytes: &PageBytes,
    ) {
        let geometry = self.config.geometry;
        if reserved == VolumeId::UNITS {
            self.unit_table.write_again(|page| page.location(&geometry) == Some(at));
            return self.write_pages_again();
        }
        let Some(index) = self.volumes.slot(page.volume) else { return };
        let map = self.volumes.map_mut(index);
        let number = page.index;
        if reserved == VolumeId::MAP {
            if u64::from(number) < map.pages()
                && map.page_at(number.into()).location(&geometry) == Some(at)
            {
                mark!(PageLost);
                if map.is_loaded(number.into()) {
                    map.mark_lost(number.into());
                } else if let Some(checkpoint) = &mut self.checkpoint
                    && !bug!(self.config, MovedPageForgotten)
                {
                    mark!(MovedPageLost);
                    let (volume, page, at) = (map.id, number.into(), map.page_at(number.into()));
                    let place = Place { index, volume, page, at, by: checkpoint.sequence };
                    checkpoint.moved.push_back((place, bytes.clone()));
                }
            }
        } else if map.root_at(number as usize).and_then(|root| root.location(&geometry)) == Some(at)
        {
            mark!(RootLost);
            map.change_root(number as usize);
        }
        self.write_pages_again();
    }

    /// Has the checkpoint in progress look once more for pages to write, unless its record is on its way.
    pub(crate) fn write_pages_again(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.step != Step::Writing
        {
            mark!(PagesWrittenAgain);
            checkpoint.step = Step::Pages(PageCursor::default());
            checkpoint.batch = Batch::default();
            if !bug!(self.config, PatchesSaidStay) {
                // What was said of pages that could not be read holds for the pages and counts of then.
                checkpoint.patches = checkpoint.patches.wrapping_add(1);
            }
            self.begin_unit_table();
        }
    }

    /// Every page of the checkpoint is durable, unless one was lost on the way.
    pub(crate) fn pages_durable(&mut self, target: Sequence) {
        let waits = Step::Flush(target);
        if self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.step == waits) {
            self.durability.reached(target);
            self.set_step(Step::Record);
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{Geometry, LogicalBlock};
    use thermocline_types::UnitId;

    use super::*;

    /// 16 TiB, in zones of a gibibyte.
    fn config() -> Config {
        let geometry = Geometry::new(LogicalBlock::B4096, 1 << 18, 1 << 14, [0, 1].map(UnitId));
        Config::new(geometry.expect("sound units"))
    }

    #[test]
    fn what_was_read_of_a_page_that_stands_elsewhere_by_now_is_not_that_page() {
        let geometry = config().geometry;
        let entry = |block| MapEntry::new(&geometry, Location { unit: UnitId(9), block }, 1);
        let (was, is, by) = (entry(3), entry(7), Sequence(5));
        let mut checkpoint = Checkpoint::new(by, Step::Sparse(0), BTreeMap::new(), false, 0);
        let place = Place { index: 2, volume: VolumeId(1), page: 4, at: was, by };
        let bytes: PageBytes = Box::new([7; BLOCK_BYTES]);
        checkpoint.moved.push_back((place, bytes.clone()));
        assert_eq!(checkpoint.moved(2, 4, was), Some(&bytes));
        assert_eq!(checkpoint.moved(2, 4, is), None);
    }

    fn written(chunks: u64, bytes: u64) -> Due {
        let mut due = Due::default();
        (0..chunks).for_each(|_| due.add(bytes));
        due
    }

    #[test]
    fn a_checkpoint_comes_early_where_it_costs_little_and_late_where_every_page_differs() {
        let config = config();
        let (early, late) = (written(64 << 10, 1 << 20), written(512 << 10, 1 << 20));
        let cheap = (64 << 30) / (64 * 4096);
        assert!(early.is_now(&config, cheap));
        assert!(!early.is_now(&config, cheap + 1));
        assert!(!written((64 << 10) - 1, 1 << 20).is_now(&config, 0));
        assert!(late.is_now(&config, u64::MAX));
        assert!(!written((512 << 10) - 1, 1 << 20).is_now(&config, u64::MAX));
    }

    #[test]
    fn many_small_chunks_are_as_long_a_tail_as_it_may_be() {
        let config = config();
        assert!(!written(CHUNKS - 1, 8192).is_now(&config, u64::MAX));
        assert!(written(CHUNKS, 8192).is_now(&config, u64::MAX));
    }
}
