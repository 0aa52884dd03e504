use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::time::Instant;

use thermocline_engine::{Config, Notice};
use thermocline_format::{Geometry, LogicalBlock, PoolId};
use thermocline_target::{
    BlockTarget as _, Buffer as Memory4k, Completion, Granular, Property, Request, conformance,
};
use thermocline_types::{Bytes, UnitId};

use super::*;
use thermocline_engine::UnitReport;

use crate::storage::{Command, Fault, File, Layout, Memory, Options, Storage, Token};

fn config(block: LogicalBlock) -> Config {
    let per_unit = (512 << 10) / block.bytes() as u32;
    let geometry = Geometry::new(block, per_unit, 64, [UnitId(0), UnitId(1)]);
    Config::new(geometry.expect("a small pool"))
}

fn layout(config: &Config) -> Layout {
    let geometry = &config.geometry;
    Layout::contiguous(geometry.logical_block(), geometry.blocks_per_unit(), geometry.units())
}

fn name(text: &str) -> VolumeName {
    VolumeName::new(text).expect("a name")
}

fn start<S: Storage + 'static>(config: Config, storage: S) -> Pool {
    let storage: AnyStorage = Box::new(storage);
    let driver = Driver::format(config, PoolId([5; 16]), storage).expect("room for a pool");
    Pool::start(driver, Box::new(|_| {})).expect("a thread")
}

fn wait<T: Send + 'static>(
    volume: &Volume,
    request: impl FnOnce(Completion<T>) -> Request,
) -> Result<T, thermocline_target::TargetError> {
    let (sender, receiver) = channel();
    volume.submit(request(Completion::new(move |result| sender.send(result).expect("heard"))));
    receiver.recv().expect("every request is completed")
}

#[test]
fn volumes_conform_whole_and_in_sectors() {
    for block in [LogicalBlock::B512, LogicalBlock::B4096] {
        let config = config(block);
        let storage = Memory::new(layout(&config)).with_shuffled_completions(9);
        let pool = start(config, storage);
        let volume = pool.create_volume(name("whole"), 1000).expect("room");
        conformance::run(&volume);
        let volume = pool.create_volume(name("sectors"), 1000).expect("room");
        conformance::run(&Granular::new(volume, Bytes::SECTOR));
        assert_eq!(pool.volume_names(), [name("whole"), name("sectors")]);
        pool.close().expect("nothing fails");
    }
}

#[test]
fn volumes_on_a_file_outlive_the_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.img");
    let config = config(LogicalBlock::B4096);
    let open = || File::open(&path, true, layout(&config), &Options::default()).expect("a file");
    let pool = start(config.clone(), open());
    let volume = pool.create_volume(name("v"), 2000).expect("room");
    let bytes: Vec<u8> = (0..600_u32 * 4096).map(|byte| (byte / 4096) as u8 ^ byte as u8).collect();
    let buffer = Memory4k::from_bytes(&bytes);
    let write = |done| Request::Write { offset: Bytes(4096), buffer, fua: false, handle: 0, done };
    wait(&volume, write).expect("it is written, in three pieces");
    pool.close().expect("nothing fails");
    let driver = Driver::open(config.clone(), Box::new(open()) as AnyStorage)
        .expect("it was closed in order");
    let pool = Pool::start(driver, Box::new(|_| {})).expect("a thread");
    let volume = pool.volume("v").expect("it was there");
    let buffer = Memory4k::zeroed(601 * 4096);
    let read = wait(&volume, |done| Request::Read { offset: Bytes(0), buffer, done });
    let read = read.expect("it is read");
    assert!(read[..4096] == [0; 4096] && read[4096..] == bytes[..]);
}

#[test]
fn handles_follow_their_volume() {
    let config = config(LogicalBlock::B4096);
    let pool = start(config.clone(), Memory::new(layout(&config)));
    let volume = pool.create_volume(name("v"), 100).expect("room");
    assert_eq!(pool.create_volume(name("v"), 100).map(|_| ()), Err(HostError::NameTaken));
    pool.resize_volume(volume.id(), 200).expect("room");
    assert_eq!(volume.info().size, Bytes(200 * 4096));
    assert_eq!(pool.look(|view| view.engine.volumes().len()), Some(1));
    pool.delete_volume(volume.id()).expect("it is there");
    assert!(pool.volume("v").is_none());
    let read = |done| Request::Read { offset: Bytes(0), buffer: Memory4k::zeroed(4096), done };
    assert_eq!(wait(&volume, read).map(drop), Err(thermocline_target::TargetError::Gone));
    let flush = wait(&volume, |done| Request::Flush { done });
    assert_eq!(flush, Err(thermocline_target::TargetError::Gone), "there is nothing to flush");
    pool.close().expect("nothing fails");
    let flush = wait(&volume, |done| Request::Flush { done });
    assert_eq!(flush, Err(thermocline_target::TargetError::Gone));
}

#[test]
fn many_threads_write_at_once_beyond_every_queue() {
    let config = Config { max_requests: 16, ..config(LogicalBlock::B512) };
    let pool = start(config.clone(), Memory::new(layout(&config)));
    let volume = pool.create_volume(name("v"), 4096).expect("room");
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let volume = volume.clone();
            scope.spawn(move || {
                let (sender, receiver) = channel();
                for index in 0..1024_u64 {
                    let sender = sender.clone();
                    let done = Completion::new(move |result| sender.send(result).expect("heard"));
                    let offset = Bytes((thread * 1024 + index) * 4096);
                    let buffer = Memory4k::from_bytes(&[thread as u8 + 1; 4096]);
                    volume.submit(Request::Write { offset, buffer, fua: false, handle: 0, done });
                }
                drop(sender);
                assert!(receiver.iter().all(|result| result.is_ok()));
            });
        }
    });
    let buffer = Memory4k::zeroed(4096 * 4096);
    let read = wait(&volume, |done| Request::Read { offset: Bytes(0), buffer, done });
    let read = read.expect("it is read");
    assert!(read.chunks(1 << 22).zip(1..).all(|(part, byte)| part.iter().all(|&b| b == byte)));
}

fn write(volume: &Volume, block: u64, fua: bool) {
    let (offset, buffer) = (Bytes(block * 4096), Memory4k::zeroed(4096));
    wait(volume, |done| Request::Write { offset, buffer, fua, handle: 0, done })
        .expect("it is written");
}

fn at_risk(pool: &Pool) -> u64 {
    pool.look(|view| view.engine.at_risk_blocks()).expect("it is open")
}

/// A pool that flushes by itself after a while, or never.
fn start_flushing(after: Option<Duration>) -> (Pool, Volume) {
    let config = config(LogicalBlock::B4096);
    let storage: AnyStorage = Box::new(Memory::new(layout(&config)));
    let driver = Driver::format(config, PoolId([5; 16]), storage).expect("room for a pool");
    let upkeep = PoolUpkeep { flush_after: after, ..PoolUpkeep::default() };
    let pool = Pool::start_with(driver, Box::new(|_| {}), &upkeep).expect("a thread");
    let volume = pool.create_volume(name("v"), 1000).expect("room");
    (pool, volume)
}

#[test]
fn what_was_written_is_at_risk_until_it_is_durable() {
    let (pool, volume) = start_flushing(None);
    assert_eq!(at_risk(&pool), 0);
    (0..10).for_each(|block| write(&volume, block, false));
    assert_eq!(at_risk(&pool), 10);
    write(&volume, 3, false);
    assert_eq!(at_risk(&pool), 10, "overwritten in memory, a block counts once");
    wait(&volume, |done| Request::Flush { done }).expect("flushed");
    assert_eq!(at_risk(&pool), 0);
    write(&volume, 20, true);
    assert_eq!(at_risk(&pool), 0, "durable by itself");
}

#[test]
fn what_nobody_flushes_is_at_risk_for_a_while_only() {
    let (pool, volume) = start_flushing(Some(Duration::from_millis(1)));
    (0..10).for_each(|block| write(&volume, block, false));
    while at_risk(&pool) > 0 {
        thread::yield_now();
    }
}

#[test]
fn requests_are_counted_where_they_enter() {
    let (pool, volume) = start_flushing(None);
    let other = pool.create_volume(name("w"), 1000).expect("room");
    (0..3).for_each(|block| write(&volume, block, false));
    let (offset, buffer) = (Bytes(0), Memory4k::zeroed(600 * 4096));
    wait(&volume, |done| Request::Read { offset, buffer, done }).expect("read, in three pieces");
    wait(&volume, |done| Request::Trim { offset, length: Bytes(8192), done }).expect("trimmed");
    wait(&volume, |done| Request::Flush { done }).expect("flushed");
    let (sender, receiver) = channel();
    let done = Completion::new(move |result| sender.send(result).expect("heard"));
    volume.extents(Property::Mapped, Bytes(0), Bytes(4096), done);
    receiver.recv().expect("told").expect("it is there");
    let beyond =
        |done| Request::Read { offset: Bytes(1 << 40), buffer: Memory4k::zeroed(4096), done };
    wait(&volume, beyond).map(drop).expect_err("it ends before");
    write(&other, 0, false);
    let traffic = pool.traffic_of(volume.id()).expect("it is there");
    assert_eq!(traffic.requests, [2, 3, 1, 1, 0, 1]);
    assert_eq!(traffic.bytes, [600 * 4096, 3 * 4096, 0, 8192, 0, 4096]);
    assert_eq!(traffic.errors, 1);
    for (latencies, requests) in traffic.latencies.iter().zip(traffic.requests) {
        assert_eq!(latencies.counts.iter().sum::<u64>(), requests);
    }
    pool.delete_volume(other.id()).expect("it is there");
    assert_eq!(pool.traffic().requests[Operation::Write as usize], 4, "also of the deleted");
}

/// Many questions wait, and a read of another volume, on a pool that makes one step after the other.
#[test]
fn questions_that_wait_leave_a_turn_to_what_has_ended_meanwhile() {
    let config = config(LogicalBlock::B4096);
    let storage: AnyStorage = Box::new(Memory::new(layout(&config)));
    let mut driver = Driver::format(config, PoolId([5; 16]), storage).expect("room for a pool");
    for (text, blocks) in [("asked", 16 << 10), ("read", 8)] {
        let what = HostRequest::CreateVolume { name: name(text), blocks };
        driver.carry_out(what).expect("room");
    }
    let (pool, mut stepper) = Pool::stepped(driver, Box::new(|_| {}), &PoolUpkeep::default());
    let [asked, read] = ["asked", "read"].map(|text| pool.volume(text).expect("it is there"));
    let answers: Vec<_> = (0..100).map(|_| ask(&asked, 16 << 10)).collect();
    let (sender, is_read) = channel();
    let done = Completion::new(move |result| sender.send(result).expect("heard"));
    read.submit(Request::Read { offset: Bytes(0), buffer: Memory4k::zeroed(4096), done });
    let answered = || answers.iter().filter(|one| one.try_recv().is_ok()).count();
    while is_read.try_recv().is_err() {
        assert!(stepper.step());
    }
    let before = answered();
    assert!(before <= 4, "{before} questions were answered before the read");
    let mut all = before;
    while all < 100 {
        assert!(stepper.step());
        all += answered();
    }
}

/// Begins writes of 4096 bytes one behind the other; who is told of their ends.
fn write_many(volume: &Volume, count: u64) -> std::sync::mpsc::Receiver<bool> {
    let (sender, receiver) = channel();
    for index in 0..count {
        let (buffer, sender) = (Memory4k::zeroed(4096), sender.clone());
        let done = Completion::new(move |result: Result<_, _>| {
            // Whoever asked may have heard enough.
            let _ = sender.send(result.is_ok());
        });
        volume.submit(Request::Write {
            offset: Bytes(index * 4096),
            buffer,
            fua: false,
            handle: 0,
            done,
        });
    }
    receiver
}

#[test]
fn a_volume_at_its_limit_waits_and_holds_up_no_other_until_the_limit_is_lifted() {
    let config = config(LogicalBlock::B4096);
    let pool = start(config.clone(), Memory::new(layout(&config)));
    let slow = pool.create_volume(name("slow"), 4096).expect("room");
    let other = pool.create_volume(name("other"), 4096).expect("room");
    // A byte per second: after the first write the next waits for more than an hour.
    assert!(
        pool.set_limits(slow.id(), VolumeLimits { bandwidth: Some(1), ..VolumeLimits::default() })
    );
    let (held, free) = (write_many(&slow, 500), write_many(&other, 2000));
    assert_eq!(free.iter().take(2000).filter(|done| *done).count(), 2000);
    assert_eq!(held.recv(), Ok(true), "the first is within the limit");
    assert!(held.try_recv().is_err(), "the second is not");
    assert_eq!(pool.limits(slow.id()).and_then(|limits| limits.bandwidth), Some(1));
    assert!(pool.set_limits(slow.id(), VolumeLimits::default()));
    assert_eq!(held.iter().take(499).filter(|done| *done).count(), 499);
    pool.close().expect("nothing fails");
}

/// Asks which blocks are mapped. Returns the receiver of the answer.
fn ask(volume: &Volume, blocks: u64) -> std::sync::mpsc::Receiver<Vec<thermocline_target::Extent>> {
    let (sender, receiver) = channel();
    let done = Completion::new(move |result: Result<_, _>| {
        // Whoever asked may have heard enough.
        let _ = sender.send(result.expect("the volume is there"));
    });
    volume.extents(Property::Mapped, Bytes(0), Bytes(blocks * 4096), done);
    receiver
}

#[test]
fn questions_for_what_is_mapped_keep_to_the_limits_of_their_volume() {
    let config = config(LogicalBlock::B4096);
    let pool = start(config.clone(), Memory::new(layout(&config)));
    let slow = pool.create_volume(name("slow"), 4096).expect("room");
    let other = pool.create_volume(name("other"), 4096).expect("room");
    assert!(pool.set_limits(slow.id(), VolumeLimits { iops: Some(1), ..VolumeLimits::default() }));
    let asked: Vec<_> = (0..100).map(|_| ask(&slow, 4096)).collect();
    assert_eq!(write_many(&other, 2000).iter().take(2000).filter(|done| *done).count(), 2000);
    let answered = asked.iter().filter(|one| one.try_recv().is_ok()).count();
    assert!(answered < 50, "one a second: {answered}");
    assert!(pool.set_limits(slow.id(), VolumeLimits::default()));
    assert_eq!(ask(&slow, 1).recv().map(|extents| extents.len()), Ok(1), "behind all others");
    pool.close().expect("nothing fails");
}

#[test]
fn a_long_question_is_answered_in_one_piece() {
    let config = config(LogicalBlock::B4096);
    let pool = start(config.clone(), Memory::new(layout(&config)));
    let volume = pool.create_volume(name("v"), 1 << 20).expect("room");
    let extent =
        |blocks: u64, has| thermocline_target::Extent { length: Bytes(blocks * 4096), has };
    assert_eq!(ask(&volume, 10_000).recv(), Ok(vec![extent(10_000, false)]));
    for block in [2047, 2048, 6000] {
        write(&volume, block, false);
    }
    let expected = [(2047, false), (2, true), (3951, false), (1, true), (3999, false)]
        .map(|(n, m)| extent(n, m));
    assert_eq!(ask(&volume, 10_000).recv(), Ok(expected.to_vec()));
    (0..4000).for_each(|block| write(&volume, 2 * block, false));
    let extents = ask(&volume, 10_000).recv().expect("told");
    assert_eq!(extents.len(), thermocline_target::EXTENTS_MAX);
    assert_eq!(extents[..3], [(1, true), (1, false), (1, true)].map(|(n, m)| extent(n, m)));
    let (sender, receiver) = channel();
    let done =
        Completion::new(move |result: Result<Vec<_>, _>| sender.send(result).expect("heard"));
    volume.extents(Property::Mapped, Bytes(1 << 32), Bytes(4096), done);
    assert_eq!(receiver.recv(), Ok(Err(thermocline_target::TargetError::OutOfBounds)));
}

#[test]
fn a_pool_that_is_closed_writes_what_waits_for_a_limit_first() {
    let config = config(LogicalBlock::B4096);
    let pool = start(config.clone(), Memory::new(layout(&config)));
    let slow = pool.create_volume(name("slow"), 4096).expect("room");
    assert!(pool.set_limits(slow.id(), VolumeLimits { iops: Some(1), ..VolumeLimits::default() }));
    let held = write_many(&slow, 300);
    pool.close().expect("nothing fails");
    assert_eq!(held.iter().take(300).filter(|done| *done).count(), 300);
}

/// A medium that takes one write after the other, 10 ms each.
struct Slow {
    memory: Memory,
    writes: VecDeque<(Token, Command)>,
    /// When the first of them is done.
    next: Instant,
}

impl Storage for Slow {
    fn layout(&self) -> &Layout {
        self.memory.layout()
    }

    fn submit(&mut self, token: Token, command: Command) {
        if !matches!(command, Command::Write { .. }) {
            return self.memory.submit(token, command);
        }
        if self.writes.is_empty() {
            self.next = Instant::now() + Duration::from_millis(10);
        }
        self.writes.push_back((token, command));
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<crate::storage::Completion>) {
        let left = self.next.saturating_duration_since(Instant::now());
        let (wait, late) = match self.writes.front() {
            Some(_) => (Some(wait.map_or(left, |wait| wait.min(left))), left.is_zero()),
            None => (wait, false),
        };
        if late && let Some((token, command)) = self.writes.pop_front() {
            self.memory.submit(token, command);
            self.next = Instant::now() + Duration::from_millis(10);
        }
        self.memory.reap(wait, done);
    }

    fn waker(&self) -> crate::storage::Waker {
        self.memory.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.memory.descriptors(into);
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        self.memory.report()
    }
}

/// Who writes blocks in no order, each when one before is answered.
struct Client {
    volume: Volume,
    written: AtomicU64,
}

impl Client {
    fn write(client: &Arc<Client>) {
        let number = client.written.fetch_add(1, Ordering::Relaxed);
        let (offset, client) = (Bytes(number * 7919 % 8000 * 4096), Arc::clone(client));
        let next = Arc::clone(&client);
        let done = Completion::new(move |result: Result<_, _>| {
            if result.is_ok() {
                Client::write(&next);
            }
        });
        let buffer = Memory4k::zeroed(4096);
        client.volume.submit(Request::Write { offset, buffer, fua: false, handle: 0, done });
    }
}

#[test]
fn volumes_with_as_many_requests_in_flight_write_by_their_shares_on_slow_media() {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 256, [UnitId(0), UnitId(1)]);
    let config = Config::new(geometry.expect("a pool"));
    let memory = Memory::new(layout(&config));
    let slow = Slow { memory, writes: VecDeque::new(), next: Instant::now() };
    let pool = start(config, slow);
    let clients = [1, 4].map(|share| {
        let volume = pool.create_volume(name(&share.to_string()), 8000).expect("room");
        assert!(pool.set_limits(volume.id(), VolumeLimits { share, ..VolumeLimits::default() }));
        Arc::new(Client { volume, written: AtomicU64::new(0) })
    });
    (0..16).for_each(|_| clients.each_ref().iter().for_each(|client| Client::write(client)));
    let count = || clients.each_ref().map(|client| client.written.load(Ordering::Relaxed));
    // Until the write cache is full.
    thread::sleep(Duration::from_millis(500));
    let before = count();
    thread::sleep(Duration::from_secs(2));
    let [some, more] = [0, 1].map(|one| count()[one] - before[one]);
    assert!(some > 1000 && (some * 5 / 2..some * 6).contains(&more), "{some} and {more}");
    drop(pool);
}

/// What was asked for before, amid and after it is answered, and an opening that is refused changes nothing.
#[test]
fn a_pool_is_opened_again_under_its_clients() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.img");
    let config = config(LogicalBlock::B4096);
    let shape = layout(&config);
    let file = move || -> Result<AnyStorage, String> {
        let file = File::open(&path, true, shape, &Options::default());
        Ok(Box::new(file.map_err(|error| error.to_string())?))
    };
    let pool = start(config.clone(), file().expect("a file"));
    let volume = pool.create_volume(name("v"), 1000).expect("room");
    let (sender, answers) = channel();
    let write = |block: u64| {
        let bytes = Memory4k::from_bytes(&[block as u8 + 1; 4096]);
        let sender = sender.clone();
        let done = Completion::new(move |result| sender.send(result).expect("heard"));
        volume.submit(Request::Write {
            offset: Bytes(block * 4096),
            buffer: bytes,
            fua: false,
            handle: 0,
            done,
        });
    };
    (0..100).for_each(write);
    let opens = |file: &(dyn Fn() -> Result<AnyStorage, String> + Send)| {
        Driver::open(config.clone(), file()?).map_err(|error| error.to_string())
    };
    // The lock of the file is free by then.
    let (again, settings) = (file.clone(), config.clone());
    let open = move |()| Driver::open(settings, again()?).map_err(|error| error.to_string());
    pool.reopen(|| Ok(()), open, || None).expect("it is opened again");
    (100..200).for_each(write);
    let (again, settings) = (file.clone(), config.clone());
    let back = move || Driver::open(settings, again().ok()?).ok();
    let not = |why: &'static str| move |()| Err::<Driver<AnyStorage>, _>(why.to_owned());
    let refused = pool.reopen(|| Ok(()), not("not today"), back);
    assert!(matches!(refused, Err(ReopenError::Refused(why)) if why == "not today"));
    (200..250).for_each(write);
    for _ in 0..250 {
        answers.recv().expect("an answer").expect("it is written");
    }
    let read = |block: u64| {
        let buffer = Memory4k::zeroed(4096);
        wait(&volume, |done| Request::Read { offset: Bytes(block * 4096), buffer, done })
    };
    for block in 0..250 {
        assert!(read(block).expect("it is read")[..] == [block as u8 + 1; 4096], "block {block}");
    }
    assert!(opens(&file).is_err(), "the pool has it");
    let held = pool.reopen(|| Err("no file".to_owned()), not("not asked"), || None);
    assert!(
        matches!(held, Err(ReopenError::Refused(why)) if why == "no file"),
        "nothing is closed"
    );
    assert!(read(0).is_ok());
    let lost = pool.reopen(|| Ok(()), not("never"), || None);
    assert!(matches!(lost, Err(ReopenError::Lost(_))), "{lost:?}");
    assert!(read(0).is_err());
    assert!(matches!(pool.reopen(|| Ok(()), |()| Err(()), || None), Err(ReopenError::Closed)));
    drop(pool);
    let driver = opens(&file).expect("it was closed in order");
    assert!(driver.notices().contains(&Notice::Open { chunks: 0, entries: 0 }));
}

#[test]
fn a_pool_scrubs_itself_when_it_is_due_and_keeps_what_it_found() {
    let config = config(LogicalBlock::B4096);
    let start = |storage: Memory, record: ScrubRecord| {
        let driver =
            Driver::format(config.clone(), PoolId([5; 16]), Box::new(storage) as AnyStorage);
        let (sender, events) = channel();
        let listener = Box::new(move |event| {
            if let Event::Scrub(record) = event {
                // The test may have seen enough.
                let _ = sender.send(record);
            }
        });
        let scrubs = Some(ScrubSchedule { every: Some(Duration::from_secs(86_400)), record });
        let upkeep = PoolUpkeep { scrubs, ..PoolUpkeep::default() };
        let pool = Pool::start_with(driver.expect("room for a pool"), listener, &upkeep);
        (pool.expect("a thread"), events)
    };
    let (pool, events) = start(Memory::new(layout(&config)), ScrubRecord::default());
    let begun = events.recv().expect("a scrub begins");
    assert!(begun.last.is_none() && begun.current.is_some());
    let ended = events.recv().expect("a scrub ends");
    assert!(ended.current.is_none());
    let last = ended.last.expect("it is known");
    assert_eq!((last.found.damaged, last.found.mended), (0, 0));
    assert_eq!(pool.look(|view| view.scrubs.map(|one| one.record)), Some(Some(ended)));
    pool.close().expect("nothing fails");
    // As long after a restart nothing is due.
    let (pool, events) = start(Memory::new(layout(&config)), ended);
    assert_eq!(pool.look(|view| view.scrubs.map(|one| one.record)), Some(Some(ended)));
    pool.close().expect("nothing fails");
    assert_eq!(events.try_iter().count(), 0, "nothing was scrubbed");
}
