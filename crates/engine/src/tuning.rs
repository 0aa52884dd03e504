//! What is stated of how an engine is to work, by whoever sets one up.
//!
//! All that is not stated is as [`Config::new`] has it. Service and lab both hold what they are told as a [`Tuning`],
//! so that what the lab measures is what is served.

use std::ops::RangeInclusive;

use thermocline_format::{Geometry, MIN_UNIT_BYTES, MediaClass};
use thermocline_ftl::placement::Policy;
use thermocline_ftl::victim::Victim;
use thermocline_types::{Bytes, Time};

use crate::config::{Config, ConfigError, DestageConfig, MAX_IO_BLOCKS, ReadPlan};

/// Settings of an engine; `None` is the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// Which class a block is written to.
    pub placement: Option<Policy>,
    /// Which unit garbage collection takes.
    pub victim: Option<Victim>,
    /// How it reads it.
    pub read_plan: Option<ReadPlan>,
    /// What one of its commands reads at most; counts up to 1 GiB.
    pub read_size: Option<Bytes>,
    /// What of a victim is looked at together.
    pub segment: Option<Bytes>,
    /// Free units at which it begins, beyond those kept for itself.
    pub ahead_units: Option<u32>,
    /// Whether writes complete in memory.
    pub write_cache: Option<bool>,
    /// What of writes may wait in memory.
    pub staged: Option<Bytes>,
    /// Chunks of a class on their way before further blocks wait for a larger chunk.
    pub write_depth: Option<u32>,
    /// Requests in work at once.
    pub max_requests: Option<u32>,
    /// Written between checkpoints.
    pub checkpoint: Option<Bytes>,
    /// Units listed ahead of their use.
    pub reserved_units: Option<u32>,
    /// Memory for the maps of all volumes.
    pub memory: Option<Bytes>,
    /// Of a sequential stream, before what follows bypasses fast devices.
    pub bypass: Option<Bytes>,
    /// Share of fast units in use beyond which they are emptied, 0 to 1.
    pub high_watermark: Option<f64>,
    /// Share at which that ends; if only the other is stated, 0.05 less.
    pub low_watermark: Option<f64>,
    /// How long blocks stay on fast devices at most.
    pub max_age: Option<Time>,
    /// Bytes of fast units that may be in use.
    pub at_risk: Option<Bytes>,
}

/// What lies between the watermarks if only the high one is stated: as in dm-writecache, whose defaults are 50 and 45 %
/// (Documentation/admin-guide/device-mapper/writecache.rst of Linux).
const HYSTERESIS: f64 = 0.05;

// Bounds of what is stated: less is of no use, and more ends in failure where nobody expects it. Those without a source
// are chosen, not measured: far beyond what is of use, and far from where arithmetic or memory ends. A device may bound
// more ([`Config::check`]).
/// Units of a pool.
pub const MAX_UNITS: u64 = 1 << 20;
const AHEAD: RangeInclusive<u64> = 0..=MAX_UNITS / 2;
const RESERVED: RangeInclusive<u64> = 0..=MAX_UNITS;
const REQUESTS: RangeInclusive<u64> = 1..=1 << 16;
const WRITE_DEPTH: RangeInclusive<u64> = 1..=1024;
/// The engine takes its longest request, to 2^20 blocks.
const STAGED: RangeInclusive<u64> = MAX_IO_BLOCKS * Bytes::BLOCK.0..=Bytes::BLOCK.0 << 20;
const CHECKPOINT: RangeInclusive<u64> = 1 << 20..=1 << 60;
const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 50;
/// Seconds. What is too old at once would leave no time to move it.
const AGE: RangeInclusive<u64> = 1..=u32::MAX as u64;

impl Tuning {
    /// The first number that is out of bounds: its name, and why.
    #[must_use]
    pub fn out_of_bounds(&self) -> Option<(&'static str, String)> {
        let count = |value: Option<u32>| value.map(u64::from);
        let counts = [
            ("ahead_units", count(self.ahead_units), AHEAD),
            ("reserved_units", count(self.reserved_units), RESERVED),
            ("max_requests", count(self.max_requests), REQUESTS),
            ("write_depth", count(self.write_depth), WRITE_DEPTH),
            ("max_age", self.max_age.map(|age| age.as_nanos() / SECOND), AGE),
        ];
        let sizes = [
            ("checkpoint", self.checkpoint, CHECKPOINT),
            ("memory", self.memory, MEMORY),
            ("staged", self.staged, STAGED),
        ];
        let counts = counts.into_iter().map(|(name, value, range)| {
            beyond(value, range, |count| count.to_string()).map(|reason| (name, reason))
        });
        let sizes = sizes.into_iter().map(|(name, value, range)| {
            let value = value.map(Bytes::get);
            beyond(value, range, |bytes| Bytes(bytes).exactly()).map(|reason| (name, reason))
        });
        counts.chain(sizes).flatten().next()
    }

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
            max_age: self.max_age,
            most_units: most.map_or(never.most_units, |units| units.min(u32::MAX.into()) as u32),
        }
    }
}

const SECOND: u64 = Time::seconds(1).as_nanos();

/// Why `value` is none of `range`, if so.
#[must_use]
pub fn beyond(
    value: Option<u64>,
    range: RangeInclusive<u64>,
    show: impl Fn(u64) -> String,
) -> Option<String> {
    let value = value.filter(|value| !range.contains(value))?;
    Some(format!("is {}, must be {} to {}", show(value), show(*range.start()), show(*range.end())))
}

/// Zones that are active beside those that blocks and metadata are written to: those of the superblocks, and one that
/// is being finished.
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

/// Units of a pool without zones, if nothing is said: enough for garbage collection to choose from, few enough that
/// each is written in large pieces. Chosen, not measured.
const UNITS: u64 = 512;
/// Units of the smallest of its devices, at least. Measured on a tier of p5800x and p5316, Zipf 1.0: 35 fast units cost
/// 1 % of ALWA against 71, 17 cost 14 %.
const FEWEST: u64 = 32;
/// Bounds of the size of units. Units smaller than those of a drive below die apart in these: with 1 MiB over 6 MiB the
/// drive wrote 2.3 bytes for each of the log's, with 6 MiB 1.08 (the same tier, one class). Makers do not publish the
/// units of drives; those of large ones, a block of every die and plane, have gigabytes.
const SMALLEST: Bytes = Bytes::mib(1);
/// Units of a pool for which these are too large, at least, down to the smallest that a pool can have: with 64 units of
/// 256 KiB a pool of 16 MiB holds 11.8 MiB, with 16 of 1 MiB it holds 1.
const FEWEST_OF_ALL: u64 = 64;
const LARGEST: Bytes = Bytes::gib(8);

/// Size of the units of a pool without zones, if nothing is said, whose devices for capacity have `capacity` bytes, and
/// the smallest of several devices `smallest`: a power of two from 1 MiB to 8 GiB, or less where units would be few.
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
