//! Every reason to refuse a structure, on the golden images. Changes behind a right checksum are sealed again: they
//! stand for a defect of the writer.

use thermocline_format::{
    CHUNK_PREFIX_BYTES, ChunkHeader, ChunkPrefix, DecodeError, ErrorKind, Expected, Geometry,
    LINE_BYTES, Location, LogicalBlock, MAX_EPOCH, MAX_NUMBER, MapPage, PackedBlock, PoolId,
    SUPERBLOCK_PREFIX_BYTES, Superblock, SuperblockPrefix, crc32c, packed_block, prefix_checksum,
};
use thermocline_types::UnitId;

use crate::golden::{
    CHUNK, CHUNK_AT, MAP_PAGE, PACKED, PAGE, POOL, SUPERBLOCK, SUPERBLOCK_AT, expected, geometry,
    page_parent,
};

const HEADER_BYTES: usize = 1024;

/// Makes both checksums right again.
fn seal(bytes: &mut [u8], prefix: usize, end: usize) {
    let rest = crc32c(&bytes[prefix..end]);
    bytes[prefix - 8..prefix - 4].copy_from_slice(&rest.to_le_bytes());
    let own = prefix_checksum(&bytes[..prefix - 4]);
    bytes[prefix - 4..prefix].copy_from_slice(&own.to_le_bytes());
}

fn decode_chunk(bytes: &[u8]) -> Result<ChunkHeader, DecodeError> {
    ChunkHeader::decode(bytes, &expected(), &geometry())
}

fn decode_superblock(bytes: &[u8]) -> Result<Superblock, DecodeError> {
    Superblock::decode(bytes, SUPERBLOCK_AT, Some(POOL))
}

/// The kind of error that the golden chunk gives with `new` written at `at`, sealed.
fn chunk_with(at: usize, new: &[u8]) -> Option<ErrorKind> {
    let mut bytes = CHUNK.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    seal(&mut bytes, CHUNK_PREFIX_BYTES, HEADER_BYTES);
    decode_chunk(&bytes).err().map(|error| error.kind)
}

fn superblock_with(at: usize, new: &[u8]) -> Option<ErrorKind> {
    let mut bytes = SUPERBLOCK.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    let end = bytes.len();
    seal(&mut bytes, SUPERBLOCK_PREFIX_BYTES, end);
    decode_superblock(&bytes).err().map(|error| error.kind)
}

fn field(kind: Option<ErrorKind>) -> &'static str {
    match kind {
        Some(ErrorKind::Impossible { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_single_bit_of_a_header_counts() {
    for bit in 0..HEADER_BYTES * 8 {
        let mut bytes = CHUNK.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_chunk(&bytes).is_err(), "bit {bit}");
    }
    for bit in 0..SUPERBLOCK.len() * 8 {
        let mut bytes = SUPERBLOCK.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_superblock(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn bits_of_the_prefix_are_reported_as_damage_not_as_something_else() {
    for bit in 8 * 8..CHUNK_PREFIX_BYTES * 8 {
        let mut bytes = CHUNK.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let prefix = ChunkPrefix::decode(&bytes, &expected(), &geometry());
        let kind = prefix.map_err(|error| error.kind);
        assert!(
            matches!(kind, Err(ErrorKind::Corrupt { part: "prefix", .. })),
            "bit {bit}: {kind:?}"
        );
    }
}

/// The difference that a flipped bit makes to a checksum depends on its place alone, so this holds of every block.
#[test]
fn every_single_bit_of_a_block_shows_in_its_tag() {
    for bit in 0..4096 * 8 {
        let mut bytes = MAP_PAGE.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!page_parent().matches(crc32c(&bytes)), "bit {bit}");
    }
}

#[test]
fn every_truncation_is_refused_and_says_how_much_is_needed() {
    for length in 0..HEADER_BYTES {
        let needed = if length < CHUNK_PREFIX_BYTES { CHUNK_PREFIX_BYTES } else { HEADER_BYTES };
        let error = decode_chunk(&CHUNK[..length]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Truncated { needed, found: length });
        assert_eq!(error.at, Some(CHUNK_AT));
    }
    for length in 0..SUPERBLOCK.len() {
        let whole = SUPERBLOCK.len();
        let needed = if length < SUPERBLOCK_PREFIX_BYTES { SUPERBLOCK_PREFIX_BYTES } else { whole };
        let error = decode_superblock(&SUPERBLOCK[..length]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Truncated { needed, found: length });
    }
    for length in 0..MAP_PAGE.len() {
        let error =
            MapPage::decode(&MAP_PAGE[..length], PAGE, page_parent(), &geometry()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Truncated { needed: 4096, found: length });
    }
}

#[test]
fn another_version_is_named_with_our_own() {
    let newer = ErrorKind::NewerVersion { found: 258, supported: 8 };
    assert_eq!(chunk_with(8, &[2, 1]), Some(newer.clone()));
    assert_eq!(superblock_with(8, &[2, 1]), Some(newer.clone()));
    assert_eq!(newer.to_string(), "version 258; this program reads up to version 8");
    for found in [1, 2, 3, 4, 5, 6] {
        let older = ErrorKind::OlderVersion { found: found.into(), supported: 7 };
        assert_eq!(superblock_with(8, &[found, 0]), Some(older));
    }
    assert_eq!(field(chunk_with(8, &[0, 0])), "version");
}

#[test]
fn other_bytes_and_other_pools_are_not_ours() {
    let zeros = decode_chunk(&[0; 4096]).unwrap_err();
    assert_eq!(zeros.kind, ErrorKind::NotOurs { found: None });
    assert_eq!(decode_chunk(SUPERBLOCK).unwrap_err().kind, ErrorKind::NotOurs { found: None });
    let error = Superblock::decode(SUPERBLOCK, SUPERBLOCK_AT, Some(PoolId([7; 16]))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotOurs { found: Some(POOL) });
    let text = "superblock at unit 1 block 6: not of this pool: belongs to pool \
                a0a1a2a3a4a5a6a7a8a9aaabacadaeaf";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_superblock_read_elsewhere_is_misplaced() {
    let elsewhere = Location::new(0, 6);
    let error = Superblock::decode(SUPERBLOCK, elsewhere, Some(POOL)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misplaced { found: SUPERBLOCK_AT });
    assert_eq!(error.to_string(), "superblock at unit 0 block 6: written for unit 1 block 6");
    assert_eq!(SuperblockPrefix::probe(SUPERBLOCK).unwrap().location, SUPERBLOCK_AT);
}

#[test]
fn a_chunk_of_another_unit_or_block_is_misplaced() {
    for location in [Location::new(8, 24), Location::new(7, 25)] {
        let expected = Expected { location, ..expected() };
        let error = ChunkHeader::decode(CHUNK, &expected, &geometry()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Misplaced { found: CHUNK_AT });
        assert_eq!(error.at, Some(location));
    }
}

#[test]
fn a_chunk_has_a_mebibyte_at_most_however_large_its_unit() {
    let large = Geometry::new(LogicalBlock::B512, 1 << 20, 20, [UnitId(18), UnitId(19)]).unwrap();
    let decode = |blocks: u32| {
        let mut bytes = CHUNK.to_vec();
        bytes[80..84].copy_from_slice(&blocks.to_le_bytes());
        seal(&mut bytes, CHUNK_PREFIX_BYTES, HEADER_BYTES);
        ChunkHeader::decode(&bytes, &expected(), &large).map_err(|error| error.kind)
    };
    assert_eq!(decode(2048).map(|chunk| chunk.blocks), Ok(2048));
    assert_eq!(field(decode(2049).err()), "blocks of a chunk");
}

#[test]
fn impossible_packed_blocks() {
    let geometry = Geometry::new(LogicalBlock::B4096, 2000, 20, [UnitId(0), UnitId(1)]).unwrap();
    let decode = |at: usize, new: &[u8]| {
        let mut bytes = PACKED.to_vec();
        bytes[at..at + new.len()].copy_from_slice(new);
        seal(&mut bytes, CHUNK_PREFIX_BYTES, 4096);
        let decoded = ChunkHeader::decode(&bytes, &expected(), &geometry);
        decoded.map(|chunk| chunk.packed).map_err(|error| error.kind)
    };
    let room = PackedBlock::room(3, &geometry) as u16;
    let whole = PackedBlock { entry: 1, bytes: room };
    assert_eq!(decode(86, &room.to_le_bytes()), Ok(Some(whole)), "zeros may be part of it");
    assert_eq!(field(decode(86, &(room + 1).to_le_bytes()).err()), "packed bytes");
    assert_eq!(field(decode(86, &u16::MAX.to_le_bytes()).err()), "packed bytes");
    assert_eq!(field(decode(86, &[25, 0]).err()), "padding of the header");
    assert_eq!(field(decode(84, &[3, 0]).err()), "packed entry", "there are three entries");
    assert_eq!(field(decode(84, &[0xFF, 0xFF]).err()), "packed entry");
    assert_eq!(field(decode(84, &[1, 0, 0, 0]).err()), "packed entry", "of nothing");
    let page = [2, 0, 1, 0, 0, 0, 77, 0, 0, 0, 0];
    let of_map = decode(CHUNK_PREFIX_BYTES + LINE_BYTES, &page);
    assert_eq!(field(of_map.err()), "packed entry", "pages of maps are not packed");
}

#[test]
fn what_lies_packed_in_a_damaged_header_or_at_another_place_is_not_taken() {
    let geometry = Geometry::new(LogicalBlock::B4096, 2000, 20, [UnitId(0), UnitId(1)]).unwrap();
    assert!(packed_block(PACKED, &expected(), &geometry).is_some());
    for bit in (0..4096 * 8).step_by(61) {
        let mut bytes = PACKED.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(packed_block(&bytes, &expected(), &geometry), None, "bit {bit}");
    }
    let elsewhere = Expected { location: Location::new(7, 25), ..expected() };
    assert_eq!(packed_block(PACKED, &elsewhere, &geometry), None);
    let other = Expected { pool: PoolId([7; 16]), ..expected() };
    assert_eq!(packed_block(PACKED, &other, &geometry), None);
}

#[test]
fn impossible_fields_of_a_chunk() {
    assert_eq!(field(chunk_with(10, &[0])), "cause");
    assert_eq!(field(chunk_with(10, &[5])), "cause");
    assert_eq!(field(chunk_with(56, &4100_u64.to_le_bytes())), "durable sequence");
    assert_eq!(field(chunk_with(72, &256_u32.to_le_bytes())), "lines");
    assert_eq!(field(chunk_with(72, &u32::MAX.to_le_bytes())), "lines");
    assert_eq!(field(chunk_with(72, &29_u32.to_le_bytes())), "kind of entry", "one line more");
    let last = CHUNK_PREFIX_BYTES + 27 * LINE_BYTES;
    assert_eq!(field(chunk_with(last, &[5])), "lines", "half of a trim");
    assert_eq!(field(chunk_with(76, &512_u32.to_le_bytes())), "header length");
    assert_eq!(field(chunk_with(76, &u32::MAX.to_le_bytes())), "header length");
    for blocks in [0, 33, 2049, 1977, u32::MAX] {
        assert_eq!(field(chunk_with(80, &blocks.to_le_bytes())), "blocks of a chunk", "{blocks}");
    }
    assert_eq!(chunk_with(80, &1976_u32.to_le_bytes()), None, "up to the end of the unit");
    assert_eq!(field(chunk_with(84, &[1])), "packed entry", "without a packed block");
    assert_eq!(field(chunk_with(84, &[0, 0, 1])), "packed bytes", "logical blocks of 512 bytes");
    assert_eq!(field(chunk_with(86, &[0xFF, 0xFF])), "packed bytes");
    assert_eq!(field(chunk_with(96, &[18])), "kind of entry");
    assert_eq!(field(chunk_with(96, &[0])), "kind of entry");
    assert_eq!(field(chunk_with(HEADER_BYTES - 1, &[1])), "padding of the header");
}

#[test]
fn a_chunk_in_a_superblock_unit_is_impossible() {
    let mut bytes = CHUNK.to_vec();
    bytes[32..36].copy_from_slice(&1_u32.to_le_bytes());
    seal(&mut bytes, CHUNK_PREFIX_BYTES, HEADER_BYTES);
    let expected = Expected { location: Location::new(1, 24), ..expected() };
    let refused = ChunkHeader::decode(&bytes, &expected, &geometry()).unwrap_err();
    assert_eq!(field(Some(refused.kind)), "unit");
}

#[test]
fn impossible_fields_of_a_superblock() {
    assert_eq!(field(superblock_with(10, &[4, 0])), "flags");
    assert_eq!(field(superblock_with(64, &10_u32.to_le_bytes())), "tail epoch");
    assert_eq!(field(superblock_with(68, &512_u32.to_le_bytes())), "record length");
    assert_eq!(field(superblock_with(72, &1024_u32.to_le_bytes())), "logical block");
    assert_eq!(field(superblock_with(76, &1_u32.to_le_bytes())), "geometry");
    for (at, wrong) in [(120, 2), (120, u32::MAX), (124, 1), (136, 2), (140, 5), (136, u32::MAX)] {
        assert_eq!(field(superblock_with(at, &wrong.to_le_bytes())), "geometry", "{at}: {wrong}");
    }
    assert_eq!(field(superblock_with(128, &2_u32.to_le_bytes())), "unit");
    assert_eq!(field(superblock_with(132, &[3])), "media class");
    assert_eq!(field(superblock_with(132, &[2])), "geometry", "a fast device alone");
    assert_eq!(field(superblock_with(133, &[1])), "geometry", "no device is active");
    assert_eq!(field(superblock_with(133, &[3])), "geometry", "its only device is lost");
    assert_eq!(field(superblock_with(133, &[4])), "device state");
    assert_eq!(field(superblock_with(134, &[1])), "reserved field");
    for count in [0, 1, 3, 9, u32::MAX] {
        let named = if count == 3 { "media class" } else { "devices" };
        assert_eq!(field(superblock_with(104, &count.to_le_bytes())), named, "{count}");
    }
    assert_eq!(field(superblock_with(36, &2000_u32.to_le_bytes())), "record length");
    assert_eq!(field(superblock_with(80, &2_u32.to_le_bytes())), "volume");
    assert_eq!(field(superblock_with(80, &u32::MAX.to_le_bytes())), "next volume");
    for (at, name) in [(84, "volumes"), (88, "open units"), (92, "roots")] {
        assert_eq!(field(superblock_with(at, &u32::MAX.to_le_bytes())), name);
    }
    assert_eq!(field(superblock_with(SUPERBLOCK.len() - 1, &[1])), "padding");
}

/// Where a record says each of its numbers, in how many bytes, the lowest and the highest that a reader takes, and how
/// an error calls it.
const NUMBERS: [(usize, usize, u64, u64, &str); 6] = [
    (12, 4, 8, MAX_EPOCH as u64, "epoch"),
    (40, 8, 1, MAX_NUMBER, "revision"),
    (48, 8, 1, MAX_NUMBER, "checkpoint"),
    (56, 8, (1 << 32) + 4, MAX_NUMBER, "next generation"),
    (64, 4, 1, 9, "tail epoch"),
    (96, 8, 4090, MAX_NUMBER, "tail end"),
];

#[test]
fn numbers_that_no_writer_gets_to_or_could_go_on_from() {
    for (at, bytes, least, most, name) in NUMBERS {
        let with = |number: u64| superblock_with(at, &number.to_le_bytes()[..bytes]);
        assert_eq!((with(least), with(most)), (None, None), "{name}");
        assert!(with(least - 1).is_some(), "{name} of {}", least - 1);
        let last = if bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
        for number in [most + 1, last - 1, last] {
            match with(number) {
                Some(ErrorKind::Impossible { field, found, .. }) => {
                    assert_eq!((field, found), (name, number));
                }
                other => panic!("{name} of {number}: {other:?}"),
            }
        }
    }
    for (at, bytes, name) in [(12, 4, "epoch"), (40, 8, "revision"), (48, 8, "checkpoint")] {
        assert_eq!(field(superblock_with(at, &[0; 8][..bytes])), name);
    }
    assert_eq!(field(superblock_with(64, &[0; 4])), "tail epoch");
    assert_eq!(field(superblock_with(80, &[0; 4])), "next volume");
    assert_eq!(superblock_with(96, &[0; 8]), None, "no end of the tail");
}

#[test]
fn the_last_number_of_a_chunk_is_never_given() {
    for (at, bytes, name) in [(12, 4, "epoch"), (48, 8, "sequence"), (64, 8, "revision")] {
        assert_eq!(field(chunk_with(at, &[0xFF; 8][..bytes])), name);
    }
}

#[test]
fn impossible_contents_of_a_superblock() {
    const SECOND: usize = SUPERBLOCK_PREFIX_BYTES + 80;
    const ROOTS: usize = SECOND + 2 * 80;
    const LISTED: usize = ROOTS + 5 * 8;
    assert_eq!(field(superblock_with(SECOND, &1_u32.to_le_bytes())), "volume");
    assert_eq!(field(superblock_with(SECOND, &u32::MAX.to_le_bytes())), "volume");
    assert_eq!(field(superblock_with(SECOND + 4, &[12])), "name of volume");
    for flags in [6, 8] {
        assert_eq!(field(superblock_with(SECOND + 5, &[flags])), "flags of a volume", "{flags}");
    }
    assert_eq!(superblock_with(SECOND + 5, &[4]), None, "on capacity");
    assert_eq!(field(superblock_with(SECOND + 6, &[1])), "reserved field");
    assert_eq!(field(superblock_with(SECOND + 16, &[0xFF])), "name of volume");
    let size = |blocks: u64| field(superblock_with(SECOND + 8, &blocks.to_le_bytes()));
    assert_eq!(size(u64::MAX), "blocks of a volume");
    assert_eq!(size(1 << 20), "roots of a volume");
    assert_eq!(size(1), "roots beyond those of the volumes");
    for unit in [1, 22, 40] {
        assert_eq!(field(superblock_with(LISTED, &[unit])), "open unit", "{unit}");
    }
    let block_2001 = [0x51 | 0x80, 0x0F];
    assert_eq!(field(superblock_with(LISTED + 1, &block_2001)), "block of an open unit");
    assert_eq!(field(superblock_with(LISTED + 2, &[0])), "age of an open unit");
    let none_as_young = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0, 0];
    assert_eq!(field(superblock_with(LISTED + 2, &none_as_young)), "age of an open unit");
    for (at, longer) in [(LISTED, [0x87, 0]), (LISTED + 9, [0x90, 0])] {
        assert_eq!(field(superblock_with(at, &longer)), "listed units");
    }
    assert_eq!(field(superblock_with(ROOTS, &[0; 8])), "address of a map entry");
}
