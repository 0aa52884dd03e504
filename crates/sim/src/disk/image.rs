//! The content of a medium, and the effect of changes.

use std::rc::Rc;

use thermocline_format::{Geometry, Location};
use thermocline_types::{Rng, UnitId};

use crate::data::{BlockId, SECTOR_BYTES, SECTORS_PER_BLOCK, Sector};

/// Kind of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// Written anywhere; a reset unit keeps its old bytes.
    Keeping,
    /// Written anywhere; a reset unit reads as zeros.
    Discarding,
    /// Each unit is a zone: written at its write pointer only, and empty after a reset.
    Zoned,
}

/// Kind and size of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShape {
    /// Its units.
    pub geometry: Geometry,
    /// What its units can do.
    pub kind: DiskKind,
}

impl DiskShape {
    /// Sectors of a logical block.
    #[must_use]
    pub const fn sectors_per_logical(&self) -> u32 {
        (self.geometry.logical_block().bytes() / SECTOR_BYTES) as u32
    }

    /// Sectors of a unit.
    #[must_use]
    pub const fn sectors_per_unit(&self) -> u32 {
        self.geometry.blocks_per_unit() * self.sectors_per_logical()
    }

    /// Whether units are zones.
    #[must_use]
    pub fn is_zoned(&self) -> bool {
        self.kind == DiskKind::Zoned
    }

    /// Whether a reset changes what is read from a unit.
    #[must_use]
    pub fn reset_clears(&self) -> bool {
        self.kind != DiskKind::Keeping
    }
}

/// A change that the device was asked for.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its number: changes are numbered in the order of their submission.
    pub number: u64,
    /// The unit that it changes.
    pub unit: UnitId,
    /// The effect on the unit.
    pub effect: Effect,
    /// When the host was told that it is complete, on a clock that counts submissions and completions.
    pub complete: Option<u64>,
    /// Whether the change was misdirected: the engine cannot avoid overlapping it.
    pub astray: bool,
}

/// The effect of a change on its unit.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Writes sectors from sector `start` on.
    Write {
        /// The first sector, counted in the unit.
        start: u32,
        /// The new content.
        sectors: Rc<[Sector]>,
    },
    /// The unit becomes empty.
    Reset,
    /// The write pointer moves to the end of the unit.
    Finish,
}

impl Change {
    /// The changed sectors of the unit: first and one past the last.
    #[must_use]
    pub fn range(&self, media: &DiskShape) -> (u32, u32) {
        match &self.effect {
            Effect::Write { start, sectors } => (*start, start + sectors.len() as u32),
            Effect::Reset | Effect::Finish => (0, media.sectors_per_unit()),
        }
    }

    /// The rest of a change after a kill of the host: the whole change, no part of it, or the first sectors of a write
    /// up to a multiple of `grain`.
    pub(super) fn left_over(&mut self, grain: u32, rng: &mut Rng) -> LeftOver {
        match (&mut self.effect, rng.below(4)) {
            (_, 0) => LeftOver::All,
            (Effect::Write { sectors, .. }, 1) => {
                let grains = u64::from(sectors.len() as u32 / grain);
                let cut = rng.below(grains.max(1)) as usize * grain as usize;
                *sectors = sectors[..cut].into();
                if cut > 0 { LeftOver::Part } else { LeftOver::Nothing }
            }
            _ => LeftOver::Nothing,
        }
    }
}

/// How much is left of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOver {
    All,
    Part,
    Nothing,
}

/// The fate of an unflushed change in a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The change is on media.
    Kept,
    /// The change is lost.
    Lost,
    /// The change is on media except for some sectors.
    Torn(Tear),
}

/// Sectors missing from a torn change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tear {
    /// The first missing sector, counted in the change.
    pub from: u32,
    /// End of the missing sectors, exclusive; clamped to the end of the change.
    pub to: u32,
    /// Content of the missing sectors. A torn reset leaves the old content.
    pub rest: Rest,
}

/// Content of the sectors missing from a torn change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rest {
    /// The old content.
    Old,
    /// Zeros.
    Zeros,
    /// Arbitrary bytes.
    Garbage(u8),
}

/// The sectors of a medium and the write pointers of its zones. Copies share the units that are alike.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    media: DiskShape,
    /// Of each unit, its sectors.
    units: Vec<Rc<[Sector]>>,
    /// Of each unit, the sectors before its write pointer; of a conventional one without meaning.
    pointers: Vec<u32>,
}

impl Clone for Image {
    fn clone(&self) -> Image {
        Image { media: self.media, units: self.units.clone(), pointers: self.pointers.clone() }
    }

    /// Keeps the room that `self` has.
    fn clone_from(&mut self, from: &Image) {
        self.media = from.media;
        self.units.clone_from(&from.units);
        self.pointers.clone_from(&from.pointers);
    }
}

impl Image {
    /// A medium of zeros.
    #[must_use]
    pub fn new(media: DiskShape) -> Image {
        let units = media.geometry.units() as usize;
        let empty: Rc<[Sector]> = vec![Sector::ZEROS; media.sectors_per_unit() as usize].into();
        Image { media, units: vec![empty; units], pointers: vec![0; units] }
    }

    /// Kind and size.
    #[must_use]
    pub const fn media(&self) -> &DiskShape {
        &self.media
    }

    /// Sectors before the write pointer of a zone.
    #[must_use]
    pub fn pointer(&self, unit: UnitId) -> u32 {
        self.pointers[unit.index()]
    }

    /// The sectors of a unit.
    #[must_use]
    pub fn unit(&self, unit: UnitId) -> &[Sector] {
        &self.units[unit.index()]
    }

    /// The `blocks` logical blocks from `at` on.
    #[must_use]
    pub fn logical(&self, at: Location, blocks: u32) -> &[Sector] {
        let per_block = self.media.sectors_per_logical() as usize;
        &self.unit(at.unit)[at.block as usize * per_block..][..blocks as usize * per_block]
    }

    /// Overwrites sectors of a unit, whatever the rules of the medium.
    pub fn put(&mut self, unit: UnitId, start: u32, sectors: &[Sector]) {
        self.range_mut(unit, start, start + sectors.len() as u32).copy_from_slice(sectors);
    }

    /// Has a unit hold nothing, as on a device that was never written.
    pub fn wipe(&mut self, unit: UnitId) {
        self.reset(unit, 0, 0);
        let blank = Image::new(self.media);
        self.put(unit, 0, blank.unit(unit));
    }

    /// Carries out a change as far as `fate` lets it.
    pub fn apply(&mut self, change: &Change, fate: Fate) {
        match (fate, &change.effect) {
            (Fate::Lost, _) => {}
            (Fate::Kept, Effect::Write { start, sectors }) => {
                self.put(change.unit, *start, sectors);
                self.pointers[change.unit.index()] = start + sectors.len() as u32;
            }
            (Fate::Torn(tear), Effect::Write { start, sectors }) => {
                self.tear_write(change.unit, *start, sectors, tear);
            }
            (Fate::Kept, Effect::Reset) => self.reset(change.unit, 0, 0),
            (Fate::Torn(tear), Effect::Reset) => {
                let length = self.media.sectors_per_unit();
                self.reset(change.unit, tear.from.min(length), tear.to.min(length));
            }
            (_, Effect::Finish) => {
                self.pointers[change.unit.index()] = self.media.sectors_per_unit();
            }
        }
    }

    fn tear_write(&mut self, unit: UnitId, start: u32, sectors: &[Sector], tear: Tear) {
        let length = sectors.len() as u32;
        let per_block = self.media.sectors_per_logical();
        let cuts = self.media.is_zoned() && tear.rest == Rest::Old && tear.to >= length;
        // A write pointer stands between logical blocks.
        let from = tear.from.min(length);
        let from = if cuts { from / per_block * per_block } else { from };
        let to = tear.to.clamp(from, length);
        self.put(unit, start, &sectors[..from as usize]);
        self.put(unit, start + to, &sectors[to as usize..]);
        let hole = self.range_mut(unit, start + from, start + to);
        match tear.rest {
            Rest::Old => {}
            Rest::Zeros => hole.fill(Sector::ZEROS),
            Rest::Garbage(pick) => {
                for (index, sector) in hole.iter_mut().enumerate() {
                    let pick = u64::from(pick) + (index / SECTORS_PER_BLOCK) as u64;
                    *sector = BlockId::garbage(pick).sector(index % SECTORS_PER_BLOCK);
                }
            }
        }
        self.pointers[unit.index()] = start + if cuts { from } else { length };
    }

    /// Empties a unit but for the sectors from `kept_from` to `kept_to`, where the driver did not get.
    fn reset(&mut self, unit: UnitId, kept_from: u32, kept_to: u32) {
        self.pointers[unit.index()] = 0;
        if self.media.reset_clears() {
            let end = self.media.sectors_per_unit();
            self.range_mut(unit, 0, kept_from).fill(Sector::ZEROS);
            self.range_mut(unit, kept_to.max(kept_from), end).fill(Sector::ZEROS);
        }
    }

    fn range_mut(&mut self, unit: UnitId, from: u32, to: u32) -> &mut [Sector] {
        &mut Rc::make_mut(&mut self.units[unit.index()])[from as usize..to as usize]
    }
}
