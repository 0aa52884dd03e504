//! Metadata units with few valid blocks: a checkpoint moves their valid pages, which frees the units.

use thermocline_format::{Location, MapEntry, PageId, VolumeId, crc32c};
use thermocline_types::{UnitId, Version};

use super::{PAGES_PER_CHUNK, Step};
use crate::device::{DeviceCmd, PageBytes};
use crate::engine::checkpoint::Checkpointer;
use crate::engine::{Op, Parts};
use crate::map::Wanted;
use crate::marks::mark;
use crate::moved::Place;
use crate::pages::{UNITS, WORDS};
use crate::payload::Payload;
use crate::volumes::{PageCursor, Walk};

impl Checkpointer {
    /// Looks for metadata units with few valid blocks, a bounded number of units at a time.
    pub(super) fn find_sparse<P: Payload>(&mut self, p: &mut Parts<P>, from: u32) -> bool {
        let per_unit = p.config.blocks_per_unit();
        let (closed, next) = p.space.closed_metadata(from, UNITS as usize);
        p.stats.looked_at += closed.len() as u64;
        let valid = |unit: &UnitId| u64::from(p.space.units().valid_count(*unit));
        let (space, host) = (&p.space, p.config.host_media());
        let leaves = |unit| space.is_condemned(unit) || space.media_of(unit) != host;
        let most = |unit: &UnitId| if leaves(*unit) { u64::MAX } else { per_unit.div_ceil(2) };
        let sparse = closed.into_iter().filter(|unit| (1..most(unit)).contains(&valid(unit)));
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is in progress");
        checkpoint.sparse.extend(sparse.map(|unit| unit.0));
        checkpoint.step = match (next, checkpoint.sparse.is_empty()) {
            (Some(next), _) => Step::Sparse(next),
            (None, false) => Step::Moving(PageCursor::default()),
            (None, true) => Step::Pages(PageCursor::default()),
        };
        true
    }

    /// Moves the pages of sparse units. Pages in memory and patched pages are marked dirty. All other pages are read
    /// and written, a few at a time.
    pub(super) fn mark_sparse<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        mut cursor: PageCursor,
    ) -> bool {
        let checkpoint = self.checkpoint.as_ref().expect("a checkpoint is in progress");
        let (moved, moving) = (p.moved.len(), checkpoint.moving);
        if moved > 0 && (moving == 0 || moved + moving >= PAGES_PER_CHUNK) {
            return moving == 0 && self.write_moved(p);
        }
        let mut room = PAGES_PER_CHUNK - moved - moving;
        let (mut budget, mut asked) = (WORDS, 0);
        let over = loop {
            let before = cursor;
            if room == 0 {
                break false;
            }
            match p.next_page(&mut cursor, Wanted::Held, &mut budget) {
                Walk::Found(volume, page) => {
                    let map = p.volumes.map(volume);
                    if !self.is_sparse(p, map.page_at(page)) {
                    } else if map.is_loaded(page) || map.is_patched(page) {
                        mark!(SparseMoved);
                        p.volumes.map_mut(volume).mark_dirty(page);
                        p.volumes.note_pages(volume);
                    } else {
                        self.read_to_move(p, volume, page);
                        (room, asked) = (room - 1, asked + 1);
                    }
                }
                Walk::Pause => break false,
                Walk::End => {
                    cursor = before;
                    break true;
                }
            }
        };
        if !over || moving + asked > 0 {
            self.set_step(Step::Moving(cursor));
            return !over && room > 0 || asked > 0;
        }
        let checkpoint = self.checkpoint.as_ref().expect("a checkpoint is in progress");
        let (sparse, geometry) = (&checkpoint.sparse, &p.config.geometry);
        let is_bad =
            |at: MapEntry| at.location(geometry).is_some_and(|at| sparse.contains(&at.unit.0));
        p.unit_table.write_again(is_bad);
        self.set_step(Step::Pages(PageCursor::default()));
        true
    }

    fn read_to_move<P: Payload>(&mut self, p: &mut Parts<P>, index: u16, page: u64) {
        mark!(AbsentMoved);
        let map = p.volumes.map(index);
        let (volume, at) = (map.id, map.page_at(page));
        let place = at.location(&p.config.geometry).expect("it stands in a unit");
        p.space.add_reader(place.unit);
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint is in progress");
        checkpoint.moving += 1;
        let page = Place { index, volume, page, at, by: checkpoint.sequence };
        let op = p.ops.insert(Op::MovePage { page, unit: place.unit });
        p.device(op, DeviceCmd::ReadPage { at: place, version: Version::AS_READ });
    }

    /// A page that is to be written elsewhere was read, or cannot be: then it stays.
    pub(crate) fn page_to_move<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        place: Place,
        unit: UnitId,
        bytes: Option<PageBytes>,
    ) {
        p.space.drop_reader(unit);
        let current = self.checkpoint.as_mut().filter(|current| current.sequence == place.by);
        let Some(checkpoint) = current else { return };
        checkpoint.moving -= 1;
        let sound = |bytes: &PageBytes| place.is_sound(bytes, &p.config.geometry);
        if let Some(bytes) = bytes.filter(sound) {
            p.moved.push(place, bytes);
        }
    }

    /// Writes pages as they were read, a chunk at most. A page loaded in the meantime is written in its current state.
    pub(super) fn write_moved<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let Some((at, most)) = self.room_for_pages(p) else { return false };
        let geometry = p.config.geometry;
        let mut picked: Vec<(Place, PageBytes)> = Vec::new();
        while picked.len() < most
            && let Some((place, bytes)) = p.moved.pop()
        {
            let Place { index, volume, page, at, .. } = place;
            let there = p.volumes.is(index, volume) && page < p.volumes.map(index).pages();
            if !there || p.volumes.map(index).page_at(page) != at {
                continue;
            }
            if p.volumes.map(index).is_loaded(page) {
                // It may not be where it was to be.
                mark!(MovedPageLoaded);
                p.volumes.map_mut(index).mark_lost(page);
                p.volumes.note_pages(index);
            } else {
                mark!(MovedPagePatched if p.volumes.map(index).is_patched(page));
                picked.push((place, bytes));
            }
        }
        if picked.is_empty() {
            return true;
        }
        let block = geometry.logical_block();
        let mut place = Location { block: at.block + block.chunk_header(picked.len()), ..at };
        let mut pages = Vec::with_capacity(picked.len());
        for (Place { index, volume, page, .. }, bytes) in picked {
            let crc = crc32c(bytes.as_slice());
            // Readers that found the page damaged can read the new copy.
            p.damaged_page_moved(index, page);
            let old =
                p.volumes.map_mut(index).move_page(page, MapEntry::new(&geometry, place, crc));
            p.superblocks.drop_later(old);
            pages.push((PageId { volume, index: page as u32 }, bytes, crc));
            place.block += block.per_block();
        }
        self.count_pages(pages.len());
        p.seal_pages(at, VolumeId::MAP, pages);
        true
    }

    /// Whether what stands at `entry` is to be written elsewhere.
    pub(super) fn is_sparse<P: Payload>(&self, p: &Parts<P>, entry: MapEntry) -> bool {
        let at = entry.location(&p.config.geometry);
        let sparse = self.checkpoint.as_ref().map(|checkpoint| &checkpoint.sparse);
        at.zip(sparse).is_some_and(|(at, sparse)| sparse.contains(&at.unit.0))
    }
}
