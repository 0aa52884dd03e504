//! Dies as the translation layer acts on them: pages fill, are programmed, read and erased; time passes, wear adds up.

use thermocline_ftl::{Erased, HandleAccounts, Shape};
use thermocline_types::{Bytes, Cause, Lba, Pba, Time, UnitId};

use crate::aged::{Legibility, Loss, ReadAttempts};
use crate::buffer::Sectors;
use crate::busy::BusyTimes;
use crate::owners::{OwnerRun, Owners};
use crate::profile::{Cut, Profile};
use crate::refresh::Ages;
use crate::thermal::Warmth;
use crate::timing::{Page, Timeline};
use crate::wear::Endurance;

/// The media of a drive.
#[derive(Clone, Debug)]
pub struct NandArray {
    shape: Shape,
    block: Bytes,
    blocks_per_page: u32,
    timeline: Option<Timeline>,
    endurance: Endurance,
    /// Bytes of the host so far, and when the first unit was worn out.
    received: u64,
    first_worn_out: Option<Bytes>,
    /// When the current request is acknowledged: a write, once its data is in the write buffer.
    acknowledged: Time,
    /// When the latest page got a place in the write buffer. Places are given in order of arrival, so that no later
    /// write is acknowledged before.
    admitted: Time,
    /// When the block that is being rewritten in part is whole.
    whole: Time,
    /// The same for pages that were begun, by unit: the latest of their blocks.
    begun: Vec<(UnitId, Time)>,
    /// How often a page may be programmed, and pages that were in part, one for each open unit at most.
    programs_per_page: u32,
    parts: Vec<PagePart>,
    /// Whether a write is acknowledged only when its blocks are whole.
    whole_units: bool,
    /// Which units are in SLC mode; empty without an SLC cache.
    slc: Vec<bool>,
    /// How old units are, where that matters.
    ages: Option<Ages>,
    /// What reads of the host are expected to lose, where wrong bits are modelled.
    losses: Loss,
    /// Owners of the data, if tracked.
    owners: Option<Box<Owners>>,
    /// Copies by placement handle, if tracked.
    handles: Option<Box<HandleAccounts>>,
    /// Whether nothing here is interested in what is programmed: neither time nor ages nor owners nor handles nor
    /// failures.
    is_bare: bool,
}

/// The page of an open unit that was programmed in part.
#[derive(Clone, Copy, Debug)]
struct PagePart {
    unit: UnitId,
    page: u32,
    /// Programs so far, and the blocks written.
    programs: u32,
    blocks: u32,
}

/// A whole unit to write: new data, and the data kept from an old unit.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite<'a> {
    /// The unit with the kept data.
    pub from: Option<UnitId>,
    /// Pages of `from` to read.
    pub kept_pages: &'a [u32],
    /// The unit to write.
    pub to: UnitId,
    /// Whether `to` is erased first, after the kept pages are read.
    pub erase_first: bool,
}

/// What the error correction of a read decodes at once, and so the least that crosses the channel. Chosen: the usual
/// size of a host block; makers do not publish it.
const CODEWORD: Bytes = Bytes::kib(4);

impl NandArray {
    /// Fresh media for `profile` cut to `cut`.
    #[must_use]
    pub fn new(profile: &Profile, cut: &Cut, seed: u64) -> Self {
        let pages = cut.shape.blocks_per_unit() / cut.blocks_per_page;
        // Data that waits to be merged takes the buffer's room; then only what is being programmed comes on top.
        let waiting = profile.buffer.as_ref().filter(|buffer| !buffer.merge);
        let buffer = waiting.map_or(Bytes::ZERO, |buffer| buffer.size);
        let slc = profile.slc.as_ref();
        let timeline = profile.geometry.as_ref().zip(profile.timing.as_ref());
        let erase_block = profile.geometry.as_ref().map_or(cut.unit(), |geometry| geometry.block);
        // A unit of a drive that is cut is smaller than the product's: it gets as many reads for each byte.
        let units = (cut.shape.units(), cut.unit().as_f64() / erase_block.as_f64());
        NandArray {
            shape: cut.shape,
            block: cut.mapping_unit,
            blocks_per_page: cut.blocks_per_page,
            timeline: timeline
                .map(|(geometry, timing)| Timeline::new(geometry, timing, slc, pages, buffer))
                .map(|timeline| match &profile.thermal {
                    Some(thermal) => timeline.with_heat(thermal),
                    None => timeline,
                })
                .map(|timeline| timeline.with_errors(Legibility::new(profile, units, seed))),
            endurance: Endurance::new(&profile.wear, cut.shape.units(), seed),
            received: 0,
            first_worn_out: None,
            acknowledged: Time::ZERO,
            admitted: Time::ZERO,
            whole: Time::ZERO,
            begun: Vec::new(),
            programs_per_page: profile.geometry.as_ref().map_or(1, |g| g.programs_per_page),
            parts: Vec::new(),
            whole_units: profile.buffer.as_ref().is_some_and(|buffer| buffer.whole_units),
            slc: match slc {
                Some(_) => vec![false; (cut.shape.units() + cut.slc_units(profile)) as usize],
                None => Vec::new(),
            },
            ages: profile.refresh.is_some().then(|| Ages::new(cut.shape.units())),
            losses: Loss::default(),
            owners: None,
            handles: None,
            is_bare: timeline.is_none()
                && profile.refresh.is_none()
                && profile.wear.program_failures == 0.0,
        }
    }

    /// From now on, follows whose the data is.
    pub(crate) fn follow(&mut self, owners: Owners) {
        self.owners = Some(Box::new(owners));
        self.is_bare = false;
    }

    /// From now on, follows through which of `handles` data is written and invalidated.
    pub(crate) fn follow_handles(&mut self, handles: u8) {
        self.handles = Some(Box::new(HandleAccounts::new(self.shape, handles)));
        self.is_bare = false;
    }

    /// Copies by placement handle, if tracked.
    pub(crate) fn handles(&self) -> Option<&HandleAccounts> {
        self.handles.as_deref()
    }

    /// The host writes with `handle` next.
    #[inline]
    pub(crate) fn write_with(&mut self, handle: u16) {
        if let Some(handles) = &mut self.handles {
            handles.write_with(handle);
        }
    }

    /// The host trimmed `lba`.
    #[inline]
    pub(crate) fn trim(&mut self, lba: Lba) {
        if let Some(handles) = &mut self.handles {
            handles.trim(lba);
        }
    }

    /// Owners of the data, if tracked.
    pub(crate) fn owners(&self) -> Option<&Owners> {
        self.owners.as_deref()
    }

    /// The bytes that are written next, from `at` on, belong to the owners of `runs`.
    pub(crate) fn claim(&mut self, at: Bytes, runs: &[OwnerRun]) {
        if let Some(owners) = &mut self.owners {
            owners.claim(at, runs);
        }
    }

    /// `bytes` of host data were programmed in place.
    pub(crate) fn written(&mut self, bytes: u64) {
        if let Some(owners) = &mut self.owners {
            owners.written(bytes);
        }
    }

    /// The drive programmed `lba` for the host, which had written `sectors`.
    #[inline]
    pub(crate) fn commit(&mut self, lba: Lba, sectors: Sectors) {
        if let Some(owners) = &mut self.owners {
            owners.commit(lba, self.block, sectors);
        }
    }

    /// `bytes` were programmed as a consequence of the latest host write.
    pub(crate) fn charge(&mut self, cause: Cause, bytes: u64) {
        if let Some(owners) = &mut self.owners {
            owners.charge(cause, bytes);
        }
    }

    /// Says what time it is by the requests' own clock.
    pub(crate) fn set_clock(&mut self, now: u64) {
        self.each_ages(|ages| ages.set_clock(now));
    }

    /// Applies `what` to the ages of the patrol and of the read errors.
    fn each_ages(&mut self, what: impl Fn(&mut Ages)) {
        if let Some(ages) = &mut self.ages {
            what(ages);
        }
        let errors = self.timeline.as_mut().and_then(Timeline::errors_mut);
        if let Some(ages) = errors.and_then(Legibility::ages_mut) {
            what(ages);
        }
    }

    /// What reads of the host were expected to lose so far.
    #[must_use]
    pub fn losses(&self) -> Loss {
        self.losses
    }

    /// Whether wrong bits depend on the age of each unit.
    pub(crate) fn has_ages_of_units(&mut self) -> bool {
        let errors = self.timeline.as_mut().and_then(Timeline::errors_mut);
        errors.and_then(Legibility::ages_mut).is_some()
    }

    /// How many days old `unit` is, and what reading `bytes` of it now is expected to lose; nothing where wrong bits
    /// are not modelled.
    pub fn loss_of(&mut self, unit: UnitId, bytes: u64) -> Option<(f64, Loss)> {
        let errors = self.timeline.as_mut().and_then(Timeline::errors_mut)?;
        Some((errors.age_days(unit), errors.loss(unit, bytes)))
    }

    /// How old units are, where that matters.
    pub(crate) fn ages(&self) -> Option<&Ages> {
        self.ages.as_ref()
    }

    pub(crate) fn pba(&self, unit: UnitId, offset: u32) -> Pba {
        self.shape.pba(unit, offset)
    }

    /// Whether time is modelled.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.timeline.is_some()
    }

    /// How long each resource was busy since the start; `None` where time is not modelled.
    #[must_use]
    pub fn busy(&self) -> Option<BusyTimes> {
        self.timeline.as_ref().map(Timeline::busy)
    }

    /// How warm the drive is, where that is modelled.
    #[must_use]
    pub fn warmth(&self) -> Option<Warmth> {
        self.timeline.as_ref().and_then(Timeline::warmth)
    }

    /// Page reads so far and their attempts; zero if not modelled.
    #[must_use]
    pub fn attempts(&self) -> ReadAttempts {
        self.timeline.as_ref().map_or_else(ReadAttempts::default, Timeline::attempts)
    }

    /// Endurance and spares.
    #[must_use]
    pub fn endurance(&self) -> &Endurance {
        &self.endurance
    }

    /// Bytes that the host had written when the first unit was worn out, if one is.
    #[must_use]
    pub fn first_worn_out(&self) -> Option<Bytes> {
        self.first_worn_out
    }

    /// Puts `unit` into SLC mode or out of it.
    pub fn set_slc(&mut self, unit: UnitId, slc: bool) {
        self.slc[unit.index()] = slc;
    }

    /// A request arrives.
    #[inline]
    pub fn arrive(&mut self, at: Time) {
        self.acknowledged = at;
        if let Some(timeline) = &mut self.timeline {
            timeline.arrive(at);
        }
    }

    /// `bytes` of a host write come over the link, behind earlier writes that wait for the write buffer.
    #[inline]
    pub fn receive(&mut self, bytes: Bytes) {
        self.received += bytes.0;
        if let Some(timeline) = &mut self.timeline {
            self.acknowledged = timeline.receive(bytes).max(self.admitted);
        }
    }

    /// A command without data is handled.
    #[inline]
    pub fn handle(&mut self) {
        if let Some(timeline) = &mut self.timeline {
            self.acknowledged = timeline.receive(Bytes::ZERO);
        }
    }

    /// When the current request is acknowledged: a write, once its data is in the write buffer.
    #[inline]
    #[must_use]
    pub fn acknowledged(&self) -> Time {
        self.acknowledged
    }

    /// When all host data is on the media.
    #[must_use]
    pub fn drained(&self) -> Time {
        self.timeline.as_ref().map_or(self.acknowledged, Timeline::drained)
    }

    /// Reads `length` bytes at `offset` for the host, of which `blocks` says where the blocks lie, merging neighbours
    /// of one page; returns when the host has them. Only the codewords asked for cross the channel. Blocks that lie
    /// nowhere cost no media read.
    pub fn read_for_host(
        &mut self,
        at: Time,
        offset: Bytes,
        length: Bytes,
        blocks: impl Iterator<Item = Option<Pba>>,
    ) -> Time {
        let (block, codeword) = (self.block.0, CODEWORD.min(self.block).0);
        let wanted =
            offset.0 / codeword * codeword..(offset.0 + length.0).div_ceil(codeword) * codeword;
        let first = offset.0 / block * block;
        let blocks = (first..).step_by(block as usize).zip(blocks).filter_map(|(start, pba)| {
            let bytes = wanted.end.min(start + block) - wanted.start.max(start);
            pba.map(|pba| (pba, bytes))
        });
        let ready = self.gather(blocks);
        match &mut self.timeline {
            Some(timeline) => timeline.send(ready, length),
            None => at,
        }
    }

    /// Reads the block at `pba` in order to rewrite the rest of the block. The next write waits for the read.
    #[inline]
    pub fn read_to_modify(&mut self, pba: Option<Pba>) {
        let Some(page) = pba.map(|pba| self.page(pba)) else { return };
        let Some(timeline) = &mut self.timeline else { return };
        self.whole = timeline.read_to_modify(page, self.block);
        if self.whole_units {
            self.acknowledged = self.acknowledged.max(self.whole);
        }
    }

    /// Reads so many bytes of each block; returns when the controller has them all.
    fn gather(&mut self, blocks: impl Iterator<Item = (Pba, u64)>) -> Time {
        let Some(mut ready) = self.timeline.as_ref().map(Timeline::now) else {
            let shape = self.shape;
            // They are counted as read without time as well.
            blocks.for_each(|(pba, _)| self.each_ages(|ages| ages.read(shape.unit(pba))));
            return Time::ZERO;
        };
        let mut pending: Option<(Page, u64)> = None;
        for (pba, bytes) in blocks {
            let page = self.page(pba);
            self.each_ages(|ages| ages.read(page.unit));
            match &mut pending {
                Some((last, gathered)) if *last == page => *gathered += bytes,
                _ => ready = ready.max(self.read_page(pending.replace((page, bytes)))),
            }
        }
        ready.max(self.read_page(pending))
    }

    fn read_page(&mut self, read: Option<(Page, u64)>) -> Time {
        match (&mut self.timeline, read) {
            (Some(timeline), Some((page, bytes))) => {
                if let Some(errors) = timeline.errors_mut().filter(|_| !page.slc) {
                    self.losses = self.losses.plus(&errors.loss(page.unit, bytes));
                }
                timeline.read(page, Bytes(bytes))
            }
            _ => Time::ZERO,
        }
    }

    /// Reads what stays, erases if asked, and programs the whole unit, one after the other. The pages take places in
    /// the write buffer.
    pub fn rewrite(&mut self, rewrite: &Rewrite<'_>) {
        let Some(timeline) = &mut self.timeline else { return };
        let bytes = Bytes(self.block.0 * u64::from(self.blocks_per_page));
        let page_of = |unit, page| Page { unit, page, slc: false };
        let mut ready = timeline.now();
        if let Some(unit) = rewrite.from {
            for &page in rewrite.kept_pages {
                ready = ready.max(timeline.read(page_of(unit, page), bytes));
            }
        }
        if rewrite.erase_first {
            ready = timeline.erase_now(rewrite.to, ready);
        }
        for page in 0..self.shape.blocks_per_unit() / self.blocks_per_page {
            self.admitted = self.admitted.max(timeline.admit());
            self.acknowledged = self.acknowledged.max(self.admitted);
            timeline.program_host(page_of(rewrite.to, page), ready);
        }
    }

    /// Programs the new blocks of the page of `unit` before block `next`, and leaves the rest of the page for later.
    /// Returns `false` if the page must fill up first: the last permitted program of a page must complete the page.
    pub fn program_part(&mut self, unit: UnitId, next: u32) -> bool {
        let (page, blocks) = (next / self.blocks_per_page, next % self.blocks_per_page);
        self.parts.retain(|part| part.unit != unit || part.page == page);
        let known = self.parts.iter().position(|part| part.unit == unit);
        let before = known.map_or((0, 0), |at| (self.parts[at].programs, self.parts[at].blocks));
        let (programs, done) = before;
        if blocks == done {
            return true;
        }
        if programs + 1 >= self.programs_per_page {
            return false;
        }
        let part = PagePart { unit, page, programs: programs + 1, blocks };
        match known {
            Some(at) => self.parts[at] = part,
            None => self.parts.push(part),
        }
        let whole = self.take_begun(unit);
        if let Some(timeline) = &mut self.timeline {
            self.admitted = self.admitted.max(timeline.admit());
            self.acknowledged = self.acknowledged.max(self.admitted);
            let bytes = Bytes(u64::from(blocks - done) * self.block.0);
            timeline.program_part(Page { unit, page, slc: false }, bytes, whole);
        }
        true
    }

    /// The page being written in a unit is full; returns the number of blocks already programmed.
    fn end_part(&mut self, page: Page) -> u32 {
        let mut blocks = 0;
        self.parts.retain(|part| {
            blocks =
                if part.unit == page.unit && part.page == page.page { part.blocks } else { blocks };
            part.unit != page.unit
        });
        blocks
    }

    /// When the blocks of the page of `unit` that was begun are whole; it is no longer begun.
    fn take_begun(&mut self, unit: UnitId) -> Time {
        let mut whole = Time::ZERO;
        self.begun.retain(|&(begun, ready)| {
            whole = if begun == unit { whole.max(ready) } else { whole };
            begun != unit
        });
        whole
    }

    /// Erases a unit when there is time, without wear: see [`NandArray::wear`].
    pub fn erase_in_background(&mut self, unit: UnitId) {
        if let Some(timeline) = &mut self.timeline {
            timeline.erase(unit);
        }
    }

    /// Records that `unit` is being erased for the `erases`-th time, without taking time.
    pub fn wear(&mut self, unit: UnitId, erases: u32) -> Erased {
        self.parts.retain(|part| part.unit != unit);
        if let Some(timeline) = &mut self.timeline {
            timeline.wear(unit, erases);
        }
        let erased = self.endurance.erase(unit, erases);
        if self.first_worn_out.is_none() && self.endurance.worn_out() > 0 {
            self.first_worn_out = Some(Bytes(self.received));
        }
        erased
    }

    fn page(&self, pba: Pba) -> Page {
        let unit = self.shape.unit(pba);
        let slc = self.slc.get(unit.index()).copied().unwrap_or_default();
        Page { unit, page: self.shape.offset(pba) / self.blocks_per_page, slc }
    }
}

impl thermocline_ftl::Media for NandArray {
    #[inline]
    fn read(&mut self, pba: Pba) {
        let page = self.page(pba);
        if let Some(timeline) = &mut self.timeline {
            timeline.read_to_relocate(page, self.block);
        }
    }

    #[inline]
    fn program(&mut self, pba: Pba, lba: Option<Lba>, cause: Cause) {
        if self.is_bare {
            return;
        }
        if let Some(owners) = &mut self.owners {
            owners.program(lba, self.block, cause);
        }
        if let Some(handles) = &mut self.handles {
            handles.program(pba, lba, cause);
        }
        let page = self.page(pba);
        if self.shape.offset(pba) == 0 {
            self.each_ages(|ages| ages.begin(page.unit));
        }
        if (self.shape.offset(pba) + 1).is_multiple_of(self.blocks_per_page) {
            self.endurance.program(page.unit);
        }
        if self.timeline.is_none() {
            return;
        }
        let relocated = matches!(
            cause,
            Cause::Relocation
                | Cause::WearLevelling
                | Cause::Folding
                | Cause::Refresh
                | Cause::ProgramFailure
        );
        let mut whole = if relocated { Time::ZERO } else { std::mem::take(&mut self.whole) };
        if self.shape.offset(pba) % self.blocks_per_page + 1 != self.blocks_per_page {
            if whole > Time::ZERO {
                self.begun.push((page.unit, whole));
            }
            return;
        }
        whole = whole.max(self.take_begun(page.unit));
        let left = Bytes(u64::from(self.blocks_per_page - self.end_part(page)) * self.block.0);
        let Some(timeline) = &mut self.timeline else { return };
        if relocated {
            timeline.program_relocated(page);
            return;
        }
        self.admitted = self.admitted.max(timeline.admit());
        self.acknowledged = self.acknowledged.max(self.admitted);
        timeline.program_rest(page, left, whole);
    }

    #[inline]
    fn failing(&self) -> Option<UnitId> {
        self.endurance.failing()
    }

    #[inline]
    fn erase(&mut self, unit: UnitId, erases: u32) -> Erased {
        if let Some(handles) = &mut self.handles {
            handles.erase(unit, erases);
        }
        if self.endurance.is_failing(unit) {
            return self.wear(unit, erases);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.erase(unit);
        }
        self.wear(unit, erases)
    }
}
