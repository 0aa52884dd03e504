//! Deterministic fault simulation of the log engine: simulated disks, injected faults, a reference model, and crash
//! states enumerated one by one.
//!
//! Invariants:
//! * All that happens follows from a seed. The same seed gives the same commands at the same times.
//! * Bytes are real: what the engine wrote is encoded, torn, flipped and decoded again.

pub mod data;
pub mod disk;
pub mod faults;
pub mod model;
