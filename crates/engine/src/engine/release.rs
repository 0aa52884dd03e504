//! From dead to free: units without a valid block are reset once nothing that a crash could bring back needs them.

use thermocline_format::{Entry, MediaClass};
use thermocline_types::UnitId;

use crate::bugs::bug;
use crate::device::DeviceCmd;
use crate::durability::Then;
use crate::engine::{Op, Parts};
use crate::marks::mark;
use crate::payload::Payload;
use crate::space::{Terms, Verdict};

/// Dead units that are worth a flush although no unit is missed. Chosen, not measured.
const BATCH: usize = 8;

/// Units released at once, at most: their entries, of two lines each, fill two chunks.
const RELEASED: usize = thermocline_format::MAX_LINES;

/// Dead units looked at in one step, at most. Chosen so that a step takes well under a millisecond.
const LOOKED_AT: usize = 4 * RELEASED;

impl<P: Payload> Parts<P> {
    /// Starts to free dead units. Those with chunks to be replayed not between the choice of a checkpoint and its
    /// superblock: the counts of chunks in Released entries would be those of the one or the other.
    pub(crate) fn release_step(&mut self) -> bool {
        let scarce = |media| {
            let ahead = self.config.gc.ahead_units / 2;
            self.space.free_units(media) <= self.reserve_of(media) + ahead
                && self.space.dead(media).len() > 0
        };
        let scarce = MediaClass::ALL.into_iter().any(scarce);
        // What must be empty is not kept for company.
        if !scarce && !self.space.has_condemned() && self.space.dead_units() < BATCH {
            return false;
        }
        // Without a unit for control entries, the engine releases only units that need no control entry and whose death
        // depends on no waiting control entry.
        let sealed = self.seal_control();
        let any = self.superblocks.are_settled() && !self.due.is_under_way() && sealed;
        let control = (!sealed).then_some(self.space.control_sealed());
        let terms = Terms { checkpoint: self.superblocks.durable_checkpoint(), any, control };
        let ready = self.releasable(terms);
        let held = MediaClass::ALL.into_iter().any(|media| self.space.dead(media).has_held());
        if held && scarce && any {
            mark!(PinnedByControl);
            // Control entries fill units that only a checkpoint frees, and it needs units itself: not when none is
            // left.
            self.want_checkpoint();
        }
        if !sealed {
            self.want_checkpoint();
        }
        if !ready.is_empty() {
            return self.release(ready, any);
        }
        let fresh = MediaClass::ALL.into_iter().any(|media| self.space.dead(media).has_fresh());
        self.flush_dead() || fresh
    }

    /// Dead units that `terms` allow to be released: a bounded number of units with possible changes.
    fn releasable(&mut self, terms: Terms) -> Vec<UnitId> {
        let (mut ready, mut budget) = (Vec::new(), LOOKED_AT);
        for media in MediaClass::ALL {
            let mut dead = self.space.take_dead(media);
            dead.renew(self.durability.durable(), terms);
            dead.look(&mut ready, RELEASED, &mut budget, |unit| self.may_release(unit, terms));
            self.space.put_dead(media, dead);
        }
        ready
    }

    /// Has units reset as soon as their release entries, where needed, are durable. Returns whether the units will be
    /// reset.
    pub(crate) fn release(&mut self, ready: Vec<UnitId>, any: bool) -> bool {
        let mut said = 0;
        for &unit in &ready {
            let (chunks, sum) = self.space.tail_of(unit);
            if chunks > 0 && any && !bug!(self.config, ReleaseNotLogged) {
                mark!(ReleaseLogged);
                let more = u32::from(bug!(self.config, ReleaseMiscounted));
                let (generation, chunks) = (self.space.generation(unit), chunks + more);
                let entries = vec![Entry::Released { unit, generation, chunks, sum }];
                self.cache.say(entries, Vec::new());
                said += 1;
            }
        }
        if said > 0 && !self.seal_control() {
            mark!(NoUnitForRelease);
            // No unit for the entries: nobody waits for these. Earlier entries, of a failed write, must stay.
            self.cache.unsay(said);
            self.space.not_released(ready);
            self.want_checkpoint();
            return false;
        }
        self.space.begin_release(&ready);
        if bug!(self.config, ResetWithoutFlush) {
            self.reset_released(&ready);
            return true;
        }
        let then = Then::Release { units: ready };
        if let Some(Then::Release { units }) = self.await_flush(self.flights.sealed(), then) {
            self.reset_released(&units);
        }
        true
    }

    /// Whether a unit holds control entries that would be replayed: only a checkpoint frees it.
    pub(crate) fn is_pinned(&self, unit: UnitId) -> bool {
        self.space.units().class(unit) == self.config.metadata_class()
            && self.space.newest_control(unit) >= self.superblocks.durable_checkpoint()
    }

    /// Whether a dead unit can be released on these terms.
    fn may_release(&self, unit: UnitId, terms: Terms) -> Verdict {
        // A chunk that a crash may still lose must not be counted as released.
        let newest = self.space.newest_chunk(unit);
        if newest > self.durability.durable() {
            return Verdict::NotDurable(newest);
        }
        let read = self.space.has_readers(unit) && !bug!(self.config, ResetUnderReaders);
        if self.space.has_writers(unit) || read {
            return Verdict::InUse;
        }
        let pinned = self.is_pinned(unit) && !bug!(self.config, MetadataResetTooEarly);
        // An unlisted unit has no chunks to replay. Neither has a unit written only by interrupted openings. A unit
        // released before this opening needs no second release.
        let listed = self.space.listed().contains_key(&unit.0);
        let vain = !self.space.was_replayed(unit) && self.space.tail_of(unit).0 == 0;
        let in_vain = !self.superblocks.are_settled() && vain;
        mark!(WrittenInVain if listed && in_vain);
        let counts = terms.any || !listed || in_vain;
        let known = terms.control.is_none_or(|sealed| self.space.died(unit) < sealed);
        if counts && !pinned && known { Verdict::Ready } else { Verdict::Held }
    }

    /// Has the chunks of dead units flushed, so that they can be released. Returns whether there are any to flush.
    fn flush_dead(&mut self) -> bool {
        let newest =
            MediaClass::ALL.into_iter().filter_map(|media| self.space.dead(media).newest());
        let last = newest.max().unwrap_or_default();
        if last <= self.durability.durable() || !self.space.begin_flushing_dead() {
            return false;
        }
        mark!(DeadFlushed);
        if self.await_flush(last, Then::Dead).is_some() {
            self.space.dead_flushed();
        }
        true
    }

    /// Resets units whose release is durable.
    pub(crate) fn reset_released(&mut self, units: &[UnitId]) {
        for &unit in units {
            let (blocks, chunks) = self.space.replayed(unit);
            let bytes = u64::from(blocks) * self.config.geometry.logical_block().bytes() as u64;
            if self.config.geometry.is_tiered() {
                self.due.release(bytes, u64::from(chunks));
            }
            if self.space.released(unit) {
                mark!(CondemnedReleased);
                self.retire(unit);
            }
        }
        self.reset_next();
    }

    /// Resets the next unit if no other is being reset: erasing keeps dies busy for milliseconds, and the host is not
    /// to meet several at once. When units are missing, as many as there are.
    pub(crate) fn reset_next(&mut self) {
        let many = self.units_are_missing();
        while let Some(unit) = self.space.next_reset(many) {
            self.stats.resets += 1;
            let op = self.ops.insert(Op::Reset { unit });
            self.device(op, DeviceCmd::Reset(unit));
        }
    }

    /// Whether no unit is left but those that are set aside, on some media that is in use.
    fn units_are_missing(&self) -> bool {
        let missing = |media| self.space.free_units(media) <= self.reserve_of(media);
        missing(MediaClass::Capacity)
            || self.config.geometry.is_tiered() && missing(MediaClass::Fast)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{Location, OpenUnit, Sequence};
    use thermocline_types::Class;

    use super::*;
    use crate::engine::parts::testing::{free, parts};

    const UNIT: UnitId = UnitId(8);
    const ANY: Terms = Terms { checkpoint: Sequence(1), any: true, control: None };
    const SOME: Terms = Terms { any: false, ..ANY };

    /// Unit 8 is full of chunk 5 of `class` and dead. The unit is listed from block 0; `more` units are free.
    fn dead(class: Class, more: u32) -> Parts<()> {
        let mut p = parts();
        free(&mut p, UNIT.0, 1 + more);
        let next = Location { unit: UNIT, block: 0 };
        let generation = p.space.generation(UNIT);
        p.space.set_listed(&[OpenUnit { next, generation }]);
        p.space.open(class, MediaClass::Capacity).expect("a free unit");
        p.space.begin_chunk(UNIT, Sequence(5));
        p.space.end_chunk(class, Location { unit: UNIT, block: 256 });
        p.space.chunk_answered(class, UNIT);
        p.close_frontier(class);
        p
    }

    #[test]
    fn a_dead_unit_waits_for_its_chunks_to_be_durable_and_for_whoever_uses_it() {
        let mut p = dead(Class(0), 0);
        assert_eq!(p.may_release(UNIT, ANY), Verdict::NotDurable(Sequence(5)));
        p.durability.recovered(Sequence(5));
        assert_eq!(p.may_release(UNIT, ANY), Verdict::Ready);
        p.space.add_reader(UNIT);
        assert_eq!(p.may_release(UNIT, ANY), Verdict::InUse);
        p.space.drop_reader(UNIT);
        p.space.begin_chunk(UNIT, Sequence(5));
        assert_eq!(p.may_release(UNIT, ANY), Verdict::InUse);
    }

    #[test]
    fn a_dead_unit_is_held_while_a_replay_needs_it() {
        let mut p = dead(Class(0), 0);
        p.durability.recovered(Sequence(5));
        assert_eq!(p.may_release(UNIT, SOME), Verdict::Held, "a checkpoint is under way");
        p.superblocks.set_settled(false);
        assert_eq!(p.may_release(UNIT, SOME), Verdict::Held, "it has a chunk of the tail");
        p.space.uncount_chunk(UNIT, Sequence(5));
        assert_eq!(p.may_release(UNIT, SOME), Verdict::Ready, "it was written in vain");
        p.space.set_replayed(UNIT, true);
        assert_eq!(p.may_release(UNIT, SOME), Verdict::Held);
        p.space.set_listed(&[]);
        assert_eq!(p.may_release(UNIT, SOME), Verdict::Ready, "nothing of it is replayed");
        let died = p.space.died(UNIT);
        let control = |sealed| Terms { control: Some(sealed), ..ANY };
        assert_eq!(p.may_release(UNIT, control(died)), Verdict::Held);
        assert_eq!(p.may_release(UNIT, control(died + 1)), Verdict::Ready);
    }

    #[test]
    fn control_entries_of_a_tail_keep_their_unit_until_a_checkpoint() {
        let metadata = parts().config.metadata_class();
        let mut p = dead(metadata, 0);
        p.durability.recovered(Sequence(5));
        assert_eq!(p.may_release(UNIT, ANY), Verdict::Ready);
        p.space.note_control(UNIT, Sequence(1));
        assert_eq!(p.may_release(UNIT, ANY), Verdict::Held);
    }

    #[test]
    fn a_unit_with_chunks_of_the_tail_is_released_only_with_an_entry_that_says_it() {
        let mut p = dead(Class(0), 8);
        assert!(p.release(vec![UNIT], true) && p.space.resetting() == 1);
        assert_eq!(p.flights.sealed(), Sequence(1), "a chunk has the entry");
        assert_eq!(p.stats.resets, 0, "the entry is not durable");
        // Of a unit without such chunks, and where those count no more, nothing is said.
        for (chunks, any) in [(0, true), (1, false)] {
            let mut p = dead(Class(0), 0);
            if chunks == 0 {
                p.space.uncount_chunk(UNIT, Sequence(5));
            }
            assert!(p.release(vec![UNIT], any));
            assert_eq!((p.flights.sealed(), p.stats.resets), (Sequence(0), 1));
        }
    }

    #[test]
    fn without_a_unit_for_its_entry_a_dead_unit_stays_and_a_checkpoint_is_wanted() {
        let mut p = dead(Class(0), 0);
        assert!(!p.release(vec![UNIT], true));
        assert!(!p.cache.has_control() && p.due.is_wanted());
        assert_eq!((p.space.resetting(), p.stats.resets), (0, 0));
    }
}
