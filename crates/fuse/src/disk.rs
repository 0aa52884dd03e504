//! A target that is read and changed at any byte.

use std::ops::Range;
use std::sync::Arc;

use thermocline_target::{BlockTarget, BufferPool, Completion, Extent, Request, TargetError};
use thermocline_types::Bytes;

use crate::gate::{Access, Gate};

/// What a disk keeps of the memory of its requests for later. Chosen, not measured.
const POOL_BYTES: usize = 16 << 20;

/// Bytes that are looked through for data or holes at once, for the target does nothing else meanwhile. Chosen, not
/// measured.
const SEEK_BYTES: u64 = 1 << 30;

/// Why bytes become zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clear {
    /// Nobody needs them.
    Trim,
    /// They are to be zero.
    Zero,
}

/// A target at any byte. Ranges must lie within its size, and not be empty.
///
/// Whole logical blocks are passed on. Where a change has parts of blocks, these are read, changed and written back,
/// and no other change is under way meanwhile. That is slow, and rare: file systems and loop devices write whole
/// sectors.
pub(crate) struct Disk {
    target: Arc<dyn BlockTarget>,
    gate: Gate,
    pool: BufferPool,
    /// Bytes in a logical block.
    block: u64,
}

impl Disk {
    pub(crate) fn new(target: Arc<dyn BlockTarget>) -> Arc<Disk> {
        let block = target.info().logical_block.0;
        Arc::new(Disk { target, gate: Gate::default(), pool: BufferPool::new(POOL_BYTES), block })
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.target.info().size.0
    }

    /// Calls `done` with the bytes.
    pub(crate) fn read(
        &self,
        range: Range<u64>,
        done: impl FnOnce(Result<&[u8], TargetError>) + Send + 'static,
    ) {
        let blocks = self.around(&range);
        let part = within(&blocks, &range);
        let done =
            Completion::new(move |result: Result<thermocline_target::Buffer, _>| match result {
                Ok(buffer) => done(Ok(&buffer[part])),
                Err(error) => done(Err(error)),
            });
        let buffer = self.pool.take(length(&blocks));
        self.target.submit(Request::Read { offset: Bytes(blocks.start), buffer, done });
    }

    pub(crate) fn write(self: &Arc<Self>, offset: u64, data: &[u8], done: Completion<()>) {
        let range = offset..offset + data.len() as u64;
        let disk = Arc::clone(self);
        if self.around(&range) != range {
            let data = data.to_vec();
            return self.enter(Access::Alone, done, move |done| disk.patch(range, data, done));
        }
        let mut buffer = self.pool.take(data.len());
        buffer.copy_from_slice(data);
        self.enter(Access::Shared, done, move |done| {
            let offset = Bytes(offset);
            disk.target.submit(Request::Write { offset, buffer, fua: false, done });
        });
    }

    /// Makes bytes zero.
    pub(crate) fn clear(self: &Arc<Self>, range: Range<u64>, why: Clear, done: Completion<()>) {
        let disk = Arc::clone(self);
        if self.around(&range) == range {
            self.enter(Access::Shared, done, move |done| disk.clear_blocks(&range, why, done));
        } else {
            let pieces = pieces(&range, self.block).into_iter();
            self.enter(Access::Alone, done, move |done| disk.clear_pieces(pieces, why, done));
        }
    }

    pub(crate) fn flush(&self, done: Completion<()>) {
        self.target.submit(Request::Flush { done });
    }

    /// Calls `done` with the first byte from `from` on that is data, if `data`, or in a hole; `None` if there is none.
    pub(crate) fn seek(
        self: &Arc<Self>,
        from: u64,
        data: bool,
        done: impl FnOnce(Result<Option<u64>, TargetError>) + Send + 'static,
    ) {
        let size = self.size();
        if from >= size {
            return done(Ok(None));
        }
        let start = from / self.block * self.block;
        let length = SEEK_BYTES.min(size - start);
        let disk = Arc::clone(self);
        let found = Completion::new(move |extents: Result<Vec<Extent>, _>| {
            let mut at = start;
            for extent in match extents {
                Ok(extents) => extents,
                Err(error) => return done(Err(error)),
            } {
                if extent.mapped == data {
                    return done(Ok(Some(at.max(from))));
                }
                at += extent.length.0;
            }
            // The type of `done` would nest without end.
            let done: Box<dyn FnOnce(_) + Send> = Box::new(done);
            disk.seek(at, data, done);
        });
        self.target.extents(Bytes(start), Bytes(length), found);
    }

    /// Begins a change when the gate lets it; its completion tells the gate that it has ended.
    fn enter(
        &self,
        access: Access,
        done: Completion<()>,
        begin: impl FnOnce(Completion<()>) + Send + 'static,
    ) {
        self.gate.enter(access, move |pass| {
            begin(Completion::new(move |result| {
                drop(pass);
                done.complete(result);
            }));
        });
    }

    /// Writes bytes and, around them, what is there.
    fn patch(self: Arc<Self>, range: Range<u64>, data: Vec<u8>, done: Completion<()>) {
        let blocks = self.around(&range);
        let part = within(&blocks, &range);
        let disk = Arc::clone(&self);
        let (offset, buffer) = (Bytes(blocks.start), self.pool.take(length(&blocks)));
        let write =
            Completion::new(move |read: Result<thermocline_target::Buffer, _>| match read {
                Ok(mut buffer) => {
                    buffer[part].copy_from_slice(&data);
                    disk.target.submit(Request::Write { offset, buffer, fua: false, done });
                }
                Err(error) => done.complete(Err(error)),
            });
        self.target.submit(Request::Read { offset, buffer, done: write });
    }

    fn clear_blocks(&self, range: &Range<u64>, why: Clear, done: Completion<()>) {
        let (offset, length) = (Bytes(range.start), Bytes(range.end - range.start));
        self.target.submit(match why {
            Clear::Trim => Request::Trim { offset, length, done },
            Clear::Zero => {
                Request::WriteZeroes { offset, length, no_hole: false, fua: false, done }
            }
        });
    }

    /// Clears one piece after the other.
    fn clear_pieces(
        self: Arc<Self>,
        mut pieces: std::vec::IntoIter<Range<u64>>,
        why: Clear,
        done: Completion<()>,
    ) {
        let Some(piece) = pieces.next() else { return done.complete(Ok(())) };
        let disk = Arc::clone(&self);
        let next = Completion::new(move |result| match result {
            Ok(()) => disk.clear_pieces(pieces, why, done),
            Err(error) => done.complete(Err(error)),
        });
        if self.around(&piece) == piece {
            self.clear_blocks(&piece, why, next);
        } else {
            let zeroes = vec![0; length(&piece)];
            self.patch(piece, zeroes, next);
        }
    }

    /// The blocks that `range` touches.
    fn around(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.block * self.block..range.end.next_multiple_of(self.block)
    }
}

/// `range` in parts of which each is of whole blocks, or within one block.
fn pieces(range: &Range<u64>, block: u64) -> Vec<Range<u64>> {
    let first = range.start.next_multiple_of(block).min(range.end);
    let last = (range.end / block * block).max(first);
    let all = [range.start..first, first..last, last..range.end];
    all.into_iter().filter(|piece| !piece.is_empty()).collect()
}

fn length(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}

/// Where `range` is in a buffer that has `blocks`.
fn within(blocks: &Range<u64>, range: &Range<u64>) -> Range<usize> {
    let from = (range.start - blocks.start) as usize;
    from..from + length(range)
}

#[cfg(test)]
mod tests;
