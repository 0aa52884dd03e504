//! The closed units by valid count and, among equals, by when they were closed: the best of a score in both is found
//! among as many units as there are valid counts, however many units there are.
//!
//! Of two closed units with equally many valid blocks no score prefers the one closed later, so the oldest of each
//! valid count is enough to look at. Units stand in slots in the order in which they were closed, and each valid count
//! has a set of slots: a block that becomes invalid moves a bit from one set to the next.
//!
//! Memory: two bits a unit for each valid count that is possible, and 36 bytes a unit.
//!
//! Invariants:
//! * The slots of closed units are in order of their closing times.
//! * A slot is in the set of its unit's valid count and in no other; slots without a unit are in none.

use std::ops::Range;

use thermocline_types::UnitId;

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
    /// The slots of each valid count.
    of_count: Vec<Bits>,
    /// Valid counts that any unit has.
    counts: Bits,
    /// Slots with a unit.
    all: Bits,
    slot_of: Vec<u32>,
    /// The unit in each slot and when it was closed, in host writes; of an empty slot what was there before.
    slots: Vec<(UnitId, u64)>,
}

impl ByAge {
    /// No closed unit among `units`, in each of which `most_valid` blocks can be valid.
    pub fn new(units: usize, most_valid: u32) -> ByAge {
        let slots = units * SLOTS_PER_UNIT;
        let counts = most_valid as usize + 1;
        ByAge {
            of_count: vec![Bits::new(slots); counts],
            counts: Bits::new(counts),
            all: Bits::new(slots),
            slot_of: vec![NONE; units],
            slots: Vec::with_capacity(slots),
        }
    }

    /// Whether a unit that was closed at `closed_at` can be added; if not, [`ByAge::fill`] makes it so.
    pub fn takes(&self, closed_at: u64) -> bool {
        let in_order = self.slots.last().is_none_or(|&(_, last)| last <= closed_at);
        in_order && self.slots.len() < self.slot_of.len() * SLOTS_PER_UNIT
    }

    /// Adds `unit` with `valid` blocks, closed after all others, or at the same time.
    pub fn add(&mut self, unit: UnitId, valid: u32, closed_at: u64) {
        debug_assert!(self.takes(closed_at), "slots are in order");
        let slot = self.slots.len();
        self.slots.push((unit, closed_at));
        self.slot_of[unit.index()] = slot as u32;
        self.all.set(slot);
        self.insert(valid, slot);
    }

    /// Takes `unit` with `valid` blocks out.
    pub fn remove(&mut self, unit: UnitId, valid: u32) {
        let slot = std::mem::replace(&mut self.slot_of[unit.index()], NONE) as usize;
        self.all.clear(slot);
        self.take(valid, slot);
    }

    /// Notes that `unit` has `now` valid blocks, not `before`.
    pub fn recount(&mut self, unit: UnitId, before: u32, now: u32) {
        let slot = self.slot_of[unit.index()] as usize;
        self.take(before, slot);
        self.insert(now, slot);
    }

    /// Holds `closed` units, with their valid counts and when they were closed, and no others.
    pub fn fill(&mut self, mut closed: Vec<(u64, UnitId, u32)>) {
        *self = ByAge::new(self.slot_of.len(), self.of_count.len() as u32 - 1);
        closed.sort_unstable();
        for (closed_at, unit, valid) in closed {
            self.add(unit, valid, closed_at);
        }
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let sets = self.of_count.iter().chain([&self.counts, &self.all]);
        sets.map(Bits::memory_bytes).sum::<usize>()
            + self.slot_of.capacity() * size_of::<u32>()
            + self.slots.capacity() * size_of::<(UnitId, u64)>()
    }

    /// As [`Units::best_closed`](super::Units::best_closed).
    pub fn best(
        &self,
        range: &Range<u32>,
        allowed: impl Fn(UnitId) -> bool,
        mut score: impl FnMut(u32, u64) -> f64,
    ) -> Option<UnitId> {
        let (_, first) = self.slots[self.all.next(0)?];
        let may = |unit: UnitId| range.contains(&unit.0) && allowed(unit);
        let mut best: Option<(f64, UnitId)> = None;
        for valid in self.counts.iter() {
            if best.is_some_and(|(top, _)| score(valid as u32, first) < top) {
                break;
            }
            let Some((value, unit)) = self.best_of(valid, may, &mut score) else { continue };
            if best.is_none_or(|(top, other)| value > top || (value >= top && unit < other)) {
                best = Some((value, unit));
            }
        }
        best.map(|(_, unit)| unit)
    }

    /// Of the units with `valid` blocks that `may` be taken the one with the best score, and the score; the lowest
    /// identifier among equals.
    fn best_of(
        &self,
        valid: usize,
        may: impl Fn(UnitId) -> bool,
        score: &mut impl FnMut(u32, u64) -> f64,
    ) -> Option<(f64, UnitId)> {
        let mut units = self.of_count[valid].iter().map(|slot| self.slots[slot]);
        let (mut first, closed_at) = units.by_ref().find(|&(unit, _)| may(unit))?;
        let top = score(valid as u32, closed_at);
        for (unit, _) in
            units.take_while(|&(_, at)| at == closed_at || score(valid as u32, at) >= top)
        {
            if unit < first && may(unit) {
                first = unit;
            }
        }
        Some((top, first))
    }

    fn insert(&mut self, valid: u32, slot: usize) {
        self.of_count[valid as usize].set(slot);
        self.counts.set(valid as usize);
    }

    fn take(&mut self, valid: u32, slot: usize) {
        let slots = &mut self.of_count[valid as usize];
        slots.clear(slot);
        if slots.is_empty() {
            self.counts.clear(valid as usize);
        }
    }
}
