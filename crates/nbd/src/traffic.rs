//! What a server counted since it began.

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
}
