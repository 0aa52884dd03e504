//! The translation layer itself: writes, trims, garbage collection, wear levelling.

mod collect;
mod levelling;
mod pool;

use std::cmp::Reverse;
use std::fmt;

use thermocline_types::{Cause, Class, Lba, Pba, Rng, UnitId};

use self::pool::Pool;
use crate::placement::{Below, Part, Placement, Topology, Write};
use crate::victim::Victim;
use crate::{Frontiers, Map, ReverseMap, Shape, ShapeError, UnitState, Units};

/// Operations of the translation layer on the media, in order.
pub trait Media {
    /// A valid block is read to be copied.
    fn read(&mut self, pba: Pba);
    /// A block is written: that of `lba`, or fill.
    fn program(&mut self, pba: Pba, lba: Option<Lba>, cause: Cause);
    /// A unit is erased for the `erases`-th time.
    fn erase(&mut self, unit: UnitId, erases: u32) -> Erased;
    /// A unit in which a program failed. It is emptied and erased before the next write of the host, and told until
    /// then.
    #[inline]
    fn failing(&self) -> Option<UnitId> {
        None
    }
}

/// What became of an erased unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// It can be written again.
    Usable,
    /// It is worn out and was not replaced: it leaves service.
    WornOut,
}

/// Media that takes everything and never wears out.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMedia;

impl Media for NoMedia {
    #[inline]
    fn read(&mut self, _pba: Pba) {}
    #[inline]
    fn program(&mut self, _pba: Pba, _lba: Option<Lba>, _cause: Cause) {}
    #[inline]
    fn erase(&mut self, _unit: UnitId, _erases: u32) -> Erased {
        Erased::Usable
    }
}

/// Too many units are worn out: the rest cannot hold the exported capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfUnits;

impl fmt::Display for OutOfUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "so many units are worn out that the rest cannot hold the exported capacity")
    }
}

impl std::error::Error for OutOfUnits {}

/// The next block of an open unit.
#[derive(Clone, Copy, Debug)]
struct Place {
    unit: UnitId,
    next: u32,
}

/// A page-mapped, log-structured translation layer over units of erasure.
///
/// # Why it never runs out of units
///
/// Let a pool have `N` units of `b` blocks, at most `F` open frontiers of which `K` take relocated blocks, and hold at
/// most `L` valid blocks with `N ≥ ⌊L/b⌋ + 1 + F + K` (checked by [`Ftl::new`]). Before every host write, garbage
/// collection runs until more than `K` units are free.
///
/// *It always finds something to gain.* With at most `K` free units, at least `N − F − K > L/b` units are closed, so
/// one holds an invalid block. If the policy picks a unit without any (FIFO may), copying it gains nothing and loses
/// nothing, and the policy is overruled by greedy once it has done so for as many turns as there are units.
///
/// *It never runs dry on the way.* Let `f` be the free units and `S = f·b + Σ slack` the free blocks it can write,
/// where slack is what is left in its `K` frontiers. A host write starts collection with `f ≥ K`, so `S ≥ K·b`, and
/// copying `v ≤ b` blocks and erasing their unit changes `S` by `b − v ≥ 0`. A copy fails only if more than `f`
/// frontiers overflow, which takes at least the `f + 1` smallest slacks plus `f + 1` blocks. All slacks sum to at least
/// `(K − f)·b` and none exceeds `b`, so these `f + 1` smallest sum to at least `b`: it would take `b + f + 1 > b`
/// blocks.
///
/// *With a smaller reserve* `R`, `1 ≤ R < K` ([`Ftl::with_reserve`]), read `R` for the `K` of the reserve. Each turn
/// begins with a free unit at least, as collection starts with `R` and every turn ends with an erase; that unit alone
/// has room for all that a victim holds, if blocks whose class has no unit and finds none go to any open unit. `S`
/// still grows and cannot pass `(R + K)·b` without `f > R`.
///
/// *A pool never holds more than its share.* Of several pools, each may hold as many valid blocks as it has room for in
/// proportion, so that the shares sum to the exported blocks or just above. A write that would exceed the share of its
/// pool goes to one below its own, or to the one its block already lies in.
///
/// *Units in which a program failed* are emptied like victims, and are then as if they were worn out.
///
/// *Worn-out units* leave the premise. A victim is then copied only if its blocks fit into the free units and the rest
/// of all open ones, whatever their class; else the emptiest unit is, and when not even that fits, the device is out of
/// units.
///
/// *Static wear levelling* takes one free unit and gives one back, while more than `R` are free, and writes no
/// frontier.
///
/// *It ends.* While a closed unit with an invalid block exists and is taken, `S` grows by at least one block a turn,
/// and `S ≥ (2K + 1)·b` implies `f > K`.
#[derive(Clone, Debug)]
pub struct Ftl<P> {
    map: Map,
    reverse_map: ReverseMap,
    units: Units,
    pools: Vec<Pool>,
    frontiers: Frontiers<Place>,
    placement: P,
    topology: Topology,
    victim: Victim,
    rng: Rng,
    host_writes: u64,
    programmed: [u64; Cause::ALL.len()],
    erased: u64,
    copied_from: u64,
    redirected: u64,
    levelling: Option<u32>,
    /// Units erased when uneven wear was last looked for.
    levelled_at: u64,
    scratch: Vec<(u32, Lba)>,
}

impl<P: Placement> Ftl<P> {
    /// An erased device. `seed` feeds the randomised victim policies.
    ///
    /// # Errors
    /// [`ShapeError::TooFewUnits`] when the open and reserve units of `placement` do not fit beside the exported
    /// blocks.
    pub fn new(shape: Shape, placement: P, victim: Victim, seed: u64) -> Result<Self, ShapeError> {
        let reserve = placement.topology().reserve();
        Ftl::with_reserve(shape, placement, victim, seed, reserve)
    }

    /// An erased device of which garbage collection keeps more than `reserve` units of each pool free, or more than
    /// there are classes that survivors go to if these are fewer. With less than that, the space left for garbage is
    /// larger, and now and then survivors find no unit to open and go where a unit of their pool is open.
    ///
    /// # Errors
    /// As [`Ftl::new`].
    ///
    /// # Panics
    /// If `reserve` is 0.
    pub fn with_reserve(
        shape: Shape,
        mut placement: P,
        victim: Victim,
        seed: u64,
        reserve: u8,
    ) -> Result<Self, ShapeError> {
        assert!(reserve > 0, "a victim's blocks need a unit to go to");
        let topology = placement.topology();
        let mut pools: Vec<Pool> =
            (0..topology.pools()).map(|pool| Pool::new(shape, topology, pool, reserve)).collect();
        if let [pool] = &mut pools[..]
            && usize::from(topology.reserve()) < topology.relocation_classes(0).len()
        {
            pool.share_frontiers(shape, shape.exported());
        }
        let holds: u64 = pools.iter().map(|pool| pool.holds(shape)).sum();
        if holds < shape.exported() {
            let short = (shape.exported() - holds).div_ceil(u64::from(shape.blocks_per_unit()));
            let units = u64::from(shape.units());
            return Err(ShapeError::TooFewUnits { units, needed: units + short });
        }
        for pool in &mut pools {
            let share = u128::from(pool.holds(shape)) * u128::from(shape.exported());
            pool.share = share.div_ceil(u128::from(holds)) as u64;
        }
        let mut units = Units::new(shape.units(), shape.blocks_per_unit());
        match victim {
            Victim::DecliningCost => units.track_updates(),
            Victim::CostBenefit(_) | Victim::Fifo | Victim::Own => units = units.keeping_by_age(),
            Victim::Greedy | Victim::Windowed { .. } | Victim::Choices { .. } => {}
        }
        placement.begin(shape.exported(), shape.units(), shape.blocks_per_unit(), Below::Apart);
        Ok(Ftl {
            map: Map::new(shape.exported(), shape.pba_limit()),
            reverse_map: ReverseMap::new(shape),
            units,
            pools,
            frontiers: Frontiers::new(topology.classes().into()),
            placement,
            topology,
            victim,
            rng: Rng::new(seed),
            host_writes: 0,
            programmed: [0; Cause::ALL.len()],
            erased: 0,
            copied_from: 0,
            redirected: 0,
            levelling: None,
            levelled_at: 0,
            scratch: Vec::with_capacity(shape.blocks_per_unit() as usize),
        })
    }

    /// Evens out wear: when a free unit was erased over `spread` times more than one with data at rest, that data is
    /// moved to it, so that the unit that rested takes part again (static wear levelling). Free units are always taken
    /// least worn first (dynamic wear levelling).
    #[must_use]
    pub fn with_wear_levelling(mut self, spread: u32) -> Self {
        self.levelling = Some(spread);
        self
    }

    /// Writes `lba` for the host as a request of its own, collecting garbage first if units are short.
    ///
    /// # Errors
    /// [`OutOfUnits`] when too many units have worn out; nothing was written.
    ///
    /// # Panics
    /// If `lba` is beyond the exported capacity.
    #[inline]
    pub fn write(
        &mut self,
        lba: Lba,
        handle: u16,
        media: &mut impl Media,
    ) -> Result<(), OutOfUnits> {
        self.write_part(lba, handle, Part::WHOLE, media)
    }

    /// Writes `lba`, which is `part` of a request of the host, collecting garbage first if units are short.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    ///
    /// # Panics
    /// As [`Ftl::write`].
    #[inline]
    pub fn write_part(
        &mut self,
        lba: Lba,
        handle: u16,
        part: Part,
        media: &mut impl Media,
    ) -> Result<(), OutOfUnits> {
        self.put(lba, handle, part, Cause::Host, media)
    }

    /// Takes in `lba` from a cache before this layer: a write of the host that comes late, counted as folding.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    ///
    /// # Panics
    /// As [`Ftl::write`].
    pub fn fold(&mut self, lba: Lba, media: &mut impl Media) -> Result<(), OutOfUnits> {
        self.put(lba, 0, Part::WHOLE, Cause::Folding, media)
    }

    #[inline]
    fn put(
        &mut self,
        lba: Lba,
        handle: u16,
        part: Part,
        cause: Cause,
        media: &mut impl Media,
    ) -> Result<(), OutOfUnits> {
        while let Some(unit) = media.failing() {
            self.give_up(unit, media)?;
        }
        let old = self.map.get(lba).map(|pba| self.reverse_map.shape().unit(pba));
        let updated = self.updated(old);
        let write = Write { lba, handle, now: self.host_writes, part, old };
        let mut class = self.placement.place(write);
        if self.placement.renamed() {
            (0..self.topology.classes()).for_each(|class| _ = self.finish(Class(class)));
        }
        if self.pools.len() > 1 {
            class = self.within_share(class, lba);
        }
        let pool = self.topology.pool(class);
        if self.pools[usize::from(pool)].is_short() {
            class = self.make_room(class, pool, media)?;
        }
        class = self.with_room(class, self.topology.pool(class));
        let pba = self.append(class, lba, cause, media);
        if self.units.tracks_updates() {
            self.units.note_update(self.reverse_map.shape().unit(pba), updated);
        }
        let old = self.map.replace(lba, pba);
        if let Some(old) = old {
            self.invalidate(old);
        }
        if self.pools.len() > 1 {
            self.pools[usize::from(self.topology.pool(class))].valid += 1;
            self.forget_in_pool(old);
        }
        self.host_writes += 1;
        Ok(())
    }

    /// Programs one block of fill after the last block of `class` if its open unit is begun, collecting garbage first
    /// if units are short. Returns whether it did: a pool full of valid data has no room for fill.
    pub fn pad(&mut self, class: Class, media: &mut impl Media) -> bool {
        let pool = self.topology.pool(class);
        let room = !self.pools[usize::from(pool)].is_short() || self.collect(pool, media).is_ok();
        let place = self.frontiers.place(class).filter(|_| room);
        if let Some(place) = place {
            let pba = self.advance(class, place);
            self.programmed[Cause::Padding.index()] += 1;
            media.program(pba, None, Cause::Padding);
        }
        place.is_some()
    }

    /// Closes the open unit of `class`, full or not. Unwritten blocks stay unwritten until garbage collection erases
    /// the unit. Returns the blocks left unwritten.
    pub fn finish(&mut self, class: Class) -> u32 {
        let left = self.slack(class);
        if let Some(place) = self.frontiers.place(class) {
            self.close(class, place);
        }
        left
    }

    /// Takes a free unit out of use, for as long as [`Ftl::give_back`] is not called, collecting garbage first if units
    /// are short. The caller sees to it that the rest suffices: `⌊L/b⌋` and the units lent are together never more than
    /// `⌊exported/b⌋`, where `L` counts what the host has valid anywhere. Then the argument above holds for the units
    /// that are left. Nothing when no unit can be had.
    ///
    /// # Panics
    /// If there are several pools.
    pub fn lend(&mut self, media: &mut impl Media) -> Option<UnitId> {
        assert_eq!(self.pools.len(), 1, "units are lent of the whole device");
        if self.pools[0].is_short() && self.collect(0, media).is_err() {
            return None;
        }
        let Reverse((_, unit)) = self.pools[0].free.pop()?;
        self.units.open(UnitId(unit), Class(0));
        Some(UnitId(unit))
    }

    /// Notes how many blocks of a lent unit are written, for those who look at it from outside.
    pub fn note_lent(&mut self, unit: UnitId, written: u32) {
        self.units.set_written(unit, written);
    }

    /// Erases a unit that was lent and takes it back.
    pub fn give_back(&mut self, unit: UnitId, media: &mut impl Media) {
        self.erase(unit, 0, media);
    }

    /// Rewrites what is valid in `unit`, counted as [`Cause::Refresh`], and erases it, collecting garbage first if
    /// units are short. Returns whether it did: not unless the unit is closed. If most of it is valid, that stays
    /// together.
    ///
    /// # Errors
    /// [`OutOfUnits`] when too many units have worn out.
    pub fn refresh(&mut self, unit: UnitId, media: &mut impl Media) -> Result<bool, OutOfUnits> {
        if self.rests(unit) && self.refresh_as_it_lies(unit, media) {
            return Ok(true);
        }
        self.rewrite(unit, Cause::Refresh, media)
    }

    /// Collects ahead of need: the emptiest closed units, until `free` of all units, a share, are free, none of the
    /// others has a block that is not valid, or the next one would take the blocks copied above `most`. Returns how
    /// many were copied, as [`Cause::Relocation`].
    pub fn collect_ahead(&mut self, most: u64, free: f64, media: &mut impl Media) -> u64 {
        let mut copied = 0;
        for pool in 0..self.topology.pools() {
            copied += self.collect_pool_ahead(pool, most - copied, free, media);
        }
        copied
    }

    /// Forgets what `lba` holds. Returns whether it held anything.
    #[inline]
    pub fn trim(&mut self, lba: Lba) -> bool {
        let old = self.map.take(lba);
        if let Some(old) = old {
            self.invalidate(old);
        }
        self.forget_in_pool(old);
        old.is_some()
    }

    /// Where `lba` lies, if it was written and not trimmed since.
    #[inline]
    #[must_use]
    pub fn lookup(&self, lba: Lba) -> Option<Pba> {
        self.map.get(lba)
    }

    /// Brings what is known of `lba` into the cache ahead of its use. Changes nothing.
    #[inline]
    pub fn prefetch(&self, lba: Lba) {
        std::hint::black_box(self.map.get(lba));
        self.placement.prefetch(lba);
    }

    /// Blocks programmed so far for `cause`.
    #[must_use]
    pub fn programmed(&self, cause: Cause) -> u64 {
        self.programmed[cause.index()]
    }

    /// Blocks the host has written so far.
    #[must_use]
    pub fn host_writes(&self) -> u64 {
        self.host_writes
    }

    /// Units erased so far.
    #[must_use]
    pub fn erased(&self) -> u64 {
        self.erased
    }

    /// Units so far that still held valid blocks when they were chosen, which then had to be copied.
    #[must_use]
    pub fn copied_from(&self) -> u64 {
        self.copied_from
    }

    /// Host writes that went to another pool because theirs was full.
    #[must_use]
    pub fn redirected(&self) -> u64 {
        self.redirected
    }

    /// Units that can be opened now.
    #[must_use]
    pub fn free_units(&self) -> usize {
        self.pools.iter().map(|pool| pool.free.len()).sum()
    }

    /// The map.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The placement policy.
    #[must_use]
    pub fn placement(&self) -> &P {
        &self.placement
    }

    /// The units, with the written length of open ones brought up to date.
    pub fn units(&mut self) -> &Units {
        for place in self.frontiers.open() {
            self.units.set_written(place.unit, place.next);
        }
        &self.units
    }

    /// The open unit of `class` and its next block.
    #[must_use]
    pub fn frontier(&self, class: Class) -> Option<(UnitId, u32)> {
        self.frontiers.place(class).map(|place| (place.unit, place.next))
    }

    /// Blocks still to be written in the open unit of `class`.
    #[must_use]
    pub fn slack(&self, class: Class) -> u32 {
        let length = self.reverse_map.shape().blocks_per_unit();
        self.frontiers.place(class).map_or(0, |place| length - place.next)
    }

    /// Bytes of memory held by map and units.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.map.memory_bytes() + self.reverse_map.memory_bytes() + self.units.memory_bytes()
    }

    /// When a block that lay in `old` will have been updated the last time but one, now that it is written: halfway
    /// between that time for its unit and now (Luo and Lomet, ICDE 2021); at the beginning of time for a new block.
    #[inline]
    fn updated(&self, old: Option<UnitId>) -> u64 {
        match old {
            Some(unit) if self.units.tracks_updates() => {
                u64::midpoint(self.units.mean_update(unit), self.host_writes)
            }
            _ => 0,
        }
    }

    /// Writes `lba` to the next block of `class`. The caller updates the map.
    #[inline]
    fn append(&mut self, class: Class, lba: Lba, cause: Cause, media: &mut impl Media) -> Pba {
        let place = match self.frontiers.place(class) {
            Some(place) => place,
            None => self.open_unit(class),
        };
        let pba = self.reverse_map.shape().pba(place.unit, place.next);
        self.reverse_map.program(pba, lba);
        self.units.add_valid(place.unit);
        self.placement.stored(lba, place.unit, self.host_writes);
        self.programmed[cause.index()] += 1;
        media.program(pba, Some(lba), cause);
        self.advance(class, place)
    }

    /// Moves the write position of `class`'s open unit past its next block, `place`, closing the unit at its end.
    /// Returns the address passed.
    #[inline]
    fn advance(&mut self, class: Class, place: Place) -> Pba {
        let shape = self.reverse_map.shape();
        let pba = shape.pba(place.unit, place.next);
        let next = Place { next: place.next + 1, ..place };
        if next.next == shape.blocks_per_unit() {
            self.close(class, next);
        } else {
            self.frontiers.set(class, next);
        }
        pba
    }

    /// Closes the open unit of `class` as it is, written up to `place`.
    fn close(&mut self, class: Class, place: Place) {
        self.frontiers.close(class);
        self.units.close(place.unit, place.next, self.host_writes);
        self.pools[usize::from(self.topology.pool(class))].open -= 1;
    }

    /// Records that the block at `pba` is no longer valid.
    #[inline]
    fn invalidate(&mut self, pba: Pba) {
        self.reverse_map.invalidate(pba);
        self.units.drop_valid(self.reverse_map.shape().unit(pba));
    }

    fn open_unit(&mut self, class: Class) -> Place {
        let pool = usize::from(self.topology.pool(class));
        let Reverse((_, unit)) =
            self.pools[pool].free.pop().expect("the reserve covers every open frontier");
        self.pools[pool].open += 1;
        self.units.open(UnitId(unit), class);
        self.placement.opened(&self.units, UnitId(unit), self.host_writes);
        let place = Place { unit: UnitId(unit), next: 0 };
        self.frontiers.set(class, place);
        place
    }

    /// The class to write `lba` to: `class`, or its counterpart in another pool if its own holds its share of valid
    /// data.
    fn within_share(&mut self, class: Class, lba: Lba) -> Class {
        let pool = self.topology.pool(class);
        let has_room = |pool: &Pool| pool.valid < pool.share;
        if has_room(&self.pools[usize::from(pool)]) {
            return class;
        }
        let lies_in = self.map.get(lba).map(|pba| self.pool_of(pba));
        if lies_in == Some(pool) {
            return class;
        }
        let other = self.pools.iter().position(has_room).map(|index| index as u8).or(lies_in);
        self.redirected += 1;
        self.topology.redirect(
            class,
            other.expect("shares sum to all blocks, so one is unmapped or has room"),
        )
    }

    fn pool_of(&self, pba: Pba) -> u8 {
        self.topology.pool(self.units.class(self.reverse_map.shape().unit(pba)))
    }

    /// Counts the valid block at `old` out of its pool.
    fn forget_in_pool(&mut self, old: Option<Pba>) {
        if self.pools.len() > 1
            && let Some(old) = old
        {
            let pool = self.pool_of(old);
            self.pools[usize::from(pool)].valid -= 1;
        }
    }

    /// Checks every invariant by a full scan: map against reverse map, valid bits against counts. For tests.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn verify(&mut self) {
        let shape = self.reverse_map.shape();
        let mut total = 0;
        let mut blocks = Vec::new();
        for unit in self.units().ids() {
            blocks.clear();
            self.reverse_map.valid_blocks(unit, &mut blocks);
            let (valid, written) = (self.units.valid_count(unit), self.units.written(unit));
            assert_eq!(blocks.len() as u32, valid, "valid count of {unit:?}");
            assert!(blocks.iter().all(|&(offset, _)| offset < written), "{unit:?}");
            total += blocks.len() as u64;
        }
        assert_eq!(total, self.map.mapped(), "one valid copy per mapped block");
        for lba in (0..shape.exported()).map(Lba) {
            if let Some(pba) = self.map.get(lba) {
                assert!(self.reverse_map.is_valid(pba), "{lba:?} points at an invalid block");
                assert_eq!(self.reverse_map.lba_at(pba), Some(lba), "reverse map of {pba:?}");
            }
        }
        for pool in &self.pools {
            for Reverse((_, unit)) in &pool.free {
                assert_eq!(self.units.state(UnitId(*unit)), UnitState::Free);
            }
            let valid =
                pool.units.clone().map(|unit| u64::from(self.units.valid_count(UnitId(unit))));
            assert!(self.pools.len() == 1 || valid.sum::<u64>() == pool.valid, "{:?}", pool.units);
        }
    }
}

#[cfg(test)]
mod tests;
