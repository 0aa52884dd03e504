//! Pages of the map on their way to memory, and the requests that wait for them.
//!
//! A request that needs an unloaded page waits for the page and then starts anew. The request asks for all its pages at
//! once, and only if memory suffices for all pages. Otherwise the request waits for memory, in order of arrival. If
//! memory suffices for all pages of all maps, the pages are loaded in the background.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use thermocline_format::Location;

use crate::device::PageBytes;
use crate::request::Extent;
use crate::volumes::PageCursor;

/// Pages that are loaded at once ahead of their use. Chosen, not measured.
pub(crate) const LOADS: usize = 64;

/// Most work of one step: pages with all entries, words of 64 pages each, units. Chosen so that a step takes well under
/// a millisecond.
pub(crate) const PAGES: u64 = 64;
pub(crate) const WORDS: u32 = 4096;
pub(crate) const UNITS: u32 = 4096;

/// A request that waits for a page, or for memory.
#[derive(Debug)]
pub(crate) struct Parked<P> {
    pub(crate) what: Waits<P>,
    /// Pages in memory that the request needs as well.
    pub(crate) held: Vec<(u16, u64)>,
}

impl<P> Parked<P> {
    fn writes(&self) -> bool {
        matches!(self.what, Waits::Write { .. })
    }
}

#[derive(Debug)]
pub(crate) enum Waits<P> {
    Read { request: u32, extent: Extent, into: P },
    Write { request: u32, extent: Extent, data: P, handle: u16 },
}

/// The resource that a request has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// Nothing.
    Not,
    /// Memory.
    Memory,
    /// A page, which was read or could not be.
    Page,
}

/// Work that goes from page to page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Trim,
    Scrub,
    Search,
    Losing,
    /// Twice: a layer, and one above.
    Covered,
    Covering,
}

/// How far the background has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Background {
    /// It asks for the pages from here on.
    Asks(PageCursor),
    /// The background has asked for all pages.
    Asked,
    /// Every page is loaded, or they need more memory than there is.
    Over,
}

/// Pages in flight, and requests that wait for pages.
#[derive(Debug)]
pub(crate) struct Pages<P> {
    background: Background,
    loading: FxHashMap<(u16, u64), Vec<Parked<P>>>,
    /// Pages that need not be read: they were still in memory for their write to media.
    arrived: VecDeque<(u16, u64, Location, PageBytes)>,
    /// Pages that cannot be read.
    damaged: FxHashSet<(u16, u64)>,
    /// Requests that wait for memory.
    waiting: VecDeque<Parked<P>>,
    /// Pages in memory that requests need while waiting for other pages, with the number of requests.
    held: FxHashMap<(u16, u64), u32>,
    /// The page needed now by each work that goes from page to page.
    next: [Option<(u16, u64)>; 6],
    /// The hand that evicts pages.
    hand: PageCursor,
    /// How far the pages are gone through that were written for a flushed record.
    landing: Option<PageCursor>,
    /// Whether a request found no memory and no page to evict.
    short: bool,
    /// Checkpoints when the host first found no memory.
    short_since: Option<u64>,
    /// Checkpoints when a write first found the pool full by counts that may be too high.
    full_since: Option<u64>,
    /// Whether a write waits for a walk through the layers of deleted snapshots.
    walk: bool,
    /// Whether a user of pages still waits for the hand to come around.
    goes_on: bool,
    /// Whether an opening may have taken more memory than there is, and has not given it back yet.
    excess: bool,
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
            next: [None; 6],
            hand: PageCursor::default(),
            landing: None,
            short: false,
            short_since: None,
            full_since: None,
            walk: false,
            goes_on: false,
            excess: true,
        }
    }
}

impl<P> Pages<P> {
    /// How many pages are on their way.
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

    /// The page cannot be read.
    pub(crate) fn note_damaged(&mut self, page: (u16, u64)) {
        self.damaged.insert(page);
    }

    pub(crate) fn is_damaged(&self, page: (u16, u64)) -> bool {
        self.damaged.contains(&page)
    }

    /// Whether some pages cannot be read.
    pub(crate) fn has_damaged(&self) -> bool {
        !self.damaged.is_empty()
    }

    /// The pages that cannot be read, in order.
    pub(crate) fn damaged(&self) -> Vec<(u16, u64)> {
        let mut damaged: Vec<(u16, u64)> = self.damaged.iter().copied().collect();
        damaged.sort_unstable();
        damaged
    }

    /// Lets a page be read again that could not be. Returns whether it could not.
    pub(crate) fn retry(&mut self, page: (u16, u64)) -> bool {
        let damaged = self.damaged.remove(&page);
        if damaged {
            self.ask_again();
        }
        damaged
    }

    /// Lets all of these be read again. Returns whether there are any.
    pub(crate) fn retry_all(&mut self) -> bool {
        let any = !self.damaged.is_empty();
        self.damaged.clear();
        self.ask_again();
        any
    }

    /// The background has to ask for pages anew that it asked for already.
    fn ask_again(&mut self) {
        if self.background == Background::Asked {
            self.background = Background::Asks(PageCursor::default());
        }
    }

    /// How far the background has come.
    pub(crate) fn background(&self) -> Background {
        self.background
    }

    pub(crate) fn set_background(&mut self, background: Background) {
        self.background = background;
    }

    /// A page is asked for.
    pub(crate) fn begin(&mut self, page: (u16, u64)) {
        self.loading.insert(page, Vec::new());
    }

    /// A page in flight need not be read: the page was still in memory for its write to media.
    pub(crate) fn arrive(&mut self, page: (u16, u64), at: Location, bytes: PageBytes) {
        self.arrived.push_back((page.0, page.1, at, bytes));
    }

    /// Whether there are such.
    pub(crate) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// The next of these.
    pub(crate) fn next_arrived(&mut self) -> Option<(u16, u64, Location, PageBytes)> {
        self.arrived.pop_front()
    }

    /// A page was read, or the read failed; returns the waiters for the page.
    pub(crate) fn end(&mut self, page: (u16, u64)) -> Vec<Parked<P>> {
        self.loading.remove(&page).unwrap_or_default()
    }

    pub(crate) fn is_loading(&self, page: (u16, u64)) -> bool {
        self.loading.contains_key(&page)
    }

    /// Whether any page of a volume is on its way.
    pub(crate) fn is_loading_of(&self, volume: u16) -> bool {
        self.loading.keys().any(|&(of, _)| of == volume)
    }

    /// A request needs a page in memory.
    pub(crate) fn hold(&mut self, page: (u16, u64)) {
        *self.held.entry(page).or_default() += 1;
    }

    /// Parks what waits for `page`, which is on its way, and keeps the pages that it `held` in memory.
    ///
    /// # Panics
    /// If that page is not on its way.
    pub(crate) fn park(&mut self, page: (u16, u64), what: Waits<P>, held: Vec<(u16, u64)>) {
        held.iter().for_each(|page| self.hold(*page));
        let waiting = self.loading.get_mut(&page).expect("the page was asked for");
        waiting.push(Parked { what, held });
    }

    /// A request that waited no longer needs these pages.
    pub(crate) fn let_go(&mut self, held: &[(u16, u64)]) {
        for page in held {
            if let Some(count) = self.held.get_mut(page) {
                *count -= 1;
                if *count == 0 {
                    self.held.remove(page);
                }
            }
        }
    }

    /// Parks a request that waits for memory; at the front, if the request waited already.
    pub(crate) fn await_memory(&mut self, what: Waits<P>, first: bool) {
        let parked = Parked { what, held: Vec::new() };
        if first {
            self.waiting.push_front(parked);
        } else {
            self.waiting.push_back(parked);
        }
    }

    /// How many requests wait for memory.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the first request that waits for memory.
    pub(crate) fn next_waiting(&mut self) -> Option<Parked<P>> {
        self.waiting.pop_front()
    }

    /// Takes the requests that wait and would write, in order.
    pub(crate) fn take_writes(&mut self) -> Vec<Parked<P>> {
        let mut keys: Vec<(u16, u64)> = self.loading.keys().copied().collect();
        keys.sort_unstable();
        let mut writes = Vec::new();
        for key in keys {
            let waiting = self.loading.get_mut(&key).expect("the key was just seen");
            writes.extend(waiting.extract_if(.., |parked| parked.writes()));
        }
        let (failed, reads) = self.waiting.drain(..).partition::<Vec<_>, _>(Parked::writes);
        self.waiting = reads.into();
        writes.extend(failed);
        writes.iter().for_each(|parked| self.let_go(&parked.held));
        writes
    }

    /// A request found no memory and no page to evict.
    pub(crate) fn note_short(&mut self) {
        self.short = true;
    }

    /// Whether [`Pages::note_short`] was called since the last call.
    pub(crate) fn take_short(&mut self) -> bool {
        std::mem::take(&mut self.short)
    }

    /// Checkpoints when the host first found no memory, so many as there are now if that is new.
    pub(crate) fn short_since(&mut self, checkpoints: u64) -> u64 {
        *self.short_since.get_or_insert(checkpoints)
    }

    /// The host has found memory.
    pub(crate) fn relieved(&mut self) {
        self.short_since = None;
    }

    /// The pool is full by counts that may be too high. Returns whether the pool has been full since before a whole
    /// checkpoint, of `checkpoints` so far: the counts are then as exact as they can be.
    pub(crate) fn counted_since(&mut self, checkpoints: u64) -> bool {
        // One may have been in progress.
        *self.full_since.get_or_insert(checkpoints) + 2 <= checkpoints
    }

    /// A write waits for a walk through the layers of deleted snapshots, or none does.
    pub(crate) fn want_walk(&mut self, wanted: bool) {
        self.walk = wanted;
    }

    /// Whether a write waits for such a walk.
    pub(crate) fn is_walk_wanted(&self) -> bool {
        self.walk
    }

    /// The pool is not full.
    pub(crate) fn has_room(&mut self) {
        self.full_since = None;
        self.walk = false;
    }

    /// A user of pages still waits for the hand to come around.
    pub(crate) fn note_goes_on(&mut self) {
        self.goes_on = true;
    }

    /// Whether [`Pages::note_goes_on`] was called since the last call.
    pub(crate) fn take_goes_on(&mut self) -> bool {
        std::mem::take(&mut self.goes_on)
    }

    /// Where the hand is that takes pages out of memory.
    pub(crate) fn hand(&self) -> PageCursor {
        self.hand
    }

    pub(crate) fn set_hand(&mut self, hand: PageCursor) {
        self.hand = hand;
    }

    /// How far the pages are gone through that were written for a flushed record; `None` if that is over.
    pub(crate) fn landing(&self) -> Option<PageCursor> {
        self.landing
    }

    pub(crate) fn set_landing(&mut self, landing: Option<PageCursor>) {
        self.landing = landing;
    }

    /// Whether an opening may have taken more memory than there is, and has not given it back yet.
    pub(crate) fn has_excess(&self) -> bool {
        self.excess
    }

    pub(crate) fn excess_is_over(&mut self) {
        self.excess = false;
    }

    /// Sets the page needed now by `who`.
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

#[cfg(test)]
mod tests {
    use thermocline_format::VolumeId;

    use super::*;

    fn extent() -> Extent {
        Extent { volume: VolumeId(1), lba: 0, blocks: 1 }
    }

    fn read(request: u32) -> Waits<()> {
        Waits::Read { request, extent: extent(), into: () }
    }

    fn write(request: u32) -> Waits<()> {
        Waits::Write { request, extent: extent(), data: (), handle: 0 }
    }

    fn numbers(parked: &[Parked<()>]) -> Vec<u32> {
        let number = |parked: &Parked<()>| match parked.what {
            Waits::Read { request, .. } | Waits::Write { request, .. } => request,
        };
        parked.iter().map(number).collect()
    }

    #[test]
    fn a_page_is_kept_while_a_request_needs_it_beside_one_on_its_way() {
        let mut pages = Pages::default();
        let (one, other) = ((0, 7), (0, 8));
        pages.begin(other);
        pages.park(other, read(1), vec![one]);
        pages.park(other, write(2), vec![one]);
        assert!(pages.is_needed(one) && !pages.is_needed(other) && pages.is_loading_of(0));
        let parked = pages.end(other);
        assert_eq!((numbers(&parked), pages.on_their_way()), (vec![1, 2], 0));
        pages.let_go(&parked[0].held);
        assert!(pages.is_needed(one), "the other still needs it");
        pages.let_go(&parked[1].held);
        assert!(!pages.is_needed(one));
    }

    #[test]
    fn requests_wait_for_memory_in_the_order_in_which_they_came() {
        let mut pages = Pages::default();
        [1, 2, 3].into_iter().for_each(|request| pages.await_memory(read(request), false));
        let first = pages.next_waiting().expect("three wait");
        pages.await_memory(first.what, true);
        let mut order = Vec::new();
        while let Some(parked) = pages.next_waiting() {
            order.push(parked);
        }
        assert_eq!(numbers(&order), [1, 2, 3]);
    }

    #[test]
    fn those_that_would_write_are_taken_and_those_that_read_wait_on() {
        let mut pages = Pages::default();
        pages.begin((0, 1));
        pages.park((0, 1), write(1), vec![(0, 5)]);
        pages.park((0, 1), read(2), Vec::new());
        pages.await_memory(read(3), false);
        pages.await_memory(write(4), false);
        assert_eq!(numbers(&pages.take_writes()), [1, 4]);
        assert!(!pages.is_needed((0, 5)));
        assert_eq!((numbers(&pages.end((0, 1))), pages.waiting()), (vec![2], 1));
    }

    #[test]
    fn the_background_asks_again_when_a_page_may_be_readable() {
        let mut pages: Pages<()> = Pages::default();
        pages.note_damaged((1, 2));
        pages.note_damaged((0, 9));
        pages.set_background(Background::Asked);
        assert_eq!(pages.damaged(), [(0, 9), (1, 2)]);
        assert!(!pages.retry((3, 3)) && pages.background() == Background::Asked);
        assert!(pages.retry((1, 2)) && pages.background() != Background::Asked);
        assert!(pages.retry_all() && !pages.retry_all());
    }
}
