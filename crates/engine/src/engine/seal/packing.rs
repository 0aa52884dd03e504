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
