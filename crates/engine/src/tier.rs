//! Which media blocks go to, where there are fast ones: what hosts write, and what leaves a fast unit.
//!
//! Invariants:
//! * What leaves a fast unit goes to another only if one is free that hosts may not use, and while at most half of what
//!   left others did: so however large fast volumes are, fast units are gained.

use thermocline_format::{ChunkCause, MediaClass, VolumeId, VolumeMedia};
use thermocline_ftl::placement::Write;
use thermocline_types::{Bytes, Class, Lba};

use crate::engine::Engine;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Extent;

/// Requests of a volume that follow each other in its blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// The block behind the last request.
    next: u64,
    /// Blocks of the requests so far.
    blocks: u64,
}

impl Stream {
    /// Another request; returns the blocks of the stream that it goes on with, its own among them.
    fn go_on(&mut self, lba: u64, blocks: u64) -> u64 {
        let before = if lba == self.next { self.blocks } else { 0 };
        *self = Stream { next: lba + blocks, blocks: before + blocks };
        self.blocks
    }
}

/// Blocks of fast volumes that may stay on fast devices when they leave a unit, less two for each that did.
#[derive(Debug)]
pub(crate) struct Stays {
    left: u64,
}

impl Stays {
    /// Of an engine that begins, over fast devices that hold `all`.
    pub(crate) fn new(all: u64) -> Stays {
        Stays { left: all }
    }

    /// A unit of `blocks` was left, of fast devices that hold `all`.
    fn unit_left(&mut self, blocks: u64, all: u64) {
        self.left = (self.left + blocks).min(all);
    }

    /// Whether one more block may stay.
    fn one(&mut self) -> bool {
        let may = self.left >= 2;
        self.left -= if may { 2 } else { 0 };
        may
    }
}

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
            && self.volumes.is(volume, id)
            && self.volumes.map(volume).media == VolumeMedia::Fast
            && !self.has_unit_to_stay()
            && self.units_are_coming(MediaClass::Fast);
        mark!(WaitsToStay if waits);
        waits
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

    fn has_unit_to_stay(&mut self) -> bool {
        let now = self.has_fast_unit_for_copies();
        self.gc.has_unit_to_stay(now)
    }

    /// Collection has left a fast unit.
    pub(crate) fn fast_unit_left(&mut self) {
        let units = self.config.geometry.units_of(MediaClass::Fast).len() as u64;
        self.stays.unit_left(self.dense, units * self.dense);
    }

    /// The media that what the host writes goes to.
    #[inline]
    pub(crate) fn lands_on(&mut self, volume: u16, extent: Extent) -> MediaClass {
        if !self.config.geometry.is_tiered() {
            return MediaClass::Capacity;
        }
        let map = self.volumes.map_mut(volume);
        let stream = map.stream.go_on(extent.lba, extent.blocks).saturating_mul(Bytes::BLOCK.0);
        let bypasses = map.media == VolumeMedia::Auto && stream > self.config.bypass_bytes;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_may_stay_and_no_more_is_saved_up_than_there_is() {
        let mut stays = Stays::new(3);
        assert!(stays.one() && !stays.one());
        (0..4).for_each(|_| stays.unit_left(100, 250));
        assert_eq!((0..1000).filter(|_| stays.one()).count(), 125);
    }

    #[test]
    fn a_stream_goes_on_with_the_block_behind_the_last() {
        let mut stream = Stream::default();
        assert_eq!(stream.go_on(100, 8), 8);
        assert_eq!(stream.go_on(108, 8), 16);
        assert_eq!(stream.go_on(108, 8), 8, "the same once more");
        assert_eq!(stream.go_on(116, 1), 9);
        assert_eq!(stream.go_on(0, 4), 4);
    }
}
