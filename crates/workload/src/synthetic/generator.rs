//! The source of requests.

use thermocline_types::{Bytes, Op, Request, Rng, StreamId, TenantId, Time};

use super::lsm::{LsmFacts, LsmSpec, Store};
use super::select::{Bands, Cursor, Log, Ranked, Select, Uniform};
use super::shape::{Fixed, JESD219_SIZES, MODERN_SIZES, Mixed, Shape};
use super::spec::Region;
use super::{Error, Limit, Options, Pattern, Spec};
use crate::{BATCH, Source, trace};

/// Skew of JESD219's enterprise workload: per cent of the span, per cent of the requests (JEDEC JESD219, September
/// 2010).
const JESD219_SKEW: [(f64, f64); 3] = [(5.0, 50.0), (15.0, 30.0), (80.0, 20.0)];
/// Skew of the `modern` workload (chosen, not measured).
const MODERN_SKEW: [(f64, f64); 3] = [(10.0, 60.0), (30.0, 30.0), (60.0, 10.0)];

/// Yields the requests of a [`Spec`].
#[derive(Debug)]
pub struct Generator {
    body: Body,
    span: Bytes,
    limit: Limit,
    nanos_per_request: Option<f64>,
    requests: u64,
    writes: u64,
    bytes_written: u64,
}

/// Where requests come from.
#[derive(Debug)]
enum Body {
    Tenants(Tenants),
    Lsm(Box<Store>),
}

/// Patterns that take turns.
#[derive(Debug)]
struct Tenants {
    streams: Vec<Stream>,
    /// For each tenant, the random number below which it or an earlier one is next.
    turns: Vec<u64>,
    rng: Rng,
}

impl Tenants {
    fn new(spec: &Spec, options: &Options) -> Result<Tenants, Error> {
        let regions = spec.regions(options)?;
        let writes = regions.iter().any(|region| region.read_share + region.trim_share < 1.0);
        if !writes && !matches!(options.limit, Limit::Requests(_)) {
            let what = "the limit counts writes, but all requests are reads or trims; limit the requests instead";
            return Err(Error::Options(what.to_owned()));
        }
        let mut rng = Rng::new(options.seed);
        let streams = regions
            .iter()
            .zip(0..)
            .map(|(region, id)| Stream::new(region, TenantId(id), rng.next_u64()));
        let streams = streams.collect();
        let all: f64 = regions.iter().map(|region| region.share).sum();
        let mut sum = 0.0;
        let turns = regions.iter().map(|region| {
            sum += region.share / all;
            fraction(sum)
        });
        Ok(Tenants { streams, turns: turns.collect(), rng })
    }

    fn draw(&mut self, count: usize, batch: &mut Vec<Request>) {
        if let [only] = self.streams.as_mut_slice() {
            only.extend(count, batch);
            return;
        }
        let last = self.turns.len() - 1;
        batch.extend((0..count).map(|_| {
            let draw = self.rng.next_u64();
            let turn = self.turns[..last].iter().filter(|&&below| draw >= below).count();
            self.streams[turn].next()
        }));
    }
}

impl Generator {
    /// A generator at its first request.
    ///
    /// # Errors
    /// If options and spec do not fit each other, or the limit counts writes and nothing ever writes.
    pub fn new(spec: &Spec, options: &Options) -> Result<Self, Error> {
        let body = match spec {
            Spec::Lsm(lsm) => Body::Lsm(Box::new(application(lsm, options)?)),
            _ => Body::Tenants(Tenants::new(spec, options)?),
        };
        Ok(Generator {
            body,
            span: options.span,
            limit: options.limit,
            nanos_per_request: options.rate.map(|rate| 1e9 / rate),
            requests: 0,
            writes: 0,
            bytes_written: 0,
        })
    }

    /// The bytes that it addresses.
    #[must_use]
    pub fn span(&self) -> Bytes {
        self.span
    }

    /// What the LSM store did so far, if it is one.
    #[must_use]
    pub fn lsm_facts(&self) -> Option<LsmFacts> {
        match &self.body {
            Body::Lsm(store) => Some(store.facts()),
            Body::Tenants(_) => None,
        }
    }

    fn draw(&mut self, count: usize, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        match &mut self.body {
            Body::Tenants(tenants) => tenants.draw(count, batch),
            Body::Lsm(store) => {
                for request in store.by_ref().take(count) {
                    batch.push(request.map_err(|full| {
                        let kind = trace::ErrorKind::VolumeFull;
                        trace::Error::file(kind, "workload lsm", full.to_string())
                    })?);
                }
            }
        }
        Ok(())
    }

    /// Counts the batch, cut where the limit is reached.
    fn count(&mut self, batch: &mut Vec<Request>) {
        match self.limit {
            Limit::Requests(_) => {}
            Limit::Writes(most) => self.count_writes(most, batch),
            Limit::BytesWritten(most) => self.count_bytes(most.get(), batch),
        }
        if let Some(nanos) = self.nanos_per_request {
            for (request, index) in batch.iter_mut().zip(self.requests..) {
                request.at = Time::nanos((index as f64 * nanos) as u64);
            }
        }
        self.requests += batch.len() as u64;
    }

    fn count_writes(&mut self, most: u64, batch: &mut Vec<Request>) {
        let before = self.writes;
        self.writes += batch.iter().filter(|request| request.op == Op::Write).count() as u64;
        if self.writes > most {
            let mut places =
                batch.iter().enumerate().filter(|(_, request)| request.op == Op::Write);
            let first_too_many =
                places.nth((most - before) as usize).map_or(batch.len(), |(place, _)| place);
            batch.truncate(first_too_many);
            self.writes = most;
        }
    }

    fn count_bytes(&mut self, most: u64, batch: &mut Vec<Request>) {
        let before = self.bytes_written;
        self.bytes_written += batch.iter().map(written).sum::<u64>();
        if self.bytes_written > most {
            let mut left = most - before;
            let last = batch.iter_mut().position(|request| {
                let bytes = written(request);
                if bytes >= left && bytes > 0 {
                    request.length = Bytes(left);
                    return true;
                }
                left -= bytes;
                false
            });
            batch.truncate(last.map_or(0, |place| place + 1));
            self.bytes_written = most;
        }
    }
}

/// An LSM store over the span.
fn application(spec: &LsmSpec, options: &Options) -> Result<Store, Error> {
    options.check()?;
    for (name, share) in [("read", options.read_share), ("trim", options.trim_share)] {
        if share > 0.0 {
            let what = format!(
                "the {name} share is {share}, and lsm has reads and trims of its own: lsm:reads=on, lsm:fs.discard=on"
            );
            return Err(Error::Options(what));
        }
    }
    Store::new(spec, options.span, options.io_size, options.seed)
}

/// Bytes this request writes.
fn written(request: &Request) -> u64 {
    if request.op == Op::Write { request.length.get() } else { 0 }
}

impl Source for Generator {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        batch.clear();
        let left = match self.limit {
            Limit::Requests(requests) => requests - self.requests,
            Limit::Writes(writes) => writes - self.writes,
            Limit::BytesWritten(bytes) => bytes.get() - self.bytes_written,
        };
        if left == 0 {
            return Ok(());
        }
        let count = if matches!(self.limit, Limit::Requests(_)) {
            left.min(BATCH as u64) as usize
        } else {
            BATCH
        };
        self.draw(count, batch)?;
        self.count(batch);
        Ok(())
    }

    fn fraction_done(&self) -> f64 {
        let (done, all) = match self.limit {
            Limit::Requests(requests) => (self.requests, requests),
            Limit::Writes(writes) => (self.writes, writes),
            Limit::BytesWritten(bytes) => (self.bytes_written, bytes.get()),
        };
        if all == 0 { 1.0 } else { done as f64 / all as f64 }
    }

    fn directories(&self) -> Vec<String> {
        match &self.body {
            Body::Lsm(_) => Store::directories().iter().map(|&name| name.to_owned()).collect(),
            Body::Tenants(_) => Vec::new(),
        }
    }
}

/// One tenant's endless requests. Depends on its own seed only, not on its neighbours.
#[derive(Debug)]
struct Stream {
    select: Selector,
    shape: Shaper,
    draw: Draw,
    /// Requests drawn ahead for [`Self::next`], in reverse order.
    ahead: Vec<Request>,
}

/// How many requests of one of several tenants are drawn at a time.
const AHEAD: usize = 32;

#[derive(Debug)]
enum Selector {
    Uniform(Uniform),
    Ranked(Box<Ranked>),
    Bands(Bands),
    Cursor(Cursor),
    Log(Log),
}

#[derive(Debug)]
enum Shaper {
    Fixed(Fixed),
    Mixed(Box<Mixed>),
}

impl Stream {
    fn new(region: &Region, tenant: TenantId, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let sizes = match region.pattern {
            Pattern::Jesd219 => Some(JESD219_SIZES.as_slice()),
            Pattern::Modern => Some(MODERN_SIZES.as_slice()),
            _ => None,
        };
        let (shape, slot) = match (sizes, region.io_size) {
            (Some(sizes), None) => {
                (Shaper::Mixed(Box::new(Mixed::new(sizes, region.span))), Bytes::BLOCK)
            }
            (_, io_size) => {
                let io_size = io_size.unwrap_or(Bytes::BLOCK).min(region.span);
                (Shaper::Fixed(Fixed { io_size: io_size.get(), span: region.span.get() }), io_size)
            }
        };
        let slots = region.span.div_ceil(slot);
        let select = match region.pattern {
            Pattern::Uniform => Selector::Uniform(Uniform { slots }),
            Pattern::Zipf { theta } => {
                Selector::Ranked(Box::new(Ranked::new(slots, theta, None, &mut rng)))
            }
            Pattern::Drift { theta, every } => {
                let period = ((slots as f64 * every) as u64).max(1);
                Selector::Ranked(Box::new(Ranked::new(slots, theta, Some(period), &mut rng)))
            }
            Pattern::HotCold { data_percent: data, writes_percent: writes } => Selector::Bands(
                Bands::new(slots, &[(data, writes), (100.0 - data, 100.0 - writes)]),
            ),
            Pattern::Jesd219 => Selector::Bands(Bands::new(slots, &JESD219_SKEW)),
            Pattern::Modern => Selector::Bands(Bands::new(slots, &MODERN_SKEW)),
            Pattern::Sequential => Selector::Cursor(Cursor::new(slots)),
            Pattern::Circular { live_percent } => Selector::Log(Log::new(slots, live_percent)),
        };
        let read_below = fraction(region.read_share);
        let trim_below = fraction(region.read_share + region.trim_share);
        let only_writes = trim_below == 0;
        let only_others = region.read_share + region.trim_share >= 1.0;
        let draw = Draw {
            rng,
            base: region.base.get(),
            tenant,
            only_writes,
            only_others,
            read_below,
            trim_below,
        };
        Stream { select, shape, draw, ahead: Vec::new() }
    }

    /// One request, when tenants take turns.
    fn next(&mut self) -> Request {
        if let Some(request) = self.ahead.pop() {
            return request;
        }
        let mut ahead = std::mem::take(&mut self.ahead);
        self.extend(AHEAD, &mut ahead);
        ahead.reverse();
        let first = ahead.pop().expect("AHEAD requests were drawn");
        self.ahead = ahead;
        first
    }

    /// Appends `count` requests. The pattern is looked at once per call, not once per request.
    fn extend(&mut self, count: usize, batch: &mut Vec<Request>) {
        let Stream { select, shape, draw, .. } = self;
        match select {
            Selector::Uniform(select) => draw.shaped(count, select, shape, batch),
            Selector::Ranked(select) => draw.shaped(count, select.as_mut(), shape, batch),
            Selector::Bands(select) => draw.shaped(count, select, shape, batch),
            Selector::Cursor(select) => draw.shaped(count, select, shape, batch),
            Selector::Log(log) => draw.log(count, log, shape, batch),
        }
    }
}

/// What all requests of a stream have in common, and its randomness.
#[derive(Debug)]
struct Draw {
    rng: Rng,
    base: u64,
    tenant: TenantId,
    only_writes: bool,
    only_others: bool,
    read_below: u64,
    trim_below: u64,
}

impl Draw {
    fn shaped(
        &mut self,
        count: usize,
        select: &mut impl Select,
        shape: &Shaper,
        batch: &mut Vec<Request>,
    ) {
        match shape {
            Shaper::Fixed(shape) => self.plain(count, select, shape, batch),
            Shaper::Mixed(shape) => self.plain(count, select, shape.as_ref(), batch),
        }
    }

    fn plain(
        &mut self,
        count: usize,
        select: &mut impl Select,
        shape: &impl Shape,
        batch: &mut Vec<Request>,
    ) {
        batch.extend((0..count).map(|_| {
            let op = self.op();
            let slot = select.next(op, &mut self.rng);
            let (offset, length) = shape.extent(slot, &mut self.rng);
            self.request(op, offset, length)
        }));
    }

    fn log(&mut self, count: usize, log: &mut Log, shape: &Shaper, batch: &mut Vec<Request>) {
        batch.extend((0..count).map(|_| {
            let op = self.op();
            let step = log.step(op, &mut self.rng);
            let Shaper::Fixed(shape) = shape else {
                unreachable!("a log has requests of one size")
            };
            let (offset, _) = shape.extent(step.first, &mut self.rng);
            let length = (step.count * shape.io_size).min(shape.span - offset);
            self.request(step.op, offset, length)
        }));
    }

    #[inline]
    fn op(&mut self) -> Op {
        if self.only_writes {
            return Op::Write;
        }
        let draw = self.rng.next_u64();
        if draw < self.read_below {
            Op::Read
        } else if draw < self.trim_below || self.only_others {
            if self.trim_below > self.read_below { Op::Trim } else { Op::Read }
        } else {
            Op::Write
        }
    }

    #[inline]
    fn request(&self, op: Op, offset: u64, length: u64) -> Request {
        Request {
            at: Time::ZERO,
            offset: Bytes(self.base + offset),
            length: Bytes(length),
            tenant: self.tenant,
            stream: StreamId::UNKNOWN,
            op,
        }
    }
}

/// A probability as a fraction of 2^64; 1 becomes the largest number.
fn fraction(probability: f64) -> u64 {
    (probability * 18_446_744_073_709_551_616.0) as u64
}

#[cfg(test)]
mod tests;
