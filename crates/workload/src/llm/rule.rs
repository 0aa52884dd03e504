//! Which blocks are written to flash, and when.

use std::fmt;
use std::str::FromStr;

/// An admission rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Admission {
    /// At every miss.
    All,
    /// At the first use ever; a block that flash dropped is not written again.
    First,
    /// From the second use on.
    Second,
    /// When DRAM evicts the block.
    Evicted,
    /// When DRAM evicts the block, if it was used twice.
    EvictedTwice,
    /// When the count of uses, halved after so many times the blocks of the flash tier, reaches 1.5.
    Frequency(f64),
    /// At a use that came later than DRAM keeps a block, and not later than flash keeps it.
    Distance,
    /// At every miss, while the writes fill the flash tier at most so many times a day.
    Budget(f64),
    /// At the second use; DRAM holds only blocks that are not on flash, and no partial ones. Of blocks that DRAM evicts
    /// after one use, this share is written too.
    #[default]
    Probation,
    /// [`Admission::Probation`] with a share of its own.
    ProbationWith(f64),
}

/// Share of blocks written by [`Admission::Probation`] when DRAM evicts them after one use. Chosen on the first half of
/// the Mooncake trace, with 5 % of DRAM and 20 % of flash: writes are at most 30 % of those of [`Admission::All`].
pub(super) const PROBATION_SHARE: f64 = 0.1;

/// Rules without parameter.
const PLAIN: [(&str, Admission); 8] = [
    ("all", Admission::All),
    ("first", Admission::First),
    ("second", Admission::Second),
    ("evicted", Admission::Evicted),
    ("evicted-twice", Admission::EvictedTwice),
    ("frequency", Admission::Frequency(1.0)),
    ("distance", Admission::Distance),
    ("probation", Admission::Probation),
];

/// A text that names no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {}, frequency:FILLS, budget:FILLS_PER_DAY or probation:SHARE", names())]
pub struct UnknownAdmission;

fn names() -> String {
    PLAIN.map(|(name, _)| name).join(", ")
}

impl FromStr for Admission {
    type Err = UnknownAdmission;

    fn from_str(text: &str) -> Result<Admission, UnknownAdmission> {
        let Some((name, value)) = text.split_once(':') else {
            let found = PLAIN.iter().find(|(name, _)| *name == text);
            return found.map(|(_, rule)| *rule).ok_or(UnknownAdmission);
        };
        let value: f64 = value.parse().map_err(|_| UnknownAdmission)?;
        match name {
            "frequency" if value > 0.0 && value.is_finite() => Ok(Admission::Frequency(value)),
            "budget" if value > 0.0 && value.is_finite() => Ok(Admission::Budget(value)),
            "probation" if (0.0..=1.0).contains(&value) => Ok(Admission::ProbationWith(value)),
            _ => Err(UnknownAdmission),
        }
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = PLAIN.iter().find(|(_, plain)| plain == self);
        match self {
            Admission::Budget(fills) => write!(f, "budget:{fills}"),
            Admission::ProbationWith(share) => write!(f, "probation:{share}"),
            Admission::Frequency(fills) if plain.is_none() => write!(f, "frequency:{fills}"),
            _ => f.write_str(plain.map_or("", |(name, _)| name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_back_and_wrong_ones_are_answered_with_all() {
        let others = ["frequency:0.5", "budget:40", "probation:0.2"];
        for text in PLAIN.iter().map(|(name, _)| *name).chain(others) {
            assert_eq!(text.parse::<Admission>().unwrap().to_string(), text);
        }
        for wrong in ["some", "second:2", "probation:1.5", "budget:0", "frequency:x"] {
            let error = wrong.parse::<Admission>().unwrap_err().to_string();
            assert!(error.contains("all, first, second, evicted"), "{error}");
        }
    }
}
