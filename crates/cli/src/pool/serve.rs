//! `thermocline serve`.

pub(super) mod control;
pub(super) mod devices;
mod drive;
mod files;
mod fronts;
pub(super) mod fullness;
pub(super) mod http;
mod metrics;
mod record;
pub(super) mod scrubs;
mod signals;
pub(super) mod sockets;
pub mod state;
mod stop;
mod systemd;
pub(super) mod wear;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use thermocline_engine::{Config, Notice};
use thermocline_format::PoolId;
use thermocline_nbd::{Export, Exports, Limits, Server, Stopper};
use thermocline_runtime::storage::Waker;
use thermocline_runtime::{
    DamageFound, Event, Poller, Pool, PoolUpkeep, ScrubRecord, ScrubSchedule, ServeSettings,
    Settings, Trouble,
};
use thermocline_target::Granular;
use thermocline_types::Bytes;

use super::open::{
    MORE_FAST, MORE_ROOM, NO_UNIT, because_of_damage, more_memory, short_of_fast, to_read, to_write,
};
use super::{Broken, CODES, open_files, print, say};
use devices::{Devices, End};
use files::Files;
use fronts::Fronts;
use fullness::{FullnessReport, ROOM};
use http::Site;
use record::Tap;
use scrubs::ScrubRecorder;
use sockets::{Addresses, Sockets};
use state::{Failure, Late, State};
use stop::{Kept, Stop, Worker};

/// End of the name of the socket for status and metrics.
pub(super) const STATUS: &str = "status.sock";

/// Arguments of `serve`.
#[derive(Args)]
#[command(after_help = format!("\
Every volume is an export of its name. Arguments go before what the settings say in [serve]. Where neither names a
socket or an address, and systemd hands over none, the socket is POOL.sock beside the settings. Status and metrics are
served over HTTP, as /status and /metrics, on the socket POOL.status.sock beside the settings, and with --http on a port
as well.

SIGTERM, SIGINT and SIGHUP stop in order: what clients have asked for is answered, then the pool is closed. Another one,
a second later or more, ends the waiting for clients, or for the device. SIGHUP does nothing where whoever started the
server had it ignored, as nohup does.

Examples:
  thermocline serve pool.toml
  qemu-img convert -n disk.img 'nbd+unix:///main?socket=pool.sock'
  thermocline serve pool.toml --record-trace today.csv.zst
  thermocline serve pool.toml --listen 127.0.0.1:10809 --http 127.0.0.1:9400
  thermocline serve pool.toml --fuse mnt

{CODES}"))]
pub struct ServeArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Unix socket to serve on
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// TCP address to serve on, such as 127.0.0.1:10809; one that others can reach needs TLS
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Certificates of this server, for TLS, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_clients"])]
    tls_certificate: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Certificates of the authorities whose clients may connect, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_clients: Option<PathBuf>,
    /// Serve the network without encryption, to whoever comes
    #[arg(long)]
    insecure_network: bool,
    /// TCP address for status and metrics; whoever reaches it reads them
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Existing, empty folder to mount on: every volume becomes a file there
    #[arg(long, value_name = "FOLDER")]
    fuse: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Connections at once [default: 128]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(ServeSettings::CONNECTIONS))]
    connections: Option<usize>,
    /// Seconds that clients have for the end of what they asked for, and the device for closing the pool, at a stop
    /// [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = RangedU64ValueParser::<u64>::new().range(ServeSettings::PATIENCE))]
    patience: Option<u64>,
    /// Record what clients ask of the volumes into a new file, as a trace for `lab analyze` and `lab run --trace`; if
    /// the file exists, into one with a number
    #[arg(
        long,
        value_name = "FILE",
        long_help = "\
Record what clients ask of the volumes into a new file, as a trace for `lab analyze` and `lab run --trace`: time, read,
write, trim, flush or zeroing, place, length and volume, no data. Packed if its name ends in .gz or .zst. A file that
exists stays as it is, and the new one has a number: today-1.csv.zst. `thermocline record` begins and ends it while the
pool is served. It is complete
up to a second ago at any time, also after a kill. Recording delays no request: what the file's device is too slow for is
left out and told"
    )]
    record_trace: Option<PathBuf>,
}

/// Seconds to wait for clients, and for the device, at a stop. Chosen: below what systemd waits for.
const PATIENCE: u64 = 10;

/// What follows when a file of the pool was removed or cut off, and what to do.
const LOST_FILE: &str = "no write is taken any more; copy from the volumes what can still be read, then stop the service";

/// `thermocline serve`.
pub fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    stop::reserve_if_limited()?;
    let settings = Settings::load(&args.settings)?;
    let serve = args.over(&settings.serve);
    let sockets = Sockets::open(&addresses(&args.settings, &serve))?;
    // From here on a signal waits for its turn.
    let (stop, signals) = signals::receive()?;
    let kept = Kept::take()?;
    let closer = Worker::start("thermocline-close").context("no thread to close the pool")?;
    let site = sockets::beside(&args.settings, STATUS);
    let site = Site::open(&site, serve.http.as_deref(), serve.http_hosts.clone())?;
    warn_of_http(&serve);
    let opened = if args.read_only { to_read(&settings)? } else { to_write(&settings, false)? };
    let tap = Tap::default();
    record(&tap, &serve)?;
    if let Some(short) = short_of_fast(&opened.config, &opened.sizes()) {
        say(format_args!("{short}: {MORE_FAST}"));
    }
    warn_of_memory(&settings, &opened.config, &opened.sizes());
    let (failure, late) = (Failure::default(), Late::default());
    let end = End { failure: Failure::clone(&failure), stop };
    let devices = Devices::new(settings.clone(), opened.groups, end);
    let (scrubs, recorder) = scrubs(args, &settings, opened.driver.engine().pool_id())?;
    let (records, recorder) = recorder.map(ScrubRecorder::into_parts).unzip();
    let listener = listener((&failure, &late), devices.clone(), &args.settings, records);
    let upkeep = PoolUpkeep { scrubs, ..settings.upkeep() };
    let pool = Pool::start_with(opened.driver, listener, &upkeep);
    let pool = pool.context("no thread for the pool")?;
    let default = Limits::default();
    let connections = serve.connections.unwrap_or(default.connections);
    open_files::raise_for(connections);
    let limits = Limits { connections, ..default };
    let exports: Vec<Export> =
        exports(&pool, args.read_only).into_iter().map(|export| tap.on(export)).collect();
    let mounted = Files::mount(serve.fuse.as_deref(), &exports, args.read_only)?;
    let exports = Exports::new(exports, &limits);
    let fronts = Fronts::new(exports.clone(), mounted.directory(), tap.clone());
    let (listeners, reach, sockets) = sockets.into_listeners();
    let reach = reach.and_files_in(mounted.path());
    let server = Server::new(listeners, exports, limits)?;
    let stopper = server.stopper();
    house(&pool, server)?;
    for name in settings.set_limits(&pool) {
        say(format_args!("limits are stated of `{name}`, which is no volume"));
    }
    let pool = Arc::new(pool);
    let uris = reach.uris(&pool.volume_names());
    let state = State::new(&pool, stopper.clone(), (&failure, &late), reach, devices, tap.clone());
    let status = site.serve(&state, (!args.read_only).then_some(&fronts))?;
    print(&uris.iter().map(|uri| format!("{uri}\n")).collect::<String>())?;
    systemd::notify("READY=1");
    let patience = Duration::from_secs(serve.patience.unwrap_or(PATIENCE));
    let mut stop = Stop::asked(signals, patience);
    drop(kept);
    systemd::notify("STOPPING=1");
    // What waits for a limit is to be answered in time.
    pool.lift_limits();
    stopper.stop();
    wait_for_clients(&mut stop, &stopper, mounted);
    drop((sockets, status));
    let closed = close(pool, closer, &mut stop);
    tap.stop(patience);
    // The pool is gone, and with it the sender of records. A thread that panicked has said so.
    drop(recorder.filter(|_| closed.is_ok()).map(JoinHandle::join));
    if let Some(failure) = failure.get() {
        return Err(Broken(failure.clone()).into());
    }
    closed.map(|()| ExitCode::SUCCESS)
}

/// When the pool scrubs itself, which writes what is right over what is wrong, and who stores the record of that.
fn scrubs(
    args: &ServeArgs,
    settings: &Settings,
    pool: PoolId,
) -> anyhow::Result<(Option<ScrubSchedule>, Option<ScrubRecorder>)> {
    let started = if args.read_only { None } else { ScrubRecorder::start(settings, pool)? };
    Ok(started.unzip())
}

/// Waits until all clients have their answers and the files are unmounted, within bounds.
fn wait_for_clients(stop: &mut Stop, stopper: &Stopper, mounted: Files) {
    let unmounting = mounted.unmount();
    let unmounted = || unmounting.as_ref().is_none_or(JoinHandle::is_finished);
    let waited = stop.wait(|| stopper.is_over() && unmounted());
    for (done, what) in [
        (stopper.is_over(), "not every client got an answer"),
        (unmounted(), "the files were not unmounted"),
    ] {
        if let Some(why) = waited.why().filter(|_| !done) {
            say(format_args!("{what} {why}"));
        }
    }
}

/// Begins to record requests, where the settings or arguments ask for that.
fn record(tap: &Tap, serve: &ServeSettings) -> anyhow::Result<()> {
    if let Some(path) = &serve.record_trace {
        let path = tap.start(path)?;
        say(format_args!("requests are recorded in {}", path.display()));
    }
    Ok(())
}

/// Warns of an address that shows status and metrics to others.
fn warn_of_http(serve: &ServeSettings) {
    if let Some(http) = serve.http.as_deref().filter(|http| is_for_all(http)) {
        say(format_args!(
            "status and metrics at {http} are read by whoever reaches this machine: names of volumes and paths of devices \
             are in them"
        ));
    }
}

/// Warns of memory in the settings that is too little. The pool was formatted with other settings, or has more volumes
/// by now: it is served in any case.
fn warn_of_memory(settings: &Settings, config: &Config, volumes: &[u64]) {
    if let Err(little) = settings.enough_memory(config, volumes.iter().copied()) {
        let little = more_memory(&little);
        say(format_args!("{little}; until then the service takes more memory than that"));
    }
}

/// Whether others than this machine can reach an address.
fn is_for_all(address: &str) -> bool {
    let found = std::net::ToSocketAddrs::to_socket_addrs(address);
    found.is_ok_and(|mut found| found.any(|one| !one.ip().is_loopback()))
}

/// Closes the pool in order, within bounds: a device may hang.
fn close(pool: Arc<Pool>, closer: Worker, stop: &mut Stop) -> anyhow::Result<()> {
    let closed = Arc::new(Mutex::new(None));
    let result = Arc::clone(&closed);
    let close = move || {
        let mut pool = pool;
        // Whoever looks at the status has it for a moment.
        let pool = loop {
            match Arc::try_unwrap(pool) {
                Ok(pool) => break pool,
                Err(shared) => pool = shared,
            }
            thread::sleep(Duration::from_millis(1));
        };
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(pool.close());
    };
    closer.run(close);
    let result = || *closed.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = stop.wait(|| result().is_some());
    match result() {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Broken(error.to_string()).into()),
        None => {
            let why = waited.why().unwrap_or_default();
            let text = format!("the pool was not closed {why}; opening it again will recover it");
            Err(Broken(text).into())
        }
    }
}

impl ServeArgs {
    /// What is asked for here, and for the rest what the settings say.
    fn over(&self, settings: &ServeSettings) -> ServeSettings {
        let path = |argument: &Option<PathBuf>, setting: &Option<PathBuf>| {
            argument.as_ref().or(setting.as_ref()).cloned()
        };
        let listen = if self.listen.is_empty() { &settings.listen } else { &self.listen };
        ServeSettings {
            socket: path(&self.socket, &settings.socket),
            listen: listen.clone(),
            fuse: path(&self.fuse, &settings.fuse),
            http: self.http.as_ref().or(settings.http.as_ref()).cloned(),
            http_hosts: settings.http_hosts.clone(),
            connections: self.connections.or(settings.connections),
            patience: self.patience.or(settings.patience),
            flush_after: settings.flush_after,
            record_trace: path(&self.record_trace, &settings.record_trace),
            tls_certificate: path(&self.tls_certificate, &settings.tls_certificate),
            tls_key: path(&self.tls_key, &settings.tls_key),
            tls_clients: path(&self.tls_clients, &settings.tls_clients),
            insecure_network: self.insecure_network || settings.insecure_network,
        }
    }
}

fn addresses<'a>(settings: &Path, serve: &'a ServeSettings) -> Addresses<'a> {
    let tls = serve.tls_certificate.as_deref().zip(serve.tls_key.as_deref());
    let tls = tls.zip(serve.tls_clients.as_deref());
    Addresses {
        socket: serve.socket.as_deref(),
        default_socket: sockets::beside(settings, "sock"),
        tcp: &serve.listen,
        tls: tls.map(|((certificate, key), clients)| [certificate, key, clients]),
        insecure_network: serve.insecure_network,
    }
}

/// Says on standard error what an operator has to know.
fn listener(
    (failure, late): (&Failure, &Late),
    devices: Devices,
    settings: &Path,
    records: Option<Sender<ScrubRecord>>,
) -> thermocline_runtime::Listener {
    let (failure, late) = (Failure::clone(failure), Late::clone(late));
    let (settings, mut damaged) = (settings.to_owned(), 0_u64);
    let mut last: Option<Trouble> = None;
    Box::new(move |event| match event {
        Event::Trouble(trouble) => {
            say(format_args!("{trouble}"));
            last = Some(trouble);
        }
        Event::Damaged(found) => {
            damaged += 1;
            let device = devices.device_of(found.at.unit);
            if let Some(text) = damage(damaged, &found, &device, &settings) {
                say(format_args!("{text}"));
            }
        }
        Event::Notice(Notice::Retired(unit)) => {
            say(format_args!("unit {} is out of service", unit.0));
        }
        Event::Notice(Notice::Failed) => {
            let why = last.map(|trouble| format!("the device failed: {trouble}"));
            let (why, damage) = match why {
                Some(why) => (why, String::new()),
                None => (format!("{NO_UNIT}: {MORE_ROOM}"), because_of_damage(damaged)),
            };
            let text = format!("{why}; no write is taken until the pool is opened again{damage}");
            say(format_args!("{text}"));
            // It fails once.
            let _first = failure.set(text);
        }
        Event::Fullness(fullness) => {
            let report = FullnessReport::new(&fullness);
            let remedy = if report.is_normal() { String::new() } else { format!("; {ROOM}") };
            say(format_args!("{report}{remedy}"));
        }
        Event::Lost(what) => {
            let text = format!("{what}: {LOST_FILE}");
            say(format_args!("{text}"));
            let _earlier = failure.set(text);
        }
        Event::Overdue(now) => {
            match &now {
                Some(what) => say(format_args!("{what}: see to the device and its cables")),
                None => say(format_args!("devices end their commands in time again")),
            }
            *late.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
        Event::Scrub(record) => {
            let findings = record.last.filter(|last| {
                record.current.is_none() && last.found.damaged + last.found.mended > 0
            });
            if let Some(last) = findings {
                say(format_args!("a scrub has {}", scrubs::ended(&last)));
            }
            // Whoever stores it lives as long as the pool.
            records.iter().for_each(|records| _ = records.send(record));
        }
        Event::Wear(status) => say(format_args!("{}", wear::WearReport::new(&status))),
        Event::Notice(_) => {}
    })
}

/// What there is to say of the `count`-th damaged block that was met. After a few only each tenfold is worth a line.
fn damage(count: u64, found: &DamageFound, device: &str, settings: &Path) -> Option<String> {
    /// Lines with a place. Chosen.
    const NAMED: u64 = 5;
    let remedy = format!(
        "stop the service, and `thermocline check {}` names volumes and offsets",
        settings.display()
    );
    let DamageFound { at, holds } = found;
    let holds = holds.as_ref().map_or_else(String::new, |(volume, bytes)| {
        format!(", {} of volume `{volume}` at byte {}", Bytes(bytes.end - bytes.start), bytes.start)
    });
    let is_power = count.is_multiple_of(10_u64.pow(count.ilog10()));
    match count {
        1..=NAMED => Some(format!(
            "{device}: the block at {at}{holds}, cannot be read, or is not what was written; reading it is an error. \
             {remedy}"
        )),
        _ if is_power => Some(format!("{count} reads have met damaged blocks; {remedy}")),
        _ => None,
    }
}

fn exports(pool: &Pool, read_only: bool) -> Vec<Export> {
    let volumes = pool.volume_names().into_iter();
    let volumes = volumes.filter_map(|name| pool.volume(name.as_str()));
    volumes.map(|volume| export(volume, read_only)).collect()
}

fn export(volume: thermocline_runtime::Volume, read_only: bool) -> Export {
    let name = volume.name().to_string();
    let target = Granular::new(volume, Bytes::SECTOR);
    Export { name, target: Arc::new(target), read_only }
}

/// A server that is polled on the pool's thread.
struct PolledServer(Server);

impl Poller for PolledServer {
    fn turn(&mut self, wait: Option<Duration>, pool: Option<BorrowedFd<'_>>) {
        self.0.turn(wait, pool.as_slice());
    }

    fn waker(&self) -> Waker {
        let stopper = self.0.stopper();
        Arc::new(move || stopper.wake())
    }
}

/// Sees to it that the server has a thread: that of the pool, or its own where the storage cannot be waited for.
fn house(pool: &Pool, server: Server) -> anyhow::Result<()> {
    let stopper = server.stopper();
    let Err(mut server) = pool.register(Box::new(PolledServer(server))) else { return Ok(()) };
    let run = move || {
        while !stopper.is_over() {
            server.turn(None, None);
        }
    };
    thread::Builder::new().name("thermocline-nbd".to_owned()).spawn(run)?;
    Ok(())
}
