//! Which 4 KiB blocks of the device a workload writes, in order of first touch.

use thermocline_types::{Bytes, Op, Request, TenantId, Time};

use super::MapError;
use crate::granule::{Full, GranuleMap};

const BLOCK: u64 = Bytes::BLOCK.get();

/// The longest write of the prefill. Chosen, not measured.
const PREFILL_MAX: u64 = 1 << 20;

/// Blocks in order of first touch, neighbours in runs.
#[derive(Debug, Default)]
pub(super) struct FirstTouch {
    runs: Vec<Run>,
    blocks: u64,
}

/// Neighbouring blocks that one tenant touched one after the other.
#[derive(Debug)]
struct Run {
    start: u64,
    blocks: u64,
    tenant: TenantId,
}

/// How a block that was touched before is recognised.
pub(super) enum Seen {
    /// Blocks come numbered by first touch, so the new ones lie above all others.
    Numbered,
    /// Blocks come in any order and are remembered.
    Any(GranuleMap),
}

impl FirstTouch {
    /// How many blocks were touched.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Notes a write to the device.
    pub fn touch(&mut self, write: &Request, seen: &mut Seen) -> Result<(), MapError> {
        let range = write.offset.get() / BLOCK..write.end().div_ceil(Bytes::BLOCK);
        match seen {
            Seen::Numbered => {
                let start = range.start.max(self.blocks);
                self.push(start, range.end.saturating_sub(start), write.tenant);
            }
            Seen::Any(blocks) => {
                for block in range {
                    let full = |Full| MapError::TooManyGranules { granule: Bytes::BLOCK };
                    if blocks.insert(TenantId(0), block).map_err(full)?.1 {
                        self.push(block, 1, write.tenant);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes in whole blocks, in order of first touch, each block once.
    pub fn writes(&self) -> impl Iterator<Item = Request> + '_ {
        self.runs.iter().flat_map(|run| {
            let (start, end) = (run.start * BLOCK, (run.start + run.blocks) * BLOCK);
            (start..end).step_by(PREFILL_MAX as usize).map(move |offset| Request {
                at: Time::ZERO,
                offset: Bytes(offset),
                length: Bytes(PREFILL_MAX.min(end - offset)),
                tenant: run.tenant,
                op: Op::Write,
            })
        })
    }

    fn push(&mut self, start: u64, blocks: u64, tenant: TenantId) {
        if blocks == 0 {
            return;
        }
        self.blocks += blocks;
        match self.runs.last_mut() {
            Some(run) if run.start + run.blocks == start && run.tenant == tenant => {
                run.blocks += blocks;
            }
            _ => self.runs.push(Run { start, blocks, tenant }),
        }
    }
}
