//! The checksum of everything on media. Its algorithm is part of the format's version.

use crc_fast::{CrcAlgorithm, Digest, checksum};
use thermocline_types::Lba;

use crate::VolumeId;

/// CRC-32C (Castagnoli 1993; the iSCSI checksum of RFC 3720, appendix B.4): polynomial 0x1EDC6F41, reflected, initial
/// value and final exclusive-or all ones. The nine bytes `123456789` give 0xE3069283.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The CRC-32C of bytes whose checksum is `crc`, with `bytes` behind them. That of no bytes is 0.
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

/// The checksum of a prefix, which follows its other `bytes`: their CRC-32C, mixed. A CRC is linear: the exclusive or
/// of three sound prefixes would have a sound one, and parity that is behind its data gives just such bytes.
///
/// The mix is `lowbias32` (Wellons, *Prospecting for hash functions*, 2018): the mix is a bijection, so every error
/// that a CRC detects stays detected.
#[must_use]
pub fn prefix_checksum(bytes: &[u8]) -> u32 {
    let mut mixed = crc32c(bytes);
    mixed ^= mixed >> 16;
    mixed = mixed.wrapping_mul(0x7FEB_352D);
    mixed ^= mixed >> 15;
    mixed = mixed.wrapping_mul(0x846C_A68B);
    mixed ^ mixed >> 16
}

/// What the checksum of a user's block is combined with, by exclusive or, in entries and in the map, so that the same
/// bytes have another checksum at another place. Blocks that end with their own CRC-32C all have one checksum, the
/// residue of the polynomial, and would be taken for each other without it.
///
/// The upper half of (block + volume × 2^40) × 0x9E3779B97F4A7C15, modulo 2^64 (multiplicative hashing, Knuth, TAOCP 3,
/// section 6.4). Pages of the map are told apart by what they are reached by: for reserved volumes it is zero.
#[inline]
#[must_use]
pub const fn home_mark(volume: VolumeId, lba: Lba) -> u32 {
    if !volume.is_user() {
        return 0;
    }
    let home = lba.0.wrapping_add((volume.0 as u64) << 40);
    (home.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::{crc32c, crc32c_append, home_mark, prefix_checksum};
    use crate::VolumeId;

    #[test]
    fn blocks_with_their_own_checksum_differ_by_place() {
        let page = |fill: u8| {
            let mut bytes = vec![fill; 4092];
            bytes.extend(crc32c(&bytes).to_le_bytes());
            crc32c(&bytes)
        };
        assert_eq!(page(1), page(2), "the residue");
        let places =
            (1..9).flat_map(|volume| (0..4096).map(move |lba| (VolumeId(volume), Lba(lba))));
        let mut marks: Vec<u32> = places.map(|(volume, lba)| home_mark(volume, lba) << 4).collect();
        marks.sort_unstable();
        marks.dedup();
        // By chance about 2 of 2^15 values in 28 bits are equal to another.
        assert!(marks.len() > (1 << 15) - 12, "{}", marks.len());
        assert_eq!(home_mark(VolumeId::MAP, Lba(7)), 0);
    }

    #[test]
    fn the_exclusive_or_of_three_prefixes_is_none() {
        let [one, other, third] = [1_u8, 2, 3].map(|number| [number; 92]);
        let all: Vec<u8> = (0..92).map(|at| one[at] ^ other[at] ^ third[at]).collect();
        let of_crcs = crc32c(&one) ^ crc32c(&other) ^ crc32c(&third);
        assert_eq!(crc32c(&all), of_crcs, "a CRC is linear");
        let of_checksums =
            prefix_checksum(&one) ^ prefix_checksum(&other) ^ prefix_checksum(&third);
        assert_ne!(prefix_checksum(&all), of_checksums);
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..5000_u32).map(|number| (number * 7) as u8).collect();
        for cut in [0, 1, 100, 4096, 5000] {
            let (one, other) = bytes.split_at(cut);
            assert_eq!(crc32c_append(crc32c_append(0, one), other), crc32c(&bytes), "{cut}");
        }
    }

    #[test]
    fn published_values() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        // RFC 3720, appendix B.4; the RFC prints the bytes in the order of transmission.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46DD_794E);
    }
}
