//! Requests, and how they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use thermocline_types::Bytes;

use crate::ranges::Change;
use crate::{Buffer, Info, TargetError};

/// A front end, or a part of one, that numbers its requests under way.
pub trait Owner<T>: Send + Sync {
    /// The request with this number is complete. Runs on a thread of the target, so this must be short and not block.
    fn completed(&self, number: u64, result: Result<T, TargetError>);
}

/// What is called when a request is complete: exactly once, for a completion that is dropped calls itself with
/// [`TargetError::Gone`]. So no front end waits for a target that died.
pub struct Completion<T> {
    to: Option<To<T>>,
    /// The change of blocks that ends with the request.
    change: Option<Change>,
    counted: Option<Counted>,
}

/// Numbers of requests under way.
#[derive(Debug, Default)]
pub struct UnderWay {
    all: AtomicU32,
    flushes: AtomicU32,
}

/// A request that is counted in [`UnderWay`] until dropped.
struct Counted {
    count: Arc<UnderWay>,
    is_flush: bool,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.all.fetch_sub(1, Ordering::Relaxed);
        self.count.flushes.fetch_sub(u32::from(self.is_flush), Ordering::Relaxed);
    }
}

enum To<T> {
    Owner(Arc<dyn Owner<T>>, u64),
    Call(Box<dyn FnOnce(Result<T, TargetError>) + Send>),
}

impl<T> Completion<T> {
    /// Calls `call` with the result. It runs on a thread of the target, so it must be short and not block.
    pub fn new(call: impl FnOnce(Result<T, TargetError>) + Send + 'static) -> Self {
        Completion { to: Some(To::Call(Box::new(call))), change: None, counted: None }
    }

    /// Gives the result of request `number` to `owner`. Takes no memory from the heap.
    pub fn of(owner: Arc<dyn Owner<T>>, number: u64) -> Self {
        Completion { to: Some(To::Owner(owner, number)), change: None, counted: None }
    }

    /// Ends `change` before the owner gets the result.
    pub(crate) fn ending(mut self, change: Change) -> Self {
        self.change = Some(change);
        self
    }

    /// Tells the result.
    pub fn complete(mut self, result: Result<T, TargetError>) {
        self.tell(result);
    }

    fn tell(&mut self, result: Result<T, TargetError>) {
        drop((self.change.take(), self.counted.take()));
        match self.to.take() {
            Some(To::Owner(owner, number)) => owner.completed(number, result),
            Some(To::Call(call)) => call(result),
            None => {}
        }
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        self.tell(Err(TargetError::Gone));
    }
}

impl<T> std::fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Completion")
    }
}

/// What is asked of a target. Offsets and lengths are in bytes, and multiples of [`Info::logical_block`]; no length is
/// zero.
#[derive(Debug)]
pub enum Request {
    /// Read as many bytes as the buffer has.
    Read {
        /// First byte.
        offset: Bytes,
        /// Where to.
        buffer: Buffer,
        /// Gets the buffer, filled.
        done: Completion<Buffer>,
    },
    /// Write the buffer.
    Write {
        /// First byte.
        offset: Bytes,
        /// What.
        buffer: Buffer,
        /// Whether it must be durable when complete.
        fua: bool,
        /// The placement handle, below [`PlacementHandles::handles`](crate::PlacementHandles::handles); 0 without one.
        handle: u16,
        /// Called when written.
        done: Completion<()>,
    },
    /// Make durable every write, trim and zeroing that was complete when this was submitted.
    Flush {
        /// Called when they are.
        done: Completion<()>,
    },
    /// Declare bytes unused. They read as zeroes from now on.
    Trim {
        /// First byte.
        offset: Bytes,
        /// Number of bytes.
        length: Bytes,
        /// Called when that is so.
        done: Completion<()>,
    },
    /// Make bytes zero.
    WriteZeroes {
        /// First byte.
        offset: Bytes,
        /// Number of bytes.
        length: Bytes,
        /// Whether the space must stay allocated, so that later writes there cannot fail for lack of it. A target that
        /// allocates for every write can promise nothing, and ignores it.
        no_hole: bool,
        /// Whether it must be durable when complete.
        fua: bool,
        /// Called when they are.
        done: Completion<()>,
    },
}

impl Request {
    /// First byte and number of bytes, of all but [`Request::Flush`].
    #[must_use]
    pub fn range(&self) -> Option<(Bytes, Bytes)> {
        match self {
            Request::Flush { .. } => None,
            Request::Read { offset, buffer, .. } | Request::Write { offset, buffer, .. } => {
                Some((*offset, Bytes(buffer.len() as u64)))
            }
            Request::Trim { offset, length, .. } | Request::WriteZeroes { offset, length, .. } => {
                Some((*offset, *length))
            }
        }
    }

    /// Whether a target that is as `info` says must carry the request out.
    ///
    /// # Errors
    /// The reason to refuse it: [`TargetError::Gone`], [`TargetError::Unsupported`], [`TargetError::Misaligned`] or
    /// [`TargetError::OutOfBounds`].
    pub fn check(&self, info: &Info) -> Result<(), TargetError> {
        if info.size == Bytes::ZERO {
            return Err(TargetError::Gone);
        }
        let supported = match self {
            Request::Read { .. } | Request::Flush { .. } => true,
            Request::Write { fua, .. } => !fua || info.features.fua,
            Request::Trim { .. } => info.features.trim,
            Request::WriteZeroes { fua, .. } => info.features.zeroes && (!fua || info.features.fua),
        };
        if !supported {
            return Err(TargetError::Unsupported);
        }
        let Some((offset, length)) = self.range() else { return Ok(()) };
        let block = info.logical_block.0;
        if length.0 == 0 || !offset.0.is_multiple_of(block) || !length.0.is_multiple_of(block) {
            return Err(TargetError::Misaligned);
        }
        match offset.0.checked_add(length.0) {
            Some(end) if end <= info.size.0 => Ok(()),
            _ => Err(TargetError::OutOfBounds),
        }
    }

    /// Counts the request in `count` until it is complete. Returns the number of requests under way before it: of a
    /// flush all, of another request the flushes.
    pub fn count(&mut self, count: &Arc<UnderWay>) -> u32 {
        let is_flush = matches!(self, Request::Flush { .. });
        let all = count.all.fetch_add(1, Ordering::Relaxed);
        let flushes = count.flushes.fetch_add(u32::from(is_flush), Ordering::Relaxed);
        let counted = Some(Counted { count: Arc::clone(count), is_flush });
        match self {
            Request::Read { done, .. } => done.counted = counted,
            Request::Write { done, .. }
            | Request::Flush { done }
            | Request::Trim { done, .. }
            | Request::WriteZeroes { done, .. } => done.counted = counted,
        }
        if is_flush { all } else { flushes }
    }

    /// Ends the request with `error`.
    pub fn fail(self, error: TargetError) {
        match self {
            Request::Read { done, .. } => done.complete(Err(error)),
            Request::Write { done, .. }
            | Request::Flush { done }
            | Request::Trim { done, .. }
            | Request::WriteZeroes { done, .. } => done.complete(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_dropped_request_is_complete_with_an_error() {
        let (sender, receiver) = channel();
        let done = Completion::new(move |result| sender.send(result).unwrap());
        drop(Request::Flush { done });
        assert_eq!(receiver.try_recv(), Ok(Err(TargetError::Gone)));
        assert!(receiver.try_recv().is_err(), "called once");
    }

    #[test]
    fn a_request_counts_until_it_is_complete() {
        let count = Arc::default();
        let flush = || {
            let mut flush = Request::Flush { done: Completion::new(|_| ()) };
            let before = flush.count(&count);
            (before, flush)
        };
        let trim = || {
            let done = Completion::new(|_| ());
            let mut trim = Request::Trim { offset: Bytes(0), length: Bytes(512), done };
            let before = trim.count(&count);
            (before, trim)
        };
        let kept = [trim(), trim(), flush(), trim(), flush()];
        assert_eq!(kept.each_ref().map(|(before, _)| *before), [0, 0, 2, 1, 4]);
        let [first, others @ ..] = kept;
        first.1.fail(TargetError::Gone);
        assert_eq!(trim().0, 2, "two flushes");
        drop(others);
        assert_eq!(flush().0, 0, "all are over");
    }

    #[test]
    fn an_owner_hears_of_each_request_once() {
        #[derive(Default)]
        struct Heard(Mutex<Vec<(u64, Result<u8, TargetError>)>>);
        impl Owner<u8> for Heard {
            fn completed(&self, number: u64, result: Result<u8, TargetError>) {
                self.0.lock().expect("no test panicked").push((number, result));
            }
        }
        let heard = Arc::new(Heard::default());
        Completion::of(Arc::<Heard>::clone(&heard), 7).complete(Ok(5));
        drop(Completion::of(Arc::<Heard>::clone(&heard), 8));
        let heard = heard.0.lock().expect("no test panicked");
        assert_eq!(*heard, [(7, Ok(5)), (8, Err(TargetError::Gone))]);
    }

    #[test]
    fn a_completion_is_called_once() {
        let (sender, receiver) = channel();
        Completion::new(move |result| sender.send(result).unwrap()).complete(Ok(5));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [Ok(5)]);
    }
}
