//! Death rates, measured.

use std::ops::Range;

use thermocline_types::UnitId;

use super::history::halves;
use super::rule::CLASSES;
use crate::{UnitState, Units};

/// Octaves of age that are told apart, the first being less than a unit's worth of host writes.
const AGES: usize = 24;
/// Capacities of host writes between two censuses, and half-life of the table.
const CENSUS: f32 = 1.0 / 128.0;
const HALF_LIFE: f32 = 0.5;
/// Deaths that an entry of the table starts with, at the rate of its class. A prior at any other rate ruins the entry.
const ENTRY_PRIOR: f32 = 8.0;
/// Deaths that a class starts with, at the mean rate of one per capacity.
const CLASS_PRIOR: f32 = 2.0;
/// Weight of a unit's own last census beside the table.
const OWN: f32 = 0.4;
/// Slower than so many deaths per block and capacity cannot be told from none within a few overwrites of the drive.
const SLOWEST: f32 = 0.3;

/// Deaths per valid block and capacity of host writes, measured where they happen: for each unit, and in a table by
/// class and octave of age of units. Nothing waits for a block to die before it is learned from, as labels would.
///
/// A unit's *patience* is the -3/4th power of its rate: what dies fast by itself is worth waiting for. The theory for
/// known rates has the power -1 (the equal-derivative condition of optimal separation); less guards against noise, and
/// all from -1/2 to -1 gave the same within 0.01.
///
/// Memory: 16 bytes per unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeathRates {
    seen: Vec<Seen>,
    table: Vec<[Entry; AGES]>,
    at: u64,
    capacity: f32,
    /// Host writes that ages are counted in.
    step: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    closed_at: u64,
    valid: u32,
    patience: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    deaths: f32,
    exposed: f32,
    patience: f32,
}

const UNKNOWN: Entry = Entry { deaths: 0.0, exposed: 0.0, patience: 1.0 };

impl DeathRates {
    /// Of a device that exports `capacity` blocks. Ages begin with less than `step` host writes.
    pub(super) fn new(units: u32, capacity: u64, step: u32) -> DeathRates {
        DeathRates {
            seen: vec![Seen::default(); units as usize],
            table: vec![[UNKNOWN; AGES]; usize::from(CLASSES)],
            at: 0,
            capacity: capacity as f32,
            step: u64::from(step.max(1)),
        }
    }

    /// Forgets the table: classes mean something else from now on.
    pub(super) fn forget(&mut self) {
        self.table.fill([UNKNOWN; AGES]);
    }

    fn age(&self, closed_at: u64, now: u64) -> usize {
        let steps = now.saturating_sub(closed_at) / self.step;
        ((u64::BITS - steps.leading_zeros()) as usize).min(AGES - 1)
    }

    /// To be called before a victim is chosen; takes a census when one is due.
    pub(super) fn census(&mut self, units: &Units, range: Range<u32>, now: u64) {
        // Unit numbers may have gaps: units of other media, or of removed devices.
        if self.seen.len() < range.end as usize {
            self.seen.resize(range.end as usize, Seen::default());
        }
        let elapsed = now.saturating_sub(self.at) as f32 / self.capacity;
        if elapsed < CENSUS {
            return;
        }
        let keep = halves(elapsed / HALF_LIFE);
        for entry in self.table.iter_mut().flatten() {
            entry.deaths *= keep;
            entry.exposed *= keep;
        }
        let closed = |unit: &UnitId| units.state(*unit) == UnitState::Closed;
        let known = |class: usize| class < usize::from(CLASSES);
        for unit in range.clone().map(UnitId).filter(closed) {
            let (closed_at, valid) = (units.closed_at(unit), units.valid_count(unit));
            let class = units.class(unit).index();
            let age = self.age(closed_at, now);
            let seen = &mut self.seen[unit.index()];
            // Less than zero: not met before.
            let mut own = -1.0;
            if seen.closed_at == closed_at && closed_at != 0 && closed_at <= self.at && known(class)
            {
                let died = seen.valid.saturating_sub(valid) as f32;
                let lived = (seen.valid + valid) as f32 * 0.5 * elapsed;
                let entry = &mut self.table[class][age];
                entry.deaths += died;
                entry.exposed += lived;
                own = if lived > 0.0 { died / lived } else { 0.0 };
            }
            *seen = Seen { closed_at, valid, patience: own };
        }
        let rates = self.table.iter_mut().map(settle);
        let rates: Vec<[f32; AGES]> = rates.collect();
        for unit in range.map(UnitId).filter(closed) {
            let class = units.class(unit).index().min(rates.len() - 1);
            let table = rates[class][self.age(units.closed_at(unit), now)];
            let seen = &mut self.seen[unit.index()];
            let own = seen.patience;
            let rate = if own < 0.0 { table } else { OWN * own + (1.0 - OWN) * table };
            seen.patience = patience(rate);
        }
        self.at = now;
    }

    /// The patience of a closed unit.
    #[inline]
    pub(super) fn patience(&self, units: &Units, unit: UnitId, now: u64) -> f32 {
        let (seen, closed_at) = (&self.seen[unit.index()], units.closed_at(unit));
        if seen.closed_at == closed_at && closed_at <= self.at {
            seen.patience
        } else {
            let class = units.class(unit).index().min(self.table.len() - 1);
            self.table[class][self.age(closed_at, now)].patience
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.seen.capacity() * size_of::<Seen>()
            + self.table.capacity() * size_of::<[Entry; AGES]>()
    }
}

/// Works out the patience of units of one class that no census met yet. Returns the rates.
fn settle(entries: &mut [Entry; AGES]) -> [f32; AGES] {
    let deaths: f32 = entries.iter().map(|entry| entry.deaths).sum();
    let exposed: f32 = entries.iter().map(|entry| entry.exposed).sum();
    let of_class = (deaths + CLASS_PRIOR) / (exposed + CLASS_PRIOR);
    entries.each_mut().map(|entry| {
        let rate = (entry.deaths + ENTRY_PRIOR) / (entry.exposed + ENTRY_PRIOR / of_class);
        entry.patience = patience(rate);
        rate
    })
}

fn patience(rate: f32) -> f32 {
    let root = rate.max(SLOWEST).sqrt();
    1.0 / (root * root.sqrt())
}

#[cfg(test)]
mod tests {
    use thermocline_types::Class;

    use super::*;

    #[test]
    fn units_whose_blocks_die_are_waited_for() {
        let mut units = Units::new(2, 100);
        for unit in [UnitId(0), UnitId(1)] {
            units.open(unit, Class(0));
            (0..100).for_each(|_| units.add_valid(unit));
            units.close(unit, 100, 1);
        }
        let mut rates = DeathRates::new(2, 1000, 100);
        rates.census(&units, 0..2, 10);
        let before = rates.patience(&units, UnitId(1), 10);
        let other = rates.patience(&units, UnitId(0), 10);
        assert!((before - other).abs() < 1e-6, "{before} {other}");
        // Of unit 1, half of the blocks die within a fiftieth of a capacity.
        (0..50).for_each(|_| units.drop_valid(UnitId(1)));
        rates.census(&units, 0..2, 30);
        let [slow, fast] = [UnitId(0), UnitId(1)].map(|unit| rates.patience(&units, unit, 30));
        // 50 deaths of 75 blocks in 0.02 capacities are 33 a capacity, and of both units together 14.
        assert!(fast < slow && slow < before, "{fast} {slow} {before}");
    }
}
