//! Doing once more what the tail says, and taking over the units as they were found.

use std::collections::BTreeMap;

use thermocline_format::{
    ChunkHeader, DeviceState, Entry, Location, LogicalBlock, MediaClass, OpenUnit, Superblock,
    VolumeId, VolumeName,
};
use thermocline_ftl::UnitState;
use thermocline_types::{Class, Lba, UnitId};

use super::unmapped::Unmapped;
use super::{Life, Opening};
use crate::bugs::bug;
use crate::device::{UnitCondition, UnitReport};
use crate::engine::Engine;
use crate::map::{Forget, Mapping, PAGE, Value, Wanted};
use crate::marks::mark;
use crate::pages::{PAGES, UNITS, WORDS};
use crate::payload::Payload;
use crate::volumes::{PageCursor, Walk};

impl<P: Payload> Engine<P> {
    /// Takes over the listed units as they were found.
    pub(super) fn adopt_units(&mut self, opening: &Opening<P>, record: &Superblock) {
        let geometry = self.parts.config.geometry;
        self.parts.space.set_listed(&record.open_units);
        for life in &opening.lives {
            let unit = life.listed.next.unit;
            let report = opening.reports[unit.index()];
            let written = report.written.unwrap_or(life.end);
            // Where a chunk is missing, the maps may lead to what is there.
            let holds = self.parts.space.units().valid_count(unit) > 0;
            let untouched = opening.is_untouched(life) && !holds;
            // Of a life that was released, or written in vain, nothing need be found again.
            let released = opening.was_released(&life.listed);
            mark!(ReplayedReleased if life.replays && released);
            let vain = opening.is_in_vain(life, &self.parts.space);
            mark!(ReplayedInVain if vain);
            self.parts.space.set_replayed(unit, life.replays && !vain && !released);
            self.note_unfinished(unit, report);
            if report.condition != UnitCondition::Good {
                mark!(CondemnedFound);
                let class = life.class.unwrap_or_else(|| self.class_of(unit));
                self.parts.space.adopt(unit, UnitState::Closed, class, written);
                self.parts.space.set_generation(unit, life.listed.generation);
                self.parts.condemn(unit);
            } else if untouched {
                let next = Location { unit, block: 0 };
                self.parts.space.reserve(OpenUnit { next, ..life.listed });
            } else {
                // What was written may be no chunk, or be reset already: then the unit will turn out to be dead.
                mark!(TornHeaderOnly if life.class.is_none());
                let may = !opening.overlooked || bug!(self.parts.config, LostWrittenOver);
                mark!(LifeEndsForLoss if !may);
                self.adopt_life(life, may, written, geometry.logical_block());
            }
        }
    }

    /// Takes over a life that something was written to. It goes on if it `may`, and can.
    fn adopt_life(&mut self, life: &Life, may: bool, written: u32, block: LogicalBlock) {
        let unit = life.listed.next.unit;
        let room = self.parts.config.geometry.blocks_per_unit().saturating_sub(written);
        // Its first header may be damaged.
        let class = life.class.unwrap_or_else(|| self.class_of(unit));
        let media = self.parts.space.media_of(unit);
        let can =
            self.parts.space.may_open_another(class) && media == self.parts.config.media_of(class);
        mark!(TooManyLives if !can);
        let goes_on = life.class.is_some()
            && may
            && can
            && self.parts.space.next_of(class).is_none()
            && room >= block.chunk_header(1) + block.per_block()
            && written >= life.end;
        self.parts.space.set_generation(unit, life.listed.generation);
        if goes_on {
            mark!(LifeGoesOn);
            let back = bug!(self.parts.config, TailOverwritten) && written > life.listed.next.block;
            let written = if back { life.listed.next.block } else { written };
            self.parts.space.go_on(class, Location { unit, block: written });
        } else {
            mark!(LifeEnds);
            self.parts.space.adopt(unit, UnitState::Closed, class, written);
        }
    }

    /// Does once more what a chunk says. The record knows all volumes below its next: one that it has not was deleted.
    pub(super) fn replay(&mut self, opening: &mut Opening<P>, number: usize, header: &ChunkHeader) {
        let next = opening.record.as_ref().expect("a superblock was chosen").next_volume;
        let (torn, unmapped) = (&opening.torn, &mut opening.unmapped);
        let geometry = self.parts.config.geometry;
        mark!(PackedTail if header.packed.is_some());
        let mut names: BTreeMap<VolumeId, [u8; 64]> = BTreeMap::new();
        for (index, (entry, at)) in header.placed(&geometry).enumerate() {
            match *entry {
                Entry::Data { .. } if torn.contains(&(number, index)) => {}
                Entry::Data { volume, lba, crc } => {
                    let at = at.expect("Data has a block");
                    self.replay_block(unmapped, volume, lba, crc, at);
                }
                Entry::Trim { .. } if bug!(self.parts.config, TrimNotReplayed) => {}
                Entry::Trim { volume, lba, blocks } => {
                    let Some(volume) = self.parts.volumes.slot(volume) else { continue };
                    // The record may know already that the volume is smaller by now.
                    let end = (lba.0 + blocks).min(self.parts.volumes.map(volume).blocks);
                    self.replay_unmap(unmapped, volume, lba.0.min(end), end);
                }
                Entry::VolumeCreate { volume, blocks } => {
                    self.replay_create(volume, blocks, next);
                }
                Entry::VolumeDelete { volume } => {
                    // Its blocks are counted, and are unmapped when the pool is open.
                    let Some(volume) = self.parts.volumes.index(volume) else { continue };
                    mark!(DeleteReplayed);
                    self.parts.volumes.hide(volume);
                }
                Entry::VolumeResize { volume, blocks } => {
                    let Some(volume) = self.parts.volumes.slot(volume) else { continue };
                    let end = self.parts.volumes.map(volume).blocks;
                    self.replay_shrink(unmapped, volume, blocks.min(end));
                    if bug!(self.parts.config, ResizeNotReplayed) {
                        continue;
                    }
                    self.parts.volumes.resize(volume, blocks);
                    self.parts.volumes.map_mut(volume).limit = blocks;
                }
                Entry::VolumeMedia { volume, media } => {
                    let Some(volume) = self.parts.volumes.slot(volume) else { continue };
                    mark!(MediaReplayed);
                    if !bug!(self.parts.config, MediaNotReplayed) {
                        self.parts.volumes.map_mut(volume).media = media;
                    }
                }
                Entry::VolumeName { volume, part, text } => {
                    let name = names.entry(volume).or_insert([0; 64]);
                    name[usize::from(part) * 16..][..16].copy_from_slice(&text);
                }
                Entry::Placed { .. } | Entry::Abandoned { .. } | Entry::Released { .. } => {}
            }
        }
        for (volume, bytes) in names {
            if let (Some(index), Some(name)) =
                (self.parts.volumes.index(volume), VolumeName::from_bytes(&bytes))
            {
                self.parts.volumes.map_mut(index).name = name;
            }
        }
    }

    fn replay_create(&mut self, volume: VolumeId, blocks: u64, next: VolumeId) {
        if self.parts.volumes.index(volume).is_some() || volume < next {
            mark!(CreateKnown);
            return;
        }
        mark!(CreateReplayed);
        let name = VolumeName::new("").expect("an empty name is a name");
        self.parts.volumes.add(volume, name, blocks, self.parts.addresses);
    }

    fn replay_block(
        &mut self,
        unmapped: &mut Unmapped,
        volume: VolumeId,
        lba: Lba,
        crc: u32,
        at: Location,
    ) {
        mark!(VolumeGone if volume.is_user() && self.parts.volumes.slot(volume).is_none());
        let Some(volume) = self.parts.volumes.slot(volume) else { return };
        let beyond = lba.0 >= self.parts.volumes.map(volume).blocks;
        mark!(BeyondEnd if beyond);
        if !beyond {
            let value = Value::new(self.parts.config.geometry.address(at), crc);
            self.parts.volumes.map_mut(volume).set(lba.0, Mapping::At(value));
            unmapped.map_again(volume, lba.0);
        }
    }

    /// What the tail says of pages that could not be read when the record was written comes before all else that it
    /// says: it is a part of the maps of then.
    pub(super) fn apply_placed(&mut self, opening: &Opening<P>) {
        for &(volume, lba, entry) in &opening.placed {
            if lba >= self.parts.volumes.map(volume).blocks {
                continue;
            }
            mark!(PlacedReplayed);
            let value = Value::of_entry(entry.pack());
            let stale = value.filter(|value| self.is_stale(opening, *value)).map(|_| Value::LOST);
            let mapping = stale.or(value).map_or(Mapping::Unmapped, Mapping::At);
            let map = self.parts.volumes.map_mut(volume);
            if map.is_loaded(lba / PAGE) {
                map.set(lba, mapping);
            } else {
                map.patch(lba, mapping, !opening.settled.contains(&(volume, lba)));
            }
        }
    }

    /// A page was loaded to be looked at. Nobody needs it in memory.
    pub(crate) fn page_opened(&mut self, volume: u16, page: u64) {
        self.find_stale(volume, page);
        if self.opening.as_ref().is_some_and(|opening| opening.recount) {
            let values = self.counted_in(volume, page);
            self.count(values);
        }
        self.parts.volumes.map_mut(volume).evict(page, Forget::default(), |_, _, _| false);
    }

    /// Counts what a page leads to, or what its patch says.
    fn count_page(&mut self, volume: u16, page: u64) {
        let values = self.values_of(volume, page);
        self.count(values.into_iter().map(|(_, value)| value).collect());
    }

    fn count(&mut self, values: Vec<Value>) {
        for value in values {
            let unit = self.parts.unit_of(value);
            self.parts.space.add_valid(unit);
            self.parts.volumes.map_more(1);
        }
    }

    /// Where the blocks of a page are that was just read, but for those that count no more, as the tail says.
    fn counted_in(&self, volume: u16, page: u64) -> Vec<Value> {
        let settled = &self.opening.as_ref().expect("the pool is being opened").settled;
        let values = self.values_of(volume, page).into_iter();
        let counted = values.filter(|(lba, _)| !settled.contains(&(volume, *lba)));
        counted.map(|(_, value)| value).collect()
    }

    /// Where the blocks of a page are on media, or those of its patch.
    pub(super) fn values_of(&self, volume: u16, page: u64) -> Vec<(u64, Value)> {
        let map = self.parts.volumes.map(volume);
        if !map.is_loaded(page) {
            let said = map.all_said(page);
            return said.filter_map(|said| Some((said.lba, said.mapping.value()?))).collect();
        }
        let blocks = page * PAGE..((page + 1) * PAGE).min(map.blocks);
        blocks.filter_map(|lba| Some((lba, map.get(lba).value()?))).collect()
    }

    /// Counts the blocks of pages that were loaded or changed so far, from `cursor` on, a bounded number. Returns where
    /// to go on.
    pub(super) fn count_replayed(&mut self, mut cursor: PageCursor) -> Option<PageCursor> {
        let mut budget = WORDS;
        for _ in 0..PAGES {
            match self.parts.next_page(&mut cursor, Wanted::Dirty, &mut budget) {
                Walk::Found(volume, page) => {
                    self.parts.volumes.note_pages(volume);
                    self.count_page(volume, page);
                }
                Walk::Pause => break,
                Walk::End => return None,
            }
        }
        Some(cursor)
    }

    /// Every valid count is right: of the units from the first on that is left, a bounded number, what is not listed is
    /// closed or free.
    pub(super) fn adopt_rest(&mut self, opening: &mut Opening<P>) {
        let geometry = self.parts.config.geometry;
        let from = opening.adopted;
        let until = geometry.units().min(from + UNITS);
        self.parts.stats.looked_at += u64::from(until - from);
        for unit in (from..until).map(UnitId) {
            let known = self.parts.space.listed().contains_key(&unit.0)
                || geometry.is_superblock_unit(unit);
            if known || self.parts.space.units().state(unit) != UnitState::Free {
                self.parts.space.bury(unit);
            } else {
                self.adopt_unlisted(unit, opening.reports[unit.index()]);
            }
        }
        opening.adopted = until;
    }

    fn note_unfinished(&mut self, unit: UnitId, report: UnitReport) {
        let part = 1..self.parts.config.geometry.blocks_per_unit();
        // A zone of a device that is drained would count as active as well.
        let drains = self.parts.config.geometry.state_of(unit) == DeviceState::Draining;
        let takes = report.condition == UnitCondition::Good || drains;
        if takes && report.written.is_some_and(|written| part.contains(&written)) {
            self.parts.space.note_unfinished(unit);
        }
    }

    fn adopt_unlisted(&mut self, unit: UnitId, report: UnitReport) {
        self.note_unfinished(unit, report);
        let written = report.written.unwrap_or(self.parts.config.geometry.blocks_per_unit());
        let good = report.condition == UnitCondition::Good;
        let untouched = report.written.is_none_or(|written| written == 0);
        let empty = self.parts.space.units().valid_count(unit) == 0;
        if good && untouched && empty {
            return self.parts.space.free(unit);
        }
        mark!(UnlistedClosed);
        let entry = self.parts.unit_table.entry(unit);
        let class = self.parts.config.class_named(entry.class).filter(|_| entry.generation.0 > 0);
        let class = class.unwrap_or_else(|| self.class_of(unit));
        self.parts.space.adopt(unit, UnitState::Closed, class, written);
        if !good && empty {
            return self.parts.retire(unit);
        }
        if !good {
            mark!(UnlistedCondemned);
            self.parts.condemn(unit);
        }
        self.parts.space.bury(unit);
    }

    /// Metadata units are told from others by the pages in them, and those of arrivals by where they are.
    fn class_of(&self, unit: UnitId) -> Class {
        let metadata = self.parts.space.held_pages(unit);
        match (metadata, self.parts.space.media_of(unit)) {
            (true, _) => self.parts.config.metadata_class(),
            (false, MediaClass::Fast) => self.parts.config.arrivals().unwrap_or_default(),
            (false, MediaClass::Capacity) => Class(0),
        }
    }
}
