//! What an opening finds right in one version of a device with redundancy and wrong in another: it is written again
//! when the opening has judged all of it, before its record.

use thermocline_format::{Geometry, MapEntry, MapPage, PageId, Sequence};
use thermocline_types::{UnitId, Version};

use super::known::TailChunk;
use super::{Opening, Step};
use crate::bugs::bug;
use crate::config::Config;
use crate::device::{DeviceCmd, FoundChunk, PageBytes};
use crate::engine::Engine;
use crate::healing::{Heal, Read};
use crate::marks::mark;
use crate::payload::Payload;

/// So many flushed chunks must be missing on a member before all of it counts as older: fewer are damage in place.
/// Chosen, not measured.
const ROLLED_BACK: usize = 2;

/// A chunk of the tail that one version alone has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Single {
    sequence: Sequence,
    header: Heal,
}

impl Single {
    pub(super) fn of<P>(found: &FoundChunk<P>, geometry: &Geometry) -> Option<Single> {
        let version = found.only_in?;
        let (at, sequence) = (found.header.origin.location, found.header.origin.sequence);
        let header = geometry.logical_block().to_hold(found.header.header_bytes(geometry));
        Some(Single { sequence, header: Heal { at, blocks: header, version } })
    }
}

impl<P> Opening<P> {
    /// Notes the chunks above the durable sequence on devices with redundancy: a crash may have left them on some
    /// members alone.
    pub(super) fn note_unequal(&mut self, config: &Config) {
        let redundant = |unit: UnitId| config.members.of(config.geometry.device_of(unit)) > 0;
        let headers = self.tail.iter().filter_map(TailChunk::header);
        let unequal = headers.filter(|header| {
            header.origin.sequence > self.durable && redundant(header.origin.location.unit)
        });
        let (version, unequal) = (Version::AS_READ, unequal.collect::<Vec<_>>());
        let whole = unequal.into_iter().map(|header| Heal {
            at: header.origin.location,
            blocks: header.blocks,
            version,
        });
        self.unequal = whole.collect();
    }
}

impl<P: Payload> Engine<P> {
    /// Writes again what members hold wrong.
    pub(super) fn heal_found(&mut self) {
        let opening = self.opening.as_ref().expect("the pool is being opened");
        for one in &opening.single {
            mark!(SingleHeaderHealed);
            self.healing.keep(one.header);
        }
        for heal in self.healing.take() {
            if !bug!(self.config, NothingHealed) {
                self.ask(0, heal.command());
            }
        }
    }

    /// Has members filled anew that lack chunks that were flushed.
    pub(super) fn distrust_older(&mut self) {
        let opening = self.opening.as_ref().expect("the pool is being opened");
        let geometry = &self.config.geometry;
        let of = |one: &Single| (geometry.device_of(one.header.at.unit), one.header.version);
        let flushed = opening.single.iter().filter(|one| one.sequence <= opening.durable);
        let mut lacking: Vec<_> = flushed.map(|one| (of(one), one.header)).collect();
        lacking.sort_by_key(|(member, _)| *member);
        let rolled_back = lacking.chunk_by(|(one, _), (other, _)| one == other);
        let rolled_back = rolled_back.filter(|all| all.len() >= ROLLED_BACK);
        let headers: Vec<Heal> = rolled_back.map(|all| all[0].1).collect();
        for Heal { at, version, .. } in headers {
            mark!(MemberRolledBack);
            self.ask(0, DeviceCmd::Distrust { unit: at.unit, version });
        }
    }

    /// What was not flushed and counts from now on is made the same on all members.
    pub(super) fn make_equal(&mut self) {
        let opening = self.opening.as_mut().expect("the pool is being opened");
        for heal in std::mem::take(&mut opening.unequal) {
            mark!(MadeEqual);
            if !bug!(self.config, LeftUnequal) {
                self.ask(0, heal.command());
            }
        }
    }

    /// The place that part `index` of what this step asked for reads, if it has a check.
    pub(crate) fn opening_read(&self, index: usize) -> Option<Read> {
        let opening = self.opening.as_ref()?;
        if opening.step == Step::Doubts {
            return Some(Read::Blocks { at: opening.doubtful[index].at });
        }
        let (_, parent) = self.opening_page(index)?;
        Some(Read::Page { at: parent.location(&self.config.geometry)? })
    }

    /// The page that part `index` of what this step asked for is, and what leads to it.
    fn opening_page(&self, index: usize) -> Option<(PageId, MapEntry)> {
        let opening = self.opening.as_ref()?;
        let (volume, number, parent) = match opening.step {
            Step::Roots => {
                let (volume, number) = opening.roots[index];
                (volume, number as u64, self.volumes.map(volume).root_at(number)?)
            }
            Step::Bases => opening.bases.page(index)?,
            Step::UnitTable => {
                let parent = opening.record.as_ref()?.unit_pages[index];
                return Some((PageId::of_units(index as u32), parent));
            }
            _ => return None,
        };
        Some((PageId { volume: self.volumes.map(volume).id, index: number as u32 }, parent))
    }

    /// Whether a block that was read to see whether it is torn is whole.
    pub(crate) fn opening_block_is_right(&self, index: usize, data: &P, nth: u32) -> bool {
        let Some(opening) = self.opening.as_ref().filter(|one| one.step == Step::Doubts) else {
            return true;
        };
        let doubtful = opening.doubtful[index];
        self.arrived(data, nth, doubtful.at, |crc| crc == doubtful.crc)
    }

    /// Whether a page that an opening read is the one that leads to it.
    pub(crate) fn opening_page_is_right(&self, index: usize, bytes: &PageBytes) -> bool {
        let geometry = &self.config.geometry;
        let Some((id, parent)) = self.opening_page(index) else { return true };
        MapPage::check(bytes.as_slice(), id, parent, geometry).is_ok()
    }
}
