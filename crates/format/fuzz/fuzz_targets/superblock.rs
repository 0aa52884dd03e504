//! A superblock record from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_format::{SUPERBLOCK_PREFIX_BYTES, Superblock, SuperblockPrefix, crc32c, prefix_checksum};

/// Makes the checksums right, for the record length that the bytes state if it is among them.
fn seal(bytes: &mut [u8]) {
    let Some(length) = bytes.get(68..72) else { return };
    let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
    if let Some(rest) = bytes.get(SUPERBLOCK_PREFIX_BYTES..length) {
        let crc = crc32c(rest).to_le_bytes();
        bytes[248..252].copy_from_slice(&crc);
    }
    if bytes.len() >= SUPERBLOCK_PREFIX_BYTES {
        let crc = prefix_checksum(&bytes[..252]).to_le_bytes();
        bytes[252..256].copy_from_slice(&crc);
    }
}

fn decode(bytes: &[u8]) {
    let Ok(prefix) = SuperblockPrefix::probe(bytes) else { return };
    let Ok(record) = Superblock::decode(bytes, prefix.location, Some(prefix.pool)) else { return };
    assert_eq!(record.geometry, prefix.geometry);
    let mut again = Vec::new();
    record.encode(&mut again);
    assert_eq!(again, bytes[..again.len()]);
}

fuzz_target!(|bytes: &[u8]| {
    decode(bytes);
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    decode(&sealed);
});
