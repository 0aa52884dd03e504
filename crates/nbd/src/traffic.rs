//! What a server counted since it began.

use crate::Latencies;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Trims.
    Trim,
    /// Commands to write zeroes.
    Zeroes,
    /// Questions for what is allocated, commands to cache, and whatever is not known.
    Other,
}

impl Operation {
    /// All, in the order of the fields of [`Traffic`].
    pub const ALL: [Operation; 6] = [
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Trim,
        Operation::Zeroes,
        Operation::Other,
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
            Operation::Other => "other",
        }
    }
}

/// Counters. All but those of connections are of requests in the transmission phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that are open.
    pub open: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were closed because there were too many.
    pub crowded_out: u64,
    /// Connections that were closed because the client did not keep to the protocol or its time.
    pub thrown_out: u64,
    /// Requests that were answered, by [`Operation`].
    pub requests: [u64; 6],
    /// Bytes that these addressed.
    pub bytes: [u64; 6],
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Times of the requests that a target was asked for, by [`Operation`]: from when all of a request was there until
    /// its reply could be sent, in turns of the server; what sockets take is not in it.
    pub latencies: [Latencies; 6],
    /// Bytes of writes that were completed without being durable by themselves (FUA).
    pub volatile_bytes: u64,
    /// How many of these a flush has covered. One counts for all exports, as it is with volumes of one pool.
    pub flushed_bytes: u64,
}

impl Traffic {
    /// Bytes that clients have written and were not told to be durable: a power cut may lose them, and no more. The
    /// target may have made some durable on its own, and blocks that were written twice count twice.
    #[must_use]
    pub fn bytes_at_risk(&self) -> u64 {
        self.volatile_bytes - self.flushed_bytes
    }
}
