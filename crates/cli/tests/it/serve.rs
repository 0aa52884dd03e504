//! Pools as served to clients: start, status, stop.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_nbd::Client;
use thermocline_nbd::protocol::request::{self, Framing};

use crate::{Done, numbers, repository, scratch, write};

/// Longer than any step of these tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command
}

pub fn run(folder: &Path, arguments: &str) -> Done {
    done(command(folder, arguments))
}

/// The output of an ended command.
pub fn done(mut command: Command) -> Done {
    let done = command.output().expect("the program starts");
    Done {
        code: done.status.code().expect("no signal ends the program"),
        out: String::from_utf8(done.stdout).expect("UTF-8"),
        err: String::from_utf8(done.stderr).expect("UTF-8"),
    }
}

/// A new pool in `folder`: volumes `main` of 48 MiB and `second` of 16.
pub fn format(folder: &Path) {
    format_for(folder, "auto");
}

/// A new pool in `folder`, with transfers by `io`.
pub fn format_for(folder: &Path, io: &str) {
    let size = "size = '128MiB'\nunit = '1MiB'";
    format_on(folder, &format!("[device]\npath = 'pool.img'\n{size}\nio = '{io}'\n"));
}

/// The same, with a fast device before the other.
pub fn format_tiered(folder: &Path, io: &str) {
    let unit = format!("unit = '1MiB'\nio = '{io}'");
    format_on(
        folder,
        &format!(
            "[[device]]\npath = 'fast.img'\nclass = 'fast'\nsize = '24MiB'\n{unit}\n
[[device]]\npath = 'pool.img'\nsize = '128MiB'\n{unit}\n"
        ),
    );
}

/// The same, with a mirrored pair of fast devices, `a.img` and `b.img`.
pub fn format_mirrored(folder: &Path, io: &str) {
    format_pair(folder, io, "");
}

/// Such a pool; `slow` is said of `b.img` as well.
pub fn format_pair(folder: &Path, io: &str, slow: &str) {
    let unit = format!("unit = '1MiB'\nio = '{io}'");
    let side = |name, more| {
        format!(
            "[[device]]\npath = '{name}.img'\nclass = 'fast'\nmirror = 'm'\nsize = '24MiB'\n{unit}\n{more}\n"
        )
    };
    let capacity = format!("[[device]]\npath = 'pool.img'\nsize = '128MiB'\n{unit}\n");
    format_on(folder, &format!("{}{}{capacity}", side("a", ""), side("b", slow)));
}

/// A pool on a striped group, `a.img`, `b.img` and `c.img`, behind a fast device `fast.img` if it is to have one.
pub fn format_striped(folder: &Path, key: &str, is_tiered: bool) {
    let member = |name| {
        format!("[[device]]\npath = '{name}.img'\n{key} = 'g'\nsize = '64MiB'\nunit = '1MiB'\n")
    };
    let fast = "[[device]]\npath = 'fast.img'\nclass = 'fast'\nsize = '24MiB'\nunit = '1MiB'\n";
    let fast = if is_tiered { fast } else { "" };
    format_on(folder, &format!("{}{}{}{fast}", member("a"), member("b"), member("c")));
}

/// Settings of the volumes of these pools.
pub const VOLUMES: &str =
    "[[volumes]]\nname = 'main'\nsize = '48MiB'\n[[volumes]]\nname = 'second'\nsize = '16MiB'\n";

/// The same, on these devices.
pub fn format_on(folder: &Path, devices: &str) {
    write(folder, "pool.toml", format!("{devices}\n{VOLUMES}"));
    run(folder, "format pool.toml").ok();
}

/// A running server, ended on drop.
pub struct Served {
    pub child: Child,
    pub folder: PathBuf,
    pub uris: Vec<String>,
}

impl Served {
    /// Serves the pool in `folder`.
    pub fn start(folder: &Path, arguments: &str) -> Served {
        Served::spawn(folder, command(folder, &format!("serve pool.toml {arguments}")))
    }

    /// Waits until the server has printed the addresses of its volumes.
    pub fn spawn(folder: &Path, mut command: Command) -> Served {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let out = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut uris = Vec::new();
        for line in out.lines() {
            let line = line.expect("UTF-8");
            let last = line.contains("/second");
            uris.push(line);
            if last {
                break;
            }
        }
        assert!(!uris.is_empty(), "it is served: {:?}", child.try_wait());
        Served { child, folder: folder.to_owned(), uris }
    }

    /// Waits until the first of these groups, by their name in the status, is complete.
    pub fn wait_until_whole(&self, groups: &str) {
        let began = Instant::now();
        loop {
            let group = &self.status()[groups][0];
            if group["whole"] == true {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{group}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn stream(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.join("pool.sock")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    pub fn client(&self, export: &str) -> Client<UnixStream> {
        Client::connect(self.stream(), export, Framing::Extended).expect("it speaks NBD")
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status")).expect("JSON")
    }

    /// The answer of the status socket.
    pub fn get(&self, path: &str) -> String {
        let mut stream =
            UnixStream::connect(self.folder.join("pool.status.sock")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        get(&mut stream, path)
    }

    /// Sends a signal, by its name for `kill`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("there is a `kill`").success());
    }

    /// Stops the server in order. Returns the exit code.
    pub fn stop(mut self) -> i32 {
        self.signal("TERM");
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status.code().expect("no signal ended it");
            }
            assert!(began.elapsed() < PATIENCE, "it does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The server may have ended.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The body of an answer.
fn get(stream: &mut (impl std::io::Read + std::io::Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split_once("\r\n\r\n").expect("a header").1.to_owned()
}

#[test]
fn a_pool_is_served_looked_at_and_stopped() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    for (uri, name) in served.uris.iter().zip(["main", "second"]) {
        assert!(uri.starts_with(&format!("nbd+unix:///{name}?socket=/")), "{uri}");
        assert!(uri.ends_with("/pool.sock"), "{uri}");
    }
    let mut client = served.client("main");
    assert_eq!((client.size(), client.blocks()[0]), (48 << 20, 512));
    let block = [7; 4096];
    for lba in 0..100_u64 {
        client.call(request::Command::Write, 0, lba * 4096, 0, &block).expect("written");
    }
    client.call(request::Command::Flush, 0, 0, 0, &[]).expect("flushed");
    let status = served.status();
    assert_eq!(
        (&status["schema"], &status["failed"]),
        (&"thermocline.serve/1".into(), &false.into())
    );
    assert_eq!(status["engine"]["host_bytes_written"], 100 * 4096);
    assert_eq!(status["requests"]["operations"][1]["requests"], 100);
    let by_cause = status["engine"]["by_cause"].as_object().expect("causes");
    let sum: u64 = by_cause.values().filter_map(Value::as_u64).sum();
    assert_eq!(status["engine"]["device_bytes_written"], sum);
    let stat = run(folder, "stat pool.toml").ok();
    assert_eq!(stat.lines().count(), 2, "{stat}");
    let stat = run(folder, "stat pool.status.sock 0.05 3").ok();
    assert_eq!(stat.lines().count(), 4, "{stat}");
    let other = run(folder, "serve pool.toml --socket other.sock").refused(2);
    let who = format!("process {} serves there already", served.child.id());
    assert!(other.contains(&who), "{other}");
    drop(client);
    assert_eq!(served.stop(), 0);
    assert!(!folder.join("pool.sock").exists() && !folder.join("pool.status.sock").exists());
    let checked = run(folder, "check pool.toml --json").json();
    assert_eq!((&checked["clean"], &checked["replayed_chunks"]), (&true.into(), &0.into()));
    let none = run(folder, "stat pool.toml").code;
    assert_eq!(none, 2, "nothing is served any more");
}

#[test]
fn a_pool_of_two_devices_tells_what_goes_where() {
    let folder = scratch();
    let folder = folder.path();
    format_tiered(folder, "auto");
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    // Three times the capacity of the fast device.
    for lba in numbers(48 << 8).take(18_000) {
        client.call(request::Command::Write, 0, lba * 4096, 0, &[7; 4096]).expect("written");
    }
    client.call(request::Command::Flush, 0, 0, 0, &[]).expect("flushed");
    let status = served.status();
    let engine = &status["engine"];
    let by_cause = engine["by_cause"].as_object().expect("causes");
    let sum: u64 = by_cause.values().filter_map(Value::as_u64).sum();
    assert_eq!(engine["device_bytes_written"], sum);
    assert!(by_cause["destage"].as_u64() > Some(8 << 20), "{engine}");
    let volumes = status["volumes"].as_array().expect("a list");
    let destaged: u64 = volumes.iter().filter_map(|one| one["destaged_bytes"].as_u64()).sum();
    assert_eq!(by_cause["destage"], destaged);
    let media = engine["media"].as_array().expect("two classes");
    let media = media.iter().map(|one| (one["class"].as_str(), one["units"].as_u64()));
    let expected = [(Some("capacity"), Some(126)), (Some("fast"), Some(22))];
    assert_eq!(media.collect::<Vec<_>>(), expected);
    drop(client);
    assert_eq!(served.stop(), 0);
    let text = run(folder, "status pool.toml").ok();
    assert!(text.contains("of 22 units are free, "), "{text}");
    assert_eq!(run(folder, "scrub pool.toml").code, 0);
}

#[test]
fn every_line_of_the_metrics_is_well_formed() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut stream = UnixStream::connect(folder.join("pool.status.sock")).expect("it listens");
    let metrics = get(&mut stream, "/metrics");
    let mut described = "";
    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            described = rest.split(' ').next().expect("a name");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            let name = name.split('{').next().expect("a name");
            let part = name.strip_prefix(described).unwrap_or_else(|| panic!("{line}"));
            assert!(["", "_bucket", "_sum", "_count"].contains(&part), "{line}");
            value.parse::<f64>().expect("a number");
        }
    }
    assert!(metrics.contains("thermocline_device_written_bytes_total{cause=\"relocation\"} 0\n"));
    assert_eq!(served.stop(), 0);
}

#[test]
fn volumes_are_namespaces_whose_identifiers_stay() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let identified = || {
        let served = Served::start(folder, "--nvme-tcp 127.0.0.1:0");
        let uris = run(folder, "serve pool.toml --wait").ok();
        let uris = uris.lines().filter_map(|uri| uri.strip_prefix("nvme+tcp://"));
        let uris = uris.map(|uri| uri.split_once('/').expect("an address and a name"));
        let (addresses, names): (Vec<&str>, Vec<String>) =
            uris.map(|(address, name)| (address, name.to_owned())).unzip();
        let mut host = std::net::TcpStream::connect(addresses[0]).expect("it listens");
        // The first unit of a host (NVMe TCP Transport Specification 1.0, 3.6.2.2).
        let mut unit = [0; 128];
        (unit[2], unit[4]) = (128, 128);
        host.write_all(&unit).expect("a live connection");
        host.read_exact(&mut unit).expect("an answer");
        assert_eq!(unit[..3], [1, 0, 128]);
        assert_eq!(served.stop(), 0);
        names
    };
    let names = identified();
    assert_eq!(names.len(), 2, "one for each volume");
    assert!(names[0] != names[1] && names.iter().all(|name| name.starts_with("nqn.2014-08.")));
    assert_eq!(identified(), names);
}

#[test]
fn what_may_not_be_served_is_refused_with_the_remedy() {
    let folder = scratch();
    let folder = folder.path();
    let none = run(folder, "serve pool.toml").refused(2);
    assert!(none.contains("pool.toml: cannot be read"), "{none}");
    write(folder, "pool.toml", "[device]\npath = 'pool.img'\nsize = '64MiB'\n");
    let none = run(folder, "serve pool.toml").refused(2);
    assert!(none.contains("pool.img"), "{none}");
    format(folder);
    let open = run(folder, "serve pool.toml --listen 0.0.0.0:0").refused(2);
    assert!(open.contains("can be reached by others: give --tls-certificate"), "{open}");
    let open = run(folder, "serve pool.toml --nvme-tcp 0.0.0.0:0").refused(2);
    assert!(open.contains("prove who it is: take an address of loopback"), "{open}");
    let bad = run(folder, "serve pool.toml --listen nowhere").refused(2);
    assert!(bad.contains("cannot listen on nowhere"), "{bad}");
    let tls =
        "serve pool.toml --tls-certificate pool.toml --tls-key pool.toml --tls-clients pool.toml";
    let bad = run(folder, tls).refused(2);
    assert!(bad.contains("pool.toml has no certificate"), "{bad}");
    run(folder, "serve pool.toml --tls-key key.pem").refused(2);
    let files = repository().join("crates/nbd/tests/tls");
    let (own, key) = (files.join("of-2020.pem"), files.join("key.pem"));
    let (own, key) = (own.display(), key.display());
    let tls = format!("--tls-certificate {own} --tls-key {key} --tls-clients {own}");
    for more in ["", "--socket own.sock"] {
        let nowhere = run(folder, &format!("serve pool.toml {tls} {more}")).refused(2);
        assert!(nowhere.contains("no TCP address is served: say --listen ADDRESS"), "{nowhere}");
    }
    assert!(!folder.join("own.sock").exists() && !folder.join("pool.sock").exists());
    let mut handed = Command::new("sh");
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve pool.toml 3</dev/null";
    handed.args(["-c", script, env!("CARGO_BIN_EXE_thermocline")]).current_dir(folder);
    let no_socket = done(handed).refused(2);
    assert!(no_socket.contains("the inherited descriptor 3 is no socket"), "{no_socket}");
    let served = Served::start(folder, "");
    let load = "load pool.toml --into second --workload uniform --span 16MiB --writes 1";
    let twice = run(folder, load).refused(2);
    assert!(twice.contains("pool.img: is in use: process"), "{twice}");
    for part in [
        format!("process {} serves this pool", served.child.id()),
        "thermocline volume ... pool.toml".to_owned(),
    ] {
        assert!(twice.contains(&part), "{twice}");
    }
}

#[test]
fn read_only_is_read_only() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "--read-only");
    let mut client = served.client("second");
    let refused = client.call(request::Command::Write, 0, 0, 0, &[1; 512]);
    assert!(matches!(refused, Err(thermocline_nbd::ClientError::Request(1))), "{refused:?}");
    client.call(request::Command::Read, 0, 0, 512, &[]).expect("read");
    drop(client);
    assert_eq!(served.stop(), 0);
}

#[test]
fn systemd_hears_that_it_is_ready_and_that_it_stops() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let path = folder.join("notify");
    let heard = UnixDatagram::bind(&path).expect("a socket");
    heard.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut serve = command(folder, "serve pool.toml");
    serve.env("NOTIFY_SOCKET", &path);
    let served = Served::spawn(folder, serve);
    let mut text = [0; 64];
    let length = heard.recv(&mut text).expect("it is ready");
    assert_eq!(&text[..length], b"READY=1");
    assert_eq!(served.stop(), 0);
    let length = heard.recv(&mut text).expect("it stopped");
    assert_eq!(&text[..length], b"STOPPING=1");
}

#[test]
fn a_client_that_does_not_answer_does_not_hold_up_a_stop() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "--patience 1");
    let mut client = served.client("main");
    // The client sends requests and reads no reply.
    for _ in 0..8 {
        client.send(request::Command::Read, 0, 0, 16 << 20, &[]).expect("sent");
    }
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    assert_eq!(served.stop(), 0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let checked = run(folder, "check pool.toml --json").json();
    assert_eq!(checked["replayed_chunks"], 0, "the pool was closed in order");
}

#[test]
fn two_stop_signals_end_a_server_as_one_does() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    for round in 0..5 {
        let mut serve = command(folder, "serve pool.toml -q");
        serve.stderr(Stdio::piped());
        let mut served = Served::spawn(folder, serve);
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -TERM $0; kill -INT $0; kill -TERM $0"]);
        kill.arg(served.child.id().to_string()).stderr(Stdio::null());
        kill.status().expect("there is a shell");
        let mut said = String::new();
        let mut err = served.child.stderr.take().expect("it was piped");
        err.read_to_string(&mut said).expect("UTF-8");
        let code = served.child.wait().expect("it ends").code();
        assert_eq!((code, said.as_str()), (Some(0), ""), "round {round}");
    }
    let checked = run(folder, "check pool.toml --json").json();
    assert_eq!(checked["replayed_chunks"], 0, "the pool was closed in order");
}

/// The server waits for a client that reads no reply until a second signal, and reports the wait.
#[test]
fn a_later_signal_ends_the_waiting_for_clients_and_closes_in_order() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let mut serve = command(folder, "serve pool.toml --patience 600");
    serve.stderr(Stdio::piped());
    let mut served = Served::spawn(folder, serve);
    let mut client = served.client("main");
    for _ in 0..8 {
        client.send(request::Command::Read, 0, 0, 16 << 20, &[]).expect("sent");
    }
    std::thread::sleep(Duration::from_millis(100));
    served.signal("TERM");
    std::thread::sleep(Duration::from_millis(1100));
    served.signal("TERM");
    let mut said = String::new();
    let mut err = served.child.stderr.take().expect("it was piped");
    err.read_to_string(&mut said).expect("UTF-8");
    assert_eq!(served.child.wait().expect("it ends").code(), Some(0), "{said}");
    let expected = "not every client got an answer before another signal ended the waiting";
    let [line] = said.lines().filter(|line| line.contains(expected)).collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert!(line.contains(" WARN "), "{said}");
    let checked = run(folder, "check pool.toml --json").json();
    assert_eq!(checked["replayed_chunks"], 0, "the pool was closed in order");
}

/// Acts as systemd: opens a socket, passes the socket as descriptor 3, and becomes the server.
const ACTIVATION: &str = "
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind('handed.sock')
listening.listen(8)
os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[1], [sys.argv[1], 'serve', 'pool.toml'])
";

#[test]
fn a_socket_that_systemd_opened_is_served() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let mut python = Command::new("python3");
    python.args(["-c", ACTIVATION, env!("CARGO_BIN_EXE_thermocline")]).current_dir(folder);
    python.stdin(Stdio::null());
    if !super::programs::have(&["python3"]) {
        return;
    }
    let served = Served::spawn(folder, python);
    assert_eq!(served.uris[0], "nbd+unix:///main?socket=handed.sock");
    assert!(!folder.join("pool.sock").exists(), "nothing else was asked for");
    let stream = UnixStream::connect(folder.join("handed.sock")).expect("it listens");
    let client = Client::connect(stream, "second", Framing::Simple).expect("it speaks NBD");
    assert_eq!(client.size(), 16 << 20);
    drop(client);
    assert_eq!(served.stop(), 0);
}
