//! Which unit is collected next, and what is done when there is none.

use thermocline_format::{DeviceState, MediaClass};
use thermocline_ftl::UnitState;
use thermocline_ftl::placement::VictimRule as _;
use thermocline_ftl::victim::{CostBenefit, Victim};
use thermocline_types::UnitId;

use super::choice::{Choice, Lack, Need};
use super::{Gc, ROUNDS, Round};
use crate::bugs::bug;
use crate::engine::{Engine, Phase};
use crate::marks::mark;
use crate::payload::Payload;

/// The fast unit that is destaged next. The emptiest would be the wrong one: units full of what is never overwritten
/// would stay, and what is overwritten often would leave ever sooner, for lack of room. Destaged GB of the emptiest, of
/// the oldest and by this, on a tier of p5800x and p5316 with 8 GiB, 6 GiB addressed, two drive writes: Zipf 1.0 5.25,
/// 4.05, 4.06; Zipf 1.2 1.87, 1.21, 1.21; uniform 12.27, 12.26, 12.27. The oldest would take fast volumes along, round
/// after round.
const DESTAGED: Victim = Victim::CostBenefit(CostBenefit::Lfs);

impl<P: Payload> Engine<P> {
    /// Decides what is done next, and does it. Returns whether anything was done.
    pub(super) fn gc_next(&mut self) -> bool {
        match self.choose() {
            Choice::Enough => false,
            Choice::Collect(victim) => {
                self.begin_job(victim);
                true
            }
            Choice::Retry => {
                mark!(StuckRetried if !self.gc.stuck.is_empty());
                self.gc.round.retried = true;
                self.parts.pages.retry_all();
                for unit in self.gc.stuck.drain() {
                    self.parts.destage.begin_age(UnitId(unit), self.parts.now);
                }
                true
            }
            choice => self.do_without_victim(choice),
        }
    }

    /// What is done next. Changes nothing but what policies remember of their choices.
    fn choose(&mut self) -> Choice {
        let short = self.media_to_collect();
        let media = short.unwrap_or(self.parts.config.host_media());
        let none_left = self.parts.space.free_units(media) <= self.parts.reserve_of(media);
        let need = Need {
            short,
            must_leave: self.parts.space.has_condemned()
                || self.parts.destage.overdue(self.parts.now).is_some(),
            settled: self.parts.superblocks.are_settled(),
            closing: self.parts.phase == Phase::Closing && self.parts.cache.waiting() == 0,
            others_come: none_left && self.parts.units_are_coming(media),
        };
        if !need.is_there() {
            return Choice::Enough;
        }
        let done = self.parts.stats.host_blocks_written + self.parts.stats.trimmed_blocks;
        if self.gc.round.done != done {
            self.gc.round = Round { done, ..Round::default() };
        }
        // What is emptied for good takes room and frees none, and hosts do not wait until all of it is.
        let hosts_turn =
            self.gc.owes_fast && short.is_some() && self.parts.is_short(MediaClass::Fast);
        if !hosts_turn
            && self.can_destage()
            && let Some(unit) = self.condemned_unit()
        {
            mark!(CondemnedChosen);
            return Choice::Collect(unit);
        }
        if short != Some(MediaClass::Capacity)
            && self.can_destage()
            && let Some(unit) = self.overdue_unit()
        {
            return Choice::Collect(unit);
        }
        if short.is_none() {
            return Choice::Enough;
        }
        let victim = self.find_victim(media, none_left).or_else(|| self.condemned_unit());
        victim.map_or_else(|| self.lack().choose(), Choice::Collect)
    }

    /// The unit of `media` to be collected, if that may free any.
    fn find_victim(&mut self, media: MediaClass, none_left: bool) -> Option<UnitId> {
        if self.gc.round.victims > ROUNDS * self.parts.space.units().count() {
            return None;
        }
        if self.parts.has_fast_unit_for_copies() {
            self.gc.kept.clear();
            self.gc.overflows = false;
        }
        // At the last units the least work that frees one counts: a crash may come before it is done, again and again.
        let policy = match media {
            _ if none_left => Victim::Greedy,
            MediaClass::Fast => DESTAGED,
            MediaClass::Capacity => self.parts.config.gc.victim,
        };
        self.best_victim(policy, media)
            .or_else(|| self.best_victim(Victim::Greedy, media))
            .or_else(|| self.destaged_next(media))
            .or_else(|| self.overflowing())
    }

    /// The fast unit whose blocks leave the fast devices although they belong to fast volumes: nothing else frees any.
    fn overflowing(&mut self) -> Option<UnitId> {
        let may =
            !self.gc.kept.is_empty() && self.parts.is_short(MediaClass::Fast) && self.can_destage();
        may.then(|| {
            self.gc.kept.clear();
            self.gc.overflows = true;
            self.best_victim(Victim::Greedy, MediaClass::Fast)
        })?
    }

    /// The fast unit to be destaged although units of `media`, those for capacity, run short and none can be gained.
    fn destaged_next(&mut self, media: MediaClass) -> Option<UnitId> {
        let may = media == MediaClass::Capacity
            && self.parts.config.geometry.is_tiered()
            && self.parts.is_short(MediaClass::Fast)
            && self.can_destage();
        may.then(|| self.best_victim(Victim::Greedy, MediaClass::Fast))?
    }

    /// Whether what a fast unit holds finds room, and the reserve of relocation is left.
    fn can_destage(&self) -> bool {
        self.parts.space.free_units(MediaClass::Capacity)
            >= self.parts.config.relocation_reserve() + 2
    }

    /// The media of which units are to be freed next: those for capacity first, since what is destaged needs them.
    fn media_to_collect(&mut self) -> Option<MediaClass> {
        if self.parts.is_short(MediaClass::Capacity) {
            let tiered = self.parts.config.geometry.is_tiered();
            mark!(CapacityFirst if tiered && self.parts.is_short(MediaClass::Fast));
            return Some(MediaClass::Capacity);
        }
        let tiered = self.parts.config.geometry.is_tiered();
        let fast = tiered && (self.parts.is_short(MediaClass::Fast) || self.parts.destages_early());
        (fast && self.can_destage()).then_some(MediaClass::Fast)
    }

    /// What `policy` chooses, if copying it gains anything.
    fn best_victim(&mut self, policy: Victim, media: MediaClass) -> Option<UnitId> {
        let (units, now) = (self.parts.space.units(), self.parts.host_writes);
        let Gc { stuck, kept, left_to_fast, .. } = &self.gc;
        let early = media == MediaClass::Fast && !self.parts.is_short(media);
        let metadata = self.parts.config.metadata_class();
        let geometry = &self.parts.config.geometry;
        let blind = bug!(self.parts.config, VictimOnItsWay);
        let on_media =
            if blind { self.parts.flights.sealed() } else { self.parts.flights.completed() };
        // A unit without a valid block is dead already; what is on its way to media cannot be read from there.
        let allowed = |unit: UnitId| {
            units.valid_count(unit) > 0
                && self.parts.space.newest_chunk(unit) <= on_media
                && units.class(unit) != metadata
                && geometry.media_of(unit) == media
                && geometry.state_of(unit) == DeviceState::Active
                && (stuck.is_empty() || !stuck.contains(&unit.0))
                && (kept.is_empty() || !kept.contains(&unit.0))
                && !(early && left_to_fast.contains(&unit.0))
        };
        let all = geometry.span_of(media);
        let own = match policy {
            Victim::Own => self.parts.config.placement.victim(units, all.clone(), now, allowed),
            _ => None,
        };
        own.or_else(|| policy.choose_where(units, all, now, &mut self.parts.rng, allowed))
            // Copying it must take less than the unit that it frees, where it takes room on the same media.
            .filter(|&unit| {
                media == MediaClass::Fast
                    || u64::from(self.parts.space.units().valid_count(unit)) < self.parts.dense
            })
    }

    /// A unit that the device will not write again, and that holds something; of a write that failed, not before it is
    /// done elsewhere.
    fn condemned_unit(&self) -> Option<UnitId> {
        let (units, metadata) = (self.parts.space.units(), self.parts.config.metadata_class());
        self.parts.space.condemned().find(|&unit| {
            units.state(unit) == UnitState::Closed
                && units.valid_count(unit) > 0
                && units.class(unit) != metadata
                && self.parts.config.geometry.state_of(unit) != DeviceState::Lost
                && self.parts.space.newest_chunk(unit) <= self.parts.flights.completed()
                && !self.gc.stuck.contains(&unit.0)
        })
    }

    /// Units are short, and there is no victim.
    fn lack(&self) -> Lack {
        let stuck = !self.gc.stuck.is_empty() || self.parts.pages.has_damaged();
        // Units that a record on its way lists for the first time can be opened when it counts.
        let others_come = self.parts.due.is_under_way()
            || !self.parts.superblocks.are_idle()
            || self.parts.due.is_wanted()
            || self.parts.space.resetting() > 0
            || self.parts.cache.copies() > 0
            || self.parts.flights.completed() < self.parts.flights.sealed();
        Lack {
            untried: stuck && !self.gc.round.retried,
            holds_host_up: self.parts.host_is_stuck(),
            others_come,
            checkpointed: self.gc.starved_at.is_some_and(|at| self.parts.stats.checkpoints >= at),
        }
    }

    /// Nothing can be copied, so nothing is owed. Returns whether anything was done.
    fn do_without_victim(&mut self, choice: Choice) -> bool {
        let owed = self.parts.collection.pace_mut().forgive();
        match choice {
            Choice::Wait => owed,
            _ if self.parts.space.dead_units() > 0 && self.parts.release_step() => true,
            Choice::Checkpoint => {
                mark!(Starved);
                self.gc.starved_at = Some(self.parts.stats.checkpoints + 1);
                self.parts.want_checkpoint();
                true
            }
            _ => {
                mark!(StarvedForGood);
                self.fail_staged()
            }
        }
    }

    fn overdue_unit(&mut self) -> Option<UnitId> {
        let gc = &self.gc;
        let is_stuck =
            |unit: UnitId| gc.stuck.contains(&unit.0) || gc.left_to_fast.contains(&unit.0);
        self.parts.overdue_unit(is_stuck)
    }
}
