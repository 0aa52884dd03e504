//! What the numbers of settings may be; those of the engine are bounded by [`Tuning`](thermocline_engine::Tuning).
//! Bounds without a source are chosen, not measured, as there.

use std::ops::RangeInclusive;

use thermocline_format::{BLOCK_BYTES, MAX_VOLUME_BLOCKS};
use thermocline_types::{Bytes, beyond};

use super::Settings;
use super::pool::THREADS;

/// Bytes of a device: half of what an offset in a file can name (`off_t`).
const DEVICE: RangeInclusive<Bytes> = Bytes(1)..=Bytes(4 << 60);
/// Bytes of a unit.
const UNIT: RangeInclusive<Bytes> = Bytes::kib(64)..=Bytes(1 << 40);
const VOLUME: RangeInclusive<Bytes> = Bytes::BLOCK..=Bytes(MAX_VOLUME_BLOCKS * BLOCK_BYTES as u64);

impl Settings {
    /// The first key of the device that is out of bounds, and why.
    pub(super) fn device_out_of_bounds(&self) -> Option<(&'static str, String)> {
        let device = self.device();
        let threads = device.threads.and_then(|threads| beyond(&threads, &THREADS));
        let reasons = [
            ("device.size", device.size.and_then(|size| beyond(&size, &DEVICE))),
            ("device.unit", device.unit.and_then(|size| beyond(&size, &UNIT))),
            ("device.threads", threads),
        ];
        reasons.into_iter().find_map(|(key, reason)| Some((key, reason?)))
    }

    /// The first key of a volume that is out of bounds, and why.
    pub(super) fn volume_out_of_bounds(&self) -> Option<(String, String)> {
        self.volumes.iter().enumerate().find_map(|(index, volume)| {
            let values = [("size", volume.size), ("reserve", volume.reserve)];
            values.into_iter().find_map(|(key, value)| {
                Some((format!("volumes[{index}].{key}"), beyond(&value?, &VOLUME)?))
            })
        })
    }
}
