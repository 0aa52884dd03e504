//! Runs from a specification: one value determines a whole run.
//!
//! Invariants:
//! * Equal specifications and files give equal records.
//! * An error names the key of the specification, never an argument of a program.

mod files;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thermocline_record::{RunRecord, RunSpec, WorkloadSpec};
use thermocline_types::{Bytes, Time};
use thermocline_workload::synthetic::{self, Bursts, Limit, Spec};
use thermocline_workload::trace::{self, Window};

use crate::{Error, Input, Layer, Pacing, Prefill, Prepared, Settings, Stack};

pub use files::{files, hash, hash_of, load};

/// Passes over a trace if the specification states none: as many as the steady-state rule compares.
const PASSES: u32 = 5;

/// Bytes that a generator addresses if neither the specification nor the generator states them. Chosen.
const SPAN: Bytes = Bytes::gib(1);

/// Times that a generator writes its span if the specification states no length.
const DRIVE_WRITES: f64 = 5.0;

/// Runs `spec`, and returns its record with the specification in it.
///
/// # Errors
/// [`Error`], for a wrong specification or as [`crate::run`].
pub fn run(spec: &RunSpec) -> Result<RunRecord, Error> {
    run_with(spec, &Arc::default(), &mut |_| ())
}

/// As [`run`]. `stop` ends the run early; `progress` hears the share done, 0..=1, now and then.
///
/// # Errors
/// As [`run`]; [`Error::Interrupted`] if `stop` was set before anything was measured.
pub fn run_with(
    spec: &RunSpec,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, Error> {
    let record = Planned::of(spec)?.run(stop, progress)?;
    Ok(RunRecord { spec: Some(Box::new(spec.clone())), ..record })
}

/// A run ready to begin.
pub struct Planned {
    /// Drive, and layer above it.
    pub stack: Stack,
    /// Settings that are neither stack nor workload.
    pub settings: Settings,
    /// Source of requests.
    pub input: Input,
    /// How the drive is filled first; `None`: as suits the workload.
    pub prefill: Option<Prefill>,
    /// Share of all data that is written once and never touched.
    pub at_rest: f64,
    /// Addresses are kept together in granules of so many bytes; `None`: the mapping unit of the drive.
    pub granule: Option<Bytes>,
}

impl Planned {
    /// The run that `spec` describes.
    ///
    /// # Errors
    /// [`Error::Key`] for a value that cannot be, and errors of stack and workload.
    pub fn of(spec: &RunSpec) -> Result<Planned, Error> {
        Ok(Planned {
            stack: stack(spec)?,
            settings: settings(spec)?,
            input: input(&spec.workload, spec.seed)?,
            prefill: spec.prefill.as_deref().map(prefill).transpose()?,
            at_rest: spec.at_rest.unwrap_or(0.0),
            granule: None,
        })
    }

    /// The workload, looked through.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn prepared(&self) -> Result<Prepared, Error> {
        let granule = self.granule.unwrap_or(self.stack.profile.mapping_unit.max(Bytes::BLOCK));
        let (input, prefill, capacity) = (self.input.clone(), self.prefill, self.settings.capacity);
        let prepared = match self.stack.layer {
            Layer::Log | Layer::Tier => Prepared::thin(input, prefill, granule, capacity)?,
            Layer::Raw | Layer::Tag => Prepared::new(input, prefill, granule, capacity)?,
        };
        prepared.with_data_at_rest(self.at_rest)
    }

    /// Runs it. `stop` ends the run early; `progress` hears the share done, 0..=1, now and then.
    ///
    /// # Errors
    /// As [`crate::run`]; [`Error::Interrupted`] if `stop` was set before anything was measured.
    pub fn run(
        &self,
        stop: &Arc<AtomicBool>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, Error> {
        let mut prepared = self.prepared()?;
        prepared.stop_on(Arc::clone(stop));
        crate::run(&mut prepared, &self.stack, &self.settings, progress)
    }
}

/// The stack of `spec`, with its overrides.
///
/// # Errors
/// [`Error::Stack`] and the like.
pub fn stack(spec: &RunSpec) -> Result<Stack, Error> {
    let mut stack = Stack::parse(&spec.stack, &spec.set)?;
    if let Some(placement) = &spec.placement {
        stack.place(placement)?;
    }
    if let Some(what) = &spec.tag_by {
        stack.tag_by(what)?;
    }
    Ok(stack)
}

/// The settings of `spec` that are neither stack nor workload.
///
/// # Errors
/// [`Error::Key`].
pub fn settings(spec: &RunSpec) -> Result<Settings, Error> {
    let think = spec.think_us.map(Time::micros_f64).filter(|&think| think > Time::ZERO);
    if spec.think_us.is_some() && spec.queue_depth.is_none() {
        return Err(Error::key("think", "is that of queue_depth clients: say how many"));
    }
    let pacing = match (spec.queue_depth, spec.speed) {
        (Some(depth), _) if !(1..=65_536).contains(&depth) => {
            return Err(Error::key("queue_depth", format!("is {depth}, must be 1 to 65536")));
        }
        (Some(count), _) => Some(match think {
            Some(think) => Pacing::Clients { count, think },
            None => Pacing::QueueDepth(count),
        }),
        (None, Some(speed)) if !(1e-6..=1e6).contains(&speed) => {
            return Err(Error::key("speed", format!("is {speed}, must be from 1e-6 to 1e6")));
        }
        (None, Some(speed)) => Some(Pacing::Clock { speed }),
        (None, None) => None,
    };
    if spec.daily_writes_bytes == Some(0) {
        return Err(Error::key("daily_writes", "must be above 0"));
    }
    let victim = spec.victim.as_ref().map(|name| name.parse());
    Ok(Settings {
        capacity: spec.capacity_bytes.map(Bytes),
        fast_capacity: spec.fast_capacity_bytes.map(Bytes),
        utilisation: spec.utilisation,
        victim: victim.transpose().map_err(|error| Error::key("victim", format!("{error}")))?,
        pacing,
        daily_writes: spec.daily_writes_bytes.map(Bytes),
        seed: spec.seed,
        of_pool: false,
    })
}

/// The prefill called `name`.
///
/// # Errors
/// [`Error::Key`], with all names.
pub fn prefill(name: &str) -> Result<Prefill, Error> {
    let mut all = [Prefill::FirstTouch, Prefill::Sequential, Prefill::None].into_iter();
    all.find(|prefill| prefill.name() == name).ok_or_else(|| {
        Error::key("prefill", format!("`{name}`; there are first-touch, sequential, none"))
    })
}

/// The source of requests that `workload` describes.
///
/// # Errors
/// [`Error::Key`] for a value that cannot be, and errors of the generator.
pub fn input(workload: &WorkloadSpec, seed: u64) -> Result<Input, Error> {
    match workload {
        WorkloadSpec::Trace {
            path,
            format,
            volume,
            from_us,
            until_us,
            skip_bad,
            remap,
            loops,
            ignore_trims,
        } => {
            let format = format.as_ref().map(|name| name.parse()).transpose();
            let remap = remap.parse().map_err(|error| Error::key("remap", format!("{error}")))?;
            let loops = loops.unwrap_or(PASSES);
            if loops == 0 {
                return Err(Error::key("loops", "must be at least 1"));
            }
            Ok(Input::Trace {
                path: path.into(),
                options: trace::Options {
                    format: format.map_err(|error| Error::key("format", format!("{error}")))?,
                    skip_bad: *skip_bad,
                    volume: volume.clone(),
                    window: window(*from_us, *until_us)?,
                },
                remap,
                loops,
                ignore_trims: *ignore_trims,
            })
        }
        WorkloadSpec::Generator { .. } => generated(workload, seed),
    }
}

/// The window of a trace between two times in microseconds.
fn window(from_us: Option<f64>, until_us: Option<f64>) -> Result<Window, Error> {
    let time = |key, micros: Option<f64>| match micros {
        Some(micros) if !(0.0..1e15).contains(&micros) => {
            Err(Error::key(key, format!("is {micros} us, must be 0 to 31 years")))
        }
        micros => Ok(micros.map(|micros| Time::nanos((micros * 1e3) as u64))),
    };
    let (from, until) = (time("from", from_us)?.unwrap_or_default(), time("until", until_us)?);
    if until.is_some_and(|until| until <= from) {
        return Err(Error::key("until", "must be later than `from`"));
    }
    Ok(Window { from, until })
}

fn generated(workload: &WorkloadSpec, seed: u64) -> Result<Input, Error> {
    let WorkloadSpec::Generator {
        generator,
        span_bytes,
        drive_writes,
        writes,
        requests,
        io_size_bytes,
        read_share,
        trim_share,
        rate,
        burst_bytes,
        idle_us,
    } = workload
    else {
        unreachable!("the caller has a generator")
    };
    let (reads, trims) = (*read_share, *trim_share);
    if reads + trims >= 1.0 && reads.max(trims) <= 1.0 && requests.is_none() {
        let reason = format!(
            "{reads} and trim_share {trims} leave nothing to write; `requests` ends a run without writes"
        );
        return Err(Error::key("read_share", reason));
    }
    for (key, count) in [("writes", writes), ("requests", requests)] {
        if *count == Some(0) {
            return Err(Error::key(key, "must be at least 1"));
        }
    }
    let is_content = generator.trim_start().starts_with('[');
    let spec = if is_content { Spec::from_toml(generator)? } else { Spec::load(generator)? };
    let span = span_bytes.map(Bytes).or(spec.fixed_span()).unwrap_or(SPAN);
    let limit = match (*requests, *writes, *drive_writes) {
        (Some(requests), _, _) => Limit::Requests(requests),
        (None, Some(writes), _) => Limit::Writes(writes),
        (None, None, times) => Limit::drive_writes(times.unwrap_or(DRIVE_WRITES), span)?,
    };
    let idle = idle_us.map(Time::micros_f64);
    let options = synthetic::Options {
        io_size: io_size_bytes.map(Bytes),
        read_share: reads,
        trim_share: trims,
        seed,
        rate: *rate,
        bursts: burst_bytes.map(Bytes).zip(idle).map(|(bytes, idle)| Bursts { bytes, idle }),
        ..synthetic::Options::new(span, limit)
    };
    Ok(Input::Synthetic { spec, options })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniform() -> RunSpec {
        let mut workload = WorkloadSpec::generator("uniform");
        if let WorkloadSpec::Generator { span_bytes, writes, .. } = &mut workload {
            (*span_bytes, *writes) = (Some(16 << 20), Some(20_000));
        }
        RunSpec::new("raw:ideal", workload)
    }

    #[test]
    fn a_specification_runs_by_itself_and_is_in_its_record() {
        let spec = uniform();
        let record = run(&spec).unwrap();
        assert!(record.waf.unwrap() > 1.0);
        let again = run(record.spec.as_deref().unwrap()).unwrap();
        assert_eq!((record.spec.as_deref(), again.waf), (Some(&spec), record.waf));
    }

    #[test]
    fn an_error_names_the_key() {
        let wrong = |change: fn(&mut RunSpec)| {
            let mut spec = uniform();
            change(&mut spec);
            run(&spec).unwrap_err().to_string()
        };
        let depth = wrong(|spec| spec.queue_depth = Some(0));
        assert_eq!(depth, "`queue_depth` is 0, must be 1 to 65536");
        assert!(wrong(|spec| spec.victim = Some("best".into())).contains("`victim`"));
        assert!(wrong(|spec| spec.prefill = Some("half".into())).contains("first-touch"));
        assert!(wrong(|spec| spec.think_us = Some(1.0)).contains("`think`"));
        assert!(wrong(|spec| spec.stack = "raw:none".into()).contains("none"));
    }
}
