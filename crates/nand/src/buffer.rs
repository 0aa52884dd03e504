//! The write buffer: host data waits here to be merged with what comes after it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
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
/// Invariant: `index[lba]` is the position of `lba` in the queue since the start, `popped` of which have left.
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    queue: VecDeque<Option<Waiting>>,
    index: FxHashMap<u64, u64>,
    popped: u64,
    capacity: usize,
}

impl WriteBuffer {
    /// A buffer for `capacity` mapping units, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        WriteBuffer {
            queue: VecDeque::with_capacity(capacity + 1),
            index: FxHashMap::default(),
            popped: 0,
            capacity,
        }
    }

    /// Takes a write in. Returns how many sectors it overwrote here.
    pub fn insert(&mut self, write: Waiting) -> u32 {
        if let Some(&position) = self.index.get(&write.lba.0) {
            let slot = &mut self.queue[(position - self.popped) as usize];
            let waiting = slot.as_mut().expect("indexed units wait");
            let overwritten = (waiting.sectors & write.sectors).count_ones();
            waiting.sectors |= write.sectors;
            waiting.handle = write.handle;
            return overwritten;
        }
        self.index.insert(write.lba.0, self.popped + self.queue.len() as u64);
        self.queue.push_back(Some(write));
        0
    }

    /// Whether more is waiting than the buffer holds; places freed by [`WriteBuffer::remove`] count until their turn.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.queue.len() > self.capacity
    }

    /// Whether `lba` is waiting.
    #[must_use]
    pub fn contains(&self, lba: Lba) -> bool {
        self.index.contains_key(&lba.0)
    }

    /// Takes the oldest mapping unit out.
    pub fn pop(&mut self) -> Option<Waiting> {
        while let Some(slot) = self.queue.pop_front() {
            self.popped += 1;
            if let Some(waiting) = slot {
                self.index.remove(&waiting.lba.0);
                return Some(waiting);
            }
        }
        None
    }

    /// Forgets `lba`. Returns how many written sectors that discarded.
    pub fn remove(&mut self, lba: Lba) -> u32 {
        let Some(position) = self.index.remove(&lba.0) else { return 0 };
        let waiting = self.queue[(position - self.popped) as usize].take();
        waiting.expect("indexed units wait").sectors.count_ones()
    }

    /// Written sectors waiting.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.queue.iter().flatten().map(|waiting| u64::from(waiting.sectors.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
