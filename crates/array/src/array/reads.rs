//! Reads: the member with a piece gives its bytes, or the other members' bytes compute them.

use std::ops::Range;

use thermocline_format::Span;
use thermocline_types::{Bytes, DeviceError, Version};

use super::gather::Why;
use super::{Array, What};
use crate::bugs::{self, ArrayBug};
use crate::{Command, Fault, Memory, Token};

/// A read, by its place in the slab.
type ReadKey = usize;

/// Who gets the result of a read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    Host(Token),
    Job,
}

/// The version that is read, and the use of parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Each member gives its pieces; pieces of a missing or failing member are computed.
    AsRead,
    /// All other members give their pieces; the pieces of this member are computed.
    Without(usize),
    /// Each member gives its pieces; an unreadable piece is an error, as its parity is not known to fit.
    Direct,
}

impl How {
    fn of(version: Version) -> How {
        match version.member_left_out() {
            Some(member) if !bugs::has(ArrayBug::VersionNotHeeded) => How::Without(member),
            _ => How::AsRead,
        }
    }
}

/// A read of bytes of a unit.
#[derive(Debug)]
pub(super) struct Reading<B> {
    then: Then,
    into: B,
    waits: usize,
    fault: Option<Fault>,
    /// Separate buffers for pieces that would share a block of memory, by their first byte.
    apart: Vec<(u64, B)>,
    how: How,
    /// The version of the answer, if a member reported an error.
    degraded: Option<Version>,
}

/// A piece of a read.
#[derive(Debug)]
pub(super) struct Segment<B> {
    reading: ReadKey,
    unit: u32,
    row: u32,
    member: usize,
    strip: Range<u64>,
    to: B,
    /// Whether the member failed to read the piece.
    bad: bool,
}

impl<M: Memory> Array<M> {
    pub(super) fn read(&mut self, token: Token, at: Bytes, into: M::Buffer, version: Version) {
        let (unit, from) = self.place(at);
        self.begin_reading(Then::Host(token), unit, from, into, How::of(version));
    }

    /// Begins to read bytes of a unit.
    pub(super) fn begin_reading(
        &mut self,
        then: Then,
        unit: u32,
        from: u64,
        into: M::Buffer,
        how: How,
    ) {
        let spans: Vec<_> = self.shape.spans(from, M::len(&into) as u64).collect();
        let apart = spans.iter().skip(1).any(|span| !M::is_apart(&into, span.before as usize));
        let (waits, fault) = (1, None);
        let to = into.clone();
        let reading = Reading { then, into, waits, fault, apart: Vec::new(), how, degraded: None };
        let reading = self.readings.insert(reading);
        for span in spans {
            let to = match apart {
                true => self.room(span.bytes),
                false => M::part(&to, span.before as usize, span.bytes as usize),
            };
            let all = &mut self.readings[reading];
            all.waits += 1;
            if apart {
                all.apart.push((span.before, to.clone()));
            }
            let member = self.gives(unit, &span, how);
            let start = u64::from(span.row) * u64::from(self.shape.piece) + span.from;
            let (row, strip) = (span.row, start..start + span.bytes);
            let segment = Segment { reading, unit, row, member, strip, to, bad: false };
            let segment = self.segments.insert(segment);
            self.begin_segment(segment);
        }
        self.reading_has(reading, Ok(()));
    }

    /// The member that gives a piece. Both members of a mirror have the piece, and reads choose the same member each
    /// time. So bytes that differ between the members after a crash read alike until they are healed.
    pub(super) fn gives(&self, unit: u32, span: &Span, how: How) -> usize {
        let own = self.shape.member_of(unit, span.row, span.piece);
        let copy = self.shape.parity_of(unit, span.row).filter(|_| self.shape.level.copies());
        let last = |&member: &usize| {
            let avoided = self.avoid == Some(member);
            (how == How::Without(member), !self.holds(member, unit), avoided)
        };
        [own].into_iter().chain(copy).min_by_key(last).unwrap_or(own)
    }

    fn begin_segment(&mut self, key: usize) {
        let Segment { reading, unit, member, ref strip, ref to, .. } = self.segments[key];
        let how = self.readings[reading].how;
        if how != How::Without(member) && self.holds(member, unit) {
            let (at, into) = (self.on_member(unit, strip.start), to.clone());
            let command = Command::Read { at, into, version: Version::AS_READ };
            return self.hand(member, What::Segment(key), command);
        }
        match how {
            How::Without(left_out) if left_out != member && !self.is_known(unit, member, strip) => {
                self.segment_over(key, Err(DeviceError::Gone.into()));
            }
            How::Without(_) | How::AsRead | How::Direct => {
                self.compute_segment(key, DeviceError::Gone.into());
            }
        }
    }

    /// Whether an error of the read fails no member: the read leaves a member out.
    pub(super) fn is_asked_without_blame(&self, segment: usize) -> bool {
        let reading = self.segments[segment].reading;
        matches!(self.readings[reading].how, How::Without(_))
    }

    /// Computes a piece from the other members. If the computation cannot begin, the piece fails with `fault`.
    pub(super) fn compute_segment(&mut self, key: usize, fault: Fault) {
        let Segment { reading, unit, row, member, ref strip, .. } = self.segments[key];
        let of_host = matches!(self.readings[reading].then, Then::Host(_));
        if of_host && self.is_being_settled(unit, row) {
            return self.postpone(key, fault);
        }
        let strip = strip.clone();
        if !self.begin_gather(unit, member, strip, Why::Segment(key)) {
            self.segment_over(key, Err(fault));
        }
    }

    pub(super) fn segment_done(&mut self, key: usize, member: usize, result: Result<(), Fault>) {
        let Err(fault) = result else { return self.segment_over(key, Ok(())) };
        match self.readings[self.segments[key].reading].how {
            How::AsRead => {
                self.note_gone(member, fault);
                self.segments[key].bad = true;
                self.compute_segment(key, fault);
            }
            How::Direct => {
                self.note_gone(member, fault);
                self.segment_over(key, Err(fault));
            }
            How::Without(_) => self.segment_over(key, Err(fault)),
        }
    }

    pub(super) fn segment_gathered(&mut self, key: usize, result: Result<Vec<u8>, Fault>) {
        let Segment { reading, member, ref to, bad, .. } = self.segments[key];
        let result = result.map(|bytes| M::write(to, |to| to.copy_from_slice(&bytes)));
        let reading = &mut self.readings[reading];
        if result.is_ok() && bad {
            reading.degraded = reading.degraded.or(Some(Version::without(member)));
        }
        self.segment_over(key, result);
    }

    fn segment_over(&mut self, key: usize, result: Result<(), Fault>) {
        let segment = self.segments.remove(key);
        self.reading_has(segment.reading, result);
    }

    fn reading_has(&mut self, key: ReadKey, result: Result<(), Fault>) {
        let reading = &mut self.readings[key];
        reading.waits -= 1;
        reading.fault = reading.fault.or(result.err());
        if reading.waits > 0 {
            return;
        }
        let Reading { then, into, fault, apart, degraded, .. } = self.readings.remove(key);
        for (before, bytes) in apart.into_iter().filter(|_| fault.is_none()) {
            let to = M::part(&into, before as usize, M::len(&bytes));
            M::write(&to, |to| M::read(&bytes, |bytes| to.copy_from_slice(bytes)));
        }
        let result = fault.map_or(Ok(()), Err);
        match then {
            Then::Host(token) => self.answers.give_read(token, result, degraded),
            Then::Job => self.job_has_read(result),
        }
    }
}
