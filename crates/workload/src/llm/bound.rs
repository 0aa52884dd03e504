//! How many hits so many writes to flash can give at most.

use super::lru::Lru;
use super::{Prompt, Prompts};

/// An upper bound for every rule that leaves DRAM as it is: the blocks used last, those on flash among them.
///
/// A hit on flash is a use of a block that DRAM misses, after a write of the block. So hits on flash are at most the
/// later misses of the blocks written. The bound takes the blocks with the most such misses: the future is known, the
/// flash tier has room for all blocks, and each is written once and in time. The bound does not hold for
/// [`Admission::Probation`](super::Admission::Probation), whose DRAM has other blocks.
#[derive(Clone, Debug)]
pub struct HitBound {
    /// Hits in DRAM.
    pub dram_hits: u64,
    /// Hits on flash by number of blocks written, from none.
    flash_hits: Vec<u64>,
}

impl HitBound {
    /// The bound for the whole trace, with so many blocks of DRAM.
    #[must_use]
    pub fn new(prompts: &Prompts, dram_blocks: usize) -> HitBound {
        let mut dram = Lru::new(prompts.distinct);
        let mut misses = vec![0_u64; prompts.distinct];
        let mut dram_hits = 0;
        for &block in prompts.all.iter().flat_map(|Prompt { blocks, .. }| blocks) {
            if dram.contains(block) {
                dram_hits += 1;
                dram.touch(block);
                continue;
            }
            misses[block as usize] += 1;
            dram.push(block);
            if dram.len() > dram_blocks {
                dram.pop();
            }
        }
        misses.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = 0;
        let later = misses.iter().map(|&misses| {
            sum += misses - 1;
            sum
        });
        let flash_hits = std::iter::once(0).chain(later).collect();
        HitBound { dram_hits, flash_hits }
    }

    /// Hits of both tiers with at most so many blocks written.
    #[must_use]
    pub fn hits(&self, writes: u64) -> u64 {
        self.dram_hits + self.flash_hits[(writes as usize).min(self.flash_hits.len() - 1)]
    }

    /// The fewest blocks written that can give so many hits, if any number can.
    #[must_use]
    pub fn writes(&self, hits: u64) -> Option<u64> {
        let wanted = hits.saturating_sub(self.dram_hits);
        let writes = self.flash_hits.partition_point(|&hits| hits < wanted);
        (writes < self.flash_hits.len()).then_some(writes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Admission, BUILT_IN, Sizes, Tiers};

    #[test]
    fn no_rule_that_leaves_dram_as_it_is_beats_the_bound() {
        let prompts = Prompts::open(BUILT_IN).unwrap();
        let [dram, flash] = [5, 20].map(|percent| prompts.distinct * percent / 100);
        let bound = HitBound::new(&prompts, dram);
        let rules = ["all", "first", "second", "evicted", "evicted-twice", "frequency", "distance"];
        for rule in rules.iter().chain(&["budget:40"]) {
            let rule: Admission = rule.parse().unwrap();
            let mut tiers = Tiers::new(rule, Sizes { dram, flash }, prompts.distinct);
            prompts.all.iter().for_each(|prompt| tiers.serve(prompt, &mut |_| ()));
            let counts = tiers.counts();
            assert_eq!(counts.dram_hits, bound.dram_hits, "{rule}");
            assert!(counts.hits() <= bound.hits(counts.writes), "{rule}");
            assert!(bound.writes(counts.hits()).unwrap() <= counts.writes, "{rule}");
        }
        assert_eq!(bound.writes(u64::MAX), None);
        assert_eq!(bound.hits(0), bound.dram_hits);
    }
}
