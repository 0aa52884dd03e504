//! Whether blocks of a victim are valid: in pages of the map that may not be in memory.
//!
//! What headers tell of pages in memory is known at once. Other pages are loaded, some at a time. A page of which
//! something is to be copied stays in memory until the copy is sealed, for the map is to be changed then. When as many
//! pages are needed as may be, what is known is copied and sealed before more is looked up.

use std::fmt::Debug;
use std::mem::take;

use thermocline_format::VolumeId;

use super::{Gc, Job, SEARCHED, Step, Valid};
use crate::engine::Engine;
use crate::map::{PAGE, Value, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{LOADS, Loaded, Needs, WORDS};
use crate::payload::Payload;
use crate::volumes::{PageCursor, Walk};

/// What is known of a page that is to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// It is in memory, and stays.
    Here,
    /// It will be.
    Coming,
    /// It must wait until others are needed no more.
    Full,
    /// It must wait for memory.
    NoRoom,
    /// It cannot be read.
    Damaged,
}

impl<P> Job<P> {
    /// Whether anything is left to look up of what was found so far.
    pub(super) fn is_behind(&self) -> bool {
        !self.unknown.is_empty() || self.broken || self.drains || self.search.is_some()
    }
}

impl<P> Gc<P> {
    /// Whether anything is left to look up of what was found so far.
    pub(super) fn is_behind(&self) -> bool {
        self.job.as_ref().is_some_and(Job::is_behind)
    }
}

impl<P: Payload> Engine<P> {
    /// Keeps a page in memory, if that is one more than may be kept only when it is kept already.
    #[inline]
    pub(super) fn may_pin(&mut self, job: &mut Job<P>, page: (u16, VolumeId, u64)) -> bool {
        let (volume, _, number) = page;
        if self.parts.volumes.map(volume).is_pinned(number) {
            return true;
        }
        if job.pins.len() >= self.parts.most_pins() {
            return false;
        }
        self.parts.volumes.map_mut(volume).pin(number);
        job.pins.push(page);
        true
    }

    /// No page is needed any more.
    pub(crate) fn unpin_all(&mut self) {
        let Some(job) = &mut self.gc.job else { return };
        for (volume, id, page) in take(&mut job.pins) {
            if self.parts.volumes.is(volume, id) {
                self.parts.volumes.map_mut(volume).unpin(page);
            }
        }
        self.tell_victim();
    }

    /// Looks up what is left of what was found so far; `from` is where the walk goes on. Returns whether anything was
    /// done.
    pub(super) fn look_up(&mut self, from: u32) -> bool {
        let mut job = self.gc.job.take().expect("a job is at this step");
        if job.drains {
            return self.drain(job, from);
        }
        let (worked, full) = self.look_up_unknown(&mut job);
        if !job.unknown.is_empty() {
            job.drains = full;
            mark!(CollectionDrains if job.drains);
            let drains = job.drains;
            self.gc.job = Some(job);
            return worked || drains;
        }
        let search = job.search.take();
        let broken = take(&mut job.broken);
        self.gc.job = Some(job);
        if let Some(cursor) = search {
            self.set_search(cursor);
        } else if broken {
            self.find_by_map();
        }
        true
    }

    /// Has what is known copied and sealed, so that its pages are needed no more.
    fn drain(&mut self, mut job: Job<P>, from: u32) -> bool {
        if !job.valid.is_empty() {
            job.next = from;
            self.gc.job = Some(job);
            return self.read_valid();
        }
        let over = job.has_placed_all() && self.parts.cache.copies() == 0;
        job.drains &= !over;
        self.gc.job = Some(job);
        if over {
            self.unpin_all();
        }
        over
    }

    /// Looks at what headers told of pages that are in memory by now, and asks for others. Returns whether anything was
    /// done, and whether no more can be known before other pages are needed no more.
    fn look_up_unknown(&mut self, job: &mut Job<P>) -> (bool, bool) {
        // In the order of pages, the first at the end.
        job.unknown.sort_by_key(|valid| std::cmp::Reverse((valid.volume, valid.lba)));
        let (before, mut left) = (job.unknown.len(), Vec::new());
        let (mut asked, mut full, mut coming, mut last) = (0, false, false, None);
        while let Some(valid) = job.unknown.pop() {
            let there = self.parts.volumes.is(valid.volume, valid.id)
                && valid.lba < self.parts.volumes.map(valid.volume).blocks;
            if !there {
                continue;
            }
            let page = (valid.volume, valid.id, valid.lba / PAGE);
            let state = match last {
                Some((same, state)) if same == page => state,
                _ if asked >= LOADS => Page::Coming,
                _ => self.page_to_look_up(job, page, &mut asked),
            };
            last = Some((page, state));
            match state {
                Page::Here => self.judge(job, valid),
                Page::Damaged => {
                    self.gc.stuck.insert(job.victim.0);
                }
                Page::Coming => {
                    coming = true;
                    left.push(valid);
                }
                Page::Full => {
                    full = true;
                    left.push(valid);
                }
                Page::NoRoom => left.push(valid),
            }
        }
        left.reverse();
        job.unknown = left;
        // What is on its way may turn out to be of no use.
        (job.unknown.len() < before || asked > 0, full && !coming && !job.pins.is_empty())
    }

    fn page_to_look_up(
        &mut self,
        job: &mut Job<P>,
        page: (u16, VolumeId, u64),
        asked: &mut usize,
    ) -> Page {
        let (volume, _, number) = page;
        let pins = job.pins.len();
        if !self.may_pin(job, page) {
            return Page::Full;
        }
        let lba = number * PAGE;
        match self.parts.loaded(volume, lba, lba + 1, Share::Collection) {
            Loaded::Yes => Page::Here,
            Loaded::Wait(_) => {
                mark!(CollectionLoads);
                *asked += usize::from(job.pins.len() > pins);
                Page::Coming
            }
            Loaded::No(_) => Page::Damaged,
            Loaded::NoRoom => {
                if job.pins.len() > pins {
                    job.pins.pop();
                    self.parts.volumes.map_mut(volume).unpin(number);
                }
                Page::NoRoom
            }
        }
    }

    /// A block that a header told of, of a page in memory.
    fn judge(&mut self, job: &mut Job<P>, valid: Valid<P>) {
        if self.parts.on_media(valid.volume, valid.lba) == Some(valid.value) {
            job.found += 1;
            job.valid.push(valid);
        }
    }

    fn set_search(&mut self, cursor: PageCursor) {
        self.gc.job.as_mut().expect("a job searches").step = Step::Searching(cursor);
    }

    /// Begins to look for the valid blocks of the victim that no header told of: a header is damaged.
    fn find_by_map(&mut self) {
        let job = self.gc.job.as_mut().expect("a job came to a damaged header");
        if job.found >= self.parts.space.units().valid_count(job.victim) {
            return;
        }
        mark!(FoundByMap);
        // Those of earlier segments wait to be placed or sealed.
        let staged = self.parts.cache.copied().map(Value::entry);
        let ready = job.ready.iter().map(|(valid, _)| valid);
        let reading = job.reading.iter().flat_map(|reading| &reading.valid);
        let found = job.valid.iter().chain(reading).chain(ready);
        job.known = found.map(|valid| valid.value.entry()).chain(staged).collect();
        job.step = Step::Searching(PageCursor::default());
    }

    /// Looks through some pages of the maps.
    pub(super) fn search(&mut self, mut cursor: PageCursor) -> bool {
        let mut job = self.gc.job.take().expect("a job is at this step");
        let (mut budget, mut worked) = (WORDS, false);
        job.step = loop {
            let before = cursor;
            match self.parts.next_page(&mut cursor, Wanted::Held, &mut budget) {
                // Nobody copies what will be unmapped; of a failed write it was not even written again.
                Walk::Found(volume, _) if self.parts.volumes.map(volume).deleted => {}
                Walk::Found(volume, page) => {
                    self.parts.pages.need(Needs::Search, Some((volume, page)));
                    match self.parts.loaded(volume, page * PAGE, page * PAGE + 1, Share::Collection)
                    {
                        Loaded::Wait(_) | Loaded::NoRoom => {
                            mark!(SearchWaits);
                            break Step::Searching(before);
                        }
                        // Who needs what stands in a damaged page must wait until it can be read.
                        Loaded::No(_) => {}
                        Loaded::Yes if !self.search_page(&mut job, volume, page) => {
                            job.drains = true;
                            job.search = Some(before);
                            break Step::Walk(job.end);
                        }
                        Loaded::Yes => {}
                    }
                    self.parts.pages.need(Needs::Search, None);
                    worked = true;
                    budget = budget.saturating_sub(WORDS / SEARCHED);
                }
                Walk::Pause => {
                    worked = true;
                    break Step::Searching(cursor);
                }
                Walk::End => break Step::Walk(job.end),
            }
        };
        worked |= !matches!(job.step, Step::Searching(_));
        self.gc.job = Some(job);
        worked
    }

    /// Looks for blocks of the victim in a page that is in memory. Returns whether it could be kept there.
    fn search_page(&mut self, job: &mut Job<P>, volume: u16, page: u64) -> bool {
        let map = self.parts.volumes.map(volume);
        let id = map.id;
        let from = self.parts.space.units().class(job.victim);
        let end = ((page + 1) * PAGE).min(map.blocks);
        for lba in page * PAGE..end {
            let Some(value) = self.parts.on_media(volume, lba) else { continue };
            if self.parts.unit_of(value) != job.victim || job.known.contains(&value.entry()) {
                continue;
            }
            if !self.may_pin(job, (volume, id, page)) {
                return false;
            }
            let at = self.parts.addresses.location(value.address());
            job.chunks += 1;
            job.found += 1;
            mark!(NotFoundByHeader);
            // The tag is all that is known of its checksum; it is what a read would be checked by.
            let (crc, chunk, payload) = (value.tag(), job.chunks, None);
            job.valid.push(Valid { volume, id, from, crc, lba, value, at, payload, chunk });
        }
        self.parts.stats.looked_at += PAGE;
        true
    }
}
