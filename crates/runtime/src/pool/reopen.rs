//! A pool that is closed and opened again while its clients wait: so its devices change.

use std::sync::{PoisonError, mpsc};
use std::time::Instant;

use thermocline_engine::{HostError, HostRequest, VolumeInfo};

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

type Open = Box<dyn FnOnce() -> Option<Driver<AnyStorage>> + Send>;

/// What opens a pool again.
pub(super) struct Reopening {
    open: Open,
    refuse: Box<dyn FnOnce(HostError) + Send>,
}

impl Reopening {
    pub(super) fn refuse(self, error: HostError) {
        (self.refuse)(error);
    }

    pub(super) fn open(self) -> Option<Driver<AnyStorage>> {
        (self.open)()
    }
}

impl Pool {
    /// Closes the pool and opens it again with `open`, or if that refuses, with `back`, as it was. Requests that come
    /// meanwhile wait; volumes, their limits, their handles and all counts stay.
    ///
    /// # Errors
    /// [`ReopenError`].
    pub fn reopen<E: Send + 'static>(
        &self,
        open: impl FnOnce() -> Result<Driver<AnyStorage>, E> + Send + 'static,
        back: impl FnOnce() -> Option<Driver<AnyStorage>> + Send + 'static,
    ) -> Result<(), ReopenError<E>> {
        let (sender, answer) = mpsc::channel();
        let refused = sender.clone();
        // Whoever asked waits below.
        let refuse = Box::new(move |error| _ = refused.send(Err(ReopenError::NotClosed(error))));
        let open: Open = Box::new(move || {
            let (driver, result) = match open() {
                Ok(driver) => (Some(driver), Ok(())),
                Err(error) => match back() {
                    Some(driver) => (Some(driver), Err(ReopenError::Refused(error))),
                    None => (None, Err(ReopenError::Lost(error))),
                },
            };
            let _ = sender.send(result);
            driver
        });
        self.shared.push(Job::Reopen(Reopening { open, refuse }), None);
        answer.recv().unwrap_or(Err(ReopenError::Closed))
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
        self.governor.reopens(Instant::now(), |media| engine.written_on(media).bytes());
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
        *self.shared.wake.write().unwrap_or_else(PoisonError::into_inner) = self.driver.waker();
        if let Some((_, descriptor)) = &mut self.poller {
            *descriptor = self.driver.descriptor();
        }
        if self.governor.spares_fast() {
            self.driver.spare_fast(true);
        }
    }
}
