//! Whatever is written comes back; whatever was changed does not; nothing panics.

use proptest::collection::vec;
use proptest::prelude::*;
use thermocline_format::{
    ChunkHeader, ChunkPrefix, DecodeError, ErrorKind, Expected, Generation, Geometry, Location,
    MapEntry, MapPage, PageId, PoolId, Superblock, SuperblockPrefix, VolumeId, crc32c,
};

use crate::arbitrary::{chunk, chunk_of, map_page, packed_bytes, superblock};
use crate::golden;

const PAGE: PageId = PageId { volume: VolumeId(1), index: 0 };

fn expected(chunk: &ChunkHeader) -> Expected {
    let origin = chunk.origin;
    let generation = Some(origin.generation);
    Expected { pool: origin.pool, location: origin.location, generation }
}

fn encode(chunk: &ChunkHeader, geometry: &Geometry) -> Vec<u8> {
    let mut bytes = Vec::new();
    chunk.encode(&packed_bytes(chunk), geometry, &mut bytes);
    bytes
}

fn encode_superblock(superblock: &Superblock) -> Vec<u8> {
    let mut bytes = Vec::new();
    superblock.encode(&mut bytes);
    bytes
}

fn flip(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[bit / 8] ^= 1 << (bit % 8);
    changed
}

/// A place where a block can be.
fn parent(geometry: &Geometry, crc: u32) -> MapEntry {
    let units = (0..geometry.units()).map(|unit| Location::new(unit, 0));
    let at = units
        .into_iter()
        .find(|at| geometry.can_hold_block(*at))
        .expect("a unit without superblocks");
    MapEntry::new(geometry, at, crc)
}

fn kind<T>(result: Result<T, DecodeError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

proptest! {
    #[test]
    fn a_chunk_comes_back((geometry, chunk) in chunk()) {
        let mut bytes = encode(&chunk, &geometry);
        prop_assert_eq!(bytes.len(), chunk.header_bytes(&geometry));
        bytes.extend_from_slice(b"blocks of data");
        let prefix = ChunkPrefix::decode(&bytes, &expected(&chunk), &geometry).unwrap();
        prop_assert_eq!(prefix.origin, chunk.origin);
        prop_assert_eq!(prefix.blocks, chunk.blocks);
        prop_assert_eq!(prefix.header_bytes as usize, chunk.header_bytes(&geometry));
        prop_assert_eq!(ChunkHeader::decode(&bytes, &expected(&chunk), &geometry), Ok(chunk));
    }

    #[test]
    fn a_superblock_comes_back(superblock in superblock()) {
        let mut bytes = encode_superblock(&superblock);
        prop_assert_eq!(bytes.len(), superblock.record_bytes());
        let (at, pool) = (superblock.location, Some(superblock.pool));
        bytes.extend_from_slice(b"the next record");
        let prefix = SuperblockPrefix::probe(&bytes).unwrap();
        prop_assert_eq!(prefix.record_bytes, superblock.record_bytes());
        prop_assert_eq!(&Superblock::decode(&bytes, at, None), &Ok(superblock.clone()));
        prop_assert_eq!(Superblock::decode(&bytes, at, pool), Ok(superblock));
    }

    #[test]
    fn a_map_page_comes_back((geometry, page) in map_page()) {
        let bytes = page.encode();
        let parent = parent(&geometry, crc32c(&bytes));
        prop_assert_eq!(MapPage::decode(&bytes, PAGE, parent, &geometry), Ok(page));
    }

    #[test]
    fn one_bit_is_enough_to_refuse_a_chunk((geometry, chunk) in chunk(), bit: prop::sample::Index) {
        let bytes = encode(&chunk, &geometry);
        let changed = flip(&bytes, bit.index(bytes.len() * 8));
        prop_assert!(ChunkHeader::decode(&changed, &expected(&chunk), &geometry).is_err());
    }

    #[test]
    fn one_bit_is_enough_to_refuse_a_superblock(superblock in superblock(), bit: prop::sample::Index) {
        let bytes = encode_superblock(&superblock);
        let changed = flip(&bytes, bit.index(bytes.len() * 8));
        prop_assert!(Superblock::decode(&changed, superblock.location, None).is_err());
    }

    #[test]
    fn one_bit_is_enough_to_refuse_a_map_page((geometry, page) in map_page(), bit in 0..4096 * 8_usize) {
        let parent = parent(&geometry, crc32c(&page.encode()));
        let changed = flip(&page.encode(), bit);
        let refused = kind(MapPage::decode(&changed, PAGE, parent, &geometry));
        let is_corrupt = matches!(refused, Some(ErrorKind::Corrupt { .. }));
        prop_assert!(is_corrupt, "{:?}", refused);
    }

    #[test]
    fn a_chunk_of_elsewhere_or_another_time_is_refused(
        (geometry, chunk) in chunk_of(3), block: u32, pool: [u8; 16], generation: u64,
    ) {
        let bytes = encode(&chunk, &geometry);
        let right = expected(&chunk);
        let decode = |expected: &Expected| kind(ChunkHeader::decode(&bytes, expected, &geometry));
        prop_assume!(pool != right.pool.0 && block != right.location.block);
        let found = Some(right.pool);
        let other = Expected { pool: PoolId(pool), ..right };
        prop_assert_eq!(decode(&other), Some(ErrorKind::NotOurs { found }));
        let location = Location { block, ..right.location };
        let found = right.location;
        prop_assert_eq!(decode(&Expected { location, ..right }), Some(ErrorKind::Misplaced { found }));
        let expected = Generation(generation);
        let found = chunk.origin.generation;
        prop_assume!(expected != found);
        let refused = decode(&Expected { generation: Some(expected), ..right });
        if found < expected {
            prop_assert_eq!(refused, Some(ErrorKind::Stale { expected, found }));
        } else {
            let impossible = matches!(refused, Some(ErrorKind::Impossible { field: "generation", .. }));
            prop_assert!(impossible);
        }
        prop_assert_eq!(decode(&Expected { generation: None, ..right }), None);
    }

    #[test]
    fn arbitrary_bytes_are_refused_without_panic(bytes in vec(any::<u8>(), 0..9000)) {
        prop_assert!(ChunkPrefix::decode(&bytes, &golden::expected(), &golden::geometry()).is_err());
        prop_assert!(ChunkHeader::decode(&bytes, &golden::expected(), &golden::geometry()).is_err());
        prop_assert!(SuperblockPrefix::probe(&bytes).is_err());
        prop_assert!(Superblock::decode(&bytes, golden::SUPERBLOCK_AT, None).is_err());
        let page = MapPage::decode(&bytes, PAGE, golden::page_parent(), &golden::geometry());
        prop_assert!(page.is_err());
    }
}
