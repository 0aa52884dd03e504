//! Pages of the unit table: which are written, and what they say.

use thermocline_format::{
    Generation, Location, MapEntry, MapPage, PAGE_UNITS, PageId, UnitEntry, UnitPage, VolumeId,
    crc32c,
};
use thermocline_ftl::UnitState;
use thermocline_types::{Class, UnitId};

use crate::device::PageBytes;
use crate::engine::{Engine, Parts};
use crate::map::{PAGE, Value};
use crate::pages::UNITS;
use crate::payload::Payload;

impl<P: Payload> Parts<P> {
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

    /// What a page leads to, which may not be in memory, with what its patch says and what that replaces and counts;
    /// `None` if it cannot be read.
    pub(crate) fn values_on_media(
        &self,
        index: u16,
        page: u64,
        read: impl Fn(Location) -> Option<PageBytes>,
    ) -> Option<Vec<Value>> {
        let map = self.volumes.map(index);
        if map.is_loaded(page) {
            let blocks = page * PAGE..((page + 1) * PAGE).min(map.blocks);
            let values = blocks.filter_map(|lba| self.on_media(index, lba));
            return Some(values.filter(|value| !value.is_lost()).collect());
        }
        let (id, parent) = (PageId { volume: map.id, index: page as u32 }, map.page_at(page));
        let at = parent.location(&self.config.geometry)?;
        let bytes = self.page_in_memory(index, page, at).or_else(|| read(at))?;
        let decoded = MapPage::decode(bytes.as_slice(), id, parent, &self.config.geometry).ok()?;
        let mut values = Vec::new();
        for (lba, entry) in (page * PAGE..).zip(decoded.0.iter()) {
            let said = map.said(lba);
            let patched = said.and_then(|_| self.on_media(index, lba));
            let base =
                Value::of_entry(entry.pack()).filter(|_| said.is_none_or(|said| said.counted));
            values.extend(patched.into_iter().chain(base).filter(|value| !value.is_lost()));
        }
        Some(values)
    }

    /// Of each unit, how many pages of maps and of the unit table it holds: those that count, and those that the newest
    /// record that counts may lead to.
    pub(crate) fn pages_by_unit(&self) -> Vec<u32> {
        let maps = self.volumes.indices().map(|index| self.volumes.map(index));
        let maps = maps.flat_map(|map| {
            let pages = (0..map.pages()).map(|page| map.page_at(page));
            pages.chain((0..map.roots()).filter_map(|root| map.root_at(root)))
        });
        let newest = maps.chain(self.unit_table.pages().iter().copied());
        let newest = newest.filter_map(|entry| Value::of_entry(entry.pack()));
        let mut pages = vec![0; self.config.geometry.units() as usize];
        for value in newest.chain(self.superblocks.obsolete()) {
            pages[self.unit_of(value).index()] += 1;
        }
        pages
    }
}

impl<P: Payload> Engine<P> {
    /// Writes those pages of the unit table from page `from` on that are due, at most `most`, to `at`. Returns the
    /// first page that was not looked at.
    pub(crate) fn write_unit_pages(&mut self, from: usize, at: Location, most: usize) -> usize {
        let geometry = self.parts.config.geometry;
        let block = geometry.logical_block();
        let end = geometry.unit_pages().min(from + UNITS as usize / PAGE_UNITS);
        let mut picked: Vec<(usize, UnitPage)> = Vec::new();
        let mut next = from;
        while next < end && picked.len() < most {
            if self.parts.space.take_changed(next) || self.parts.unit_table.is_lost(next) {
                let page = self.parts.unit_page(next);
                if self.parts.unit_table.is_due(next, &page) {
                    picked.push((next, page));
                }
                self.parts.stats.looked_at += PAGE_UNITS as u64;
            }
            next += 1;
        }
        self.parts.stats.looked_at += (next - from) as u64;
        if picked.is_empty() {
            return next;
        }
        let mut place = Location { block: at.block + block.chunk_header(picked.len()), ..at };
        let mut pages = Vec::with_capacity(picked.len());
        for (index, page) in picked {
            let bytes: PageBytes = Box::new(page.encode());
            let crc = crc32c(bytes.as_slice());
            let entry = MapEntry::new(&geometry, place, crc);
            let old = self.parts.unit_table.replace(index, entry, &page);
            self.parts.superblocks.drop_later(old);
            pages.push((PageId::of_units(index as u32), bytes, crc));
            place.block += block.per_block();
        }
        self.count_pages(pages.len());
        self.parts.seal_pages(at, VolumeId::UNITS, pages);
        next
    }
}
