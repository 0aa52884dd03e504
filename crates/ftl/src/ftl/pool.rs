//! Pools of units.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use thermocline_types::Class;

use crate::placement::Topology;
use crate::{Shape, set_aside};

/// A set of units whose data never leaves it: a reclaim group, or the whole device.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) units: Range<u32>,
    /// Free units, least worn first.
    pub(super) free: BinaryHeap<Reverse<(u32, u32)>>,
    /// Garbage collection keeps more than this many units free before any host write.
    pub(super) reserve: usize,
    /// How many of its units may be open at once, and are.
    pub(super) frontiers: u32,
    pub(super) open: u32,
    /// Units in service.
    pub(super) in_service: u32,
    /// Valid blocks, and how many there may be; kept only if there are several pools.
    pub(super) valid: u64,
    pub(super) share: u64,
    /// Where the next look for uneven wear starts, from the first unit of the pool.
    pub(super) levelled: u32,
}

impl Pool {
    pub(super) fn new(shape: Shape, topology: Topology, pool: u8, reserve: u8) -> Self {
        let share = |pool: u8| {
            (u64::from(shape.units()) * u64::from(pool) / u64::from(topology.pools())) as u32
        };
        let units = share(pool)..share(pool + 1);
        let frontiers = (0..topology.classes())
            .filter(|&class| topology.pool(Class(class)) == pool)
            .count() as u32;
        Pool {
            free: units.clone().map(|unit| Reverse((0, unit))).collect(),
            reserve: topology.with_reserve(reserve).units_held(pool) as usize,
            frontiers,
            open: 0,
            in_service: units.end - units.start,
            valid: 0,
            share: u64::MAX,
            levelled: 0,
            units,
        }
    }

    /// Valid blocks the pool can hold without running out of units.
    pub(super) fn holds(&self, shape: Shape) -> u64 {
        let set_aside = u64::from(set_aside(self.frontiers, self.reserve as u32));
        let blocks = u64::from(shape.blocks_per_unit());
        // `⌊L/b⌋ ≤ units − set aside` allows up to one unit less one block more than this.
        let left = u64::from(self.in_service).checked_sub(set_aside);
        left.map_or(0, |units| units * blocks + (blocks - 1))
    }

    /// Lets classes share open units, down to two, until the pool holds `blocks`.
    pub(super) fn share_frontiers(&mut self, shape: Shape, blocks: u64) {
        while self.holds(shape) < blocks && self.frontiers > 2 {
            self.frontiers -= 1;
        }
    }

    /// Whether a further unit may be opened.
    #[inline]
    pub(super) fn may_open(&self) -> bool {
        !self.free.is_empty() && self.open < self.frontiers
    }

    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.free.len() <= self.reserve
    }
}
