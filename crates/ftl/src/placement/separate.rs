//! The two simplest policies.

use std::ops::Range;

use thermocline_types::Class;

use super::{Placement, Survivor, Write};

/// No separation: host writes and relocated blocks share one open unit. State: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nothing;

impl Placement for Nothing {
    fn classes(&self) -> u8 {
        1
    }

    fn relocation_classes(&self, _pool: u8) -> Range<u8> {
        0..1
    }

    #[inline]
    fn place(&mut self, _write: Write) -> Class {
        Class(0)
    }

    #[inline]
    fn place_survivor(&mut self, _survivor: Survivor, _now: u64) -> Class {
        Class(0)
    }
}

/// SepGC: host writes in one open unit, relocated blocks in another (Van Houdt, Performance Evaluation 2014).
/// State: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeparateRelocation;

impl Placement for SeparateRelocation {
    fn classes(&self) -> u8 {
        2
    }

    fn relocation_classes(&self, _pool: u8) -> Range<u8> {
        1..2
    }

    #[inline]
    fn place(&mut self, _write: Write) -> Class {
        Class(0)
    }

    #[inline]
    fn place_survivor(&mut self, _survivor: Survivor, _now: u64) -> Class {
        Class(1)
    }
}
