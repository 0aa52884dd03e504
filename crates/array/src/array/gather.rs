//! Computes the bytes of a member as the exclusive or of the bytes of all other members.

use std::ops::Range;

use thermocline_types::Version;

use super::image::exclusive_or;
use super::{Array, Image, What};
use crate::bugs::{self, ArrayBug};
use crate::{Command, Fault, Memory};

/// The purpose of a gather.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// A piece of a read.
    Segment(usize),
    /// A strip of the job under way, by its number.
    Job(usize),
}

/// A computation of bytes of a member's strip in a unit.
#[derive(Debug)]
pub(super) struct Gather<B> {
    pub(super) unit: u32,
    pub(super) rows: Range<u32>,
    strip: Range<u64>,
    /// Buffers for the bytes of the other members, by member.
    parts: Vec<(usize, B)>,
    /// Bytes known from partial rows, each with its offset in `strip`. No member is read for these bytes.
    known: Vec<(u64, Vec<u8>)>,
    waits: usize,
    fault: Option<Fault>,
    why: Why,
}

impl<M: Memory> Array<M> {
    /// Begins to compute bytes of a member. Returns `false` if the other members lack data for the computation.
    pub(super) fn begin_gather(
        &mut self,
        unit: u32,
        member: usize,
        strip: Range<u64>,
        why: Why,
    ) -> bool {
        let known = self.known_of(unit, member, &strip);
        let needed = !is_all(&known, &strip);
        let others: Vec<usize> = (0..self.members.len()).filter(|&one| one != member).collect();
        let has_all = others.iter().all(|&other| self.holds(other, unit));
        if needed && (self.shape.level.parity() == 0 || !has_all) {
            return false;
        }
        let others = others.into_iter().filter(|_| needed);
        let parts: Vec<(usize, M::Buffer)> =
            others.map(|other| (other, self.room(strip.end - strip.start))).collect();
        let (waits, fault, rows) = (parts.len(), None, self.rows_on(&strip));
        let at = self.on_member(unit, strip.start);
        let to_read = parts.clone();
        let gather = Gather { unit, rows, strip, parts, known, waits, fault, why };
        let key = self.gathers.insert(gather);
        for (part, (other, into)) in to_read.into_iter().enumerate() {
            let command = Command::Read { at, into, version: Version::AS_READ };
            self.hand(other, What::Gather(key, part), command);
        }
        if waits == 0 {
            self.gather_over(key);
        }
        true
    }

    /// Whether partial rows give all bytes of a strip, so that no member is read.
    pub(super) fn is_known(&self, unit: u32, member: usize, strip: &Range<u64>) -> bool {
        is_all(&self.known_of(unit, member, strip), strip)
    }

    /// The rows that contain bytes of a strip.
    pub(super) fn rows_on(&self, strip: &Range<u64>) -> Range<u32> {
        let piece = u64::from(self.shape.piece);
        (strip.start / piece) as u32..strip.end.div_ceil(piece) as u32
    }

    /// The image of a partial row.
    fn image_of(&self, unit: u32, row: u32) -> Option<&Image> {
        let front = self.fronts.get(&unit).filter(|front| front.row == row);
        let changes = self.changes.iter().map(|(_, change)| change);
        let kept = || {
            let of_unit = changes.filter(|change| change.unit == unit);
            let mut kept = of_unit.filter_map(|change| change.kept.as_ref());
            kept.find(|front| front.row == row)
        };
        let image = front.or_else(kept).map(|front| &front.image);
        image.or_else(|| self.left.get(&(unit, row)))
    }

    /// Bytes of a member's strip that partial rows give.
    fn known_of(&self, unit: u32, member: usize, strip: &Range<u64>) -> Vec<(u64, Vec<u8>)> {
        let (shape, piece_bytes) = (self.shape, u64::from(self.shape.piece));
        let mut known = Vec::new();
        for row in self.rows_on(strip) {
            let Some(piece) = shape.piece_on(unit, row, member) else { continue };
            let Some(image) = self.image_of(unit, row) else { continue };
            let start = u64::from(row) * piece_bytes;
            let end = start + shape.piece_len(image.filled(), piece);
            let (from, to) = (start.max(strip.start), end.min(strip.end));
            if from < to {
                let mut bytes = vec![0; (to - from) as usize];
                image.read(piece as u64 * piece_bytes + from - start, &mut bytes);
                known.push((from - strip.start, bytes));
            }
        }
        known
    }

    pub(super) fn gather_done(&mut self, key: usize, part: usize, result: Result<(), Fault>) {
        let gather = &mut self.gathers[key];
        gather.waits -= 1;
        let (member, waits, why) = (gather.parts[part].0, gather.waits, gather.why);
        if let Err(fault) = result {
            gather.fault = Some(fault);
            let blamed = match why {
                Why::Segment(segment) => !self.is_asked_without_blame(segment),
                Why::Job(_) => true,
            };
            if blamed {
                self.note_gone(member, fault);
            }
        }
        if waits == 0 {
            self.gather_over(key);
        }
    }

    fn gather_over(&mut self, key: usize) {
        let gather = self.gathers.remove(key);
        let result = match gather.fault {
            Some(fault) => Err(fault),
            None => Ok(self.combined(&gather)),
        };
        match gather.why {
            Why::Segment(segment) => self.segment_gathered(segment, result),
            Why::Job(strip) => self.job_gathered(strip, result),
        }
    }

    /// The exclusive or of the other members' bytes, as far as their rows reach. Known bytes take precedence.
    fn combined(&self, gather: &Gather<M::Buffer>) -> Vec<u8> {
        let (shape, piece) = (self.shape, u64::from(self.shape.piece));
        let Gather { unit, strip, .. } = gather;
        let mut all = vec![0; (strip.end - strip.start) as usize];
        for (other, bytes) in &gather.parts {
            M::read(bytes, |bytes| {
                for row in gather.rows.clone() {
                    let next = shape.parity_of(*unit, row + 1);
                    if bugs::has(ArrayBug::WrongRotation) && next == Some(*other) {
                        continue;
                    }
                    let start = u64::from(row) * piece;
                    let end = start + shape.len_on(*unit, row, *other);
                    let from = (start.max(strip.start) - strip.start) as usize;
                    let to = (end.min(strip.end).max(strip.start) - strip.start) as usize;
                    if from < to {
                        exclusive_or(&mut all[from..to], &bytes[from..to]);
                    }
                }
            });
        }
        for (from, bytes) in &gather.known {
            all[*from as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        all
    }

    /// Whether a gather of these rows is under way.
    pub(super) fn is_gathered(&self, unit: u32, rows: &Range<u32>) -> bool {
        let meets = |gather: &Gather<M::Buffer>| {
            gather.unit == unit && gather.rows.start < rows.end && rows.start < gather.rows.end
        };
        self.gathers.iter().any(|(_, gather)| meets(gather))
    }
}

/// Whether `known` covers each byte of a strip.
fn is_all(known: &[(u64, Vec<u8>)], strip: &Range<u64>) -> bool {
    known.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>() == strip.end - strip.start
}
