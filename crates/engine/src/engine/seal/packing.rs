//! Which block of a chunk is packed into its header.

use thermocline_format::PackedBlock;

use crate::engine::Parts;
use crate::engine::seal::Sealer;
use crate::marks::mark;
use crate::payload::Payload;

/// Blocks up to which one of a chunk's is packed into its header: of a longer chunk that saves less than a 17th.
/// Chosen, not measured.
const LONGEST: usize = 16;

/// Blocks of a chunk that are tried in turn until one packs. Chosen, not measured.
const TRIED: usize = 4;

impl Sealer {
    /// Packs one of the picked blocks, if that saves a good part of their chunk: the first few are tried.
    pub(super) fn pack_one<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        picked: &[u32],
    ) -> Option<(P, PackedBlock)> {
        let room = PackedBlock::room(picked.len(), &p.config.geometry);
        if picked.len() > LONGEST || room == 0 {
            return None;
        }
        (0..).zip(picked).take(TRIED).find_map(|(entry, &slot)| {
            p.stats.pack_tried_blocks += 1;
            let (bytes, length) = p.cache.block(slot).payload.pack(&mut self.packer, room)?;
            mark!(BlockPacked);
            mark!(BlockNotPacked if entry > 0);
            Some((bytes, PackedBlock { entry, bytes: length }))
        })
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{BLOCK_BYTES, Expected, Geometry, LogicalBlock, Packer, PoolId};
    use thermocline_types::{Time, UnitId};

    use super::*;
    use crate::config::Config;
    use crate::write_cache::Staged;

    /// A block with the given packed size.
    #[derive(Clone, Debug)]
    struct Packs(usize);

    impl Payload for Packs {
        fn slice(&self, _first: u32, _blocks: u32) -> Packs {
            self.clone()
        }

        fn crc(&self, _index: u32) -> u32 {
            0
        }

        fn fill_zero(&self) {}

        fn copy_block(&self, _from: &Packs) {}

        fn pack(&self, _packer: &mut Packer, room: usize) -> Option<(Packs, u16)> {
            (self.0 <= room).then(|| (self.clone(), self.0 as u16))
        }

        fn unpack(&self, _index: u32, _expected: &Expected, _geometry: &Geometry) -> Option<Packs> {
            None
        }
    }

    /// Which block of a chunk is packed, and to how many bytes; and how many were tried.
    fn packed(block: LogicalBlock, bytes: &[usize]) -> (Option<(u32, u16)>, u64) {
        let geometry = Geometry::new(block, 2048, 64, [0, 1].map(UnitId)).expect("sound units");
        let mut p = Parts::new(Config::new(geometry), 1, PoolId([7; 16]));
        let slots: Vec<u32> = bytes
            .iter()
            .map(|bytes| p.cache.push(Staged::of_class(0, Packs(*bytes)), Time::ZERO))
            .collect();
        let packed = Sealer::default().pack_one(&mut p, &slots);
        let said = packed.map(|(_, said)| (u32::from(said.entry), said.bytes));
        (said, p.stats.pack_tried_blocks)
    }

    #[test]
    fn the_first_block_that_packs_is_packed_into_the_header_of_a_short_chunk() {
        let wide = BLOCK_BYTES;
        let full = LogicalBlock::B4096;
        assert_eq!(packed(full, &[900, 800]), (Some((0, 900)), 1));
        assert_eq!(packed(full, &[wide, wide, wide, 800]), (Some((3, 800)), 4));
        assert_eq!(packed(full, &[wide, wide, wide, wide, 800]), (None, TRIED as u64));
        assert_eq!(packed(full, &[900; LONGEST]), (Some((0, 900)), 1));
        assert_eq!(packed(full, &[900; LONGEST + 1]), (None, 0));
        assert_eq!(packed(LogicalBlock::B512, &[0, 0]), (None, 0), "a header has no room");
    }
}
