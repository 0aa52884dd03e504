//! What targets have to say, on its way to the thread of the server.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thermocline_target::{Buffer, Extent, TargetError};

use crate::protocol::request::Header;

/// A connection, and which one of those that had its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId {
    pub(crate) index: usize,
    pub(crate) life: u64,
}

/// What a request that succeeded gives back.
#[derive(Debug)]
pub(crate) enum Given {
    Nothing,
    Data(Buffer),
    Extents(Vec<Extent>),
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) connection: ConnectionId,
    pub(crate) request: Header,
    pub(crate) result: Result<Given, TargetError>,
}

/// Takes outcomes from any thread, and wakes the one that waits for them.
#[derive(Debug)]
pub(crate) struct Outbox {
    outcomes: Mutex<Vec<Outcome>>,
    /// Whether the server waits, or is about to, and nobody has woken it.
    asleep: AtomicBool,
    /// Whether somebody woke for another reason than an outcome since the server last looked.
    called: AtomicBool,
    bell: UnixStream,
    ear: UnixStream,
}

impl Outbox {
    pub(crate) fn new() -> std::io::Result<Arc<Outbox>> {
        let (bell, ear) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        let (asleep, called) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Arc::new(Outbox { outcomes: Mutex::default(), asleep, called, bell, ear }))
    }

    pub(crate) fn push(&self, outcome: Outcome) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        self.ring();
    }

    /// Ends the waiting, or keeps it from beginning.
    pub(crate) fn wake(&self) {
        self.called.store(true, Ordering::SeqCst);
        self.ring();
    }

    fn ring(&self) {
        // Sequentially consistent, here and in `lie_down`: either this sees that somebody sleeps, or that one sees what
        // was pushed before.
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            // Full: it is ringing already.
            let _ringing = (&self.bell).write(&[1]);
        }
    }

    /// Moves all outcomes to `to`.
    pub(crate) fn take(&self, to: &mut Vec<Outcome>) {
        to.append(&mut self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// From now on whoever pushes must wake. Returns whether there is anything already; then do not wait.
    pub(crate) fn lie_down(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let called = self.called.swap(false, Ordering::SeqCst);
        called || !self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Ends [`Outbox::lie_down`]. `rang` says whether [`Outbox::ear`] is readable.
    pub(crate) fn get_up(&self, rang: bool) {
        self.asleep.store(false, Ordering::SeqCst);
        if rang {
            // Empty: it was another bell.
            let _silent = (&self.ear).read(&mut [0; 64]);
        }
    }

    /// What is readable when somebody woke.
    pub(crate) fn ear(&self) -> BorrowedFd<'_> {
        self.ear.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wakes_before_the_server_lies_down_is_heard() {
        let outbox = Outbox::new().expect("sockets");
        assert!(!outbox.lie_down());
        outbox.get_up(false);
        outbox.wake();
        assert!(outbox.lie_down(), "it must not wait");
        outbox.get_up(false);
        assert!(!outbox.lie_down(), "once");
    }
}
