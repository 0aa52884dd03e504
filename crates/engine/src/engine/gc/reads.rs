//! Reading what is valid of a segment of a victim.

use std::ops::Range;

use thermocline_types::Version;

use super::{Collector, Reading, Step, Valid};
use crate::config::ReadPlan;
use crate::device::DeviceCmd;
use crate::engine::{Op, Parts};
use crate::payload::Payload;

impl<P: Payload> Collector<P> {
    pub(super) fn segment_blocks(&self, p: &Parts<P>) -> u32 {
        let block = p.config.geometry.logical_block().bytes() as u64;
        (p.config.gc.segment_bytes / block).clamp(1, u64::from(p.config.geometry.blocks_per_unit()))
            as u32
    }

    /// Reads the valid blocks of the segment that are not in memory yet, while the next one is looked through.
    pub(super) fn read_valid(&mut self, p: &mut Parts<P>) -> bool {
        let per_block = p.config.geometry.logical_block().per_block();
        let segment = self.segment_blocks(p);
        let mut job = self.job.take().expect("a job is at this step");
        let mut valid = std::mem::take(&mut job.valid);
        valid.sort_unstable_by_key(|valid| valid.at.block);
        let utilisation = (valid.len() as f32 / (segment / per_block).max(1) as f32).min(1.0);
        let reads = self.plan_reads(p, &valid);
        for range in &reads {
            self.read_range(p, &valid[range.clone()], job.segments, range.start);
        }
        let (number, left) = (job.segments, reads.len() as u32);
        job.reading.push_back(Reading { segment: number, valid, reads, left, utilisation });
        job.segments += 1;
        job.segment_end = (job.next + segment).min(job.end);
        let over = job.next >= job.end && !job.is_behind();
        job.step = if over { Step::Done } else { Step::Walk(job.next) };
        self.job = Some(job);
        true
    }

    /// Reads a run of valid blocks of a segment; `first` is the index of the first.
    pub(super) fn read_range(
        &mut self,
        p: &mut Parts<P>,
        run: &[Valid<P>],
        segment: u32,
        first: usize,
    ) {
        let per_block = p.config.geometry.logical_block().per_block();
        let (at, last) = (run[0].at, run[run.len() - 1].at);
        let blocks = (last.block - at.block) / per_block + 1;
        p.stats.gc_reads += 1;
        p.stats.gc_bytes_read += u64::from(blocks) * 4096;
        let op = p.ops.insert(Op::GcRead { segment, first });
        p.device(op, DeviceCmd::Read { at, blocks, into: None, version: Version::AS_READ });
    }

    /// Runs of valid blocks, as indices, each to be read by one command.
    fn plan_reads(&self, p: &Parts<P>, valid: &[Valid<P>]) -> Vec<Range<usize>> {
        let block = p.config.geometry.logical_block();
        let gap = match p.config.gc.read_plan {
            ReadPlan::Basic => 0,
            ReadPlan::Segment => u32::MAX,
            ReadPlan::Cost { command_bytes } => command_bytes,
        };
        let most = p.config.gc.read_bytes.max(4096);
        let mut reads: Vec<Range<usize>> = Vec::new();
        for (index, next) in valid.iter().enumerate().filter(|(_, valid)| valid.payload.is_none()) {
            if let Some(last) = reads.last_mut() {
                let (head, tail) = (&valid[last.start], &valid[last.end - 1]);
                let between =
                    (next.at.block - tail.at.block - block.per_block()) * block.bytes() as u32;
                let whole =
                    (next.at.block - head.at.block + block.per_block()) * block.bytes() as u32;
                let basic = p.config.gc.read_plan == ReadPlan::Basic;
                if next.chunk == tail.chunk && between <= gap && whole <= most && !basic {
                    last.end = index + 1;
                    continue;
                }
            }
            reads.push(index..index + 1);
        }
        reads
    }
}
