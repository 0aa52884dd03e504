//! Map entries and map pages.
//!
//! A page is 4096 bytes of entries and nothing else. The parent entry identifies and verifies a page: volume and index
//! lead to the entry, and the checksum of the page must match the tag of the entry.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use crate::checksum::crc32c;
use crate::error::{DecodeError, ErrorKind, Structure, require};
use crate::geometry::{ADDRESS_BITS, BLOCK_BYTES, Geometry};
use crate::id::{Location, PageId};
use crate::layout::check_crc;

/// Entries in a map page.
pub const PAGE_ENTRIES: usize = 512;

/// Bits of a map entry that hold the low bits of the checksum of the block it points at.
pub const TAG_BITS: u32 = 64 - ADDRESS_BITS;

const TAG_MASK: u32 = (1 << TAG_BITS) - 1;

/// The location of a block and the low bits of its checksum; or not mapped, or lost.
///
/// Packed as address in the upper 36 bits and tag in the lower 28; all ones mean that the block is not mapped and reads
/// as zeros. An address of ones with a tag of zeros means that the block was on a lost device, with a tag of one that
/// the block reads as zeros whatever a layer below has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapEntry(u64);

impl MapEntry {
    /// A block that was never written, or trimmed.
    pub const UNMAPPED: MapEntry = MapEntry(u64::MAX);

    /// A block of a lost device: reads fail until the block is written again or trimmed.
    pub const LOST: MapEntry = MapEntry(u64::MAX << TAG_BITS);

    /// A trimmed block above others: the block reads as zeros, and no layer below is asked.
    pub const HOLE: MapEntry = MapEntry(u64::MAX << TAG_BITS | 1);

    /// An entry for the block at `at` whose CRC-32C is `crc`.
    ///
    /// # Panics
    /// When no block can be at `at`.
    #[must_use]
    pub fn new(geometry: &Geometry, at: Location, crc: u32) -> MapEntry {
        assert!(geometry.can_hold_block(at), "{at} cannot hold a block");
        MapEntry(geometry.address(at) << TAG_BITS | u64::from(crc & TAG_MASK))
    }

    /// The entry packed as `bits`. Only the entries of a page of a map may be lost ([`MapPage::decode`]).
    ///
    /// # Errors
    /// [`ErrorKind::Impossible`] when it points where no block can be.
    #[inline]
    pub fn unpack(geometry: &Geometry, bits: u64) -> Result<MapEntry, ErrorKind> {
        let entry = MapEntry(bits);
        let rule = "no block can be there";
        if entry != MapEntry::UNMAPPED {
            let at = geometry.location(entry.address());
            let holds = at.is_some_and(|at| geometry.can_hold_block(at));
            require(holds, "address of a map entry", entry.address(), rule)?;
        }
        Ok(entry)
    }

    /// As [`MapEntry::unpack`], of an entry of a page of a map: the block may also be lost, or a hole.
    ///
    /// # Errors
    /// As [`MapEntry::unpack`].
    #[inline]
    pub(crate) fn unpack_in_page(geometry: &Geometry, bits: u64) -> Result<MapEntry, ErrorKind> {
        match MapEntry(bits) {
            nowhere @ (MapEntry::LOST | MapEntry::HOLE) => Ok(nowhere),
            _ => MapEntry::unpack(geometry, bits),
        }
    }

    /// The entry as 64 bits.
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.0
    }

    /// Whether the block was on a device that is lost.
    #[must_use]
    pub fn is_lost(self) -> bool {
        self == MapEntry::LOST
    }

    /// Whether there is no block.
    #[must_use]
    pub fn is_unmapped(self) -> bool {
        self == MapEntry::UNMAPPED
    }

    /// Whether no block is meant: it is not mapped, or lost, or a hole.
    #[must_use]
    pub fn is_nowhere(self) -> bool {
        self.is_unmapped() || self.is_lost() || self == MapEntry::HOLE
    }

    /// The location of the block; `None` if it is nowhere.
    ///
    /// # Panics
    /// When the entry belongs to another, larger pool.
    #[must_use]
    pub fn location(self, geometry: &Geometry) -> Option<Location> {
        let inside = || geometry.location(self.address()).expect("entries are made for one pool");
        (!self.is_nowhere()).then(inside)
    }

    /// Whether a block with checksum `crc` may be the one meant. Another passes with a chance of one in 2^28.
    #[must_use]
    pub fn matches(self, crc: u32) -> bool {
        !self.is_nowhere() && self.tag() == crc & TAG_MASK
    }

    const fn address(self) -> u64 {
        self.0 >> TAG_BITS
    }

    const fn tag(self) -> u32 {
        self.0 as u32 & TAG_MASK
    }
}

/// Checks `bytes` against the tag of `parent`.
pub(crate) fn check_page(bytes: &[u8], parent: MapEntry) -> Result<(), ErrorKind> {
    assert!(!parent.is_unmapped(), "an unmapped page is not read");
    if bytes.len() != BLOCK_BYTES {
        return Err(ErrorKind::Truncated { needed: BLOCK_BYTES, found: bytes.len() });
    }
    check_crc("block", parent.tag(), crc32c(bytes) & TAG_MASK)
}

/// A page of a map: where [`PAGE_ENTRIES`] blocks in a row are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapPage(pub Box<[MapEntry; PAGE_ENTRIES]>);

impl MapPage {
    /// A page of blocks that are not mapped.
    #[must_use]
    pub fn unmapped() -> MapPage {
        MapPage(Box::new([MapEntry::UNMAPPED; PAGE_ENTRIES]))
    }

    /// The page as it stands on media.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        for (chunk, entry) in bytes.chunks_exact_mut(8).zip(self.0.iter()) {
            chunk.copy_from_slice(U64::new(entry.pack()).as_bytes());
        }
        bytes
    }

    /// Checks that `bytes` are page `page`, read from where `parent` points, and nothing else: an entry is not to be
    /// believed before it is unpacked.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] and [`ErrorKind::Corrupt`], as [`MapPage::decode`].
    ///
    /// # Panics
    /// When `parent` is unmapped: there was nothing to read.
    pub fn check(
        bytes: &[u8],
        page: PageId,
        parent: MapEntry,
        geometry: &Geometry,
    ) -> Result<(), DecodeError> {
        let (structure, at) = (Structure::MapPage(page), parent.location(geometry));
        check_page(bytes, parent).map_err(|kind| DecodeError { structure, at, kind })
    }

    /// Page `page`, read from where `parent` points.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] when `bytes` are not a block, [`ErrorKind::Corrupt`] when they are not the one that
    /// `parent` means, [`ErrorKind::Impossible`] when an entry points where no block can be.
    ///
    /// # Panics
    /// When `parent` is unmapped: there was nothing to read.
    pub fn decode(
        bytes: &[u8],
        page: PageId,
        parent: MapEntry,
        geometry: &Geometry,
    ) -> Result<MapPage, DecodeError> {
        let structure = Structure::MapPage(page);
        let at = parent.location(geometry);
        let entries = check_page(bytes, parent)
            .and_then(|()| unpack_each(bytes, geometry, MapEntry::unpack_in_page));
        let entries = entries.map_err(|kind| DecodeError { structure, at, kind })?;
        let entries = entries.into_boxed_slice().try_into();
        Ok(MapPage(entries.expect("a block holds as many entries as a page")))
    }
}

/// Decodes `bytes`, a whole number of entries; a lost entry is an error.
pub(crate) fn unpack_all(bytes: &[u8], geometry: &Geometry) -> Result<Vec<MapEntry>, ErrorKind> {
    unpack_each(bytes, geometry, MapEntry::unpack)
}

/// The entries that `bytes` hold, each as `unpack` takes it.
fn unpack_each(
    bytes: &[u8],
    geometry: &Geometry,
    unpack: impl Fn(&Geometry, u64) -> Result<MapEntry, ErrorKind>,
) -> Result<Vec<MapEntry>, ErrorKind> {
    let bits = <[U64]>::ref_from_bytes(bytes).map_err(|_| ErrorKind::Truncated {
        needed: bytes.len().next_multiple_of(8),
        found: bytes.len(),
    })?;
    bits.iter().map(|bits| unpack(geometry, bits.get())).collect()
}

#[cfg(test)]
mod tests {
    use thermocline_types::UnitId;

    use super::*;
    use crate::geometry::LogicalBlock;
    use crate::id::VolumeId;

    const PAGE: PageId = PageId { volume: VolumeId(3), index: 9 };

    fn geometry() -> Geometry {
        Geometry::new(LogicalBlock::B512, 1000, 6, [UnitId(0), UnitId(1)]).unwrap()
    }

    #[test]
    fn an_entry_is_address_above_tag() {
        let entry = MapEntry::new(&geometry(), Location::new(2, 5), 0xF234_5678);
        assert_eq!(entry.pack(), 2005 << 28 | 0x0234_5678);
        assert_eq!(entry.location(&geometry()), Some(Location::new(2, 5)));
        assert!(entry.matches(0xF234_5678) && entry.matches(0x0234_5678));
        assert!(!entry.matches(0x0234_5679));
        assert_eq!(MapEntry::unpack(&geometry(), entry.pack()), Ok(entry));
    }

    #[test]
    fn all_ones_are_unmapped_and_match_nothing() {
        let entry = MapEntry::unpack(&geometry(), u64::MAX).unwrap();
        assert!(entry.is_unmapped() && !entry.matches(u32::MAX));
        assert_eq!(entry.location(&geometry()), None);
    }

    #[test]
    fn what_is_lost_or_a_hole_matches_nothing_and_stands_in_pages_of_maps_only() {
        let mut page = MapPage::unmapped();
        for (index, nowhere) in [MapEntry::LOST, MapEntry::HOLE].into_iter().enumerate() {
            assert!(!nowhere.is_unmapped() && !nowhere.matches(index as u32));
            assert_eq!((nowhere.location(&geometry()), nowhere.is_lost()), (None, index == 0));
            assert!(MapEntry::unpack(&geometry(), nowhere.pack()).is_err());
            page.0[7 + index] = nowhere;
        }
        let bytes = page.encode();
        let parent = MapEntry::new(&geometry(), Location::new(3, 1), crc32c(&bytes));
        assert_eq!(MapPage::decode(&bytes, PAGE, parent, &geometry()), Ok(page));
    }

    #[test]
    fn no_entry_of_the_largest_pool_reads_as_unmapped() {
        let units = [UnitId(0), UnitId(1)];
        let largest = Geometry::new(LogicalBlock::B4096, (1 << 18) - 1, 1 << 18, units).unwrap();
        let last = Location::new((1 << 18) - 1, (1 << 18) - 2);
        assert!(!MapEntry::new(&largest, last, u32::MAX).is_unmapped());
    }

    #[test]
    fn entries_that_point_where_no_block_can_be_are_refused() {
        // Outside the pool, in a superblock unit, across the end of a unit, and all ones but for the tag.
        for address in [6000, 1999, 2993, (1 << 36) - 1] {
            let unpacked = MapEntry::unpack(&geometry(), address << 28);
            let impossible =
                matches!(unpacked, Err(ErrorKind::Impossible { found, .. }) if found == address);
            assert!(impossible, "{unpacked:?}");
        }
        assert!(MapEntry::unpack(&geometry(), 2992 << 28).is_ok());
    }

    #[test]
    fn a_page_comes_back_only_under_its_own_tag() {
        let mut page = MapPage::unmapped();
        page.0[7] = MapEntry::new(&geometry(), Location::new(4, 17), 99);
        let bytes = page.encode();
        let parent = MapEntry::new(&geometry(), Location::new(3, 1), crc32c(&bytes));
        assert_eq!(MapPage::decode(&bytes, PAGE, parent, &geometry()), Ok(page));
        let other = MapEntry::new(&geometry(), Location::new(3, 1), crc32c(&bytes) ^ 1);
        let error = MapPage::decode(&bytes, PAGE, other, &geometry()).unwrap_err();
        assert_eq!(error.at, Some(Location::new(3, 1)));
        assert!(matches!(error.kind, ErrorKind::Corrupt { .. }));
        let text = error.to_string();
        assert!(
            text.starts_with("map page 9 of volume 3 at unit 3 block 1: checksum of block is"),
            "{text}"
        );
    }
}
