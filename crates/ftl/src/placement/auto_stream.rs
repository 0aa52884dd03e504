//! AutoStream: streams for chunks of addresses, by multiple queues or by sequentiality, frequency and recency.

use thermocline_types::{Class, Lba};

use super::per_block::PerBlock;
use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// Blocks of a chunk under [`MultiQueue`]: 1 MiB.
const QUEUE_CHUNK: u64 = 256;
/// Blocks of a chunk under [`Sfr`]: 2 MiB.
const SFR_CHUNK: u64 = 512;
/// Host blocks in which a chunk's count halves under [`Sfr`]: 64 MiB.
const DECAY: u64 = 16_384;

/// The stream of a chunk written so often: the natural logarithm, at most `last`.
fn stream(writes: u64, last: u8) -> u8 {
    ((writes.max(1) as f64).ln() as u8).min(last)
}

/// The chunk of `lba`, as the index of the chunk's state.
fn chunk(lba: Lba, blocks: u64) -> Lba {
    Lba(lba.0 / blocks)
}

/// AutoStream's multi-queue (Yang et al., "AutoStream: Automatic Stream Management for Multi-streamed SSDs", SYSTOR
/// 2017, with the parameters of SepBIT's evaluation, FAST 2022).
///
/// A chunk of 1 MiB written `n` times is in queue `⌊ln n⌋`, and that is its class; survivors have the last class. Time
/// counts accesses of chunks; a chunk expires when it was not written for as long as the hottest chunk last waited. At
/// each access the chunk of each queue that was written longest ago falls to the queue below if it has expired.
/// Default: 6 classes. State: 56 bytes per chunk, 0.2 per block.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiQueue {
    chunks: PerBlock<Queued>,
    queues: Vec<Queue>,
    accesses: u64,
    hottest: Option<u64>,
    most_writes: u64,
    lifetime: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Queued {
    writes: u64,
    last: u64,
    expires: u64,
    queue: u8,
    /// The chunks before and behind it in its queue.
    before: Option<u64>,
    behind: Option<u64>,
}

/// The chunks at both ends of a queue; the first entered or was written longest ago.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Queue {
    first: Option<u64>,
    last: Option<u64>,
}

impl MultiQueue {
    /// A policy with `classes` classes, the last for survivors.
    ///
    /// # Panics
    /// If `classes` is below 2.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 1, "survivors and one queue at least");
        MultiQueue {
            chunks: PerBlock::default(),
            queues: vec![Queue::default(); usize::from(classes) - 1],
            accesses: 0,
            hottest: None,
            most_writes: 0,
            lifetime: 0,
        }
    }

    fn access(&mut self, number: Lba) {
        self.accesses += 1;
        let before = self.chunks.get(number);
        if before.writes > 0 {
            self.unlink(number.0);
        }
        let writes = before.writes + 1;
        if writes > self.most_writes {
            self.hottest = Some(number.0);
            self.most_writes = writes;
            self.lifetime = self.accesses - before.last;
        }
        let chunk = self.chunks.get_mut(number);
        (chunk.writes, chunk.last) = (writes, self.accesses);
        chunk.expires = self.accesses + self.lifetime;
        self.append(stream(writes, self.queues.len() as u8 - 1), number.0);
        self.demote();
    }

    /// Lets the first chunk of each queue fall if it has expired.
    fn demote(&mut self) {
        for queue in 0..self.queues.len() {
            let Some(first) = self.queues[queue].first else { continue };
            let chunk = self.chunks.get(Lba(first));
            if chunk.expires >= self.accesses {
                continue;
            }
            if let (true, Some(next)) = (self.hottest == Some(first), chunk.behind) {
                self.hottest = Some(next);
                self.most_writes = self.chunks.get(Lba(next)).writes;
            }
            self.unlink(first);
            self.chunks.get_mut(Lba(first)).expires = self.accesses + self.lifetime;
            self.append(queue.saturating_sub(1) as u8, first);
        }
    }

    /// Takes a chunk out of its queue.
    fn unlink(&mut self, number: u64) {
        let Queued { queue, before, behind, .. } = self.chunks.get(Lba(number));
        match before {
            Some(before) => self.chunks.get_mut(Lba(before)).behind = behind,
            None => self.queues[usize::from(queue)].first = behind,
        }
        match behind {
            Some(behind) => self.chunks.get_mut(Lba(behind)).before = before,
            None => self.queues[usize::from(queue)].last = before,
        }
    }

    /// Puts a chunk that is in no queue at the end of one.
    fn append(&mut self, queue: u8, number: u64) {
        let ends = &mut self.queues[usize::from(queue)];
        let before = ends.last.replace(number);
        match before {
            Some(before) => self.chunks.get_mut(Lba(before)).behind = Some(number),
            None => ends.first = Some(number),
        }
        let chunk = self.chunks.get_mut(Lba(number));
        (chunk.queue, chunk.before, chunk.behind) = (queue, before, None);
    }
}

impl Default for MultiQueue {
    fn default() -> Self {
        MultiQueue::new(6)
    }
}

impl Classifier for MultiQueue {
    fn topology(&self) -> Topology {
        let queues = self.queues.len() as u8;
        Topology::new(queues + 1, queues..queues + 1)
    }

    fn place(&mut self, write: Write) -> Class {
        let chunk = chunk(write.lba, QUEUE_CHUNK);
        if write.part.offset == 0 || write.lba.0.is_multiple_of(QUEUE_CHUNK) {
            self.access(chunk);
        }
        Class(self.chunks.get(chunk).queue)
    }

    fn place_survivor(&mut self, _survivor: Survivor, _now: u64) -> Class {
        Class(self.queues.len() as u8)
    }

    fn memory_bytes(&self) -> usize {
        self.chunks.memory_bytes()
    }
}

impl VictimRule for MultiQueue {}

/// AutoStream's sequentiality, frequency and recency (Yang et al., SYSTOR 2017, with the parameters of SepBIT's
/// evaluation, FAST 2022).
///
/// A request that begins where the one before ended goes to the same class. Else the class is `⌊ln n⌋` of its chunk of
/// 2 MiB, where `n` gains 1 with each access and halves with every 64 MiB that the host writes; survivors have the last
/// class. Default: 6 classes. State: 16 bytes per chunk, 0.03 per block.
#[derive(Clone, Debug, PartialEq)]
pub struct Sfr {
    classes: u8,
    chunks: PerBlock<Counted>,
    /// Where the last request ended.
    end: u64,
    sequential: bool,
    /// Class of the last block that was not sequential.
    class: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    writes: u64,
    last: u64,
}

impl Sfr {
    /// A policy with `classes` classes, the last for survivors.
    ///
    /// # Panics
    /// If `classes` is below 2.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 1, "survivors and one stream at least");
        Sfr { classes, chunks: PerBlock::default(), end: 0, sequential: false, class: 0 }
    }

    fn access(&mut self, number: Lba, now: u64) {
        let chunk = self.chunks.get_mut(number);
        let halvings = now.saturating_sub(chunk.last) / DECAY;
        let left = if halvings < 64 { chunk.writes >> halvings } else { 0 };
        *chunk = Counted { writes: left + 1, last: now };
    }
}

impl Default for Sfr {
    fn default() -> Self {
        Sfr::new(6)
    }
}

impl Classifier for Sfr {
    fn topology(&self) -> Topology {
        Topology::new(self.classes, self.classes - 1..self.classes)
    }

    fn place(&mut self, write: Write) -> Class {
        let (lba, chunk) = (write.lba.0, chunk(write.lba, SFR_CHUNK));
        if write.part.offset == 0 {
            self.sequential = lba == self.end;
            self.end = lba + u64::from(write.part.length);
        }
        if write.part.offset == 0 || lba.is_multiple_of(SFR_CHUNK) {
            self.access(chunk, write.now);
        }
        if !self.sequential {
            self.class = stream(self.chunks.get(chunk).writes, self.classes - 2);
        }
        Class(self.class)
    }

    fn place_survivor(&mut self, _survivor: Survivor, _now: u64) -> Class {
        Class(self.classes - 1)
    }

    fn memory_bytes(&self) -> usize {
        self.chunks.memory_bytes()
    }
}

impl VictimRule for Sfr {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;
    use crate::placement::Part;

    #[test]
    fn a_chunk_climbs_the_queues_with_the_logarithm_of_its_writes() {
        let mut policy = MultiQueue::new(4);
        let classes: Vec<u8> =
            (0..25).map(|now| policy.place(Write::plain(Lba(now), now)).0).collect();
        // e is passed by the third write, e^2 = 7.4 by the eighth; the third queue is the last.
        assert_eq!(classes[..8], [0, 0, 1, 1, 1, 1, 1, 2]);
        assert_eq!(classes[24], 2);
        assert_eq!(policy.place(Write::plain(Lba(QUEUE_CHUNK), 25)), Class(0), "another chunk");
    }

    #[test]
    fn what_is_not_written_for_a_lifetime_falls_a_queue_at_a_time() {
        let mut policy = MultiQueue::new(4);
        let far = |n: u64| Lba(QUEUE_CHUNK * n);
        (0..8).for_each(|now| _ = policy.place(Write::plain(far(1), now)));
        // The hottest chunk waited 1 access. Single writes of further chunks make the queues see accesses.
        assert_eq!((policy.lifetime, policy.chunks.get(Lba(1)).queue), (1, 2));
        policy.place(Write::plain(far(2), 8));
        assert_eq!(policy.chunks.get(Lba(1)).queue, 2, "not expired yet");
        policy.place(Write::plain(far(3), 9));
        assert_eq!(policy.chunks.get(Lba(1)).queue, 1);
        (4..6).for_each(|n| _ = policy.place(Write::plain(far(n), 0)));
        assert_eq!(policy.chunks.get(Lba(1)).queue, 0);
        assert_eq!(policy.place(Write::plain(far(1), 0)), Class(2), "its count is kept");
    }

    #[test]
    fn sequential_requests_share_a_stream_and_others_go_by_decayed_count() {
        let mut policy = Sfr::new(6);
        let part = Part { offset: 0, length: 8 };
        let write = |policy: &mut Sfr, lba, now| {
            policy.place(Write { part, ..Write::plain(Lba(lba), now) }).0
        };
        let hot = 10 * SFR_CHUNK;
        let classes: Vec<u8> = (0..8).map(|now| write(&mut policy, hot + 16, now)).collect();
        assert_eq!(classes, [0, 0, 1, 1, 1, 1, 1, 2]);
        assert_eq!(write(&mut policy, hot + 24, 8), 2, "follows on");
        let far = 20 * SFR_CHUNK;
        assert_eq!(write(&mut policy, far, 9), 0);
        assert_eq!(write(&mut policy, far + 8, 10), 0, "the stream of the request before");
        assert_eq!(write(&mut policy, hot, 8 + 2 * DECAY), 1, "nine writes, halved twice, and one");
    }
}
