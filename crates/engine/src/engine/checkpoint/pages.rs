//! Pages of maps that a checkpoint writes, some at a time. Pages in memory are written as they are. Patched pages are
//! read first, and the patches are applied.

use std::fmt::Debug;

use thermocline_format::{
    Entry, Location, MapEntry, PAGE_UNITS, PageId, UnitPage, VolumeId, crc32c,
};
use thermocline_types::{Lba, Version};

use super::{PAGES_PER_CHUNK, Place, Step};
use crate::bugs::bug;
use crate::device::{DeviceCmd, PageBytes};
use crate::engine::checkpoint::Checkpointer;
use crate::engine::values::flying;
use crate::engine::{Op, Parts};
use crate::map::{Mapping, Said, Value, Wanted};
use crate::marks::mark;
use crate::pages::{UNITS, WORDS};
use crate::payload::Payload;
use crate::volumes::{PageCursor, Walk};

/// How often a page is read that is to be written anew, before it counts as unreadable. Chosen, not measured.
const TRIES: u8 = 16;

/// What is known of a page as it is on media.
#[derive(Debug)]
enum Reading {
    /// Nothing is needed.
    Needless,
    /// It is on its way; so many more reads may fail.
    Asked(u8),
    /// This.
    Got(PageBytes),
    /// It cannot be read.
    Failed,
}

#[derive(Debug)]
struct Picked {
    place: Place,
    reading: Reading,
}

/// The next pages to write, with their contents as far as read.
#[derive(Debug, Default)]
pub(super) struct Batch(Vec<Picked>);

impl Batch {
    /// Whether a page is on its way here.
    fn waits(&self) -> bool {
        self.0.iter().any(|picked| matches!(picked.reading, Reading::Asked(_)))
    }

    /// The page at `place` if it is on its way here.
    fn asked(&mut self, place: &Place) -> Option<&mut Picked> {
        self.0
            .iter_mut()
            .find(|picked| picked.place == *place && matches!(picked.reading, Reading::Asked(_)))
    }

    /// Takes what was read of a page that stands at `at`.
    fn take(&mut self, index: u16, page: u64, at: MapEntry) -> Option<Reading> {
        let same = |place: &Place| (place.index, place.page, place.at) == (index, page, at);
        let found = self.0.iter().position(|picked| same(&picked.place))?;
        Some(self.0.swap_remove(found).reading)
    }
}

/// What becomes of a dirty page.
enum Next {
    /// The page is written, from memory, or from the read contents with the patch applied.
    Written(Option<PageBytes>),
    /// Nothing.
    Passed,
    /// It must be read first.
    Unread,
}

impl Checkpointer {
    /// Takes the writing of pages further.
    pub(super) fn write_pages<P: Payload>(&mut self, p: &mut Parts<P>, cursor: PageCursor) -> bool {
        let checkpoint = self.checkpoint.as_ref().expect("a checkpoint is in progress");
        if p.moved.len() > 0 {
            self.write_moved(p)
        } else if checkpoint.batch.0.is_empty() {
            self.pick_pages(p, cursor)
        } else {
            !checkpoint.batch.waits() && self.write_batch(p, cursor)
        }
    }

    /// Picks the pages that are written next, from `cursor` on, and asks for those that have to be read.
    fn pick_pages<P: Payload>(&mut self, p: &mut Parts<P>, mut cursor: PageCursor) -> bool {
        let (mut budget, mut picked) = (WORDS, Vec::new());
        let mut walk = Walk::Pause;
        while picked.len() < PAGES_PER_CHUNK {
            walk = p.next_page(&mut cursor, Wanted::Dirty, &mut budget);
            let Walk::Found(volume, page) = walk else { break };
            picked.push(self.pick(p, volume, page));
        }
        if picked.is_empty() {
            let over = walk == Walk::End;
            self.pages_written(p, if over { PageCursor::END } else { cursor });
            self.set_step(if over { Step::Units(0) } else { Step::Pages(cursor) });
            return true;
        }
        self.checkpoint.as_mut().expect("a checkpoint is in progress").batch = Batch(picked);
        true
    }

    fn pick<P: Payload>(&mut self, p: &mut Parts<P>, index: u16, page: u64) -> Picked {
        let map = p.volumes.map(index);
        let (volume, at) = (map.id, map.page_at(page));
        let by = self.checkpoint.as_ref().expect("a checkpoint is in progress").sequence;
        let place = Place { index, volume, page, at, by };
        if map.is_loaded(page) {
            return Picked { place, reading: Reading::Needless };
        }
        mark!(PatchedPageRead);
        let there = at.location(&p.config.geometry).expect("it is on media only");
        if let Some(bytes) = p.page_in_memory(index, page, there) {
            mark!(PatchedPageFlies);
            return Picked { place, reading: Reading::Got(bytes) };
        }
        self.read_to_merge(p, place, there);
        Picked { place, reading: Reading::Asked(TRIES) }
    }

    fn read_to_merge<P: Payload>(&mut self, p: &mut Parts<P>, page: Place, at: Location) {
        p.space.add_reader(at.unit);
        let op = p.ops.insert(Op::MergePage { page });
        p.device(op, DeviceCmd::ReadPage { at, version: Version::AS_READ });
    }

    /// A page that is to be written anew was read, or could not be.
    pub(crate) fn page_to_merge<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        place: Place,
        bytes: Option<PageBytes>,
    ) {
        let geometry = p.config.geometry;
        let at = place.at.location(&geometry).expect("it was read from somewhere");
        p.space.drop_reader(at.unit);
        let bytes = bytes.filter(|bytes| place.is_sound(bytes, &geometry));
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let Some(picked) = checkpoint.batch.asked(&place) else { return };
        let Reading::Asked(tries) = picked.reading else { return };
        picked.reading = match bytes {
            Some(bytes) => Reading::Got(bytes),
            None if tries > 0 => Reading::Asked(tries - 1),
            None => Reading::Failed,
        };
        if matches!(picked.reading, Reading::Asked(_)) {
            mark!(PatchedPageReadAgain);
            self.read_to_merge(p, place, at);
        }
    }

    /// Writes pages from `cursor` on, as many as fit into a chunk: pages in memory and pages already read. A page that
    /// became dirty after the reads began must be in memory, else it ends the chunk.
    fn write_batch<P: Payload>(&mut self, p: &mut Parts<P>, mut cursor: PageCursor) -> bool {
        let Some((at, most)) = self.room_for_pages(p) else { return false };
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is in progress");
        let mut read = std::mem::take(&mut checkpoint.batch);
        let (mut written, mut budget) = (Vec::new(), WORDS);
        while written.len() < most {
            let before = cursor;
            let walk = p.next_page(&mut cursor, Wanted::Dirty, &mut budget);
            let Walk::Found(index, page) = walk else { break };
            match self.next_to_write(p, index, page, &mut read) {
                Next::Written(bytes) => written.push((index, page, bytes)),
                Next::Passed => {}
                Next::Unread => {
                    cursor = before;
                    break;
                }
            }
        }
        let block = p.config.geometry.logical_block();
        let mut place = Location { block: at.block + block.chunk_header(written.len()), ..at };
        let mut pages = Vec::with_capacity(written.len());
        for (index, page, read) in written {
            let bytes = self.write_page(p, index, page, read);
            let crc = crc32c(bytes.as_slice());
            let entry = MapEntry::new(&p.config.geometry, place, crc);
            let map = p.volumes.map_mut(index);
            let old = map.move_page(page, entry);
            pages.push((PageId { volume: map.id, index: page as u32 }, bytes, crc));
            p.volumes.note_pages(index);
            p.superblocks.drop_later(old);
            place.block += block.per_block();
        }
        self.pages_written(p, cursor);
        self.set_step(Step::Pages(cursor));
        if !pages.is_empty() {
            self.count_pages(pages.len());
            p.seal_pages(at, VolumeId::MAP, pages);
        }
        true
    }

    /// Pages of maps before `cursor` are as the next record leads to them.
    fn pages_written<P: Payload>(&mut self, p: &mut Parts<P>, cursor: PageCursor) {
        if !bug!(p.config, MovedAheadCounted) {
            p.unit_table.advance(cursor);
        }
    }

    /// What becomes of a dirty page, of which it may have been `read` what is on media.
    fn next_to_write<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        index: u16,
        page: u64,
        read: &mut Batch,
    ) -> Next {
        let map = p.volumes.map(index);
        let at = map.page_at(page);
        if map.is_loaded(page) && map.is_empty(page) {
            // A page of which nothing is mapped any more goes.
            mark!(EmptyPageDropped);
            let old = p.volumes.map_mut(index).drop_page(page);
            p.volumes.note_pages(index);
            p.superblocks.drop_later(old);
            return Next::Passed;
        }
        if map.is_loaded(page) {
            return Next::Written(None);
        }
        match read.take(index, page, at) {
            Some(Reading::Got(bytes)) => Next::Written(Some(bytes)),
            Some(Reading::Failed) => {
                self.say_patch(p, index, page, at);
                Next::Passed
            }
            _ => Next::Unread,
        }
    }

    /// The bytes of a page that is written now, and of which it was `read` what is on media, if it is not in memory.
    fn write_page<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        index: u16,
        page: u64,
        read: Option<PageBytes>,
    ) -> PageBytes {
        let Some(mut bytes) = read else {
            let (bytes, staged) = self.page_bytes(p, index, page);
            p.volumes.map_mut(index).mark_written(page, staged);
            return bytes;
        };
        p.stats.pages_merged += 1;
        // Readers that found the page damaged can read the new copy.
        p.damaged_page_moved(index, page);
        let cache = &p.cache;
        let old = |slot| cache.block(slot).old;
        let flies = flying(&p.space, &p.flights, p.addresses);
        let mut bases = p.volumes.map_mut(index).merge(page, &mut bytes, old, flies);
        let geometry = &p.config.geometry;
        bases.retain(|base| base.value.is_some_and(|value| value.is_of(geometry)));
        if !bug!(p.config, BasesForgotten) {
            p.settle_bases(index, bases);
        }
        bytes
    }

    /// A page in memory as on media: blocks that are staged stand where they were before. And whether any are.
    fn page_bytes<P: Payload>(&self, p: &Parts<P>, index: u16, page: u64) -> (PageBytes, bool) {
        let lost = bug!(p.config, StagedPageEntryLost);
        let old = |slot| p.cache.block(slot).old.filter(|_| !lost);
        p.volumes.map(index).page_bytes(page, old)
    }

    /// A patched page cannot be read, so what its patch says is said in the log, as a part of the map.
    fn say_patch<P: Payload>(&mut self, p: &mut Parts<P>, index: u16, page: u64, at: MapEntry) {
        mark!(PatchSaid);
        let volume = p.volumes.map(index).id;
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is in progress");
        checkpoint.leaves = true;
        let number = checkpoint.patches;
        let said: Vec<Said> = p.volumes.map(index).all_said(page).collect();
        let mut entries = Vec::new();
        for Said { lba, mapping, counted } in said {
            let value = match mapping {
                Mapping::Unmapped => None,
                Mapping::At(value) => Some(value),
                Mapping::Staged(slot) => p.cache.block(slot).old,
            };
            if value.is_none() && counted && mapping != Mapping::Unmapped {
                // What waits in memory replaces what the page leads to, which is the newest on media.
                continue;
            }
            let entry = match value {
                None => MapEntry::UNMAPPED,
                Some(Value::HOLE) => MapEntry::HOLE,
                Some(value) => {
                    MapEntry::unpack(&p.config.geometry, value.entry()).unwrap_or(MapEntry::LOST)
                }
            };
            let (lba, settled) = (Lba(lba), !counted);
            entries.push(Entry::Placed { volume, lba, entry, settled, number });
            if let Some(value) = value.filter(|value| !value.is_nowhere()) {
                p.unit_table.move_ahead(None, Some(p.unit_of(value)));
            }
        }
        if bug!(p.config, PatchNotSaid) {
            entries.clear();
        }
        // Each may stand in a chunk of its own: the smallest has room for a dozen.
        for said in entries {
            p.cache.say(vec![said], Vec::new());
        }
        let at = at.location(&p.config.geometry).expect("it was read from somewhere");
        p.report_damage(at, Some(p.extent_of_page(index, page)));
    }

    /// Writes those pages of the unit table from page `from` on that are due, at most `most`, to `at`. Returns the
    /// first page that was not looked at.
    pub(crate) fn write_unit_pages<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        from: usize,
        at: Location,
        most: usize,
    ) -> usize {
        let geometry = p.config.geometry;
        let block = geometry.logical_block();
        let end = geometry.unit_pages().min(from + UNITS as usize / PAGE_UNITS);
        let mut picked: Vec<(usize, UnitPage)> = Vec::new();
        let mut next = from;
        while next < end && picked.len() < most {
            if p.space.take_changed(next) || p.unit_table.is_lost(next) {
                let page = p.unit_page(next);
                if p.unit_table.is_due(next, &page) {
                    picked.push((next, page));
                }
                p.stats.looked_at += PAGE_UNITS as u64;
            }
            next += 1;
        }
        p.stats.looked_at += (next - from) as u64;
        if picked.is_empty() {
            return next;
        }
        let mut place = Location { block: at.block + block.chunk_header(picked.len()), ..at };
        let mut pages = Vec::with_capacity(picked.len());
        for (index, page) in picked {
            let bytes: PageBytes = Box::new(page.encode());
            let crc = crc32c(bytes.as_slice());
            let entry = MapEntry::new(&geometry, place, crc);
            let old = p.unit_table.replace(index, entry, &page);
            p.superblocks.drop_later(old);
            pages.push((PageId::of_units(index as u32), bytes, crc));
            place.block += block.per_block();
        }
        self.count_pages(pages.len());
        p.seal_pages(at, VolumeId::UNITS, pages);
        next
    }
}
