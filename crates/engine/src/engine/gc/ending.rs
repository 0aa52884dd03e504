//! The end of a victim, and what its last copies wait for.
//!
//! The copies of a victim fill some chunks, and a part of one more. Where a unit holds few chunks that part is a good
//! share of all copies, and its header costs room of which there is little. So these copies wait for those of the next
//! victim, and the unit is dead a little later.
//!
//! Invariants:
//! * Until all its copies are sealed, a victim is not written again: what they were copied from stays where it was.
//! * Copies wait only for a victim that is there; without one they are sealed at once.

use thermocline_format::{MAX_LINES, MediaClass};
use thermocline_types::UnitId;

use super::{Gc, Step};
use crate::engine::{Engine, Phase};
use crate::map::Value;
use crate::marks::mark;
use crate::payload::Payload;

/// Victims whose copies wait at once, at most. With one, WAF of Zipf 1.0 on 2,297 units is 0.6 % higher, with eight and
/// twice as many copies 0.6 % lower; uniform writes fill all chunks with one.
const ENDING: usize = 3;

/// Chunks in a unit, at most, so that its copies wait. In units of 16 chunks they gain 0.2 %, and the slowest writes
/// take longer.
const CHUNKS: usize = 8;

/// A victim of which everything was placed.
#[derive(Debug)]
pub(super) struct Ending {
    victim: UnitId,
    /// Valid blocks when it was chosen.
    at_first: u32,
    /// Copies that wait to be sealed.
    copies: usize,
}

impl<P> Gc<P> {
    /// Victims on `media` whose last copies wait for those of others: units that will be dead.
    pub(super) fn ending_on(&self, media: MediaClass) -> u32 {
        if media == MediaClass::Capacity { self.ending.len() as u32 } else { 0 }
    }

    /// Whether all that is to be copied now has been staged.
    fn has_staged_all(&self) -> bool {
        self.job.as_ref().is_none_or(|job| {
            (job.step == Step::Done || job.drains && job.valid.is_empty()) && job.has_placed_all()
        })
    }
}

impl<P: Payload> Engine<P> {
    /// Whether copies of a queue should be sealed though they do not fill a chunk. That a host finds no unit is no
    /// reason: a part of a victim frees none.
    pub(crate) fn copies_are_urgent(&self, queue: usize) -> bool {
        let ends = self.gc.has_staged_all()
            && !self.may_hand_over()
            && (self.gc.ending.len() < ENDING || self.is_awaited_by_ending(queue));
        ends || self.cache.has_replacements() || self.pages.waiting() > 0
    }

    /// Whether the next copy of a queue is of the victim that waits longest.
    fn is_awaited_by_ending(&self, queue: usize) -> bool {
        let from = self.cache.first(queue).and_then(|slot| self.cache.block(slot).old);
        let victim = self.gc.ending.first().map(|ending| ending.victim);
        let is = victim.is_some() && from.map(|from| self.unit_of(from)) == victim;
        mark!(ManyVictimsEnd if is);
        is
    }

    /// Whether the last copies of the victim may wait for those of the next: units are short, so that there will be
    /// one, but not so short that the host waits for this one.
    fn may_hand_over(&self) -> bool {
        let Some(job) = &self.gc.job else { return false };
        let (media, waiting) = (MediaClass::Capacity, self.gc.ending.len());
        job.step == Step::Done
            && job.has_placed_all()
            && job.pins.is_empty()
            && self.dense <= (CHUNKS * MAX_LINES) as u64
            && waiting < ENDING
            && self.space.media_of(job.victim) == media
            && self.is_short(media)
            && self.coming_units(media) > self.reserve_of(media) + waiting as u32
            && self.phase == Phase::Open
            && !self.space.has_condemned()
            && !self.cache.has_replacements()
            && self.pages.waiting() == 0
    }

    /// The victim is done with when none of its copies waits to be sealed; or it waits for the last of them while the
    /// next one is collected. Returns whether it is, or does.
    pub(super) fn finish_job(&mut self) -> bool {
        let waits = self.cache.copies() > 0;
        if waits && !self.may_hand_over() {
            return false;
        }
        self.unpin_all();
        let job = self.gc.job.take().expect("a job is at this step");
        let mut ending = Ending { victim: job.victim, at_first: job.at_first, copies: 0 };
        if waits {
            mark!(VictimsShareChunk);
            let own = self.cache.copied().filter(|from| self.unit_of(*from) == job.victim);
            ending.copies = own.count();
            self.gc.ending.push(ending);
            // At once: what waits for a victim that is not there is sealed.
            self.gc_next();
        } else {
            self.end_victim(&ending);
        }
        true
    }

    /// A copy of what was at `from` leaves its queue.
    #[inline]
    pub(crate) fn copy_leaves(&mut self, from: Value) {
        if self.gc.ending.is_empty() {
            return;
        }
        let unit = self.unit_of(from);
        if let Some(ending) = self.gc.ending.iter_mut().find(|ending| ending.victim == unit) {
            ending.copies -= 1;
        }
    }

    /// Is done with victims none of whose copies waits any more. Returns whether there were any.
    pub(super) fn end_victims(&mut self) -> bool {
        let mut any = false;
        while let Some(at) = self.gc.ending.iter().position(|ending| ending.copies == 0) {
            let ending = self.gc.ending.remove(at);
            self.end_victim(&ending);
            any = true;
        }
        any
    }

    fn end_victim(&mut self, ending: &Ending) {
        let victim = ending.victim;
        let left = self.space.end_relocation(victim);
        self.stats.gc_units += 1;
        if self.space.media_of(victim) == MediaClass::Fast {
            self.fast_unit_left();
            self.destage.end_age(victim);
        }
        let kept = [&self.gc.kept, &self.gc.left_to_fast];
        let stays = kept.iter().any(|kept| kept.contains(&victim.0));
        if left > 0 && left >= ending.at_first && !stays {
            mark!(NothingCopied);
            // Nothing of it could be copied: blocks of a volume that is being deleted, or damaged ones.
            self.gc.stuck.insert(victim.0);
        }
    }

    /// Whether a victim is free as soon as the copies that wait are durable: without a control entry or a checkpoint,
    /// also after a crash. Then they may take the last unit there is.
    pub(super) fn is_freed_by_copies(&self) -> bool {
        let ending = self.gc.ending.iter().map(|ending| (ending.victim, ending.copies));
        let others: usize = self.gc.ending.iter().map(|ending| ending.copies).sum();
        let job = self.gc.job.iter().filter(|_| self.gc.has_staged_all());
        let job = job.map(|job| (job.victim, self.cache.copies() - others));
        !self.cache.has_replacements()
            && ending.chain(job).any(|(victim, copies)| {
                let left = self.space.units().valid_count(victim) as usize;
                left <= copies && !self.space.listed().contains_key(&victim.0)
            })
    }
}
