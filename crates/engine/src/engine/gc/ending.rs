//! The end of a victim, and the wait of the last copies.
//!
//! The copies of a victim fill some chunks, and a part of one more. Where a unit holds few chunks that part is a good
//! share of all copies, and its header costs room of which there is little. So these copies wait for those of the next
//! victim, and the unit is dead a little later.
//!
//! Invariants:
//! * Until all its copies are sealed, a victim is not reset: the originals stay in place.
//! * Copies wait only for an existing next victim, else the engine seals the copies at once.

use thermocline_format::MediaClass;

use crate::collection::Ending;
use crate::engine::Parts;
use crate::engine::gc::Collector;
use crate::engine::gc::choice::Choice;
use crate::marks::mark;
use crate::payload::Payload;

impl<P: Payload> Collector<P> {
    /// Ends the job. The victim ends when all its copies are sealed, or the last copies wait while collection begins
    /// the next victim. Returns whether the job ended; `lacks` is set to the next step if no next victim exists.
    pub(super) fn finish_job(&mut self, p: &mut Parts<P>, lacks: &mut Option<Choice>) -> bool {
        self.tell_victim(p);
        let waits = p.cache.copies() > 0;
        if waits && !p.may_hand_over() {
            return false;
        }
        self.unpin_all(p);
        let job = self.job.take().expect("a job is at this step");
        let mut ending = Ending { victim: job.victim, at_first: job.at_first, copies: 0 };
        if waits {
            mark!(VictimsShareChunk);
            let own = p.cache.copied().filter(|from| p.unit_of(*from) == job.victim);
            ending.copies = own.count();
            p.collection.wait(ending);
            // At once: without a next victim the waiting copies are sealed.
            *lacks = self.begin_next(p).lacks;
        } else {
            self.end_victim(p, &ending);
        }
        true
    }

    /// Is done with victims none of whose copies waits any more. Returns whether there were any.
    pub(super) fn end_victims(&mut self, p: &mut Parts<P>) -> bool {
        let mut any = false;
        while let Some(ending) = p.collection.take_ended() {
            self.end_victim(p, &ending);
            any = true;
        }
        any
    }

    fn end_victim(&mut self, p: &mut Parts<P>, ending: &Ending) {
        let victim = ending.victim;
        let left = p.space.end_relocation(victim);
        p.stats.gc_units += 1;
        if p.space.media_of(victim) == MediaClass::Fast {
            self.fast_unit_left(p);
            p.destage.end_age(victim);
        }
        let kept = [&self.kept, &self.left_to_fast];
        let stays = kept.iter().any(|kept| kept.contains(&victim.0));
        if left > 0 && left >= ending.at_first && !stays {
            mark!(NothingCopied);
            // No block could be copied: the blocks are damaged, or their volume is being deleted.
            self.stuck.insert(victim.0);
        }
    }
}
