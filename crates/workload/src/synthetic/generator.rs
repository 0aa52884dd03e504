//! The source of requests.

use thermocline_types::{Bytes, Op, Request, Rng, StreamId, TenantId, Time};

use super::app::{AppRoom, AppSpec, Application, VolumeFull};
use super::checkpoints::Gathered;
use super::lsm::LsmFacts;
use super::random_map::RandomMap;
use super::select::{Bands, Cursor, Log, Ranked, Select, Uniform};
use super::shape::{Fixed, JESD219_SIZES, MODERN_SIZES, Mixed, Shape};
use super::spec::{Region, Work};
use super::{Bursts, Error, Limit, Options, Pattern, Spec};
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
    bursts: Option<Bursts>,
    /// Bytes left in the burst, and the begin of the burst.
    burst_left: u64,
    burst_began: Time,
    requests: u64,
    writes: u64,
    bytes_written: u64,
    /// Where writes wait for checkpoints.
    gathered: Option<Gathered>,
}

/// Where requests come from.
#[derive(Debug)]
enum Body {
    Tenants(Tenants),
    App(App),
}

/// An application with a region of its own.
#[derive(Debug)]
struct App {
    name: &'static str,
    app: Box<dyn Application>,
    tenant: TenantId,
    base: u64,
    /// Added to the application's directory numbers: earlier tenants use the lower numbers.
    directories: u16,
}

impl App {
    fn new(spec: &AppSpec, options: &Options, seed: u64) -> Result<App, Error> {
        options.check()?;
        let app = spec.start(options, seed)?;
        Ok(App { name: spec.info().name(), app, tenant: TenantId(0), base: 0, directories: 0 })
    }

    fn next(&mut self) -> Result<Request, trace::Error> {
        let request = self.app.next().map_err(|VolumeFull(what)| {
            let workload = format!("workload {}", self.name);
            trace::Error::file(trace::ErrorKind::VolumeFull, &workload, what)
        })?;
        let directory = request.stream.directory + self.directories;
        let stream = StreamId { directory, ..request.stream };
        let base = if request.op == Op::Flush { 0 } else { self.base };
        let offset = Bytes(request.offset.0 + base);
        Ok(Request { offset, stream, tenant: self.tenant, ..request })
    }
}

/// What a tenant does.
#[derive(Debug)]
enum Lane {
    Stream(Box<Stream>),
    App(App),
}

impl Lane {
    fn next(&mut self) -> Result<Request, trace::Error> {
        match self {
            Lane::Stream(stream) => Ok(stream.next()),
            Lane::App(app) => app.next(),
        }
    }
}

/// Tenants that take turns.
#[derive(Debug)]
struct Tenants {
    lanes: Vec<Lane>,
    /// Names of the directories of all.
    directories: Vec<String>,
    /// For each tenant, the random number below which it or an earlier one is next.
    turns: Vec<u64>,
    rng: Rng,
}

impl Tenants {
    fn new(spec: &Spec, options: &Options) -> Result<Tenants, Error> {
        let regions = spec.regions(options)?;
        let writes = |region: &Region| {
            matches!(region.work, Work::App(_)) || region.read_share + region.trim_share < 1.0
        };
        if !regions.iter().any(writes) && !matches!(options.limit, Limit::Requests(_)) {
            let what = "the limit counts writes, but all requests are reads or trims; limit the requests instead";
            return Err(Error::Options(what.to_owned()));
        }
        let names = spec.tenant_names();
        let mut rng = Rng::new(options.seed);
        let (mut lanes, mut directories) = (Vec::new(), Vec::new());
        for (index, region) in regions.iter().enumerate() {
            let (tenant, seed) = (TenantId(index as u32), rng.next_u64());
            let spec = match &region.work {
                Work::Pattern(pattern) => {
                    lanes.push(Lane::Stream(Box::new(Stream::new(*pattern, region, tenant, seed))));
                    continue;
                }
                Work::App(spec) => spec,
            };
            let named = |what: String| Error::Tenant { tenant: names[index].to_owned(), what };
            let (read_share, trim_share) = (region.read_share, region.trim_share);
            let (span, io_size) = (region.span, region.io_size);
            let own = Options { span, io_size, read_share, trim_share, ..*options };
            let app = App::new(spec, &own, seed).map_err(|error| named(error.to_string()))?;
            let before = directories.len() as u16;
            let all = app.app.directories();
            directories.extend(all.iter().map(|name| format!("{}/{name}", names[index])));
            let base = region.base.get();
            lanes.push(Lane::App(App { tenant, base, directories: before, ..app }));
        }
        let all: f64 = regions.iter().map(|region| region.share).sum();
        let mut sum = 0.0;
        let turns = regions.iter().map(|region| {
            sum += region.share / all;
            fraction(sum)
        });
        Ok(Tenants { lanes, directories, turns: turns.collect(), rng })
    }

    fn draw(&mut self, count: usize, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        if let [Lane::Stream(only)] = self.lanes.as_mut_slice() {
            only.extend(count, batch);
            return Ok(());
        }
        let last = self.turns.len() - 1;
        for _ in 0..count {
            let draw = self.rng.next_u64();
            let turn = self.turns[..last].iter().filter(|&&below| draw >= below).count();
            batch.push(self.lanes[turn].next()?);
        }
        Ok(())
    }
}

impl Generator {
    /// A generator at its first request.
    ///
    /// # Errors
    /// If options and spec do not fit each other, or the limit counts writes and nothing ever writes.
    pub fn new(spec: &Spec, options: &Options) -> Result<Self, Error> {
        let gathered = match spec {
            Spec::Tenants(tenants) => Gathered::new(tenants),
            Spec::One(_) | Spec::App(_) => None,
        };
        if gathered.is_some() && options.rate.is_none() {
            return Err(Error::Options(
                "checkpoints come by a clock: give a rate (--rate)".to_owned(),
            ));
        }
        let body = match spec {
            Spec::App(app) => Body::App(App::new(app, options, options.seed)?),
            _ => Body::Tenants(Tenants::new(spec, options)?),
        };
        Ok(Generator {
            body,
            span: options.span,
            limit: options.limit,
            nanos_per_request: options.rate.map(|rate| 1e9 / rate),
            bursts: options.bursts,
            burst_left: options.bursts.map_or(0, |bursts| bursts.bytes.get()),
            burst_began: Time::ZERO,
            requests: 0,
            writes: 0,
            bytes_written: 0,
            gathered,
        })
    }

    /// The bytes that it addresses.
    #[must_use]
    pub fn span(&self) -> Bytes {
        self.span
    }

    /// Figures of the LSM store so far; `None` for other workloads.
    #[must_use]
    pub fn lsm_facts(&self) -> Option<LsmFacts> {
        match &self.body {
            Body::App(app) => app.app.lsm_facts(),
            Body::Tenants(_) => None,
        }
    }

    /// Space of the span taken by an application's file system; `None` without a file system.
    #[must_use]
    pub fn room(&self) -> Option<AppRoom> {
        match &self.body {
            Body::App(app) => app.app.room(),
            Body::Tenants(_) => None,
        }
    }

    fn draw(&mut self, count: usize, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        match &mut self.body {
            Body::Tenants(tenants) => tenants.draw(count, batch),
            Body::App(app) => {
                for _ in 0..count {
                    batch.push(app.next()?);
                }
                Ok(())
            }
        }
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
        if let Some(bursts) = self.bursts {
            batch.iter_mut().for_each(|request| self.next_of_burst(bursts, request));
        }
        self.requests += batch.len() as u64;
    }

    /// The request is the next one of the burst that goes on.
    fn next_of_burst(&mut self, bursts: Bursts, request: &mut Request) {
        request.at = self.burst_began;
        self.burst_left = self.burst_left.saturating_sub(request.length.get());
        if self.burst_left == 0 {
            self.burst_left = bursts.bytes.get();
            self.burst_began += bursts.idle;
        }
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

/// Bytes this request writes.
fn written(request: &Request) -> u64 {
    if request.op == Op::Write { request.length.get() } else { 0 }
}

impl Generator {
    /// The next requests in the order in which they are generated.
    fn generate(&mut self, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
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
}

impl Source for Generator {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        let Some(mut gathered) = self.gathered.take() else { return self.generate(batch) };
        let filled = gathered.fill(batch, |batch| self.generate(batch));
        self.gathered = Some(gathered);
        filled
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
            Body::App(app) => app.app.directories().iter().map(|&name| name.to_owned()).collect(),
            Body::Tenants(tenants) => tenants.directories.clone(),
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
    Mapped(RandomMap),
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
    fn new(pattern: Pattern, region: &Region, tenant: TenantId, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let sizes = match pattern {
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
        let select = match pattern {
            Pattern::Uniform => Selector::Uniform(Uniform { slots }),
            Pattern::RandomMap => Selector::Mapped(RandomMap::new(slots)),
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
            Selector::Mapped(select) => draw.shaped(count, select, shape, batch),
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
            outstanding: None,
        }
    }
}

/// A probability as a fraction of 2^64; 1 becomes the largest number.
fn fraction(probability: f64) -> u64 {
    (probability * 18_446_744_073_709_551_616.0) as u64
}

#[cfg(test)]
mod tests;
