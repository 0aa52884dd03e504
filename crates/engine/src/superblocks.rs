//! Superblock records: which are written when, and to which units of which devices.
//!
//! A record is written at the end of an opening and of a checkpoint, and when the units that the newest one lists run
//! short.
//!
//! Invariants:
//! * At most one record is being written.
//! * A superblock unit is reset only when another holds the newest flushed record.

use rustc_hash::FxHashMap;
use thermocline_format::{
    Epoch, Location, MapEntry, MediaClass, OpenUnit, Revision, Sequence, Superblock, Volume,
};
use thermocline_types::UnitId;

use crate::bugs::bug;
use crate::checkpoint::Checkpoint;
use crate::device::{DeviceCmd, DeviceError};
use crate::durability::Then;
use crate::engine::{Engine, Op, Phase};
use crate::map::Value;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::{Action, Notice};

const MEDIA: [MediaClass; 2] = [MediaClass::Capacity, MediaClass::Fast];

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
    /// Where the next record goes in superblock units; those that are not here are as if they were full.
    next: FxHashMap<UnitId, u32>,
    /// Units of devices but the home that get a copy of the record of this opening.
    pub(crate) labels: Vec<UnitId>,
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
    /// Whether there is a record that counts, and none is being written.
    pub(crate) fn are_idle(&self) -> bool {
        self.writing.is_none() && self.durable.is_some()
    }

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
    /// Writes a record if one is due: of a checkpoint, or because listed units run short.
    pub(crate) fn superblock_step(&mut self) -> bool {
        if !self.superblocks.are_idle() {
            return false;
        }
        if self.checkpoint.as_mut().is_some_and(Checkpoint::begin_writing) {
            self.write_checkpoint_record();
            return true;
        }
        // Where fewer are free than would be listed, all soon are; but a record is not written for each that comes.
        let short = |media: &MediaClass| {
            let half_of_free = self.space.free_units(*media).div_ceil(2) as usize;
            let least = half_of_free.min(self.listed_ahead() / 2);
            self.space.reserved_on(*media) < least && self.space.has_unlisted(*media)
        };
        let full = self.space.listed().len() >= self.table_limit();
        if full || !MEDIA.iter().any(short) {
            return false;
        }
        mark!(UnitsListed);
        let fresh = self.list_more(self.space.listed().len());
        let mut record = self.superblocks.durable.clone().expect("it was just looked at");
        let mut table = self.space.listed().clone();
        table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
        if !bug!(self.config, NewUnitsNotListed) {
            record.open_units = table.into_values().collect();
        }
        record.clean = false;
        if bug!(self.config, UnitsOpenedBeforeListed) {
            self.reserve(&fresh);
            self.write_record(record, Purpose::MoreUnits, Vec::new());
            return true;
        }
        self.write_record(record, Purpose::MoreUnits, fresh);
        true
    }

    /// Lists free units for a record that lists `others` as well.
    fn list_more(&mut self, others: usize) -> Vec<OpenUnit> {
        let mut room = self.table_limit().saturating_sub(others);
        let mut listed = Vec::new();
        // What is on fast devices takes whatever comes, and metadata.
        for media in MEDIA.into_iter().rev() {
            let there = self.space.reserved_on(media);
            let wanted = self.listed_ahead().saturating_sub(there);
            let more = self.space.list_free(media, wanted.min(room));
            room -= more.len();
            listed.extend(more);
        }
        listed
    }

    /// These units are listed in a durable record.
    fn reserve(&mut self, fresh: &[OpenUnit]) {
        for listed in fresh {
            self.space.reserve(*listed);
        }
    }

    /// Units to be listed ahead: the more, the longer the table, so that what is written of it stays in proportion to
    /// the units that are opened.
    fn listed_ahead(&self) -> usize {
        self.config.listed_ahead().max(self.space.listed().len() / 8)
    }

    pub(crate) fn most_listed(&self) -> usize {
        self.config.max_listed_units as usize
    }

    /// Units that the table may list now. A checkpoint in progress gets as many as a record can hold, so that failing
    /// writes do not keep it from shortening the table, and so do the blocks of failed writes that it waits for.
    fn table_limit(&self) -> usize {
        let most = if self.checkpoint.is_some() || self.cache.has_replacements() {
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
        let clean = self.checkpoint.as_ref().is_some_and(Checkpoint::is_last)
            || bug!(self.config, CleanTooEarly) && self.phase == Phase::Closing;
        if clean {
            // Nothing but pages came after S: nothing is left to replay.
            let (sequence, table) = (self.flights.next(), self.space.begin_tail());
            self.tail_from = sequence;
            self.checkpoint = Some(Checkpoint::clean(sequence, table));
        }
        let checkpoint = self.checkpoint.as_ref().expect("only a checkpoint has such a record");
        let (sequence, mut table) = checkpoint.begins_with();
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
            media: map.media,
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
            record.checkpoint = self.flights.next();
        }
        record.tail_end = (!settled).then(|| self.flights.next());
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
        record.next_generation = self.space.next_generation();
        let obsolete = match purpose {
            Purpose::Checkpoint => std::mem::take(&mut self.superblocks.obsolete),
            Purpose::Opening | Purpose::MoreUnits => Vec::new(),
        };
        // The unit with the newest record goes last, in case both must be reset.
        let newest = self.superblocks.durable.as_ref().map(|durable| durable.location.unit);
        let mut copies = self.config.geometry.superblock_units().to_vec();
        copies.sort_by_key(|unit| Some(*unit) != newest);
        if purpose == Purpose::Opening && !bug!(self.config, DevicesNotLabelled) {
            copies.append(&mut self.superblocks.labels);
        }
        self.superblocks.writing =
            Some(Writing { record, purpose, copies, unflushed: false, fresh, obsolete });
        self.next_copy();
    }

    /// Writes the record to the next superblock unit, those of the home last. A unit that is full is reset first, and
    /// that only when the other has this record, flushed, or still the one before it.
    fn next_copy(&mut self) {
        let geometry = self.config.geometry;
        let writing = self.superblocks.writing.as_mut().expect("a record is being written");
        let Some(&unit) = writing.copies.last() else { return self.flush_copies() };
        let blocks = (writing.record.record_bytes() / geometry.logical_block().bytes()) as u32;
        let block = self.superblocks.next.get(&unit).copied();
        match block.filter(|block| block + blocks <= geometry.blocks_per_unit()) {
            Some(block) => {
                writing.copies.pop();
                writing.record.location = Location { unit, block };
                writing.unflushed = true;
                let record = writing.record.clone();
                self.superblocks.next.insert(unit, block + blocks);
                self.stats.superblocks += 1;
                self.stats.superblock_bytes += record.record_bytes() as u64;
                let op = self.ops.insert(Op::Superblock);
                self.device(op, DeviceCmd::WriteSuperblock(std::sync::Arc::new(record)));
            }
            None if writing.unflushed && !bug!(self.config, OnlyRecordReset) => {
                mark!(CopyFlushedFirst);
                self.flush_copies();
            }
            None => {
                mark!(SuperblockUnitReset);
                self.superblocks.next.insert(unit, 0);
                let op = self.ops.insert(Op::Superblock);
                self.device(op, DeviceCmd::Reset(unit));
            }
        }
    }

    /// Makes durable the copies written so far: the record of an opening is on every device, others on the home alone.
    fn flush_copies(&mut self) {
        let writing = self.superblocks.writing.as_ref().expect("a record is being written");
        if writing.purpose == Purpose::Opening {
            self.await_next_flush(Then::Superblock);
        } else {
            self.await_next_flush_of(self.config.geometry.home(), Then::Superblock);
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
        self.space.set_listed(&record.open_units);
        self.reserve(&fresh);
        if purpose == Purpose::MoreUnits
            && let Some(checkpoint) = &mut self.checkpoint
        {
            mark!(CheckpointListsUnits);
            checkpoint.list(&fresh);
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
                let pages = self.checkpoint.take().map_or(0, |checkpoint| checkpoint.pages());
                self.superblocks.settled = true;
                self.pages_landed();
                self.begin_unit_table();
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
