//! Occupancy of the write cache by volume. When room is short, each volume is limited to its share.
//!
//! The cache writes the oldest data first, so residence times are about equal for all volumes. So volumes write in
//! proportion to their room (Little, Operations Research 1961), independent of their requests in flight.

use std::collections::{BTreeMap, VecDeque};

use super::Line;

/// The room, and its use by volume.
#[derive(Debug)]
pub(super) struct Room {
    /// Volumes and block counts of writes, in the order of submission.
    writes: VecDeque<(u32, u64)>,
    /// Blocks in `writes`.
    held: u64,
    /// Room in blocks.
    most: u64,
    /// Sum of shares of the volumes with blocks in the room.
    shares: u64,
}

impl Default for Room {
    /// Unlimited until known.
    fn default() -> Room {
        Room { writes: VecDeque::new(), held: 0, most: u32::MAX.into(), shares: 0 }
    }
}

impl Room {
    /// Sets the room to `most` blocks, `held` of them in use. The oldest writes beyond `held` have reached media.
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

    /// Sets the share of a volume; 0 for a deleted volume.
    pub(super) fn share_changes<J>(&mut self, line: &mut Line<J>, share: u64) {
        if line.held > 0 {
            self.shares = self.shares - line.share + share;
        }
        line.share = share;
    }
}
