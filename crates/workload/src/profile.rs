//! What a workload is made of, in one pass: for `lab analyze`.
//!
//! Invariants:
//! * Memory is 8 bytes per distinct 4 KiB block written plus the block index (about 5 bytes where the working set is
//!   contiguous), whatever the length of the workload.
//! * Nothing is sampled or estimated except the Zipf fit.

mod blocks;
mod streams;

use serde::Serialize;
use thermocline_types::{Bytes, Op, Request};

use crate::remap::MapError;
use crate::{BATCH, Source};

use blocks::Blocks;
use streams::Streams;

/// What a workload is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// How many requests there are.
    pub requests: u64,
    /// From the first request to the last, in seconds.
    pub duration_s: f64,
    /// One past the last byte addressed.
    pub span_bytes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Size of all different 4 KiB blocks written, wholly or in part.
    pub working_set_bytes: u64,
    /// How often the working set is written over: bytes written / working set. 0 without writes.
    pub writes_per_working_set: f64,
    /// Bytes written per day at the trace's pace; `None` if the trace lasts less than a second.
    pub daily_bytes_written: Option<f64>,
    /// Share of the written bytes whose request starts where one of the last 16 streams of its tenant ended.
    pub sequential_share: f64,
    /// Requests by kind, in a fixed order, kinds that do not occur included.
    pub operations: Vec<OperationProfile>,
    /// How writes are aligned.
    pub alignment: Vec<AlignmentShare>,
    /// How soon written blocks are written again.
    pub rewrites: RewriteIntervals,
    /// How unevenly blocks are written.
    pub skew: Skew,
    /// The same by tenant, in order of tenant number.
    pub tenants: Vec<TenantProfile>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationProfile {
    /// `read`, `write`, `write_zeroes`, `trim` or `flush`.
    pub operation: &'static str,
    /// How many.
    pub requests: u64,
    /// How many bytes they address.
    pub bytes: u64,
    /// Share of all requests.
    pub share_of_requests: f64,
    /// Their sizes by powers of two, empty classes left out.
    pub sizes: Vec<SizeClass>,
}

/// Requests larger than half of `bytes_max` and at most that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// The largest size of the class.
    pub bytes_max: u64,
    /// How many requests.
    pub requests: u64,
    /// How many bytes they address.
    pub bytes: u64,
}

/// Writes whose offset and length are both multiples of `alignment_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AlignmentShare {
    /// The alignment.
    pub alignment_bytes: u64,
    /// Share of the writes.
    pub share_of_writes: f64,
    /// Share of the written bytes.
    pub share_of_bytes: f64,
}

/// How much is written, over all addresses, between two writes of the same 4 KiB block.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RewriteIntervals {
    /// Block writes to blocks not written before.
    pub first_writes: u64,
    /// Block writes to blocks written before; the sum of all classes.
    pub rewrites: u64,
    /// Rewrites by interval, in powers of two from 4 KiB, empty classes at the end left out.
    pub classes: Vec<IntervalClass>,
}

/// Rewrites after at least `bytes_min` and less than twice that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IntervalClass {
    /// The shortest interval of the class, in bytes written (counted in whole 4 KiB blocks).
    pub bytes_min: u64,
    /// How many block rewrites.
    pub blocks: u64,
}

/// How unevenly 4 KiB blocks are written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Skew {
    /// Share of the block writes that go to the hottest blocks.
    pub hottest: Vec<HotShare>,
    /// Exponent of the power law fitted to write count over rank (0 is uniform), by least squares on the logarithms
    /// at ranks a quarter octave apart, so that the many cold blocks do not outvote the few hot ones. `None` below
    /// eight distinct ranks.
    pub zipf_theta: Option<f64>,
    /// Share of the variance of the logarithms that the power law explains; `None` without a fit, or without variance.
    pub zipf_r2: Option<f64>,
}

/// The hottest blocks' share of writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HotShare {
    /// Share of the blocks ever written, rounded up to whole blocks.
    pub share_of_blocks: f64,
    /// Share of the block writes.
    pub share_of_writes: f64,
}

/// One tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TenantProfile {
    /// Its number.
    pub tenant: u32,
    /// All its requests.
    pub requests: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes trimmed or written as zeroes.
    pub bytes_trimmed: u64,
    /// Flushes.
    pub flushes: u64,
    /// Size of all different 4 KiB blocks written.
    pub working_set_bytes: u64,
    /// As [`Profile::sequential_share`].
    pub sequential_share: f64,
}

impl TenantProfile {
    /// All of several tenants together, with the number of none.
    #[must_use]
    pub fn sum(tenants: &[TenantProfile]) -> TenantProfile {
        let sum = |of: fn(&TenantProfile) -> u64| tenants.iter().map(of).sum::<u64>();
        let sequential =
            |tenant: &TenantProfile| tenant.sequential_share * tenant.bytes_written as f64;
        let bytes_written = sum(|tenant| tenant.bytes_written);
        TenantProfile {
            tenant: u32::MAX,
            requests: sum(|tenant| tenant.requests),
            bytes_read: sum(|tenant| tenant.bytes_read),
            bytes_written,
            bytes_trimmed: sum(|tenant| tenant.bytes_trimmed),
            flushes: sum(|tenant| tenant.flushes),
            working_set_bytes: sum(|tenant| tenant.working_set_bytes),
            sequential_share: tenants.iter().map(sequential).sum::<f64>()
                / bytes_written.max(1) as f64,
        }
    }
}

const OPERATIONS: [(Op, &str); 5] = [
    (Op::Read, "read"),
    (Op::Write, "write"),
    (Op::WriteZeroes, "write_zeroes"),
    (Op::Trim, "trim"),
    (Op::Flush, "flush"),
];

/// 4, 8, 16, 32 and 64 KiB, the mapping units of drives.
const ALIGNMENTS: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

const SECONDS_PER_DAY: f64 = 86_400.0;

impl Profile {
    /// Reads a whole workload.
    ///
    /// # Errors
    /// Those of the source, and [`MapError::TooManyGranules`] above 2^32 distinct blocks.
    pub fn of(source: &mut dyn Source) -> Result<Profile, MapError> {
        let mut pass = Pass::default();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            source.fill(&mut batch)?;
            if batch.is_empty() {
                return Ok(pass.finish());
            }
            for request in &batch {
                pass.add(request)?;
            }
        }
    }
}

/// The counters of one pass.
#[derive(Default)]
struct Pass {
    requests: u64,
    duration_s: f64,
    span: Bytes,
    /// Requests and bytes by kind and power of two.
    sizes: [Vec<(u64, u64)>; OPERATIONS.len()],
    aligned: [(u64, u64); ALIGNMENTS.len()],
    blocks: Blocks,
    tenants: Vec<Tenant>,
}

#[derive(Default)]
struct Tenant {
    counts: TenantProfile,
    streams: Streams,
    sequential_bytes: u64,
}

impl Pass {
    fn add(&mut self, request: &Request) -> Result<(), MapError> {
        self.requests += 1;
        self.duration_s = request.at.as_secs_f64();
        self.span = self.span.max(request.end());
        self.add_size(request);
        let tenant = self.tenant(request.tenant.0);
        tenant.counts.requests += 1;
        let length = request.length.get();
        match request.op {
            Op::Read => tenant.counts.bytes_read += length,
            Op::Trim | Op::WriteZeroes => tenant.counts.bytes_trimmed += length,
            Op::Flush => tenant.counts.flushes += 1,
            Op::Write => {
                tenant.counts.bytes_written += length;
                if tenant.streams.continues(request.offset.get(), request.end().get()) {
                    tenant.sequential_bytes += length;
                }
                let fresh = self.blocks.write(request)?;
                self.tenant(request.tenant.0).counts.working_set_bytes += fresh * BLOCK;
                self.add_alignment(request);
            }
        }
        Ok(())
    }

    fn tenant(&mut self, id: u32) -> &mut Tenant {
        let index = id as usize;
        while self.tenants.len() <= index {
            let tenant = self.tenants.len() as u32;
            let counts = TenantProfile { tenant, ..TenantProfile::default() };
            self.tenants.push(Tenant { counts, ..Tenant::default() });
        }
        &mut self.tenants[index]
    }

    fn add_size(&mut self, request: &Request) {
        let length = request.length.get();
        let class = length.max(1).next_power_of_two().trailing_zeros() as usize;
        let kind = OPERATIONS.iter().position(|(op, _)| *op == request.op);
        let sizes = &mut self.sizes[kind.expect("OPERATIONS lists every kind")];
        if sizes.len() <= class {
            sizes.resize(class + 1, (0, 0));
        }
        sizes[class].0 += 1;
        sizes[class].1 += length;
    }

    fn add_alignment(&mut self, request: &Request) {
        let both = request.offset.get() | request.length.get();
        for (count, alignment) in self.aligned.iter_mut().zip(ALIGNMENTS) {
            if both.is_multiple_of(alignment) {
                count.0 += 1;
                count.1 += request.length.get();
            }
        }
    }

    fn finish(self) -> Profile {
        let operations = self.operations();
        let written = operations.iter().find(|o| o.operation == "write");
        let (writes, bytes_written) = written.map_or((0, 0), |o| (o.requests, o.bytes));
        let working_set_bytes = self.blocks.distinct() * BLOCK;
        let alignment = self.aligned.iter().zip(ALIGNMENTS).map(|(count, alignment_bytes)| {
            let (share_of_writes, share_of_bytes) =
                (ratio(count.0, writes), ratio(count.1, bytes_written));
            AlignmentShare { alignment_bytes, share_of_writes, share_of_bytes }
        });
        let sequential: u64 = self.tenants.iter().map(|tenant| tenant.sequential_bytes).sum();
        let per_day = SECONDS_PER_DAY / self.duration_s;
        Profile {
            requests: self.requests,
            duration_s: self.duration_s,
            span_bytes: self.span.get(),
            bytes_written,
            working_set_bytes,
            writes_per_working_set: ratio(bytes_written, working_set_bytes),
            daily_bytes_written: (self.duration_s >= 1.0).then_some(bytes_written as f64 * per_day),
            sequential_share: ratio(sequential, bytes_written),
            operations,
            alignment: alignment.collect(),
            rewrites: self.blocks.rewrites(),
            skew: self.blocks.skew(),
            tenants: self.tenants.iter().map(Tenant::profile).collect(),
        }
    }

    fn operations(&self) -> Vec<OperationProfile> {
        let kinds = self.sizes.iter().zip(OPERATIONS);
        kinds.map(|(sizes, (_, operation))| self.operation(operation, sizes)).collect()
    }

    fn operation(&self, operation: &'static str, sizes: &[(u64, u64)]) -> OperationProfile {
        let requests = sizes.iter().map(|class| class.0).sum();
        // Flushes have no size.
        let classes = sizes.iter().enumerate().filter(|(_, class)| class.1 > 0);
        OperationProfile {
            operation,
            requests,
            bytes: sizes.iter().map(|class| class.1).sum(),
            share_of_requests: ratio(requests, self.requests),
            sizes: classes
                .map(|(class, &(requests, bytes))| SizeClass {
                    bytes_max: 1 << class,
                    requests,
                    bytes,
                })
                .collect(),
        }
    }
}

impl Tenant {
    fn profile(&self) -> TenantProfile {
        let sequential_share = ratio(self.sequential_bytes, self.counts.bytes_written);
        TenantProfile { sequential_share, ..self.counts }
    }
}

const BLOCK: u64 = Bytes::BLOCK.get();

/// `part / whole`, 0 of nothing.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests;
