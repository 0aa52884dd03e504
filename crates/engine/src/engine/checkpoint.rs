//! Checkpoints.
//!
//! A checkpoint chooses *S*, writes every page of the maps that is dirty then, the pages of the unit table that differ,
//! the roots, and a superblock record that refers to all of them. The host goes on writing meanwhile.
//!
//! Invariants:
//! * Pages that the newest flushed record may refer to stay valid until a newer one is flushed.

mod moving;
mod pages;

use std::collections::BTreeMap;
use std::fmt::Debug;

use rustc_hash::FxHashSet;
use thermocline_format::{Location, MapEntry, OpenUnit, PageId, Sequence, VolumeId, crc32c};

use crate::bugs::bug;
use crate::device::PageBytes;
use crate::durability::Then;
use crate::engine::{Engine, Phase};
use crate::marks::mark;
use crate::moved::Place;
use crate::pages::WORDS;
use crate::payload::Payload;
use crate::volumes::PageCursor;
use pages::Batch;

/// Pages in one chunk, so that pages do not hold up the host. Chosen, not measured.
const PAGES_PER_CHUNK: usize = 64;

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

/// A checkpoint in progress.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    sequence: Sequence,
    step: Step,
    table: BTreeMap<u32, OpenUnit>,
    /// Metadata units with few valid blocks: what counts in them is written elsewhere, so that they can be freed.
    sparse: FxHashSet<u32>,
    /// Pages that are to be written elsewhere and are being read.
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
        Checkpoint {
            sequence,
            step,
            table,
            sparse: FxHashSet::default(),
            moving: 0,
            batch: Batch::default(),
            pages: 0,
            last,
            leaves: false,
            patches,
        }
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
    pub(crate) fn begin_closing(&mut self, request: u32) {
        self.parts.phase = Phase::Closing;
        self.parts.closing = Some(request);
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
        let urgent = self.parts.space.opened() >= self.parts.most_listed() / 2
            || !self.parts.table_has_room()
            || self.parts.many_are_dirty()
            || self.parts.phase == Phase::Closing && self.is_quiet();
        let due = urgent
            || self.parts.due.is_now(&self.parts.config, self.parts.volumes.pages_differing());
        if due && !self.has_room_for_checkpoint(urgent) {
            mark!(CheckpointAwaitsRoom);
            self.parts.due.awaits_room();
            return false;
        }
        // Counts in Released entries are those of the checkpoint before.
        let releasing = self.parts.space.is_releasing();
        if !due
            || releasing
            || self.parts.pages.landing().is_some()
            || !self.parts.superblocks.are_idle()
        {
            return false;
        }
        self.parts.due.begin();
        self.parts.moved.clear();
        let last = self.parts.phase == Phase::Closing && self.is_quiet();
        let mut sequence = self.parts.flights.next();
        let table = self.parts.space.begin_tail(sequence);
        if bug!(self.parts.config, CheckpointOneTooHigh) {
            sequence.0 += 1;
        }
        self.parts.begin_unit_table();
        self.parts.volumes.begin_checkpoint();
        let patches = self.parts.superblocks.durable_patches().wrapping_add(1);
        self.checkpoint = Some(Checkpoint::new(sequence, Step::Sparse(0), table, last, patches));
        true
    }

    /// Whether there is room for every page; and, unless it is `urgent` or somebody waits for it, for as many once
    /// more: a crash at its end leaves them where they are, and the one after that needs as much again. Units that die
    /// during a checkpoint are not free before its end, so one that does not find room would come to nothing.
    fn has_room_for_checkpoint(&self, urgent: bool) -> bool {
        // Before the end of a recovery nothing else gives room.
        if !self.parts.superblocks.are_settled()
            || self.parts.phase == Phase::Closing
            || self.parts.due.is_forced()
        {
            return true;
        }
        let waits =
            urgent || self.parts.due.is_wanted() || self.parts.due.is_late(&self.parts.config);
        let again = if waits { 0 } else { self.parts.volumes.pages_in_use() / self.parts.dense };
        let free = self.parts.space.free_units(self.parts.config.host_media());
        u64::from(free) >= u64::from(self.parts.metadata_hold()) + again
    }

    /// Has a checkpoint that waits for room begin without. Returns whether one did wait.
    pub(crate) fn force_checkpoint(&mut self) -> bool {
        self.parts.due.force()
    }

    /// Whether nothing of the host is under way any more.
    fn is_quiet(&self) -> bool {
        self.parts.cache.is_empty()
            && self.unmapping.is_empty()
            && self.parts.flights.completed() == self.parts.flights.sealed()
            && self.parts.collection.is_idle()
            && self.parts.space.resetting() == 0
            && self.parts.pages_idle()
            && self.parts.closing.is_some_and(|request| self.parts.requests.is_only(request))
    }

    /// Room for pages, and how many fit.
    fn room_for_pages(&mut self) -> Option<(Location, usize)> {
        let class = self.parts.config.metadata_class();
        if self.parts.space.in_flight(class) >= PAGE_CHUNKS || !self.parts.seal_control() {
            return None;
        }
        let block = self.parts.config.geometry.logical_block();
        let (at, room) = self.parts.room(class, block.per_block())?;
        Some((at, block.blocks_in_chunk(room).min(PAGES_PER_CHUNK)))
    }

    fn write_units(&mut self, from: usize) -> bool {
        let Some((at, most)) = self.room_for_pages() else { return false };
        let next = self.write_unit_pages(from, at, most);
        let over = next == self.parts.config.geometry.unit_pages();
        self.set_step(if over { Step::Roots(PageCursor::default()) } else { Step::Units(next) });
        true
    }

    fn write_roots(&mut self, mut cursor: PageCursor) -> bool {
        let Some((at, most)) = self.room_for_pages() else { return false };
        let mut picked: Vec<(u16, usize)> = Vec::new();
        let mut looked_at = 0;
        while picked.len() < most
            && looked_at < WORDS
            && let Some((index, root)) = self.parts.volumes.next_root(&mut cursor)
        {
            looked_at += 1;
            let map = self.parts.volumes.map(index);
            if map.has_root_changed(root) || map.root_at(root).is_some_and(|at| self.is_sparse(at))
            {
                picked.push((index, root));
            }
        }
        self.parts.stats.looked_at += u64::from(looked_at);
        self.set_step(Step::Roots(cursor));
        if picked.is_empty() && looked_at == WORDS {
            return true;
        }
        if picked.is_empty() || bug!(self.parts.config, RootsNotWritten) {
            let target = self.parts.flights.sealed();
            self.set_step(Step::Flush(target));
            if bug!(self.parts.config, RecordBeforePages) {
                self.pages_durable(target);
                return true;
            }
            if self.parts.await_flush(target, Then::Pages { target }).is_some() {
                self.pages_durable(target);
            }
            return true;
        }
        let geometry = self.parts.config.geometry;
        let block = geometry.logical_block();
        let mut place = Location { block: at.block + block.chunk_header(picked.len()), ..at };
        let mut pages = Vec::with_capacity(picked.len());
        for &(index, number) in &picked {
            let map = self.parts.volumes.map_mut(index);
            let id = PageId { volume: map.id, index: number as u32 };
            let bytes: PageBytes = Box::new(map.root_page(number).encode());
            let crc = crc32c(bytes.as_slice());
            let old = map.move_root(number, MapEntry::new(&geometry, place, crc));
            pages.push((id, bytes, crc));
            self.parts.superblocks.drop_later(old);
            place.block += block.per_block();
        }
        self.count_pages(picked.len());
        self.parts.seal_pages(at, VolumeId::ROOT, pages);
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
        let geometry = self.parts.config.geometry;
        if reserved == VolumeId::UNITS {
            self.parts.unit_table.write_again(|page| page.location(&geometry) == Some(at));
            return self.write_pages_again();
        }
        let Some(index) = self.parts.volumes.slot(page.volume) else { return };
        let map = self.parts.volumes.map_mut(index);
        let number = page.index;
        if reserved == VolumeId::MAP {
            if u64::from(number) < map.pages()
                && map.page_at(number.into()).location(&geometry) == Some(at)
            {
                mark!(PageLost);
                if map.is_loaded(number.into()) {
                    map.mark_lost(number.into());
                } else if let Some(checkpoint) = &mut self.checkpoint
                    && !bug!(self.parts.config, MovedPageForgotten)
                {
                    mark!(MovedPageLost);
                    let (volume, page, at) = (map.id, number.into(), map.page_at(number.into()));
                    let place = Place { index, volume, page, at, by: checkpoint.sequence };
                    self.parts.moved.push(place, bytes.clone());
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
    fn write_pages_again(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.step != Step::Writing
        {
            mark!(PagesWrittenAgain);
            checkpoint.step = Step::Pages(PageCursor::default());
            checkpoint.batch = Batch::default();
            if !bug!(self.parts.config, PatchesSaidStay) {
                // What was said of pages that could not be read holds for the pages and counts of then.
                checkpoint.patches = checkpoint.patches.wrapping_add(1);
            }
            self.parts.begin_unit_table();
        }
    }

    /// Every page of the checkpoint is durable, unless one was lost on the way.
    pub(crate) fn pages_durable(&mut self, target: Sequence) {
        let waits = Step::Flush(target);
        if self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.step == waits) {
            self.parts.durability.reached(target);
            self.set_step(Step::Record);
        }
    }
}
