//! A server of the volumes of a pool.

use std::net::ToSocketAddrs as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use thermocline_nbd::{Limits, Server, Stopper};
use thermocline_runtime::opening::{self, Opened, short_of_fast};
use thermocline_runtime::{AnyStorage, Driver, Pool, ScrubSchedule, ServeSettings, Settings};
use thermocline_target::Exports;

use crate::backend::Backend;
use crate::devices::{Devices, End};
use crate::front_ends::{FrontEnds, Leaving};
use crate::health::{Health, Phase};
use crate::http::{HttpThreads, Site};
use crate::log::Log;
use crate::news::{self, Unattended};
use crate::sockets::{SocketFile, Sockets};
use crate::state::State;
use crate::stop::{Kept, Worker};
use crate::stored::{Recorder, TOTALS};
use crate::tap::Tap;
use crate::{Error, News, Operator, Stop, StopHandle, open_files, status_socket, systemd};

/// Seconds to wait for clients, and for the device, at a stop. Chosen: below the time that systemd waits.
const PATIENCE: u64 = 10;

/// How a pool is served, beside its settings.
pub struct Options {
    /// Refuse writes.
    pub read_only: bool,
    /// Take sockets that systemd hands over, and tell systemd of the begin and the end (`sd_listen_fds(3)`,
    /// `sd_notify(3)`).
    pub systemd: bool,
    /// Receiver of news.
    pub operator: Arc<dyn Operator>,
    /// The end of the service.
    pub stop: Stop,
    /// The program, for status and metrics.
    pub build: Build,
}

/// The program that serves.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit that it was built from, or `unknown`.
    pub commit: &'static str,
}

impl Default for Build {
    /// This version of this library.
    fn default() -> Build {
        Build { version: env!("CARGO_PKG_VERSION"), commit: "unknown" }
    }
}

impl Default for Options {
    fn default() -> Options {
        let (operator, stop) = (Arc::new(Unattended), Stop::default());
        Options { read_only: false, systemd: false, operator, stop, build: Build::default() }
    }
}

/// A pool that is served. Clients are answered from [`PoolServer::open`] on.
pub struct PoolServer {
    backend: Backend,
    stopper: Stopper,
    front_ends: FrontEnds,
    tap: Tap,
    uris: Vec<String>,
    health: Arc<Health>,
    log: Log,
    stop: Stop,
    patience: Duration,
    systemd: bool,
    /// Memory for the stop.
    kept: Kept,
    closer: Worker,
    recorder: Option<JoinHandle<()>>,
    /// The thread that answers clients of a drive.
    clients: Option<JoinHandle<()>>,
    sockets: Vec<SocketFile>,
    http: HttpThreads,
}

impl PoolServer {
    /// Opens the pool of `settings`, and serves it as `[serve]` in them says. Without a socket or an address there, the
    /// socket is beside the settings file, as is the socket for status.
    ///
    /// # Errors
    /// When the pool does not open, an address cannot be had, or the system refuses a thread.
    pub fn open(settings: &Settings, options: Options) -> Result<PoolServer, Error> {
        let Options { read_only, systemd, operator, stop, build } = options;
        let log = Log::new(operator, settings.file());
        let serve = settings.serve.clone();
        let sockets = Sockets::open(settings, systemd)?;
        let kept = Kept::take()?;
        let closer = Worker::start("thermocline-close");
        let closer = closer.map_err(Error::io("no thread to close the pool"))?;
        let site = status_socket(settings.file());
        let site = Site::open(&site, serve.http.as_deref(), serve.http_hosts.clone())?;
        let health = Arc::new(Health::default());
        let http = site.serve(&health, !read_only)?;
        warn_of_http(&serve, &log);
        let end = End { health: Arc::clone(&health), stop: stop.handle() };
        let Begun { backend, id, devices, recorder } = Begun::of(settings, read_only, end, &log)?;
        let tap = Tap::new(log.clone());
        if let Some(path) = &serve.record_trace {
            let path = tap.start(path)?;
            log.note(format_args!("requests are recorded in {}", path.display()));
        }
        let limits = limits(&serve, &log);
        let volumes = backend.volume_names();
        let exports = backend.exports(read_only).into_iter().map(|one| tap.on(one));
        let exports = Exports::new(exports.collect());
        let (listeners, mut reach, sockets) = sockets.into_listeners();
        let front_ends =
            FrontEnds::open(settings, &id, &exports, &backend, read_only, &mut reach, &log)?;
        let server = Server::new(listeners, exports.clone(), limits)?;
        let clients = log.clone();
        let server = server.watched_by(move |event| clients.client(event));
        let stopper = server.stopper();
        let patience = Duration::from_secs(serve.patience.unwrap_or(PATIENCE));
        let clients = backend.run(server, patience)?;
        let uris = reach.uris(&volumes);
        let tap_ = tap.clone();
        let state =
            State::new(backend.downgrade(), &exports, &stopper, &health, reach, devices, tap_);
        http.open(&state.served_by(build));
        health.enter(Phase::Serving);
        log.say(&News::Started { id, volumes: volumes.len() });
        Ok(PoolServer {
            backend,
            stopper,
            front_ends,
            tap,
            uris,
            health,
            log,
            stop,
            patience,
            systemd,
            kept,
            closer,
            recorder,
            clients,
            sockets,
            http,
        })
    }

    /// Where clients find each volume.
    #[must_use]
    pub fn uris(&self) -> &[String] {
        &self.uris
    }

    /// Ends the service.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.handle()
    }

    /// Serves until a stop is asked for. Then requests are answered and the pool is closed, both within the patience of
    /// the settings.
    ///
    /// # Errors
    /// [`Error::Broken`] if the pool failed, or was not closed in time.
    pub fn run(self) -> Result<(), Error> {
        let PoolServer {
            backend, stopper, front_ends, tap, health, log, mut stop, mut http, ..
        } = self;
        let tell = |state| {
            if self.systemd {
                systemd::notify(state);
            }
        };
        tell("READY=1");
        stop.begun(self.patience);
        let began = Instant::now();
        log.say(&News::Stopping);
        health.enter(Phase::Stopping);
        drop(self.kept);
        tell("STOPPING=1");
        // Requests that wait for a limit are to be answered in time.
        backend.lift_limits();
        stopper.stop();
        wait_for_clients(&mut stop, &stopper, front_ends, &log);
        drop(self.sockets);
        http.hide();
        drop(self.clients.map(JoinHandle::join));
        let closed = close(backend, self.closer, &mut stop);
        health.enter(Phase::Closed);
        tap.stop(self.patience);
        // The pool is closed, and with it the sender of records, so the thread ends. A panicked thread has printed its
        // message.
        drop(self.recorder.filter(|_| closed.is_ok()).map(JoinHandle::join));
        http.wait();
        match health.failure() {
            Some(failure) => Err(Error::Broken(failure.to_owned())),
            None => {
                closed?;
                log.say(&News::Stopped(began.elapsed()));
                Ok(())
            }
        }
    }
}

/// An open pool or drive, before clients have it.
struct Begun {
    backend: Backend,
    /// The identifier of the pool; of a drive, its layer.
    id: String,
    devices: Devices,
    recorder: Option<JoinHandle<()>>,
}

impl Begun {
    fn of(settings: &Settings, read_only: bool, end: End, log: &Log) -> Result<Begun, Error> {
        if Backend::is_drive(settings) {
            let backend = Backend::drive(settings, read_only, log)?;
            let devices = Devices::new(settings.clone(), Vec::new(), end, log.clone());
            let id = settings.pool.layer().name().to_owned();
            return Ok(Begun { backend, id, devices, recorder: None });
        }
        let opened = opened(settings, read_only, log)?;
        let health = Arc::clone(&end.health);
        let devices = Devices::new(settings.clone(), opened.groups, end, log.clone());
        let id = opened.driver.engine().pool_id().to_string();
        let (pool, recorder) = start(opened.driver, settings, read_only, &health, &devices, log)?;
        for name in settings.set_limits(&pool) {
            log.warn(format_args!("limits are stated of `{name}`, which is no volume"));
        }
        Ok(Begun { backend: Backend::Pool(Arc::new(pool)), id, devices, recorder })
    }
}

/// Starts the pool's thread and the thread that stores records. Scrubs write, so a read-only pool is not scrubbed.
fn start(
    driver: Driver<AnyStorage>,
    settings: &Settings,
    read_only: bool,
    health: &Arc<Health>,
    devices: &Devices,
    log: &Log,
) -> Result<(Pool, Option<JoinHandle<()>>), Error> {
    let id = driver.engine().pool_id();
    let mut upkeep = settings.upkeep();
    let recorder = match read_only {
        true => {
            upkeep.totals = TOTALS.load(settings.file(), id).unwrap_or_default();
            None
        }
        false => {
            let (record, totals, recorder) = Recorder::start(settings, id, log)?;
            upkeep.scrubs = Some(ScrubSchedule { every: settings.pool.scrub_every(), record });
            upkeep.totals = totals;
            Some(recorder)
        }
    };
    let (records, recorder) = recorder.map(|one| (one.records, one.thread)).unzip();
    let listener = news::listener(log.clone(), Arc::clone(health), devices.clone(), records);
    let pool = Pool::start_with(driver, listener, &upkeep);
    Ok((pool.map_err(Error::io("no thread for the pool"))?, recorder))
}

/// Opens the pool of `settings`, and logs the recovery and each difference between settings and pool.
fn opened(settings: &Settings, read_only: bool, log: &Log) -> Result<Opened<AnyStorage>, Error> {
    let opened = match read_only {
        true => opening::to_read(settings)?,
        false => opening::to_write(settings, false)?,
    };
    let (chunks, entries) = opened.replayed;
    log.say(&News::Recovered { chunks, entries, took: opened.took });
    tell_differences(&opened, settings, log);
    Ok(opened)
}

/// Tells the differences between the settings and the pool.
fn tell_differences(opened: &Opened<AnyStorage>, settings: &Settings, log: &Log) {
    opened.notes.iter().for_each(|note| _ = log.say(&News::Opening(note.clone())));
    let volumes = opened.sizes();
    if let Some(short) = short_of_fast(&opened.config, &volumes) {
        log.say(&News::ShortOfFast(short));
    }
    // The pool was formatted with other settings, or has more volumes by now: it is served in any case.
    if let Err(little) = settings.enough_memory(&opened.config, volumes.iter().copied()) {
        log.say(&News::LittleMemory(little));
    }
}

/// Limits of the server; the process may have as many files open as that takes.
fn limits(serve: &ServeSettings, log: &Log) -> Limits {
    let default = Limits::default();
    let connections = serve.connections.unwrap_or(default.connections);
    open_files::raise_for(connections, log);
    Limits { connections, ..default }
}

/// Waits until all clients have their answers and all front ends have ended, within bounds.
fn wait_for_clients(stop: &mut Stop, stopper: &Stopper, front_ends: FrontEnds, log: &Log) {
    let endings = front_ends.end(log);
    let waited = stop.wait(|| stopper.is_over() && endings.iter().all(Leaving::is_over));
    let Some(why) = waited.why() else { return };
    if !stopper.is_over() {
        log.warn(format_args!("not every client got an answer {why}"));
    }
    for ending in endings.iter().filter(|ending| !ending.is_over()) {
        log.warn(format_args!("{} {why}", ending.not_ended));
    }
}

/// Warns of an address that shows status and metrics to others.
fn warn_of_http(serve: &ServeSettings, log: &Log) {
    if let Some(http) = serve.http.as_deref().filter(|http| is_for_all(http)) {
        log.warn(format_args!(
            "status and metrics at {http} are read by whoever reaches this machine: names of volumes and paths of devices \
             are in them"
        ));
    }
}

/// Whether others than this machine can reach an address.
fn is_for_all(address: &str) -> bool {
    let found = address.to_socket_addrs();
    found.is_ok_and(|mut found| found.any(|one| !one.ip().is_loopback()))
}

/// Closes the pool in order, within bounds: a device may hang.
fn close(backend: Backend, closer: Worker, stop: &mut Stop) -> Result<(), Error> {
    let closed = Arc::new(Mutex::new(None));
    let result = Arc::clone(&closed);
    let close = move || {
        let done = backend.close();
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
    };
    closer.run(close);
    let result = || *closed.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = stop.wait(|| result().is_some());
    match result() {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Error::Broken(error.to_string())),
        None => {
            let why = waited.why().unwrap_or_default();
            Err(Error::Broken(format!(
                "the pool was not closed {why}; opening it again will recover it"
            )))
        }
    }
}
