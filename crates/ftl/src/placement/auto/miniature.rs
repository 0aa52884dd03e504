//! Miniature drives.

use thermocline_types::{Class, Lba, UnitId};

use super::super::Below;
use super::super::per_block::PerBlock;
use super::cleaner::Cleaner;
use super::drive::{Drive, WEIGHT};
use super::history::{History, Past};
use super::rule::{CLASSES, Rule};
use crate::{Frontiers, Units};

/// Miniatures have units as the real drive has, up to twice so many; where it has more, theirs are longer in
/// proportion. What a choice of victims costs grows with both, their number and how short they are.
const UNITS: u32 = 1024;
/// Blocks of the shortest units, chosen, not measured; miniatures have fewer units where they would be shorter. Of a
/// few blocks, some units are empty by chance, whatever the rule.
const SHORTEST: u64 = 8;
/// Units kept free. Two always suffice, as a block whose class can open no unit goes to the nearest that is open.
const RESERVE: usize = 2;
const NOTHING: u32 = u32::MAX;

/// Of each aligned group of `1 << shift` blocks one is sampled, at a hashed place: which, for `group`.
#[inline]
pub(super) fn sampled(group: u32, shift: u32) -> Lba {
    let within = group.wrapping_mul(0x9E37_79B1) >> (u32::BITS - shift);
    Lba((u64::from(group) << shift) + u64::from(within))
}

/// The group that `lba` is the sampled block of, if it is.
#[inline]
pub(super) fn group_of(lba: Lba, shift: u32) -> Option<u32> {
    let group = u32::try_from(lba.0 >> shift).ok()?;
    (sampled(group, shift) == lba).then_some(group)
}

/// Where each group's block is in each miniature, plus one; 0 is nowhere. All in one place, since all are looked for at
/// once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Places(PerBlock<[u32; Rule::ALL.len()]>);

impl Places {
    /// Brings those of `group` towards the cache.
    #[inline]
    pub(super) fn prefetch(&self, group: u32) {
        self.0.prefetch(Lba(u64::from(group)));
    }

    fn get(&self, group: u32, rule: Rule) -> u32 {
        self.0.get(Lba(u64::from(group)))[rule as usize]
    }

    fn get_mut(&mut self, group: u32, rule: Rule) -> &mut u32 {
        &mut self.0.get_mut(Lba(u64::from(group)))[rule as usize]
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// A drive of the sampled blocks under one rule, with as much room for each as the real one has.
///
/// Memory: 8 bytes and a little per sampled block, 52 per unit.
#[derive(Clone, Debug)]
pub(super) struct Miniature {
    rule: Rule,
    shift: u32,
    units: Units,
    free: Vec<UnitId>,
    /// The open unit of each class and its next block.
    frontiers: Frontiers<(UnitId, u32)>,
    /// The group at each place.
    groups: Vec<u32>,
    cleaner: Cleaner,
    /// The drive below, if the drive copies as well.
    drive: Option<Drive>,
    /// Blocks copied lately, by it and, with their weight, by the drive; the owner lets it decay.
    pub(super) copies: f32,
}

/// Compares only the outcome of the rule: miniatures with equal rule, groups and copies are equal.
impl PartialEq for Miniature {
    fn eq(&self, other: &Miniature) -> bool {
        self.rule == other.rule && self.groups == other.groups && self.copies == other.copies
    }
}

impl Miniature {
    /// Of a drive with `units` units of `blocks_per_unit` blocks that exports `capacity` blocks. Copies depend on spare
    /// room: there is as much as the share of the sample, to half a unit, whatever the length of units rounds to.
    pub(super) fn new(
        rule: Rule,
        shift: u32,
        capacity: u64,
        units: u32,
        blocks_per_unit: u32,
    ) -> Miniature {
        let room = (u64::from(units) * u64::from(blocks_per_unit)) >> shift;
        let fold = u64::from((units / UNITS).max(1));
        let blocks = ((u64::from(blocks_per_unit) * fold) >> shift).max(SHORTEST);
        let units = ((room + blocks / 2) / blocks) as u32;
        let blocks = blocks as u32;
        Miniature {
            rule,
            shift,
            units: Units::new(units, blocks),
            free: (0..units).rev().map(UnitId).collect(),
            frontiers: Frontiers::new(CLASSES.into()),
            groups: vec![NOTHING; units as usize * blocks as usize],
            cleaner: Cleaner::new(units, capacity, blocks << shift),
            drive: None,
            copies: 0.0,
        }
    }

    /// The same over what is `below`.
    pub(super) fn over(self, below: Below) -> Miniature {
        let drive = Drive::new(below, self.units.count(), self.units.blocks_per_unit());
        Miniature { drive, ..self }
    }

    /// Blocks per unit.
    pub(super) fn blocks_per_unit(&self) -> u32 {
        self.units.blocks_per_unit()
    }

    /// The host writes the sampled block of `group`, with this history.
    pub(super) fn write(
        &mut self,
        group: u32,
        past: Past,
        now: u64,
        history: &History,
        places: &mut Places,
    ) {
        while self.free.len() < RESERVE && self.collect(now, history, places) {}
        if self.free.is_empty() && self.frontiers.open().next().is_none() {
            // More blocks than it has room for, as a sample may be larger than its share: this one is left out.
            return;
        }
        let place = std::mem::take(places.get_mut(group, self.rule));
        if let Some(at) = place.checked_sub(1) {
            self.units.drop_valid(UnitId(at / self.units.blocks_per_unit()));
        }
        let at = self.append(group, self.rule.host(past, history.seen()), now, places);
        if let Some(drive) = &mut self.drive {
            self.copies += WEIGHT * drive.write(at) as f32;
        }
    }

    /// Writes the block of `group`. Returns where.
    fn append(&mut self, group: u32, class: u8, now: u64, places: &mut Places) -> u32 {
        let class = match self.frontiers.place(Class(class)) {
            Some(_) => class,
            None => self.open(class),
        };
        let (unit, next) = self.frontiers.place(Class(class)).expect("it was just looked at");
        let blocks = self.units.blocks_per_unit();
        let at = unit.0 * blocks + next;
        self.groups[at as usize] = group;
        *places.get_mut(group, self.rule) = at + 1;
        self.units.add_valid(unit);
        if next + 1 == blocks {
            self.units.close(unit, blocks, now);
            self.frontiers.close(Class(class));
        } else {
            self.frontiers.set(Class(class), (unit, next + 1));
        }
        at
    }

    /// Opens a unit for `class`; without a free unit, returns the nearest class with an open unit.
    fn open(&mut self, class: u8) -> u8 {
        if let Some(unit) = self.free.pop() {
            self.units.open(unit, Class(class));
            self.frontiers.set(Class(class), (unit, 0));
            return class;
        }
        let nearest = self.frontiers.nearest(Class(class), |_| true);
        nearest.expect("a victim's blocks fit into the reserve").0
    }

    /// Whether what is valid in `victim` fits into free and open units. It always does unless the sample is larger than
    /// its share.
    fn has_room_for(&self, victim: UnitId) -> bool {
        let blocks = self.units.blocks_per_unit();
        let open: u32 = self.frontiers.open().map(|(_, next)| blocks - next).sum();
        self.units.valid_count(victim) <= self.free.len() as u32 * blocks + open
    }

    /// Cleans a unit. Returns `false` if there is nothing to gain, or no room to gain it.
    fn collect(&mut self, now: u64, history: &History, places: &mut Places) -> bool {
        let range = 0..self.units.count();
        let victim = self.cleaner.choose(self.rule, &self.units, range, now, |_| true);
        let Some(victim) = victim.filter(|&victim| self.has_room_for(victim)) else { return false };
        self.units.begin_relocation(victim);
        let blocks = self.units.blocks_per_unit();
        let mut copied = 0;
        for at in victim.0 * blocks..(victim.0 + 1) * blocks {
            let group = self.groups[at as usize];
            if group != NOTHING && places.get(group, self.rule) == at + 1 {
                let past = || history.past(sampled(group, self.shift));
                let class = self.rule.survivor(past, history.seen());
                let to = self.append(group, class, now, places);
                self.copies += 1.0;
                copied += 1;
                if let Some(drive) = &mut self.drive {
                    drive.copy(to);
                }
            }
            self.groups[at as usize] = NOTHING;
        }
        if let Some(drive) = &mut self.drive {
            let below = drive.collected(victim.0 * blocks, copied, blocks);
            self.copies += WEIGHT * below as f32;
        }
        self.units.erase(victim);
        self.free.push(victim);
        true
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.units.memory_bytes()
            + self.groups.capacity() * size_of::<u32>()
            + self.cleaner.memory_bytes()
            + self.drive.as_ref().map_or(0, Drive::memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnitState;

    #[test]
    fn one_block_of_each_group_is_sampled() {
        for shift in [4, 7] {
            for group in 0..100 {
                let first = u64::from(group) << shift;
                let hits = (first..first + (1 << shift))
                    .filter(|&lba| group_of(Lba(lba), shift).is_some());
                assert_eq!(hits.count(), 1);
                assert_eq!(group_of(sampled(group, shift), shift), Some(group));
            }
        }
    }

    #[test]
    fn a_miniature_has_the_room_of_its_sample_whatever_the_length_of_units() {
        for (shift, units, blocks_per_unit) in [
            (6, 1711, 224),
            (6, 374, 1024),
            (7, 2298, 512),
            (5, 450, 500),
            (4, 2000, 16),
            (7, 99, 1000),
        ] {
            let capacity = u64::from(units * blocks_per_unit) * 4 / 5;
            let drive = Miniature::new(Rule::Apart, shift, capacity, units, blocks_per_unit);
            let room = f64::from(drive.units.count() * drive.blocks_per_unit());
            let real = f64::from(units * blocks_per_unit) / f64::from(1 << shift);
            assert!(
                (room / real - 1.0).abs() < 0.006,
                "{room} of {real}, units of {blocks_per_unit}"
            );
            assert!(drive.units.count() < 2 * UNITS && drive.blocks_per_unit() >= 8);
        }
    }

    #[test]
    fn a_miniature_holds_what_was_written_last_and_counts_its_copies() {
        let (shift, capacity) = (4, 16 * 1000);
        let mut history = History::new(capacity);
        // 1000 sampled blocks in 40 units of 32: 28 % more than they need.
        let mut places = Places::default();
        let mut drive = Miniature::new(Rule::Apart, shift, capacity, 40, 512);
        let mut now = 0;
        for round in 0..20_u32 {
            for index in 0..1000_u32 {
                let group = (index * 7 + round * index) % 1000;
                let past = history.write(sampled(group, shift), now);
                drive.write(group, past, now, &history, &mut places);
                now += 16;
            }
        }
        let valid: u32 = drive
            .units
            .ids()
            .filter(|&unit| drive.units.state(unit) == UnitState::Closed)
            .map(|unit| drive.units.valid_count(unit))
            .sum();
        let found = (0..1000_u32).filter(|&group| {
            let at = places.get(group, Rule::Apart) - 1;
            drive.groups[at as usize] == group
        });
        assert_eq!(found.count(), 1000);
        assert!(valid > 900 && drive.copies > 100.0, "{valid} {}", drive.copies);
    }
}
