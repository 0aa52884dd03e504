//! The choice of the next victim, and the next step without a victim.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;
use thermocline_format::{DeviceState, MediaClass};
use thermocline_ftl::UnitState;
use thermocline_ftl::placement::{Classifier as _, VictimRule as _};
use thermocline_ftl::victim::{CostBenefit, Victim};
use thermocline_types::UnitId;

use super::choice::{Choice, Lack, Need};
use super::{Collector, Job, ROUNDS, Round, Step};
use crate::bugs::bug;
use crate::engine::gc::Collected;
use crate::engine::{Parts, Phase};
use crate::marks::mark;
use crate::payload::Payload;

/// The fast unit that is destaged next. The emptiest would be the wrong one: units full of what is never overwritten
/// would stay, and what is overwritten often would leave ever sooner, for lack of room. Destaged GB of the emptiest, of
/// the oldest and by this, on a tier of p5800x and p5316 with 8 GiB, 6 GiB addressed, two drive writes: Zipf 1.0 5.25,
/// 4.05, 4.06; Zipf 1.2 1.87, 1.21, 1.21; uniform 12.27, 12.26, 12.27. The oldest would take fast volumes along, round
/// after round.
const DESTAGED: Victim = Victim::CostBenefit(CostBenefit::Lfs);

/// Reads of a victim that are tried again when they fail. Chosen, not measured.
const RETRIES: u32 = 16;

impl<P: Payload> Collector<P> {
    /// Chooses the next step, and carries the step out if collection alone can.
    pub(super) fn begin_next(&mut self, p: &mut Parts<P>) -> Collected {
        match self.choose(p) {
            Choice::Enough => Collected::nothing(),
            Choice::Collect(victim) => {
                self.begin_job(p, victim);
                Collected::something()
            }
            Choice::Retry => {
                mark!(StuckRetried if !self.stuck.is_empty());
                self.round.retried = true;
                p.pages.retry_all();
                for unit in self.stuck.drain() {
                    p.destage.begin_age(UnitId(unit), p.now);
                }
                Collected::something()
            }
            // Without a victim the debt is forgiven.
            choice => {
                let owed = p.collection.pace_mut().forgive();
                match choice {
                    Choice::Wait => Collected { worked: owed, lacks: None },
                    _ => Collected { worked: false, lacks: Some(choice) },
                }
            }
        }
    }

    /// The next step. Changes only the memory that policies keep of their choices.
    fn choose(&mut self, p: &mut Parts<P>) -> Choice {
        let short = self.media_to_collect(p);
        let media = short.unwrap_or(p.config.host_media());
        let none_left = p.space.free_units(media) <= p.reserve_of(media);
        let need = Need {
            short,
            must_leave: p.space.has_condemned() || p.destage.overdue(p.now).is_some(),
            settled: p.superblocks.are_settled(),
            closing: p.phase == Phase::Closing && p.cache.waiting() == 0,
            others_come: none_left && p.units_are_coming(media),
        };
        if !need.is_there() {
            return Choice::Enough;
        }
        let done = p.stats.host_blocks_written + p.stats.trimmed_blocks;
        if self.round.done != done {
            self.round = Round { done, ..Round::default() };
        }
        // Emptying a condemned unit takes room and frees no unit. The host must not wait for the whole unit.
        let hosts_turn = self.owes_fast && short.is_some() && p.is_short(MediaClass::Fast);
        if !hosts_turn
            && self.can_destage(p)
            && let Some(unit) = self.condemned_unit(p)
        {
            mark!(CondemnedChosen);
            return Choice::Collect(unit);
        }
        if short != Some(MediaClass::Capacity)
            && self.can_destage(p)
            && let Some(unit) = self.overdue_unit(p)
        {
            return Choice::Collect(unit);
        }
        if short.is_none() {
            return Choice::Enough;
        }
        let victim = self.find_victim(p, media, none_left).or_else(|| self.condemned_unit(p));
        victim.map_or_else(|| self.lack(p).choose(), Choice::Collect)
    }

    /// The unit of `media` to be collected, if that may free any.
    fn find_victim(
        &mut self,
        p: &mut Parts<P>,
        media: MediaClass,
        none_left: bool,
    ) -> Option<UnitId> {
        if self.round.victims > ROUNDS * p.space.units().count() {
            return None;
        }
        if p.has_fast_unit_for_copies() {
            self.kept.clear();
            self.overflows = false;
        }
        // At the last units the least work that frees one counts: a crash may come before it is done, again and again.
        let policy = match media {
            _ if none_left => Victim::Greedy,
            MediaClass::Fast => DESTAGED,
            MediaClass::Capacity => p.config.gc.victim,
        };
        self.best_victim(p, policy, media)
            .or_else(|| self.best_victim(p, Victim::Greedy, media))
            .or_else(|| self.destaged_next(p, media))
            .or_else(|| self.overflowing(p))
    }

    /// The fast unit whose blocks leave the fast devices although they belong to fast volumes: nothing else frees any.
    fn overflowing(&mut self, p: &mut Parts<P>) -> Option<UnitId> {
        let may = !self.kept.is_empty() && p.is_short(MediaClass::Fast) && self.can_destage(p);
        may.then(|| {
            self.kept.clear();
            self.overflows = true;
            self.best_victim(p, Victim::Greedy, MediaClass::Fast)
        })?
    }

    /// The fast unit to be destaged although units of `media`, those for capacity, run short and none can be gained.
    fn destaged_next(&mut self, p: &mut Parts<P>, media: MediaClass) -> Option<UnitId> {
        let may = media == MediaClass::Capacity
            && p.config.geometry.is_tiered()
            && p.is_short(MediaClass::Fast)
            && self.can_destage(p);
        may.then(|| self.best_victim(p, Victim::Greedy, MediaClass::Fast))?
    }

    /// Whether what a fast unit holds finds room, and the reserve of relocation is left.
    fn can_destage(&self, p: &Parts<P>) -> bool {
        p.space.free_units(MediaClass::Capacity) >= p.config.relocation_reserve() + 2
    }

    /// The media of which units are to be freed next: capacity units first, since destage needs capacity units.
    fn media_to_collect(&mut self, p: &mut Parts<P>) -> Option<MediaClass> {
        if p.is_short(MediaClass::Capacity) {
            let tiered = p.config.geometry.is_tiered();
            mark!(CapacityFirst if tiered && p.is_short(MediaClass::Fast));
            return Some(MediaClass::Capacity);
        }
        let tiered = p.config.geometry.is_tiered();
        let fast = tiered && (p.is_short(MediaClass::Fast) || p.destages_early());
        (fast && self.can_destage(p)).then_some(MediaClass::Fast)
    }

    /// The victim that `policy` chooses, if collecting the victim gains room.
    fn best_victim(
        &mut self,
        p: &mut Parts<P>,
        policy: Victim,
        media: MediaClass,
    ) -> Option<UnitId> {
        let (units, now) = (p.space.units(), p.host_writes);
        let Collector { stuck, kept, left_to_fast, .. } = &*self;
        let early = media == MediaClass::Fast && !p.is_short(media);
        let metadata = p.config.metadata_class();
        let geometry = &p.config.geometry;
        let blind = bug!(p.config, VictimOnItsWay);
        let on_media = if blind { p.flights.sealed() } else { p.flights.completed() };
        // A unit without a valid block is dead already. Blocks in flight cannot be read from media.
        let allowed = |unit: UnitId| {
            units.valid_count(unit) > 0
                && p.space.newest_chunk(unit) <= on_media
                && units.class(unit) != metadata
                && geometry.media_of(unit) == media
                && geometry.state_of(unit) == DeviceState::Active
                && (stuck.is_empty() || !stuck.contains(&unit.0))
                && (kept.is_empty() || !kept.contains(&unit.0))
                && !(early && left_to_fast.contains(&unit.0))
        };
        let all = geometry.span_of(media);
        let own = match policy {
            Victim::Own => p.config.placement.victim(units, all.clone(), now, allowed),
            _ => None,
        };
        own.or_else(|| policy.choose_where(units, all, now, &mut p.rng, allowed))
            // On the same media, the copies must take less room than the freed unit.
            .filter(|&unit| {
                media == MediaClass::Fast || u64::from(p.space.units().valid_count(unit)) < p.dense
            })
    }

    /// A condemned unit with valid blocks. After a failed write, the unit qualifies only once the write is done
    /// elsewhere.
    fn condemned_unit(&self, p: &Parts<P>) -> Option<UnitId> {
        let (units, metadata) = (p.space.units(), p.config.metadata_class());
        p.space.condemned().find(|&unit| {
            units.state(unit) == UnitState::Closed
                && units.valid_count(unit) > 0
                && units.class(unit) != metadata
                && p.config.geometry.state_of(unit) != DeviceState::Lost
                && p.space.newest_chunk(unit) <= p.flights.completed()
                && !self.stuck.contains(&unit.0)
        })
    }

    /// Units are short, and there is no victim.
    fn lack(&self, p: &Parts<P>) -> Lack {
        let stuck = !self.stuck.is_empty() || p.pages.has_damaged();
        // Units that a record on its way lists for the first time can be opened when it counts.
        let others_come = p.due.is_under_way()
            || !p.superblocks.are_idle()
            || p.due.is_wanted()
            || p.space.resetting() > 0
            || p.cache.copies() > 0
            || p.flights.completed() < p.flights.sealed();
        Lack {
            untried: stuck && !self.round.retried,
            holds_host_up: p.host_is_stuck(),
            others_come,
            checkpointed: self.starved_at.is_some_and(|at| p.stats.checkpoints >= at),
        }
    }

    pub(super) fn overdue_unit(&mut self, p: &mut Parts<P>) -> Option<UnitId> {
        let gc = &*self;
        let is_stuck =
            |unit: UnitId| gc.stuck.contains(&unit.0) || gc.left_to_fast.contains(&unit.0);
        p.overdue_unit(is_stuck)
    }

    /// A checkpoint is to free units: nothing can be collected.
    pub(crate) fn starve(&mut self, p: &mut Parts<P>) {
        mark!(Starved);
        self.starved_at = Some(p.stats.checkpoints + 1);
        p.want_checkpoint();
    }

    pub(super) fn begin_job(&mut self, p: &mut Parts<P>, victim: UnitId) {
        self.starved_at = None;
        self.round.victims += 1;
        let valid = p.space.units().valid_count(victim);
        let end = p.space.units().written(victim);
        // Destaged blocks take no room on the fast devices.
        let fast = p.space.media_of(victim) == MediaClass::Fast;
        let dense = if fast { u64::MAX } else { p.dense };
        if fast == p.config.geometry.is_tiered() {
            p.collection.pace_mut().set_ratio(valid, p.config.geometry.blocks_per_unit(), dense);
            p.collection.pace_mut().set_unit(p.dense);
            p.collection.pace_mut().begin(valid, end);
        }
        if !fast {
            p.config.placement.collected(p.space.units(), victim, p.host_writes);
        }
        let tiered = p.config.geometry.is_tiered();
        self.owes_fast = if p.space.is_condemned(victim) {
            tiered && p.is_short(MediaClass::Fast)
        } else {
            self.owes_fast && !fast
        };
        p.space.begin_relocation(victim);
        self.job = Some(Job {
            victim,
            step: Step::Walk(0),
            next: 0,
            segment_end: self.segment_blocks(p).min(end),
            end,
            chunks: 0,
            valid: Vec::new(),
            reading: VecDeque::new(),
            segments: 0,
            ready: VecDeque::new(),
            found: 0,
            retries: RETRIES,
            stays: false,
            early: fast && !p.is_short(MediaClass::Fast) && !p.space.is_condemned(victim),
            at_first: valid,
            known: FxHashSet::default(),
            unknown: Vec::new(),
            broken: false,
            pins: Vec::new(),
            drains: false,
            search: None,
        });
    }
}
