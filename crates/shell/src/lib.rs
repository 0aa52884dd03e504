//! The simulation of the shell: a pool with its turns and limits, device changes, and NBD clients, all on one thread
//! and in virtual time. One seed decides all events and their order.
//!
//! Engine, pool and server are the code of the product. The drives, the clients and the clock are scripted. The judge
//! is the model of `thermocline-sim`, with rules for limits and waiting times.
//!
//! Invariants:
//! * The same seed gives the same world, on every machine.
//! * A sleeping thread of the service continues only after a wake-up.

pub mod client;
pub mod drive;
#[cfg(feature = "bugs")]
pub mod hunt;
pub mod judge;
pub mod settings;
pub mod storage;
pub mod up;
pub mod watched;
pub mod wire;
pub mod world;
