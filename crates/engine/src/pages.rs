//! Loading pages of the map: those that a request needs at once, all others in the background.
//!
//! A request that needs a page which is not loaded waits for it and then starts anew. Garbage collection begins when
//! every page is loaded.

use rustc_hash::{FxHashMap, FxHashSet};
use thermocline_format::{Location, MapEntry, MapPage, PageId};

use crate::device::{DeviceCmd, PageBytes};
use crate::engine::{Engine, Op, Phase};
use crate::map::{PAGE, Wanted};
use crate::marks::mark;
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

/// A request that waits for a page.
#[derive(Debug)]
pub(crate) enum Parked<P> {
    Read { request: u32, extent: Extent, into: P },
    Write { request: u32, extent: Extent, data: P, handle: u16 },
}

/// How far the background has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It asks for the pages from here on.
    Pages(PageCursor),
    /// It has asked for all of them.
    Asked,
    /// Every page is loaded.
    Complete,
}

/// Pages on their way.
#[derive(Debug)]
pub(crate) struct Pages<P> {
    loading: FxHashMap<(u16, u64), Vec<Parked<P>>>,
    /// Pages that cannot be read.
    damaged: FxHashSet<(u16, u64)>,
    /// Blocks that the host had written when damaged pages were last tried again.
    tried_at: Option<u64>,
    stage: Stage,
}

impl<P> Default for Pages<P> {
    fn default() -> Self {
        Pages {
            loading: FxHashMap::default(),
            damaged: FxHashSet::default(),
            tried_at: None,
            stage: Stage::Pages(PageCursor::default()),
        }
    }
}

impl<P> Pages<P> {
    /// Whether every page was loaded.
    pub(crate) fn complete(&self) -> bool {
        self.stage == Stage::Complete
    }

    /// Whether nothing but pages that cannot be read is missing.
    pub(crate) fn are_damaged(&self) -> bool {
        self.stage == Stage::Asked && self.loading.is_empty() && !self.damaged.is_empty()
    }

    /// Whether every page was loaded, as far as they ever will be.
    pub(crate) fn are_known(&self) -> bool {
        self.complete() || self.are_damaged()
    }

    pub(crate) fn on_their_way(&self) -> usize {
        self.loading.len()
    }

    /// The page is needed no more.
    pub(crate) fn forget(&mut self, volume: u16, page: u64) {
        self.damaged.remove(&(volume, page));
    }
}

/// Whether blocks can be looked up.
pub(crate) enum Loaded {
    Yes,
    /// After this page was read.
    Wait(u64),
    /// Never: this page is damaged.
    No(u64),
}

impl<P: Payload> Engine<P> {
    /// Whether the pages of blocks `from` to `end` are loaded; asks for the first that is not.
    pub(crate) fn loaded(&mut self, volume: u16, from: u64, end: u64) -> Loaded {
        for page in from / PAGE..end.div_ceil(PAGE) {
            if !self.volumes.map(volume).is_loaded(page) {
                if self.pages.damaged.contains(&(volume, page)) {
                    return Loaded::No(page);
                }
                self.load_page(volume, page);
                return Loaded::Wait(page);
            }
        }
        Loaded::Yes
    }

    fn load_page(&mut self, volume: u16, page: u64) {
        if self.pages.loading.contains_key(&(volume, page)) {
            return;
        }
        self.pages.loading.insert((volume, page), Vec::new());
        let entry = self.volumes.map(volume).page_at(page);
        let at = entry.location(&self.config.geometry).expect("a page that is nowhere is loaded");
        let op = self.ops.insert(Op::LoadPage { volume, page });
        self.space.tail(at.unit).readers += 1;
        self.device(op, DeviceCmd::ReadPage { at });
    }

    /// Whether no page is on its way.
    pub(crate) fn pages_idle(&self) -> bool {
        self.pages.loading.is_empty()
    }

    /// Whether any page of a volume is on its way.
    pub(crate) fn is_loading(&self, volume: u16) -> bool {
        self.pages.loading.keys().any(|&(of, _)| of == volume)
    }

    /// Parks what waits for `page`, which is on its way.
    pub(crate) fn park(&mut self, volume: u16, page: u64, parked: Parked<P>) {
        let waiting = self.pages.loading.get_mut(&(volume, page)).expect("the page was asked for");
        mark!(RequestWaits);
        waiting.push(parked);
    }

    /// The error of a request for blocks of a damaged page.
    pub(crate) fn damaged_page(&self, volume: u16, page: u64) -> HostError {
        let at = self.volumes.map(volume).page_at(page).location(&self.config.geometry);
        HostError::Unreadable(at.expect("a page that is nowhere is not damaged"))
    }

    pub(crate) fn page_read(&mut self, volume: u16, page: u64, bytes: Option<&PageBytes>) {
        let parked = self.pages.loading.remove(&(volume, page)).unwrap_or_default();
        let map = self.volumes.map(volume);
        let (id, parent) = (PageId { volume: map.id, index: page as u32 }, map.page_at(page));
        let geometry = self.config.geometry;
        let at = parent.location(&geometry).expect("a page that was read is somewhere");
        self.space.tail(at.unit).readers -= 1;
        let decoded =
            bytes.and_then(|bytes| MapPage::decode(bytes.as_slice(), id, parent, &geometry).ok());
        match decoded {
            Some(MapPage(entries)) => self.page_loaded(volume, page, entries.as_slice()),
            None => {
                mark!(PageDamaged);
                self.pages.damaged.insert((volume, page));
                self.actions.push_back(Action::Notice(Notice::Damaged { at }));
            }
        }
        parked.into_iter().for_each(|parked| self.unpark(parked));
    }

    fn page_loaded(&mut self, volume: u16, page: u64, entries: &[MapEntry]) {
        self.volumes.map_mut(volume).load(page, entries);
        self.volumes.note_pages(volume);
        if self.phase == Phase::Opening {
            self.touch_page(volume, page);
        }
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

    /// Tries again to read damaged pages: without them nothing can be collected. Returns whether it is worth trying.
    pub(crate) fn retry_damaged(&mut self) -> bool {
        let now = Some(self.stats.host_blocks_written);
        if self.pages.damaged.is_empty() || self.pages.tried_at == now {
            return false;
        }
        self.pages.tried_at = now;
        mark!(DamagedPagesRetried);
        self.pages.damaged.clear();
        self.pages.stage = Stage::Pages(PageCursor::default());
        true
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
        match self.pages.stage {
            Stage::Complete => false,
            Stage::Pages(cursor) => self.load_next(cursor),
            Stage::Asked if !self.pages_idle() => false,
            Stage::Asked if self.pages.damaged.is_empty() => {
                self.pages.stage = Stage::Complete;
                self.actions.push_back(Action::Notice(Notice::MapLoaded));
                true
            }
            Stage::Asked => false,
        }
    }

    fn load_next(&mut self, mut cursor: PageCursor) -> bool {
        // A pool that is closed needs nothing more, unless what was written needs room.
        let over = self.phase == Phase::Closing && self.stage.is_empty();
        if self.pages.loading.len() >= LOADS || over {
            return false;
        }
        let mut budget = WORDS;
        match self.next_page(&mut cursor, Wanted::Unloaded, &mut budget) {
            Walk::Found(volume, page) => self.load_page(volume, page),
            Walk::Pause => {}
            Walk::End => {
                self.pages.stage = Stage::Asked;
                return true;
            }
        }
        self.pages.stage = Stage::Pages(cursor);
        true
    }

    fn unpark(&mut self, parked: Parked<P>) {
        match parked {
            Parked::Read { request, extent, into } => self.read(request, extent, into),
            Parked::Write { request, extent, data, handle } => {
                self.write(request, extent, data, handle);
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
                .partition(|parked| matches!(parked, Parked::Write { .. }));
            *waiting = reads;
            failed.extend(writes);
        }
        for parked in failed {
            mark!(WaitingFailed);
            if let Parked::Write { request, .. } = parked {
                self.request_progress(request, 1, Some(HostError::Failed));
            }
        }
    }
}
