//! Page-mapped drives: conventional, multi-stream and FDP.

use thermocline_ftl::placement::{Classifier as _, Handles, Isolation};
use thermocline_ftl::{Ftl, Units};
use thermocline_types::{Bytes, Cause, Class, Lba, Op, Pba, Request, Time, UnitId};

use crate::aged::AgesAndLoss;
use crate::buffer::{Sectors, Waiting, WriteBuffer};
use crate::counters::Counters;
use crate::error::DriveError;
use crate::idle::IdleCollection;
use crate::media::NandArray;
use crate::profile::{Cut, Kind, Profile, ProfileError};
use crate::refresh::Patrol;
use crate::slc::{SlcCache, SlcProgrammed};

/// A drive that maps logical blocks to flash itself.
///
/// Writes smaller than a mapping unit, or not aligned to it, cost the rewrite of the whole unit, unless the write
/// buffer merges them first. Trims act on whole mapping units, as drives do.
#[derive(Clone, Debug)]
pub struct Mapped {
    cut: Cut,
    ftl: Ftl<Handles>,
    media: NandArray,
    buffer: Option<WriteBuffer>,
    slc: Option<SlcCache>,
    patrol: Option<Patrol>,
    idle: Option<IdleCollection>,
    power_loss_protection: bool,
    handles: u16,
    full: Sectors,
    counters: Counters,
}

/// What the translation layer programs for other reasons than writes of the host.
const MOVED: [Cause; 6] = [
    Cause::Padding,
    Cause::Relocation,
    Cause::WearLevelling,
    Cause::Folding,
    Cause::Refresh,
    Cause::ProgramFailure,
];

impl Mapped {
    /// A fresh drive.
    ///
    /// # Errors
    /// [`ProfileError`] when the open units of all handles do not fit the capacity.
    pub fn new(profile: &Profile, cut: Cut, seed: u64) -> Result<Self, ProfileError> {
        let placement = placement(profile);
        let victim =
            profile.gc.victim.parse().map_err(|error| {
                ProfileError::new(&profile.name, "gc.victim", &format!("{error}"))
            })?;
        let mut ftl = Ftl::new(cut.shape, placement, victim, seed)
            .map_err(|error| ProfileError::new(&profile.name, "op", &error.to_string()))?;
        if let Some(spread) = profile.wear.levelling_spread {
            ftl = ftl.with_wear_levelling(spread);
        }
        let merging = profile.buffer.as_ref().filter(|buffer| buffer.merge);
        let sectors = cut.mapping_unit.0 / Bytes::SECTOR.0;
        Ok(Mapped {
            slc: SlcCache::new(profile, &cut),
            patrol: Patrol::new(profile, &cut),
            idle: IdleCollection::new(&profile.gc, &cut),
            cut,
            ftl,
            media: NandArray::new(profile, &cut, seed),
            buffer: merging.map(|b| WriteBuffer::new((b.size.0 / cut.mapping_unit.0) as usize)),
            power_loss_protection: profile.buffer.as_ref().is_none_or(|b| b.power_loss_protection),
            handles: handles(profile),
            full: if sectors == 128 { Sectors::MAX } else { (1 << sectors) - 1 },
            counters: Counters::default(),
        })
    }

    /// Serves `request`, which arrives at `at`, with placement handle `handle`; returns when it is complete.
    ///
    /// # Errors
    /// [`DriveError`] for addresses beyond the capacity and for writes after the end of life.
    pub fn submit(&mut self, at: Time, request: &Request, handle: u16) -> Result<Time, DriveError> {
        if request.end() > self.cut.capacity() {
            return Err(DriveError::OutOfRange {
                end: request.end(),
                capacity: self.cut.capacity(),
            });
        }
        if let Some(slc) = &mut self.slc {
            // Fold before the request arrives, so folding uses the idle time.
            slc.idle_until(request.at, &mut self.ftl, &mut self.media)
                .map_err(|_| DriveError::EndOfLife)?;
        }
        if let Some(patrol) = &mut self.patrol {
            patrol
                .until(request.at, &mut self.ftl, &mut self.media)
                .map_err(|_| DriveError::EndOfLife)?;
        } else {
            self.media.set_clock(request.at.as_nanos());
        }
        if let Some(idle) = &mut self.idle {
            idle.until(request.at, &mut self.ftl, &mut self.media);
        }
        self.media.arrive(at);
        match request.op {
            Op::Write => self.write(request, handle),
            Op::Read => Ok(self.read(at, request)),
            Op::Trim | Op::WriteZeroes => {
                self.media.handle();
                self.trim(request);
                Ok(self.media.acknowledged())
            }
            Op::Flush => self.flush(),
        }
    }

    /// Brings the map entries that serving `requests` will use into the cache: the entries of blocks pushed out of the
    /// write buffer, or of the requests themselves. Changes nothing.
    #[inline]
    pub fn prefetch(&self, requests: &[Request]) {
        if let Some(buffer) = &self.buffer {
            buffer.upcoming().take(requests.len()).for_each(|lba| self.ftl.prefetch(lba));
            return;
        }
        for request in requests {
            let lba = Lba(request.offset.0 / self.cut.mapping_unit.0);
            if lba.0 < self.cut.shape.exported() {
                self.ftl.prefetch(lba);
            }
        }
    }

    /// Programs everything that waits in the write buffer.
    ///
    /// # Errors
    /// [`DriveError::EndOfLife`] when too many units are worn out; what could not be placed waits on.
    pub fn drain(&mut self) -> Result<(), DriveError> {
        while let Some(oldest) = self.buffer.as_mut().and_then(WriteBuffer::pop) {
            self.commit_or_keep(oldest)?;
        }
        Ok(())
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

    /// Placement handles that writes can carry; 1 where they carry none.
    #[must_use]
    pub fn placement_handles(&self) -> u16 {
        if self.handles == u16::MAX { 1 } else { self.handles }
    }

    /// The units, with open ones brought up to date.
    pub fn units(&mut self) -> &Units {
        self.ftl.units()
    }

    /// Units that can be opened now.
    #[must_use]
    pub fn free_units(&self) -> u64 {
        self.ftl.free_units() as u64
    }

    /// Checks that every block lies in one place, by a full scan. For tests.
    ///
    /// # Panics
    /// When one does not.
    #[cfg(test)]
    pub(crate) fn verify(&mut self) {
        self.ftl.verify();
        let Some(slc) = &self.slc else { return };
        for lba in (0..self.cut.shape.exported()).map(Lba) {
            let twice = slc.lookup(lba).is_some() && self.ftl.lookup(lba).is_some();
            assert!(!twice, "{lba:?} lies in the cache and outside");
        }
    }

    /// Whether the media hold `lba`. For tests.
    #[cfg(test)]
    pub(crate) fn holds(&self, lba: Lba) -> bool {
        self.lookup(lba).is_some()
    }

    /// Bytes of memory held by map and units.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.ftl.memory_bytes()
    }

    /// Bytes through the drive so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let unit = self.cut.mapping_unit.0;
        let mut counters = self.counters;
        let slc = self.slc_programmed();
        for cause in MOVED {
            counters.media[cause.index()] = self.ftl.programmed(cause) * unit;
        }
        counters.media[Cause::Padding.index()] += slc.padding * unit;
        counters.media_total =
            Cause::ALL.iter().map(|&cause| self.ftl.programmed(cause)).sum::<u64>() * unit;
        counters.media_total += slc.blocks * unit;
        counters.slc = slc.blocks * unit;
        counters.slc_lent = slc.lent * unit;
        counters.patrolled = self.patrol.as_ref().map_or(0, Patrol::blocks) * unit;
        counters.buffered =
            self.buffer.as_ref().map_or(0, |buffer| buffer.sectors() * Bytes::SECTOR.0);
        counters.erased = (self.ftl.erased() + slc.erased) * self.cut.unit().0;
        counters.media_reallocated = self.ftl.copied_from();
        counters.redirected = self.ftl.redirected();
        counters
    }

    /// Makes `handle` point at a fresh reclaim unit (FDP: Reclaim Unit Handle Update).
    pub fn update_handle(&mut self, handle: u16) {
        let class = self.ftl.placement().class_of_handle(handle);
        self.counters.units_not_full += u64::from(self.ftl.finish(class) > 0);
    }

    /// How old the data is that it holds now; nothing where units have no ages of their own.
    pub(crate) fn ages(&mut self) -> Option<AgesAndLoss> {
        let units = self.ftl.units();
        let valid: Vec<(UnitId, u32)> =
            units.ids().map(|unit| (unit, units.valid_count(unit))).collect();
        self.media.has_ages_of_units().then_some(())?;
        let (mut ages, mut bytes_in_all) = (AgesAndLoss::default(), 0.0);
        for (unit, blocks) in valid.into_iter().filter(|&(_, blocks)| blocks > 0) {
            let bytes = u64::from(blocks) * self.cut.mapping_unit.0;
            let (days, loss) = self.media.loss_of(unit, bytes)?;
            ages.mean_days += days * bytes as f64;
            ages.oldest_days = ages.oldest_days.max(days);
            ages.loss = ages.loss.plus(&loss);
            bytes_in_all += bytes as f64;
        }
        ages.mean_days /= f64::max(bytes_in_all, 1.0);
        Some(ages)
    }

    fn slc_programmed(&self) -> SlcProgrammed {
        self.slc.as_ref().map_or_else(SlcProgrammed::default, SlcCache::programmed)
    }

    /// Where `lba` lies on the media.
    #[inline]
    fn lookup(&self, lba: Lba) -> Option<Pba> {
        let cached = self.slc.as_ref().and_then(|slc| slc.lookup(lba));
        cached.or_else(|| self.ftl.lookup(lba))
    }

    fn write(&mut self, request: &Request, handle: u16) -> Result<Time, DriveError> {
        if self.buffer.as_ref().is_some_and(WriteBuffer::is_overfull) {
            return Err(DriveError::EndOfLife); // What an earlier write could not place still waits.
        }
        self.media.receive(request.length);
        self.counters.host_written += request.length.0;
        self.counters.invalid_handles += u64::from(handle >= self.handles);
        let unit = self.cut.mapping_unit.0;
        let (mut from, end) = (request.offset.0, request.end().0);
        while from < end {
            let lba = from / unit;
            let to = end.min((lba + 1) * unit);
            let sectors = self.sectors(from - lba * unit, to - lba * unit);
            let write = Waiting { lba: Lba(lba), sectors, handle };
            match &mut self.buffer {
                Some(buffer) => {
                    let overwritten = buffer.insert(write);
                    self.counters.absorbed += u64::from(overwritten) * Bytes::SECTOR.0;
                    let committed =
                        self.overflow().map_or(Ok(()), |oldest| self.commit_or_keep(oldest));
                    committed.inspect_err(|_| self.counters.host_written -= end - to)?;
                }
                None => {
                    let committed = self.commit(write);
                    committed.inspect_err(|_| self.counters.host_written -= end - from)?;
                }
            }
            from = to;
        }
        Ok(self.media.acknowledged())
    }

    /// Programs what was taken from the buffer; what no longer can be goes back.
    fn commit_or_keep(&mut self, oldest: Waiting) -> Result<(), DriveError> {
        let committed = self.commit(oldest);
        if let (Err(_), Some(buffer)) = (&committed, &mut self.buffer) {
            buffer.insert(oldest);
        }
        committed
    }

    fn overflow(&mut self) -> Option<Waiting> {
        self.buffer.as_mut().filter(|buffer| buffer.is_overfull())?.pop()
    }

    /// The sectors of a mapping unit from byte `from` to `to`; both are multiples of 512.
    #[inline]
    fn sectors(&self, from: u64, to: u64) -> Sectors {
        if to - from == self.cut.mapping_unit.0 {
            return self.full;
        }
        let (first, last) = (from / Bytes::SECTOR.0, to.div_ceil(Bytes::SECTOR.0));
        ((1 << (last - first)) - 1) << first
    }

    #[inline]
    fn commit(&mut self, write: Waiting) -> Result<(), DriveError> {
        let unit = self.cut.mapping_unit.0;
        let mut host = unit;
        if write.sectors != self.full {
            host = u64::from(write.sectors.count_ones()) * Bytes::SECTOR.0;
            self.media.read_to_modify(self.lookup(write.lba));
        }
        let written = match &mut self.slc {
            Some(slc) => slc.write(write.lba, &mut self.ftl, &mut self.media).map(|_| ()),
            None => {
                self.media.write_with(write.handle);
                self.ftl.write(write.lba, write.handle, &mut self.media)
            }
        };
        written.map_err(|_| DriveError::EndOfLife)?;
        self.counters.media[Cause::Host.index()] += host;
        self.counters.media[Cause::ReadModifyWrite.index()] += unit - host;
        self.media.commit(write.lba, write.sectors);
        Ok(())
    }

    fn read(&mut self, at: Time, request: &Request) -> Time {
        self.counters.host_read += request.length.0;
        let unit = self.cut.mapping_unit;
        let lbas = request.offset.0 / unit.0..request.end().div_ceil(unit);
        let (ftl, buffer, slc) = (&self.ftl, &self.buffer, &self.slc);
        let on_media =
            |lba| slc.as_ref().and_then(|slc| slc.lookup(lba)).or_else(|| ftl.lookup(lba));
        let waits = |lba| buffer.as_ref().is_some_and(|buffer| buffer.contains(lba));
        let blocks = lbas.map(Lba).map(|lba| if waits(lba) { None } else { on_media(lba) });
        self.media.read_for_host(at, request.offset, request.length, blocks)
    }

    fn trim(&mut self, request: &Request) {
        self.counters.host_trimmed += request.length.0;
        let unit = self.cut.mapping_unit;
        let (first, end) = (request.offset.div_ceil(unit), request.end().0 / unit.0);
        for lba in (first..end).map(Lba) {
            if let Some(buffer) = &mut self.buffer {
                self.counters.absorbed += u64::from(buffer.remove(lba)) * Bytes::SECTOR.0;
            }
            if let Some(slc) = &mut self.slc {
                slc.trim(lba);
            }
            self.ftl.trim(lba);
            self.media.trim(lba);
        }
    }

    /// With power-loss protection the buffer counts as durable. Without, it is programmed, and the last page of every
    /// open unit is programmed in part, or filled up where that cannot be.
    fn flush(&mut self) -> Result<Time, DriveError> {
        if self.power_loss_protection {
            self.media.handle();
            return Ok(self.media.acknowledged());
        }
        self.drain()?;
        if let Some(slc) = &mut self.slc {
            slc.pad(&mut self.ftl, &mut self.media);
        }
        for class in 0..self.ftl.placement().topology().classes() {
            let class = Class(class);
            if let Some((unit, next)) = self.ftl.frontier(class)
                && self.media.program_part(unit, next)
            {
                continue;
            }
            for _ in 0..self.ftl.slack(class) % self.cut.blocks_per_page {
                self.ftl.pad(class, &mut self.media);
            }
        }
        Ok(self.media.drained())
    }
}

fn placement(profile: &Profile) -> Handles {
    let separate = if profile.gc.separate { Isolation::Initially } else { Isolation::Shared };
    match (profile.kind, &profile.streams, &profile.fdp) {
        (Kind::MultiStream, Some(streams), _) => Handles::new(1, streams.count, separate),
        (Kind::Fdp, _, Some(fdp)) => {
            let persistent = fdp.persistently_isolated;
            let isolation = if persistent { Isolation::Persistently } else { separate };
            Handles::new(fdp.groups, fdp.handles, isolation)
        }
        _ => Handles::new(1, 1, separate),
    }
}

fn handles(profile: &Profile) -> u16 {
    match (profile.kind, &profile.streams, &profile.fdp) {
        (Kind::MultiStream, Some(streams), _) => u16::from(streams.count),
        (Kind::Fdp, _, Some(fdp)) => u16::from(fdp.groups) * u16::from(fdp.handles),
        _ => u16::MAX,
    }
}

#[cfg(test)]
mod tests;
