//! A zoned drive's zones under random updates: which are collected, and how full they are then. No time, no headers.
//!
//! All zones but a few begin written to their end, with holes at random, at the stated utilisation. They are as many
//! as the document's, and smaller: utilisations do not depend on their size.

use thermocline_types::Rng;

/// Zones, about as many as the document's prototype of 1 TB has.
pub const ZONES: u32 = 1024;
/// Blocks of a zone of 64 MiB.
pub const ZONE_BLOCKS: u32 = 16_384;
/// Blocks of a segment of 2 MiB.
const SEGMENT_BLOCKS: u32 = 512;
/// Zones free at the start, and zones kept free by collection. Chosen.
const FREE: u32 = 16;
const RESERVE: usize = 4;
/// Marks a slot that was never written or was invalid from the start, and a block without a slot.
const NOTHING: u32 = u32::MAX;

/// Where survivors go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// To where the host writes.
    Basic,
    /// To levels: survivors of new data count as cold if their segment's share of valid blocks exceeds this threshold.
    Lsm(f64),
}

/// Levels of LSM_ZGC: new data, its survivors by how full their segment was, and survivors of those.
const C0: usize = 0;
const C1_HOT: usize = 1;
const C1_COLD: usize = 2;
const C2: usize = 3;

/// What is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// Every block as often as any other.
    Uniform,
    /// 70 % of the updates go to 30 % of the blocks.
    Skewed,
}

/// Where blocks that are updated often lie at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hot {
    /// Scattered at random among cold data.
    Mixed,
    /// In zones of their own.
    Together,
}

/// How a population begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Zones.
    pub zones: u32,
    /// Blocks of each.
    pub zone_blocks: u32,
    /// Share of valid blocks in each of the zones that are written.
    pub utilisation: f64,
    /// Where blocks that are updated often lie.
    pub hot: Hot,
    /// Seed of all randomness.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    level: usize,
    written: u32,
    valid: u32,
}

/// Zones at work.
pub struct Population {
    zone_blocks: u32,
    scheme: Scheme,
    updates: Updates,
    zones: Vec<Zone>,
    free: Vec<u32>,
    /// The zone that each level writes to.
    open: [Option<u32>; 4],
    /// Where each block is.
    map: Vec<u32>,
    /// Which block was written to each slot.
    slots: Vec<u32>,
    rng: Rng,
    victims: Vec<f64>,
    /// Survivors by the level they went to.
    survivors: [u64; 4],
}

impl Population {
    /// Zones that begin as `start` says.
    pub fn new(start: Start, scheme: Scheme, updates: Updates) -> Population {
        let mut rng = Rng::new(start.seed);
        let full = start.zones - FREE;
        let all = u64::from(full) * u64::from(start.zone_blocks);
        let blocks = (all as f64 * start.utilisation).round() as u64;
        let mut order: Vec<u32> = (0..blocks as u32).collect();
        if start.hot == Hot::Mixed {
            for at in (1..order.len()).rev() {
                order.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        let empty = Zone { level: C0, written: 0, valid: 0 };
        let mut population = Population {
            zone_blocks: start.zone_blocks,
            scheme,
            updates,
            zones: vec![empty; start.zones as usize],
            free: (full..start.zones).collect(),
            open: [None; 4],
            map: vec![NOTHING; blocks as usize],
            slots: vec![NOTHING; start.zones as usize * start.zone_blocks as usize],
            rng,
            victims: Vec::new(),
            survivors: [0; 4],
        };
        population.fill(&order, all);
        population
    }

    /// Puts the blocks of `order` into the first `all` slots, the holes between them at random.
    fn fill(&mut self, order: &[u32], all: u64) {
        let mut next = 0;
        for slot in 0..all {
            let zone = &mut self.zones[(slot / u64::from(self.zone_blocks)) as usize];
            zone.written += 1;
            if self.rng.below(all - slot) < (order.len() - next) as u64 {
                let block = order[next];
                next += 1;
                zone.valid += 1;
                self.map[block as usize] = slot as u32;
                self.slots[slot as usize] = block;
            }
        }
    }

    /// Updates blocks until `collections` zones have been collected.
    pub fn run(&mut self, collections: usize) {
        let blocks = self.map.len() as u64;
        let hot = blocks * 3 / 10;
        while self.victims.len() < collections {
            let block = match self.updates {
                Updates::Uniform => self.rng.below(blocks),
                Updates::Skewed if self.rng.below(10) < 7 => self.rng.below(hot),
                Updates::Skewed => hot + self.rng.below(blocks - hot),
            };
            if self.open[C0].is_none() {
                while self.free.len() <= RESERVE {
                    self.collect();
                }
            }
            self.write(block as u32, C0);
        }
    }

    /// Writes `block` to the zone of `level`; where it was is a hole now.
    fn write(&mut self, block: u32, level: usize) {
        let old = self.map[block as usize] / self.zone_blocks;
        self.zones[old as usize].valid -= 1;
        let zone = *self.open[level].get_or_insert_with(|| {
            let zone = self.free.pop().expect("collection keeps zones free");
            self.zones[zone as usize] = Zone { level, written: 0, valid: 0 };
            zone
        });
        let cell = &mut self.zones[zone as usize];
        let slot = zone * self.zone_blocks + cell.written;
        cell.written += 1;
        cell.valid += 1;
        if cell.written == self.zone_blocks {
            self.open[level] = None;
        }
        self.map[block as usize] = slot;
        self.slots[slot as usize] = block;
    }

    /// Collects the zone with the fewest valid blocks, segment by segment.
    fn collect(&mut self) {
        let written = |zone: &u32| self.zones[*zone as usize].written == self.zone_blocks;
        let closed = (0..self.zones.len() as u32).filter(written);
        let victim =
            closed.min_by_key(|&zone| self.zones[zone as usize].valid).expect("a full one");
        let Zone { level, valid, .. } = self.zones[victim as usize];
        self.victims.push(f64::from(valid) / f64::from(self.zone_blocks));
        let first = victim * self.zone_blocks;
        let mut blocks = Vec::with_capacity(SEGMENT_BLOCKS as usize);
        for segment in (first..first + self.zone_blocks).step_by(SEGMENT_BLOCKS as usize) {
            blocks.clear();
            blocks.extend((segment..segment + SEGMENT_BLOCKS).filter_map(|slot| {
                let block = self.slots[slot as usize];
                (block != NOTHING && self.map[block as usize] == slot).then_some(block)
            }));
            let to = self.destination(level, blocks.len() as f64 / f64::from(SEGMENT_BLOCKS));
            self.survivors[to] += blocks.len() as u64;
            for &block in &blocks {
                self.write(block, to);
            }
        }
        self.zones[victim as usize] = Zone { level: C0, written: 0, valid: 0 };
        self.free.push(victim);
    }

    /// The level that survivors of a segment of a zone of `level` go to.
    fn destination(&self, level: usize, used: f64) -> usize {
        match self.scheme {
            Scheme::Basic => C0,
            Scheme::Lsm(threshold) if level == C0 && used > threshold => C1_COLD,
            Scheme::Lsm(_) if level == C0 => C1_HOT,
            Scheme::Lsm(_) => C2,
        }
    }

    /// How full the victims were, in the mean of all so far.
    pub fn victims(&self) -> f64 {
        self.victims.iter().sum::<f64>() / self.victims.len() as f64
    }

    /// Share of the survivors of new data that counted as cold.
    pub fn cold_share(&self) -> f64 {
        let (cold, hot) = (self.survivors[C1_COLD] as f64, self.survivors[C1_HOT] as f64);
        cold / (cold + hot)
    }

    /// Shares of the zones written to their end that are used under `low`, between, and over `high`.
    pub fn histogram(&self, low: f64, high: f64) -> [f64; 3] {
        let full = self.zones.iter().filter(|zone| zone.written == self.zone_blocks);
        let used: Vec<f64> =
            full.map(|zone| f64::from(zone.valid) / f64::from(self.zone_blocks)).collect();
        let share = |keep: &dyn Fn(f64) -> bool| {
            used.iter().filter(|&&used| keep(used)).count() as f64 / used.len() as f64
        };
        let (sparse, dense) = (share(&|used| used < low), share(&|used| used > high));
        [sparse, 1.0 - sparse - dense, dense]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(utilisation: f64) -> Start {
        Start { zones: 128, zone_blocks: 4096, utilisation, hot: Hot::Mixed, seed: 1 }
    }

    #[test]
    fn every_zone_begins_at_the_stated_utilisation() {
        let population = Population::new(start(0.6), Scheme::Basic, Updates::Uniform);
        let [under, between, over] = population.histogram(0.55, 0.65);
        assert!(under + over < 0.001 && between > 0.999, "{under}, {between}, {over}");
        assert_eq!(population.zones.iter().filter(|zone| zone.written == 0).count(), FREE as usize);
    }

    #[test]
    fn no_block_is_lost_by_collections() {
        for scheme in [Scheme::Basic, Scheme::Lsm(0.8)] {
            let mut population = Population::new(start(0.8), scheme, Updates::Skewed);
            population.run(300);
            let valid: u32 = population.zones.iter().map(|zone| zone.valid).sum();
            assert_eq!(valid as usize, population.map.len());
            let found =
                |(block, &slot): (usize, &u32)| population.slots[slot as usize] == block as u32;
            assert!(population.map.iter().enumerate().all(found), "{scheme:?}");
        }
    }

    #[test]
    fn levels_lower_what_victims_hold_under_skew() {
        let victims = |scheme| {
            let mut population = Population::new(start(0.8), scheme, Updates::Skewed);
            population.run(1000);
            population.victims()
        };
        let (basic, lsm) = (victims(Scheme::Basic), victims(Scheme::Lsm(0.8)));
        assert!(lsm < basic, "{lsm} against {basic}");
    }
}
