//! Serves the volumes of a pool: as network block devices, files and disks of virtual machines, with status, metrics
//! and changes over HTTP.
//!
//! [`PoolServer::open`] opens the pool of a settings file and serves it; [`PoolServer::run`] serves until a
//! [`StopHandle`] asks for the end, then closes the pool in order. [`Serving`] is the client of a server.
//!
//! Invariants:
//! * Errors and [`News`] hold facts. An [`Operator`] has the words for users, with the commands of its own program.
//! * No signal is handled here, and no standard stream is written to.

mod backend;
mod client;
mod control;
mod date;
mod devices;
mod drive;
mod error;
mod files;
mod front_ends;
mod fullness;
mod guests;
mod health;
mod http;
mod log;
pub mod lost;
mod metrics;
mod news;
mod nvme;
pub mod open_files;
mod real;
mod scrubs;
mod server;
pub mod sockets;
mod state;
mod stop;
mod stored;
mod superblock;
mod systemd;
mod tap;
mod totals;
mod ublk;
mod units;
mod wear;

pub use client::{
    Serving, fetch, fetch_remote, fetch_scrub, fetch_superblock, fetch_units, status_socket,
};
pub use control::{LimitChange, Subject};
pub use date::date;
pub use devices::{
    ChangeName, DeviceRequest, DrainStatus, GroupStanding, GroupsTold, MemberTold, MirrorStatus,
    RaidStatus, draining, ensure_member, refuse_to_destroy,
};
pub use error::Error;
pub use fullness::FullnessReport;
pub use news::{News, Operator};
pub use real::RealDriveStatus;
pub use scrubs::{DamagedBytes, DamagedPlace, ScrubPage, ScrubReport, ended};
pub use server::{Build, Options, PoolServer};
pub use state::MediaStatus;
pub use stop::{Stop, StopHandle};
pub use superblock::SuperblockReport;
pub use thermocline_runtime::{ServeSettings, Settings};
pub use totals::TotalsReport;
pub use units::{DeviceUnits, UnitsReport, letter};
pub use wear::WearReport;
