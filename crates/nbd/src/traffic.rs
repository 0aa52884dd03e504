//! What a server counted since it began.

/// Counters. What was asked of the targets, these know themselves.
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
    /// Requests that were answered, in the transmission phase.
    pub requests: u64,
    /// Those of them that were answered with an error.
    pub errors: u64,
    /// Those of these that no target was asked for: the request itself could not be.
    pub refused: u64,
    /// Bytes that payloads and replies take at the moment.
    pub held_bytes: u64,
}
