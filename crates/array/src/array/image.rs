//! The data of a partial row, kept as running parity.
//!
//! Byte x of an image is the exclusive or of row bytes: byte x, and every byte whole pieces before x. With x bytes in
//! the row, its parity is the last piece of the image before x. A byte of data is the exclusive or of two bytes of the
//! image. Data appended to the row appends to the image and changes no earlier byte. So a log can take an image as it
//! grows, without overwriting.

use std::ops::Range;

use thermocline_format::{RaidShape, crc32c_append};

use crate::Memory;

/// The data of the first bytes of a row.
#[derive(Clone, Debug)]
pub(super) struct Image {
    piece: usize,
    filled: u64,
    /// None, if the memory has no bytes.
    bytes: Vec<u8>,
    /// CRC-32C of the known bytes of each piece.
    crcs: Vec<u32>,
}

impl Image {
    /// An image of an empty row.
    pub(super) fn new(shape: &RaidShape) -> Image {
        let crcs = vec![0; shape.data()];
        Image { piece: shape.piece as usize, filled: 0, bytes: Vec::new(), crcs }
    }

    /// Bytes in the row.
    pub(super) fn filled(&self) -> u64 {
        self.filled
    }

    pub(super) fn crcs(&self) -> &[u32] {
        &self.crcs
    }

    /// Appends a buffer to the row.
    pub(super) fn take<M: Memory>(&mut self, data: &M::Buffer) {
        match M::HAS_BYTES {
            true => M::read(data, |data| self.append(data)),
            false => self.filled += M::len(data) as u64,
        }
    }

    /// Appends data to the row.
    pub(super) fn append(&mut self, mut data: &[u8]) {
        self.filled += data.len() as u64;
        while !data.is_empty() {
            let (at, piece) = (self.bytes.len(), self.piece);
            let (now, rest) = data.split_at(data.len().min(piece - at % piece));
            let crc = &mut self.crcs[at / piece];
            *crc = crc32c_append(*crc, now);
            self.bytes.extend_from_slice(now);
            if at >= piece {
                let (before, new) = self.bytes.split_at_mut(at);
                exclusive_or(new, &before[at - piece..]);
            }
            data = rest;
        }
    }

    /// Removes the last bytes, so that the row has `filled` bytes.
    pub(super) fn truncate(&mut self, filled: u64) {
        self.filled = self.filled.min(filled);
        self.bytes.truncate(filled as usize);
        for index in 0..self.crcs.len() {
            let start = index * self.piece;
            let end = self.bytes.len().min(start + self.piece);
            let mut data = vec![0; end.saturating_sub(start)];
            if !data.is_empty() {
                self.read(start as u64, &mut data);
            }
            self.crcs[index] = crc32c_append(0, &data);
        }
    }

    /// The running parity of these bytes of the row, for the log.
    pub(super) fn running<M: Memory>(&self, memory: &M, range: Range<u64>) -> M::Buffer {
        match M::HAS_BYTES {
            true => memory.holding(&self.bytes[range.start as usize..range.end as usize]),
            false => memory.room((range.end - range.start) as usize),
        }
    }

    /// The data from byte `from` of the row on.
    pub(super) fn read(&self, from: u64, out: &mut [u8]) {
        let from = from as usize;
        out.copy_from_slice(&self.bytes[from..from + out.len()]);
        let first = self.piece.saturating_sub(from).min(out.len());
        let before = (from + first).saturating_sub(self.piece);
        exclusive_or(&mut out[first..], &self.bytes[before..]);
    }

    /// The parity of all bytes in the row, as long as the longest piece.
    pub(super) fn parity(&self, out: &mut [u8]) {
        let (filled, piece) = (self.bytes.len(), self.piece);
        let last = filled.saturating_sub(1) / piece;
        let (whole, cut) = (last * piece, filled - last * piece);
        out[..cut].copy_from_slice(&self.bytes[whole..]);
        if last > 0 {
            out[cut..].copy_from_slice(&self.bytes[whole - piece + cut..whole]);
        }
    }
}

/// Changes each byte of `to` to its exclusive or with the byte of `from`.
pub(super) fn exclusive_or(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

#[cfg(test)]
mod tests {
    use thermocline_format::{LogicalBlock, RaidLevel, crc32c};
    use thermocline_types::Rng;

    use super::*;

    fn shape() -> RaidShape {
        RaidShape::new(RaidLevel::Parity, 4, LogicalBlock::B512, 512, 3).expect("it can be")
    }

    #[test]
    fn parity_and_data_come_from_the_image_however_it_grew() {
        let (shape, mut rng) = (shape(), Rng::new(4));
        let piece = shape.piece as usize;
        let data: Vec<u8> = (0..shape.row_bytes()).map(|_| rng.below(256) as u8).collect();
        for _ in 0..50 {
            let mut image = Image::new(&shape);
            let mut filled = 0;
            while filled < data.len() {
                let more = (512 * (1 + rng.below(20)) as usize).min(data.len() - filled);
                image.append(&data[filled..filled + more]);
                filled += more;
                let back = (512 * rng.below(9) as usize).min(filled);
                if rng.below(6) == 0 {
                    filled -= back;
                    image.truncate(filled as u64);
                }
                if filled == 0 {
                    continue;
                }
                let mut parity = vec![0; filled.min(piece)];
                let mut expected = parity.clone();
                for some in data[..filled].chunks(piece) {
                    exclusive_or(&mut expected, some);
                }
                image.parity(&mut parity);
                assert_eq!(parity, expected, "{filled}");
                let from = rng.below(filled as u64);
                let mut some = vec![0; filled - from as usize];
                image.read(from, &mut some);
                assert_eq!(some, data[from as usize..filled], "{from} of {filled}");
                let pieces = (0..3).map(|index| {
                    let end = filled.min((index + 1) * piece);
                    crc32c(data.get(index * piece..end).unwrap_or(&[]))
                });
                assert_eq!(image.crcs(), pieces.collect::<Vec<_>>(), "{filled}");
            }
        }
    }
}
