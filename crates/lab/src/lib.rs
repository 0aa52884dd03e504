//! Workloads against simulated drives in virtual time: runs, steady state, closed forms, experiments.
//!
//! A run takes an [`Input`], looks through it once ([`Prepared`]), and replays it against a
//! [`Stack`]; what comes out is a [`RunRecord`](thermocline_record::RunRecord).
//!
//! Invariants:
//! * Equal inputs, stacks, settings and seeds give equal records, but for what they cost the machine.
//! * The bytes of every run add up, or the run fails.

mod barriers;
pub mod bench_placement;
mod byte_counts;
mod cost;
mod error;
pub mod explain;
mod fitting;
pub mod headroom;
pub mod input;
pub mod jobs;
mod life;
pub mod log;
mod meter;
mod outcome;
pub mod pts;
mod rates;
pub mod reproduce;
mod run;
mod settings;
mod stack;
mod steady;
mod tag;
pub mod tco;
mod tenants;
pub mod theory;
mod think;

pub use error::Error;
pub use input::{Input, Prefill, Prepared, Room};
pub use life::{media_endurance, rated_bytes};
pub use run::run;
pub use settings::{Pacing, Settings};
pub use stack::{Layer, Stack};
pub use tag::{By, Tagging, Told};
