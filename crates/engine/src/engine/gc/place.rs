//! Blocks of a victim that are in memory: where each goes, at what pace, and which stay.

use rustc_hash::FxHashSet;
use thermocline_format::{MAX_LINES, MediaClass, home_mark};
use thermocline_ftl::placement::{Classifier as _, Survivor};
use thermocline_types::Lba;

use super::{STEP, Valid};
use crate::bugs::bug;
use crate::engine::{Engine, Phase};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Extent;
use crate::write_cache::{Owners, Staged};

impl<P: Payload> Engine<P> {
    /// Stages blocks that were read, a bounded number, if they are paid for. Returns whether it did.
    pub(super) fn place(&mut self) -> bool {
        // The host pays for what frees its own units; the others are needed for that.
        let own = self.gc.job.as_ref().is_some_and(|job| {
            self.parts.space.media_of(job.victim) == self.parts.config.host_media()
        });
        // Nobody pays while all that the host writes waits for those.
        let urgent = self.parts.host_is_stuck() || !own;
        let idle = self.parts.requests.is_empty() && self.parts.cache.waiting() == 0;
        let idle = idle || self.parts.phase == Phase::Closing;
        // Who waits for memory earns no credit.
        let idle = idle || self.parts.pages.waiting() > 0;
        let paid =
            if urgent || idle { STEP } else { self.parts.collection.pace_mut().affords(STEP) };
        // What frees nothing is not earned either: a chunk at a time.
        let freely = self.is_emptied_for_good() && self.parts.cache.copies() < MAX_LINES;
        let paid = if freely { STEP } else { paid };
        if self.parts.copies_are_many()
            || !self.parts.may_copy((self.parts.cache.copies() + STEP) as u64)
        {
            return false;
        }
        let (mut placed, mut stayed) = (0, 0);
        while placed < paid
            && stayed < STEP
            && let Some(job) = &mut self.gc.job
            && let Some((mut valid, utilisation)) = job.ready.pop_front()
        {
            if let Some(units) = self.stays_put(&valid) {
                units.insert(valid.at.unit.0);
                stayed += 1;
                continue;
            }
            if self.waits_to_stay(valid.volume, valid.id) {
                let job = self.gc.job.as_mut().expect("it was just looked at");
                job.ready.push_front((valid, utilisation));
                break;
            }
            let payload = valid.payload.take();
            self.place_block(&valid, payload, utilisation);
            placed += 1;
        }
        if own {
            self.parts.collection.pace_mut().spend(placed);
        }
        placed > 0 || stayed > 0 && !bug!(self.parts.config, StayedIsNoWork)
    }

    /// Whether the unit that is collected will not be written again, so that emptying it frees nothing.
    fn is_emptied_for_good(&self) -> bool {
        self.gc.job.as_ref().is_some_and(|job| self.parts.space.is_condemned(job.victim))
    }

    fn place_block(&mut self, valid: &Valid<P>, payload: Option<P>, utilisation: f32) {
        if !self.parts.volumes.is(valid.volume, valid.id) {
            mark!(SurvivorGone);
            return;
        }
        let home = home_mark(valid.id, Lba(valid.lba));
        let passes = |payload: &P| self.is_survivor(valid, payload, 0);
        let Some(payload) = payload.filter(passes) else {
            mark!(SurvivorDamaged);
            self.gc.stuck.insert(valid.at.unit.0);
            self.parts.stats.damaged_blocks += 1;
            let holds = Extent { volume: valid.id, lba: valid.lba, blocks: 1 };
            self.parts.report_damage(valid.at, Some(holds));
            return;
        };
        let crc = payload.crc(0) ^ home;
        self.parts.volumes.map(valid.volume).prefetch(valid.lba);
        let lba = Lba(self.parts.volumes.map(valid.volume).base + valid.lba);
        let class = if let Some(arrivals) = self.parts.config.arrivals()
            && valid.from == arrivals
        {
            self.class_of_leaving(valid.volume, lba, arrivals)
        } else {
            let survivor = Survivor { lba, from: valid.from, utilisation };
            self.parts.config.placement.place_survivor(survivor, self.parts.host_writes)
        };
        let staged = Staged {
            volume: valid.volume,
            id: valid.id,
            copy: true,
            replaces: false,
            alive: true,
            acknowledged: false,
            crc,
            lba: valid.lba,
            class,
            ticket: 0,
            old: Some(valid.value),
            owners: Owners::Nobody,
            payload,
        };
        self.parts.cache.push_copy(staged);
    }

    /// Whether a block of a fast volume stays in the unit that is emptied, and among which units that is counted: with
    /// those that do not run short, or, if no fast unit is free for it, with those that come last.
    fn stays_put(&mut self, valid: &Valid<P>) -> Option<&mut FxHashSet<u32>> {
        let unit = valid.at.unit;
        let fast = self.parts.space.media_of(unit) == MediaClass::Fast;
        if !fast
            || !self.parts.is_of_fast(valid.volume, valid.id)
            || self.parts.space.is_condemned(unit)
        {
            return None;
        }
        if self.gc.job.as_ref().is_some_and(|job| job.early) {
            mark!(StaysEarly);
            return Some(&mut self.gc.left_to_fast);
        }
        let stays = !self.gc.overflows && !self.may_go_to_fast() && self.stays.one();
        mark!(StaysPut if stays);
        stays.then_some(&mut self.gc.kept)
    }
}
