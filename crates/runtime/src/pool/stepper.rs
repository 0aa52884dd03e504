//! The thread of a pool, or whoever takes its place.

use std::thread;

use thermocline_engine::Engine;

use super::service::{Next, Service};
use super::{Listener, Poller, Pool, PoolUpkeep};
use crate::{AnyStorage, Buffer, Driver};

/// The work of a pool's thread. Dropping it is as the end of that thread: nothing is closed in order.
pub struct Stepper {
    /// `None` when it has ended.
    service: Option<Box<Service>>,
}

impl Pool {
    /// As [`Pool::start_with`], but without a thread: the pool does something only in [`Stepper::step`]. Calls that
    /// wait for an answer never return on the thread that steps.
    #[must_use]
    pub fn stepped(
        driver: Driver<AnyStorage>,
        listener: Listener,
        upkeep: &PoolUpkeep,
    ) -> (Pool, Stepper) {
        let service = Service::new(driver, listener, upkeep);
        let shared = service.shared.clone();
        (Pool { shared, naming: Default::default(), thread: None }, Stepper::new(service))
    }
}

impl Stepper {
    pub(super) fn new(service: Service) -> Stepper {
        Stepper { service: Some(Box::new(service)) }
    }

    /// Works until the pool is closed, or could not be opened again.
    pub(super) fn run(mut self) {
        self.is_thread(true);
        while self.go_on() {}
    }

    /// One round of what the thread of a pool does. It waits for the storage, or lets the poller wait, as that thread
    /// would. Returns whether the pool is there still.
    pub fn step(&mut self) -> bool {
        self.is_thread(true);
        let goes_on = self.go_on();
        self.is_thread(false);
        goes_on
    }

    /// The engine; `None` if the pool has ended.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine<Buffer>> {
        self.service.as_ref().map(|service| service.driver.engine())
    }

    /// As [`Pool::register`].
    ///
    /// # Errors
    /// As there; also if the pool has ended.
    pub fn register(&mut self, poller: Box<dyn Poller>) -> Result<(), Box<dyn Poller>> {
        match &mut self.service {
            Some(service) => service.register(poller),
            None => Err(poller),
        }
    }

    /// Jobs from the thread itself need no wake-up.
    fn is_thread(&self, is: bool) {
        if let Some(service) = &self.service {
            service.shared.queue().thread = is.then(|| thread::current().id());
        }
    }

    fn go_on(&mut self) -> bool {
        let Some(service) = &mut self.service else { return false };
        match service.step() {
            Next::Step => return true,
            Next::Over => {
                service.store_last_totals();
                self.end();
            }
            Next::Reopen(reopening) => {
                let service = self.service.take().expect("it was there");
                self.service = service.reopen(reopening).map(Box::new);
            }
        }
        self.service.is_some()
    }

    fn end(&mut self) {
        if let Some(service) = self.service.take() {
            // The poller may have volumes, and those must find the pool closed.
            service.shared.close();
        }
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stepper({})", if self.service.is_some() { "open" } else { "ended" })
    }
}
