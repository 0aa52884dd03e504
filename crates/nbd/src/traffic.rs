//! Counters of a server since its start.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters. Targets count their own requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that are open.
    pub open: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were closed at the limit of connections.
    pub crowded_out: u64,
    /// Connections that were closed because the client did not keep to the protocol or its time.
    pub thrown_out: u64,
    /// Requests that were answered, in the transmission phase.
    pub requests: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Requests that were refused without asking a target, for a mistake in the request itself.
    pub refused: u64,
    /// Bytes that payloads and replies hold now.
    pub held_bytes: u64,
}

/// [`Traffic`] as the server's thread last published it, for readers of other threads. Each counter is read by itself.
#[derive(Debug, Default)]
pub(crate) struct Published {
    open: AtomicU64,
    accepted: AtomicU64,
    crowded_out: AtomicU64,
    thrown_out: AtomicU64,
    requests: AtomicU64,
    errors: AtomicU64,
    refused: AtomicU64,
    held_bytes: AtomicU64,
}

impl Published {
    pub(crate) fn publish(&self, traffic: Traffic) {
        let Traffic {
            open,
            accepted,
            crowded_out,
            thrown_out,
            requests,
            errors,
            refused,
            held_bytes,
        } = traffic;
        let pairs = [
            (&self.open, open),
            (&self.accepted, accepted),
            (&self.crowded_out, crowded_out),
            (&self.thrown_out, thrown_out),
            (&self.requests, requests),
            (&self.errors, errors),
            (&self.refused, refused),
            (&self.held_bytes, held_bytes),
        ];
        // Stores to memory of this thread's cache: cheaper than a lock that readers also take.
        pairs.into_iter().for_each(|(to, value)| to.store(value, Ordering::Release));
    }

    pub(crate) fn read(&self) -> Traffic {
        let read = |from: &AtomicU64| from.load(Ordering::Acquire);
        Traffic {
            open: read(&self.open),
            accepted: read(&self.accepted),
            crowded_out: read(&self.crowded_out),
            thrown_out: read(&self.thrown_out),
            requests: read(&self.requests),
            errors: read(&self.errors),
            refused: read(&self.refused),
            held_bytes: read(&self.held_bytes),
        }
    }
}
