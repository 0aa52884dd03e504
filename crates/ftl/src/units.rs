//! Units of erasure: which blocks they hold, which of those are valid, and what victim selection needs to know.
//!
//! Invariants:
//! * A unit's valid count equals the number of its set valid bits.
//! * `groups[g]` holds the exact smallest valid count and earliest closing over the closed units of group `g`, so that
//!   a search over units can skip whole groups; with no closed unit, its valid count has the not-closed mark.

use thermocline_types::{Class, Lba, Pba, UnitId};

use crate::{Packed, Shape};

/// Units whose summary is kept together; a search looks at `units / 64` summaries and then inside few groups.
const GROUP: usize = 64;
/// Set in a unit's valid count while it is not closed, so that it never wins a search for the smallest count.
const NOT_CLOSED: u32 = 1 << 31;

/// What a unit is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// Erased, ready to be opened.
    Free,
    /// Being written.
    Open,
    /// Written to its end; may become a victim.
    Closed,
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

/// All units of a device: reverse map (P2L), valid bits and counts, states, erase counts.
#[derive(Clone, Debug)]
pub struct Units {
    shape: Shape,
    p2l: Packed,
    valid_bits: Vec<u64>,
    valid: Vec<u32>,
    meta: Vec<Meta>,
    groups: Vec<Group>,
}

impl Units {
    /// All units free and never erased.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let units = shape.units() as usize;
        let fresh =
            Meta { state: UnitState::Free, class: Class(0), written: 0, erases: 0, closed_at: 0 };
        Units {
            shape,
            p2l: Packed::new(shape.physical(), shape.exported()),
            valid_bits: vec![0; shape.pba_limit().div_ceil(64) as usize],
            valid: vec![NOT_CLOSED; units],
            meta: vec![fresh; units],
            groups: vec![EMPTY_GROUP; units.div_ceil(GROUP)],
        }
    }

    /// How the device is cut.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
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

    /// When `unit` was closed, in host writes.
    #[must_use]
    pub fn closed_at(&self, unit: UnitId) -> u64 {
        self.meta[unit.index()].closed_at
    }

    /// Every unit.
    pub fn ids(&self) -> impl Iterator<Item = UnitId> + use<> {
        (0..self.shape.units()).map(UnitId)
    }

    /// The logical block last written to `pba`.
    #[must_use]
    pub fn lba_at(&self, pba: Pba) -> Option<Lba> {
        self.p2l.get(self.shape.flat_index(pba)).map(Lba)
    }

    /// Whether `pba` holds valid data.
    #[must_use]
    pub fn is_valid(&self, pba: Pba) -> bool {
        self.valid_bits[pba.index() >> 6] >> (pba.0 & 63) & 1 == 1
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.p2l.memory_bytes()
            + self.valid_bits.capacity() * 8
            + self.valid.capacity() * 4
            + self.meta.capacity() * size_of::<Meta>()
            + self.groups.capacity() * size_of::<Group>()
    }

    /// Starts writing the free `unit` with blocks of `class`.
    pub fn open(&mut self, unit: UnitId, class: Class) {
        let meta = &mut self.meta[unit.index()];
        assert_eq!(meta.state, UnitState::Free, "only a free unit can be opened");
        *meta = Meta { state: UnitState::Open, class, written: 0, ..*meta };
    }

    /// Records that `lba` was written to `pba` and is valid there.
    #[inline]
    pub fn program(&mut self, pba: Pba, lba: Lba) {
        self.p2l.set(self.shape.flat_index(pba), lba.0);
        self.valid_bits[pba.index() >> 6] |= 1 << (pba.0 & 63);
        self.valid[self.shape.unit(pba).index()] += 1;
    }

    /// Records that the block at `pba` is no longer valid.
    #[inline]
    pub fn invalidate(&mut self, pba: Pba) {
        let unit = self.shape.unit(pba).index();
        debug_assert!(self.is_valid(pba), "a block dies once");
        self.valid_bits[pba.index() >> 6] &= !(1 << (pba.0 & 63));
        let valid = self.valid[unit] - 1;
        self.valid[unit] = valid;
        let group = &mut self.groups[unit / GROUP];
        group.min_valid = group.min_valid.min(valid);
    }

    /// Records that `unit` was written to its end, or as far as it ever will be, at host write `now`.
    pub fn close(&mut self, unit: UnitId, written: u32, now: u64) {
        let index = unit.index();
        let meta = &mut self.meta[index];
        assert_eq!(meta.state, UnitState::Open, "only an open unit can be closed");
        *meta = Meta { state: UnitState::Closed, written, closed_at: now, ..*meta };
        self.valid[index] &= !NOT_CLOSED;
        let group = &mut self.groups[index / GROUP];
        group.min_valid = group.min_valid.min(self.valid[index]);
        group.oldest = group.oldest.min(now);
    }

    /// Notes how far an open unit is written, for those who look at it from outside.
    pub fn set_written(&mut self, unit: UnitId, written: u32) {
        self.meta[unit.index()].written = written;
    }

    /// Takes the closed `unit` out of victim selection while its valid blocks are copied.
    pub(crate) fn begin_relocation(&mut self, unit: UnitId) {
        assert_eq!(self.state(unit), UnitState::Closed, "only a closed unit can be a victim");
        self.valid[unit.index()] |= NOT_CLOSED;
        self.refresh_group(unit);
    }

    /// Erases `unit`, whose valid blocks were copied, and returns how often it has been erased.
    pub(crate) fn erase(&mut self, unit: UnitId) -> u32 {
        let base = self.shape.pba(unit, 0).index();
        self.clear_bits(base, self.shape.blocks_per_unit() as usize);
        self.valid[unit.index()] = NOT_CLOSED;
        let meta = &mut self.meta[unit.index()];
        meta.state = UnitState::Free;
        meta.written = 0;
        meta.erases += 1;
        meta.erases
    }

    /// Takes the free `unit` out of service.
    pub(crate) fn retire(&mut self, unit: UnitId) {
        let meta = &mut self.meta[unit.index()];
        assert_eq!(meta.state, UnitState::Free, "only an erased unit can be retired");
        meta.state = UnitState::Retired;
    }

    /// Appends the valid blocks of `unit` with their offsets to `out`, in order of offset.
    pub fn valid_blocks(&self, unit: UnitId, out: &mut Vec<(u32, Lba)>) {
        let blocks = self.shape.blocks_per_unit();
        let base = self.shape.pba(unit, 0).index();
        let mut offset = 0;
        while offset < blocks {
            let bit = base + offset as usize;
            let span = (64 - (bit & 63) as u32).min(blocks - offset);
            let mut word = self.valid_bits[bit >> 6] >> (bit & 63);
            if span < 64 {
                word &= (1 << span) - 1;
            }
            while word != 0 {
                let at = offset + word.trailing_zeros();
                let lba = self.p2l.get(unit.index() * blocks as usize + at as usize);
                out.push((at, Lba(lba.expect("a valid block has an address"))));
                word &= word - 1;
            }
            offset += span;
        }
    }

    /// The closed unit of `range` with the highest score, the lowest identifier among equals; `None` when no unit of
    /// the range is closed.
    ///
    /// `score` takes the valid count and the closing time. It must not rise with the valid count nor with the closing
    /// time; then a group whose fewest valid blocks and earliest closing together score no better than the best unit
    /// so far holds no better unit and is skipped.
    pub fn best_closed(
        &self,
        range: std::ops::Range<u32>,
        mut score: impl FnMut(u32, u64) -> f64,
    ) -> Option<UnitId> {
        let mut best: Option<(f64, UnitId)> = None;
        let groups = range.start as usize / GROUP..(range.end as usize).div_ceil(GROUP);
        for (index, group) in self.groups[groups.clone()].iter().enumerate() {
            if group.min_valid & NOT_CLOSED != 0 {
                continue;
            }
            if best.is_some_and(|(top, _)| score(group.min_valid, group.oldest) <= top) {
                continue;
            }
            let first = (groups.start + index) * GROUP;
            for unit in first.max(range.start as usize)..(first + GROUP).min(range.end as usize) {
                let valid = self.valid[unit];
                if valid & NOT_CLOSED == 0 {
                    let value = score(valid, self.meta[unit].closed_at);
                    if best.is_none_or(|(top, _)| value > top) {
                        best = Some((value, UnitId(unit as u32)));
                    }
                }
            }
        }
        best.map(|(_, unit)| unit)
    }

    /// The closed unit of `range` with the fewest valid blocks, the lowest identifier among equals.
    #[must_use]
    pub fn emptiest_closed(&self, range: std::ops::Range<u32>) -> Option<UnitId> {
        if range.start != 0 || range.end != self.shape.units() {
            return self.best_closed(range, |valid, _| -f64::from(valid));
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

    fn clear_bits(&mut self, start: usize, count: usize) {
        let end = start + count;
        let mut bit = start;
        while bit < end {
            let span = (64 - (bit & 63)).min(end - bit);
            let mask = if span == 64 { u64::MAX } else { ((1 << span) - 1) << (bit & 63) };
            self.valid_bits[bit >> 6] &= !mask;
            bit += span;
        }
    }
}
