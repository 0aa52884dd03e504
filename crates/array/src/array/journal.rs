//! The log of a member: which of its slots have running parity of which rows, and which of its heads is the newest.
//!
//! Invariants:
//! * Of a slot that the newest durable head names, what that head says is in it is not written over.
//! * A head is written to the place that has not the newest durable one.

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
    /// Whether a head has to be written before the next flush is answered.
    dirty: bool,
    /// The rows that heads on media name, or may.
    listed: Vec<(u32, u32)>,
    /// The rows of the head that is on its way.
    coming: Option<Vec<(u32, u32)>>,
}

impl Journal {
    /// One of so many slots, none of which is used.
    pub(super) fn new(slots: u32) -> Journal {
        let slots = vec![Slot::Free; slots as usize];
        let (listed, coming) = (Vec::new(), None);
        Journal { slots, place: 0, round: 0, dirty: false, listed, coming }
    }

    /// One that was found, with the newest head in this place and of this number, of whose rows `rows` count.
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

    /// What it has of a row.
    pub(super) fn entry(&self, unit: u32, row: u32) -> Option<&RowEntry> {
        self.used().find(|entry| (entry.unit, entry.row) == (unit, row))
    }

    fn used(&self) -> impl Iterator<Item = &RowEntry> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Used(entry) => Some(entry),
            Slot::Free | Slot::Leaving(_) => None,
        })
    }

    /// Says that a slot has so much of a row: the one that it has, or with `anew` another one. Returns which; `None` if
    /// none is free.
    pub(super) fn put(
        &mut self,
        (unit, row): (u32, u32),
        filled: u32,
        crcs: &[u32],
        anew: bool,
    ) -> Option<u32> {
        let own = self.entry(unit, row).map(|entry| entry.slot as usize);
        let Some(slot) = own.filter(|_| !anew).or_else(|| self.free()) else {
            // A head that names those no more makes them free.
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

    /// Rows that `which` is true of are not in the log any more.
    pub(super) fn release(&mut self, which: impl Fn(u32, u32) -> bool) {
        for slot in &mut self.slots {
            if matches!(slot, Slot::Used(entry) if which(entry.unit, entry.row)) {
                let again = bugs::has(ArrayBug::SlotUsedAgain);
                *slot = if again { Slot::Free } else { Slot::Leaving(self.round + 1) };
            }
        }
    }

    /// What it has of a unit is wrong from now on: no head is to name it when anything new is flushed there.
    pub(super) fn forget(&mut self, unit: u32) {
        self.forget_rows(|of, _| of == unit);
    }

    /// What it has of a row is wrong from now on.
    pub(super) fn forget_row(&mut self, unit: u32, row: u32) {
        self.forget_rows(|of, is| (of, is) == (unit, row));
    }

    /// What it has of any row is wrong from now on.
    pub(super) fn forget_all(&mut self) {
        self.forget_rows(|_, _| true);
    }

    fn forget_rows(&mut self, which: impl Fn(u32, u32) -> bool) {
        self.release(&which);
        let mut named = self.listed.iter().chain(self.coming.iter().flatten());
        self.dirty |= named.any(|(unit, row)| which(*unit, *row));
    }

    /// The next head, if one has to be written, and its place.
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

    /// Whether a head is on its way.
    pub(super) fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// All that was written of it is durable.
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
