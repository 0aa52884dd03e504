//! Counters of a server since its start.

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
