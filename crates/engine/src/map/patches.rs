//! Pages on media only of which some entries are known to differ.
//!
//! Host writes and copies of garbage collection change entries without knowing the old entries. A page outside memory
//! therefore need not be read for a change. Its patch keeps changed entries until the page is read for another reason,
//! or until a checkpoint rewrites the page with the patch applied.

use std::ops::Range;

use thermocline_format::{MapEntry, PAGE_ENTRIES, VolumeId};

use super::leaf::{self, has};
use super::patch::{Patch, Patched};
use super::{Bits, Forget, Mapping, PAGE, UNMAPPED, Value, VolumeMap, split};
use crate::device::PageBytes;
use crate::marks::mark;

/// The old entry of a patched block on media, whose block counted as valid until the page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) lba: u64,
    /// `None` for an unmapped block.
    pub(crate) value: Option<Value>,
    /// The slot of the write cache that the entry leads to, if it does.
    pub(crate) slot: Option<u32>,
}

/// The patched entry of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) lba: u64,
    pub(crate) mapping: Mapping,
    /// Whether the old block on media counts as valid.
    pub(crate) counted: bool,
}

/// The blocks of a page of which the bits are set.
fn set_in(blocks: &Bits) -> impl Iterator<Item = usize> + '_ {
    (0..PAGE_ENTRIES).filter(|index| blocks[index / 64] >> (index % 64) & 1 == 1)
}

impl VolumeMap {
    /// Memory that the first `blocks` entries of patches of `pages` pages take at most.
    pub(crate) fn patch_bytes_for(pages: u64, blocks: u64) -> u64 {
        pages * Patch::bytes_for(0) + blocks * (Patch::bytes_for(1) - Patch::bytes_for(0))
    }

    /// Whether a page is on media only, and some of its entries are known to differ.
    #[inline]
    pub(crate) fn is_patched(&self, page: u64) -> bool {
        let (root, index) = split(page);
        self.roots[root].leaf.as_ref().is_some_and(|leaf| has(&leaf.patched, index))
    }

    fn patch_of(&self, page: u64) -> Option<&Patch> {
        let (root, index) = split(page);
        self.roots[root].leaf.as_ref().and_then(|leaf| leaf.patch(index))
    }

    /// The patched mapping of `lba`, if the page is not loaded and its patch has an entry for `lba`.
    pub(super) fn patched(&self, lba: u64) -> Option<Mapping> {
        let known = self.patch_of(lba / PAGE)?.get((lba % PAGE) as u16)?;
        Some(self.addresses.mapping(known.entry))
    }

    /// The patched entry of `lba`, if the page has a patch with an entry for `lba`.
    pub(crate) fn said(&self, lba: u64) -> Option<Said> {
        let known = self.patch_of(lba / PAGE)?.get((lba % PAGE) as u16)?;
        Some(self.say(lba / PAGE, known))
    }

    /// All patched entries of a page.
    pub(crate) fn all_said(&self, page: u64) -> impl Iterator<Item = Said> + '_ {
        self.patch_of(page)
            .into_iter()
            .flat_map(Patch::iter)
            .map(move |known| self.say(page, known))
    }

    fn say(&self, page: u64, known: Patched) -> Said {
        let (lba, counted) = (page * PAGE + u64::from(known.index), known.counted);
        Said { lba, mapping: self.addresses.mapping(known.entry), counted }
    }

    /// Patches the entry of `lba`, whose page is on media only. If the entry was not patched before, its old block goes
    /// on counting as valid if `counted`.
    #[cold]
    pub(crate) fn patch(&mut self, lba: u64, mapping: Mapping, counted: bool) {
        debug_assert!(!self.is_loaded(lba / PAGE), "its entries are known");
        let entry = self.addresses.entry(mapping);
        let (root, index) = split(lba / PAGE);
        let leaf = self.roots[root].leaf.as_deref_mut();
        // Most pages are patched and dirty already: only the patch part of the tally changes.
        if let Some(leaf) = leaf.filter(|leaf| has(&leaf.patched, index) && has(&leaf.dirty, index))
        {
            let patch = leaf.patch_mut(index);
            let (bytes, counts) = (patch.memory_bytes(), patch.counted());
            patch.put((lba % PAGE) as u16, entry, counted);
            let (more, doubled) = (patch.memory_bytes() - bytes, patch.counted() - counts);
            self.tally.patch_bytes += more;
            self.tally.doubled += doubled;
            self.changed |= more + doubled > 0;
            return;
        }
        self.change(lba / PAGE, |leaf, index| {
            leaf.patch_mut(index).put((lba % PAGE) as u16, entry, counted);
            leaf::set(&mut leaf.dirty, index);
        });
    }

    /// Removes the patch of `lba`: the page on media has the right entry after all.
    pub(crate) fn unpatch(&mut self, lba: u64) {
        self.change(lba / PAGE, |leaf, index| {
            leaf.patch_mut(index).remove((lba % PAGE) as u16);
            if leaf.patch(index).is_some_and(Patch::is_empty) {
                leaf.take_patch(index);
                leaf::clear(&mut leaf.dirty, index);
            }
        });
    }

    /// Of 64 pages from `first` on, the pages in `landed` are on media and in a flushed record: merged entries are
    /// forgotten.
    pub(super) fn forget_merged(&mut self, first: u64, mut landed: u64) {
        while landed != 0 {
            let page = first + u64::from(landed.trailing_zeros());
            landed &= landed - 1;
            self.change(page, |leaf, index| {
                leaf.patch_mut(index).forget_merged();
                if leaf.patch(index).is_some_and(Patch::is_empty) {
                    leaf.take_patch(index);
                }
            });
        }
    }

    /// The old block of patched `lba` on media no longer counts.
    pub(crate) fn settle_base(&mut self, lba: u64) {
        self.change(lba / PAGE, |leaf, index| leaf.patch_mut(index).settle((lba % PAGE) as u16));
    }

    /// A patched page was read: returns the counted old blocks of its patched entries, which no longer count.
    pub(crate) fn settle_bases(
        &mut self,
        page: u64,
        read: &[MapEntry; PAGE_ENTRIES],
    ) -> Vec<Value> {
        let bases = self.bases(page, &read.map(MapEntry::pack));
        self.change(page, |leaf, index| leaf.patch_mut(index).settle_all());
        bases.into_iter().filter_map(|base| base.value).collect()
    }

    /// Whether a page is patched, and leads on media to blocks that count in place of patched entries.
    pub(crate) fn has_bases(&self, page: u64) -> bool {
        self.patch_of(page).is_some_and(|patch| patch.counted() > 0)
    }

    /// Unmaps the patched `blocks` of a page that is on media only.
    pub(crate) fn unmap_said(&mut self, page: u64, blocks: &Range<u64>) {
        let said: Vec<Said> = self.all_said(page).collect();
        let gone = said.into_iter().filter(|said| blocks.contains(&said.lba));
        gone.for_each(|said| self.patch(said.lba, Mapping::Unmapped, said.counted));
    }

    /// A page on media was read to unmap `blocks` without patched entries. Returns the old blocks that counted as valid
    /// until now: of the unmapped blocks, and of patched entries. The page is on media only, as before, or has no
    /// mapped block left.
    pub(crate) fn unmap_read(
        &mut self,
        page: u64,
        blocks: &Bits,
        read: &[MapEntry; PAGE_ENTRIES],
    ) -> Vec<Value> {
        let first = page * PAGE;
        let mapped = |index: &usize| !read[*index].is_unmapped();
        let gone = set_in(blocks).filter(mapped);
        let gone: Vec<usize> =
            gone.filter(|index| self.said(first + *index as u64).is_none()).collect();
        // Blocks beyond the end of the volume are not loaded, but counted as well until the volume became smaller.
        let bases = self.bases(page, &read.map(MapEntry::pack));
        let bases = bases.into_iter().filter_map(|base| base.value);
        let values = gone.iter().filter_map(|index| Value::of_entry(read[*index].pack()));
        let known = bases.chain(values).collect();
        self.load(page, read);
        for index in gone {
            self.set(first + index as u64, Mapping::Unmapped);
        }
        if self.is_empty(page) {
            self.mark_dirty(page);
            self.release(page);
        } else {
            self.evict(page, Forget::default(), |_, _, _| false);
        }
        known
    }

    /// Unmaps `blocks` of a page that cannot be read, except patched blocks. Their old blocks on media go on counting.
    pub(crate) fn unmap_unread(&mut self, page: u64, blocks: &Bits) {
        for lba in set_in(blocks).map(|index| page * PAGE + index as u64) {
            if self.said(lba).is_none() {
                self.patch(lba, Mapping::Unmapped, true);
            }
        }
    }

    /// The counted old entries of patched blocks in `page`, whose entries on media are `read`.
    pub(super) fn bases(&self, page: u64, read: &[u64; PAGE_ENTRIES]) -> Vec<Base> {
        let counted = self.patch_of(page).into_iter().flat_map(Patch::iter);
        let counted = counted.filter(|patched| patched.counted);
        counted.map(|patched| self.base(page, patched, read)).collect()
    }

    fn base(&self, page: u64, patched: Patched, read: &[u64; PAGE_ENTRIES]) -> Base {
        let slot = match self.addresses.mapping(patched.entry) {
            Mapping::Staged(slot) => Some(slot),
            Mapping::Unmapped | Mapping::At(_) => None,
        };
        let index = usize::from(patched.index);
        Base { lba: page * PAGE + index as u64, value: Value::of_entry(read[index]), slot }
    }

    /// Applies the patch to `bytes`, a page as read from media. `old` gives the on-media block that a slot of the write
    /// cache replaces, if the block is known. Returns the bases that counted as valid until now. The page then differs
    /// from media only in blocks that wait in the write cache; entries for which `flies` holds are remembered until a
    /// flushed record has the page.
    pub(crate) fn merge(
        &mut self,
        page: u64,
        bytes: &mut PageBytes,
        old: impl Fn(u32) -> Option<Value>,
        flies: impl Fn(VolumeId, u64, Value) -> bool,
    ) -> Vec<Base> {
        let mut read = [UNMAPPED; PAGE_ENTRIES];
        for (entry, bytes) in read.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *entry = u64::from_le_bytes(*bytes);
        }
        let bases = self.bases(page, &read);
        for said in self.all_said(page) {
            let place = &mut bytes[8 * (said.lba % PAGE) as usize..][..8];
            let value = match said.mapping {
                Mapping::Unmapped => None,
                Mapping::At(value) => Some(value),
                Mapping::Staged(slot) => {
                    let old = old(slot);
                    // The replaced block is unknown, but the page already leads to the block.
                    if old.is_none() && said.counted {
                        mark!(PatchOverUnknown);
                        continue;
                    }
                    old
                }
            };
            place.copy_from_slice(&value.map_or(UNMAPPED, Value::entry).to_le_bytes());
        }
        let (addresses, volume) = (self.addresses, self.id);
        self.change(page, |leaf, index| {
            let patch = leaf.patch_mut(index);
            patch.merged(|entry, says| match addresses.mapping(says) {
                Mapping::Staged(_) => (true, false),
                Mapping::At(value) if value.is_nowhere() => (false, true),
                Mapping::At(value) => {
                    let flies = flies(volume, page * PAGE + u64::from(entry), value);
                    mark!(PatchFlies if flies);
                    (flies, true)
                }
                Mapping::Unmapped => (false, false),
            });
            if patch.is_empty() {
                leaf.take_patch(index);
            }
            leaf::clear(&mut leaf.dirty, index);
            leaf::set(&mut leaf.flying, index);
        });
        bases
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use thermocline_format::{Geometry, LogicalBlock, VolumeName};
    use thermocline_types::UnitId;

    use super::super::{Addresses, Tally};
    use super::*;

    /// What happens to a page of a map.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Set(u16, Option<u64>),
        Load,
        Evict,
        Write,
        Land,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let somewhere =
            prop_oneof![9 => (0_u32..1000).prop_map(entry), 1 => Just(Value::LOST.entry())];
        let entry = prop::option::weighted(0.8, somewhere);
        let step = prop_oneof![
            8 => (0_u16..PAGE_ENTRIES as u16, entry).prop_map(|(index, at)| Step::Set(index, at)),
            1 => Just(Step::Load),
            1 => Just(Step::Evict),
            1 => Just(Step::Write),
            1 => Just(Step::Land),
        ];
        prop::collection::vec(step, 1..120)
    }

    /// A page, as the map has it and as it is by a plain model.
    struct Page {
        geometry: Geometry,
        map: VolumeMap,
        on_media: [u64; PAGE_ENTRIES],
        right: [u64; PAGE_ENTRIES],
        /// What the page on media leads to in place of entries that changed while nobody knew it.
        counted: BTreeMap<u64, u64>,
    }

    impl Page {
        fn new() -> Page {
            let superblocks = [UnitId(0), UnitId(1)];
            let geometry = Geometry::new(LogicalBlock::B4096, 1 << 10, 1 << 10, superblocks);
            let geometry = geometry.expect("a geometry that works");
            let name = VolumeName::new("v").expect("a name that works");
            let addresses = Addresses::new(&geometry);
            let mut map = VolumeMap::new(VolumeId(1), name, PAGE, 0, addresses);
            let mut pages = [MapEntry::UNMAPPED; PAGE_ENTRIES];
            pages[0] = MapEntry::unpack(&geometry, entry(7)).expect("a block can be there");
            map.adopt(0, &pages);
            let on_media: [u64; PAGE_ENTRIES] =
                std::array::from_fn(
                    |index| if index % 3 == 0 { UNMAPPED } else { entry(index as u32) },
                );
            Page { geometry, map, on_media, right: on_media, counted: BTreeMap::new() }
        }

        fn set(&mut self, index: u16, entry: Option<u64>) {
            let (lba, new) = (u64::from(index), entry.unwrap_or(UNMAPPED));
            if !self.map.is_loaded(0) && self.map.said(lba).is_none() {
                self.counted.insert(lba, self.on_media[lba as usize]);
            }
            let mapping = Value::of_entry(new).map_or(Mapping::Unmapped, Mapping::At);
            self.map.set(lba, mapping);
            self.right[lba as usize] = new;
        }

        fn settle(&mut self, bases: &[Base]) -> Result<(), TestCaseError> {
            let said: BTreeMap<u64, u64> = bases
                .iter()
                .map(|base| (base.lba, base.value.map_or(UNMAPPED, Value::entry)))
                .collect();
            prop_assert_eq!(said.len(), bases.len(), "each is told once");
            prop_assert_eq!(&said, &self.counted);
            self.counted.clear();
            Ok(())
        }

        fn load(&mut self) -> Result<(), TestCaseError> {
            if self.map.is_loaded(0) {
                return Ok(());
            }
            let unpack = |&entry: &u64| match entry {
                lost if lost == MapEntry::LOST.pack() => Ok(MapEntry::LOST),
                _ => MapEntry::unpack(&self.geometry, entry),
            };
            let read: Result<Vec<_>, _> = self.on_media.iter().map(unpack).collect();
            let bases = self.map.load(0, &read.expect("blocks can be there"));
            self.settle(&bases)
        }

        fn evict(&mut self) {
            if self.map.is_idle(0) {
                self.map.evict(0, Forget::default(), none_flies);
            }
        }

        /// As a checkpoint does: as it is in memory, or as it was read and patched.
        fn write(&mut self) -> Result<(), TestCaseError> {
            let bytes = if self.map.is_loaded(0) {
                let (bytes, _) = self.map.page_bytes(0, |_| None);
                self.map.mark_written(0, false);
                bytes
            } else if self.map.is_patched(0) {
                let mut bytes: PageBytes = Box::new([0; thermocline_format::BLOCK_BYTES]);
                for (place, entry) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.on_media) {
                    *place = entry.to_le_bytes();
                }
                let bases = self.map.merge(0, &mut bytes, |_| None, none_flies);
                self.settle(&bases)?;
                bytes
            } else {
                return Ok(());
            };
            for (entry, bytes) in self.on_media.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *entry = u64::from_le_bytes(*bytes);
            }
            prop_assert_eq!(&self.on_media[..], &self.right[..], "it is written as it is");
            Ok(())
        }

        fn check(&self) -> Result<(), TestCaseError> {
            for (lba, right) in (0..).zip(self.right) {
                let said = self.map.look_up(lba);
                let right = Value::of_entry(right).map_or(Mapping::Unmapped, Mapping::At);
                let known = self.map.is_loaded(0) || self.map.said(lba).is_some();
                prop_assert_eq!(said, known.then_some(right), "block {}", lba);
                let patched = self.map.said(lba).is_some_and(|said| said.counted);
                prop_assert_eq!(patched, self.counted.contains_key(&lba), "block {}", lba);
            }
            let leaf = self.map.roots[0].leaf.as_ref().expect("its page was adopted");
            let mut tally = Tally::default();
            (0..PAGE_ENTRIES).for_each(|index| tally += leaf.tally(index));
            prop_assert_eq!(self.map.tally(), tally);
            Ok(())
        }
    }

    /// No block is in flight. The caller must not ask about lost blocks.
    fn none_flies(_: VolumeId, _: u64, value: Value) -> bool {
        assert!(!value.is_nowhere(), "it is nowhere");
        false
    }

    /// An entry that leads to a block.
    fn entry(at: u32) -> u64 {
        Value::new((2 << 10) + u64::from(at), at.wrapping_mul(0x9E37_79B9)).entry()
    }

    proptest! {
        #[test]
        fn a_page_says_what_was_set_wherever_it_is_and_each_base_is_told_once(steps in steps()) {
            let mut page = Page::new();
            for step in steps {
                match step {
                    Step::Set(index, at) => page.set(index, at),
                    Step::Load => page.load()?,
                    Step::Evict => page.evict(),
                    Step::Write => page.write()?,
                    Step::Land => page.map.land(&mut 0, &mut 64),
                }
                page.check()?;
            }
            page.load()?;
            page.check()?;
        }
    }
}
