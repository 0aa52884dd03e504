//! Emptying fast units although room remains: beyond the watermarks, and when they are overdue.

use thermocline_format::MediaClass;
use thermocline_ftl::UnitState;
use thermocline_types::UnitId;

use crate::engine::{Parts, Phase};
use crate::marks::mark;
use crate::payload::Payload;

impl<P: Payload> Parts<P> {
    /// A fast unit that was closed for too long and can be emptied. Some blocks of a unit that `is_stuck` stay.
    pub(crate) fn overdue_unit(&mut self, is_stuck: impl Fn(UnitId) -> bool) -> Option<UnitId> {
        while let Some(unit) = self.destage.overdue(self.now) {
            let units = self.space.units();
            let arrivals = self.config.arrivals() == Some(units.class(unit));
            let holds = units.state(unit) == UnitState::Closed && units.valid_count(unit) > 0;
            // The age of a stuck unit restarts when collection retries the unit.
            if !holds || !arrivals || is_stuck(unit) {
                self.destage.end_age(unit);
                continue;
            }
            if self.space.newest_chunk(unit) <= self.flights.completed() {
                mark!(DestagedByAge);
                return Some(unit);
            }
            // The unit is checked again after another maximum age.
            self.destage.begin_age(unit, self.now);
        }
        None
    }

    /// Closes the open unit of arrivals if its oldest data is overdue.
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
