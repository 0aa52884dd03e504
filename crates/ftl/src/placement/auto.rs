//! `auto`: the rule that copies least, found out while serving.

mod cleaner;
mod deaths;
mod drive;
mod history;
mod miniature;
mod rule;

use std::ops::Range;

use thermocline_types::{Class, Lba, UnitId};

use self::cleaner::Cleaner;
use self::history::History;
use self::miniature::{Miniature, Places, group_of};
use self::rule::{CLASSES, Rule};
use super::{Below, Classifier, Survivor, Topology, VictimRule, Write};
use crate::Units;

/// Miniatures take so many blocks if a sixteenth of the drive has them, and no less than a 128th of it, where all of
/// them together cost less than a byte per block. 1/32 instead of 1/128 at a million blocks changed no WAF by more than
/// 0.003.
const SAMPLE: u64 = 4_096;
/// Blocks that miniatures take at most, a 128th of 1 TiB: some 60 bytes each.
const MOST_SAMPLED: u64 = 1 << 21;
/// The rule is changed only if that saves this share of all writes.
const MARGIN: f32 = 0.01;
/// Over a drive that mixes, classes have to save this share at least: miniatures of such drives are a rough guess. On
/// `log:p5316`, 88 % full, they promised 5 to 17 % with Zipf 0.8, where one class wrote 0.78 of what classes did, and
/// more than half with Zipf 1.2, where it wrote 1.3 times as much.
const MIXED_MARGIN: f32 = 0.2;
/// Decisions per capacity of host writes, and what copies of before the last one count: a half-life of one capacity.
const DECISIONS: u64 = 32;
const KEPT: f32 = 0.978_572_1;
/// A tie within the margin goes to the single class if more than this share of writes is copied at all. Classes cannot
/// beat it on a drive without structure, and the units of miniatures are too short to show all that greedy gains there.
const COSTLY: f32 = 0.25;
/// Free units that suit this policy best: survivors share open units when free units run short.
const RESERVE: u8 = 2;

/// Five fixed rules cover the cases in which published schemes take turns in winning: rewrite intervals, long-term and
/// short-term rewrite rates, no separation, and survivors apart. All are functions of one history per block, so each
/// can run on a miniature drive of a sample of the blocks beside the real one, which follows the one that copied least.
/// `docs/use/PLACEMENT.md` has the argument for each part, and what did not work.
///
/// Over a drive that mixes units, a miniature of the drive counts the copies of the drive too.
///
/// Victims are chosen by the victim rule of the rule in use. State: 3 bytes per block, and 0.7 to 3.7 for miniatures,
/// less the larger the drive; 0.3 to 2.8 more for the drives below; 24 bytes per unit. Of drives beyond 1 TiB no more
/// than of one of 1 TiB, but for the units: some neighbours have one history together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auto {
    running: Option<Box<Tournament>>,
    neighbours: Option<u32>,
}

impl Auto {
    /// A policy with a shared history for `neighbours` blocks, a power of two; default: by the size of the drive.
    #[must_use]
    pub fn of_neighbours(neighbours: Option<u32>) -> Auto {
        Auto { running: None, neighbours }
    }

    /// Neighbours per history, if set.
    pub(super) fn neighbours(&self) -> Option<u32> {
        self.neighbours
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Tournament {
    rule: Rule,
    /// Whether the rule was changed since the layer was told.
    changed: bool,
    history: History,
    cleaner: Cleaner,
    miniatures: Vec<Miniature>,
    places: Places,
    /// Of every `1 << shift` blocks, one is sampled.
    shift: u32,
    /// Host writes to the sample, decayed as the miniatures' copies are.
    writes: f32,
    capacity: u64,
    next_decision: u64,
    below: Below,
}

impl Tournament {
    fn new(capacity: u64, units: u32, blocks_per_unit: u32, below: Below) -> Tournament {
        let least = (capacity / MOST_SAMPLED).max(1).ilog2();
        let shift = (capacity / SAMPLE).max(1).ilog2().clamp(4, 7).max(least);
        let miniature =
            |rule| Miniature::new(rule, shift, capacity, units, blocks_per_unit).over(below);
        Tournament {
            rule: Rule::first(below),
            changed: false,
            history: History::new(capacity),
            cleaner: Cleaner::new(units, capacity, blocks_per_unit),
            miniatures: Rule::ALL.map(miniature).to_vec(),
            places: Places::default(),
            shift,
            writes: 0.0,
            capacity,
            // Before all is written once there is little to copy.
            next_decision: capacity,
            below,
        }
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        let past = self.history.write(write.lba, write.now);
        if let Some(group) = group_of(write.lba, self.shift) {
            self.writes += 1.0;
            for miniature in &mut self.miniatures {
                miniature.write(group, past, write.now, &self.history, &mut self.places);
            }
        }
        if write.now >= self.next_decision {
            self.next_decision = write.now + (self.capacity / DECISIONS).max(1);
            self.decide();
        }
        Class(self.rule.host(past, self.history.seen()))
    }

    /// Switches to the rule of the miniature with the fewest copies, if the margin is clear.
    fn decide(&mut self) {
        let copies = |rule: Rule| self.miniatures[rule as usize].copies;
        let least = |a: &Rule, b: &Rule| copies(*a).total_cmp(&copies(*b));
        let best = Rule::ALL.into_iter().min_by(least).expect("there are rules");
        let single = copies(Rule::Single);
        let (margin, costs) = match self.below {
            Below::Apart => (MARGIN, single > COSTLY * self.writes),
            Below::Mixed { .. } => (MIXED_MARGIN, true),
        };
        let tie = costs && single - copies(best) <= margin * (self.writes + copies(best));
        let best = if tie { Rule::Single } else { best };
        let (gain, sum) = (copies(self.rule) - copies(best), copies(self.rule) + copies(best));
        // Copies come in lumps of about half a unit: one standard deviation of their sum.
        let noise = (0.5 * self.miniatures[0].blocks_per_unit() as f32 * sum).sqrt();
        let clear = gain > MARGIN * (self.writes + copies(self.rule)) && gain > noise;
        if best != self.rule && (tie || clear) {
            self.rule = best;
            self.changed = true;
            self.cleaner.forget();
        }
        self.writes *= KEPT;
        for miniature in &mut self.miniatures {
            miniature.copies *= KEPT;
        }
    }
}

impl Classifier for Auto {
    fn topology(&self) -> Topology {
        Topology::new(CLASSES, 0..CLASSES).with_reserve(RESERVE)
    }

    fn begin(&mut self, blocks: u64, units: u32, blocks_per_unit: u32, below: Below) {
        let mut tournament = Tournament::new(blocks, units, blocks_per_unit, below);
        if let Some(neighbours) = self.neighbours {
            tournament.history = History::of_neighbours(blocks, neighbours.ilog2());
        }
        self.running = Some(Box::new(tournament));
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        match &mut self.running {
            Some(tournament) => tournament.place(write),
            // Nothing is known of the drive.
            None => Class(0),
        }
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        let Some(tournament) = &self.running else { return Class(0) };
        let history = &tournament.history;
        Class(tournament.rule.survivor(|| history.past(survivor.lba), history.seen()))
    }

    #[inline]
    fn prefetch(&self, lba: Lba) {
        if let Some(tournament) = &self.running {
            tournament.history.prefetch(lba);
            if let Some(group) = group_of(lba, tournament.shift) {
                tournament.places.prefetch(group);
            }
        }
    }

    #[inline]
    fn prefetch_survivor(&self, lba: Lba) {
        if let Some(tournament) = &self.running
            && !tournament.rule.is_greedy()
        {
            tournament.history.prefetch(lba);
        }
    }

    /// Streams are octaves of lifetime whatever the rule; the last begins at one capacity.
    #[inline]
    fn stream(&self, class: Class, streams: u8) -> u8 {
        let last = i32::from(streams.saturating_sub(1));
        let octave = self.running.as_ref().map_or(0, |tournament| tournament.rule.octave(class.0));
        (last + octave).clamp(0, last) as u8
    }

    #[inline]
    fn renamed(&mut self) -> bool {
        self.running.as_mut().is_some_and(|tournament| std::mem::take(&mut tournament.changed))
    }

    fn memory_bytes(&self) -> usize {
        let Some(tournament) = &self.running else { return 0 };
        let miniatures: usize = tournament.miniatures.iter().map(Miniature::memory_bytes).sum();
        let blocks = tournament.history.memory_bytes() + tournament.places.memory_bytes();
        blocks + tournament.cleaner.memory_bytes() + miniatures
    }
}

impl VictimRule for Auto {
    fn has_rule(&self) -> bool {
        true
    }

    fn victim(
        &mut self,
        units: &Units,
        range: Range<u32>,
        now: u64,
        allowed: impl Fn(UnitId) -> bool,
    ) -> Option<UnitId> {
        let tournament = self.running.as_mut()?;
        tournament.cleaner.choose(tournament.rule, units, range, now, allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a drive with streams uses it: told of writes alone, not of what is copied. Units of 224 blocks, of which the
    /// sample has 3.5 each.
    #[test]
    fn host_writes_alone_tell_short_lives_from_long_ones() {
        let (blocks, units, streams) = (327_680, 1_711, 8);
        let mut auto = Auto::default();
        auto.begin(blocks, units, 224, Below::Apart);
        // A tenth of the blocks takes nine tenths of the writes: a life of 1/9 of a capacity, and of 9.
        let mut noise = 1_u64;
        let mut random = |below: u64| {
            noise = noise.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (noise >> 33) % below
        };
        let mut found = [[0_u32; 8]; 2];
        for now in 0..6 * blocks {
            let hot = random(10) != 0;
            let lba = match now < blocks {
                true => now,
                false if hot => random(blocks / 10) * 10,
                false => random(blocks),
            };
            let class = auto.place(Write::plain(Lba(lba), now));
            if now >= 5 * blocks {
                found[usize::from(lba % 10 == 0)][usize::from(auto.stream(class, streams))] += 1;
            }
        }
        let mean = |counts: [u32; 8]| {
            let sum: u32 = counts.iter().zip(0..).map(|(count, stream)| count * stream).sum();
            f64::from(sum) / f64::from(counts.iter().sum::<u32>())
        };
        let [cold, hot] = found.map(mean);
        assert!(hot + 2.0 < cold, "{found:?}");
    }
}
