//! Heals: the user of the array has verified bytes, and the array rewrites wrong members.

use std::ops::Range;

use thermocline_types::{Bytes, DeviceError, Version};

use super::Array;
use super::reads::How;
use super::rebuild::PIECE;
use crate::bugs::{self, ArrayBug};
use crate::{ArrayNotice, Fault, Memory, Token};

/// A heal under way, by its place in the slab.
pub(super) type HealKey = usize;

/// The first healed places of a member are reported singly, later places at each power of two. Chosen, not measured.
const TOLD: u64 = 8;

/// A heal under way.
#[derive(Debug)]
pub(super) struct Heal {
    token: Token,
    waits: usize,
    fault: Option<Fault>,
    /// Whether a member holds wrong bytes. Otherwise only the copies or the parity may disagree.
    wrong: bool,
}

/// Part of a heal.
#[derive(Debug)]
pub(super) enum Mending {
    /// The parity of a row, which this member has. These bytes of the row were verified.
    Row { unit: u32, row: u32, member: usize, verified: Range<u64>, heal: HealKey },
    /// Bytes of a member's strip of a unit.
    Strip { unit: u32, member: usize, strip: Range<u64>, heal: HealKey },
}

impl<M: Memory> Array<M> {
    pub(super) fn heal(&mut self, token: Token, at: Bytes, bytes: u64, version: Version) {
        if let Some(fault) = self.answers.broken() {
            return self.answers.give_now(token, Err(fault));
        }
        let (unit, from) = self.place(at);
        let left_out = version.member_left_out();
        let wrong = left_out.is_some();
        let heal = self.heals.insert(Heal { token, waits: 1, fault: None, wrong });
        match left_out {
            None if self.shape.level.copies() => self.heal_copy(heal, unit, from..from + bytes),
            None => self.heal_rows(heal, unit, &(from..from + bytes)),
            Some(member) if self.members.get(member).is_some_and(|one| one.labelled) => {
                self.heal_strips(heal, unit, from..from + bytes, member);
            }
            Some(_) => return self.mended(heal, Err(DeviceError::Io.into())),
        }
        self.mended(heal, Ok(()));
    }

    /// Queues the rows of a range, to make their parity agree with the data.
    fn heal_rows(&mut self, heal: HealKey, unit: u32, bytes: &Range<u64>) {
        let row_bytes = self.shape.row_bytes();
        for row in self.rows(bytes.start, bytes.end - bytes.start) {
            if let Some(member) = self.shape.parity_of(unit, row) {
                let start = u64::from(row) * row_bytes;
                let end = bytes.end.min(start + row_bytes);
                let verified = bytes.start.saturating_sub(start)..end - start;
                self.heals[heal].waits += 1;
                self.mendings.push_back(Mending::Row { unit, row, member, verified, heal });
            }
        }
    }

    /// Queues the unread member of a mirror, to get the bytes of the read member. A member that lacks the unit is
    /// filled later.
    fn heal_copy(&mut self, heal: HealKey, unit: u32, bytes: Range<u64>) {
        let Some(span) = self.shape.spans(bytes.start, bytes.end - bytes.start).next() else {
            return;
        };
        let copy = 1 - self.gives(unit, &span, How::AsRead);
        let both = (0..self.members.len()).all(|member| self.holds(member, unit));
        if both && self.is_live(copy) && !bugs::has(ArrayBug::ParityNotHealed) {
            self.mend_strip(heal, unit, copy, bytes);
        }
    }

    /// Queues a member's pieces of a range of bytes, to be rewritten.
    fn heal_strips(&mut self, heal: HealKey, unit: u32, bytes: Range<u64>, member: usize) {
        let shape = self.shape;
        let mut strips = Vec::<Range<u64>>::new();
        for span in shape.spans(bytes.start, bytes.end - bytes.start) {
            if shape.member_of(unit, span.row, span.piece) != member && !shape.level.copies() {
                continue;
            }
            let start = u64::from(span.row) * u64::from(shape.piece) + span.from;
            match strips.last_mut().filter(|before| before.end == start) {
                Some(before) => before.end += span.bytes,
                None => strips.push(start..start + span.bytes),
            }
        }
        for strip in strips.into_iter().filter(|_| !bugs::has(ArrayBug::NothingHealed)) {
            self.mend_strip(heal, unit, member, strip);
        }
    }

    /// Queues bytes of a member's strip, to be rewritten in parts that fit in memory.
    fn mend_strip(&mut self, heal: HealKey, unit: u32, member: usize, strip: Range<u64>) {
        let mut start = strip.start;
        while start < strip.end {
            let part = start..(start + PIECE).min(strip.end);
            start = part.end;
            self.heals[heal].waits += 1;
            self.mendings.push_back(Mending::Strip { unit, member, strip: part, heal });
        }
    }

    /// A part of a heal is over.
    pub(super) fn mended(&mut self, key: HealKey, result: Result<(), Fault>) {
        let heal = &mut self.heals[key];
        heal.waits -= 1;
        heal.fault = heal.fault.or(result.err());
        if heal.waits == 0 {
            let Heal { token, fault, .. } = self.heals.remove(key);
            self.answers.give(token, fault.map_or(Ok(()), Err));
        }
    }

    pub(super) fn count_healed(
        &mut self,
        heal: HealKey,
        unit: u32,
        member: usize,
        strip: &Range<u64>,
    ) {
        if !self.heals[heal].wrong {
            return;
        }
        let bytes = strip.end - strip.start;
        let healed = &mut self.status.healed[member];
        (healed.places, healed.bytes) = (healed.places + 1, healed.bytes + bytes);
        let places = healed.places;
        if places <= TOLD || places.is_power_of_two() {
            let from = strip.start;
            self.say(ArrayNotice::Healed { member, unit, from, bytes, places });
        }
    }
}
