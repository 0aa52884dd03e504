//! Reading structures that a recovery looks for: what is on media becomes bytes, and `wire` finds what is in them.

use std::sync::Arc;

use thermocline_engine::{DeviceError, Done, FoundChunk, FoundChunks, ReadChunks, wire};
use thermocline_format::{ChunkHeader, Location};

use super::Disk;
use crate::data::{Data, SECTOR_BYTES, SECTORS_PER_BLOCK, Sector};

impl Disk {
    pub(super) fn read_chunks(&self, read: &ReadChunks) -> Result<Done<Data>, DeviceError> {
        self.readable(read.at.unit)?;
        let geometry = &self.cache.media().geometry;
        let window = read.window.min(geometry.blocks_per_unit() - read.at.block);
        let sectors = &*self.cache.read(read.at, window);
        let mut bytes = Vec::with_capacity(sectors.len() * SECTOR_BYTES);
        self.arena.copy_out(sectors, &mut bytes);
        let found = wire::find_chunks(&bytes, read, geometry);
        let unpacked = |header: &ChunkHeader| {
            let block = wire::unpacked(&bytes, read, header, geometry).filter(|_| read.data)?;
            Some(Data::new(&self.arena, [self.arena.bytes(&block[..])].into_iter()))
        };
        let chunks = found.chunks.into_iter().map(|(header, range)| FoundChunk {
            packed: unpacked(&header),
            header: Arc::new(header),
            data: read
                .data
                .then(|| self.run(&sectors[range.start / SECTOR_BYTES..range.end / SECTOR_BYTES])),
        });
        Ok(Done::Chunks(FoundChunks {
            chunks: chunks.collect(),
            next: found.next,
            unsound: found.unsound,
            newest: found.newest,
        }))
    }

    pub(super) fn read_superblocks(&self) -> Result<Done<Data>, DeviceError> {
        let geometry = &self.cache.media().geometry;
        let mut bytes = Vec::new();
        let mut records = Vec::new();
        for unit in geometry.all_superblock_units() {
            self.readable(unit)?;
            bytes.clear();
            let sectors = self.cache.current().unit(unit);
            // Behind the last byte that is not zero there is no record.
            let used = sectors.iter().rposition(|&sector| sector != Sector::ZEROS);
            let used = used.map_or(0, |last| last as u32 + 1);
            let blocks = used.div_ceil(self.cache.media().sectors_per_logical());
            let sectors = self.cache.current().logical(Location { unit, block: 0 }, blocks);
            self.arena.copy_out(sectors, &mut bytes);
            records.extend(wire::find_superblocks(&bytes, unit, None, geometry));
        }
        Ok(Done::Superblocks(records))
    }

    /// The handle of the blocks that `sectors` hold, and their number.
    fn run(&self, sectors: &[Sector]) -> (Data, u32) {
        let blocks = sectors.chunks_exact(SECTORS_PER_BLOCK).map(|block| self.arena.gather(block));
        let data = Data::new(&self.arena, blocks);
        (data, (sectors.len() / SECTORS_PER_BLOCK) as u32)
    }
}
