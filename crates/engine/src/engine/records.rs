//! Which superblock records are written when.

use std::sync::Arc;

use thermocline_format::{MediaClass, OpenUnit, Sequence, Superblock, Volume};

use crate::bugs::bug;
use crate::device::DeviceCmd;
use crate::durability::Then;
use crate::engine::checkpoint::Checkpoint;
use crate::engine::{Engine, Op, Parts, Phase};
use crate::marks::mark;
use crate::payload::Payload;
use crate::superblocks::{Next, Purpose};

impl<P: Payload> Parts<P> {
    /// Lists free units for a record that lists `others` as well.
    fn list_more(&mut self, others: usize) -> Vec<OpenUnit> {
        let mut room = self.table_limit().saturating_sub(others);
        let mut listed = Vec::new();
        // What is on fast devices takes whatever comes, and metadata.
        for media in MediaClass::ALL.into_iter().rev() {
            let there = self.space.reserved_on(media);
            let wanted = self.listed_ahead().saturating_sub(there);
            let more = self.space.list_free(media, wanted.min(room));
            room -= more.len();
            listed.extend(more);
        }
        listed
    }

    /// These units are listed in a durable record.
    pub(crate) fn reserve(&mut self, fresh: &[OpenUnit]) {
        for listed in fresh {
            self.space.reserve(*listed);
        }
    }

    /// Units to be listed ahead: the more, the longer the table, so that what is written of it stays in proportion to
    /// the units that are opened.
    pub(crate) fn listed_ahead(&self) -> usize {
        self.config.listed_ahead().max(self.space.listed().len() / 8)
    }

    /// So many sequences from `sequence` on are durable.
    fn flushed_since(&self, sequence: Sequence) -> u32 {
        if bug!(self.config, FlushedNotTold) {
            return 0;
        }
        let durable = self.durability.durable().0 + 1;
        u32::try_from(durable.saturating_sub(sequence.0)).unwrap_or(u32::MAX)
    }

    /// The first record of an opening: as the one found, of the next epoch. With `settled`, when nothing was replayed,
    /// it is a checkpoint at once.
    pub(crate) fn write_opening_record(
        &mut self,
        mut record: Superblock,
        settled: bool,
        vain: u32,
    ) {
        // Those that are gone by now were counted by an opening before.
        record.vain =
            if settled || bug!(self.config, VainNotTold) { 0 } else { record.vain.max(vain) };
        record.epoch = self.epoch;
        record.clean = false;
        if settled {
            record.tail_epoch = self.epoch;
            record.checkpoint = self.flights.next();
            record.flushed = 0;
        }
        record.tail_end = (!settled).then(|| self.flights.next());
        if bug!(self.config, EpochNotAdvanced) {
            record.tail_end = None;
        }
        if bug!(self.config, TailEndNotWritten) {
            record.tail_end = None;
        }
        mark!(Unsettled if !settled);
        self.superblocks.set_settled(settled);
        self.write_record(record, Purpose::Opening, Vec::new());
    }

    /// The newest record that counts.
    fn durable_record(&self) -> Superblock {
        self.superblocks.durable().expect("the pool was opened").clone()
    }

    fn write_record(&mut self, mut record: Superblock, purpose: Purpose, fresh: Vec<OpenUnit>) {
        record.epoch = self.epoch;
        record.next_generation = self.space.next_generation();
        let home = self.config.geometry.superblock_units();
        let labelled = !bug!(self.config, DevicesNotLabelled);
        if bug!(self.config, HomeNotConfirmed) {
            self.superblocks.confirm_nothing();
        }
        self.superblocks.begin(record, purpose, home, fresh, labelled);
        self.next_copy();
    }

    pub(crate) fn next_copy(&mut self) {
        let careless = bug!(self.config, OnlyRecordReset);
        let cmd = match self.superblocks.next(&self.config.geometry, careless) {
            Next::Write(record) => {
                self.stats.superblocks += 1;
                self.stats.superblock_bytes += record.record_bytes() as u64;
                DeviceCmd::WriteSuperblock(Arc::from(record))
            }
            Next::Reset(unit) => {
                mark!(SuperblockUnitReset);
                DeviceCmd::Reset(unit)
            }
            Next::Flush => {
                mark!(CopyFlushedFirst if self.superblocks.has_copies());
                return self.flush_copies();
            }
        };
        let op = self.ops.insert(Op::Superblock);
        self.device(op, cmd);
    }

    /// Makes durable the copies written so far: the record of an opening is on every device, others on the home alone.
    fn flush_copies(&mut self) {
        if self.superblocks.writes_opening() {
            self.await_next_flush(Then::Superblock);
        } else {
            self.await_next_flush_of(self.config.geometry.home(), Then::Superblock);
        }
    }
}

impl<P: Payload> Engine<P> {
    /// Writes a record if one is due: of a checkpoint, or because listed units run short.
    pub(crate) fn superblock_step(&mut self) -> bool {
        if !self.parts.superblocks.are_idle() {
            return false;
        }
        if self.checkpoint.as_mut().is_some_and(Checkpoint::begin_writing) {
            self.write_checkpoint_record();
            return true;
        }
        // Where fewer are free than would be listed, all soon are; but a record is not written for each that comes.
        let short = |media: &MediaClass| {
            let half_of_free = self.parts.space.free_units(*media).div_ceil(2) as usize;
            let least = half_of_free.min(self.parts.listed_ahead() / 2);
            self.parts.space.reserved_on(*media) < least && self.parts.space.has_unlisted(*media)
        };
        let full = self.parts.space.listed().len() >= self.parts.table_limit();
        if full || !MediaClass::ALL.iter().any(short) {
            return false;
        }
        mark!(UnitsListed);
        let fresh = self.parts.list_more(self.parts.space.listed().len());
        let mut record = self.parts.durable_record();
        let mut table = self.parts.space.listed().clone();
        table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
        if !bug!(self.parts.config, NewUnitsNotListed) {
            record.open_units = table.into_values().collect();
        }
        record.clean = false;
        if bug!(self.parts.config, UnitsOpenedBeforeListed) {
            self.parts.reserve(&fresh);
            self.parts.write_record(record, Purpose::MoreUnits, Vec::new());
            return true;
        }
        self.parts.write_record(record, Purpose::MoreUnits, fresh);
        true
    }

    fn write_checkpoint_record(&mut self) {
        let clean = self.checkpoint.as_ref().is_some_and(Checkpoint::is_clean)
            || bug!(self.parts.config, CleanTooEarly) && self.parts.phase == Phase::Closing;
        if clean {
            // Nothing but pages came after S: nothing is left to replay.
            let sequence = self.parts.flights.next();
            let table = self.parts.space.begin_tail(sequence);
            self.checkpoint = self.checkpoint.take().map(|last| last.clean(sequence, table));
            self.parts.moved.clear();
        }
        let checkpoint = self.checkpoint.as_ref().expect("only a checkpoint has such a record");
        let patches = checkpoint.patches();
        let (sequence, mut table) = checkpoint.begins_with();
        let fresh = self.parts.list_more(table.len());
        table.extend(fresh.iter().map(|listed| (listed.next.unit.0, *listed)));
        let volumes = if bug!(self.parts.config, DeletedVolumeLeftOut) {
            self.parts.volumes.alive()
        } else {
            self.parts.volumes.all()
        };
        let volumes = volumes.into_iter().map(|map| Volume {
            id: map.id,
            name: map.name.clone(),
            blocks: map.blocks,
            deleted: map.deleted,
            media: map.media,
            roots: map.roots_at().collect(),
        });
        let record = Superblock {
            checkpoint: sequence,
            tail_epoch: self.parts.epoch,
            tail_end: None,
            clean,
            patches,
            vain: 0,
            flushed: self.parts.flushed_since(sequence),
            next_volume: self.parts.volumes.next_id(),
            volumes: volumes.collect(),
            open_units: table.into_values().collect(),
            unit_pages: self.parts.unit_table.pages().to_vec(),
            ..self.parts.durable_record()
        };
        self.parts.write_record(record, Purpose::Checkpoint, fresh);
    }
}
