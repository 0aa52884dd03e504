//! Several concurrent jobs, each with its own queue depth: a slow job does not hold up a fast job.
//!
//! A run with one depth for all tenants fixes each tenant's share of the requests, so the slowest tenant sets the pace.
//! Benchmarks of drives run concurrent jobs, each with a fixed number of requests in flight.

mod queue;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use thermocline_record::LatencyNs;
use thermocline_types::{Bytes, Op, Request, TenantId, Time};
use thermocline_workload::Source as _;
use thermocline_workload::synthetic::{Generator, Limit, Options, Pattern, Spec};

use crate::byte_counts::ByteCounts;
use crate::meter::{kind, ratio, summary};
use crate::stack::Stack;
use crate::target::{Finished, Target};
use crate::tenants::{OwnedCounts, TenantAsked, TenantMeter, followed};
use crate::{Error, Settings};

pub(crate) use queue::{JobLimits, JobQueue};

/// Requests that fill the volume (SNIA PTS).
const FILL: Bytes = Bytes::kib(128);
/// Requests that age it, and how many are in flight. Chosen.
const AGING: Bytes = Bytes::kib(64);
const AGING_DEPTH: u32 = 256;

/// One job: a pattern on a part of the volume of its own.
#[derive(Clone, Copy, Debug)]
pub struct JobSpec {
    /// Addresses of the requests.
    pub pattern: Pattern,
    /// Bytes of each request.
    pub io_size: Bytes,
    /// Reads as a share of the requests, 0..=1.
    pub read_share: f64,
    /// Requests kept in flight.
    pub depth: u32,
    /// Bytes a second at most, in 10^6; requests wait at the host until their turn.
    pub cap_mb_per_s: Option<f64>,
}

/// Where and how long jobs run.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Whether each has all of the volume; else each has a part of its own, all equal, in order.
    pub shared: bool,
    /// All jobs share a queue in order of arrival, of which the stack has so many requests at once, as behind a vhost
    /// of SPDK; without it, requests of each job go to the stack at once. Latencies are those of the stack alone.
    pub queue: Option<u32>,
    /// Bytes that the jobs write before, at random in requests of 64 KiB.
    pub aged: Bytes,
    /// How long jobs run before measurement.
    pub before: JobSpan,
    /// How long they are measured.
    pub measured: JobSpan,
}

impl Length {
    /// Jobs that are measured for `measured` from the start, each on a part of its own, with no queue in common.
    #[must_use]
    pub const fn of(measured: JobSpan) -> Length {
        let (before, aged) = (JobSpan::Written(Bytes::ZERO), Bytes::ZERO);
        Length { shared: false, queue: None, aged, before, measured }
    }
}

/// How long jobs run.
#[derive(Clone, Copy, Debug)]
pub enum JobSpan {
    /// Until all of them together have written so many bytes.
    Written(Bytes),
    /// For so much simulated time.
    Lasts(Time),
}

impl JobSpan {
    /// Which share of it is over, 1 or above at its end, once `written` bytes are written and `time` has passed.
    fn over(self, written: u64, time: Time) -> f64 {
        match self {
            JobSpan::Written(bytes) => written as f64 / bytes.as_f64().max(1.0),
            JobSpan::Lasts(all) => time.as_secs_f64() / all.as_secs_f64().max(1e-9),
        }
    }
}

/// What jobs got, in the window measured.
#[derive(Clone, Debug)]
pub struct Share {
    /// Bytes written per second, of each job.
    pub written_per_second: Vec<f64>,
    /// Bytes read per second, of each job.
    pub read_per_second: Vec<f64>,
    /// Simulated seconds of the window.
    pub seconds: f64,
    /// Bytes through all layers in the window.
    pub counts: ByteCounts,
    /// What each job asked for and got in the window; of more than one.
    pub(crate) each: Vec<TenantAsked>,
    /// Bytes of each job's own data in the window, and nobody's.
    pub(crate) owned: Option<OwnedCounts>,
}

impl Share {
    /// Media bytes programmed by the drive, or the capacity drive, for each host byte.
    #[must_use]
    pub fn waf(&self) -> f64 {
        self.counts.drive.media_total as f64 / self.counts.host_written.max(1) as f64
    }

    /// WAF of the data of one job; `None` if the job wrote no data.
    #[must_use]
    pub fn waf_of(&self, job: usize) -> Option<f64> {
        ratio(self.owned.as_ref()?.media(job), self.each[job].written)
    }

    /// Bytes on those media that are no job's (headers, maps, padding), for each byte of the host.
    #[must_use]
    pub fn nobodys(&self) -> Option<f64> {
        ratio(self.owned.as_ref()?.media(self.each.len()), self.counts.host_written)
    }

    /// Latencies of the requests of one kind of one of several jobs, if it had any.
    #[must_use]
    pub fn latency(&self, job: usize, op: Op) -> Option<LatencyNs> {
        self.each[job].latencies[kind(op)].as_ref().map(summary)
    }
}

/// Runs `jobs` beside each other on a volume of `volume` bytes, which is filled in order before.
///
/// # Errors
/// [`Error`] when the stack cannot be made so, or gives up.
pub fn run_jobs(
    stack: &Stack,
    settings: &Settings,
    volume: Bytes,
    jobs: &[JobSpec],
    length: Length,
    progress: &mut dyn FnMut(f64),
) -> Result<Share, Error> {
    let mut queue = JobQueue::of(stack, settings, volume)?;
    let followed = followed(jobs.len());
    queue.target.follow_tenants(followed);
    let mut streams = Streams::new(jobs, volume, length.shared, settings.seed)?;
    queue.fill(volume, FILL, |offset| streams.whose(offset))?;
    age(&mut queue, jobs, volume, length, settings.seed)?;
    let (meter, measuring) = (RefCell::new(TenantMeter::new(followed)), Cell::new(false));
    let begun = queue.target.now();
    let (mut from, mut to, mut written) = (None::<Instant>, None, 0);
    let limits = JobLimits {
        queue: length.queue,
        jobs: jobs.iter().map(|job| (job.depth, job.cap_mb_per_s)).collect(),
    };
    let next = |target: &dyn Target, job: usize, done: Option<Finished>| {
        if to.is_some() {
            return Ok(None);
        }
        if let Some(done) = done {
            let bytes = jobs[job].io_size.0;
            if from.is_some() {
                streams.count(&done, bytes);
                meter.borrow_mut().done(done.tenant, done.op, done.took());
            }
            written += if done.op == Op::Write { bytes } else { 0 };
            let since = target.now().since(from.as_ref().map_or(begun, |from| from.now));
            let stage = if from.is_some() { length.measured } else { length.before };
            let over = stage.over(written, since);
            progress((f64::from(u8::from(from.is_some())) + over.min(1.0)) / 2.0);
            if over >= 1.0 && from.is_some() {
                to = Some(Instant::of(target));
                measuring.set(false);
                return Ok(None);
            } else if over >= 1.0 {
                (from, written) = (Some(Instant::of(target)), 0);
                measuring.set(true);
            }
        }
        streams.next(job).map(Some)
    };
    queue.serve_jobs(&limits, next, |request| {
        if measuring.get() {
            meter.borrow_mut().issue(std::slice::from_ref(request));
        }
    })?;
    let meter = meter.into_inner();
    let (from, to) = from.zip(to).expect("jobs without end are served until the window has ended");
    share(&from, to, &streams, meter)
}

/// Has each of `jobs` write its share of `length.aged` at random, all over what it has of the volume.
fn age(
    queue: &mut JobQueue,
    jobs: &[JobSpec],
    volume: Bytes,
    length: Length,
    seed: u64,
) -> Result<(), Error> {
    let writes = JobSpec {
        pattern: Pattern::Uniform,
        io_size: AGING,
        read_share: 0.0,
        depth: AGING_DEPTH.div_ceil(jobs.len().max(1) as u32),
        cap_mb_per_s: None,
    };
    let writers = vec![writes; jobs.len()];
    // The jobs draw from `seed`: with the same places again, in order, they would be invalidated as in a log.
    let mut streams = Streams::new(&writers, volume, length.shared, !seed)?;
    let mut left = length.aged.0 / AGING.0;
    let limits = JobLimits::depths(writers.iter().map(|writer| writer.depth));
    let next = |_: &dyn Target, job: usize, _| {
        let more = left > 0;
        left = left.saturating_sub(1);
        more.then(|| streams.next(job)).transpose()
    };
    queue.serve_jobs(&limits, next, |_| ())
}

/// A stack at an end of the window.
struct Instant {
    now: Time,
    counts: ByteCounts,
    owned: Option<OwnedCounts>,
}

impl Instant {
    fn of(target: &dyn Target) -> Instant {
        let (now, counts) = (target.now(), target.byte_counts());
        Instant { now, counts, owned: target.owned_counts() }
    }
}

/// What jobs got between two instants.
fn share(
    from: &Instant,
    to: Instant,
    streams: &Streams,
    meter: TenantMeter,
) -> Result<Share, Error> {
    let seconds = to.now.since(from.now).as_secs_f64();
    if seconds <= 0.0 {
        let what = "the jobs took no simulated time: their drive has none, or the log's write cache took all they wrote";
        return Err(Error::Settings(format!(
            "{what}; give a drive with [timing], or pool.write_cache=off"
        )));
    }
    let counts = to.counts.since(&from.counts);
    let owned = from.owned.as_ref().zip(to.owned).map(|(start, end)| end.since(start));
    if let Some(owned) = &owned {
        let checked = owned.check(&counts, false).and_then(|()| meter.check(&counts));
        checked.map_err(Error::Accounting)?;
    }
    let rate = |bytes: &[u64]| bytes.iter().map(|&bytes| bytes as f64 / seconds).collect();
    Ok(Share {
        written_per_second: rate(&streams.written),
        read_per_second: rate(&streams.read),
        seconds,
        counts,
        each: meter.into_each(),
        owned,
    })
}

/// The requests of all jobs, and the counters.
struct Streams {
    generators: Vec<(Generator, VecDeque<Request>)>,
    /// From where one begins to where the next does.
    distance: u64,
    batch: Vec<Request>,
    written: Vec<u64>,
    read: Vec<u64>,
}

impl Streams {
    fn new(jobs: &[JobSpec], volume: Bytes, shared: bool, seed: u64) -> Result<Streams, Error> {
        let largest = jobs.iter().map(|job| job.io_size.0).max().unwrap_or(1).max(AGING.0);
        let parts = if shared { 1 } else { jobs.len().max(1) as u64 };
        let part = volume.0 / parts / largest * largest;
        let generators = jobs.iter().zip(0..).map(|(job, index)| {
            let options = Options {
                io_size: Some(job.io_size),
                read_share: job.read_share,
                seed: seed.wrapping_mul(1000).wrapping_add(index),
                ..Options::new(Bytes(part), Limit::Requests(u64::MAX))
            };
            Ok((Generator::new(&Spec::One(job.pattern), &options)?, VecDeque::new()))
        });
        Ok(Streams {
            generators: generators.collect::<Result<_, Error>>()?,
            distance: if shared { 0 } else { part },
            batch: Vec::new(),
            written: vec![0; jobs.len()],
            read: vec![0; jobs.len()],
        })
    }

    /// Whose the data at `offset` is; nobody's where all jobs share the volume.
    fn whose(&self, offset: Bytes) -> TenantId {
        TenantId(offset.0.checked_div(self.distance).map_or(u32::MAX, |job| job as u32))
    }

    fn next(&mut self, job: usize) -> Result<Request, Error> {
        let (generator, ahead) = &mut self.generators[job];
        if ahead.is_empty() {
            generator.fill(&mut self.batch)?;
            ahead.extend(self.batch.drain(..));
        }
        let request = ahead.pop_front().expect("a generator without a limit");
        let offset = Bytes(request.offset.0 + job as u64 * self.distance);
        Ok(Request { offset, tenant: TenantId(job as u32), ..request })
    }

    fn count(&mut self, done: &Finished, bytes: u64) {
        let job = done.tenant.0 as usize;
        match done.op {
            Op::Read => self.read[job] += bytes,
            Op::Write => self.written[job] += bytes,
            Op::Trim | Op::WriteZeroes | Op::Flush => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: JobSpec = JobSpec {
        pattern: Pattern::Uniform,
        io_size: Bytes::BLOCK,
        read_share: 0.0,
        depth: 8,
        cap_mb_per_s: None,
    };
    const READER: JobSpec = JobSpec { io_size: Bytes::kib(64), read_share: 1.0, ..WRITER };

    fn share(stack: &str, jobs: &[JobSpec]) -> Share {
        queued(stack, jobs, None)
    }

    fn queued(stack: &str, jobs: &[JobSpec], queue: Option<u32>) -> Share {
        let stack = Stack::parse(stack, &["pool.write_cache=off".to_owned()]).unwrap();
        let settings = Settings { utilisation: 0.8, ..Settings::default() };
        let [before, measured] = [4, 8].map(|mib| JobSpan::Written(Bytes::mib(mib)));
        let length = Length { queue, before, ..Length::of(measured) };
        run_jobs(&stack, &settings, Bytes::mib(512), jobs, length, &mut |_| {}).unwrap()
    }

    #[test]
    fn jobs_keep_their_own_depth_and_bytes_are_those_of_the_window() {
        for stack in ["raw:p5316", "log:zn540"] {
            let both = share(stack, &[WRITER, READER]);
            let [written, read] = [both.written_per_second[0], both.read_per_second[1]];
            // The drive alone rewrites 64 KiB for each write of 4; the reader does not wait for these rewrites.
            let held_up = stack == "raw:p5316" && read < 4.0 * written;
            assert!(!held_up && read > 0.0, "{stack}: {read} beside {written}");
            assert!(both.written_per_second[1] == 0.0 && both.read_per_second[0] == 0.0);
            let bytes = written * both.seconds;
            assert!((bytes / Bytes::mib(8).as_f64() - 1.0).abs() < 0.01, "{stack}: {bytes}");
            // What is in flight at either end of the window differs by a depth at most.
            let off = (both.counts.host_written as f64 - bytes).abs();
            assert!(off <= 16.0 * 4096.0, "{stack}: {off}");
        }
    }

    #[test]
    fn a_quiet_reader_waits_longer_beside_a_noisy_writer() {
        let quiet = JobSpec { depth: 1, ..READER };
        let p99 = |depth: u32| {
            let both = share("raw:p5316", &[quiet, JobSpec { depth, ..WRITER }]);
            assert_eq!(both.waf_of(0), None, "it writes nothing");
            let waf = both.waf_of(1).unwrap();
            assert!(waf > 15.0, "64 KiB for 4, and what is relocated, not {waf}");
            assert!(both.latency(0, Op::Write).is_none());
            both.latency(0, Op::Read).unwrap().p99.unwrap()
        };
        let (alone, beside) = (p99(1), p99(64));
        assert!(beside > alone + alone / 10, "{beside} ns beside 64 writes, {alone} beside one");
    }

    #[test]
    fn one_queue_in_order_gives_all_jobs_as_many_requests() {
        let (reader, writer) = (JobSpec { depth: 64, ..READER }, JobSpec { depth: 64, ..WRITER });
        let requests = |share: &Share| {
            let [written, read] = [share.written_per_second[1], share.read_per_second[0]];
            (read / READER.io_size.as_f64(), written / WRITER.io_size.as_f64())
        };
        let apart = requests(&share("raw:p5316", &[reader, writer]));
        let (reads, writes) = requests(&queued("raw:p5316", &[reader, writer], Some(16)));
        assert!((0.9..1.1).contains(&(reads / writes)), "{reads} reads and {writes} writes");
        assert!(apart.0 > 2.0 * reads, "{} reads a second without it, {reads} with it", apart.0);
        let one = requests(&queued("raw:p5316", &[reader, writer], Some(1)));
        assert!(writes > 2.0 * one.1, "{writes} writes with 16 at once, {} with one", one.1);
    }

    #[test]
    fn a_job_with_a_cap_keeps_it_and_leaves_the_rest_to_others() {
        let reader = JobSpec { depth: 64, ..READER };
        let capped = JobSpec { cap_mb_per_s: Some(100.0), ..reader };
        for queue in [None, Some(32)] {
            let read = |job| queued("raw:p5316", &[job, WRITER], queue).read_per_second[0] / 1e6;
            let (free, held) = (read(reader), read(capped));
            assert!(free > 200.0, "{free}");
            // A request more or less in the window is 2 %.
            assert!((95.0..103.0).contains(&held), "{held} with a queue of {queue:?}");
        }
    }

    #[test]
    fn an_aged_volume_is_collected_and_jobs_end_after_their_time() {
        let stack = Stack::parse("raw:p5316", &[]).unwrap();
        let settings = Settings { utilisation: 0.8, ..Settings::default() };
        let jobs = [JobSpec { io_size: Bytes::kib(64), ..WRITER }];
        let run = |aged: Bytes| {
            let length = Length { aged, ..Length::of(JobSpan::Lasts(Time::micros(5000))) };
            run_jobs(&stack, &settings, Bytes::mib(512), &jobs, length, &mut |_| {}).unwrap()
        };
        let (fresh, aged) = (run(Bytes::ZERO), run(Bytes::gib(1)));
        for share in [&fresh, &aged] {
            assert!((0.005..0.006).contains(&share.seconds), "{}", share.seconds);
        }
        assert!(fresh.waf() < 1.1 && aged.waf() > 1.3, "{} and {}", fresh.waf(), aged.waf());
    }

    #[test]
    fn jobs_that_take_no_time_are_refused() {
        let stack = Stack::parse("raw:p5316", &[]).unwrap().untimed();
        let measured = JobSpan::Written(Bytes::mib(1));
        let length = Length { shared: true, ..Length::of(measured) };
        let settings = Settings { utilisation: 0.8, ..Settings::default() };
        let jobs = [WRITER];
        let refused =
            run_jobs(&stack, &settings, Bytes::mib(512), &jobs, length, &mut |_| {}).unwrap_err();
        assert!(refused.to_string().contains("no simulated time"), "{refused}");
    }

    #[test]
    fn equal_seeds_give_equal_shares_and_more_in_flight_is_faster() {
        let [first, second] = [0, 1].map(|_| share("raw:p5316", &[READER, WRITER]));
        assert_eq!(first.written_per_second, second.written_per_second);
        assert_eq!(first.counts, second.counts);
        let one = share("raw:p5316", &[JobSpec { depth: 1, ..WRITER }]).written_per_second[0];
        let many = share("raw:p5316", &[JobSpec { depth: 64, ..WRITER }]).written_per_second[0];
        assert!(
            many > 2.0 * one,
            "{many} and {one}: one waits for each read of the rest of a unit"
        );
    }
}
