//! The unit table: how many blocks of users each unit holds, kept with the checkpoint so that an opening need not read
//! the map to know.
//!
//! The counts on media are those of the map pages on media, whatever happened since they were written. Pages are
//! written in order while the host goes on; a block that moves in a page that this checkpoint has written already
//! moves *ahead* of the table, and is taken back from the counts in memory when the table is written.
//!
//! Invariants:
//! * What a unit holds, less what moved ahead, is what the map pages of the next record lead to, from when all of them
//!   were written until that record is durable.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use thermocline_format::{
    Generation, Geometry, Location, MapEntry, MapPage, PAGE_UNITS, PageId, UnitEntry, UnitPage,
    VolumeId, crc32c,
};
use thermocline_ftl::UnitState;
use thermocline_types::{Class, UnitId};

use crate::device::PageBytes;
use crate::engine::{Engine, Phase};
use crate::map::{PAGE, Value};
use crate::pages::UNITS;
use crate::payload::Payload;
use crate::volumes::PageCursor;

/// The unit table as on media, and how far it is from what is in memory.
#[derive(Debug)]
pub(crate) struct UnitTable {
    /// As written last, page by page.
    entries: Vec<UnitEntry>,
    /// Where each page is.
    at: Vec<MapEntry>,
    /// Pages of maps before this one were written by the checkpoint in progress.
    written: PageCursor,
    /// By how many blocks each unit is ahead of these pages.
    ahead: FxHashMap<u32, i64>,
    /// Blocks that count as valid in memory, though nothing on media will lead to them.
    kept: FxHashMap<u32, i64>,
    /// Pages that are to be written whether they differ or not: they were lost, or are to go elsewhere.
    again: BTreeSet<usize>,
}

impl UnitTable {
    /// The table of a pool in which every unit is free.
    pub(crate) fn new(geometry: &Geometry) -> UnitTable {
        let pages = geometry.unit_pages();
        UnitTable {
            entries: vec![UnitEntry::FREE; pages * PAGE_UNITS],
            at: vec![MapEntry::UNMAPPED; pages],
            written: PageCursor::default(),
            ahead: FxHashMap::default(),
            kept: FxHashMap::default(),
            again: BTreeSet::new(),
        }
    }

    /// Takes over page `index`, which was read from `at`.
    pub(crate) fn adopt(&mut self, index: usize, at: MapEntry, page: &UnitPage) {
        self.at[index] = at;
        self.entries[index * PAGE_UNITS..][..PAGE_UNITS].copy_from_slice(&*page.0);
    }

    /// What is said of `unit` on media.
    pub(crate) fn entry(&self, unit: UnitId) -> UnitEntry {
        self.entries[unit.index()]
    }

    /// Where the pages are.
    pub(crate) fn pages(&self) -> &[MapEntry] {
        &self.at
    }

    /// No page of a map was written for the next record, or those that were are to be looked at again. Returns the
    /// units that were ahead.
    pub(crate) fn begin(&mut self) -> impl Iterator<Item = UnitId> {
        self.written = PageCursor::default();
        std::mem::take(&mut self.ahead).into_keys().map(UnitId)
    }

    /// Pages of maps before `cursor` were written for the next record.
    pub(crate) fn advance(&mut self, cursor: PageCursor) {
        self.written = cursor;
    }

    /// Whether the page at `page` was written for the next record.
    #[inline]
    pub(crate) fn has_written(&self, page: PageCursor) -> bool {
        page < self.written
    }

    /// A block in such a page stands in unit `to` from now on, and not in `from`.
    pub(crate) fn move_ahead(&mut self, from: Option<UnitId>, to: Option<UnitId>) {
        for (unit, by) in [(from, -1), (to, 1)] {
            if let Some(unit) = unit {
                *self.ahead.entry(unit.0).or_default() += by;
            }
        }
    }

    /// A block in `unit` goes on counting as valid, though nothing leads to it any more.
    pub(crate) fn keep(&mut self, unit: UnitId) {
        *self.kept.entry(unit.0).or_default() += 1;
    }

    /// All of these were dropped.
    pub(crate) fn drop_kept(&mut self) {
        self.kept.clear();
    }

    /// Pages that are to be written whether they differ or not.
    pub(crate) fn is_lost(&self, index: usize) -> bool {
        self.again.contains(&index)
    }

    /// How many of the `held` blocks that count in `unit` the pages on media lead to.
    pub(crate) fn on_media(&self, unit: UnitId, held: u32) -> u32 {
        if self.ahead.is_empty() && self.kept.is_empty() {
            return held;
        }
        let of = |blocks: &FxHashMap<u32, i64>| blocks.get(&unit.0).copied().unwrap_or_default();
        let count = i64::from(held) - of(&self.ahead) - of(&self.kept);
        debug_assert!(count >= 0, "{unit:?} holds {held} blocks, and {count} on media");
        count.max(0) as u32
    }

    /// Whether `page` is to be written as page `index`: it differs from the one on media, or that one is not to stay.
    pub(crate) fn is_due(&self, index: usize, page: &UnitPage) -> bool {
        let same = self.entries[index * PAGE_UNITS..][..PAGE_UNITS] == *page.0;
        !same || self.again.contains(&index)
    }

    /// Page `index` is written to `at`; returns where it was.
    pub(crate) fn replace(&mut self, index: usize, at: MapEntry, page: &UnitPage) -> MapEntry {
        let old = self.at[index];
        self.adopt(index, at, page);
        self.again.remove(&index);
        old
    }

    /// The pages for whose place `is_bad` is true are written again, elsewhere.
    pub(crate) fn write_again(&mut self, is_bad: impl Fn(MapEntry) -> bool) {
        let bad = (0..self.at.len()).filter(|&index| is_bad(self.at[index]));
        self.again.extend(bad);
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let table = self.entries.capacity() * size_of::<UnitEntry>();
        (table + self.at.capacity() * size_of::<MapEntry>()) as u64
    }
}

impl<P: Payload> Engine<P> {
    /// As [`UnitTable::begin`]: what is said next of units that were ahead differs.
    pub(crate) fn begin_unit_table(&mut self) {
        self.unit_table.begin().for_each(|unit| self.space.touch(unit));
    }

    /// Writes those pages of the unit table from page `from` on that are due, at most `most`, to `at`. Returns the
    /// first page that was not looked at.
    pub(crate) fn write_unit_pages(&mut self, from: usize, at: Location, most: usize) -> usize {
        let geometry = self.config.geometry;
        let block = geometry.logical_block();
        let end = geometry.unit_pages().min(from + UNITS as usize / PAGE_UNITS);
        let mut picked: Vec<(usize, UnitPage)> = Vec::new();
        let mut next = from;
        while next < end && picked.len() < most {
            if self.space.take_changed(next) || self.unit_table.is_lost(next) {
                let page = self.unit_page(next);
                if self.unit_table.is_due(next, &page) {
                    picked.push((next, page));
                }
                self.stats.looked_at += PAGE_UNITS as u64;
            }
            next += 1;
        }
        self.stats.looked_at += (next - from) as u64;
        if picked.is_empty() {
            return next;
        }
        let mut place = Location { block: at.block + block.chunk_header(picked.len()), ..at };
        let mut pages = Vec::with_capacity(picked.len());
        for (index, page) in picked {
            let bytes: PageBytes = Box::new(page.encode());
            let crc = crc32c(bytes.as_slice());
            let entry = MapEntry::new(&geometry, place, crc);
            let old = self.unit_table.replace(index, entry, &page);
            self.superblocks.drop_later(old);
            pages.push((PageId::of_units(index as u32), bytes, crc));
            place.block += block.per_block();
        }
        self.count_pages(pages.len());
        self.seal_pages(at, VolumeId::UNITS, pages);
        next
    }

    /// Page `index` of the unit table, as the map pages on media are.
    fn unit_page(&self, index: usize) -> UnitPage {
        let mut page = UnitPage::free();
        let classes = 0..=self.config.metadata_class().0;
        let names: Vec<Class> = classes.map(|class| self.config.named(Class(class))).collect();
        let units = index * PAGE_UNITS..self.config.geometry.units() as usize;
        for (entry, unit) in page.0.iter_mut().zip(units) {
            *entry = self.unit_entry(UnitId(unit as u32), &names);
        }
        page
    }

    /// What is to be said of a unit. `names` are what chunk headers call the classes, that of metadata the last.
    fn unit_entry(&self, unit: UnitId, names: &[Class]) -> UnitEntry {
        let (units, generation) = (self.space.units(), self.space.generation(unit));
        let state = units.state(unit);
        let empty = matches!(state, UnitState::Free | UnitState::Retired);
        let class = units.class(unit);
        // Metadata units hold pages, which are counted by what leads to them.
        let metadata = class.index() + 1 == names.len();
        let held = if metadata { 0 } else { units.valid_count(unit) };
        let valid = self.unit_table.on_media(unit, held);
        if valid == 0 && (empty || generation.0 == 0) {
            return UnitEntry::FREE;
        }
        let generation = generation.max(Generation::UNKNOWN);
        UnitEntry { generation, valid, class: names[class.index()] }
    }

    /// What a page leads to, which may not be in memory; `None` if it cannot be read.
    fn values_on_media(
        &self,
        index: u16,
        page: u64,
        read: impl Fn(Location) -> Option<PageBytes>,
    ) -> Option<Vec<Value>> {
        let map = self.volumes.map(index);
        if map.is_loaded(page) {
            let blocks = page * PAGE..((page + 1) * PAGE).min(map.blocks);
            return Some(blocks.filter_map(|lba| self.on_media(index, lba)).collect());
        }
        let (id, parent) = (PageId { volume: map.id, index: page as u32 }, map.page_at(page));
        let at = parent.location(&self.config.geometry)?;
        let bytes = self.page_in_memory(index, page, at).or_else(|| read(at))?;
        let decoded = MapPage::decode(bytes.as_slice(), id, parent, &self.config.geometry).ok()?;
        let mapped = decoded.0.iter().filter(|entry| !entry.is_unmapped());
        Some(mapped.map(|entry| Value(entry.pack())).collect())
    }

    /// A unit of which more or fewer blocks count as valid than the maps lead to: how many count, and how many they
    /// lead to. Looks at every block, for tests; `read` gives what is on media of pages that are not in memory. `None`,
    /// too, if one of these cannot be read, or the pool is not open for writing.
    #[must_use]
    pub fn miscounted(
        &self,
        read: impl Fn(Location) -> Option<PageBytes>,
    ) -> Option<(UnitId, u32, u32)> {
        if !self.superblocks.settled || self.phase != Phase::Open {
            return None;
        }
        let mut led_to = vec![0; self.config.geometry.units() as usize];
        for index in self.volumes.indices() {
            for page in 0..self.volumes.map(index).pages() {
                for value in self.values_on_media(index, page, &read)? {
                    led_to[self.unit_of(value).index()] += 1;
                }
            }
        }
        let metadata = self.config.metadata_class();
        let units = (0..self.config.geometry.units()).map(UnitId);
        let counted = units.map(|unit| (unit, self.space.units().valid_count(unit)));
        let users = counted.filter(|(unit, _)| self.space.units().class(*unit) != metadata);
        users
            .map(|(unit, count)| (unit, count, led_to[unit.index()]))
            .find(|(_, count, led_to)| count != led_to)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::LogicalBlock;

    use super::*;

    fn table() -> UnitTable {
        let geometry = Geometry::new(LogicalBlock::B4096, 512, 300, [UnitId(0), UnitId(1)]);
        UnitTable::new(&geometry.expect("a geometry"))
    }

    #[test]
    fn what_moves_in_a_written_page_is_not_on_media_yet() {
        let (mut table, first, second) = (table(), PageCursor::at(0, 3), PageCursor::at(1, 0));
        let _ = table.begin();
        assert!(!table.has_written(first));
        table.advance(PageCursor::at(0, 4));
        assert!(table.has_written(first) && !table.has_written(second));
        table.move_ahead(Some(UnitId(7)), Some(UnitId(8)));
        table.move_ahead(None, Some(UnitId(8)));
        assert_eq!((table.on_media(UnitId(7), 9), table.on_media(UnitId(8), 3)), (10, 1));
        let ahead: BTreeSet<UnitId> = table.begin().collect();
        assert_eq!(ahead, BTreeSet::from([UnitId(7), UnitId(8)]));
        assert!(!table.has_written(first));
        assert_eq!((table.on_media(UnitId(7), 9), table.on_media(UnitId(8), 3)), (9, 3));
    }

    #[test]
    fn what_is_kept_for_the_sake_of_a_recovery_is_not_on_media() {
        let mut table = table();
        table.keep(UnitId(5));
        assert_eq!(table.on_media(UnitId(5), 4), 3);
        table.drop_kept();
        assert_eq!(table.on_media(UnitId(5), 3), 3);
    }

    #[test]
    fn a_page_is_written_when_it_differs_or_has_to_go_elsewhere() {
        let mut table = table();
        let (free, mut page) = (UnitPage::free(), UnitPage::free());
        assert!(!table.is_due(1, &free), "nothing is said of free units");
        page.0[2].generation = thermocline_format::Generation(9);
        assert!(table.is_due(1, &page));
        let unmapped = table.replace(1, MapEntry::UNMAPPED, &page);
        assert!(unmapped.is_unmapped() && !table.is_due(1, &page) && table.is_due(1, &free));
        table.write_again(|_| true);
        assert!(table.is_due(1, &page));
    }
}
