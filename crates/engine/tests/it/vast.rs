//! Pools of many terabytes with much less memory than their maps take.
//!
//! What the pool holds to begin with is made up when it is read: a volume that fills it, written once from its first
//! block to its last. `TERABYTES=122 cargo test --release -p thermocline-engine --test it vast` has a larger one.

use std::time::Instant;

use thermocline_engine::{Config, Engine, Extent, HostRequest, PageBytes};
use thermocline_format::{
    ChunkCause, ChunkHeader, ChunkOrigin, Entry, Epoch, Generation, Geometry, Location,
    LogicalBlock, MAX_LINES, METADATA, MapEntry, MapPage, PAGE_ENTRIES, PAGE_UNITS, PoolId,
    Revision, Sequence, Superblock, UnitEntry, UnitPage, Volume, VolumeId, VolumeMedia, VolumeName,
    crc32c, home_mark,
};
use thermocline_types::{Class, Lba, Rng, UnitId};

use crate::memory_device::{Base, Machine, MemoryDevice};

const VOLUME: VolumeId = VolumeId(1);
const POOL: PoolId = PoolId([7; 16]);
/// A zone of 1 GiB.
const PER_UNIT: u32 = 1 << 18;
const ROOT_UNIT: u32 = 2;
const PAGE_UNIT: u32 = 3;
/// Units at the beginning of the volume that are to hold little.
const TRIMMED: u64 = 32;
/// Bytes.
const MIB: u64 = 1 << 20;
const ENTRIES: u64 = MAX_LINES as u64;
const PAGE: u64 = PAGE_ENTRIES as u64;

/// What such a pool holds.
struct Full {
    geometry: Geometry,
    blocks: u64,
    /// Logical blocks in the header of a full chunk, and blocks of users in a unit.
    header: u32,
    per_unit: u64,
    data_unit: u32,
    /// Root pages, and behind them those of the unit table.
    roots: Vec<PageBytes>,
}

impl Full {
    fn new(blocks: u64) -> Full {
        let block = LogicalBlock::B4096;
        let header = block.chunk_header(MAX_LINES);
        let per_unit = u64::from(PER_UNIT / (header + MAX_LINES as u32)) * ENTRIES;
        let pages = blocks.div_ceil(PAGE);
        let data_unit = PAGE_UNIT + pages.div_ceil(PER_UNIT.into()) as u32;
        // A few that nothing is in, beside those that collection keeps free, and room for a second copy of every page.
        let units = data_unit + blocks.div_ceil(per_unit) as u32;
        let spare = units * given("SPARE_PERCENT", 0) as u32 / 100;
        let units = units + data_unit + 24 + (units / 256).clamp(4, 32) + spare;
        let geometry = Geometry::new(block, PER_UNIT, units, [0, 1].map(UnitId));
        let geometry = geometry.expect("sound units");
        let mut full = Full { geometry, blocks, header, per_unit, data_unit, roots: Vec::new() };
        for root in 0..Volume::roots_for(blocks) as u64 {
            let mut page = MapPage::unmapped();
            for (entry, number) in page.0.iter_mut().zip(root * PAGE..pages) {
                let crc = crc32c(full.map_page(number).as_slice());
                *entry = MapEntry::new(&geometry, full.place_of_page(number), crc);
            }
            full.roots.push(Box::new(page.encode()));
        }
        for first in (0..geometry.units()).step_by(PAGE_UNITS) {
            let mut page = UnitPage::free();
            for (entry, unit) in page.0.iter_mut().zip(first..geometry.units()) {
                *entry = full.unit(unit);
            }
            full.roots.push(Box::new(page.encode()));
        }
        full
    }

    fn place_of_page(&self, number: u64) -> Location {
        let per_unit = u64::from(PER_UNIT);
        Location::new(PAGE_UNIT + (number / per_unit) as u32, (number % per_unit) as u32)
    }

    fn place(&self, lba: u64) -> Location {
        let within = lba % self.per_unit;
        let chunk = (within / ENTRIES) as u32;
        let block = chunk * (self.header + MAX_LINES as u32) + self.header;
        Location::new(
            self.data_unit + (lba / self.per_unit) as u32,
            block + (within % ENTRIES) as u32,
        )
    }

    fn unit(&self, unit: u32) -> UnitEntry {
        let before = u64::from(unit.saturating_sub(self.data_unit)) * self.per_unit;
        let held = self.blocks.saturating_sub(before).min(self.per_unit) as u32;
        let generation = Generation(1);
        match unit {
            ..ROOT_UNIT => UnitEntry::FREE,
            _ if unit < self.data_unit => UnitEntry { generation, valid: 0, class: METADATA },
            _ if held == 0 => UnitEntry::FREE,
            _ => UnitEntry { generation, valid: held, class: Class(0) },
        }
    }

    /// The checksum of the bytes of every block is 0, as that of the unit type.
    fn map_page(&self, number: u64) -> PageBytes {
        let mut page = MapPage::unmapped();
        for (entry, lba) in page.0.iter_mut().zip(number * PAGE..self.blocks) {
            *entry = MapEntry::new(&self.geometry, self.place(lba), home_mark(VOLUME, Lba(lba)));
        }
        Box::new(page.encode())
    }
}

impl Base for Full {
    fn record(&self) -> Superblock {
        let pages = self.roots.iter().zip(0..).map(|(bytes, page)| {
            let place = Location::new(ROOT_UNIT, page);
            MapEntry::new(&self.geometry, place, crc32c(bytes.as_slice()))
        });
        let mut roots: Vec<MapEntry> = pages.collect();
        let unit_pages = roots.split_off(Volume::roots_for(self.blocks));
        let name = VolumeName::new("vast").expect("a short name");
        let volume = Volume {
            id: VOLUME,
            name,
            blocks: self.blocks,
            deleted: false,
            media: VolumeMedia::Auto,
            layer: None,
            roots,
        };
        Superblock {
            pool: POOL,
            location: Location::new(0, 0),
            revision: Revision(9),
            epoch: Epoch(3),
            tail_epoch: Epoch(3),
            tail_end: None,
            patches: 0,
            vain: 0,
            flushed: 0,
            snapshots: false,
            checkpoint: Sequence(1 << 40),
            clean: true,
            confirmed: false,
            geometry: self.geometry,
            next_generation: Generation(4 << 32),
            next_volume: VolumeId(2),
            volumes: vec![volume],
            open_units: Vec::new(),
            unit_pages,
        }
    }

    fn page(&self, at: Location) -> Option<PageBytes> {
        match at.unit.0 {
            ROOT_UNIT => self.roots.get(at.block as usize).cloned(),
            unit if (PAGE_UNIT..self.data_unit).contains(&unit) => {
                let before = u64::from(unit - PAGE_UNIT) * u64::from(PER_UNIT);
                Some(self.map_page(before + u64::from(at.block)))
            }
            _ => None,
        }
    }

    fn chunks(&self, unit: UnitId, within: std::ops::Range<u32>) -> Vec<ChunkHeader> {
        let held = self.unit(unit.0).valid;
        if unit.0 < self.data_unit || held == 0 {
            return Vec::new();
        }
        let first = u64::from(unit.0 - self.data_unit) * self.per_unit;
        let long = self.header + MAX_LINES as u32;
        let chunks = (within.start.div_ceil(long)..).take_while(|chunk| chunk * long < within.end);
        chunks
            .take_while(|chunk| chunk * (MAX_LINES as u32) < held)
            .map(|chunk| {
                let from = first + u64::from(chunk) * ENTRIES;
                let lbas = from..(from + ENTRIES).min(first + u64::from(held));
                let entry = |lba| {
                    let (volume, lba) = (VOLUME, Lba(lba));
                    Entry::Data { volume, lba, crc: home_mark(volume, lba) }
                };
                let origin = ChunkOrigin {
                    pool: POOL,
                    location: Location { unit, block: chunk * long },
                    generation: Generation(1),
                    epoch: Epoch(1),
                    sequence: Sequence(1 + from / ENTRIES),
                    durable: Sequence(0),
                    revision: Revision(1),
                    cause: ChunkCause::Host,
                    class: Class(0),
                };
                ChunkHeader::new(origin, lbas.map(entry).collect(), &self.geometry)
            })
            .collect()
    }
}

/// A pool, and how it is used.
struct Vast {
    machine: Machine,
    config: Config,
    blocks: u64,
    /// So many blocks at the beginning are to be trimmed for the most part.
    trimmed: u64,
    rng: Rng,
    begun: Instant,
}

impl Vast {
    fn ask(&mut self, request: HostRequest<()>) {
        self.machine.ask(request).expect("it is carried out");
    }

    fn write(&mut self, lba: u64, blocks: u64) {
        let extent = Extent { volume: VOLUME, lba, blocks };
        self.ask(HostRequest::Write { extent, data: (), fua: false, handle: 0 });
    }

    /// Reads and writes single blocks anywhere.
    fn scatter(&mut self, count: u64) {
        for _ in 0..count {
            // What is trimmed stays so: the pool is as full as can be.
            let lba = self.trimmed + self.rng.below(self.blocks - self.trimmed);
            self.write(lba, 1);
            let extent = Extent { volume: VOLUME, lba: self.rng.below(self.blocks), blocks: 1 };
            self.ask(HostRequest::Read { extent, into: () });
        }
        self.ask(HostRequest::Flush);
    }

    /// Overwrites single blocks anywhere, and says what of that went into pages of maps.
    fn overwrite(&mut self, count: u64) {
        let before = *self.machine.engine.stats();
        for _ in 0..count {
            let lba = self.trimmed + self.rng.below(self.blocks - self.trimmed);
            self.write(lba, 1);
        }
        self.ask(HostRequest::Flush);
        let stats = self.machine.engine.stats();
        println!(
            "{count} blocks overwritten: {:.3} pages of maps a block, {} checkpoints",
            (stats.map_pages_written - before.map_pages_written) as f64 / count as f64,
            stats.checkpoints - before.checkpoints,
        );
    }

    /// Sees that maps take no more memory than they may; says what was done until now.
    fn check(&mut self, done: &str) {
        let (most, budget) = (self.machine.most_map_memory, self.config.map_memory_bytes);
        let (stats, memory) = (*self.machine.engine.stats(), self.machine.engine.memory());
        println!(
            "{done}: {:.1} s, maps {} MiB and at most {} MiB of {}, units {} MiB, placement {} MiB, {} pages \
             loaded, {} evicted, \
             {} merged, {} checkpoints, {} units collected",
            self.begun.elapsed().as_secs_f64(),
            memory.maps >> 20,
            most >> 20,
            budget >> 20,
            memory.units >> 20,
            memory.placement >> 20,
            stats.pages_loaded,
            stats.pages_evicted,
            stats.pages_merged,
            stats.checkpoints,
            stats.gc_units,
        );
        assert!(most <= budget, "{most} bytes for maps, and the budget is {budget}");
        self.begun = Instant::now();
    }

    /// Goes on until nothing is left to do, loses power, and opens again.
    fn crash(mut self) -> Vast {
        self.machine.settle();
        let mapped = self.machine.mapped_blocks();
        let mut vast = self.restart();
        assert!(mapped.contains(&vast.machine.engine.mapped_blocks()), "not {mapped:?}");
        let (chunks, entries) = vast.machine.replayed();
        println!("replayed {entries} entries of {chunks} chunks");
        vast.check("opened after a crash");
        vast
    }

    /// The engine is dropped, and another one opens what the device holds.
    fn restart(self) -> Vast {
        let Vast { machine, config, .. } = self;
        let engine = Engine::open(config.clone(), 2).expect("it can work");
        let mut machine = Machine::new(engine, machine.device);
        machine.open();
        Vast { machine, config, ..self }
    }
}

/// A number from the environment.
fn given(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A pool that is open, of as many TB and with as much memory as the environment says, and its blocks in a unit.
fn opened() -> (Vast, u64) {
    let terabytes = given("TERABYTES", 1);
    // Whole chunks: what is made up knows no others.
    let blocks = terabytes * 1_000_000_000_000 / 4096 / ENTRIES * ENTRIES;
    let begun = Instant::now();
    let full = Full::new(blocks);
    println!("{terabytes} TB made up in {:.1} s", begun.elapsed().as_secs_f64());
    let (geometry, per_unit) = (full.geometry, full.per_unit);
    let mut config = Config::new(geometry);
    // One that remembers nothing of each block, unless another is named: of 1 TB that takes as much as the map may.
    let placement = std::env::var("PLACEMENT").unwrap_or("sepgc".to_owned());
    config.placement = placement.parse().expect("it is listed");
    // A 32nd of the map, beside what leads to its pages.
    let default = config.least_map_memory([blocks]) + blocks / 4 / MIB * MIB;
    config.map_memory_bytes = given("MEMORY_MIB", default / MIB) * MIB;
    config.checkpoint_bytes = given("CHECKPOINT_MIB", config.checkpoint_bytes / MIB) * MIB;
    config.tail_entries = given("TAIL_ENTRIES", config.tail_entries);
    let device = MemoryDevice::over(geometry, Box::new(full));
    let engine = Engine::open(config.clone(), 1).expect("it can work");
    let mut machine = Machine::new(engine, device);
    let begun = Instant::now();
    machine.open();
    let mut vast =
        Vast { machine, config, blocks, trimmed: TRIMMED * per_unit, rng: Rng::new(1), begun };
    assert_eq!(vast.machine.engine.mapped_blocks(), blocks);
    vast.check("opened");
    (vast, per_unit)
}

/// A few blocks are trimmed of many pages, and all of some, and again though nothing is there any more, as file systems
/// do. An opening needs to know what was there.
#[test]
fn trims_anywhere_take_no_more_memory_when_a_vast_pool_opens_after_a_crash() {
    let (mut vast, _) = opened();
    let (pages, count) = (vast.blocks / PAGE, given("TRIMS", 20_000));
    for round in 0..2 {
        for trim in 0..count {
            let page = trim * pages / count;
            let (first, blocks) =
                [(3, 1), (100, 6), (490, 22), (9, 2), (0, 512)][(trim % 5) as usize];
            let extent = Extent { volume: VOLUME, lba: page * PAGE + first, blocks };
            vast.ask(HostRequest::Trim { extent, fua: false });
        }
        vast.ask(HostRequest::Flush);
        vast.check(["trimmed", "trimmed again"][round]);
    }
    let mut vast = vast.crash();
    for _ in 0..1000 {
        let extent = Extent { volume: VOLUME, lba: vast.rng.below(vast.blocks), blocks: 1 };
        vast.ask(HostRequest::Read { extent, into: () });
    }
    vast.check("read");
}

#[test]
fn a_vast_pool_opens_serves_collects_and_opens_again_in_a_fraction_of_its_map() {
    let (mut vast, per_unit) = opened();
    let (blocks, count) = (vast.blocks, given("COUNT", 2000));
    vast.scatter(count);
    vast.check("read and written");
    // The first units hold little after that, so that collection has something to gain.
    let most = per_unit * 15 / 16;
    for unit in 0..TRIMMED {
        let extent = Extent { volume: VOLUME, lba: unit * per_unit, blocks: most };
        vast.ask(HostRequest::Trim { extent, fua: false });
    }
    vast.ask(HostRequest::Flush);
    vast.check("trimmed");
    let behind = (blocks - TRIMMED * per_unit) / ENTRIES;
    while vast.machine.engine.stats().gc_units < 4 {
        let chunk = vast.rng.below(behind);
        vast.write(TRIMMED * per_unit + chunk * ENTRIES, ENTRIES);
    }
    vast.check("collected");
    vast.scatter(count);
    vast.check("read and written again");
    vast.overwrite(given("OVERWRITES", count));
    vast.check("overwritten");
    let mut vast = vast.crash();
    vast.scatter(count / 4);
    let mapped = vast.machine.mapped_blocks();
    vast.ask(HostRequest::Close);
    vast.check("closed");
    let mut vast = vast.restart();
    assert!(mapped.contains(&vast.machine.engine.mapped_blocks()), "not {mapped:?}");
    vast.check("opened again");
    vast.scatter(count / 4);
    vast.check("read and written at last");
}
