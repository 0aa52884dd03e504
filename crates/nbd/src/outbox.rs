//! Outcomes of requests, on their way from targets to the server's thread.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use thermocline_target::bugs::{self, ShellBug};
use thermocline_target::{Buffer, Extent, Owner, TargetError};

use sleeper::Sleeper;

mod sleeper;

/// The simulation of threads puts others in their place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering, fence};
}

/// The result of a successful request.
#[derive(Debug)]
pub(crate) enum Given {
    Nothing,
    Data(Buffer),
    /// The extents of each metadata context, by its number.
    Extents(Vec<(u64, Vec<Extent>)>),
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The number of the request in [`crate::connection::Context::requests`].
    pub(crate) number: u64,
    pub(crate) result: Result<Given, TargetError>,
}

/// Takes outcomes from any thread, and wakes the server's thread.
#[derive(Debug)]
pub(crate) struct Outbox {
    outcomes: Mutex<Vec<Outcome>>,
    /// An outcome was added since the last [`Outbox::take`].
    news: sync::AtomicBool,
    server: Sleeper,
    wake_tx: UnixStream,
    wake_rx: UnixStream,
}

impl Outbox {
    pub(crate) fn new() -> std::io::Result<Arc<Outbox>> {
        let (wake_tx, wake_rx) = UnixStream::pair()?;
        wake_tx.set_nonblocking(true)?;
        wake_rx.set_nonblocking(true)?;
        let (outcomes, news, server) =
            (Mutex::default(), sync::AtomicBool::new(false), Sleeper::new());
        Ok(Arc::new(Outbox { outcomes, news, server, wake_tx, wake_rx }))
    }

    fn push(&self, outcome: Outcome) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        // Sequentially consistent, as the sleeper asks of added work.
        self.news.store(true, sync::Ordering::SeqCst);
        if !bugs::has(ShellBug::ServerNotWoken) {
            self.server.notify(|| self.ring());
        }
    }

    /// Ends the waiting, or keeps it from beginning.
    pub(crate) fn wake(&self) {
        self.server.wake(|| self.ring());
    }

    fn ring(&self) {
        // A full socket is readable already.
        let _pending = (&self.wake_tx).write(&[1]);
    }

    /// Swaps all outcomes into `to`, which must be empty: the memory of `to` takes the next outcomes.
    pub(crate) fn take(&self, to: &mut Vec<Outcome>) {
        if !self.news.swap(false, sync::Ordering::SeqCst) {
            return;
        }
        std::mem::swap(to, &mut self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// From now on a push must wake the server. Returns whether outcomes or a wake are pending; the server must not
    /// wait then.
    pub(crate) fn prepare_wait(&self) -> bool {
        self.server.prepare(|| self.news.load(sync::Ordering::SeqCst))
    }

    /// Ends [`Outbox::prepare_wait`]. `readable`: whether [`Outbox::descriptor`] is readable.
    pub(crate) fn end_wait(&self, readable: bool) {
        self.server.end();
        if readable {
            // Empty: something else was readable.
            let _silent = (&self.wake_rx).read(&mut [0; 64]);
        }
    }

    /// The descriptor that becomes readable on a wake.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake_rx.as_fd()
    }
}

impl Owner<()> for Outbox {
    fn completed(&self, number: u64, result: Result<(), TargetError>) {
        self.push(Outcome { number, result: result.map(|()| Given::Nothing) });
    }
}

impl Owner<Buffer> for Outbox {
    fn completed(&self, number: u64, result: Result<Buffer, TargetError>) {
        self.push(Outcome { number, result: result.map(Given::Data) });
    }
}

impl Owner<Vec<(u64, Vec<Extent>)>> for Outbox {
    fn completed(&self, number: u64, result: Result<Vec<(u64, Vec<Extent>)>, TargetError>) {
        self.push(Outcome { number, result: result.map(Given::Extents) });
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
