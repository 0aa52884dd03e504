//! Which 4 KiB blocks of the device a workload writes, in order of first touch.

use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};

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
    live: Live,
}

/// Blocks that were written and not trimmed since.
#[derive(Debug, Default)]
struct Live {
    /// A bit for each block by its number in order of first touch; nothing before the first trim, as all are live then.
    bits: Option<Vec<u64>>,
    now: u64,
    most: u64,
}

/// Neighbouring blocks that a single tenant touched in sequence.
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

    /// The most blocks that were written and not trimmed at any time.
    pub fn most_live(&self) -> u64 {
        self.live.most
    }

    /// Notes a write to the device.
    pub fn touch(&mut self, write: &Request, seen: &mut Seen) -> Result<(), MapError> {
        let range = write.offset.get() / BLOCK..write.end().div_ceil(Bytes::BLOCK);
        match seen {
            Seen::Numbered => {
                let start = range.start.max(self.blocks);
                self.push(start, range.end.saturating_sub(start), write.tenant);
                self.live.write(range);
            }
            Seen::Any(blocks) => {
                for block in range {
                    let full = |Full| MapError::TooManyGranules { granule: Bytes::BLOCK };
                    let (number, new) = blocks.insert(TenantId(0), block).map_err(full)?;
                    if new {
                        self.push(block, 1, write.tenant);
                    }
                    self.live.write(u64::from(number)..u64::from(number) + 1);
                }
            }
        }
        self.live.most = self.live.most.max(self.live.now);
        Ok(())
    }

    /// Notes a trim of the device.
    pub fn trim(&mut self, trim: &Request, seen: &Seen) {
        let (first, end) = (trim.offset.div_ceil(Bytes::BLOCK), trim.end().get() / BLOCK);
        if first >= end {
            return;
        }
        match seen {
            Seen::Numbered => self.live.trim(first..end.min(self.blocks)),
            Seen::Any(blocks) => {
                for block in blocks.present(TenantId(0), first, end - 1) {
                    let number = blocks.get(TenantId(0), block).map_or(0, u64::from);
                    self.live.trim(number..number + 1);
                }
            }
        }
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
                stream: StreamId::UNKNOWN,
                op: Op::Write,
                outstanding: None,
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

impl Live {
    /// Blocks of these numbers are written, those that are new last of all.
    fn write(&mut self, numbers: std::ops::Range<u64>) {
        let Some(bits) = &mut self.bits else {
            self.now = self.now.max(numbers.end);
            return;
        };
        bits.resize(bits.len().max(numbers.end.div_ceil(64) as usize), 0);
        for number in numbers {
            let (word, bit) = (&mut bits[(number / 64) as usize], 1 << (number % 64));
            self.now += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    fn trim(&mut self, numbers: std::ops::Range<u64>) {
        let now = self.now;
        let bits = self.bits.get_or_insert_with(|| {
            let whole = vec![u64::MAX; (now / 64) as usize];
            whole.into_iter().chain([(1 << (now % 64)) - 1]).collect()
        });
        for number in numbers {
            let (word, bit) = (&mut bits[(number / 64) as usize], 1 << (number % 64));
            self.now -= u64::from(*word & bit != 0);
            *word &= !bit;
        }
    }
}
