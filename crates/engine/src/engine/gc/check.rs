//! Whether blocks that were read of a victim are those that the map means.

use std::ops::Range;

use thermocline_format::{Location, home_mark};
use thermocline_types::Lba;

use super::Valid;
use crate::bugs::bug;
use crate::engine::Parts;
use crate::engine::gc::Collector;
use crate::payload::Payload;

impl<P: Payload> Collector<P> {
    /// Where a read of the victim begins.
    pub(crate) fn read_at(&self, segment: u32, first: usize) -> Option<Location> {
        let (valid, range) = self.read_of(segment, first)?;
        Some(valid[range.start].at)
    }

    /// The blocks of a read of the victim, those between valid ones included.
    pub(crate) fn blocks_of(&self, p: &Parts<P>, segment: u32, first: usize) -> u32 {
        let per_block = p.config.geometry.logical_block().per_block();
        let Some((valid, range)) = self.read_of(segment, first) else { return 0 };
        (valid[range.end - 1].at.block - valid[range.start].at.block) / per_block + 1
    }

    /// Whether block `index` of a read of the victim, which is block `nth` of `data`, is right if it is valid.
    pub(crate) fn block_is_right(
        &self,
        p: &Parts<P>,
        (segment, first): (u32, usize),
        index: u32,
        data: &P,
        nth: u32,
    ) -> bool {
        let per_block = p.config.geometry.logical_block().per_block();
        let Some((valid, range)) = self.read_of(segment, first) else { return true };
        let at = valid[range.start].at.block + index * per_block;
        let block = valid[range].iter().find(|valid| valid.at.block == at);
        let block = block.filter(|valid| valid.payload.is_none());
        block.is_none_or(|valid| self.is_survivor(p, valid, data, nth))
    }

    /// The blocks of a segment that is being read, and those of one read.
    fn read_of(&self, segment: u32, first: usize) -> Option<(&[Valid<P>], Range<usize>)> {
        let job = self.job.as_ref()?;
        let reading = job.reading.iter().find(|reading| reading.segment == segment)?;
        let range = reading.reads.iter().find(|range| range.start == first)?;
        Some((&reading.valid, range.clone()))
    }

    /// Whether block `nth` of `data` is the valid block that it should be.
    pub(super) fn is_survivor(&self, p: &Parts<P>, valid: &Valid<P>, data: &P, nth: u32) -> bool {
        let home = home_mark(valid.id, Lba(valid.lba));
        p.arrived(data, nth, valid.at, |crc| {
            let crc = crc ^ home;
            bug!(p.config, CopyUnverified)
                || crc == valid.crc
                || valid.value.matches(crc) && valid.crc == valid.value.tag()
        })
    }
}
