//! What a side lacks, and when the next piece of it is copied.

use std::ops::Range;

use thermocline_types::{Bytes, UnitId};

use super::super::Layout;
use super::super::pace::Pace;

/// Bytes that are copied at once. Chosen, not measured: what drives commonly take in one command.
const PIECE: u64 = 1 << 20;

/// Bytes that are copied before a label says so: what is copied again at most after a crash. Chosen, not measured.
const SAVE: u64 = 1 << 30;

/// Progress of filling a side.
#[derive(Debug)]
pub(super) struct Fill {
    layout: Layout,
    /// Of each unit, whether the side lacks it.
    lacking: Vec<bool>,
    /// How many it lacks.
    units: u32,
    /// The first unit that may be lacking, and the bytes of it that were copied.
    next: (usize, u64),
    /// What the newest label says.
    saved: Vec<bool>,
    /// Bytes that were copied since.
    unsaved: u64,
    pub(super) pace: Pace,
    /// Bytes that were copied.
    pub(super) filled: u64,
    /// How often it was begun.
    pub(super) round: u64,
}

impl Fill {
    /// Of a side of a pair whose units are those of `layout`, of which it lacks none.
    pub(super) fn new(layout: Layout, rate: Option<u64>) -> Fill {
        let none = vec![false; layout.units as usize];
        Fill {
            layout,
            lacking: none.clone(),
            units: 0,
            next: (0, 0),
            saved: none,
            unsaved: 0,
            pace: Pace::new(rate),
            filled: 0,
            round: 0,
        }
    }

    /// The side lacks these units, as its label will say.
    pub(super) fn begin(&mut self, lacking: Vec<bool>) {
        self.round += 1;
        self.units = lacking.iter().filter(|&&lacking| lacking).count() as u32;
        self.saved.clone_from(&lacking);
        (self.lacking, self.next, self.unsaved) = (lacking, (0, 0), 0);
    }

    /// The side lacks everything.
    pub(super) fn begin_all(&mut self) {
        self.begin(vec![true; self.layout.units as usize]);
    }

    pub(super) fn lacks(&self, unit: UnitId) -> bool {
        self.lacking[unit.index()]
    }

    /// What a label is to say.
    pub(super) fn saved(&self) -> &[bool] {
        &self.saved
    }

    pub(super) fn bytes(&self) -> Bytes {
        let units = Bytes(u64::from(self.units) * self.layout.unit_bytes().0);
        Bytes(units.0.saturating_sub(self.next.1))
    }

    /// The next bytes to be copied, of one unit.
    pub(super) fn next(&mut self) -> Option<Range<u64>> {
        let (from, done) = self.next;
        let unit = (from..self.lacking.len()).find(|&unit| self.lacking[unit])?;
        let done = if unit == from { done } else { 0 };
        self.next = (unit, done);
        let start = self.layout.start(UnitId(unit as u32)).0 + done;
        Some(start..start + PIECE.min(self.layout.unit_bytes().0 - done))
    }

    /// The bytes that `next` named are there.
    pub(super) fn copied(&mut self, bytes: u64) {
        let (unit, done) = self.next;
        (self.filled, self.unsaved) = (self.filled + bytes, self.unsaved + bytes);
        self.next = (unit, done + bytes);
        if self.next.1 == self.layout.unit_bytes().0 {
            self.lacking[unit] = false;
            self.units -= 1;
            self.next = (unit + 1, 0);
        }
    }

    /// Whether a label is to say what was copied by now; if so, [`Fill::saved`] has it.
    pub(super) fn wants_label(&mut self) -> bool {
        let due = self.units == 0 || self.unsaved >= SAVE;
        if due {
            self.save();
        }
        due
    }

    /// Whether nothing is lacking any more.
    pub(super) fn is_over(&self) -> bool {
        self.units == 0
    }

    /// A label is to say what was copied by now.
    pub(super) fn save(&mut self) {
        self.saved.clone_from(&self.lacking);
        self.unsaved = 0;
    }
}
