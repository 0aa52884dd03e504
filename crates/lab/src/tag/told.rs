//! Handles given by an application that knows its files: by volume, or by a hint of data lifetime.
//!
//! Handles do not change while writes are served. The application's knowledge is derived from the workload in advance:
//!
//! * With several tenants, each tenant is a volume, and the writes of each volume are known exactly.
//! * A block trace without file names has one tenant. Each mebibyte of addresses is then classified as a [`Kind`] by
//!   the writes of one pass over the trace. Each kind is a volume, as an administrator might divide data: log, double
//!   write buffer, files written once, large and small pages.

use thermocline_types::{Bytes, Request};

use crate::{Error, Prepared};

/// The hint that the application gives with each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The volume: a handle for each tenant, or for each kind of data of a single one.
    Volume,
    /// How long the data lives, as one of four classes (`RWH_WRITE_LIFE_SHORT` to `_EXTREME` of Linux, fcntl(2)), the
    /// same for all of a volume. Linux defines the classes only relative to each other. Here a volume is rewritten at
    /// least 4 times as often as the mean block (short), at least as often (medium), half as often (long), or less
    /// (extreme). Chosen, not measured.
    Hint,
}

/// Blocks of a chunk, whose data is classified together: 1 MiB, small against files.
const CHUNK: u64 = 256;
/// Data rewritten at least this often in one pass is a small buffer for all other writes. InnoDB's double write buffer
/// is rewritten 86 times, its log 4 times. Chosen, as are the next three.
const BUFFER_REWRITES: f64 = 16.0;
/// Written once, but for a few blocks.
const ONCE_REWRITES: f64 = 1.25;
/// Share of sequential writes in the traffic of a log.
const LOG_CONTINUED: f64 = 0.9;
/// Blocks in one piece from which on pages are large: 64 KiB.
const LARGE_BLOCKS: f64 = 16.0;

/// Kind of data in a chunk of addresses, classified by the writes to the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Rewritten all the time.
    Buffer,
    /// Rewritten from front to back.
    Log,
    /// Rewritten anywhere, little at once.
    SmallPages,
    /// Rewritten anywhere, much at once.
    LargePages,
    /// Not rewritten.
    Once,
}

/// The kinds, in the order of their handles.
const KINDS: [Kind; 5] = [Kind::Buffer, Kind::Log, Kind::SmallPages, Kind::LargePages, Kind::Once];

/// Write traffic to a part of the addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    /// Blocks written, and how many different ones.
    blocks: u64,
    distinct: u64,
    /// Writes, and sequential writes: a sequential write starts at the end of the previous write to the part.
    writes: u64,
    continued: u64,
}

impl Traffic {
    fn add(&mut self, other: Traffic) {
        self.blocks += other.blocks;
        self.distinct += other.distinct;
        self.writes += other.writes;
        self.continued += other.continued;
    }

    /// How often each block is written, in the mean.
    fn rewrites(&self) -> f64 {
        self.blocks as f64 / self.distinct.max(1) as f64
    }

    fn kind(&self) -> Kind {
        let per_write = |count: u64| count as f64 / self.writes.max(1) as f64;
        match self.rewrites() {
            often if often >= BUFFER_REWRITES => Kind::Buffer,
            once if once < ONCE_REWRITES => Kind::Once,
            _ if per_write(self.continued) >= LOG_CONTINUED => Kind::Log,
            _ if per_write(self.blocks) >= LARGE_BLOCKS => Kind::LargePages,
            _ => Kind::SmallPages,
        }
    }

    /// The class of lifetime where the mean block is written `mean` times: 0 is short, 3 extreme.
    fn life(&self, mean: f64) -> u16 {
        match self.rewrites() / mean {
            short if short >= 4.0 => 0,
            medium if medium >= 1.0 => 1,
            long if long >= 0.5 => 2,
            _ => 3,
        }
    }
}

/// The handle of every write, known in advance.
#[derive(Debug)]
pub(crate) struct Known {
    /// The volume of each chunk; empty where the tenant is the volume.
    chunks: Vec<u8>,
    /// The handle of each volume.
    handles: Vec<u16>,
}

impl Known {
    /// The hints of the application behind `workload`.
    ///
    /// # Errors
    /// Errors of reading the workload.
    pub(crate) fn new(workload: &mut Prepared, told: Told) -> Result<Known, Error> {
        let tenants = workload.tenants().len();
        let mut seen = Seen::new(workload.room().span, tenants);
        workload.look_ahead(|write| seen.write(write))?;
        Ok(seen.known(told))
    }

    /// The handle of a write.
    #[inline]
    pub(crate) fn handle(&self, write: &Request) -> u16 {
        let volume = if self.chunks.is_empty() {
            write.tenant.0 as usize
        } else {
            let chunk = (write.offset.0 / Bytes::BLOCK.0 / CHUNK) as usize;
            self.chunks.get(chunk).map_or(0, |&kind| usize::from(kind))
        };
        self.handles.get(volume).copied().unwrap_or(0)
    }
}

/// Writes of one pass over the workload.
struct Seen {
    by_tenant: bool,
    /// By tenant, or by chunk.
    parts: Vec<Traffic>,
    /// Where the last write to each chunk ended, in blocks.
    ends: Vec<u64>,
    /// A bit for each block written.
    written: Vec<u64>,
}

impl Seen {
    fn new(footprint: Bytes, tenants: usize) -> Seen {
        let blocks = footprint.div_ceil(Bytes::BLOCK);
        let chunks = blocks.div_ceil(CHUNK) as usize;
        let by_tenant = tenants > 1;
        Seen {
            by_tenant,
            parts: vec![Traffic::default(); if by_tenant { tenants } else { chunks }],
            ends: vec![u64::MAX; chunks],
            written: vec![0; blocks.div_ceil(64) as usize],
        }
    }

    /// Notes a write, cut where chunks end.
    fn write(&mut self, write: &Request) {
        let mut from = write.offset.0 / Bytes::BLOCK.0;
        let end = write.end().div_ceil(Bytes::BLOCK);
        while from < end {
            let chunk = (from / CHUNK) as usize;
            let to = end.min((from / CHUNK + 1) * CHUNK);
            let part = if self.by_tenant { write.tenant.0 as usize } else { chunk };
            let traffic = Traffic {
                blocks: to - from,
                distinct: self.note(from, to),
                writes: 1,
                continued: u64::from(self.continues(chunk, from)),
            };
            self.parts[part].add(traffic);
            self.ends[chunk] = to;
            from = to;
        }
    }

    /// Whether a write from block `from` goes on where the last one to its chunk ended, or wrote its last block only in
    /// part; at the start of a chunk, that of the chunk before.
    fn continues(&self, chunk: usize, from: u64) -> bool {
        let goes_on = |end: u64| end == from || end == from + 1;
        let crosses = from.is_multiple_of(CHUNK) && chunk > 0 && self.ends[chunk - 1] == from;
        goes_on(self.ends[chunk]) || crosses
    }

    /// Marks blocks as written and counts blocks written for the first time.
    fn note(&mut self, from: u64, to: u64) -> u64 {
        let mut new = 0;
        for block in from..to {
            let (word, bit) = (&mut self.written[(block / 64) as usize], 1 << (block % 64));
            new += u64::from(*word & bit == 0);
            *word |= bit;
        }
        new
    }

    fn known(self, told: Told) -> Known {
        let (chunks, volumes) = if self.by_tenant {
            (Vec::new(), self.parts)
        } else {
            let mut volumes = vec![Traffic::default(); KINDS.len()];
            let chunks = self.parts.iter().map(|part| {
                let kind = part.kind() as u8;
                volumes[usize::from(kind)].add(*part);
                kind
            });
            (chunks.collect(), volumes)
        };
        let mut all = Traffic::default();
        volumes.iter().for_each(|volume| all.add(*volume));
        let handles = match told {
            Told::Volume => (0..volumes.len() as u16).collect(),
            Told::Hint => volumes.iter().map(|volume| volume.life(all.rewrites())).collect(),
        };
        Known { chunks, handles }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::{Op, StreamId, TenantId, Time};
    use thermocline_workload::synthetic::{Limit, Options, Spec};

    use super::*;
    use crate::Input;

    fn write(block: u64, blocks: u64) -> Request {
        Request {
            at: Time::ZERO,
            offset: Bytes(block * Bytes::BLOCK.0),
            length: Bytes(blocks * Bytes::BLOCK.0),
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            op: Op::Write,
            outstanding: None,
        }
    }

    /// One of each kind in chunks of their own, in an order that is not theirs.
    fn an_application() -> Seen {
        let mut seen = Seen::new(Bytes(6 * CHUNK * Bytes::BLOCK.0), 0);
        let chunk = |index: u64| index * CHUNK;
        seen.write(&write(chunk(0), CHUNK));
        for round in 0..3 {
            // A log over two chunks, the last block of each write written again with the next.
            for block in (0..2 * CHUNK - 8).step_by(7) {
                seen.write(&write(chunk(1) + block, 8));
            }
            for page in 0..CHUNK / 4 {
                seen.write(&write(chunk(3) + (page * 37 + round) % (CHUNK / 4) * 4, 4));
            }
            for page in 0..CHUNK / 32 {
                seen.write(&write(chunk(4) + (page * 5 + round) % (CHUNK / 32) * 32, 32));
            }
            (0..40).for_each(|_| seen.write(&write(chunk(5), 16)));
        }
        seen
    }

    #[test]
    fn kinds_are_told_by_rewrites_order_and_size() {
        let known = an_application().known(Told::Volume);
        let kinds: Vec<Kind> = known.chunks.iter().map(|&kind| KINDS[usize::from(kind)]).collect();
        let expected =
            [Kind::Once, Kind::Log, Kind::Log, Kind::SmallPages, Kind::LargePages, Kind::Buffer];
        assert_eq!(kinds, expected);
        // Handles are those of the kinds; a write belongs where it begins.
        let handle = |block| known.handle(&write(block, CHUNK));
        assert_eq!([handle(0), handle(CHUNK), handle(5 * CHUNK + 3)], [4, 1, 0]);
        assert_eq!(KINDS.map(|kind| KINDS[kind as usize]), KINDS);
    }

    #[test]
    fn hints_are_relative_to_the_mean_and_shared_by_volumes() {
        let known = an_application().known(Told::Hint);
        // 256 blocks once, 768 and 511 of the log three times each, 16 blocks 120 times: 4.6 times in the mean.
        assert_eq!(known.handles, [0, 2, 2, 2, 3]);
    }

    #[test]
    fn tenants_are_volumes_whatever_they_write() {
        let spec =
            "tenant = [{workload='seq', span='1MiB', share=8}, {workload='uniform', span='7MiB'}]";
        let options = Options::new(Bytes::mib(8), Limit::Writes(20_000));
        let input = Input::Synthetic { spec: Spec::from_toml(spec).unwrap(), options };
        let mut workload = Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
        let second = Request { tenant: TenantId(1), ..write(0, 1) };
        let volume = Known::new(&mut workload, Told::Volume).unwrap();
        assert_eq!([volume.handle(&write(0, 1)), volume.handle(&second)], [0, 1]);
        // 8 of 9 writes to 1 MiB of 8, which is 7.1 times the mean; the others at 0.13 of it.
        let hint = Known::new(&mut workload, Told::Hint).unwrap();
        assert_eq!([hint.handle(&write(0, 1)), hint.handle(&second)], [0, 3]);
    }
}
