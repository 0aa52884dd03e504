//! Payload of host blocks in the lab: one property per block, whether the block would pack.
//!
//! Bytes are not kept, so no block is actually packed. Whether a host block packs is drawn at the share of real pages
//! that pack. Copies never pack, because relocation fills chunks.

use thermocline_engine::Payload;
use thermocline_format::{Expected, Geometry, Packer};

/// The share of blocks that pack, unless `log.packs` says another. `docs/use/VALIDATION.md` names the pages behind the
/// share.
pub const PACKS: f64 = 1.0;

/// A run of blocks, each of which packs or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackDraw {
    /// The draw of the first block of the run.
    seed: u16,
    /// Blocks with a lower draw pack.
    below: u16,
    /// The tenant that wrote the run, numbered from 1; 0 for copies, or if tenants are not followed.
    writer: u16,
}

impl PackDraw {
    /// A run of the host's `write`-th request, of whose blocks the share `packs` packs.
    #[must_use]
    pub fn new(write: u64, packs: f64) -> PackDraw {
        // Weyl's sequence with the golden ratio spreads any stretch of it evenly.
        let seed = (write.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16;
        PackDraw { seed, below: (packs * f64::from(u16::MAX)) as u16, writer: 0 }
    }

    /// The same, written by `owner`.
    #[must_use]
    pub fn of(self, owner: u16) -> PackDraw {
        PackDraw { writer: owner.min(u16::MAX - 1) + 1, ..self }
    }

    /// The tenant that wrote the run; `None` for copies, or if tenants are not followed.
    #[must_use]
    pub fn writer(&self) -> Option<u16> {
        self.writer.checked_sub(1)
    }
}

impl Payload for PackDraw {
    #[inline]
    fn slice(&self, first: u32, _blocks: u32) -> PackDraw {
        PackDraw { seed: self.seed.wrapping_add((first as u16).wrapping_mul(40_503)), ..*self }
    }

    #[inline]
    fn crc(&self, _index: u32) -> u32 {
        0
    }

    #[inline]
    fn fill_zero(&self) {}

    #[inline]
    fn copy_block(&self, _from: &PackDraw) {}

    #[inline]
    fn pack(&self, _packer: &mut Packer, _room: usize) -> Option<(PackDraw, u16)> {
        (self.seed < self.below).then_some((PackDraw::default(), 1))
    }

    #[inline]
    fn unpack(&self, _index: u32, _expected: &Expected, _geometry: &Geometry) -> Option<PackDraw> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stated_share_packs_whether_blocks_come_alone_or_in_runs() {
        for packs in [0.0, 0.25, 0.9] {
            let does = |drawn: PackDraw| drawn.pack(&mut Packer::default(), 3968).is_some();
            let alone = (0..10_000).filter(|&write| does(PackDraw::new(write, packs))).count();
            let in_runs = (0..100).flat_map(|write| {
                let run = PackDraw::new(write, packs);
                (0..100).map(move |index| run.slice(index, 1))
            });
            let in_runs = in_runs.filter(|&block| does(block)).count();
            for count in [alone, in_runs] {
                let share = count as f64 / 10_000.0;
                assert!((share - packs).abs() < 0.01, "{share} of blocks packs, not {packs}");
            }
        }
    }
}
