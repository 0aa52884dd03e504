//! Maps that are many times larger than the memory for them.

use std::collections::BTreeSet;

use thermocline_engine::{Config, Engine, Extent, HostError, HostRequest, OpenError, Reply};
use thermocline_format::{Geometry, LogicalBlock, PAGE_ENTRIES, VolumeId};
use thermocline_types::{Rng, UnitId};

use crate::memory_device::{Machine, MemoryDevice};

const PAGE: u64 = PAGE_ENTRIES as u64;
const BLOCKS: u64 = 96 * PAGE;

/// Pages for which there is the least memory.
const LEAST_PAGES: u64 = 72;

/// A pool with the least memory for two volumes of 96 pages.
fn config() -> Config {
    let geometry = Geometry::new(LogicalBlock::B4096, 64, 300, [0, 1].map(UnitId));
    let mut config = Config::new(geometry.expect("sound units"));
    config.placement = "sepgc".parse().expect("it is listed");
    config.map_memory_bytes = config.least_map_memory([BLOCKS, BLOCKS]);
    config
}

/// A pool, and which blocks of it are mapped.
struct Pool {
    config: Config,
    machine: Machine,
    mapped: BTreeSet<(VolumeId, u64)>,
    rng: Rng,
}

impl Pool {
    fn new() -> Pool {
        let config = config();
        let machine = Machine::format(&config);
        Pool { config, machine, mapped: BTreeSet::new(), rng: Rng::new(1) }
    }

    /// Writes `count` times a block of any page of the volume, one of the first 150 of each.
    fn scatter(&mut self, volume: VolumeId, blocks: u64, count: u64) {
        for _ in 0..count {
            let lba = self.rng.below(blocks / PAGE) * PAGE + self.rng.below(150);
            let extent = Extent { volume, lba, blocks: 1 };
            let write = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
            self.machine.ask(write).expect("there is room");
            self.mapped.insert((volume, extent.lba));
        }
        self.machine.ask(HostRequest::Flush).expect("it is flushed");
    }

    fn trim(&mut self, volume: VolumeId, lba: u64, blocks: u64) {
        let extent = Extent { volume, lba, blocks };
        self.machine.ask(HostRequest::Trim { extent, fua: true }).expect("it is trimmed");
        self.mapped.retain(|&(of, at)| of != volume || !(lba..lba + blocks).contains(&at));
    }

    /// The engine is dropped, and another one opens what the device holds.
    fn crash(self) -> Pool {
        let engine = Engine::open(self.config.clone(), 2).expect("it can work");
        let mut machine = Machine::new(engine, self.machine.device);
        machine.open();
        Pool { machine, ..self }
    }

    /// Sees that units are counted right, and that what is mapped is.
    fn check(&mut self) {
        self.machine.settle();
        let (counted, mapped) = (self.machine.mapped_blocks(), self.mapped.len() as u64);
        assert!(counted.contains(&mapped), "{mapped} blocks are mapped, and not {counted:?}");
        let device: &MemoryDevice = &self.machine.device;
        assert_eq!(self.machine.engine.miscounted(|at| device.page(at)), None);
    }

    fn within_budget(&self) {
        let (most, budget) = (self.machine.most_map_memory, self.config.map_memory_bytes);
        assert!(most <= budget, "{most} bytes for maps, and the budget is {budget}");
    }
}

#[test]
fn with_the_least_memory_a_pool_writes_collects_trims_scrubs_resizes_deletes_and_opens_again() {
    let mut pool = Pool::new();
    let (first, second) = (pool.machine.create("a", BLOCKS), pool.machine.create("b", BLOCKS));
    pool.scatter(first, BLOCKS, 4000);
    pool.scatter(second, BLOCKS, 1000);
    pool.scatter(first, BLOCKS, 20_000);
    let stats = *pool.machine.engine.stats();
    assert!(stats.gc_units > 10 && stats.relocated_blocks > 100, "{stats:?}");
    assert!(stats.pages_evicted > 100 && stats.pages_merged > 1000, "{stats:?}");
    pool.trim(first, BLOCKS / 3 + 7, BLOCKS / 3);
    pool.scatter(first, BLOCKS, 500);
    pool.check();
    pool.within_budget();
    // A scrub compares what is on media.
    pool.machine.ask(HostRequest::Flush).expect("it is flushed");
    let scrubbed = pool.machine.ask(HostRequest::Scrub);
    let Ok(Reply::Scrubbed { blocks, damaged, .. }) = scrubbed else { panic!("{scrubbed:?}") };
    assert!(blocks >= pool.mapped.len() as u64, "{blocks} blocks were compared");
    // Only pages of maps have bytes here, and no read gives them to a scrub.
    assert!(damaged <= blocks - pool.mapped.len() as u64, "{damaged} of {blocks} are damaged");
    pool.machine.ask(HostRequest::DeleteVolume { volume: second }).expect("it is deleted");
    pool.mapped.retain(|(volume, _)| *volume != second);
    let half = BLOCKS / 2 + 1;
    let resize = HostRequest::ResizeVolume { volume: first, blocks: half };
    pool.machine.ask(resize).expect("it is made smaller");
    pool.mapped.retain(|(_, lba)| *lba < half);
    pool.check();
    pool.within_budget();
    let third = pool.machine.create("c", BLOCKS);
    pool.scatter(third, BLOCKS, 500);
    let mut pool = pool.crash();
    pool.check();
    pool.scatter(third, BLOCKS, 3000);
    pool.check();
    pool.machine.ask(HostRequest::Close).expect("it closes");
}

#[test]
fn a_pool_that_crashed_while_it_was_written_is_opened_within_the_memory_that_it_had() {
    let mut pool = Pool::new();
    let (volume, _) = (pool.machine.create("a", BLOCKS), pool.machine.create("b", 1));
    let mut checkpoints = BTreeSet::new();
    for round in 0..40 {
        pool.scatter(volume, BLOCKS, 97 + round);
        checkpoints.insert(pool.machine.engine.stats().checkpoints);
        pool.machine.ask(HostRequest::Flush).expect("it is flushed");
        // Somewhere between two checkpoints, or within one.
        (0..round).for_each(|_| _ = pool.machine.step());
        pool = pool.crash();
        pool.within_budget();
        pool.check();
    }
    assert!(checkpoints.len() > 3, "{checkpoints:?}");
}

/// Within the budget, and as much memory for pages again; and within the budget when what was replayed is safe.
fn opened_within_twice_the_pages(pool: &mut Pool) {
    let budget = pool.config.map_memory_bytes;
    let (most, bound) = (pool.machine.most_map_memory, budget + LEAST_PAGES * 4096);
    assert!(most <= bound, "{most} bytes for maps, and the bound is {bound}");
    pool.machine.settle();
    let (maps, bound) = (pool.machine.engine.memory().maps, pool.machine.engine.map_memory_bound());
    assert!(maps <= budget && bound <= budget, "{maps} bytes for maps, and the budget is {budget}");
}

#[test]
fn a_trim_or_deletion_of_many_more_pages_than_fit_is_replayed_in_memory_for_twice_as_many_as_fit() {
    for deletes in [false, true] {
        let mut pool = Pool::new();
        pool.config.map_memory_bytes = pool.config.least_map_memory([1, 1200 * PAGE]);
        pool.machine = Machine::format(&pool.config);
        let small = pool.machine.create("a", PAGE);
        let large = pool.machine.create("b", 1200 * PAGE);
        for page in 0..1200 {
            let extent = Extent { volume: large, lba: page * PAGE, blocks: 1 };
            let write = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
            pool.machine.ask(write).expect("there is room");
            pool.mapped.insert((large, extent.lba));
        }
        pool.machine.ask(HostRequest::Flush).expect("it is flushed");
        pool.machine.settle();
        if deletes {
            let delete = HostRequest::DeleteVolume { volume: large };
            pool.machine.ask(delete).expect("it is deleted");
            pool.mapped.clear();
        } else {
            pool.trim(large, 0, 1200 * PAGE);
        }
        // What goes on meanwhile, until much of it is logged.
        for _ in 0..3000 {
            pool.machine.step();
        }
        pool.scatter(small, PAGE, 1);
        pool.within_budget();
        let mut pool = pool.crash();
        opened_within_twice_the_pages(&mut pool);
        pool.check();
    }
}

#[test]
fn an_opening_with_less_memory_than_the_pool_had_gives_back_what_it_took_beyond_it() {
    let mut pool = Pool::new();
    let budget = pool.config.map_memory_bytes;
    pool.config.map_memory_bytes = 1 << 30;
    pool.machine = Machine::format(&pool.config);
    let (first, second) = (pool.machine.create("a", BLOCKS), pool.machine.create("b", BLOCKS));
    pool.scatter(first, BLOCKS, 600);
    pool.scatter(second, BLOCKS, 600);
    pool.config.map_memory_bytes = budget;
    let mut pool = pool.crash();
    let most = pool.machine.most_map_memory;
    assert!(most > budget, "the tail touches more pages than fit: {most} bytes");
    pool.machine.settle();
    pool.machine.most_map_memory = 0;
    pool.scatter(first, BLOCKS, 1000);
    pool.within_budget();
    pool.check();
}

/// Nothing else goes on in such a pool: the scrub itself must see to it that it goes on when a page has come.
#[test]
fn a_pool_that_takes_no_writes_any_more_is_scrubbed_to_the_end() {
    let mut pool = Pool::new();
    let volume = pool.machine.create("a", BLOCKS);
    pool.scatter(volume, BLOCKS, 4000);
    pool.machine.settle();
    pool.machine.device.failing_control = u32::MAX;
    let extent = Extent { volume, lba: 0, blocks: 1 };
    let trimmed = pool.machine.ask(HostRequest::Trim { extent, fua: true });
    assert_eq!(trimmed, Err(HostError::Failed));
    pool.machine.settle();
    let scrubbed = pool.machine.ask(HostRequest::Scrub);
    let Ok(Reply::Scrubbed { blocks, .. }) = scrubbed else { panic!("{scrubbed:?}") };
    assert!(blocks > 1000, "{blocks} blocks were compared");
}

#[test]
fn less_memory_than_the_least_is_refused_with_what_is_needed() {
    let config = config();
    let mut machine = Machine::format(&config);
    let _ = (machine.create("a", BLOCKS), machine.create("b", BLOCKS));
    let name = thermocline_format::VolumeName::new("c").expect("a name");
    let third = machine.ask(HostRequest::CreateVolume { name, blocks: 1 });
    let (budget, needed) = (config.map_memory_bytes, config.least_map_memory([BLOCKS, BLOCKS, 1]));
    assert_eq!(third, Err(HostError::NoMemory { needed, budget }));
    machine.ask(HostRequest::Close).expect("it closes");
    let mut less = config;
    less.map_memory_bytes -= 1;
    let engine: Engine<()> = Engine::open(less.clone(), 1).expect("it can work");
    let mut machine = Machine::new(engine, machine.device);
    while machine.opened.is_none() {
        assert!(machine.step(), "opening comes to nothing");
    }
    let (needed, budget) = (budget, less.map_memory_bytes);
    let refused = thermocline_engine::Notice::OpenFailed(OpenError::NoMemory { needed, budget });
    assert_eq!(machine.opened, Some(refused));
}

/// An opening meets the volumes that went since the last checkpoint beside those that came: there is memory for both.
#[test]
fn a_volume_takes_the_place_of_another_only_when_no_opening_needs_both() {
    let config = config();
    let mut machine = Machine::format(&config);
    machine.create("one", BLOCKS);
    let volume = machine.create("two", BLOCKS);
    machine.ask(HostRequest::Close).expect("it can be closed");
    let mut machine =
        Machine::new(Engine::open(config.clone(), 1).expect("it can work"), machine.device);
    machine.open();
    machine.ask(HostRequest::DeleteVolume { volume }).expect("it is deleted");
    machine.settle();
    let name = thermocline_format::VolumeName::new("three").expect("a name");
    let create = || HostRequest::CreateVolume { name: name.clone(), blocks: BLOCKS };
    let refused = machine.ask(create());
    assert!(matches!(refused, Err(HostError::NoMemory { .. })), "{refused:?}");
    // A checkpoint is taken for it.
    machine.settle();
    machine.ask(create()).expect("there is memory now");
    for seed in 2..4 {
        machine =
            Machine::new(Engine::open(config.clone(), seed).expect("it can work"), machine.device);
        machine.open();
        machine.settle();
        assert_eq!(machine.engine.volumes().len(), 2);
    }
}
