//! fio's random order with a random map: each block once in a pass.

use thermocline_types::{Op, Rng};

use super::select::Select;

/// Passes over blocks in fio's order: a random block, or else the next one that the pass has not written.
#[derive(Clone, Debug)]
pub struct RandomMap {
    /// For each block, one at or after it that may be unwritten; the number of blocks stands for none.
    next: Vec<u32>,
    left: u64,
}

impl RandomMap {
    /// Most blocks of a pass.
    pub const MOST: u64 = u32::MAX as u64;

    /// A first pass over `blocks` blocks.
    ///
    /// # Panics
    /// With no block, or more than [`Self::MOST`].
    #[must_use]
    pub fn new(blocks: u64) -> RandomMap {
        assert!((1..=Self::MOST).contains(&blocks), "{blocks} blocks");
        RandomMap { next: (0..=blocks as u32).collect(), left: blocks }
    }

    /// The next block.
    pub fn next(&mut self, rng: &mut Rng) -> u64 {
        let blocks = self.next.len() as u64 - 1;
        if self.left == 0 {
            self.next.clear();
            self.next.extend(0..=blocks as u32);
            self.left = blocks;
        }
        let mut found = self.unwritten(rng.below(blocks) as u32);
        if u64::from(found) == blocks {
            found = self.unwritten(0);
        }
        self.next[found as usize] = found + 1;
        self.left -= 1;
        found.into()
    }

    fn unwritten(&mut self, mut at: u32) -> u32 {
        while self.next[at as usize] != at {
            let further = self.next[self.next[at as usize] as usize];
            self.next[at as usize] = further;
            at = further;
        }
        at
    }
}

impl Select for RandomMap {
    /// Writes follow the map; reads and trims go anywhere.
    fn next(&mut self, op: Op, rng: &mut Rng) -> u64 {
        match op {
            Op::Write => RandomMap::next(self, rng),
            _ => rng.below(self.next.len() as u64 - 1),
        }
    }
}
