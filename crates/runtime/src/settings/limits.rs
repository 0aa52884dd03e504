//! What the numbers of settings may be: less is of no use, and more ends in failure where nobody expects it. Bounds
//! without a source are chosen, not measured: far beyond what is of use, and far from where arithmetic or memory ends.

use std::ops::RangeInclusive;

use thermocline_engine::MAX_IO_BLOCKS;
use thermocline_format::{BLOCK_BYTES, MAX_VOLUME_BLOCKS};
use thermocline_types::Bytes;

use super::Settings;

/// Threads of `device.threads`.
const THREADS: RangeInclusive<u64> = 1..=1024;
/// Bytes of a device: half of what an offset in a file can name (`off_t`).
const DEVICE: RangeInclusive<u64> = 1..=4 << 60;
/// Bytes of a unit.
const UNIT: RangeInclusive<u64> = 64 << 10..=1 << 40;
/// Units of a pool.
pub(crate) const UNITS: u64 = 1 << 20;
const AHEAD: RangeInclusive<u64> = 0..=UNITS / 2;
const CHECKPOINT: RangeInclusive<u64> = 1 << 20..=1 << 60;
const RESERVED: RangeInclusive<u64> = 0..=UNITS;
const FILL_RATE: RangeInclusive<u64> = 1 << 20..=1 << 40;
const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 50;
const REQUESTS: RangeInclusive<u64> = 1..=1 << 16;
/// The engine takes its longest request, to 2^20 blocks.
const STAGED: RangeInclusive<u64> =
    MAX_IO_BLOCKS * BLOCK_BYTES as u64..=BLOCK_BYTES as u64 * (1 << 20);
const WRITE_DEPTH: RangeInclusive<u64> = 1..=1024;
/// Seconds. What is too old at once would leave no time to move it.
const AGE: RangeInclusive<u64> = 1..=u32::MAX as u64;
const VOLUME: RangeInclusive<u64> = BLOCK_BYTES as u64..=MAX_VOLUME_BLOCKS * BLOCK_BYTES as u64;

impl Settings {
    /// The first key of the device that is out of bounds, and why.
    pub(super) fn device_out_of_bounds(&self) -> Option<(&'static str, String)> {
        let device = self.device();
        let bytes = |value: Option<Bytes>| value.map(|bytes| bytes.0);
        let sizes = [
            ("device.size", bytes(device.size), DEVICE),
            ("device.unit", bytes(device.unit), UNIT),
        ];
        let threads = device.threads.map(|threads| threads as u64);
        let wrong = |(key, value, range)| beyond(value, range, shown).map(|reason| (key, reason));
        let threads = beyond(threads, THREADS, |count| count.to_string());
        let threads = threads.map(|reason| ("device.threads", reason));
        sizes.into_iter().find_map(wrong).or(threads)
    }

    /// The first other key that is out of bounds, and why.
    pub(super) fn out_of_bounds(&self) -> Option<(String, String)> {
        let pool = &self.pool;
        let bytes = |value: Option<Bytes>| value.map(|bytes| bytes.0);
        let plain = |value: Option<u32>| value.map(u64::from);
        let sizes = [
            ("pool.checkpoint", bytes(pool.checkpoint), CHECKPOINT),
            ("pool.memory", bytes(pool.memory), MEMORY),
            ("pool.fill_rate", bytes(pool.fill_rate), FILL_RATE),
            ("pool.staged", bytes(pool.staged), STAGED),
        ];
        let counts = [
            ("pool.ahead_units", plain(pool.ahead_units), AHEAD),
            ("pool.reserved_units", plain(pool.reserved_units), RESERVED),
            ("pool.max_requests", plain(pool.max_requests), REQUESTS),
            ("pool.write_depth", plain(pool.write_depth), WRITE_DEPTH),
            ("pool.max_age", plain(pool.max_age), AGE),
        ];
        let volumes = self.volumes.iter().enumerate();
        let volumes = volumes.map(|(index, volume)| {
            let key = format!("volumes[{index}].size");
            beyond(bytes(volume.size), VOLUME, shown).map(|reason| (key, reason))
        });
        let owned = |key: &str, reason| (key.to_owned(), reason);
        let sizes = sizes.map(|(key, value, range)| {
            beyond(value, range, shown).map(|reason| owned(key, reason))
        });
        let counts = counts.map(|(key, value, range)| {
            beyond(value, range, |count| count.to_string()).map(|reason| owned(key, reason))
        });
        sizes.into_iter().chain(counts).chain(volumes).flatten().next()
    }
}

/// Why `value` is none of `range`, if so.
pub(super) fn beyond(
    value: Option<u64>,
    range: RangeInclusive<u64>,
    show: impl Fn(u64) -> String,
) -> Option<String> {
    let value = value.filter(|value| !range.contains(value))?;
    Some(format!("is {}, must be {} to {}", show(value), show(*range.start()), show(*range.end())))
}

fn shown(bytes: u64) -> String {
    Bytes(bytes).exactly()
}
