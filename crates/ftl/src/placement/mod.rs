//! Placement: which class, and so which open unit, a block is written to.
//!
//! A policy is one file with a type that implements [`Placement`]. One that can be chosen by name at run time is also a
//! variant of [`Policy`].

mod handles;
mod lsm_zgc;
mod oracle;
mod policy;
mod separate;

use std::ops::Range;

use thermocline_types::{Class, Lba};

pub use handles::{Handles, Isolation};
pub use lsm_zgc::LsmZgc;
pub use oracle::{Clairvoyant, TrueRates};
pub use policy::{Policy, UnknownPolicy};
pub use separate::{Nothing, SeparateRelocation};

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
pub trait Placement {
    /// How many classes there are; each has one open unit.
    fn classes(&self) -> u8;

    /// The classes that relocated blocks can go to, in pool `pool`.
    fn relocation_classes(&self, pool: u8) -> Range<u8>;

    /// The class of a block the host writes. `handle` is the placement handle that came with the write, 0 if none.
    fn place(&mut self, lba: Lba, handle: u16, now: u64) -> Class;

    /// The class that a valid block is copied to.
    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class;

    /// How many pools (reclaim groups) units are divided into; data never leaves its pool.
    fn pools(&self) -> u8 {
        1
    }

    /// The pool that `class` belongs to.
    fn pool(&self, _class: Class) -> u8 {
        0
    }

    /// The class of pool `pool` that takes a write meant for `class` of a pool that is full.
    fn redirect(&self, class: Class, _pool: u8) -> Class {
        class
    }
}
