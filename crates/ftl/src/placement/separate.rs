//! The two simplest policies.

use thermocline_types::Class;

use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// No separation: host writes and relocated blocks share one open unit. State: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nothing;

impl Classifier for Nothing {
    fn topology(&self) -> Topology {
        Topology::new(1, 0..1)
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

impl VictimRule for Nothing {}

/// SepGC: host writes in one open unit, relocated blocks in another (Van Houdt, Performance Evaluation 2014).
/// State: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeparateRelocation;

impl Classifier for SeparateRelocation {
    fn topology(&self) -> Topology {
        Topology::new(2, 1..2)
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

impl VictimRule for SeparateRelocation {}
