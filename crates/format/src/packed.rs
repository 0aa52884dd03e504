//! Blocks that lie packed in the header of their chunk.
//!
//! A chunk with few entries leaves most of its header's logical block unused. A compressed block that fits into the
//! unused part needs no separate logical block. The map then points at the header.
//!
//! Invariants:
//! * At most one block of a chunk is packed: a unit never holds more blocks than it has logical blocks.
//! * Only a sound header of the pool, at its own place, is unpacked; the unpacked block must pass the checksum of its
//!   contents, as every block must.

use std::fmt;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use crate::chunk::{ChunkHeader, Expected};
use crate::geometry::{BLOCK_BYTES, Geometry, LogicalBlock};
use crate::id::Location;
use crate::layout::{CHUNK_PREFIX_BYTES, LINE_BYTES};

/// Which block of a chunk lies packed in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedBlock {
    /// Index of the block's entry.
    pub entry: u16,
    /// Length of the packed bytes, directly behind the entries.
    pub bytes: u16,
}

impl PackedBlock {
    /// Bytes that a packed block may take in a header of so many lines; 0 where none is packed. Headers of one
    /// logical block of 4096 bytes are the only ones with packed blocks, so that a reader of the block has the whole
    /// header.
    #[must_use]
    pub fn room(lines: usize, geometry: &Geometry) -> usize {
        match geometry.logical_block() {
            LogicalBlock::B4096 => {
                BLOCK_BYTES.saturating_sub(CHUNK_PREFIX_BYTES + lines * LINE_BYTES)
            }
            LogicalBlock::B512 => 0,
        }
    }
}

/// Where the blocks of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    chunk: Location,
    header: u32,
    per_block: u32,
    packed: Option<u32>,
}

impl Places {
    pub(crate) fn new(chunk: Location, header: u32, per_block: u32, packed: Option<u32>) -> Places {
        Places { chunk, header, per_block, packed }
    }

    /// Where block `number` of the chunk begins; of a packed one, where the header does.
    #[must_use]
    pub fn of(&self, number: u32) -> Location {
        let behind = self.behind(number).map_or(0, |nth| self.header + nth * self.per_block);
        Location { block: self.chunk.block + behind, ..self.chunk }
    }

    /// Position of block `number` behind the header; `None` if the header holds the block.
    #[must_use]
    pub fn behind(&self, number: u32) -> Option<u32> {
        match self.packed {
            Some(packed) if packed == number => None,
            Some(packed) if packed < number => Some(number - 1),
            _ => Some(number),
        }
    }

    /// The number of the block that begins at `at`.
    #[must_use]
    pub fn number(&self, at: Location) -> Option<u32> {
        let from = at.block.checked_sub(self.chunk.block).filter(|_| at.unit == self.chunk.unit)?;
        if from == 0 {
            return self.packed;
        }
        let from = from.checked_sub(self.header).filter(|from| from % self.per_block == 0)?;
        let nth = from / self.per_block;
        Some(nth + u32::from(self.packed.is_some_and(|packed| packed <= nth)))
    }
}

/// Packs blocks; successive blocks share its memory of 13 KiB.
pub struct Packer {
    table: CompressTable,
    /// As long as a packed block can be.
    packed: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Packer {
        let most = get_maximum_output_size(BLOCK_BYTES);
        Packer { table: CompressTable::small(), packed: vec![0; most] }
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// Packs a block of 4096 bytes, if that takes at most `room` bytes.
    ///
    /// The bytes are one block of LZ4's block format (`lz4_Block_format.md` of lz4), chosen because it packs a page in
    /// a few microseconds.
    ///
    /// # Panics
    /// If the block has another length.
    pub fn pack(&mut self, block: &[u8], room: usize) -> Option<&[u8]> {
        assert_eq!(block.len(), BLOCK_BYTES, "blocks have 4096 bytes");
        let length = compress_into_with_table(block, &mut self.packed, &mut self.table);
        let length = length.expect("it has room for any block");
        (length <= room.min(usize::from(u16::MAX))).then(|| &self.packed[..length])
    }
}

/// The block of 4096 bytes that `packed` holds; `None` unless the bytes unpack to exactly 4096.
#[must_use]
pub fn unpack(packed: &[u8]) -> Option<Box<[u8; BLOCK_BYTES]>> {
    let mut block = Box::new([0; BLOCK_BYTES]);
    let length = lz4_flex::block::decompress_into(packed, &mut block[..]).ok()?;
    (length == BLOCK_BYTES).then_some(block)
}

/// The block that lies packed in the header that `bytes` begin with, if that is a sound one of an expected chunk.
#[must_use]
pub fn packed_block(
    bytes: &[u8],
    expected: &Expected,
    geometry: &Geometry,
) -> Option<Box<[u8; BLOCK_BYTES]>> {
    let header = ChunkHeader::decode(bytes, expected, geometry).ok()?;
    unpack(header.packed_bytes(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(packed: Option<u32>) -> Places {
        Places::new(Location::new(3, 40), 1, 1, packed)
    }

    #[test]
    fn a_packed_block_is_where_the_header_is_and_the_others_close_up() {
        let blocks = |packed: Option<u32>| (0..4).map(move |at| places(packed).of(at).block);
        assert_eq!(blocks(None).collect::<Vec<_>>(), [41, 42, 43, 44]);
        assert_eq!(blocks(Some(0)).collect::<Vec<_>>(), [40, 41, 42, 43]);
        assert_eq!(blocks(Some(2)).collect::<Vec<_>>(), [41, 42, 40, 43]);
    }

    #[test]
    fn the_place_of_a_block_leads_back_to_its_number() {
        for packed in [None, Some(0), Some(1), Some(3)] {
            let places = places(packed);
            for number in 0..5 {
                assert_eq!(places.number(places.of(number)), Some(number), "{packed:?}");
            }
        }
        assert_eq!(places(None).number(Location::new(3, 40)), None, "the header");
        assert_eq!(places(None).number(Location::new(3, 39)), None);
        assert_eq!(places(None).number(Location::new(4, 41)), None);
        let small = Places::new(Location::new(3, 40), 2, 8, None);
        assert_eq!(small.number(Location::new(3, 50)), Some(1));
        assert_eq!(small.number(Location::new(3, 51)), None, "not where a block begins");
    }

    #[test]
    fn what_packs_comes_back_and_noise_does_not_pack() {
        let text: Vec<u8> = (0..BLOCK_BYTES as u32).map(|at| (at / 7 % 19) as u8).collect();
        let mut packer = Packer::default();
        let packed = packer.pack(&text, 4096 - 96 - 15).expect("it repeats").to_owned();
        assert_eq!(unpack(&packed).expect("it was packed")[..], text);
        assert_eq!(packed, lz4_flex::block::compress(&text), "what was packed before is forgotten");
        assert_eq!(packer.pack(&text, packed.len() - 1), None, "one byte too many");
        assert_eq!(packer.pack(&text, packed.len()), Some(&packed[..]));
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = (0..BLOCK_BYTES).map(|_| noise()).collect();
        assert_eq!(packer.pack(&noise, 4096 - 96 - 15), None);
        assert_eq!(packer.pack(&text, packed.len()), Some(&packed[..]), "after noise as well");
    }

    #[test]
    fn only_a_whole_block_comes_out() {
        let shorter = lz4_flex::block::compress(&[7; BLOCK_BYTES - 1]);
        let longer = lz4_flex::block::compress(&[7; BLOCK_BYTES + 1]);
        assert_eq!((unpack(&shorter), unpack(&longer), unpack(&[])), (None, None, None));
        let whole = lz4_flex::block::compress(&[7; BLOCK_BYTES]);
        assert!(unpack(&whole).is_some());
        assert_eq!(unpack(&whole[..whole.len() - 1]), None);
    }
}
