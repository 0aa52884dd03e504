//! The closed units by valid count and, among equals, by when they were closed: the best of a score in both is found
//! among few units.
//!
//! Of two closed units with equally many valid blocks no score prefers the one closed later. So units stand in slots in
//! the order in which they were closed, and the valid counts are cut into ranges, each with a set of the slots of its
//! units: a search looks at the oldest of each range, and on until the next cannot be as good whatever its valid count
//! in the range. A block that becomes invalid now and then moves a bit from one set to the next.
//!
//! Memory: two bits a unit for each range, and 36 bytes a unit.
//!
//! Invariants:
//! * The slots of closed units are in order of their closing times. A unit that comes too late for that is apart until
//!   slots are renumbered; so is one without a valid block, which scores without bound or cannot be chosen at all.
//! * A slot is in the set of the range of its unit's valid count and in no other; slots without a unit are in none.

use std::collections::BTreeMap;
use std::ops::Range;

use thermocline_types::UnitId;

use super::Best;

/// Marks a unit without a slot.
const NONE: u32 = u32::MAX;
/// Slots for each unit: renumbering, which looks at all of them, comes once as many units were closed as there are.
const SLOTS_PER_UNIT: usize = 2;

/// A set of small numbers that is searched in steps of 64.
#[derive(Clone, Debug)]
struct Bits {
    /// Of each level a bit says that a word of the level before it is not 0. The last one is a single word.
    levels: Vec<Vec<u64>>,
}

impl Bits {
    fn new(len: usize) -> Bits {
        let mut levels = vec![vec![0; len.div_ceil(64).max(1)]];
        while let Some(words) = levels.last().filter(|words| words.len() > 1) {
            levels.push(vec![0; words.len().div_ceil(64)]);
        }
        Bits { levels }
    }

    #[inline]
    fn set(&mut self, mut at: usize) {
        for words in &mut self.levels {
            let word = &mut words[at / 64];
            let before = *word;
            *word |= 1 << (at % 64);
            if before != 0 {
                return;
            }
            at /= 64;
        }
    }

    #[inline]
    fn clear(&mut self, mut at: usize) {
        for words in &mut self.levels {
            let word = &mut words[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The smallest member from `from` on.
    fn next(&self, from: usize) -> Option<usize> {
        self.next_of(0, from)
    }

    fn next_of(&self, level: usize, from: usize) -> Option<usize> {
        let words = self.levels.get(level)?;
        let word = words.get(from / 64)? & (u64::MAX << (from % 64));
        if word != 0 {
            return Some(from / 64 * 64 + word.trailing_zeros() as usize);
        }
        let at = self.next_of(level + 1, from / 64 + 1)?;
        Some(at * 64 + words[at].trailing_zeros() as usize)
    }

    fn empty(&mut self) {
        self.levels.iter_mut().for_each(|words| words.fill(0));
    }

    fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|words| words.capacity() * size_of::<u64>()).sum()
    }

    fn is_empty(&self) -> bool {
        self.levels.last().is_none_or(|top| top[0] == 0)
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.next(0), |&last| self.next(last + 1))
    }
}

/// The closed units of a device.
#[derive(Clone, Debug)]
pub(super) struct ByAge {
    /// A range has two to the power of this valid counts.
    width_bits: u32,
    /// The slots of each range.
    of_range: Vec<Bits>,
    /// Ranges that any unit is in.
    ranges: Bits,
    /// Slots with a unit.
    all: Bits,
    slot_of: Vec<u32>,
    /// The unit in each slot and when it was closed, in host writes; an empty slot keeps its previous content.
    slots: Vec<(UnitId, u64)>,
    /// Closed units without a slot, and when they were closed.
    apart: BTreeMap<u32, u64>,
}

impl ByAge {
    /// No closed unit among `units`, in each of which `most_valid` blocks can be valid, in at most `ranges` ranges.
    pub fn new(units: usize, most_valid: u32, ranges: u32) -> ByAge {
        let slots = units * SLOTS_PER_UNIT;
        let width_bits = (most_valid / ranges.max(1)).checked_ilog2().map_or(0, |bits| bits + 1);
        let ranges = (most_valid >> width_bits) as usize + 1;
        ByAge {
            width_bits,
            of_range: vec![Bits::new(slots); ranges],
            ranges: Bits::new(ranges),
            all: Bits::new(slots),
            slot_of: vec![NONE; units],
            slots: Vec::with_capacity(slots),
            apart: BTreeMap::new(),
        }
    }

    /// Adds `unit`, which was closed at `closed_at`; `valid` says how many valid blocks each unit has, this one too.
    pub fn add(&mut self, unit: UnitId, closed_at: u64, valid: impl Fn(UnitId) -> u32) {
        if self.slots.len() == self.slots.capacity() {
            self.renumber(&valid);
        }
        let in_order = self.slots.last().is_none_or(|&(_, last)| last <= closed_at);
        match valid(unit) {
            1.. if in_order => self.push(unit, closed_at, valid(unit)),
            _ => _ = self.apart.insert(unit.0, closed_at),
        }
    }

    /// Takes `unit` with `valid` blocks out.
    pub fn remove(&mut self, unit: UnitId, valid: u32) {
        match std::mem::replace(&mut self.slot_of[unit.index()], NONE) {
            NONE => _ = self.apart.remove(&unit.0),
            slot => {
                self.all.clear(slot as usize);
                self.take(self.range_of(valid), slot as usize);
            }
        }
    }

    /// Notes that `unit` has `now` valid blocks, not `before`.
    #[inline]
    pub fn recount(&mut self, unit: UnitId, before: u32, now: u32) {
        let (from, to) = (self.range_of(before), self.range_of(now));
        if from == to && now > 0 {
            return;
        }
        let slot = self.slot_of[unit.index()];
        if slot == NONE {
            return;
        }
        if now == 0 {
            self.apart.insert(unit.0, self.slots[slot as usize].1);
            return self.remove(unit, before);
        }
        self.take(from, slot as usize);
        self.insert(to, slot as usize);
    }

    /// Bytes of memory held, but for what is apart.
    pub fn memory_bytes(&self) -> usize {
        let sets = self.of_range.iter().chain([&self.ranges, &self.all]);
        sets.map(Bits::memory_bytes).sum::<usize>()
            + self.slot_of.capacity() * size_of::<u32>()
            + self.slots.capacity() * size_of::<(UnitId, u64)>()
    }

    /// As [`Units::best_closed`](super::Units::best_closed), where units have so many valid blocks as `valid` says.
    pub fn best(
        &self,
        range: &Range<u32>,
        valid: impl Fn(UnitId) -> u32,
        allowed: impl Fn(UnitId) -> bool,
        score: impl Fn(u32, u64) -> f64,
    ) -> Option<UnitId> {
        let mut best = Best::default();
        let look_at = |best: &mut Best, unit: UnitId, closed_at| {
            if range.contains(&unit.0) {
                best.or(unit, score(valid(unit), closed_at), &allowed);
            }
        };
        for (&unit, &closed_at) in self.apart.range(range.clone()) {
            look_at(&mut best, UnitId(unit), closed_at);
            if best.0.is_some_and(|(top, _)| top == f64::INFINITY) {
                return best.unit();
            }
        }
        let Some(first) = self.all.next(0) else { return best.unit() };
        for at in self.ranges.iter() {
            let least = (at as u32) << self.width_bits;
            if best.beats(score(least, self.slots[first].1)) {
                break;
            }
            for (unit, closed_at) in self.of_range[at].iter().map(|slot| self.slots[slot]) {
                if best.beats(score(least, closed_at)) {
                    break;
                }
                look_at(&mut best, unit, closed_at);
            }
        }
        best.unit()
    }

    fn push(&mut self, unit: UnitId, closed_at: u64, valid: u32) {
        let slot = self.slots.len();
        self.slots.push((unit, closed_at));
        self.slot_of[unit.index()] = slot as u32;
        self.all.set(slot);
        self.insert(self.range_of(valid), slot);
    }

    /// Puts all closed units with valid blocks into slots, in order.
    #[inline(never)]
    fn renumber(&mut self, valid: impl Fn(UnitId) -> u32) {
        let mut units: Vec<(UnitId, u64)> = self.all.iter().map(|slot| self.slots[slot]).collect();
        let apart = self.apart.extract_if(.., |unit, _| valid(UnitId(*unit)) > 0);
        units.extend(apart.map(|(unit, closed_at)| (UnitId(unit), closed_at)));
        units.sort_by_key(|&(_, closed_at)| closed_at);
        let sets = self.of_range.iter_mut().chain([&mut self.ranges, &mut self.all]);
        sets.for_each(Bits::empty);
        self.slots.clear();
        units.into_iter().for_each(|(unit, at)| self.push(unit, at, valid(unit)));
    }

    fn range_of(&self, valid: u32) -> usize {
        // A unit whose headers have packed blocks holds a few more than are counted on.
        ((valid >> self.width_bits) as usize).min(self.of_range.len() - 1)
    }

    fn insert(&mut self, range: usize, slot: usize) {
        self.of_range[range].set(slot);
        self.ranges.set(range);
    }

    fn take(&mut self, range: usize, slot: usize) {
        let slots = &mut self.of_range[range];
        slots.clear(slot);
        if slots.is_empty() {
            self.ranges.clear(range);
        }
    }
}
