//! Victim selection: which closed unit garbage collection cleans next.
//!
//! Every policy is a pure function of a read-only view of the units, the host-write clock and, for the randomised
//! ones, a seeded generator. `u` is the valid share of a unit, *age* the host blocks written since it was closed.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thermocline_types::{Rng, Setting, UnitId};

use crate::{UnitState, Units};

/// Which closed unit is cleaned next.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Victim {
    /// The fewest valid blocks.
    Greedy,
    /// The best ratio of space gained to copying cost, weighed by age.
    CostBenefit(CostBenefit),
    /// Greedy among the given share of closed units, oldest first (Hu et al., SYSTOR 2009, "windowed greedy";
    /// SepBIT's simulator uses a share of 0.9).
    Windowed {
        /// Share of the closed units considered, in (0, 1].
        share: f64,
    },
    /// Greedy among `d` closed units drawn at random (Van Houdt, SIGMETRICS 2013, "d-choices"); 1 is random.
    Choices {
        /// How many are drawn.
        d: u32,
    },
    /// The unit closed longest ago.
    Fifo,
    /// The greatest `(1 − u)² · (now − t)`, where `t` is when the unit's blocks were updated the last time but one, on
    /// average: the least decline of the cost of cleaning it later (Luo and Lomet, "Efficiently Reclaiming Space in a
    /// Log Structured Store", ICDE 2021, with blocks of equal size). Units whose layer does not track `t` go by when
    /// they were closed.
    DecliningCost,
    /// The rule that the placement policy was published with, or cost-benefit with square-root age if it was published
    /// with none or the layer cannot ask it.
    Own,
}

/// Published forms of the cost-benefit score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostBenefit {
    /// `(1 − u) · age / (1 + u)`: Rosenblum and Ousterhout, SOSP 1991 (LFS).
    Lfs,
    /// `(1 − u) · age / 2u`: Kawaguchi, Nishioka and Motoda, USENIX 1995 (read and write cost `2u`).
    Kawaguchi,
    /// `(1 − u) / u · √age`: as in the simulators of SepBIT (FAST 2022) and MiDAS (FAST 2024).
    SquareRootAge,
    /// `(1 − u) / u · ∜age`: between greedy and square-root age; chosen, not published.
    FourthRootAge,
}

impl Victim {
    /// Chooses among the closed units of `range`; `None` without a closed unit. `now` counts host blocks written.
    #[must_use]
    pub fn choose(
        &self,
        units: &Units,
        range: Range<u32>,
        now: u64,
        rng: &mut Rng,
    ) -> Option<UnitId> {
        match self {
            Victim::Greedy => units.emptiest_closed(range),
            _ => self.choose_where(units, range, now, rng, |_| true),
        }
    }

    /// Chooses among the closed units of `range` that are `allowed`, as if there were no others.
    #[must_use]
    pub fn choose_where(
        &self,
        units: &Units,
        range: Range<u32>,
        now: u64,
        rng: &mut Rng,
        allowed: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        match *self {
            Victim::Greedy => units.best_closed(range, allowed, |valid, _| -f64::from(valid)),
            Victim::Own => Victim::CostBenefit(CostBenefit::SquareRootAge)
                .choose_where(units, range, now, rng, allowed),
            Victim::CostBenefit(form) => {
                let blocks = f64::from(units.most_valid());
                units.best_closed(range, allowed, |valid, closed_at| {
                    form.score(f64::from(valid) / blocks, now.saturating_sub(closed_at) as f64)
                })
            }
            Victim::DecliningCost => declining_cost(units, range, now, allowed),
            Victim::Windowed { share } => windowed(units, range, share, allowed),
            Victim::Choices { d } => choices(units, range, d, rng, allowed),
            Victim::Fifo => units.best_closed(range, allowed, |_, closed_at| -(closed_at as f64)),
        }
    }

    /// Every named policy with a line about it, for listings.
    #[must_use]
    pub fn list() -> Vec<(Victim, &'static str)> {
        vec![
            (Victim::Greedy, "fewest valid blocks"),
            (
                Victim::CostBenefit(CostBenefit::SquareRootAge),
                "(1-u)/u * sqrt(age), as SepBIT and MiDAS",
            ),
            (Victim::CostBenefit(CostBenefit::FourthRootAge), "(1-u)/u * age^(1/4)"),
            (Victim::CostBenefit(CostBenefit::Kawaguchi), "(1-u)/2u * age, Kawaguchi 1995"),
            (Victim::CostBenefit(CostBenefit::Lfs), "(1-u)/(1+u) * age, LFS 1991"),
            (
                Victim::Windowed { share: 0.9 },
                "greedy among the oldest share of units: windowed:0.9",
            ),
            (Victim::Choices { d: 10 }, "greedy among d random units: choices:10"),
            (Victim::Choices { d: 1 }, "any closed unit"),
            (Victim::Fifo, "the unit closed longest ago"),
            (Victim::DecliningCost, "(1-u)^2 * time since the last update but one, MDC 2021"),
            (Victim::Own, "the rule published with the placement policy, cost-benefit if none"),
        ]
    }
}

impl CostBenefit {
    /// The score of a unit with valid share `u` closed `age` host writes ago; higher is cleaned first. A unit without
    /// valid blocks scores infinite where the form divides by `u`.
    #[must_use]
    pub fn score(self, u: f64, age: f64) -> f64 {
        let age = age + 1.0;
        match self {
            CostBenefit::Lfs => (1.0 - u) * age / (1.0 + u),
            CostBenefit::Kawaguchi => (1.0 - u) * age / (2.0 * u),
            CostBenefit::SquareRootAge => (1.0 - u) / u * age.sqrt(),
            CostBenefit::FourthRootAge => (1.0 - u) / u * age.sqrt().sqrt(),
        }
    }
}

fn declining_cost(
    units: &Units,
    range: Range<u32>,
    now: u64,
    allowed: impl Fn(UnitId) -> bool,
) -> Option<UnitId> {
    let score = |unit: UnitId| {
        let invalid = f64::from(units.most_valid().saturating_sub(units.valid_count(unit)));
        invalid * invalid * (now.saturating_sub(units.mean_update(unit)) + 1) as f64
    };
    let closed = range.map(UnitId).filter(|&unit| units.state(unit) == UnitState::Closed);
    let scored = closed.filter(|&unit| allowed(unit)).map(|unit| (score(unit), unit));
    // Of equals the first.
    scored.reduce(|best, one| if one.0 > best.0 { one } else { best }).map(|(_, unit)| unit)
}

fn windowed(
    units: &Units,
    range: Range<u32>,
    share: f64,
    allowed: impl Fn(UnitId) -> bool,
) -> Option<UnitId> {
    let mut by_age: Vec<(u64, UnitId)> = range
        .map(UnitId)
        .filter(|&unit| units.state(unit) == UnitState::Closed && allowed(unit))
        .map(|unit| (units.closed_at(unit), unit))
        .collect();
    let window = ((by_age.len() as f64 * share).ceil() as usize).clamp(1, by_age.len().max(1));
    if window < by_age.len() {
        by_age.select_nth_unstable(window - 1);
        by_age.truncate(window);
    }
    by_age.into_iter().map(|(_, unit)| unit).min_by_key(|&unit| (units.valid_count(unit), unit))
}

/// Draws among all units of the range and redraws what cannot be chosen; falls back to a scan when what can is rare.
fn choices(
    units: &Units,
    range: Range<u32>,
    d: u32,
    rng: &mut Rng,
    allowed: impl Fn(UnitId) -> bool,
) -> Option<UnitId> {
    let span = u64::from(range.end - range.start);
    let eligible = |unit: UnitId| units.state(unit) == UnitState::Closed && allowed(unit);
    let mut draw = || {
        (0..64).map(|_| UnitId(range.start + rng.below(span) as u32)).find(|&unit| eligible(unit))
    };
    (0..d)
        .filter_map(|_| draw())
        .min_by_key(|&unit| units.valid_count(unit))
        .or_else(|| range.map(UnitId).find(|&unit| eligible(unit)))
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Victim::Greedy => write!(f, "greedy"),
            Victim::CostBenefit(CostBenefit::Lfs) => write!(f, "lfs"),
            Victim::CostBenefit(CostBenefit::Kawaguchi) => write!(f, "kawaguchi"),
            Victim::CostBenefit(CostBenefit::SquareRootAge) => write!(f, "cost-benefit"),
            Victim::CostBenefit(CostBenefit::FourthRootAge) => write!(f, "cost-benefit-4"),
            Victim::Windowed { share } => write!(f, "windowed:{share}"),
            Victim::Choices { d: 1 } => write!(f, "random"),
            Victim::Choices { d } => write!(f, "choices:{d}"),
            Victim::Fifo => write!(f, "fifo"),
            Victim::DecliningCost => write!(f, "declining-cost"),
            Victim::Own => write!(f, "own"),
        }
    }
}

/// Why a text names no victim policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVictim(String);

impl fmt::Display for UnknownVictim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Victim::list();
        let names = names.iter().map(|(victim, _)| victim);
        write!(
            f,
            "`{}` is no victim policy; {}",
            self.0,
            thermocline_types::choices(&self.0, names)
        )
    }
}

impl std::error::Error for UnknownVictim {}

impl FromStr for Victim {
    type Err = UnknownVictim;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || UnknownVictim(text.to_owned());
        let (name, parameter) = text.split_once(':').unwrap_or((text, ""));
        match (name, parameter) {
            ("greedy", "") => Ok(Victim::Greedy),
            ("lfs", "") => Ok(Victim::CostBenefit(CostBenefit::Lfs)),
            ("kawaguchi", "") => Ok(Victim::CostBenefit(CostBenefit::Kawaguchi)),
            ("cost-benefit", "") => Ok(Victim::CostBenefit(CostBenefit::SquareRootAge)),
            ("cost-benefit-4", "") => Ok(Victim::CostBenefit(CostBenefit::FourthRootAge)),
            ("fifo", "") => Ok(Victim::Fifo),
            ("declining-cost", "") => Ok(Victim::DecliningCost),
            ("own", "") => Ok(Victim::Own),
            ("random", "") => Ok(Victim::Choices { d: 1 }),
            ("windowed", share) => match share.parse() {
                Ok(share) if share > 0.0 && share <= 1.0 => Ok(Victim::Windowed { share }),
                _ => Err(refuse()),
            },
            ("choices", d) => match d.parse() {
                Ok(d) if (1..=1024).contains(&d) => Ok(Victim::Choices { d }),
                _ => Err(refuse()),
            },
            _ => Err(refuse()),
        }
    }
}

impl Setting for Victim {
    fn read(text: &str) -> Result<Victim, String> {
        text.parse().map_err(|error: UnknownVictim| error.to_string())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests;
