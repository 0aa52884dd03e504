//! The map of a volume: where each of its blocks is.
//!
//! Entries are packed into 7, 7.5 or 8 bytes, whatever the addresses of the pool need beside a tag of 28 bits. They are
//! kept inverted, so that memory that was never touched reads as unmapped and costs nothing: volumes are thin in memory
//! too. A map is cut like its form on media, into pages of 512 entries and roots of 512 pages; each page is dirty or
//! not, and loaded or not.
//!
//! Invariants:
//! * Entries of a page that is not loaded are never read or written.
//! * A page that is nowhere on media and never was loaded counts as loaded: all of it is unmapped.

use thermocline_format::{
    BLOCKS_PER_ROOT, Geometry, Location, MapEntry, PAGE_ENTRIES, TAG_BITS, VolumeId, VolumeName,
};

use crate::stats::VolumeTraffic;

/// Blocks that a page covers.
pub(crate) const PAGE: u64 = PAGE_ENTRIES as u64;

/// What an entry in memory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Nothing.
    Unmapped,
    /// In memory, in this slot of the stage.
    Staged(u32),
    /// On media, or on its way there.
    At(Value),
}

/// Address and tag of a block, as in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value(pub(crate) u64);

impl Value {
    #[inline]
    pub(crate) fn new(address: u64, crc: u32) -> Value {
        Value(address << TAG_BITS | u64::from(crc & ((1 << TAG_BITS) - 1)))
    }

    #[inline]
    pub(crate) fn address(self) -> u64 {
        self.0 >> TAG_BITS
    }

    /// The same address, with the tag of the bytes alone; and back.
    #[inline]
    pub(crate) fn of_bytes(self, volume: VolumeId, lba: u64) -> Value {
        let mark = thermocline_format::home_mark(volume, thermocline_types::Lba(lba))
            & ((1 << TAG_BITS) - 1);
        Value(self.0 ^ u64::from(mark))
    }

    #[inline]
    pub(crate) fn matches(self, crc: u32) -> bool {
        (self.0 as u32 ^ crc) & ((1 << TAG_BITS) - 1) == 0
    }
}

/// How entries are packed in a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    /// Addresses from here on are slots of the stage.
    staged: u64,
    nibbles: u32,
    mask: u64,
    per_unit: u64,
    /// 2^64 / `per_unit`, rounded down: a multiplication is several times faster than a division.
    reciprocal: u64,
}

impl Packing {
    /// For a pool of this geometry with at most `slots` slots in its stage.
    pub(crate) fn new(geometry: &Geometry, slots: u32) -> Packing {
        let staged = u64::from(geometry.units()) * u64::from(geometry.blocks_per_unit());
        let limit = staged + u64::from(slots);
        let bits = 64 - limit.leading_zeros() + TAG_BITS;
        assert!(bits <= 64, "a pool has less than 2^36 addresses");
        let nibbles = bits.div_ceil(4).max(14);
        let mask = if nibbles == 16 { u64::MAX } else { (1 << (4 * nibbles)) - 1 };
        let per_unit = u64::from(geometry.blocks_per_unit());
        Packing { staged, nibbles, mask, per_unit, reciprocal: u64::MAX / per_unit }
    }

    /// Unit and logical block of an address.
    #[inline]
    pub(crate) fn location(self, address: u64) -> Location {
        // The estimate is right or one too small.
        let mut unit = ((u128::from(address) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut block = address - unit * self.per_unit;
        if block >= self.per_unit {
            unit += 1;
            block -= self.per_unit;
        }
        Location::new(unit as u32, block as u32)
    }

    /// Bytes that `entries` entries take.
    pub(crate) fn bytes(self, entries: u64) -> u64 {
        (entries * u64::from(self.nibbles)).div_ceil(2) + 8
    }

    #[inline]
    fn get(self, bytes: &[u8], index: usize) -> u64 {
        let nibble = index * self.nibbles as usize;
        let word: [u8; 8] = bytes[nibble / 2..nibble / 2 + 8].try_into().expect("eight bytes");
        !(u64::from_le_bytes(word) >> (4 * (nibble & 1))) & self.mask
    }

    #[inline]
    fn set(self, bytes: &mut [u8], index: usize, value: u64) {
        let nibble = index * self.nibbles as usize;
        let shift = 4 * (nibble & 1);
        let place = &mut bytes[nibble / 2..nibble / 2 + 8];
        let word: [u8; 8] = (&*place).try_into().expect("eight bytes");
        let word = u64::from_le_bytes(word) & !(self.mask << shift);
        place.copy_from_slice(&(word | (!value & self.mask) << shift).to_le_bytes());
    }

    #[inline]
    fn mapping(self, raw: u64) -> Mapping {
        if raw == self.mask {
            return Mapping::Unmapped;
        }
        let value = Value(raw);
        if value.address() >= self.staged {
            Mapping::Staged((value.address() - self.staged) as u32)
        } else {
            Mapping::At(value)
        }
    }

    #[inline]
    fn raw(self, mapping: Mapping) -> u64 {
        match mapping {
            Mapping::Unmapped => self.mask,
            Mapping::Staged(slot) => (self.staged + u64::from(slot)) << TAG_BITS,
            Mapping::At(value) => value.0,
        }
    }
}

/// 262,144 blocks of a volume, or what is left of it.
#[derive(Debug)]
pub(crate) struct Root {
    /// The root page on media.
    pub(crate) at: MapEntry,
    /// Where the map pages are on media.
    pub(crate) pages: Box<[MapEntry; PAGE_ENTRIES]>,
    /// Whether `pages` differs from the root page on media.
    pub(crate) changed: bool,
    entries: Vec<u8>,
    loaded: [u64; PAGE_ENTRIES / 64],
    dirty: [u64; PAGE_ENTRIES / 64],
}

impl Root {
    fn new(packing: Packing, blocks: u64) -> Root {
        Root {
            at: MapEntry::UNMAPPED,
            pages: Box::new([MapEntry::UNMAPPED; PAGE_ENTRIES]),
            changed: false,
            entries: vec![0; packing.bytes(blocks) as usize],
            loaded: [u64::MAX; PAGE_ENTRIES / 64],
            dirty: [0; PAGE_ENTRIES / 64],
        }
    }

    /// Takes over the pages of a root page that was read: none of them is loaded.
    pub(crate) fn adopt(&mut self, pages: Box<[MapEntry; PAGE_ENTRIES]>) {
        for (index, page) in pages.iter().enumerate() {
            if !page.is_unmapped() {
                self.loaded[index / 64] &= !(1 << (index % 64));
            }
        }
        self.pages = pages;
    }
}

/// A volume and its map.
#[derive(Debug)]
pub(crate) struct VolumeMap {
    pub(crate) id: VolumeId,
    pub(crate) name: VolumeName,
    pub(crate) blocks: u64,
    /// Blocks that the host may use: less than `blocks` while the size changes.
    pub(crate) limit: u64,
    pub(crate) roots: Vec<Root>,
    /// Where the blocks of this volume begin among those of all volumes there ever were, for placement.
    pub(crate) base: u64,
    pub(crate) traffic: VolumeTraffic,
    packing: Packing,
}

impl VolumeMap {
    /// A volume of which nothing is mapped.
    pub(crate) fn new(
        id: VolumeId,
        name: VolumeName,
        blocks: u64,
        base: u64,
        packing: Packing,
    ) -> VolumeMap {
        let (roots, traffic) = (Vec::new(), VolumeTraffic::default());
        let mut map =
            VolumeMap { id, name, blocks: 0, limit: blocks, roots, base, traffic, packing };
        map.resize(blocks);
        map
    }

    /// Gives the volume another size. What is beyond it must be unmapped already.
    pub(crate) fn resize(&mut self, blocks: u64) {
        let old = self.roots.len();
        let count = thermocline_format::Volume::roots_for(blocks);
        self.roots.truncate(count);
        for index in 0..count {
            let held = (blocks - index as u64 * BLOCKS_PER_ROOT).min(BLOCKS_PER_ROOT);
            let bytes = self.packing.bytes(held.next_multiple_of(PAGE)) as usize;
            match self.roots.get_mut(index) {
                Some(root) if index + 1 >= old => root.entries.resize(bytes, 0),
                Some(_) => {}
                None => self.roots.push(Root::new(self.packing, held.next_multiple_of(PAGE))),
            }
        }
        self.blocks = blocks;
    }

    /// Bytes of memory that the map of a volume takes at most.
    pub(crate) fn memory_for(packing: Packing, blocks: u64) -> u64 {
        let roots = thermocline_format::Volume::roots_for(blocks) as u64;
        packing.bytes(blocks.next_multiple_of(PAGE)) + roots * (size_of::<Root>() as u64 + 4096 + 8)
    }

    #[inline]
    pub(crate) fn get(&self, lba: u64) -> Mapping {
        let root = &self.roots[(lba / BLOCKS_PER_ROOT) as usize];
        let index = (lba % BLOCKS_PER_ROOT) as usize;
        self.packing.mapping(self.packing.get(&root.entries, index))
    }

    /// Changes the entry of `lba` and marks its page as dirty.
    #[inline]
    pub(crate) fn set(&mut self, lba: u64, mapping: Mapping) {
        debug_assert!(self.is_loaded(lba / PAGE), "what is on media would be forgotten");
        let root = &mut self.roots[(lba / BLOCKS_PER_ROOT) as usize];
        let index = (lba % BLOCKS_PER_ROOT) as usize;
        self.packing.set(&mut root.entries, index, self.packing.raw(mapping));
        let page = index / PAGE_ENTRIES;
        root.dirty[page / 64] |= 1 << (page % 64);
    }

    /// Brings the entry of `lba` towards the cache.
    #[inline]
    pub(crate) fn prefetch(&self, lba: u64) {
        std::hint::black_box(self.get(lba));
    }

    /// Pages of the map.
    pub(crate) fn pages(&self) -> u64 {
        self.blocks.div_ceil(PAGE)
    }

    #[inline]
    pub(crate) fn is_loaded(&self, page: u64) -> bool {
        let (root, index) = split(page);
        self.roots[root].loaded[index / 64] >> (index % 64) & 1 == 1
    }

    pub(crate) fn mark_dirty(&mut self, page: u64) {
        let (root, index) = split(page);
        self.roots[root].dirty[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn mark_clean(&mut self, page: u64) {
        let (root, index) = split(page);
        self.roots[root].dirty[index / 64] &= !(1 << (index % 64));
    }

    /// Where page `page` is on media.
    pub(crate) fn page_at(&self, page: u64) -> MapEntry {
        let (root, index) = split(page);
        self.roots[root].pages[index]
    }

    /// Says that page `page` is at `at` from now on; returns where it was.
    pub(crate) fn move_page(&mut self, page: u64, at: MapEntry) -> MapEntry {
        let (root, index) = split(page);
        self.roots[root].changed = true;
        std::mem::replace(&mut self.roots[root].pages[index], at)
    }

    /// The first page at or behind `from` that is dirty.
    pub(crate) fn next_dirty(&self, from: u64) -> Option<u64> {
        self.next_page(from, |root, word| root.dirty[word])
    }

    /// The first page at or behind `from` that is not loaded.
    pub(crate) fn next_unloaded(&self, from: u64) -> Option<u64> {
        self.next_page(from, |root, word| !root.loaded[word])
    }

    fn next_page(&self, from: u64, bits: impl Fn(&Root, usize) -> u64) -> Option<u64> {
        let mut page = from;
        while page < self.pages() {
            let (root, index) = split(page);
            let word = bits(&self.roots[root], index / 64) >> (index % 64);
            if word != 0 {
                let found = page + u64::from(word.trailing_zeros());
                return (found < self.pages()).then_some(found);
            }
            page += 64 - page % 64;
        }
        None
    }

    /// Fills page `page` with what was read from media.
    pub(crate) fn load(&mut self, page: u64, read: &[MapEntry]) {
        let (root, index) = split(page);
        let root = &mut self.roots[root];
        let first = index * PAGE_ENTRIES;
        let held = self.blocks - page * PAGE;
        for (offset, entry) in read.iter().enumerate().take(held.min(PAGE) as usize) {
            if !entry.is_unmapped() {
                self.packing.set(&mut root.entries, first + offset, entry.pack());
            }
        }
        root.loaded[index / 64] |= 1 << (index % 64);
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let roots = self.roots.capacity() * size_of::<Root>();
        let held: usize = self.roots.iter().map(|root| root.entries.capacity() + 4096).sum();
        (roots + held) as u64
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
    fn an_entry_takes_seven_to_eight_bytes() {
        let bytes = |geometry: &Geometry| Packing::new(geometry, 1 << 16).bytes(1000);
        assert_eq!(bytes(&geometry(512, 1 << 18)), 7008, "512 GiB");
        assert_eq!(bytes(&geometry(1 << 18, 1 << 13)), 7508, "8 TiB");
        assert_eq!(bytes(&geometry(1 << 18, 1 << 17)), 8008, "128 TiB");
    }

    #[test]
    fn a_large_thin_volume_costs_what_is_touched_and_nothing_else_is_mapped() {
        let geometry = geometry(1 << 18, 1 << 13);
        let packing = Packing::new(&geometry, 1 << 16);
        let name = VolumeName::new("thin").unwrap();
        let mut map = VolumeMap::new(VolumeId(1), name, 1 << 31, 0, packing);
        let value = Value::new(77 << 18 | 5, 0x1234_5678);
        map.set((1 << 31) - 1, Mapping::At(value));
        assert_eq!(map.get((1 << 31) - 1), Mapping::At(value));
        assert_eq!(map.get((1 << 31) - 2), Mapping::Unmapped);
        assert_eq!(map.next_dirty(0), Some((1 << 22) - 1));
    }

    proptest! {
        #[test]
        fn entries_do_not_disturb_each_other(
            per_unit in 16_u32..5000,
            units in 3_u32..3000,
            sets in prop::collection::vec((0_u64..40, 0_u8..3, any::<u64>(), any::<u32>()), 0..200),
        ) {
            let geometry = geometry(per_unit, units);
            let packing = Packing::new(&geometry, 1000);
            let name = VolumeName::new("v").unwrap();
            let mut map = VolumeMap::new(VolumeId(1), name, 40, 0, packing);
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

        #[test]
        fn multiplying_by_the_reciprocal_divides(
            per_unit in 16_u32..1 << 31,
            unit in 0_u64..1 << 16,
            block in any::<u32>(),
        ) {
            let units = ((1_u64 << 36) / u64::from(per_unit)).clamp(3, 1 << 20) as u32 - 1;
            prop_assume!(units >= 3);
            let packing = Packing::new(&geometry(per_unit, units), 16);
            let (unit, block) = (unit % u64::from(units), u64::from(block % per_unit));
            let at = packing.location(unit * u64::from(per_unit) + block);
            prop_assert_eq!(at, Location::new(unit as u32, block as u32));
        }
    }
}
