//! Checkpoints and superblock records.
//!
//! A checkpoint chooses *S*, writes every page of the maps that is dirty then, the pages of the unit table that differ,
//! the roots, and a superblock record that refers to all of them. The host goes on writing meanwhile. Between
//! checkpoints, records with a longer table of listed units are written when the listed ones run short.
//!
//! Invariants:
//! * At most one record is being written.
//! * Pages that the newest flushed record may refer to stay valid until a newer one is flushed.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use thermocline_format::{
    BLOCK_BYTES, Epoch, Location, MapEntry, MapPage, OpenUnit, PageId, Revision, Sequence,
    Superblock, Volume, VolumeId, crc32c,
};
use thermocline_ftl::UnitState;
use thermocline_types::UnitId;

use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError, PageBytes};
use crate::durability::Then;
use crate::engine::{Engine, Op, Phase};
use crate::map::{Mapping, PAGE, Value, Wanted};
use crate::marks::mark;
use crate::pages::{UNITS, WORDS};
use crate::payload::Payload;
use crate::request::{Action, Notice};
use crate::volumes::{PageCursor, Walk};

/// Pages in one chunk, so that pages do not hold up the host. Chosen, not measured.
const PAGES_PER_CHUNK: usize = 64;

/// Chunks of pages on their way at once. Chosen, not measured.
const PAGE_CHUNKS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
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
    stage: Stage,
    table: BTreeMap<u32, OpenUnit>,
    /// Metadata units with few valid blocks: what counts in them is written elsewhere, so that they can be freed.
    sparse: FxHashSet<u32>,
    pages: u64,
    /// Whether it began when all was done that will ever be: its record can be clean.
    last: bool,
}

/// What a record that is being written is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Opening,
    MoreUnits,
    Checkpoint,
}

#[derive(Debug)]
struct Writing {
    record: Superblock,
    purpose: Purpose,
    /// Superblock units that a copy must still be written to.
    copies: Vec<UnitId>,
    /// Whether a copy of this record is on its way or there, but not flushed.
    unflushed: bool,
    /// Units listed for the first time.
    fresh: Vec<OpenUnit>,
    /// Pages that only older records refer to.
    obsolete: Vec<Value>,
}

/// Superblock records: the newest flushed one and the one being written.
#[derive(Debug, Default)]
pub(crate) struct Superblocks {
    durable: Option<Superblock>,
    writing: Option<Writing>,
    /// Where the next record goes in each of the superblock units; at first as if they were full.
    next: [Option<u32>; 2],
    /// Whether a crash would be recovered from to what the host was told: not yet while only the chunks of an earlier
    /// opening would be replayed.
    pub(crate) settled: bool,
    pub(crate) wanted: bool,
    /// Blocks that count as valid until then.
    pub(crate) unsettled: Vec<Value>,
    /// Pages that were replaced or dropped since the newest record that refers to them.
    obsolete: Vec<Value>,
    /// The request that waits for the pool to be closed.
    pub(crate) closing: Option<u32>,
}

impl Superblocks {
    pub(crate) fn durable_revision(&self) -> Revision {
        self.durable.as_ref().map_or(Revision(0), |record| record.revision)
    }

    /// *S* of the newest flushed record.
    pub(crate) fn durable_checkpoint(&self) -> Sequence {
        self.durable.as_ref().map_or(Sequence(0), |record| record.checkpoint)
    }

    pub(crate) fn drop_later(&mut self, entry: MapEntry) {
        if !entry.is_unmapped() {
            self.obsolete.push(Value(entry.pack()));
        }
    }
}

impl<P: Payload> Engine<P> {
    /// Makes sure that a checkpoint is taken soon.
    pub(crate) fn want_checkpoint(&mut self) {
        self.superblocks.wanted = true;
    }

    pub(crate) fn begin_closing(&mut self, request: u32) {
        self.phase = Phase::Closing;
        self.superblocks.closing = Some(request);
    }

    /// Takes a checkpoint further. Returns whether anything was done.
    pub(crate) fn checkpoint_step(&mut self) -> bool {
        let Some(checkpoint) = &self.checkpoint else { return self.begin_checkpoint() };
        match checkpoint.stage {
            Stage::Sparse(unit) => self.find_sparse(unit),
            Stage::Moving(cursor) => self.mark_sparse(cursor),
            Stage::Pages(cursor) => self.write_pages(cursor),
            Stage::Units(index) => self.write_units(index),
            Stage::Roots(cursor) => self.write_roots(cursor),
            Stage::Flush(_) | Stage::Record | Stage::Writing => false,
        }
    }

    fn begin_checkpoint(&mut self) -> bool {
        let due = self.since_checkpoint >= self.config.checkpoint_bytes
            || self.space.opened() >= self.most_listed() / 2
            || !self.table_has_room()
            || self.superblocks.wanted
            || self.phase == Phase::Closing && self.is_quiet();
        // Counts in Released entries are those of the checkpoint before.
        let releasing = self.space.releasing > 0;
        if !due
            || releasing
            || self.superblocks.writing.is_some()
            || self.superblocks.durable.is_none()
        {
            return false;
        }
        self.superblocks.wanted = false;
        self.since_checkpoint = 0;
        let last = self.phase == Phase::Closing && self.is_quiet();
        let table = self.space.begin_tail();
        self.tail_from = self.log.next();
        let mut sequence = self.log.next();
        if bug!(self.config, CheckpointOneTooHigh) {
            sequence.0 += 1;
        }
        self.unit_table.begin();
        let (stage, sparse) = (Stage::Sparse(0), FxHashSet::default());
        self.checkpoint = Some(Checkpoint { sequence, stage, table, sparse, pages: 0, last });
        true
    }

    /// Whether nothing of the host is under way any more.
    fn is_quiet(&self) -> bool {
        self.stage.is_empty()
            && self.unmapping.is_empty()
            && self.log.completed() == self.log.sealed()
            && self.gc.is_idle()
            && self.space.resetting == 0
            && self.pages_idle()
            && self.superblocks.closing.is_some_and(|request| self.only_request(request))
    }

    /// Looks for metadata units with few valid blocks, a bounded number of units at a time.
    fn find_sparse(&mut self, from: u32) -> bool {
        let (per_unit, class) = (self.config.blocks_per_unit(), self.config.metadata_class());
        let until = self.space.units.count().min(from + UNITS);
        let units = &self.space.units;
        let sparse = |unit: &UnitId| {
            units.state(*unit) == UnitState::Closed
                && units.class(*unit) == class
                && u64::from(units.valid_count(*unit)) * 2 < per_unit
                && units.valid_count(*unit) > 0
        };
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is in progress");
        checkpoint.sparse.extend((from..until).map(UnitId).filter(sparse).map(|unit| unit.0));
        self.stats.looked_at += u64::from(until - from);
        checkpoint.stage = match (until == units.count(), checkpoint.sparse.is_empty()) {
            (false, _) => Stage::Sparse(until),
            (true, false) => Stage::Moving(PageCursor::default()),
            (true, true) => Stage::Pages(PageCursor::default()),
        };
        true
    }

    /// Marks pages that stand in these units, so that they are written elsewhere.
    fn mark_sparse(&mut self, mut cursor: PageCursor) -> bool {
        let mut budget = WORDS;
        let next = loop {
            match self.next_page(&mut cursor, Wanted::Held, &mut budget) {
                Walk::Found(volume, page) => {
                    let map = self.volumes.map(volume);
                    if map.is_loaded(page) && self.is_sparse(map.page_at(page)) {
                        mark!(SparseMoved);
                        self.volumes.map_mut(volume).mark_dirty(page);
                    }
                }
                Walk::Pause => break Stage::Moving(cursor),
                Walk::End => break Stage::Pages(PageCursor::default()),
            }
        };
        if next == Stage::Pages(PageCursor::default()) {
            let checkpoint = self.checkpoint.as_ref().expect("a checkpoint is in progress");
            let (sparse, geometry) = (&checkpoint.sparse, &self.config.geometry);
            let is_bad =
                |at: MapEntry| at.location(geometry).is_some_and(|at| sparse.contains(&at.unit.0));
            self.unit_table.write_again(is_bad);
        }
        self.set_stage(next);
        true
    }

    /// Whether what stands at `entry` is to be written elsewhere.
    fn is_sparse(&self, entry: MapEntry) -> bool {
        let at = entry.location(&self.config.geometry);
        let sparse = self.checkpoint.as_ref().map(|checkpoint| &checkpoint.sparse);
        at.zip(sparse).is_some_and(|(at, sparse)| sparse.contains(&at.unit.0))
    }

    /// Room for pages, and how many fit.
    fn room_for_pages(&mut self) -> Option<(Location, usize)> {
        let class = self.config.metadata_class();
        if self.space.frontiers[class.index()].in_flight >= PAGE_CHUNKS || !self.seal_control() {
            return None;
        }
        let block = self.config.geometry.logical_block();
        let (at, room) = self.room(class, block.per_block())?;
        Some((at, crate::log::fitting(block, room).min(PAGES_PER_CHUNK)))
    }

    fn write_pages(&mut self, mut cursor: PageCursor) -> bool {
        let Some((at, most)) = self.room_for_pages() else { return false };
        let mut picked: Vec<(u16, u64)> = Vec::new();
        let mut budget = WORDS;
        let mut walk = Walk::Pause;
        while picked.len() < most {
            walk = self.next_page(&mut cursor, Wanted::Dirty, &mut budget);
            let Walk::Found(volume, page) = walk else { break };
            if self.volumes.map(volume).is_empty(page) {
                // A page of which nothing is mapped any more goes.
                mark!(EmptyPageDropped);
                let old = self.volumes.map_mut(volume).drop_page(page);
                self.superblocks.drop_later(old);
            } else {
                picked.push((volume, page));
            }
        }
        let over = picked.is_empty() && walk == Walk::End;
        let written = if over { PageCursor::END } else { cursor };
        if !bug!(self.config, MovedAheadCounted) {
            self.unit_table.advance(written);
        }
        if picked.is_empty() {
            self.set_stage(if over { Stage::Units(0) } else { Stage::Pages(cursor) });
            return true;
        }
        let block = self.config.geometry.logical_block();
        let mut place = Location { block: at.block + block.chunk_header(picked.len()), ..at };
        let mut pages = Vec::with_capacity(picked.len());
        for &(index, page) in &picked {
            let bytes = self.page_bytes(index, page);
            let crc = crc32c(bytes.as_slice());
            let entry = MapEntry::new(&self.config.geometry, place, crc);
            let map = self.volumes.map_mut(index);
            map.mark_clean(page);
            let old = map.move_page(page, entry);
            pages.push((PageId { volume: map.id, index: page as u32 }, bytes, crc));
            self.superblocks.drop_later(old);
            place.block += block.per_block();
        }
        self.count_pages(picked.len());
        self.seal_pages(at, VolumeId::MAP, pages);
        self.set_stage(Stage::Pages(cursor));
        true
    }

    /// A page as on media: blocks that are staged stand where they were before.
    fn page_bytes(&self, index: u16, page: u64) -> PageBytes {
        let map = self.volumes.map(index);
        let mut bytes: PageBytes = Box::new([0xFF; BLOCK_BYTES]);
        let end = ((page + 1) * PAGE).min(map.blocks);
        for (entry, lba) in bytes.chunks_exact_mut(8).zip(page * PAGE..end) {
            let value = match map.get(lba) {
                Mapping::Unmapped => None,
                Mapping::At(value) => Some(value),
                Mapping::Staged(_) if bug!(self.config, StagedPageEntryLost) => None,
                Mapping::Staged(slot) => self.stage.slots[slot as usize].old,
            };
            if let Some(value) = value {
                entry.copy_from_slice(&value.0.to_le_bytes());
            }
        }
        bytes
    }

    fn write_units(&mut self, from: usize) -> bool {
        let Some((at, most)) = self.room_for_pages() else { return false };
        let next = self.write_unit_pages(from, at, most);
        let over = next == self.config.geometry.unit_pages();
        self.set_stage(if over { Stage::Roots(PageCursor::default()) } else { Stage::Units(next) });
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
            let held = &self.volumes.map(index).roots[root];
            if held.changed || self.is_sparse(held.at) {
                picked.push((index, root));
            }
        }
        self.stats.looked_at += u64::from(looked_at);
        self.set_stage(Stage::Roots(cursor));
        if picked.is_empty() && looked_at == WORDS {
            return true;
        }
        if picked.is_empty() || bug!(self.config, RootsNotWritten) {
            let target = self.log.sealed();
            self.set_stage(Stage::Flush(target));
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
            let root = &mut map.roots[number];
            let bytes: PageBytes = Box::new(MapPage(root.pages()).encode());
            let crc = crc32c(bytes.as_slice());
            root.changed = false;
            let old = std::mem::replace(&mut root.at, MapEntry::new(&geometry, place, crc));
            pages.push((id, bytes, crc));
            self.superblocks.drop_later(old);
            place.block += block.per_block();
        }
        self.count_pages(picked.len());
        self.seal_pages(at, VolumeId::ROOT, pages);
        true
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.stage = stage;
        }
    }

    pub(crate) fn count_pages(&mut self, count: usize) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.pages += count as u64;
        }
    }

    /// The write of a page at `at` failed: it is written again.
    pub(crate) fn page_lost(&mut self, reserved: VolumeId, page: PageId, at: Location) {
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
                map.mark_dirty(number.into());
            }
        } else if let Some(root) = map.roots.get_mut(number as usize)
            && root.at.location(&geometry) == Some(at)
        {
            mark!(RootLost);
            root.changed = true;
        }
        self.write_pages_again();
    }

    /// Has the checkpoint in progress look once more for pages to write, unless its record is on its way.
    pub(crate) fn write_pages_again(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.stage != Stage::Writing
        {
            mark!(PagesWrittenAgain);
            checkpoint.stage = Stage::Pages(PageCursor::default());
            self.unit_table.begin();
        }
    }

    /// Every page of the checkpoint is durable, unless one was lost on the way.
    pub(crate) fn pages_durable(&mut self, target: Sequence) {
        let waits = Stage::Flush(target);
        if self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.stage == waits) {
            self.set_stage(Stage::Record);
        }
    }

    /// Writes a record if one is due: of a checkpoint, or because listed units run short.
    pub(crate) fn superblock_step(&mut self) -> bool {
        if self.superblocks.writing.is_some() || self.superblocks.durable.is_none() {
            return false;
        }
        if self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.stage == Stage::Record) {
            self.set_stage(Stage::Writing);
            self.write_checkpoint_record();
            return true;
        }
        // Where fewer are free than would be listed, all soon are; but a record is not written for each that comes.
        let half_of_free = self.space.free_units().div_ceil(2) as usize;
        let short = self.space.reserved.len() < half_of_free.min(self.listed_ahead() / 2);
        let full = self.space.listed.len() >= self.table_limit();
        if !short || full || self.space.free.is_empty() {
            return false;
        }
        mark!(UnitsListed);
        let fresh = self.list_more(self.space.listed.len());
        let mut record = self.superblocks.durable.clone().expect("it was just looked at");
        let mut table = self.space.listed.clone();
        table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
        if !bug!(self.config, NewUnitsNotListed) {
            record.open_units = table.into_values().collect();
        }
        record.clean = false;
        if bug!(self.config, UnitsOpenedBeforeListed) {
            self.space.reserved.extend(&fresh);
            self.write_record(record, Purpose::MoreUnits, Vec::new());
            return true;
        }
        self.write_record(record, Purpose::MoreUnits, fresh);
        true
    }

    /// Lists free units for a record that lists `others` as well.
    fn list_more(&mut self, others: usize) -> Vec<OpenUnit> {
        let wanted = self.listed_ahead().saturating_sub(self.space.reserved.len());
        self.space.list_free(wanted.min(self.table_limit().saturating_sub(others)))
    }

    /// Units to be listed ahead: the more, the longer the table, so that what is written of it stays in proportion to
    /// the units that are opened.
    fn listed_ahead(&self) -> usize {
        self.config.listed_ahead().max(self.space.listed.len() / 8)
    }

    fn most_listed(&self) -> usize {
        self.config.max_listed_units as usize
    }

    /// Units that the table may list now: as many as a record can hold while a checkpoint is in progress, or blocks of
    /// failed writes wait, so that failing writes do not keep it from shortening the table. Before it begins, releases
    /// must be durable, and those wait for these blocks.
    fn table_limit(&self) -> usize {
        let most = if self.checkpoint.is_some() || self.stage.replacements > 0 {
            self.config.most_listed_ever()
        } else {
            self.config.max_listed_units
        };
        most as usize
    }

    /// Whether units may be opened for users' blocks: what is left of the table is for the checkpoint that shortens it.
    pub(crate) fn table_has_room(&self) -> bool {
        let held = (self.most_listed() / 4).max(self.metadata_hold() as usize);
        self.space.opened() + held < self.most_listed()
    }

    /// Whether a unit may be opened for what must not wait for a checkpoint.
    pub(crate) fn table_has_last_room(&self) -> bool {
        self.space.opened() + (self.metadata_hold() as usize) < self.table_limit()
    }

    fn write_checkpoint_record(&mut self) {
        let clean = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.last)
            || bug!(self.config, CleanTooEarly) && self.phase == Phase::Closing;
        if clean {
            // Nothing but pages came after S: nothing is left to replay.
            let (sequence, table) = (self.log.next(), self.space.begin_tail());
            self.tail_from = sequence;
            let (stage, sparse) = (Stage::Writing, FxHashSet::default());
            let last = true;
            self.checkpoint = Some(Checkpoint { sequence, stage, table, sparse, pages: 0, last });
        }
        let checkpoint = self.checkpoint.as_ref().expect("only a checkpoint has such a record");
        let (sequence, mut table) = (checkpoint.sequence, checkpoint.table.clone());
        let fresh = self.list_more(table.len());
        table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
        let volumes = if bug!(self.config, DeletedVolumeLeftOut) {
            self.volumes.alive()
        } else {
            self.volumes.all()
        };
        let volumes = volumes.into_iter().map(|map| Volume {
            id: map.id,
            name: map.name.clone(),
            blocks: map.blocks,
            deleted: map.deleted,
            roots: map.roots.iter().map(|root| root.at).collect(),
        });
        let record = Superblock {
            checkpoint: sequence,
            tail_epoch: self.epoch,
            tail_end: None,
            clean,
            next_volume: self.volumes.next,
            volumes: volumes.collect(),
            open_units: table.into_values().collect(),
            unit_pages: self.unit_table.pages().to_vec(),
            ..self.superblocks.durable.clone().expect("the pool is open")
        };
        self.write_record(record, Purpose::Checkpoint, fresh);
    }

    /// The first record of an opening: as the one found, of the next epoch. With `settled`, when nothing was replayed,
    /// it is a checkpoint at once.
    pub(crate) fn write_opening_record(&mut self, mut record: Superblock, settled: bool) {
        record.epoch = self.epoch;
        record.clean = false;
        if settled {
            record.tail_epoch = self.epoch;
            record.checkpoint = self.log.next();
        }
        record.tail_end = (!settled).then(|| self.log.next());
        if bug!(self.config, EpochNotAdvanced) {
            record.tail_end = None;
        }
        if bug!(self.config, TailEndNotWritten) {
            record.tail_end = None;
        }
        mark!(Unsettled if !settled);
        self.superblocks.settled = settled;
        self.write_record(record, Purpose::Opening, Vec::new());
    }

    fn write_record(&mut self, mut record: Superblock, purpose: Purpose, fresh: Vec<OpenUnit>) {
        record.epoch = Epoch(self.epoch.0);
        record.revision =
            Revision(self.superblocks.durable_revision().0.max(record.revision.0) + 1);
        record.next_generation = self.space.next_generation;
        let obsolete = match purpose {
            Purpose::Checkpoint => std::mem::take(&mut self.superblocks.obsolete),
            Purpose::Opening | Purpose::MoreUnits => Vec::new(),
        };
        // The unit with the newest record goes last, in case both must be reset.
        let newest = self.superblocks.durable.as_ref().map(|durable| durable.location.unit);
        let mut copies = self.config.geometry.superblock_units().to_vec();
        copies.sort_by_key(|unit| Some(*unit) != newest);
        self.superblocks.writing =
            Some(Writing { record, purpose, copies, unflushed: false, fresh, obsolete });
        self.next_copy();
    }

    /// Writes the record to the next superblock unit. A unit that is full is reset first, and that only when the other
    /// has this record, flushed, or still the one before it.
    fn next_copy(&mut self) {
        let geometry = self.config.geometry;
        let writing = self.superblocks.writing.as_mut().expect("a record is being written");
        let Some(&unit) = writing.copies.last() else {
            return self.await_next_flush(Then::Superblock);
        };
        let index = usize::from(unit != geometry.superblock_units()[0]);
        let blocks = (writing.record.record_bytes() / geometry.logical_block().bytes()) as u32;
        let block = self.superblocks.next[index];
        match block.filter(|block| block + blocks <= geometry.blocks_per_unit()) {
            Some(block) => {
                writing.copies.pop();
                writing.record.location = Location { unit, block };
                writing.unflushed = true;
                let record = writing.record.clone();
                self.superblocks.next[index] = Some(block + blocks);
                self.stats.superblocks += 1;
                self.stats.superblock_bytes += record.record_bytes() as u64;
                let op = self.ops.insert(Op::Superblock);
                self.device(op, DeviceCmd::WriteSuperblock(std::sync::Arc::new(record)));
            }
            None if writing.unflushed && !bug!(self.config, OnlyRecordReset) => {
                mark!(CopyFlushedFirst);
                self.await_next_flush(Then::Superblock);
            }
            None => {
                mark!(SuperblockUnitReset);
                self.superblocks.next[index] = Some(0);
                let op = self.ops.insert(Op::Superblock);
                self.device(op, DeviceCmd::Reset(unit));
            }
        }
    }

    pub(crate) fn superblock_written(&mut self, result: Result<(), DeviceError>) {
        match result {
            Ok(()) => self.next_copy(),
            Err(_) => {
                mark!(RecordFailed);
                self.fail();
            }
        }
    }

    /// The copies written so far are durable; with the last, the record counts.
    pub(crate) fn superblock_durable(&mut self) {
        let writing = self.superblocks.writing.as_mut().expect("a record is being written");
        writing.unflushed = false;
        if !writing.copies.is_empty() {
            return self.next_copy();
        }
        let writing = self.superblocks.writing.take().expect("it was just looked at");
        let Writing { record, purpose, fresh, obsolete, .. } = writing;
        self.space.listed =
            record.open_units.iter().map(|listed| (listed.next.unit.0, *listed)).collect();
        self.space.reserved.extend(&fresh);
        if purpose == Purpose::MoreUnits
            && let Some(checkpoint) = &mut self.checkpoint
        {
            mark!(CheckpointListsUnits);
            checkpoint.table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
        }
        let clean = record.clean;
        self.superblocks.durable = Some(record);
        for value in obsolete {
            self.drop_value(value);
        }
        match purpose {
            Purpose::Opening => self.opened(),
            Purpose::MoreUnits => {}
            Purpose::Checkpoint => {
                let pages = self.checkpoint.take().map_or(0, |checkpoint| checkpoint.pages);
                self.superblocks.settled = true;
                self.unit_table.begin();
                self.unit_table.drop_kept();
                for value in std::mem::take(&mut self.superblocks.unsettled) {
                    self.drop_value(value);
                }
                self.stats.checkpoints += 1;
                self.actions.push_back(Action::Notice(Notice::Checkpoint { pages }));
                self.resolve();
            }
        }
        if clean && let Some(request) = self.superblocks.closing.take() {
            mark!(ClosedClean);
            self.phase = Phase::Closed;
            self.request_progress(request, 1, None);
        }
    }

    /// The durable record, for recovery to set.
    pub(crate) fn adopt_record(&mut self, record: Superblock) {
        self.superblocks.durable = Some(record);
    }
}
