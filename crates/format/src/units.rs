//! The unit table: what every unit held when a checkpoint was taken.
//!
//! A page is 4096 bytes of entries of 16 bytes and nothing else. It is reached from the superblock, by an entry whose
//! tag its checksum must match, as a page of a map is.

use thermocline_types::{Class, UnitId};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{DecodeError, ErrorKind, Structure, require};
use crate::geometry::{BLOCK_BYTES, Geometry};
use crate::id::Generation;
use crate::layout::UnitRaw;
use crate::map::{MapEntry, check_page};

/// Units in a page of the unit table.
pub const PAGE_UNITS: usize = BLOCK_BYTES / size_of::<UnitRaw>();

/// Most units in a pool: a table of 256 MiB, whose pages take 512 KiB of a superblock record. Chosen, not measured.
pub const MAX_UNITS: u32 = 1 << 24;

/// Most pages of a unit table.
pub const MAX_UNIT_PAGES: usize = MAX_UNITS as usize / PAGE_UNITS;

/// What a unit held. A free unit has generation 0, and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitEntry {
    /// The generation of its life, or [`Generation::UNKNOWN`].
    pub generation: Generation,
    /// Blocks of users in it that maps led to.
    pub valid: u32,
    /// The class of its chunks, as their headers name it.
    pub class: Class,
}

impl UnitEntry {
    /// An empty unit that no record lists.
    pub const FREE: UnitEntry = UnitEntry { generation: Generation(0), valid: 0, class: Class(0) };

    /// Checks that the state is possible for a unit of this pool.
    fn check(&self, unit: u64, geometry: &Geometry) -> Result<(), ErrorKind> {
        let free = *self == UnitEntry::FREE;
        require(
            free || self.generation.0 > 0,
            "unit",
            unit,
            "a unit without a life holds nothing",
        )?;
        let most = geometry.blocks_per_unit() / geometry.logical_block().per_block();
        let valid = u64::from(self.valid);
        require(self.valid <= most, "valid blocks of a unit", valid, "more than it holds")?;
        let own =
            unit < u64::from(geometry.units()) && !geometry.is_superblock_unit(UnitId(unit as u32));
        require(free || own, "unit", unit, "it is none that can be written")
    }
}

/// A page of the unit table: what [`PAGE_UNITS`] units in a row held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitPage(pub Box<[UnitEntry; PAGE_UNITS]>);

impl UnitPage {
    /// A page of free units.
    #[must_use]
    pub fn free() -> UnitPage {
        UnitPage(Box::new([UnitEntry::FREE; PAGE_UNITS]))
    }

    /// The page as it stands on media.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        for (chunk, entry) in bytes.chunks_exact_mut(size_of::<UnitRaw>()).zip(self.0.iter()) {
            let raw = UnitRaw {
                generation: entry.generation.0.into(),
                valid: entry.valid.into(),
                class: entry.class.0,
                reserved: [0; 3],
            };
            chunk.copy_from_slice(raw.as_bytes());
        }
        bytes
    }

    /// Page `index`, read from where `parent` points.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] when `bytes` are not a block, [`ErrorKind::Corrupt`] when they are not the one that
    /// `parent` means, [`ErrorKind::Impossible`] when no unit of this pool can be as an entry says.
    ///
    /// # Panics
    /// When `parent` is unmapped: there was nothing to read.
    pub fn decode(
        bytes: &[u8],
        index: u32,
        parent: MapEntry,
        geometry: &Geometry,
    ) -> Result<UnitPage, DecodeError> {
        let (structure, at) = (Structure::UnitPage(index), parent.location(geometry));
        let first = u64::from(index) * PAGE_UNITS as u64;
        let page = check_page(bytes, parent).and_then(|()| unpack(bytes, first, geometry));
        page.map_err(|kind| DecodeError { structure, at, kind })
    }
}

/// The entries of a page, the first of which is about unit `first`.
fn unpack(bytes: &[u8], first: u64, geometry: &Geometry) -> Result<UnitPage, ErrorKind> {
    let raws = <[UnitRaw]>::ref_from_bytes(bytes).expect("a block is a whole number of entries");
    let mut page = UnitPage::free();
    for ((raw, entry), unit) in raws.iter().zip(page.0.iter_mut()).zip(first..) {
        require(raw.reserved == [0; 3], "reserved field", 1, "it must be zero")?;
        *entry = UnitEntry {
            generation: Generation(raw.generation.get()),
            valid: raw.valid.get(),
            class: Class(raw.class),
        };
        entry.check(unit, geometry)?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::crc32c;
    use crate::geometry::LogicalBlock;
    use crate::id::Location;

    fn geometry() -> Geometry {
        Geometry::new(LogicalBlock::B512, 1000, 300, [UnitId(0), UnitId(1)]).unwrap()
    }

    fn decode(page: &UnitPage, index: u32) -> Result<UnitPage, ErrorKind> {
        let bytes = page.encode();
        let parent = MapEntry::new(&geometry(), Location::new(3, 1), crc32c(&bytes));
        UnitPage::decode(&bytes, index, parent, &geometry()).map_err(|error| error.kind)
    }

    fn with(index: usize, generation: u64, valid: u32) -> UnitPage {
        let mut page = UnitPage::free();
        page.0[index] = UnitEntry { generation: Generation(generation), valid, class: Class(7) };
        page
    }

    #[test]
    fn a_page_comes_back() {
        let page = with(43, 9 << 32, 125);
        assert_eq!(decode(&page, 1), Ok(page));
    }

    #[test]
    fn units_that_cannot_be_so_are_refused() {
        let impossible = |page: UnitPage, index| match decode(&page, index) {
            Err(ErrorKind::Impossible { field, found, .. }) => (field, found),
            other => panic!("{other:?}"),
        };
        assert_eq!(impossible(with(44, 5, 0), 1), ("unit", 300), "beyond the pool");
        assert_eq!(impossible(with(1, 5, 0), 0), ("unit", 1), "it holds superblocks");
        assert_eq!(impossible(with(9, 0, 3), 0), ("unit", 9), "no life");
        assert_eq!(impossible(with(9, 5, 126), 0), ("valid blocks of a unit", 126));
    }
}
