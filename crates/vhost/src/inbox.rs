//! Completed requests on their way from threads of the target to the thread of the connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use thermocline_target::{Buffer, Owner, TargetError};

/// A number of a request, and its result: of a read, the data.
pub(crate) type Outcome = (u64, Result<Option<Buffer>, TargetError>);

/// Where completions arrive.
pub(crate) struct Inbox {
    arrived: Mutex<Vec<Outcome>>,
    bell: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Inbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { arrived: Mutex::default(), bell })
    }

    /// Ends a wait for [`Inbox::bell`].
    pub(crate) fn ring(&self) {
        // A full counter is a bell that rings.
        let _full = rustix::io::write(&self.bell, &1_u64.to_le_bytes());
    }

    /// Readable after a completion or [`Inbox::ring`], until [`Inbox::take`].
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// All that has arrived.
    pub(crate) fn take(&self) -> Vec<Outcome> {
        // Before the look: what arrives later rings again.
        let _silent = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.arrived())
    }

    fn put(&self, outcome: Outcome) {
        let mut arrived = self.arrived();
        arrived.push(outcome);
        let is_first = arrived.len() == 1;
        drop(arrived);
        if is_first {
            self.ring();
        }
    }

    fn arrived(&self) -> MutexGuard<'_, Vec<Outcome>> {
        // No foreign code runs under the lock.
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner<Buffer> for Inbox {
    fn completed(&self, number: u64, result: Result<Buffer, TargetError>) {
        self.put((number, result.map(Some)));
    }
}

impl Owner<()> for Inbox {
    fn completed(&self, number: u64, result: Result<(), TargetError>) {
        self.put((number, result.map(|()| None)));
    }
}
