//! One run: a workload against a stack, from preconditioning to the run record.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_nand::profile::Cut;
use thermocline_nand::{Drive, DriveError, Profile, ProfileError, Striped};
use thermocline_record::RunRecord;
use thermocline_types::{Bytes, Op, Request, TenantId, Time};

use crate::barriers::Barriers;
use crate::byte_counts::ByteCounts;
use crate::input::Prepared;
use crate::log::bench::LogBench;
use crate::log::plan::Plan;
use crate::meter::Meter;
use crate::outcome::{self, Before, Followed, Outcome};
use crate::rates::DeviceRates;
use crate::settings::{Pacing, Settings};
use crate::stack::{DriveArray, Layer, Stack};
use crate::steady::Rounds;
use crate::tag::Tags;
use crate::tenants::{OwnedCounts, TenantMeter, followed, owner};
use crate::think::Think;
use crate::{Error, cost, fitting};

/// Requests in flight when nothing else is asked for: fio's usual depth for such tests.
const QUEUE_DEPTH: u32 = 32;

/// Memory per unit in drive and record, rounded up.
const UNIT_BYTES: u64 = 256;

/// Runs `workload` against `stack`; `progress` is told the share done, 0..=1, now and then.
///
/// # Errors
/// [`Error`] for wrong settings, unreadable workloads and requests the drive refuses. The end of a drive's life is not
/// an error: the run ends early and the record reports the wear-out.
pub fn run(
    workload: &mut Prepared,
    stack: &Stack,
    settings: &Settings,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, Error> {
    if matches!(settings.pacing, Some(Pacing::Clock { .. })) && !workload.has_clock() {
        return Err(Error::Settings(
            "`speed` needs a clock, and this workload has none: give a generator a `rate`, or set `queue_depth`".into(),
        ));
    }
    if matches!(stack.layer, Layer::Log | Layer::Tier) {
        return run_log(workload, stack, settings, progress);
    }
    let drive = build(workload, stack, settings)?;
    let tags = Tags::new(stack, workload, drive.cut())?;
    let mut bench = Bench::new(drive, tags, workload, settings);
    let prefilled = bench.prefill(workload)?;
    let before = Before::of(&bench.drive);
    let cpu = cost::thread_cpu_seconds();
    bench.measure(workload, progress)?;
    let cpu_seconds = cost::thread_cpu_seconds() - cpu;
    let mut record = outcome::record(&Outcome {
        workload,
        stack,
        settings,
        pacing: bench.pacing,
        meter: &bench.meter,
        rounds: bench.rounds,
        end: ByteCounts::direct(bench.drive.counters()),
        simulated: bench.done.since(bench.start),
        worn_out: bench.worn_out,
        requests: bench.requests,
        prefilled,
        cpu_seconds,
        units: bench.drive.units(),
        rates: bench.rates.iter().collect(),
        waits: None,
        held: None,
        ages: bench.drive.ages(),
        tenants: bench
            .owned
            .as_ref()
            .zip(bench.owned_counts())
            .map(|(start, end)| Followed { meter: &bench.tenants, owned: end.since(start) }),
        drive: &bench.drive,
        before,
        fast: None,
        log: None,
    })?;
    if let Some(on_media) = bench.on_media() {
        outcome::until_on_media(&mut record, on_media);
    }
    Ok(record)
}

fn run_log(
    workload: &mut Prepared,
    stack: &Stack,
    settings: &Settings,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, Error> {
    let plan = fullest(settings, |settings| Plan::new(stack, settings, workload.room()))?;
    let (config, blocks) = (plan.config.clone(), plan.blocks);
    let rounds = Rounds::new(plan.drive.cut().capacity(), workload.pass());
    let mut bench = LogBench::new(plan.build()?, rounds, pacing(workload, settings), settings.seed);
    bench.larger = settings.larger();
    let prefilled = bench.prefill(workload)?;
    let before = Before::of(bench.machine.device().drive());
    let cpu = cost::thread_cpu_seconds();
    bench.measure(workload, progress)?;
    let cpu_seconds = cost::thread_cpu_seconds() - cpu;
    let units = outcome::log_units(&mut bench.machine, &config);
    let ages = bench.machine.device_mut().drive_mut().ages();
    let mut record = outcome::record(&Outcome {
        workload,
        stack,
        settings,
        pacing: bench.pacing,
        meter: &bench.meter,
        rounds: bench.rounds,
        end: bench.machine.byte_counts(),
        simulated: bench.done.since(bench.start),
        worn_out: bench.worn_out,
        requests: bench.requests,
        prefilled,
        cpu_seconds,
        units,
        rates: bench.machine.device().rates(),
        waits: bench.machine.device().waits(),
        held: Some(outcome::held(&bench.machine)),
        ages,
        tenants: bench
            .owned
            .as_ref()
            .zip(bench.machine.owned_counts())
            .map(|(start, end)| Followed { meter: &bench.tenants, owned: end.since(start) }),
        drive: bench.machine.device().drive(),
        before,
        fast: bench.machine.device().fast(),
        log: Some((&config, blocks)),
    })?;
    if let Some(on_media) = bench.on_media() {
        outcome::until_on_media(&mut record, on_media);
    }
    Ok(record)
}

/// The drive of `stack` after `profile`, or as many of it side by side as it has.
pub(crate) fn drives(
    profile: &Profile,
    stack: &Stack,
    capacity: Bytes,
    seed: u64,
) -> Result<Drive, Error> {
    Ok(match stack.array {
        Some(DriveArray { count, host }) => {
            let drives = Striped::new(profile, count, host, Some(capacity), seed)?;
            Drive::Striped(Box::new(drives))
        }
        None => Drive::new(profile, Some(capacity), seed)?,
    })
}

/// Steps in which a drive is made less full until its log can hold the workload.
const STEP: f64 = 0.01;

/// The plan for a drive that is to be full: as full as the log can fill it beside what it sets aside, where nothing
/// says how large the drive is.
fn fullest(
    settings: &Settings,
    plan: impl Fn(&Settings) -> Result<Plan, Error>,
) -> Result<Plan, Error> {
    let is_free = settings.capacity.is_none() && settings.utilisation >= 1.0;
    let mut settings = *settings;
    loop {
        match plan(&settings) {
            Err(Error::DoesNotFit(_)) if is_free && settings.utilisation > 2.0 * STEP => {
                settings.utilisation -= STEP;
            }
            plan => return plan,
        }
    }
}

/// When requests are issued if the settings do not say.
fn pacing(workload: &Prepared, settings: &Settings) -> Pacing {
    let by_default = if workload.has_clock() {
        Pacing::Clock { speed: 1.0 }
    } else {
        Pacing::QueueDepth(QUEUE_DEPTH)
    };
    match (settings.pacing.unwrap_or(by_default), workload.think()) {
        (Pacing::QueueDepth(count), Some(think)) => Pacing::Clients { count, think },
        (pacing, _) => pacing,
    }
}

fn build(workload: &Prepared, stack: &Stack, settings: &Settings) -> Result<Drive, Error> {
    let mut profile = stack.profile.clone();
    if let Some(victim) = settings.victim {
        profile.gc.victim = victim.to_string();
    }
    let footprint = workload.footprint();
    fitting::made(settings, least_step(&profile), |settings| {
        holding(footprint, &profile, stack, settings)
    })
}

/// The smallest difference between two capacities of a drive after `profile`.
pub(crate) fn least_step(profile: &Profile) -> Bytes {
    profile.mapping_unit.max(Bytes::BLOCK)
}

/// The drive of `stack` after `profile` for a workload of `footprint` bytes.
pub(crate) fn holding(
    footprint: Bytes,
    profile: &Profile,
    stack: &Stack,
    settings: &Settings,
) -> Result<Drive, Error> {
    let cut = cut(profile, stack, settings, footprint)?;
    let exported = cut.capacity();
    if footprint > exported {
        return Err(Error::Settings(format!(
            "the workload addresses {footprint}, {} exports {exported}: give {} or a smaller `span`",
            stack.text,
            settings.larger()
        )));
    }
    check_memory(&cut, stack, settings, 0)?;
    drives(profile, stack, cut.capacity(), settings.seed)
}

/// Cuts `profile` to the capacity asked for, or to that which a workload of `footprint` bytes fills as asked.
pub(crate) fn cut(
    profile: &Profile,
    stack: &Stack,
    settings: &Settings,
    footprint: Bytes,
) -> Result<Cut, Error> {
    let utilisation = settings.utilisation;
    if !(utilisation > 0.0 && utilisation <= 1.0) {
        return Err(Error::Settings(format!(
            "utilisation is {utilisation}, must be above 0 and at most 1"
        )));
    }
    let unit = least_step(profile);
    let fitting = (footprint.as_f64() / utilisation / unit.as_f64()).ceil() as u64;
    let fitting = Bytes(fitting.saturating_mul(unit.0));
    let sized = |error: ProfileError| match settings.capacity {
        None if error.key() == "capacity" => Error::TooSmall {
            reason: format!("{} is sized to a workload of {footprint}: {error}", stack.text),
            fast: false,
            or: "",
        },
        _ => Error::Profile(error),
    };
    Cut::new(profile, Some(settings.capacity.unwrap_or(fitting))).map_err(sized)
}

/// Refuses a drive whose maps, and `log` bytes for a log above it, do not fit the memory that is free now, instead of
/// dying half-way.
pub(crate) fn check_memory(
    cut: &Cut,
    stack: &Stack,
    settings: &Settings,
    log: u64,
) -> Result<(), Error> {
    if !stack.profile.kind.relocates() && log == 0 {
        return Ok(()); // Zones and in-place media keep no map of blocks.
    }
    let shape = cut.shape;
    let entry = if shape.pba_limit() < u64::from(u32::MAX) { 4 } else { 5 };
    let map = (shape.exported() + shape.physical()).saturating_mul(entry);
    let needed = Bytes(
        map.saturating_add(shape.physical() / 8 + u64::from(shape.units()) * UNIT_BYTES + log),
    );
    match cost::available_memory() {
        Some(free) if needed > free => Err(Error::Settings(format!(
            "simulating {} at {} takes about {needed} of memory, {free} is free: give a smaller `span` or {}",
            stack.text,
            cut.capacity(),
            if settings.of_pool { "pool" } else { "`capacity`" }
        ))),
        _ => Ok(()),
    }
}

/// A request in flight, or a client that thinks after the request.
type InFlight = (Time, TenantId, Op, Phase);

/// What ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Request,
    Thought,
}

/// A drive at work.
struct Bench {
    drive: Drive,
    tags: Tags,
    meter: Meter,
    rounds: Rounds,
    pacing: Pacing,
    barriers: Barriers,
    /// Requests in flight, ordered by completion time.
    in_flight: BinaryHeap<Reverse<InFlight>>,
    think: Think,
    /// Where requests come in bursts, when the last of them came by their own clock.
    burst: Option<Time>,
    /// When measurement began, the present, and the latest completion.
    start: Time,
    now: Time,
    done: Time,
    requests: u64,
    worn_out: bool,
    tenants: TenantMeter,
    /// Bytes by owner when measurement began.
    owned: Option<OwnedCounts>,
    /// What went through the drive since measurement began, where time is modelled.
    rates: Option<DeviceRates>,
}

impl Bench {
    fn new(drive: Drive, tags: Tags, workload: &Prepared, settings: &Settings) -> Self {
        let capacity = drive.cut().capacity();
        let rounds = Rounds::new(capacity, workload.pass());
        let pacing = pacing(workload, settings);
        Bench {
            meter: Meter::new(
                ByteCounts::direct(drive.counters()),
                capacity,
                rounds,
                drive.is_timed(),
            ),
            rounds,
            tags,
            pacing,
            barriers: Barriers::new(workload.has_barriers(pacing)),
            in_flight: BinaryHeap::new(),
            think: Think::new(
                pacing,
                drive.is_timed(),
                workload.has_barriers(pacing),
                settings.seed,
            ),
            burst: workload.rests().then_some(Time::ZERO),
            start: Time::ZERO,
            now: Time::ZERO,
            done: Time::ZERO,
            requests: 0,
            worn_out: false,
            tenants: TenantMeter::default(),
            owned: None,
            rates: None,
            drive,
        }
    }

    /// Fills the drive as the workload asks, one request after the other, and waits until its write buffer is empty;
    /// returns the bytes written.
    fn prefill(&mut self, workload: &Prepared) -> Result<u64, Error> {
        let mut at = Time::ZERO;
        let tenants = followed(workload.tenants().len());
        if tenants > 0 {
            self.drive.follow_owners(tenants, Bytes::BLOCK);
        }
        workload.prefill(|request| {
            let handle = self.tags.handle(std::slice::from_ref(&request));
            self.drive.claim(request.offset, &[(workload.owner(&request), request.length)]);
            at = at.max(self.drive.submit(at, &request, handle).map_err(|e| refused(0, e))?);
            Ok(())
        })?;
        self.drive.drain().map_err(|e| refused(0, e))?;
        let drained = self.drive.drained();
        self.start = at.max(drained);
        self.now = self.start;
        self.done = self.start;
        let counters = self.drive.counters();
        let capacity = self.drive.cut().capacity();
        self.meter =
            Meter::new(ByteCounts::direct(counters), capacity, self.rounds, self.drive.is_timed());
        self.tenants = TenantMeter::new(tenants);
        self.owned = self.owned_counts();
        self.rates = self.drive.is_timed().then(|| DeviceRates::new(self.start));
        Ok(counters.host_written)
    }

    fn measure(
        &mut self,
        workload: &mut Prepared,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        let mut last = Time::ZERO;
        let done = workload.replay(|batch| {
            progress(batch.done);
            self.drive.prefetch(batch.pieces());
            for request in batch.requests() {
                self.serve(request).map_err(|error| self.ended_by(error))?;
            }
            last = batch.pieces().last().map_or(last, |piece| piece.at);
            self.observe(last);
            Ok(())
        });
        let done = done.and_then(|()| self.issue_held().map_err(|error| self.ended_by(error)));
        if !self.worn_out {
            done?;
        }
        let seconds = self.seconds(last);
        let counts = ByteCounts::direct(self.drive.counters());
        self.meter.finish(counts, seconds, self.drive.free_units());
        progress(1.0);
        Ok(())
    }

    /// The error of a run that `reason` ends; the end of the drive's life is noted.
    fn ended_by(&mut self, reason: DriveError) -> Error {
        self.worn_out |= reason == DriveError::EndOfLife;
        refused(self.requests, reason)
    }

    /// Issues the next request of the workload when it is its turn, or holds it back behind a flush. Without time,
    /// every request is done before the next one.
    #[inline]
    fn serve(&mut self, pieces: &[Request]) -> Result<(), DriveError> {
        self.requests += 1;
        if !self.drive.is_timed() {
            return self.submit(self.start, pieces).map(|_| ());
        }
        match self.pacing {
            Pacing::Clock { speed } => {
                let at = self.start + Time((pieces[0].at.0 as f64 / speed) as u64);
                while self.in_flight.peek().is_some_and(|Reverse((end, ..))| *end <= at) {
                    self.end_one()?;
                }
                self.now = self.now.max(at);
            }
            Pacing::QueueDepth(depth) | Pacing::Clients { count: depth, .. } => {
                self.rest_until(pieces[0].at)?;
                while self.in_flight.len() + self.barriers.held() >= depth as usize {
                    self.end_one()?;
                }
            }
        }
        if self.barriers.admit(pieces) { self.issue(pieces) } else { Ok(()) }
    }

    /// Waits until the burst before is done, and then as long as nothing is asked for, if a burst begins.
    fn rest_until(&mut self, at: Time) -> Result<(), DriveError> {
        let Some(before) = self.burst.filter(|before| *before < at) else { return Ok(()) };
        while !self.in_flight.is_empty() {
            self.end_one()?;
        }
        self.burst = Some(at);
        self.now += at.since(before);
        Ok(())
    }

    /// Hands a request to the drive now.
    #[inline]
    fn issue(&mut self, pieces: &[Request]) -> Result<(), DriveError> {
        let Request { op, tenant, .. } = pieces[0];
        let done = self.submit(self.now, pieces)?;
        self.meter.record(op, done.since(self.now));
        self.tenants.done(tenant, op, done.since(self.now));
        if self.barriers.are_kept() || !matches!(self.pacing, Pacing::Clock { .. }) {
            self.in_flight.push(Reverse((done, tenant, op, Phase::Request)));
        }
        self.done = self.done.max(done);
        Ok(())
    }

    /// Submits a request that arrives at `at` to the drive; returns the completion time.
    #[inline]
    fn submit(&mut self, at: Time, pieces: &[Request]) -> Result<Time, DriveError> {
        let handle = self.tags.handle(pieces);
        self.tenants.issue(pieces);
        let mut done = at;
        for piece in pieces {
            if self.owned.is_some() && piece.op == Op::Write {
                self.drive.claim(piece.offset, &[(owner(piece.tenant), piece.length)]);
            }
            let end = self.drive.submit(at, piece, handle)?;
            if let Some(rates) = &mut self.rates {
                match piece.op {
                    Op::Read => rates.read(end, piece.length),
                    Op::Write => rates.written(end, piece.length),
                    Op::Flush | Op::Trim | Op::WriteZeroes => {}
                }
            }
            done = done.max(end);
        }
        Ok(done)
    }

    /// How long after the start all that the host wrote is on the media, once the drive has programmed what waits in
    /// its buffer; nothing where no time is modelled or the drive is worn out.
    fn on_media(&mut self) -> Option<Time> {
        if self.worn_out || !self.drive.is_timed() {
            return None;
        }
        self.drive.drain().ok()?;
        Some(self.done.max(self.drive.drained()).since(self.start))
    }

    fn owned_counts(&self) -> Option<OwnedCounts> {
        let drive = self.drive.programmed_by_owner()?;
        Some(OwnedCounts { drive, ..OwnedCounts::default() })
    }

    /// Goes on to the end of the request in flight, or of the thought, that ends first, and issues what waited for it.
    fn end_one(&mut self) -> Result<(), DriveError> {
        let ended = self.in_flight.pop().expect("what is held back waits for what is in flight");
        let Reverse((at, tenant, op, phase)) = ended;
        self.now = self.now.max(at);
        if phase == Phase::Request
            && let Some(thinks) = self.think.after(op)
        {
            self.in_flight.push(Reverse((at + thinks, tenant, op, Phase::Thought)));
            return Ok(());
        }
        self.barriers.done(tenant, op);
        while let Some(pieces) = self.barriers.released() {
            self.issue(&pieces)?;
        }
        Ok(())
    }

    /// Issues all that is still held back, each when it may be.
    fn issue_held(&mut self) -> Result<(), DriveError> {
        while self.barriers.held() > 0 {
            self.end_one()?;
        }
        Ok(())
    }

    fn observe(&mut self, last: Time) {
        let counters = self.drive.counters();
        if self.meter.is_due(counters.host_written) {
            let seconds = self.seconds(last);
            self.meter.observe(ByteCounts::direct(counters), seconds, self.drive.free_units());
        }
    }

    /// Seconds into the run, to the latest completion: simulated where time is modelled, else by the workload's own
    /// clock.
    fn seconds(&self, last: Time) -> f64 {
        if self.drive.is_timed() {
            self.done.since(self.start).as_secs_f64()
        } else {
            last.as_secs_f64()
        }
    }
}

/// The error of a request that the drive refused; 0 is the prefill.
fn refused(request: u64, reason: DriveError) -> Error {
    not_done(
        reason,
        match request {
            0 => "while filling the drive before the measurement".to_owned(),
            _ => format!("request {request} of the workload"),
        },
    )
}

/// The error for a request that a drive refused, with a remedy; `when` names the request.
pub(crate) fn not_done(reason: DriveError, when: String) -> Error {
    let hint = match reason {
        DriveError::Zone { .. } => {
            "; a zoned drive under `raw` takes only sequential writes that start zones over, as generator seq makes \
             them: for others put a log on it (log:DEVICE)"
        }
        DriveError::Misaligned { .. } => "; give `io_size` a multiple of it",
        _ => "",
    };
    Error::Drive { when, reason, hint }
}

#[cfg(test)]
mod tests;
