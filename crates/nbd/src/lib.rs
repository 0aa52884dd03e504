//! A server of network block devices over any [`BlockTarget`](thermocline_target::BlockTarget).
//!
//! [`protocol`] is the protocol as pure functions. [`Server`] serves [`Exports`](thermocline_target::Exports) on
//! listening sockets, all connections on one thread: its own, with [`Server::run`], or that of the target, turn by
//! turn. [`Client`] is a small client.
//!
//! Invariants:
//! * No connection waits for another: sockets never block, and [`Limits`] bounds the requests of each connection and
//!   the   memory of all.
//! * A request is answered once, after the target completed it. An ended connection leaves only requests that the
//!   target   still carries out.
//! * No request reaches a target before the handshake is complete.

mod budget;
mod client;
mod connection;
mod export;
mod limits;
mod outbox;
pub mod protocol;
mod server;
mod session;
mod socket;
mod tls;
mod traffic;

pub use client::{Client, ClientError, Reply};
pub use limits::Limits;
pub use server::{Listener, Server, Stopper};
pub use socket::{Readiness, Transport};
pub use tls::{Tls, TlsError, Validity, validity};
pub use traffic::Traffic;
