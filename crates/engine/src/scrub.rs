//! Scrub: reads everything that counts and compares it with its checksums.
//!
//! Unit by unit, chunk by chunk: every block that a map points at is compared with the 32 bits in the header of its
//! chunk. Blocks that no sound header tells of are found by the maps and compared with the 28 bits there, and the
//! header is reported. What is wrong is reported by location, and nothing is changed.
//!
//! Invariants:
//! * Only what counts when it is reported is reported: a hole that a crash left between chunks is no damage, nor is a
//!   block that was overwritten while it was being read.
//! * A unit that is looked at is not reset: its place in memory has a reader.

use rustc_hash::FxHashSet;
use thermocline_format::{Entry, Location, MapEntry, PageId, VolumeId, home_mark};
use thermocline_ftl::UnitState;
use thermocline_types::{Lba, UnitId};

use crate::device::{DeviceCmd, DeviceError, FoundChunk, FoundChunks, ReadChunks};
use crate::durability::Then;
use crate::engine::{Engine, Op, Phase};
use crate::map::{PAGE, Value, Wanted};
use crate::marks::mark;
use crate::pages::WORDS;
use crate::payload::Payload;
use crate::request::{Action, Notice, Reply};
use crate::volumes::{PageCursor, Walk};

/// Blocks that are read one by one at once. Chosen, not measured.
const READS: u32 = 32;

/// Blocks, or pages of maps, looked at in one step. Chosen so that a step takes well under a millisecond.
const COMPARED: usize = 4096;
const SEARCHED: u32 = 16;

/// A block that counts when something leads to it: a user's, or a page of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    volume: VolumeId,
    lba: Lba,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
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
}

/// A scrub in progress.
#[derive(Debug)]
pub(crate) struct Scrub {
    request: u32,
    unit: UnitId,
    stage: Stage,
    /// Where the chunks of the unit end.
    end: u32,
    waiting: u32,
    /// What of the unit was compared; in a search, by address.
    seen: Vec<Counted>,
    compared: FxHashSet<u64>,
    /// Places of blocks that a header told of and that did not count then: their page of the map may have come since.
    told: Vec<u64>,
    /// Blocks that are still to be read one by one.
    left: Vec<Counted>,
    blocks: u64,
    damaged: u64,
}

impl<P: Payload> Engine<P> {
    pub(crate) fn begin_scrub(&mut self, request: u32) {
        self.scrubs.push_back(Scrub {
            request,
            unit: UnitId(0),
            stage: Stage::Next,
            end: 0,
            waiting: 0,
            seen: Vec::new(),
            compared: FxHashSet::default(),
            told: Vec::new(),
            left: Vec::new(),
            blocks: 0,
            damaged: 0,
        });
    }

    /// How much of the units the scrub in progress has looked at, 0 to 1; 1 when there is none.
    #[must_use]
    pub fn scrubbed(&self) -> f64 {
        let units = f64::from(self.config.geometry.units());
        self.scrubs.front().map_or(1.0, |scrub| f64::from(scrub.unit.0) / units)
    }

    /// Takes the first scrub a step further. Returns whether anything was done.
    pub(crate) fn scrub_step(&mut self) -> bool {
        // Until a recovery is itself safe, blocks count that nothing leads to.
        let known = self.pages.are_known() && self.superblocks.settled;
        if !known && self.phase != Phase::Failed {
            return false;
        }
        mark!(ScrubFailedPool if self.phase == Phase::Failed && !self.scrubs.is_empty());
        let Some(mut scrub) = self.scrubs.pop_front() else { return false };
        let reading = scrub.stage == Stage::Read && !scrub.left.is_empty();
        // A pool that failed flushes no more: the device's answers are all there is to wait for.
        let ended = matches!(scrub.stage, Stage::Walk(from) if from >= scrub.end);
        let writers = || self.space.tails[scrub.unit.index()].writers > 0;
        let blocked = self.phase == Phase::Failed && ended && writers();
        if blocked || scrub.waiting > 0 && !(reading && scrub.waiting < READS) {
            self.scrubs.push_front(scrub);
            return false;
        }
        match scrub.stage {
            Stage::Next => {
                if self.scrub_next_unit(&mut scrub) {
                    return true;
                }
            }
            Stage::Walk(from) if from < scrub.end => self.scrub_on(&mut scrub, from),
            Stage::Walk(_) => self.scrub_end(&mut scrub),
            Stage::Recount(done, counting) => self.scrub_recount(&mut scrub, done, counting),
            Stage::Search(cursor) => self.scrub_search(&mut scrub, cursor),
            Stage::Roots(cursor) => self.scrub_roots(&mut scrub, cursor),
            Stage::Read => match scrub.left.pop() {
                Some(block) => self.scrub_block(&mut scrub, block),
                None => self.scrubbed_unit(&mut scrub),
            },
        }
        self.scrubs.push_front(scrub);
        true
    }

    /// Begins with the next unit. Returns whether there was none, and the scrub is over.
    fn scrub_next_unit(&mut self, scrub: &mut Scrub) -> bool {
        if scrub.unit.0 == 0 {
            for at in self.damaged_pages() {
                mark!(ScrubMapDamaged);
                self.scrub_hit(scrub, at);
            }
        }
        if scrub.unit.0 == self.config.geometry.units() {
            let reply = Reply::Scrubbed { blocks: scrub.blocks, damaged: scrub.damaged };
            self.request_reply(scrub.request, reply);
            self.request_progress(scrub.request, 1, None);
            return true;
        }
        scrub.end = 0;
        if self.scrub_extent(scrub.unit) == 0 || self.space.units.valid_count(scrub.unit) == 0 {
            scrub.unit.0 += 1;
        } else {
            self.space.tail(scrub.unit).readers += 1;
            scrub.stage = Stage::Walk(0);
        }
        false
    }

    /// Logical blocks of a unit that chunks were sealed into.
    fn scrub_extent(&self, unit: UnitId) -> u32 {
        let open = self.space.frontiers.iter().filter_map(|frontier| frontier.open);
        match self.space.units.state(unit) {
            UnitState::Closed | UnitState::Relocating => self.space.units.written(unit),
            UnitState::Open => open.filter(|at| at.unit == unit).map(|at| at.block).sum(),
            UnitState::Free | UnitState::Retired => 0,
        }
    }

    /// All that was known of the unit was read: there may be more by now. What is on its way is waited for.
    fn scrub_end(&mut self, scrub: &mut Scrub) {
        let extent = self.scrub_extent(scrub.unit);
        if self.space.tails[scrub.unit.index()].writers > 0 {
            scrub.waiting += 1;
            mark!(ScrubWaits);
            self.await_next_flush(Then::Scrub);
        } else if extent > scrub.end {
            mark!(ScrubGoesFurther if scrub.end > 0);
            scrub.end = extent;
        } else {
            scrub.stage = Stage::Recount(0, 0);
        }
    }

    fn scrub_on(&mut self, scrub: &mut Scrub, from: u32) {
        let block = self.config.geometry.logical_block();
        let longest = block.max_chunk() + block.to_hold(thermocline_format::MAX_HEADER_BYTES);
        scrub.waiting += 1;
        let at = Location { unit: scrub.unit, block: from };
        let window = longest.min(scrub.end - from);
        let generation = self.space.tails[at.unit.index()].generation;
        let generation = (generation.0 > 0).then_some(generation);
        let pool = self.pool;
        let cmd = ReadChunks { at, window, pool, generation, search: true, data: true };
        let op = self.ops.insert(Op::ScrubChunks);
        self.device(op, DeviceCmd::ReadChunks(cmd));
    }

    pub(crate) fn scrub_found(&mut self, found: Result<FoundChunks<P>, DeviceError>) {
        let Some(mut scrub) = self.scrubs.pop_front() else { return };
        scrub.waiting -= 1;
        let Stage::Walk(from) = scrub.stage else { panic!("a unit is being walked through") };
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
        scrub.stage = Stage::Walk(next.max(from + 1));
        self.scrubs.push_front(scrub);
    }

    /// Something is wrong at `at`.
    fn scrub_hit(&mut self, scrub: &mut Scrub, at: Location) {
        scrub.damaged += 1;
        self.stats.damaged_blocks += 1;
        self.actions.push_back(Action::Notice(Notice::Damaged { at }));
    }

    fn scrub_chunk(&mut self, scrub: &mut Scrub, chunk: &FoundChunk<P>) {
        let geometry = self.config.geometry;
        let blocks = chunk.header.placed(&geometry).filter_map(|(entry, at)| Some((*entry, at?)));
        let places = chunk.header.places(&geometry);
        for (number, (entry, at)) in (0..).zip(blocks) {
            let Entry::Data { volume, lba, crc } = entry else { continue };
            // A crash may have cut the last chunk of a zone short.
            let Some(found) = chunk.block(number, &places) else { continue };
            let block = Counted { volume, lba, value: Value::new(geometry.address(at), crc) };
            if !self.counts(block) || self.is_behind_failed(at) {
                scrub.told.push(block.value.address());
                continue;
            }
            mark!(PackedScrubbed if places.behind(number).is_none());
            scrub.seen.push(block);
            scrub.blocks += 1;
            if found.crc(0) ^ home_mark(volume, lba) != crc {
                mark!(ScrubBlockDamaged);
                self.scrub_hit(scrub, at);
            }
        }
    }

    /// Whether a map, or what leads to a page of one, points at this block.
    fn counts(&self, block: Counted) -> bool {
        let Counted { volume, lba: Lba(lba), value } = block;
        if volume.is_user() {
            let index = self.volumes.index(volume);
            return index.is_some_and(|index| {
                lba < self.volumes.map(index).blocks && self.on_media(index, lba) == Some(value)
            });
        }
        let page = PageId::from_lba(Lba(lba));
        if volume == VolumeId::UNITS {
            let at = self.unit_table.pages().get(page.index as usize);
            return at.is_some_and(|at| at.pack() == value.0);
        }
        let Some(index) = self.volumes.index(page.volume) else { return false };
        let map = self.volumes.map(index);
        let entry = match volume {
            VolumeId::MAP if u64::from(page.index) < map.pages() => map.page_at(page.index.into()),
            VolumeId::ROOT => match map.roots.get(page.index as usize) {
                Some(root) => root.at,
                None => return false,
            },
            _ => return false,
        };
        entry.pack() == value.0
    }

    /// Looks again at what was compared: blocks that count and were not are missing.
    fn scrub_recount(&mut self, scrub: &mut Scrub, done: usize, counting: u32) {
        let until = scrub.seen.len().min(done + COMPARED);
        let piece = scrub.seen[done..until].iter();
        let counting = counting + piece.filter(|block| self.counts(**block)).count() as u32;
        self.stats.looked_at += (until - done) as u64;
        scrub.stage = if until < scrub.seen.len() {
            Stage::Recount(until, counting)
        } else if counting >= self.space.units.valid_count(scrub.unit) {
            Stage::Read
        } else {
            mark!(ScrubSearches);
            scrub.compared = scrub.seen.iter().map(|block| block.value.address()).collect();
            Stage::Search(PageCursor::default())
        };
    }

    /// Looks through some pages of the maps for blocks in the unit that no header told of. Metadata units hold pages
    /// and nothing else, other units no pages.
    fn scrub_search(&mut self, scrub: &mut Scrub, mut cursor: PageCursor) {
        let metadata = self.space.units.class(scrub.unit) == self.config.metadata_class();
        let mut budget = WORDS;
        scrub.stage = loop {
            match self.next_page(&mut cursor, Wanted::Held, &mut budget) {
                Walk::Found(volume, page) if metadata => self.scrub_page(scrub, volume, page),
                Walk::Found(volume, page) => {
                    self.scrub_entries(scrub, volume, page);
                    budget = budget.saturating_sub(WORDS / SEARCHED);
                }
                Walk::Pause => break Stage::Search(cursor),
                Walk::End => break Stage::Roots(PageCursor::default()),
            }
        };
    }

    fn scrub_entries(&mut self, scrub: &mut Scrub, index: u16, page: u64) {
        let map = self.volumes.map(index);
        if !map.is_loaded(page) {
            return;
        }
        for lba in page * PAGE..((page + 1) * PAGE).min(map.blocks) {
            if let Some(value) = self.on_media(index, lba) {
                self.scrub_missing(scrub, Counted { volume: map.id, lba: Lba(lba), value });
            }
        }
        self.stats.looked_at += PAGE;
    }

    fn scrub_page(&self, scrub: &mut Scrub, index: u16, page: u64) {
        let map = self.volumes.map(index);
        let lba = PageId { volume: map.id, index: page as u32 }.lba();
        self.scrub_missing_page(scrub, VolumeId::MAP, lba, map.page_at(page));
    }

    fn scrub_roots(&mut self, scrub: &mut Scrub, mut cursor: PageCursor) {
        for _ in 0..WORDS {
            let Some((index, root)) = self.volumes.next_root(&mut cursor) else {
                for (page, at) in (0..).zip(self.unit_table.pages()) {
                    let lba = PageId::of_units(page).lba();
                    self.scrub_missing_page(scrub, VolumeId::UNITS, lba, *at);
                }
                // A header that should tell of them is not there, wherever it was.
                let told: FxHashSet<u64> = scrub.told.drain(..).collect();
                let untold = |block: &&Counted| !told.contains(&block.value.address());
                let places = scrub.left.iter().filter(|block| self.counts(**block));
                let places =
                    places.filter(untold).map(|block| self.packing.location(block.value.address()));
                if let Some(at) = places.min_by_key(|at| at.block) {
                    mark!(ScrubHeaderDamaged);
                    self.scrub_hit(scrub, at);
                }
                scrub.stage = Stage::Read;
                return;
            };
            let map = self.volumes.map(index);
            let lba = PageId { volume: map.id, index: root as u32 }.lba();
            self.scrub_missing_page(scrub, VolumeId::ROOT, lba, map.roots[root].at);
        }
        self.stats.looked_at += u64::from(WORDS);
        scrub.stage = Stage::Roots(cursor);
    }

    fn scrub_missing_page(&self, scrub: &mut Scrub, volume: VolumeId, lba: Lba, at: MapEntry) {
        if !at.is_unmapped() {
            self.scrub_missing(scrub, Counted { volume, lba, value: Value(at.pack()) });
        }
    }

    /// Whether this was written behind a failed write: then it is written elsewhere, whatever is left of it here, or
    /// all writing has failed.
    fn is_behind_failed(&self, at: Location) -> bool {
        let broken = self.space.tails[at.unit.index()].broken;
        broken.is_some_and(|broken| at.block >= broken)
    }

    /// Has a block read if it is in the unit and was not compared.
    fn scrub_missing(&self, scrub: &mut Scrub, block: Counted) {
        let at = self.packing.location(block.value.address());
        if at.unit != scrub.unit {
            return;
        }
        mark!(ScrubBehindFailed if self.is_behind_failed(at));
        let sound = at.block < scrub.end && !self.is_behind_failed(at);
        if sound && !scrub.compared.contains(&block.value.address()) {
            scrub.left.push(block);
        }
    }

    fn scrub_block(&mut self, scrub: &mut Scrub, block: Counted) {
        scrub.waiting += 1;
        let at = self.packing.location(block.value.address());
        let op = self.ops.insert(Op::ScrubRead { block });
        self.device(op, DeviceCmd::Read { at, blocks: 1, into: None });
    }

    pub(crate) fn scrub_read(&mut self, block: Counted, data: Option<&P>) {
        let Some(mut scrub) = self.scrubs.pop_front() else { return };
        scrub.waiting -= 1;
        mark!(ScrubReadsBlock);
        let expected = match block.volume.is_user() {
            true => block.value.of_bytes(block.volume, block.lba.0),
            false => block.value,
        };
        if self.counts(block) {
            scrub.blocks += 1;
            let at = self.packing.location(block.value.address());
            let sound = |data: &P| self.arrived(data, 0, at, |crc| expected.matches(crc));
            if !data.is_some_and(sound) {
                self.scrub_hit(&mut scrub, at);
            }
        }
        self.scrubs.push_front(scrub);
    }

    fn scrubbed_unit(&mut self, scrub: &mut Scrub) {
        self.space.tail(scrub.unit).readers -= 1;
        scrub.seen.clear();
        scrub.told.clear();
        scrub.stage = Stage::Next;
        scrub.unit.0 += 1;
    }

    pub(crate) fn scrub_goes_on(&mut self) {
        if let Some(scrub) = self.scrubs.front_mut() {
            scrub.waiting -= 1;
        }
    }
}
