//! The write buffer: host data waits here to be merged with what comes after it.

use thermocline_types::Lba;

/// 512-byte sectors of a mapping unit, one bit each, lowest first. Mapping units are at most 64 KiB: 128 sectors.
pub type Sectors = u128;

/// A mapping unit waiting in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which one.
    pub lba: Lba,
    /// Its sectors the host has written.
    pub sectors: Sectors,
    /// The placement handle of the last write to it.
    pub handle: u16,
}

/// Mapping units in order of first write; a rewrite is merged in place.
///
/// Units are numbered in order of arrival, and those numbered `popped..pushed` wait in a ring. They are found by hash
/// chains: a bucket holds the number of its youngest unit, and each unit that of the next older one in its bucket. A
/// chain ends at the first number that has left, since all further ones are older still, so nothing has to be unlinked.
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    ring: Vec<Slot>,
    buckets: Vec<u64>,
    popped: u64,
    pushed: u64,
    capacity: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    waiting: Option<Waiting>,
    older: u64,
}

/// In a bucket: no unit yet. Numbers start at 1, so unit 0 counts as drained from the start.
const NO_UNIT: u64 = 0;

impl WriteBuffer {
    /// A buffer for `capacity` mapping units, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let places = (capacity + 1).next_power_of_two();
        WriteBuffer {
            ring: vec![Slot { waiting: None, older: NO_UNIT }; places],
            buckets: vec![NO_UNIT; 2 * places],
            popped: 1,
            pushed: 1,
            capacity: capacity as u64,
        }
    }

    /// Takes a write in. Returns how many sectors it overwrote here. At most one more unit than the capacity may wait:
    /// see [`WriteBuffer::is_overfull`].
    pub fn insert(&mut self, write: Waiting) -> u32 {
        if let Some(number) = self.find(write.lba) {
            let place = self.place(number);
            let waiting = self.ring[place].waiting.as_mut().expect("found units wait");
            let overwritten = (waiting.sectors & write.sectors).count_ones();
            waiting.sectors |= write.sectors;
            waiting.handle = write.handle;
            return overwritten;
        }
        assert!(!self.is_overfull(), "the buffer is emptied before more is written");
        let (bucket, place) = (self.bucket(write.lba), self.place(self.pushed));
        self.ring[place] = Slot { waiting: Some(write), older: self.buckets[bucket] };
        self.buckets[bucket] = self.pushed;
        self.pushed += 1;
        0
    }

    /// Whether more is waiting than the buffer holds; places freed by [`WriteBuffer::remove`] count until their turn.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.pushed - self.popped > self.capacity
    }

    /// Whether `lba` is waiting.
    #[must_use]
    pub fn contains(&self, lba: Lba) -> bool {
        self.find(lba).is_some()
    }

    /// The mapping units that leave next, oldest first.
    pub fn upcoming(&self) -> impl Iterator<Item = Lba> {
        let slots = (self.popped..self.pushed).map(|number| self.ring[self.place(number)]);
        slots.filter_map(|slot| slot.waiting).map(|waiting| waiting.lba)
    }

    /// Takes the oldest mapping unit out.
    pub fn pop(&mut self) -> Option<Waiting> {
        while self.popped < self.pushed {
            let place = self.place(self.popped);
            self.popped += 1;
            if let Some(waiting) = self.ring[place].waiting.take() {
                return Some(waiting);
            }
        }
        None
    }

    /// Forgets `lba`. Returns how many written sectors that discarded.
    pub fn remove(&mut self, lba: Lba) -> u32 {
        let Some(number) = self.find(lba) else { return 0 };
        let place = self.place(number);
        let waiting = self.ring[place].waiting.take();
        waiting.expect("found units wait").sectors.count_ones()
    }

    /// Written sectors waiting.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        let waiting = self.ring.iter().filter_map(|slot| slot.waiting);
        waiting.map(|waiting| u64::from(waiting.sectors.count_ones())).sum()
    }

    fn find(&self, lba: Lba) -> Option<u64> {
        let mut number = self.buckets[self.bucket(lba)];
        while number >= self.popped {
            let slot = &self.ring[self.place(number)];
            if slot.waiting.is_some_and(|waiting| waiting.lba == lba) {
                return Some(number);
            }
            number = slot.older;
        }
        None
    }

    fn place(&self, number: u64) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// Multiplicative hashing with 2^64 over the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
    fn bucket(&self, lba: Lba) -> usize {
        let hash = lba.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> (64 - self.buckets.len().trailing_zeros())) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(lba: u64, sectors: Sectors) -> Waiting {
        Waiting { lba: Lba(lba), sectors, handle: 0 }
    }

    #[test]
    fn merges_rewrites_in_place_and_leaves_in_order() {
        let mut buffer = WriteBuffer::new(2);
        assert_eq!(buffer.insert(write(1, 0b0011)), 0);
        assert_eq!(buffer.insert(write(2, 0b1111)), 0);
        assert_eq!(buffer.insert(write(1, 0b0110)), 1);
        assert!(!buffer.is_overfull());
        assert_eq!(buffer.insert(write(3, 0b0001)), 0);
        assert!(buffer.is_overfull());
        assert_eq!(buffer.sectors(), 3 + 4 + 1);
        assert_eq!(buffer.pop(), Some(write(1, 0b0111)));
        assert_eq!(buffer.remove(Lba(2)), 4);
        assert_eq!(buffer.remove(Lba(2)), 0);
        assert!(buffer.contains(Lba(3)) && !buffer.contains(Lba(2)));
        assert_eq!(buffer.pop(), Some(write(3, 1)));
        assert_eq!(buffer.pop(), None);
        assert_eq!(buffer.insert(write(2, 1)), 0);
        assert_eq!(buffer.insert(write(2, 1)), 1);
    }

    proptest! {
        /// Against a plain list of what waits, oldest first; `None` marks a place whose unit was removed.
        #[test]
        fn behaves_like_a_list(
            capacity in 1_usize..20,
            steps in prop::collection::vec((0_u8..8, 0_u64..30, 1_u8..), 0..300),
        ) {
            let mut buffer = WriteBuffer::new(capacity);
            let mut list: Vec<Option<Waiting>> = Vec::new();
            for (step, lba, sectors) in steps {
                let at = list.iter().position(|waiting| waiting.is_some_and(|w| w.lba.0 == lba));
                match (step, at) {
                    (0, None) => prop_assert_eq!(buffer.remove(Lba(lba)), 0),
                    (0, Some(at)) => {
                        let removed = list[at].take().map_or(0, |w| w.sectors.count_ones());
                        prop_assert_eq!(buffer.remove(Lba(lba)), removed);
                    }
                    (_, Some(at)) => {
                        let waiting = list[at].as_mut().unwrap();
                        let new = write(lba, sectors.into());
                        let overwritten = (waiting.sectors & new.sectors).count_ones();
                        waiting.sectors |= new.sectors;
                        prop_assert_eq!(buffer.insert(new), overwritten);
                    }
                    (_, None) => {
                        list.push(Some(write(lba, sectors.into())));
                        prop_assert_eq!(buffer.insert(write(lba, sectors.into())), 0);
                    }
                }
                prop_assert_eq!(buffer.is_overfull(), list.len() > capacity);
                while buffer.is_overfull() {
                    let gone = list.iter().position(Option::is_some).unwrap();
                    prop_assert_eq!(buffer.pop(), list.drain(..=gone).next_back().unwrap());
                }
            }
        }
    }
}
