//! A pool that is closed and opened again while its clients wait: so its devices change.

use std::sync::{PoisonError, mpsc};

use thermocline_engine::{HostError, HostRequest, VolumeInfo};
use thermocline_target::bugs::{self, ShellBug};

use super::lost::Lost;
use super::{Job, Pool, Service};
use crate::{AnyStorage, Driver};

/// Why a pool was not opened in another way.
#[derive(Debug, thiserror::Error)]
pub enum ReopenError<E> {
    /// It could not be closed: the device failed. It is as it was.
    #[error("the pool cannot be closed for this: {0}")]
    NotClosed(HostError),
    /// It was refused. The pool is open as it was.
    #[error(transparent)]
    Refused(E),
    /// It was refused, and opening the pool as before failed as well: the service has ended.
    #[error("{0}; and the pool, which was closed in order, could not be opened as it was either")]
    Lost(E),
    /// The pool is closed.
    #[error("the pool is closed")]
    Closed,
}

/// Reopens a pool; called with the error if closing failed.
type Open = Box<dyn FnOnce(Result<(), HostError>) -> Option<Driver<AnyStorage>> + Send>;

/// The steps that reopen a pool.
pub(super) struct Reopening(Open);

impl Reopening {
    /// The pool could not be closed, and stays as it is.
    pub(super) fn refuse(self, error: HostError) {
        (self.0)(Err(error));
    }

    /// The pool is closed.
    pub(super) fn open(self) -> Option<Driver<AnyStorage>> {
        (self.0)(Ok(()))
    }
}

impl Pool {
    /// Closes the pool and opens it again with `open`, or if that refuses, with `back`, as it was. Requests that come
    /// meanwhile wait; volumes, their limits, their handles and all counts stay. Nothing is closed if `hold` fails: it
    /// opens all that `open` will need, beside what the pool has open.
    ///
    /// # Errors
    /// [`ReopenError`].
    pub fn reopen<H: Send + 'static, E: Send + 'static>(
        &self,
        hold: impl FnOnce() -> Result<H, E> + Send + 'static,
        open: impl FnOnce(H) -> Result<Driver<AnyStorage>, E> + Send + 'static,
        back: impl FnOnce() -> Option<Driver<AnyStorage>> + Send + 'static,
    ) -> Result<(), ReopenError<E>> {
        let (sender, answer) = mpsc::channel();
        // The caller waits below, so the receiver exists.
        self.begin_reopen(hold, open, back, move |result| _ = sender.send(result));
        answer.recv().unwrap_or(Err(ReopenError::Closed))
    }

    /// As [`Pool::reopen`], but calls `done` with the result, on the thread of the pool unless `hold` fails. `done` is
    /// dropped if the pool is closed.
    pub fn begin_reopen<H: Send + 'static, E: Send + 'static>(
        &self,
        hold: impl FnOnce() -> Result<H, E> + Send + 'static,
        open: impl FnOnce(H) -> Result<Driver<AnyStorage>, E> + Send + 'static,
        back: impl FnOnce() -> Option<Driver<AnyStorage>> + Send + 'static,
        done: impl FnOnce(Result<(), ReopenError<E>>) + Send + 'static,
    ) {
        let open: Box<dyn FnOnce() -> Result<Driver<AnyStorage>, E> + Send> =
            if bugs::has(ShellBug::ClosesBeforeAllIsOpen) {
                Box::new(move || open(hold()?))
            } else {
                match hold() {
                    Ok(held) => Box::new(move || open(held)),
                    Err(error) => return done(Err(ReopenError::Refused(error))),
                }
            };
        let open: Open = Box::new(move |closed| {
            if let Err(error) = closed {
                done(Err(ReopenError::NotClosed(error)));
                return None;
            }
            let (driver, result) = match open() {
                Ok(driver) => (Some(driver), Ok(())),
                Err(error) => match back() {
                    Some(driver) => (Some(driver), Err(ReopenError::Refused(error))),
                    None => (None, Err(ReopenError::Lost(error))),
                },
            };
            done(result);
            driver
        });
        self.shared.push(Job::Reopen(Reopening(open)), None);
    }
}

impl Service {
    /// Closes the pool in order.
    pub(super) fn close(&mut self) -> Result<(), HostError> {
        self.scrub_is_interrupted();
        let closed = self.driver.carry_out(HostRequest::Close);
        self.tell();
        closed?;
        let engine = self.driver.engine();
        self.governor.reopens(self.driver.clock().now(), |media| engine.written_on(media).bytes());
        let drive = self.driver.device().storage().drive_counters();
        self.earlier.add(engine, drive);
        Ok(())
    }

    /// Another driver is there. It holds the room that was reserved for `volumes`.
    pub(super) fn is_reopened(&mut self, volumes: &[VolumeInfo]) {
        for VolumeInfo { id, reserve, .. } in volumes.iter().filter(|info| info.reserve > 0) {
            self.driver.hold_for(*id, *reserve);
        }
        self.gauge.begin_again();
        self.lost = Lost::default();
        if !bugs::has(ShellBug::ReopenForgetsWaker) {
            *self.shared.wake.write().unwrap_or_else(PoisonError::into_inner) = self.driver.waker();
        }
        if self.governor.spares_fast() {
            self.driver.spare_fast(true);
        }
    }
}
