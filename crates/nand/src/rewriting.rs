//! Block-mapped drives, as the simple controllers of 2009: a map entry covers a whole erase block, so that every write
//! rewrites the blocks it touches.
//!
//! Two orders ([`RewriteOrder`]): read, erase, modify, write back into the same block; or read, modify, write into
//! another block and erase the old one when there is time.
//!
//! Every rewrite programs the whole block: what the host wrote, what was there and stays (read-modify-write), and fill
//! where nothing was ever written (padding), as the SNIA tutorial of 2009 counts it.

use std::collections::VecDeque;

use thermocline_ftl::{Erased, UnitState};
use thermocline_types::{Bytes, Cause, Op, Pba, Request, Time, UnitId};

use crate::counters::Counters;
use crate::drive::UnitView;
use crate::error::DriveError;
use crate::media::{NandArray, Rewrite};
use crate::profile::{Cut, Profile, ProfileError, RewriteOrder};

/// A drive that maps erase blocks.
#[derive(Clone, Debug)]
pub struct BlockMapped {
    cut: Cut,
    media: NandArray,
    order: RewriteOrder,
    /// The unit that holds each block of units' worth of addresses.
    map: Vec<Option<u32>>,
    /// Erased units, the one that was erased first in front: wear evens out by itself.
    free: VecDeque<u32>,
    erases: Vec<u32>,
    retired: Vec<bool>,
    /// Whether each sector holds data.
    written: Vec<u64>,
    counters: Counters,
}

impl BlockMapped {
    /// A fresh drive.
    ///
    /// # Errors
    /// [`ProfileError`] when no unit is left over to write into while another is still needed.
    pub fn new(profile: &Profile, cut: Cut, seed: u64) -> Result<Self, ProfileError> {
        let order = profile.rewrite.as_ref().map_or(RewriteOrder::Elsewhere, |r| r.order);
        let blocks = u64::from(cut.shape.blocks_per_unit());
        let logical = cut.shape.exported().div_ceil(blocks);
        let needed = logical + u64::from(order == RewriteOrder::Elsewhere);
        if u64::from(cut.shape.units()) < needed {
            let reason = format!("{needed} units are needed, the media has {}", cut.shape.units());
            return Err(ProfileError::new(&profile.name, "op", &reason));
        }
        let sectors = logical * blocks * cut.mapping_unit.0 / Bytes::SECTOR.0;
        Ok(BlockMapped {
            media: NandArray::new(profile, &cut, seed),
            order,
            map: vec![None; logical as usize],
            free: (0..cut.shape.units()).collect(),
            erases: vec![0; cut.shape.units() as usize],
            retired: vec![false; cut.shape.units() as usize],
            written: vec![0; sectors.div_ceil(64) as usize],
            counters: Counters::default(),
            cut,
        })
    }

    /// How the drive is cut.
    #[must_use]
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The media.
    #[must_use]
    pub fn media(&self) -> &NandArray {
        &self.media
    }

    /// The media, to say whose the data is.
    pub(crate) fn media_mut(&mut self) -> &mut NandArray {
        &mut self.media
    }

    /// Bytes through the drive so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Units that are erased.
    #[must_use]
    pub fn free_units(&self) -> u64 {
        self.free.len() as u64
    }

    /// Serves `request`, which arrives at `at`; returns when it is complete.
    ///
    /// # Errors
    /// [`DriveError`] for addresses beyond the capacity and for writes after the end of life.
    pub fn submit(&mut self, at: Time, request: &Request) -> Result<Time, DriveError> {
        if request.end() > self.cut.capacity() {
            return Err(DriveError::OutOfRange {
                end: request.end(),
                capacity: self.cut.capacity(),
            });
        }
        self.media.arrive(at);
        match request.op {
            Op::Write => self.write(request),
            Op::Read => Ok(self.read(at, request)),
            Op::Trim | Op::WriteZeroes => {
                self.media.handle();
                self.counters.host_trimmed += request.length.0;
                self.mark(sectors(request.offset, request.end()), false);
                Ok(self.media.acknowledged())
            }
            Op::Flush => {
                self.media.handle();
                Ok(self.media.acknowledged().max(self.media.drained()))
            }
        }
    }

    /// Every unit, in order.
    #[must_use]
    pub fn units(&self) -> Vec<UnitView> {
        let per_unit = self.sectors_per_unit();
        let mut views: Vec<UnitView> = self
            .erases
            .iter()
            .zip(&self.retired)
            .map(|(&erases, &retired)| UnitView {
                state: if retired { UnitState::Retired } else { UnitState::Free },
                fill: 0.0,
                valid: 0.0,
                erases,
            })
            .collect();
        for (logical, unit) in self.map.iter().enumerate() {
            let Some(unit) = unit else { continue };
            let first = logical as u64 * per_unit;
            let valid = (first..first + per_unit).filter(|&sector| self.holds(sector)).count();
            let view = &mut views[*unit as usize];
            view.state = UnitState::Closed;
            view.fill = 1.0;
            view.valid = valid as f32 / per_unit as f32;
        }
        views
    }

    fn sectors_per_unit(&self) -> u64 {
        self.cut.unit().0 / Bytes::SECTOR.0
    }

    fn holds(&self, sector: u64) -> bool {
        self.written[(sector / 64) as usize] >> (sector % 64) & 1 == 1
    }

    fn mark(&mut self, sectors: std::ops::Range<u64>, written: bool) {
        for sector in sectors {
            let bit = 1 << (sector % 64);
            let word = &mut self.written[(sector / 64) as usize];
            *word = if written { *word | bit } else { *word & !bit };
        }
    }

    fn write(&mut self, request: &Request) -> Result<Time, DriveError> {
        self.media.receive(request.length);
        let unit = self.cut.unit().0;
        let (mut from, end) = (request.offset.0, request.end().0);
        while from < end {
            let logical = from / unit;
            let to = end.min((logical + 1) * unit);
            self.rewrite(logical as usize, sectors(Bytes(from), Bytes(to)))?;
            self.counters.host_written += to - from;
            from = to;
        }
        Ok(self.media.acknowledged())
    }

    /// Rewrites the unit of `logical` with new data in the sectors `new`.
    fn rewrite(&mut self, logical: usize, new: std::ops::Range<u64>) -> Result<(), DriveError> {
        let per_unit = self.sectors_per_unit();
        let first = logical as u64 * per_unit;
        let kept: Vec<u64> = (first..first + per_unit)
            .filter(|sector| !new.contains(sector) && self.holds(*sector))
            .map(|sector| sector - first)
            .collect();
        let old = self.map[logical];
        let to = match (self.order, old) {
            (RewriteOrder::InPlace, Some(unit)) => unit,
            _ => self.free.pop_front().ok_or(DriveError::EndOfLife)?,
        };
        let page = self.cut.mapping_unit.0 * u64::from(self.cut.blocks_per_page) / Bytes::SECTOR.0;
        let mut pages: Vec<u32> = kept.iter().map(|sector| (sector / page) as u32).collect();
        pages.dedup();
        let in_place = self.order == RewriteOrder::InPlace;
        let to = if in_place && old.is_some() { self.erase_in_place(to)? } else { to };
        self.media.rewrite(&Rewrite {
            from: old.map(UnitId),
            kept_pages: &pages,
            to: UnitId(to),
            erase_first: in_place && old == Some(to),
        });
        self.map[logical] = Some(to);
        if let (Some(old), false) = (old, in_place) {
            self.erase_later(old);
        }
        let host = new.end - new.start;
        self.mark(new, true);
        self.count(host, kept.len() as u64);
        Ok(())
    }

    fn count(&mut self, host: u64, kept: u64) {
        let fill = self.sectors_per_unit() - host - kept;
        let causes = [(Cause::Host, host), (Cause::ReadModifyWrite, kept), (Cause::Padding, fill)];
        for (cause, sectors) in causes {
            self.counters.media[cause.index()] += sectors * Bytes::SECTOR.0;
        }
        self.counters.media_total += self.cut.unit().0;
        self.media.written(host * Bytes::SECTOR.0);
        self.media.charge(Cause::ReadModifyWrite, kept * Bytes::SECTOR.0);
        self.media.charge(Cause::Padding, fill * Bytes::SECTOR.0);
    }

    /// Erases `unit` to be written at once; where it is worn out, another takes its place.
    fn erase_in_place(&mut self, unit: u32) -> Result<u32, DriveError> {
        if self.wears(unit) == Erased::Usable {
            return Ok(unit);
        }
        self.retired[unit as usize] = true;
        self.free.pop_front().ok_or(DriveError::EndOfLife)
    }

    fn erase_later(&mut self, unit: u32) {
        self.media.erase_in_background(UnitId(unit));
        match self.wears(unit) {
            Erased::Usable => self.free.push_back(unit),
            Erased::WornOut => self.retired[unit as usize] = true,
        }
    }

    fn wears(&mut self, unit: u32) -> Erased {
        self.counters.erased += self.cut.unit().0;
        self.erases[unit as usize] += 1;
        self.media.wear(UnitId(unit), self.erases[unit as usize])
    }

    fn read(&mut self, at: Time, request: &Request) -> Time {
        self.counters.host_read += request.length.0;
        let (block, shape) = (self.cut.mapping_unit.0, self.cut.shape);
        let per_unit = u64::from(shape.blocks_per_unit());
        let blocks = request.offset.0 / block..request.end().0.div_ceil(block);
        let map = &self.map;
        let places = blocks.map(|lba| -> Option<Pba> {
            let unit = map[(lba / per_unit) as usize]?;
            Some(shape.pba(UnitId(unit), (lba % per_unit) as u32))
        });
        self.media.read_for_host(at, request.offset, request.length, places)
    }
}

fn sectors(from: Bytes, to: Bytes) -> std::ops::Range<u64> {
    from.0 / Bytes::SECTOR.0..to.0.div_ceil(Bytes::SECTOR.0)
}

#[cfg(test)]
mod tests;
