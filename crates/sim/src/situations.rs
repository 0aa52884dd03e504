//! Rare situations made common: settings for bugs that a general mix hardly ever finds.
//!
//! Each situation comes from a deliberate bug that was not caught. The settings bring together the conditions under
//! which the bug shows. The model judges the outcome, as in every other world.

use std::str::FromStr;

use thermocline_engine::{Config, DeviceError, MAX_IO_BLOCKS};
use thermocline_format::{Geometry, LogicalBlock, MediaClass, PAGE_ENTRIES};
use thermocline_ftl::placement::Policy;
use thermocline_ftl::victim::Victim;
use thermocline_types::{Rng, Time, UnitId};

use crate::disk::{DiskKind, DiskShape, Latency};
use crate::enumerate::{Budget, Report, enumerate_faulty};
use crate::faults::{CommandKind, Fault, Rule};
use crate::settings::{Scale, Settings, geometry};
use crate::wrong::Wrong;

/// Random crash states of each point. Few states of many points: a bug shows in any state, but only briefly.
const PER_POINT: u64 = 1;

impl FromStr for Situation {
    type Err = String;

    /// Parses a name, or an unambiguous prefix of a name.
    fn from_str(word: &str) -> Result<Situation, String> {
        let mut fitting = Situation::ALL.into_iter().filter(|one| one.name().starts_with(word));
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => Ok(one),
            _ => {
                let names: Vec<_> = Situation::ALL.iter().map(|one| one.name()).collect();
                Err(format!("`{word}` is no situation: one of {}", names.join(", ")))
            }
        }
    }
}

/// A situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Situation {
    /// A full pool of many small volumes, with one checkpoint after the other: blocks wait for room in memory while
    /// garbage collection moves what they replace, and little else changes in their pages of the map.
    Crowded,
    /// Large units and large writes, many of which fail: between sound chunks there are holes longer than recovery
    /// looks across.
    LongHoles,
    /// As long holes, but failures are reported late, long after the writes behind the hole.
    LateFailures,
    /// The same few blocks again and again, each write durable at completion, on a device that fails some and takes
    /// long for others: a block is on its way more than once when one of its writes fails.
    Rewrites,
    /// A nearly full pool. Relocated copies share units with host data, fail late, and are followed by flushes.
    FailingCopies,
    /// Mostly trims, and few checkpoints: units fill up with control entries alone.
    Trims,
    /// Volumes that promise much more than the pool holds, closed and opened again and again, on a device that fails
    /// to read now and then: requests meet pages of maps that are not loaded, or cannot be.
    Sparse,
    /// Reads that take much longer than all else, of blocks that are written over and over: their units die, are reset
    /// and written again meanwhile.
    SlowReads,
    /// Volumes with many times as many pages of maps as there is memory for.
    Paged,
    /// Volumes that are to stay on fast devices, in units of more blocks than collection places at once.
    Staying,
    /// A full pool whose host writes on after each crash, until power fails again before recovery has ended.
    CrashOnCrash,
    /// Devices that are attached, drained and detached at one opening after the other.
    Changing,
    /// Devices that are mirrored pairs and striped groups, one member of which is wrong.
    Members,
    /// The same, with a second fault of that member in half of the worlds. Some of these worlds fail: see TESTING.
    TwiceWrong,
    /// Volumes that promise more than the pool holds, with room reserved for every second one.
    Reserved,
    /// Volumes that get one name after the other, while writes fail.
    Renaming,
    /// Snapshots that are made, read and deleted while their volumes are written and trimmed: in one of four worlds in
    /// a nearly full pool, in another with little memory for maps.
    Snapshots,
    /// The same, while writes fail.
    FailingSnapshots,
    /// 100,000 units, and sparse volumes of several roots. A state takes a hundred times as long as elsewhere.
    ManyUnits,
}

impl Situation {
    /// All of them.
    pub const ALL: [Situation; 19] = [
        Situation::Crowded,
        Situation::LongHoles,
        Situation::LateFailures,
        Situation::Rewrites,
        Situation::FailingCopies,
        Situation::Trims,
        Situation::Sparse,
        Situation::SlowReads,
        Situation::Paged,
        Situation::Staying,
        Situation::CrashOnCrash,
        Situation::Changing,
        Situation::Members,
        Situation::TwiceWrong,
        Situation::Reserved,
        Situation::Renaming,
        Situation::Snapshots,
        Situation::FailingSnapshots,
        Situation::ManyUnits,
    ];

    /// Whether tests of the simulation look at it: not where a state takes long, or some states are known to fail.
    #[must_use]
    pub fn is_tested(self) -> bool {
        !matches!(self, Situation::ManyUnits | Situation::TwiceWrong)
    }

    /// As reports call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Situation::Crowded => "crowded pool",
            Situation::LongHoles => "long holes",
            Situation::LateFailures => "late failures",
            Situation::Rewrites => "rewrites",
            Situation::FailingCopies => "failing copies",
            Situation::Trims => "mostly trims",
            Situation::Sparse => "sparse volumes",
            Situation::SlowReads => "slow reads",
            Situation::Paged => "paged maps",
            Situation::Staying => "fast volumes",
            Situation::CrashOnCrash => "crash on crash",
            Situation::Changing => "changing devices",
            Situation::Members => "wrong member",
            Situation::TwiceWrong => "twice wrong member",
            Situation::Reserved => "reserved room",
            Situation::Renaming => "new names",
            Situation::Snapshots => "snapshots",
            Situation::FailingSnapshots => "failing snapshots",
            Situation::ManyUnits => "100,000 units",
        }
    }

    /// The settings that `seed` draws.
    #[must_use]
    pub fn settings(self, seed: u64) -> Settings {
        let mut rng = Rng::new(seed ^ 0x51_7A71);
        match self {
            Situation::Crowded => crowded(seed, &mut rng),
            Situation::LongHoles => long_holes(seed, &mut rng),
            Situation::LateFailures => late_failures(seed, &mut rng),
            Situation::Rewrites => rewrites(seed, &mut rng),
            Situation::FailingCopies => failing_copies(seed, &mut rng),
            Situation::Trims => trims(seed, &mut rng),
            Situation::Sparse => sparse(seed),
            Situation::SlowReads => slow_reads(seed, &mut rng),
            Situation::Paged => paged(seed, &mut rng),
            Situation::Staying => staying(seed, &mut rng),
            Situation::CrashOnCrash => crash_on_crash(seed, &mut rng),
            Situation::Changing => changing(seed, &mut rng),
            Situation::Members => {
                let settings = members(seed, &mut rng);
                let wrong = settings.wrong.map(|wrong| Wrong { also: None, ..wrong });
                Settings { wrong, ..settings }
            }
            Situation::TwiceWrong => members(seed, &mut rng),
            Situation::Reserved => reserved(seed),
            Situation::Renaming => renaming(seed),
            Situation::Snapshots | Situation::FailingSnapshots => snapshots(seed, &mut rng),
            Situation::ManyUnits => many_units(seed, &mut rng),
        }
    }

    /// Which commands fail.
    #[must_use]
    pub fn rules(self, seed: u64) -> Vec<Rule> {
        match self {
            Situation::LongHoles => {
                let faults = [Fault::Fail(DeviceError::Io), Fault::FailTorn(DeviceError::Io)];
                let fault = faults[seed as usize % 2];
                vec![Rule { one_in: 3, ..Rule::from_then_on(0, CommandKind::WriteChunk, fault) }]
            }
            Situation::LateFailures => {
                let fault = Fault::FailLate(DeviceError::Io);
                vec![Rule { one_in: 3, ..Rule::from_then_on(0, CommandKind::WriteChunk, fault) }]
            }
            Situation::Rewrites | Situation::FailingCopies | Situation::Renaming => {
                let io = DeviceError::Io;
                let fault = [Fault::Fail(io), Fault::FailLate(io)][seed as usize % 2];
                vec![Rule { one_in: 4, ..Rule::from_then_on(0, CommandKind::WriteChunk, fault) }]
            }
            Situation::FailingSnapshots => {
                let io = DeviceError::Io;
                let fault = [Fault::Fail(io), Fault::FailLate(io)][seed as usize % 2];
                vec![Rule { one_in: 8, ..Rule::from_then_on(0, CommandKind::WriteChunk, fault) }]
            }
            Situation::Sparse => {
                let kind = [CommandKind::Read, CommandKind::WriteChunk][seed as usize % 2];
                let fault = Fault::Fail(DeviceError::Io);
                vec![Rule { one_in: 12, ..Rule::from_then_on(20, kind, fault) }]
            }
            Situation::Paged if seed % 4 == 1 => {
                let kind = [CommandKind::Read, CommandKind::WriteChunk][seed as usize / 4 % 2];
                let fault = Fault::Fail(DeviceError::Io);
                vec![Rule { one_in: 20, ..Rule::from_then_on(20, kind, fault) }]
            }
            // Now and then no page can be read for a while, longer than one checkpoint tries to, or two.
            Situation::Paged if seed % 4 == 3 && seed % 16 != 3 => {
                let fault = Fault::Fail(DeviceError::Io);
                let (first, length) = (100 + seed % 64 * 4, 200 << (seed / 4 % 3));
                let window = |count| {
                    let first = first + count * (length + 150);
                    let kind = Some(CommandKind::Read);
                    Rule { kind, first, end: first + length, one_in: 1, fault }
                };
                let kind = CommandKind::WriteChunk;
                // Pages whose write fails are written once more, when others may be readable.
                let writes = Rule { one_in: 12, ..Rule::from_then_on(20, kind, fault) };
                (0..8).map(window).chain([writes]).collect()
            }
            Situation::Paged if seed % 16 == 3 => {
                let fault = Fault::FailForgotten(DeviceError::Io);
                vec![Rule { one_in: 40, ..Rule::from_then_on(20, CommandKind::Flush, fault) }]
            }
            _ => Vec::new(),
        }
    }

    /// Looks at up to `states` crash states of a world with these settings: a few at each of its points.
    #[must_use]
    pub fn look(self, seed: u64, settings: Settings, states: u64) -> Report {
        let budget = Budget { states, failures: 1, per_point: None, only: None };
        self.enumerate(seed, settings, &budget)
    }

    /// As [`Situation::look`], as far as `budget` goes.
    #[must_use]
    pub fn enumerate(self, seed: u64, settings: Settings, budget: &Budget) -> Report {
        let budget = Budget { per_point: Some(PER_POINT), ..*budget };
        enumerate_faulty(seed, settings, self.rules(seed), &budget)
    }
}

/// Pools with mirrors, of those whose devices are groups: one in so many.
const MIRRORS_ONE_IN: u64 = 3;

fn members(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    if settings.media.is_zoned() {
        // As many active zones as anybody wants.
        settings.config.max_open_units = Config::new(settings.config.geometry).max_open_units;
    }
    settings.group_devices(rng, seed.is_multiple_of(MIRRORS_ONE_IN));
    settings
}

fn reserved(seed: u64) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    // A page of the map that has to leave memory is no part of this.
    settings.config.map_memory_bytes = 64 << 20;
    settings.mix.weights = [100, 8, 4, 4, 12, 1, 1, 1, 0];
    settings.mix.total_blocks = settings.config.capacity_blocks(0) * 2;
    settings.mix.most_volumes = 4;
    settings.mix.least_blocks = 8;
    settings.mix.most_blocks = 64;
    settings.mix.hot_blocks = u64::MAX;
    settings.requests = 400;
    settings.reserves = true;
    settings
}

fn renaming(seed: u64) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    settings.mix.weights = [100, 4, 4, 10, 4, 4, 4, 1, 0];
    settings.mix.most_volumes = 3;
    settings.mix.most_blocks = 16;
    settings.mix.rename_one_in = 6;
    settings.requests = 300;
    settings
}

fn snapshots(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    settings.mix.weights = [100, 25, 10, 20, 2, 2, 4, 2, 1];
    settings.mix.most_volumes = 1 + rng.below(2) as usize;
    settings.mix.most_blocks = [1, 8, 32][rng.below(3) as usize];
    settings.mix.hot_blocks = u64::MAX;
    settings.mix.snapshots_one_in = 6 + rng.below(20);
    settings.mix.rename_one_in = 60;
    settings.config.lift_beyond = 1 + rng.below(6) as u32;
    settings.config.most_layers = settings.config.lift_beyond + rng.below(12) as u32;
    let capacity = settings.config.capacity_blocks(0);
    let share = if seed % 4 == 1 { 60 + rng.below(40) } else { 10 + rng.below(30) };
    settings.mix.total_blocks = (capacity * share / 100).max(16);
    if seed % 4 == 2 {
        settings.spread(rng);
    } else {
        settings.config.map_memory_bytes = 64 << 20;
    }
    settings.depth = 1 + rng.below(8) as usize;
    settings.requests = 400;
    settings
}

fn crowded(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    // On a device that keeps old bytes a block can be read long after its unit was reset.
    settings.media.kind = [DiskKind::Discarding, DiskKind::Zoned][rng.below(2) as usize];
    settings.config.checkpoint_bytes = 16 << 10 << rng.below(3);
    settings.config.gc.victim = [Victim::Fifo, Victim::Choices { d: 1 }][rng.below(2) as usize];
    settings.config.max_staged_blocks = 4 * MAX_IO_BLOCKS as u32;
    settings.mix.weights = [100, 0, 0, 4, 20, 0, 0, 0, 0];
    settings.mix.most_volumes = 12;
    settings.mix.most_blocks = 32;
    settings.mix.hot_blocks = u64::MAX;
    settings.depth = 16;
    settings.requests = 250;
    settings
}

fn long_holes(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    let per_unit = (4 << 20) / LogicalBlock::B4096.bytes() as u32;
    let geometry = Geometry::new(LogicalBlock::B4096, per_unit, 24, [0, 1].map(UnitId))
        .expect("units of 4 MiB, and enough of them");
    // Not zoned: a zone takes no writes behind a failed write.
    let kind = [DiskKind::Keeping, DiskKind::Discarding][rng.below(2) as usize];
    settings.media = DiskShape { geometry, kind };
    settings.config.geometry = geometry;
    settings.config.write_depth = 4;
    // Chunks are on their way at once, and all to one unit.
    settings.config.write_cache = false;
    settings.config.placement = "none".parse::<Policy>().expect("it is listed");
    settings.config.checkpoint_bytes = 64 << 20;
    settings.mix.weights = [100, 0, 0, 10, 1, 0, 0, 0, 0];
    settings.mix.most_volumes = 1;
    settings.mix.most_blocks = MAX_IO_BLOCKS;
    settings.mix.total_blocks = 4000;
    settings.mix.hot_blocks = u64::MAX;
    settings.depth = 12;
    settings.requests = 80;
    settings
}

fn late_failures(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = long_holes(seed, rng);
    // Two that fail one behind the other leave a hole longer than recovery looks across.
    settings.mix.least_blocks = MAX_IO_BLOCKS / 2 + 8;
    settings.latency.spike_one_in = 0;
    settings
}

fn rewrites(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    settings.media.kind = [DiskKind::Keeping, DiskKind::Discarding][rng.below(2) as usize];
    settings.latency.spike_one_in = 6;
    settings.config.write_depth = 4;
    settings.config.write_cache = rng.below(2) == 0;
    settings.mix.weights = [100, 4, 4, 20, 0, 0, 0, 0, 0];
    settings.mix.most_volumes = 1;
    settings.mix.most_blocks = 1 + rng.below(4);
    settings.mix.fua_one_in = 1 + rng.below(3);
    settings.mix.hot_blocks = 1 + rng.below(6);
    settings.depth = 16;
    settings.requests = 300;
    settings
}

fn failing_copies(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    settings.media.kind = [DiskKind::Keeping, DiskKind::Discarding][rng.below(2) as usize];
    settings.latency.spike_one_in = 4 + rng.below(9);
    settings.config.placement = "none".parse::<Policy>().expect("it is listed");
    settings.config.write_depth = 8;
    settings.mix.weights = [100, 0, 2, 40, 0, 0, 0, 0, 0];
    settings.mix.most_volumes = 1;
    settings.mix.most_blocks = 8;
    settings.mix.hot_blocks = u64::MAX;
    settings.depth = 8;
    settings.requests = 500;
    settings
}

fn trims(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    let geometry = settings.media.geometry;
    let unit_bytes =
        u64::from(geometry.blocks_per_unit()) * geometry.logical_block().bytes() as u64;
    settings.config.checkpoint_bytes = unit_bytes * (16 + rng.below(32));
    settings.mix.weights = [100, 400, 0, 40, 1, 0, 0, 0, 0];
    settings.mix.most_volumes = 1 + rng.below(2) as usize;
    settings.mix.most_blocks = 16;
    settings.mix.hot_blocks = u64::MAX;
    settings.depth = 1 + rng.below(4) as usize;
    settings.requests = 800;
    settings
}

fn sparse(seed: u64) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    settings.mix.weights = [100, 40, 30, 10, 6, 8, 6, 12, 1];
    settings.mix.most_volumes = 3;
    settings.mix.most_blocks = 4;
    settings.mix.total_blocks = 20 * PAGE_ENTRIES as u64;
    settings.mix.hot_blocks = u64::MAX;
    settings.depth = 16;
    settings.requests = 300;
    settings
}

fn slow_reads(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    // On a device that keeps old bytes a block can be read long after its unit was reset.
    settings.media.kind = [DiskKind::Discarding, DiskKind::Zoned][rng.below(2) as usize];
    let (write, flush) = (Time::micros(1 + rng.below(10)), Time::micros(1 + rng.below(10)));
    let read = Time::micros(1000 << rng.below(6));
    settings.latency = Latency { write, read, flush, spike_one_in: 0 };
    settings.config.write_cache = false;
    settings.config.placement = "none".parse::<Policy>().expect("it is listed");
    settings.mix.weights = [100, 2, 60, 20, 0, 0, 0, 0, 0];
    settings.mix.most_volumes = 1;
    settings.mix.most_blocks = 8;
    settings.mix.total_blocks = 32 << rng.below(3);
    settings.mix.hot_blocks = u64::MAX;
    settings.depth = 16;
    settings.requests = 1500;
    settings
}

fn paged(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    settings.spread(rng);
    settings.mix.weights = [100, 30, 40, 10, 2, 2, 2, 2, 2];
    settings.requests = 600;
    if seed.is_multiple_of(2) {
        // Blocks are collected that were overwritten in pages that no checkpoint has written since.
        settings.config.checkpoint_bytes = 64 << 20;
        settings.mix.weights = [100, 10, 5, 10, 1, 1, 1, 2, 2];
        settings.mix.hot_stride = 61;
        settings.requests = 1500;
    }
    if seed % 4 == 3 {
        settings.config.checkpoint_bytes = 1 << (17 + rng.below(3));
    }
    settings
}

fn staying(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    let devices = [(MediaClass::Capacity, 24, [0, 1]), (MediaClass::Fast, 16, [0, 1])];
    let geometry = geometry(LogicalBlock::B4096, 160, devices.into_iter());
    let kind = [DiskKind::Keeping, DiskKind::Discarding, DiskKind::Zoned][rng.below(3) as usize];
    settings.media = DiskShape { geometry, kind };
    settings.config = Config::new(geometry);
    settings.config.placement = "sepgc".parse::<Policy>().expect("it is listed");
    settings.config.checkpoint_bytes = 1 << (18 + rng.below(4));
    settings.place_volumes(rng);
    settings.mix.weights = [100, 4, 10, 10, 1, 1, 1, 1, 1];
    settings.mix.media_one_in = 10;
    settings.mix.most_volumes = 2;
    settings.mix.most_blocks = 32;
    settings.mix.total_blocks = 1200 + rng.below(800);
    settings.mix.hot_blocks = u64::MAX;
    settings.requests = 400;
    settings
}

fn crash_on_crash(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    settings.config.placement = "sepgc".parse::<Policy>().expect("it is listed");
    // Much of what is written is replayed, and what that leaves free is short.
    let blocks = settings.config.blocks_per_unit();
    settings.config.checkpoint_bytes = 4096 * blocks * (8 + rng.below(8));
    settings.config.max_listed_units = Config::new(settings.media.geometry).max_listed_units;
    let capacity = settings.config.capacity_blocks(blocks);
    settings.mix.weights = [100, 2, 2, 6, 1, 0, 0, 0, 0];
    settings.mix.most_volumes = 1;
    settings.mix.most_blocks = 8;
    settings.mix.total_blocks = capacity * (80 + rng.below(20)) / 100;
    settings.mix.hot_blocks = 1 + rng.below(2 * blocks);
    settings.depth = 8;
    settings.requests = 300;
    settings.go_on_one_in = 1;
    settings
}

fn changing(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    if seed.is_multiple_of(3) {
        settings.spread(rng);
    }
    settings.change_devices(rng);
    settings.mix.weights = [100, 20, 20, 10, 2, 2, 2, 4, 1];
    settings.requests = 400;
    settings
}

fn many_units(seed: u64, rng: &mut Rng) -> Settings {
    let mut settings = Settings::draw_plain(seed, Scale::Small);
    let logical = LogicalBlock::B4096;
    let geometry = Geometry::new(logical, 16, 100_000, [0, 1].map(UnitId));
    let geometry = geometry.expect("units of 64 KiB");
    let kind = [DiskKind::Keeping, DiskKind::Discarding, DiskKind::Zoned][rng.below(3) as usize];
    settings.media = DiskShape { geometry, kind };
    settings.config = Config::new(geometry);
    settings.config.placement = "sepgc".parse::<Policy>().expect("it is listed");
    settings.config.checkpoint_bytes = 1 << (18 + rng.below(4));
    settings.mix.weights = [100, 20, 10, 10, 1, 1, 1, 2, 0];
    settings.mix.most_volumes = 2;
    settings.mix.most_blocks = 32;
    // A root is of as many pages as a page has entries.
    settings.mix.total_blocks = (2 + rng.below(4)) * (PAGE_ENTRIES * PAGE_ENTRIES) as u64;
    settings.mix.hot_blocks = u64::MAX;
    let volumes = std::iter::repeat_n(settings.mix.total_blocks, 3);
    let least = settings.config.least_map_memory(volumes);
    settings.config.map_memory_bytes = least + (rng.below(200) << 12);
    settings.depth = 1 + rng.below(8) as usize;
    settings.requests = 150;
    settings
}
