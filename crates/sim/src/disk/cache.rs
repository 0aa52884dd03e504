//! The volatile cache of a device: flushed data, pending changes, and the crash states of a power cut.
//!
//! Invariants:
//! * Changes are kept in the order of their submission, and applied in it.
//! * In a zone every change behind a lost or torn change is lost too.
//! * A read that overlaps an incomplete write returns the old content.
//! * A flush makes durable only changes that were complete at its submission: a device that does more hides bugs.

use std::borrow::Cow;

use thermocline_format::Location;
use thermocline_types::{DeviceId, Rng, UnitId};

use crate::data::Sector;

use super::image::{Change, DiskShape, Effect, Fate, Image, LeftOver, Rest, Tear};

/// The fate of every unflushed change in a power cut, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CrashState(pub Vec<Fate>);

/// A medium with a volatile cache before it.
#[derive(Clone, Debug)]
pub struct Cache {
    stable: Image,
    current: Image,
    changes: Vec<Change>,
    flying: Vec<Flying>,
    next: u64,
}

/// The old content under an incomplete write.
#[derive(Clone, Debug)]
struct Flying {
    number: u64,
    unit: UnitId,
    start: u32,
    before: Vec<Sector>,
}

impl Cache {
    /// An empty cache over `image`.
    #[must_use]
    pub fn new(image: Image) -> Cache {
        let (changes, flying) = (Vec::new(), Vec::new());
        Cache { current: image.clone(), stable: image, changes, flying, next: 0 }
    }

    /// Kind and size of the medium.
    #[must_use]
    pub const fn media(&self) -> &DiskShape {
        self.stable.media()
    }

    /// The result of a read of `blocks` logical blocks from `at` on.
    #[must_use]
    pub fn read(&self, at: Location, blocks: u32) -> Cow<'_, [Sector]> {
        let mut found = Cow::Borrowed(self.current.logical(at, blocks));
        let from = at.block * self.media().sectors_per_logical();
        let to = from + found.len() as u32;
        for flying in self.flying.iter().rev().filter(|flying| flying.unit == at.unit) {
            let end = flying.start + flying.before.len() as u32;
            for sector in from.max(flying.start)..to.min(end) {
                let before = flying.before[(sector - flying.start) as usize];
                found.to_mut()[(sector - from) as usize] = before;
            }
        }
        found
    }

    /// The content once all submitted changes are complete.
    #[must_use]
    pub const fn current(&self) -> &Image {
        &self.current
    }

    /// The flushed content: a power cut keeps it, except where unflushed changes overwrite it.
    #[must_use]
    pub const fn stable(&self) -> &Image {
        &self.stable
    }

    /// Changes that were not flushed, in the order of their submission.
    #[must_use]
    pub fn pending(&self) -> &[Change] {
        &self.changes
    }

    /// Starts over from `image`; reuses allocated memory.
    pub fn restart(&mut self, image: &Image) {
        self.stable.clone_from(image);
        self.current.clone_from(image);
        self.changes.clear();
        self.flying.clear();
    }

    /// Accepts a change with its `fate`; returns the change's number. Reads show the change once it is complete.
    ///
    /// # Panics
    /// When the change overlaps an incomplete change: the order of the two would be undefined.
    pub fn submit(&mut self, unit: UnitId, effect: Effect, fate: Fate) -> u64 {
        let change = self.change(unit, effect, false);
        let (from, to) = change.range(self.media());
        let in_flight = |other: &&Change| other.complete.is_none() && !other.astray;
        for other in self.changes.iter().filter(in_flight) {
            let (start, end) = other.range(self.media());
            let apart = other.unit != unit || end <= from || to <= start;
            assert!(apart, "{change:?} overlaps {other:?}, which is in flight");
        }
        self.take_in(change, fate)
    }

    /// As [`Cache::submit`], for a misdirected write, which may overlap an incomplete change.
    pub fn submit_astray(&mut self, unit: UnitId, effect: Effect) -> u64 {
        let change = self.change(unit, effect, true);
        self.take_in(change, Fate::Kept)
    }

    /// Asserts that no zone has two incomplete changes: their order would be undefined.
    ///
    /// # Panics
    /// When a change of `unit` is on its way, and it is a zone.
    pub fn assert_alone(&self, unit: UnitId) {
        let on_its_way = |change: &Change| change.unit == unit && change.complete.is_none();
        let busy = self.media().is_zoned() && self.changes.iter().any(on_its_way);
        assert!(!busy, "{unit:?} is changed while a change of it is on its way");
    }

    fn change(&mut self, unit: UnitId, effect: Effect, astray: bool) -> Change {
        let number = self.next;
        self.next += 1;
        Change { number, unit, effect, complete: None, astray }
    }

    fn take_in(&mut self, mut change: Change, fate: Fate) -> u64 {
        let number = change.number;
        if let Effect::Write { start, .. } = change.effect {
            let (from, to) = change.range(self.media());
            let before = self.current.unit(change.unit)[from as usize..to as usize].to_vec();
            self.flying.push(Flying { number, unit: change.unit, start, before });
        }
        self.current.apply(&change, fate);
        match fate {
            Fate::Lost => {}
            Fate::Kept => self.changes.push(change),
            Fate::Torn(_) => {
                // Replace the torn change by a write of its remains.
                let (from, to) = change.range(self.media());
                let sectors = &self.current.unit(change.unit)[from as usize..to as usize];
                change.effect = Effect::Write { start: from, sectors: sectors.into() };
                self.changes.push(change);
            }
        }
        number
    }

    /// The host is told at `tick` that a change is complete.
    pub fn complete(&mut self, number: u64, tick: u64) {
        self.flying.retain(|flying| flying.number != number);
        if let Ok(index) = self.changes.binary_search_by_key(&number, |change| change.number) {
            self.changes[index].complete = Some(tick);
        }
    }

    /// The number of the next change.
    #[must_use]
    pub const fn next_change(&self) -> u64 {
        self.next
    }

    /// Changes that a flush covers which was submitted at `tick`.
    pub fn covered(&self, device: DeviceId, tick: u64) -> impl Iterator<Item = u64> {
        let covered = move |change: &&Change| self.is_covered(change, device, tick);
        self.changes.iter().filter(covered).map(|change| change.number)
    }

    /// Whether a flush of `device` that was submitted at `tick` covers `change`.
    fn is_covered(&self, change: &Change, device: DeviceId, tick: u64) -> bool {
        let on_it = self.media().geometry.device_of(change.unit) == device;
        on_it && change.complete.is_some_and(|at| at < tick)
    }

    /// Carries out a flush of `device` that was submitted at `tick`. Returns the changes that became durable.
    pub fn flush(&mut self, device: DeviceId, tick: u64) -> Vec<Change> {
        let mut durable = Vec::new();
        let zoned = self.media().is_zoned();
        let mut index = 0;
        while index < self.changes.len() {
            let change = &self.changes[index];
            // In a zone a durable change makes all earlier changes durable.
            let with_later = zoned
                && self.changes[index..]
                    .iter()
                    .any(|later| later.unit == change.unit && self.is_covered(later, device, tick));
            if self.is_covered(change, device, tick) || with_later {
                let change = self.changes.remove(index);
                self.stable.apply(&change, Fate::Kept);
                durable.push(change);
            } else {
                index += 1;
            }
        }
        durable
    }

    /// A flush that was submitted at `tick` fails. Some covered changes are lost, in whole or in part, and no later
    /// flush covers the lost parts. Reads show lost changes until the host restarts. Linux treats pages that it could
    /// not write in the same way. Zones are exempt: writes to zones bypass the page cache.
    pub fn forget(&mut self, device: DeviceId, tick: u64, rng: &mut Rng) {
        if self.media().is_zoned() {
            return;
        }
        let geometry = self.media().geometry;
        self.changes.retain_mut(|change| {
            let on_it = geometry.device_of(change.unit) == device;
            let covered = on_it && change.complete.is_some_and(|at| at < tick);
            !covered || change.left_over(1, rng) != LeftOver::Nothing
        });
    }

    /// The host is killed at `tick` and restarts, while the device goes on. Incomplete changes are done in full, in
    /// part, or not at all. All changes stay volatile. Reads show the device's content.
    pub fn outlive_host(&mut self, tick: u64, rng: &mut Rng) {
        let changes = std::mem::take(&mut self.changes);
        let mut broken = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            let mut change = change.clone();
            if change.complete.is_none() && !self.is_passed(&change, &changes[index + 1..]) {
                let gone = broken.contains(&change.unit);
                let grain = self.media().sectors_per_logical();
                let left = if gone { LeftOver::Nothing } else { change.left_over(grain, rng) };
                if self.media().is_zoned() && left != LeftOver::All {
                    broken.push(change.unit);
                }
                if left == LeftOver::Nothing {
                    continue;
                }
            }
            change.complete.get_or_insert(tick);
            self.changes.push(change);
        }
        self.show_device();
    }

    /// Reads show `image` instead of the device's content.
    pub fn show(&mut self, image: Image) {
        self.current = image;
    }

    /// Whether one of the `later` changes proves that `change` is done: a zone is written in order.
    fn is_passed(&self, change: &Change, later: &[Change]) -> bool {
        let shows = |later: &Change| later.unit == change.unit && later.complete.is_some();
        self.media().is_zoned() && later.iter().any(shows)
    }

    /// Reads show the device's content, and no change is incomplete.
    fn show_device(&mut self) {
        self.flying.clear();
        self.current.clone_from(&self.stable);
        for change in &self.changes {
            self.current.apply(change, Fate::Kept);
        }
    }

    /// Damages media, flushed or not: replaces the content of sectors.
    pub fn damage(&mut self, unit: UnitId, start: u32, sectors: &[Sector]) {
        self.stable.put(unit, start, sectors);
        self.flying.retain(|flying| flying.unit != unit);
        self.current.put(unit, start, sectors);
    }

    /// Makes a crash state possible on the medium: in a zone every change behind a lost or torn change is lost.
    pub fn normalise(&self, state: &mut CrashState) {
        if !self.media().is_zoned() {
            return;
        }
        let mut broken = Vec::new();
        for (change, fate) in self.changes.iter().zip(&mut state.0) {
            if broken.contains(&change.unit) {
                *fate = Fate::Lost;
            }
            if matches!(change.effect, Effect::Reset | Effect::Finish) && *fate != Fate::Kept {
                *fate = Fate::Lost;
            }
            if *fate != Fate::Kept {
                broken.push(change.unit);
            }
        }
    }

    /// Writes the media after the power cut `state` to `out`. `state` must be normalised.
    ///
    /// # Panics
    /// When the state is not of this cache: it has another number of changes.
    pub fn crash(&self, state: &CrashState, out: &mut Image) {
        assert_eq!(state.0.len(), self.changes.len(), "a crash state has a fate for each change");
        out.clone_from(&self.stable);
        for (change, &fate) in self.changes.iter().zip(&state.0) {
            out.apply(change, fate);
        }
    }

    /// A crash state drawn at random: how much is lost and torn differs from one to the next, and by device.
    #[must_use]
    pub fn random_state(&self, rng: &mut Rng) -> CrashState {
        let geometry = self.media().geometry;
        let kept: Vec<u64> = geometry.devices().iter().map(|_| rng.below(5)).collect();
        let torn = rng.below(3);
        let fate = |change: &Change, rng: &mut Rng| {
            if rng.below(4) < kept[geometry.device_of(change.unit).index()] {
                Fate::Kept
            } else if rng.below(3) < torn {
                Fate::Torn(self.random_tear(change, rng))
            } else {
                Fate::Lost
            }
        };
        let mut state = CrashState(self.changes.iter().map(|change| fate(change, rng)).collect());
        self.normalise(&mut state);
        state
    }

    /// A tear of `change` at 512 bytes, 4 KiB or 16 KiB: its end, its start or a part within is missing.
    #[must_use]
    pub fn random_tear(&self, change: &Change, rng: &mut Rng) -> Tear {
        let (start, end) = change.range(self.media());
        let length = u64::from(end - start);
        let grain = [1, 8, 32][rng.below(3) as usize];
        let mut cut = || (rng.below(length.div_ceil(grain) + 1) * grain).min(length) as u32;
        let (one, other) = (cut(), cut());
        let (from, to) = match rng.below(4) {
            0 | 1 => (one, u32::MAX),
            2 => (0, one),
            _ => (one.min(other), one.max(other)),
        };
        let rest = match rng.below(4) {
            0 | 1 => Rest::Old,
            2 => Rest::Zeros,
            _ => Rest::Garbage(rng.below(4) as u8),
        };
        Tear { from, to, rest }
    }
}
