//! Emptying fast units that there would be room to keep: beyond the watermarks, and when they are overdue.

use thermocline_format::MediaClass;
use thermocline_ftl::UnitState;
use thermocline_types::UnitId;

use crate::engine::{Engine, Phase};
use crate::marks::mark;
use crate::payload::Payload;

impl<P: Payload> Engine<P> {
    /// Fast units that are not about to be free.
    pub(crate) fn fast_units_in_use(&self) -> u32 {
        let all = self.config.geometry.active_units(MediaClass::Fast);
        all.saturating_sub(self.coming_units(MediaClass::Fast))
    }

    /// Whether fast units are to be emptied although they do not run short.
    pub(crate) fn destages_early(&mut self) -> bool {
        let used = self.fast_units_in_use();
        let wants = self.config.geometry.is_tiered() && self.destage.wants(used);
        mark!(DestagedEarly if wants);
        wants
    }

    /// How fast fast units are emptied although they do not run short, as that of units that do; `None` if none is.
    pub(crate) fn urgency_of_destaging(&mut self) -> Option<f64> {
        /// What is overdue leaves as fast as if all units held ahead were used up. Chosen, not measured.
        const OVERDUE: f64 = 1.0;
        let overdue = self.destage.overdue(self.now).map(|_| OVERDUE);
        let early = self.destages_early().then(|| self.destage.urgency(self.fast_units_in_use()));
        overdue.into_iter().chain(early).reduce(f64::max)
    }

    /// A fast unit that was closed for too long and can be emptied.
    pub(crate) fn overdue_unit(&mut self) -> Option<UnitId> {
        while let Some(unit) = self.destage.overdue(self.now) {
            let units = self.space.units();
            let arrivals = self.config.arrivals() == Some(units.class(unit));
            let holds = units.state(unit) == UnitState::Closed && units.valid_count(unit) > 0;
            // The age of one that cannot be emptied begins anew when that is tried once more.
            if !holds || !arrivals || self.gc_is_stuck(unit) {
                self.destage.end_age(unit);
                continue;
            }
            if self.space.newest_chunk(unit) <= self.flights.completed() {
                mark!(DestagedByAge);
                return Some(unit);
            }
            // It is looked at again when it was there for as long once more.
            self.destage.begin_age(unit, self.now);
        }
        None
    }

    /// Closes the unit that what hosts write goes to, if some of it is there for too long.
    pub(crate) fn close_overdue(&mut self) -> bool {
        let arrivals = self.config.arrivals();
        let Some(arrivals) = arrivals.filter(|_| self.destage.is_open_overdue(self.now)) else {
            return false;
        };
        let working = self.phase == Phase::Open && self.superblocks.are_settled();
        if !working || self.space.next_of(arrivals).is_none_or(|at| at.block == 0) {
            return false;
        }
        mark!(ClosedByAge);
        self.close_frontier(arrivals);
        true
    }

    /// Ages of what an opening found begin.
    pub(crate) fn begin_ages(&mut self) {
        let units = self.config.geometry.units_of(MediaClass::Fast).map(UnitId);
        let closed = |unit: &UnitId| self.space.units().state(*unit) == UnitState::Closed;
        units.filter(closed).for_each(|unit| self.destage.begin_age(unit, self.now));
        if let Some(arrivals) = self.config.arrivals()
            && self.space.next_of(arrivals).is_some()
        {
            self.destage.opened(self.now);
        }
    }
}
