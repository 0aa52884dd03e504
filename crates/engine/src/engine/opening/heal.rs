//! Repair of blocks that an opening finds right in one version and wrong in another. The repair follows all checks and
//! precedes the record of the opening.

use std::fmt::Debug;

use rustc_hash::FxHashMap;
use thermocline_format::{
    ChunkOrigin, Generation, Geometry, Location, MapEntry, MapPage, OpenUnit, PageId, Sequence,
};
use thermocline_types::{UnitId, Version};

use super::{Life, Recovery, Step};
use crate::bugs::bug;
use crate::config::Config;
use crate::device::{DeviceCmd, FoundChunk, Heal, PageBytes};
use crate::engine::Parts;
use crate::healing::Read;
use crate::marks::mark;
use crate::payload::Payload;

/// So many flushed chunks must be missing on a member before all of it counts as older: fewer are damage in place.
/// Chosen, not measured.
const ROLLED_BACK: usize = 2;

/// A chunk of the tail found in only one version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Single {
    sequence: Sequence,
    generation: Generation,
    header: Heal,
    /// Whether another version could be read, and lacks the chunk.
    is_lacking: bool,
}

impl Single {
    pub(super) fn of<P>(found: &FoundChunk<P>, geometry: &Geometry) -> Option<Single> {
        let version = found.only_in?;
        let ChunkOrigin { location: at, sequence, generation, .. } = found.header.origin;
        let header = geometry.logical_block().to_hold(found.header.header_bytes(geometry));
        let header = Heal { at, blocks: header, version };
        Some(Single { sequence, generation, header, is_lacking: !found.everywhere })
    }
}

impl<P> Recovery<P> {
    /// Notes bytes behind the durable chunks of units on devices with redundancy: a crash may have left these bytes on
    /// some members alone. The bytes of a unit are one range, which ends behind the last chunk found. A chunk that does
    /// not count is in the range as well: the unit is written on behind the chunk, maybe in the same row.
    pub(super) fn note_unequal(&mut self, config: &Config) {
        let redundant = |unit: UnitId| config.members.of(config.geometry.device_of(unit)) > 0;
        let durable = self.tail.iter().filter(|chunk| chunk.sequence() <= self.durable);
        let mut starts = FxHashMap::default();
        for (unit, generation, blocks) in durable.filter_map(|chunk| chunk.extent(&self.lives)) {
            let start = starts.entry((unit, generation)).or_insert(0);
            *start = blocks.end.max(*start);
        }
        let lives = self.lives.iter().filter(|life| redundant(life.listed.next.unit));
        let range = |life: &Life| {
            let OpenUnit { next: at, generation } = life.listed;
            let start =
                starts.get(&(at.unit, generation)).map_or(at.block, |end| at.block.max(*end));
            let blocks = life.end.checked_sub(start).filter(|blocks| *blocks > 0)?;
            let at = Location { block: start, ..at };
            Some(Heal { at, blocks, version: Version::AS_READ })
        };
        self.unequal = lives.filter_map(range).collect();
    }
}

impl<P: Payload> Recovery<P> {
    /// Writes again what members hold wrong.
    pub(super) fn heal_found(&mut self, p: &mut Parts<P>) {
        for one in &self.single {
            mark!(SingleHeaderHealed);
            p.healing.keep(one.header);
        }
        if bug!(p.config, NothingHealed) {
            return;
        }
        let mut found = p.healing.take();
        found.sort_unstable();
        for of_unit in found.chunk_by(|one, other| one.at.unit == other.at.unit) {
            self.ask(p, 0, DeviceCmd::Heal(of_unit.to_vec()));
        }
    }

    /// Has members rebuilt that lack flushed chunks. Chunks of released units do not count: a crash during the reset
    /// may have left such a chunk on some members only.
    pub(super) fn distrust_older(&mut self, p: &mut Parts<P>) {
        let geometry = &p.config.geometry;
        let of = |one: &Single| (geometry.device_of(one.header.at.unit), one.header.version);
        let is_kept = |one: &&Single| {
            let life = (one.header.at.unit.0, one.generation);
            let released = self.released.contains_key(&life);
            let flushed = one.is_lacking && one.sequence <= self.durable;
            flushed && (!released || bug!(p.config, ReleasedIsLacking))
        };
        let flushed = self.single.iter().filter(is_kept);
        let mut lacking: Vec<_> = flushed.map(|one| (of(one), one.header)).collect();
        lacking.sort_by_key(|(member, _)| *member);
        let rolled_back = lacking.chunk_by(|(one, _), (other, _)| one == other);
        let believed = bug!(p.config, RolledBackBelieved);
        let rolled_back = rolled_back.filter(|all| all.len() >= ROLLED_BACK && !believed);
        let headers: Vec<Heal> = rolled_back.map(|all| all[0].1).collect();
        for Heal { at, version, .. } in headers {
            mark!(MemberRolledBack);
            self.ask(p, 0, DeviceCmd::Distrust { unit: at.unit, version });
        }
    }

    /// Makes unflushed data that counts from now on the same on all members.
    pub(super) fn make_equal(&mut self, p: &mut Parts<P>) {
        for heal in std::mem::take(&mut self.unequal) {
            mark!(MadeEqual);
            if !bug!(p.config, LeftUnequal) {
                self.ask(p, 0, DeviceCmd::Heal(vec![heal]));
            }
        }
    }

    /// The location that command `index` of the step reads, if the read has a check.
    pub(crate) fn read_of(&self, p: &Parts<P>, index: usize) -> Option<Read> {
        if self.step == Step::Doubts {
            return Some(Read::Blocks { at: self.doubtful[index].at });
        }
        let (_, parent) = self.page_of(p, index)?;
        Some(Read::Page { at: parent.location(&p.config.geometry)? })
    }

    /// The page that command `index` of the step reads, and the map entry that points at the page.
    fn page_of(&self, p: &Parts<P>, index: usize) -> Option<(PageId, MapEntry)> {
        let (volume, number, parent) = match self.step {
            Step::Roots => {
                let (volume, number) = self.roots[index];
                (volume, number as u64, p.volumes.map(volume).root_at(number)?)
            }
            Step::Bases => self.bases.page(index)?,
            Step::UnitTable => {
                let parent = self.record.as_ref()?.unit_pages[index];
                return Some((PageId::of_units(index as u32), parent));
            }
            _ => return None,
        };
        Some((PageId { volume: p.volumes.map(volume).id, index: number as u32 }, parent))
    }

    /// Whether a block that was read to see whether it is torn is whole.
    pub(crate) fn block_is_right(&self, p: &Parts<P>, index: usize, data: &P, nth: u32) -> bool {
        if self.step != Step::Doubts {
            return true;
        }
        let doubtful = self.doubtful[index];
        p.arrived(data, nth, doubtful.at, |crc| crc == doubtful.crc)
    }

    /// Whether a page read by an opening matches its parent entry.
    pub(crate) fn page_is_right(&self, p: &Parts<P>, index: usize, bytes: &PageBytes) -> bool {
        let geometry = &p.config.geometry;
        let Some((id, parent)) = self.page_of(p, index) else { return true };
        MapPage::check(bytes.as_slice(), id, parent, geometry).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::DeviceId;

    use super::*;
    use crate::engine::parts::testing::parts;

    #[test]
    fn all_that_a_unit_is_written_on_behind_is_made_equal() {
        let mut p = parts();
        let mut recovery = Recovery::begin(&mut p, None);
        // The last chunk found does not count: the tail has none.
        let at = Location { unit: UnitId(5), block: 2 };
        let listed = OpenUnit { next: at, generation: Generation(1) };
        recovery.lives.push(Life { end: 9, ..Life::new(listed) });
        recovery.note_unequal(&p.config);
        assert_eq!(recovery.unequal, []);
        p.config.members.set(DeviceId(0), 3);
        recovery.note_unequal(&p.config);
        assert_eq!(recovery.unequal, [Heal { at, blocks: 7, version: Version::AS_READ }]);
    }
}
