//! The log engine: volumes over zones, as a sans-IO state machine.
//!
//! [`Engine`] takes requests of hosts and completions of the device, and returns commands for the device and answers
//! for hosts. The engine does no I/O, reads no clock and starts no thread; a driver does, in a simulation or for real.
//! User data never passes through the engine, which moves handles ([`Payload`]).
//!
//! `docs/develop/FORMAT.md` describes the media format and the recovery from a crash at any moment;
//! `docs/use/FAULTS.md` the guarantees.
//!
//! Invariants:
//! * Equal inputs in equal order give equal outputs.
//! * Each accepted request completes exactly once.
//! * A flush is answered only when recovery would find every write completed before the flush.
//! * The map points at a block, or marks the block as unmapped; a read returns no other data.
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod bugs;
mod collection;
mod config;
mod destage;
mod device;
mod due;
mod durability;
mod engine;
mod flights;
mod healing;
mod map;
mod marks;
mod memory;
mod moved;
mod pages;
mod payload;
mod request;
mod requests;
mod space;
mod stats;
mod superblocks;
mod tier;
mod tuning;
mod unit_table;
mod volumes;
pub mod wire;
mod write_cache;

pub use bugs::Bug;
pub use config::{
    Config, ConfigError, DestageConfig, GcConfig, MAX_IO_BLOCKS, MAX_STAGED_TIME, ReadPlan,
};
pub use device::{
    Body, Chunk, DeviceCmd, DeviceError, Done, FoundChunk, FoundChunks, Heal, Members, OpId,
    PageBytes, ReadChunks, UnitCondition, UnitReport, Versions,
};
pub use engine::{Engine, Occupancy, Run, ScrubProgress};
#[cfg(feature = "marks")]
pub use marks::{Mark, Marks, take as take_marks};
pub use payload::Payload;
pub use request::{
    Action, Extent, HostError, HostRequest, Notice, OpenError, Rejected, Reply, RequestId,
};
pub use stats::{Memory, Stats, VolumeTraffic, WrittenOn};
pub use tuning::{MAX_UNITS, Tuning, default_unit};
pub use volumes::VolumeInfo;
