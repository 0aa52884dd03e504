//! Blocks that the tail unmaps, of pages that are on media only.
//!
//! Whether such a page maps the blocks is unknown before the page is read. Until then each block takes a bit. File
//! systems trim all unused blocks repeatedly, and every touched page would take 4 KiB with its entries.

use std::collections::BTreeMap;
use std::fmt::Debug;

use thermocline_format::{Location, MapEntry, PAGE_ENTRIES, VolumeId};
use thermocline_types::Lba;

use crate::engine::Parts;
use crate::map::{Bits, Mapping, PAGE, Value, VolumeMap, Wanted};
use crate::marks::mark;
use crate::payload::Payload;

/// What the tail unmaps of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfPage {
    /// The blocks, except blocks that are mapped again.
    pub(super) blocks: Bits,
    /// Location of a page that the map no longer points at, since the volume became smaller.
    pub(super) cut: Option<MapEntry>,
}

/// Blocks that the tail unmaps, by slots of volumes and pages.
#[derive(Debug, Default)]
pub(super) struct Unmapped(BTreeMap<(u16, u64), OfPage>);

impl Unmapped {
    /// Blocks `from` to `until` of a page are not mapped any more.
    fn unmap(&mut self, volume: u16, page: u64, from: u64, until: u64) {
        let nothing = OfPage { blocks: Bits::default(), cut: None };
        let blocks = &mut self.0.entry((volume, page)).or_insert(nothing).blocks;
        for block in from % PAGE..from % PAGE + (until - from) {
            mark!(UnmappedTwice if blocks[block as usize / 64] >> (block % 64) & 1 == 1);
            blocks[block as usize / 64] |= 1 << (block % 64);
        }
    }

    /// A block is mapped from now on.
    #[inline]
    fn map_again(&mut self, volume: u16, lba: u64) {
        if self.0.is_empty() {
            return;
        }
        let Some(of_page) = self.0.get_mut(&(volume, lba / PAGE)) else { return };
        if of_page.cut.is_none() {
            mark!(UnmappedAndMapped);
            of_page.blocks[(lba % PAGE) as usize / 64] &= !(1 << (lba % 64));
        }
    }

    /// Unmaps a page that is only on media. All its blocks become invalid, except blocks that the patch already marks
    /// as discounted.
    fn cut(&mut self, volume: u16, page: u64, map: &VolumeMap) {
        mark!(CutByTail);
        let (mut blocks, at) = ([u64::MAX; PAGE_ENTRIES / 64], map.page_at(page));
        for said in map.all_said(page).filter(|said| !said.counted) {
            blocks[(said.lba % PAGE) as usize / 64] &= !(1 << (said.lba % 64));
        }
        self.0.insert((volume, page), OfPage { blocks, cut: Some(at) });
    }

    /// The next page of which blocks were unmapped.
    pub(super) fn pop(&mut self) -> Option<((u16, u64), OfPage)> {
        self.0.pop_first()
    }

    /// Bytes of memory held, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.0.len() * size_of::<((u16, u64), OfPage)>()) as u64 * 3 / 2
    }
}

impl Unmapped {
    pub(super) fn replay_unmap<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        volume: u16,
        from: u64,
        until: u64,
    ) {
        for page in from / PAGE..until.div_ceil(PAGE) {
            let within = from.max(page * PAGE)..until.min((page + 1) * PAGE);
            let map = p.volumes.map_mut(volume);
            if !map.is_loaded(page) {
                // What the patch says is known, and of the rest, whether there is anything.
                map.unmap_said(page, &within);
                self.unmap(volume, page, within.start, within.end);
                continue;
            }
            if map.is_empty(page) {
                continue;
            }
            for lba in within {
                if map.get(lba) != Mapping::Unmapped {
                    map.set(lba, Mapping::Unmapped);
                }
            }
            map.release(page);
        }
    }

    pub(super) fn replay_hole<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        volume: u16,
        from: u64,
        until: u64,
    ) {
        // The layers below may be gone by now.
        if p.volumes.map(volume).layer.below.is_none() {
            return self.replay_unmap(p, volume, from, until);
        }
        for lba in from..until {
            p.volumes.map_mut(volume).set(lba, Mapping::At(Value::HOLE));
            self.map_again(volume, lba);
        }
    }

    pub(super) fn replay_shrink<P: Payload>(&mut self, p: &mut Parts<P>, volume: u16, blocks: u64) {
        let (mut page, mut budget) = (blocks / PAGE, u32::MAX);
        let mut map = p.volumes.map(volume);
        while let Some(found) = map.next_page(&mut page, Wanted::Held, &mut budget) {
            let end = ((found + 1) * PAGE).min(map.blocks);
            if found * PAGE >= blocks && !map.is_loaded(found) {
                self.cut(volume, found, map);
            } else {
                self.replay_unmap(p, volume, blocks.max(found * PAGE), end);
            }
            map = p.volumes.map(volume);
        }
        mark!(ShrinkReplayed);
        p.drop_pages_beyond(volume, blocks);
    }

    /// A block is mapped, as the tail says.
    pub(super) fn replay_block<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        volume: VolumeId,
        lba: Lba,
        crc: u32,
        at: Location,
    ) {
        mark!(VolumeGone if volume.is_user() && p.volumes.slot(volume).is_none());
        let Some(volume) = p.volumes.slot(volume) else { return };
        let beyond = lba.0 >= p.volumes.map(volume).blocks;
        mark!(BeyondEnd if beyond);
        if !beyond {
            let value = Value::new(p.config.geometry.address(at), crc);
            p.volumes.map_mut(volume).set(lba.0, Mapping::At(value));
            self.map_again(volume, lba.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::parts;

    /// The blocks of the next page.
    fn next(unmapped: &mut Unmapped) -> Option<((u16, u64), Vec<u64>)> {
        let (page, of_page) = unmapped.pop()?;
        let is_set = |&block: &u64| of_page.blocks[block as usize / 64] >> (block % 64) & 1 == 1;
        Some((page, (0..PAGE).filter(is_set).collect()))
    }

    #[test]
    fn blocks_are_unmapped_until_they_are_mapped_again() {
        let mut unmapped = Unmapped::default();
        unmapped.unmap(0, 1, PAGE + 62, PAGE + 66);
        unmapped.unmap(0, 1, PAGE + 65, PAGE + 67);
        unmapped.unmap(1, 0, 3, 4);
        let size = size_of::<((u16, u64), OfPage)>() as u64;
        assert_eq!(unmapped.memory_bytes(), 2 * size * 3 / 2);
        for (volume, lba) in [(0, PAGE + 64), (0, 65), (1, 3), (1, PAGE + 65)] {
            unmapped.map_again(volume, lba);
        }
        assert_eq!(next(&mut unmapped), Some(((0, 1), vec![62, 63, 65, 66])));
        assert_eq!(next(&mut unmapped), Some(((1, 0), vec![])));
        assert!(next(&mut unmapped).is_none() && unmapped.memory_bytes() == 0);
    }

    #[test]
    fn of_pages_in_memory_blocks_are_unmapped_at_once_and_of_others_later() {
        let (mut p, mut unmapped) = (parts(), Unmapped::default());
        let at = Location::new(9, 1);
        let map = |p: &mut Parts<()>, unmapped: &mut Unmapped, lba| {
            unmapped.replay_block(p, VolumeId(1), Lba(lba), 5, at);
        };
        [0, 1, PAGE + 1, 1024].into_iter().for_each(|lba| map(&mut p, &mut unmapped, lba));
        let mapped = Mapping::At(Value::new(p.config.geometry.address(at), 5));
        let is_mapped =
            |p: &Parts<()>, lba| p.volumes.map(0).look_up(lba).expect("it is loaded") == mapped;
        assert!(is_mapped(&p, 0) && is_mapped(&p, 1) && is_mapped(&p, PAGE + 1));
        unmapped.replay_unmap(&mut p, 0, 1, PAGE + 1);
        assert!(is_mapped(&p, 0) && !is_mapped(&p, 1) && is_mapped(&p, PAGE + 1));
        assert!(unmapped.0.is_empty());
        unmapped.replay_shrink(&mut p, 0, PAGE + 1);
        assert!(is_mapped(&p, 0) && !is_mapped(&p, PAGE + 1));
    }

    #[test]
    fn a_page_on_media_is_cut_off_with_all_its_blocks() {
        let (mut p, mut unmapped) = (parts(), Unmapped::default());
        let value = Value::new(p.config.geometry.address(Location::new(9, 1)), 5);
        let page = MapEntry::unpack(&p.config.geometry, value.entry()).expect("it is in the pool");
        let mut pages = [MapEntry::UNMAPPED; PAGE_ENTRIES];
        pages[1] = page;
        p.volumes.map_mut(0).adopt(0, &pages);
        unmapped.replay_unmap(&mut p, 0, PAGE + 3, PAGE + 5);
        assert_eq!(unmapped.0[&(0, 1)].blocks[0], 0b11000);
        unmapped.replay_shrink(&mut p, 0, PAGE);
        let cut = unmapped.0[&(0, 1)];
        assert_eq!((cut.cut, cut.blocks), (Some(page), [u64::MAX; PAGE_ENTRIES / 64]));
        unmapped.map_again(0, PAGE + 3);
        assert_eq!(unmapped.0[&(0, 1)].blocks, cut.blocks, "it is of a later life of the volume");
    }
}
