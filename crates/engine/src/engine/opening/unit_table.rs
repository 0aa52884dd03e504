//! The unit table of the record that an opening begins with.

use thermocline_format::{Generation, PAGE_UNITS, UnitPage};
use thermocline_types::{UnitId, Version};

use super::Opening;
use crate::device::{DeviceCmd, DeviceError, Done};
use crate::engine::Engine;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::OpenError;

impl<P: Payload> Engine<P> {
    pub(super) fn read_unit_table(&mut self) -> Result<(), OpenError> {
        let geometry = self.parts.config.geometry;
        let opening = self.opening.as_ref().expect("the pool is being opened");
        let record = opening.record.as_ref().expect("a superblock was chosen");
        let places = record.unit_pages.iter().map(|page| page.location(&geometry));
        for (index, at) in places.collect::<Vec<_>>().into_iter().enumerate() {
            if let Some(at) = at {
                self.parts.space.add_page(at.unit);
                self.ask(index, DeviceCmd::ReadPage { at, version: Version::AS_READ });
            }
        }
        Ok(())
    }

    /// Page `index` of the unit table is there: its units hold what it says. If it cannot be read, the whole map is
    /// read instead.
    pub(super) fn unit_page_read(
        &mut self,
        opening: &mut Opening<P>,
        index: usize,
        done: &Result<Done<P>, DeviceError>,
    ) {
        let geometry = self.parts.config.geometry;
        let parent = opening.record.as_ref().expect("a superblock was chosen").unit_pages[index];
        let page = match done {
            Ok(Done::Page(bytes)) => {
                UnitPage::decode(bytes.as_slice(), index as u32, parent, &geometry).ok()
            }
            _ => None,
        };
        let Some(page) = page else {
            let at = parent.location(&geometry).expect("it was read from somewhere");
            mark!(UnitPageDamaged);
            opening.recount = true;
            self.parts.unit_table.adopt_damaged(index, parent);
            return self.parts.report_damage(at, None);
        };
        self.parts.unit_table.adopt(index, parent, &page);
        let first = (index * PAGE_UNITS) as u32;
        for (unit, entry) in (first..geometry.units()).map(UnitId).zip(page.0.iter()) {
            let known = Some(entry.generation).filter(|one| *one != Generation::UNKNOWN);
            self.parts.space.set_generation(unit, known.unwrap_or_default());
            if entry.valid > 0 {
                self.parts.space.add_users(unit, entry.valid);
                self.parts.volumes.map_more(u64::from(entry.valid));
            }
        }
    }

    /// Forgets what the unit table said: the blocks of every page are counted.
    pub(super) fn count_all(&mut self) {
        for unit in (0..self.parts.config.geometry.units()).map(UnitId) {
            let valid = self.parts.unit_table.entry(unit).valid;
            if valid > 0 {
                self.parts.space.drop_users(unit, valid);
            }
        }
        self.parts.volumes.map_less(u64::MAX);
        self.parts.want_checkpoint();
    }
}
