//! DRAM over flash.
//!
//! A request needs its blocks in order. A block in DRAM or on flash is a hit; a missing block is computed and put into
//! DRAM. [`Admission`] decides about flash. Both tiers evict the block used longest ago. Writes to flash count as uses
//! of the flash tier, hits in DRAM do not.
//!
//! Slots of the flash tier are taken in order. When the tier is full, the new block takes the slot of the evicted one.
//! CacheCounts of uses are kept for every block of the trace, also for those in no tier.

use thermocline_types::Time;

use super::lru::Lru;
use super::rule::PROBATION_SHARE;
use super::{Admission, Prompt, PromptBlock};

/// Blocks that each tier holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Of DRAM.
    pub dram: usize,
    /// Of flash, at least 1.
    pub flash: usize,
}

/// What happens to a slot of the flash tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its block is deleted.
    Delete {
        /// The slot, below the size of the tier.
        slot: u32,
    },
    /// A block is written.
    Write {
        /// The slot, below the size of the tier.
        slot: u32,
        /// Uses of the block so far.
        uses: u16,
    },
    /// Its block is read.
    Read {
        /// The slot, below the size of the tier.
        slot: u32,
    },
}

/// What was counted, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Uses of blocks.
    pub references: u64,
    /// Uses that DRAM served.
    pub dram_hits: u64,
    /// Uses that flash served.
    pub flash_hits: u64,
    /// Blocks written to flash.
    pub writes: u64,
    /// First uses.
    pub fresh: u64,
}

impl CacheCounts {
    /// Hits of both tiers.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.dram_hits + self.flash_hits
    }

    /// CacheCounts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &CacheCounts) -> CacheCounts {
        CacheCounts {
            references: self.references - earlier.references,
            dram_hits: self.dram_hits - earlier.dram_hits,
            flash_hits: self.flash_hits - earlier.flash_hits,
            writes: self.writes - earlier.writes,
            fresh: self.fresh - earlier.fresh,
        }
    }
}

/// Seconds for which an unused budget is kept. Chosen.
const BUDGET_SECONDS: f64 = 60.0;

/// Both tiers at work.
#[derive(Clone, Debug)]
pub struct Tiers {
    rule: Admission,
    sizes: Sizes,
    distinct: usize,
    dram: Lru,
    flash: Lru,
    /// Slot of each block that is on flash.
    slots: Vec<u32>,
    uses: Vec<u16>,
    /// First uses of blocks before the last use of each.
    last: Vec<u32>,
    /// Decayed uses of each block.
    scores: Vec<f32>,
    /// Blocks that may be written: of a budget, or of the share of [`Admission::Probation`].
    credit: f64,
    now: Time,
    counts: CacheCounts,
}

impl Tiers {
    /// Empty tiers for a trace of `distinct` blocks.
    ///
    /// # Panics
    /// If the flash tier holds no block.
    #[must_use]
    pub fn new(rule: Admission, sizes: Sizes, distinct: usize) -> Tiers {
        assert!(sizes.flash > 0, "a flash tier holds a block at least");
        let ids = distinct + sizes.dram + sizes.flash;
        Tiers {
            rule: if rule == Admission::Probation {
                Admission::ProbationWith(PROBATION_SHARE)
            } else {
                rule
            },
            sizes,
            distinct,
            dram: Lru::new(ids),
            flash: Lru::new(ids),
            slots: vec![0; ids],
            uses: vec![0; ids],
            last: vec![0; ids],
            scores: vec![0.0; ids],
            credit: 0.0,
            now: Time::ZERO,
            counts: CacheCounts::default(),
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Serves `prompt`; `see` hears what happens to the flash tier, in order.
    pub fn serve(&mut self, prompt: &Prompt, see: &mut impl FnMut(Change)) {
        if let Admission::Budget(fills) = self.rule {
            let rate = fills * self.sizes.flash as f64 / 86_400.0;
            let passed = prompt.at.since(self.now).as_secs_f64();
            self.credit = (self.credit + passed * rate).min(rate * BUDGET_SECONDS);
        }
        self.now = prompt.at;
        let whole = prompt.blocks.len() - usize::from(prompt.partial);
        for (index, &block) in prompt.blocks.iter().enumerate() {
            let at = block as usize;
            self.counts.references += 1;
            self.uses[at] = self.uses[at].saturating_add(1);
            if let Admission::ProbationWith(share) = self.rule {
                self.on_probation(block, index < whole, share, see);
            } else {
                self.inclusive(block, see);
            }
            self.counts.fresh += u64::from(self.uses[at] == 1);
            self.last[at] = self.counts.fresh as u32;
        }
    }

    /// Blocks of flash are in DRAM too after a use.
    fn inclusive(&mut self, block: PromptBlock, see: &mut impl FnMut(Change)) {
        let missed = !self.dram.contains(block) && !self.flash.contains(block);
        if self.dram.contains(block) {
            self.dram.touch(block);
            self.counts.dram_hits += 1;
        } else {
            if !missed {
                self.read(block, see);
            }
            self.dram.push(block);
            if self.dram.len() > self.sizes.dram {
                self.evict(see);
            }
        }
        if !self.flash.contains(block) && self.admits(block, missed) {
            self.write(block, see);
        }
    }

    /// Blocks are either in DRAM or on flash.
    fn on_probation(
        &mut self,
        block: PromptBlock,
        whole: bool,
        share: f64,
        see: &mut impl FnMut(Change),
    ) {
        if self.flash.contains(block) {
            return self.read(block, see);
        }
        if self.dram.contains(block) {
            self.dram.remove(block);
            self.counts.dram_hits += 1;
        }
        if self.uses[block as usize] > 1 {
            return self.write(block, see);
        }
        if !whole || self.sizes.dram == 0 {
            return;
        }
        self.dram.push(block);
        if self.dram.len() > self.sizes.dram {
            let evicted = self.dram.pop().expect("it holds a block");
            self.credit += share;
            if self.credit >= 1.0 {
                self.credit -= 1.0;
                self.write(evicted, see);
            }
        }
    }

    fn evict(&mut self, see: &mut impl FnMut(Change)) {
        let block = self.dram.pop().expect("it holds a block");
        let admitted = match self.rule {
            Admission::Evicted => true,
            Admission::EvictedTwice => self.uses[block as usize] > 1,
            _ => false,
        };
        if admitted && !self.flash.contains(block) {
            self.write(block, see);
        }
    }

    /// Whether a block that is not on flash is written at this use.
    fn admits(&mut self, block: PromptBlock, missed: bool) -> bool {
        let uses = self.uses[block as usize];
        match self.rule {
            Admission::All => missed,
            Admission::First => uses == 1,
            Admission::Second => uses > 1,
            Admission::Frequency(fills) => self.score(block, fills) >= 1.5,
            Admission::Distance => uses > 1 && self.between(block),
            Admission::Budget(_) if missed && self.credit >= 1.0 => {
                self.credit -= 1.0;
                true
            }
            _ => false,
        }
    }

    /// Uses of `block`, halved for each `fills` times the flash tier that was computed since.
    fn score(&mut self, block: PromptBlock, fills: f64) -> f64 {
        let at = block as usize;
        let since = self.counts.fresh as f64 - f64::from(self.last[at]);
        let half = fills * self.sizes.flash as f64;
        let score = f64::from(self.scores[at]) * (-since / half).exp2() + 1.0;
        self.scores[at] = score as f32;
        score
    }

    /// Whether `block` came back later than DRAM keeps it and not later than flash keeps it.
    fn between(&self, block: PromptBlock) -> bool {
        let since = self.counts.fresh as f64 - f64::from(self.last[block as usize]);
        let writes_per_fresh = self.counts.writes.max(1) as f64 / self.counts.fresh.max(1) as f64;
        let kept = self.sizes.flash as f64 / writes_per_fresh.min(1.0);
        (self.sizes.dram as f64 / 2.0..kept).contains(&since)
    }

    fn read(&mut self, block: PromptBlock, see: &mut impl FnMut(Change)) {
        self.flash.touch(block);
        self.counts.flash_hits += 1;
        see(Change::Read { slot: self.slots[block as usize] });
    }

    fn write(&mut self, block: PromptBlock, see: &mut impl FnMut(Change)) {
        let mut slot = self.flash.len() as u32;
        if self.flash.len() == self.sizes.flash {
            let evicted = self.flash.pop().expect("it holds a block");
            slot = self.slots[evicted as usize];
            see(Change::Delete { slot });
        }
        self.flash.push(block);
        self.slots[block as usize] = slot;
        self.counts.writes += 1;
        see(Change::Write { slot, uses: self.uses[block as usize] });
    }

    /// Begins another pass whose blocks are others than those of the passes before. What the tiers hold stays, and is
    /// never used again.
    pub fn next_pass(&mut self) {
        let dram: Vec<PromptBlock> = std::iter::from_fn(|| self.dram.pop()).collect();
        let flash: Vec<(PromptBlock, u32, u16)> = std::iter::from_fn(|| self.flash.pop())
            .map(|block| (block, self.slots[block as usize], self.uses[block as usize]))
            .collect();
        let mut names = std::collections::HashMap::new();
        let mut name = |block| {
            let next = (self.distinct + names.len()) as PromptBlock;
            *names.entry(block).or_insert(next)
        };
        let dram: Vec<(PromptBlock, u16)> =
            dram.into_iter().map(|block| (name(block), self.uses[block as usize])).collect();
        let flash: Vec<_> =
            flash.into_iter().map(|(block, slot, uses)| (name(block), slot, uses)).collect();
        self.uses.fill(0);
        self.last.fill(0);
        self.scores.fill(0.0);
        for (block, uses) in dram {
            self.dram.push(block);
            self.uses[block as usize] = uses;
        }
        for (block, slot, uses) in flash {
            self.flash.push(block);
            (self.slots[block as usize], self.uses[block as usize]) = (slot, uses);
        }
        self.now = Time::ZERO;
    }
}

#[cfg(test)]
mod tests;
