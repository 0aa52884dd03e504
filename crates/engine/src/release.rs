//! From dead to free: units without a valid block are reset once nothing that a crash could bring back needs them.

mod dead;

use thermocline_format::{Entry, MediaClass, Sequence};
use thermocline_types::UnitId;

use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError};
use crate::durability::Then;
use crate::engine::{Engine, Op};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::{Action, Notice};

pub(crate) use dead::Dead;
use dead::{Terms, Verdict};

/// Dead units that are worth a flush although no unit is missed. Chosen, not measured.
const BATCH: usize = 8;

/// Units released at once, at most: their entries fill a chunk.
const RELEASED: usize = thermocline_format::MAX_ENTRIES;

/// Dead units looked at in one step, at most. Chosen so that a step takes well under a millisecond.
const LOOKED_AT: usize = 4 * RELEASED;

const MEDIA: [MediaClass; 2] = [MediaClass::Capacity, MediaClass::Fast];

impl<P: Payload> Engine<P> {
    /// Starts to free dead units. Those with chunks to be replayed not between the choice of a checkpoint and its
    /// superblock: the counts of chunks in Released entries would be those of the one or the other.
    pub(crate) fn release_step(&mut self) -> bool {
        let scarce = |media| {
            let ahead = self.config.gc.ahead_units / 2;
            self.space.free_units(media) <= self.reserve_of(media) + ahead
                && self.space.supply(media).dead.len() > 0
        };
        let scarce = MEDIA.into_iter().any(scarce);
        if !scarce && self.space.dead_units() < BATCH {
            return false;
        }
        // Without a unit for control entries, those can be released that need none and died of none that waits.
        let sealed = self.seal_control();
        let any = self.superblocks.settled && self.checkpoint.is_none() && sealed;
        let control = (!sealed).then_some(self.space.control_sealed);
        let terms = Terms { checkpoint: self.superblocks.durable_checkpoint(), any, control };
        let ready = self.releasable(terms);
        let held = MEDIA.into_iter().any(|media| self.space.supply(media).dead.has_held());
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
        let fresh = MEDIA.into_iter().any(|media| self.space.supply(media).dead.has_fresh());
        self.flush_dead() || fresh
    }

    /// Dead units that can be released on these terms: some of those for which something may have changed.
    fn releasable(&mut self, terms: Terms) -> Vec<UnitId> {
        let (mut ready, mut budget) = (Vec::new(), LOOKED_AT);
        for media in MEDIA {
            let mut dead = std::mem::take(&mut self.space.supply_mut(media).dead);
            dead.renew(self.durability.durable(), terms);
            dead.look(&mut ready, RELEASED, &mut budget, |unit| self.may_release(unit, terms));
            self.space.supply_mut(media).dead = dead;
        }
        ready
    }

    /// Has these units reset as soon as it is durable, where that is needed, that they are released. Returns whether
    /// they will be.
    fn release(&mut self, ready: Vec<UnitId>, any: bool) -> bool {
        let mut said = 0;
        for &unit in &ready {
            let tail = &self.space.tails[unit.index()];
            if tail.chunks > 0 && any && !bug!(self.config, ReleaseNotLogged) {
                mark!(ReleaseLogged);
                let more = u32::from(bug!(self.config, ReleaseMiscounted));
                let (generation, chunks, sum) = (tail.generation, tail.chunks + more, tail.sum);
                let entries = vec![Entry::Released { unit, generation, chunks, sum }];
                self.cache.say(entries, Vec::new());
                said += 1;
            }
        }
        if said > 0 && !self.seal_control() {
            mark!(NoUnitForRelease);
            // No unit for the entries: nobody waits for these. Those of a failed write before them must stay.
            self.cache.unsay(said);
            ready.into_iter().for_each(|unit| self.space.supply_of(unit).dead.push(unit));
            self.want_checkpoint();
            return false;
        }
        ready.iter().for_each(|unit| self.space.supply_of(*unit).resetting += 1);
        self.space.releasing += ready.len() as u32;
        if bug!(self.config, ResetWithoutFlush) {
            self.reset_released(&ready);
            return true;
        }
        self.await_flush(self.flights.sealed(), Then::Release { units: ready });
        true
    }

    /// Whether a unit holds control entries that would be replayed: only a checkpoint frees it.
    fn is_pinned(&self, unit: UnitId) -> bool {
        self.space.units.class(unit) == self.config.metadata_class()
            && self.space.tails[unit.index()].control >= self.superblocks.durable_checkpoint()
    }

    /// Whether a dead unit can be released on these terms.
    fn may_release(&self, unit: UnitId, terms: Terms) -> Verdict {
        let tail = &self.space.tails[unit.index()];
        // A chunk that a crash may still lose must not be counted as released.
        if tail.last > self.durability.durable() {
            return Verdict::NotDurable(tail.last);
        }
        if tail.writers > 0 || tail.readers > 0 && !bug!(self.config, ResetUnderReaders) {
            return Verdict::InUse;
        }
        let pinned = self.is_pinned(unit) && !bug!(self.config, MetadataResetTooEarly);
        // A unit that is not listed has nothing that would be replayed, nor has one that was written by openings that
        // were cut short and by nobody else.
        let listed = self.space.listed.contains_key(&unit.0);
        let in_vain = !self.superblocks.settled && !tail.replayed && tail.chunks == 0;
        mark!(WrittenInVain if listed && in_vain);
        let counts = terms.any || !listed || in_vain;
        let known = terms.control.is_none_or(|sealed| tail.died < sealed);
        if counts && !pinned && known { Verdict::Ready } else { Verdict::Held }
    }

    /// Has the chunks of dead units flushed, so that they can be released. Returns whether there are any to flush.
    fn flush_dead(&mut self) -> bool {
        let newest = MEDIA.into_iter().filter_map(|media| self.space.supply(media).dead.newest());
        let last = newest.max().unwrap_or_default();
        if last <= self.durability.durable() || self.space.flushing_dead {
            return false;
        }
        mark!(DeadFlushed);
        self.space.flushing_dead = true;
        self.await_flush(last, Then::Dead);
        true
    }

    /// Resets units whose release is durable.
    pub(crate) fn reset_released(&mut self, units: &[UnitId]) {
        self.space.releasing -= units.len() as u32;
        for &unit in units {
            let tail = self.space.tail(unit);
            tail.control = Sequence(0);
            if tail.condemned {
                mark!(CondemnedReleased);
                self.space.supply_of(unit).resetting -= 1;
                self.retire(unit);
                continue;
            }
            self.space.to_reset.push_back(unit);
        }
        self.reset_next();
    }

    /// Resets the next unit if no other is being reset: erasing keeps dies busy for milliseconds, and the host is not
    /// to meet several at once. When units are missing, as many as there are.
    fn reset_next(&mut self) {
        while !self.space.to_reset.is_empty()
            && (self.space.resets == 0 || self.units_are_missing())
        {
            let unit = self.space.to_reset.pop_front().expect("it is not empty");
            self.space.resets += 1;
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

    pub(crate) fn unit_reset(&mut self, unit: UnitId, result: Result<(), DeviceError>) {
        self.space.supply_of(unit).resetting -= 1;
        self.space.resets -= 1;
        match result {
            Ok(()) => {
                self.space.units.erase(unit);
                self.space.touch(unit);
                self.gc_unstick(unit);
                self.space.supply_of(unit).free.push_back(unit);
            }
            Err(DeviceError::Gone) => self.fail(),
            Err(_) => {
                mark!(ResetFailed);
                self.retire(unit);
            }
        }
        self.reset_next();
    }

    /// Takes an empty unit out of service.
    fn retire(&mut self, unit: UnitId) {
        self.space.units.retire(unit);
        self.space.touch(unit);
        self.space.condemned.remove(&unit.0);
        self.space.listed.remove(&unit.0);
        self.space.retired += 1;
        self.actions.push_back(Action::Notice(Notice::Retired(unit)));
    }

    /// Writes no more to a unit that the device will not write or reset again; what it holds is copied elsewhere.
    pub(crate) fn condemn(&mut self, unit: UnitId) {
        if std::mem::replace(&mut self.space.tail(unit).condemned, true) {
            return;
        }
        self.space.condemned.insert(unit.0);
        // Chunks to be replayed may stand in it: the sooner they need not be, the better.
        self.want_checkpoint();
    }
}
