//! Settings of an engine that the operator states.
//!
//! An unstated setting has the value of [`Config::new`]. Service and lab both keep their settings as a [`Tuning`], so
//! the lab measures the engine that the service runs. Only the table describes the settings of the engine: settings
//! files, command lines and lists are made from the table.

use std::ops::RangeInclusive;

use thermocline_format::{Geometry, MIN_UNIT_BYTES, MediaClass};
use thermocline_ftl::placement::Policy;
use thermocline_ftl::victim::Victim;
use thermocline_types::{Bytes, Seconds, Setting, settings};

use crate::config::{Config, ConfigError, DestageConfig, MAX_IO_BLOCKS, ReadPlan};

settings! {
    /// Settings of an engine; `None` is the default.
    pub struct Tuning {
        placement: Policy, common, "auto",
            "Which class a block is written to: auto, sepgc or none; the lab lists others that it takes.";
        write_cache: bool, common, "true",
            "Whether writes complete in memory, as in the volatile cache of a drive: a power cut or a killed server \
             takes up to a second of them, unless they were flushed or had FUA, and the drive gets full chunks however \
             few are under way. Without it, writes complete on the device, each in the smaller chunk that it makes with \
             those under way.";
        memory: Bytes => MEMORY, common, "4GiB",
            "Memory for the maps of all volumes: whole they take 8 bytes for each 4 KiB in use. With less, pages of \
             them are read when they are needed; 14 MiB for each TiB of their sizes, and 0.3 MiB, are needed at least. \
             Beside it the placement remembers up to 4 bytes for each 4 KiB of the pool (`auto`, up to 1 TiB of it; \
             `auto:16` fewer, `sepgc` none): `format` refuses memory that is stated and is too little for both, `serve` \
             warns of it.";
        high_watermark: f64 => SHARE, common, "0.8" ("they run short"),
            "Where there are fast devices: the share of them in use beyond which blocks leave them, 0 to 1. Without it \
             they leave when fast devices run short of room: later, so that more is overwritten before.";
        low_watermark: f64 => SHARE, common, "0.6" ("0.05 below the other"),
            "The share at which that ends.";
        max_age: Seconds => AGE, common, "3600" ("any time"),
            "Seconds that blocks stay on fast devices at most, those of fast volumes apart; they count from each start.";
        at_risk: Bytes, common, "64GiB" ("all"),
            "Bytes of fast devices that may be in use, as if these were smaller: the bytes that are lost with them.";
        victim: Victim, expert, "own",
            "Which unit garbage collection takes: one of the victims that the lab lists; own: the rule of the placement.";
        read_plan: ReadPlan, expert, "cost",
            "How garbage collection reads that unit: basic (valid blocks one by one), segment (all of it), cost (the \
             gaps too that cost less than another command) or cost:SIZE, the bytes that one command costs.";
        read_size: Bytes => READ_SIZE, expert, "128KiB",
            "Bytes that one command of garbage collection reads at most.";
        segment: Bytes => READ_SIZE, expert, "256KiB",
            "Bytes of a victim that are looked at together.";
        ahead_units: u32 => AHEAD, expert, "8" ("1/256 of the units, at least 3 or 4, at most 32"),
            "Free units at which garbage collection begins, beyond those kept for itself.";
        checkpoint: Bytes => CHECKPOINT, expert, "256MiB" ("chosen by the size of the pool"),
            "Bytes written between checkpoints: recovery replays at most about twice as much.";
        reserved_units: u32 => RESERVED, expert, "32" ("1/16 of the units, 8 to 64"),
            "Units listed in a superblock ahead of their use.";
        max_requests: u32 => REQUESTS, expert, "1024",
            "Requests in work at once.";
        staged: Bytes => STAGED, expert, "16MiB",
            "Bytes of writes that may wait in memory, from 1020KiB.";
        write_depth: u32 => WRITE_DEPTH, expert, "4",
            "Chunks of a class on their way before further blocks wait for a larger chunk.";
        bypass: Bytes, expert, "64MiB" ("nothing does"),
            "Where there are fast devices: bytes that a volume's requests write one behind the other before the next \
             ones go to the devices for capacity at once.";
    }
}

/// Distance between the watermarks if only the high watermark is stated: as in dm-writecache, whose defaults are 50 and
/// 45 % (Documentation/admin-guide/device-mapper/writecache.rst of Linux).
const HYSTERESIS: f64 = 0.05;

// Bounds of settings: a smaller value is useless, and a larger value fails in unexpected places. Bounds without a
// source are chosen, not measured: far beyond useful values, and far from the limits of arithmetic or memory. A device
// may bound more ([`Config::check`]).
/// Units of a pool.
pub const MAX_UNITS: u64 = 1 << 20;
const AHEAD: RangeInclusive<u32> = 0..=MAX_UNITS as u32 / 2;
const RESERVED: RangeInclusive<u32> = 0..=MAX_UNITS as u32;
const REQUESTS: RangeInclusive<u32> = 1..=1 << 16;
const WRITE_DEPTH: RangeInclusive<u32> = 1..=1024;
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
const READ_SIZE: RangeInclusive<Bytes> = Bytes::BLOCK..=Bytes::gib(1 << 30);
/// The engine takes its longest request, to 2^20 blocks.
const STAGED: RangeInclusive<Bytes> =
    Bytes(MAX_IO_BLOCKS * Bytes::BLOCK.0)..=Bytes(Bytes::BLOCK.0 << 20);
const CHECKPOINT: RangeInclusive<Bytes> = Bytes::mib(1)..=Bytes(1 << 60);
const MEMORY: RangeInclusive<Bytes> = Bytes::mib(1)..=Bytes(1 << 50);
/// Seconds. An age of 0 would leave no time to move blocks.
const AGE: RangeInclusive<Seconds> = Seconds(1)..=Seconds(u32::MAX);

impl Setting for ReadPlan {
    fn read(text: &str) -> Result<ReadPlan, String> {
        match text.split_once(':') {
            None if text == "basic" => Ok(ReadPlan::Basic),
            None if text == "segment" => Ok(ReadPlan::Segment),
            None if text == "cost" => Ok(ReadPlan::COST),
            Some(("cost", bytes)) => {
                let bytes = Bytes::read(bytes)?.0.clamp(Bytes::BLOCK.0, 1 << 30);
                Ok(ReadPlan::Cost { command_bytes: bytes as u32 })
            }
            _ => {
                Err(format!("`{text}` is no read plan; there are basic, segment, cost, cost:64KiB"))
            }
        }
    }

    fn show(&self) -> String {
        match self {
            ReadPlan::Basic => "basic".into(),
            ReadPlan::Segment => "segment".into(),
            ReadPlan::Cost { command_bytes } => format!("cost:{command_bytes}"),
        }
    }
}

impl Tuning {
    /// The configuration for a device divided like this.
    #[must_use]
    pub fn config(&self, geometry: Geometry) -> Config {
        fn put<T: Clone>(place: &mut T, stated: Option<&T>) {
            if let Some(stated) = stated {
                place.clone_from(stated);
            }
        }
        let bytes = |size: Option<Bytes>| size.map(Bytes::get);
        let read_size = bytes(self.read_size).map(|bytes| bytes.min(1 << 30) as u32);
        let blocks = |bytes: u64| (bytes / Bytes::BLOCK.0).min(u64::from(u32::MAX)) as u32;
        let mut config = Config::new(geometry);
        put(&mut config.placement, self.placement.as_ref());
        put(&mut config.gc.victim, self.victim.as_ref());
        put(&mut config.gc.read_plan, self.read_plan.as_ref());
        put(&mut config.gc.read_bytes, read_size.as_ref());
        put(&mut config.gc.segment_bytes, bytes(self.segment).as_ref());
        put(&mut config.gc.ahead_units, self.ahead_units.as_ref());
        put(&mut config.write_cache, self.write_cache.as_ref());
        put(&mut config.max_staged_blocks, bytes(self.staged).map(blocks).as_ref());
        put(&mut config.write_depth, self.write_depth.as_ref());
        put(&mut config.max_requests, self.max_requests.as_ref());
        put(&mut config.checkpoint_bytes, bytes(self.checkpoint).as_ref());
        put(&mut config.reserved_units, self.reserved_units.as_ref());
        put(&mut config.map_memory_bytes, bytes(self.memory).as_ref());
        put(&mut config.bypass_bytes, bytes(self.bypass).as_ref());
        config.destage = self.destage(&geometry);
        config
    }

    /// When blocks leave fast devices.
    fn destage(&self, geometry: &Geometry) -> DestageConfig {
        let all = geometry.active_units(MediaClass::Fast);
        let share = |share: f64| (f64::from(all) * share.clamp(0.0, 1.0)).round() as u32;
        let high = self.high_watermark.or(self.low_watermark);
        let low = self.low_watermark.or(high.map(|high| high - HYSTERESIS));
        let most = self.at_risk.map(|bytes| bytes.0 / geometry.unit_bytes());
        let never = DestageConfig::default();
        DestageConfig {
            high_units: high.map_or(never.high_units, share),
            low_units: low.map_or(never.low_units, share),
            max_age: self.max_age.map(Into::into),
            most_units: most.map_or(never.most_units, |units| units.min(u32::MAX.into()) as u32),
        }
    }
}

/// Active zones beside the zones for blocks and metadata: the zones of the superblocks, and one zone that is being
/// finished.
const ZONES_BESIDE: u32 = 3;

impl Config {
    /// Keeps to the zones that devices of a class of media let be active at once.
    ///
    /// # Errors
    /// [`ConfigError::ActiveZones`] when the placement needs more.
    pub fn keep_to_active_zones(
        &mut self,
        media: MediaClass,
        active: u32,
    ) -> Result<(), ConfigError> {
        self.max_open_units[media as usize] = active.saturating_sub(ZONES_BESIDE);
        let needed = self.frontiers_on(media) + ZONES_BESIDE;
        if needed > active {
            return Err(ConfigError::ActiveZones { needed, active });
        }
        Ok(())
    }
}

/// Default number of units of a pool without zones: enough for garbage collection to choose from, few enough that each
/// is written in large pieces. Chosen, not measured.
const UNITS: u64 = 512;
/// Units of the smallest of its devices, at least. Measured on a tier of p5800x and p5316, Zipf 1.0: 35 fast units cost
/// 1 % of ALWA against 71, 17 cost 14 %.
const FEWEST: u64 = 32;
/// Bounds of the size of units. Log units smaller than a unit of the drive below die at different times within the
/// drive's unit: with 1 MiB over 6 MiB the drive wrote 2.3 bytes for each byte of the log, with 6 MiB 1.08 (the same
/// tier, one class). Makers do not publish the units of drives; units of large drives, a block of every die and plane,
/// have gigabytes.
const SMALLEST: Bytes = Bytes::mib(1);
/// Units of a pool for which these are too large, at least, down to the smallest that a pool can have: with 64 units of
/// 256 KiB a pool of 16 MiB holds 11.8 MiB, with 16 of 1 MiB it holds 1.
const FEWEST_OF_ALL: u64 = 64;
const LARGEST: Bytes = Bytes::gib(8);

/// Default size of the units of a pool without zones, whose devices for capacity have `capacity` bytes, and the
/// smallest of several devices `smallest`. A power of two from 1 MiB to 8 GiB, or less if units would be few.
#[must_use]
pub fn default_unit(capacity: Bytes, smallest: Option<Bytes>) -> Bytes {
    let most = smallest.map_or(LARGEST, |smallest| power_of_two(smallest.0 / FEWEST));
    let least = power_of_two(capacity.0 / FEWEST_OF_ALL).max(Bytes(MIN_UNIT_BYTES)).min(SMALLEST);
    power_of_two(capacity.0 / UNITS).min(most).min(LARGEST).max(least)
}

/// The largest power of two that is no more than `bytes`, or 1.
fn power_of_two(bytes: u64) -> Bytes {
    Bytes(1 << bytes.max(1).ilog2())
}
