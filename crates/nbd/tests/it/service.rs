//! What is asked for is done.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::Instant;

use thermocline_nbd::ClientError;
use thermocline_nbd::protocol::handshake::export_flag;
use thermocline_nbd::protocol::reply::{CHANGED, HOLE, Status, ZERO};
use thermocline_nbd::protocol::request::{Command, Header, flag};
use thermocline_target::{Completion, Extent, Info, Property, Request, Snapshot};
use thermocline_types::Rng;

use super::*;

const ALL: [Framing; 3] = [Framing::Simple, Framing::Structured, Framing::Extended];

fn code(result: Result<thermocline_nbd::Reply, ClientError>) -> u32 {
    match result {
        Err(ClientError::Request(code)) => code,
        other => panic!("no refusal: {other:?}"),
    }
}

#[test]
fn what_is_written_is_read_in_every_framing() {
    let server = Running::start(Limits::default());
    for (number, framing) in ALL.into_iter().enumerate() {
        let mut client = server.client("main", framing);
        assert_eq!((client.size(), client.blocks()), (1 << 20, [512, 4096, 32 << 20]));
        let offset = number as u64 * 8192 + 512;
        let bytes: Vec<u8> = (0..1024_u32).map(|byte| byte as u8 ^ number as u8).collect();
        client.call(Command::Write, flag::FUA, offset, 0, &bytes).expect("written");
        client.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
        let read = client.call(Command::Read, 0, offset, 1024, &[]).expect("read");
        assert!(read.data == bytes, "{framing:?}");
        client.call(Command::Trim, flag::FUA, offset, 512, &[]).expect("trimmed");
        let zeroes = flag::FAST_ZERO | flag::NO_HOLE;
        client.call(Command::WriteZeroes, zeroes, offset + 512, 512, &[]).expect("zeroed");
        client.call(Command::Cache, 0, offset, 1024, &[]).expect("a hint");
        let read = client.call(Command::Read, 0, offset, 1024, &[]).expect("read");
        assert!(read.data == [0; 1024], "{framing:?}");
        client.send(Command::Disconnect, 0, 0, 0, &[]).expect("goodbye");
        assert!(client.receive().is_err(), "nothing follows");
    }
    let stopper = server.stopper.clone();
    assert!(server.stop());
    let traffic = stopper.traffic();
    assert_eq!((traffic.requests, traffic.errors, traffic.thrown_out), (21, 0, 0));
    assert_eq!(traffic.held_bytes, 0);
}

#[test]
fn what_cannot_be_is_refused_and_the_connection_lives() {
    let limits = Limits { payload: 1 << 20, ..Limits::default() };
    let server = Running::start(limits);
    for framing in ALL {
        let mut client = server.client("main", framing);
        let sector = [1; 512];
        let mut refused = |command, flags, offset, length, payload: &[u8]| {
            code(client.call(command, flags, offset, length, payload))
        };
        assert_eq!(refused(Command::Read, 0, 100, 512, &[]), 22, "misaligned");
        assert_eq!(refused(Command::Read, 0, 1 << 20, 512, &[]), 22, "beyond the end");
        assert_eq!(refused(Command::Read, 0, u64::MAX - 511, 512, &[]), 22, "far beyond it");
        assert_eq!(refused(Command::Read, 0, 0, 2 << 20, &[]), 75, "too long");
        assert_eq!(refused(Command::Read, 0, 0, 0, &[]), 22, "nothing");
        assert_eq!(refused(Command::Write, 0, 1 << 20, 0, &sector), 28, "beyond the end");
        assert_eq!(refused(Command::Write, 0, 0, 0, &vec![0; 2 << 20]), 75, "too long");
        assert_eq!(refused(Command::Write, flag::DF, 0, 0, &sector), 22, "a wrong flag");
        assert_eq!(refused(Command::Flush, 0, 512, 0, &[]), 22, "a flush is of everything");
        assert_eq!(refused(Command::Cache, 0, 1 << 20, 512, &[]), 22, "beyond the end");
        assert_eq!(refused(Command::Other(99), 0, 0, 0, &[]), 22, "unknown");
        if framing == Framing::Simple {
            assert_eq!(refused(Command::BlockStatus, 0, 0, 512, &[]), 22, "not agreed on");
        }
        client.call(Command::Write, 0, 0, 0, &sector).expect("all is well");
        let mut client = server.client("fixed", framing);
        assert!(client.flags() & export_flag::READ_ONLY > 0);
        assert_eq!(code(client.call(Command::Write, 0, 0, 0, &sector)), 1);
        assert_eq!(code(client.call(Command::Trim, 0, 0, 512, &[])), 1);
        let read = client.call(Command::Read, 0, 0, 512, &[]).expect("it can be read");
        assert!(read.data == sector);
    }
    assert!(server.stop());
}

#[test]
fn block_status_tells_in_the_framing_agreed_on() {
    let server = Running::serve(Limits::default(), &(Arc::new(Halves) as Arc<dyn BlockTarget>));
    for framing in [Framing::Structured, Framing::Extended] {
        let mut client = server.client("", framing);
        let reply = client.call(Command::BlockStatus, 0, 0, 1 << 20, &[]).expect("told");
        let half = |flags| Status { length: 1 << 19, flags };
        assert_eq!(reply.extents, [[half(0), half(HOLE | ZERO)]]);
        let reply = client.call(Command::BlockStatus, flag::REQ_ONE, 0, 1 << 20, &[]);
        assert_eq!(reply.expect("told").extents, [[half(0)]]);
        let named = |names: &[&str]| {
            Client::connect_for(server.raw(), "", framing, names).expect("the server speaks NBD")
        };
        let names = ["qemu:dirty-bitmap:monday", "base:allocation"];
        let mut client = named(&names);
        let reply = client.call(Command::BlockStatus, 0, 0, 1 << 20, &[]).expect("told");
        assert!(client.has_contexts());
        let expected = [[half(0), half(CHANGED)], [half(0), half(HOLE | ZERO)]];
        assert_eq!(reply.extents, expected);
        let mut client = named(&["qemu:dirty-bitmap:tuesday"]);
        assert!(!client.has_contexts());
        assert_eq!(code(client.call(Command::BlockStatus, 0, 0, 512, &[])), 22, "not agreed on");
    }
    assert!(server.stop());
}

/// A target of which the first half is mapped, and the second changed since a snapshot. It does nothing else.
struct Halves;

impl BlockTarget for Halves {
    fn info(&self) -> Info {
        Memory::new(Bytes::mib(1), Bytes(512)).info()
    }

    fn submit(&self, request: Request) {
        request.fail(thermocline_target::TargetError::Io);
    }

    fn extents(&self, of: Property, _: Bytes, length: Bytes, done: Completion<Vec<Extent>>) {
        let half = |has| Extent { length: Bytes(length.0 / 2), has };
        let first = of != Property::ChangedSince(7);
        done.complete(Ok(vec![half(first), half(!first)]));
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        vec![Snapshot { number: 7, name: "monday".to_owned() }]
    }
}

/// Keeps requests until it is told to go on, then carries them out, the last first.
struct Backwards {
    memory: Memory,
    waiting: Mutex<Vec<Request>>,
}

impl Backwards {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Request>> {
        self.waiting.lock().expect("nobody panics")
    }

    fn go_on(&self) {
        let requests = std::mem::take(&mut *self.waiting());
        requests.into_iter().rev().for_each(|request| self.memory.submit(request));
    }

    fn wait_for(&self, count: usize) {
        let began = std::time::Instant::now();
        while self.waiting().len() < count {
            assert!(began.elapsed() < PATIENCE, "{} requests arrived", self.waiting().len());
            std::thread::yield_now();
        }
    }
}

impl BlockTarget for Backwards {
    fn info(&self) -> Info {
        self.memory.info()
    }

    fn submit(&self, request: Request) {
        self.waiting().push(request);
    }
}

fn backwards() -> Arc<Backwards> {
    let memory = Memory::new(Bytes::mib(1), Bytes(512));
    Arc::new(Backwards { memory, waiting: Mutex::default() })
}

#[test]
fn replies_come_as_requests_end_and_no_more_begin_than_may() {
    let target = backwards();
    let limits = Limits { requests: 8, ..Limits::default() };
    let server =
        Running::serve(limits, &(Arc::<Backwards>::clone(&target) as Arc<dyn BlockTarget>));
    let mut client = server.client("main", Framing::Structured);
    let mut other = server.client("main", Framing::Simple);
    let cookies: Vec<u64> = (0..20_u8)
        .map(|sector| {
            let offset = u64::from(sector) * 512;
            client.send(Command::Write, 0, offset, 0, &[sector; 512]).expect("sent")
        })
        .collect();
    target.wait_for(8);
    other.send(Command::Read, 0, 0, 512, &[]).expect("sent");
    target.wait_for(9);
    assert_eq!(target.waiting().len(), 9, "the ninth of the first client waits in its socket");
    target.go_on();
    let first: Vec<u64> = (0..8).map(|_| client.receive().expect("a reply").cookie).collect();
    assert_eq!(first, cookies[..8].iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(other.receive().expect("a reply").error, 0);
    let mut rest = 8;
    while rest < 20 {
        target.wait_for(8.min(20 - rest));
        target.go_on();
        for _ in 0..8.min(20 - rest) {
            client.receive().expect("a reply");
            rest += 1;
        }
    }
    assert!(server.stop());
}

#[test]
fn a_stop_waits_for_what_was_begun() {
    let target = backwards();
    let server = Running::serve(
        Limits::default(),
        &(Arc::<Backwards>::clone(&target) as Arc<dyn BlockTarget>),
    );
    let mut client = server.client("main", Framing::Simple);
    let _idle = server.client("main", Framing::Simple);
    let cookie = client.send(Command::Write, 0, 0, 0, &[7; 512]).expect("sent");
    target.wait_for(1);
    server.stopper.stop();
    target.go_on();
    let reply = client.receive().expect("it was begun");
    assert_eq!((reply.cookie, reply.error), (cookie, 0));
    assert!(client.receive().is_err(), "then it ends");
    assert!(server.stop());
}

/// One whose payload is on its way, and one of which the payload is thrown away.
#[test]
fn a_stop_does_not_wait_for_writes_that_did_not_arrive() {
    for length in [1 << 16, 1 << 21] {
        let server = Running::start(Limits::default());
        let mut client = server.client("main", Framing::Simple);
        let mut bytes = Vec::new();
        let request = Header { command: Command::Write, flags: 0, cookie: 1, offset: 0, length };
        request.encode(Framing::Simple, &mut bytes);
        bytes.extend([9; 100]);
        client.stream().write_all(&bytes).expect("taken");
        let begun = Instant::now();
        while server.stopper.traffic().held_bytes == 0 && begun.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        assert!(server.stop(), "the client is still there, and all that it began was answered");
    }
}

/// Several clients at random, each in a range of its own, at depth 16.
#[test]
fn many_clients_at_once_keep_their_bytes() {
    let server = Running::start(Limits::default());
    let threads: Vec<_> = (0..6_u64)
        .map(|number| {
            let mut client = server.client("main", ALL[number as usize % 3]);
            std::thread::spawn(move || {
                let mut rng = Rng::new(number);
                let mut newest: BTreeMap<u64, u8> = BTreeMap::new();
                for round in 0..200_u64 {
                    let mut sectors = BTreeMap::new();
                    while sectors.len() < 16 {
                        let sector = number * 340 + rng.below(340);
                        sectors.insert(sector, round as u8 ^ sector as u8 | 1);
                    }
                    for (&sector, &byte) in &sectors {
                        let sent = client.send(Command::Write, 0, sector * 512, 0, &[byte; 512]);
                        sent.expect("sent");
                    }
                    for _ in 0..16 {
                        assert_eq!(client.receive().expect("a reply").error, 0);
                    }
                    newest.append(&mut sectors);
                }
                for (sector, byte) in newest {
                    let read = client.call(Command::Read, 0, sector * 512, 512, &[]);
                    assert!(read.expect("read").data == [byte; 512], "sector {sector}");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no bytes are lost"));
    assert!(server.stop());
}
