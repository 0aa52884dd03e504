//! Pages of maps that are loaded, and the requests that wait for them.

use thermocline_format::{Location, MapEntry, MapPage, PageId, VolumeId};
use thermocline_types::Version;

use crate::bugs::bug;
use crate::device::{DeviceCmd, PageBytes};
use crate::engine::{Engine, Op, Phase};
use crate::map::{FRAME_BYTES, PAGE, Presence, VolumeMap, Wanted};
use crate::marks::mark;
use crate::memory::{Room, Share};
use crate::pages::{Background, LOADS, Loaded, Parked, Tried, WORDS, Waits};
use crate::payload::Payload;
use crate::request::{Action, Extent, HostError, Notice};
use crate::volumes::{PageCursor, Walk};

impl<P: Payload> Engine<P> {
    /// Whether what is needed of the pages of blocks `from` to `end` is in memory; asks for those that have to be read.
    #[inline]
    pub(crate) fn loaded(&mut self, volume: u16, from: u64, end: u64, share: Share) -> Loaded {
        let pages = from / PAGE..end.div_ceil(PAGE);
        let map = self.volumes.map_mut(volume);
        let here = |presence| match presence {
            Presence::Resident => true,
            Presence::Empty => share != Share::Write,
            Presence::Absent => false,
        };
        if pages.into_iter().all(|page| here(map.touch(page))) {
            return Loaded::Yes;
        }
        self.find_pages(volume, from, end, share)
    }

    /// Makes room for what of these pages is not in memory, and asks for those on media that are needed whole.
    #[cold]
    fn find_pages(&mut self, volume: u16, from: u64, end: u64, share: Share) -> Loaded {
        let (mut absent, mut new) = (Vec::new(), 0);
        let (mut patches, mut patched) = (0, 0);
        let map = self.volumes.map_mut(volume);
        for page in from / PAGE..end.div_ceil(PAGE) {
            let blocks = from.max(page * PAGE)..end.min((page + 1) * PAGE);
            match map.touch(page) {
                Presence::Resident => {}
                Presence::Empty => new += u64::from(share == Share::Write),
                Presence::Absent if self.pages.is_damaged((volume, page)) => {
                    return Loaded::No(page);
                }
                Presence::Absent if share == Share::Write => {
                    patches += 1;
                    patched += blocks.end - blocks.start;
                }
                Presence::Absent => {
                    let known = share == Share::Read && map.is_patched(page);
                    if !known || blocks.into_iter().any(|lba| map.look_up(lba).is_none()) {
                        absent.push(page);
                    }
                }
            }
        }
        let asked = |page: &u64| self.pages.is_loading((volume, *page));
        let fresh: Vec<u64> = absent.iter().copied().filter(|page| !asked(page)).collect();
        let patches = VolumeMap::patch_bytes_for(patches, patched).div_ceil(FRAME_BYTES);
        let count = new + fresh.len() as u64 + patches;
        if count > 0 {
            let own = (volume, from / PAGE, end.div_ceil(PAGE));
            match self.make_room(count, share, own) {
                Room::Yes => {}
                Room::Later => {
                    self.pages.note_goes_on();
                    return Loaded::NoRoom;
                }
                Room::No => {
                    self.pages.note_short();
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
        self.pages.begin((volume, page));
        let entry = self.volumes.map(volume).page_at(page);
        let at = entry.location(&self.config.geometry).expect("a page that is nowhere is loaded");
        self.stats.pages_loaded += 1;
        self.space.add_reader(at.unit);
        if let Some(bytes) = self.page_in_memory(volume, page, at) {
            mark!(PageOnItsWay);
            return self.pages.arrive((volume, page), at, bytes);
        }
        let op = self.ops.insert(Op::LoadPage { volume, page, at });
        self.device(op, DeviceCmd::ReadPage { at, version: Version::AS_READ });
    }

    /// A page that is not loaded, and was moved on media and may not be there yet.
    pub(crate) fn page_in_memory(&self, volume: u16, page: u64, at: Location) -> Option<PageBytes> {
        if bug!(self.config, MovedPageFromMedia) {
            return None;
        }
        let stands = self.volumes.map(volume).page_at(page);
        let checkpoint = self.checkpoint.as_ref();
        let waits = checkpoint.and_then(|checkpoint| checkpoint.moved(volume, page, stands));
        let writers = self.space.has_writers(at.unit);
        let flies = || self.flights.page_in_flight(at, self.config.geometry.logical_block());
        waits.or_else(|| if writers { flies() } else { None }).cloned()
    }

    /// Takes over pages that need not be read. Returns whether there were any.
    pub(crate) fn pages_arrive(&mut self) -> bool {
        let mut any = false;
        while let Some((volume, page, at, bytes)) = self.pages.next_arrived() {
            any = true;
            self.page_read(volume, page, at, Some(&bytes));
        }
        any
    }

    /// Whether no page is on its way.
    pub(crate) fn pages_idle(&self) -> bool {
        self.pages.on_their_way() == 0
    }

    /// Parks what waits for `page`, which is on its way; the other page that it needs stays.
    pub(crate) fn park(&mut self, volume: u16, page: u64, what: Waits<P>) {
        mark!(RequestWaits);
        let (Waits::Read { extent, .. } | Waits::Write { extent, .. }) = &what;
        let pages = extent.lba / PAGE..(extent.lba + extent.blocks).div_ceil(PAGE);
        let held = pages.filter(|other| *other != page).map(|other| (volume, other)).next();
        self.pages.park((volume, page), what, held);
    }

    /// Parks what waits for memory; first, if it waited already.
    pub(crate) fn await_memory(&mut self, what: Waits<P>, tried: Tried) {
        mark!(RequestWaitsForMemory);
        self.pages.await_memory(what, tried != Tried::Not);
    }

    /// The blocks of a volume that a page of its map covers.
    pub(crate) fn extent_of_page(&self, volume: u16, page: u64) -> Extent {
        let map = self.volumes.map(volume);
        let lba = page * PAGE;
        Extent { volume: map.id, lba, blocks: PAGE.min(map.blocks.saturating_sub(lba)) }
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
        let parked = self.pages.end((volume, page));
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
                self.pages.note_damaged((volume, page));
                self.report_damage(at, Some(self.extent_of_page(volume, page)));
            }
        }
        parked.into_iter().for_each(|parked| self.unpark(parked, Tried::Page));
    }

    fn page_loaded(&mut self, volume: u16, page: u64, entries: &[MapEntry]) {
        let bases = self.volumes.map_mut(volume).load(page, entries);
        self.settle_bases(volume, bases);
        if self.phase == Phase::Opening {
            self.page_opened(volume, page);
        }
        self.volumes.note_pages(volume);
    }

    /// Where the pages stand that cannot be read, in order.
    pub(crate) fn damaged_pages(&self) -> Vec<Location> {
        let at = |&(volume, page): &(u16, u64)| {
            self.volumes.map(volume).page_at(page).location(&self.config.geometry)
        };
        self.pages.damaged().iter().filter_map(at).collect()
    }

    /// A page is about to be written elsewhere as it was read: if it could not be read before, it can then.
    pub(crate) fn damaged_page_moved(&mut self, volume: u16, page: u64) {
        let damaged = self.pages.retry((volume, page));
        mark!(DamagedMoved if damaged);
    }

    /// Takes the pages that could not be read, those of deleted volumes apart, in order: they are to be tried again.
    pub(crate) fn take_damaged(&mut self) -> Vec<(u16, VolumeId, u64)> {
        let alive = |&(volume, page): &(u16, u64)| {
            let map = self.volumes.map(volume);
            (!map.deleted).then_some((volume, map.id, page))
        };
        let taken: Vec<_> = self.pages.damaged().iter().filter_map(alive).collect();
        taken.iter().for_each(|&(volume, _, page)| _ = self.pages.retry((volume, page)));
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
        let Background::Asks(mut cursor) = self.pages.background() else {
            let asked = self.pages.background() == Background::Asked;
            let all = asked && self.pages_idle() && !self.pages.has_damaged();
            if all {
                self.pages.set_background(Background::Over);
                self.actions.push_back(Action::Notice(Notice::MapLoaded));
            }
            return all;
        };
        // A pool that is closed needs nothing more.
        if self.pages.on_their_way() >= LOADS || self.phase == Phase::Closing {
            return false;
        }
        if !self.all_pages_fit() {
            self.pages.set_background(Background::Over);
            return false;
        }
        let mut budget = WORDS;
        match self.next_page(&mut cursor, Wanted::Unloaded, &mut budget) {
            Walk::Found(volume, page) => {
                self.loaded(volume, page * PAGE, page * PAGE + 1, Share::Read);
            }
            Walk::Pause => {}
            Walk::End => {
                self.pages.set_background(Background::Asked);
                return true;
            }
        }
        self.pages.set_background(Background::Asks(cursor));
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
        for parked in self.pages.take_writes() {
            mark!(WaitingFailed);
            if let Waits::Write { request, .. } = parked.what {
                self.request_progress(request, 1, Some(HostError::Failed));
            }
        }
    }
}
