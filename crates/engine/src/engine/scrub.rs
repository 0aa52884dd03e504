//! Scrub: reads everything that counts and compares it with its checksums.
//!
//! Unit by unit, chunk by chunk: every block that a map points at is compared with the 32 bits in the header of its
//! chunk. Blocks that no sound header tells of are found by the maps and compared with the 28 bits there, and the
//! header is reported. What is wrong is reported by location, and nothing is changed; but on a device with redundancy
//! every version is compared, and what one has right is written over what another has wrong.
//!
//! Invariants:
//! * Only what counts when it is reported is reported: a hole that a crash left between chunks is no damage, nor is a
//!   block that was overwritten while it was being read.
//! * A unit that is looked at is not reset: its place in memory has a reader.

mod pace;
mod versions;

use std::fmt::Debug;

use rustc_hash::FxHashSet;
use thermocline_format::{Entry, Location, MapEntry, PageId, VolumeId, home_mark};
use thermocline_types::{Lba, Time, UnitId, Version};

use crate::device::{DeviceCmd, DeviceError, FoundChunk, FoundChunks, ReadChunks, Versions};
use crate::durability::Then;
use crate::engine::{Engine, Op, Phase};
use crate::map::{PAGE, Value, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{Loaded, Needs, WORDS};
use crate::payload::Payload;
use crate::request::{Action, Extent, Notice, Reply};
use crate::volumes::{PageCursor, Walk};
use versions::Disputed;

pub(crate) use pace::Pace;
pub use pace::ScrubProgress;

/// Blocks that are read one by one at once. Chosen, not measured.
const READS: u32 = 32;

/// Blocks, or pages of maps, looked at in one step. Chosen so that a step takes well under a millisecond.
const COMPARED: usize = 4096;
const SEARCHED: u32 = 16;

/// What was read of a block, while it is not known yet whether it counts.
#[derive(Clone, Copy, Debug)]
struct Compared {
    block: Counted,
    at: Location,
    /// Whether it has the checksum that it should have.
    sound: bool,
    /// Whether it was read because no header told of it.
    missing: bool,
    /// Its chunk among [`Scrub::disputed`], if not every version has the header.
    disputed: Option<usize>,
}

/// A block that counts when something leads to it: a user's, or a page of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    volume: VolumeId,
    lba: Lba,
    value: Value,
}

impl Counted {
    /// Where it is, and its tag.
    pub(crate) fn value(&self) -> Value {
        self.value
    }
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
    /// What was found there is read.
    Read,
    /// Blocks from this one on of those that were compared are read without this member.
    Versions(u8, usize),
    /// What was wrong is written again; then the unit is over.
    Heal,
}

/// Who wants a scrub.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// A request, which waits for it.
    Host(u32),
    /// Nobody waits for it.
    Background(Pace),
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
    /// Blocks that are still to be read one by one, and whether that is because no header told of them.
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
    /// The unit that it looks at.
    pub(crate) fn unit(&self) -> UnitId {
        self.unit
    }

    /// How far it is if nobody waits for it.
    pub(crate) fn in_background(&self) -> Option<ScrubProgress> {
        matches!(self.asked, Asked::Background(_)).then_some(self.begun)
    }

    /// Whether it looks at a unit, of which it is a reader.
    fn is_in_unit(&self) -> bool {
        !matches!(self.step, Step::Begin | Step::Retry | Step::Next)
    }

    /// What was asked of the device is there. In the background it rests after that.
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

impl<P: Payload> Engine<P> {
    pub(crate) fn begin_scrub(&mut self, asked: Asked, from: UnitId) {
        let unit = from.min(UnitId(self.parts.config.geometry.units()));
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
    pub(crate) fn scrub_step(&mut self) -> bool {
        // Until a recovery is itself safe, blocks count that nothing leads to.
        if !self.parts.superblocks.are_settled() && self.parts.phase != Phase::Failed {
            return false;
        }
        mark!(ScrubFailedPool if self.parts.phase == Phase::Failed && !self.scrubs.is_empty());
        let Some(mut scrub) = self.scrubs.pop_front() else { return false };
        let reading = match scrub.step {
            Step::Read => !scrub.left.is_empty(),
            Step::Versions(member, _) => member < self.parts.members_of(scrub.unit),
            _ => false,
        };
        let abreast = if let Asked::Host(_) = scrub.asked { READS } else { 1 };
        // A pool that failed flushes no more: the device's answers are all there is to wait for.
        let ended = matches!(scrub.step, Step::Walk(from) if from >= scrub.end);
        let writers = || self.parts.space.has_writers(scrub.unit);
        let blocked = self.parts.phase == Phase::Failed && ended && writers();
        if self.scrub_is_given_up(&scrub) {
            return true;
        }
        if blocked || scrub.waiting > 0 && !(reading && scrub.waiting < abreast) {
            self.scrubs.push_front(scrub);
            return false;
        }
        if !scrub.judging.is_empty() {
            let worked = self.scrub_judge(&mut scrub);
            self.scrubs.push_front(scrub);
            return worked;
        }
        if scrub.is_in_unit() && self.parts.space.units().valid_count(scrub.unit) == 0 {
            // Nothing in it counts any more: whoever wants to reset it need not wait.
            mark!(ScrubLeavesUnit);
            scrub.leave_unit();
        }
        if self.scrub_rests(&mut scrub) {
            self.scrubs.push_front(scrub);
            return false;
        }
        let mut worked = true;
        match scrub.step {
            Step::Begin => {
                scrub.suspects = self.parts.take_damaged();
                scrub.step = Step::Retry;
            }
            Step::Retry => worked = self.scrub_retry(&mut scrub),
            Step::Next => {
                if self.scrub_next_unit(&mut scrub) {
                    return true;
                }
            }
            Step::Walk(from) if from < scrub.end => self.scrub_on(&mut scrub, from),
            Step::Walk(_) => self.scrub_end(&mut scrub),
            Step::Recount(done, counting) => {
                worked = self.scrub_recount(&mut scrub, done, counting);
            }
            Step::Search(cursor) => worked = self.scrub_search(&mut scrub, cursor),
            Step::Roots(cursor) => self.scrub_roots(&mut scrub, cursor),
            Step::Read => match scrub.left.pop() {
                Some((block, missing)) => self.scrub_block(&mut scrub, block, missing),
                None => self.scrubbed_unit(&mut scrub),
            },
            Step::Versions(member, from) => self.scrub_versions(&mut scrub, member, from),
            Step::Heal => worked = self.scrub_heals(&mut scrub),
        }
        self.scrubs.push_front(scrub);
        worked
    }

    /// Whether the map page of a block can be looked at; asks for it if it is not in memory. `None` if it is damaged.
    fn scrub_page_of(&mut self, block: Counted) -> Option<bool> {
        let Some(volume) =
            self.parts.volumes.index(block.volume).filter(|_| block.volume.is_user())
        else {
            return Some(true);
        };
        let lba = block.lba.0;
        if lba >= self.parts.volumes.map(volume).blocks {
            return Some(true);
        }
        self.scrub_needs(volume, lba / PAGE)
    }

    /// Whether a page is in memory; asks for it if it is not. `None` if it is damaged.
    fn scrub_needs(&mut self, volume: u16, page: u64) -> Option<bool> {
        self.parts.pages.need(Needs::Scrub, Some((volume, page)));
        let loaded = self.parts.loaded(volume, page * PAGE, page * PAGE + 1, Share::Upkeep);
        if let Loaded::Wait(_) | Loaded::NoRoom = loaded {
            mark!(ScrubLoads);
            return Some(false);
        }
        self.parts.pages.need(Needs::Scrub, None);
        matches!(loaded, Loaded::Yes).then_some(true)
    }

    /// Looks whether what was compared counts, from page to page. Returns whether anything was done.
    fn scrub_judge(&mut self, scrub: &mut Scrub) -> bool {
        let before = scrub.judging.len();
        while let Some(compared) = scrub.judging.last().copied() {
            match self.scrub_page_of(compared.block) {
                Some(false) => break,
                Some(true) => self.scrub_compared(scrub, compared),
                None => {
                    mark!(ScrubUnjudged if !compared.missing);
                    scrub.told.extend((!compared.missing).then(|| compared.block.value.address()));
                }
            }
            scrub.judging.pop();
        }
        if scrub.judging.len() < before {
            // Pages of maps that had to be read count for it as well.
            scrub.rest(self.parts.now);
        }
        scrub.judging.len() < before
    }

    /// A block was compared, and whether it counts can be told.
    fn scrub_compared(&mut self, scrub: &mut Scrub, compared: Compared) {
        let Compared { block, at, sound, missing, disputed } = compared;
        if !self.counts(block) || !missing && self.is_behind_failed(at) {
            scrub.told.extend((!missing).then(|| block.value.address()));
            return;
        }
        scrub.blocks += 1;
        if let Some(header) = disputed.and_then(|index| scrub.disputed[index].take()) {
            self.scrub_header(scrub, &header);
        }
        if !missing {
            scrub.seen.push(block);
        } else if !scrub.told.contains(&block.value.address()) {
            scrub.untold = Some(scrub.untold.filter(|first| first.block < at.block).unwrap_or(at));
        }
        if !sound && !missing && self.parts.members_of(at.unit) > 0 {
            // Another version may have it.
            scrub.left.push((block, false));
        } else if !sound {
            mark!(ScrubBlockDamaged if !missing);
            self.scrub_hit(scrub, at, self.extent_of(block));
        }
    }

    /// Reads pages again that could not be read before: the device may be well again. Returns whether it did anything.
    fn scrub_retry(&mut self, scrub: &mut Scrub) -> bool {
        let before = scrub.suspects.len();
        while let Some((volume, id, page)) = scrub.suspects.last().copied() {
            if self.parts.volumes.is(volume, id) && page < self.parts.volumes.map(volume).pages() {
                match self.scrub_needs(volume, page) {
                    Some(false) => return scrub.suspects.len() < before,
                    Some(true) => {
                        mark!(ScrubMapRecovered);
                    }
                    None => {
                        mark!(ScrubMapDamaged);
                        let at = self.parts.volumes.map(volume).page_at(page);
                        let at = at.location(&self.parts.config.geometry);
                        let at = at.expect("a page that is nowhere is not damaged");
                        self.scrub_hit(scrub, at, Some(self.parts.extent_of_page(volume, page)));
                    }
                }
            }
            scrub.suspects.pop();
        }
        scrub.step = Step::Next;
        true
    }

    /// Begins with the next unit. Returns whether there was none, and the scrub is over.
    fn scrub_next_unit(&mut self, scrub: &mut Scrub) -> bool {
        if scrub.unit.0 == self.parts.config.geometry.units() {
            let Scrub { asked, blocks, damaged, mended, .. } = *scrub;
            match asked {
                Asked::Host(request) => {
                    let reply = Reply::Scrubbed { blocks, damaged, mended };
                    self.parts.requests.set_reply(request, reply);
                    self.parts.request_progress(request, 1, None);
                }
                Asked::Background(_) => {
                    let notice = Notice::Scrubbed { blocks, damaged, mended };
                    self.parts.actions.push_back(Action::Notice(notice));
                }
            }
            return true;
        }
        scrub.end = 0;
        if self.parts.space.sealed_into(scrub.unit) == 0
            || self.parts.space.units().valid_count(scrub.unit) == 0
        {
            scrub.unit.0 += 1;
        } else {
            self.parts.space.add_reader(scrub.unit);
            let Scrub { unit, blocks, damaged, mended, .. } = *scrub;
            scrub.begun = ScrubProgress { unit, blocks, damaged, mended };
            scrub.step = Step::Walk(0);
        }
        false
    }

    /// All that was known of the unit was read: there may be more by now. What is on its way is waited for.
    fn scrub_end(&mut self, scrub: &mut Scrub) {
        let extent = self.parts.space.sealed_into(scrub.unit);
        if self.parts.space.has_writers(scrub.unit) {
            scrub.waiting += 1;
            mark!(ScrubWaits);
            self.parts.await_next_flush(Then::Scrub);
        } else if extent > scrub.end {
            mark!(ScrubGoesFurther if scrub.end > 0);
            scrub.end = extent;
        } else {
            scrub.step = Step::Recount(0, 0);
        }
    }

    fn scrub_on(&mut self, scrub: &mut Scrub, from: u32) {
        let block = self.parts.config.geometry.logical_block();
        let longest = block.max_chunk() + block.to_hold(thermocline_format::MAX_HEADER_BYTES);
        scrub.waiting += 1;
        let at = Location { unit: scrub.unit, block: from };
        let window = longest.min(scrub.end - from);
        let generation = self.parts.space.generation(at.unit);
        let generation = (generation.0 > 0).then_some(generation);
        let pool = self.parts.pool;
        let versions = Versions::All(self.parts.members_of(at.unit));
        let cmd = ReadChunks { at, window, pool, generation, search: true, data: true, versions };
        let op = self.parts.ops.insert(Op::ScrubChunks);
        self.parts.device(op, DeviceCmd::ReadChunks(cmd));
    }

    pub(crate) fn scrub_found(&mut self, found: Result<FoundChunks<P>, DeviceError>) {
        let Some(mut scrub) = self.scrubs.pop_front() else { return };
        scrub.answered(self.parts.now);
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
                    // It ends beyond what was read: it is read again from its beginning.
                    next = at.block;
                    break;
                }
                self.scrub_chunk(&mut scrub, chunk);
            }
        }
        scrub.step = Step::Walk(next.max(from + 1));
        self.scrubs.push_front(scrub);
    }

    /// Something is wrong at `at`.
    fn scrub_hit(&mut self, scrub: &mut Scrub, at: Location, holds: Option<Extent>) {
        scrub.damaged += 1;
        self.parts.stats.damaged_blocks += 1;
        self.parts.report_damage(at, holds);
    }

    /// The blocks of a volume for which a block or a page of a map counts.
    fn extent_of(&self, block: Counted) -> Option<Extent> {
        let Counted { volume, lba, .. } = block;
        if volume.is_user() {
            return Some(Extent { volume, lba: lba.0, blocks: 1 });
        }
        let page = PageId::from_lba(lba);
        let index = self.parts.volumes.index(page.volume).filter(|_| volume == VolumeId::MAP)?;
        Some(self.parts.extent_of_page(index, page.index.into()))
    }

    fn scrub_chunk(&mut self, scrub: &mut Scrub, chunk: &FoundChunk<P>) {
        let geometry = self.parts.config.geometry;
        let disputed = (!chunk.everywhere).then_some(scrub.disputed.len());
        scrub.disputed.extend(disputed.map(|_| Some(Disputed::of(chunk, &geometry))));
        let blocks = chunk.header.placed(&geometry).filter_map(|(entry, at)| Some((*entry, at?)));
        let places = chunk.header.places(&geometry);
        for (number, (entry, at)) in (0..).zip(blocks) {
            let Entry::Data { volume, lba, crc } = entry else { continue };
            // A crash may have cut the last chunk of a zone short.
            let Some(found) = chunk.block(number, &places) else { continue };
            let block = Counted { volume, lba, value: Value::new(geometry.address(at), crc) };
            mark!(PackedScrubbed if places.behind(number).is_none());
            let sound = found.crc(0) ^ home_mark(volume, lba) == crc;
            scrub.judging.push(Compared { block, at, sound, missing: false, disputed });
        }
    }

    /// Whether a map, or what leads to a page of one, points at this block.
    fn counts(&self, block: Counted) -> bool {
        let Counted { volume, lba: Lba(lba), value } = block;
        if volume.is_user() {
            let index = self.parts.volumes.index(volume);
            return index.is_some_and(|index| {
                lba < self.parts.volumes.map(index).blocks
                    && self.parts.on_media(index, lba) == Some(value)
            });
        }
        let page = PageId::from_lba(Lba(lba));
        if volume == VolumeId::UNITS {
            let at = self.parts.unit_table.pages().get(page.index as usize);
            return at.is_some_and(|at| at.pack() == value.entry());
        }
        let Some(index) = self.parts.volumes.index(page.volume) else { return false };
        let map = self.parts.volumes.map(index);
        let entry = match volume {
            VolumeId::MAP if u64::from(page.index) < map.pages() => map.page_at(page.index.into()),
            VolumeId::ROOT => match map.root_at(page.index as usize) {
                Some(at) => at,
                None => return false,
            },
            _ => return false,
        };
        entry.pack() == value.entry()
    }

    /// Looks again at what was compared: blocks that count and were not are missing.
    fn scrub_recount(&mut self, scrub: &mut Scrub, done: usize, mut counting: u32) -> bool {
        if done == 0 {
            scrub.seen.sort_unstable_by_key(|block| (block.volume.0, block.lba));
        }
        let mut until = done;
        while until < scrub.seen.len().min(done + COMPARED) {
            let block = scrub.seen[until];
            match self.scrub_page_of(block) {
                Some(false) => break,
                Some(true) => counting += u32::from(self.counts(block)),
                // It counted when its page was in memory, and nobody can change that page now.
                None => counting += 1,
            }
            until += 1;
        }
        self.parts.stats.looked_at += (until - done) as u64;
        if until == done && until < scrub.seen.len() {
            return false;
        }
        scrub.step = if until < scrub.seen.len() {
            Step::Recount(until, counting)
        } else if counting >= self.parts.space.units().valid_count(scrub.unit) {
            Step::Read
        } else {
            mark!(ScrubSearches);
            scrub.compared = scrub.seen.iter().map(|block| block.value.address()).collect();
            Step::Search(PageCursor::default())
        };
        true
    }

    /// Looks through some pages of the maps for blocks in the unit that no header told of. Metadata units hold pages
    /// and nothing else, other units no pages.
    fn scrub_search(&mut self, scrub: &mut Scrub, mut cursor: PageCursor) -> bool {
        let begin = cursor;
        let metadata =
            self.parts.space.units().class(scrub.unit) == self.parts.config.metadata_class();
        let mut budget = WORDS;
        scrub.step = loop {
            let before = cursor;
            match self.parts.next_page(&mut cursor, Wanted::Held, &mut budget) {
                Walk::Found(volume, page) if metadata => self.scrub_page(scrub, volume, page),
                Walk::Found(volume, page) => {
                    match self.scrub_needs(volume, page) {
                        Some(false) => break Step::Search(before),
                        Some(true) => self.scrub_entries(scrub, volume, page),
                        None => {}
                    }
                    budget = budget.saturating_sub(WORDS / SEARCHED);
                }
                Walk::Pause => break Step::Search(cursor),
                Walk::End => break Step::Roots(PageCursor::default()),
            }
        };
        scrub.step != Step::Search(begin)
    }

    fn scrub_entries(&mut self, scrub: &mut Scrub, index: u16, page: u64) {
        let map = self.parts.volumes.map(index);
        for lba in page * PAGE..((page + 1) * PAGE).min(map.blocks) {
            if let Some(value) = self.parts.on_media(index, lba) {
                self.scrub_missing(scrub, Counted { volume: map.id, lba: Lba(lba), value });
            }
        }
        self.parts.stats.looked_at += PAGE;
    }

    fn scrub_page(&self, scrub: &mut Scrub, index: u16, page: u64) {
        let map = self.parts.volumes.map(index);
        let lba = PageId { volume: map.id, index: page as u32 }.lba();
        self.scrub_missing_page(scrub, VolumeId::MAP, lba, map.page_at(page));
    }

    fn scrub_roots(&mut self, scrub: &mut Scrub, mut cursor: PageCursor) {
        for _ in 0..WORDS {
            let Some((index, root)) = self.parts.volumes.next_root(&mut cursor) else {
                for (page, at) in (0..).zip(self.parts.unit_table.pages()) {
                    let lba = PageId::of_units(page).lba();
                    self.scrub_missing_page(scrub, VolumeId::UNITS, lba, *at);
                }
                scrub.step = Step::Read;
                return;
            };
            let map = self.parts.volumes.map(index);
            let lba = PageId { volume: map.id, index: root as u32 }.lba();
            let at = map.root_at(root).expect("the walk found it");
            self.scrub_missing_page(scrub, VolumeId::ROOT, lba, at);
        }
        self.parts.stats.looked_at += u64::from(WORDS);
        scrub.step = Step::Roots(cursor);
    }

    fn scrub_missing_page(&self, scrub: &mut Scrub, volume: VolumeId, lba: Lba, at: MapEntry) {
        if !at.is_unmapped() {
            let value = Value::of_entry(at.pack()).expect("it is mapped");
            self.scrub_missing(scrub, Counted { volume, lba, value });
        }
    }

    /// Whether this was written behind a failed write: then it is written elsewhere, whatever is left of it here, or
    /// all writing has failed.
    fn is_behind_failed(&self, at: Location) -> bool {
        let broken = self.parts.space.broken(at.unit);
        broken.is_some_and(|broken| at.block >= broken)
    }

    /// Has a block read if it is in the unit and was not compared.
    fn scrub_missing(&self, scrub: &mut Scrub, block: Counted) {
        let at = self.parts.addresses.location(block.value.address());
        if at.unit != scrub.unit {
            return;
        }
        mark!(ScrubBehindFailed if self.is_behind_failed(at));
        let sound = at.block < scrub.end && !self.is_behind_failed(at);
        if sound && !scrub.compared.contains(&block.value.address()) {
            scrub.left.push((block, true));
        }
    }

    fn scrub_block(&mut self, scrub: &mut Scrub, block: Counted, missing: bool) {
        scrub.waiting += 1;
        let at = self.parts.addresses.location(block.value.address());
        let op = self.parts.ops.insert(Op::ScrubRead { block, missing });
        self.parts
            .device(op, DeviceCmd::Read { at, blocks: 1, into: None, version: Version::AS_READ });
    }

    /// Whether block `nth` of `data` is a block that counts.
    pub(crate) fn counted_is_right(&self, block: Counted, data: &P, nth: u32) -> bool {
        let expected = match block.volume.is_user() {
            true => block.value.of_bytes(block.volume, block.lba.0),
            false => block.value,
        };
        let at = self.parts.addresses.location(block.value.address());
        self.parts.arrived(data, nth, at, |crc| expected.matches(crc))
    }

    pub(crate) fn scrub_read(&mut self, block: Counted, missing: bool, data: Option<&P>) {
        let Some(mut scrub) = self.scrubs.pop_front() else { return };
        scrub.answered(self.parts.now);
        mark!(ScrubReadsBlock);
        let at = self.parts.addresses.location(block.value.address());
        let sound = data.is_some_and(|data| self.counted_is_right(block, data, 0));
        if missing {
            scrub.judging.push(Compared { block, at, sound, missing, disputed: None });
        } else if !sound {
            mark!(ScrubBlockDamaged);
            self.scrub_hit(&mut scrub, at, self.extent_of(block));
        }
        self.scrubs.push_front(scrub);
    }

    fn scrubbed_unit(&mut self, scrub: &mut Scrub) {
        if let Some(at) = scrub.untold.take() {
            // A header that should tell of it is not there, wherever it was.
            mark!(ScrubHeaderDamaged);
            self.scrub_hit(scrub, at, None);
        }
        scrub.told.clear();
        match self.parts.members_of(scrub.unit) {
            0 => self.scrub_over(scrub),
            _ => scrub.step = Step::Versions(0, 0),
        }
    }

    /// The unit is done with.
    fn scrub_over(&mut self, scrub: &mut Scrub) {
        self.parts.space.drop_reader(scrub.unit);
        scrub.seen.clear();
        scrub.step = Step::Next;
        scrub.unit.0 += 1;
    }

    pub(crate) fn scrub_goes_on(&mut self) {
        if let Some(scrub) = self.scrubs.front_mut() {
            scrub.waiting -= 1;
        }
    }
}
