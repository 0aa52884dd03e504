//! Writes that complete in memory: when they do, when they go to media, and when they must.

use std::rc::Rc;

use thermocline_engine::{Config, Extent, HostRequest, MAX_STAGED_TIME, Reply, RequestId};
use thermocline_format::{Geometry, LogicalBlock, VolumeId, VolumeName};
use thermocline_sim::data::{Arena, Data};
use thermocline_sim::disk::{Disk, DiskKind, DiskShape, Image, Latency};
use thermocline_sim::machine::{Event, Machine};
use thermocline_types::{Time, UnitId};

const BLOCKS: u64 = 2000;

struct Pool {
    machine: Machine,
    arena: Rc<Arena>,
    volume: VolumeId,
}

impl Pool {
    /// An empty pool, on a disk that takes 100 us for everything.
    fn new(write_cache: bool) -> Pool {
        let units = [0, 1].map(UnitId);
        let geometry = Geometry::new(LogicalBlock::B4096, 512, 24, units).expect("sound units");
        let mut config = Config::new(geometry);
        config.write_cache = write_cache;
        let arena = Arena::new();
        let media = DiskShape { geometry, kind: DiskKind::Discarding };
        let all = Time::micros(100);
        let latency = Latency { write: all, read: all, flush: all, spike_one_in: 0 };
        let disk = Disk::new(&arena, Image::new(media), latency, 1);
        let mut machine = Machine::format(config, &arena, disk, 1);
        machine.wait_until_open().expect("a pool is made");
        let mut pool = Pool { machine, arena, volume: VolumeId(0) };
        let name = VolumeName::new("main").expect("a name");
        let reply = pool.wait(HostRequest::CreateVolume { name, blocks: BLOCKS });
        let Reply::Created(volume) = reply else { panic!("{reply:?}") };
        pool.volume = volume;
        pool
    }

    fn submit(&mut self, request: HostRequest<Data>) -> RequestId {
        let id = self.machine.request_id();
        self.machine.engine.submit(self.machine.now, id, request).expect("there is room");
        id
    }

    /// Whether `request` completes without anything else happening.
    fn is_complete_at_once(&mut self, request: RequestId) -> bool {
        let mut events = Vec::new();
        self.machine.pump(&mut events);
        events.iter().any(|event| matches!(event, Event::Complete(id, Ok(_)) if *id == request))
    }

    fn wait(&mut self, request: HostRequest<Data>) -> Reply {
        let id = self.submit(request);
        let mut events = Vec::new();
        loop {
            self.machine.pump(&mut events);
            for event in events.drain(..) {
                if let Event::Complete(done, result) = event
                    && done == id
                {
                    return result.expect("nothing fails here");
                }
            }
            assert!(self.machine.turn(), "it never completes");
        }
    }

    fn write(&self, lba: u64, fua: bool) -> HostRequest<Data> {
        let extent = Extent { volume: self.volume, lba, blocks: 1 };
        HostRequest::Write { extent, data: Data::zeros(&self.arena, 1), fua, handle: 0 }
    }

    fn chunks(&self) -> u64 {
        self.machine.engine.stats().chunks
    }
}

#[test]
fn writes_wait_in_memory_for_others_and_for_a_second_at_most() {
    let mut pool = Pool::new(true);
    let (before, began) = (pool.chunks(), pool.machine.now);
    for lba in 0..100 {
        let write = pool.write(lba, false);
        let id = pool.submit(write);
        assert!(pool.is_complete_at_once(id));
    }
    assert_eq!((pool.chunks(), pool.machine.disk.in_flight()), (before, 0), "they only wait");
    assert_eq!(pool.machine.engine.poll_timeout(), Some(Time(began.0 + MAX_STAGED_TIME.0)));
    assert!(pool.machine.turn(), "time passes");
    pool.machine.pump(&mut Vec::new());
    assert!(pool.chunks() > before, "then they go to media");
    assert!(pool.chunks() <= before + 7, "in few chunks, of 16 blocks at least");
    assert_eq!(pool.machine.engine.poll_timeout(), None);
}

#[test]
fn a_full_chunk_does_not_wait() {
    let mut pool = Pool::new(true);
    let before = pool.chunks();
    for lba in 0..BLOCKS {
        let write = pool.write(lba, false);
        pool.submit(write);
        pool.machine.pump(&mut Vec::new());
    }
    let stats = pool.machine.engine.stats();
    let per_chunk = stats.host_blocks_written / (stats.chunks - before);
    // Two chunks of 255 blocks in each unit.
    assert!(per_chunk > 150, "{per_chunk} blocks per chunk");
}

#[test]
fn a_flush_and_fua_take_what_waits_to_media() {
    let mut pool = Pool::new(true);
    for lba in 0..10 {
        let write = pool.write(lba, false);
        pool.submit(write);
    }
    pool.machine.pump(&mut Vec::new());
    let before = *pool.machine.engine.stats();
    pool.wait(HostRequest::Flush);
    let after = *pool.machine.engine.stats();
    assert_eq!(after.host_blocks_written - before.host_blocks_written, 10);
    assert!(after.flushes > before.flushes);
    let write = pool.write(20, true);
    let id = pool.submit(write);
    assert!(!pool.is_complete_at_once(id), "not before it is durable");
    assert!(pool.machine.engine.stats().host_blocks_written > after.host_blocks_written);
}

#[test]
fn what_is_written_again_in_memory_is_written_once() {
    let mut pool = Pool::new(true);
    for _ in 0..50 {
        let write = pool.write(7, false);
        pool.submit(write);
    }
    pool.wait(HostRequest::Flush);
    let stats = pool.machine.engine.stats();
    assert_eq!((stats.host_blocks_written, stats.absorbed_blocks), (1, 49));
}

#[test]
fn without_the_cache_a_write_completes_on_media() {
    let mut pool = Pool::new(false);
    let (write, before) = (pool.write(0, false), pool.chunks());
    let id = pool.submit(write);
    assert!(!pool.is_complete_at_once(id));
    assert_eq!(pool.chunks(), before + 1, "it is on its way at once");
    assert_eq!(pool.machine.engine.poll_timeout(), None);
}
