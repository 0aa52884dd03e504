//! What is known of lives of units: which need not be replayed, and which units nothing was written to.

use thermocline_format::OpenUnit;

use super::{Life, Recovery};
use crate::device::UnitCondition;
use crate::space::Space;

impl<P> Recovery<P> {
    /// Whether the release of a listed life is durable.
    pub(super) fn was_released(&self, listed: &OpenUnit) -> bool {
        let entry = self.released.get(&(listed.next.unit.0, listed.generation));
        entry.is_some_and(|entry| *entry <= self.whole)
    }

    /// Whether all that is to be replayed of a life are pages of a checkpoint that was cut short: the record leads to
    /// none. If the life were gone, a Released entry would count as durable that may not be.
    pub(super) fn is_in_vain(&self, life: &Life, space: &Space) -> bool {
        let unit = life.listed.next.unit;
        let released = self.released.contains_key(&(unit.0, life.listed.generation));
        life.replays && life.only_pages && !space.held_pages(unit) && !released
    }

    /// Whether the life has no chunks since the reset of its unit, and the unit is writable.
    pub(super) fn is_untouched(&self, life: &Life) -> bool {
        let report = self.reports[life.listed.next.unit.index()];
        let empty = report.written.is_none_or(|written| written == 0);
        let good = report.condition == UnitCondition::Good;
        good && empty && life.class.is_none() && life.listed.next.block == 0
    }
}
