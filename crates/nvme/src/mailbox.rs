//! Results of requests, on their way from targets to the server's thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use thermocline_target::{Buffer, Owner, TargetError};

/// The number of a request, and its result: the buffer of a read.
pub(crate) type Ended = (u64, Result<Option<Buffer>, TargetError>);

/// Takes results from any thread, and wakes the server's thread.
#[derive(Debug)]
pub(crate) struct Mailbox {
    ended: Mutex<Vec<Ended>>,
    bell: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> std::io::Result<Arc<Mailbox>> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Mailbox { ended: Mutex::default(), bell }))
    }

    fn push(&self, ended: Ended) {
        let mut all = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(ended);
        let is_first = all.len() == 1;
        drop(all);
        // Whoever added the first has rung, or is about to.
        if is_first {
            self.ring();
        }
    }

    /// Ends the waiting, or keeps it from beginning.
    pub(crate) fn ring(&self) {
        // A full counter is readable already.
        let _readable = rustix::io::write(&self.bell, &1_u64.to_le_bytes());
    }

    /// Swaps all results into `to`, which must be empty.
    pub(crate) fn take(&self, to: &mut Vec<Ended>) {
        // Before the swap: what is added later rings again. An empty counter is no matter.
        let _silent = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::swap(to, &mut self.ended.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The descriptor that becomes readable when there are results.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Owner<()> for Mailbox {
    fn completed(&self, number: u64, result: Result<(), TargetError>) {
        self.push((number, result.map(|()| None)));
    }
}

impl Owner<Buffer> for Mailbox {
    fn completed(&self, number: u64, result: Result<Buffer, TargetError>) {
        self.push((number, result.map(Some)));
    }
}
