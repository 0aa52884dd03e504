//! The rules: classes and victims as pure functions of a block's history and a unit's state.

use super::super::Below;
use super::history::{NO_GAP, Past, Seen, TICKS, gap_ticks};

/// How blocks are placed, and which unit is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Host writes by octave of the last rewrite interval, survivors by octave of the estimated rest of their life;
    /// victims by measured death rate. For what is rewritten in passes: databases, logs, file systems.
    Recency,
    /// By octave of a long-term rewrite rate; victims by age. For stationary skew.
    SlowRate,
    /// The same with a short memory. For skew that drifts.
    FastRate,
    /// All in one; greedy. For no structure at all.
    Single,
    /// Survivors apart from host writes; greedy. Where only it tells that a block was copied before.
    Apart,
}

/// Rewrites a block starts with, at the mean rate of one per capacity.
const PRIOR: f32 = 0.3;
/// Octaves of the last interval for host writes; the last is a capacity and more, and no interval.
const HOST_OCTAVES: u8 = 6;
/// Octaves of the estimated rest of life for survivors; the last is a capacity and more.
const SURVIVOR_OCTAVES: u8 = 3;
/// Octaves of rates above the mean, and classes in all. At a million blocks hot classes are cheap: 12, 14 and 16 gave
/// 1.752, 1.719 and 1.712 on Zipf 1.0.
const SLOW_ABOVE: i32 = 9;
const SLOW_CLASSES: u8 = 16;
const FAST_ABOVE: i32 = 7;
const FAST_CLASSES: u8 = 14;

/// Classes of the rule that has the most.
pub(super) const CLASSES: u8 = SLOW_CLASSES;

impl Rule {
    /// All of them.
    pub(super) const ALL: [Rule; 5] =
        [Rule::Recency, Rule::SlowRate, Rule::FastRate, Rule::Single, Rule::Apart];

    /// The rule to begin with. Data mixed by a drive below is copied for long.
    pub(super) fn first(below: Below) -> Rule {
        match below {
            Below::Apart => Rule::Recency,
            Below::Mixed { .. } => Rule::Single,
        }
    }

    /// The class of a block the host writes, from its history with this write and what counts have seen.
    #[inline]
    pub(super) fn host(self, past: Past, seen: Seen) -> u8 {
        match self {
            Rule::Recency if past.gap == NO_GAP => HOST_OCTAVES - 1,
            Rule::Recency => octave_below_capacity((past.gap / 2) as i32, HOST_OCTAVES),
            Rule::SlowRate => by_rate(SLOW_ABOVE, SLOW_CLASSES, past.slow, seen.slow),
            Rule::FastRate => by_rate(FAST_ABOVE, FAST_CLASSES, past.fast, seen.fast),
            Rule::Single | Rule::Apart => 0,
        }
    }

    /// How long host writes of `class` are expected to live, in whole octaves above a capacity. Among blocks that the
    /// rule does not distinguish, a drive keeps the long-lived blocks.
    pub(super) fn octave(self, class: u8) -> i32 {
        match self {
            Rule::Recency => i32::from(class) - i32::from(HOST_OCTAVES - 1),
            Rule::SlowRate => i32::from(class) - SLOW_ABOVE,
            Rule::FastRate => i32::from(class) - FAST_ABOVE,
            Rule::Single | Rule::Apart => 0,
        }
    }

    /// The class of a block that is copied; `past` is called only if the rule needs the past.
    #[inline]
    pub(super) fn survivor(self, past: impl FnOnce() -> Past, seen: Seen) -> u8 {
        match self {
            Rule::Single => 0,
            Rule::Apart => 1,
            Rule::Recency => {
                HOST_OCTAVES + octave_below_capacity(floor_log2(rest(past())), SURVIVOR_OCTAVES)
            }
            Rule::SlowRate | Rule::FastRate => self.host(past(), seen),
        }
    }

    /// Whether blocks are all the same to it: the emptiest unit is cleaned first, and no history is asked for.
    pub(super) fn is_greedy(self) -> bool {
        matches!(self, Rule::Single | Rule::Apart)
    }

    /// The unit with the highest score is cleaned first: `u` is its valid share, `age` host blocks written since it was
    /// closed. [`Rule::Recency`] also goes by its *patience*, which falls with the death rate of its blocks.
    pub(super) fn score(self, u: f32, age: f32) -> f32 {
        let free = 1.0 - u;
        match self {
            Rule::Recency => free * free / u,
            Rule::SlowRate | Rule::FastRate => free / u * (age + 1.0),
            Rule::Single | Rule::Apart => free,
        }
    }
}

/// Ticks that a block is expected to live on. A periodic block is expected at its interval; later, the only evidence is
/// the block's age.
fn rest(past: Past) -> f32 {
    let gap = if past.gap == NO_GAP { 16.0 * TICKS as f32 } else { gap_ticks(past.gap) };
    let age = past.age as f32;
    (if age < gap { gap - age } else { age }).max(1.0)
}

/// Of `classes` octaves, the last of which begins at a capacity, 2^7 ticks, the one with exponent `log2`.
fn octave_below_capacity(log2: i32, classes: u8) -> u8 {
    (log2 - TICKS.ilog2() as i32 + i32::from(classes) - 1).clamp(0, i32::from(classes) - 1) as u8
}

/// The class of a block that was rewritten `count` times, with decay, in the capacities that the count has `seen`:
/// octaves of the mean of the gamma posterior, the fastest first.
fn by_rate(above: i32, classes: u8, count: f32, seen: f32) -> u8 {
    let rate = (count + PRIOR) / (seen + PRIOR);
    (above - floor_log2(rate) - 1).clamp(0, i32::from(classes) - 1) as u8
}

/// Of a positive normal number.
fn floor_log2(x: f32) -> i32 {
    (x.to_bits() >> 23) as i32 - 127
}

#[cfg(test)]
mod tests {
    use std::f32::consts::LOG2_E;

    use super::super::history::{FAST, SLOW};
    use super::*;

    fn past(age: u32, gap: u32, slow: f32) -> Past {
        Past { age, gap, fast: slow, slow }
    }

    #[test]
    fn recency_places_host_writes_by_interval() {
        // Intervals of 2, 4, .. 128 ticks; a capacity is 128.
        let gaps = [2, 4, 6, 8, 10, 12, 14, NO_GAP];
        let classes = gaps.map(|gap| Rule::Recency.host(past(0, gap, 0.0), Seen::in_ticks(0)));
        assert_eq!(classes, [0, 0, 1, 2, 3, 4, 5, 5]);
    }

    #[test]
    fn recency_expects_a_block_at_its_interval_and_doubts_it_after() {
        // An interval of 80 ticks: 40 to go after 40, 32 after 48; overdue at 100, and as long again is expected.
        let ages = [40, 48, 100, 180];
        let classes =
            ages.map(|age| Rule::Recency.survivor(|| past(age, 12, 0.0), Seen::in_ticks(0)));
        assert_eq!(classes, [6, 6, 7, 8]);
    }

    #[test]
    fn rules_agree_on_how_long_a_block_lives() {
        // Rewritten so many times per capacity, steadily and for long: every 128 / n ticks.
        for (per_capacity, octave) in [(1.5, -1), (3.0, -2), (6.0, -3), (12.0, -4)] {
            let gap = (TICKS as f32 / per_capacity).log2();
            let slow = per_capacity * SLOW * LOG2_E / TICKS as f32;
            let fast = per_capacity * FAST * LOG2_E / TICKS as f32;
            let past = Past { age: 0, gap: (2.0 * gap) as u32, fast, slow };
            let octaves = [Rule::Recency, Rule::SlowRate, Rule::FastRate]
                .map(|rule| rule.octave(rule.host(past, Seen::in_ticks(40_000_000))));
            assert_eq!(octaves[..2], [octave; 2], "{per_capacity} per capacity");
            // A short memory leaves the prior some weight.
            assert!((octave..=octave + 1).contains(&octaves[2]), "{octaves:?}, {per_capacity}");
        }
    }

    #[test]
    fn rates_are_octaves_around_one_rewrite_per_capacity() {
        // Long after the start the slow window is 16 / ln 2 = 23 capacities.
        let class = |count| Rule::SlowRate.host(past(0, 0, count), Seen::in_ticks(40_000_000));
        assert_eq!([0.0, 23.1, 47.0, 20_000.0].map(class), [15, 8, 7, 0]);
    }
}
