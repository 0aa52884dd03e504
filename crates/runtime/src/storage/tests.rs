//! One suite for every storage.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;
use thermocline_engine::UnitCondition;
use thermocline_format::LogicalBlock;
use thermocline_nand::{Drive, Profile};
use thermocline_target as target;
use thermocline_types::{Bytes, Class, DeviceId, Rng, UnitId};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A write that was made, to be read again.
struct Written {
    at: Bytes,
    bytes: Vec<u8>,
}

struct Suite<'a> {
    storage: &'a mut dyn Storage,
    layout: Layout,
    rng: Rng,
    next: u64,
}

/// Checks all that a storage promises. Overwrites its first units. Writes in order within a unit, as zones want it.
pub(super) fn suite(storage: &mut dyn Storage) {
    let mut suite = Suite::new(storage);
    suite.resets();
    let first = suite.writes_many_at_once();
    suite.reads_many_at_once(&first);
    suite.reads_into_parts_of_one_buffer(&first);
    suite.reports(&first);
    suite.run(vec![Command::Flush(DeviceId(0)), Command::Flush(DeviceId(0))]);
    suite.run(vec![Command::Finish(UnitId(3))]);
    suite.resets();
    let second = suite.writes_many_at_once();
    suite.reads_many_at_once(&second);
    suite.ends_waiting();
    suite.resets();
}

impl<'a> Suite<'a> {
    fn new(storage: &'a mut dyn Storage) -> Self {
        let layout = *storage.layout();
        assert!(layout.units >= 4, "{layout:?}");
        Suite { storage, layout, rng: Rng::new(7), next: 0 }
    }

    /// Carries out commands that are all in flight together.
    fn run(&mut self, commands: Vec<Command>) {
        let mut flying = BTreeSet::new();
        for command in commands {
            let token = Token(self.next);
            self.next += 1;
            flying.insert(token);
            self.storage.submit(token, command);
        }
        let mut done = Vec::new();
        let began = Instant::now();
        while !flying.is_empty() {
            self.storage.reap(Some(PATIENCE), &mut done);
            assert!(began.elapsed() < PATIENCE, "{} commands hang", flying.len());
            for completion in done.drain(..) {
                assert!(flying.remove(&completion.token), "{completion:?} was not in flight");
                assert_eq!(completion.result, Ok(()));
            }
        }
        self.storage.reap(Some(Duration::ZERO), &mut done);
        assert_eq!(done, [], "completed twice");
    }

    fn resets(&mut self) {
        self.run((0..4).map(|unit| Command::Reset(UnitId(unit))).collect());
    }

    fn random(&mut self, bytes: usize) -> Buffer {
        let mut owner = target::Buffer::zeroed(bytes);
        owner.chunks_mut(8).for_each(|piece| {
            piece.copy_from_slice(&self.rng.next_u64().to_le_bytes()[..piece.len()]);
        });
        Buffer::new(owner)
    }

    /// Fills part of four units, each from its start, in writes of several parts, neighbours in memory or not.
    fn writes_many_at_once(&mut self) -> Vec<Written> {
        let (mut written, mut commands) = (Vec::new(), Vec::new());
        let block = self.layout.logical_block.bytes();
        let mut filled = [0_u64; 4];
        for _ in 0..64 {
            let unit = self.rng.below(4);
            let at = self.layout.start(UnitId(unit as u32)) + Bytes(filled[unit as usize]);
            let run = self.random(3 * 4096);
            let parts = vec![
                self.random(block),
                run.part(0, 4096),
                run.part(4096, 8192),
                self.random(4096),
                run.part(0, 4096),
            ];
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.read().to_vec()).collect();
            if filled[unit as usize] + bytes.len() as u64 > self.layout.unit_bytes().0 {
                continue;
            }
            filled[unit as usize] += bytes.len() as u64;
            written.push(Written { at, bytes });
            commands.push(Command::Write { at, parts, class: Class(0) });
        }
        self.run(commands);
        assert!(written.len() >= 8, "units too small for the suite");
        written
    }

    fn reads_many_at_once(&mut self, written: &[Written]) {
        let read = |written: &Written| Buffer::new(target::Buffer::zeroed(written.bytes.len()));
        let buffers: Vec<Buffer> = written.iter().map(read).collect();
        let pairs = written.iter().zip(&buffers);
        self.run(pairs.map(|(from, into)| Command::read(from.at, into.clone())).collect());
        for (written, buffer) in written.iter().zip(&buffers) {
            assert!(buffer.read()[..] == written.bytes, "{} reads as something else", written.at.0);
        }
    }

    fn reads_into_parts_of_one_buffer(&mut self, written: &[Written]) {
        let block = self.layout.logical_block.bytes();
        let all = Buffer::new(target::Buffer::zeroed(written.len() * 4096));
        let commands = written.iter().enumerate().map(|(index, from)| {
            let at = from.at + Bytes(block as u64);
            Command::read(at, all.part(index * 4096, 4096))
        });
        self.run(commands.collect());
        for (from, read) in written.iter().zip(all.read().chunks(4096)) {
            assert!(read == &from.bytes[block..block + 4096]);
        }
    }

    fn reports(&mut self, written: &[Written]) {
        let reports = self.storage.report().unwrap();
        assert_eq!(reports.len(), self.layout.units as usize);
        for (unit, report) in reports.iter().enumerate().take(4) {
            assert_eq!(report.condition, UnitCondition::Good);
            let here = |one: &&Written| self.layout.unit_of(one.at).index() == unit;
            let bytes: usize = written.iter().filter(here).map(|one| one.bytes.len()).sum();
            let blocks = (bytes / self.layout.logical_block.bytes()) as u32;
            assert!(report.written.is_none_or(|pointer| pointer == blocks), "{unit}: {report:?}");
        }
    }

    fn ends_waiting(&mut self) {
        let mut done = Vec::new();
        for _ in 0..2 {
            self.storage.reap(Some(Duration::from_millis(5)), &mut done);
            let waker = self.storage.waker();
            let waking = thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                waker();
            });
            self.storage.reap(None, &mut done);
            waking.join().unwrap();
        }
        assert_eq!(done, []);
        self.storage.waker()();
        self.storage.reap(None, &mut done); // Woken before it waited.
        self.storage.reap(Some(Duration::from_millis(5)), &mut done);
        self.storage.waker()();
        self.storage.reap(None, &mut done); // Woken before it waited again, while still watching.
    }
}

fn small(logical_block: LogicalBlock) -> Layout {
    Layout::contiguous(logical_block, (1 << 20) / logical_block.bytes() as u32, 5)
}

const BLOCKS: [LogicalBlock; 2] = [LogicalBlock::B512, LogicalBlock::B4096];
const ENGINES: [IoEngine; 3] = [IoEngine::Uring, IoEngine::Threads, IoEngine::Inline];

#[test]
fn memory() {
    for block in BLOCKS {
        suite(&mut Memory::new(small(block)));
        suite(&mut Memory::new(small(block)).with_shuffled_completions(3));
    }
}

#[test]
fn file() {
    for (block, engine) in
        BLOCKS.into_iter().flat_map(|block| ENGINES.map(|engine| (block, engine)))
    {
        let directory = TempDir::new().unwrap();
        let options = Options { engine, threads: 4, ..Options::default() };
        let path = directory.path().join("pool");
        match File::open(&path, true, small(block), &options) {
            Ok(mut file) => suite(&mut file),
            Err(error) if engine == IoEngine::Uring => println!("SKIPPED: io_uring: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whoever waits for the descriptors and the timeout learns of a completion.
fn tells_of_completions(storage: &mut dyn Storage) {
    let mut done = Vec::new();
    storage.submit(Token(9), Command::Flush(DeviceId(0)));
    storage.reap(Some(Duration::ZERO), &mut done);
    while done.is_empty() {
        let mut descriptors = Vec::new();
        storage.descriptors(&mut descriptors);
        let mut fds: Vec<_> = descriptors.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let wait = storage.timeout().unwrap_or(PATIENCE);
        let ready = poll(&mut fds, Some(&Timespec::try_from(wait).unwrap())).unwrap();
        assert!(ready > 0 || wait < PATIENCE, "the completion makes no descriptor readable");
        storage.reap(Some(Duration::ZERO), &mut done);
    }
    assert_eq!(done, [Completion::new(Token(9), Ok(()))]);
}

/// Two units of a storage, and the three behind them of another.
fn joined(first: Box<dyn Storage>, second: Box<dyn Storage>) -> Joined {
    Joined::new(vec![(Some(first), 2), (Some(second), 3)])
}

#[test]
fn storages_joined() {
    for block in BLOCKS {
        let memory = || Box::new(Memory::new(small(block)));
        suite(&mut joined(memory(), memory()));
    }
    for engines in [
        [IoEngine::Inline, IoEngine::Inline],
        [IoEngine::Threads, IoEngine::Inline],
        [IoEngine::Uring, IoEngine::Uring],
        [IoEngine::Uring, IoEngine::Threads],
    ] {
        let directory = TempDir::new().unwrap();
        let open = |engine, name| {
            let options = Options { engine, threads: 4, ..Options::default() };
            File::open(&directory.path().join(name), true, small(LogicalBlock::B4096), &options)
        };
        match (open(engines[0], "one"), open(engines[1], "two")) {
            (Ok(one), Ok(two)) => {
                let mut both = joined(Box::new(one), Box::new(two));
                tells_of_completions(&mut both);
                suite(&mut both);
            }
            (Err(error), _) | (_, Err(error)) => println!("SKIPPED: {engines:?}: {error}"),
        }
    }
}

/// Each part is written where its own units are, and flushed for itself.
#[test]
fn a_joined_storage_asks_the_part_that_has_the_unit() {
    let directory = TempDir::new().unwrap();
    let layout = small(LogicalBlock::B4096);
    let paths = ["one", "two"].map(|name| directory.path().join(name));
    let open = |path: &Path| File::open(path, true, layout, &Options::default()).unwrap();
    let mut both = joined(Box::new(open(&paths[0])), Box::new(open(&paths[1])));
    assert_eq!((both.layout().units, both.report().unwrap().len()), (5, 5));
    let mut suite = Suite::new(&mut both);
    for (unit, byte) in [(1, 1_u8), (2, 2), (4, 4)] {
        let block = Buffer::new(thermocline_target::Buffer::from_bytes(&[byte; 4096]));
        let at = layout.start(UnitId(unit));
        suite.run(vec![Command::Write { at, parts: vec![block], class: Class(0) }]);
    }
    suite.run(vec![Command::Flush(DeviceId(0)), Command::Flush(DeviceId(1))]);
    drop(both);
    let unit = layout.unit_bytes().0 as usize;
    let (one, two) = (std::fs::read(&paths[0]).unwrap(), std::fs::read(&paths[1]).unwrap());
    assert_eq!([one[unit], two[0], two[2 * unit]], [1, 2, 4]);
}

/// A storage that begins what it is given only when it is looked at for the second time, as groups may.
struct Late {
    layout: Layout,
    begun: Option<Token>,
    looks: u32,
}

impl Storage for Late {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, _command: Command) {
        (self.begun, self.looks) = (Some(token), 0);
    }

    fn reap(&mut self, _wait: Option<Duration>, done: &mut Vec<Completion>) {
        self.looks += 1;
        if self.looks > 1 {
            done.extend(self.begun.take().map(|token| Completion::new(token, Ok(()))));
        }
    }

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    /// None: the storage has to be looked at.
    fn descriptors<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}

    fn timeout(&self) -> Option<Duration> {
        self.begun.map(|_| Duration::ZERO)
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        Ok(Vec::new())
    }
}

#[test]
fn who_waits_for_several_storages_leaves_none_alone_that_has_something_to_begin() {
    let late = || Box::new(Late { layout: small(LogicalBlock::B4096), begun: None, looks: 0 });
    let mut both = joined(late(), late());
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut done = Vec::new();
        both.submit(Token(7), Command::Reset(UnitId(3)));
        both.reap(None, &mut done);
        tell.send(done).unwrap();
    });
    let done = told.recv_timeout(PATIENCE).expect("it does not wait for ever");
    assert_eq!(done, [Completion::new(Token(7), Ok(()))]);
}

#[test]
fn file_past_the_cache() {
    for engine in ENGINES {
        let directory = TempDir::new().unwrap();
        let options = Options { engine, threads: 4, direct: Some(true), ..Options::default() };
        let path = directory.path().join("pool");
        match File::open(&path, true, small(LogicalBlock::B4096), &options) {
            Ok(mut file) => suite(&mut file),
            Err(error) => println!("SKIPPED: O_DIRECT with {engine:?}: {error}"),
        }
    }
}

#[test]
fn a_reset_gives_the_space_of_a_file_back_if_that_is_asked_for() {
    use std::os::unix::fs::MetadataExt;

    for discard in [None, Some(false), Some(true)] {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("pool");
        let options = Options { discard, ..Options::default() };
        let mut file = File::open(&path, true, small(LogicalBlock::B512), &options).unwrap();
        let mut suite = Suite::new(&mut file);
        suite.writes_many_at_once();
        suite.run(vec![Command::Flush(DeviceId(0))]);
        let taken = || path.metadata().unwrap().blocks();
        let before = taken();
        suite.resets();
        let gone = before - taken();
        match discard {
            Some(true) => assert!(gone > before / 4 * 3, "{gone} of {before} sectors"),
            _ => assert_eq!(gone, 0, "of {before} sectors"),
        }
    }
}

#[test]
fn a_file_is_opened_once_and_only_if_large_enough() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pool");
    let open = |create, layout| File::open(&path, create, layout, &Options::default());
    let layout = small(LogicalBlock::B512);
    assert_eq!(open(false, layout).unwrap_err().kind(), &OpenErrorKind::System);
    let first = open(true, layout).unwrap();
    let taken = open(false, layout).unwrap_err().to_string();
    let by = format!("is in use: process {} (", std::process::id());
    assert!(taken.contains(&by), "{taken}");
    drop(first);
    let larger = Layout { units: 6, ..layout };
    let kind = OpenErrorKind::TooSmall { has: 5 << 20, needed: 6 << 20 };
    assert_eq!(open(false, larger).unwrap_err().kind(), &kind);
    assert!(open(false, layout).is_ok());
}

#[test]
fn a_file_keeps_what_was_written() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pool");
    let open = |create| File::open(&path, create, small(LogicalBlock::B512), &Options::default());
    let mut file = open(true).unwrap();
    let mut suite = Suite::new(&mut file);
    let written = suite.writes_many_at_once();
    drop(file);
    let mut file = open(false).unwrap();
    let mut suite = Suite::new(&mut file);
    suite.reads_many_at_once(&written);
}

fn drive(profile: &str, capacity: Bytes) -> Drive {
    let text = thermocline_nand::profile::builtin(profile).unwrap();
    let profile = Profile::from_toml(profile, text).unwrap();
    Drive::new(&profile, Some(capacity), 1).unwrap()
}

fn simulated(path: &Path, profile: &str, latency: Latency) -> Simulated {
    let drive = drive(profile, Bytes::gib(1));
    let (block, unit) = (LogicalBlock::B4096, Bytes::mib(4));
    Simulated::open(path, true, drive, block, unit, latency, &Options::default()).unwrap()
}

#[test]
fn simulated_drives() {
    for profile in ["zn540", "pm9d3", "p5800x", "ideal"] {
        for latency in [Latency::None, Latency::Modelled] {
            let directory = TempDir::new().unwrap();
            let mut storage = simulated(&directory.path().join("data"), profile, latency);
            suite(&mut storage);
            let counters = storage.drive_counters().expect("a simulated drive");
            assert!(counters.host_written > 1 << 20, "{profile}: {counters:?}");
            assert_eq!(counters.check(), Ok(()));
        }
    }
}

#[test]
fn a_simulated_drive_that_is_opened_again_holds_what_its_file_does() {
    for profile in ["zn540", "pm9d3", "p5800x", "p5316"] {
        for io in [IoEngine::Auto, IoEngine::Inline] {
            let directory = TempDir::new().unwrap();
            let open = || {
                let (block, unit) = (LogicalBlock::B4096, Bytes::mib(4));
                let options = Options { engine: io, ..Options::default() };
                let drive = drive(profile, Bytes::gib(1));
                let path = directory.path().join("data");
                Simulated::open(&path, true, drive, block, unit, Latency::None, &options).unwrap()
            };
            let mut storage = open();
            let layout = *storage.layout();
            let write = |unit: u32, blocks: u32| {
                let bytes = vec![unit as u8 + 1; blocks as usize * 4096];
                let parts = vec![Buffer::new(target::Buffer::from_bytes(&bytes))];
                Command::Write { at: layout.start(UnitId(unit)), parts, class: Class(0) }
            };
            let all = layout.blocks_per_unit;
            let mut suite = Suite::new(&mut storage);
            suite.run(vec![write(0, all), write(1, 3), write(2, 5), write(3, all), write(4, 7)]);
            suite.run(vec![Command::Finish(UnitId(2)), Command::Finish(UnitId(0))]);
            suite.run(vec![Command::Reset(UnitId(3)), Command::Reset(UnitId(4))]);
            let before = storage.report().unwrap();
            drop(storage);
            let mut storage = open();
            assert_eq!(storage.report(), Ok(before), "{profile}");
            assert_eq!(storage.drive_counters().map(|counters| counters.media_total), Some(0));
            let free = drive(profile, Bytes::gib(1)).free_units();
            let left = storage.drive().free_units();
            assert!(left < free || profile == "p5800x", "{profile}: {left} of {free}");
            let into = Buffer::new(target::Buffer::zeroed(4096));
            let at = layout.start(UnitId(0)) + layout.unit_bytes() - Bytes(4096);
            Suite::new(&mut storage).run(vec![Command::read(at, into.clone())]);
            assert_eq!(into.read()[..], [1; 4096], "a full zone is not finished");
        }
    }
}

#[test]
fn what_a_drive_counted_stays_in_the_sum_when_it_is_taken_out() {
    let directory = TempDir::new().unwrap();
    let drive = |name| simulated(&directory.path().join(name), "p5316", Latency::None);
    let storages: [Option<Box<dyn Storage>>; 2] =
        ["a", "b"].map(|name| Some(Box::new(drive(name)) as _));
    let mut parts = super::parts::Parts::new(storages);
    for (place, blocks) in [(0, 1), (1, 3)] {
        let bytes = Buffer::new(target::Buffer::zeroed(blocks * 4096));
        let write = Command::Write { at: Bytes(0), parts: vec![bytes], class: Class(0) };
        parts.submit(place, Token(1), write);
        let mut done = Vec::new();
        while done.is_empty() {
            parts.reap(None, &mut done);
        }
    }
    let written = |parts: &super::parts::Parts| Some(parts.drive_counters()?.host_written);
    assert_eq!(written(&parts), Some(4 * 4096));
    drop(parts.take(1));
    assert_eq!(written(&parts), Some(4 * 4096));
    parts.put(1, Box::new(drive("c")));
    assert_eq!(written(&parts), Some(4 * 4096));
    drop(parts.take(1));
    parts.put(1, Box::new(Memory::new(*parts.get(0).unwrap().layout())));
    assert_eq!(written(&parts), None, "memory tells nothing");
}

#[test]
fn a_simulated_zone_refuses_what_a_drive_refuses() {
    let directory = TempDir::new().unwrap();
    let mut storage = simulated(&directory.path().join("data"), "zn540", Latency::None);
    let gap = Command::Write {
        at: Bytes(4096),
        parts: vec![Buffer::new(target::Buffer::zeroed(4096))],
        class: Class(0),
    };
    storage.submit(Token(9), gap);
    let mut done = Vec::new();
    storage.reap(Some(PATIENCE), &mut done);
    assert_eq!(done, [Completion::new(Token(9), Err(thermocline_engine::DeviceError::Io.into()))]);
}

#[test]
fn a_simulated_drive_takes_its_time() {
    let directory = TempDir::new().unwrap();
    let mut storage = simulated(&directory.path().join("data"), "zn540", Latency::Modelled);
    let write = Command::Write {
        at: Bytes(0),
        parts: vec![Buffer::new(target::Buffer::zeroed(4096))],
        class: Class(0),
    };
    let read = Command::read(Bytes(0), Buffer::new(target::Buffer::zeroed(4096)));
    let mut suite = Suite::new(&mut storage);
    suite.run(vec![write]);
    let began = Instant::now();
    suite.run(vec![read]);
    assert!(began.elapsed() >= Duration::from_micros(20), "its firmware alone takes as long");
}

/// Writes to unit 2, makes it zeros, and reads it.
fn reads_as_zeros(storage: &mut dyn Storage) {
    let layout = *storage.layout();
    let at = layout.start(UnitId(2)) + Bytes(8192);
    let mut suite = Suite::new(storage);
    let parts = vec![suite.random(4096)];
    suite.run(vec![Command::Write { at, parts, class: Class(0) }]);
    suite.run(vec![Command::Zero(UnitId(2))]);
    let into = suite.random(layout.unit_bytes().0 as usize);
    suite.run(vec![Command::read(layout.start(UnitId(2)), into.clone())]);
    assert!(into.read().iter().all(|&byte| byte == 0));
}

#[test]
fn what_is_made_zeros_reads_as_zeros_also_where_resets_clear_nothing() {
    for block in BLOCKS {
        reads_as_zeros(&mut Memory::new(small(block)));
        reads_as_zeros(&mut Overlay::new(Memory::new(small(block))));
        for engine in [IoEngine::Auto, IoEngine::Inline] {
            let directory = TempDir::new().unwrap();
            let options = Options { engine, ..Options::default() };
            let path = directory.path().join("pool");
            reads_as_zeros(&mut File::open(&path, true, small(block), &options).unwrap());
        }
    }
    let directory = TempDir::new().unwrap();
    reads_as_zeros(&mut simulated(&directory.path().join("data"), "p5316", Latency::None));
}

#[test]
fn zeros_are_written_where_no_hole_can_be_made() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pool");
    let written = vec![1; 3 << 20];
    std::fs::write(&path, &written).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    super::file::write_zeros(&file, 4096, (2 << 20) + 512).unwrap();
    let found = std::fs::read(&path).unwrap();
    let zeros = 4096..4096 + (2 << 20) + 512;
    assert!(found[zeros.clone()].iter().all(|&byte| byte == 0));
    assert!(found[..zeros.start].iter().chain(&found[zeros.end..]).all(|&byte| byte == 1));
}
