//! How long requests take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the buckets of a [`Latencies`], in microseconds; a last bucket counts longer times. Chosen: a read
/// from memory is in the first, a stalled device in the last, and each is about twice the one before.
pub const LATENCY_BUCKETS_MICROS: [u32; 15] = [
    20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000,
];

/// A histogram of the times of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Requests in each bucket, those of the buckets before not included.
    pub counts: [u64; LATENCY_BUCKETS_MICROS.len() + 1],
    /// All times together, in nanoseconds.
    pub nanos: u64,
}

/// Counters of [`Latencies`], for several threads.
#[derive(Debug, Default)]
pub(super) struct LatencyCounters {
    counts: [AtomicU64; LATENCY_BUCKETS_MICROS.len() + 1],
    nanos: AtomicU64,
}

impl LatencyCounters {
    /// Counts a request that took `time`. The upper end of a bucket belongs to it.
    pub(super) fn count(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BUCKETS_MICROS.partition_point(|&end| u64::from(end) * 1000 < nanos);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Latencies {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Latencies { counts: self.counts.each_ref().map(read), nanos: read(&self.nanos) }
    }
}

impl Latencies {
    /// Adds the counts of `other`.
    pub(super) fn add(&mut self, other: &Latencies) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.nanos = self.nanos.saturating_add(other.nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_bucket_belongs_to_it() {
        let latencies = LatencyCounters::default();
        for nanos in [0, 20_000, 20_001, 1_000_000_000, 1_000_000_001] {
            latencies.count(Duration::from_nanos(nanos));
        }
        let latencies = latencies.read();
        let counts = latencies.counts;
        assert_eq!((&counts[..3], &counts[14..]), (&[2, 1, 0][..], &[1, 1][..]));
        assert_eq!(latencies.nanos, 2_000_040_002);
    }
}
