//! The SLC cache: host data lands in units that hold one bit a cell, and moves on to the other cells later.
//!
//! Model:
//! * The cache is a log of units in SLC mode. The oldest is *folded*: its valid blocks are read and written as the
//!   translation layer writes, counted as [`Cause::Folding`]; then it is erased. What was overwritten or trimmed in the
//!   cache is never folded.
//! * A unit in SLC mode holds `1 / bits` of the blocks that it holds otherwise.
//! * Units of the *static* part are the cache's own, beside those of the translation layer. Those of the *dynamic* part
//!   are lent by it, up to a share of the space that the host has not filled ([`Ftl::lend`]); they go back when the
//!   host fills that space.
//! * When the cache is full, its oldest unit is folded, or what comes is written past it (`slc.full`).
//! * While the host is idle, closed units may be folded at a rate. Idle is what the requests' own clock says
//!   ([`Request::at`]), so that what is written does not depend on simulated time (ADR 0031).
//!
//! Invariants:
//! * A block is valid in the cache or in the translation layer, never in both.
//! * Units lent and units full of valid blocks are together never more than what is exported.
//!
//! [`Request::at`]: thermocline_types::Request::at

use std::collections::VecDeque;

use thermocline_ftl::placement::Handles;
use thermocline_ftl::{Ftl, Map, Media as _, OutOfUnits, Shape};
use thermocline_types::{Bytes, Cause, Lba, Pba, Time, UnitId};

use crate::media::NandArray;
use crate::profile::{Cut, Profile, Slc, SlcFull};

/// What a place holds that was programmed to fill up a page.
const FILL: Lba = Lba(u64::MAX);

/// A unit in SLC mode and the blocks written, front to back.
#[derive(Clone, Debug)]
struct SlcUnit {
    id: UnitId,
    lent: bool,
    blocks: Vec<Lba>,
}

/// Blocks programmed in SLC mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlcProgrammed {
    /// All of them.
    pub blocks: u64,
    /// Blocks in units lent to the cache.
    pub lent: u64,
    /// Blocks that only filled up pages.
    pub padding: u64,
    /// Units of the cache's own that were erased.
    pub erased: u64,
}

/// The cache.
#[derive(Clone, Debug)]
pub struct SlcCache {
    profile: Slc,
    shape: Shape,
    block: Bytes,
    blocks_per_page: u32,
    /// Blocks of a unit in SLC mode.
    blocks_per_unit: u32,
    map: Map,
    /// Oldest first; the last one is being written if `open`.
    units: VecDeque<SlcUnit>,
    open: bool,
    /// How far the oldest unit is folded already.
    folded: usize,
    /// Units of the cache's own, erased.
    free: Vec<(UnitId, u32)>,
    erases: Vec<u32>,
    lent: u64,
    latest: Time,
    programmed: SlcProgrammed,
}

impl SlcCache {
    /// The cache of a drive after `profile` cut to `cut`; `None` if the profile has no cache.
    #[must_use]
    pub fn new(profile: &Profile, cut: &Cut) -> Option<SlcCache> {
        let slc = profile.slc.clone()?;
        let (shape, own) = (cut.shape, cut.slc_units(profile));
        let limit = shape.pba_limit() / u64::from(shape.units());
        let first = shape.units();
        Some(SlcCache {
            block: cut.mapping_unit,
            blocks_per_page: cut.blocks_per_page,
            blocks_per_unit: cut.slc_blocks_per_unit(slc.bits),
            map: Map::new(shape.exported(), limit * u64::from(first + own)),
            units: VecDeque::new(),
            open: false,
            folded: 0,
            free: (first..first + own).rev().map(|unit| (UnitId(unit), 0)).collect(),
            erases: vec![0; own as usize],
            lent: 0,
            latest: Time::ZERO,
            programmed: SlcProgrammed::default(),
            profile: slc,
            shape,
        })
    }

    /// Where `lba` lies in the cache, if it does.
    #[inline]
    #[must_use]
    pub fn lookup(&self, lba: Lba) -> Option<Pba> {
        self.map.get(lba)
    }

    /// Blocks programmed in SLC mode so far.
    #[must_use]
    pub fn programmed(&self) -> SlcProgrammed {
        self.programmed
    }

    /// Writes `lba` for the host, to the cache or past it. Returns whether it went to the cache.
    ///
    /// # Errors
    /// [`OutOfUnits`] when too many units are worn out; nothing was written.
    pub fn write(
        &mut self,
        lba: Lba,
        ftl: &mut Ftl<Handles>,
        media: &mut NandArray,
    ) -> Result<bool, OutOfUnits> {
        let known = self.map.get(lba).or_else(|| ftl.lookup(lba));
        let valid = self.map.mapped() + ftl.map().mapped() + u64::from(known.is_none());
        while self.lent > self.units_in(self.shape.exported().saturating_sub(valid)) {
            self.fold_oldest(ftl, media)?;
        }
        if !self.make_room(valid, ftl, media)? {
            ftl.write(lba, 0, media)?;
            self.map.take(lba);
            return Ok(false);
        }
        ftl.trim(lba);
        let pba = self.append(lba, Cause::Host, ftl, media);
        self.map.replace(lba, pba);
        Ok(true)
    }

    /// Forgets what `lba` holds in the cache.
    pub fn trim(&mut self, lba: Lba) {
        self.map.take(lba);
    }

    /// Fills up the page that is being written.
    pub fn pad(&mut self, ftl: &mut Ftl<Handles>, media: &mut NandArray) {
        let begun = |cache: &SlcCache| {
            let written = cache.units.back().filter(|_| cache.open).map_or(0, |u| u.blocks.len());
            !written.is_multiple_of(cache.blocks_per_page as usize)
        };
        while begun(self) {
            self.append(FILL, Cause::Padding, ftl, media);
            self.programmed.padding += 1;
        }
    }

    /// A request comes at `at` of its own clock: folds as much as fits in the time since the previous request.
    ///
    /// # Errors
    /// [`OutOfUnits`] when too many units are worn out.
    pub fn idle_until(
        &mut self,
        at: Time,
        ftl: &mut Ftl<Handles>,
        media: &mut NandArray,
    ) -> Result<(), OutOfUnits> {
        let idle = at.since(self.latest.min(at));
        self.latest = self.latest.max(at);
        let Some((after, rate)) = self.profile.fold_idle_ms.zip(self.profile.fold_mb_per_s) else {
            return Ok(());
        };
        let seconds = idle.as_secs_f64() - after / 1e3;
        let mut blocks = (seconds.max(0.0) * rate * 1e6 / self.block.as_f64()) as u64;
        while blocks > 0 && self.units.len() > usize::from(self.open) {
            blocks -= self.fold(blocks, ftl, media)?;
        }
        Ok(())
    }

    /// Opens a unit if needed. Returns `false` if the write must bypass a full cache, or if the drive is too full for a
    /// cache.
    fn make_room(
        &mut self,
        valid: u64,
        ftl: &mut Ftl<Handles>,
        media: &mut NandArray,
    ) -> Result<bool, OutOfUnits> {
        while !self.open {
            if let Some((id, _)) = self.free.pop() {
                self.begin(id, false, media);
            } else if self.lent < self.lendable(valid)
                && let Some(id) = ftl.lend(media)
            {
                self.lent += 1;
                self.begin(id, true, media);
            } else if self.units.is_empty() || self.profile.full == SlcFull::Direct {
                return Ok(false);
            } else {
                self.fold_oldest(ftl, media)?;
            }
        }
        Ok(true)
    }

    fn begin(&mut self, id: UnitId, lent: bool, media: &mut NandArray) {
        media.set_slc(id, true);
        let blocks = Vec::with_capacity(self.blocks_per_unit as usize);
        self.units.push_back(SlcUnit { id, lent, blocks });
        self.open = true;
    }

    /// Units that the cache may have of the translation layer with `valid` blocks in all.
    fn lendable(&self, valid: u64) -> u64 {
        let until = self.profile.dynamic_until * self.shape.exported() as f64;
        self.units_in(((until - valid as f64).max(0.0) * self.profile.dynamic) as u64)
    }

    fn units_in(&self, blocks: u64) -> u64 {
        blocks / u64::from(self.shape.blocks_per_unit())
    }

    fn append(
        &mut self,
        lba: Lba,
        cause: Cause,
        ftl: &mut Ftl<Handles>,
        media: &mut NandArray,
    ) -> Pba {
        let unit = self.units.back_mut().expect("a unit is open");
        let pba = self.shape.pba(unit.id, unit.blocks.len() as u32);
        unit.blocks.push(lba);
        media.program(pba, (lba != FILL).then_some(lba), cause);
        self.programmed.blocks += 1;
        self.programmed.lent += u64::from(unit.lent);
        if unit.blocks.len() == self.blocks_per_unit as usize {
            if unit.lent {
                ftl.note_lent(unit.id, self.blocks_per_unit);
            }
            self.open = false;
        }
        pba
    }

    /// Folds the oldest unit to its end.
    fn fold_oldest(
        &mut self,
        ftl: &mut Ftl<Handles>,
        media: &mut NandArray,
    ) -> Result<(), OutOfUnits> {
        let before = self.units.len();
        while self.units.len() == before {
            self.fold(u64::MAX, ftl, media)?;
        }
        Ok(())
    }

    /// Folds up to `most` blocks of the oldest unit, and erases it once nothing is left. Returns how many it folded, at
    /// least one if that is called again.
    fn fold(
        &mut self,
        most: u64,
        ftl: &mut Ftl<Handles>,
        media: &mut NandArray,
    ) -> Result<u64, OutOfUnits> {
        let mut done = 0;
        while let Some(&lba) = self.units[0].blocks.get(self.folded) {
            let pba = self.shape.pba(self.units[0].id, self.folded as u32);
            if lba != FILL && self.map.get(lba) == Some(pba) {
                if done == most {
                    return Ok(done);
                }
                media.read(pba);
                ftl.fold(lba, media)?;
                self.map.take(lba);
                done += 1;
            }
            self.folded += 1;
        }
        self.release(ftl, media);
        Ok(done)
    }

    /// Erases the oldest unit, of which nothing is valid.
    fn release(&mut self, ftl: &mut Ftl<Handles>, media: &mut NandArray) {
        let unit = self.units.pop_front().expect("there is an oldest unit");
        self.open &= !self.units.is_empty();
        self.folded = 0;
        media.set_slc(unit.id, false);
        if unit.lent {
            self.lent -= 1;
            ftl.give_back(unit.id, media);
            return;
        }
        let own = (unit.id.0 - self.shape.units()) as usize;
        self.erases[own] += 1;
        self.programmed.erased += 1;
        media.erase_in_background(unit.id);
        self.free.push((unit.id, self.erases[own]));
        // The least worn comes last, as that is taken first.
        self.free.sort_by_key(|&(id, erases)| std::cmp::Reverse((erases, id.0)));
    }
}

#[cfg(test)]
mod tests;
