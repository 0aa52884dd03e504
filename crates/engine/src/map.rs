//! The map of a volume: the place of each block.
//!
//! Entries take 8 bytes, as on media: an address of 36 bits, and a tag of 28. A map is cut like its form on media, into
//! pages of 512 entries and roots of 512 pages; each page is dirty or not, and loaded or not. A page has memory from
//! its first mapped block on: volumes are thin in memory too. A page that could be read again unchanged may be evicted
//! (`memory.rs`), and is not loaded then.
//!
//! Invariants:
//! * Entries of a page that is not loaded are never read; changed entries make a patch (`patches.rs`).
//! * A page without a copy on media that never was loaded counts as loaded: all its entries are unmapped.
//! * A page on media may be evicted unless garbage collection needs the page: its changes stay, as a patch.

mod leaf;
mod paging;
mod patch;
mod patches;
mod roots;
mod value;

use prefetch_index::prefetch_index;
use thermocline_format::{
    BLOCK_BYTES, BLOCKS_PER_ROOT, Geometry, Location, MapEntry, PAGE_ENTRIES, PerUnit, TAG_BITS,
    VolumeId, VolumeMedia, VolumeName,
};

use crate::device::PageBytes;
use crate::stats::VolumeTraffic;
use crate::tier::Stream;

use leaf::Leaf;
pub(crate) use leaf::Tally;
pub(crate) use paging::{Forget, Presence, Swept};
pub(crate) use patches::{Base, Said};
pub(crate) use value::Value;

/// Blocks that a page covers.
pub(crate) const PAGE: u64 = PAGE_ENTRIES as u64;

/// The meaning of an entry in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Nothing.
    Unmapped,
    /// In memory, in this slot of the write cache.
    Staged(u32),
    /// On media, or on the way to media.
    At(Value),
}

impl Mapping {
    /// Where the block is on media, if it is there.
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Mapping::At(value) => Some(value).filter(|value| !value.is_nowhere()),
            Mapping::Unmapped | Mapping::Staged(_) => None,
        }
    }
}

/// A page in memory.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Entries as on media, except entries of blocks that wait in the write cache.
    entries: [u64; PAGE_ENTRIES],
    /// Which of them differ from the page as it was written last, a bit for each.
    changed: [u64; PAGE_ENTRIES / 64],
    /// How many.
    changes: u16,
}

/// Bytes of memory that a page takes.
pub(crate) const FRAME_BYTES: u64 = size_of::<Frame>() as u64;

/// Changes of a page in memory from which on it takes less than as a patch. Chosen, not measured.
const MANY_CHANGES: u16 = 256;

impl Frame {
    fn of(entries: [u64; PAGE_ENTRIES]) -> Box<Frame> {
        Box::new(Frame { entries, changed: [0; PAGE_ENTRIES / 64], changes: 0 })
    }

    /// The frame of a page without mapped blocks, whatever media hold.
    fn emptied() -> Box<Frame> {
        let mut frame = Frame::of([UNMAPPED; PAGE_ENTRIES]);
        (frame.changed, frame.changes) = ([u64::MAX; PAGE_ENTRIES / 64], PAGE_ENTRIES as u16);
        frame
    }

    /// Changes an entry. Returns the old entry, and whether the number of changed entries grew.
    #[inline]
    fn set(&mut self, index: usize, entry: u64) -> (u64, bool) {
        let more = self.note_change(index);
        (std::mem::replace(&mut self.entries[index], entry), more)
    }

    /// Entry `index` differs from the page as it was written last. Returns whether it did not before.
    #[inline]
    fn note_change(&mut self, index: usize) -> bool {
        let (word, bit) = (&mut self.changed[index / 64], 1 << (index % 64));
        let more = *word & bit == 0;
        *word |= bit;
        self.changes += u16::from(more);
        more
    }

    /// The page is written as it is, but for entries from `staged` on, if there are any.
    fn written(&mut self, staged: Option<u64>) {
        (self.changed, self.changes) = ([0; PAGE_ENTRIES / 64], 0);
        let Some(staged) = staged else { return };
        for index in 0..PAGE_ENTRIES {
            if self.entries[index] >= staged && self.entries[index] != UNMAPPED {
                self.note_change(index);
            }
        }
    }

    /// The entries that differ.
    fn changes(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let differs = |index: &usize| self.changed[index / 64] >> (index % 64) & 1 == 1;
        (0..PAGE_ENTRIES).filter(differs).map(|index| (index as u16, self.entries[index]))
    }
}

/// A bit for each block of a page.
pub(crate) type Bits = [u64; PAGE_ENTRIES / 64];

/// The entry of a block that is not mapped.
const UNMAPPED: u64 = MapEntry::UNMAPPED.pack();

/// The meaning of in-memory addresses in a pool: addresses beyond all units are slots of the write cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// Entries from here on are slots of the write cache.
    staged: u64,
    per_unit: PerUnit,
}

impl Addresses {
    /// Whether there are addresses enough for a pool of this geometry with so many slots in its write cache.
    pub(crate) fn fits(geometry: &Geometry, slots: u32) -> bool {
        let blocks = u64::from(geometry.units()) * u64::from(geometry.blocks_per_unit());
        blocks + u64::from(slots) < 1 << (64 - TAG_BITS)
    }

    /// For a pool of this geometry, which has addresses enough.
    pub(crate) fn new(geometry: &Geometry) -> Addresses {
        let blocks = u64::from(geometry.units()) * u64::from(geometry.blocks_per_unit());
        Addresses { staged: blocks << TAG_BITS, per_unit: geometry.per_unit() }
    }

    /// Unit and logical block of an address.
    #[inline]
    pub(crate) fn location(self, address: u64) -> Location {
        self.per_unit.location(address)
    }

    #[inline]
    fn mapping(self, entry: u64) -> Mapping {
        match Value::of_entry(entry) {
            None => Mapping::Unmapped,
            Some(value) if entry < self.staged || value.is_nowhere() => Mapping::At(value),
            Some(_) => Mapping::Staged(((entry - self.staged) >> TAG_BITS) as u32),
        }
    }

    #[inline]
    fn entry(self, mapping: Mapping) -> u64 {
        match mapping {
            Mapping::Unmapped => UNMAPPED,
            Mapping::Staged(slot) => self.staged + (u64::from(slot) << TAG_BITS),
            Mapping::At(value) => value.entry(),
        }
    }
}

/// The pages that a walk through a map looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Pages that differ from their copies on media.
    Dirty,
    /// Pages that are on media only.
    Unloaded,
    /// Pages of which something may be mapped, or was.
    Held,
}

/// 262,144 blocks of a volume, or the rest of the volume.
#[derive(Debug)]
struct Root {
    /// The root page on media.
    at: MapEntry,
    /// Whether the pages differ from those in the root page on media.
    changed: bool,
    /// `None` until a block of the root is mapped.
    leaf: Option<Box<Leaf>>,
}

const NOTHING: Root = Root { at: MapEntry::UNMAPPED, changed: false, leaf: None };

/// Which of 64 pages of a leaf are wanted, a bit for each.
fn wanted_of(leaf: &Leaf, wanted: Wanted, index: usize) -> u64 {
    match wanted {
        Wanted::Dirty => leaf.dirty[index],
        Wanted::Unloaded => !leaf.loaded[index],
        Wanted::Held => (0..64).fold(leaf.resident[index] | leaf.emptied(index), |word, page| {
            word | u64::from(!leaf.at[index * 64 + page].is_unmapped()) << page
        }),
    }
}

impl Root {
    /// Where the page with this number within the root is on media.
    fn page_at(&self, index: usize) -> MapEntry {
        self.leaf.as_ref().map_or(MapEntry::UNMAPPED, |leaf| leaf.at[index])
    }

    /// Where the pages are on media, as in a root page.
    fn pages(&self) -> Box<[MapEntry; PAGE_ENTRIES]> {
        let unmapped = || Box::new([MapEntry::UNMAPPED; PAGE_ENTRIES]);
        self.leaf.as_ref().map_or_else(unmapped, |leaf| Box::new(leaf.at))
    }

    /// The leaf of the root. Makes and counts a leaf if the root has no leaf yet.
    fn leaf(&mut self, leaves: &mut u64) -> &mut Leaf {
        *leaves += u64::from(self.leaf.is_none());
        self.leaf.get_or_insert_with(Leaf::new)
    }
}

/// The place of a map in a stack of layers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LayerState {
    /// The layer below: blocks that the map does not have are blocks of that layer, those from `least` on apart.
    pub(crate) below: Option<u16>,
    /// The smallest size that the volume ever had.
    pub(crate) least: u64,
    /// Whether hosts write to another layer.
    pub(crate) frozen: bool,
    /// Whether it was a snapshot that was deleted.
    pub(crate) nameless: bool,
    /// Whether the layers below belong to another volume, of which this one is a clone.
    pub(crate) clone: bool,
    /// What [`crate::stats::Stats::covers`] was when a walk through the covered blocks of a nameless layer began that
    /// is over; `None` before the first.
    pub(crate) walked: Option<u64>,
}

/// A volume and its map; of a volume with snapshots, one layer of it.
#[derive(Debug)]
pub(crate) struct VolumeMap {
    /// The identifier on media.
    pub(crate) id: VolumeId,
    /// The identifier for users.
    pub(crate) user: VolumeId,
    /// Its place in a stack of layers.
    pub(crate) layer: LayerState,
    pub(crate) name: VolumeName,
    pub(crate) blocks: u64,
    /// Blocks that the host may use: less than `blocks` while the size changes.
    pub(crate) limit: u64,
    roots: Vec<Root>,
    /// Where the blocks of this volume begin among those of all volumes there ever were, for placement.
    pub(crate) base: u64,
    pub(crate) traffic: VolumeTraffic,
    /// Whether it was deleted, and blocks are still mapped.
    pub(crate) deleted: bool,
    /// The media for the blocks of the volume.
    pub(crate) media: VolumeMedia,
    /// Blocks that the pool keeps writable for the volume, including mapped blocks.
    pub(crate) reserve: u64,
    /// The last writes of the host, as a stream.
    pub(crate) stream: Stream,
    addresses: Addresses,
    /// Roots that have a leaf.
    leaves: u64,
    /// How many pages there are of each kind.
    tally: Tally,
    /// The tally when it was noted last, and whether the tally may have changed since.
    noted: Tally,
    changed: bool,
}

impl VolumeMap {
    /// A volume without mapped blocks.
    pub(crate) fn new(
        id: VolumeId,
        name: VolumeName,
        blocks: u64,
        base: u64,
        addresses: Addresses,
    ) -> VolumeMap {
        let (roots, traffic) = (Vec::new(), VolumeTraffic::default());
        let mut map = VolumeMap {
            id,
            user: id,
            layer: LayerState { least: blocks, ..LayerState::default() },
            name,
            blocks: 0,
            limit: blocks,
            roots,
            base,
            traffic,
            deleted: false,
            media: VolumeMedia::Auto,
            reserve: 0,
            stream: Stream::default(),
            addresses,
            leaves: 0,
            tally: Tally::default(),
            noted: Tally::default(),
            changed: false,
        };
        map.resize(blocks);
        map
    }

    /// Changes the size of the volume. Blocks beyond the new size must be unmapped already.
    pub(crate) fn resize(&mut self, blocks: u64) {
        let count = thermocline_format::Volume::roots_for(blocks);
        for leaf in self.roots.drain(count.min(self.roots.len())..).filter_map(|root| root.leaf) {
            self.leaves -= 1;
            (0..PAGE_ENTRIES).for_each(|index| self.tally -= leaf.tally(index));
            self.changed = true;
        }
        self.roots.shrink_to(count);
        self.roots.reserve_exact(count - self.roots.len());
        self.roots.resize_with(count, || NOTHING);
        self.blocks = blocks;
    }

    /// Most memory in bytes that the map of a volume takes beside its pages: roots and leaves.
    pub(crate) fn memory_for(blocks: u64) -> u64 {
        let roots = thermocline_format::Volume::roots_for(blocks) as u64;
        roots * (size_of::<Root>() + size_of::<Leaf>()) as u64
    }

    /// How many pages there are of each kind.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// The tally when it was noted last.
    pub(crate) fn noted(&self) -> Tally {
        self.noted
    }

    /// Notes the tally if the tally may have changed; returns the tally noted before.
    #[inline]
    pub(crate) fn note(&mut self) -> Option<Tally> {
        std::mem::take(&mut self.changed).then(|| std::mem::replace(&mut self.noted, self.tally))
    }

    /// The known mapping of `lba`; `None` if only the page on media has the mapping.
    #[inline]
    pub(crate) fn look_up(&self, lba: u64) -> Option<Mapping> {
        if self.is_loaded(lba / PAGE) { Some(self.get(lba)) } else { self.patched(lba) }
    }

    /// The mapping of `lba`, whose page is loaded.
    #[inline]
    pub(crate) fn get(&self, lba: u64) -> Mapping {
        debug_assert!(self.is_loaded(lba / PAGE), "nobody knows what is mapped there");
        let root = &self.roots[(lba / BLOCKS_PER_ROOT) as usize];
        let index = (lba % BLOCKS_PER_ROOT) as usize;
        match root.leaf.as_ref().and_then(|leaf| leaf.frames[index / PAGE_ENTRIES].as_ref()) {
            Some(frame) => self.addresses.mapping(frame.entries[index % PAGE_ENTRIES]),
            None => Mapping::Unmapped,
        }
    }

    /// The on-media bytes of a loaded page. `old` gives the on-media block that a slot of the write cache replaces.
    /// Also returns whether the page has slots.
    pub(crate) fn page_bytes(
        &self,
        page: u64,
        old: impl Fn(u32) -> Option<Value>,
    ) -> (PageBytes, bool) {
        let Some(frame) = self.frame(page) else { return (Box::new([0xFF; BLOCK_BYTES]), false) };
        let mut bytes: PageBytes = Box::new([0; BLOCK_BYTES]);
        let places = bytes.as_chunks_mut::<8>().0;
        for (place, entry) in places.iter_mut().zip(&frame.entries) {
            *place = entry.to_le_bytes();
        }
        // Entries of unmapped or lost blocks are beyond slots as well.
        let slots = self.addresses.staged..Value::LOST.entry();
        if !frame.entries.iter().any(|entry| slots.contains(entry)) {
            return (bytes, false);
        }
        for (place, &entry) in places.iter_mut().zip(&frame.entries) {
            if let Mapping::Staged(slot) = self.addresses.mapping(entry) {
                *place = old(slot).map_or(UNMAPPED, Value::entry).to_le_bytes();
            }
        }
        (bytes, true)
    }

    /// The entries of a loaded page in memory, if anything there was ever mapped.
    fn frame(&self, page: u64) -> Option<&Frame> {
        debug_assert!(self.is_loaded(page), "nobody knows what is mapped there");
        let (root, index) = split(page);
        self.roots[root].leaf.as_ref().and_then(|leaf| leaf.frames[index].as_deref())
    }

    /// Changes the entry of `lba` and marks its page as dirty. If the page is on media only, the old entry on media is
    /// unknown. The old block goes on counting unless the entry was patched before.
    #[inline]
    pub(crate) fn set(&mut self, lba: u64, mapping: Mapping) {
        let page = lba / PAGE;
        if !self.is_soiled(page) {
            if !self.is_loaded(page) {
                return self.patch(lba, mapping, true);
            }
            self.soil(page);
        }
        let new = self.addresses.entry(mapping);
        let (root, index) = split(page);
        let leaf = self.roots[root].leaf.as_deref_mut().expect("a page that is dirty has one");
        let frame = leaf.frames[index].as_mut().expect("the page has one now");
        let (old, more) = frame.set((lba % PAGE) as usize, new);
        if more && frame.changes == MANY_CHANGES {
            self.has_many_changes(page);
        }
        let leaf = self.roots[root].leaf.as_deref_mut().expect("it was just there");
        match (old != UNMAPPED, new != UNMAPPED) {
            (false, true) => {
                self.tally.used += u64::from(leaf.mapped[index] == 0);
                self.tally.blocks += 1;
                self.changed = true;
                leaf.mapped[index] += 1;
            }
            (true, false) => {
                leaf.mapped[index] -= 1;
                self.tally.blocks -= 1;
                self.tally.used -= u64::from(leaf.mapped[index] == 0);
                self.changed = true;
            }
            _ => {}
        }
    }

    /// Whether a page comes into use with its next entry.
    pub(crate) fn begins(&self, page: u64) -> bool {
        self.is_loaded(page) && self.is_empty(page)
    }

    /// Whether nothing in a loaded page is mapped.
    pub(crate) fn is_empty(&self, page: u64) -> bool {
        debug_assert!(self.is_loaded(page), "the page on media decides");
        let (root, index) = split(page);
        self.roots[root].leaf.as_ref().is_none_or(|leaf| leaf.mapped[index] == 0)
    }

    /// Brings the entry of `lba`, and whether it is changed, towards the cache.
    #[inline]
    pub(crate) fn prefetch(&self, lba: u64) {
        let root = &self.roots[(lba / BLOCKS_PER_ROOT) as usize];
        let index = (lba % BLOCKS_PER_ROOT) as usize;
        let frame = root.leaf.as_ref().and_then(|leaf| leaf.frames[index / PAGE_ENTRIES].as_ref());
        if let Some(frame) = frame {
            let index = index % PAGE_ENTRIES;
            prefetch_index(&frame.entries[..], index);
            prefetch_index(&frame.changed[..], index / 64);
        }
    }

    /// Pages of the map.
    pub(crate) fn pages(&self) -> u64 {
        self.blocks.div_ceil(PAGE)
    }

    #[inline]
    pub(crate) fn is_loaded(&self, page: u64) -> bool {
        let (root, index) = split(page);
        let leaf = self.roots[root].leaf.as_ref();
        leaf.is_none_or(|leaf| leaf.loaded[index / 64] >> (index % 64) & 1 == 1)
    }

    /// Whether nothing is mapped in a page, which no frame is needed to say.
    pub(crate) fn is_blank(&self, page: u64) -> bool {
        self.is_loaded(page) && self.frame(page).is_none()
    }

    /// Where page `page` is on media.
    pub(crate) fn page_at(&self, page: u64) -> MapEntry {
        let (root, index) = split(page);
        self.roots[root].page_at(index)
    }

    /// Says that page `page` is at `at` from now on; returns where it was.
    pub(crate) fn move_page(&mut self, page: u64, at: MapEntry) -> MapEntry {
        let (root, index) = split(page);
        let old = self.roots[root].page_at(index);
        if old != at {
            self.roots[root].changed = true;
            let leaf = self.roots[root].leaf(&mut self.leaves);
            leaf.at[index] = at;
            self.change(page, |leaf, index| leaf.note_place(index));
        }
        old
    }

    /// The first page at or behind `from` that is wanted, with `from` behind it; looks at `budget` words of 64 pages at
    /// most.
    pub(crate) fn next_page(
        &self,
        from: &mut u64,
        wanted: Wanted,
        budget: &mut u32,
    ) -> Option<u64> {
        while *from < self.pages() && *budget > 0 {
            *budget -= 1;
            let (root, index) = split(*from);
            let Some(leaf) = &self.roots[root].leaf else {
                *from = (root as u64 + 1) * PAGE;
                continue;
            };
            let word = wanted_of(leaf, wanted, index / 64) >> (index % 64);
            if word != 0 {
                let found = *from + u64::from(word.trailing_zeros());
                *from = found + 1;
                return (found < self.pages()).then_some(found);
            }
            *from += 64 - *from % 64;
        }
        None
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let roots = self.roots.capacity() * size_of::<Root>();
        let leaves = self.leaves * size_of::<Leaf>() as u64;
        roots as u64 + leaves + self.tally.frames * FRAME_BYTES + self.tally.patch_bytes
    }
}

fn split(page: u64) -> (usize, usize) {
    ((page / PAGE) as usize, (page % PAGE) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thermocline_format::{LogicalBlock, VolumeName};
    use thermocline_types::UnitId;

    fn geometry(per_unit: u32, units: u32) -> Geometry {
        Geometry::new(LogicalBlock::B4096, per_unit, units, [UnitId(0), UnitId(1)]).unwrap()
    }

    #[test]
    fn a_large_thin_volume_costs_what_is_touched_and_nothing_else_is_mapped() {
        let geometry = geometry(1 << 18, 1 << 13);
        let addresses = Addresses::new(&geometry);
        let name = VolumeName::new("thin").unwrap();
        let mut map = VolumeMap::new(VolumeId(1), name, 1 << 31, 0, addresses);
        let value = Value::new(77 << 18 | 5, 0x1234_5678);
        map.set((1 << 31) - 1, Mapping::At(value));
        assert_eq!(map.get((1 << 31) - 1), Mapping::At(value));
        assert_eq!(map.get((1 << 31) - 2), Mapping::Unmapped);
        let (mut from, mut budget) = (0, 1 << 14);
        assert_eq!(map.next_page(&mut from, Wanted::Dirty, &mut budget), Some((1 << 22) - 1));
        assert_eq!(
            map.memory_bytes(),
            8192 * size_of::<Root>() as u64 + size_of::<Leaf>() as u64 + FRAME_BYTES
        );
    }

    #[test]
    fn a_volume_that_shrinks_forgets_the_pages_that_were_in_use() {
        let addresses = Addresses::new(&geometry(1 << 18, 1 << 13));
        let name = VolumeName::new("shrinks").unwrap();
        let mut map = VolumeMap::new(VolumeId(1), name, 3 * BLOCKS_PER_ROOT, 0, addresses);
        let at = Mapping::At(Value::new(77 << 18, 1));
        for lba in [0, BLOCKS_PER_ROOT, BLOCKS_PER_ROOT + PAGE, 2 * BLOCKS_PER_ROOT] {
            map.set(lba, at);
        }
        // One that is emptied, and whose memory is given back, is in use no more.
        map.set(2 * BLOCKS_PER_ROOT, Mapping::Unmapped);
        map.release(2 * BLOCKS_PER_ROOT / PAGE);
        assert_eq!((map.tally().used, map.tally().frames), (3, 3));
        map.resize(BLOCKS_PER_ROOT);
        assert_eq!((map.tally().used, map.tally().frames, map.roots.len()), (1, 1, 1));
    }

    #[test]
    fn a_walk_stops_when_its_budget_is_spent_and_goes_on_where_it_stopped() {
        let geometry = geometry(1 << 18, 1 << 13);
        let addresses = Addresses::new(&geometry);
        let name = VolumeName::new("thin").unwrap();
        let mut map = VolumeMap::new(VolumeId(1), name, 1 << 31, 0, addresses);
        let pages = [0, 63, 64, 511, 512, 4_194_303];
        pages.iter().for_each(|page| map.mark_dirty(*page));
        let (mut from, mut found, mut steps) = (0, Vec::new(), 0);
        while from < map.pages() {
            let mut budget = 10;
            found.extend(map.next_page(&mut from, Wanted::Dirty, &mut budget));
            steps += 1;
        }
        assert_eq!(found, pages);
        assert!(steps > 800, "{steps} steps for 8192 roots, ten at a time");
    }

    proptest! {
        #[test]
        fn a_page_that_is_loaded_says_what_it_says_on_media(
            wide in 0_u32..3,
            blocks in 1_u64..=PAGE,
            entries in prop::collection::vec(prop::option::of((any::<u64>(), any::<u32>())), 512),
        ) {
            let geometry = geometry(1 << 18, [1 << 7, 1 << 13, 1 << 17][wide as usize]);
            let all = u64::from(geometry.units() - 2) << 18;
            let entry = |drawn: &Option<(u64, u32)>| match *drawn {
                Some((address, crc)) => {
                    let at = geometry.location((2 << 18) + address % all).expect("it is inside");
                    MapEntry::new(&geometry, at, crc)
                }
                None => MapEntry::UNMAPPED,
            };
            let read: Vec<MapEntry> = entries.iter().map(entry).collect();
            let name = VolumeName::new("v").unwrap();
            let addresses = Addresses::new(&geometry);
            let mut map = VolumeMap::new(VolumeId(1), name, blocks, 0, addresses);
            map.load(0, &read);
            let said: Vec<Mapping> = (0..blocks).map(|lba| map.get(lba)).collect();
            for (said, read) in said.iter().zip(&read) {
                let expected = match read.is_unmapped() {
                    true => Mapping::Unmapped,
                    false => Mapping::At(Value::of_entry(read.pack()).expect("it is mapped")),
                };
                prop_assert_eq!(*said, expected);
            }
            let mapped = said.iter().any(|mapping| *mapping != Mapping::Unmapped);
            prop_assert_eq!(map.is_empty(0), !mapped);
        }

        #[test]
        fn entries_do_not_disturb_each_other(
            per_unit in 16_u32..5000,
            units in 3_u32..3000,
            sets in prop::collection::vec((0_u64..40, 0_u8..3, any::<u64>(), any::<u32>()), 0..200),
        ) {
            let geometry = geometry(per_unit, units);
            let addresses = Addresses::new(&geometry);
            let name = VolumeName::new("v").unwrap();
            let mut map = VolumeMap::new(VolumeId(1), name, 40, 0, addresses);
            let mut model = [Mapping::Unmapped; 40];
            for (lba, kind, address, crc) in sets {
                let mapping = match kind {
                    0 => Mapping::Unmapped,
                    1 => Mapping::Staged(crc % 1000),
                    _ => Mapping::At(Value::new(address % (u64::from(per_unit) * u64::from(units)), crc)),
                };
                map.set(lba, mapping);
                model[lba as usize] = mapping;
            }
            for (lba, expected) in (0..).zip(model) {
                prop_assert_eq!(map.get(lba), expected);
            }
        }
    }
}
