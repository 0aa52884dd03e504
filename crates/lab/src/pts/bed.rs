//! A stack on which one pattern after the other is run, for so many requests each.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use thermocline_types::{Bytes, Request, StreamId, TenantId, Time};
use thermocline_workload::Source as _;
use thermocline_workload::synthetic::{Generator, Limit, Options, Pattern, Spec};

use crate::byte_counts::ByteCounts;
use crate::jobs::{JobLimits, JobQueue};
use crate::meter::latency_histogram;
use crate::stack::Stack;
use crate::target::{Finished, Target};
use crate::{Error, Settings};

/// A pattern of requests.
#[derive(Clone, Copy, Debug)]
pub struct PtsAccess {
    /// Where they go.
    pub pattern: Pattern,
    /// Bytes of each.
    pub io_size: Bytes,
    /// Share that reads, 0..=1.
    pub read_share: f64,
    /// Requests in flight.
    pub depth: u32,
}

/// What was measured of a pattern in a round.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Requests that were done.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Simulated seconds that took.
    pub seconds: f64,
    /// Mean latency, microseconds.
    pub mean_us: f64,
    /// `None` after the latencies are dropped.
    latencies: Option<Histogram<u64>>,
}

impl Sample {
    /// Within which 99 % and 99.999 % of the requests of all `samples` were done, and the longest, microseconds.
    pub fn latencies_us<'a>(samples: impl Iterator<Item = &'a Sample>) -> [f64; 3] {
        let mut all = latency_histogram();
        for sample in samples {
            let latencies = sample.latencies.as_ref().expect("those of the window are kept");
            all.add(latencies).expect("bounds are the same");
        }
        [all.value_at_quantile(0.99), all.value_at_quantile(0.999_99), all.max()]
            .map(|ns| ns as f64 / 1e3)
    }

    /// Forgets the latencies but for their mean: a distribution takes memory.
    pub(super) fn forget_latencies(&mut self) {
        self.latencies = None;
    }
}

/// Least length of a pattern: requests and time must both be reached.
#[derive(Clone, Copy)]
pub(crate) struct Spell {
    pub(crate) requests: u64,
    pub(crate) time: Time,
}

impl Spell {
    fn is_over(self, requests: u64, time: Time) -> bool {
        requests >= self.requests && time >= self.time
    }
}

/// The ramp at the start of a pattern is not measured: the queue fills and the previous pattern fades. The ramp is the
/// measured length divided by this value. Chosen.
pub(super) const RAMP: u64 = 2;

/// A stack at work.
pub(crate) struct Bed {
    queue: JobQueue,
    volume: Bytes,
    /// Each pattern goes on where its last round ended.
    streams: Vec<(PtsAccess, Generator, VecDeque<Request>)>,
    batch: Vec<Request>,
}

impl Bed {
    /// A fresh, empty stack, as after a purge.
    pub(crate) fn purged(
        stack: &Stack,
        settings: &Settings,
        volume: Bytes,
        accesses: &[PtsAccess],
    ) -> Result<Bed, Error> {
        let streams = accesses.iter().zip(0..).map(|(access, index)| {
            let span = Bytes(volume.0 / access.io_size.0 * access.io_size.0);
            let options = Options {
                io_size: Some(access.io_size),
                read_share: access.read_share,
                seed: settings.seed.wrapping_mul(1000).wrapping_add(index),
                ..Options::new(span, Limit::Requests(u64::MAX))
            };
            let generator = Generator::new(&Spec::One(access.pattern), &options)?;
            Ok((*access, generator, VecDeque::new()))
        });
        Ok(Bed {
            streams: streams.collect::<Result<_, Error>>()?,
            queue: JobQueue::of(stack, settings, volume)?,
            volume,
            batch: Vec::new(),
        })
    }

    /// Writes all of the volume in order, in requests of `size`.
    pub(crate) fn fill(&mut self, size: Bytes) -> Result<(), Error> {
        self.queue.fill(self.volume, size, |_| TenantId(0))
    }

    pub(super) fn counts(&self) -> ByteCounts {
        self.queue.target.byte_counts()
    }

    /// Runs pattern `index` for `length` after the ramp, then waits for the requests in flight.
    pub(crate) fn run(&mut self, index: usize, length: Spell) -> Result<Sample, Error> {
        let PtsAccess { io_size, depth, .. } = self.streams[index].0;
        let ramp = Spell {
            requests: (length.requests / RAMP).max(u64::from(depth)),
            time: Time(length.time.0 / RAMP),
        };
        let Bed { queue, streams, batch, .. } = self;
        let (start, mut from) = (queue.target.now(), None);
        let (mut finished, mut counted, mut took_ns) = (0, 0, 0);
        let mut latencies = latency_histogram();
        let next = |target: &dyn Target, _: usize, done: Option<Finished>| {
            if let Some(done) = done {
                let now = target.now();
                finished += 1;
                match from {
                    None if ramp.is_over(finished, now.since(start)) => from = Some(now),
                    None => {}
                    Some(from) if !length.is_over(counted, Time(took_ns)) => {
                        latencies.saturating_record(done.took().as_nanos());
                        counted += 1;
                        took_ns = now.since(from).as_nanos();
                    }
                    Some(_) => {}
                }
            }
            let goes_on = !length.is_over(counted, Time(took_ns));
            goes_on.then(|| drawn(&mut streams[index], batch)).transpose()
        };
        queue.serve_jobs(&JobLimits::depths(std::iter::once(depth)), next, |_| ())?;
        if took_ns == 0 {
            return Err(Error::Settings(
                "requests took no simulated time: the drive has none, or a cache above it took all of them".into(),
            ));
        }
        Ok(Sample {
            requests: counted,
            bytes: counted * io_size.0,
            seconds: Time(took_ns).as_secs_f64(),
            mean_us: latencies.mean() / 1e3,
            latencies: Some(latencies),
        })
    }
}

fn drawn(
    (_, generator, ahead): &mut (PtsAccess, Generator, VecDeque<Request>),
    batch: &mut Vec<Request>,
) -> Result<Request, Error> {
    if ahead.is_empty() {
        generator.fill(batch)?;
        ahead.extend(batch.drain(..));
    }
    let request = ahead.pop_front().expect("a generator without a limit");
    Ok(Request { at: Time::ZERO, tenant: TenantId(0), stream: StreamId::UNKNOWN, ..request })
}
