//! Whether blocks of a victim are valid: in pages of the map that may not be in memory.
//!
//! What headers tell of pages in memory is known at once. Other pages are loaded, some at a time. A page of which
//! something is to be copied stays in memory until the copy is sealed, for the map is to be changed then. When as many
//! pages are needed as may be, what is known is copied and sealed before more is looked up.

use std::fmt::Debug;
use std::mem::take;

use thermocline_format::VolumeId;

use super::{Collector, Job, SEARCHED, Step, Valid};
use crate::engine::Parts;
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
    /// The page must wait until other pages are unpinned.
    Full,
    /// The page must wait for memory.
    NoRoom,
    /// It cannot be read.
    Damaged,
}

impl<P> Job<P> {
    /// Whether blocks found so far are still to be looked up.
    pub(super) fn is_behind(&self) -> bool {
        !self.unknown.is_empty() || self.broken || self.drains || self.search.is_some()
    }
}

impl<P> Collector<P> {
    /// Whether blocks found so far are still to be looked up.
    pub(super) fn is_behind(&self) -> bool {
        self.job.as_ref().is_some_and(Job::is_behind)
    }
}

impl<P: Payload> Collector<P> {
    /// Looks up the remaining blocks found so far; the walk continues at `from`. Returns whether anything was done.
    pub(super) fn look_up(&mut self, p: &mut Parts<P>, from: u32) -> bool {
        let mut job = self.job.take().expect("a job is at this step");
        if job.drains {
            return self.drain(p, job, from);
        }
        let (worked, full) = self.look_up_unknown(p, &mut job);
        if !job.unknown.is_empty() {
            job.drains = full;
            mark!(CollectionDrains if job.drains);
            let drains = job.drains;
            self.job = Some(job);
            return worked || drains;
        }
        let search = job.search.take();
        let broken = take(&mut job.broken);
        self.job = Some(job);
        if let Some(cursor) = search {
            self.set_search(cursor);
        } else if broken {
            self.find_by_map(p);
        }
        true
    }

    /// Has the known blocks copied and sealed, so that collection can unpin the pages.
    fn drain(&mut self, p: &mut Parts<P>, mut job: Job<P>, from: u32) -> bool {
        if !job.valid.is_empty() {
            job.next = from;
            self.job = Some(job);
            return self.read_valid(p);
        }
        let over = job.has_placed_all() && p.cache.copies() == 0;
        job.drains &= !over;
        self.job = Some(job);
        if over {
            self.unpin_all(p);
        }
        over
    }

    /// Judges the blocks whose pages are in memory by now, and requests missing pages. Returns whether anything was
    /// done, and whether the lookup must wait until other pages are unpinned.
    fn look_up_unknown(&mut self, p: &mut Parts<P>, job: &mut Job<P>) -> (bool, bool) {
        // In the order of pages, the first at the end.
        job.unknown.sort_by_key(|valid| std::cmp::Reverse((valid.volume, valid.lba)));
        let (before, mut left) = (job.unknown.len(), Vec::new());
        let (mut asked, mut full, mut coming, mut last) = (0, false, false, None);
        while let Some(valid) = job.unknown.pop() {
            let there = p.volumes.is(valid.volume, valid.id)
                && valid.lba < p.volumes.map(valid.volume).blocks;
            if !there {
                continue;
            }
            let page = (valid.volume, valid.id, valid.lba / PAGE);
            let state = match last {
                Some((same, state)) if same == page => state,
                _ if asked >= LOADS => Page::Coming,
                _ => self.page_to_look_up(p, job, page, &mut asked),
            };
            last = Some((page, state));
            match state {
                Page::Here => self.judge(p, job, valid),
                Page::Damaged => {
                    self.stuck.insert(job.victim.0);
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
        p: &mut Parts<P>,
        job: &mut Job<P>,
        page: (u16, VolumeId, u64),
        asked: &mut usize,
    ) -> Page {
        let (volume, _, number) = page;
        let pins = job.pins.len();
        if !self.may_pin(p, job, page) {
            return Page::Full;
        }
        let lba = number * PAGE;
        match p.loaded(volume, lba, lba + 1, Share::Collection) {
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
                    p.volumes.map_mut(volume).unpin(number);
                }
                Page::NoRoom
            }
        }
    }

    /// A block that a header told of, of a page in memory.
    fn judge(&mut self, p: &mut Parts<P>, job: &mut Job<P>, valid: Valid<P>) {
        if p.on_media(valid.volume, valid.lba) == Some(valid.value) {
            job.found += 1;
            job.valid.push(valid);
        }
    }

    fn set_search(&mut self, cursor: PageCursor) {
        self.job.as_mut().expect("a job searches").step = Step::Searching(cursor);
    }

    /// Begins to look for the valid blocks of the victim that no header told of: a header is damaged.
    fn find_by_map(&mut self, p: &mut Parts<P>) {
        let job = self.job.as_mut().expect("a job came to a damaged header");
        if job.found >= p.space.units().valid_count(job.victim) {
            return;
        }
        mark!(FoundByMap);
        // Those of earlier segments wait to be placed or sealed.
        let staged = p.cache.copied().map(Value::entry);
        let ready = job.ready.iter().map(|(valid, _)| valid);
        let reading = job.reading.iter().flat_map(|reading| &reading.valid);
        let found = job.valid.iter().chain(reading).chain(ready);
        job.known = found.map(|valid| valid.value.entry()).chain(staged).collect();
        job.step = Step::Searching(PageCursor::default());
    }

    /// Looks through some pages of the maps.
    pub(super) fn search(&mut self, p: &mut Parts<P>, mut cursor: PageCursor) -> bool {
        let mut job = self.job.take().expect("a job is at this step");
        let (mut budget, mut worked) = (WORDS, false);
        job.step = loop {
            let before = cursor;
            match p.next_page(&mut cursor, Wanted::Held, &mut budget) {
                // Blocks of a deleted volume are not copied; after a failed write they were not even rewritten.
                Walk::Found(volume, _) if p.volumes.map(volume).deleted => {}
                Walk::Found(volume, page) => {
                    p.pages.need(Needs::Search, Some((volume, page)));
                    match p.loaded(volume, page * PAGE, page * PAGE + 1, Share::Collection) {
                        Loaded::Wait(_) | Loaded::NoRoom => {
                            mark!(SearchWaits);
                            break Step::Searching(before);
                        }
                        // Blocks of a damaged page must wait until the page is readable.
                        Loaded::No(_) => {}
                        Loaded::Yes if !self.search_page(p, &mut job, volume, page) => {
                            job.drains = true;
                            job.search = Some(before);
                            break Step::Walk(job.end);
                        }
                        Loaded::Yes => {}
                    }
                    p.pages.need(Needs::Search, None);
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
        self.job = Some(job);
        worked
    }

    /// Looks for blocks of the victim in a page that is in memory. Returns whether the page could stay in memory.
    fn search_page(&mut self, p: &mut Parts<P>, job: &mut Job<P>, volume: u16, page: u64) -> bool {
        let map = p.volumes.map(volume);
        let id = map.id;
        let from = p.space.units().class(job.victim);
        let end = ((page + 1) * PAGE).min(map.blocks);
        for lba in page * PAGE..end {
            let Some(value) = p.on_media(volume, lba) else { continue };
            if p.unit_of(value) != job.victim || job.known.contains(&value.entry()) {
                continue;
            }
            if !self.may_pin(p, job, (volume, id, page)) {
                return false;
            }
            let at = p.addresses.location(value.address());
            job.chunks += 1;
            job.found += 1;
            mark!(NotFoundByHeader);
            // Only the tag of the checksum is known, and a read would be checked by the tag.
            let (crc, chunk, payload) = (value.tag(), job.chunks, None);
            job.valid.push(Valid { volume, id, from, crc, lba, value, at, payload, chunk });
        }
        p.stats.looked_at += PAGE;
        true
    }
}
