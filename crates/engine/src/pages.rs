//! Pages of the map on their way to memory, and the requests that wait for them.
//!
//! A request that needs a page which is not loaded waits for it and then starts anew. It asks for all that it needs at
//! once, and only if there is memory for all; else it waits for memory, in the order in which it came. Where there is
//! memory for all pages of all maps, they are loaded in the background.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use thermocline_format::{Location, MapEntry, MapPage, PageId, VolumeId};

use crate::bugs::bug;
use crate::device::{DeviceCmd, PageBytes};
use crate::engine::{Engine, Op, Phase};
use crate::map::{PAGE, Presence, Wanted};
use crate::marks::mark;
use crate::memory::{Room, Share};
use crate::payload::Payload;
use crate::request::{Action, Extent, HostError, Notice};
use crate::volumes::{PageCursor, Walk};

/// Pages that are loaded at once ahead of their use. Chosen, not measured.
pub(crate) const LOADS: usize = 64;

/// What one step looks at, at most: pages with all their entries, words of 64 pages each, units. Chosen so that a step
/// takes well under a millisecond.
pub(crate) const PAGES: u64 = 64;
pub(crate) const WORDS: u32 = 4096;
pub(crate) const UNITS: u32 = 4096;

/// A request that waits for a page, or for memory.
#[derive(Debug)]
pub(crate) struct Parked<P> {
    what: Waits<P>,
    /// A page in memory that it needs as well.
    held: Option<(u16, u64)>,
}

#[derive(Debug)]
pub(crate) enum Waits<P> {
    Read { request: u32, extent: Extent, into: P },
    Write { request: u32, extent: Extent, data: P, handle: u16 },
}

/// What a request has waited for already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// Nothing.
    Not,
    /// Memory.
    Memory,
    /// A page, which was read or could not be.
    Page,
}

/// Who needs one page after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Trim,
    Scrub,
    Search,
}

/// How far the background has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Background {
    /// It asks for the pages from here on.
    Asks(PageCursor),
    /// It has asked for all of them.
    Asked,
    /// Every page is loaded, or they need more memory than there is.
    Over,
}

/// Pages on their way, and what waits.
#[derive(Debug)]
pub(crate) struct Pages<P> {
    background: Background,
    loading: FxHashMap<(u16, u64), Vec<Parked<P>>>,
    /// Pages that need not be read: they were in memory on their way to media.
    arrived: VecDeque<(u16, u64, Location, PageBytes)>,
    /// Pages that cannot be read.
    damaged: FxHashSet<(u16, u64)>,
    /// Requests that wait for memory.
    pub(crate) waiting: VecDeque<Parked<P>>,
    /// Pages in memory that are needed by requests which wait for others, and by how many.
    held: FxHashMap<(u16, u64), u32>,
    /// The page that each of those needs which go from page to page.
    next: [Option<(u16, u64)>; 3],
    /// Where the hand is that takes pages out of memory.
    pub(crate) hand: PageCursor,
    /// How far the pages are gone through that were written for a flushed record.
    pub(crate) landing: Option<PageCursor>,
    /// Whether somebody found no memory, and nothing that could go.
    pub(crate) short: bool,
    /// Checkpoints when the host first found none.
    pub(crate) short_since: Option<u64>,
    /// Whether the hand has not come around yet for somebody.
    pub(crate) goes_on: bool,
    /// Whether an opening may have taken more memory than there is, and has not given it back yet.
    pub(crate) excess: bool,
}

impl<P> Default for Pages<P> {
    fn default() -> Self {
        Pages {
            background: Background::Asks(PageCursor::default()),
            loading: FxHashMap::default(),
            arrived: VecDeque::new(),
            damaged: FxHashSet::default(),
            waiting: VecDeque::new(),
            held: FxHashMap::default(),
            next: [None; 3],
            hand: PageCursor::default(),
            landing: None,
            short: false,
            short_since: None,
            goes_on: false,
            excess: true,
        }
    }
}

impl<P> Pages<P> {
    pub(crate) fn on_their_way(&self) -> usize {
        self.loading.len()
    }

    /// Pages `from` to `end` of a volume may be readable by now.
    pub(crate) fn forget_damage(&mut self, volume: u16, from: u64, end: u64) {
        self.damaged.retain(|&(of, page)| of != volume || !(from..end).contains(&page));
    }

    /// The page is needed no more, or to be tried again.
    pub(crate) fn forget(&mut self, volume: u16, page: u64) {
        self.damaged.remove(&(volume, page));
    }

    /// The background has to ask for pages anew that it asked for already.
    fn ask_again(&mut self) {
        if self.background == Background::Asked {
            self.background = Background::Asks(PageCursor::default());
        }
    }

    /// A request that waited needs this page no more.
    fn let_go(&mut self, held: Option<(u16, u64)>) {
        if let Some(page) = held
            && let Some(count) = self.held.get_mut(&page)
        {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&page);
            }
        }
    }

    /// What `who` needs now.
    pub(crate) fn need(&mut self, who: Needs, page: Option<(u16, u64)>) {
        self.next[who as usize] = page;
    }

    /// Pages that must stay in memory, some of them more than once.
    pub(crate) fn needed(&self) -> impl Iterator<Item = (u16, u64)> {
        self.held.keys().copied().chain(self.next.into_iter().flatten())
    }

    /// Whether a page must stay in memory.
    pub(crate) fn is_needed(&self, page: (u16, u64)) -> bool {
        self.held.contains_key(&page) || self.next.contains(&Some(page))
    }
}

/// Whether blocks can be looked up.
pub(crate) enum Loaded {
    Yes,
    /// After this page was read.
    Wait(u64),
    /// When there is memory.
    NoRoom,
    /// Never: this page is damaged.
    No(u64),
}

impl<P: Payload> Engine<P> {
    /// Whether the pages of blocks `from` to `end` are in memory; asks for those that are not.
    #[inline]
    pub(crate) fn loaded(&mut self, volume: u16, from: u64, end: u64, share: Share) -> Loaded {
        let (from, end) = (from / PAGE, end.div_ceil(PAGE));
        let map = self.volumes.map_mut(volume);
        let here = |presence| match presence {
            Presence::Staged => true,
            Presence::Resident | Presence::Empty => share != Share::Write,
            Presence::Absent => false,
        };
        if (from..end).all(|page| here(map.touch(page))) {
            return Loaded::Yes;
        }
        self.find_pages(volume, from, end, share)
    }

    /// Makes room for the pages `from` to `end` that are not in memory, and asks for those on media.
    #[cold]
    fn find_pages(&mut self, volume: u16, from: u64, end: u64, share: Share) -> Loaded {
        let (mut absent, mut new, mut staged) = (Vec::new(), 0, 0);
        let map = self.volumes.map_mut(volume);
        for page in from..end {
            match map.touch(page) {
                Presence::Staged => {}
                Presence::Resident => staged += u64::from(share == Share::Write),
                Presence::Empty => new += u64::from(share == Share::Write),
                Presence::Absent if self.pages.damaged.contains(&(volume, page)) => {
                    return Loaded::No(page);
                }
                Presence::Absent => absent.push(page),
            }
        }
        if staged + new > 0 && !self.may_stage_in(staged + new) {
            mark!(StagingWaits);
            self.pages.short = true;
            return Loaded::NoRoom;
        }
        let asked = |page: &u64| self.pages.loading.contains_key(&(volume, *page));
        let fresh: Vec<u64> = absent.iter().copied().filter(|page| !asked(page)).collect();
        let count = new + fresh.len() as u64;
        if count > 0 {
            match self.make_room(count, share, (volume, from, end)) {
                Room::Yes => {}
                Room::Later => {
                    self.pages.goes_on = true;
                    return Loaded::NoRoom;
                }
                Room::No => {
                    self.pages.short = true;
                    return Loaded::NoRoom;
                }
            }
        }
        for page in fresh {
            self.load_page(volume, page);
        }
        absent.first().map_or(Loaded::Yes, |page| Loaded::Wait(*page))
    }

    fn load_page(&mut self, volume: u16, page: u64) {
        self.pages.loading.insert((volume, page), Vec::new());
        let entry = self.volumes.map(volume).page_at(page);
        let at = entry.location(&self.config.geometry).expect("a page that is nowhere is loaded");
        self.stats.pages_loaded += 1;
        self.space.add_reader(at.unit);
        if let Some(bytes) = self.page_in_memory(volume, page, at) {
            mark!(PageOnItsWay);
            return self.pages.arrived.push_back((volume, page, at, bytes));
        }
        let op = self.ops.insert(Op::LoadPage { volume, page, at });
        self.device(op, DeviceCmd::ReadPage { at });
    }

    /// A page that is not loaded, and was moved on media and may not be there yet.
    pub(crate) fn page_in_memory(&self, volume: u16, page: u64, at: Location) -> Option<PageBytes> {
        if bug!(self.config, MovedPageFromMedia) {
            return None;
        }
        let waits = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.moved(volume, page));
        let writers = self.space.has_writers(at.unit);
        let flies = || self.flights.page_in_flight(at, self.config.geometry.logical_block());
        waits.or_else(|| if writers { flies() } else { None }).cloned()
    }

    /// Takes over pages that need not be read. Returns whether there were any.
    pub(crate) fn pages_arrive(&mut self) -> bool {
        let mut any = false;
        while let Some((volume, page, at, bytes)) = self.pages.arrived.pop_front() {
            any = true;
            self.page_read(volume, page, at, Some(&bytes));
        }
        any
    }

    /// Whether no page is on its way.
    pub(crate) fn pages_idle(&self) -> bool {
        self.pages.loading.is_empty()
    }

    /// Whether any page of a volume is on its way.
    pub(crate) fn is_loading(&self, volume: u16) -> bool {
        self.pages.loading.keys().any(|&(of, _)| of == volume)
    }

    /// Parks what waits for `page`, which is on its way; the other page that it needs stays.
    pub(crate) fn park(&mut self, volume: u16, page: u64, what: Waits<P>) {
        mark!(RequestWaits);
        let (Waits::Read { extent, .. } | Waits::Write { extent, .. }) = &what;
        let pages = extent.lba / PAGE..(extent.lba + extent.blocks).div_ceil(PAGE);
        let held = pages.filter(|other| *other != page).map(|other| (volume, other)).next();
        if let Some(held) = held {
            *self.pages.held.entry(held).or_default() += 1;
        }
        let waiting = self.pages.loading.get_mut(&(volume, page)).expect("the page was asked for");
        waiting.push(Parked { what, held });
    }

    /// Parks what waits for memory; first, if it waited already.
    pub(crate) fn await_memory(&mut self, what: Waits<P>, tried: Tried) {
        mark!(RequestWaitsForMemory);
        let parked = Parked { what, held: None };
        match tried {
            Tried::Not => self.pages.waiting.push_back(parked),
            Tried::Memory | Tried::Page => self.pages.waiting.push_front(parked),
        }
    }

    /// The error of a request for blocks of a damaged page.
    pub(crate) fn damaged_page(&self, volume: u16, page: u64) -> HostError {
        let at = self.volumes.map(volume).page_at(page).location(&self.config.geometry);
        HostError::Unreadable(at.expect("a page that is nowhere is not damaged"))
    }

    /// Page `page` was read from `at`.
    pub(crate) fn page_read(
        &mut self,
        volume: u16,
        page: u64,
        at: Location,
        bytes: Option<&PageBytes>,
    ) {
        let parked = self.pages.loading.remove(&(volume, page)).unwrap_or_default();
        let map = self.volumes.map(volume);
        let (id, parent) = (PageId { volume: map.id, index: page as u32 }, map.page_at(page));
        let geometry = self.config.geometry;
        self.space.drop_reader(at.unit);
        let moved = parent.location(&geometry) != Some(at);
        let decoded =
            bytes.and_then(|bytes| MapPage::decode(bytes.as_slice(), id, parent, &geometry).ok());
        match decoded {
            Some(MapPage(entries)) => self.page_loaded(volume, page, entries.as_slice()),
            // It stands elsewhere by now, and is read there by who needs it.
            None if moved => {
                return parked.into_iter().for_each(|parked| self.unpark(parked, Tried::Memory));
            }
            None => {
                mark!(PageDamaged);
                self.pages.damaged.insert((volume, page));
                self.actions.push_back(Action::Notice(Notice::Damaged { at }));
            }
        }
        parked.into_iter().for_each(|parked| self.unpark(parked, Tried::Page));
    }

    fn page_loaded(&mut self, volume: u16, page: u64, entries: &[MapEntry]) {
        self.volumes.map_mut(volume).load(page, entries);
        if self.phase == Phase::Opening {
            self.page_opened(volume, page);
        }
        self.volumes.note_pages(volume);
    }

    /// Where the pages stand that cannot be read, in order.
    pub(crate) fn damaged_pages(&self) -> Vec<Location> {
        let mut damaged: Vec<(u16, u64)> = self.pages.damaged.iter().copied().collect();
        damaged.sort_unstable();
        let at = |&(volume, page): &(u16, u64)| {
            self.volumes.map(volume).page_at(page).location(&self.config.geometry)
        };
        damaged.iter().filter_map(at).collect()
    }

    /// Lets damaged pages be read again. Returns whether there are any.
    pub(crate) fn retry_damaged(&mut self) -> bool {
        let any = !self.pages.damaged.is_empty();
        self.pages.damaged.clear();
        self.pages.ask_again();
        any
    }

    /// A page is about to be written elsewhere as it was read: if it could not be read before, it can then.
    pub(crate) fn damaged_page_moved(&mut self, volume: u16, page: u64) {
        let damaged = self.pages.damaged.remove(&(volume, page));
        mark!(DamagedMoved if damaged);
        if damaged {
            self.pages.ask_again();
        }
    }

    /// Takes the pages that could not be read, those of deleted volumes apart, in order: they are to be tried again.
    pub(crate) fn take_damaged(&mut self) -> Vec<(u16, VolumeId, u64)> {
        let alive = |&(volume, page): &(u16, u64)| {
            let map = self.volumes.map(volume);
            (!map.deleted).then_some((volume, map.id, page))
        };
        let mut taken: Vec<_> = self.pages.damaged.iter().filter_map(alive).collect();
        taken.sort_unstable();
        for &(volume, _, page) in &taken {
            self.pages.forget(volume, page);
            self.pages.ask_again();
        }
        taken
    }

    /// A piece of a walk through the pages of all maps, see [`crate::volumes::Volumes::next_page`].
    pub(crate) fn next_page(
        &mut self,
        cursor: &mut PageCursor,
        wanted: Wanted,
        budget: &mut u32,
    ) -> Walk {
        let before = *budget;
        let walk = self.volumes.next_page(cursor, wanted, budget);
        self.stats.looked_at += u64::from(before - *budget);
        walk
    }

    /// Goes on in the background. Returns whether anything was done.
    pub(crate) fn load_step(&mut self) -> bool {
        let Background::Asks(mut cursor) = self.pages.background else {
            let loaded = self.pages.background == Background::Asked && self.pages_idle();
            if loaded && self.pages.damaged.is_empty() {
                self.pages.background = Background::Over;
                self.actions.push_back(Action::Notice(Notice::MapLoaded));
            }
            return loaded && self.pages.damaged.is_empty();
        };
        // A pool that is closed needs nothing more.
        if self.pages.loading.len() >= LOADS || self.phase == Phase::Closing {
            return false;
        }
        if !self.all_pages_fit() {
            self.pages.background = Background::Over;
            return false;
        }
        let mut budget = WORDS;
        match self.next_page(&mut cursor, Wanted::Unloaded, &mut budget) {
            Walk::Found(volume, page) => {
                self.loaded(volume, page * PAGE, page * PAGE + 1, Share::Read);
            }
            Walk::Pause => {}
            Walk::End => {
                self.pages.background = Background::Asked;
                return true;
            }
        }
        self.pages.background = Background::Asks(cursor);
        true
    }

    pub(crate) fn unpark(&mut self, Parked { what, held }: Parked<P>, tried: Tried) {
        self.pages.let_go(held);
        match what {
            Waits::Read { request, extent, into } => self.read_again(request, extent, into, tried),
            Waits::Write { request, extent, data, handle } => {
                self.write_again(request, extent, data, handle, tried);
            }
        }
    }

    /// Fails what waits for pages and would write.
    pub(crate) fn pages_failed(&mut self) {
        let mut keys: Vec<(u16, u64)> = self.pages.loading.keys().copied().collect();
        keys.sort_unstable();
        let mut failed = Vec::new();
        for key in keys {
            let waiting = self.pages.loading.get_mut(&key).expect("the key was just seen");
            let (writes, reads): (Vec<Parked<P>>, Vec<Parked<P>>) = std::mem::take(waiting)
                .into_iter()
                .partition(|parked| matches!(parked.what, Waits::Write { .. }));
            *waiting = reads;
            failed.extend(writes);
        }
        let (writes, reads): (Vec<Parked<P>>, Vec<Parked<P>>) =
            std::mem::take(&mut self.pages.waiting)
                .into_iter()
                .partition(|parked| matches!(parked.what, Waits::Write { .. }));
        self.pages.waiting = reads.into();
        failed.extend(writes);
        for parked in failed {
            mark!(WaitingFailed);
            self.pages.let_go(parked.held);
            if let Waits::Write { request, .. } = parked.what {
                self.request_progress(request, 1, Some(HostError::Failed));
            }
        }
    }
}
