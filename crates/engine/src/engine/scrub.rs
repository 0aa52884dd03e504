//! Scrub: reads all valid data and compares the data with the checksums.
//!
//! Unit by unit, chunk by chunk: every block that a map points at is compared with the 32 bits in the header of its
//! chunk. Blocks that no sound header tells of are found by the maps and compared with the 28 bits there, and the
//! header is reported. Damage is reported by location, and the scrub changes no data. On a device with redundancy every
//! version is compared, and a right version overwrites a wrong version.
//!
//! Invariants:
//! * Only blocks that count at the time of the report are reported: a hole that a crash left between chunks is no
//!   damage, nor is a block that was overwritten while it was being read.
//! * A unit that is looked at is not reset: its place in memory has a reader.

mod counted;
mod pace;
mod versions;

use std::collections::VecDeque;
use std::fmt::Debug;

use rustc_hash::FxHashSet;
use thermocline_format::{Entry, Location, MapEntry, PageId, VolumeId, home_mark};
use thermocline_types::{Lba, Time, UnitId, Version};

use crate::device::{DeviceCmd, DeviceError, FoundChunk, FoundChunks, ReadChunks, Versions};
use crate::durability::Then;
use crate::engine::{Op, Parts, Phase};
use crate::map::{PAGE, Value, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{Loaded, Needs, WORDS};
use crate::payload::Payload;
use crate::request::{Action, Extent, Notice, Reply};
use crate::volumes::{PageCursor, Walk};
use versions::Disputed;

pub(crate) use counted::Counted;
pub(crate) use pace::Pace;
pub use pace::ScrubProgress;

/// Most single-block reads in flight. Chosen, not measured.
const READS: u32 = 32;

/// Blocks, or pages of maps, looked at in one step. Chosen so that a step takes well under a millisecond.
const COMPARED: usize = 4096;
const SEARCHED: u32 = 16;

/// The result of a read, while unknown whether the block counts.
#[derive(Clone, Copy, Debug)]
struct Compared {
    block: Counted,
    at: Location,
    /// Whether the checksum matches.
    sound: bool,
    /// Whether the block is missing from the headers.
    missing: bool,
    /// Its chunk among [`Scrub::disputed`], if not every version has the header.
    disputed: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing was done yet.
    Begin,
    /// Pages of maps that could not be read are tried once more.
    Retry,
    /// The next unit is to be begun.
    Next,
    /// Chunks are read, from this logical block of the unit on.
    Walk(u32),
    /// The unit was read to where its chunks end: of the blocks that were compared, this many were looked at again, and
    /// this many count.
    Recount(usize, u32),
    /// Blocks are missing: the maps are searched for them, from here on.
    Search(PageCursor),
    /// And the roots.
    Roots(PageCursor),
    /// Reading the blocks found.
    Read,
    /// Reading the compared blocks, from this index on, without this member.
    Versions(u8, usize),
    /// Rewriting the wrong blocks; the last step of a unit.
    Heal,
}

/// Who wants a scrub.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// A request, which waits for it.
    Host(u32),
    /// Nobody waits for it.
    Background(Pace),
    /// Nobody any more: it ends when the device has answered.
    Nobody,
}

/// A scrub in progress.
#[derive(Debug)]
pub(crate) struct Scrub {
    asked: Asked,
    unit: UnitId,
    step: Step,
    /// Where the chunks of the unit end.
    end: u32,
    waiting: u32,
    /// Pages of maps that could not be read: the next one last.
    suspects: Vec<(u16, VolumeId, u64)>,
    /// What of the unit was compared; in a search, by address.
    seen: Vec<Counted>,
    compared: FxHashSet<u64>,
    /// Blocks of pages that are not in memory: the next one last.
    judging: Vec<Compared>,
    /// Places of blocks that a header told of and that did not count then, or whose page of the map could not be read.
    told: FxHashSet<u64>,
    /// The first block that a header should tell of, and does not.
    untold: Option<Location>,
    /// Blocks still to be read singly, each with whether it is missing from the headers.
    left: Vec<(Counted, bool)>,
    /// Chunks whose header not every version has, each with the version that alone has it, until a block of it counts.
    disputed: Vec<Option<Disputed>>,
    /// Places that one version has wrong and another right, on a device with redundancy.
    wrong: Vec<Location>,
    blocks: u64,
    damaged: u64,
    mended: u64,
    /// As it was when the unit was begun.
    begun: ScrubProgress,
}

impl Scrub {
    /// The progress of a background scrub.
    fn in_background(&self) -> Option<ScrubProgress> {
        matches!(self.asked, Asked::Background(_)).then_some(self.begun)
    }

    /// Whether it looks at a unit, of which it is a reader.
    fn is_in_unit(&self) -> bool {
        !matches!(self.step, Step::Begin | Step::Retry | Step::Next)
    }

    /// The device has answered. A background scrub then rests.
    fn answered(&mut self, now: Time) {
        self.waiting -= 1;
        self.rest(now);
    }

    /// Nothing more of the unit is read.
    fn leave_unit(&mut self) {
        self.seen.clear();
        self.left.clear();
        if let Step::Walk(_) = self.step {
            self.step = Step::Read;
        }
    }

    fn rest(&mut self, now: Time) {
        if let Asked::Background(pace) = &mut self.asked {
            pace.rest(now);
        }
    }
}

/// The scrubs that were asked for; the first one is in progress.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    scrubs: VecDeque<Scrub>,
}

impl Scrubber {
    pub(crate) fn begin<P: Payload>(&mut self, p: &mut Parts<P>, asked: Asked, from: UnitId) {
        let unit = from.min(UnitId(p.config.geometry.units()));
        self.scrubs.push_back(Scrub {
            asked,
            unit,
            step: Step::Begin,
            end: 0,
            waiting: 0,
            suspects: Vec::new(),
            seen: Vec::new(),
            compared: FxHashSet::default(),
            judging: Vec::new(),
            told: FxHashSet::default(),
            untold: None,
            left: Vec::new(),
            disputed: Vec::new(),
            wrong: Vec::new(),
            blocks: 0,
            damaged: 0,
            mended: 0,
            begun: ScrubProgress { unit, blocks: 0, damaged: 0, mended: 0 },
        });
    }

    /// Takes the first scrub a step further. Returns whether anything was done.
    pub(crate) fn step<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        // Until a recovery is itself safe, blocks count that nothing leads to.
        if !p.superblocks.are_settled() && p.phase != Phase::Failed {
            return false;
        }
        mark!(ScrubFailedPool if p.phase == Phase::Failed && !self.scrubs.is_empty());
        let Some(mut scrub) = self.scrubs.pop_front() else { return false };
        let reading = match scrub.step {
            Step::Read => !scrub.left.is_empty(),
            Step::Versions(member, _) => member < p.members_of(scrub.unit),
            _ => false,
        };
        let abreast = if let Asked::Host(_) = scrub.asked { READS } else { 1 };
        // A pool that failed flushes no more: the device's answers are all there is to wait for.
        let ended = matches!(scrub.step, Step::Walk(from) if from >= scrub.end);
        let writers = || p.space.has_writers(scrub.unit);
        let blocked = p.phase == Phase::Failed && ended && writers();
        if scrub.is_given_up(p) {
            return true;
        }
        if blocked || scrub.waiting > 0 && !(reading && scrub.waiting < abreast) {
            self.scrubs.push_front(scrub);
            return false;
        }
        if !scrub.judging.is_empty() {
            let worked = scrub.judge(p);
            self.scrubs.push_front(scrub);
            return worked;
        }
        if scrub.is_in_unit() && p.space.units().valid_count(scrub.unit) == 0 {
            // The unit holds no valid block any more: a reset need not wait.
            mark!(ScrubLeavesUnit);
            scrub.leave_unit();
        }
        if scrub.rests(p, self.scrubs.is_empty()) {
            self.scrubs.push_front(scrub);
            return false;
        }
        let mut worked = true;
        match scrub.step {
            Step::Begin => {
                scrub.suspects = p.take_damaged();
                scrub.step = Step::Retry;
            }
            Step::Retry => worked = scrub.retry(p),
            Step::Next => {
                if scrub.next_unit(p) {
                    return true;
                }
            }
            Step::Walk(from) if from < scrub.end => scrub.on(p, from),
            Step::Walk(_) => scrub.end(p),
            Step::Recount(done, counting) => {
                worked = scrub.recount(p, done, counting);
            }
            Step::Search(cursor) => worked = scrub.search(p, cursor),
            Step::Roots(cursor) => scrub.search_roots(p, cursor),
            Step::Read => match scrub.left.pop() {
                Some((block, missing)) => scrub.read_block(p, block, missing),
                None => scrub.unit_is_read(p),
            },
            Step::Versions(member, from) => scrub.read_versions(p, member, from),
            Step::Heal => worked = scrub.heals(p),
        }
        self.scrubs.push_front(scrub);
        worked
    }

    pub(crate) fn found<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        found: Result<FoundChunks<P>, DeviceError>,
    ) {
        let Some(mut scrub) = self.scrubs.pop_front() else { return };
        scrub.answered(p.now);
        let Step::Walk(from) = scrub.step else { panic!("a unit is being walked through") };
        mark!(ScrubUnreadable if found.is_err());
        // What cannot be read as a whole is read block by block.
        let mut next = scrub.end;
        if let Ok(found) = found {
            next = found.next;
            for chunk in &found.chunks {
                let at = chunk.header.origin.location;
                let packed = u32::from(chunk.header.packed.is_some());
                let behind = chunk.header.data_blocks() - packed;
                let whole = chunk.data.as_ref().map_or(0, |(_, whole)| *whole);
                if whole < behind && at.block > from {
                    mark!(ScrubReadsAgain);
                    // The chunk ends beyond the read: the next read begins at the chunk.
                    next = at.block;
                    break;
                }
                scrub.chunk(p, chunk);
            }
        }
        scrub.step = Step::Walk(next.max(from + 1));
        self.scrubs.push_front(scrub);
    }

    pub(crate) fn block_read<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        block: Counted,
        missing: bool,
        data: Option<&P>,
    ) {
        let Some(mut scrub) = self.scrubs.pop_front() else { return };
        scrub.answered(p.now);
        mark!(ScrubReadsBlock);
        let at = p.addresses.location(block.value.address());
        let sound = data.is_some_and(|data| block.is_right(p, data, 0));
        if missing {
            scrub.judging.push(Compared { block, at, sound, missing, disputed: None });
        } else if !sound {
            mark!(ScrubBlockDamaged);
            scrub.hit(p, at, block.extent(p));
        }
        self.scrubs.push_front(scrub);
    }

    pub(crate) fn goes_on(&mut self) {
        if let Some(scrub) = self.scrubs.front_mut() {
            scrub.waiting -= 1;
        }
    }

    /// Whether no scrub was asked for.
    pub(crate) fn is_idle(&self) -> bool {
        self.scrubs.is_empty()
    }

    /// The unit that the scrub in progress looks at.
    pub(crate) fn unit(&self) -> Option<UnitId> {
        self.scrubs.front().map(|scrub| scrub.unit)
    }

    /// How far a scrub is for which nobody waits.
    pub(crate) fn in_background(&self) -> Option<ScrubProgress> {
        self.scrubs.iter().find_map(Scrub::in_background)
    }
}

impl Scrub {
    /// Whether the map page of a block can be looked at; requests a missing page. `None` if the page is damaged.
    fn page_of<P: Payload>(&self, p: &mut Parts<P>, block: Counted) -> Option<bool> {
        let Some(volume) = p.volumes.layer(block.volume).filter(|_| block.volume.is_user()) else {
            return Some(true);
        };
        let lba = block.lba.0;
        if lba >= p.volumes.map(volume).blocks {
            return Some(true);
        }
        self.needs(p, volume, lba / PAGE)
    }

    /// Whether a page is in memory; requests a missing page. `None` if it is damaged.
    fn needs<P: Payload>(&self, p: &mut Parts<P>, volume: u16, page: u64) -> Option<bool> {
        p.pages.need(Needs::Scrub, Some((volume, page)));
        let loaded = p.loaded(volume, page * PAGE, page * PAGE + 1, Share::Upkeep);
        if let Loaded::Wait(_) | Loaded::NoRoom = loaded {
            mark!(ScrubLoads);
            return Some(false);
        }
        p.pages.need(Needs::Scrub, None);
        matches!(loaded, Loaded::Yes).then_some(true)
    }

    /// Looks whether what was compared counts, from page to page. Returns whether anything was done.
    fn judge<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let before = self.judging.len();
        while let Some(compared) = self.judging.last().copied() {
            match self.page_of(p, compared.block) {
                Some(false) => break,
                Some(true) => self.compared(p, compared),
                None => {
                    mark!(ScrubUnjudged if !compared.missing);
                    self.told.extend((!compared.missing).then(|| compared.block.value.address()));
                }
            }
            self.judging.pop();
        }
        if self.judging.len() < before {
            // Pages of maps that had to be read count for it as well.
            self.rest(p.now);
        }
        self.judging.len() < before
    }

    /// A block was compared, and whether it counts can be told.
    fn compared<P: Payload>(&mut self, p: &mut Parts<P>, compared: Compared) {
        let Compared { block, at, sound, missing, disputed } = compared;
        if !block.counts(p) || !missing && self.is_behind_failed(p, at) {
            self.told.extend((!missing).then(|| block.value.address()));
            return;
        }
        self.blocks += 1;
        if let Some(header) = disputed.and_then(|index| self.disputed[index].take()) {
            self.header(p, &header);
        }
        if !missing {
            self.seen.push(block);
        } else if !self.told.contains(&block.value.address()) {
            self.untold = Some(self.untold.filter(|first| first.block < at.block).unwrap_or(at));
        }
        if !sound && !missing && p.members_of(at.unit) > 0 {
            // Another version may have it.
            self.left.push((block, false));
        } else if !sound {
            mark!(ScrubBlockDamaged if !missing);
            self.hit(p, at, block.extent(p));
        }
    }

    /// Reads pages again that could not be read before: the device may be well again. Returns whether it did anything.
    fn retry<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let before = self.suspects.len();
        while let Some((volume, id, page)) = self.suspects.last().copied() {
            if p.volumes.is(volume, id) && page < p.volumes.map(volume).pages() {
                match self.needs(p, volume, page) {
                    Some(false) => return self.suspects.len() < before,
                    Some(true) => {
                        mark!(ScrubMapRecovered);
                    }
                    None => {
                        mark!(ScrubMapDamaged);
                        let at = p.volumes.map(volume).page_at(page);
                        let at = at.location(&p.config.geometry);
                        let at = at.expect("a page that is nowhere is not damaged");
                        self.hit(p, at, Some(p.extent_of_page(volume, page)));
                    }
                }
            }
            self.suspects.pop();
        }
        self.step = Step::Next;
        true
    }

    /// Begins with the next unit. Returns whether there was none, and the scrub is over.
    fn next_unit<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        if self.unit.0 == p.config.geometry.units() {
            let Scrub { asked, blocks, damaged, mended, .. } = *self;
            match asked {
                Asked::Host(request) => {
                    let reply = Reply::Scrubbed { blocks, damaged, mended };
                    p.requests.set_reply(request, reply);
                    p.request_progress(request, 1, None);
                }
                Asked::Background(_) => {
                    let notice = Notice::Scrubbed { blocks, damaged, mended };
                    p.actions.push_back(Action::Notice(notice));
                }
                Asked::Nobody => {}
            }
            return true;
        }
        self.end = 0;
        if p.space.sealed_into(self.unit) == 0 || p.space.units().valid_count(self.unit) == 0 {
            self.unit.0 += 1;
        } else {
            p.space.add_reader(self.unit);
            let Scrub { unit, blocks, damaged, mended, .. } = *self;
            self.begun = ScrubProgress { unit, blocks, damaged, mended };
            self.step = Step::Walk(0);
        }
        false
    }

    /// Every known chunk of the unit was read: newer chunks may exist by now. The scrub waits for chunks in flight.
    fn end<P: Payload>(&mut self, p: &mut Parts<P>) {
        let extent = p.space.sealed_into(self.unit);
        if p.space.has_writers(self.unit) {
            self.waiting += 1;
            mark!(ScrubWaits);
            p.await_next_flush(Then::Scrub);
        } else if extent > self.end {
            mark!(ScrubGoesFurther if self.end > 0);
            self.end = extent;
        } else {
            self.step = Step::Recount(0, 0);
        }
    }

    fn on<P: Payload>(&mut self, p: &mut Parts<P>, from: u32) {
        let block = p.config.geometry.logical_block();
        let longest = block.max_chunk() + block.to_hold(thermocline_format::MAX_HEADER_BYTES);
        self.waiting += 1;
        let at = Location { unit: self.unit, block: from };
        let window = longest.min(self.end - from);
        let generation = p.space.generation(at.unit);
        let generation = (generation.0 > 0).then_some(generation);
        let pool = p.pool;
        let versions = Versions::All(p.members_of(at.unit));
        let cmd = ReadChunks { at, window, pool, generation, search: true, data: true, versions };
        let op = p.ops.insert(Op::ScrubChunks);
        p.device(op, DeviceCmd::ReadChunks(cmd));
    }

    /// Something is wrong at `at`.
    fn hit<P: Payload>(&mut self, p: &mut Parts<P>, at: Location, holds: Option<Extent>) {
        self.damaged += 1;
        p.stats.damaged_blocks += 1;
        p.report_damage(at, holds);
    }

    fn chunk<P: Payload>(&mut self, p: &mut Parts<P>, chunk: &FoundChunk<P>) {
        let geometry = p.config.geometry;
        let disputed = (!chunk.everywhere).then_some(self.disputed.len());
        self.disputed.extend(disputed.map(|_| Some(Disputed::of(chunk, &geometry))));
        let blocks = chunk.header.placed(&geometry).filter_map(|(entry, at)| Some((*entry, at?)));
        let places = chunk.header.places(&geometry);
        for (number, (entry, at)) in (0..).zip(blocks) {
            let Entry::Data { volume, lba, crc } = entry else { continue };
            // A crash may have cut the last chunk of a zone short.
            let Some(found) = chunk.block(number, &places) else { continue };
            let block = Counted { volume, lba, value: Value::new(geometry.address(at), crc) };
            mark!(PackedScrubbed if places.behind(number).is_none());
            let sound = found.crc(0) ^ home_mark(volume, lba) == crc;
            self.judging.push(Compared { block, at, sound, missing: false, disputed });
        }
    }

    /// Looks again at what was compared: blocks that count and were not are missing.
    fn recount<P: Payload>(&mut self, p: &mut Parts<P>, done: usize, mut counting: u32) -> bool {
        if done == 0 {
            self.seen.sort_unstable_by_key(|block| (block.volume.0, block.lba));
        }
        let mut until = done;
        while until < self.seen.len().min(done + COMPARED) {
            let block = self.seen[until];
            match self.page_of(p, block) {
                Some(false) => break,
                Some(true) => counting += u32::from(block.counts(p)),
                // The block counted while the page was in memory, and the page cannot change now.
                None => counting += 1,
            }
            until += 1;
        }
        p.stats.looked_at += (until - done) as u64;
        if until == done && until < self.seen.len() {
            return false;
        }
        self.step = if until < self.seen.len() {
            Step::Recount(until, counting)
        } else if counting >= p.space.units().valid_count(self.unit) {
            Step::Read
        } else {
            mark!(ScrubSearches);
            self.compared = self.seen.iter().map(|block| block.value.address()).collect();
            Step::Search(PageCursor::default())
        };
        true
    }

    /// Looks through some pages of the maps for blocks in the unit that no header told of. Metadata units hold pages
    /// and nothing else, other units no pages.
    fn search<P: Payload>(&mut self, p: &mut Parts<P>, mut cursor: PageCursor) -> bool {
        let begin = cursor;
        let metadata = p.space.units().class(self.unit) == p.config.metadata_class();
        let mut budget = WORDS;
        self.step = loop {
            let before = cursor;
            match p.next_page(&mut cursor, Wanted::Held, &mut budget) {
                Walk::Found(volume, page) if metadata => self.search_page(p, volume, page),
                Walk::Found(volume, page) => {
                    match self.needs(p, volume, page) {
                        Some(false) => break Step::Search(before),
                        Some(true) => self.search_entries(p, volume, page),
                        None => {}
                    }
                    budget = budget.saturating_sub(WORDS / SEARCHED);
                }
                Walk::Pause => break Step::Search(cursor),
                Walk::End => break Step::Roots(PageCursor::default()),
            }
        };
        self.step != Step::Search(begin)
    }

    fn search_entries<P: Payload>(&mut self, p: &mut Parts<P>, index: u16, page: u64) {
        let map = p.volumes.map(index);
        for lba in page * PAGE..((page + 1) * PAGE).min(map.blocks) {
            if let Some(value) = p.on_media(index, lba) {
                self.missing(p, Counted { volume: map.id, lba: Lba(lba), value });
            }
        }
        p.stats.looked_at += PAGE;
    }

    fn search_page<P: Payload>(&mut self, p: &Parts<P>, index: u16, page: u64) {
        let map = p.volumes.map(index);
        let lba = PageId { volume: map.id, index: page as u32 }.lba();
        self.missing_page(p, VolumeId::MAP, lba, map.page_at(page));
    }

    fn search_roots<P: Payload>(&mut self, p: &mut Parts<P>, mut cursor: PageCursor) {
        for _ in 0..WORDS {
            let Some((index, root)) = p.volumes.next_root(&mut cursor) else {
                for (page, at) in (0..).zip(p.unit_table.pages()) {
                    let lba = PageId::of_units(page).lba();
                    self.missing_page(p, VolumeId::UNITS, lba, *at);
                }
                self.step = Step::Read;
                return;
            };
            let map = p.volumes.map(index);
            let lba = PageId { volume: map.id, index: root as u32 }.lba();
            let at = map.root_at(root).expect("the walk found it");
            self.missing_page(p, VolumeId::ROOT, lba, at);
        }
        p.stats.looked_at += u64::from(WORDS);
        self.step = Step::Roots(cursor);
    }

    fn missing_page<P: Payload>(&mut self, p: &Parts<P>, volume: VolumeId, lba: Lba, at: MapEntry) {
        if !at.is_unmapped() {
            let value = Value::of_entry(at.pack()).expect("it is mapped");
            self.missing(p, Counted { volume, lba, value });
        }
    }

    /// Whether this was written behind a failed write: then it is written elsewhere, whatever is left of it here, or
    /// all writing has failed.
    fn is_behind_failed<P: Payload>(&self, p: &Parts<P>, at: Location) -> bool {
        let broken = p.space.broken(at.unit);
        broken.is_some_and(|broken| at.block >= broken)
    }

    /// Has a block read if it is in the unit and was not compared.
    fn missing<P: Payload>(&mut self, p: &Parts<P>, block: Counted) {
        let at = p.addresses.location(block.value.address());
        if at.unit != self.unit {
            return;
        }
        mark!(ScrubBehindFailed if self.is_behind_failed(p, at));
        let sound = at.block < self.end && !self.is_behind_failed(p, at);
        if sound && !self.compared.contains(&block.value.address()) {
            self.left.push((block, true));
        }
    }

    fn read_block<P: Payload>(&mut self, p: &mut Parts<P>, block: Counted, missing: bool) {
        self.waiting += 1;
        let at = p.addresses.location(block.value.address());
        let op = p.ops.insert(Op::ScrubRead { block, missing });
        p.device(op, DeviceCmd::Read { at, blocks: 1, into: None, version: Version::AS_READ });
    }

    fn unit_is_read<P: Payload>(&mut self, p: &mut Parts<P>) {
        if let Some(at) = self.untold.take() {
            // The header of the block's chunk is missing, at an unknown location.
            mark!(ScrubHeaderDamaged);
            self.hit(p, at, None);
        }
        self.told.clear();
        match p.members_of(self.unit) {
            0 => self.over(p),
            _ => self.step = Step::Versions(0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::{completed, parts, request};

    #[test]
    fn a_scrub_of_units_that_hold_nothing_ends_when_a_recovery_is_safe() {
        let mut p = parts();
        let mut scrubber = Scrubber::default();
        let first = request(&mut p, 1);
        scrubber.begin(&mut p, Asked::Host(first), UnitId(0));
        p.superblocks.set_settled(false);
        assert!(!scrubber.step(&mut p));
        p.superblocks.set_settled(true);
        while scrubber.step(&mut p) {}
        assert!(scrubber.is_idle());
        assert_eq!(completed(&mut p), [(1, true)]);
    }

    #[test]
    fn scrubs_follow_each_other_and_one_in_the_background_is_given_up_with_the_pool() {
        let mut p = parts();
        let mut scrubber = Scrubber::default();
        let first = request(&mut p, 1);
        scrubber.begin(&mut p, Asked::Host(first), UnitId(9));
        let background = Asked::Background(Pace::new(p.now));
        scrubber.begin(&mut p, background, UnitId(5));
        assert_eq!(scrubber.unit(), Some(UnitId(9)));
        while !p.actions.iter().any(|action| matches!(action, Action::Complete { .. })) {
            assert!(scrubber.step(&mut p));
        }
        assert_eq!(scrubber.in_background().map(|progress| progress.unit), Some(UnitId(5)));
        assert!(scrubber.step(&mut p), "its first step needs no device");
        p.phase = Phase::Failed;
        assert!(scrubber.step(&mut p) && scrubber.is_idle());
        assert_eq!(completed(&mut p), [(1, true)], "nobody is told of it");
    }
}
