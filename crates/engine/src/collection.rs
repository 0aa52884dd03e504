//! The state of garbage collection for sealing and memory: debts, the victim, and victims whose last copies wait.

mod pace;

use thermocline_format::MediaClass;
use thermocline_types::UnitId;

pub(crate) use pace::Pace;

/// A victim whose blocks were all placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) victim: UnitId,
    /// Valid blocks when it was chosen.
    pub(crate) at_first: u32,
    /// Copies that wait to be sealed.
    pub(crate) copies: usize,
}

/// The victim being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) unit: UnitId,
    /// Whether every block to be copied now was staged.
    pub(crate) staged_all: bool,
    /// Whether only copies of the victim are left, which wait to be sealed.
    pub(crate) is_over: bool,
    /// Pages of maps that must stay in memory for the victim.
    pub(crate) pins: usize,
}

/// The state of garbage collection that the rest of the engine reads.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    pace: Pace,
    victim: Option<Victim>,
    /// Victims whose blocks were all placed, oldest first. Their last copies wait for the copies of the next victim.
    ending: Vec<Ending>,
    /// Whether copies may take units reserved for metadata, because no other unit could be freed otherwise.
    borrows: bool,
}

impl Collection {
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    pub(crate) fn pace_mut(&mut self) -> &mut Pace {
        &mut self.pace
    }

    /// The victim that is worked on.
    pub(crate) fn victim(&self) -> Option<Victim> {
        self.victim
    }

    pub(crate) fn set_victim(&mut self, victim: Option<Victim>) {
        self.victim = victim;
    }

    /// Pages of maps that must stay in memory for the victim.
    pub(crate) fn pins(&self) -> usize {
        self.victim.map_or(0, |victim| victim.pins)
    }

    /// Whether every block to be copied now was staged.
    pub(crate) fn has_staged_all(&self) -> bool {
        self.victim.is_none_or(|victim| victim.staged_all)
    }

    /// Whether collection is idle.
    pub(crate) fn is_idle(&self) -> bool {
        self.victim.is_none() && self.ending.is_empty()
    }

    /// Whether copies may take units that are held for metadata.
    pub(crate) fn borrows(&self) -> bool {
        self.borrows
    }

    /// Lets copies take units that are held for metadata. Returns whether they might not before.
    pub(crate) fn borrow(&mut self) -> bool {
        !std::mem::replace(&mut self.borrows, true)
    }

    /// Copies leave units to metadata again, unless they are still `needed`.
    pub(crate) fn borrow_only_if(&mut self, needed: bool) {
        self.borrows &= needed;
    }

    /// The last copies of a victim wait for the copies of the next victim.
    pub(crate) fn wait(&mut self, ending: Ending) {
        self.ending.push(ending);
    }

    /// Victims whose last copies wait.
    pub(crate) fn ending(&self) -> &[Ending] {
        &self.ending
    }

    /// Victims on `media` whose last copies wait for copies of other victims. The units will be dead.
    pub(crate) fn ending_on(&self, media: MediaClass) -> u32 {
        if media == MediaClass::Capacity { self.ending.len() as u32 } else { 0 }
    }

    /// A copy of a block of `unit` leaves its queue.
    pub(crate) fn copy_leaves(&mut self, unit: UnitId) {
        if let Some(ending) = self.ending.iter_mut().find(|ending| ending.victim == unit) {
            ending.copies -= 1;
        }
    }

    /// Takes a victim without waiting copies.
    pub(crate) fn take_ended(&mut self) -> Option<Ending> {
        let at = self.ending.iter().position(|ending| ending.copies == 0)?;
        Some(self.ending.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_ends_when_the_last_of_its_copies_has_left() {
        let mut collection = Collection::default();
        for (unit, copies) in [(3, 2), (5, 1)] {
            collection.wait(Ending { victim: UnitId(unit), at_first: 9, copies });
        }
        assert!(!collection.is_idle() && collection.take_ended().is_none());
        assert_eq!(collection.ending_on(MediaClass::Capacity), 2);
        assert_eq!(collection.ending_on(MediaClass::Fast), 0, "those of fast units wait for none");
        [5, 3, 7].map(UnitId).into_iter().for_each(|unit| collection.copy_leaves(unit));
        assert_eq!(collection.take_ended().map(|ending| ending.victim), Some(UnitId(5)));
        assert!(collection.take_ended().is_none());
        collection.copy_leaves(UnitId(3));
        assert_eq!(collection.take_ended().map(|ending| ending.victim), Some(UnitId(3)));
        assert!(collection.is_idle());
    }

    #[test]
    fn copies_borrow_once_and_only_while_it_is_needed() {
        let mut collection = Collection::default();
        assert!(collection.borrow() && !collection.borrow() && collection.borrows());
        collection.borrow_only_if(true);
        assert!(collection.borrows());
        collection.borrow_only_if(false);
        assert!(!collection.borrows() && collection.borrow());
    }

    #[test]
    fn without_a_victim_all_is_staged_and_no_page_is_needed() {
        let mut collection = Collection::default();
        assert!(collection.has_staged_all() && collection.pins() == 0);
        let victim = Victim { unit: UnitId(1), staged_all: false, is_over: false, pins: 4 };
        collection.set_victim(Some(victim));
        assert!(!collection.has_staged_all() && collection.pins() == 4 && !collection.is_idle());
    }
}
