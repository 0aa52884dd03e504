//! Checkpoints.
//!
//! A checkpoint chooses *S*, writes every page of the maps that is dirty then, the pages of the unit table that differ,
//! the roots, and a superblock record that refers to all of them. The host goes on writing meanwhile.
//!
//! Invariants:
//! * Pages that the newest flushed record may refer to stay valid until a newer one is flushed.

mod moving;
mod pages;
mod progress;

use std::collections::BTreeMap;
use std::fmt::Debug;

use rustc_hash::FxHashSet;
use thermocline_format::{
    Location, MapEntry, MediaClass, OpenUnit, PageId, Sequence, Superblock, Volume, VolumeId,
    crc32c,
};

use crate::bugs::bug;
use crate::device::{Body, Chunk, PageBytes};
use crate::durability::Then;
use crate::engine::{Parts, Phase};
use crate::marks::mark;
use crate::moved::Place;
use crate::pages::WORDS;
use crate::payload::Payload;
use crate::superblocks::Purpose;
use crate::volumes::PageCursor;
use pages::Batch;

/// Pages in one chunk, so that pages do not hold up the host. Chosen, not measured.
const PAGES_PER_CHUNK: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Looking for metadata units with few valid blocks, from this one on.
    Sparse(u32),
    /// Looking for the pages in sparse units.
    Moving(PageCursor),
    /// Writing map pages, from this page on.
    Pages(PageCursor),
    /// Writing pages of the unit table, from this one on.
    Units(usize),
    /// Writing root pages, from the root of this page on.
    Roots(PageCursor),
    /// Waiting until all chunks up to this sequence are durable.
    Flush(Sequence),
    /// The record may be written.
    Record,
    /// It is being written.
    Writing,
}

/// A checkpoint in progress.
#[derive(Debug)]
struct Checkpoint {
    sequence: Sequence,
    step: Step,
    table: BTreeMap<u32, OpenUnit>,
    /// Metadata units with few valid blocks. The checkpoint moves their valid pages, which frees the units.
    sparse: FxHashSet<u32>,
    /// Pages that are to be written elsewhere and are being read.
    moving: usize,
    /// The pages that are written next.
    batch: Batch,
    pages: u64,
    /// Whether the checkpoint is the last before the pool closes. The record of the last checkpoint can be clean.
    last: bool,
    /// Whether a page could not be read to be written anew, so that something is left to replay.
    leaves: bool,
    /// The number of the entries for unreadable pages, as [`thermocline_format::Superblock::patches`].
    patches: u32,
}

impl Checkpoint {
    /// A checkpoint of all before `sequence`, with this table of units. Entries for unreadable pages get the number
    /// `patches`.
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

    /// A checkpoint without a tail to replay: only pages were written after *S*.
    pub(crate) fn clean(&self, sequence: Sequence, table: BTreeMap<u32, OpenUnit>) -> Checkpoint {
        Checkpoint::new(sequence, Step::Writing, table, true, self.patches)
    }

    /// Begins the write of the record; `false` if another step is due.
    fn begin_writing(&mut self) -> bool {
        let ready = self.step == Step::Record;
        if ready {
            self.step = Step::Writing;
        }
        ready
    }

    /// Whether it began when all was done that will ever be, and nothing is left to replay.
    fn is_clean(&self) -> bool {
        self.last && !self.leaves
    }

    /// Whether it began when all was done that will ever be, and leaves something to replay for good.
    pub(crate) fn ends_unclean(&self) -> bool {
        self.last && self.leaves
    }

    /// *S*, and the units that the record lists.
    fn begins_with(&self) -> (Sequence, BTreeMap<u32, OpenUnit>) {
        (self.sequence, self.table.clone())
    }

    /// Adds units to the list of the record.
    pub(crate) fn list(&mut self, fresh: &[OpenUnit]) {
        self.table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
    }

    /// The number of the entries for pages that the checkpoint could not read.
    pub(crate) fn patches(&self) -> u32 {
        self.patches
    }

    /// Pages that it has written.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }
}

/// Takes checkpoints, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Checkpointer {
    checkpoint: Option<Checkpoint>,
}

impl Checkpointer {
    /// Takes a checkpoint further. Returns whether anything was done.
    pub(crate) fn step<P: Payload>(&mut self, p: &mut Parts<P>, others_rest: bool) -> bool {
        let Some(checkpoint) = &self.checkpoint else {
            return self.begin_checkpoint(p, others_rest);
        };
        match checkpoint.step {
            Step::Sparse(unit) => self.find_sparse(p, unit),
            Step::Moving(cursor) => self.mark_sparse(p, cursor),
            Step::Pages(cursor) => self.write_pages(p, cursor),
            Step::Units(index) => self.write_units(p, index),
            Step::Roots(cursor) => self.write_roots(p, cursor),
            Step::Flush(_) | Step::Record | Step::Writing => false,
        }
    }

    fn begin_checkpoint<P: Payload>(&mut self, p: &mut Parts<P>, others_rest: bool) -> bool {
        let urgent = p.space.opened() >= p.most_listed() / 2
            || !p.table_has_room()
            || p.many_are_dirty()
            || p.phase == Phase::Closing && others_rest && is_quiet(p);
        let due = urgent || p.due.is_now(&p.config, p.volumes.pages_differing());
        if due && !self.has_room_for_checkpoint(p, urgent) {
            mark!(CheckpointAwaitsRoom);
            p.due.awaits_room();
            return false;
        }
        // Counts in Released entries are those of the checkpoint before.
        let releasing = p.space.is_releasing();
        mark!(CheckpointAwaitsRelease if due && releasing);
        if !due || releasing || p.pages.landing().is_some() || !p.superblocks.are_idle() {
            return false;
        }
        p.due.begin();
        p.moved.clear();
        let last = p.phase == Phase::Closing && others_rest && is_quiet(p);
        let mut sequence = p.flights.next();
        let table = p.space.begin_tail(sequence);
        if bug!(p.config, CheckpointOneTooHigh) {
            sequence.0 += 1;
        }
        p.begin_unit_table();
        p.volumes.begin_checkpoint();
        let patches = p.superblocks.durable_patches().wrapping_add(1);
        self.checkpoint = Some(Checkpoint::new(sequence, Step::Sparse(0), table, last, patches));
        true
    }

    /// Whether there is room for every page; A checkpoint that is not `urgent`, and that no caller waits for, needs
    /// room for every page twice: a crash at the end leaves the pages in place, and the next checkpoint needs the same
    /// room again. Units that die during a checkpoint are free only after its end. A checkpoint without room would
    /// never complete.
    fn has_room_for_checkpoint<P: Payload>(&self, p: &Parts<P>, urgent: bool) -> bool {
        // Before the end of a recovery nothing else gives room.
        if !p.superblocks.are_settled() || p.phase == Phase::Closing || p.due.is_forced() {
            return true;
        }
        let waits = urgent || p.due.is_wanted() || p.due.is_late(&p.config);
        let again = if waits { 0 } else { p.volumes.pages_in_use() / p.dense };
        let free = p.space.free_units(p.config.host_media());
        u64::from(free) >= u64::from(p.metadata_hold()) + again
    }

    fn write_units<P: Payload>(&mut self, p: &mut Parts<P>, from: usize) -> bool {
        let Some((at, most)) = self.room_for_pages(p) else { return false };
        let next = self.write_unit_pages(p, from, at, most);
        let over = next == p.config.geometry.unit_pages();
        self.set_step(if over { Step::Roots(PageCursor::default()) } else { Step::Units(next) });
        true
    }

    fn write_roots<P: Payload>(&mut self, p: &mut Parts<P>, mut cursor: PageCursor) -> bool {
        let Some((at, most)) = self.room_for_pages(p) else { return false };
        let mut picked: Vec<(u16, usize)> = Vec::new();
        let mut looked_at = 0;
        while picked.len() < most
            && looked_at < WORDS
            && let Some((index, root)) = p.volumes.next_root(&mut cursor)
        {
            looked_at += 1;
            let map = p.volumes.map(index);
            if map.has_root_changed(root)
                || map.root_at(root).is_some_and(|at| self.is_sparse(p, at))
            {
                picked.push((index, root));
            }
        }
        p.stats.looked_at += u64::from(looked_at);
        self.set_step(Step::Roots(cursor));
        if picked.is_empty() && looked_at == WORDS {
            return true;
        }
        if picked.is_empty() || bug!(p.config, RootsNotWritten) {
            let target = p.flights.sealed();
            self.set_step(Step::Flush(target));
            if bug!(p.config, RecordBeforePages) {
                self.pages_durable(p, target);
                return true;
            }
            if p.await_flush(target, Then::Pages { target }).is_some() {
                self.pages_durable(p, target);
            }
            return true;
        }
        let geometry = p.config.geometry;
        let block = geometry.logical_block();
        let mut place = Location { block: at.block + block.chunk_header(picked.len()), ..at };
        let mut pages = Vec::with_capacity(picked.len());
        for &(index, number) in &picked {
            let map = p.volumes.map_mut(index);
            let id = PageId { volume: map.id, index: number as u32 };
            let bytes: PageBytes = Box::new(map.root_page(number).encode());
            let crc = crc32c(bytes.as_slice());
            let old = map.move_root(number, MapEntry::new(&geometry, place, crc));
            pages.push((id, bytes, crc));
            p.superblocks.drop_later(old);
            place.block += block.per_block();
        }
        self.count_pages(picked.len());
        p.seal_pages(at, VolumeId::ROOT, pages);
        true
    }

    /// The write of a page at `at` failed: it is written again.
    fn page_lost<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        reserved: VolumeId,
        page: PageId,
        at: Location,
        bytes: &PageBytes,
    ) {
        let geometry = p.config.geometry;
        if reserved == VolumeId::UNITS {
            p.unit_table.write_again(|page| page.location(&geometry) == Some(at));
            return self.write_pages_again(p);
        }
        let Some(index) = p.volumes.slot(page.volume) else { return };
        let map = p.volumes.map_mut(index);
        let number = page.index;
        if reserved == VolumeId::MAP {
            if u64::from(number) < map.pages()
                && map.page_at(number.into()).location(&geometry) == Some(at)
            {
                mark!(PageLost);
                if map.is_loaded(number.into()) {
                    map.mark_lost(number.into());
                } else if let Some(checkpoint) = &mut self.checkpoint
                    && !bug!(p.config, MovedPageForgotten)
                {
                    mark!(MovedPageLost);
                    let (volume, page, at) = (map.id, number.into(), map.page_at(number.into()));
                    let place = Place { index, volume, page, at, by: checkpoint.sequence };
                    p.moved.push(place, bytes.clone());
                }
            }
        } else if map.root_at(number as usize).and_then(|root| root.location(&geometry)) == Some(at)
        {
            mark!(RootLost);
            map.change_root(number as usize);
        }
        self.write_pages_again(p);
    }

    /// Has the checkpoint in progress look once more for pages to write, unless its record is on its way.
    fn write_pages_again<P: Payload>(&mut self, p: &mut Parts<P>) {
        if let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.step != Step::Writing
        {
            mark!(PagesWrittenAgain);
            checkpoint.step = Step::Pages(PageCursor::default());
            checkpoint.batch = Batch::default();
            if !bug!(p.config, PatchesSaidStay) {
                // What was said of pages that could not be read holds for the pages and counts of then.
                checkpoint.patches = checkpoint.patches.wrapping_add(1);
            }
            p.begin_unit_table();
        }
    }

    /// Every page of the checkpoint is durable, unless one was lost on the way.
    pub(crate) fn pages_durable<P: Payload>(&mut self, p: &mut Parts<P>, target: Sequence) {
        let waits = Step::Flush(target);
        if self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.step == waits) {
            p.durability.reached(target);
            self.set_step(Step::Record);
        }
    }

    /// Writes a record if one is due: of a checkpoint, or because listed units run short.
    pub(crate) fn superblock_step<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        if !p.superblocks.are_idle() {
            return false;
        }
        if self.checkpoint.as_mut().is_some_and(Checkpoint::begin_writing) {
            self.write_checkpoint_record(p);
            return true;
        }
        // Where fewer are free than would be listed, all soon are; but a record is not written for each that comes.
        let short = |media: &MediaClass| {
            let half_of_free = p.space.free_units(*media).div_ceil(2) as usize;
            let least = half_of_free.min(p.listed_ahead() / 2);
            p.space.reserved_on(*media) < least && p.space.has_unlisted(*media)
        };
        let full = p.space.listed().len() >= p.table_limit();
        if full || !MediaClass::ALL.iter().any(short) {
            return false;
        }
        mark!(UnitsListed);
        let fresh = p.list_more(p.space.listed().len());
        let mut record = p.durable_record();
        let mut table = p.space.listed().clone();
        table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
        if !bug!(p.config, NewUnitsNotListed) {
            record.open_units = table.into_values().collect();
        }
        record.clean = false;
        if bug!(p.config, UnitsOpenedBeforeListed) {
            p.reserve(&fresh);
            p.write_record(record, Purpose::MoreUnits, Vec::new());
            return true;
        }
        p.write_record(record, Purpose::MoreUnits, fresh);
        true
    }

    fn write_checkpoint_record<P: Payload>(&mut self, p: &mut Parts<P>) {
        let clean = self.checkpoint.as_ref().is_some_and(Checkpoint::is_clean)
            || bug!(p.config, CleanTooEarly) && p.phase == Phase::Closing;
        if clean {
            // Nothing but pages came after S: nothing is left to replay.
            let sequence = p.flights.next();
            let table = p.space.begin_tail(sequence);
            self.checkpoint = self.checkpoint.take().map(|last| last.clean(sequence, table));
            p.moved.clear();
        }
        let checkpoint = self.checkpoint.as_ref().expect("only a checkpoint has such a record");
        let patches = checkpoint.patches();
        let (sequence, mut table) = checkpoint.begins_with();
        let fresh = p.list_more(table.len());
        table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
        let volumes =
            if bug!(p.config, DeletedVolumeLeftOut) { p.volumes.alive() } else { p.volumes.all() };
        let volumes = volumes.into_iter().map(|map| Volume {
            id: map.id,
            name: map.name.clone(),
            blocks: map.blocks,
            deleted: map.deleted,
            media: map.media,
            layer: p.volumes.layer_of(map),
            roots: map.roots_at().collect(),
        });
        let record = Superblock {
            checkpoint: sequence,
            tail_epoch: p.epoch,
            tail_end: None,
            clean,
            patches,
            vain: 0,
            flushed: p.flushed_since(sequence),
            snapshots: p.snapshots,
            next_volume: p.volumes.next_id(),
            volumes: volumes.collect(),
            open_units: table.into_values().collect(),
            unit_pages: p.unit_table.pages().to_vec(),
            ..p.durable_record()
        };
        p.write_record(record, Purpose::Checkpoint, fresh);
    }

    /// The pages of a lost chunk are written again, or at least read from memory.
    pub(crate) fn pages_lost<P: Payload>(&mut self, p: &mut Parts<P>, chunk: &Chunk<P>) {
        let Body::Pages(pages) = &chunk.body else { return };
        for ((volume, lba, _, at), bytes) in p.placed(chunk).into_iter().zip(pages) {
            self.page_lost(p, volume, PageId::from_lba(lba), at, bytes);
        }
    }

    /// Whether the last checkpoint leaves something to replay for good.
    pub(crate) fn ends_unclean(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(Checkpoint::ends_unclean)
    }

    /// The record of the checkpoint in progress lists these units as well.
    pub(crate) fn list(&mut self, fresh: &[OpenUnit]) {
        if let Some(checkpoint) = &mut self.checkpoint {
            mark!(CheckpointListsUnits);
            checkpoint.list(fresh);
        }
    }

    /// The record of the checkpoint counts. Returns how many pages it wrote.
    pub(crate) fn end<P: Payload>(&mut self, p: &mut Parts<P>) -> u64 {
        p.due.end();
        p.moved.clear();
        self.checkpoint.take().map_or(0, |checkpoint| checkpoint.pages())
    }
}

/// Whether nothing of the host is under way any more.
fn is_quiet<P: Payload>(p: &Parts<P>) -> bool {
    p.cache.is_empty()
        && p.flights.completed() == p.flights.sealed()
        && p.collection.is_idle()
        && p.space.resetting() == 0
        && p.pages_idle()
        && p.closing.is_some_and(|request| p.requests.is_only(request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::{free, parts};

    #[test]
    fn a_checkpoint_begins_when_it_is_wanted_and_there_is_room_for_it() {
        let mut p = parts();
        let mut checkpointer = Checkpointer::default();
        assert!(!checkpointer.step(&mut p, true), "nobody wants one");
        p.due.want();
        assert!(!checkpointer.step(&mut p, true) && !p.due.is_under_way(), "no unit is free");
        assert!(p.due.force() && checkpointer.step(&mut p, true));
        assert!(p.due.is_under_way());
        let mut p = parts();
        let mut checkpointer = Checkpointer::default();
        free(&mut p, 8, 8);
        p.due.want();
        assert!(checkpointer.step(&mut p, true) && p.due.is_under_way() && !p.due.is_wanted());
    }

    #[test]
    fn a_pool_that_closes_waits_for_others_before_its_last_checkpoint() {
        let mut p = parts();
        let mut checkpointer = Checkpointer::default();
        free(&mut p, 8, 8);
        p.closing = Some(crate::engine::parts::testing::request(&mut p, 1));
        p.phase = Phase::Closing;
        assert!(!checkpointer.step(&mut p, false), "something is still to be unmapped");
        assert!(checkpointer.step(&mut p, true));
        assert!(checkpointer.checkpoint.as_ref().is_some_and(Checkpoint::is_clean));
        assert!(!checkpointer.ends_unclean());
    }

    #[test]
    fn maps_without_pages_lead_to_a_record_behind_a_flush() {
        let mut p = parts();
        let mut checkpointer = Checkpointer::default();
        free(&mut p, 8, 8);
        p.due.want();
        while checkpointer.step(&mut p, true) {}
        let step = checkpointer.checkpoint.as_ref().map(|checkpoint| checkpoint.step);
        let target = p.flights.sealed();
        assert_eq!(step, Some(Step::Flush(target)), "the unit table is on its way");
        let is_ready = |checkpointer: &Checkpointer| {
            checkpointer.checkpoint.as_ref().is_some_and(|one| one.step == Step::Record)
        };
        assert!(!is_ready(&checkpointer));
        checkpointer.pages_durable(&mut p, Sequence(target.0 + 1));
        assert!(!is_ready(&checkpointer), "that was another flush");
        checkpointer.pages_durable(&mut p, target);
        assert!(is_ready(&checkpointer));
        assert_eq!(checkpointer.end(&mut p), 1);
        assert!(!p.due.is_under_way());
    }
}
