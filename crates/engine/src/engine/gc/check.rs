//! Checks the blocks read from a victim against the map.

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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use thermocline_format::{Geometry, LogicalBlock, VolumeId};
    use thermocline_types::{Class, UnitId};

    use super::*;
    use crate::config::Config;
    use crate::engine::gc::Reading;
    use crate::engine::parts::testing::{free, parts_of};
    use crate::map::Value;
    use crate::tier::Stays;

    const VOLUME: VolumeId = VolumeId(1);

    /// Parts of a pool in which a block takes eight logical ones.
    fn parts() -> Parts<()> {
        let geometry = Geometry::new(LogicalBlock::B512, 2048, 64, [0, 1].map(UnitId));
        parts_of(Config::new(geometry.expect("sound units")))
    }

    /// A block of the volume at the `nth` block of unit 9, whose checksum is `crc`.
    fn valid(geometry: &Geometry, nth: u32, lba: u64, crc: u32) -> Valid<()> {
        let at = Location { unit: UnitId(9), block: nth * 8 };
        let crc = crc ^ home_mark(VOLUME, Lba(lba));
        let value = Value::new(geometry.address(at), crc);
        let (volume, id, from, payload) = (0, VOLUME, Class(0), None);
        Valid { volume, id, from, crc, lba, value, at, payload, chunk: 1 }
    }

    /// A victim of which segment 3 is being read: blocks 10, 11 and 14 by one command, block 20 by another one.
    fn reading(p: &mut Parts<()>) -> Collector<()> {
        free(p, 9, 1);
        p.space.open(Class(0), thermocline_format::MediaClass::Capacity).expect("a free unit");
        p.space.end_chunk(Class(0), Location { unit: UnitId(9), block: 2048 });
        p.close_frontier(Class(0));
        let mut collector = Collector::new(Stays::new(0));
        collector.begin_job(p, UnitId(9));
        let of = |block, crc| valid(&p.config.geometry, block, block.into(), crc);
        let mut packed = of(11, 7);
        packed.payload = Some(());
        let valid = vec![of(10, 0), packed, of(14, 7), of(20, 0)];
        let reading =
            Reading { segment: 3, valid, reads: vec![0..3, 3..4], left: 2, utilisation: 1.0 };
        collector.job.as_mut().expect("it began").reading = VecDeque::from([reading]);
        collector
    }

    #[test]
    fn a_read_has_the_blocks_from_its_first_valid_one_to_its_last() {
        let mut p = parts();
        let collector = reading(&mut p);
        let read = |segment, first| {
            let at = collector.read_at(segment, first).map(|at| at.block);
            (at, collector.blocks_of(&p, segment, first))
        };
        assert_eq!(read(3, 0), (Some(80), 5));
        assert_eq!(read(3, 3), (Some(160), 1));
        assert_eq!([read(3, 1), read(2, 0)], [(None, 0), (None, 0)]);
    }

    #[test]
    fn a_block_is_wrong_only_if_it_is_valid_and_not_in_memory_and_fails_its_check() {
        let mut p = parts();
        let collector = reading(&mut p);
        // The checksum of every block here is 0.
        let right = |first, index| collector.block_is_right(&p, (3, first), index, &(), index);
        assert_eq!([0, 1, 2, 3, 4].map(|index| right(0, index)), [true, true, true, true, false]);
        assert!(right(3, 0) && right(1, 0));
    }
}
