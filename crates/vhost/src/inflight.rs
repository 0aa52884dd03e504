//! The requests of a queue that have no answer yet, in memory that the frontend keeps while this process restarts
//! (vhost-user, "Inflight I/O tracking", split virtqueue).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vm_memory::{AtomicAccess, Bytes, MmapRegion, VolatileMemory};

/// Bytes before the entries of a queue, and of an entry.
const HEADER: usize = 16;
const ENTRY: usize = 16;

/// Offsets in the header.
const VERSION: usize = 8;
const ENTRIES: usize = 10;
const LAST: usize = 12;
const USED: usize = 14;
/// Offsets in an entry.
const UNDER_WAY: usize = 0;
const NEXT: usize = 6;
const COUNTER: usize = 8;

/// Bytes of the region of a queue.
pub(crate) const fn bytes(queue_size: u16) -> usize {
    (HEADER + ENTRY * queue_size as usize).next_multiple_of(64)
}

/// The region of one queue. The frontend may write nonsense to it.
#[derive(Clone)]
pub(crate) struct Inflight {
    shared: Arc<MmapRegion>,
    at: usize,
    size: u16,
}

impl Inflight {
    /// The region of queue `index`, each of `size` entries; `None` beyond the end of the shared memory.
    pub(crate) fn new(shared: &Arc<MmapRegion>, index: usize, size: u16) -> Option<Inflight> {
        let at = index * bytes(size);
        let fits = at + bytes(size) <= shared.size();
        fits.then(|| Inflight { shared: Arc::clone(shared), at, size })
    }

    /// Entries.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// The request that begins with descriptor `head` was taken, as number `counter`.
    pub(crate) fn begin(&self, head: u16, counter: u64) {
        self.set(entry(head) + COUNTER, counter);
        self.set(entry(head) + UNDER_WAY, 1_u8);
    }

    /// The request is about to be put in the used ring.
    pub(crate) fn ending(&self, head: u16) {
        self.set(entry(head) + NEXT, self.get::<u16>(LAST));
        self.set(LAST, head);
    }

    /// The request is in the used ring, whose index is `used` now.
    pub(crate) fn ended(&self, head: u16, used: u16) {
        self.set(entry(head) + UNDER_WAY, 0_u8);
        self.set(USED, used);
    }

    /// Requests under way when the last process ended, in their order. `used` is the index of the used ring.
    pub(crate) fn recover(&self, used: u16) -> Vec<u16> {
        self.set(VERSION, 1_u16);
        self.set(ENTRIES, self.size);
        let mut ended = self.get::<u16>(LAST);
        let batch = used.wrapping_sub(self.get::<u16>(USED));
        for _ in 0..batch.min(self.size) {
            if ended >= self.size {
                break;
            }
            self.set(entry(ended) + UNDER_WAY, 0_u8);
            ended = self.get::<u16>(entry(ended) + NEXT);
        }
        self.set(USED, used);
        let under_way = |&head: &u16| self.get::<u8>(entry(head) + UNDER_WAY) == 1;
        let mut heads: Vec<u16> = (0..self.size).filter(under_way).collect();
        heads.sort_by_key(|&head| self.get::<u64>(entry(head) + COUNTER));
        heads
    }

    // After a kill, memory has all stores before some point of this thread.
    fn set<T: AtomicAccess>(&self, offset: usize, value: T) {
        let stored =
            self.shared.as_volatile_slice().store(value, self.at + offset, Ordering::Release);
        stored.expect("`new` checked the bounds; entries are aligned");
    }

    fn get<T: AtomicAccess>(&self, offset: usize) -> T {
        let loaded = self.shared.as_volatile_slice().load(self.at + offset, Ordering::Acquire);
        loaded.expect("as above")
    }
}

const fn entry(head: u16) -> usize {
    HEADER + ENTRY * head as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflight() -> Inflight {
        Inflight::new(&Arc::new(MmapRegion::new(3 * bytes(8)).unwrap()), 2, 8).unwrap()
    }

    #[test]
    fn requests_without_answer_come_again_in_their_order() {
        let one = inflight();
        for (head, counter) in [(3, 0), (1, 1), (5, 2)] {
            one.begin(head, counter);
        }
        one.ending(1);
        one.ended(1, 1);
        assert_eq!(one.recover(1), [3, 5]);
        one.begin(1, 3);
        assert_eq!(one.recover(1), [3, 5, 1]);
    }

    #[test]
    fn an_answer_in_the_ring_counts_if_the_process_ended_before_it_was_noted() {
        let one = inflight();
        one.begin(3, 0);
        one.begin(4, 1);
        one.ending(4);
        assert_eq!(one.recover(0), [3, 4], "not in the ring yet");
        one.ending(4);
        assert_eq!(one.recover(1), [3], "in the ring");
    }

    #[test]
    fn nonsense_in_the_region_ends() {
        let one = inflight();
        for head in 0..8 {
            one.begin(head, u64::MAX);
            one.ending(head);
        }
        one.set(LAST, 7_u16);
        one.set(entry(7) + NEXT, 7_u16);
        assert_eq!(one.recover(60_000).len(), 7);
        one.set(LAST, 9999_u16);
        assert_eq!(one.recover(1).len(), 7);
    }

    #[test]
    fn a_region_beyond_the_memory_is_none() {
        let shared = Arc::new(MmapRegion::new(3 * bytes(8)).unwrap());
        assert!(
            Inflight::new(&shared, 3, 8).is_none() && Inflight::new(&shared, 0, 1024).is_none()
        );
    }
}
