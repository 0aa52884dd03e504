//! The core every flash translation layer shares: map, units, victim selection, placement, relocation.
//!
//! A drive's firmware and a log-structured layer on the host do the same thing: append blocks to open *units* (zones,
//! superblocks, reclaim units), remember where each block lies, and, when space runs out, pick a *victim* unit, copy
//! its valid blocks elsewhere and erase it. [`Ftl`] is the common machine without time or geometry; the caller passes a
//! [`Media`] to act on.
//!
//! Invariants:
//! * Pure: no I/O, no clock, no randomness but the seed.
//! * At most one valid copy of a block exists, and the map points at it.
//! * No sequence of writes and trims below the exported capacity runs out of units; see [`Ftl`] for the argument.
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod frontiers;
mod ftl;
mod handle_accounts;
mod map;
mod packed;
pub mod placement;
mod reverse_map;
mod shape;
mod units;
pub mod victim;

pub use frontiers::{Frontiers, set_aside};
pub use ftl::{Erased, Ftl, Media, NoMedia, OutOfUnits};
pub use handle_accounts::{HandleAccount, HandleAccounts};
pub use map::Map;
pub use packed::Packed;
pub use reverse_map::ReverseMap;
pub use shape::{Shape, ShapeError};
pub use units::{UnitState, Units};
