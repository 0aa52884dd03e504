//! Units of erasure: what each is doing, how many of its blocks are valid, and what victim selection needs to know.
//!
//! Which block lies where is not kept here but in [`ReverseMap`](crate::ReverseMap), or on the media by a layer that
//! reads a unit's own headers when it cleans it.
//!
//! Invariants:
//! * A unit's valid count has the not-closed mark exactly while its state is not [`UnitState::Closed`].
//! * `groups[g]` holds the exact smallest valid count and earliest closing over the closed units of group `g`, so that
//!   a search over units can skip whole groups; with no closed unit, its valid count has the not-closed mark.

mod by_age;

use std::ops::Range;

use thermocline_types::{Class, UnitId};

use by_age::ByAge;

/// Units whose summary is kept together; a search looks at `units / 64` summaries and then inside few groups.
const GROUP: usize = 64;
/// Ranges of valid counts in which closed units are kept by age, at most.
const RANGES: u32 = 64;
/// Set in a unit's valid count while it is not closed, so that it never wins a search for the smallest count.
const NOT_CLOSED: u32 = 1 << 31;

/// What a unit is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// Erased, ready to be opened.
    Free,
    /// Being written.
    Open,
    /// Written to its end, or as far as it ever will be; may become a victim.
    Closed,
    /// A victim: its valid blocks are being copied, after which it is erased.
    Relocating,
    /// Out of service for good.
    Retired,
}

#[derive(Clone, Copy, Debug)]
struct Meta {
    state: UnitState,
    class: Class,
    written: u32,
    erases: u32,
    closed_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    min_valid: u32,
    oldest: u64,
}

const EMPTY_GROUP: Group = Group { min_valid: u32::MAX, oldest: u64::MAX };

/// The best unit of a search so far, with its score.
#[derive(Debug, Default)]
struct Best(Option<(f64, UnitId)>);

impl Best {
    /// Whether no unit with `score` is as good.
    #[inline]
    fn beats(&self, score: f64) -> bool {
        self.0.is_some_and(|(top, _)| score < top)
    }

    /// Keeps the better of the current unit and an allowed `unit`; at equal scores the lower identifier.
    #[inline]
    fn or(&mut self, unit: UnitId, score: f64, allowed: impl Fn(UnitId) -> bool) {
        let better = |(top, other)| score > top || score >= top && unit < other;
        if self.0.is_none_or(better) && allowed(unit) {
            self.0 = Some((score, unit));
        }
    }

    fn unit(self) -> Option<UnitId> {
        self.0.map(|(_, unit)| unit)
    }
}

/// All units of a device: states, classes, valid counts, erase counts. 28.25 bytes of memory per unit.
#[derive(Clone, Debug)]
pub struct Units {
    blocks_per_unit: u32,
    most_valid: u32,
    valid: Vec<u32>,
    meta: Vec<Meta>,
    groups: Vec<Group>,
    /// Of the times noted for the blocks of each unit: their sum and how many there are. Empty unless they are tracked.
    updates: Vec<(f64, u32)>,
    /// Another way to find the best closed unit, if it is kept.
    by_age: Option<Box<ByAge>>,
}

impl Units {
    /// `units` units of `blocks_per_unit` blocks, all free and never erased.
    ///
    /// # Panics
    /// If a unit has more than 2^31 − 1 blocks.
    #[must_use]
    pub fn new(units: u32, blocks_per_unit: u32) -> Self {
        assert!(blocks_per_unit < NOT_CLOSED, "valid counts need a bit for the mark");
        let units = units as usize;
        let fresh =
            Meta { state: UnitState::Free, class: Class(0), written: 0, erases: 0, closed_at: 0 };
        Units {
            blocks_per_unit,
            most_valid: blocks_per_unit,
            valid: vec![NOT_CLOSED; units],
            meta: vec![fresh; units],
            groups: vec![EMPTY_GROUP; units.div_ceil(GROUP)],
            updates: Vec::new(),
            by_age: None,
        }
    }

    /// Units in which at most `most` blocks can be valid, because part of them holds something else or they are
    /// counted in smaller blocks.
    #[must_use]
    pub fn with_most_valid(mut self, most: u32) -> Self {
        self.most_valid = most;
        self
    }

    /// Blocks that can be valid in a unit.
    #[must_use]
    #[inline]
    pub fn most_valid(&self) -> u32 {
        self.most_valid
    }

    /// Keeps the mean of the times that [`Units::note_update`] is given for each unit, at 16 bytes a unit.
    pub(crate) fn track_updates(&mut self) {
        self.updates = vec![(0.0, 0); self.valid.len()];
    }

    /// Keeps closed units in order of age as well, so that [`Units::best_closed`] looks at few of them also
    /// where scores depend on age. Takes 53 bytes a unit at most.
    #[must_use]
    pub fn keeping_by_age(self) -> Self {
        self.keeping_ranges(RANGES)
    }

    fn keeping_ranges(mut self, ranges: u32) -> Self {
        let mut by_age = ByAge::new(self.valid.len(), self.most_valid, ranges);
        for unit in self.ids().filter(|&unit| self.state(unit) == UnitState::Closed) {
            by_age.add(unit, self.closed_at(unit), |unit| self.valid_count(unit));
        }
        self.by_age = Some(Box::new(by_age));
        self
    }

    /// Whether times of updates are tracked.
    #[inline]
    pub(crate) fn tracks_updates(&self) -> bool {
        !self.updates.is_empty()
    }

    /// Notes for a block written to the open `unit` when it is thought to have been updated the last time but one.
    pub(crate) fn note_update(&mut self, unit: UnitId, at: u64) {
        let (sum, count) = &mut self.updates[unit.index()];
        *sum += at as f64;
        *count += 1;
    }

    /// The mean of the times noted for the blocks of `unit`, in host writes; the closing time if no time was noted.
    #[must_use]
    pub fn mean_update(&self, unit: UnitId) -> u64 {
        match self.updates.get(unit.index()) {
            Some(&(sum, count)) if count > 0 => (sum / f64::from(count)) as u64,
            _ => self.closed_at(unit),
        }
    }

    /// How many units there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.valid.len() as u32
    }

    /// Blocks in a unit.
    #[must_use]
    pub fn blocks_per_unit(&self) -> u32 {
        self.blocks_per_unit
    }

    /// What `unit` is doing.
    #[must_use]
    pub fn state(&self, unit: UnitId) -> UnitState {
        self.meta[unit.index()].state
    }

    /// The class whose blocks `unit` holds; meaningless while it is free.
    #[must_use]
    pub fn class(&self, unit: UnitId) -> Class {
        self.meta[unit.index()].class
    }

    /// Valid blocks in `unit`.
    #[must_use]
    pub fn valid_count(&self, unit: UnitId) -> u32 {
        self.valid[unit.index()] & !NOT_CLOSED
    }

    /// Blocks written in `unit` since its last erase.
    #[must_use]
    pub fn written(&self, unit: UnitId) -> u32 {
        self.meta[unit.index()].written
    }

    /// How often `unit` was erased.
    #[must_use]
    pub fn erases(&self, unit: UnitId) -> u32 {
        self.meta[unit.index()].erases
    }

    /// When `unit` was last closed, in host writes.
    #[must_use]
    pub fn closed_at(&self, unit: UnitId) -> u64 {
        self.meta[unit.index()].closed_at
    }

    /// Every unit.
    pub fn ids(&self) -> impl Iterator<Item = UnitId> + use<> {
        (0..self.count()).map(UnitId)
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.valid.capacity() * size_of::<u32>()
            + self.meta.capacity() * size_of::<Meta>()
            + self.groups.capacity() * size_of::<Group>()
            + self.updates.capacity() * size_of::<(f64, u32)>()
            + self.by_age.as_ref().map_or(0, |by_age| by_age.memory_bytes())
    }

    /// Starts writing the free `unit` with blocks of `class`.
    ///
    /// # Panics
    /// If the unit is not free.
    pub fn open(&mut self, unit: UnitId, class: Class) {
        let meta = &mut self.meta[unit.index()];
        assert_eq!(meta.state, UnitState::Free, "only a free unit can be opened");
        *meta = Meta { state: UnitState::Open, class, written: 0, ..*meta };
    }

    /// Notes how far an open unit is written, for those who look at it from outside.
    pub fn set_written(&mut self, unit: UnitId, written: u32) {
        self.meta[unit.index()].written = written;
    }

    /// Counts a further valid block in `unit`, in any unit state. At least one block must not be valid yet.
    #[inline]
    pub fn add_valid(&mut self, unit: UnitId) {
        let valid = self.valid[unit.index()];
        debug_assert!(valid & !NOT_CLOSED < self.blocks_per_unit, "{unit:?} has no more blocks");
        self.valid[unit.index()] = valid + 1;
        if valid & NOT_CLOSED == 0 {
            if valid == self.groups[unit.index() / GROUP].min_valid {
                self.refresh_group(unit);
            }
            self.recount(unit, valid, valid + 1);
        }
    }

    /// Sets how many blocks of `unit`, which is not closed, are valid: what is known from before a restart.
    ///
    /// # Panics
    /// If the unit is closed.
    pub fn set_valid(&mut self, unit: UnitId, blocks: u32) {
        assert!(self.valid[unit.index()] & NOT_CLOSED != 0, "{unit:?} is closed");
        self.valid[unit.index()] = NOT_CLOSED | blocks;
    }

    /// Counts one valid block less in `unit`, in any unit state. At least one block must be valid.
    #[inline]
    pub fn drop_valid(&mut self, unit: UnitId) {
        let valid = self.valid[unit.index()];
        debug_assert!(valid & !NOT_CLOSED > 0, "{unit:?} holds no valid block");
        let valid = valid - 1;
        self.valid[unit.index()] = valid;
        let group = &mut self.groups[unit.index() / GROUP];
        group.min_valid = group.min_valid.min(valid);
        if valid & NOT_CLOSED == 0 {
            self.recount(unit, valid + 1, valid);
        }
    }

    #[inline]
    fn recount(&mut self, unit: UnitId, before: u32, now: u32) {
        if let Some(by_age) = &mut self.by_age {
            by_age.recount(unit, before, now);
        }
    }

    /// Records that `unit` was written to its end, or as far as it ever will be, at host write `now`.
    ///
    /// # Panics
    /// If the unit is not open.
    pub fn close(&mut self, unit: UnitId, written: u32, now: u64) {
        let meta = &mut self.meta[unit.index()];
        assert_eq!(meta.state, UnitState::Open, "only an open unit can be closed");
        *meta = Meta { written, closed_at: now, ..*meta };
        self.enter(unit, UnitState::Closed);
    }

    /// Takes the closed `unit` out of victim selection while its valid blocks are copied.
    ///
    /// # Panics
    /// If the unit is not closed.
    pub fn begin_relocation(&mut self, unit: UnitId) {
        assert_eq!(self.state(unit), UnitState::Closed, "only a closed unit can be a victim");
        self.enter(unit, UnitState::Relocating);
    }

    /// Puts `unit`, whose relocation is called off, back among the closed ones.
    ///
    /// # Panics
    /// If the unit is not a victim.
    pub fn end_relocation(&mut self, unit: UnitId) {
        assert_eq!(self.state(unit), UnitState::Relocating, "no relocation to call off");
        self.enter(unit, UnitState::Closed);
    }

    /// Makes `unit` free, whatever it still counted as valid, and returns how often it has been erased.
    ///
    /// # Panics
    /// If the unit is retired.
    pub fn erase(&mut self, unit: UnitId) -> u32 {
        assert_ne!(self.state(unit), UnitState::Retired, "a retired unit stays out of service");
        self.enter(unit, UnitState::Free);
        self.valid[unit.index()] = NOT_CLOSED;
        if let Some(updates) = self.updates.get_mut(unit.index()) {
            *updates = (0.0, 0);
        }
        let meta = &mut self.meta[unit.index()];
        meta.written = 0;
        meta.erases += 1;
        meta.erases
    }

    /// Takes `unit` out of service, whatever it was doing. Its valid count stays: what it still holds is to be moved
    /// if it can be read, and is lost if not.
    pub fn retire(&mut self, unit: UnitId) {
        self.enter(unit, UnitState::Retired);
    }

    /// Sets what is known of `unit` from before a restart. Its valid and erase counts stay as they are, so that the
    /// valid blocks may be counted before or after.
    pub fn adopt(
        &mut self,
        unit: UnitId,
        state: UnitState,
        class: Class,
        written: u32,
        closed_at: u64,
    ) {
        // First out of its group, which may hold the old time of closing.
        self.enter(unit, UnitState::Free);
        let meta = &mut self.meta[unit.index()];
        *meta = Meta { class, written, closed_at, ..*meta };
        self.enter(unit, state);
    }

    /// The closed unit of `range` with the highest score among those `allowed`, the lowest identifier among equals;
    /// `None` when there is none.
    ///
    /// `score` takes the valid count and the closing time. It must not rise with the valid count nor with the closing
    /// time; then a group whose fewest valid blocks and earliest closing together score no better than the best unit
    /// so far holds no better unit and is skipped, whichever of its units are allowed.
    pub fn best_closed(
        &self,
        range: Range<u32>,
        allowed: impl Fn(UnitId) -> bool,
        score: impl Fn(u32, u64) -> f64,
    ) -> Option<UnitId> {
        if let Some(by_age) = &self.by_age {
            return by_age.best(&range, |unit| self.valid_count(unit), allowed, score);
        }
        let empty = self.first_empty(range.clone(), &allowed);
        if let Some(empty) = empty.filter(|&unit| score(0, self.closed_at(unit)) == f64::INFINITY) {
            return Some(empty);
        }
        let groups = range.start as usize / GROUP..(range.end as usize).div_ceil(GROUP);
        // The best of the group with the emptiest unit is hardly ever beaten: the others are mostly skipped.
        let emptiest = groups.clone().min_by_key(|&group| self.groups[group].min_valid)?;
        let others = groups.filter(|&group| group != emptiest);
        let mut best = Best::default();
        for group in std::iter::once(emptiest).chain(others) {
            self.look_into(group, &range, &allowed, &score, &mut best);
        }
        best.unit()
    }

    /// Makes `best` the better of what it is and the best closed unit of a group.
    #[inline]
    fn look_into(
        &self,
        index: usize,
        range: &Range<u32>,
        allowed: impl Fn(UnitId) -> bool,
        score: impl Fn(u32, u64) -> f64,
        best: &mut Best,
    ) {
        let Group { min_valid, oldest } = self.groups[index];
        if min_valid & NOT_CLOSED != 0 || best.beats(score(min_valid, oldest)) {
            return;
        }
        // No unit of the group with more valid blocks is as good; what is not closed seems to have as many.
        let most = match best.0 {
            Some(_) => {
                highest(min_valid, self.most_valid, |valid| !best.beats(score(valid, oldest)))
            }
            None => NOT_CLOSED - 1,
        };
        let first = index * GROUP;
        for unit in first.max(range.start as usize)..(first + GROUP).min(range.end as usize) {
            let valid = self.valid[unit];
            if valid <= most {
                let score = score(valid, self.meta[unit].closed_at);
                best.or(UnitId(unit as u32), score, &allowed);
            }
        }
    }

    /// The first closed unit of `range` without a valid block among those `allowed`.
    fn first_empty(&self, range: Range<u32>, allowed: impl Fn(UnitId) -> bool) -> Option<UnitId> {
        let groups = range.start as usize / GROUP..(range.end as usize).div_ceil(GROUP);
        let with_one = groups.filter(|&group| self.groups[group].min_valid == 0);
        let units = with_one.flat_map(|group| group * GROUP..(group + 1) * GROUP);
        let units = units.map(|unit| UnitId(unit as u32)).filter(|unit| range.contains(&unit.0));
        let mut empty = units.filter(|unit| self.valid[unit.index()] == 0);
        empty.find(|&unit| allowed(unit))
    }

    /// The closed unit of `range` with the fewest valid blocks, the lowest identifier among equals.
    #[must_use]
    pub fn emptiest_closed(&self, range: Range<u32>) -> Option<UnitId> {
        if range != (0..self.count()) {
            return self.best_closed(range, |_| true, |valid, _| -f64::from(valid));
        }
        let (mut least, mut at) = (u32::MAX, 0);
        for (index, group) in self.groups.iter().enumerate() {
            if group.min_valid < least {
                (least, at) = (group.min_valid, index);
            }
        }
        if least & NOT_CLOSED != 0 {
            return None;
        }
        let first = at * GROUP;
        let members = &self.valid[first..(first + GROUP).min(self.valid.len())];
        let found = members.iter().position(|&valid| valid == least)?;
        Some(UnitId((first + found) as u32))
    }

    /// Changes the state of `unit`, with the mark in its valid count and the summary of its group.
    fn enter(&mut self, unit: UnitId, state: UnitState) {
        let index = unit.index();
        let was_closed = self.meta[index].state == UnitState::Closed;
        if was_closed && let Some(by_age) = &mut self.by_age {
            by_age.remove(unit, self.valid[index]);
        }
        self.meta[index].state = state;
        if state == UnitState::Closed {
            self.valid[index] &= !NOT_CLOSED;
            let group = &mut self.groups[index / GROUP];
            group.min_valid = group.min_valid.min(self.valid[index]);
            group.oldest = group.oldest.min(self.meta[index].closed_at);
            if let Some(by_age) = &mut self.by_age {
                by_age.add(unit, self.meta[index].closed_at, |unit| self.valid[unit.index()]);
            }
        } else {
            self.valid[index] |= NOT_CLOSED;
            if was_closed {
                self.refresh_group(unit);
            }
        }
    }

    /// Computes the summary of the group of `unit` anew. Kept out of line: rare, beside the counting of valid blocks.
    #[inline(never)]
    fn refresh_group(&mut self, unit: UnitId) {
        let at = unit.index() / GROUP;
        let members = at * GROUP..((at + 1) * GROUP).min(self.valid.len());
        let mut group = EMPTY_GROUP;
        for (valid, meta) in self.valid[members.clone()].iter().zip(&self.meta[members]) {
            if valid & NOT_CLOSED == 0 {
                group.min_valid = group.min_valid.min(*valid);
                group.oldest = group.oldest.min(meta.closed_at);
            }
        }
        self.groups[at] = group;
    }
}

/// The highest number up to `most` for which `holds`: `holds` must be true for `least`, and monotonic: false above the
/// first false number.
fn highest(least: u32, most: u32, mut holds: impl FnMut(u32) -> bool) -> u32 {
    let (mut yes, mut no) = (least, most.max(least) + 1);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        *if holds(middle) { &mut yes } else { &mut no } = middle;
    }
    yes
}

#[cfg(test)]
mod tests;
