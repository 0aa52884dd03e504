//! Blocks of a victim that are in memory: where each goes, at what pace, and which stay.

use rustc_hash::FxHashSet;
use thermocline_format::{MAX_LINES, MediaClass, home_mark};
use thermocline_ftl::placement::{Classifier as _, Survivor};
use thermocline_types::Lba;

use super::{STEP, Valid};
use crate::bugs::bug;
use crate::engine::gc::Collector;
use crate::engine::{Parts, Phase};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Extent;
use crate::write_cache::{Owners, Staged};

impl<P: Payload> Collector<P> {
    /// Stages blocks that were read, a bounded number, if they are paid for. Returns whether it did.
    pub(super) fn place(&mut self, p: &mut Parts<P>) -> bool {
        // The host pays for victims on its own media. Victims on other media are prerequisites.
        let own = self
            .job
            .as_ref()
            .is_some_and(|job| p.space.media_of(job.victim) == p.config.host_media());
        // Copies are free of charge while every host write waits for units.
        let urgent = p.host_is_stuck() || !own;
        let idle = p.requests.is_empty() && p.cache.waiting() == 0;
        let idle = idle || p.phase == Phase::Closing;
        // Requests that wait for memory earn no credit.
        let idle = idle || p.pages.waiting() > 0;
        let paid = if urgent || idle { STEP } else { p.collection.pace_mut().affords(STEP) };
        // Copies that free no units need no credit: a chunk at a time.
        let freely = self.is_emptied_for_good(p) && p.cache.copies() < MAX_LINES;
        let paid = if freely { STEP } else { paid };
        if p.copies_are_many() || !p.may_copy((p.cache.copies() + STEP) as u64) {
            return false;
        }
        let (mut placed, mut stayed) = (0, 0);
        while placed < paid
            && stayed < STEP
            && let Some(job) = &mut self.job
            && let Some((mut valid, utilisation)) = job.ready.pop_front()
        {
            if let Some(units) = self.stays_put(p, &valid) {
                units.insert(valid.at.unit.0);
                stayed += 1;
                continue;
            }
            if self.waits_to_stay(p, valid.volume, valid.id) {
                let job = self.job.as_mut().expect("it was just looked at");
                job.ready.push_front((valid, utilisation));
                break;
            }
            let payload = valid.payload.take();
            self.place_block(p, &valid, payload, utilisation);
            placed += 1;
        }
        if own {
            p.collection.pace_mut().spend(placed);
        }
        placed > 0 || stayed > 0 && !bug!(p.config, StayedIsNoWork)
    }

    /// Whether the victim is condemned, so that collection frees no unit.
    fn is_emptied_for_good(&self, p: &Parts<P>) -> bool {
        self.job.as_ref().is_some_and(|job| p.space.is_condemned(job.victim))
    }

    fn place_block(
        &mut self,
        p: &mut Parts<P>,
        valid: &Valid<P>,
        payload: Option<P>,
        utilisation: f32,
    ) {
        if !p.volumes.is(valid.volume, valid.id) {
            mark!(SurvivorGone);
            return;
        }
        let home = home_mark(valid.id, Lba(valid.lba));
        let passes = |payload: &P| self.is_survivor(p, valid, payload, 0);
        let Some(payload) = payload.filter(passes) else {
            mark!(SurvivorDamaged);
            self.stuck.insert(valid.at.unit.0);
            p.stats.damaged_blocks += 1;
            let volume = p.volumes.map(valid.volume).user;
            let holds = Extent { volume, lba: valid.lba, blocks: 1 };
            p.report_damage(valid.at, Some(holds));
            return;
        };
        let crc = payload.crc(0) ^ home;
        p.volumes.map(valid.volume).prefetch(valid.lba);
        let lba = Lba(p.volumes.map(valid.volume).base + valid.lba);
        let class = if let Some(arrivals) = p.config.arrivals()
            && valid.from == arrivals
        {
            self.class_of_leaving(p, valid.volume, lba, arrivals)
        } else {
            let survivor = Survivor { lba, from: valid.from, utilisation };
            p.config.placement.place_survivor(survivor, p.host_writes)
        };
        let staged = Staged {
            volume: valid.volume,
            id: valid.id,
            copy: true,
            lifted: false,
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
        p.cache.push_copy(staged);
    }

    /// Whether a block of a fast volume stays in the unit that is emptied, and among which units that is counted: with
    /// those that do not run short, or, if no fast unit is free for it, with those that come last.
    fn stays_put(&mut self, p: &mut Parts<P>, valid: &Valid<P>) -> Option<&mut FxHashSet<u32>> {
        let unit = valid.at.unit;
        let fast = p.space.media_of(unit) == MediaClass::Fast;
        if !fast || !p.is_of_fast(valid.volume, valid.id) || p.space.is_condemned(unit) {
            return None;
        }
        if self.job.as_ref().is_some_and(|job| job.early) {
            mark!(StaysEarly);
            return Some(&mut self.left_to_fast);
        }
        let stays = !self.overflows && !self.may_go_to_fast(p) && self.stays.one();
        mark!(StaysPut if stays);
        stays.then_some(&mut self.kept)
    }
}
