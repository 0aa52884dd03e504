//! Placement: which class, and so which open unit, a block is written to.
//!
//! A policy is one file with a type that implements [`Classifier`] and [`VictimRule`]. One that can be chosen by name
//! at run time is also a row of the table in `policy.rs`.

mod auto;
mod auto_stream;
mod dac;
mod eti;
mod fadac;
mod handles;
mod lsm_zgc;
mod mida;
mod midas;
mod multilog;
mod oracle;
mod per_block;
mod policy;
mod separate;
mod sepbit;
mod sfs;
mod topology;
mod warcip;

use std::ops::Range;

use thermocline_types::{Class, Lba, UnitId};

use crate::Units;

pub use auto::Auto;
pub use auto_stream::{MultiQueue, Sfr};
pub use dac::Dac;
pub use eti::Eti;
pub use fadac::Fadac;
pub use handles::{Handles, Isolation};
pub use lsm_zgc::LsmZgc;
pub use mida::Mida;
pub use midas::Midas;
pub use multilog::MultiLog;
pub use oracle::{Clairvoyant, TrueRates};
pub use policy::{Policy, UnknownPolicy};
pub use separate::{Nothing, SeparateRelocation};
pub use sepbit::SepBit;
pub use sfs::Sfs;
pub use topology::Topology;
pub use warcip::Warcip;

/// Where in its request a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Blocks of the request before the block.
    pub offset: u32,
    /// Blocks of the request, at least 1.
    pub length: u32,
}

impl Part {
    /// A request of a single block, or of unknown bounds.
    pub const WHOLE: Part = Part { offset: 0, length: 1 };
}

/// The layer below the units of the placement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Below {
    /// Media that keep units apart: their own units, zones, or streams and placement handles enough for all classes.
    #[default]
    Apart,
    /// A drive that appends all writes to its own units, whatever the unit above, and collects its own garbage. Data
    /// written together with different lifetimes is copied: classes cost copies in the drive and save copies above.
    Mixed {
        /// Overprovisioning of the drive: (media − exported) / exported.
        spare: f32,
        /// The length of its units in units above.
        units: f32,
    },
}

/// A block that the host writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Which block it is.
    pub lba: Lba,
    /// The placement handle that came with the write, 0 if none.
    pub handle: u16,
    /// Host blocks written before it.
    pub now: u64,
    /// Position of the block in the request.
    pub part: Part,
    /// The unit with the old copy, which the write makes invalid; `None` without an old copy, or if the layer does not
    /// know the unit.
    pub old: Option<UnitId>,
}

impl Write {
    /// A request of one block without a handle, to where nothing is known to lie.
    #[must_use]
    pub const fn plain(lba: Lba, now: u64) -> Write {
        Write { lba, handle: 0, now, part: Part::WHOLE, old: None }
    }
}

/// A valid block that is copied out of a victim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Survivor {
    /// Which block it is.
    pub lba: Lba,
    /// The class of the victim.
    pub from: Class,
    /// The share of valid blocks, in (0, 1], in the segment that the block comes from: the victim, or the part of it
    /// that the layer counts valid blocks by.
    pub utilisation: f32,
}

/// Chooses the class of every block written.
///
/// Deterministic: equal calls in equal order give equal classes. `now` counts host blocks written.
pub trait Classifier {
    /// The classes that there are.
    fn topology(&self) -> Topology;

    /// The layer exports `blocks` and has `units` of `blocks_per_unit` on what is `below`; called once before all else.
    fn begin(&mut self, _blocks: u64, _units: u32, _blocks_per_unit: u32, _below: Below) {}

    /// The class of a block the host writes.
    fn place(&mut self, write: Write) -> Class;

    /// The class that a valid block is copied to.
    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class;

    /// Brings what is remembered of `lba` into the cache ahead of a write of the host. Changes nothing.
    #[inline]
    fn prefetch(&self, _lba: Lba) {}

    /// The same ahead of a copy.
    #[inline]
    fn prefetch_survivor(&self, lba: Lba) {
        self.prefetch(lba);
    }

    /// `unit` is open now for blocks of its class; the unit that was open for them before is closed.
    fn opened(&mut self, _units: &Units, _unit: UnitId, _now: u64) {}

    /// A block now lies in `unit`, where a write or a copy put it.
    fn stored(&mut self, _lba: Lba, _unit: UnitId, _now: u64) {}

    /// The closed `unit` is a victim: valid blocks are copied next, then the unit is erased.
    fn collected(&mut self, _units: &Units, _unit: UnitId, _now: u64) {}

    /// The stream, of `streams`, that a host write of `class` carries to a drive which does the rest. A drive keeps
    /// what survives in its stream, so that unlike a class a stream must always mean the same. Classes beyond the last
    /// share it.
    #[inline]
    fn stream(&self, class: Class, streams: u8) -> u8 {
        class.0.min(streams.saturating_sub(1))
    }

    /// Whether classes mean something else than when this was asked last: the layer closes what is open.
    fn renamed(&mut self) -> bool {
        false
    }

    /// Bytes of memory held by what the policy remembers.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// Chooses what is cleaned next, for policies that were published with a rule of their own. The others have
/// [`Victim`](crate::victim::Victim).
pub trait VictimRule {
    /// Whether the policy has such a rule.
    fn has_rule(&self) -> bool {
        false
    }

    /// The closed unit of `range` that is cleaned next, of those that are `allowed`; `None` without a rule, or if no
    /// unit qualifies. Asked only where [`Victim::Own`](crate::victim::Victim::Own) is chosen. `now` counts host blocks
    /// written.
    fn victim(
        &mut self,
        _units: &Units,
        _range: Range<u32>,
        _now: u64,
        _allowed: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        None
    }
}

/// A placement policy: how blocks are classified, and what is cleaned next.
pub trait Placement: Classifier + VictimRule {}

impl<P: Classifier + VictimRule> Placement for P {}
