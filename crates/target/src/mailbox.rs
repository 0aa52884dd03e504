//! Results of requests, on their way from threads of targets to the thread of a front end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::{Buffer, Owner, TargetError};

/// Ends the wait of a thread, from any other. Clones are one bell.
#[derive(Clone, Debug)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    /// A silent bell.
    ///
    /// # Errors
    /// When the process has no descriptor to give.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) {
        // A full counter is readable already.
        let _readable = rustix::io::write(&self.0, &1_u64.to_le_bytes());
    }

    /// Ends that. The thread then looks at all that it was called for: what comes later rings again.
    pub fn silence(&self) {
        // An empty counter is no matter.
        let _silent = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The number of a request, and its result: of a read, the data.
pub type Ended = (u64, Result<Option<Buffer>, TargetError>);

/// Takes results from any thread, and rings for the thread of the front end.
#[derive(Debug)]
pub struct Mailbox {
    ended: Mutex<Vec<Ended>>,
    bell: Bell,
}

impl Mailbox {
    /// An empty one that rings `bell`, once for all results until [`Mailbox::take`].
    #[must_use]
    pub fn new(bell: Bell) -> Arc<Mailbox> {
        Arc::new(Mailbox { ended: Mutex::default(), bell })
    }

    /// The bell.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Moves all results to the end of `to`. Silence the bell before, not after.
    pub fn take(&self, to: &mut Vec<Ended>) {
        // Nothing that happens under the lock can leave the list half changed.
        to.append(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn push(&self, ended: Ended) {
        let mut all = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = all.is_empty();
        all.push(ended);
        drop(all);
        // The thread that added the first has rung, or is about to.
        if is_first {
            self.bell.ring();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rings since the last look; `None` if there was none.
    fn rings(bell: &Bell) -> Option<u64> {
        let mut count = [0; 8];
        rustix::io::read(bell, &mut count).ok().map(|_| u64::from_le_bytes(count))
    }

    #[test]
    fn one_ring_is_for_all_results_until_they_are_taken() {
        let mailbox = Mailbox::new(Bell::new().expect("a descriptor"));
        assert_eq!(rings(mailbox.bell()), None);
        for number in 0..5 {
            Owner::<()>::completed(&*mailbox, number, Ok(()));
        }
        assert_eq!(rings(mailbox.bell()), Some(1));
        let mut ended = Vec::new();
        mailbox.take(&mut ended);
        Owner::<()>::completed(&*mailbox, 5, Err(TargetError::Gone));
        assert_eq!((ended.len(), rings(mailbox.bell())), (5, Some(1)));
        Owner::<()>::completed(&*mailbox, 6, Ok(()));
        mailbox.bell().silence();
        mailbox.take(&mut ended);
        let numbers: Vec<u64> = ended.iter().map(|(number, _)| *number).collect();
        assert_eq!((numbers, rings(mailbox.bell())), ((0..7).collect(), None));
    }
}
