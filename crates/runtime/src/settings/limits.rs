//! What the numbers of settings may be; those of the engine are bounded by [`Tuning`](thermocline_engine::Tuning).
//! Bounds without a source are chosen, not measured, as there.

use std::ops::RangeInclusive;

use thermocline_engine::beyond;
use thermocline_format::{BLOCK_BYTES, MAX_VOLUME_BLOCKS};
use thermocline_types::Bytes;

use super::Settings;

/// Threads of `device.threads`.
const THREADS: RangeInclusive<u64> = 1..=1024;
/// Bytes of a device: half of what an offset in a file can name (`off_t`).
const DEVICE: RangeInclusive<u64> = 1..=4 << 60;
/// Bytes of a unit.
const UNIT: RangeInclusive<u64> = 64 << 10..=1 << 40;
const FILL_RATE: RangeInclusive<u64> = 1 << 20..=1 << 40;
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
        let bytes = |value: Option<Bytes>| value.map(|bytes| bytes.0);
        let engine = self.pool.tuning().out_of_bounds();
        let engine = engine.map(|(name, reason)| (format!("pool.{name}"), reason));
        let fill_rate = beyond(bytes(self.pool.fill_rate), FILL_RATE, shown);
        let fill_rate = fill_rate.map(|reason| ("pool.fill_rate".to_owned(), reason));
        let volumes = self.volumes.iter().enumerate().find_map(|(index, volume)| {
            let values = [("size", volume.size), ("reserve", volume.reserve)];
            values.into_iter().find_map(|(key, value)| {
                let reason = beyond(bytes(value), VOLUME, shown)?;
                Some((format!("volumes[{index}].{key}"), reason))
            })
        });
        engine.or(fill_rate).or(volumes)
    }
}

fn shown(bytes: u64) -> String {
    Bytes(bytes).exactly()
}
