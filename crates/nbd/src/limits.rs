//! Limits of connections.

use std::time::Duration;

/// Bounds. The defaults are chosen, not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. At the limit a new connection replaces the oldest connection in its handshake; if no
    /// connection is in its handshake, the new connection is closed.
    pub connections: usize,
    /// Unanswered requests of a connection, at most. At the limit no further request is read.
    pub requests: usize,
    /// Bytes of payloads and replies of a connection's unanswered requests, plus the bytes of one request.
    pub bytes: u64,
    /// Bytes of payloads and replies of all connections. Half of the bytes are divided evenly. Beyond its own part a
    /// connection borrows from the common half, and waits while the common half is lent out.
    pub memory: u64,
    /// Bytes of the longest payload, at least 1 MiB. The protocol lets clients expect 32 MiB.
    pub payload: u32,
    /// Time that a client has to choose an export.
    pub handshake: Duration,
    /// Time without progress after which a client is dropped, amid a message or with replies to take.
    pub stall: Duration,
    /// As [`Limits::stall`], for a client beyond its part of [`Limits::memory`] while another connection waits for
    /// memory.
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
