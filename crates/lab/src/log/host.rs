//! Requests of the workload as requests that the engine takes: whole blocks of 4 KiB, at most 255 at once.

use thermocline_engine::{Extent, HostRequest, MAX_IO_BLOCKS};
use thermocline_format::VolumeId;
use thermocline_types::{Bytes, Op, Request, TenantId, Time};

use super::payload::PackDraw;

/// Something to be asked of the engine.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// Read blocks.
    Read(BlockRange),
    /// Write blocks, with a placement handle.
    Write(BlockRange, u16),
    /// Forget blocks.
    Trim(BlockRange),
    /// Make completed writes durable.
    Flush,
}

/// Consecutive blocks of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// The first.
    pub lba: u64,
    /// How many.
    pub blocks: u64,
}

impl Ask {
    /// The request to the engine; `data` is the payload of a write.
    pub fn request(self, volume: VolumeId, data: PackDraw) -> HostRequest<PackDraw> {
        let extent = |run: BlockRange| Extent { volume, lba: run.lba, blocks: run.blocks };
        match self {
            Ask::Read(run) => HostRequest::Read { extent: extent(run), into: data },
            Ask::Write(run, handle) => {
                HostRequest::Write { extent: extent(run), data, fua: false, handle }
            }
            Ask::Trim(run) => HostRequest::Trim { extent: extent(run), fua: false },
            Ask::Flush => HostRequest::Flush,
        }
    }
}

/// A request of the workload in work.
#[derive(Debug)]
pub struct Pending {
    /// When it arrived.
    pub arrival: Time,
    /// What was asked.
    pub op: Op,
    /// By whom.
    pub tenant: TenantId,
    /// Engine requests still in flight for the request.
    pub left: u32,
    /// Writes to submit when the rest of the first and last blocks has been read.
    pub then: Vec<(BlockRange, u16)>,
}

/// What a piece of a request comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The blocks.
    pub run: BlockRange,
    /// The first and last block, as far as only a part of them is covered.
    pub partial: [Option<u64>; 2],
}

impl Whole {
    /// The blocks that `request` covers at least in part.
    pub fn around(request: &Request) -> Whole {
        let block = Bytes::BLOCK.0;
        let (first, end) = (request.offset.0 / block, request.end().0.div_ceil(block));
        let head = !request.offset.0.is_multiple_of(block);
        let one = head && end == first + 1;
        let tail = !one && !request.end().0.is_multiple_of(block);
        Whole {
            run: BlockRange { lba: first, blocks: end - first },
            partial: [head.then_some(first), tail.then(|| end - 1)],
        }
    }

    /// The blocks that `request` covers whole.
    pub fn inside(request: &Request) -> BlockRange {
        let block = Bytes::BLOCK.0;
        let (first, end) = (request.offset.0.div_ceil(block), request.end().0 / block);
        BlockRange { lba: first, blocks: end.saturating_sub(first) }
    }
}

/// A run in parts that the engine takes at once.
pub fn parts(run: BlockRange) -> impl Iterator<Item = BlockRange> {
    let end = run.lba + run.blocks;
    (run.lba..end)
        .step_by(MAX_IO_BLOCKS as usize)
        .map(move |lba| BlockRange { lba, blocks: MAX_IO_BLOCKS.min(end - lba) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_types::{StreamId, TenantId};

    fn around(offset: u64, length: u64) -> (u64, u64, [Option<u64>; 2]) {
        let request = Request {
            at: Time::ZERO,
            offset: Bytes(offset),
            length: Bytes(length),
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            op: Op::Write,
            outstanding: None,
        };
        let whole = Whole::around(&request);
        (whole.run.lba, whole.run.blocks, whole.partial)
    }

    #[test]
    fn only_blocks_covered_in_part_are_read_first() {
        assert_eq!(around(4096, 8192), (1, 2, [None, None]));
        assert_eq!(around(4608, 512), (1, 1, [Some(1), None]));
        assert_eq!(around(4096, 512), (1, 1, [None, Some(1)]));
        assert_eq!(around(4608, 8192), (1, 3, [Some(1), Some(3)]));
    }

    #[test]
    fn long_runs_are_cut() {
        let lengths: Vec<u64> =
            parts(BlockRange { lba: 5, blocks: 600 }).map(|part| part.blocks).collect();
        assert_eq!(lengths, [255, 255, 90]);
    }
}
