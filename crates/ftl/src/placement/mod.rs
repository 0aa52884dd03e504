//! Placement: which class, and so which open unit, a block is written to.

mod handles;
mod oracle;
mod separate;

use std::ops::Range;

use thermocline_types::{Class, Lba};

pub use handles::{Handles, Isolation};
pub use oracle::{Clairvoyant, TrueRates};
pub use separate::{Nothing, SeparateRelocation};

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

    /// The class of a valid block being copied out of a unit of class `from`.
    fn place_relocated(&mut self, lba: Lba, from: Class, now: u64) -> Class;

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
