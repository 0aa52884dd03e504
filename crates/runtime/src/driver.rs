//! The driver loop: an engine and its device, on the thread of whoever calls.
//!
//! Invariants:
//! * Every request that was accepted ends exactly once, in [`Driver::poll`].
//! * Whatever the engine wants done is handed to the device before anybody waits.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use thermocline_engine::{
    Action, Config, ConfigError, Engine, Extent, HostError, HostRequest, Notice, OpenError,
    Rejected, Reply, RequestId,
};
use thermocline_format::{PoolId, VolumeId};
use thermocline_target::Clock;
use thermocline_types::{Time, UnitId};

use crate::device::Answer;
use crate::storage::{Storage, Waker};
use crate::{Buffer, Device, Trouble};

/// Number of requests of [`Driver::carry_out`], forbidden for further requests.
const OWN: RequestId = RequestId(u64::MAX);

/// Why a pool is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The pool on the device cannot be opened.
    #[error(transparent)]
    Open(OpenError),
    /// The device failed while the pool was being opened.
    #[error("the device failed while the pool was being opened{}", because(.0.as_ref()))]
    Device(Option<Trouble>),
}

/// The failure, as the end of a sentence.
fn because(trouble: Option<&Trouble>) -> String {
    trouble.map_or_else(String::new, |trouble| format!(": {trouble}"))
}

/// A request that ended, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub request: RequestId,
    /// How.
    pub result: Result<Reply, HostError>,
}

/// An open pool on the caller's own thread.
#[derive(Debug)]
pub struct Driver<S> {
    engine: Engine<Buffer>,
    device: Device<S>,
    /// Requests that the engine takes at once.
    max_requests: u32,
    clock: Clock,
    began: Instant,
    answers: Vec<Answer>,
    /// Ended while [`Driver::carry_out`] waited for something else.
    ended: Vec<Ended>,
    notices: Vec<Notice>,
    /// Whether the device was handed anything since it was last polled.
    unsettled: bool,
}

impl<S: Storage> Driver<S> {
    /// Opens the pool on `storage`, recovering it if need be. Returns as soon as requests are accepted.
    ///
    /// # Errors
    /// [`DriverError`]. Then nothing was written.
    ///
    /// # Panics
    /// If the storage is not divided as the geometry of `config` says.
    pub fn open(config: Config, storage: S) -> Result<Driver<S>, DriverError> {
        Driver::open_by(Clock::system(), seed(), config, storage)
    }

    /// As [`Driver::open`], with another clock than that of the system, and with `seed` for policies that draw at
    /// random.
    ///
    /// # Errors
    /// As [`Driver::open`].
    ///
    /// # Panics
    /// As [`Driver::open`].
    pub fn open_by(
        clock: Clock,
        seed: u64,
        config: Config,
        storage: S,
    ) -> Result<Driver<S>, DriverError> {
        let config = Config { members: storage.members(), ..config };
        let (geometry, max_requests) = (config.geometry, config.max_requests);
        let engine = Engine::open(config, seed)?;
        Driver::start(clock, engine, Device::new(storage, geometry), max_requests)
    }

    /// Makes and opens a new pool on `storage`, overwriting all previous contents.
    ///
    /// # Errors
    /// [`DriverError`].
    ///
    /// # Panics
    /// As [`Driver::open`].
    pub fn format(config: Config, pool: PoolId, storage: S) -> Result<Driver<S>, DriverError> {
        Driver::format_by(Clock::system(), seed(), config, pool, storage)
    }

    /// As [`Driver::format`], with a clock and a seed as [`Driver::open_by`].
    ///
    /// # Errors
    /// [`DriverError`].
    ///
    /// # Panics
    /// As [`Driver::open`].
    pub fn format_by(
        clock: Clock,
        seed: u64,
        config: Config,
        pool: PoolId,
        storage: S,
    ) -> Result<Driver<S>, DriverError> {
        let config = Config { members: storage.members(), ..config };
        let (geometry, max_requests) = (config.geometry, config.max_requests);
        let engine = Engine::format(config, pool, seed)?;
        Driver::start(clock, engine, Device::new(storage, geometry), max_requests)
    }

    fn start(
        clock: Clock,
        engine: Engine<Buffer>,
        device: Device<S>,
        max_requests: u32,
    ) -> Result<Driver<S>, DriverError> {
        let began = clock.now();
        let (answers, ended, notices) = (Vec::new(), Vec::new(), Vec::new());
        let unsettled = false;
        let mut driver = Driver {
            engine,
            device,
            max_requests,
            clock,
            began,
            answers,
            ended,
            notices,
            unsettled,
        };
        loop {
            driver.advance(&mut Vec::new());
            for notice in &driver.notices {
                match notice {
                    Notice::Open { .. } => return Ok(driver),
                    Notice::OpenFailed(OpenError::Device) => {
                        return Err(DriverError::Device(driver.device.take_troubles().pop()));
                    }
                    Notice::OpenFailed(error) => return Err(DriverError::Open(*error)),
                    _ => {}
                }
            }
            driver.assert_something_is_under_way();
        }
    }

    /// Takes a request; it begins with the next [`Driver::poll`].
    ///
    /// # Errors
    /// [`Rejected`]: it will not end. After [`Rejected::Busy`], poll and try again.
    pub fn submit(
        &mut self,
        request: RequestId,
        what: HostRequest<Buffer>,
    ) -> Result<(), Rejected> {
        self.engine.submit(self.now(), request, what)
    }

    /// Prefetches the map entry of the request's first block into the processor's cache, for a request to be submitted
    /// soon. Changes no state.
    pub fn prefetch(&self, what: &HostRequest<Buffer>) {
        if let HostRequest::Read { extent, .. } | HostRequest::Write { extent, .. } = what {
            self.engine.prefetch(extent.volume, extent.lba);
        }
    }

    /// Appends ended requests to `ended`. Without ended requests, waits for the device up to `wait`, and may return
    /// without any.
    pub fn poll(&mut self, wait: Option<Duration>, ended: &mut Vec<Ended>) {
        ended.append(&mut self.ended);
        self.act(ended);
        let shortest = [wait, self.timeout()].into_iter().flatten().min();
        let wait = if ended.is_empty() { shortest } else { Some(Duration::ZERO) };
        let mut answers = std::mem::take(&mut self.answers);
        self.unsettled = false;
        self.device.poll(wait, &mut answers);
        let now = self.now();
        self.engine.handle_timeout(now);
        for (op, version) in self.device.take_degraded() {
            self.engine.degraded(op, version);
        }
        for (op, done) in answers.drain(..) {
            self.engine.handle_completion(now, op, done);
        }
        self.answers = answers;
        self.act(ended);
    }

    /// Carries out one request and waits for its end. [`Driver::poll`] returns further requests that end meanwhile.
    ///
    /// # Errors
    /// As the request ends; [`HostError::Failed`] also for what is not accepted any more, such as after a close.
    ///
    /// # Panics
    /// If the request has an impossible form ([`Rejected::Malformed`]).
    #[expect(clippy::needless_pass_by_value, reason = "callers make it for this, and keep none")]
    pub fn carry_out(&mut self, what: HostRequest<Buffer>) -> Result<Reply, HostError> {
        let mut ended = Vec::new();
        loop {
            match self.submit(OWN, what.clone()) {
                Ok(()) => break,
                Err(Rejected::Busy) => {
                    self.advance(&mut ended);
                    self.ended.append(&mut ended);
                }
                Err(Rejected::Malformed) => panic!("{what:?} can be no request"),
                Err(_) => return Err(HostError::Failed),
            }
        }
        loop {
            let mut others = std::mem::take(&mut self.ended);
            self.advance(&mut ended);
            let own = ended.iter().position(|one| one.request == OWN);
            let own = own.map(|own| ended.swap_remove(own));
            others.append(&mut ended);
            self.ended = others;
            match own {
                Some(own) => return own.result,
                None => self.assert_something_is_under_way(),
            }
        }
    }

    /// Waits until the map is loaded as a whole. Returns `false` when that cannot be: it needs more memory than there
    /// is, a page of it is damaged, or the device failed.
    pub fn load_map(&mut self) -> bool {
        let mut ended = Vec::new();
        loop {
            for notice in &self.notices {
                match notice {
                    Notice::MapLoaded => return true,
                    Notice::Failed => return false,
                    _ => {}
                }
            }
            self.advance(&mut ended);
            self.ended.append(&mut ended);
            let over = self.device.is_idle() && self.engine.poll_timeout().is_none();
            if over && !self.notices.contains(&Notice::MapLoaded) {
                return false;
            }
        }
    }

    /// From now on, or no longer, what hosts write is kept from fast devices, as [`Engine::spare_fast`].
    pub fn spare_fast(&mut self, spare: bool) {
        self.engine.spare_fast(spare);
    }

    /// Scrubs beside everything else, as [`Engine::scrub_in_background`].
    pub fn scrub_in_background(&mut self, from: UnitId) -> bool {
        self.engine.scrub_in_background(self.now(), from)
    }

    /// Stops that scrub, as [`Engine::stop_scrub`].
    pub fn stop_scrub(&mut self) {
        self.engine.stop_scrub(self.now());
    }

    /// Keeps blocks writable for a volume, as [`Engine::reserve_for`].
    ///
    /// # Errors
    /// As there.
    pub fn reserve_for(&mut self, volume: VolumeId, blocks: u64) -> Result<(), HostError> {
        self.engine.reserve_for(volume, blocks)
    }

    /// As [`Driver::reserve_for`], also if the pool has less room by now. Other volumes map no new blocks then.
    pub fn hold_for(&mut self, volume: VolumeId, blocks: u64) {
        self.engine.hold_for(volume, blocks);
    }

    /// Gives up blocks that cannot be read, as [`Engine::give_up`].
    ///
    /// # Errors
    /// As there.
    pub fn give_up(&mut self, extent: Extent) -> Result<u64, HostError> {
        self.engine.give_up(extent)
    }

    /// What the engine has to tell since the notices were cleared.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Forgets the notices so far. Whoever runs for long does that now and then.
    pub fn clear_notices(&mut self) {
        self.notices.clear();
    }

    /// What the device refused since this was last called, the first few if that is long ago.
    pub fn take_troubles(&mut self) -> Vec<Trouble> {
        self.device.take_troubles()
    }

    /// As [`Storage::lost`].
    pub fn lost(&mut self) -> Option<String> {
        self.device.storage_mut().lost()
    }

    /// As [`Storage::overdue`].
    #[must_use]
    pub fn overdue(&self) -> Option<String> {
        self.device.storage().overdue()
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine<Buffer> {
        &self.engine
    }

    /// Requests that the engine takes at once.
    #[must_use]
    pub fn max_requests(&self) -> u32 {
        self.max_requests
    }

    /// The driver's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device<S> {
        &self.device
    }

    /// Ends a wait in [`Driver::poll`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.device.waker()
    }

    /// For callers that wait outside [`Driver::poll`], as [`Storage::descriptors`].
    pub fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.device.descriptors(into);
    }

    /// How long to wait at most until [`Driver::poll`] is called again, though nothing happens.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        let engine = self.engine.poll_timeout();
        let engine = engine.map(|at| at.as_nanos().saturating_sub(self.now().as_nanos()));
        let storage = self.device.storage().timeout();
        engine.map(Duration::from_nanos).into_iter().chain(storage).min()
    }

    /// Whether everything was begun, so that waiting for [`Driver::descriptors`] is in order. If not, poll again.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.unsettled && self.device.has_no_answers()
    }

    /// Polls, and waits if anything is under way.
    fn advance(&mut self, ended: &mut Vec<Ended>) {
        self.act(ended);
        let wait = if self.device.is_idle() { Some(Duration::ZERO) } else { None };
        self.poll(wait, ended);
    }

    fn now(&self) -> Time {
        let passed = self.clock.now().saturating_duration_since(self.began);
        Time::nanos(passed.as_nanos() as u64)
    }

    /// Executes the engine's actions.
    fn act(&mut self, ended: &mut Vec<Ended>) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Device { op, cmd } => {
                    self.unsettled = true;
                    self.device.submit(op, cmd);
                }
                Action::Complete { request, result } => ended.push(Ended { request, result }),
                Action::Notice(notice) => self.notices.push(notice),
            }
        }
    }

    /// An engine that waits for nothing would be waited for without end.
    fn assert_something_is_under_way(&self) {
        let waits = self.engine.poll_timeout().is_some() || !self.device.is_idle();
        assert!(waits || !self.ended.is_empty(), "the engine waits for nothing");
    }
}

/// Seed of randomised policies. The time of day is random enough.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64)
}

#[cfg(test)]
mod tests;
