//! Pages of the unit table: which pages are written, and their contents.

use thermocline_format::{Generation, Location, MapPage, PAGE_UNITS, PageId, UnitEntry, UnitPage};
use thermocline_ftl::UnitState;
use thermocline_types::{Class, UnitId};

use crate::device::PageBytes;
use crate::engine::Parts;
use crate::map::{PAGE, Value};
use crate::payload::Payload;

impl<P: Payload> Parts<P> {
    /// Page `index` of the unit table, as the map pages on media are.
    pub(crate) fn unit_page(&self, index: usize) -> UnitPage {
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

    /// The values of a page, which may be only on media: its entries, the entries of its patch, and replaced values
    /// that still count; `None` if the page is unreadable.
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
            return Some(values.filter(|value| !value.is_nowhere()).collect());
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
            values.extend(patched.into_iter().chain(base).filter(|value| !value.is_nowhere()));
        }
        Some(values)
    }

    /// Of each unit, how many pages of maps and of the unit table it holds: current pages, and pages that the newest
    /// durable record may point at.
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
