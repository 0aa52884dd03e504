//! The units that are open: where the next chunk of a class goes, which unit is opened for it, and when one is closed.

use thermocline_format::{DeviceState, Location, MediaClass};
use thermocline_ftl::placement::{Classifier as _, Write};
use thermocline_types::{Class, UnitId};

use crate::bugs::bug;
use crate::device::DeviceCmd;
use crate::engine::{Op, Parts};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::{Action, Notice};

impl<P: Payload> Parts<P> {
    /// The class that placement chooses for a block.
    #[inline]
    pub(crate) fn classify(&mut self, write: Write) -> Class {
        let class = self.config.placement.place(write);
        if self.config.placement.renamed() {
            (0..self.config.placement_classes())
                .for_each(|class| self.close_frontier(Class(class)));
        }
        class
    }

    /// Takes an empty unit out of service.
    pub(crate) fn retire(&mut self, unit: UnitId) {
        self.space.retire(unit);
        if self.config.geometry.state_of(unit) == DeviceState::Active {
            self.actions.push_back(Action::Notice(Notice::Retired(unit)));
        }
    }

    /// Retires a unit that the device cannot write or reset again. Garbage collection copies the valid blocks
    /// elsewhere.
    pub(crate) fn condemn(&mut self, unit: UnitId) {
        if self.space.condemn(unit) {
            // The unit may hold chunks to be replayed. A checkpoint makes their replay unnecessary.
            self.want_checkpoint();
        }
    }

    /// The class of a block that the host writes to `media`.
    #[inline]
    pub(crate) fn class_of_write(&mut self, media: MediaClass, write: Write) -> Class {
        match self.config.arrivals() {
            Some(arrivals) if media == MediaClass::Fast => arrivals,
            // Hide the old unit from placement: a fast unit's class is no evidence of lifetime.
            Some(_) => self.classify(Write::plain(write.lba, write.now)),
            None => self.classify(write),
        }
    }

    /// Where the next chunk of `class` begins and the logical blocks that it may have, header included: enough for a
    /// header and `least` behind it. Opens a unit if need be; `None` if no unit can be opened.
    pub(crate) fn room(&mut self, class: Class, least: u32) -> Option<(Location, u32)> {
        let block = self.config.geometry.logical_block();
        let least = block.chunk_header(1) + least;
        loop {
            let at = match self.space.next_of(class) {
                Some(at) => at,
                None => self.open_unit(class)?,
            };
            let room = self.config.geometry.blocks_per_unit() - at.block;
            if room >= least {
                return Some((at, room.min(block.max_chunk())));
            }
            self.close_frontier(class);
        }
    }

    /// Whether the unit that is open for `class` has room for a block.
    pub(crate) fn has_room_for_block(&self, class: Class) -> bool {
        let block = self.config.geometry.logical_block();
        let least = block.chunk_header(1) + block.per_block();
        let units = self.config.geometry.blocks_per_unit();
        self.space.next_of(class).is_some_and(|at| units - at.block >= least)
    }

    /// Opens a unit for `class`. The last ones are for metadata alone: without room for a checkpoint no unit could ever
    /// be freed after a crash.
    fn open_unit(&mut self, class: Class) -> Option<Location> {
        let media = self.config.media_of(class);
        // A device limits the number of active zones. A zone stays active until full or finished.
        let most = self.config.max_open_units[media as usize];
        let many = most < u32::MAX && self.space.active_units(media) > most;
        if many && !bug!(self.config, ZonesNotCounted) {
            mark!(WaitsForZone);
            return None;
        }
        let may_open = class == self.config.metadata_class() || self.may_open(class);
        mark!(NoUnitForHost if !may_open);
        let at = may_open.then(|| self.space.open(class, media))??;
        if Some(class) == self.config.arrivals() {
            self.destage.opened(self.now);
        } else if class.0 < self.config.placement_classes() {
            self.config.placement.opened(self.space.units(), at.unit, self.host_writes);
            self.close_idle();
        }
        Some(at)
    }

    /// Closes the open units of classes without writes: the rest of these units is of no use.
    fn close_idle(&mut self) {
        while let Some(class) = self.space.idle_class() {
            mark!(IdleUnitClosed);
            self.close_frontier(class);
        }
    }

    /// Whether units may be opened for users' blocks of `class`. Blocks of failed writes take what the table still has:
    /// a release may wait for these blocks, and the checkpoint that shortens the table may wait for the release.
    pub(crate) fn may_open(&self, class: Class) -> bool {
        let replacing = self.cache.has_replacements() && self.table_has_last_room();
        let media = self.config.media_of(class);
        let held = if media != self.config.host_media() {
            self.held_from_destage()
        } else if self.collection.borrows() {
            self.held_from_borrowers()
        } else {
            self.metadata_hold()
        };
        self.space.free_units(media) > held && (self.table_has_room() || replacing)
    }

    pub(crate) fn close_frontier(&mut self, class: Class) {
        if let Some(at) = self.space.close(class, self.host_writes) {
            if Some(class) == self.config.arrivals() {
                self.destage.closed(at.unit, self.now);
            }
            self.finish_if_quiet(at.unit);
        }
    }

    /// Finishes the zone of a closed unit that is not full, once no write to the unit is in flight.
    pub(crate) fn finish_if_quiet(&mut self, unit: UnitId) {
        if let Some(left) = self.space.finish_if_quiet(unit) {
            let bytes = self.config.geometry.logical_block().bytes() as u64;
            self.stats.unused_bytes += u64::from(left) * bytes;
            let op = self.ops.insert(Op::Finish { unit });
            self.device(op, DeviceCmd::Finish(unit));
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{Generation, OpenUnit};

    use super::*;
    use crate::engine::parts::testing::{free, parts};
    use crate::write_cache::Staged;

    #[test]
    fn the_last_free_units_open_for_metadata_alone_and_one_more_for_copies_that_borrow() {
        let class = Class(0);
        let mut p = parts();
        let held = p.metadata_hold();
        free(&mut p, 8, held);
        assert!(held > 1 && !p.may_open(class) && p.room(class, 1).is_none());
        p.collection.borrow();
        assert!(p.may_open(class), "one is left for metadata");
        p.collection.borrow_only_if(false);
        assert!(!p.may_open(class));
        free(&mut p, 8 + held, 1);
        assert!(p.may_open(class) && p.room(class, 1).is_some());
        assert!(p.room(p.config.metadata_class(), 1).is_some());
    }

    #[test]
    fn the_last_units_of_the_table_open_for_metadata_alone() {
        let class = Class(0);
        let mut p = parts();
        free(&mut p, 8, 40);
        p.config.max_listed_units = p.metadata_hold() + 1;
        assert!(p.may_open(class));
        p.config.max_listed_units -= 1;
        assert!(!p.may_open(class) && p.room(p.config.metadata_class(), 1).is_some());
    }

    #[test]
    fn blocks_of_failed_writes_take_the_last_units_of_the_table() {
        let mut p = parts();
        free(&mut p, 8, 12);
        let generation = Generation(1);
        let listed =
            |unit| OpenUnit { next: Location { unit: UnitId(unit), block: 0 }, generation };
        p.space.set_listed(&(8..32).map(listed).collect::<Vec<_>>());
        // 12 are opened, and a quarter of the table is held.
        p.config.max_listed_units = 16;
        assert!(p.table_has_last_room() && !p.may_open(Class(0)));
        p.cache.push_first(Staged { replaces: true, ..Staged::of_class(0, ()) });
        assert!(p.cache.has_replacements() && p.may_open(Class(0)));
    }
}
