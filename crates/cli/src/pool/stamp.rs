//! Blocks stamped with their volume, address, and version.
//!
//! A stamped block holds no checksum: the stamp determines all its bytes. A CRC-32C at the end of each block would give
//! all blocks the same CRC-32C. The pool's own checksums could then not tell stamped blocks apart.

/// Bytes of a block.
pub const BLOCK: usize = 4096;

const MAGIC: &[u8; 8] = b"THERMOST";
/// Bytes of the stamp itself.
const STAMP: usize = 32;

/// The identity of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The id of the ledger that has the version.
    pub ledger: u64,
    /// The block of the volume.
    pub lba: u64,
    /// The volume.
    pub volume: u32,
    /// Counts the writes and trims of this block.
    pub version: u32,
}

impl Stamp {
    /// Fills a block with this stamp, and with incompressible bytes that the stamp determines.
    pub fn fill(&self, block: &mut [u8]) {
        block[..8].copy_from_slice(MAGIC);
        block[8..16].copy_from_slice(&self.ledger.to_le_bytes());
        block[16..24].copy_from_slice(&self.lba.to_le_bytes());
        block[24..28].copy_from_slice(&self.volume.to_le_bytes());
        block[28..32].copy_from_slice(&self.version.to_le_bytes());
        // Xorshift, Marsaglia 2003. The state is never zero: its lowest bit is set.
        let mut state = self.ledger ^ self.lba << 32 ^ u64::from(self.version) << 1 | 1;
        for word in block[STAMP..].chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
        }
    }

    /// The stamp of a block; `None` if the block has no stamp or is damaged.
    pub fn read(block: &[u8]) -> Option<Stamp> {
        let long = |at: usize| block[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let short = |at: usize| block[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let stamp =
            Stamp { ledger: long(8)?, lba: long(16)?, volume: short(24)?, version: short(28)? };
        let mut whole = [0; BLOCK];
        stamp.fill(&mut whole);
        (whole == *block).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back_and_a_damaged_one_is_not() {
        let stamp = Stamp { ledger: 5, lba: 1 << 33, volume: 7, version: 9 };
        let mut block = [0; BLOCK];
        stamp.fill(&mut block);
        assert_eq!(Stamp::read(&block), Some(stamp));
        assert_eq!(Stamp::read(&[0; BLOCK]), None);
        for byte in [0, 9, 31, 2000, 4095] {
            let mut damaged = block;
            damaged[byte] ^= 1;
            assert_eq!(Stamp::read(&damaged), None, "{byte}");
        }
    }
}
