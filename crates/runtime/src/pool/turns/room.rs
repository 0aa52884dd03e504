//! Who takes up the room of the write cache: when little is left, each volume its share of it.
//!
//! What waits longest is written first, and stays about as long whosever it is. So volumes write in proportion to the
//! room that they take up (Little, Operations Research 1961), however many requests each has in flight.

use std::collections::{BTreeMap, VecDeque};

use super::Line;

/// The room, and whose writes take it up.
#[derive(Debug)]
pub(super) struct Room {
    /// Volumes and blocks of their writes, in the order in which they were handed on.
    writes: VecDeque<(u32, u64)>,
    /// Blocks of all these.
    held: u64,
    /// Blocks that there is room for.
    most: u64,
    /// Shares of the volumes that take up any.
    shares: u64,
}

impl Default for Room {
    /// Any, as long as it is not known.
    fn default() -> Room {
        Room { writes: VecDeque::new(), held: 0, most: u32::MAX.into(), shares: 0 }
    }
}

impl Room {
    /// Of `most` blocks `held` are taken up now: what was handed on first is on media.
    pub(super) fn is<J>(&mut self, held: u64, most: u64, lines: &mut BTreeMap<u32, Line<J>>) {
        self.most = most;
        while self.held > held
            && let Some((volume, blocks)) = self.writes.front_mut()
        {
            let left = (self.held - held).min(*blocks);
            (*blocks, self.held) = (*blocks - left, self.held - left);
            if let Some(line) = lines.get_mut(volume) {
                self.shares -= if line.held == left { line.share } else { 0 };
                line.held -= left;
            }
            if *blocks == 0 {
                self.writes.pop_front();
            }
        }
    }

    /// Whether little room is left, and a volume takes up its share.
    pub(super) fn is_used_up_by<J>(&self, line: &Line<J>) -> bool {
        self.held > self.most / 4 * 3 && line.held * self.shares >= self.most * line.share
    }

    /// A write of `blocks` blocks is handed on.
    pub(super) fn take<J>(&mut self, volume: u32, line: &mut Line<J>, blocks: u64) {
        if blocks > 0 {
            self.shares += if line.held == 0 { line.share } else { 0 };
            line.held += blocks;
            self.held += blocks;
            self.writes.push_back((volume, blocks));
        }
    }

    /// The write that was handed on last was not taken.
    pub(super) fn give_back<J>(&mut self, line: &mut Line<J>, blocks: u64) {
        if blocks > 0 {
            line.held -= blocks;
            self.held -= blocks;
            self.shares -= if line.held == 0 { line.share } else { 0 };
            self.writes.pop_back();
        }
    }

    /// A volume has other shares from now on; none once it was deleted.
    pub(super) fn share_changes<J>(&mut self, line: &mut Line<J>, share: u64) {
        if line.held > 0 {
            self.shares = self.shares - line.share + share;
        }
        line.share = share;
    }
}
