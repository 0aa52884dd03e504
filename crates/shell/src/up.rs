//! A running service: the pool, the server, and the sleeping times of their threads.
//!
//! Invariants:
//! * A sleeping thread runs only after a completion, a message, a call of its waker, or the end of its waiting time.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermocline_engine::Engine;
use thermocline_nbd::{Limits, Server, Stopper};
use thermocline_runtime::storage::Waker;
use thermocline_runtime::{
    AnyStorage, Buffer, Driver, Poller, Pool, PoolUpkeep, Stepper, VolumeLimits,
};
use thermocline_target::{Clock, Export, Exports, Granular};
use thermocline_types::Bytes;

use crate::storage::Scripted;
use crate::watched::{SeenHandle, Watched};

/// Time of a thread for each step. Chosen: near the time of one or two system calls.
const STEP: Duration = Duration::from_micros(2);

/// The end of a thread's sleep; an inner `None` is a sleep without end.
type Sleep = Option<Option<Duration>>;

/// The flag that the waker of the open storage sets.
pub type StorageWoken = Arc<Mutex<Arc<AtomicBool>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running service.
pub struct Up {
    /// The pool.
    pub pool: Pool,
    stepper: Stepper,
    server: Arc<Mutex<Server>>,
    /// Stops the server.
    pub stopper: Stopper,
    clock: Clock,
    script: Scripted,
    woken: StorageWoken,
    seen: Vec<SeenHandle>,
    housed: bool,
    pool_sleeps: Sleep,
    server_sleeps: Arc<Mutex<Sleep>>,
    /// Whether the pool's thread still runs.
    alive: bool,
}

/// The parts of a service.
pub struct Parts<'a> {
    /// The open pool.
    pub driver: Driver<AnyStorage>,
    /// Background work of the pool.
    pub upkeep: PoolUpkeep,
    /// The script of the storage.
    pub script: &'a Scripted,
    /// The flag of the storage's waker.
    pub woken: StorageWoken,
    /// Bounds of the server.
    pub limits: Limits,
    /// Whether the server runs on the pool's thread.
    pub housed: bool,
    /// Records of the volumes' answers, by volume name.
    pub seen: &'a BTreeMap<String, SeenHandle>,
}

impl Up {
    /// Starts a service.
    #[must_use]
    pub fn start(parts: Parts<'_>) -> Up {
        let Parts { driver, upkeep, script, woken, limits, housed, seen } = parts;
        let clock = driver.clock().clone();
        let (pool, mut stepper) = Pool::stepped(driver, Box::new(|_| {}), &upkeep);
        let exports = pool.volume_names().into_iter().filter_map(|name| {
            let seen = seen.get(name.as_str())?;
            let watched = Watched::new(pool.volume(name.as_str())?, &clock, seen);
            let target = Arc::new(Granular::new(watched, Bytes::SECTOR));
            Some(Export { name: name.to_string(), target, read_only: false })
        });
        let exports = Exports::new(exports.collect());
        let server = Server::by(clock.clone(), Vec::new(), exports, limits).expect("sockets");
        let stopper = server.stopper();
        let (server, server_sleeps) = (Arc::new(Mutex::new(server)), Arc::default());
        if housed {
            let poller = Housed { server: Arc::clone(&server), sleeps: Arc::clone(&server_sleeps) };
            assert!(stepper.register(Box::new(poller)).is_ok(), "the pool has no other");
        }
        let seen = seen.values().cloned().collect();
        let (script, pool_sleeps, alive) = (script.clone(), None, true);
        Up {
            pool,
            stepper,
            server,
            stopper,
            clock,
            script,
            woken,
            seen,
            housed,
            pool_sleeps,
            server_sleeps,
            alive,
        }
    }

    /// The server.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        lock(&self.server)
    }

    /// Whether the pool's thread still runs.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        self.alive
    }

    /// Gives a volume limits.
    pub fn set_limits(&self, name: &str, limits: VolumeLimits) {
        if let Some(volume) = self.pool.volume(name) {
            self.pool.set_limits(volume.id(), limits);
        }
    }

    /// The result of `look` at the engine; `None` when the pool has ended.
    pub fn looks<T>(&self, look: impl FnOnce(&Engine<Buffer>) -> T) -> Option<T> {
        self.stepper.engine().map(look)
    }

    /// Whether the pool's thread can run now.
    #[must_use]
    pub fn pool_is_awake(&self) -> bool {
        if !self.alive {
            return false;
        }
        let now = self.clock.passed();
        let is_over = |sleep: Option<Duration>| sleep.is_some_and(|until| until <= now);
        let news = self.script.next().is_some_and(|due| due <= now)
            || lock(&self.woken).load(Ordering::Acquire);
        match if self.housed { *lock(&self.server_sleeps) } else { self.pool_sleeps } {
            None => true,
            Some(until) => is_over(until) || news || self.housed && self.server().is_woken(),
        }
    }

    /// Whether the server has its own thread and can run now.
    #[must_use]
    pub fn server_is_awake(&self) -> bool {
        let now = self.clock.passed();
        // The thread of the server ends when all connections have ended.
        if self.housed || self.stopper.is_over() {
            return false;
        }
        match *lock(&self.server_sleeps) {
            None => true,
            Some(until) => until.is_some_and(|until| until <= now) || self.server().is_woken(),
        }
    }

    /// The earliest end of a sleep or of a command.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        let server = lock(&self.server_sleeps).flatten();
        let pool = if self.housed { None } else { self.pool_sleeps.flatten() };
        let command = if self.alive { self.script.next() } else { None };
        [server, pool, command].into_iter().flatten().min()
    }

    /// A step of the pool's thread.
    pub fn step_pool(&mut self) {
        if self.housed && lock(&self.server_sleeps).take().is_some() {
            self.server().end_turn(Some(Duration::ZERO), &[]);
        }
        self.script.begin_step();
        self.alive = self.stepper.step();
        self.pool_sleeps = self.script.sleeps();
        self.charge();
    }

    /// A step of the server's thread.
    pub fn step_server(&mut self) {
        let mut server = lock(&self.server);
        if lock(&self.server_sleeps).take().is_some() {
            server.end_turn(Some(Duration::ZERO), &[]);
        }
        turn(&mut server, &self.server_sleeps, None, &self.clock);
        drop(server);
        self.charge();
    }

    /// Advances the clock by the time of the work done.
    fn charge(&self) {
        let seen = self.seen.iter();
        let spent = seen.map(|seen| std::mem::take(&mut crate::watched::look(seen).spent));
        self.clock.advance(STEP + spent.sum::<Duration>());
    }
}

/// A turn of the server up to its wait.
fn turn(server: &mut Server, sleeps: &Mutex<Sleep>, wait: Option<Duration>, clock: &Clock) {
    let wait = server.begin_turn(wait);
    if wait == Some(Duration::ZERO) {
        server.end_turn(wait, &[]);
    } else {
        *lock(sleeps) = Some(wait.map(|wait| clock.passed() + wait));
    }
}

/// A server on the thread of the pool.
struct Housed {
    server: Arc<Mutex<Server>>,
    sleeps: Arc<Mutex<Sleep>>,
}

impl Poller for Housed {
    fn turn(&mut self, wait: Option<Duration>, _: &[BorrowedFd<'_>]) {
        let mut server = lock(&self.server);
        let clock = server.clock().clone();
        turn(&mut server, &self.sleeps, wait, &clock);
    }

    fn waker(&self) -> Waker {
        let stopper = lock(&self.server).stopper();
        Arc::new(move || stopper.wake())
    }
}
