//! The atlas of faults: records every hit sector. Only a recorded fault that can explain an error excuses the error.
//!
//! Compare TigerBeetle's `ClusterFaultAtlas`, which plans faults ahead. The atlas looks back: it records all faults of
//! the device, down to the sector.
//!
//! Invariants:
//! * A sector is hit from the spoiling fault until a later write of the sector is durable.
//! * The host knows every error that the device returned. The error excuses the host until it restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use thermocline_engine::UnitCondition;
use thermocline_format::{Entry, VolumeId};
use thermocline_types::UnitId;

use crate::faults::CommandKind;

/// Sectors of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The unit.
    pub unit: UnitId,
    /// Sectors of the unit.
    pub sectors: Range<u32>,
}

impl Place {
    pub(super) fn overlaps(&self, other: &Place) -> bool {
        let Range { start, end } = other.sectors;
        self.unit == other.unit && self.sectors.start < end && start < self.sectors.end
    }
}

/// The content of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Struck {
    /// A part of a header.
    Header,
    /// A part of a page of maps.
    Page,
    /// Anything else.
    Other,
    /// Unknown content: a header, a map page, or other data.
    Anything,
}

/// How a sector was spoiled.
#[derive(Clone, Copy, Debug)]
struct Hit {
    /// First change that can make the sector sound: earlier changes were submitted before the hit.
    since: u64,
    held: Struck,
}

impl Hit {
    fn may_be(&self, held: Struck) -> bool {
        self.held == held || self.held == Struck::Anything
    }
}

/// Hit sectors, and commands that returned an error.
#[derive(Clone, Debug, Default)]
pub struct Atlas {
    hits: BTreeMap<(u32, u32), Hit>,
    /// Sectors that became sound again, with the number of the next change.
    mended: BTreeMap<(u32, u32), u64>,
    /// Spoiled changes, which make no sector sound.
    spoiled: BTreeSet<u64>,
    /// Ranges of blocks in entries of spoiled chunks: recovery may miss the entries.
    untold: Vec<(VolumeId, u64, u64)>,
    /// Whether a write went astray. The overwritten chunk may have had entries of any block.
    astray: bool,
    /// Changes covered by a flush that lied.
    promised: BTreeSet<u64>,
    broken_promise: bool,
    bad_units: BTreeMap<u32, UnitCondition>,
    /// Places where reading failed since the host started.
    unread: Vec<Place>,
    /// Whether a changing command failed since the host started.
    failed: bool,
    /// Units abandoned after failed writes and resets.
    left: u64,
}

impl Atlas {
    /// Marks sectors as hit: their content differs from the last write. `since` is the spoiling change, or the first
    /// change after damage.
    pub fn hit(&mut self, place: &Place, held: Struck, since: u64) {
        for sector in place.sectors.clone() {
            self.hits.insert((place.unit.0, sector), Hit { since, held });
        }
    }

    /// Marks a change as spoiled: its durability makes no sector sound.
    pub fn spoil(&mut self, change: u64) {
        self.spoiled.insert(change);
    }

    /// Records the entries of a spoiled chunk.
    pub fn spoil_entries(&mut self, entries: &[Entry]) {
        self.untold.extend(entries.iter().filter_map(|entry| match *entry {
            Entry::Data { volume, lba, .. } if volume.is_user() => Some((volume, lba.0, 1)),
            Entry::Placed { volume, lba, .. } => Some((volume, lba.0, 1)),
            Entry::Trim { volume, lba, blocks } => Some((volume, lba.0, blocks)),
            Entry::VolumeCreate { volume, .. }
            | Entry::VolumeResize { volume, .. }
            | Entry::VolumeMedia { volume, .. }
            | Entry::VolumeDelete { volume } => Some((volume, 0, u64::MAX)),
            _ => None,
        }));
    }

    /// A write went astray.
    pub fn stray(&mut self) {
        self.astray = true;
    }

    /// Whether a block may be older than its flushed content: a chunk with an entry of the block was spoiled, and no
    /// later structure vouches for the chunk.
    #[must_use]
    pub fn explains_older(&self, volume: VolumeId, lba: u64) -> bool {
        let told = |&(id, first, blocks): &(VolumeId, u64, u64)| {
            id == volume && (first..first.saturating_add(blocks)).contains(&lba)
        };
        self.broken_promise || self.astray || self.untold.iter().any(told)
    }

    /// Whether any block may be older than its flushed content.
    #[must_use]
    pub fn explains_anything_older(&self) -> bool {
        self.broken_promise || self.astray || !self.untold.is_empty()
    }

    /// A change became durable before the change `next` was asked for.
    pub fn durable(&mut self, change: u64, place: &Place, next: u64) {
        self.promised.remove(&change);
        if self.spoiled.remove(&change) {
            return;
        }
        let (first, end) = (place.sectors.start, place.sectors.end);
        let range = (place.unit.0, first)..(place.unit.0, end);
        let sound = self.hits.range(range).filter(|(_, hit)| hit.since <= change);
        let sound: Vec<(u32, u32)> = sound.map(|(&at, _)| at).collect();
        for at in sound {
            self.hits.remove(&at);
            self.mended.insert(at, next);
        }
    }

    /// A flush was acknowledged that should have made these changes durable.
    pub fn promise(&mut self, changes: impl Iterator<Item = u64>) {
        self.promised.extend(changes);
    }

    /// A power cut took a change, or a part of it.
    pub fn lose(&mut self, change: u64) {
        self.broken_promise |= self.promised.contains(&change);
    }

    /// A unit has another condition.
    pub fn degrade(&mut self, unit: UnitId, condition: UnitCondition) {
        self.bad_units.insert(unit.0, condition);
    }

    /// Reading failed here.
    pub fn unread(&mut self, place: Place) {
        self.unread.push(place);
    }

    /// Records the error of a changing command.
    pub fn failed(&mut self, kind: CommandKind) {
        self.failed = true;
        self.left += match kind {
            // The chunk's own unit, and a second unit that is opened to write the chunk again or to log the failure.
            CommandKind::WriteChunk => 2,
            CommandKind::Reset => 1,
            _ => 0,
        };
    }

    /// Faults are over and the pool was opened again: units abandoned at failed writes can be freed.
    pub fn heal(&mut self) {
        self.left = 0;
    }

    /// The host restarts: forgets returned errors, keeps the hits on media.
    pub fn host_starts(&mut self) {
        self.unread.clear();
        self.failed = false;
    }

    /// Whether a place may be unreadable: a sector was hit, a read failed, or the unit is offline.
    #[must_use]
    pub fn explains(&self, place: &Place) -> bool {
        let (first, end) = (place.sectors.start, place.sectors.end);
        let range = (place.unit.0, first)..(place.unit.0, end);
        self.hits.range(range).next().is_some()
            || self.unread.iter().any(|unread| unread.overlaps(place))
            || self.bad_units.get(&place.unit.0) == Some(&UnitCondition::Offline)
            || self.broken_promise
    }

    /// Whether this may have been unreadable at any time since before the change `since` was asked for.
    #[must_use]
    pub fn explained(&self, place: &Place, since: u64) -> bool {
        let (first, end) = (place.sectors.start, place.sectors.end);
        let mut mended = self.mended.range((place.unit.0, first)..(place.unit.0, end));
        self.explains(place) || mended.any(|(_, next)| *next >= since)
    }

    /// Whether a header of the unit of `place`, at it or before it, may be missing.
    #[must_use]
    pub fn explains_header(&self, place: &Place) -> bool {
        let range = (place.unit.0, 0)..(place.unit.0, place.sectors.end);
        self.explains(place)
            || self.hits.range(range).any(|(_, hit)| hit.may_be(Struck::Header))
            || self.unread.iter().any(|unread| unread.unit == place.unit)
    }

    /// Whether a chunk may be missing.
    #[must_use]
    pub fn explains_lost_chunks(&self) -> bool {
        let offline = |condition: &UnitCondition| *condition == UnitCondition::Offline;
        self.hits.values().any(|hit| hit.may_be(Struck::Header))
            || self.bad_units.values().any(offline)
            || self.broken_promise
    }

    /// Whether a record in one of these units may be missing.
    #[must_use]
    pub fn explains_lost_records(&self, units: &[UnitId]) -> bool {
        let there = |unit: &UnitId| {
            self.hits.range((unit.0, 0)..(unit.0 + 1, 0)).next().is_some()
                || self.unread.iter().any(|unread| unread.unit == *unit)
        };
        units.iter().any(there) || self.broken_promise
    }

    /// Whether what was flushed may be older: a flush was not carried out, and a power cut took what it covered.
    #[must_use]
    pub const fn broken_promise(&self) -> bool {
        self.broken_promise
    }

    /// Whether the device answered anything with an error since the host started.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed || !self.unread.is_empty()
    }

    /// Whether a sector is hit, a unit is bad, or a flush lied.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        !self.hits.is_empty() || !self.bad_units.is_empty() || self.broken_promise
    }

    /// Units with reduced or no capacity: units that take no writes, units with unreadable blocks, and units abandoned
    /// at a failed write or reset.
    #[must_use]
    pub fn units_missing(&self) -> u64 {
        self.units_spoiled(|_| true) + self.left
    }

    /// Counts the units accepted by `asked` that take no writes or have unreadable blocks.
    #[must_use]
    pub fn units_spoiled(&self, asked: impl Fn(UnitId) -> bool) -> u64 {
        let places = self.hits.keys().map(|&(unit, _)| unit);
        let unread = self.unread.iter().map(|place| place.unit.0);
        let units: BTreeSet<u32> =
            places.chain(unread).chain(self.bad_units.keys().copied()).collect();
        units.into_iter().filter(|unit| asked(UnitId(*unit))).count() as u64
    }

    /// Reads that failed since the host started.
    #[must_use]
    pub fn reads_failed(&self) -> u64 {
        self.unread.len() as u64
    }

    /// Pages of maps that may be unreadable.
    #[must_use]
    pub fn pages_unread(&self) -> u64 {
        let hit = self.hits.values().filter(|hit| hit.may_be(Struck::Page)).count();
        hit as u64 + self.reads_failed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn place(unit: u32, start: u32, end: u32) -> Place {
        Place { unit: UnitId(unit), sectors: start..end }
    }

    #[test]
    fn only_what_was_hit_is_explained_and_only_until_it_is_written_again() {
        let mut atlas = Atlas::default();
        atlas.hit(&place(3, 8, 16), Struck::Other, 5);
        atlas.spoil(5);
        assert!(atlas.explains(&place(3, 15, 20)) && atlas.is_damaged());
        assert!(!atlas.explains(&place(3, 16, 24)) && !atlas.explains(&place(2, 8, 16)));
        assert!(!atlas.explains_lost_chunks() && !atlas.has_failed());
        atlas.durable(4, &place(3, 0, 64), 7);
        atlas.durable(5, &place(3, 8, 16), 7);
        assert!(atlas.explains(&place(3, 8, 16)), "by what was asked for before, and by itself");
        atlas.durable(6, &place(3, 8, 12), 8);
        assert!(!atlas.explains(&place(3, 8, 12)) && atlas.explains(&place(3, 12, 16)));
        assert!(atlas.explained(&place(3, 8, 12), 8) && !atlas.explained(&place(3, 8, 12), 9));
    }

    #[test]
    fn errors_are_forgotten_when_the_host_starts_anew_and_damage_is_not() {
        let mut atlas = Atlas::default();
        atlas.unread(place(1, 0, 8));
        atlas.failed(CommandKind::WriteChunk);
        atlas.hit(&place(2, 0, 1), Struck::Header, 0);
        assert!(atlas.has_failed() && atlas.explains(&place(1, 7, 9)));
        assert_eq!(atlas.units_missing(), 4);
        atlas.host_starts();
        assert!(!atlas.has_failed() && !atlas.explains(&place(1, 7, 9)));
        assert!(atlas.explains_lost_chunks() && atlas.explains_header(&place(2, 50, 58)));
        assert_eq!(atlas.units_missing(), 3, "until the device is well");
        atlas.heal();
        assert_eq!(atlas.units_missing(), 1);
    }

    #[test]
    fn a_flush_that_lies_excuses_nothing_until_a_power_cut_takes_what_it_covered() {
        let mut atlas = Atlas::default();
        atlas.promise([7, 8].into_iter());
        atlas.lose(9);
        atlas.durable(7, &place(0, 0, 8), 9);
        atlas.lose(7);
        assert!(!atlas.broken_promise());
        atlas.lose(8);
        assert!(atlas.broken_promise() && atlas.explains(&place(5, 0, 1)));
    }
}
