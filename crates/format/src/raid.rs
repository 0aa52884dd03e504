//! What a member of a group says of all of them, where a unit of the group is on them, and the log of rows that
//! are not full yet.
//!
//! The engine knows nothing of it. `docs/GROUPS.md` says what stands where.

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
