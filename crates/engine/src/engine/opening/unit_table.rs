//! The unit table of the record that an opening begins with.

use thermocline_format::{Generation, PAGE_UNITS, UnitPage};
use thermocline_types::{UnitId, Version};

use super::Recovery;
use crate::device::{DeviceCmd, DeviceError, Done};
use crate::engine::Parts;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::OpenError;

impl<P: Payload> Recovery<P> {
    pub(super) fn read_unit_table(&mut self, p: &mut Parts<P>) -> Result<(), OpenError> {
        let geometry = p.config.geometry;
        let record = self.record.as_ref().expect("a superblock was chosen");
        let places = record.unit_pages.iter().map(|page| page.location(&geometry));
        for (index, at) in places.collect::<Vec<_>>().into_iter().enumerate() {
            if let Some(at) = at {
                p.space.add_page(at.unit);
                self.ask(p, index, DeviceCmd::ReadPage { at, version: Version::AS_READ });
            }
        }
        Ok(())
    }

    /// Page `index` of the unit table was read: the units of the page get its counts. If the page cannot be read, the
    /// whole map is read instead.
    pub(super) fn unit_page_read(
        &mut self,
        p: &mut Parts<P>,
        index: usize,
        done: &Result<Done<P>, DeviceError>,
    ) {
        let geometry = p.config.geometry;
        let parent = self.record.as_ref().expect("a superblock was chosen").unit_pages[index];
        let page = match done {
            Ok(Done::Page(bytes)) => {
                UnitPage::decode(bytes.as_slice(), index as u32, parent, &geometry).ok()
            }
            _ => None,
        };
        let Some(page) = page else {
            let at = parent.location(&geometry).expect("it was read from somewhere");
            mark!(UnitPageDamaged);
            self.recount = true;
            p.unit_table.adopt_damaged(index, parent);
            return p.report_damage(at, None);
        };
        p.unit_table.adopt(index, parent, &page);
        let first = (index * PAGE_UNITS) as u32;
        for (unit, entry) in (first..geometry.units()).map(UnitId).zip(page.0.iter()) {
            let known = Some(entry.generation).filter(|one| *one != Generation::UNKNOWN);
            p.space.set_generation(unit, known.unwrap_or_default());
            if entry.valid > 0 {
                p.space.add_users(unit, entry.valid);
                p.volumes.map_more(u64::from(entry.valid));
            }
        }
    }

    /// Forgets what the unit table said: the blocks of every page are counted.
    pub(super) fn count_all(&mut self, p: &mut Parts<P>) {
        for unit in (0..p.config.geometry.units()).map(UnitId) {
            let valid = p.unit_table.entry(unit).valid;
            if valid > 0 {
                p.space.drop_users(unit, valid);
            }
        }
        p.volumes.map_less(u64::MAX);
        p.want_checkpoint();
    }
}
