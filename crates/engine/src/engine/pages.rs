//! Pages of maps that are loaded, and the requests that wait for them.

use thermocline_format::MapEntry;
use thermocline_types::Version;

use crate::device::DeviceCmd;
use crate::engine::{Op, Parts, Phase};
use crate::map::{FRAME_BYTES, Mapping, PAGE, Presence, VolumeMap, Wanted};
use crate::marks::mark;
use crate::memory::{Room, Share};
use crate::pages::{Background, LOADS, Loaded, Tried, WORDS, Waits};
use crate::payload::Payload;
use crate::request::{Action, Extent, HostError, Notice};
use crate::volumes::Walk;

impl<P: Payload> Parts<P> {
    /// Whether what is needed of the pages of blocks `from` to `end` is in memory; requests missing pages.
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

    /// Makes room for the missing pages, and requests the pages on media that are needed whole.
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

    /// As [`Parts::loaded`] for a read, of all layers that have blocks of `extent` in the volume at `top`. Also returns
    /// the layer that the answer is about, and the pages of the layers above it.
    pub(crate) fn loaded_through(
        &mut self,
        top: u16,
        extent: Extent,
    ) -> (u16, Loaded, Vec<(u16, u64)>) {
        let (from, mut end) = (extent.lba, extent.lba + extent.blocks);
        let (mut layer, mut held) = (top, Vec::new());
        let loaded = loop {
            let loaded = self.loaded(layer, from, end, Share::Read);
            let map = self.volumes.map(layer);
            let Some(below) = map.layer.below.filter(|_| matches!(loaded, Loaded::Yes)) else {
                break loaded;
            };
            let pages = (from / PAGE..end.div_ceil(PAGE)).map(|page| (layer, page));
            let through = end.min(map.layer.least).min(self.volumes.map(below).blocks);
            let falls = |lba: u64| map.look_up(lba) == Some(Mapping::Unmapped);
            if !(from..through).any(falls) {
                break loaded;
            }
            // What was found must stay until all is.
            held.extend(pages.inspect(|page| self.pages.hold(*page)));
            (layer, end) = (below, through);
        };
        self.pages.let_go(&held);
        (layer, loaded, held)
    }

    /// Parks a request until a page is read; the request's other pages there, and those that are `held` for it, stay in
    /// memory.
    pub(crate) fn park(&mut self, page: (u16, u64), what: Waits<P>, mut held: Vec<(u16, u64)>) {
        mark!(RequestWaits);
        let (Waits::Read { extent, .. } | Waits::Write { extent, .. }) = &what;
        let pages = extent.lba / PAGE..(extent.lba + extent.blocks).div_ceil(PAGE);
        held.extend(pages.map(|other| (page.0, other)).filter(|other| *other != page));
        self.pages.park(page, what, held);
    }

    /// Parks what waits for memory; first, if it waited already.
    pub(crate) fn await_memory(&mut self, what: Waits<P>, tried: Tried) {
        mark!(RequestWaitsForMemory);
        self.pages.await_memory(what, tried != Tried::Not);
    }

    pub(crate) fn page_loaded(&mut self, volume: u16, page: u64, entries: &[MapEntry]) {
        let bases = self.volumes.map_mut(volume).load(page, entries);
        self.settle_bases(volume, bases);
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
        // A closing pool loads no more pages.
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
