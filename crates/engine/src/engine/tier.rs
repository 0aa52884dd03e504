//! Which media blocks go to, where there are fast ones: what hosts write, and what leaves a fast unit.

use thermocline_format::{MediaClass, VolumeId, VolumeMedia};
use thermocline_ftl::placement::Write;
use thermocline_types::{Bytes, Class, Lba};

use crate::engine::{Engine, Parts};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Extent;

impl<P: Payload> Parts<P> {
    /// Whether a volume is there, and its blocks are to be on fast devices.
    pub(crate) fn is_of_fast(&self, volume: u16, id: VolumeId) -> bool {
        self.volumes.is(volume, id) && self.volumes.map(volume).media == VolumeMedia::Fast
    }

    /// The media that what the host writes goes to.
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

impl<P: Payload> Engine<P> {
    /// Whether a block of this volume waits to leave a fast unit until there is another for it.
    pub(crate) fn waits_to_stay(&mut self, volume: u16, id: VolumeId) -> bool {
        let waits = self.parts.config.geometry.is_tiered()
            && self.parts.is_of_fast(volume, id)
            && !self.has_unit_to_stay()
            && self.parts.units_are_coming(MediaClass::Fast);
        mark!(WaitsToStay if waits);
        waits
    }

    /// Whether there is a unit for what stays on fast devices, or is about to be.
    pub(crate) fn may_go_to_fast(&mut self) -> bool {
        self.has_unit_to_stay() || self.parts.units_are_coming(MediaClass::Fast)
    }

    fn has_unit_to_stay(&mut self) -> bool {
        let now = self.parts.has_fast_unit_for_copies();
        self.gc.has_unit_to_stay(now)
    }

    /// Collection has left a fast unit.
    pub(crate) fn fast_unit_left(&mut self) {
        let units = u64::from(self.parts.config.geometry.active_units(MediaClass::Fast));
        self.stays.unit_left(self.parts.dense, units * self.parts.dense);
    }

    /// The class that a block goes to which leaves a fast unit; `lba` as placement counts.
    pub(crate) fn class_of_leaving(&mut self, volume: u16, lba: Lba, arrivals: Class) -> Class {
        let media = self.parts.volumes.map(volume).media;
        let fast = media == VolumeMedia::Fast;
        if fast && self.has_unit_to_stay() && self.stays.one() {
            mark!(StaysFast);
            return arrivals;
        }
        mark!(FastOverflows if fast);
        mark!(Destaged);
        self.parts.classify(Write::plain(lba, self.parts.host_writes))
    }
}
