//! Builds the record of a run from the measurements.

use std::collections::BTreeMap;

use thermocline_engine::Config;
use thermocline_ftl::UnitState;
use thermocline_ftl::placement::Below;
use thermocline_nand::{AgesAndLoss, Counters, Drive, Kind, Profile, RefreshLimits, UnitView};
use thermocline_record::{
    DeviceInfo, FastDevice, FdpStats, Lasting, LatencyNs, Life, MediaBytes, RunRecord, SCHEMA,
    STEADY, SteadyState, Units,
};
use thermocline_types::{Bytes, Setting, Time};

mod attempts;
mod bandwidth;
mod drives;
mod heat;
mod rates;
mod tenants;
mod wear;
mod written;

pub use bandwidth::until_on_media;
pub use drives::Before;
pub use rates::{Held, held};
pub use tenants::Followed;
use written::{TIER, engine_bytes};

use crate::byte_counts::{ByteCounts, LogBytes};
use crate::input::Prepared;
use crate::life::{Load, Measured, life};
use crate::log::LogOptions;
use crate::log::device::Waits;
use crate::log::plan::is_bare;
use crate::meter::{Meter, ratio};
use crate::rates::DeviceRates;
use crate::settings::{Pacing, Settings};
use crate::stack::{Layer, Stack};
use crate::steady::Rounds;
use crate::tag::Tagging;
use crate::{Error, cost};

/// Everything a finished run knows.
pub struct Outcome<'a> {
    /// What was replayed.
    pub workload: &'a Prepared,
    /// What it ran on.
    pub stack: &'a Stack,
    /// How.
    pub settings: &'a Settings,
    /// When requests were issued.
    pub pacing: Pacing,
    /// What was measured on the way.
    pub meter: &'a Meter,
    /// How the run was divided to find its steady state.
    pub rounds: Rounds,
    /// Bytes at the end.
    pub end: ByteCounts,
    /// Simulated time the measured run took.
    pub simulated: Time,
    /// Whether the drive wore out before the workload ended.
    pub worn_out: bool,
    /// Requests served.
    pub requests: u64,
    /// Bytes written before measurement.
    pub prefilled: u64,
    /// Processor seconds of the measured run.
    pub cpu_seconds: f64,
    /// The drive's units at the end.
    pub units: Vec<UnitView>,
    /// What went through the drive for capacity and the fast one over time; none where time is not modelled.
    pub rates: Vec<&'a DeviceRates>,
    /// How long drives took for what flushes of the host wait for, under a log, where time is modelled.
    pub waits: Option<&'a Waits>,
    /// What a log has on the drive for capacity and on the fast one at the end.
    pub held: Option<[Held; 2]>,
    /// How old the data is at the end, where units have ages of their own.
    pub ages: Option<AgesAndLoss>,
    /// What each tenant asked for and got, where they are followed.
    pub tenants: Option<Followed<'a>>,
    /// The drive, or that for capacity.
    pub drive: &'a Drive,
    /// Counters of the drives and the log when measurement began.
    pub before: Before,
    /// The fast drive of a tiered stack.
    pub fast: Option<&'a Drive>,
    /// The log's configuration and the blocks of its volume; `None` without a log.
    pub log: Option<(&'a Config, u64)>,
}

/// Cells of a unit map at most; more units are drawn together.
const CELLS: usize = 4096;

/// Makes the run record.
///
/// # Errors
/// [`Error::Accounting`] when the bytes of the run do not add up.
pub fn record(outcome: &Outcome) -> Result<RunRecord, Error> {
    let (start, _) = outcome.meter.rounds();
    let run = outcome.end.since(start);
    for counts in [&outcome.end, &run] {
        // A run that was cut short leaves requests in work.
        let checked = if outcome.worn_out { counts.drive.check() } else { counts.check() };
        checked.map_err(Error::Accounting)?;
    }
    let (steady_state, steady, over) = steady_window(outcome);
    let [waf, alwa, dlwa] = run.amplification();
    let lasting = lasting(&steady, over);
    let steady_ratio = |ratio: Option<f64>| ratio.filter(|_| steady_state.reached);
    let timed = outcome.drive.is_timed();
    Ok(RunRecord {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        stack: outcome.stack.text.clone(),
        device: device(outcome, &outcome.stack.profile, outcome.drive),
        fast: fast(outcome, &run, &steady, &steady_state),
        tenants: tenants::tenants(outcome, &run)?,
        handles: drives::handles(outcome),
        workload: outcome.workload.info.clone(),
        config: config(outcome),
        seed: outcome.settings.seed,
        prefill_bytes_written: outcome.prefilled,
        host_bytes_written: run.host_written,
        host_bytes_read: run.host_read,
        host_bytes_trimmed: run.host_trimmed,
        requests: outcome.requests,
        interrupted: outcome.workload.interrupted(),
        engine_bytes_written: engine_bytes(&run),
        device_bytes_written: run.drive.host_written,
        media_bytes_written: media(&run.drive),
        media_bytes_patrolled: (run.drive.patrolled > 0).then_some(run.drive.patrolled),
        media_bytes_erased: run.drive.erased,
        alwa,
        dlwa,
        waf,
        alwa_steady: steady_ratio(lasting.alwa),
        dlwa_steady: steady_ratio(lasting.dlwa),
        waf_steady: steady_ratio(lasting.waf),
        waf_last_half: last_waf(outcome, 2),
        waf_last_quarter: last_waf(outcome, 4),
        lasting,
        life: lifetime(outcome, &steady, &steady_state),
        life_of_drive: None,
        steady_state,
        fdp: (outcome.stack.profile.kind == Kind::Fdp).then(|| fdp(&run.drive)),
        command: None,
        spec: None,
        latency_ns: latencies(outcome),
        heating: heat::heating(outcome),
        read_attempts: attempts::of(outcome, &run),
        bandwidth: (timed && outcome.simulated > Time::ZERO)
            .then(|| bandwidth::bandwidth(outcome, &run)),
        drives: drives::each(outcome)?,
        series: outcome.meter.series(),
        device_series: rates::series(outcome),
        units: units(&outcome.units),
        wear: wear::wear(outcome),
        notes: notes(outcome, &run),
        host_blocks_per_cpu_second: run.host_written as f64
            / Bytes::BLOCK.as_f64()
            / outcome.cpu_seconds.max(1e-9),
        peak_rss_bytes: cost::peak_rss_bytes(),
    })
}

/// Latency of requests by kind, and below a log that of what its flushes wait for.
fn latencies(outcome: &Outcome) -> Option<BTreeMap<String, LatencyNs>> {
    let latencies = outcome.meter.latencies()?;
    let below = outcome.waits.filter(|_| latencies.iter().any(|(name, _)| *name == "flush"));
    let below = below.into_iter().flat_map(Waits::latencies);
    Some(latencies.into_iter().chain(below).map(|(name, took)| (name.to_owned(), took)).collect())
}

/// The ratios of the counters of the part called `over`.
fn lasting(counters: &ByteCounts, over: &str) -> Lasting {
    let [waf, alwa, dlwa] = counters.amplification();
    Lasting { waf, alwa, dlwa, over: over.to_owned() }
}

/// Write amplification over the last `part`-th of the host bytes.
fn last_waf(outcome: &Outcome, part: u64) -> Option<f64> {
    let before = outcome.meter.before_last(part, &outcome.end);
    outcome.end.since(&before).amplification()[0]
}

/// How long the product lasts at the write amplification of the `steady` window.
fn lifetime(outcome: &Outcome, steady: &ByteCounts, state: &SteadyState) -> Option<Life> {
    let cache = outcome.stack.profile.slc.as_ref();
    let drives = u64::from(outcome.stack.drives());
    let holding = outcome.stack.group().map_or(drives, |group| group.shares() as u64);
    let [waf, without_relocation] = steady.wearing(cache.map_or(1, |slc| slc.bits))?;
    let measured = Measured {
        waf,
        without_relocation,
        cached: cache
            .and_then(|_| ratio(steady.drive.slc - steady.drive.slc_lent, steady.host_written)),
        deviation: waf_deviation(outcome),
        data: Bytes(outcome.workload.footprint().0 / holding),
        simulated: Bytes(outcome.drive.cut().capacity().0 / drives),
    };
    let life = life(&outcome.stack.profile, &measured, load(outcome))?;
    Some(provisional(life, state))
}

/// Life of the fast product, which is always full. The load is the fast drive's share of the writes.
fn fast_lifetime(outcome: &Outcome, steady: &ByteCounts, state: &SteadyState) -> Option<Life> {
    let (profile, counters) = (outcome.stack.fast.as_ref()?, steady.fast?);
    let simulated = outcome.fast?.cut().capacity();
    let waf = counters.media_total as f64 / (counters.host_written as f64).max(1.0);
    let daily = match load(outcome) {
        Load::Daily(bytes) | Load::Measured(bytes) => bytes.as_f64(),
        Load::Assumed(capacities) => capacities * outcome.stack.profile.capacity.as_f64(),
    };
    let share = counters.host_written as f64 / (steady.host_written as f64).max(1.0);
    let deviation = waf_deviation(outcome);
    let (data, cached) = (simulated, None);
    let measured = Measured { waf, without_relocation: waf, cached, deviation, data, simulated };
    let mut life = life(profile, &measured, Load::Daily(Bytes((daily * share) as u64)))?;
    life.assumptions[1] = format!(
        "{} per day, {share:.3} of what comes to the product",
        Bytes((daily * share) as u64)
    );
    Some(provisional(life, state))
}

fn provisional(mut life: Life, state: &SteadyState) -> Life {
    if !state.reached {
        life.verdict = format!("provisional, before steady state: {}", life.verdict);
    }
    life
}

/// The steady window, its counters and its name: from the first steady round to the end. Before steady state it is the
/// later half of the passes over a trace (of one pass, all of it), or the second half of what a generator wrote.
fn steady_window(outcome: &Outcome) -> (SteadyState, ByteCounts, &'static str) {
    let (start, rounds) = outcome.meter.rounds();
    let wafs = round_wafs(start, rounds);
    let capacity = outcome.drive.cut().capacity().as_f64();
    let run = outcome.end.since(start);
    // What was to come of an interrupted run is not known, so that it is not known to be steady either.
    let whole = outcome.workload.interrupted().is_none();
    let found = outcome.rounds.first_steady(&wafs).filter(|_| whole);
    let (from, over) = match found {
        Some(0) => (*start, STEADY),
        Some(round) => (rounds[round - 1], STEADY),
        None if outcome.workload.pass().is_some() => match rounds.len() {
            0 | 1 => (*start, "whole run"),
            passes => (rounds[passes - passes / 2 - 1], "later half of the passes"),
        },
        None => (outcome.meter.before_last(2, &outcome.end), "later half"),
    };
    let window = found.map(|_| [from.since(start).host_written, run.host_written]);
    let state = SteadyState {
        reached: found.is_some(),
        rule: outcome.rounds.rule(),
        window,
        drive_fills: run.host_written as f64 / capacity,
    };
    (state, outcome.end.since(&from), over)
}

fn round_wafs(start: &ByteCounts, rounds: &[ByteCounts]) -> Vec<f64> {
    let before = std::iter::once(start).chain(rounds);
    rounds
        .iter()
        .zip(before)
        .filter_map(|(now, before)| now.since(before).amplification()[0])
        .collect()
}

/// Least relative standard deviation of write amplification: what a capture of some minutes says of years. Chosen.
const LEAST_DEVIATION: f64 = 0.1;

/// Relative standard deviation of write amplification between the rounds of the second half of the run.
fn waf_deviation(outcome: &Outcome) -> f64 {
    let (start, rounds) = outcome.meter.rounds();
    let wafs = round_wafs(start, rounds);
    let late = &wafs[wafs.len() / 2..];
    if late.len() < 2 {
        return LEAST_DEVIATION;
    }
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    let variance = late.iter().map(|waf| (waf - mean).powi(2)).sum::<f64>() / late.len() as f64;
    (variance.sqrt() / mean).max(LEAST_DEVIATION)
}

fn load(outcome: &Outcome) -> Load {
    let drives = u64::from(outcome.stack.drives());
    let days = outcome.workload.info.duration_seconds.unwrap_or(0.0) / 86_400.0;
    match outcome.settings.daily_writes {
        Some(bytes) => Load::Daily(Bytes(bytes.0 / drives)),
        None if days > 0.0 => {
            let written = outcome.workload.working_set().bytes_written.as_f64();
            Load::Measured(Bytes((written / days) as u64 / drives))
        }
        None => Load::Assumed(1.0),
    }
}

/// The fast drive and the bytes written to the fast drive; `None` for other stacks.
fn fast(
    outcome: &Outcome,
    run: &ByteCounts,
    steady: &ByteCounts,
    state: &SteadyState,
) -> Option<FastDevice> {
    let (profile, counters) = (outcome.stack.fast.as_ref()?, run.fast?);
    Some(FastDevice {
        device: device(outcome, profile, outcome.fast?),
        device_bytes_written: counters.host_written,
        media_bytes_written: media(&counters),
        life: fast_lifetime(outcome, steady, state),
    })
}

fn device(outcome: &Outcome, profile: &Profile, drive: &Drive) -> DeviceInfo {
    let cut = drive.cut();
    let count = drive.side_by_side().len().max(1) as u64;
    DeviceInfo {
        profile: profile.name.clone(),
        title: profile.title.clone(),
        kind: profile.kind.name().into(),
        product_capacity_bytes: profile.capacity.0 * count,
        capacity_bytes: cut.capacity().0,
        utilisation: Some(
            (outcome.workload.footprint().as_f64() / cut.capacity().as_f64()).min(1.0),
        ),
        media_bytes: cut.media().0,
        overprovisioning: cut.overprovisioning(),
        mapping_unit_bytes: cut.mapping_unit.0,
        unit_bytes: cut.unit().0,
        units: u64::from(cut.shape.units()),
        timed: drive.is_timed(),
    }
}

fn config(outcome: &Outcome) -> BTreeMap<String, serde_json::Value> {
    let settings = outcome.settings;
    // Under a log, the victim asked for is the log's.
    let asked = settings.victim.filter(|_| outcome.log.is_none());
    let victim = asked.map_or(outcome.stack.profile.gc.victim.clone(), |v| v.to_string());
    let pacing = match outcome.pacing {
        Pacing::QueueDepth(depth) => format!("queue depth {depth}"),
        Pacing::Clients { count, think } => {
            format!("{count} clients that think {} ms in the mean", think.0 as f64 / 1e6)
        }
        Pacing::Clock { speed } => format!("workload's clock x {speed}"),
    };
    let mut config = BTreeMap::from([
        ("device.gc.victim".to_owned(), victim.into()),
        ("device.gc.separate".to_owned(), outcome.stack.profile.gc.separate.into()),
        ("capacity_bytes".to_owned(), outcome.drive.cut().capacity().0.into()),
        ("utilisation".to_owned(), settings.utilisation.into()),
        ("pacing".to_owned(), pacing.into()),
    ]);
    config.extend(outcome.workload.settings());
    if let Some((log, volume_blocks)) = outcome.log {
        config.extend(log_config(log, volume_blocks, &outcome.stack.log));
    }
    if outcome.stack.layer == Layer::Tag {
        let placement = outcome.stack.tag.as_ref().unwrap_or(&Tagging::Tenant).to_string();
        config.insert("tag.placement".into(), placement.into());
    }
    let given = outcome.stack.overrides.iter();
    let own = |text: &&String| match outcome.log {
        Some(_) => !is_of_log(text),
        None => !text.starts_with("tag."),
    };
    for text in given.filter(own) {
        if let Some((key, value)) = text.split_once('=') {
            config.insert(key.trim().to_owned(), value.trim().into());
        }
    }
    config
}

/// Whether an override is one of the log.
fn is_of_log(text: &str) -> bool {
    text.starts_with("log.") || text.starts_with("pool.")
}

/// How the log was set up, by [`LogOptions::keys`].
fn log_config(
    log: &Config,
    volume_blocks: u64,
    stated: &LogOptions,
) -> Vec<(String, serde_json::Value)> {
    let geometry = log.geometry;
    let unit = u64::from(geometry.blocks_per_unit()) * geometry.logical_block().bytes() as u64;
    let value = |key: &str| -> serde_json::Value {
        match key {
            "log.unit" => unit.into(),
            "log.volume" => (volume_blocks * Bytes::BLOCK.0).into(),
            "log.logical_block" => geometry.logical_block().bytes().into(),
            "log.packs" => stated.packs().into(),
            "pool.placement" => log.placement.to_string().into(),
            "pool.victim" => log.gc.victim.to_string().into(),
            "pool.read_plan" => log.gc.read_plan.show().into(),
            "pool.read_size" => log.gc.read_bytes.into(),
            "pool.segment" => log.gc.segment_bytes.into(),
            "pool.ahead_units" => log.gc.ahead_units.into(),
            "pool.write_depth" => log.write_depth.into(),
            "pool.write_cache" => log.write_cache.into(),
            "pool.staged" => (u64::from(log.max_staged_blocks) * Bytes::BLOCK.0).into(),
            "pool.max_requests" => log.max_requests.into(),
            "pool.checkpoint" => log.checkpoint_bytes.into(),
            "pool.reserved_units" => log.reserved_units.into(),
            "pool.memory" => log.map_memory_bytes.into(),
            "pool.bypass" => (log.bypass_bytes < u64::MAX).then_some(log.bypass_bytes).into(),
            "pool.high_watermark" => stated.engine.high_watermark.into(),
            "pool.low_watermark" => stated.engine.low_watermark.into(),
            "pool.max_age" => stated.engine.max_age.map(|age| age.0).into(),
            "pool.at_risk" => stated.engine.at_risk.map(Bytes::get).into(),
            "log.media" => stated.media.unwrap_or_default().name().into(),
            "log.group" => stated.group.map(|group| group.to_string()).into(),
            "log.fast_group" => stated.fast_group.map(|group| group.to_string()).into(),
            _ => unreachable!("every key has an arm"),
        }
    };
    let with_value = |(key, _): (String, _)| {
        let value = value(&key);
        (key, value)
    };
    LogOptions::keys().into_iter().map(with_value).collect()
}

fn media(run: &Counters) -> MediaBytes {
    MediaBytes {
        total: run.media_total,
        by_cause: run.by_cause().map(|(cause, bytes)| (cause.name().to_owned(), bytes)).collect(),
        in_slc_mode: (run.slc > 0).then_some(run.slc),
        absorbed_in_buffer: run.absorbed,
        left_in_buffer: run.buffered,
    }
}

fn fdp(run: &Counters) -> FdpStats {
    let events = [
        ("media_reallocated", run.media_reallocated),
        ("reclaim_unit_not_fully_written", run.units_not_full),
        ("invalid_placement_identifier", run.invalid_handles),
        ("reclaim_group_full", run.redirected),
    ];
    FdpStats {
        hbmw: run.host_written,
        mbmw: run.media_total,
        mbe: run.erased,
        events: events.map(|(name, count)| (name.to_owned(), count)).into(),
    }
}

fn units(units: &[UnitView]) -> Units {
    let per_cell = units.len().div_ceil(CELLS).max(1);
    let cells = units.chunks(per_cell);
    let mean = |cell: &[UnitView], value: fn(&UnitView) -> f32| {
        cell.iter().map(value).sum::<f32>() / cell.len() as f32
    };
    let mut valid_histogram = vec![0; 20];
    for unit in units.iter().filter(|unit| unit.state == UnitState::Closed) {
        valid_histogram[((unit.valid * 20.0) as usize).min(19)] += 1;
    }
    Units {
        units_per_cell: per_cell as u64,
        fill: cells.clone().map(|cell| mean(cell, |unit| unit.fill)).collect(),
        valid: cells.clone().map(|cell| mean(cell, |unit| unit.valid)).collect(),
        state: cells.map(state_letter).collect(),
        valid_histogram,
    }
}

fn state_letter(cell: &[UnitView]) -> char {
    let letter = |unit: &UnitView| match unit.state {
        UnitState::Free => 'f',
        UnitState::Open => 'o',
        UnitState::Closed | UnitState::Relocating => 'c',
        UnitState::Retired => 'r',
    };
    let first = letter(&cell[0]);
    if cell.iter().all(|unit| letter(unit) == first) { first } else { 'm' }
}

/// A sentence for every setting that this device has no use for.
fn without_effect(outcome: &Outcome) -> Vec<String> {
    let (settings, profile) = (outcome.settings, &outcome.stack.profile);
    let about = |given: bool, setting: &str, reason: &str| {
        given.then(|| format!("{} {reason}: {setting} had no effect", profile.name))
    };
    let raw = outcome.log.is_none();
    let life = profile.wear.pe_cycles.is_some()
        || (profile.wear.rated_dwpd.is_some() && profile.wear.warranty_years.is_some());
    let all = [
        about(
            settings.pacing.is_some() && raw && !outcome.drive.is_timed(),
            "`queue_depth` or `speed`",
            "models no time",
        ),
        about(settings.daily_writes.is_some() && !life, "`daily_writes`", "has no known endurance"),
        about(
            settings.victim.is_some() && raw && !profile.kind.relocates(),
            "`victim`",
            "collects no garbage",
        ),
        about(
            raw && outcome.stack.overrides.iter().any(|text| is_of_log(text)),
            "log.KEY or pool.KEY",
            "is written to without a log",
        ),
    ];
    all.into_iter().flatten().collect()
}

fn notes(outcome: &Outcome, run: &ByteCounts) -> Vec<String> {
    let mut notes = outcome.workload.notes();
    let (product, cut) = (outcome.stack.profile.capacity, outcome.drive.cut());
    let product = Bytes(product.0 * u64::from(outcome.stack.drives()));
    notes.extend(drives::note(outcome));
    notes.extend(tenants::note(outcome));
    notes.extend(heat::note(outcome));
    notes.extend(attempts::note(outcome, run));
    notes.extend(written::parts_note(outcome, run));
    notes.extend(refresh_note(outcome));
    if cut.capacity() != product && outcome.stack.profile.geometry.is_some() {
        notes.push(format!(
            "{} is simulated at {} instead of {product}, with its overprovisioning, mapping unit and dies kept and units of {}",
            outcome.stack.profile.name,
            cut.capacity(),
            cut.unit()
        ));
    }
    if let Some(buffer) = outcome.stack.profile.buffer.as_ref().filter(|buffer| buffer.merge)
        && cut.capacity() < product
    {
        notes.push(format!(
            "the write buffer keeps the product's {}, here {:.2} % of the capacity; on a workload cut down with the drive \
             it absorbs more than the product's would (device.buffer.size)",
            buffer.size,
            100.0 * buffer.size.as_f64() / cut.capacity().as_f64()
        ));
    }
    if let (Some(fast), Some(drive)) = (&outcome.stack.fast, outcome.fast)
        && let Some(buffer) = fast.buffer.as_ref().filter(|buffer| buffer.merge)
        && drive.cut().capacity() < fast.capacity
    {
        notes.push(format!(
            "the write buffer of the fast device keeps the product's {}, here {:.2} % of its capacity: it absorbs more than \
             the product's would (fast.buffer.size)",
            buffer.size,
            100.0 * buffer.size.as_f64() / drive.cut().capacity().as_f64()
        ));
    }
    if let Some(done) = outcome.workload.interrupted() {
        notes.push(format!(
            "interrupted at {:.0} % of the workload: all figures are those of the run so far",
            done * 100.0
        ));
    }
    if outcome.worn_out {
        notes.push(format!(
            "the drive wore out after {} host bytes of this run and turned read-only",
            run.host_written
        ));
    }
    notes.extend(flush_note(outcome, run));
    notes.extend(without_effect(outcome));
    notes.extend(in_memory(outcome));
    notes.extend(run.log.iter().flat_map(|log| log_notes(outcome, log, run.host_written)));
    if run.drive.invalid_handles > 0 {
        notes.push(format!(
            "{} writes had a placement handle the drive does not have and went to the first",
            run.drive.invalid_handles
        ));
    }
    notes
}

/// At what a drive rewrites, and by which clock.
fn refresh_note(outcome: &Outcome) -> Option<String> {
    let limits = RefreshLimits::of(&outcome.stack.profile)?;
    let named = |value: Option<f64>, unit: &str| {
        value.map_or(String::new(), |value| format!("{value:.4} {unit}, "))
    };
    Some(format!(
        "{} rewrites units after {}{}looked for in a patrol of {} days, all by the clock of the requests: a workload \
         without one never ages",
        outcome.stack.profile.name,
        named(limits.days, "days"),
        named(limits.reads, "reads of an erase block"),
        limits.patrol_days
    ))
}

/// Explains how flushes, or their absence, affect absorption of writes in memory.
fn flush_note(outcome: &Outcome, run: &ByteCounts) -> Option<String> {
    let buffer = outcome.stack.profile.buffer.as_ref().filter(|buffer| buffer.merge);
    let absorbed = run.drive.absorbed + run.log.map_or(0, |log| log.absorbed);
    if outcome.workload.flushes() > 0 {
        let kept = buffer.is_some_and(|buffer| buffer.power_loss_protection);
        return (kept && run.drive.absorbed > 0).then(|| {
            format!(
                "{} protects its write buffer against power loss, so that a flush leaves there what it covers, and \
                 what is rewritten is absorbed across flushes (device.buffer.power_loss_protection)",
                outcome.stack.profile.name
            )
        });
    }
    (outcome.workload.pass().is_some() || absorbed > 0).then(|| {
        let format = outcome.workload.info.format.as_deref();
        let why = format.map_or(String::new(), |format| {
            format!(" (some formats cannot tell of them, and this is {format})")
        });
        format!(
            "the workload has no flushes{why}: whoever wrote it never waits for data to be durable, so memory, the \
             log's and the drive's, may absorb all that is rewritten soon; with flushes it absorbs less"
        )
    })
}

/// Explains missing latencies: requests completed in memory have no modelled latency.
fn in_memory(outcome: &Outcome) -> Vec<String> {
    let latencies = outcome.meter.latencies().into_iter().flatten();
    let some = latencies.filter(|(kind, latency)| latency.in_memory > 0 && *kind != "flush");
    some.map(|(kind, latency)| {
        format!(
            "{:.1} % of the {kind}s completed in memory, in no time that is modelled",
            100.0 * latency.in_memory as f64 / latency.count as f64
        )
    })
    .collect()
}

/// How much longer than the log's the drive's units are from which on it is said. Chosen: as long as the log's, and
/// 1.2, 2.4 and 4.8 times as long, they had `tier:p5800x+p5316` write 2.9, 2.7, 4.2 and 9.0 bytes for each of the
/// host's (random writes of 64 KiB, 80 % full).
const LONGER: f32 = 1.5;

/// Warns if the drive's units are longer than the log's units by more than [`LONGER`]: the drive then relocates live
/// data.
fn shorter_units(outcome: &Outcome) -> Option<String> {
    let (config, _) = outcome.log?;
    let Below::Mixed { units, .. } = config.below else { return None };
    let own = outcome.drive.cut().unit();
    (units > LONGER).then(|| {
        format!(
            "units of the log of {} are shorter than the drive's of {own}, which copies what is valid beside those that \
             are reset: larger drives have longer ones (`span`, `capacity`, `fast_capacity`), or give log.unit",
            Bytes((own.as_f64() / f64::from(units)).round() as u64)
        )
    })
}

fn log_notes(outcome: &Outcome, log: &LogBytes, host: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if is_bare(&outcome.stack.profile) {
        notes.push(format!(
            "{} has no drive beneath the log: its units are the log's, and its overprovisioning is all the spare \
             there is",
            outcome.stack.profile.name
        ));
    }
    let full = outcome.workload.footprint().as_f64() / outcome.drive.cut().capacity().as_f64();
    if outcome.settings.capacity.is_none() && outcome.settings.utilisation - full > 0.01 {
        notes.push(format!(
            "the log sets aside reserve, open units, maps and superblocks, so that a drive full of the workload is \
             {:.0} % full; to compare with other stacks, give all of them `utilisation` {:.2}",
            full * 100.0,
            (full - 0.005).max(0.01)
        ));
    }
    notes.extend(shorter_units(outcome));
    if log.absorbed > 0 {
        notes.push(format!(
            "{:.2} % of the blocks that the host wrote were overwritten or trimmed while they waited in memory and \
             never written",
            100.0 * log.absorbed as f64 / log.asked.max(1) as f64
        ));
    }
    if log.filled > 0 {
        notes.push(format!(
            "the log works in blocks of 4 KiB: of writes that cover blocks in part it wrote {} more than the {} of the \
             host, for which it read {}",
            Bytes(log.filled),
            Bytes(host),
            Bytes(log.filled_read)
        ));
    }
    notes
}
