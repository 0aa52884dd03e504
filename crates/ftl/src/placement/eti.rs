//! ETI: temperature of extents.

use std::collections::BTreeMap;
use std::ops::Range;

use thermocline_types::Class;

use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// Extents kept at most.
const EXTENTS: usize = 1024;
/// Writes from which an extent is hot.
const HOT: u8 = 4;
/// Writes counted at most.
const MOST: u8 = 15;
/// Requests between two halvings of all counts.
const PERIOD: u32 = 4096;

/// Extent-based temperature identification (Shafaei, Desnoyers and Fitzpatrick, "Write Amplification Reduction in
/// Flash-Based SSDs Through Extent-Based Temperature Identification", HotStorage 2016, with the parameters of SepBIT's
/// evaluation, FAST 2022).
///
/// At most 1024 extents cover all addresses, each with a count of writes up to 15. A request cuts extents at its ends
/// and counts once in each within it; cutting ends when there are 1024. Every 4096 requests the counts are halved, and
/// neighbours with equal counts, or both below 4, merge. Host writes to extents with a count of 4 or more go to class
/// 0, others to class 1, survivors to class 2. State: about 24 KiB in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eti {
    /// Count of the extent that begins at each key and ends at the next.
    extents: BTreeMap<u64, u8>,
    requests: u32,
}

impl Default for Eti {
    fn default() -> Self {
        Eti { extents: BTreeMap::from([(0, 0)]), requests: 0 }
    }
}

impl Eti {
    /// Where the extent that holds `lba` begins, and its count.
    fn extent(&self, lba: u64) -> (u64, u8) {
        let (&start, &count) = self.extents.range(..=lba).next_back().expect("one begins at 0");
        (start, count)
    }

    /// Counts a request for the blocks from `first` to before `end`.
    fn count(&mut self, first: u64, end: u64) {
        self.requests += 1;
        if self.requests == PERIOD {
            self.requests = 0;
            self.halve();
        }
        let mut at = first;
        while at < end {
            let (start, count) = self.extent(at);
            let next = self.extents.range(at + 1..).next().map_or(u64::MAX, |(&next, _)| next);
            if count < MOST {
                self.count_in(start..next, at..end.min(next), count);
            }
            at = next;
        }
    }

    /// Counts a request for `part` of the extent `whole`, with `count` so far: the whole extent, or a part split off.
    fn count_in(&mut self, whole: Range<u64>, part: Range<u64>, count: u8) {
        let is_whole = part == whole;
        if !is_whole && self.extents.len() >= EXTENTS {
            return;
        }
        self.extents.insert(part.start, count + 1);
        if part.end < whole.end {
            self.extents.insert(part.end, count);
        }
    }

    fn halve(&mut self) {
        let mut before = None;
        self.extents.retain(|_, count| {
            *count /= 2;
            let merges = before.is_some_and(|b: u8| b == *count || b < HOT && *count < HOT);
            if !merges {
                before = Some(*count);
            }
            !merges
        });
    }
}

impl Classifier for Eti {
    fn topology(&self) -> Topology {
        Topology::new(3, 2..3)
    }

    fn place(&mut self, write: Write) -> Class {
        if write.part.offset == 0 {
            self.count(write.lba.0, write.lba.0 + u64::from(write.part.length));
        }
        Class(u8::from(self.extent(write.lba.0).1 < HOT))
    }

    fn place_survivor(&mut self, _survivor: Survivor, _now: u64) -> Class {
        Class(2)
    }

    fn memory_bytes(&self) -> usize {
        // A tree node holds 11 entries and is two thirds full on average.
        self.extents.len() * (size_of::<u64>() + size_of::<u8>()) * 3 / 2
    }
}

impl VictimRule for Eti {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;
    use crate::placement::Part;

    /// A request of `length` blocks from `lba`; the class of its first.
    fn write(eti: &mut Eti, lba: u64, length: u32) -> u8 {
        let part = Part { offset: 0, length };
        let class = eti.place(Write { part, ..Write::plain(Lba(lba), 0) });
        (1..length).for_each(|offset| {
            let part = Part { offset, length };
            eti.place(Write { part, ..Write::plain(Lba(lba + u64::from(offset)), 0) });
        });
        class.0
    }

    fn extents(eti: &Eti) -> Vec<(u64, u8)> {
        eti.extents.iter().map(|(&start, &count)| (start, count)).collect()
    }

    #[test]
    fn requests_cut_extents_at_their_ends_and_count_once_in_each() {
        let mut eti = Eti::default();
        assert_eq!(write(&mut eti, 10, 10), 1);
        assert_eq!(extents(&eti), [(0, 0), (10, 1), (20, 0)]);
        write(&mut eti, 15, 10);
        assert_eq!(extents(&eti), [(0, 0), (10, 1), (15, 2), (20, 1), (25, 0)]);
        write(&mut eti, 15, 5);
        assert_eq!(write(&mut eti, 15, 5), 0, "the fourth write is hot");
        assert_eq!(write(&mut eti, 10, 5), 1);
    }

    #[test]
    fn counts_end_at_15_and_halving_merges_what_is_alike() {
        let mut eti = Eti::default();
        (0..40).for_each(|_| _ = write(&mut eti, 0, 8));
        (0..9).for_each(|_| _ = write(&mut eti, 8, 8));
        write(&mut eti, 16, 8);
        assert_eq!(extents(&eti), [(0, 15), (8, 9), (16, 1), (24, 0)]);
        eti.halve();
        assert_eq!(extents(&eti), [(0, 7), (8, 4), (16, 0)]);
        eti.halve();
        assert_eq!(extents(&eti), [(0, 3)], "all are below 4");
    }

    #[test]
    fn extents_are_cut_no_further_than_there_is_room() {
        let mut eti = Eti::default();
        (0..3000).for_each(|index| _ = write(&mut eti, index * 10, 1));
        assert!((EXTENTS..EXTENTS + 2).contains(&eti.extents.len()), "{}", eti.extents.len());
    }
}
