//! Superblock records: the newest valid record, and the record being written.
//!
//! Invariants:
//! * At most one record is being written.
//! * A superblock unit is reset only when another holds the newest flushed record.

use rustc_hash::FxHashMap;
use thermocline_format::{Geometry, Location, MapEntry, OpenUnit, Revision, Sequence, Superblock};
use thermocline_types::UnitId;

use crate::map::Value;

/// Purpose of the record being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A pool was opened.
    Opening,
    /// Units are listed that can be opened next.
    MoreUnits,
    /// A checkpoint is complete.
    Checkpoint,
}

/// The next step for a record.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Write the record to the location in the record.
    Write(Box<Superblock>),
    /// A superblock unit is emptied for it.
    Reset(UnitId),
    /// The copies that were written are made durable.
    Flush,
}

/// A record that counts from now on.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) purpose: Purpose,
    /// Units listed for the first time.
    pub(crate) fresh: Vec<OpenUnit>,
    /// Pages that only older records refer to.
    pub(crate) obsolete: Vec<Value>,
}

#[derive(Debug)]
struct Writing {
    record: Superblock,
    purpose: Purpose,
    /// Superblock units that a copy must still be written to, the next at the end.
    copies: Vec<UnitId>,
    /// Those on other devices, which get a further copy when the home has the record.
    confirmed_on: Vec<UnitId>,
    /// Whether a copy of this record was sent and is not flushed yet.
    unflushed: bool,
    fresh: Vec<OpenUnit>,
    obsolete: Vec<Value>,
}

/// Superblock records: the newest flushed record and the record being written.
#[derive(Debug, Default)]
pub(crate) struct Superblocks {
    durable: Option<Superblock>,
    writing: Option<Writing>,
    /// Where the next record goes in superblock units. A superblock unit without an entry counts as full.
    next: FxHashMap<UnitId, u32>,
    /// Units of devices but the home that get a copy of the record of this opening before the home has it.
    labels: Vec<UnitId>,
    /// Units that get a further copy when the home has the record.
    confirmed_on: Vec<UnitId>,
    settled: bool,
    /// Blocks that count as valid until it is settled.
    unsettled: Vec<Value>,
    /// Pages that were replaced or dropped after the newest record that refers to the pages.
    obsolete: Vec<Value>,
}

impl Superblocks {
    /// Whether a valid record exists and no record is being written.
    pub(crate) fn are_idle(&self) -> bool {
        self.writing.is_none() && self.durable.is_some()
    }

    /// The newest record that counts.
    pub(crate) fn durable(&self) -> Option<&Superblock> {
        self.durable.as_ref()
    }

    /// The record that an opening found counts.
    pub(crate) fn adopt(&mut self, record: Superblock) {
        self.durable = Some(record);
    }

    pub(crate) fn durable_revision(&self) -> Revision {
        self.durable.as_ref().map_or(Revision(0), |record| record.revision)
    }

    /// *S* of the newest flushed record.
    pub(crate) fn durable_checkpoint(&self) -> Sequence {
        self.durable.as_ref().map_or(Sequence(0), |record| record.checkpoint)
    }

    /// [`Superblock::patches`] of the newest flushed record.
    pub(crate) fn durable_patches(&self) -> u32 {
        self.durable.as_ref().map_or(0, |record| record.patches)
    }

    /// Whether recovery from a crash would restore all acknowledged data. Not yet while only the chunks of an earlier
    /// opening would be replayed.
    pub(crate) fn are_settled(&self) -> bool {
        self.settled
    }

    pub(crate) fn set_settled(&mut self, settled: bool) {
        self.settled = settled;
    }

    /// A block that is not valid any more counts as valid until a crash would be recovered from.
    pub(crate) fn keep(&mut self, value: Value) {
        self.unsettled.push(value);
    }

    /// Recovery from a crash would restore all acknowledged data. Returns the blocks that counted as valid until now.
    pub(crate) fn settle(&mut self) -> Vec<Value> {
        self.settled = true;
        std::mem::take(&mut self.unsettled)
    }

    /// The block at `entry` becomes invalid when the record of the next checkpoint counts.
    pub(crate) fn drop_later(&mut self, entry: MapEntry) {
        self.obsolete.extend(Value::of_entry(entry.pack()));
    }

    /// Blocks that become invalid when a later record counts.
    pub(crate) fn obsolete(&self) -> impl Iterator<Item = Value> + '_ {
        let of_writing = self.writing.iter().flat_map(|writing| &writing.obsolete);
        self.obsolete.iter().chain(of_writing).copied()
    }

    /// Superblock units of a device other than the home. The record of this opening is copied to both units, to the
    /// last first. If the first holds the valid record so far, its copy waits until the home has the record.
    pub(crate) fn label(&mut self, units: [UnitId; 2], first_counts: bool) {
        self.labels.extend(&units[usize::from(first_counts)..]);
        self.confirmed_on.extend(units);
    }

    /// The home's record of this opening is not confirmed on other devices: a mistake for tests of the tests.
    pub(crate) fn confirm_nothing(&mut self) {
        self.confirmed_on.clear();
    }

    /// Begins to write a record. The record of an opening gets labels on other devices if they are `labelled`. The
    /// units `fresh` are listed for the first time. [`Superblocks::next`] gives the steps.
    pub(crate) fn begin(
        &mut self,
        mut record: Superblock,
        purpose: Purpose,
        home: [UnitId; 2],
        fresh: Vec<OpenUnit>,
        labelled: bool,
    ) {
        record.revision = Revision(self.durable_revision().0.max(record.revision.0) + 1);
        let obsolete = match purpose {
            Purpose::Checkpoint => std::mem::take(&mut self.obsolete),
            Purpose::Opening | Purpose::MoreUnits => Vec::new(),
        };
        // The unit with the newest record goes last, in case both must be reset.
        let newest = self.durable.as_ref().map(|durable| durable.location.unit);
        let mut copies = home.to_vec();
        copies.sort_by_key(|unit| Some(*unit) != newest);
        let mut confirmed_on = Vec::new();
        if purpose == Purpose::Opening && labelled {
            copies.append(&mut self.labels);
            confirmed_on.append(&mut self.confirmed_on);
        }
        let unflushed = false;
        self.writing =
            Some(Writing { record, purpose, copies, confirmed_on, unflushed, fresh, obsolete });
    }

    /// The next step for the record: a write to the next superblock unit, the units of the home last. A full unit is
    /// reset before the write. The reset waits until the other unit holds a flushed copy of this record or of the
    /// record before. `careless` skips the wait, a mistake for tests of the tests.
    ///
    /// # Panics
    /// If no record is being written.
    pub(crate) fn next(&mut self, geometry: &Geometry, careless: bool) -> Next {
        let writing = self.writing.as_mut().expect("a record is being written");
        let Some(&unit) = writing.copies.last() else { return Next::Flush };
        let blocks = (writing.record.record_bytes() / geometry.logical_block().bytes()) as u32;
        let block = self.next.get(&unit).copied();
        match block.filter(|block| block + blocks <= geometry.blocks_per_unit()) {
            Some(block) => {
                writing.copies.pop();
                writing.record.location = Location { unit, block };
                writing.unflushed = true;
                self.next.insert(unit, block + blocks);
                Next::Write(Box::new(writing.record.clone()))
            }
            None if writing.unflushed && !careless => Next::Flush,
            None => {
                self.next.insert(unit, 0);
                Next::Reset(unit)
            }
        }
    }

    /// Whether copies remain to be written.
    pub(crate) fn has_copies(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| !writing.copies.is_empty())
    }

    /// Whether the record that is being written is that of an opening, which is on every device.
    pub(crate) fn writes_opening(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.purpose == Purpose::Opening)
    }

    /// The copies that were written are durable. With the last copy, the record counts. The record of an opening counts
    /// only when other devices confirm the copy of the home.
    pub(crate) fn copies_durable(&mut self) -> Option<Counts> {
        let mut writing = self.writing.take()?;
        writing.unflushed = false;
        if writing.copies.is_empty() && !writing.record.confirmed {
            self.durable = Some(writing.record.clone());
            writing.copies = std::mem::take(&mut writing.confirmed_on);
            writing.record.confirmed = true;
        }
        if !writing.copies.is_empty() {
            self.writing = Some(writing);
            return None;
        }
        let Writing { purpose, fresh, obsolete, .. } = writing;
        Some(Counts { purpose, fresh, obsolete })
    }
}

#[cfg(test)]
mod tests;
