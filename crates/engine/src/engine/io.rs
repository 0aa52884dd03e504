//! Reads and writes of the host.

use thermocline_format::{Location, MediaClass, home_mark};
use thermocline_ftl::placement::{Part, Write};
use thermocline_types::{Lba, UnitId, Version};

use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError};
use crate::engine::{Op, Parts};
use crate::map::{Mapping, PAGE, Value};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{Loaded, Tried, Waits};
use crate::payload::Payload;
use crate::request::{Action, Extent, HostError, Reply, RequestId};
use crate::write_cache::{Owner, Owners, Staged};

/// When blocks can be staged that the host writes.
enum Staging {
    /// Now, in this volume.
    Now(u16),
    /// When this page of a layer was read; other pages stay in memory meanwhile.
    AfterPage((u16, u64), Vec<(u16, u64)>),
    /// When there is memory for pages, or room.
    WithMemory,
    /// When this page of a volume can be read, which it could not be.
    Damaged(u16, u64),
    /// Never.
    Never(HostError),
}

impl Staging {
    /// The outcome of a write whose pages are not loaded.
    fn hindered(volume: u16, loaded: &Loaded) -> Option<Staging> {
        match *loaded {
            Loaded::Yes => None,
            Loaded::Wait(page) => Some(Staging::AfterPage((volume, page), Vec::new())),
            Loaded::NoRoom => Some(Staging::WithMemory),
            Loaded::No(page) => Some(Staging::Damaged(volume, page)),
        }
    }
}

/// Blocks that are contiguous on media.
struct Run {
    at: Location,
    first: u32,
    values: Vec<Value>,
}

impl<P: Payload> Parts<P> {
    pub(crate) fn read(&mut self, request: u32, extent: Extent, into: P) {
        self.read_again(request, extent, into, Tried::Not);
    }

    /// Begins a read, which may have waited already.
    pub(crate) fn read_again(&mut self, request: u32, extent: Extent, into: P, tried: Tried) {
        let volume = match self.locate(extent) {
            Ok(volume) => volume,
            Err(error) => return self.request_progress(request, 1, Some(error)),
        };
        let (layer, loaded, held) = self.loaded_through(volume, extent);
        match loaded {
            Loaded::Yes => {}
            Loaded::Wait(page) => {
                return self.park((layer, page), Waits::Read { request, extent, into }, held);
            }
            Loaded::NoRoom => {
                return self.await_memory(Waits::Read { request, extent, into }, tried);
            }
            Loaded::No(page) if tried != Tried::Page => {
                // An earlier read of the page failed: the page may be readable by now.
                self.pages.forget(layer, page);
                return self.read_again(request, extent, into, tried);
            }
            Loaded::No(page) => {
                let error = self.damaged_page(layer, page);
                return self.request_progress(request, 1, Some(error));
            }
        }
        self.stats.host_blocks_read += extent.blocks;
        let (mut run, mut error): (Option<Run>, _) = (None, None);
        for index in 0..extent.blocks as u32 {
            let lba = extent.lba + u64::from(index);
            let (layer, mapping) = self.volumes.find(volume, lba);
            let mapping = mapping.expect("its page was loaded");
            if mapping == Mapping::At(Value::LOST) {
                error = Some(HostError::Lost);
            }
            let place = self.read_block(mapping, index, &into);
            let layer = self.volumes.map(layer).id;
            let place = place.map(|(at, value)| (at, value.of_bytes(layer, lba)));
            let next = run.take();
            run = match (next, place) {
                (Some(mut run), Some((at, value)))
                    if run.is_followed_by(at, &self.config.geometry) =>
                {
                    run.values.push(value);
                    Some(run)
                }
                (old, place) => {
                    if let Some(old) = old {
                        self.read_run(request, extent, old, &into);
                    }
                    place.map(|(at, value)| {
                        let mut values = self.spare_values.pop().unwrap_or_default();
                        values.push(value);
                        Run { at, first: index, values }
                    })
                }
            };
        }
        if let Some(run) = run {
            self.read_run(request, extent, run, &into);
        }
        self.request_progress(request, 1, error);
    }

    /// Serves block `index` of a read from memory, or tells where it is on media.
    fn read_block(&self, mapping: Mapping, index: u32, into: &P) -> Option<(Location, Value)> {
        match mapping {
            Mapping::Unmapped | Mapping::At(Value::HOLE) => into.slice(index, 1).fill_zero(),
            Mapping::Staged(slot) => {
                into.slice(index, 1).copy_block(&self.cache.block(slot).payload);
            }
            Mapping::At(Value::LOST) => {}
            Mapping::At(value) => {
                let at = self.addresses.location(value.address());
                let held = (self.space.has_writers(at.unit)
                    && !bug!(self.config, InFlightReadFromMedia))
                .then(|| self.flights.in_flight(at, &self.config));
                match held.flatten() {
                    Some(block) => into.slice(index, 1).copy_block(block),
                    None => return Some((at, value)),
                }
            }
        }
        None
    }

    fn read_run(&mut self, request: u32, asked: Extent, run: Run, into: &P) {
        self.requests.need(request, 1);
        self.space.add_reader(run.at.unit);
        let blocks = run.values.len() as u32;
        let into = into.slice(run.first, blocks);
        let (volume, lba) = (asked.volume, asked.lba + u64::from(run.first));
        let unit = run.at.unit;
        let op = self.ops.insert(Op::HostRead { request, volume, lba, unit, expected: run.values });
        let version = Version::AS_READ;
        self.device(op, DeviceCmd::Read { at: run.at, blocks, into: Some(into), version });
    }

    pub(crate) fn read_done(
        &mut self,
        request: u32,
        extent: Extent,
        unit: UnitId,
        mut expected: Vec<Value>,
        lost: &[u32],
        result: Result<(), DeviceError>,
    ) {
        self.space.drop_reader(unit);
        let wrong = match result {
            Err(_) => Some(0),
            Ok(()) => lost.first().copied(),
        };
        let wrong =
            wrong.map(|index| if bug!(self.config, UnreadableMisnamed) { 0 } else { index });
        let error = wrong.map(|index| {
            let at = self.addresses.location(expected[index as usize].address());
            self.stats.damaged_blocks += 1;
            let lba = extent.lba + u64::from(index);
            self.report_damage(at, Some(Extent { lba, blocks: 1, ..extent }));
            HostError::Unreadable(at)
        });
        expected.clear();
        self.spare_values.push(expected);
        self.request_progress(request, 1, error);
    }

    /// Stages host data and answers at once; `false`, without any effect, if impossible.
    #[inline]
    pub(crate) fn write_at_once(
        &mut self,
        id: RequestId,
        extent: Extent,
        data: &P,
        handle: u16,
    ) -> bool {
        if self.pages.waiting() > 0 {
            return false;
        }
        let Staging::Now(volume) = self.prepare(extent) else { return false };
        self.stage(None, volume, extent, data, handle);
        self.actions.push_back(Action::Complete { request: id, result: Ok(Reply::Done) });
        true
    }

    /// Stages host data. Returns `false` if the write waits or has failed.
    pub(crate) fn write(&mut self, request: u32, extent: Extent, data: P, handle: u16) -> bool {
        if self.pages.waiting() > 0 {
            // This write would make a page dirty that earlier requests are about to evict.
            self.await_memory(Waits::Write { request, extent, data, handle }, Tried::Not);
            return false;
        }
        self.write_again(request, extent, data, handle, Tried::Not)
    }

    /// Begins a write, which may have waited already.
    pub(crate) fn write_again(
        &mut self,
        request: u32,
        extent: Extent,
        data: P,
        handle: u16,
        tried: Tried,
    ) -> bool {
        match self.prepare(extent) {
            Staging::Now(volume) => {
                let owner = (!self.completes_in_memory(request)).then_some(Owner::Request(request));
                if owner.is_some() {
                    self.requests.need(request, extent.blocks as u32);
                }
                self.stage(owner, volume, extent, &data, handle);
                self.request_progress(request, 1, None);
                return true;
            }
            Staging::AfterPage(page, held) => {
                self.park(page, Waits::Write { request, extent, data, handle }, held);
            }
            Staging::WithMemory => {
                self.await_memory(Waits::Write { request, extent, data, handle }, tried);
            }
            Staging::Damaged(volume, page) if tried != Tried::Page => {
                self.pages.forget(volume, page);
                return self.write_again(request, extent, data, handle, tried);
            }
            Staging::Damaged(volume, page) => {
                let error = self.damaged_page(volume, page);
                self.request_progress(request, 1, Some(error));
            }
            Staging::Never(error) => self.request_progress(request, 1, Some(error)),
        }
        false
    }

    /// Finds out whether blocks can be staged, and counts those among the mapped that are new, if they can.
    #[inline]
    fn prepare(&mut self, extent: Extent) -> Staging {
        let volume = match self.locate_for_writing(extent) {
            Ok(volume) => volume,
            Err(error) => return Staging::Never(error),
        };
        let (from, end) = (extent.lba, extent.lba + extent.blocks);
        let loaded = self.loaded(volume, from, end, Share::Write);
        if let Some(hindrance) = Staging::hindered(volume, &loaded) {
            return hindrance;
        }
        let map = self.volumes.map(volume);
        let (mut new, mut unknown) = (0, 0);
        for lba in from..end {
            match map.look_up(lba) {
                None => unknown += 1,
                Some(Mapping::Unmapped | Mapping::At(Value::LOST | Value::HOLE)) => new += 1,
                Some(_) => {}
            }
        }
        if new + unknown > 0 {
            let pages = (from / PAGE..end.div_ceil(PAGE)).filter(|&page| map.begins(page));
            let pages = pages.count() as u64;
            let short = !self.has_room_for(volume, new + unknown, 0, pages);
            if short && let Some(staging) = self.without_room(volume, extent, (new, unknown), pages)
            {
                return staging;
            }
            // Those of which only the page on media knows count as new, until it is read.
            self.volumes.map_more(new + unknown);
        }
        self.pages.has_room();
        Staging::Now(volume)
    }

    /// When blocks can be staged though the pool seems to be full: when it is known whether they are new at all, when a
    /// deletion has made room, or when it is known what really counts; `None` if at once.
    #[cold]
    fn without_room(
        &mut self,
        volume: u16,
        extent: Extent,
        (new, unknown): (u64, u64),
        pages: u64,
    ) -> Option<Staging> {
        if unknown > 0 {
            mark!(WriteAwaitsPage);
            let loaded = self.loaded(volume, extent.lba, extent.lba + extent.blocks, Share::Read);
            return Some(Staging::hindered(volume, &loaded).unwrap_or(Staging::WithMemory));
        }
        if self.volumes.are_going() {
            mark!(WriteAwaitsDeletion);
            return Some(Staging::WithMemory);
        }
        let replaced = match self.nameless_blocks(volume, extent) {
            Ok(replaced) => replaced,
            Err(staging) => return Some(staging),
        };
        if replaced > 0 && self.has_room_for(volume, new, replaced, pages) {
            mark!(NamelessReplaced);
            return None;
        }
        if self.awaits_walk() {
            mark!(WriteAwaitsWalk);
            return Some(Staging::WithMemory);
        }
        if self.volumes.tally().doubled > 0 && !self.pages.counted_since(self.stats.checkpoints) {
            mark!(WriteAwaitsCounts);
            self.want_checkpoint();
            return Some(Staging::WithMemory);
        }
        self.stats.refused_writes += 1;
        Some(Staging::Never(HostError::NoSpace))
    }

    /// Counts the blocks of deleted snapshots that a write of `extent` replaces.
    fn nameless_blocks(&mut self, volume: u16, extent: Extent) -> Result<u64, Staging> {
        let is_replaced = |layer: &u16| {
            let nameless = self.volumes.map(*layer).layer.nameless;
            nameless && self.volumes.only_child(*layer).is_some()
        };
        let nameless: Vec<u16> = self.volumes.below(volume).take_while(is_replaced).collect();
        if nameless.is_empty() {
            return Ok(0);
        }
        let (layer, loaded, held) = self.loaded_through(volume, extent);
        match loaded {
            Loaded::Yes => {}
            Loaded::Wait(page) => return Err(Staging::AfterPage((layer, page), held)),
            Loaded::NoRoom => return Err(Staging::WithMemory),
            // Only the volume itself counts then.
            Loaded::No(_) => return Ok(0),
        }
        let is_data = |mapping| match mapping {
            None | Some(Mapping::Unmapped) => false,
            Some(Mapping::At(value)) => !value.is_nowhere(),
            Some(Mapping::Staged(_)) => true,
        };
        let replaced = |lba: &u64| {
            let (layer, mapping) = self.volumes.find(volume, *lba);
            nameless.contains(&layer) && is_data(mapping)
        };
        Ok((extent.lba..extent.lba + extent.blocks).filter(replaced).count() as u64)
    }

    /// Stages blocks for which there is room; `owner` waits for each of them.
    #[inline]
    fn stage(&mut self, owner: Option<Owner>, volume: u16, extent: Extent, data: &P, handle: u16) {
        let media = self.lands_on(volume, extent);
        for index in 0..extent.blocks as u32 {
            let lba = extent.lba + u64::from(index);
            let part = Part { offset: index, length: extent.blocks as u32 };
            self.stage_block(owner, volume, lba, part, data.slice(index, 1), (handle, media));
        }
        self.stats.host_blocks_staged += extent.blocks;
        self.volumes.map_mut(volume).traffic.host_blocks_staged += extent.blocks;
        self.volumes.note_pages(volume);
    }

    #[inline]
    fn stage_block(
        &mut self,
        owner: Option<Owner>,
        volume: u16,
        lba: u64,
        part: Part,
        payload: P,
        (handle, media): (u16, MediaClass),
    ) {
        let map = self.volumes.map(volume);
        let (id, base, mapping) = (map.id, map.base, map.look_up(lba));
        let old = match mapping {
            None | Some(Mapping::Unmapped) => None,
            Some(Mapping::At(value)) => Some(value),
            Some(Mapping::Staged(slot)) => self.cache.block(slot).old,
        };
        let there = old.filter(|value| !value.is_nowhere());
        let unit = there.map(|value| self.addresses.location(value.address()).unit);
        let (in_pool, now) = (Lba(base + lba), self.host_writes);
        let write = Write { lba: in_pool, handle, now, part, old: unit };
        let class = self.class_of_write(media, write);
        let crc = payload.crc(0) ^ home_mark(id, Lba(lba));
        if let Some(Mapping::Staged(slot)) = mapping {
            if !self.cache.block(slot).replaces {
                return self.supersede(slot, crc, payload, owner);
            }
            self.cache.becomes_copy(slot);
        }
        let staged = Staged {
            volume,
            id,
            copy: false,
            lifted: false,
            replaces: false,
            alive: true,
            acknowledged: owner.is_none(),
            crc,
            lba,
            class,
            ticket: 0,
            old,
            owners: owner.into(),
            payload,
        };
        let slot = self.cache.push(staged, self.now);
        if owner.is_some() {
            self.seal_soon(slot);
        }
        self.volumes.map_mut(volume).set(lba, Mapping::Staged(slot));
    }

    /// Somebody waits until a staged block is on media.
    pub(crate) fn seal_soon(&mut self, slot: u32) {
        // Where nothing completes in memory, everybody waits, and whole queues go.
        if self.is_cached() {
            self.cache.hasten_block(slot);
        } else {
            self.cache.seal_soon(slot);
        }
    }

    /// Replaces the contents of a staged block in place. Waiters of the block wait for the new contents.
    fn supersede(&mut self, slot: u32, crc: u32, payload: P, owner: Option<Owner>) {
        let staged = self.cache.block(slot);
        let absorbed = u64::from(!staged.lifted);
        self.stats.absorbed_blocks += absorbed;
        let crc = if bug!(self.config, SupersededKeepsChecksum) { staged.crc } else { crc };
        self.volumes.map_mut(staged.volume).traffic.absorbed_blocks += absorbed;
        let early = bug!(self.config, SupersededDoneEarly);
        let before = if early { self.cache.forget_owners(slot) } else { Owners::Nobody };
        self.cache.write_again(slot, crc, payload, owner);
        if owner.is_some() {
            self.seal_soon(slot);
        }
        before.each().iter().for_each(|owner| self.settle_owners(&[(*owner, 1)]));
    }
}

impl Run {
    fn is_followed_by(&self, at: Location, geometry: &thermocline_format::Geometry) -> bool {
        let behind = self.values.len() as u32 * geometry.logical_block().per_block();
        at.unit == self.at.unit && at.block == self.at.block + behind
    }
}
