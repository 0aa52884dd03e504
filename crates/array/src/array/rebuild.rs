//! Progress of filling a member, and the next bytes to compute.

use std::ops::Range;

use thermocline_format::RaidShape;
use thermocline_types::Bytes;

use super::pace::Pace;

/// Bytes computed or copied at once. Chosen, not measured: a common size of one drive command. Tests use a small size,
/// for many steps per unit.
pub(super) const PIECE: u64 = if cfg!(test) { 3 * SMALLEST } else { 1 << 20 };

/// Bytes to fill between two labels, and the most to compute again after a crash. Chosen, not measured.
const SAVE: u64 = 1 << 30;

/// The smallest part to retry after an error: a block of the engine.
const SMALLEST: u64 = 4096;

/// Progress of filling a member.
#[derive(Debug)]
pub(super) struct Rebuild {
    /// Units on the member, from the first on.
    filled: u32,
    /// Bytes of the next unit that were requested.
    done: u64,
    /// Parts of the next unit to compute again, the last part first.
    again: Vec<Range<u64>>,
    /// Units that the newest label reports.
    saved: u32,
    /// Bytes filled since the newest label.
    unsaved: u64,
    pub(super) pace: Pace,
    /// Bytes filled since the group was opened.
    made: u64,
    /// Whether filling stopped: a source member is gone.
    stopped: bool,
}

impl Rebuild {
    /// Progress of a member with `filled` units.
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

    /// Stops filling: a source member is gone. The remaining bytes stay lacking.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether the member holds a unit.
    pub(super) fn has(&self, unit: u32) -> bool {
        unit < self.filled
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
        let units = u64::from(shape.units.saturating_sub(self.filled));
        Bytes((units * shape.strip()).saturating_sub(self.done))
    }

    /// The next bytes to compute: the unit, and the range of its strip.
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

    /// Counts bytes that were written or cannot be computed.
    pub(super) fn computed(&mut self, bytes: u64, shape: &RaidShape) {
        (self.made, self.unsaved) = (self.made + bytes, self.unsaved + bytes);
        if self.again.is_empty() && self.done == shape.strip() {
            (self.filled, self.done) = (self.filled + 1, 0);
        }
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
        self.filled >= shape.units
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
        (self.saved, self.unsaved) = (self.filled, 0);
    }
}
