//! Failed reads that are tried again or served by other versions, and places that are rewritten because another version
//! is valid.
//!
//! Invariants:
//! * A version is valid only by the engine's own check.
//! * During an opening no place is healed: heals are kept until the opening ends.

use rustc_hash::FxHashMap;
use thermocline_format::{Geometry, Location};
use thermocline_types::{UnitId, Version};

use crate::device::{Heal, ReadChunks};

/// A read of a place of a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    /// Blocks of users.
    Blocks { at: Location },
    /// A page of a map or of the unit table.
    Page { at: Location },
    /// Chunks of a unit.
    Chunks(ReadChunks),
}

impl Read {
    /// The unit.
    pub(crate) fn unit(&self) -> UnitId {
        match self {
            Read::Blocks { at } | Read::Page { at } => at.unit,
            Read::Chunks(request) => request.at.unit,
        }
    }

    /// Where block `index` of it is.
    pub(crate) fn place(&self, index: u32, geometry: &Geometry) -> Location {
        match self {
            Read::Blocks { at } => {
                Location { block: at.block + index * geometry.logical_block().per_block(), ..*at }
            }
            Read::Page { at } => *at,
            Read::Chunks(request) => request.at,
        }
    }
}

/// Reads answered by other members, and places to heal that an opening found.
#[derive(Debug, Default)]
pub(crate) struct Healing {
    /// By command number, the version that answered in place of the version asked for.
    degraded: FxHashMap<usize, Version>,
    found: Vec<Heal>,
    /// Heals in flight.
    under_way: u32,
}

impl Healing {
    /// A member reported an error: `version` answered read `op`.
    pub(crate) fn degraded(&mut self, op: usize, version: Version) {
        self.degraded.insert(op, version);
    }

    /// The version that answered read `op`, if another version was asked for.
    pub(crate) fn take_degraded(&mut self, op: usize) -> Option<Version> {
        if self.degraded.is_empty() { None } else { self.degraded.remove(&op) }
    }

    /// Keeps a place until the opening ends.
    pub(crate) fn keep(&mut self, heal: Heal) {
        if !self.found.contains(&heal) {
            self.found.push(heal);
        }
    }

    /// A heal is asked for.
    pub(crate) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// A heal is over.
    pub(crate) fn end(&mut self) {
        self.under_way -= 1;
    }

    /// Whether a heal that was asked for is not over.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// The places that were kept.
    pub(crate) fn take(&mut self) -> Vec<Heal> {
        std::mem::take(&mut self.found)
    }
}
