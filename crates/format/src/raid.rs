//! The labels of a group's members, the places of its units on them, and the log of partial rows.
//!
//! The engine does not know groups. `docs/use/GROUPS.md` describes the layout.

mod label;
mod log;
mod shape;

pub use label::RaidLabel;
pub use log::{RaidLog, RowEntry};
pub use shape::{RaidLevel, RaidShape, RaidShapeError, Span};

/// Most members of a group. Chosen, not measured.
pub const MAX_MEMBERS: usize = 16;

/// Bytes of each place of a label or of a log's head.
pub const RAID_PLACE_BYTES: usize = 4096;
