//! The volumes of a pool and their maps.

mod stacks;

use thermocline_format::{VolumeId, VolumeMedia, VolumeName};

use crate::map::{Addresses, Forget, PAGE, Swept, Tally, Value, VolumeMap, Wanted};
use crate::stats::VolumeTraffic;

/// All volumes, each under a small index.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    slots: Vec<Option<VolumeMap>>,
    /// Identifiers on media and indices of volumes that were not deleted, by rising identifier. Volumes are few.
    layers: Vec<(VolumeId, u16)>,
    /// Identifiers for users and indices of volumes and snapshots, by rising identifier.
    index: Vec<(VolumeId, u16)>,
    /// No volume has had this identifier or a higher one.
    next: VolumeId,
    /// Mapped blocks, including staged blocks.
    mapped: u64,
    /// Volumes for which room is held.
    reserved: Vec<u16>,
    base: u64,
    /// How many pages of each kind there are, as of when each map was noted last.
    noted: Tally,
    roots: usize,
    /// The layers of snapshots that were deleted.
    nameless: Vec<u16>,
    /// Snapshots that were deleted since the opening.
    snapshots_deleted: u64,
    /// The most layers that are below another.
    depth: u64,
    /// What `depth` was before layers went that an opening would find again, in the same two parts as `cut`.
    deep: (u64, u64),
    /// Bytes of memory that all maps take at most beside their pages.
    fixed: u64,
    /// Pages cut off at the end of their volume that an opening would still need in their old state. First the pages
    /// that a checkpoint in progress makes needless, then later pages.
    cut: (u64, u64),
    /// Memory in bytes of roots and leaves that deleted or shrunk volumes took and that an opening would need again, in
    /// the same two parts.
    gone: (u64, u64),
}

/// A volume, as reported to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its identifier.
    pub id: VolumeId,
    /// Its name; of a snapshot, `VOLUME@NAME`.
    pub name: VolumeName,
    /// Its size in blocks of 4096 bytes.
    pub blocks: u64,
    /// The media for the blocks of the volume.
    pub media: VolumeMedia,
    /// The volume of which it is a snapshot, if it is one.
    pub snapshot_of: Option<VolumeId>,
    /// The snapshot of which it is a clone, if it is one and the snapshot was not deleted.
    pub clone_of: Option<VolumeId>,
    /// Blocks that are mapped; of a volume with snapshots, what was written or trimmed since the newest. An estimate
    /// until each page of the map was read once.
    pub mapped: u64,
    /// Blocks that the pool keeps writable for the volume, including mapped blocks.
    pub reserve: u64,
    /// Data written for the volume.
    pub traffic: VolumeTraffic,
}

/// Room that reservations hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// Blocks of users.
    pub(crate) blocks: u64,
    /// Pages of maps that may come into use with these blocks.
    pub(crate) pages: u64,
}

/// A place among the pages of all volumes, where a walk goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageCursor {
    volume: u16,
    page: u64,
}

impl PageCursor {
    /// Page `page` of the volume at `volume`.
    #[inline]
    pub(crate) fn at(volume: u16, page: u64) -> PageCursor {
        PageCursor { volume, page }
    }

    /// Behind every page.
    pub(crate) const END: PageCursor = PageCursor { volume: u16::MAX, page: u64::MAX };
}

/// Result of a piece of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// This page of this volume.
    Found(u16, u64),
    /// Nothing, within its budget.
    Pause,
    /// Nothing: the walk is over.
    End,
}

impl Volumes {
    /// The next wanted page from `cursor` on. Looks at `budget` words of 64 pages at most, and subtracts the words
    /// looked at from the budget.
    pub(crate) fn next_page(
        &self,
        cursor: &mut PageCursor,
        wanted: Wanted,
        budget: &mut u32,
    ) -> Walk {
        while usize::from(cursor.volume) < self.slots.len() {
            if *budget == 0 {
                return Walk::Pause;
            }
            *budget -= 1;
            if let Some(map) = &self.slots[usize::from(cursor.volume)] {
                if let Some(page) = map.next_page(&mut cursor.page, wanted, budget) {
                    return Walk::Found(cursor.volume, page);
                }
                if cursor.page < map.pages() {
                    return Walk::Pause;
                }
            }
            *cursor = PageCursor { volume: cursor.volume + 1, page: 0 };
        }
        Walk::End
    }

    /// The share of all pages, on media or not, that stand before `cursor`.
    pub(crate) fn share_before(&self, cursor: PageCursor) -> f64 {
        let pages = |slot: &Option<VolumeMap>| slot.as_ref().map_or(0, VolumeMap::pages);
        let all: u64 = self.slots.iter().map(pages).sum();
        let done: u64 = self.slots.iter().take(cursor.volume.into()).map(pages).sum();
        (done + cursor.page) as f64 / all.max(1) as f64
    }

    /// The identifier of the next volume.
    pub(crate) fn next_id(&self) -> VolumeId {
        self.next
    }

    /// No volume has had `next` or a higher identifier.
    pub(crate) fn set_next_id(&mut self, next: VolumeId) {
        self.next = next;
    }

    /// Mapped blocks, including staged blocks.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// `blocks` more are mapped.
    pub(crate) fn map_more(&mut self, blocks: u64) {
        self.mapped += blocks;
    }

    /// `blocks` less are mapped. Where the unit table was wrong, fewer may have been counted.
    pub(crate) fn map_less(&mut self, blocks: u64) {
        self.mapped = self.mapped.saturating_sub(blocks);
    }

    /// Whether room is held for any volume.
    #[inline]
    pub(crate) fn has_reserves(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// Keeps `blocks` blocks writable for the volume at `index`.
    pub(crate) fn set_reserve(&mut self, index: u16, blocks: u64) {
        self.map_mut(index).reserve = blocks;
        self.reserved.retain(|other| *other != index);
        if blocks > 0 {
            self.reserved.push(index);
        }
    }

    /// Mapped blocks of a volume. All uncounted pages are assumed to be equally full.
    pub(crate) fn in_use(&self, index: u16) -> u64 {
        let Tally { blocks, uncounted, .. } = self.map(index).tally();
        if uncounted == 0 {
            return blocks;
        }
        let all = self.tally();
        let rest = u128::from(self.mapped.saturating_sub(all.blocks));
        blocks + (rest * u128::from(uncounted) / u128::from(all.uncounted.max(1))) as u64
    }

    /// Blocks that a volume may still map by its reservation.
    pub(crate) fn shortfall(&self, index: u16) -> u64 {
        let map = self.map(index);
        let reserve = map.reserve.min(map.blocks);
        if reserve == 0 { 0 } else { reserve.saturating_sub(self.in_use(index)) }
    }

    /// Room that reservations hold, except the reservation of the volume at `except`.
    #[inline]
    pub(crate) fn held_beside(&self, except: Option<u16>) -> Held {
        let mut held = Held::default();
        for &index in self.reserved.iter().filter(|index| Some(**index) != except) {
            let (short, map) = (self.shortfall(index), self.map(index));
            let Tally { used, absent, .. } = map.tally();
            held.blocks += short;
            held.pages += short.min(map.pages().saturating_sub(used + absent));
        }
        held
    }

    /// The root of the page at `cursor`, which goes on to the next; `None` behind the last.
    pub(crate) fn next_root(&self, cursor: &mut PageCursor) -> Option<(u16, usize)> {
        loop {
            let root = (cursor.page / PAGE) as usize;
            let slot = self.slots.get(usize::from(cursor.volume))?;
            if slot.as_ref().is_some_and(|map| root < map.roots()) {
                cursor.page += PAGE;
                return Some((cursor.volume, root));
            }
            *cursor = PageCursor { volume: cursor.volume + 1, page: 0 };
        }
    }

    pub(crate) fn map(&self, index: u16) -> &VolumeMap {
        self.slots[usize::from(index)].as_ref().expect("indices are of volumes that are there")
    }

    pub(crate) fn map_mut(&mut self, index: u16) -> &mut VolumeMap {
        self.slots[usize::from(index)].as_mut().expect("indices are of volumes that are there")
    }

    /// Whether the volume at `index` is `id`; another may have come in its place.
    #[inline]
    pub(crate) fn is(&self, index: u16, id: VolumeId) -> bool {
        self.slots[usize::from(index)].as_ref().is_some_and(|map| map.id == id)
    }

    /// The index of the volume or snapshot with this identifier for users.
    pub(crate) fn index(&self, user: VolumeId) -> Option<u16> {
        find(&self.index, user)
    }

    /// The indices of volumes and snapshots, by rising identifier for users.
    pub(crate) fn users(&self) -> impl Iterator<Item = u16> + '_ {
        self.index.iter().map(|(_, index)| *index)
    }

    /// The index of a layer that was not deleted, by its identifier on media.
    pub(crate) fn layer(&self, id: VolumeId) -> Option<u16> {
        find(&self.layers, id)
    }

    /// The index of a layer, even a deleted one, by its identifier on media.
    pub(crate) fn slot(&self, id: VolumeId) -> Option<u16> {
        let mut indices = self.indices();
        self.layer(id).or_else(|| indices.find(|index| self.map(*index).id == id))
    }

    /// Every index in use, including volumes that are being deleted.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u16> + use<> {
        let used: Vec<u16> = (0..self.slots.len() as u16)
            .filter(|&index| self.slots[usize::from(index)].is_some())
            .collect();
        used.into_iter()
    }

    /// Volumes that were not deleted, by rising identifier.
    pub(crate) fn alive(&self) -> Vec<&VolumeMap> {
        let mut maps = self.all();
        maps.retain(|map| !map.deleted);
        maps
    }

    /// Volumes, by rising identifier, including deleted volumes with blocks still mapped.
    pub(crate) fn all(&self) -> Vec<&VolumeMap> {
        let mut maps: Vec<&VolumeMap> = self.slots.iter().flatten().collect();
        maps.sort_unstable_by_key(|map| map.id.0);
        maps
    }

    /// Adds a volume without mapped blocks.
    pub(crate) fn add(
        &mut self,
        id: VolumeId,
        name: VolumeName,
        blocks: u64,
        addresses: Addresses,
    ) -> u16 {
        let map = VolumeMap::new(id, name, blocks, self.base, addresses);
        self.base += blocks;
        self.roots += map.roots();
        self.fixed += VolumeMap::memory_for(blocks);
        self.next = VolumeId(self.next.0.max(id.0 + 1));
        let free = self.slots.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(map);
        insert(&mut self.layers, id, index as u16);
        insert(&mut self.index, id, index as u16);
        index as u16
    }

    /// Whether blocks of a deleted volume still take room.
    pub(crate) fn are_going(&self) -> bool {
        self.indices().any(|index| self.map(index).deleted)
    }

    /// Lets no new request find the layer, which was deleted.
    pub(crate) fn hide(&mut self, index: u16) {
        let map = self.map_mut(index);
        map.deleted = true;
        map.layer.below = None;
        self.set_reserve(index, 0);
        self.layers.retain(|(_, other)| *other != index);
        self.sort_users();
    }

    /// Forgets a hidden volume without mapped blocks.
    pub(crate) fn forget(&mut self, index: u16) {
        self.noted -= self.map(index).noted();
        self.roots -= self.map(index).roots();
        let bytes = VolumeMap::memory_for(self.map(index).blocks);
        self.fixed -= bytes;
        self.gone.1 += bytes;
        self.slots[usize::from(index)] = None;
    }

    /// The index by identifiers for users is made anew, and the depth of stacks counted.
    fn sort_users(&mut self) {
        let named = |map: &VolumeMap| !map.deleted && !map.layer.nameless;
        let of = |index: u16| Some((self.map(index).user, index));
        let indices = self.indices().filter(|index| named(self.map(*index)));
        self.index = indices.filter_map(of).collect();
        self.index.sort_unstable();
        let depths = self.index.iter().map(|(_, index)| self.below(*index).count() as u64);
        let depth = depths.max().unwrap_or(0);
        self.deep.1 = self.deep.1.max(self.depth);
        self.depth = depth;
        let nameless = |map: &VolumeMap| map.layer.nameless && !map.deleted;
        self.nameless = self.indices().filter(|index| nameless(self.map(*index))).collect();
    }

    /// The most layers that are below another.
    pub(crate) fn depth(&self) -> u64 {
        self.depth
    }

    /// The most layers that are below another when the pool is opened after a crash now.
    pub(crate) fn depth_after_crash(&self) -> u64 {
        self.depth.max(self.deep.0).max(self.deep.1)
    }

    /// Resizes a volume. Blocks beyond the new size must be unmapped already.
    pub(crate) fn resize(&mut self, index: u16, blocks: u64) {
        self.roots -= self.map(index).roots();
        let (old, new) =
            (VolumeMap::memory_for(self.map(index).blocks), VolumeMap::memory_for(blocks));
        self.fixed = self.fixed - old + new;
        self.gone.1 += old.saturating_sub(new);
        let map = self.map_mut(index);
        map.layer.least = map.layer.least.min(blocks);
        map.resize(blocks);
        self.roots += self.map(index).roots();
        self.note_pages(index);
    }

    /// Pages of a map may have come into use, or gone out of it.
    #[inline]
    pub(crate) fn note_pages(&mut self, index: u16) {
        let map = self.map_mut(index);
        if let Some(before) = map.note() {
            let now = map.tally();
            self.noted -= before;
            self.noted += now;
        }
    }

    /// Pages of all maps in which anything is mapped, as of when each was noted last.
    pub(crate) fn pages_in_use(&self) -> u64 {
        self.noted.used + self.noted.absent
    }

    /// A lower bound of the pages in use that were never written.
    pub(crate) fn pages_unwritten(&self) -> u64 {
        self.pages_in_use().saturating_sub(self.noted.placed)
    }

    /// Pages that differ from media, as of when each map was noted last, and pages cut off since the newest checkpoint
    /// began.
    #[inline]
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.noted.dirty + self.cut.1
    }

    /// Pages that a checkpoint would write now, as of when each map was noted last.
    #[inline]
    pub(crate) fn pages_differing(&self) -> u64 {
        self.noted.differing
    }

    /// Bytes that patches take, as of when each map was noted last.
    #[inline]
    pub(crate) fn patch_bytes(&self) -> u64 {
        self.noted.patch_bytes
    }

    /// Pages went with the end of their volume that differed from those on media.
    pub(crate) fn cut(&mut self, pages: u64) {
        self.cut.1 += pages;
    }

    /// A checkpoint begins: its record will make pages cut off before the checkpoint needless.
    pub(crate) fn begin_checkpoint(&mut self) {
        self.cut = (self.cut.0 + self.cut.1, 0);
        self.gone = (self.gone.0 + self.gone.1, 0);
        self.deep = (self.deep.0.max(self.deep.1), 0);
    }

    /// The record of that checkpoint is flushed.
    pub(crate) fn cut_landed(&mut self) {
        self.cut.0 = 0;
        self.gone.0 = 0;
        self.deep.0 = 0;
    }

    /// How many pages of each kind there are now.
    pub(crate) fn tally(&self) -> Tally {
        let (dirty, emptied) = (self.cut.1, self.cut.0 + self.cut.1);
        let mut all = Tally { dirty, emptied, ..Tally::default() };
        self.slots.iter().flatten().for_each(|map| all += map.tally());
        all
    }

    /// Bytes of memory that all maps take at most beside their pages when a pool is opened after a crash now.
    pub(crate) fn fixed_after_crash(&self) -> u64 {
        self.fixed + self.gone.0 + self.gone.1
    }

    /// Bytes of memory that all maps take at most beside their pages.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.fixed
    }

    /// Whether a page is in memory and could be read again as it is; of a volume that may be gone.
    pub(crate) fn is_idle(&self, volume: u16, page: u64) -> bool {
        let map = self.slots.get(usize::from(volume)).and_then(Option::as_ref);
        map.is_some_and(|map| map.is_idle(page))
    }

    /// Moves the hand on until a page gave its memory back, around all maps at most. Returns whether one did. Looks at
    /// 64 pages for each word of the budget.
    pub(crate) fn sweep(
        &mut self,
        hand: &mut PageCursor,
        budget: &mut u32,
        forget: Forget,
        keep: impl Fn((u16, u64)) -> bool,
        flies: impl Fn(VolumeId, u64, Value) -> bool,
    ) -> bool {
        while *budget > 0 {
            let index = hand.volume;
            if usize::from(index) >= self.slots.len() {
                *hand = PageCursor::default();
                *budget -= 1;
                continue;
            }
            if let Some(map) = &mut self.slots[usize::from(index)] {
                let keep = |page| keep((index, page));
                match map.sweep(&mut hand.page, budget, forget, keep, &flies) {
                    Swept::Evicted => {
                        self.note_pages(index);
                        return true;
                    }
                    Swept::Passed => {}
                    Swept::Pause => return false,
                }
            }
            *budget = budget.saturating_sub(1);
            *hand = PageCursor { volume: index + 1, page: 0 };
        }
        false
    }

    /// Every page that was written is as in a flushed record. Returns whether all maps were gone through.
    pub(crate) fn land(&mut self, cursor: &mut PageCursor, budget: &mut u32) -> bool {
        while usize::from(cursor.volume) < self.slots.len() {
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            if let Some(map) = &mut self.slots[usize::from(cursor.volume)] {
                map.land(&mut cursor.page, budget);
                if cursor.page < map.pages() {
                    return false;
                }
            }
            *cursor = PageCursor { volume: cursor.volume + 1, page: 0 };
        }
        true
    }

    /// Roots of all maps.
    pub(crate) fn total_roots(&self) -> usize {
        self.roots
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.slots.iter().flatten().map(VolumeMap::memory_bytes).sum()
    }
}

/// The index beside `id` in a list by rising identifier.
fn find(list: &[(VolumeId, u16)], id: VolumeId) -> Option<u16> {
    let found = list.binary_search_by_key(&id, |(other, _)| *other).ok()?;
    Some(list[found].1)
}

fn insert(list: &mut Vec<(VolumeId, u16)>, id: VolumeId, index: u16) {
    let place = list.partition_point(|(other, _)| *other < id);
    list.insert(place, (id, index));
}
