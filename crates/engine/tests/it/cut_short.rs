//! Full pools of which the map is large beside what it maps: checkpoints take many units, and the power goes at the end
//! of one.

use thermocline_engine::RequestId;
use thermocline_engine::{Config, DeviceCmd, Engine, Extent, HostError, HostRequest, Reply};
use thermocline_format::{Geometry, LogicalBlock, PAGE_ENTRIES, VolumeId};
use thermocline_types::{Rng, Time, UnitId};

use crate::memory_device::{Machine, MemoryDevice};

const PAGE: u64 = PAGE_ENTRIES as u64;

/// A pool with one volume, a few blocks of each page of which are mapped.
struct Pool {
    config: Config,
    machine: Machine,
    volume: VolumeId,
    pages: u64,
    per_page: u64,
    rng: Rng,
}

impl Pool {
    /// A pool that is as full as can be.
    fn full(seed: u64) -> Pool {
        let mut rng = Rng::new(seed);
        let pages = 1000 + rng.below(1500);
        let geometry = Geometry::new(LogicalBlock::B4096, 64, 400, [0, 1].map(UnitId));
        let mut config = Config::new(geometry.expect("sound units"));
        config.placement = "sepgc".parse().expect("it is listed");
        config.checkpoint_bytes = 2_000_000 + rng.below(12_000_000);
        config.write_cache = rng.below(2) == 0;
        let mut machine = Machine::format(&config);
        let volume = machine.create("a", pages * PAGE);
        let mut pool = Pool { config, machine, volume, pages, per_page: 0, rng };
        loop {
            for page in 0..pages {
                let write = pool.write(page * PAGE + pool.per_page);
                match pool.machine.ask(write) {
                    Ok(_) => {}
                    Err(HostError::NoSpace) => return pool,
                    Err(error) => panic!("{error:?}"),
                }
            }
            pool.per_page += 1;
        }
    }

    fn write(&self, lba: u64) -> HostRequest<()> {
        let extent = Extent { volume: self.volume, lba, blocks: 1 };
        HostRequest::Write { extent, data: (), fua: false, handle: 0 }
    }

    /// Overwrites a block.
    fn overwrite(&mut self) -> HostRequest<()> {
        let (page, block) = (self.rng.below(self.pages), self.rng.below(self.per_page));
        self.write(page * PAGE + block)
    }

    fn overwrite_many(&mut self, count: u64) {
        for _ in 0..count {
            let write = self.overwrite();
            assert_eq!(self.machine.ask(write), Ok(Reply::Done), "what is there has room");
        }
        assert_eq!(self.machine.ask(HostRequest::Flush), Ok(Reply::Done));
    }

    /// Writes until nothing more is taken, with these commands on their way for ever.
    fn overwrite_without(&mut self, held: impl Fn(&DeviceCmd<()>) -> bool + 'static, count: u64) {
        self.machine.held = Box::new(held);
        for number in 0..count {
            let (id, write) = (RequestId(1 << 32 | number), self.overwrite());
            if self.machine.engine.submit(Time::ZERO, id, write).is_err() {
                return;
            }
            self.machine.settle();
        }
    }

    /// Goes on for some steps without a record, and loses power.
    fn cut_short(mut self) -> Pool {
        self.machine.held = Box::new(|cmd| matches!(cmd, DeviceCmd::WriteSuperblock(_)));
        for _ in 0..self.rng.below(3000) {
            self.machine.step();
        }
        let engine = Engine::open(self.config.clone(), 2).expect("it can work");
        let mut machine = Machine::new(engine, self.machine.device);
        machine.open();
        Pool { machine, ..self }
    }
}

#[test]
fn a_full_pool_is_written_on_after_the_power_went_at_the_end_of_checkpoints() {
    for seed in 0..30 {
        let mut pool = Pool::full(seed);
        let count = 8000 + pool.rng.below(8000);
        pool.overwrite_many(count);
        // Collection is slow, so that few units are free when a checkpoint begins.
        let reads =
            |cmd: &DeviceCmd<()>| matches!(cmd, DeviceCmd::ReadChunks(_) | DeviceCmd::Read { .. });
        let slow = seed % 3 > 0;
        pool.overwrite_without(move |cmd| slow && reads(cmd), 8000);
        for _ in 0..1 + seed % 3 {
            pool = pool.cut_short();
        }
        pool.overwrite_many(300);
        pool.machine.settle();
        let device: &MemoryDevice = &pool.machine.device;
        assert_eq!(pool.machine.engine.miscounted(|at| device.page(at)), None, "seed {seed}");
    }
}
