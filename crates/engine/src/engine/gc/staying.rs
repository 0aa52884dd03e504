//! Blocks of fast volumes that leave a fast unit: whether they move to another fast unit.

use thermocline_format::{MediaClass, VolumeId, VolumeMedia};
use thermocline_ftl::placement::Write;
use thermocline_types::{Class, Lba};

use crate::engine::Parts;
use crate::engine::gc::Collector;
use crate::marks::mark;
use crate::payload::Payload;

impl<P: Payload> Collector<P> {
    /// Whether a block of this volume waits to leave a fast unit until there is another for it.
    pub(crate) fn waits_to_stay(&mut self, p: &mut Parts<P>, volume: u16, id: VolumeId) -> bool {
        let waits = p.config.geometry.is_tiered()
            && p.is_of_fast(volume, id)
            && !self.has_unit_to_stay(p)
            && p.units_are_coming(MediaClass::Fast);
        mark!(WaitsToStay if waits);
        waits
    }

    /// Whether there is a unit for what stays on fast devices, or is about to be.
    pub(crate) fn may_go_to_fast(&mut self, p: &mut Parts<P>) -> bool {
        self.has_unit_to_stay(p) || p.units_are_coming(MediaClass::Fast)
    }

    fn has_unit_to_stay(&mut self, p: &mut Parts<P>) -> bool {
        let now = p.has_fast_unit_for_copies();
        self.job.as_mut().is_some_and(|job| {
            job.stays |= now;
            job.stays
        })
    }

    /// Collection has left a fast unit.
    pub(crate) fn fast_unit_left(&mut self, p: &mut Parts<P>) {
        let units = u64::from(p.config.geometry.active_units(MediaClass::Fast));
        self.stays.unit_left(p.dense, units * p.dense);
    }

    /// The class that a block goes to which leaves a fast unit; `lba` as placement counts.
    pub(crate) fn class_of_leaving(
        &mut self,
        p: &mut Parts<P>,
        volume: u16,
        lba: Lba,
        arrivals: Class,
    ) -> Class {
        let media = p.volumes.map(volume).media;
        let fast = media == VolumeMedia::Fast;
        if fast && self.has_unit_to_stay(p) && self.stays.one() {
            mark!(StaysFast);
            return arrivals;
        }
        mark!(FastOverflows if fast);
        mark!(Destaged);
        p.classify(Write::plain(lba, p.host_writes))
    }
}
