//! What connections may take.

use std::time::Duration;

/// Bounds. The defaults are chosen, not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. For one more, the oldest that has not finished its handshake is closed; if all have, the
    /// new one is.
    pub connections: usize,
    /// Requests of a connection that are not answered yet. What it sends beyond is not read.
    pub requests: usize,
    /// Bytes of payloads and replies of these, in addition to those of one request.
    pub bytes: u64,
    /// Bytes of payloads and replies of all connections. Half of them are dealt out evenly; what a connection wants
    /// beyond its part, it waits for until others have less.
    pub memory: u64,
    /// Bytes of the longest payload, at least 1 MiB. The protocol lets clients expect 32 MiB.
    pub payload: u32,
    /// Time that a client has to choose an export.
    pub handshake: Duration,
    /// Time in which a client must take or send something when it is amid a message or has replies to take.
    pub stall: Duration,
    /// The same for a client that has more than its part of [`Limits::memory`], while others wait for memory.
    pub pressed: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 128,
            requests: 128,
            bytes: 16 << 20,
            memory: 128 << 20,
            payload: 32 << 20,
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(120),
            pressed: Duration::from_secs(5),
        }
    }
}
