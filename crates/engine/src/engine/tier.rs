//! The choice of media in a tiered pool, for host writes and for blocks that leave a fast unit.

use thermocline_format::{MediaClass, VolumeId, VolumeMedia};
use thermocline_types::Bytes;

use crate::engine::Parts;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Extent;

impl<P: Payload> Parts<P> {
    /// Whether a volume is there, and its blocks are to be on fast devices.
    pub(crate) fn is_of_fast(&self, volume: u16, id: VolumeId) -> bool {
        self.volumes.is(volume, id) && self.volumes.map(volume).media == VolumeMedia::Fast
    }

    /// The media for a host write.
    #[inline]
    pub(crate) fn lands_on(&mut self, volume: u16, extent: Extent) -> MediaClass {
        if !self.config.geometry.is_tiered() {
            return MediaClass::Capacity;
        }
        let map = self.volumes.map_mut(volume);
        let stream = map.stream.go_on(extent.lba, extent.blocks).saturating_mul(Bytes::BLOCK.0);
        let long = stream > self.config.bypass_bytes;
        let bypasses = map.media == VolumeMedia::Auto && (long || self.spares_fast);
        mark!(StreamBypasses if bypasses);
        if bypasses || map.media == VolumeMedia::Capacity {
            MediaClass::Capacity
        } else {
            MediaClass::Fast
        }
    }
}
