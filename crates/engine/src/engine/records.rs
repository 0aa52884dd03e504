//! Which superblock records are written when.

use std::sync::Arc;

use thermocline_format::{MediaClass, OpenUnit, Sequence, Superblock};

use crate::bugs::bug;
use crate::device::DeviceCmd;
use crate::durability::Then;
use crate::engine::{Op, Parts};
use crate::marks::mark;
use crate::payload::Payload;
use crate::superblocks::{Next, Purpose};

impl<P: Payload> Parts<P> {
    /// Lists free units for a record that lists `others` as well.
    pub(crate) fn list_more(&mut self, others: usize) -> Vec<OpenUnit> {
        let mut room = self.table_limit().saturating_sub(others);
        let mut listed = Vec::new();
        // Fast units take host writes and metadata, so the fast media comes first.
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
    pub(crate) fn flushed_since(&self, sequence: Sequence) -> u32 {
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
    pub(crate) fn durable_record(&self) -> Superblock {
        self.superblocks.durable().expect("the pool was opened").clone()
    }

    pub(crate) fn write_record(
        &mut self,
        mut record: Superblock,
        purpose: Purpose,
        fresh: Vec<OpenUnit>,
    ) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::parts;

    #[test]
    fn chunks_that_are_durable_are_counted_from_the_first_of_a_tail_on() {
        let mut p = parts();
        p.durability.recovered(Sequence(9));
        assert_eq!([5, 9, 10, 11].map(|first| p.flushed_since(Sequence(first))), [5, 1, 0, 0]);
    }
}
