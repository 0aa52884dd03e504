//! A served pool among hostile clients: it stays up, serves good clients, and its memory is bounded.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thermocline_nbd::protocol::request::{Command, Framing, Header};
use thermocline_nbd::{Client, Limits};
use thermocline_types::Rng;

use super::serve::{PATIENCE, Served, format};
use crate::scratch;

/// Half-open connections in all.
const HALF_OPEN: usize = 3000;

/// Connections that a crowd has, if so many files may be open.
const CROWD: usize = 10_000;

/// One crowd at a time: both together would need more files than may be open.
static CROWDED: Mutex<()> = Mutex::new(());

/// Memory that a process has (`VmRSS`), or had at most (`VmHWM`), in bytes.
fn memory(id: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs under Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("its memory");
    let kib: u64 =
        line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

#[test]
fn hostile_clients_harm_nobody() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "--connections 64");
    let mut good = served.client("main");
    let mut check = |round: u8| {
        good.call(Command::Write, 0, 0, 0, &[round; 4096]).expect("written");
        let read = good.call(Command::Read, 0, 0, 4096, &[]).expect("read");
        assert!(read.data == [round; 4096]);
    };
    check(1);
    let before = memory(served.child.id(), "VmRSS");
    let mut half_open = Vec::new();
    for number in 0..HALF_OPEN {
        // The listener's queue may be full for a moment.
        let mut stream = served.stream();
        if number % 3 == 0 {
            let _closed = stream.write_all(&[0, 0, 0, 3, b'I', b'H']);
        }
        half_open.push(stream);
        if half_open.len() > 200 {
            half_open.remove(0);
        }
    }
    check(2);
    let mut rng = Rng::new(3);
    for _ in 0..300 {
        let mut stream = served.stream();
        let garbage: Vec<u8> = (0..rng.below(4000)).map(|_| rng.below(256) as u8).collect();
        let _closed = stream.write_all(&garbage);
    }
    check(3);
    let mut greedy = greedy(&served);
    check(4);
    let after = memory(served.child.id(), "VmRSS");
    // Sixty-odd connections with an input of 256 KiB, and what the greedy ones were served.
    let bound = before + (64 << 20) + Limits::default().memory;
    assert!(after < bound, "{} MiB before, {} after", before >> 20, after >> 20);
    greedy.clear();
    half_open.clear();
    check(5);
    let status = served.status();
    let clients = &status["clients"];
    let broken = clients["thrown_out"].as_u64().expect("a number");
    assert!(broken >= 300, "{clients}");
    drop(good);
    assert_eq!(served.stop(), 0);
}

/// Clients that announce writes of gigabytes, request much data without reading it, and access bytes beyond the end.
fn greedy(served: &Served) -> Vec<UnixStream> {
    let mut streams = Vec::new();
    for length in [1 << 20, 32 << 20, u64::from(u32::MAX)] {
        let mut client =
            thermocline_nbd::Client::connect(served.stream(), "main", Framing::Simple).expect("in");
        let mut bytes = Vec::new();
        let write =
            Header { command: Command::Write, flags: 0, cookie: 1, offset: 1 << 40, length };
        write.encode(Framing::Simple, &mut bytes);
        bytes.extend_from_slice(&[1; 5000]);
        client.stream().write_all(&bytes).expect("taken");
        streams.push(client.stream().try_clone().expect("a socket"));
    }
    let mut reader = served.client("main");
    let stream = reader.stream().try_clone().expect("a socket");
    stream.set_nonblocking(true).expect("a socket");
    let (mut byte, mut asked) = ([0; 1], 0);
    while asked < 5000 && reader.send(Command::Read, 0, 0, 32 << 20, &[]).is_ok() {
        asked += 1;
    }
    let _unread = (&stream).read(&mut byte);
    streams.push(stream);
    streams
}

/// One of a crowd.
enum Peer {
    /// Connected, and has said nothing since.
    Silent(UnixStream),
    /// Has shaken hands.
    In(Client<UnixStream>),
    /// Was not let in; so long it took to know.
    Refused(Duration),
}

impl Peer {
    fn come(served: &Served, silent: bool) -> Peer {
        let stream = served.stream();
        if silent {
            return Peer::Silent(stream);
        }
        let began = Instant::now();
        Client::connect(stream, "main", Framing::Simple)
            .map_or_else(|_| Peer::Refused(began.elapsed()), Peer::In)
    }

    /// Whether the connection is still open.
    fn is_open(&mut self) -> bool {
        match self {
            Peer::Silent(stream) => {
                stream.set_nonblocking(true).expect("a socket");
                let mut greeting = [0; 64];
                let mut read = || stream.read(&mut greeting).map_err(|error| error.kind());
                let _greeting = read();
                read() == Err(io::ErrorKind::WouldBlock)
            }
            Peer::In(client) => client.call(Command::Read, 0, 0, 512, &[]).is_ok(),
            Peer::Refused(_) => false,
        }
    }
}

/// Lets this process have as many files open as it may; returns how many of them a crowd can have.
fn crowd_size() -> usize {
    /// Files of all other tests, which run at the same time.
    const OTHERS: u64 = 1500;
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("it is allowed");
    let free = maximum.map_or(u64::MAX, |maximum| maximum.saturating_sub(OTHERS));
    let count = usize::try_from(free).unwrap_or(CROWD).min(CROWD);
    println!("{count} connections, {maximum:?} open files allowed");
    count
}

/// Opens so many connections, every other one silent, while `good` does what it does. Returns all of them.
fn crowd(served: &Served, count: usize, mut good: impl FnMut()) -> Vec<Peer> {
    /// Peers that come at once.
    const THREADS: usize = 32;
    thread::scope(|scope| {
        let come = |first| {
            move || {
                let numbers = (first..count).step_by(THREADS).enumerate();
                numbers.map(|(number, _)| Peer::come(served, number % 2 == 0)).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|first| scope.spawn(come(first))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            good();
        }
        threads.into_iter().flat_map(|thread| thread.join().expect("no peer panics")).collect()
    })
}

/// A client that writes and reads back; returns what makes it do so once more, and check how long that took.
fn busy(served: &Served) -> impl FnMut() {
    let (mut client, mut round) = (served.client("main"), 0_u8);
    move || {
        round = round.wrapping_add(1);
        let began = Instant::now();
        client.call(Command::Write, 0, 0, 0, &[round; 4096]).expect("written");
        let read = client.call(Command::Read, 0, 0, 4096, &[]).expect("read");
        assert!(read.data == [round; 4096]);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

/// Waits until so many connections are open, which is soon.
fn await_open(served: &Served, count: usize) {
    let began = Instant::now();
    while served.status()["clients"]["open"] != count {
        assert!(began.elapsed() < PATIENCE, "{}", served.status()["clients"]);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Checks what a server that had `before` has taken at most for so many connections that send little.
fn check_memory(served: &Served, before: u64, connections: usize) {
    /// An input of 4 KiB, replies, and what keeps track of them; as much again for what an allocator cannot use.
    const PER_CONNECTION: u64 = 16 << 10;
    /// What the good client writes until it is on the device, and answers about the status.
    const ALL_ELSE: u64 = 32 << 20;
    let after = memory(served.child.id(), "VmHWM");
    println!("memory: {} KiB before, {} KiB at most", before >> 10, after >> 10);
    let bound = before + connections as u64 * PER_CONNECTION + ALL_ELSE;
    assert!(after < bound, "{} MiB before, {} at most", before >> 20, after >> 20);
}

#[test]
fn ten_thousand_connections_are_turned_away() {
    let _alone = CROWDED.lock().unwrap_or_else(PoisonError::into_inner);
    let (folder, count) = (scratch(), crowd_size());
    format(folder.path());
    let served = Served::start(folder.path(), "");
    let limit = Limits::default().connections;
    let mut good = busy(&served);
    good();
    let before = memory(served.child.id(), "VmRSS");
    let mut peers = crowd(&served, count, &mut good);
    good();
    let slowest = peers.iter().filter_map(|peer| match peer {
        Peer::Refused(time) => Some(*time),
        _ => None,
    });
    let slowest = slowest.max().expect("there are more than may be in");
    assert!(slowest < Duration::from_secs(5), "told after {slowest:?} that there is no room");
    peers.retain_mut(Peer::is_open);
    assert!(peers.len() < limit, "{} open, and the good one", peers.len());
    // Whoever shakes hands takes the place of one that does not, until all places are taken.
    peers.retain(|peer| matches!(peer, Peer::In(_)));
    while let Peer::In(client) = Peer::come(&served, false) {
        peers.push(Peer::In(client));
    }
    assert_eq!(peers.len() + 1, limit);
    await_open(&served, limit);
    let crowded_out = served.status()["clients"]["crowded_out"].as_u64().expect("a number");
    assert!(crowded_out as usize >= count - limit, "{crowded_out}");
    println!("no room: told after {slowest:?} at most");
    // However many come: only those that are in take memory.
    check_memory(&served, before, limit);
    drop(peers);
    await_open(&served, 1);
    assert!((0..limit - 1).all(|_| Peer::come(&served, false).is_open()));
    good();
    drop(good);
    assert_eq!(served.stop(), 0);
}

#[test]
fn ten_thousand_connections_are_served() {
    let _alone = CROWDED.lock().unwrap_or_else(PoisonError::into_inner);
    let (folder, count) = (scratch(), crowd_size());
    format(folder.path());
    // What shells and systemd give is too few: the server sees to that itself.
    let mut command = std::process::Command::new("sh");
    let script = "ulimit -S -n 256; exec \"$0\" serve pool.toml --connections \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_thermocline"), &(count + 1).to_string()]);
    command.current_dir(folder.path());
    let served = Served::spawn(folder.path(), command);
    let mut good = busy(&served);
    good();
    let (began, before) = (Instant::now(), memory(served.child.id(), "VmRSS"));
    let mut peers = crowd(&served, count, &mut good);
    // Those that are silent for too long are closed; a slow machine may have come so far.
    if began.elapsed() < Limits::default().handshake / 2 {
        await_open(&served, count + 1);
    }
    assert!(!peers.iter().any(|peer| matches!(peer, Peer::Refused(_))));
    peers.retain(|peer| matches!(peer, Peer::In(_)));
    assert!(peers.iter_mut().step_by(100).all(Peer::is_open));
    check_memory(&served, before, count);
    drop(peers);
    await_open(&served, 1);
    assert!(Peer::come(&served, false).is_open());
    good();
    drop(good);
    assert_eq!(served.stop(), 0);
}

/// Serves the pool in `folder` where so many files may be open, and no more.
fn serve_with_few_files(folder: &Path, files: u32, arguments: &str) -> Served {
    let mut command = std::process::Command::new("sh");
    let script = format!("ulimit -n {files}; exec \"$0\" serve pool.toml {arguments}");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_thermocline")]).current_dir(folder);
    Served::spawn(folder, command)
}

#[test]
fn half_open_requests_for_the_status_end_nothing() {
    for files in [1024, 64] {
        let folder = scratch();
        let folder = folder.path();
        format(folder);
        let served = serve_with_few_files(folder, files, "--http 127.0.0.1:0");
        let mut good = busy(&served);
        let mut flood = Vec::new();
        for number in 0..1200 {
            let mut stream =
                UnixStream::connect(folder.join("pool.status.sock")).expect("it listens");
            // Half of them begin a request, and say what they will not send.
            let part: &[u8] = match number % 3 {
                0 => b"GET /sta",
                1 => b"PATCH /volumes/main HTTP/1.1\r\nContent-Length: 4000\r\n\r\n{",
                _ => b"",
            };
            let _closed = stream.write_all(part);
            flood.push(stream);
            if number % 100 == 0 {
                good();
                assert_eq!(
                    served.status()["failed"],
                    false,
                    "whoever comes to the point is answered"
                );
            }
        }
        good();
        drop(flood);
        assert_eq!(served.status()["failed"], false);
        drop(good);
        assert_eq!(served.stop(), 0);
    }
}

#[test]
fn a_server_without_files_for_its_connections_goes_on_with_those_it_has() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = serve_with_few_files(folder, 40, "");
    let mut good = busy(&served);
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(served.stream());
        good();
    }
    drop(crowd);
    good();
    assert!(Peer::come(&served, false).is_open());
    drop(good);
    assert_eq!(served.stop(), 0);
}

#[test]
fn clients_that_never_read_take_bounded_memory_and_starve_nobody() {
    /// Reads that each asks for at once: far more than it may have.
    const READS: usize = 64;
    let folder = scratch();
    format(folder.path());
    let served = Served::start(folder.path(), "");
    let mut good = busy(&served);
    good();
    let before = memory(served.child.id(), "VmRSS");
    let limits = Limits::default();
    let mut never = Vec::new();
    for _ in 0..limits.connections - 2 {
        let mut client = served.client("main");
        client.stream().set_nonblocking(true).expect("a socket");
        for _ in 0..READS {
            // When it reads no more, the socket is full.
            let _full = client.send(Command::Read, 0, 0, 1 << 20, &[]);
        }
        never.push(client);
        good();
    }
    for _ in 0..100 {
        good();
    }
    let after = memory(served.child.id(), "VmHWM");
    let held = served.status()["memory"]["connections_bytes"].as_u64().expect("a number");
    println!("memory: {} MiB before, {} at most, {held} held", before >> 20, after >> 20);
    assert!(held <= limits.memory && held > limits.memory / 4, "{held}");
    // Inputs of 256 KiB each, what the pool keeps of memory for later, and what an allocator cannot use.
    let bound = before + limits.memory + (128 << 20);
    assert!(after < bound, "{} MiB before, {} at most", before >> 20, after >> 20);
    drop((good, never));
    assert_eq!(served.stop(), 0);
}
