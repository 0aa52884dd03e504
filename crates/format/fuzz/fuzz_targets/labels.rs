//! Labels of members of groups, and the head of a member's log, from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_format::{
    LogicalBlock, PoolId, RaidLabel, RaidLevel, RaidLog, RaidShape, crc32c, prefix_checksum,
};

/// Bytes of the prefixes, whose last four are their checksum; before that is one of the rest, where there is any.
const LABEL: usize = 128;
const WITH_REST: usize = 64;

/// Makes the checksum of a prefix right, and, where `rest` bytes follow that have one, theirs.
fn seal(bytes: &mut [u8], prefix: usize, rest: usize) {
    if let Some(rest) = bytes.get(prefix..prefix + rest).filter(|rest| !rest.is_empty()) {
        let crc = crc32c(rest).to_le_bytes();
        bytes[prefix - 8..prefix - 4].copy_from_slice(&crc);
    }
    if bytes.len() >= prefix {
        let crc = prefix_checksum(&bytes[..prefix - 4]).to_le_bytes();
        bytes[prefix - 4..prefix].copy_from_slice(&crc);
    }
}

fn four(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).map(|four| four.try_into().expect("four bytes"));
    u32::from_le_bytes(four.unwrap_or_default())
}

fn decode_raid(bytes: &[u8]) {
    let Ok(label) = RaidLabel::decode(bytes, None) else { return };
    assert_eq!(label.encode()[..LABEL], bytes[..LABEL]);
    // Whoever opens the group computes with these.
    let shape = label.shape;
    let end = u64::from(shape.member_units()) * shape.strip();
    let last = shape.units - 1;
    assert!(shape.unit_start(last) + shape.strip() <= end);
    assert!((0..shape.slots).all(|slot| shape.slot(slot) + shape.row_bytes() <= shape.unit_start(0)));
}

fn decode_log(bytes: &[u8], shape: &RaidShape) {
    let Some(pool) = bytes.get(16..32) else { return };
    let pool = PoolId(pool.try_into().expect("sixteen bytes"));
    let Ok(log) = RaidLog::decode(bytes, pool, shape) else { return };
    let used = WITH_REST + log.rows.len() * (16 + 4 * shape.data());
    assert_eq!(log.encode(shape)[..used], bytes[..used]);
}

fuzz_target!(|bytes: &[u8]| {
    let mut sealed = bytes.to_vec();
    seal(&mut sealed, LABEL, 0);
    [bytes, &sealed].into_iter().for_each(decode_raid);
    for (members, block) in [(3, LogicalBlock::B4096), (7, LogicalBlock::B512)] {
        let shape = RaidShape::new(RaidLevel::Parity, members, block, 2048, 60);
        let shape = shape.expect("it can be");
        let mut sealed = bytes.to_vec();
        let rows = four(bytes, 12).min(64) as usize;
        seal(&mut sealed, WITH_REST, rows * (16 + 4 * shape.data()));
        [bytes, &sealed].into_iter().for_each(|bytes| decode_log(bytes, &shape));
    }
});
