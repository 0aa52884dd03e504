//! The unit table: the number of users' blocks in each unit. The table is kept with the checkpoint, so an opening need
//! not read the map to count blocks.
//!
//! The counts on media match the map pages on media, even if blocks changed since the pages were written. Pages are
//! written in order while the host goes on. A block may move in a page that this checkpoint has written already. The
//! block then moves *ahead* of the table, and the move is subtracted from the counts in memory when the table is
//! written.
//!
//! Invariants:
//! * The blocks of a unit, less the blocks moved ahead, are the blocks that the map pages of the next record lead to.
//!   This holds from the time when all pages were written until that record is durable.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use thermocline_format::{Geometry, MapEntry, PAGE_UNITS, UnitEntry, UnitPage};
use thermocline_types::UnitId;

use crate::volumes::PageCursor;

/// The unit table as on media, and its difference from the counts in memory.
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
    /// Blocks that count as valid in memory, though no page on media will lead to the blocks.
    kept: FxHashMap<u32, i64>,
    /// Pages that must be written even if unchanged: the copy was lost, or must move.
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

    /// Page `index` is at `at`, and cannot be read: it is written again, elsewhere.
    pub(crate) fn adopt_damaged(&mut self, index: usize, at: MapEntry) {
        self.at[index] = at;
        self.again.insert(index);
    }

    /// The entry of `unit` on media.
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

    /// A block in a page written already moved to unit `to` from unit `from`.
    pub(crate) fn move_ahead(&mut self, from: Option<UnitId>, to: Option<UnitId>) {
        for (unit, by) in [(from, -1), (to, 1)] {
            if let Some(unit) = unit {
                *self.ahead.entry(unit.0).or_default() += by;
            }
        }
    }

    /// A block in `unit` goes on counting as valid, though no page leads to the block any more.
    pub(crate) fn keep(&mut self, unit: UnitId) {
        *self.kept.entry(unit.0).or_default() += 1;
    }

    /// All of these were dropped.
    pub(crate) fn drop_kept(&mut self) {
        self.kept.clear();
    }

    /// Pages that must be written even if unchanged.
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

    /// Whether to write `page` as page `index`: the content differs from media, or the copy on media must be replaced.
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
