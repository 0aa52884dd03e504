//! The state of each unit's life: chunks, and reads and writes in flight.

use thermocline_format::{Generation, Location, Sequence};
use thermocline_types::{Class, UnitId};

use super::Space;

/// The chunks of a unit that recovery would replay, and the unit's reads and writes in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    /// Wrapping sum of the sequences of the chunks.
    pub(super) sum: u64,
    /// Chunks from the checkpoint on.
    pub(super) chunks: u32,
    /// Reads of the host or of garbage collection that are on their way.
    pub(super) readers: u32,
    /// Chunks in flight to the unit.
    pub(super) writers: u32,
    /// The logical block of a failed write; later blocks do not count.
    pub(super) broken: Option<u32>,
    /// The newest chunk.
    pub(super) last: Sequence,
    /// Whether the device will not write or reset it again.
    pub(super) condemned: bool,
    /// The newest chunk with control entries.
    pub(super) control: Sequence,
    /// How often no control entry had waited when it died.
    pub(super) died: u64,
    /// Whether pages of the map were found in it when the pool was opened.
    pub(super) metadata: bool,
    /// Whether the opening replayed chunks in it that must be found again until a crash would be recovered from.
    pub(super) replayed: bool,
    /// Generation of the unit's life.
    pub(super) generation: Generation,
}

impl Space {
    pub(super) fn tail(&mut self, unit: UnitId) -> &mut Tail {
        &mut self.tails[unit.index()]
    }

    /// Begins a chunk in an open unit. Returns the generation of the unit's life.
    pub(crate) fn begin_chunk(&mut self, unit: UnitId, sequence: Sequence) -> Generation {
        let tail = self.tail(unit);
        tail.chunks += 1;
        tail.sum = tail.sum.wrapping_add(sequence.0);
        tail.writers += 1;
        tail.last = sequence;
        tail.generation
    }

    /// The chunk that was begun for `class` ends before `next`, where its unit goes on.
    pub(crate) fn end_chunk(&mut self, class: Class, next: Location) {
        if class.index() < self.shared {
            let from = self.frontiers.place(class).map_or(0, |at| at.block);
            self.sealed += u64::from(next.block - from);
            self.sealed_at[class.index()] = self.sealed;
        }
        self.in_flight[class.index()] += 1;
        self.frontiers.set(class, next);
    }

    /// The device answered for a chunk of `class` in `unit`.
    pub(crate) fn chunk_answered(&mut self, class: Class, unit: UnitId) {
        self.in_flight[class.index()] -= 1;
        self.tail(unit).writers -= 1;
    }

    /// A chunk in `unit` will not be replayed: the write of the chunk, or an earlier write in the unit, failed.
    pub(crate) fn uncount_chunk(&mut self, unit: UnitId, sequence: Sequence) {
        if sequence >= self.tail_from {
            let tail = self.tail(unit);
            tail.chunks -= 1;
            tail.sum = tail.sum.wrapping_sub(sequence.0);
        }
    }

    /// Chunk `sequence` in `unit` has control entries.
    pub(crate) fn note_control(&mut self, unit: UnitId, sequence: Sequence) {
        self.tail(unit).control = sequence;
    }

    /// The newest chunk in `unit` with control entries that was not released.
    pub(crate) fn newest_control(&self, unit: UnitId) -> Sequence {
        self.tails[unit.index()].control
    }

    /// No control entry waits.
    pub(crate) fn no_control_waits(&mut self) {
        self.control_sealed += 1;
    }

    /// How often that was so.
    pub(crate) fn control_sealed(&self) -> u64 {
        self.control_sealed
    }

    /// How often it had been so when `unit` died.
    pub(crate) fn died(&self, unit: UnitId) -> u64 {
        self.tails[unit.index()].died
    }

    /// Chunks in `unit` that would be replayed, and the wrapping sum of their sequences.
    pub(crate) fn tail_of(&self, unit: UnitId) -> (u32, u64) {
        let tail = &self.tails[unit.index()];
        (tail.chunks, tail.sum)
    }

    /// Logical blocks and chunks of `unit` that would be replayed.
    pub(crate) fn replayed(&self, unit: UnitId) -> (u32, u32) {
        let from = self.listed.get(&unit.0).map_or(u32::MAX, |listed| listed.next.block);
        (self.units.written(unit).saturating_sub(from), self.tails[unit.index()].chunks)
    }

    /// The newest chunk in `unit`.
    pub(crate) fn newest_chunk(&self, unit: UnitId) -> Sequence {
        self.tails[unit.index()].last
    }

    /// Something reads from `unit`: it is not reset before [`Space::drop_reader`].
    pub(crate) fn add_reader(&mut self, unit: UnitId) {
        self.tail(unit).readers += 1;
    }

    pub(crate) fn drop_reader(&mut self, unit: UnitId) {
        self.tail(unit).readers -= 1;
    }

    pub(crate) fn has_readers(&self, unit: UnitId) -> bool {
        self.tails[unit.index()].readers > 0
    }

    /// Whether chunks are on their way to `unit`.
    #[inline]
    pub(crate) fn has_writers(&self, unit: UnitId) -> bool {
        self.tails[unit.index()].writers > 0
    }

    /// A write to `at` failed: later blocks of the unit no longer count.
    pub(crate) fn break_at(&mut self, at: Location) {
        let tail = self.tail(at.unit);
        tail.broken = Some(tail.broken.map_or(at.block, |broken| broken.min(at.block)));
    }

    /// The logical block of a failed write in `unit`; later blocks do not count.
    pub(crate) fn broken(&self, unit: UnitId) -> Option<u32> {
        self.tails[unit.index()].broken
    }

    /// Generation of the unit's life; 0 if it is not known.
    pub(crate) fn generation(&self, unit: UnitId) -> Generation {
        self.tails[unit.index()].generation
    }

    pub(crate) fn set_generation(&mut self, unit: UnitId, generation: Generation) {
        self.tail(unit).generation = generation;
    }

    /// Whether pages of the map were found in `unit` when the pool was opened.
    pub(crate) fn held_pages(&self, unit: UnitId) -> bool {
        self.tails[unit.index()].metadata
    }

    /// The opening replayed chunks in `unit` that were not released, or none.
    pub(crate) fn set_replayed(&mut self, unit: UnitId, replayed: bool) {
        self.tail(unit).replayed = replayed;
    }

    /// Whether the opening replayed chunks in `unit` that were not released.
    pub(crate) fn was_replayed(&self, unit: UnitId) -> bool {
        self.tails[unit.index()].replayed
    }

    /// Has the device finish a closed unit that is not full, once no write to the unit is in flight. Returns the number
    /// of logical blocks that stay empty; `None` if the unit must not be finished now.
    pub(crate) fn finish_if_quiet(&mut self, unit: UnitId) -> Option<u32> {
        let (written, size) = (self.units.written(unit), self.units.blocks_per_unit());
        let tail = self.tail(unit);
        // Where a write failed, the device may have less of it.
        let full = written == size && tail.broken.is_none();
        if tail.writers > 0 || full || written == 0 {
            return None;
        }
        tail.writers += 1;
        self.closing.insert(unit.0);
        Some(size - written)
    }

    /// The device has let go of `unit`, or failed to.
    pub(crate) fn finished(&mut self, unit: UnitId) {
        self.tail(unit).writers -= 1;
        self.closed_if_quiet(unit);
    }
}
