//! The log of a member: the rows whose running parity is in its slots, and the place of its newest head.
//!
//! Invariants:
//! * A slot named by the newest durable head keeps the bytes that the head describes.
//! * A new head never overwrites the newest durable head.

use thermocline_format::{RaidLabel, RaidLog, RowEntry};

use crate::bugs::{self, ArrayBug};

/// A slot of a log.
#[derive(Clone, Debug)]
enum Slot {
    Free,
    Used(RowEntry),
    /// Named by no head of this number or a higher one, and free when such a head is durable.
    Leaving(u64),
}

/// The log of a member.
#[derive(Debug)]
pub(super) struct Journal {
    slots: Vec<Slot>,
    /// The place of the newest durable head.
    place: usize,
    /// The number of the newest head.
    round: u64,
    /// Whether a head must be written before the next flush is answered.
    dirty: bool,
    /// The rows that a head on media may name.
    listed: Vec<(u32, u32)>,
    /// The rows of the head being written.
    coming: Option<Vec<(u32, u32)>>,
}

impl Journal {
    /// An empty log with this number of slots.
    pub(super) fn new(slots: u32) -> Journal {
        let slots = vec![Slot::Free; slots as usize];
        let (listed, coming) = (Vec::new(), None);
        Journal { slots, place: 0, round: 0, dirty: false, listed, coming }
    }

    /// A log as found: the place and number of its newest head, and the valid rows of the head.
    pub(super) fn found(slots: u32, place: usize, round: u64, rows: Vec<RowEntry>) -> Journal {
        let mut journal = Journal::new(slots);
        (journal.place, journal.round, journal.dirty) = (place, round, true);
        journal.listed = rows.iter().map(|entry| (entry.unit, entry.row)).collect();
        for entry in rows {
            let slot = entry.slot as usize;
            journal.slots[slot] = Slot::Used(entry);
        }
        journal
    }

    /// The entry of a row.
    pub(super) fn entry(&self, unit: u32, row: u32) -> Option<&RowEntry> {
        self.used().find(|entry| (entry.unit, entry.row) == (unit, row))
    }

    fn used(&self) -> impl Iterator<Item = &RowEntry> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Used(entry) => Some(entry),
            Slot::Free | Slot::Leaving(_) => None,
        })
    }

    /// Records `filled` bytes of a row in its slot, or with `anew` in a new slot. Returns the slot, or `None` if no
    /// slot is free.
    pub(super) fn put(
        &mut self,
        (unit, row): (u32, u32),
        filled: u32,
        crcs: &[u32],
        anew: bool,
    ) -> Option<u32> {
        let own = self.entry(unit, row).map(|entry| entry.slot as usize);
        let Some(slot) = own.filter(|_| !anew).or_else(|| self.free()) else {
            // The next head frees the leaving slots.
            self.dirty |= self.slots.iter().any(|slot| matches!(slot, Slot::Leaving(_)));
            return None;
        };
        if let Some(before) = own.filter(|&own| own != slot) {
            self.slots[before] = Slot::Leaving(self.round + 1);
        }
        let (number, crcs) = (slot as u32, crcs.to_vec());
        self.slots[slot] = Slot::Used(RowEntry { slot: number, unit, row, filled, crcs });
        self.dirty = true;
        Some(number)
    }

    fn free(&self) -> Option<usize> {
        self.slots.iter().position(|slot| matches!(slot, Slot::Free))
    }

    /// Removes the rows for which `which` is true.
    pub(super) fn release(&mut self, which: impl Fn(u32, u32) -> bool) {
        for slot in &mut self.slots {
            if matches!(slot, Slot::Used(entry) if which(entry.unit, entry.row)) {
                let again = bugs::has(ArrayBug::SlotUsedAgain);
                *slot = if again { Slot::Free } else { Slot::Leaving(self.round + 1) };
            }
        }
    }

    /// Removes the rows of a unit, whose logged bytes are void. The next flush writes a head without these rows.
    pub(super) fn forget(&mut self, unit: u32) {
        self.forget_rows(|of, _| of == unit);
    }

    /// Removes a row, whose logged bytes are void.
    pub(super) fn forget_row(&mut self, unit: u32, row: u32) {
        self.forget_rows(|of, is| (of, is) == (unit, row));
    }

    /// Removes all rows: their logged bytes are void.
    pub(super) fn forget_all(&mut self) {
        self.forget_rows(|_, _| true);
    }

    fn forget_rows(&mut self, which: impl Fn(u32, u32) -> bool) {
        self.release(&which);
        let mut named = self.listed.iter().chain(self.coming.iter().flatten());
        self.dirty |= named.any(|(unit, row)| which(*unit, *row));
    }

    /// The next head and its place, if a head must be written.
    pub(super) fn head(&mut self, label: &RaidLabel, member: usize) -> Option<(RaidLog, usize)> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        self.round += 1;
        let rows: Vec<RowEntry> = self.used().cloned().collect();
        self.coming = Some(rows.iter().map(|entry| (entry.unit, entry.row)).collect());
        let (pool, group, member, round) = (label.pool, label.group, member as u8, self.round);
        Some((RaidLog { pool, group, member, round, rows }, 1 - self.place))
    }

    /// Whether a head is being written.
    pub(super) fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// The head being written, and its slots, are durable.
    pub(super) fn flushed(&mut self) {
        let Some(rows) = self.coming.take() else { return };
        self.listed = rows;
        self.place = 1 - self.place;
        for slot in &mut self.slots {
            if matches!(slot, Slot::Leaving(from) if *from <= self.round) {
                *slot = Slot::Free;
            }
        }
    }
}
