//! Doing once more what the tail says, and taking over the units as they were found.

use std::collections::BTreeMap;

use thermocline_format::{
    ChunkHeader, DeviceState, Entry, Location, LogicalBlock, MediaClass, OpenUnit, Superblock,
    VolumeId, VolumeName,
};
use thermocline_ftl::UnitState;
use thermocline_types::{Class, UnitId};

use super::known::TailChunk;
use super::unmapped::Unmapped;
use super::{Life, Recovery};
use crate::bugs::bug;
use crate::device::{UnitCondition, UnitReport};
use crate::engine::Parts;
use crate::map::{Forget, Mapping, PAGE, Value, Wanted};
use crate::marks::mark;
use crate::pages::{PAGES, UNITS, WORDS};
use crate::payload::Payload;
use crate::volumes::{PageCursor, Walk};

impl<P: Payload> Recovery<P> {
    /// Takes over the listed units as they were found.
    pub(super) fn adopt_units(&self, p: &mut Parts<P>, record: &Superblock) {
        let geometry = p.config.geometry;
        p.space.set_listed(&record.open_units);
        for life in &self.lives {
            let unit = life.listed.next.unit;
            let report = self.reports[unit.index()];
            let written = report.written.unwrap_or(life.end);
            // Where a chunk is missing, the maps may lead to what is there.
            let holds = p.space.units().valid_count(unit) > 0;
            let untouched = self.is_untouched(life) && !holds;
            // Of a life that was released, or written in vain, nothing need be found again.
            let released = self.was_released(&life.listed);
            mark!(ReplayedReleased if life.replays && released);
            let vain = self.is_in_vain(life, &p.space);
            mark!(ReplayedInVain if vain);
            p.space.set_replayed(unit, life.replays && !vain && !released);
            note_unfinished(p, unit, report);
            if report.condition != UnitCondition::Good {
                mark!(CondemnedFound);
                let class = life.class.unwrap_or_else(|| class_of(p, unit));
                p.space.adopt(unit, UnitState::Closed, class, written);
                p.space.set_generation(unit, life.listed.generation);
                p.condemn(unit);
            } else if untouched {
                let next = Location { unit, block: 0 };
                p.space.reserve(OpenUnit { next, ..life.listed });
            } else {
                // What was written may be no chunk, or be reset already: then the unit will turn out to be dead.
                mark!(TornHeaderOnly if life.class.is_none());
                let may = !self.overlooked || bug!(p.config, LostWrittenOver);
                mark!(LifeEndsForLoss if !may);
                adopt_life(p, life, may, written, geometry.logical_block());
            }
        }
    }

    /// Applies the entries of a chunk. The record lists every volume below `next_volume`: a missing volume was deleted.
    pub(super) fn replay(&mut self, p: &mut Parts<P>, number: usize, header: &ChunkHeader) {
        let next = self.record.as_ref().expect("a superblock was chosen").next_volume;
        let (torn, unmapped) = (&self.torn, &mut self.unmapped);
        let geometry = p.config.geometry;
        mark!(PackedTail if header.packed.is_some());
        let mut names: BTreeMap<VolumeId, [u8; 64]> = BTreeMap::new();
        for (index, (entry, at)) in header.placed(&geometry).enumerate() {
            match *entry {
                Entry::Data { .. } if torn.contains(&(number, index)) => {}
                Entry::Data { volume, lba, crc } => {
                    let at = at.expect("Data has a block");
                    unmapped.replay_block(p, volume, lba, crc, at);
                }
                Entry::Trim { .. } if bug!(p.config, TrimNotReplayed) => {}
                Entry::Trim { volume, lba, blocks } => {
                    let Some(volume) = p.volumes.slot(volume) else { continue };
                    // The record may know already that the volume is smaller by now.
                    let end = (lba.0 + blocks).min(p.volumes.map(volume).blocks);
                    unmapped.replay_unmap(p, volume, lba.0.min(end), end);
                }
                Entry::LayerHole { volume, lba, blocks } => {
                    let Some(volume) = p.volumes.slot(volume) else { continue };
                    mark!(HoleReplayed);
                    let end = (lba.0 + blocks).min(p.volumes.map(volume).blocks);
                    unmapped.replay_hole(p, volume, lba.0.min(end), end);
                }
                Entry::VolumeCreate { .. }
                | Entry::VolumeDelete { .. }
                | Entry::VolumeResize { .. }
                | Entry::VolumeMedia { .. }
                | Entry::LayerDelete { .. } => replay_volume(unmapped, p, *entry, next),
                Entry::VolumeName { volume, part, text } => {
                    let name = names.entry(volume).or_insert([0; 64]);
                    name[usize::from(part) * 16..][..16].copy_from_slice(&text);
                }
                Entry::VolumeSnapshot { .. }
                | Entry::VolumeClone { .. }
                | Entry::Placed { .. }
                | Entry::Abandoned { .. }
                | Entry::Released { .. } => {}
            }
        }
        for (volume, bytes) in names {
            if let (Some(index), Some(name)) =
                (p.volumes.index(volume), VolumeName::from_bytes(&bytes))
            {
                let map = p.volumes.map_mut(index);
                // Only a volume that this chunk creates has an empty name.
                let is_rename = !map.name.as_str().is_empty() && map.name != name;
                mark!(RenameReplayed if is_rename);
                if !(is_rename && bug!(p.config, RenameNotReplayed)) {
                    map.name = name;
                }
            }
        }
    }

    /// Makes all volumes and layers that the tail names, if there is a layer among them. A chunk that failed may name a
    /// layer once more behind data of it.
    pub(super) fn make_layers(&self, p: &mut Parts<P>) {
        let next = self.record.as_ref().expect("a superblock was chosen").next_volume;
        let mut made = BTreeMap::new();
        for entry in self.tail.iter().flat_map(TailChunk::entries) {
            match *entry {
                Entry::VolumeCreate { volume: layer, .. }
                | Entry::VolumeSnapshot { layer, .. }
                | Entry::VolumeClone { layer, .. } => _ = made.insert(layer, *entry),
                _ => {}
            }
        }
        let alone = |entry: &Entry| matches!(entry, Entry::VolumeCreate { .. });
        if bug!(p.config, SnapshotNotReplayed) || made.values().all(alone) {
            return;
        }
        let name = || VolumeName::new("").expect("an empty name is a name");
        for (id, entry) in made.into_iter().filter(|(id, _)| *id >= next) {
            match entry {
                Entry::VolumeCreate { blocks, .. } => replay_create(p, id, blocks, next),
                _ if p.volumes.slot(id).is_some() => {}
                Entry::VolumeSnapshot { volume, blocks, .. } => {
                    let Some(below) = p.volumes.layer(volume) else { continue };
                    mark!(SnapshotReplayed);
                    p.volumes.freeze(below, id, name(), blocks, p.addresses);
                }
                Entry::VolumeClone { volume, blocks, .. } => {
                    let Some(below) = p.volumes.layer(volume) else { continue };
                    mark!(CloneReplayed);
                    p.volumes.branch(below, id, name(), blocks, p.addresses);
                }
                _ => {}
            }
        }
    }

    /// What the tail says of pages that could not be read when the record was written comes before all else that it
    /// says: it is a part of the maps of then.
    pub(super) fn apply_placed(&mut self, p: &mut Parts<P>) {
        for &(volume, lba, entry) in &self.placed {
            if lba >= p.volumes.map(volume).blocks {
                continue;
            }
            mark!(PlacedReplayed);
            let value = Value::of_entry(entry.pack());
            let stale = value.filter(|value| !value.is_nowhere() && self.is_stale(p, *value));
            let stale = stale.map(|_| Value::LOST);
            let mapping = stale.or(value).map_or(Mapping::Unmapped, Mapping::At);
            let map = p.volumes.map_mut(volume);
            if map.is_loaded(lba / PAGE) {
                map.set(lba, mapping);
            } else {
                map.patch(lba, mapping, !self.settled.contains(&(volume, lba)));
            }
        }
    }

    /// A page was loaded to be looked at. Nobody needs it in memory.
    pub(crate) fn page_opened(&mut self, p: &mut Parts<P>, volume: u16, page: u64) {
        self.find_stale(p, volume, page);
        if self.recount {
            let values = self.counted_in(p, volume, page);
            self.count(p, values);
        }
        p.volumes.map_mut(volume).evict(page, Forget::default(), |_, _, _| false);
    }

    /// Counts the blocks of a page, or of its patch.
    fn count_page(&mut self, p: &mut Parts<P>, volume: u16, page: u64) {
        let values = p.values_in(volume, page);
        self.count(p, values.into_iter().map(|(_, value)| value).collect());
    }

    fn count(&mut self, p: &mut Parts<P>, values: Vec<Value>) {
        for value in values {
            let unit = p.unit_of(value);
            p.space.add_valid(unit);
            p.volumes.map_more(1);
        }
    }

    /// Where the blocks of a page are that was just read, but for those that count no more, as the tail says.
    fn counted_in(&self, p: &Parts<P>, volume: u16, page: u64) -> Vec<Value> {
        let settled = &self.settled;
        let values = p.values_in(volume, page).into_iter();
        let counted = values.filter(|(lba, _)| !settled.contains(&(volume, *lba)));
        counted.map(|(_, value)| value).collect()
    }

    /// Counts the blocks of pages that were loaded or changed so far, from `cursor` on, a bounded number. Returns where
    /// to go on.
    pub(super) fn count_replayed(
        &mut self,
        p: &mut Parts<P>,
        mut cursor: PageCursor,
    ) -> Option<PageCursor> {
        let mut budget = WORDS;
        for _ in 0..PAGES {
            match p.next_page(&mut cursor, Wanted::Dirty, &mut budget) {
                Walk::Found(volume, page) => {
                    p.volumes.note_pages(volume);
                    self.count_page(p, volume, page);
                }
                Walk::Pause => break,
                Walk::End => return None,
            }
        }
        Some(cursor)
    }

    /// Every valid count is right: of the units from the first on that is left, a bounded number, what is not listed is
    /// closed or free.
    pub(super) fn adopt_rest(&mut self, p: &mut Parts<P>) {
        let geometry = p.config.geometry;
        let from = self.adopted;
        let until = geometry.units().min(from + UNITS);
        p.stats.looked_at += u64::from(until - from);
        for unit in (from..until).map(UnitId) {
            let known = p.space.listed().contains_key(&unit.0) || geometry.is_superblock_unit(unit);
            if known || p.space.units().state(unit) != UnitState::Free {
                p.space.bury(unit);
            } else {
                adopt_unlisted(p, unit, self.reports[unit.index()]);
            }
        }
        self.adopted = until;
    }
}

/// Takes over a life with written chunks. Writing continues in the unit if the caller permits (`may`) and the unit
/// qualifies.
fn adopt_life<P: Payload>(
    p: &mut Parts<P>,
    life: &Life,
    may: bool,
    written: u32,
    block: LogicalBlock,
) {
    let unit = life.listed.next.unit;
    let room = p.config.geometry.blocks_per_unit().saturating_sub(written);
    // Its first header may be damaged.
    let class = life.class.unwrap_or_else(|| class_of(p, unit));
    let media = p.space.media_of(unit);
    let can = p.space.may_open_another(class) && media == p.config.media_of(class);
    mark!(TooManyLives if !can);
    let goes_on = life.class.is_some()
        && may
        && can
        && p.space.next_of(class).is_none()
        && room >= block.chunk_header(1) + block.per_block()
        && written >= life.end;
    p.space.set_generation(unit, life.listed.generation);
    if goes_on {
        mark!(LifeGoesOn);
        let back = bug!(p.config, TailOverwritten) && written > life.listed.next.block;
        let written = if back { life.listed.next.block } else { written };
        p.space.go_on(class, Location { unit, block: written });
    } else {
        mark!(LifeEnds);
        p.space.adopt(unit, UnitState::Closed, class, written);
    }
}

fn note_unfinished<P: Payload>(p: &mut Parts<P>, unit: UnitId, report: UnitReport) {
    let part = 1..p.config.geometry.blocks_per_unit();
    // A zone of a device that is drained would count as active as well.
    let drains = p.config.geometry.state_of(unit) == DeviceState::Draining;
    let takes = report.condition == UnitCondition::Good || drains;
    if takes && report.written.is_some_and(|written| part.contains(&written)) {
        p.space.note_unfinished(unit);
    }
}

fn adopt_unlisted<P: Payload>(p: &mut Parts<P>, unit: UnitId, report: UnitReport) {
    note_unfinished(p, unit, report);
    let written = report.written.unwrap_or(p.config.geometry.blocks_per_unit());
    let good = report.condition == UnitCondition::Good;
    let untouched = report.written.is_none_or(|written| written == 0);
    let empty = p.space.units().valid_count(unit) == 0;
    if good && untouched && empty {
        return p.space.free(unit);
    }
    mark!(UnlistedClosed);
    let entry = p.unit_table.entry(unit);
    let class = p.config.class_named(entry.class).filter(|_| entry.generation.0 > 0);
    let class = class.unwrap_or_else(|| class_of(p, unit));
    p.space.adopt(unit, UnitState::Closed, class, written);
    if !good && empty {
        return p.retire(unit);
    }
    if !good {
        mark!(UnlistedCondemned);
        p.condemn(unit);
    }
    p.space.bury(unit);
}

/// The pages in a unit identify a metadata unit. The media identifies a unit of arrivals.
fn class_of<P: Payload>(p: &Parts<P>, unit: UnitId) -> Class {
    let metadata = p.space.held_pages(unit);
    match (metadata, p.space.media_of(unit)) {
        (true, _) => p.config.metadata_class(),
        (false, MediaClass::Fast) => p.config.arrivals().unwrap_or_default(),
        (false, MediaClass::Capacity) => Class(0),
    }
}

/// Applies an entry about a volume or a layer as a whole, if it is there.
fn replay_volume<P: Payload>(
    unmapped: &mut Unmapped,
    p: &mut Parts<P>,
    entry: Entry,
    next: VolumeId,
) {
    match entry {
        Entry::VolumeCreate { volume, blocks } => replay_create(p, volume, blocks, next),
        Entry::VolumeDelete { volume } => {
            // Its blocks are counted, and are unmapped when the pool is open.
            let Some(volume) = p.volumes.layer(volume) else { return };
            mark!(DeleteReplayed);
            p.volumes.hide_stack(volume);
        }
        Entry::VolumeResize { volume, blocks } => {
            let Some(volume) = p.volumes.slot(volume) else { return };
            let end = p.volumes.map(volume).blocks;
            unmapped.replay_shrink(p, volume, blocks.min(end));
            if bug!(p.config, ResizeNotReplayed) {
                return;
            }
            p.volumes.resize(volume, blocks);
            p.volumes.map_mut(volume).limit = blocks;
        }
        Entry::VolumeMedia { volume, media } => {
            let Some(volume) = p.volumes.index(volume) else { return };
            mark!(MediaReplayed);
            if !bug!(p.config, MediaNotReplayed) {
                p.volumes.map_mut(volume).media = media;
            }
        }
        Entry::LayerDelete { volume } => {
            let Some(volume) = p.volumes.layer(volume) else { return };
            mark!(SnapshotDeleteReplayed);
            p.volumes.make_nameless(volume);
            // The deletions of all that reads it may be logged before, if the write of its own failed.
            if p.volumes.children(volume).next().is_none() {
                p.volumes.hide_stack(volume);
            }
        }
        _ => {}
    }
}

fn replay_create<P: Payload>(p: &mut Parts<P>, volume: VolumeId, blocks: u64, next: VolumeId) {
    if p.volumes.layer(volume).is_some() || volume < next {
        mark!(CreateKnown);
        return;
    }
    mark!(CreateReplayed);
    let name = VolumeName::new("").expect("an empty name is a name");
    p.volumes.add(volume, name, blocks, p.addresses);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::parts;

    #[test]
    fn good_units_that_were_written_in_part_are_to_be_finished() {
        let mut p = parts();
        let good = UnitCondition::Good;
        let found = [
            (8, good, Some(1)),
            (9, good, Some(255)),
            (10, good, Some(0)),
            (11, good, Some(256)),
            (12, good, None),
            (13, UnitCondition::ReadOnly, Some(5)),
        ];
        for (unit, condition, written) in found {
            p.space.adopt(UnitId(unit), UnitState::Closed, Class(0), 256);
            note_unfinished(&mut p, UnitId(unit), UnitReport { condition, written });
        }
        assert_eq!(p.space.take_unfinished(), [8, 9].map(UnitId));
    }
}
