//! Workloads against simulated drives in virtual time: runs, steady state, closed forms, experiments.
//!
//! A run takes an [`Input`], looks through it once ([`Prepared`]), and replays it against a
//! [`Stack`]; what comes out is a [`RunRecord`](thermocline_record::RunRecord). [`spec::run`] does so for a
//! specification; [`sweep`], [`whatif`] and [`analyze`] make runs of it.
//!
//! Invariants:
//! * Equal inputs, stacks, settings and seeds give equal records, but for what they cost the machine.
//! * The bytes of every run add up, or the run fails.

#![cfg_attr(
    not(feature = "papers"),
    allow(dead_code, reason = "some parts are only there for published experiments")
)]

pub mod analyze;
mod barriers;
mod bench;
pub mod bench_placement;
mod byte_counts;
mod cost;
pub mod counters;
mod error;
pub mod explain;
mod fitting;
pub mod fleet;
pub mod headroom;
pub mod input;
pub mod jobs;
pub mod kvcache;
mod life;
pub mod log;
mod meter;
mod outcome;
mod parallel;
pub mod pts;
mod queue;
mod rates;
#[cfg(feature = "papers")]
pub mod reproduce;
mod run;
mod settings;
pub mod sheets;
pub mod spec;
mod stack;
mod steady;
pub mod sweep;
mod tag;
mod target;
pub mod tco;
mod tenants;
pub mod theory;
mod think;
pub mod whatif;

pub use error::Error;
pub use input::{Input, Prefill, Prepared, Room};
pub use life::{LOAD_DEVIATION, Z90, media_endurance, rated_bytes};
pub use parallel::each;
pub use run::run;
pub use settings::{Pacing, Settings};
pub use stack::{Layer, Stack};
pub use tag::{By, Tagging, Told};
