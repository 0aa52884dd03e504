//! `thermocline serve`.

mod daemon;
mod log;
mod signals;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use thermocline_runtime::{ServeSettings, Settings};
use thermocline_serve::{Error, News, Operator, Options, PoolServer, Stop};

use self::log::LogArgs;
use super::advice::{self, note, worded};
use super::{CODES, print};

/// Arguments of `serve`.
#[derive(Args)]
#[command(after_help = format!("\
Every volume is an NBD export of the same name. Command-line options override section [serve] of the settings. Without a
socket or an address from systemd, options or settings, the server listens on POOL.sock beside the settings. HTTP on the
socket POOL.status.sock beside the settings, and with --http on a port, has /status and /metrics, and for supervisors
/health and /ready.

SIGTERM, SIGINT, SIGHUP and `thermocline stop` stop the server in order: requests of clients are answered, then the pool
is closed. A second signal, at least a second later, ends the wait for clients, or for the device. Under nohup, SIGHUP
is ignored.

Examples:
  thermocline serve pool.toml --daemon
  thermocline serve pool.toml --wait
  thermocline stop pool.toml
  thermocline serve pool.toml
  qemu-img convert -n disk.img 'nbd+unix:///main?socket=pool.sock'
  thermocline serve pool.toml --record-trace today.csv.zst
  thermocline serve pool.toml --listen 127.0.0.1:10809 --http 127.0.0.1:9400
  thermocline serve pool.toml --fuse mnt
  thermocline serve pool.toml --ublk
  thermocline serve pool.toml --vhost-user guests

{CODES}"))]
pub struct ServeArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Unix socket to serve on
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// TCP address to serve on, such as 127.0.0.1:10809; an address beyond loopback needs TLS
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Certificates of this server, for TLS, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_clients"])]
    tls_certificate: Option<PathBuf>,
    /// Private key of this server, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Certificates of the authorities whose clients may connect, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_clients: Option<PathBuf>,
    /// Serve the network without encryption and without authentication
    #[arg(long)]
    insecure_network: bool,
    /// TCP address for health, status and metrics, which are readable without authentication
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Existing, empty folder to mount on: every volume becomes a file there
    #[arg(long, value_name = "FOLDER")]
    fuse: Option<PathBuf>,
    /// Make every volume a block device /dev/ublkbN of this machine; needs root and the kernel module ublk_drv
    #[arg(
        long,
        long_help = "\
Make every volume a block device /dev/ublkbN of this machine; needs root and the kernel module ublk_drv (Linux 6.5). N is
kept in POOL.ublk beside the settings. If the server is killed, or ends while a device is mounted, reads and writes of the
device wait for the next server with --ublk"
    )]
    ublk: bool,
    /// Folder of vhost-user sockets: every volume is a disk for a virtual machine, at FOLDER/NAME.sock
    #[arg(long, value_name = "FOLDER")]
    vhost_user: Option<PathBuf>,
    /// TCP address for hosts of NVMe over TCP, such as 127.0.0.1:4420; every volume is a namespace
    #[arg(long, value_name = "ADDRESS")]
    nvme_tcp: Option<String>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Connections at once [default: 128]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(ServeSettings::CONNECTIONS))]
    connections: Option<usize>,
    /// At a stop, seconds to answer the requests of clients, and again to close the pool [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = RangedU64ValueParser::<u64>::new().range(ServeSettings::PATIENCE))]
    patience: Option<u64>,
    /// Record the requests of clients in a new file, as a trace for `lab analyze` and `lab run --trace`; if the file
    /// exists, the new name has a number
    #[arg(
        long,
        value_name = "FILE",
        long_help = "\
Record the requests of clients in a new file, as a trace for `lab analyze` and `lab run --trace`: time, operation,
offset, length and volume, no data. The trace is compressed if the name ends in .gz or .zst. An existing file is kept;
the new name has a number: today-1.csv.zst. `thermocline record` starts and stops a recording while the pool is served.
After a kill, the last second may be missing. Recording delays no request: if the file's device is too slow, requests are
dropped from the trace and counted"
    )]
    record_trace: Option<PathBuf>,
    /// Serve in the background, return when clients can connect; `thermocline stop` ends the server
    #[arg(
        long,
        long_help = "\
Serve in the background. The command returns when clients can connect, and prints the process id. If the pool cannot be
served, the exit code is the same as without --daemon. Messages are appended to POOL.log beside the settings.
`thermocline stop POOL.toml` ends the server"
    )]
    daemon: bool,
    /// This process is the one in the background.
    #[arg(long, hide = true, requires = "daemon")]
    detached: bool,
    /// Serve nothing: wait until another process serves the pool, at most 60 seconds or SECONDS, and print the URIs of
    /// its volumes
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60", conflicts_with = "daemon")]
    wait: Option<u64>,
    #[command(flatten)]
    log: LogArgs,
}

/// `thermocline serve`.
pub fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    reserve_if_limited()?;
    let mut settings = Settings::load(&args.settings)?;
    if let Some(seconds) = args.wait {
        return daemon::wait(&args.settings, Duration::from_secs(seconds));
    }
    if args.daemon && !args.detached {
        return daemon::start(&args.settings);
    }
    if args.detached {
        rustix::process::setsid()?;
    }
    settings.serve = args.over(&settings.serve);
    args.log.start();
    // From here on a signal only requests a stop.
    let stop = Stop::default();
    signals::stop_at_signals(stop.handle())?;
    let file = args.settings.clone();
    let operator = Arc::new(CommandLine { file: file.clone() });
    let (read_only, build) = (args.read_only, crate::BUILD);
    let options = Options { read_only, systemd: true, operator, stop, build };
    let server = PoolServer::open(&settings, options).map_err(|error| worded(&file, error))?;
    let ready = args.detached.then_some(daemon::READY);
    let lines = server.uris().iter().map(String::as_str).chain(ready);
    print(&lines.map(|line| format!("{line}\n")).collect::<String>())?;
    server.run().map_err(|error| worded(&file, error))?;
    Ok(ExitCode::SUCCESS)
}

/// The words of the command line.
struct CommandLine {
    /// The settings.
    file: PathBuf,
}

impl Operator for CommandLine {
    fn words(&self, news: &News) -> String {
        let check =
            format!("`thermocline check {}` names volumes and offsets", self.file.display());
        match news {
            News::Opening(one) => note(&self.file, one),
            News::Damaged(..) => format!("{news}. {check}"),
            News::DamageCount(_) => format!("{news}; {check}"),
            news => advice::of_news(news),
        }
    }

    fn reason(&self, error: Error) -> String {
        advice::told(&worded(&self.file, error))
    }
}

/// The environment variable of mimalloc's reserve at the start of a program (`mi_option_reserve_os_memory`), and its
/// size. Without a reserve, new threads may find no memory. Chosen, not measured.
const RESERVED: (&str, &str) = ("MIMALLOC_RESERVE_OS_MEMORY", "64MiB");

/// The environment variable of glibc's arenas (mallopt(3)), and their number. Each arena of a thread reserves 64 MiB,
/// and may leave too little for the signal stack of the next thread.
const ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "1");

/// Restarts the program with reserved memory if the address space is limited (`ulimit -v`; proc(5)) and the
/// environment sets no reserve.
///
/// # Errors
/// When the program cannot be restarted.
fn reserve_if_limited() -> io::Result<()> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"));
    let limited = limit.is_some_and(|limit| !limit.trim_start().starts_with("unlimited"));
    let (key, value) = RESERVED;
    if !limited || env::var_os(key).is_some() {
        return Ok(());
    }
    Err(std::process::Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(key, value)
        .env(ARENAS.0, ARENAS.1)
        .exec())
}

impl ServeArgs {
    /// `settings`, with these arguments in precedence.
    fn over(&self, settings: &ServeSettings) -> ServeSettings {
        let path = |argument: &Option<PathBuf>, setting: &Option<PathBuf>| {
            argument.as_ref().or(setting.as_ref()).cloned()
        };
        let listen = if self.listen.is_empty() { &settings.listen } else { &self.listen };
        ServeSettings {
            socket: path(&self.socket, &settings.socket),
            listen: listen.clone(),
            fuse: path(&self.fuse, &settings.fuse),
            ublk: self.ublk || settings.ublk,
            vhost_user: path(&self.vhost_user, &settings.vhost_user),
            nvme_tcp: self.nvme_tcp.as_ref().or(settings.nvme_tcp.as_ref()).cloned(),
            http: self.http.as_ref().or(settings.http.as_ref()).cloned(),
            connections: self.connections.or(settings.connections),
            patience: self.patience.or(settings.patience),
            record_trace: path(&self.record_trace, &settings.record_trace),
            tls_certificate: path(&self.tls_certificate, &settings.tls_certificate),
            tls_key: path(&self.tls_key, &settings.tls_key),
            tls_clients: path(&self.tls_clients, &settings.tls_clients),
            insecure_network: self.insecure_network || settings.insecure_network,
            ..settings.clone()
        }
    }
}
