//! Completions on their way from other threads.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Completion, Waker};

/// Takes completions from any thread; one thread waits for them.
#[derive(Debug)]
pub(super) struct Inbox {
    complete: Mutex<Vec<Completion>>,
    /// Whether the pipe holds a byte. Changes under the lock of `complete`, together with the pipe.
    signalled: AtomicBool,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Arc<Inbox>> {
        let (reader, writer) = io::pipe()?;
        let (complete, signalled) = (Mutex::default(), AtomicBool::new(false));
        Ok(Arc::new(Inbox { complete, signalled, reader, writer }))
    }

    pub(super) fn push(&self, completion: Completion) {
        let mut complete = self.complete();
        complete.push(completion);
        self.signal(&complete);
    }

    fn signal(&self, _locked: &MutexGuard<'_, Vec<Completion>>) {
        if !self.signalled.swap(true, Ordering::AcqRel) {
            // The reader lives as long as the writer.
            let _written = (&self.writer).write(&[1]);
        }
    }

    /// As [`super::Storage::reap`].
    pub(super) fn reap(&self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        if !self.signalled.load(Ordering::Acquire) && wait != Some(Duration::ZERO) {
            wait_for(&[self.descriptor()], wait);
        }
        if self.signalled.load(Ordering::Acquire) {
            let mut complete = self.complete();
            let _byte = (&self.reader).read(&mut [0]);
            self.signalled.store(false, Ordering::Release);
            done.append(&mut complete);
        }
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        let inbox = Arc::clone(self);
        Arc::new(move || inbox.signal(&inbox.complete()))
    }

    /// Readable after a completion or a wake.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    fn complete(&self) -> MutexGuard<'_, Vec<Completion>> {
        // No foreign code runs under the lock.
        self.complete.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a descriptor is readable, for `wait` at most. A signal ends the wait early.
pub(super) fn wait_for(descriptors: &[BorrowedFd<'_>], wait: Option<Duration>) {
    let poll_fd = |&fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut fds: Vec<PollFd<'_>> = descriptors.iter().map(poll_fd).collect();
    // Too long a time is no limit. The caller looks for completions after every error.
    let time = wait.and_then(|wait| Timespec::try_from(wait).ok());
    let _looked_at_next = poll(&mut fds, time.as_ref());
}
