//! Progress of filling a member, and the next bytes to compute.

use std::collections::BTreeMap;
use std::ops::Range;

use thermocline_format::RaidShape;
use thermocline_types::{Bytes, Time};

use super::pace::Pace;
use crate::bugs::{self, ArrayBug};

/// Bytes computed or copied at once. Chosen, not measured: a common size of one drive command. Tests use a small size,
/// for many steps per unit.
pub(super) const PIECE: u64 = if cfg!(test) { 3 * SMALLEST } else { 1 << 20 };

/// Bytes to fill between two labels, and the most to compute again after a crash. Chosen, not measured.
const SAVE: u64 = 1 << 30;

/// The smallest part to retry after an error: a block of the engine.
const SMALLEST: u64 = 4096;

/// Unreadable places in a row after which filling rests: a source may fail every read. Chosen, not measured.
const FAILED: u32 = 256;

/// Nanoseconds until unreadable places are tried again. Chosen, not measured.
const RETRY: u64 = 60_000_000_000;

/// Progress of filling a member.
#[derive(Debug)]
pub(super) struct Rebuild {
    /// Units that were computed, from the first on.
    computed: u32,
    /// Computed units with holes: bytes that the other members could not give. They are computed again.
    holes: BTreeMap<u32, u64>,
    /// The unit with a hole that is being computed again.
    again_in: Option<u32>,
    /// Units below this one were tried again in this pass over the holes.
    tried: u32,
    /// Bytes of the current unit that were requested.
    done: u64,
    /// Bytes of the current unit that could not be computed.
    lost: u64,
    /// Parts of the current unit to compute again, the last part first.
    again: Vec<Range<u64>>,
    /// Units that the newest label reports.
    saved: u32,
    /// Bytes filled since the newest label.
    unsaved: u64,
    pub(super) pace: Pace,
    /// Bytes filled since the group was opened.
    made: u64,
    /// Places that could not be computed since the group was opened, and those since the last computed place.
    failed: (u64, u32),
    /// Whether filling stopped: a source member is gone.
    stopped: bool,
}

impl Rebuild {
    /// Progress of a member with `filled` units.
    pub(super) fn new(filled: u32, rate: Option<u64>) -> Rebuild {
        Rebuild {
            computed: filled,
            holes: BTreeMap::new(),
            again_in: None,
            tried: 0,
            done: 0,
            lost: 0,
            again: Vec::new(),
            saved: filled,
            unsaved: 0,
            pace: Pace::new(rate),
            made: 0,
            failed: (0, 0),
            stopped: false,
        }
    }

    /// The member holds nothing.
    pub(super) fn begin_again(&mut self) {
        (self.computed, self.done, self.lost, self.saved, self.unsaved) = (0, 0, 0, 0, 0);
        (self.again_in, self.tried) = (None, 0);
        self.holes.clear();
        self.again.clear();
        self.stopped = false;
    }

    /// Stops filling: a source member is gone. The remaining bytes stay lacking.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether the member holds a unit.
    pub(super) fn has(&self, unit: u32) -> bool {
        unit < self.computed && !self.holes.contains_key(&unit)
    }

    /// A unit was emptied on the member, so nothing lacks there.
    pub(super) fn emptied(&mut self, unit: u32) {
        self.holes.remove(&unit);
        if self.again_in == Some(unit) {
            (self.again_in, self.done, self.lost) = (None, 0, 0);
            self.again.clear();
        }
    }

    /// Units on the member, for the next label.
    pub(super) fn saved(&self) -> u32 {
        self.saved
    }

    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Bytes that the member lacks.
    pub(super) fn lacking(&self, shape: &RaidShape) -> Bytes {
        let units = u64::from(shape.units.saturating_sub(self.computed));
        let done = if self.again_in.is_none() { self.done } else { 0 };
        Bytes((units * shape.strip()).saturating_sub(done) + self.holes().0)
    }

    /// Bytes that the other members could not give.
    pub(super) fn holes(&self) -> Bytes {
        let again = self.again_in.is_some();
        Bytes(self.holes.values().sum::<u64>() + if again { 0 } else { self.lost })
    }

    /// The next bytes to compute: the unit, and the range of its strip. Behind the last unit, units with holes are
    /// computed again. Behind the last of these units, filling rests.
    pub(super) fn next(&mut self, shape: &RaidShape, now: Time) -> Option<(u32, Range<u64>)> {
        if let Some(range) = self.again.pop() {
            return Some((self.unit(), range));
        }
        if self.again_in.is_none() && self.computed >= shape.units {
            let Some((&unit, _)) = self.holes.range(self.tried..).next() else {
                self.tried = 0;
                self.pace.rest(RETRY, now);
                return None;
            };
            (self.again_in, self.tried) = (Some(unit), unit + 1);
        }
        let (start, end) = (self.done, (self.done + PIECE).min(shape.strip()));
        self.done = end;
        Some((self.unit(), start..end))
    }

    /// The unit that is being computed.
    fn unit(&self) -> u32 {
        self.again_in.unwrap_or(self.computed)
    }

    /// Counts bytes that were written.
    pub(super) fn computed(&mut self, bytes: u64, shape: &RaidShape) {
        (self.made, self.unsaved) = (self.made + bytes, self.unsaved + bytes);
        self.failed.1 = 0;
        self.end_unit(shape);
    }

    /// Counts bytes that cannot be computed. Returns the number of such places so far.
    pub(super) fn failed(&mut self, bytes: u64, shape: &RaidShape, now: Time) -> u64 {
        self.lost += bytes;
        self.failed = (self.failed.0 + 1, self.failed.1 + 1);
        if self.failed.1 >= FAILED {
            self.failed.1 = 0;
            self.pace.rest(RETRY, now);
        }
        self.end_unit(shape);
        self.failed.0
    }

    /// Goes to the next unit, if all parts of the current one were tried.
    fn end_unit(&mut self, shape: &RaidShape) {
        if !self.again.is_empty() || self.done < shape.strip() {
            return;
        }
        let unit = self.unit();
        match std::mem::take(&mut self.lost) {
            0 => _ = self.holes.remove(&unit),
            lost => _ = self.holes.insert(unit, lost),
        }
        if self.again_in.take().is_none() {
            self.computed += 1;
        }
        self.done = 0;
    }

    /// Splits bytes that could not be computed. Returns whether smaller parts are tried.
    pub(super) fn cut(&mut self, range: &Range<u64>) -> bool {
        let blocks = (range.end - range.start).div_ceil(SMALLEST);
        if blocks < 2 {
            return false;
        }
        let middle = range.start + blocks / 2 * SMALLEST;
        self.again.extend([middle..range.end, range.start..middle]);
        true
    }

    /// Whether the member holds all units.
    pub(super) fn is_over(&self, shape: &RaidShape) -> bool {
        let holes = !self.holes.is_empty() && !bugs::has(ArrayBug::HolesFilled);
        self.computed >= shape.units && !holes
    }

    /// Whether a label is due to record the progress. If due, [`Rebuild::saved`] returns this progress from now on.
    pub(super) fn wants_label(&mut self, shape: &RaidShape) -> bool {
        let due = self.is_over(shape) || self.unsaved >= SAVE;
        if due {
            self.save();
        }
        due
    }

    /// Takes the current progress for the next label.
    pub(super) fn save(&mut self) {
        let before = self.holes.keys().next().copied().unwrap_or(self.computed);
        (self.saved, self.unsaved) = (before, 0);
    }
}
