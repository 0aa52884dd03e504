//! What targets have to say, on its way to the thread of the server.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use thermocline_target::bugs::{self, ShellBug};
use thermocline_target::{Buffer, Extent, TargetError};

use crate::protocol::request::Header;
use sleeper::Sleeper;

mod sleeper;

/// The simulation of threads puts others in their place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering, fence};
}

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
    server: Sleeper,
    wake_tx: UnixStream,
    wake_rx: UnixStream,
}

impl Outbox {
    pub(crate) fn new() -> std::io::Result<Arc<Outbox>> {
        let (wake_tx, wake_rx) = UnixStream::pair()?;
        wake_tx.set_nonblocking(true)?;
        wake_rx.set_nonblocking(true)?;
        let (outcomes, server) = (Mutex::default(), Sleeper::new());
        Ok(Arc::new(Outbox { outcomes, server, wake_tx, wake_rx }))
    }

    pub(crate) fn push(&self, outcome: Outcome) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        if !bugs::has(ShellBug::ServerNotWoken) {
            self.server.notify(|| self.ring());
        }
    }

    /// Ends the waiting, or keeps it from beginning.
    pub(crate) fn wake(&self) {
        self.server.wake(|| self.ring());
    }

    fn ring(&self) {
        // Full: it is readable already.
        let _pending = (&self.wake_tx).write(&[1]);
    }

    /// Moves all outcomes to `to`.
    pub(crate) fn take(&self, to: &mut Vec<Outcome>) {
        to.append(&mut self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// From now on whoever pushes must wake. Returns whether there is anything already; then do not wait.
    pub(crate) fn prepare_wait(&self) -> bool {
        let lock = || self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        self.server.prepare(|| !lock().is_empty())
    }

    /// Ends [`Outbox::prepare_wait`]. `readable` says whether [`Outbox::descriptor`] is readable.
    pub(crate) fn end_wait(&self, readable: bool) {
        self.server.end();
        if readable {
            // Empty: something else was readable.
            let _silent = (&self.wake_rx).read(&mut [0; 64]);
        }
    }

    /// What is readable when somebody woke.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake_rx.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wakes_before_the_server_waits_is_heard() {
        let outbox = Outbox::new().expect("sockets");
        assert!(!outbox.prepare_wait());
        outbox.end_wait(false);
        outbox.wake();
        assert!(outbox.prepare_wait(), "it must not wait");
        outbox.end_wait(false);
        assert!(!outbox.prepare_wait(), "once");
    }
}
