//! The policies that can be chosen by name at run time.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thermocline_types::{Class, UnitId};

use crate::Units;

use super::{LsmZgc, Nothing, Placement, SeparateRelocation, Survivor, Write};

/// A placement policy chosen at run time.
///
/// A further policy needs a variant here, an arm in `each`, a name in `Display` and `FromStr`, and a line in
/// [`Policy::list`], from which tests and messages take it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Policy {
    /// No separation.
    Nothing(Nothing),
    /// Host writes apart from relocated blocks.
    SeparateRelocation(SeparateRelocation),
    /// Levels by survival, with hot apart from cold.
    LsmZgc(LsmZgc),
}

/// Evaluates `$call` with `$policy` bound to whichever policy `$self` is.
macro_rules! each {
    ($self:expr, $policy:ident => $call:expr) => {
        match $self {
            Policy::Nothing($policy) => $call,
            Policy::SeparateRelocation($policy) => $call,
            Policy::LsmZgc($policy) => $call,
        }
    };
}

impl Policy {
    /// Every named policy with a line about it, for listings.
    #[must_use]
    pub fn list() -> Vec<(Policy, &'static str)> {
        vec![
            (Policy::Nothing(Nothing), "no separation: host writes and survivors share a unit"),
            (Policy::SeparateRelocation(SeparateRelocation), "host writes apart from survivors"),
            (
                Policy::LsmZgc(LsmZgc::default()),
                "levels by survival, cold if the unit was fuller than a share: lsm-zgc:0.8",
            ),
        ]
    }
}

impl Placement for Policy {
    fn classes(&self) -> u8 {
        each!(self, policy => policy.classes())
    }

    fn relocation_classes(&self, pool: u8) -> Range<u8> {
        each!(self, policy => policy.relocation_classes(pool))
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        each!(self, policy => policy.place(write))
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, now: u64) -> Class {
        each!(self, policy => policy.place_survivor(survivor, now))
    }

    #[inline]
    fn opened(&mut self, unit: UnitId, class: Class, now: u64) {
        each!(self, policy => policy.opened(unit, class, now));
    }

    #[inline]
    fn collected(&mut self, units: &Units, unit: UnitId, now: u64) {
        each!(self, policy => policy.collected(units, unit, now));
    }

    fn victim(&mut self, units: &Units, range: Range<u32>, now: u64) -> Option<UnitId> {
        each!(self, policy => policy.victim(units, range, now))
    }

    fn memory_bytes(&self) -> usize {
        each!(self, policy => policy.memory_bytes())
    }

    fn pools(&self) -> u8 {
        each!(self, policy => policy.pools())
    }

    #[inline]
    fn pool(&self, class: Class) -> u8 {
        each!(self, policy => policy.pool(class))
    }

    fn redirect(&self, class: Class, pool: u8) -> Class {
        each!(self, policy => policy.redirect(class, pool))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Nothing(_) => write!(f, "none"),
            Policy::SeparateRelocation(_) => write!(f, "sepgc"),
            Policy::LsmZgc(policy) => write!(f, "lsm-zgc:{}", policy.threshold()),
        }
    }
}

/// Why a text names no placement policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> =
            Policy::list().iter().map(|(policy, _)| policy.to_string()).collect();
        write!(f, "`{}` is no placement policy; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, parameter) =
            text.split_once(':').map_or((text, None), |(name, parameter)| (name, Some(parameter)));
        match (name, parameter) {
            ("none", None) => Some(Policy::Nothing(Nothing)),
            ("sepgc", None) => Some(Policy::SeparateRelocation(SeparateRelocation)),
            ("lsm-zgc", None) => Some(Policy::LsmZgc(LsmZgc::default())),
            ("lsm-zgc", Some(threshold)) => threshold
                .parse()
                .ok()
                .filter(|threshold| (0.0..=1.0).contains(threshold))
                .map(|threshold| Policy::LsmZgc(LsmZgc::new(threshold))),
            _ => None,
        }
        .ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_are_listed() {
        for (policy, _) in Policy::list() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("lsm-zgc".parse(), "lsm-zgc:0.8".parse::<Policy>());
        assert_eq!("lsm-zgc:0.65".parse(), Ok(Policy::LsmZgc(LsmZgc::new(0.65))));
        let error = "sepgcc".parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains("`sepgcc`") && error.contains("none, sepgc, "), "{error}");
        for text in ["", "sepgc:1", "none:", "lsm-zgc:", "lsm-zgc:1.5", "lsm-zgc:NaN", "lsm-zgc:-1"]
        {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_chosen_policy_places_as_the_policy_itself() {
        let write = Write::plain(Lba(1), 0);
        let survivor = Survivor { lba: Lba(1), from: Class(0), utilisation: 0.9 };
        for (name, classes, relocated, to) in [
            ("none", 1, 0..1, 0),
            ("sepgc", 2, 1..2, 1),
            ("lsm-zgc", 4, 1..4, 2),
            ("lsm-zgc:0.95", 4, 1..4, 1),
        ] {
            let mut policy: Policy = name.parse().unwrap();
            assert_eq!(policy.classes(), classes, "{name}");
            assert_eq!(policy.relocation_classes(0), relocated, "{name}");
            assert_eq!(policy.place(write), Class(0), "{name}");
            assert_eq!(policy.place_survivor(survivor, 0), Class(to), "{name}");
        }
    }
}
