//! Pages of maps that a checkpoint writes, some at a time: those in memory as they are, those that are patched with
//! what their patches say, for which they are read first.

use std::fmt::Debug;

use thermocline_format::{Entry, Location, MapEntry, PageId, VolumeId, crc32c};
use thermocline_types::{Lba, Version};

use super::{PAGES_PER_CHUNK, Place, Step};
use crate::bugs::bug;
use crate::device::{DeviceCmd, PageBytes};
use crate::engine::values::flying;
use crate::engine::{Engine, Op};
use crate::map::{Mapping, Said, Wanted};
use crate::marks::mark;
use crate::pages::WORDS;
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

/// Pages that are written next, and what was read of them.
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
    /// It is written: with what it says in memory, or with what was read and what is known to differ.
    Written(Option<PageBytes>),
    /// Nothing.
    Passed,
    /// It must be read first.
    Unread,
}

impl<P: Payload> Engine<P> {
    /// Takes the writing of pages further.
    pub(super) fn write_pages(&mut self, cursor: PageCursor) -> bool {
        let checkpoint = self.checkpoint.as_ref().expect("a checkpoint is in progress");
        if self.parts.moved.len() > 0 {
            self.write_moved()
        } else if checkpoint.batch.0.is_empty() {
            self.pick_pages(cursor)
        } else {
            !checkpoint.batch.waits() && self.write_batch(cursor)
        }
    }

    /// Picks the pages that are written next, from `cursor` on, and asks for those that have to be read.
    fn pick_pages(&mut self, mut cursor: PageCursor) -> bool {
        let (mut budget, mut picked) = (WORDS, Vec::new());
        let mut walk = Walk::Pause;
        while picked.len() < PAGES_PER_CHUNK {
            walk = self.parts.next_page(&mut cursor, Wanted::Dirty, &mut budget);
            let Walk::Found(volume, page) = walk else { break };
            picked.push(self.pick(volume, page));
        }
        if picked.is_empty() {
            let over = walk == Walk::End;
            self.pages_written(if over { PageCursor::END } else { cursor });
            self.set_step(if over { Step::Units(0) } else { Step::Pages(cursor) });
            return true;
        }
        self.checkpoint.as_mut().expect("a checkpoint is in progress").batch = Batch(picked);
        true
    }

    fn pick(&mut self, index: u16, page: u64) -> Picked {
        let map = self.parts.volumes.map(index);
        let (volume, at) = (map.id, map.page_at(page));
        let by = self.checkpoint.as_ref().expect("a checkpoint is in progress").sequence;
        let place = Place { index, volume, page, at, by };
        if map.is_loaded(page) {
            return Picked { place, reading: Reading::Needless };
        }
        mark!(PatchedPageRead);
        let there = at.location(&self.parts.config.geometry).expect("it is on media only");
        if let Some(bytes) = self.parts.page_in_memory(index, page, there) {
            mark!(PatchedPageFlies);
            return Picked { place, reading: Reading::Got(bytes) };
        }
        self.read_to_merge(place, there);
        Picked { place, reading: Reading::Asked(TRIES) }
    }

    fn read_to_merge(&mut self, page: Place, at: Location) {
        self.parts.space.add_reader(at.unit);
        let op = self.parts.ops.insert(Op::MergePage { page });
        self.parts.device(op, DeviceCmd::ReadPage { at, version: Version::AS_READ });
    }

    /// A page that is to be written anew was read, or could not be.
    pub(crate) fn page_to_merge(&mut self, place: Place, bytes: Option<PageBytes>) {
        let geometry = self.parts.config.geometry;
        let at = place.at.location(&geometry).expect("it was read from somewhere");
        self.parts.space.drop_reader(at.unit);
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
            self.read_to_merge(place, at);
        }
    }

    /// Writes pages from `cursor` on, as many as fit into a chunk: those that are in memory, and those that were read.
    /// What was not dirty yet when these were asked for is among the former, or ends the chunk.
    fn write_batch(&mut self, mut cursor: PageCursor) -> bool {
        let Some((at, most)) = self.room_for_pages() else { return false };
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is in progress");
        let mut read = std::mem::take(&mut checkpoint.batch);
        let (mut written, mut budget) = (Vec::new(), WORDS);
        while written.len() < most {
            let before = cursor;
            let walk = self.parts.next_page(&mut cursor, Wanted::Dirty, &mut budget);
            let Walk::Found(index, page) = walk else { break };
            match self.next_to_write(index, page, &mut read) {
                Next::Written(bytes) => written.push((index, page, bytes)),
                Next::Passed => {}
                Next::Unread => {
                    cursor = before;
                    break;
                }
            }
        }
        let block = self.parts.config.geometry.logical_block();
        let mut place = Location { block: at.block + block.chunk_header(written.len()), ..at };
        let mut pages = Vec::with_capacity(written.len());
        for (index, page, read) in written {
            let bytes = self.write_page(index, page, read);
            let crc = crc32c(bytes.as_slice());
            let entry = MapEntry::new(&self.parts.config.geometry, place, crc);
            let map = self.parts.volumes.map_mut(index);
            let old = map.move_page(page, entry);
            pages.push((PageId { volume: map.id, index: page as u32 }, bytes, crc));
            self.parts.volumes.note_pages(index);
            self.parts.superblocks.drop_later(old);
            place.block += block.per_block();
        }
        self.pages_written(cursor);
        self.set_step(Step::Pages(cursor));
        if !pages.is_empty() {
            self.count_pages(pages.len());
            self.parts.seal_pages(at, VolumeId::MAP, pages);
        }
        true
    }

    /// Pages of maps before `cursor` are as the next record leads to them.
    fn pages_written(&mut self, cursor: PageCursor) {
        if !bug!(self.parts.config, MovedAheadCounted) {
            self.parts.unit_table.advance(cursor);
        }
    }

    /// What becomes of a dirty page, of which it may have been `read` what is on media.
    fn next_to_write(&mut self, index: u16, page: u64, read: &mut Batch) -> Next {
        let map = self.parts.volumes.map(index);
        let at = map.page_at(page);
        if map.is_loaded(page) && map.is_empty(page) {
            // A page of which nothing is mapped any more goes.
            mark!(EmptyPageDropped);
            let old = self.parts.volumes.map_mut(index).drop_page(page);
            self.parts.volumes.note_pages(index);
            self.parts.superblocks.drop_later(old);
            return Next::Passed;
        }
        if map.is_loaded(page) {
            return Next::Written(None);
        }
        match read.take(index, page, at) {
            Some(Reading::Got(bytes)) => Next::Written(Some(bytes)),
            Some(Reading::Failed) => {
                self.say_patch(index, page, at);
                Next::Passed
            }
            _ => Next::Unread,
        }
    }

    /// The bytes of a page that is written now, and of which it was `read` what is on media, if it is not in memory.
    fn write_page(&mut self, index: u16, page: u64, read: Option<PageBytes>) -> PageBytes {
        let Some(mut bytes) = read else {
            let (bytes, staged) = self.page_bytes(index, page);
            self.parts.volumes.map_mut(index).mark_written(page, staged);
            return bytes;
        };
        self.parts.stats.pages_merged += 1;
        // Whoever could not read it where it was can read it where it will be.
        self.parts.damaged_page_moved(index, page);
        let cache = &self.parts.cache;
        let old = |slot| cache.block(slot).old;
        let flies = flying(&self.parts.space, &self.parts.flights, self.parts.addresses);
        let mut bases = self.parts.volumes.map_mut(index).merge(page, &mut bytes, old, flies);
        let geometry = &self.parts.config.geometry;
        bases.retain(|base| base.value.is_some_and(|value| value.is_of(geometry)));
        if !bug!(self.parts.config, BasesForgotten) {
            self.parts.settle_bases(index, bases);
        }
        bytes
    }

    /// A page in memory as on media: blocks that are staged stand where they were before. And whether any are.
    fn page_bytes(&self, index: u16, page: u64) -> (PageBytes, bool) {
        let lost = bug!(self.parts.config, StagedPageEntryLost);
        let old = |slot| self.parts.cache.block(slot).old.filter(|_| !lost);
        self.parts.volumes.map(index).page_bytes(page, old)
    }

    /// A patched page cannot be read, so what its patch says is said in the log, as a part of the map.
    fn say_patch(&mut self, index: u16, page: u64, at: MapEntry) {
        mark!(PatchSaid);
        let volume = self.parts.volumes.map(index).id;
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is in progress");
        checkpoint.leaves = true;
        let number = checkpoint.patches;
        let said: Vec<Said> = self.parts.volumes.map(index).all_said(page).collect();
        let mut entries = Vec::new();
        for Said { lba, mapping, counted } in said {
            let value = match mapping {
                Mapping::Unmapped => None,
                Mapping::At(value) => Some(value),
                Mapping::Staged(slot) => self.parts.cache.block(slot).old,
            };
            if value.is_none() && counted && mapping != Mapping::Unmapped {
                // What waits in memory replaces what the page leads to, which is the newest on media.
                continue;
            }
            let entry = value.map_or(Ok(MapEntry::UNMAPPED), |value| {
                MapEntry::unpack(&self.parts.config.geometry, value.entry())
            });
            let entry = entry.unwrap_or(MapEntry::LOST);
            let (lba, settled) = (Lba(lba), !counted);
            entries.push(Entry::Placed { volume, lba, entry, settled, number });
            if let Some(value) = value.filter(|value| !value.is_lost()) {
                self.parts.unit_table.move_ahead(None, Some(self.parts.unit_of(value)));
            }
        }
        if bug!(self.parts.config, PatchNotSaid) {
            entries.clear();
        }
        // Each may stand in a chunk of its own: the smallest has room for a dozen.
        for said in entries {
            self.parts.cache.say(vec![said], Vec::new());
        }
        let at = at.location(&self.parts.config.geometry).expect("it was read from somewhere");
        self.parts.report_damage(at, Some(self.parts.extent_of_page(index, page)));
    }
}
