//! A server of network block devices over any [`BlockTarget`](thermocline_target::BlockTarget).
//!
//! [`protocol`] is the protocol as pure functions. [`Server`] serves [`Exports`] on listening sockets, all connections
//! on one thread: its own, with [`Server::run`], or that of the target, turn by turn. [`Client`] is a small client.
//!
//! Invariants:
//! * No connection waits for another one: no socket is read or written when that would block, and what a connection may
//!   have in work, and all together in memory, is bounded by [`Limits`].
//! * A request is answered once, after the target completed it; a connection that ends leaves nothing behind but what
//!   the target is still doing.
//! * Before the handshake is complete nothing reaches a target.

mod budget;
mod client;
mod connection;
mod export;
mod input;
mod limits;
mod outbox;
mod output;
pub mod protocol;
mod server;
mod session;
mod socket;
mod tls;
mod traffic;

pub use client::{Client, ClientError, Reply};
pub use export::{Export, Exports};
pub use limits::Limits;
pub use server::{Listener, Server, Stopper};
pub use socket::{Readiness, Transport};
pub use tls::{Tls, TlsError, Validity, validity};
pub use traffic::Traffic;
