//! Heals: the user of the array has verified bytes, and the array rewrites wrong members.

use std::collections::BTreeMap;
use std::ops::Range;

use thermocline_types::DeviceError;

use super::Array;
use super::reads::How;
use super::rebuild::PIECE;
use crate::bugs::{self, ArrayBug};
use crate::{ArrayNotice, Fault, HealRange, Memory, Token};

/// A heal under way, by its place in the slab.
pub(super) type HealKey = usize;

/// Bytes of members' strips of a unit, each with its member.
pub(super) type Strips = Vec<(usize, Range<u64>)>;

/// The first healed places of a member are reported singly, later places at each power of two. Chosen, not measured.
pub(super) const TOLD: u64 = 8;

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
    /// Bytes of members' strips of a unit, all in one row.
    Strips { unit: u32, strips: Strips, heal: HealKey },
}

impl<M: Memory> Array<M> {
    pub(super) fn heal(&mut self, token: Token, ranges: &[HealRange]) {
        if let Some(fault) = self.answers.broken() {
            return self.answers.give_now(token, Err(fault));
        }
        let wrong = ranges.iter().any(|range| range.version.member_left_out().is_some());
        let heal = self.heals.insert(Heal { token, waits: 1, fault: None, wrong });
        let (mut strips, mut result) = (BTreeMap::new(), Ok(()));
        for &HealRange { at, bytes, version } in ranges {
            let (unit, from) = self.place(at);
            let bytes = from..from + bytes;
            match version.member_left_out() {
                None if self.shape.level.copies() => self.heal_copy(heal, unit, bytes),
                None => self.heal_rows(heal, unit, &bytes),
                Some(member) if self.members.get(member).is_some_and(|one| one.labelled) => {
                    self.strips_to_heal(unit, bytes, member, &mut strips);
                }
                Some(_) => result = Err(DeviceError::Io.into()),
            }
        }
        for ((unit, _), strips) in strips {
            self.mend_strips(heal, unit, strips);
        }
        self.mended(heal, result);
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
            self.mend_strips(heal, unit, vec![(copy, bytes)]);
        }
    }

    /// Adds a member's pieces of a range of bytes to the strips of their rows.
    fn strips_to_heal(
        &self,
        unit: u32,
        bytes: Range<u64>,
        member: usize,
        strips: &mut BTreeMap<(u32, u32), Strips>,
    ) {
        let shape = self.shape;
        for span in shape.spans(bytes.start, bytes.end - bytes.start) {
            if shape.member_of(unit, span.row, span.piece) != member && !shape.level.copies() {
                continue;
            }
            let start = u64::from(span.row) * u64::from(shape.piece) + span.from;
            let strip = (member, start..start + span.bytes);
            strips.entry((unit, span.row)).or_default().push(strip);
        }
    }

    /// Queues strips of a row, to be rewritten. Blocks that a crash changed alike each give the other until one of them
    /// is written. So all strips of a row are computed before one is written. A copy gives the other one alone, and is
    /// written in parts that fit in memory.
    fn mend_strips(&mut self, heal: HealKey, unit: u32, strips: Strips) {
        if bugs::has(ArrayBug::NothingHealed) {
            return;
        }
        let apart = self.shape.level.copies() || bugs::has(ArrayBug::HealedOneByOne);
        let parts = |(member, strip): (usize, Range<u64>)| {
            let starts = (strip.start..strip.end).step_by(PIECE as usize);
            starts.map(move |start| (member, start..(start + PIECE).min(strip.end)))
        };
        let all: Vec<Strips> = match apart {
            true => strips.into_iter().flat_map(parts).map(|part| vec![part]).collect(),
            false => vec![strips],
        };
        for strips in all {
            self.heals[heal].waits += 1;
            self.mendings.push_back(Mending::Strips { unit, strips, heal });
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
