//! Chunks, superblock records and pools in arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_engine::{ReadChunks, Versions};
use thermocline_engine::wire::{InWindow, find_chunks, find_superblocks, probe, superblock_blocks};
use thermocline_format::{Geometry, Location, LogicalBlock, PoolId, crc32c, prefix_checksum};
use thermocline_types::UnitId;

const POOL: PoolId = PoolId([
    0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xAB, 0xAC, 0xAD, 0xAE, 0xAF,
]);

/// Makes a prefix at each 512 bytes one of this pool that stands at its place, and its checksums right.
fn seal(bytes: &mut [u8], unit: u32, logical_block: usize) {
    for start in (0..bytes.len()).step_by(logical_block) {
        let (lengths, prefix) = match bytes[start..].get(..8) {
            Some(b"THERMOCH") => (76, 96),
            Some(b"THERMOSB") => (68, 128),
            _ => continue,
        };
        let place = &mut bytes[start..];
        if place.len() < prefix {
            continue;
        }
        place[16..32].copy_from_slice(&POOL.0);
        place[32..36].copy_from_slice(&unit.to_le_bytes());
        place[36..40].copy_from_slice(&((start / logical_block) as u32).to_le_bytes());
        let length = place[lengths..lengths + 4].try_into().expect("four bytes");
        if let Some(rest) = place.get(prefix..u32::from_le_bytes(length) as usize) {
            let crc = crc32c(rest).to_le_bytes();
            place[prefix - 8..prefix - 4].copy_from_slice(&crc);
        }
        let crc = prefix_checksum(&place[..prefix - 4]).to_le_bytes();
        place[prefix - 4..prefix].copy_from_slice(&crc);
    }
}

fn chunks(bytes: &[u8], unit: u32, geometry: &Geometry) {
    for search in [false, true] {
        let at = Location::new(unit, 0);
        let window = geometry.logical_block().to_hold(bytes.len());
        let (generation, versions) = (None, Versions::AsRead);
        let request =
            ReadChunks { at, window, pool: POOL, generation, search, data: true, versions };
        let found = find_chunks(bytes, &request, geometry);
        let mut end = 0;
        for InWindow { header, data, .. } in &found.chunks {
            assert!(header.origin.location.block >= end && header.origin.pool == POOL);
            assert!(data.start <= data.end && data.end <= bytes.len());
            // A search finds chunks of all lives of a unit, which may lie across each other.
            let length = if search { 1 } else { header.blocks };
            end = header.origin.location.block + length;
        }
        assert!(found.next >= end && found.next <= geometry.blocks_per_unit());
    }
}

fn superblocks(bytes: &[u8], unit: u32, geometry: &Geometry) {
    let found = find_superblocks(bytes, UnitId(unit), None, geometry);
    assert!(superblock_blocks(&found, geometry) <= geometry.blocks_per_unit());
    for record in found {
        let start = record.location.block as usize * geometry.logical_block().bytes();
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(again, bytes[start..start + again.len()]);
    }
    if let Some(prefix) = probe(bytes, 0) {
        assert!(prefix.geometry.is_superblock_unit(prefix.location.unit));
    }
}

fuzz_target!(|bytes: &[u8]| {
    for logical_block in [LogicalBlock::B512, LogicalBlock::B4096] {
        let units = [UnitId(0), UnitId(1)];
        let geometry = Geometry::new(logical_block, 2000, 20, units).expect("a valid geometry");
        for unit in [1, 7] {
            let mut sealed = bytes.to_vec();
            seal(&mut sealed, unit, logical_block.bytes());
            for bytes in [bytes, &sealed] {
                chunks(bytes, unit, &geometry);
                superblocks(bytes, unit, &geometry);
            }
        }
    }
});
