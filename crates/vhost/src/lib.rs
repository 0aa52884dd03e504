//! Block targets as disks of virtual machines: each [`Export`](thermocline_target::Export) is a virtio-blk device with
//! a vhost-user socket of its own.
//!
//! The guest puts requests into rings in its memory, which the frontend (QEMU) shares with this process. Between guest
//! memory and the memory of requests, data is copied once.
//!
//! Invariants:
//! * Each connection has a thread. Guest memory and descriptors of the frontend are touched by that thread only, so a
//!   frontend that blocks or lies costs no other client.
//! * Each field in guest memory is read once. Lengths and addresses are checked after that.
//! * A request is marked in the shared inflight region from before its submission until its answer is in the used ring.
//!   The next process that serves the ring submits the request again.
//! * A volume has one connection at a time. The next one begins when the target has completed all requests of the last,
//!   so that no old write arrives late.

mod config;
mod connection;
mod device;
mod inflight;
mod memory;
mod request;
mod ring;
mod service;

pub use config::Wear;
pub use service::{Bind, Bound, GuestDisks, Hooks, serve, socket};

#[cfg(test)]
mod tests;
