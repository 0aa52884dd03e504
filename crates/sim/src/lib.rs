//! Deterministic fault simulation of the log engine: simulated disks, injected faults, a reference model, and crash
//! states enumerated one by one.
//!
//! Invariants:
//! * All that happens follows from a seed. The same seed gives the same commands at the same times.
//! * Bytes are real: what the engine wrote is encoded, torn, flipped and decoded again.

pub mod coverage;
pub mod damage;
pub mod data;
pub mod disk;
pub mod enumerate;
pub mod fail;
pub mod faults;
pub mod fuzz;
pub mod healed;
#[cfg(feature = "bugs")]
pub mod hunt;
pub mod lost_header;
pub mod machine;
pub mod model;
pub mod numbers;
pub mod older_home;
pub mod replay;
pub mod settings;
pub mod situations;
pub mod states;
pub mod torn_twice;
pub mod workload;
pub mod world;
pub mod wrong;
