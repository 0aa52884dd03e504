//! Garbage collection. Why it never runs out of units is argued at [`Ftl`].

use std::cmp::Reverse;
use std::ops::Range;

use thermocline_types::{Cause, Class, UnitId};

use super::{Erased, Ftl, Media, OutOfUnits};
use crate::UnitState;
use crate::placement::{Placement, Survivor};
use crate::victim::Victim;

/// Map entries brought into the cache together: their misses overlap, and all still lie there when they are used.
pub(super) const PREFETCHED: usize = 256;

impl<P: Placement> Ftl<P> {
    /// Collects garbage until `pool` has units to spare, and returns the class to write: `class`, or its counterpart in
    /// another pool when this one is full of valid data.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        class: Class,
        pool: u8,
        media: &mut impl Media,
    ) -> Result<Class, OutOfUnits> {
        if self.collect(pool, media).is_ok() {
            return Ok(class);
        }
        for other in 0..self.topology.pools() {
            if other != pool && self.collect(other, media).is_ok() {
                self.redirected += 1;
                return Ok(self.topology.redirect(class, other));
            }
        }
        Err(OutOfUnits)
    }

    pub(super) fn collect(&mut self, pool: u8, media: &mut impl Media) -> Result<(), OutOfUnits> {
        let index = usize::from(pool);
        let mut fruitless = 0;
        while self.pools[index].is_short() {
            let range = self.pools[index].units.clone();
            let chosen = if fruitless > self.pools[index].in_service {
                self.units.emptiest_closed(range)
            } else {
                self.choose(range)
            };
            let victim = self.copyable(pool, chosen.ok_or(OutOfUnits)?)?;
            if self.units.valid_count(victim) == self.reverse_map.shape().blocks_per_unit() {
                if fruitless > self.pools[index].in_service || !self.has_garbage(index) {
                    return Err(OutOfUnits);
                }
                fruitless += 1;
            } else {
                fruitless = 0;
            }
            self.relocate(victim, Cause::Relocation, media);
            self.level_wear(index, media);
        }
        Ok(())
    }

    /// As [`Ftl::collect_ahead`], of one pool. While more units than the reserve are free, every turn is one of those
    /// of [`Ftl::collect`], begun earlier.
    pub(super) fn collect_pool_ahead(
        &mut self,
        pool: u8,
        most: u64,
        free: f64,
        media: &mut impl Media,
    ) -> u64 {
        let index = usize::from(pool);
        let range = self.pools[index].units.clone();
        let wanted = (f64::from(range.end - range.start) * free) as usize;
        let mut copied = 0;
        while !self.pools[index].is_short()
            && self.pools[index].free.len() < wanted
            && let Some(victim) = self.units.emptiest_closed(range.clone())
        {
            let valid = self.units.valid_count(victim);
            let full = valid == self.reverse_map.shape().blocks_per_unit();
            if full || copied + u64::from(valid) > most || !self.can_copy(pool, victim) {
                break;
            }
            self.relocate(victim, Cause::Relocation, media);
            copied += u64::from(valid);
        }
        copied
    }

    /// The victim policy's choice.
    fn choose(&mut self, range: Range<u32>) -> Option<UnitId> {
        let now = self.host_writes;
        let own = match self.victim {
            Victim::Own => self.placement.victim(&self.units, range.clone(), now, |_| true),
            _ => None,
        };
        own.or_else(|| self.victim.choose(&self.units, range, now, &mut self.rng))
    }

    /// `victim`, or the emptiest unit of `pool` if only that can be copied for sure.
    fn copyable(&self, pool: u8, victim: UnitId) -> Result<UnitId, OutOfUnits> {
        if self.can_copy(pool, victim) {
            return Ok(victim);
        }
        let emptiest = self.units.emptiest_closed(self.pools[usize::from(pool)].units.clone());
        emptiest.filter(|&unit| self.can_copy(pool, unit)).ok_or(OutOfUnits)
    }

    /// Whether the valid blocks of `victim` fit into free units and the rest of all open ones. Always so until units
    /// retire.
    fn can_copy(&self, pool: u8, victim: UnitId) -> bool {
        let classes = (0..self.topology.classes()).map(Class);
        let slack: u32 = classes
            .filter(|&class| self.topology.pool(class) == pool)
            .map(|class| self.slack(class))
            .sum();
        let free = self.pools[usize::from(pool)].free.len() as u64;
        let room = free * u64::from(self.reverse_map.shape().blocks_per_unit()) + u64::from(slack);
        u64::from(self.units.valid_count(victim)) <= room
    }

    /// `class`, or the nearest of its pool that has an open unit if `class` has none and none may be opened. Always
    /// `class` until units retire, unless the reserve is smaller than the number of classes.
    #[inline]
    pub(super) fn with_room(&self, class: Class, pool: u8) -> Class {
        if self.frontiers.place(class).is_some() || self.pools[usize::from(pool)].may_open() {
            return class;
        }
        let nearest = self.frontiers.nearest(class, |other| self.topology.pool(other) == pool);
        nearest.expect("a victim is copied only if its blocks fit")
    }

    fn has_garbage(&self, pool: usize) -> bool {
        let emptiest = self.units.emptiest_closed(self.pools[pool].units.clone());
        emptiest.is_some_and(|unit| {
            self.units.valid_count(unit) < self.reverse_map.shape().blocks_per_unit()
        })
    }

    /// Copies the valid blocks of the closed `victim` and erases it.
    fn relocate(&mut self, victim: UnitId, cause: Cause, media: &mut impl Media) {
        let shape = self.reverse_map.shape();
        let from = self.units.class(victim);
        let pool = self.topology.pool(from);
        let mut blocks = std::mem::take(&mut self.scratch);
        blocks.clear();
        self.reverse_map.valid_blocks(victim, &mut blocks);
        let utilisation = blocks.len() as f32 / shape.blocks_per_unit() as f32;
        let updated = self.units.mean_update(victim);
        self.placement.collected(&self.units, victim, self.host_writes);
        self.units.begin_relocation(victim);
        for some in blocks.chunks(PREFETCHED) {
            for &(_, lba) in some {
                std::hint::black_box(self.map.get(lba));
                self.placement.prefetch_survivor(lba);
            }
            for &(offset, lba) in some {
                media.read(shape.pba(victim, offset));
                let survivor = Survivor { lba, from, utilisation };
                let class = self.placement.place_survivor(survivor, self.host_writes);
                let class = self.with_room(class, pool);
                let pba = self.append(class, lba, cause, media);
                if self.units.tracks_updates() {
                    self.units.note_update(shape.unit(pba), updated);
                }
                self.map.relocate(lba, pba);
            }
        }
        self.copied_from += u64::from(!blocks.is_empty());
        self.scratch = blocks;
        self.reverse_map.erase(victim);
        self.erase(victim, pool, media);
    }

    /// Copies the valid blocks of `unit` and erases it, if it is closed.
    pub(super) fn rewrite(
        &mut self,
        unit: UnitId,
        cause: Cause,
        media: &mut impl Media,
    ) -> Result<bool, OutOfUnits> {
        if self.units.state(unit) != UnitState::Closed {
            return Ok(false);
        }
        let pool = self.topology.pool(self.units.class(unit));
        if self.pools[usize::from(pool)].is_short() {
            self.collect(pool, media)?;
        }
        // Collection may have taken it.
        let there = self.units.state(unit) == UnitState::Closed && self.can_copy(pool, unit);
        if there {
            self.relocate(unit, cause, media);
        }
        Ok(there)
    }

    /// Empties and erases `unit`, in which a program failed; the erased unit leaves service. Blocks written to the unit
    /// after the failure count as valid and are moved as well.
    #[cold]
    pub(super) fn give_up(
        &mut self,
        unit: UnitId,
        media: &mut impl Media,
    ) -> Result<(), OutOfUnits> {
        let class = self.units.class(unit);
        if let Some(place) = self.frontiers.place(class).filter(|place| place.unit == unit) {
            self.close(class, place);
        }
        let pool = self.topology.pool(class);
        if !self.can_copy(pool, unit) {
            self.collect(pool, media)?; // Which may take it.
        }
        if media.failing() == Some(unit) {
            if !self.can_copy(pool, unit) {
                return Err(OutOfUnits);
            }
            self.relocate(unit, Cause::ProgramFailure, media);
        }
        Ok(())
    }

    /// Erases `unit` and takes it among the free ones of `pool`, or out of service.
    pub(super) fn erase(&mut self, unit: UnitId, pool: u8, media: &mut impl Media) {
        let erases = self.units.erase(unit);
        self.erased += 1;
        let pool = usize::from(pool);
        match media.erase(unit, erases) {
            Erased::Usable => self.pools[pool].free.push(Reverse((erases, unit.0))),
            Erased::WornOut => {
                self.units.retire(unit);
                self.pools[pool].in_service -= 1;
            }
        }
    }
}
