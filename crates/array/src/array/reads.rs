//! Reads: each piece from the member that has it, or from all others.

use std::ops::Range;

use thermocline_types::{Bytes, DeviceError};

use super::gather::Why;
use super::{Array, What};
use crate::{Command, Fault, Memory, Token};

/// What is read, by its place in the slab.
type ReadKey = usize;

/// Bad places that wait to be written again; further ones are found when they are read next. Chosen, not measured.
const REPAIRS: usize = 1024;

/// Whom it is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    Host(Token),
    Job,
}

/// Bytes of a unit that are read.
#[derive(Debug)]
pub(super) struct Reading<B> {
    then: Then,
    into: B,
    waits: usize,
    fault: Option<Fault>,
    /// Where pieces are read to of which two would share a block of memory: with their first byte.
    apart: Vec<(u64, B)>,
    /// Whether what a member cannot read is computed from the others.
    trusts_parity: bool,
}

/// A piece of them.
#[derive(Debug)]
pub(super) struct Segment<B> {
    reading: ReadKey,
    unit: u32,
    row: u32,
    member: usize,
    strip: Range<u64>,
    to: B,
    /// Whether the member could not read it.
    bad: bool,
}

impl<M: Memory> Array<M> {
    pub(super) fn read(&mut self, token: Token, at: Bytes, into: M::Buffer) {
        let (unit, from) = self.place(at);
        for row in self.rows(from, M::len(&into) as u64) {
            self.doubt.read(unit, row);
        }
        self.begin_reading(Then::Host(token), unit, from, into, true);
    }

    /// Begins to read bytes of a unit.
    pub(super) fn begin_reading(
        &mut self,
        then: Then,
        unit: u32,
        from: u64,
        into: M::Buffer,
        trusts_parity: bool,
    ) {
        let spans: Vec<_> = self.shape.spans(from, M::len(&into) as u64).collect();
        let apart = spans.iter().skip(1).any(|span| !M::is_apart(&into, span.before as usize));
        let (waits, fault) = (1, None);
        let to = into.clone();
        let reading = Reading { then, into, waits, fault, apart: Vec::new(), trusts_parity };
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
            let member = self.shape.member_of(unit, span.row, span.piece);
            let start = u64::from(span.row) * u64::from(self.shape.piece) + span.from;
            let (row, strip) = (span.row, start..start + span.bytes);
            let segment = Segment { reading, unit, row, member, strip, to, bad: false };
            let segment = self.segments.insert(segment);
            self.begin_segment(segment);
        }
        self.reading_has(reading, Ok(()));
    }

    fn begin_segment(&mut self, key: usize) {
        let Segment { unit, member, ref strip, ref to, .. } = self.segments[key];
        if self.holds(member, unit) {
            let (at, into) = (self.on_member(unit, strip.start), to.clone());
            self.hand(member, What::Segment(key), Command::Read { at, into });
        } else {
            self.compute_segment(key, DeviceError::Gone.into());
        }
    }

    /// Computes a piece that its member cannot give; `fault` says why, if that cannot be.
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
        self.note_gone(member, fault);
        let segment = &mut self.segments[key];
        if !self.readings[segment.reading].trusts_parity {
            return self.segment_over(key, Err(fault));
        }
        segment.bad = true;
        self.compute_segment(key, fault);
    }

    pub(super) fn segment_gathered(&mut self, key: usize, result: Result<Vec<u8>, Fault>) {
        let Segment { unit, member, ref strip, ref to, bad, .. } = self.segments[key];
        let result = result.map(|bytes| M::write(to, |to| to.copy_from_slice(&bytes)));
        if result.is_ok() && bad && self.repairs.len() < REPAIRS {
            self.repairs.push_back((unit, member, strip.clone()));
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
        let Reading { then, into, fault, apart, .. } = self.readings.remove(key);
        for (before, bytes) in apart.into_iter().filter(|_| fault.is_none()) {
            let to = M::part(&into, before as usize, M::len(&bytes));
            M::write(&to, |to| M::read(&bytes, |bytes| to.copy_from_slice(bytes)));
        }
        let result = fault.map_or(Ok(()), Err);
        match then {
            Then::Host(token) => self.answers.give_now(token, result),
            Then::Job => self.job_has_read(result),
        }
    }
}
