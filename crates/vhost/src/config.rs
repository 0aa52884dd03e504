//! What the device tells of itself: features and configuration space (virtio 1.2, 5.2).

use thermocline_target::{Export, Info};

/// Queues of a device at most; a guest takes one for each processor.
pub(crate) const QUEUES: u16 = 64;
/// Entries of a queue at most, as in QEMU.
pub(crate) const QUEUE_SIZE: u16 = 1024;
/// Bytes of a segment, and segments of a request, at most: together no more than [`REQUEST_BYTES_MAX`].
const SIZE_MAX: u32 = 256 << 10;
const SEG_MAX: u32 = 126;
/// Bytes of a request at most, as over NBD.
pub(crate) const REQUEST_BYTES_MAX: u32 = 32 << 20;
const _: () = assert!(SIZE_MAX * SEG_MAX <= REQUEST_BYTES_MAX);
/// Ranges of a discard, or of zeroing, at most. Chosen, not measured.
pub(crate) const RANGES_MAX: usize = 16;
/// Sectors of such a range at most: 1 GiB. Chosen, not measured.
const RANGE_SECTORS: u32 = 2 << 20;
/// The unit of capacity and places.
pub(crate) const SECTOR: u64 = 512;
/// Bytes that reads and writes best have a multiple of.
const PREFERRED: u32 = 4096;

/// Bits of features.
pub(crate) mod feature {
    pub const SIZE_MAX: u64 = 1 << 1;
    pub const SEG_MAX: u64 = 1 << 2;
    pub const READ_ONLY: u64 = 1 << 5;
    pub const BLOCK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const TOPOLOGY: u64 = 1 << 10;
    pub const QUEUES: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const WRITE_ZEROES: u64 = 1 << 14;
    pub const LIFETIME: u64 = 1 << 15;
    pub const INDIRECT: u64 = 1 << 28;
    pub const EVENT_IDX: u64 = 1 << 29;
    pub const VHOST_PROTOCOL: u64 = 1 << 30;
    pub const VERSION_1: u64 = 1 << 32;
}

/// Shares of the stated endurance that are used up, 1.0: all of it. `None` where none is stated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wear {
    /// Of fast devices: cells of type A.
    pub fast: Option<f64>,
    /// Of the others: cells of type B.
    pub capacity: Option<f64>,
}

impl Wear {
    /// As `struct virtio_blk_lifetime`. Reserved blocks of drives are not known.
    pub(crate) fn encode(self) -> [u8; 6] {
        // Tenths that have begun, from 1 on; 11 beyond the end; 0: not known.
        let tenths = |used: Option<f64>| {
            used.map_or(0, |used| if used >= 1.0 { 11 } else { 1 + (used.max(0.0) * 10.0) as u16 })
        };
        let [a, b] = [self.fast, self.capacity].map(|used| tenths(used).to_le_bytes());
        [0, 0, a[0], a[1], b[0], b[1]]
    }
}

/// Features of the device of an export.
pub(crate) fn features(export: &Export, tells_wear: bool) -> u64 {
    use feature::*;
    let can = export.target.info().features;
    let mut features = SIZE_MAX | SEG_MAX | BLOCK_SIZE | TOPOLOGY | feature::QUEUES;
    features |= INDIRECT | EVENT_IDX | VHOST_PROTOCOL | VERSION_1;
    for (feature, has) in [
        (READ_ONLY, export.read_only),
        (FLUSH, can.flush),
        (DISCARD, can.trim && !export.read_only),
        (WRITE_ZEROES, can.zeroes && !export.read_only),
        (LIFETIME, tells_wear),
    ] {
        features |= if has { feature } else { 0 };
    }
    features
}

/// `struct virtio_blk_config`, with zeros behind it.
pub(crate) fn space(info: &Info) -> [u8; 256] {
    let mut space = [0; 256];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    let block = info.logical_block.0 as u32;
    put(0, &(info.size.0 / SECTOR).to_le_bytes());
    put(8, &SIZE_MAX.to_le_bytes());
    put(12, &SEG_MAX.to_le_bytes());
    put(20, &block.to_le_bytes());
    let per_preferred = PREFERRED.max(block) / block;
    put(24, &[per_preferred.trailing_zeros() as u8, 0]);
    put(26, &(per_preferred as u16).to_le_bytes());
    put(28, &per_preferred.to_le_bytes());
    put(32, &[1]); // Writes are cached until a flush.
    put(34, &QUEUES.to_le_bytes());
    for at in [36, 48] {
        put(at, &RANGE_SECTORS.to_le_bytes());
        put(at + 4, &(RANGES_MAX as u32).to_le_bytes());
    }
    put(44, &(PREFERRED / SECTOR as u32).to_le_bytes());
    put(56, &[1]); // Zeroing may free the space.
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_told_in_tenths() {
        let tell = |fast, capacity| Wear { fast, capacity }.encode();
        assert_eq!(tell(None, None), [0; 6]);
        assert_eq!(tell(Some(0.0), Some(0.0999)), [0, 0, 1, 0, 1, 0]);
        assert_eq!(tell(Some(0.1), Some(0.95)), [0, 0, 2, 0, 10, 0]);
        assert_eq!(tell(Some(1.0), Some(70.0)), [0, 0, 11, 0, 11, 0]);
    }
}
