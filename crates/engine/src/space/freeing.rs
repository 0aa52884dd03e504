//! From dead to free: units are released, reset, and retired where they cannot be.

use thermocline_format::{DeviceState, MediaClass, Sequence};
use thermocline_types::UnitId;

use super::{Dead, Space};

impl Space {
    /// Takes out the dead units of a class of media, to be looked at; [`Space::put_dead`] puts them back.
    pub(crate) fn take_dead(&mut self, media: MediaClass) -> Dead {
        std::mem::take(&mut self.supply_mut(media).dead)
    }

    pub(crate) fn put_dead(&mut self, media: MediaClass, dead: Dead) {
        self.supply_mut(media).dead = dead;
    }

    /// Dead units that were found ready are not released after all.
    pub(crate) fn not_released(&mut self, units: Vec<UnitId>) {
        units.into_iter().for_each(|unit| self.supply_of(unit).dead.push(unit));
    }

    /// Dead units are released as soon as that is durable.
    pub(crate) fn begin_release(&mut self, units: &[UnitId]) {
        units.iter().for_each(|unit| self.supply_of(*unit).resetting += 1);
        self.releasing += units.len() as u32;
    }

    /// Whether the release of some units is not durable yet.
    pub(crate) fn is_releasing(&self) -> bool {
        self.releasing > 0
    }

    /// The release of `unit` is durable: the unit is reset next. Returns whether the unit must be retired instead.
    pub(crate) fn released(&mut self, unit: UnitId) -> bool {
        self.releasing -= 1;
        let tail = self.tail(unit);
        tail.control = Sequence(0);
        let condemned = tail.condemned;
        if condemned {
            self.supply_of(unit).resetting -= 1;
        } else {
            self.to_reset.push_back(unit);
        }
        condemned
    }

    /// The next unit to be reset, if no other is being reset or `many` may be at once.
    pub(crate) fn next_reset(&mut self, many: bool) -> Option<UnitId> {
        if self.resets > 0 && !many {
            return None;
        }
        let unit = self.to_reset.pop_front()?;
        self.resets += 1;
        Some(unit)
    }

    /// The device has reset `unit`, which is free now, or could not.
    pub(crate) fn reset_answered(&mut self, unit: UnitId, is_empty: bool) {
        self.supply_of(unit).resetting -= 1;
        self.resets -= 1;
        if is_empty {
            self.units.erase(unit);
            self.touch(unit);
            self.free(unit);
        }
    }

    /// Begins to flush the chunks of dead units. Returns whether no such flush was on its way.
    pub(crate) fn begin_flushing_dead(&mut self) -> bool {
        !std::mem::replace(&mut self.flushing_dead, true)
    }

    pub(crate) fn dead_flushed(&mut self) {
        self.flushing_dead = false;
    }

    /// The device will not write or reset `unit` again. Returns whether that is new.
    pub(crate) fn condemn(&mut self, unit: UnitId) -> bool {
        let new = !std::mem::replace(&mut self.tail(unit).condemned, true);
        if new {
            self.condemned.insert(unit.0);
        }
        new
    }

    /// Whether `unit` is condemned and not empty yet.
    pub(crate) fn is_condemned(&self, unit: UnitId) -> bool {
        self.condemned.contains(&unit.0)
    }

    /// Whether there are such units.
    pub(crate) fn has_condemned(&self) -> bool {
        !self.condemned.is_empty()
    }

    /// Units that are not empty yet and that the device will not write or reset again.
    pub(crate) fn condemned(&self) -> impl Iterator<Item = UnitId> {
        self.condemned.iter().copied().map(UnitId)
    }

    /// Takes an empty unit out of service.
    pub(crate) fn retire(&mut self, unit: UnitId) {
        self.units.retire(unit);
        self.touch(unit);
        self.condemned.remove(&unit.0);
        self.listed.remove(&unit.0);
        if self.geometry.state_of(unit) == DeviceState::Active {
            self.retired += 1;
        }
    }

    /// Units of active devices that are out of service.
    pub(crate) fn retired(&self) -> u32 {
        self.retired
    }
}
