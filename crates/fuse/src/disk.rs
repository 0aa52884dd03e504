//! A target that is read and changed at any byte.

use std::ops::Range;
use std::sync::Arc;

use thermocline_target::{
    BlockTarget, Buffer, BufferPool, Completion, Extent, Property, Request, TargetError,
};
use thermocline_types::Bytes;

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
#[derive(Clone)]
pub(crate) struct Disk {
    /// See [`BlockTarget::at_any_byte`].
    pub(crate) target: Arc<dyn BlockTarget>,
    pub(crate) pool: BufferPool,
}

impl Disk {
    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.target.info().size.0
    }

    /// Calls `done` with the bytes.
    pub(crate) fn read(
        &self,
        range: &Range<u64>,
        done: impl FnOnce(Result<&[u8], TargetError>) + Send + 'static,
    ) {
        let done = Completion::new(move |result: Result<Buffer, _>| {
            done(result.as_deref().map_err(|error| *error));
        });
        let buffer = self.pool.take((range.end - range.start) as usize);
        self.target.submit(Request::Read { offset: Bytes(range.start), buffer, done });
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8], done: Completion<()>) {
        let mut buffer = self.pool.take(data.len());
        buffer.copy_from_slice(data);
        self.target.submit(Request::Write {
            offset: Bytes(offset),
            buffer,
            fua: false,
            handle: 0,
            done,
        });
    }

    /// Makes bytes zero.
    pub(crate) fn clear(&self, range: &Range<u64>, why: Clear, done: Completion<()>) {
        let (offset, length) = (Bytes(range.start), Bytes(range.end - range.start));
        self.target.submit(match why {
            Clear::Trim => Request::Trim { offset, length, done },
            Clear::Zero => {
                Request::WriteZeroes { offset, length, no_hole: false, fua: false, done }
            }
        });
    }

    pub(crate) fn flush(&self, done: Completion<()>) {
        self.target.submit(Request::Flush { done });
    }

    /// Calls `done` with the first byte from `from` on that is data, if `data`, or in a hole; `None` if there is none.
    pub(crate) fn seek(
        self,
        from: u64,
        data: bool,
        done: impl FnOnce(Result<Option<u64>, TargetError>) + Send + 'static,
    ) {
        let size = self.size();
        if from >= size {
            return done(Ok(None));
        }
        let length = SEEK_BYTES.min(size - from);
        let target = Arc::clone(&self.target);
        let found = Completion::new(move |extents: Result<Vec<Extent>, _>| {
            let mut at = from;
            for extent in match extents {
                Ok(extents) => extents,
                Err(error) => return done(Err(error)),
            } {
                if extent.has == data {
                    return done(Ok(Some(at)));
                }
                at += extent.length.0;
            }
            // The type of `done` would nest without end.
            let done: Box<dyn FnOnce(_) + Send> = Box::new(done);
            self.seek(at, data, done);
        });
        target.extents(Property::Mapped, Bytes(from), Bytes(length), found);
    }
}

#[cfg(test)]
mod tests;
