//! Heap allocations of a request on its way from a socket to media and back, once the service has warmed up.
//!
//! Pool, server and client run on one thread, so every allocation is counted. A failed assertion leaves a profile of
//! `dhat`, which shows the places of all allocations.

#![expect(clippy::big_endian_bytes, reason = "NBD is big-endian")]

use std::io::{self, Read as _, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::{Config, HostRequest};
use thermocline_format::{Geometry, LogicalBlock, PoolId, VolumeName};
use thermocline_nbd::{Limits, Listener, Server};
use thermocline_runtime::storage::{File, IoEngine, Layout, Options, Waker};
use thermocline_runtime::{AnyStorage, Driver, Poller, Pool, PoolUpkeep, Stepper};
use thermocline_target::{Export, Exports, Granular};
use thermocline_types::{Bytes, Rng, UnitId};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Blocks of the volume.
const BLOCKS: u64 = 2000;

/// Requests under way at once.
const DEPTH: u64 = 16;

/// Bytes of a simple reply without data.
const REPLY: usize = 16;

const READ: u16 = 0;
const WRITE: u16 = 1;

/// A server that never waits: its client is on the same thread.
struct Housed(Server);

impl Poller for Housed {
    fn turn(&mut self, _: Option<Duration>, devices: &[BorrowedFd<'_>]) {
        self.0.turn(Some(Duration::ZERO), devices);
    }

    fn waker(&self) -> Waker {
        let stopper = self.0.stopper();
        Arc::new(move || stopper.wake())
    }
}

/// A service, and its client.
struct Service {
    stepper: Stepper,
    _pool: Pool,
    client: UnixStream,
    rng: Rng,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Service {
    fn start(folder: &Path, engine: IoEngine) -> Option<Service> {
        let geometry = Geometry::new(LogicalBlock::B4096, 128, 64, [UnitId(0), UnitId(1)]);
        let config = Config::new(geometry.expect("a small pool"));
        let layout = Layout::contiguous(LogicalBlock::B4096, 128, 64);
        let options = Options { engine, ..Options::default() };
        let file = File::open(&folder.join("pool.img"), true, layout, &options).ok()?;
        let storage: AnyStorage = Box::new(file);
        let mut driver = Driver::format(config, PoolId([5; 16]), storage).expect("room");
        let name = VolumeName::new("v").expect("a name");
        let create = HostRequest::CreateVolume { name, blocks: BLOCKS };
        driver.carry_out(create).expect("there is room");
        let (pool, mut stepper) = Pool::stepped(driver, Box::new(|_| {}), &PoolUpkeep::default());
        let target = Granular::new(pool.volume("v").expect("just made"), Bytes::SECTOR);
        let export = Export { name: "v".into(), target: Arc::new(target), read_only: false };
        let limits = Limits::default();
        let exports = Exports::new(vec![export]);
        let socket = folder.join("socket");
        let listener = Listener::unix(UnixListener::bind(&socket).expect("a socket"));
        let server = Server::new(vec![listener], exports, limits).expect("sockets");
        assert!(stepper.register(Box::new(Housed(server))).is_ok(), "a file has a descriptor");
        let client = UnixStream::connect(&socket).expect("it listens");
        client.set_nonblocking(true).expect("a socket");
        let (sent, received) = (Vec::new(), Vec::new());
        let rng = Rng::new(1);
        let mut service = Service { stepper, _pool: pool, client, rng, sent, received };
        service.shake_hands();
        Some(service)
    }

    /// Asks for the export by its name, in the oldest manner.
    fn shake_hands(&mut self) {
        self.sent.extend(3_u32.to_be_bytes());
        self.sent.extend(b"IHAVEOPT");
        self.sent.extend([1_u32, 1].iter().flat_map(|word| word.to_be_bytes()));
        self.sent.extend(b"v");
        self.received.resize(18 + 10, 0);
        self.exchange();
    }

    /// Sends everything, and steps until everything is received.
    fn exchange(&mut self) {
        let (mut sent, mut received) = (0, 0);
        while sent < self.sent.len() || received < self.received.len() {
            let wrote = self.client.write(&self.sent[sent..]);
            sent += wrote.or_else(none_yet).expect("the server is there");
            assert!(self.stepper.step(), "the pool is there");
            let read = self.client.read(&mut self.received[received..]);
            received += read.or_else(none_yet).expect("the server is there");
        }
        self.sent.clear();
    }

    /// Has requests of one block at random places carried out.
    fn carry_out(&mut self, command: u16, requests: u64) {
        let data = if command == READ { 4096 } else { 0 };
        self.received.resize(DEPTH as usize * (REPLY + data), 0);
        for first in (0..requests).step_by(DEPTH as usize) {
            for cookie in first..first + DEPTH {
                let block = self.rng.below(BLOCKS);
                self.sent.extend(0x2560_9513_u32.to_be_bytes());
                self.sent.extend([0, command].iter().flat_map(|word| word.to_be_bytes()));
                self.sent.extend([cookie, block * 4096].iter().flat_map(|word| word.to_be_bytes()));
                self.sent.extend(4096_u32.to_be_bytes());
                if command == WRITE {
                    self.sent.resize(self.sent.len() + 4096, cookie as u8);
                }
            }
            self.exchange();
            for reply in self.received.chunks(REPLY + data) {
                assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "no error");
            }
        }
    }

    /// Counts the allocations for each request. Most batches of requests must have none: chunks, collection,
    /// checkpoints and packed blocks still allocate.
    fn allocations(&mut self, command: u16) -> f64 {
        const BATCHES: usize = 1000;
        self.carry_out(command, BATCHES as u64 * DEPTH);
        let (mut batches, mut all) = (Vec::with_capacity(BATCHES), 0);
        let _profiler = dhat::Profiler::builder().testing().build();
        for _ in 0..BATCHES {
            self.carry_out(command, DEPTH);
            let now = dhat::HeapStats::get().total_blocks;
            batches.push(now - all);
            all = now;
        }
        batches.sort_unstable();
        dhat::assert_eq!(batches[BATCHES / 2], 0);
        all as f64 / (BATCHES as f64 * DEPTH as f64)
    }
}

fn none_yet(error: io::Error) -> io::Result<usize> {
    if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) }
}

#[test]
fn most_requests_allocate_nothing_in_steady_state() {
    let folder = tempfile::tempdir().expect("a folder");
    for engine in [IoEngine::Inline, IoEngine::Uring] {
        let folder = folder.path().join(format!("{engine:?}"));
        std::fs::create_dir(&folder).expect("a folder");
        let Some(mut service) = Service::start(&folder, engine) else {
            println!("SKIPPED: no {engine:?} here");
            continue;
        };
        service.carry_out(WRITE, 32_000);
        let reads = service.allocations(READ);
        let writes = service.allocations(WRITE);
        println!("{engine:?}: {reads:.3} allocations for each read, {writes:.3} for each write");
    }
}
