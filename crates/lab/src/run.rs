//! One run: a workload against a stack, from preconditioning to the run record.

use thermocline_engine::Config;
use thermocline_nand::profile::Cut;
use thermocline_nand::{Drive, DriveError, Profile, ProfileError, Striped};
use thermocline_record::RunRecord;
use thermocline_types::Bytes;

use crate::bench::Bench;
use crate::input::Prepared;
use crate::log::device::Device;
use crate::log::machine::Machine;
use crate::log::plan::{Plan, is_bare};
use crate::outcome::{self, Before, Followed, Outcome};
use crate::settings::{Pacing, Settings};
use crate::stack::{DriveArray, Layer, Stack};
use crate::tag::Tags;
use crate::target::{DriveTarget, Target};
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
        let plan = fullest(settings, |settings| Plan::new(stack, settings, workload.room()))?;
        let (config, blocks) = (plan.config.clone(), plan.blocks);
        let mut machine = plan.build()?;
        machine.tags = Tags::new(stack, workload, machine.device().drive().cut())?;
        return run_on(machine, Some((&config, blocks)), workload, stack, settings, progress);
    }
    let mut drive = build(workload, stack, settings)?;
    if stack.layer == Layer::Tag {
        drive.follow_handles();
    }
    let tags = Tags::new(stack, workload, drive.cut())?;
    run_on(DriveTarget::new(drive, tags), None, workload, stack, settings, progress)
}

/// Runs `workload` on `target`; of a log with its configuration and the blocks of its volume.
fn run_on(
    target: impl Target,
    log: Option<(&Config, u64)>,
    workload: &mut Prepared,
    stack: &Stack,
    settings: &Settings,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, Error> {
    let pacing = pacing(workload, settings);
    let mut bench = Bench::new(target, workload.pass(), pacing, settings.seed);
    bench.larger = settings.larger();
    let prefilled = bench.prefill(workload)?;
    let before = Before::of(bench.target().drive());
    let cpu = cost::thread_cpu_seconds();
    bench.measure(workload, progress)?;
    let cpu_seconds = cost::thread_cpu_seconds() - cpu;
    let (units, ages) = (bench.target_mut().units(), bench.target_mut().drive_mut().ages());
    let target = bench.target();
    let device = target.log().map(Machine::device);
    let owned = bench.owned.as_ref().zip(target.owned_counts());
    let mut record = outcome::record(&Outcome {
        workload,
        stack,
        settings,
        pacing,
        meter: &bench.meter,
        rounds: bench.rounds,
        end: target.byte_counts(),
        simulated: bench.done.since(bench.start),
        worn_out: bench.worn_out,
        requests: bench.requests,
        prefilled,
        cpu_seconds,
        units,
        rates: target.rates(),
        waits: device.and_then(Device::waits),
        held: target.log().map(outcome::held),
        ages,
        tenants: owned
            .map(|(start, end)| Followed { meter: &bench.tenants, owned: end.since(start) }),
        drive: target.drive(),
        before,
        fast: device.and_then(Device::fast),
        log,
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
    check_memory(&cut, stack, settings, None)?;
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

/// Refuses a drive whose maps, and those of a `log` above it, do not fit the memory that is free now, instead of dying
/// half-way. Zones, media in place and bare units under a log keep no map of blocks.
pub(crate) fn check_memory(
    cut: &Cut,
    stack: &Stack,
    settings: &Settings,
    log: Option<Bytes>,
) -> Result<(), Error> {
    let maps = stack.profile.kind.relocates() && !(log.is_some() && is_bare(&stack.profile));
    if !maps && log.is_none() {
        return Ok(());
    }
    let shape = cut.shape;
    let entry = if shape.pba_limit() < u64::from(u32::MAX) { 4 } else { 5 };
    let map = (shape.exported() + shape.physical()).saturating_mul(entry) + shape.physical() / 8;
    let map = if maps { map } else { 0 };
    let units = u64::from(shape.units()) * UNIT_BYTES;
    let needed = Bytes(map.saturating_add(units + log.unwrap_or_default().0));
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
