//! Simulated flash drives: conventional, multi-stream, FDP, ZNS; geometry, time and wear.
//!
//! A [`Drive`] is made from a [`Profile`], at any capacity, and serves requests in virtual time. Its decisions never
//! depend on time, so timed and untimed runs give the same write amplification.
//!
//! Invariants:
//! * Pure and deterministic: equal profiles, seeds and requests give equal results on every machine.
//! * Every byte has a cause; see [`Counters`].
//! * Below its exported capacity a drive never runs out of units until it is worn out; see
//!   [`thermocline_ftl::Ftl`] for the argument.
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod aged;
mod buffer;
mod busy;
mod counters;
mod direct;
mod disk;
mod drive;
mod error;
mod idle;
pub mod integrity;
mod mapped;
mod media;
mod owners;
pub mod profile;
mod refresh;
mod rewriting;
mod server;
mod slc;
mod sliced;
mod striped;
mod tagger;
pub mod thermal;
mod timing;
mod wear;
mod zoned;

pub use aged::{Aged, AgesAndLoss, Loss, ReadAttempts};
pub use busy::{BusyShare, BusyTimes};
pub use counters::Counters;
pub use direct::Direct;
pub use disk::HardDisk;
pub use drive::{Drive, UnitView};
pub use error::{DriveError, ZoneError};
pub use mapped::Mapped;
pub use media::{NandArray, Rewrite};
pub use owners::{ByCause, OwnerRun};
pub use profile::{Cut, Kind, Profile, ProfileError};
pub use refresh::{Refresh, RefreshLimits};
pub use rewriting::BlockMapped;
pub use sliced::{Sliced, Slices, UnitStatus};
pub use striped::{HostLimits, Striped};
pub use tagger::Tagger;
pub use wear::Endurance;
pub use zoned::{Zone, ZoneState, Zoned};
