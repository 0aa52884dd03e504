//! What discards, hints, streams, FDP, zones or a fast tier would buy a workload: each alone, on equal media.
//!
//! Invariants:
//! * All runs have the same media, units of the same size, and the same volume.
//! * An option that the workload cannot show has a reason instead of a record.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thermocline_nand::Kind;
use thermocline_nand::profile::Profile;
use thermocline_record::{RunRecord, RunSpec, WorkloadSpec};
use thermocline_types::{Bytes, Op};

use crate::spec::Planned;
use crate::{Error, Input, Prepared, Stack, each, spec};

/// The name of the first run: the conventional drive, discards ignored, no hint on any write.
pub const AS_IT_IS: &str = "as it is";

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The drive, such as `p5316`, with settings behind commas.
    pub device: String,
    /// The workload. Passes and trims of a trace are chosen by the question.
    pub workload: WorkloadSpec,
    /// Passes over a trace; `None`: as many as steady state takes.
    pub loops: Option<u32>,
    /// The device of the fast tier.
    pub fast: String,
    /// Capacity of the fast tier, as a share of the drive's capacity.
    pub fast_share: f64,
    /// Share of the drive's capacity that the volume takes, above 0 to 1.
    pub utilisation: f64,
    /// Streams, and handles of FDP.
    pub streams: u8,
    /// Host bytes to the product per day; `None`: the trace's own pace, or the capacity once.
    pub daily_writes: Option<Bytes>,
    /// Requests kept in flight; `None`: by the workload's own clock, or 32.
    pub queue_depth: Option<u32>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Runs at a time; `None`: as many as there are processors.
    pub jobs: Option<usize>,
}

/// An option, with its run or the reason for a missing run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// Its name.
    pub option: &'static str,
    /// The record, or the reason.
    pub run: Result<RunRecord, String>,
}

/// An option before its run.
struct Choice {
    option: &'static str,
    spec: Result<RunSpec, String>,
}

/// Facts of the workload that decide which options it can show.
struct Known {
    volumes: bool,
    files: bool,
    trace: bool,
}

impl WhatIf {
    /// The question with its usual numbers.
    #[must_use]
    pub fn new(device: &str, workload: WorkloadSpec) -> WhatIf {
        WhatIf {
            device: device.to_owned(),
            workload,
            loops: None,
            fast: "p5800x".to_owned(),
            fast_share: 0.05,
            utilisation: 0.8,
            streams: 8,
            daily_writes: None,
            queue_depth: None,
            seed: 1,
            jobs: None,
        }
    }

    /// Runs every option; the first is [`AS_IT_IS`].
    ///
    /// # Errors
    /// [`Error`], if the drive or the workload cannot be used.
    pub fn run(&self) -> Result<Vec<Tried>, Error> {
        self.run_with(&Arc::default(), &|_, _| ())
    }

    /// As [`WhatIf::run`]. `stop` ends the runs early; `progress` hears the option and the share done.
    ///
    /// # Errors
    /// As [`WhatIf::run`]; [`Error::Interrupted`] if nothing was measured.
    pub fn run_with(
        &self,
        stop: &Arc<AtomicBool>,
        progress: &(dyn Fn(&'static str, f64) + Sync),
    ) -> Result<Vec<Tried>, Error> {
        if self.fast_share <= 0.0 {
            let reason = format!("is {}, must be above 0", self.fast_share);
            return Err(Error::key("fast_share", reason));
        }
        let profile = self.profile()?;
        let granule = profile.mapping_unit.max(Bytes::BLOCK);
        let run = |option, spec: &RunSpec| {
            let planned = Planned { granule: Some(granule), ..Planned::of(spec)? };
            let record = planned.run(stop, &mut |share| progress(option, share))?;
            with_spec(record, spec, granule)
        };
        let first = run(AS_IT_IS, &self.base())?;
        let choices = self.choices(&profile, &first, &self.known()?)?;
        let records = each(&choices, self.jobs, stop, |_, choice| match &choice.spec {
            Err(reason) => Err(reason.clone()),
            Ok(spec) => match run(choice.option, spec) {
                Err(Error::Interrupted) => Err(NOT_RUN.to_owned()),
                Err(error) => {
                    Err(format!("it cannot be run here: cannot run {}: {error}", spec.stack))
                }
                Ok(record) => Ok(record),
            },
        });
        let tried = choices.iter().zip(records).map(|(choice, run)| {
            let unreached =
                || Err(choice.spec.as_ref().err().cloned().unwrap_or(NOT_RUN.to_owned()));
            Tried { option: choice.option, run: run.unwrap_or_else(unreached) }
        });
        let tried: Vec<Tried> = tried.collect();
        Ok([Tried { option: AS_IT_IS, run: Ok(first) }].into_iter().chain(tried).collect())
    }

    fn profile(&self) -> Result<Profile, Error> {
        let profile = Stack::parse(&format!("raw:{}", self.device), &[])?.profile;
        if profile.kind == Kind::Direct {
            return Err(Error::Settings(format!(
                "{} writes in place and relocates nothing: no option can lower what it writes; name a drive of flash",
                self.device
            )));
        }
        Ok(profile)
    }

    /// The workload with so many passes, and with or without the trims of a trace.
    fn workload(&self, passes: Option<u32>, trims: bool) -> WorkloadSpec {
        let mut workload = self.workload.clone();
        if let WorkloadSpec::Trace { loops, ignore_trims, .. } = &mut workload {
            (*loops, *ignore_trims) = (passes, !trims);
        }
        workload
    }

    /// The drive with conventional firmware, discards ignored.
    fn base(&self) -> RunSpec {
        let stack = format!("raw:{},kind=conventional", self.device);
        RunSpec {
            utilisation: self.utilisation,
            queue_depth: self.queue_depth,
            daily_writes_bytes: self.daily_writes.map(|bytes| bytes.0),
            seed: self.seed,
            ..RunSpec::new(&stack, self.workload(self.loops, false))
        }
    }

    fn known(&self) -> Result<Known, Error> {
        let input = spec::input(&self.workload(None, true), self.seed)?;
        let trace = matches!(input, Input::Trace { .. });
        let prepared = Prepared::new(input, None, Bytes::BLOCK, None)?;
        Ok(Known {
            volumes: prepared.tenants().len() > 1,
            files: !prepared.directories().is_empty(),
            trace,
        })
    }

    /// A run on the media of `first`.
    fn on(
        &self,
        first: &RunRecord,
        stack: String,
        capacity: u64,
        placement: Option<&str>,
    ) -> RunSpec {
        let fast = (first.device.capacity_bytes as f64 * self.fast_share) as u64 >> 20 << 20;
        RunSpec {
            fast_capacity_bytes: stack.starts_with("tier:").then_some(fast.max(1 << 20)),
            capacity_bytes: Some(capacity),
            utilisation: 1.0,
            placement: placement.map(str::to_owned),
            stack,
            ..self.base()
        }
    }

    /// Every option on the media of `first`.
    fn choices(
        &self,
        profile: &Profile,
        first: &RunRecord,
        known: &Known,
    ) -> Result<Vec<Choice>, Error> {
        let unit = format!("unit={}", first.device.unit_bytes);
        let (device, capacity) = (&self.device, first.device.capacity_bytes);
        let on = |stack, capacity, placement| self.on(first, stack, capacity, placement);
        let told = match (known.files, known.volumes) {
            (true, _) => Some("directory"),
            (_, true) => Some("hint"),
            _ => None,
        };
        let by = match (known.files, known.volumes) {
            (true, _) => "directory",
            (_, true) => "volume",
            _ => "auto",
        };
        let hints = told.map(|told| {
            let stack = format!("tag:{device},{unit},kind=multi-stream,streams.count=4");
            on(stack, capacity, Some(told))
        });
        let handles = format!("kind=multi-stream,streams.count={}", self.streams);
        let fdp = format!(
            "kind=fdp,fdp.groups=1,fdp.handles={},fdp.persistently_isolated=false",
            self.streams
        );
        let bytes = first.device.unit_bytes;
        let spare = without_reserve(profile);
        // A drive that is written in order needs no mapping unit beyond a logical block.
        let zns = format!(
            "kind=zns,mapping_unit=4KiB,{spare},zns.zone_size={bytes},zns.zone_capacity={bytes},zns.max_open=0,\
             zns.max_active=0"
        );
        let (name, options) =
            device.split_once(',').map_or((device.as_str(), ""), |(name, rest)| (name, rest));
        let options = if options.is_empty() { String::new() } else { format!(",{options}") };
        let tier = format!("tier:{}+{name}{options},{unit},kind=conventional", self.fast);
        let log = format!("log:{device},{unit},kind=conventional");
        let choice = |option, spec| Choice { option, spec: Ok(spec) };
        Ok(vec![
            Choice { option: "discards", spec: self.discards(&unit, capacity, known)? },
            Choice { option: "hints", spec: hints.ok_or_else(|| NO_HINTS.to_owned()) },
            choice(
                "streams, found by the host",
                on(format!("tag:{device},{unit},{handles}"), capacity, Some("auto")),
            ),
            choice("FDP", on(format!("tag:{device},{unit},{fdp}"), capacity, Some(by))),
            choice("a log on the host", on(log, capacity, None)),
            choice(
                "zones under that log",
                on(format!("log:{device},{unit},{zns}"), first.device.media_bytes, None),
            ),
            choice("a fast tier under that log", on(tier, capacity, None)),
        ])
    }

    /// The conventional drive that obeys discards, or the reason why discards prove nothing here.
    fn discards(
        &self,
        unit: &str,
        capacity: u64,
        known: &Known,
    ) -> Result<Result<RunSpec, String>, Error> {
        if !known.trace {
            return Ok(Err(GENERATED.to_owned()));
        }
        let input = spec::input(&self.workload(Some(1), true), self.seed)?;
        let mut prepared = Prepared::new(input, None, Bytes::BLOCK, None)?;
        let mut discards = 0_u64;
        prepared.replay(|batch| {
            let trims = batch
                .pieces()
                .iter()
                .filter(|piece| matches!(piece.op, Op::Trim | Op::WriteZeroes));
            discards += trims.count() as u64;
            Ok(())
        })?;
        if discards == 0 {
            return Ok(Err(NO_DISCARDS.to_owned()));
        }
        let base = self.base();
        let stack = format!("{},{unit}", base.stack);
        let workload = self.workload(self.loops, true);
        Ok(Ok(RunSpec { stack, workload, capacity_bytes: Some(capacity), ..base }))
    }
}

const NOT_RUN: &str = "it was not run: interrupted";

const NO_HINTS: &str =
    "the workload has one volume and names no files, so there is nothing to tell the drive";

const GENERATED: &str =
    "a generator says itself what it discards: fs.discard of lsm, or its share of trims";

const NO_DISCARDS: &str = "the trace discards nothing of what it writes: what the file system deleted was not recorded, \
                           or it was mounted without discard";

/// The record with its specification, if that alone gives the same addresses. They are kept together in granules of the
/// conventional drive's mapping unit, and zones may have a smaller one.
fn with_spec(record: RunRecord, spec: &RunSpec, granule: Bytes) -> Result<RunRecord, Error> {
    if record.device.mapping_unit_bytes != granule.0 {
        return Ok(record);
    }
    let files = spec::files(&spec.stack, &spec.workload)?;
    let spec = Some(Box::new(RunSpec { files, ..spec.clone() }));
    Ok(RunRecord { spec, ..record })
}

/// Settings of a product without reserve: the whole media is exported to the host.
fn without_reserve(profile: &Profile) -> String {
    let all = (profile.capacity.as_f64() * (1.0 + profile.overprovisioning())) as u64 >> 12 << 12;
    let garbage = if profile.garbage.is_some() { ",garbage=0.0" } else { "" };
    format!("capacity={all},op=0.0{garbage}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_without_a_reserve_is_as_large_as_its_media() {
        for device in ["p5316", "micron2300", "ideal", "ideal,garbage=0.2", "ideal,op=0.5"] {
            let of = |device: &str| Stack::parse(&format!("raw:{device}"), &[]).unwrap().profile;
            let product = of(device);
            let bare = of(&format!("{device},{}", without_reserve(&product)));
            let media =
                |profile: &Profile| profile.capacity.as_f64() * (1.0 + profile.overprovisioning());
            assert!(media(&product) - media(&bare) < 4097.0, "{device}: {}", bare.capacity);
            assert!(bare.overprovisioning().abs() < 1e-12 && bare.capacity > product.capacity);
        }
    }
}
