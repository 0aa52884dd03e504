//! What takes part: the policies that can be chosen by name, and oracles.

use std::fmt;
use std::str::FromStr;

use thermocline_ftl::Shape;
use thermocline_ftl::placement::{
    Clairvoyant, Classifier, Policy, Survivor, Topology, TrueRates, UnknownPolicy, VictimRule,
    Write,
};
use thermocline_types::Class;

use super::tape::Tape;

/// Classes of the policy that knows rates, an octave apart.
const RATE_CLASSES: u8 = 12;
/// Classes of the policy that knows the future and the least ratio between them; of those tried by us on Zipf 1.0, the
/// best.
const FUTURE_CLASSES: u8 = 16;
const FUTURE_RATIO: f64 = 1.7;

/// A policy that takes part.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidate {
    /// A policy that needs no knowledge of the future.
    Policy(Box<Policy>),
    /// Knows how often every block is written: `oracle-rates`. Rates come from the generator's law, else from a count
    /// in advance. A count also reveals part of the future.
    Rates,
    /// Knows when every block is written next: `oracle-future`.
    Future,
}

impl Candidate {
    /// Every policy that finds classes itself, and every oracle.
    #[must_use]
    pub fn all() -> Vec<Candidate> {
        let policies = Policy::list().into_iter().map(|(policy, _)| policy);
        let policies = policies.filter(|policy| !matches!(policy, Policy::Handles(_)));
        let policies = policies.map(|policy| Candidate::Policy(Box::new(policy)));
        policies.chain([Candidate::Rates, Candidate::Future]).collect()
    }

    /// The policy, unless it is an oracle.
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        match self {
            Candidate::Policy(policy) => Some(policy),
            Candidate::Rates | Candidate::Future => None,
        }
    }

    /// The oracle's knowledge of `tape`; `None` for a usable policy.
    pub(super) fn oracle(&self, tape: &Tape, shape: Shape) -> Option<Oracle> {
        match self {
            Candidate::Policy(_) => None,
            Candidate::Rates => Some(Oracle::Rates(known_rates(&tape.writes_per_block()))),
            Candidate::Future => {
                let written: Vec<u32> = tape.written().collect();
                Some(Oracle::Future(known_future(&written, shape)))
            }
        }
    }
}

/// The policy that knows how often every block is written.
pub(crate) fn known_rates(writes_per_block: &[u32]) -> TrueRates {
    TrueRates::new(writes_per_block, RATE_CLASSES)
}

/// The policy that knows when every block is written next on a drive of `shape`, if it is written in this order.
pub(crate) fn known_future(written: &[u32], shape: Shape) -> Clairvoyant {
    // The last class begins no later than when as much was written as the drive holds.
    let ratio = f64::from(shape.units()).powf(1.0 / f64::from(FUTURE_CLASSES - 1));
    let (ratio, unit) = (ratio.max(FUTURE_RATIO), shape.blocks_per_unit());
    Clairvoyant::new(written, shape.exported(), unit, FUTURE_CLASSES, ratio)
}

/// Either oracle.
pub(super) enum Oracle {
    Rates(TrueRates),
    Future(Clairvoyant),
}

impl VictimRule for Oracle {}

impl Classifier for Oracle {
    fn topology(&self) -> Topology {
        match self {
            Oracle::Rates(rates) => rates.topology(),
            Oracle::Future(future) => future.topology(),
        }
    }

    fn place(&mut self, write: Write) -> Class {
        match self {
            Oracle::Rates(rates) => rates.place(write),
            Oracle::Future(future) => future.place(write),
        }
    }

    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class {
        match self {
            Oracle::Rates(rates) => rates.place_survivor(survivor, now),
            Oracle::Future(future) => future.place_survivor(survivor, now),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Oracle::Rates(rates) => rates.memory_bytes(),
            Oracle::Future(future) => future.memory_bytes(),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Candidate::Policy(policy) => policy.fmt(f),
            Candidate::Rates => f.write_str("oracle-rates"),
            Candidate::Future => f.write_str("oracle-future"),
        }
    }
}

/// Why a text names neither a policy nor an oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCandidate(UnknownPolicy);

impl fmt::Display for UnknownCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, oracle-rates and oracle-future", self.0)
    }
}

impl std::error::Error for UnknownCandidate {}

impl FromStr for Candidate {
    type Err = UnknownCandidate;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oracle-rates" => Ok(Candidate::Rates),
            "oracle-future" => Ok(Candidate::Future),
            _ => text
                .parse()
                .map(|policy| Candidate::Policy(Box::new(policy)))
                .map_err(UnknownCandidate),
        }
    }
}
