//! Shares of the requests that the engine takes at once. Shares apply when few more requests fit.
//!
//! An eighth of the requests is kept free. A volume that comes later need not wait for the end of a thousand flushes of
//! another volume.

use super::Line;

/// Requests in the engine, counted by volume.
#[derive(Debug)]
pub(super) struct Slots {
    held: u64,
    /// How many it takes.
    most: u64,
    /// Shares of the volumes that have any.
    shares: u64,
}

impl Default for Slots {
    /// Any number, as long as it is not known.
    fn default() -> Slots {
        Slots { held: 0, most: u32::MAX.into(), shares: 0 }
    }
}

impl Slots {
    /// The engine takes `most` at once.
    pub(super) fn are(&mut self, most: u64) {
        self.most = most;
    }

    /// Whether few are left, and a volume has its share.
    pub(super) fn are_used_up_by<J>(&self, line: &Line<J>) -> bool {
        let dealt = self.most - self.most / 8;
        self.held > self.most / 2 && line.slots * self.shares >= dealt * line.share
    }

    /// A request of a volume is handed on.
    pub(super) fn take<J>(&mut self, line: &mut Line<J>) {
        self.shares += if line.slots == 0 { line.share } else { 0 };
        line.slots += 1;
        self.held += 1;
    }

    /// A request of a volume has ended, or was not taken.
    pub(super) fn give_back<J>(&mut self, line: &mut Line<J>) {
        line.slots -= 1;
        self.held -= 1;
        self.shares -= if line.slots == 0 { line.share } else { 0 };
    }

    /// The shares of a volume change to `share`.
    pub(super) fn share_changes<J>(&mut self, line: &Line<J>, share: u64) {
        if line.slots > 0 {
            self.shares = self.shares - line.share + share;
        }
    }
}
