//! The checksum of everything on media. Its algorithm is part of the format's version.

use crc_fast::{CrcAlgorithm, checksum};

/// CRC-32C (Castagnoli 1993; the iSCSI checksum of RFC 3720, appendix B.4): polynomial 0x1EDC6F41, reflected, initial
/// value and final exclusive-or all ones. The nine bytes `123456789` give 0xE3069283.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::crc32c;

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
