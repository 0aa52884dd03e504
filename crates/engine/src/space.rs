//! The units of a pool: which are free, listed, open, full or dying.
//!
//! A unit goes through *free* (empty, in no list), *reserved* (listed in a flushed superblock, with the generation of
//! its next life), *open* (being written by one class), *closed*, perhaps *relocated*, and *dead* (none of its blocks
//! valid), from where a flush and a reset make it free again.
//!
//! Invariants:
//! * Only a reserved unit is opened.
//! * `tail` of a unit counts its chunks from the newest chosen checkpoint on.

mod dead;
mod freeing;
mod tail;
mod validity;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use thermocline_format::{
    Generation, Geometry, Location, MAX_DEVICES, MediaClass, OpenUnit, PAGE_UNITS, Sequence,
};
use thermocline_ftl::{Frontiers, UnitState, Units};
use thermocline_types::{Class, UnitId};

use crate::config::Config;

pub(crate) use dead::{Dead, Terms, Verdict};
use tail::Tail;
use validity::Validity;

/// Bits of valid blocks, one for each block, may take one part in `VALIDITY_SHARE` of the map memory in addition.
/// Chosen, not measured.
const VALIDITY_SHARE: u64 = 8;

/// Units of a class of media that can be written next.
#[derive(Debug, Default)]
struct Supply {
    /// Empty units that no superblock lists, of each device, and how many.
    free: [VecDeque<UnitId>; MAX_DEVICES],
    unlisted: usize,
    /// Listed units that were not opened yet.
    reserved: VecDeque<OpenUnit>,
    /// Units on their way from dead to free: waiting for a flush or a reset.
    resetting: u32,
    /// Closed units without a valid block.
    dead: Dead,
}

/// The units of a pool.
#[derive(Debug)]
pub(crate) struct Space {
    units: Units,
    validity: Validity,
    tails: Vec<Tail>,
    /// The next logical block of each open unit.
    frontiers: Frontiers<Location>,
    /// Chunks of each class on their way.
    in_flight: Vec<u32>,
    /// Classes of the placement, which may share open units.
    shared: usize,
    /// Units that can be open for these at once.
    most_open: u32,
    /// Logical blocks that were sealed for them, and how many had been when a chunk of each was.
    sealed: u64,
    sealed_at: Vec<u64>,
    /// The devices, which the units are counted through.
    geometry: Geometry,
    supplies: [Supply; 2],
    /// Chunks from here on are counted in the tails of their units.
    tail_from: Sequence,
    /// Every unit that the newest flushed superblock lists.
    listed: BTreeMap<u32, OpenUnit>,
    /// Units whose release is durable, and resets that are on their way.
    to_reset: VecDeque<UnitId>,
    resets: u32,
    /// Units whose release is not durable yet.
    releasing: u32,
    /// Whether a flush is on its way after which dead units can be released.
    flushing_dead: bool,
    /// How often no control entry was waiting. A waiting entry may be the reason why a unit is dead.
    control_sealed: u64,
    /// Closed units with a write in flight.
    closing: BTreeSet<u32>,
    /// Zones that an opening found neither empty nor full.
    unfinished: Vec<UnitId>,
    /// Condemned units that are not empty yet.
    condemned: BTreeSet<u32>,
    /// Units out of service.
    retired: u32,
    /// The generation that the next listed unit gets.
    next_generation: Generation,
    /// Units that are of metadata, and some that were.
    metadata_units: BTreeSet<u32>,
    /// Pages of the unit table with units of which something has changed since the page was compared.
    changed: Vec<bool>,
}

impl Space {
    /// `most_open` units can be open at once, not counting the units of metadata (the last class) and of arrivals.
    pub(crate) fn new(units: Units, config: &Config) -> Space {
        let count = units.count() as usize;
        let classes = usize::from(config.user_classes()) + 1;
        Space {
            units,
            validity: Validity::new(&config.geometry, config.map_memory_bytes / VALIDITY_SHARE),
            tails: vec![Tail::default(); count],
            frontiers: Frontiers::new(classes),
            in_flight: vec![0; classes],
            shared: usize::from(config.placement_classes()),
            most_open: config.most_open(),
            sealed: 0,
            sealed_at: vec![0; classes],
            geometry: config.geometry,
            supplies: Default::default(),
            tail_from: Sequence(0),
            listed: BTreeMap::new(),
            to_reset: VecDeque::new(),
            resets: 0,
            releasing: 0,
            flushing_dead: false,
            control_sealed: 0,
            closing: BTreeSet::new(),
            unfinished: Vec::new(),
            condemned: BTreeSet::new(),
            retired: 0,
            next_generation: Generation(0),
            metadata_units: BTreeSet::new(),
            changed: vec![true; count.div_ceil(PAGE_UNITS)],
        }
    }

    /// The state of each unit and its number of valid blocks.
    pub(crate) fn units(&self) -> &Units {
        &self.units
    }

    /// The class of the media that `unit` is on.
    pub(crate) fn media_of(&self, unit: UnitId) -> MediaClass {
        self.geometry.media_of(unit)
    }

    fn supply(&self, media: MediaClass) -> &Supply {
        &self.supplies[media as usize]
    }

    fn supply_mut(&mut self, media: MediaClass) -> &mut Supply {
        &mut self.supplies[media as usize]
    }

    /// The supply that `unit` belongs to.
    fn supply_of(&mut self, unit: UnitId) -> &mut Supply {
        self.supply_mut(self.media_of(unit))
    }

    /// Units of a class of media that can be opened now or after the next superblock.
    pub(crate) fn free_units(&self, media: MediaClass) -> u32 {
        let supply = self.supply(media);
        (supply.unlisted + supply.reserved.len()) as u32
    }

    /// Whether units of a class of media are free that no superblock lists.
    pub(crate) fn has_unlisted(&self, media: MediaClass) -> bool {
        self.supply(media).unlisted > 0
    }

    /// Units of a class of media that are listed and not opened yet.
    pub(crate) fn reserved_on(&self, media: MediaClass) -> usize {
        self.supply(media).reserved.len()
    }

    /// Units of a class of media on their way from dead to free.
    pub(crate) fn resetting_on(&self, media: MediaClass) -> u32 {
        self.supply(media).resetting
    }

    /// Closed units of a class of media without a valid block.
    pub(crate) fn dead(&self, media: MediaClass) -> &Dead {
        &self.supply(media).dead
    }

    /// Units listed and not opened yet.
    fn reserved(&self) -> usize {
        self.supplies.iter().map(|supply| supply.reserved.len()).sum()
    }

    /// Units on their way from dead to free.
    pub(crate) fn resetting(&self) -> u32 {
        self.supplies.iter().map(|supply| supply.resetting).sum()
    }

    /// How many closed units have no valid block.
    pub(crate) fn dead_units(&self) -> usize {
        self.supplies.iter().map(|supply| supply.dead.len()).sum()
    }

    /// Listed units that were opened. A checkpoint shortens the table by the units that are no longer open.
    pub(crate) fn opened(&self) -> usize {
        self.listed.len().saturating_sub(self.reserved())
    }

    /// The page of the unit table for `unit` may be outdated.
    #[inline]
    pub(crate) fn touch(&mut self, unit: UnitId) {
        self.changed[unit.index() / PAGE_UNITS] = true;
    }

    /// Whether page `index` of the unit table must be compared. Clears the mark until the next change.
    pub(crate) fn take_changed(&mut self, index: usize) -> bool {
        std::mem::take(&mut self.changed[index])
    }

    /// Where the next chunk of `class` goes, if a unit is open for it.
    pub(crate) fn next_of(&self, class: Class) -> Option<Location> {
        self.frontiers.place(class)
    }

    /// Chunks of `class` on their way.
    pub(crate) fn in_flight(&self, class: Class) -> u32 {
        self.in_flight[class.index()]
    }

    /// Logical blocks of `unit` that chunks were sealed into.
    pub(crate) fn sealed_into(&self, unit: UnitId) -> u32 {
        let open = self.frontiers.open();
        match self.units.state(unit) {
            UnitState::Closed | UnitState::Relocating => self.units.written(unit),
            UnitState::Open => open.filter(|at| at.unit == unit).map(|at| at.block).sum(),
            UnitState::Free | UnitState::Retired => 0,
        }
    }

    /// The generation that the next listed unit gets.
    pub(crate) fn next_generation(&self) -> Generation {
        self.next_generation
    }

    pub(crate) fn set_next_generation(&mut self, generation: Generation) {
        self.next_generation = generation;
    }

    /// An opening found the zone `unit` neither empty nor full.
    pub(crate) fn note_unfinished(&mut self, unit: UnitId) {
        self.unfinished.push(unit);
    }

    /// Returns the zones noted by `note_unfinished` that are now closed or retired.
    pub(crate) fn take_unfinished(&mut self) -> Vec<UnitId> {
        let found = std::mem::take(&mut self.unfinished);
        let done = |unit: &UnitId| {
            matches!(self.units.state(*unit), UnitState::Closed | UnitState::Retired)
        };
        found.into_iter().filter(done).collect()
    }

    /// These units the newest flushed superblock lists.
    pub(crate) fn set_listed(&mut self, listed: &[OpenUnit]) {
        self.listed = listed.iter().map(|listed| (listed.next.unit.0, *listed)).collect();
    }

    /// The units that the newest flushed superblock lists.
    pub(crate) fn listed(&self) -> &BTreeMap<u32, OpenUnit> {
        &self.listed
    }

    /// A unit is listed in a durable record, and can be opened.
    pub(crate) fn reserve(&mut self, listed: OpenUnit) {
        self.supply_of(listed.next.unit).reserved.push_back(listed);
    }

    /// An empty unit can be listed.
    pub(crate) fn free(&mut self, unit: UnitId) {
        let device = self.geometry.device_of(unit);
        let supply = self.supply_of(unit);
        supply.free[device.index()].push_back(unit);
        supply.unlisted += 1;
    }

    /// Writing goes on where an earlier opening left off.
    pub(crate) fn go_on(&mut self, class: Class, at: Location) {
        self.adopt(at.unit, UnitState::Open, class, 0);
        self.frontiers.set(class, at);
    }

    /// The class whose open unit takes blocks of `class`. A class with an open unit, or with permission to open a unit,
    /// uses its own. Otherwise the nearest class with an open unit takes the blocks.
    pub(crate) fn shared_class(&self, class: Class, may_open: bool) -> Class {
        if class.index() >= self.shared || self.frontiers.place(class).is_some() {
            return class;
        }
        if may_open && self.may_open_another(class) {
            return class;
        }
        let shares = |other: Class| other.index() < self.shared;
        self.frontiers.nearest(class, shares).unwrap_or(class)
    }

    /// Whether a further unit may be open for `class`. Blocks of a class whose unit was closed early may have gone to
    /// another class since.
    pub(crate) fn may_open_another(&self, class: Class) -> bool {
        class.index() >= self.shared || self.frontiers.count(self.shared) < self.most_open
    }

    /// An idle class with an open unit: the class got no block while half of the pool's capacity was written. Its
    /// blocks were hot for a while, or the policy no longer chooses the class. The half is chosen, not measured.
    pub(crate) fn idle_class(&self) -> Option<Class> {
        let units = u64::from(self.geometry.active_units(MediaClass::Capacity));
        let idle = units * u64::from(self.geometry.blocks_per_unit()) / 2;
        let mut classes = (0..self.shared as u8).map(Class);
        classes.find(|class| {
            let at = self.sealed_at[class.index()];
            self.frontiers.place(*class).is_some() && self.sealed - at > idle
        })
    }

    /// Opens a reserved unit on `media` for `class`; `None` when there is none.
    pub(crate) fn open(&mut self, class: Class, media: MediaClass) -> Option<Location> {
        let listed = self.supply_mut(media).reserved.pop_front()?;
        let unit = listed.next.unit;
        self.units.open(unit, class);
        self.validity.begin(unit);
        self.note_class(unit, class);
        self.touch(unit);
        *self.tail(unit) = Tail { generation: listed.generation, ..Tail::default() };
        self.frontiers.set(class, listed.next);
        self.sealed_at[class.index()] = self.sealed;
        Some(listed.next)
    }

    /// Takes over a unit as an opening found it.
    pub(crate) fn adopt(&mut self, unit: UnitId, state: UnitState, class: Class, written: u32) {
        self.units.adopt(unit, state, class, written, 0);
        self.note_class(unit, class);
    }

    /// The last of the classes is that of metadata.
    fn note_class(&mut self, unit: UnitId, class: Class) {
        if class.index() + 1 == self.frontiers.classes() {
            self.metadata_units.insert(unit.0);
        }
    }

    /// Closed units of metadata from `from` on, at most `count`. Also returns the unit after the units looked at;
    /// `None` after the last.
    pub(crate) fn closed_metadata(
        &mut self,
        from: u32,
        count: usize,
    ) -> (Vec<UnitId>, Option<u32>) {
        let found: Vec<u32> = self.metadata_units.range(from..).take(count).copied().collect();
        let next = found.last().filter(|_| found.len() == count).map(|last| last + 1);
        let metadata = Class((self.frontiers.classes() - 1) as u8);
        let mut closed = Vec::new();
        for unit in found.into_iter().map(UnitId) {
            match self.units.state(unit) {
                _ if self.units.class(unit) != metadata => _ = self.metadata_units.remove(&unit.0),
                UnitState::Free | UnitState::Retired => _ = self.metadata_units.remove(&unit.0),
                UnitState::Closed => closed.push(unit),
                UnitState::Open | UnitState::Relocating => {}
            }
        }
        (closed, next)
    }

    /// Closes the open unit of `class` at host write `now`.
    pub(crate) fn close(&mut self, class: Class, now: u64) -> Option<Location> {
        let at = self.frontiers.close(class)?;
        self.units.close(at.unit, at.block, now);
        self.bury(at.unit);
        if self.has_writers(at.unit) {
            self.closing.insert(at.unit.0);
        }
        Some(at)
    }

    /// A command to a closed unit was answered.
    pub(crate) fn closed_if_quiet(&mut self, unit: UnitId) {
        if self.tails[unit.index()].writers == 0 {
            self.closing.remove(&unit.0);
        }
    }

    /// Units of a class of media that are neither empty nor full nor finished, those of superblocks aside.
    pub(crate) fn active_units(&self, media: MediaClass) -> u32 {
        let open = self.frontiers.open();
        let closing = self.closing.iter().copied().map(UnitId);
        let active = open.map(|at| at.unit).chain(closing);
        active.filter(|unit| self.media_of(*unit) == media).count() as u32
    }

    /// Notes that a closed unit is dead if it has no valid block.
    pub(crate) fn bury(&mut self, unit: UnitId) {
        let closed = self.units.state(unit) == UnitState::Closed;
        if closed && self.units.valid_count(unit) == 0 {
            self.tails[unit.index()].died = self.control_sealed;
            self.supply_of(unit).dead.push(unit);
        }
    }

    /// The block at `address` is valid, and counts in its unit.
    #[inline]
    pub(crate) fn add_block(&mut self, address: u64) {
        self.validity.set(address);
        self.add_valid(self.unit_of(address));
    }

    /// The block at `address` is not valid any more.
    #[inline]
    pub(crate) fn drop_block(&mut self, address: u64) {
        self.validity.clear(address);
        self.drop_valid(self.unit_of(address));
    }

    /// Whether the block at `address` counts as valid; `None` if only the map knows.
    #[inline]
    pub(crate) fn counts(&self, address: u64) -> Option<bool> {
        self.validity.is_known(self.unit_of(address)).then(|| self.validity.is_set(address))
    }

    /// The generation of `unit`, if it is known without the map which of its blocks are valid: then chunks of an
    /// earlier life, which a write that never came to media left there, must not be taken for its own.
    pub(crate) fn known_generation(&self, unit: UnitId) -> Option<Generation> {
        self.knows_valid(unit).then(|| self.tails[unit.index()].generation)
    }

    /// Whether it is known without the map which blocks of `unit` are valid.
    pub(crate) fn knows_valid(&self, unit: UnitId) -> bool {
        self.validity.is_known(unit)
    }

    /// How many blocks of `unit` are known to be valid, one by one; `None` if only the map knows.
    pub(crate) fn known_valid(&self, unit: UnitId) -> Option<u32> {
        self.validity.count(unit)
    }

    #[inline]
    fn unit_of(&self, address: u64) -> UnitId {
        self.geometry.per_unit().location(address).unit
    }

    /// One more valid block in `unit`.
    #[inline]
    pub(crate) fn add_valid(&mut self, unit: UnitId) {
        // The unit table may be wrong if a device gave wrong data to the table's writer.
        if self.units.valid_count(unit) < self.units.blocks_per_unit() {
            self.units.add_valid(unit);
            self.touch(unit);
        }
    }

    /// One more valid block in `unit`: a page of the map, which is where no blocks of users are.
    pub(crate) fn add_page(&mut self, unit: UnitId) {
        self.add_valid(unit);
        self.tails[unit.index()].metadata = true;
    }

    /// `unit` loses a valid block, and dies with its last valid block.
    #[inline]
    fn drop_valid(&mut self, unit: UnitId) {
        // The unit table may be wrong if its writer had a bug.
        let counted = self.units.valid_count(unit) > 0;
        debug_assert!(counted, "{unit:?} holds nothing that is valid");
        if !counted {
            return;
        }
        self.units.drop_valid(unit);
        self.touch(unit);
        if self.units.valid_count(unit) == 0 {
            self.bury(unit);
        }
    }

    /// A page of the unit table counts `valid` valid blocks of users in `unit`. The unit may hold pages of maps by now,
    /// which count in addition: after the tail dropped the blocks, the unit was reset and written again. Until the tail
    /// is replayed, the sum may exceed the size of the unit.
    pub(crate) fn add_users(&mut self, unit: UnitId, valid: u32) {
        let all = u64::from(self.units.valid_count(unit)) + u64::from(valid);
        self.units.set_valid(unit, all.min(i32::MAX as u64) as u32);
    }

    /// The count of a unit-table page for `unit` no longer counts.
    pub(crate) fn drop_users(&mut self, unit: UnitId, valid: u32) {
        self.units.set_valid(unit, self.units.valid_count(unit).saturating_sub(valid));
    }

    /// `unit` loses a valid block that the opening may count again. Returns whether the block was counted: a wrong
    /// table must not stop an opening.
    pub(crate) fn uncount(&mut self, unit: UnitId) -> bool {
        let counted = self.units.valid_count(unit) > 0;
        if counted {
            self.units.drop_valid(unit);
        }
        counted
    }

    /// Garbage collection begins with `unit`.
    pub(crate) fn begin_relocation(&mut self, unit: UnitId) {
        self.units.begin_relocation(unit);
    }

    /// Garbage collection is done with `unit`. Returns the valid blocks left in the unit; without a valid block, the
    /// unit is dead.
    pub(crate) fn end_relocation(&mut self, unit: UnitId) -> u32 {
        self.units.end_relocation(unit);
        self.bury(unit);
        self.units.valid_count(unit)
    }

    /// Lists up to `count` free units on `media` with new generations for the next superblock.
    pub(crate) fn list_free(&mut self, media: MediaClass, count: usize) -> Vec<OpenUnit> {
        let supply = self.supply(media);
        let mut empty = [0_u64; MAX_DEVICES];
        for (empty, free) in empty.iter_mut().zip(&supply.free) {
            *empty = free.len() as u64;
        }
        for listed in &supply.reserved {
            empty[self.geometry.device_of(listed.next.unit).index()] += 1;
        }
        let mut units = Vec::new();
        while units.len() < count
            && let Some(device) = self.emptiest(media, &empty)
        {
            empty[device] -= 1;
            units.extend(self.supply_mut(media).free[device].pop_front());
        }
        self.supply_mut(media).unlisted -= units.len();
        let list = |unit| {
            let generation = self.next_generation;
            self.next_generation.0 += 1;
            OpenUnit { next: Location { unit, block: 0 }, generation }
        };
        units.into_iter().map(list).collect()
    }

    /// The device with the largest share of `empty` units, one unit left aside, among the devices with free units on
    /// `media`. Devices thus fill side by side, and each keeps an empty unit as long as every device can: if all other
    /// devices are lost, the last device can go on.
    fn emptiest(&self, media: MediaClass, empty: &[u64; MAX_DEVICES]) -> Option<usize> {
        let free = &self.supply(media).free;
        let part = |device: usize| {
            let units = self.geometry.devices()[device].units;
            empty[device].saturating_sub(1) as f64 / f64::from(units)
        };
        let devices = (0..self.geometry.devices().len()).filter(|device| !free[*device].is_empty());
        devices.rev().max_by(|one, other| part(*one).total_cmp(&part(*other)))
    }

    /// The units that a checkpoint beginning now must list: open units with their write positions, and reserved units.
    /// Tails count from chunk `from` on, the next chunk.
    pub(crate) fn begin_tail(&mut self, from: Sequence) -> BTreeMap<u32, OpenUnit> {
        self.tail_from = from;
        for unit in self.listed.keys() {
            let tail = &mut self.tails[*unit as usize];
            (tail.chunks, tail.sum) = (0, 0);
        }
        let open = self
            .frontiers
            .open()
            .map(|next| OpenUnit { next, generation: self.tails[next.unit.index()].generation });
        let reserved = self.supplies.iter().flat_map(|supply| supply.reserved.iter().copied());
        open.chain(reserved).map(|listed| (listed.next.unit.0, listed)).collect()
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let units = self.units.memory_bytes() + self.tails.capacity() * size_of::<Tail>();
        units as u64 + self.validity.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
