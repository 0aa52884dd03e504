//! A server of NVMe over TCP over any [`BlockTarget`](thermocline_target::BlockTarget): one subsystem for all
//! [`Exports`](thermocline_target::Exports), a namespace for each.
//!
//! [`protocol`] is the protocol as pure functions. [`NvmeServer`] serves all connections on one thread of its own.
//!
//! Invariants:
//! * No connection waits for another: sockets never block, and the requests and the memory of each are bounded.
//! * A command is answered once, after the target completed it. An ended connection leaves only requests that the
//!   target still carries out.
//! * A connection that breaks the protocol ends, and with an admin queue its controller; no other connection does.

mod connection;
mod controller;
mod io;
mod namespaces;
pub mod protocol;
mod server;

pub use namespaces::{Subsystem, Uuid};
pub use server::NvmeServer;
