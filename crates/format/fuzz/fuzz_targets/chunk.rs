//! A chunk header from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_format::{
    CHUNK_PREFIX_BYTES, ChunkHeader, ChunkPrefix, Expected, Geometry, LINE_BYTES, Location,
    LogicalBlock, PoolId, crc32c, prefix_checksum, packed_block,
};
use thermocline_types::UnitId;

/// The place and pool that the bytes themselves name, so that they are not refused for those.
fn expected(bytes: &[u8]) -> Option<Expected> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let pool = PoolId(bytes.get(16..32)?.try_into().ok()?);
    Some(Expected { pool, location: Location::new(number(32)?, number(36)?), generation: None })
}

/// Makes the checksums right, for the header length that the bytes state if it is among them.
fn seal(bytes: &mut [u8]) {
    let Some(length) = bytes.get(76..80) else { return };
    let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
    if let Some(rest) = bytes.get(CHUNK_PREFIX_BYTES..length) {
        let crc = crc32c(rest).to_le_bytes();
        bytes[88..92].copy_from_slice(&crc);
    }
    if bytes.len() >= CHUNK_PREFIX_BYTES {
        let crc = prefix_checksum(&bytes[..92]).to_le_bytes();
        bytes[92..96].copy_from_slice(&crc);
    }
}

fn decode(bytes: &[u8], geometry: &Geometry) {
    let Some(expected) = expected(bytes) else { return };
    let prefix = ChunkPrefix::decode(bytes, &expected, geometry);
    let Ok(header) = ChunkHeader::decode(bytes, &expected, geometry) else { return };
    assert!(prefix.is_ok_and(|prefix| prefix.origin == header.origin));
    let mut again = Vec::new();
    let start = CHUNK_PREFIX_BYTES + header.lines() * LINE_BYTES;
    let packed = header.packed.map_or(0, |packed| usize::from(packed.bytes));
    header.encode(&bytes[start..start + packed], geometry, &mut again);
    assert_eq!(again, bytes[..again.len()]);
    let placed = header.placed(geometry).filter_map(|(_, at)| at);
    placed.for_each(|at| assert!(geometry.can_hold_block(at)));
    let unpacked = packed_block(bytes, &expected, geometry);
    assert!(unpacked.is_none() || header.packed.is_some());
}

fuzz_target!(|bytes: &[u8]| {
    for logical_block in [LogicalBlock::B512, LogicalBlock::B4096] {
        let units = [UnitId(0), UnitId(1)];
        let geometry = Geometry::new(logical_block, 2000, 20, units).expect("a valid geometry");
        decode(bytes, &geometry);
        let mut sealed = bytes.to_vec();
        seal(&mut sealed);
        decode(&sealed, &geometry);
    }
});
