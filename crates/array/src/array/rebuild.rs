//! What the member lacks that is being filled, and when the next piece of it is computed.

use std::ops::Range;

use thermocline_format::RaidShape;
use thermocline_types::Bytes;

use super::pace::Pace;

/// Bytes that are computed or copied at once. Chosen, not measured: what drives commonly take in one command; in tests,
/// so that much happens in between.
pub(super) const PIECE: u64 = if cfg!(test) { 3 * SMALLEST } else { 1 << 20 };

/// Bytes that are computed before a label says so: what is computed again at most after a crash. Chosen, not measured.
const SAVE: u64 = 1 << 30;

/// What is not cut any further when it cannot be computed: a block of the engine.
const SMALLEST: u64 = 4096;

/// Progress of filling a member.
#[derive(Debug)]
pub(super) struct Rebuild {
    /// Units that it holds, from the first on.
    filled: u32,
    /// Bytes of the next one that were computed.
    done: u64,
    /// Parts of those that have to be tried again, the last one first.
    again: Vec<Range<u64>>,
    /// What the newest label says.
    saved: u32,
    /// Bytes that were computed since.
    unsaved: u64,
    pub(super) pace: Pace,
    /// Bytes that were computed since the group was opened.
    made: u64,
    /// Whether a member is gone that bytes are computed from.
    stopped: bool,
}

impl Rebuild {
    /// Of a member that holds so many units.
    pub(super) fn new(filled: u32, rate: Option<u64>) -> Rebuild {
        let (done, again, unsaved, made) = (0, Vec::new(), 0, 0);
        let (pace, stopped) = (Pace::new(rate), false);
        Rebuild { filled, done, again, saved: filled, unsaved, pace, made, stopped }
    }

    /// The member holds nothing.
    pub(super) fn begin_again(&mut self) {
        (self.filled, self.done, self.saved, self.unsaved) = (0, 0, 0, 0);
        self.again.clear();
        self.stopped = false;
    }

    /// A member is gone that bytes are computed from: these bytes and all later ones stay lacking.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether it holds a unit.
    pub(super) fn has(&self, unit: u32) -> bool {
        unit < self.filled
    }

    /// Units that it holds, as a label is to say.
    pub(super) fn saved(&self) -> u32 {
        self.saved
    }

    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Bytes that it lacks.
    pub(super) fn lacking(&self, shape: &RaidShape) -> Bytes {
        let units = u64::from(shape.units.saturating_sub(self.filled));
        Bytes((units * shape.strip()).saturating_sub(self.done))
    }

    /// The next bytes to be computed: the unit, and where in its strip.
    pub(super) fn next(&mut self, shape: &RaidShape) -> Option<(u32, Range<u64>)> {
        if let Some(range) = self.again.pop() {
            return Some((self.filled, range));
        }
        if self.filled >= shape.units {
            return None;
        }
        let (start, end) = (self.done, (self.done + PIECE).min(shape.strip()));
        self.done = end;
        Some((self.filled, start..end))
    }

    /// These bytes are there, or cannot be had.
    pub(super) fn computed(&mut self, bytes: u64, shape: &RaidShape) {
        (self.made, self.unsaved) = (self.made + bytes, self.unsaved + bytes);
        if self.again.is_empty() && self.done == shape.strip() {
            (self.filled, self.done) = (self.filled + 1, 0);
        }
    }

    /// These bytes could not be computed. Returns whether smaller parts of them are tried.
    pub(super) fn cut(&mut self, range: &Range<u64>) -> bool {
        let blocks = (range.end - range.start).div_ceil(SMALLEST);
        if blocks < 2 {
            return false;
        }
        let middle = range.start + blocks / 2 * SMALLEST;
        self.again.extend([middle..range.end, range.start..middle]);
        true
    }

    /// Whether it holds everything.
    pub(super) fn is_over(&self, shape: &RaidShape) -> bool {
        self.filled >= shape.units
    }

    /// Whether a label is to say what there is by now; if so, [`Rebuild::saved`] has it.
    pub(super) fn wants_label(&mut self, shape: &RaidShape) -> bool {
        let due = self.is_over(shape) || self.unsaved >= SAVE;
        if due {
            self.save();
        }
        due
    }

    /// A label is to say what there is by now.
    pub(super) fn save(&mut self) {
        (self.saved, self.unsaved) = (self.filled, 0);
    }
}
