//! Requests at any sector or byte over a target of larger blocks, by read-modify-write.

use std::sync::Arc;

use thermocline_types::Bytes;

use crate::ranges::{Access, Change, Ranges};
use crate::{
    BlockTarget, Buffer, BufferPool, Completion, Extent, Info, Join, PlacementHandles, Property,
    Request, Snapshot,
};

/// Serves requests in whole grains, such as sectors of 512 bytes or single bytes, over a target of larger logical
/// blocks.
///
/// A request of whole blocks is passed on as it is, without a copy. Another one is carried out in whole blocks: what a
/// write leaves of its first and last block is read before. While that goes on, no other change of these blocks is
/// under way, so that no write loses the bytes of another; reads need not wait, for the bytes that a block keeps do not
/// change. Targets of [`BlockTarget::at_any_byte`] share these rules with the target they come from.
#[derive(Debug)]
pub struct Granular<T> {
    shared: Arc<Shared<T>>,
    /// Bytes of which offsets and lengths are multiples.
    grain: Bytes,
}

#[derive(Debug)]
struct Shared<T> {
    inner: T,
    info: Info,
    /// Bytes in a block of `inner`.
    block: u64,
    changes: Arc<Ranges>,
    pool: BufferPool,
}

/// What reads and read-modify-writes keep of their memory for later. Chosen, not measured.
const POOL_BYTES: usize = 8 << 20;

impl<T: BlockTarget + 'static> Granular<T> {
    /// The same bytes as `inner`, in grains of `grain` bytes.
    ///
    /// # Panics
    /// If the blocks of `inner` are not of whole grains.
    #[must_use]
    pub fn new(inner: T, grain: Bytes) -> Self {
        let info = inner.info();
        let block = info.logical_block.0;
        assert!(block.is_multiple_of(grain.0), "a block of {block} bytes has whole grains");
        let (changes, pool) = (Arc::default(), BufferPool::new(POOL_BYTES));
        Granular { shared: Arc::new(Shared { inner, info, block, changes, pool }), grain }
    }
}

impl<T: BlockTarget + 'static> BlockTarget for Granular<T> {
    fn info(&self) -> Info {
        let size = self.shared.inner.info().size;
        Info { size, logical_block: self.grain, ..self.shared.info }
    }

    fn at_any_byte(&self) -> Option<Arc<dyn BlockTarget>> {
        Some(Arc::new(Granular { shared: Arc::clone(&self.shared), grain: Bytes(1) }))
    }

    fn submit(&self, request: Request) {
        if let Err(error) = request.check(&self.info()) {
            return request.fail(error);
        }
        let Some((offset, length)) = request.range() else {
            return self.shared.inner.submit(request);
        };
        let whole = self.shared.is_whole(offset) && self.shared.is_whole(length);
        match request {
            Request::Read { .. } if whole => self.shared.inner.submit(request),
            Request::Read { buffer, done, .. } => self.shared.read(offset, buffer, done),
            change => {
                let access = if whole { Access::Replace } else { Access::Modify };
                let blocks =
                    offset.0 / self.shared.block..(offset + length).0.div_ceil(self.shared.block);
                let shared = Arc::clone(&self.shared);
                let start = move |own| shared.change(own, change, whole);
                self.shared.changes.enter(blocks, access, start);
            }
        }
    }

    fn extents(&self, of: Property, offset: Bytes, length: Bytes, done: Completion<Vec<Extent>>) {
        let block = self.shared.block;
        let skip = offset.0 % block;
        let whole = (skip + length.0).next_multiple_of(block);
        let trim = Completion::new(move |result: Result<Vec<Extent>, _>| {
            done.complete(result.map(|extents| cut(&extents, skip, length.0)));
        });
        self.shared.inner.extents(of, Bytes(offset.0 - skip), Bytes(whole), trim);
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.shared.inner.snapshots()
    }

    fn placement(&self) -> Option<PlacementHandles> {
        self.shared.inner.placement()
    }
}

/// Of `extents`, those `length` bytes that begin at byte `skip`.
fn cut(extents: &[Extent], skip: u64, length: u64) -> Vec<Extent> {
    let (mut from, mut part) = (0, Vec::new());
    for extent in extents {
        let end = from + extent.length.0;
        let (first, last) = (from.max(skip), end.min(skip + length));
        if first < last {
            part.push(Extent { length: Bytes(last - first), ..*extent });
        }
        from = end;
    }
    part
}

impl<T: BlockTarget + 'static> Shared<T> {
    fn is_whole(&self, bytes: Bytes) -> bool {
        bytes.0.is_multiple_of(self.block)
    }

    /// Reads the blocks around the sectors and copies these.
    fn read(&self, offset: Bytes, mut buffer: Buffer, done: Completion<Buffer>) {
        let start = offset.0 / self.block * self.block;
        let end = (offset.0 + buffer.len() as u64).next_multiple_of(self.block);
        let skip = (offset.0 - start) as usize;
        let copy = Completion::new(move |result: Result<Buffer, _>| {
            done.complete(result.map(|around| {
                let len = buffer.len();
                buffer.copy_from_slice(&around[skip..skip + len]);
                buffer
            }));
        });
        let around = self.pool.take((end - start) as usize);
        self.inner.submit(Request::Read { offset: Bytes(start), buffer: around, done: copy });
    }

    /// Carries out a change whose blocks are its `own` until it is complete.
    fn change(self: Arc<Self>, own: Change, change: Request, whole: bool) {
        match change {
            Request::Write { offset, buffer, fua, handle, done } => {
                let done = done.ending(own);
                if whole {
                    self.inner.submit(Request::Write { offset, buffer, fua, handle, done });
                } else {
                    self.write_part(offset, &buffer, (fua, handle), done);
                }
            }
            Request::Trim { offset, length, done } => {
                let body = |offset, length, done| Request::Trim { offset, length, done };
                self.clear(offset, length, false, done.ending(own), body);
            }
            Request::WriteZeroes { offset, length, no_hole, fua, done } => {
                let body = |offset, length, done| Request::WriteZeroes {
                    offset,
                    length,
                    no_hole,
                    fua,
                    done,
                };
                self.clear(offset, length, fua, done.ending(own), body);
            }
            Request::Read { .. } | Request::Flush { .. } => unreachable!("no changes"),
        }
    }

    /// Writes whole blocks: `bytes`, padded with the current contents.
    fn write_part(
        self: &Arc<Self>,
        offset: Bytes,
        bytes: &[u8],
        (fua, handle): (bool, u16),
        done: Completion<()>,
    ) {
        let start = offset.0 / self.block * self.block;
        let end = offset.0 + bytes.len() as u64;
        let last = (end - 1) / self.block * self.block;
        let from = (offset.0 - start) as usize;
        let to = from + bytes.len();
        let mut around = self.pool.take((last + self.block - start) as usize);
        around[from..to].copy_from_slice(bytes);
        let reads_last = !self.is_whole(Bytes(end)) && (last != start || from == 0);
        let reads = u64::from(from > 0) + u64::from(reads_last);
        let shared = Arc::clone(self);
        let write = Completion::new(move |result: Result<Vec<_>, _>| match result {
            Err(error) => done.complete(Err(error)),
            Ok(kept) => {
                keep_around(&mut around, from..to, shared.block as usize, &kept);
                let offset = Bytes(start);
                shared.inner.submit(Request::Write { offset, buffer: around, fua, handle, done });
            }
        });
        let join = Join::new(reads, write);
        let read = |at| {
            let (buffer, done) = (self.pool.take(self.block as usize), join.part(at));
            self.inner.submit(Request::Read { offset: Bytes(at), buffer, done });
        };
        if from > 0 {
            read(start);
        }
        if reads_last {
            read(last);
        }
    }

    /// Zeroes the first and the last block as far as they are concerned, and leaves those between to a request that
    /// `body` makes.
    fn clear(
        self: &Arc<Self>,
        offset: Bytes,
        length: Bytes,
        fua: bool,
        done: Completion<()>,
        body: impl FnOnce(Bytes, Bytes, Completion<()>) -> Request,
    ) {
        let end = offset.0 + length.0;
        let from = offset.0.next_multiple_of(self.block).min(end);
        let to = (end / self.block * self.block).max(from);
        let pieces = [offset.0..from, to..end].into_iter().filter(|piece| !piece.is_empty());
        let pieces: Vec<_> = pieces.collect();
        let all = Completion::new(move |result: Result<Vec<_>, _>| done.complete(result.map(drop)));
        let join = Join::new(pieces.len() as u64 + u64::from(from < to), all);
        for piece in pieces {
            let zeros = Buffer::zeroed((piece.end - piece.start) as usize);
            self.write_part(Bytes(piece.start), &zeros, (fua, 0), join.part(piece.start));
        }
        if from < to {
            self.inner.submit(body(Bytes(from), Bytes(to - from), join.part(from)));
        }
    }
}

/// Copies what is before and behind `new` from the blocks that were read: the first, the last, or one that is both.
fn keep_around(
    around: &mut [u8],
    new: std::ops::Range<usize>,
    block: usize,
    kept: &[(u64, Buffer)],
) {
    let last = around.len() - block;
    let behind = new.end.max(last);
    if new.start > 0 {
        let (_, first) = kept.first().expect("the first block was read");
        around[..new.start].copy_from_slice(&first[..new.start]);
    }
    if new.end < around.len() {
        let (_, end) = kept.last().expect("the last block was read");
        around[behind..].copy_from_slice(&end[behind - last..]);
    }
}

#[cfg(test)]
mod tests;
