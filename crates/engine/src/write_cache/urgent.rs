//! Blocks of the host that precede all queues, because a flush or a request waits for the blocks.
//!
//! Invariants:
//! * Blocks leave by class, in any order; a flush waits for all earlier blocks.

use std::collections::VecDeque;

use thermocline_format::{MediaClass, Sequence};

/// Slots that precede all queues, and the flushes that wait for the slots.
#[derive(Debug, Default)]
pub(crate) struct UrgentLane {
    /// Each slot with its number in order of arrival; numbers rise.
    slots: VecDeque<(u64, u32)>,
    /// The newest number.
    newest: u64,
    /// Flushes of volumes, which wait for all up to a number to leave.
    flushes: VecDeque<(u64, u32)>,
    /// Their chunks on the way to media.
    chunks: Vec<(Sequence, MediaClass)>,
}

impl UrgentLane {
    pub(super) fn push(&mut self, slot: u32) {
        self.newest += 1;
        self.slots.push_back((self.newest, slot));
    }

    /// Takes the first slot that `is_apt`.
    pub(super) fn pop(&mut self, is_apt: impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.slots.iter().position(|&(_, slot)| is_apt(slot))?;
        self.slots.remove(at).map(|(_, slot)| slot)
    }

    /// All slots, oldest first.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().map(|&(_, slot)| slot)
    }

    /// Takes all slots.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.slots.drain(..).map(|(_, slot)| slot)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Has a flush of a volume wait until all that is here has left.
    pub(super) fn flush(&mut self, request: u32) {
        self.flushes.push_back((self.newest, request));
    }

    /// The next flush whose blocks have all left.
    pub(super) fn next_flush(&mut self) -> Option<u32> {
        let waits = self.slots.front().map_or(u64::MAX, |(number, _)| *number);
        self.flushes.pop_front_if(|(until, _)| *until < waits).map(|(_, request)| request)
    }

    /// Takes all flushes.
    pub(super) fn drain_flushes(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.flushes.drain(..).map(|(_, request)| request)
    }

    /// Chunks of urgent blocks in flight to `media`.
    pub(crate) fn chunks(&self, media: MediaClass) -> u32 {
        self.chunks.iter().filter(|(_, other)| *other == media).count() as u32
    }

    /// A chunk of them sets off to `media`.
    pub(crate) fn sealed(&mut self, chunk: Sequence, media: MediaClass) {
        self.chunks.push((chunk, media));
    }

    /// The device answered for a chunk, of them or not.
    pub(crate) fn answered(&mut self, chunk: Sequence) {
        self.chunks.retain(|(other, _)| *other != chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_all_before_it_in_whatever_order_they_leave() {
        let mut urgent = UrgentLane::default();
        urgent.push(7);
        urgent.push(8);
        urgent.flush(1);
        urgent.push(9);
        urgent.flush(2);
        assert_eq!(urgent.pop(|slot| slot > 7), Some(8));
        assert_eq!(urgent.next_flush(), None, "7 is here");
        assert_eq!(urgent.pop(|slot| slot == 9), Some(9));
        assert_eq!(urgent.next_flush(), None);
        assert_eq!(urgent.pop(|_| true), Some(7));
        assert_eq!([(); 3].map(|()| urgent.next_flush()), [Some(1), Some(2), None]);
        assert!(urgent.is_empty() && urgent.pop(|_| true).is_none());
    }

    #[test]
    fn a_chunk_is_on_its_way_until_the_device_answers_for_it() {
        let mut urgent = UrgentLane::default();
        urgent.sealed(Sequence(4), MediaClass::Fast);
        urgent.sealed(Sequence(6), MediaClass::Fast);
        urgent.sealed(Sequence(7), MediaClass::Capacity);
        urgent.answered(Sequence(5));
        assert_eq!(MediaClass::ALL.map(|media| urgent.chunks(media)), [1, 2]);
        urgent.answered(Sequence(6));
        urgent.answered(Sequence(6));
        assert_eq!(MediaClass::ALL.map(|media| urgent.chunks(media)), [1, 1]);
    }
}
