//! What was asked of a volume, by whatever front end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thermocline_target::Request;

use super::latency::{Latencies, LatencyCounters};

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Trims that need not be durable at once.
    Trim,
    /// Zeroing, and trims that have to be durable.
    Zeroes,
    /// Questions for mapped extents.
    Extents,
}

impl Operation {
    /// All, in the order of the fields of [`Traffic`].
    pub const ALL: [Operation; 6] = [
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Trim,
        Operation::Zeroes,
        Operation::Extents,
    ];

    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Trim => "trim",
            Operation::Zeroes => "zeroes",
            Operation::Extents => "extents",
        }
    }

    /// Operation of `request`.
    pub(super) fn of(request: &Request) -> Operation {
        match request {
            Request::Read { .. } => Operation::Read,
            Request::Write { .. } => Operation::Write,
            Request::Flush { .. } => Operation::Flush,
            Request::Trim { .. } => Operation::Trim,
            Request::WriteZeroes { .. } => Operation::Zeroes,
        }
    }
}

/// Requests that volumes have answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many, by [`Operation`].
    pub requests: [u64; 6],
    /// Bytes addressed by successful requests.
    pub bytes: [u64; 6],
    /// How many failed.
    pub errors: u64,
    /// Times from a request's arrival at the volume to its answer.
    pub latencies: [Latencies; 6],
}

/// Counters of [`Traffic`], for several threads.
#[derive(Debug, Default)]
pub(super) struct TrafficCounters {
    requests: [AtomicU64; 6],
    bytes: [AtomicU64; 6],
    errors: AtomicU64,
    latencies: [LatencyCounters; 6],
}

impl TrafficCounters {
    /// Counts a request answered after `time`. `bytes` is the addressed bytes of a successful request; `None` for a
    /// failed request.
    pub(super) fn count(&self, operation: Operation, bytes: Option<u64>, time: Duration) {
        let index = operation as usize;
        self.requests[index].fetch_add(1, Ordering::Relaxed);
        let (counter, by) = bytes.map_or((&self.errors, 1), |bytes| (&self.bytes[index], bytes));
        counter.fetch_add(by, Ordering::Relaxed);
        self.latencies[index].count(time);
    }

    pub(super) fn read(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            requests: self.requests.each_ref().map(read),
            bytes: self.bytes.each_ref().map(read),
            errors: read(&self.errors),
            latencies: self.latencies.each_ref().map(LatencyCounters::read),
        }
    }
}

impl Traffic {
    /// Adds the counts of `other`.
    pub(super) fn add(&mut self, other: &Traffic) {
        for index in 0..Operation::ALL.len() {
            self.requests[index] += other.requests[index];
            self.bytes[index] += other.bytes[index];
            self.latencies[index].add(&other.latencies[index]);
        }
        self.errors += other.errors;
    }
}
