//! Owners of the blocks written by a log.
//!
//! A host block names the writer ([`PackDraw::writer`]). Relocation copies only the newest version of a block. So the
//! ledger keeps only the owner and the place of the newest version.

use thermocline_engine::{Body, Chunk};
use thermocline_format::{BLOCK_BYTES, Entry, Geometry};
use thermocline_nand::OwnerRun;
use thermocline_types::Bytes;

use super::payload::PackDraw;
use crate::tenants::{LogOwned, push_run};

/// The newest version of a block is on the fast drive.
const FAST: u16 = 1 << 15;

/// Owners of the blocks of a volume, and bytes of blocks written by owner.
#[derive(Debug)]
pub struct OwnerLedger {
    count: u16,
    /// For each block of the volume: owner + 1, or 0 without an owner; combined with [`FAST`].
    blocks: Vec<u16>,
    written: Vec<LogOwned>,
    /// Those of the chunk at hand.
    runs: Vec<OwnerRun>,
}

impl OwnerLedger {
    /// Of `count` owners of a volume of so many blocks.
    pub fn new(count: u16, blocks: u64) -> OwnerLedger {
        assert!(count < FAST, "{count} owners");
        let written = vec![LogOwned::default(); usize::from(count) + 1];
        OwnerLedger { count, blocks: vec![0; blocks as usize], written, runs: Vec::new() }
    }

    /// Bytes of blocks written, by owner; unowned bytes are last.
    pub fn written(&self) -> &[LogOwned] {
        &self.written
    }

    /// Counts the blocks of a chunk for the fast or the capacity drive; returns the owners of the chunk's bytes, in
    /// order.
    pub fn chunk(
        &mut self,
        chunk: &Chunk<PackDraw>,
        fast: bool,
        geometry: &Geometry,
    ) -> &[OwnerRun] {
        self.runs.clear();
        let header = &chunk.header;
        let (at, block) = (header.origin.location, geometry.logical_block().bytes() as u64);
        let total = Bytes(u64::from(header.blocks) * block);
        let mut left = total - Bytes(header.header_bytes(geometry) as u64);
        self.runs.push((self.count, total - left));
        if let Body::User(payloads) = &chunk.body {
            let placed = header.placed(geometry).filter_map(|(entry, place)| Some((entry, place?)));
            for ((entry, place), payload) in placed.zip(payloads) {
                let owner = self.block(entry, payload, fast);
                if place == at {
                    self.runs[0].0 = owner;
                } else {
                    push_run(&mut self.runs, owner, Bytes(BLOCK_BYTES as u64));
                    left = left - Bytes(BLOCK_BYTES as u64);
                }
            }
        }
        push_run(&mut self.runs, self.count, left);
        &self.runs
    }

    /// Whose the bytes of a superblock record are: nobody's.
    pub fn record(&self, length: Bytes) -> [OwnerRun; 1] {
        [(self.count, length)]
    }

    /// Counts a block; returns its owner.
    fn block(&mut self, entry: &Entry, payload: &PackDraw, fast: bool) -> u16 {
        let Entry::Data { lba, .. } = entry else { return self.count };
        let newest = &mut self.blocks[lba.index()];
        let cause = match payload.writer() {
            Some(writer) => {
                *newest = if writer < self.count { writer + 1 } else { 0 };
                0
            }
            None if !fast && *newest & FAST != 0 => 1,
            None => 2,
        };
        let owner = (*newest & !FAST).checked_sub(1).unwrap_or(self.count);
        *newest = *newest & !FAST | if fast { FAST } else { 0 };
        self.written[usize::from(owner)][usize::from(fast)][cause] += BLOCK_BYTES as u64;
        owner
    }
}
