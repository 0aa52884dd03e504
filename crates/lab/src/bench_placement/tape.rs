//! A workload as the sequence of blocks it writes, kept in memory so that every policy gets the same.

use std::path::Path;

use thermocline_ftl::placement::Part;
use thermocline_types::{Bytes, Op, Request};
use thermocline_workload::remap::Remap;
use thermocline_workload::trace;

use crate::{Error, Input, Prefill, Prepared};

/// Flag of an entry: the block is discarded, not written.
const DISCARD: u32 = 1 << 31;

/// Blocks in write order: first the fill, then the measured part.
///
/// 4 bytes per block; 8 where requests have more than one.
#[derive(Clone, Debug)]
pub struct Tape {
    /// What it is called.
    pub name: String,
    /// Distinct blocks, which are also what the drive exports.
    pub blocks: u32,
    /// Entries of the fill.
    pub fill: usize,
    /// The first entry that counts.
    pub measured: usize,
    /// Long-run write rate of each block, in any unit, if the workload follows a law. Otherwise rates come from a
    /// count.
    pub(super) rates: Option<Vec<f32>>,
    entries: Vec<u32>,
    /// Position in and length of the request of each entry; empty if every request has one block.
    parts: Vec<(u16, u16)>,
}

/// One entry of a [`Tape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The block is written.
    Write(u32, Part),
    /// The block is discarded.
    Discard(u32),
}

impl Tape {
    /// A tape that fills `blocks` from first to last; of the `writes` to come, the second half will be measured.
    pub(super) fn filled(name: &str, blocks: u32, writes: u64) -> Tape {
        let fill = blocks as usize;
        let mut entries = Vec::with_capacity(fill + writes as usize);
        entries.extend(0..blocks);
        let measured = fill + (writes / 2) as usize;
        Tape {
            name: name.to_owned(),
            blocks,
            fill,
            measured,
            rates: None,
            entries,
            parts: Vec::new(),
        }
    }

    /// Single blocks in write order; measurement begins at entry `measured`.
    pub(super) fn of_blocks(name: &str, blocks: u32, written: Vec<u32>, measured: usize) -> Tape {
        let (name, entries, parts) = (name.to_owned(), written, Vec::new());
        Tape { name, blocks, fill: measured, measured, rates: None, entries, parts }
    }

    /// A trace: its addresses packed, all that it ever writes filled first in the order it is first written, and all of
    /// the trace measured.
    ///
    /// # Errors
    /// When it cannot be read, writes nothing, or more than 2^31 blocks.
    pub fn of_trace(path: &Path, reading: &trace::Options, discards: bool) -> Result<Tape, Error> {
        let input = Input::Trace {
            path: path.to_owned(),
            options: reading.clone(),
            remap: Remap::Dense,
            loops: 1,
            ignore_trims: !discards,
        };
        let mut trace = Prepared::new(input, Some(Prefill::FirstTouch), Bytes::BLOCK, None)?;
        let blocks = trace.footprint().div_ceil(Bytes::BLOCK);
        if blocks >= u64::from(DISCARD) {
            return Err(Error::Settings(format!("{}: too many blocks", path.display())));
        }
        let file = trace.info.name.clone();
        let name = file.split('.').next().unwrap_or(&file).to_owned();
        let mut tape = Tape {
            name,
            blocks: blocks as u32,
            fill: 0,
            measured: 0,
            rates: None,
            entries: Vec::new(),
            parts: Vec::new(),
        };
        trace.prefill(|request| {
            tape.entries.extend(blocks_of(&request));
            Ok(())
        })?;
        tape.fill = tape.entries.len();
        tape.measured = tape.fill;
        tape.parts = vec![(0, 1); tape.fill];
        trace.replay(|batch| {
            batch.requests().for_each(|pieces| tape.push_request(pieces));
            Ok(())
        })?;
        Ok(tape)
    }

    /// How often each block is written: by the law, counted from the rarest, or in all that is on the tape.
    pub(super) fn writes_per_block(&self) -> Vec<u32> {
        if let Some(rates) = &self.rates {
            let least = rates.iter().copied().fold(f32::INFINITY, f32::min);
            return rates.iter().map(|rate| (rate / least) as u32).collect();
        }
        let mut counts = vec![0_u32; self.blocks as usize];
        self.written().skip(self.fill).for_each(|lba| counts[lba as usize] += 1);
        counts
    }

    /// Appends a request of one block.
    pub(super) fn push(&mut self, lba: u32) {
        self.entries.push(lba);
        if !self.parts.is_empty() {
            self.parts.push((0, 1));
        }
    }

    /// Appends block `offset` of a request of `length`.
    pub(super) fn push_part(&mut self, lba: u32, offset: u32, length: u32) {
        if self.parts.is_empty() {
            self.parts = vec![(0, 1); self.entries.len()];
        }
        let short = |n: u32| n.min(u32::from(u16::MAX)) as u16;
        self.entries.push(lba);
        self.parts.push((short(offset), short(length)));
    }

    fn push_request(&mut self, pieces: &[Request]) {
        match pieces[0].op {
            Op::Write => {
                let length = pieces.iter().map(|piece| blocks_of(piece).len() as u32).sum();
                for (lba, offset) in pieces.iter().flat_map(blocks_of).zip(0..) {
                    self.push_part(lba, offset, length);
                }
            }
            Op::Trim => {
                // Only whole blocks are discarded.
                for piece in pieces {
                    let first = piece.offset.div_ceil(Bytes::BLOCK) as u32;
                    let end = (piece.end().0 / Bytes::BLOCK.0) as u32;
                    (first..end).for_each(|lba| self.push_part(lba | DISCARD, 0, 1));
                }
            }
            _ => {}
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entry `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    #[must_use]
    pub fn event(&self, index: usize) -> Event {
        let entry = self.entries[index];
        if entry & DISCARD != 0 {
            return Event::Discard(entry & !DISCARD);
        }
        let part = self.parts.get(index).map_or(Part::WHOLE, |&(offset, length)| Part {
            offset: u32::from(offset),
            length: u32::from(length),
        });
        Event::Write(entry, part)
    }

    /// The blocks written, in order, without discards.
    pub fn written(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().copied().filter(|entry| entry & DISCARD == 0)
    }

    /// Writes that are measured.
    #[must_use]
    pub fn writes_measured(&self) -> u64 {
        self.entries[self.measured..].iter().filter(|&entry| entry & DISCARD == 0).count() as u64
    }
}

/// The 4 KiB blocks that a request touches.
fn blocks_of(request: &Request) -> std::ops::Range<u32> {
    (request.offset.0 / Bytes::BLOCK.0) as u32..request.end().div_ceil(Bytes::BLOCK) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_gives_back_what_was_put_on_it() {
        let mut tape = Tape::filled("t", 4, 3);
        tape.push(2);
        assert_eq!((tape.fill, tape.measured, tape.len()), (4, 5, 5));
        assert_eq!(tape.event(4), Event::Write(2, Part::WHOLE));
        tape.push_part(3, 1, 2);
        tape.push_part(DISCARD, 0, 1);
        assert_eq!(tape.event(4), Event::Write(2, Part::WHOLE));
        assert_eq!(tape.event(5), Event::Write(3, Part { offset: 1, length: 2 }));
        assert_eq!(tape.event(6), Event::Discard(0));
        assert_eq!(tape.written().collect::<Vec<_>>(), [0, 1, 2, 3, 2, 3]);
        assert_eq!(tape.writes_measured(), 1);
    }
}
