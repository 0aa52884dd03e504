//! Heals: the user of the pair has verified bytes by checks of its own, and has a wrong side written again.

use std::ops::Range;

use thermocline_array::bugs::{self, ArrayBug as Bug};
use thermocline_engine::DeviceError;
use thermocline_types::{Bytes, UnitId, Version};

use super::{Fault, MemberState, Mirror, Piece, Token};

/// A heal under way, by its place in the slab.
pub(super) type HealKey = usize;

/// Bytes that are copied at once. Chosen, not measured.
const PIECE: u64 = 1 << 20;

/// The first healed places of a pair are told one by one, later places at each power of two. Chosen, not measured.
const TOLD: u64 = 8;

/// A heal under way.
#[derive(Debug)]
pub(super) struct Heal {
    token: Token,
    waits: usize,
    fault: Option<Fault>,
    /// Whether a side was found wrong; else both are made equal.
    wrong: bool,
}

/// A range of bytes to be copied to a side.
#[derive(Debug)]
pub(super) struct Mending {
    range: Range<u64>,
    to: usize,
    heal: HealKey,
}

impl Mirror {
    /// The side that gives bytes as they are read while nothing was changed yet.
    pub(super) fn first_holder(&self, unit: UnitId) -> Option<usize> {
        let holders = (0..self.sides.len()).filter(|&side| self.holds(side, unit));
        holders.min_by_key(|&side| self.sides[side].write_mostly)
    }

    pub(super) fn heal(&mut self, token: Token, at: Bytes, bytes: u64, version: Version) {
        if let Some(fault) = self.answers.broken() {
            return self.answers.give_now(token, Err(fault));
        }
        let unit = self.layout.unit_of(at);
        let wrong = version.member_left_out();
        let heal = self.heals.insert(Heal { token, waits: 1, fault: None, wrong: wrong.is_some() });
        let to = match wrong {
            Some(side) => Some(side),
            None => self.first_holder(unit).map(|side| 1 - side),
        };
        let both = (0..self.sides.len()).all(|side| self.holds(side, unit));
        let to = to.filter(|&side| side < self.sides.len() && both);
        if let Some(to) = to.filter(|_| !bugs::has(Bug::ParityNotHealed)) {
            let mut from = at.0;
            while from < at.0 + bytes {
                let end = (from + PIECE).min(at.0 + bytes);
                self.heals[heal].waits += 1;
                self.mendings.push_back(Mending { range: from..end, to, heal });
                from = end;
            }
        }
        let impossible = wrong.is_some() && to.is_none();
        self.mended(heal, if impossible { Err(DeviceError::Io.into()) } else { Ok(()) });
    }

    /// Believes a side no more, which lacks data that was flushed: it is filled anew.
    pub(super) fn distrust(&mut self, token: Token, version: Version) {
        let side = version.member_left_out().filter(|&side| side < self.sides.len());
        let is_current = |side: usize| self.sides[side].standing == MemberState::Current;
        let there = |side: usize| self.sides[side].standing != MemberState::Out;
        let Some(side) = side.filter(|&side| is_current(1 - side) && there(side)) else {
            return self.answers.give_now(token, Err(DeviceError::Io.into()));
        };
        (self.sides[side].standing, self.sides[side].labelled) = (MemberState::Filling, false);
        self.fill.begin_all();
        self.stale = true;
        if !bugs::has(Bug::DistrustBeforeLabel) {
            self.answers.hold();
        }
        self.answers.give(token, Ok(()));
        let path = self.path_of(side);
        self.pair.say(&format!(
            "{path} lacks data that was flushed: it was put back to an earlier state, or says too soon that it has flushed. \
             It is filled anew from the other side, which is the only copy until then"
        ));
    }

    fn path_of(&self, side: usize) -> String {
        self.pair.shared().status.members[side].path.display().to_string()
    }

    /// The next range to be copied for a heal, if both sides hold its unit.
    pub(super) fn next_mending(&mut self) -> Option<Piece> {
        while let Some(Mending { range, to, heal }) = self.mendings.pop_front() {
            let unit = self.layout.unit_of(Bytes(range.start));
            if self.holds(to, unit) && self.holds(1 - to, unit) {
                return Some(self.new_piece(range, 1 - to, to, Some(heal)));
            }
            self.mended(heal, Err(DeviceError::Gone.into()));
        }
        None
    }

    /// A side failed or joined since a piece was begun.
    pub(super) fn piece_is_of_no_use(&mut self, piece: &Piece) {
        if let Some(heal) = piece.heal {
            self.mended(heal, Err(DeviceError::Gone.into()));
        }
    }

    /// A side has got its part of a heal, or has not.
    pub(super) fn piece_healed(&mut self, piece: &Piece, result: Result<(), Fault>) {
        let Some(heal) = piece.heal else { return };
        if result.is_ok() && self.heals[heal].wrong {
            self.tell_healed(piece);
        }
        self.mended(heal, result);
    }

    fn tell_healed(&mut self, piece: &Piece) {
        let places = {
            let mut shared = self.pair.shared();
            shared.status.repaired += 1;
            shared.status.repaired
        };
        if places <= TOLD || places.is_power_of_two() {
            let (path, at) = (self.path_of(piece.to), piece.range.start);
            let bytes = piece.range.end - at;
            self.pair.say(&format!(
                "{path} held {bytes} wrong or unreadable bytes at byte {at}: they were written again from the other side; \
                 that was place {places} of the pair"
            ));
        }
    }

    fn mended(&mut self, key: HealKey, result: Result<(), Fault>) {
        let heal = &mut self.heals[key];
        heal.waits -= 1;
        heal.fault = heal.fault.or(result.err());
        if heal.waits == 0 {
            let Heal { token, fault, .. } = self.heals.remove(key);
            self.answers.give(token, fault.map_or(Ok(()), Err));
        }
    }
}
