//! Which media blocks go to, where there are fast ones: what hosts write, and what leaves a fast unit.

use thermocline_format::{ChunkCause, MediaClass, VolumeId, VolumeMedia};
use thermocline_ftl::placement::Write;
use thermocline_types::{Bytes, Class, Lba, UnitId};

use crate::engine::Engine;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Extent;
use crate::stats::WrittenOn;

impl<P: Payload> Engine<P> {
    /// Whether units of `media` are about to be free: of fast ones, which what stays there needs, those that wait for a
    /// flush or a checkpoint on its way among them.
    pub(crate) fn units_are_coming(&self, media: MediaClass) -> bool {
        let dead = self.space.dead(media);
        let about = dead.is_moving() || dead.has_held() && self.checkpoint.is_some();
        self.space.resetting_on(media) > 0 || media == MediaClass::Fast && about
    }

    /// Whether a block of this volume waits to leave a fast unit until there is another for it.
    pub(crate) fn waits_to_stay(&mut self, volume: u16, id: VolumeId) -> bool {
        let waits = self.config.geometry.is_tiered()
            && self.is_of_fast(volume, id)
            && !self.has_unit_to_stay()
            && self.units_are_coming(MediaClass::Fast);
        mark!(WaitsToStay if waits);
        waits
    }

    /// Whether there is a unit for what stays on fast devices, or is about to be.
    pub(crate) fn may_go_to_fast(&mut self) -> bool {
        self.has_unit_to_stay() || self.units_are_coming(MediaClass::Fast)
    }

    /// Whether a volume is there, and its blocks are to be on fast devices.
    pub(crate) fn is_of_fast(&self, volume: u16, id: VolumeId) -> bool {
        self.volumes.is(volume, id) && self.volumes.map(volume).media == VolumeMedia::Fast
    }

    /// Counts the blocks of a chunk: the host's, and copies, some of which are destaged. Returns its cause.
    pub(crate) fn count_blocks(
        &mut self,
        capacity: bool,
        host: u32,
        copies: u32,
        destaged: u32,
    ) -> ChunkCause {
        // Placement sees what comes to the devices for capacity.
        self.host_writes += u64::from(destaged) + if capacity { u64::from(host) } else { 0 };
        let stats = &mut self.stats;
        stats.host_blocks_written += u64::from(host);
        stats.destaged_blocks += u64::from(destaged);
        stats.relocated_blocks += u64::from(copies - destaged);
        if !capacity {
            stats.carried_blocks += u64::from(copies);
        } else if self.config.geometry.is_tiered() {
            stats.bypassed_blocks += u64::from(host);
        }
        match (host, destaged) {
            (0, 0) => ChunkCause::Relocation,
            (0, _) => ChunkCause::Destage,
            _ => ChunkCause::Host,
        }
    }

    /// Counts the header of a chunk in `unit`.
    pub(crate) fn count_header(&mut self, unit: UnitId, bytes: u64) {
        self.stats.header_bytes += bytes;
        let geometry = &self.config.geometry;
        if geometry.is_tiered() && geometry.media_of(unit) == MediaClass::Capacity {
            self.stats.capacity_header_bytes += bytes;
        }
    }

    /// Blocks that units of `media` hold and that count, less what waits in memory to overwrite them. Looks at each
    /// unit.
    #[must_use]
    pub fn valid_blocks_on(&self, media: MediaClass) -> u64 {
        let units = self.config.geometry.units_of(media).map(UnitId);
        let metadata = self.config.metadata_class();
        let data = units.filter(|unit| self.space.units().class(*unit) != metadata);
        data.map(|unit| u64::from(self.space.units().valid_count(unit))).sum()
    }

    fn has_unit_to_stay(&mut self) -> bool {
        let now = self.has_fast_unit_for_copies();
        self.gc.has_unit_to_stay(now)
    }

    /// Collection has left a fast unit.
    pub(crate) fn fast_unit_left(&mut self) {
        let units = u64::from(self.config.geometry.active_units(MediaClass::Fast));
        self.stays.unit_left(self.dense, units * self.dense);
    }

    /// From now on, or no longer, what hosts write goes to the devices for capacity at once, but for that of volumes
    /// which are to be on fast ones. The metadata goes there all the same.
    pub fn spare_fast(&mut self, spare: bool) {
        self.spares_fast = spare;
    }

    /// What was written to the devices of a class of media, by cause.
    #[must_use]
    pub fn written_on(&self, media: MediaClass) -> WrittenOn {
        WrittenOn::new(&self.stats, media, self.config.geometry.is_tiered())
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

    /// The class of a block that the host writes to `media`.
    #[inline]
    pub(crate) fn class_of_write(&mut self, media: MediaClass, write: Write) -> Class {
        match self.config.arrivals() {
            Some(arrivals) if media == MediaClass::Fast => arrivals,
            // The unit that it was in says nothing of its life: it may have been a fast one.
            Some(_) => self.classify(Write::plain(write.lba, write.now)),
            None => self.classify(write),
        }
    }

    /// The class that a block goes to which leaves a fast unit; `lba` as placement counts.
    pub(crate) fn class_of_leaving(&mut self, volume: u16, lba: Lba, arrivals: Class) -> Class {
        let media = self.volumes.map(volume).media;
        let fast = media == VolumeMedia::Fast;
        if fast && self.has_unit_to_stay() && self.stays.one() {
            mark!(StaysFast);
            return arrivals;
        }
        mark!(FastOverflows if fast);
        mark!(Destaged);
        self.classify(Write::plain(lba, self.host_writes))
    }
}
