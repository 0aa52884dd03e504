//! Policies that know more than any drive can: bounds for what placement could reach.

use thermocline_types::Class;

use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// Knows how often every block is written in the whole workload, and nothing else: classes one octave of rate apart.
///
/// What a policy can do that learns rates and does not predict. The hottest octaves, which hold few blocks, share a
/// class. State: 1 byte per block.
#[derive(Clone, Debug)]
pub struct TrueRates {
    class: Vec<u8>,
    classes: u8,
}

impl TrueRates {
    /// `writes[lba]` is how often the block is written; class `c` takes blocks written `2^c` to `2^(c+1) − 1` times,
    /// the first those never written as well and the last all that are written more often.
    ///
    /// # Panics
    /// If `classes` is 0.
    #[must_use]
    pub fn new(writes: &[u32], classes: u8) -> Self {
        assert!(classes > 0, "at least one class");
        let octave = |&count: &u32| count.max(1).ilog2().min(u32::from(classes) - 1) as u8;
        let class = writes.iter().map(octave).collect();
        TrueRates { class, classes }
    }
}

impl Classifier for TrueRates {
    fn topology(&self) -> Topology {
        Topology::new(self.classes, 0..self.classes)
    }

    fn place(&mut self, write: Write) -> Class {
        Class(self.class[write.lba.index()])
    }

    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        Class(self.class[survivor.lba.index()])
    }

    fn memory_bytes(&self) -> usize {
        self.class.capacity()
    }
}

impl VictimRule for TrueRates {}

/// Knows when every block will be overwritten: classes of geometrically growing remaining lifetime.
///
/// Close to what perfect prediction can reach with that many open units. State: 4 bytes per block and 4 per write.
#[derive(Clone, Debug)]
pub struct Clairvoyant {
    death_of_write: Vec<u32>,
    dies_at: Vec<u32>,
    bounds: Vec<u64>,
}

/// The death time of blocks that are never written again.
const NEVER: u32 = u32::MAX;

impl Clairvoyant {
    /// `writes` is the sequence of blocks the host will write, preconditioning included, over blocks `0..blocks`. A
    /// block with `r` host writes left to live goes to class `⌊log_ratio(1 + r / unit)⌋`, at most the last; `unit` is
    /// the number of blocks in a unit.
    ///
    /// # Panics
    /// If `classes` is 0 or the sequence is longer than 2^32 − 2 writes.
    #[must_use]
    pub fn new(writes: &[u32], blocks: u64, unit: u32, classes: u8, ratio: f64) -> Self {
        assert!(classes > 0, "at least one class");
        assert!(writes.len() < NEVER as usize, "the sequence is too long for 32-bit times");
        let mut next = vec![NEVER; blocks as usize];
        let mut death_of_write = vec![NEVER; writes.len()];
        for (time, &lba) in writes.iter().enumerate().rev() {
            death_of_write[time] = next[lba as usize];
            next[lba as usize] = time as u32;
        }
        let bounds = (1..i32::from(classes))
            .map(|k| (f64::from(unit) * (ratio.powi(k) - 1.0)).ceil() as u64)
            .collect();
        Clairvoyant { death_of_write, dies_at: next, bounds }
    }

    fn class(&self, dies_at: u32, now: u64) -> Class {
        if dies_at == NEVER {
            return Class(self.bounds.len() as u8);
        }
        let remaining = u64::from(dies_at).saturating_sub(now);
        Class(self.bounds.partition_point(|&bound| bound <= remaining) as u8)
    }
}

impl Classifier for Clairvoyant {
    fn topology(&self) -> Topology {
        let classes = self.bounds.len() as u8 + 1;
        Topology::new(classes, 0..classes)
    }

    fn place(&mut self, write: Write) -> Class {
        let dies_at = self.death_of_write.get(write.now as usize).copied().unwrap_or(NEVER);
        self.dies_at[write.lba.index()] = dies_at;
        self.class(dies_at, write.now)
    }

    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class {
        self.class(self.dies_at[survivor.lba.index()], now)
    }

    fn memory_bytes(&self) -> usize {
        (self.death_of_write.capacity() + self.dies_at.capacity()) * size_of::<u32>()
    }
}

impl VictimRule for Clairvoyant {}
