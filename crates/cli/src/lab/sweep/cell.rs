//! One cell of a sweep: a specification, and its record from the cache or from a run.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use thermocline_record::{RunRecord, RunSpec, WorkloadSpec};
use thermocline_types::Bytes;

use crate::file;
use crate::interrupt::Interrupt;
use crate::lab::args::spec::{RunOf, hash};
use crate::lab::run::run_one;

/// Keys that are not those of a device, the log or tag.
pub const KEYS: [&str; 20] = [
    "stack",
    "workload",
    "span",
    "drive_writes",
    "writes",
    "io_size",
    "read_share",
    "trim_share",
    "rate",
    "loops",
    "capacity",
    "fast_capacity",
    "utilisation",
    "at_rest",
    "queue_depth",
    "think_us",
    "speed",
    "placement",
    "victim",
    "seed",
];

/// Gives `key` of `spec` the value `value`.
///
/// # Errors
/// When there is no such key, it is not one of this workload, or the value is none for it.
pub fn set(spec: &mut RunSpec, key: &str, value: &str) -> anyhow::Result<()> {
    if let Some((whose, own)) = key.split_once('.') {
        return set_dotted(spec, key, whose, own, value);
    }
    let wrong = || format!("{key}={value}");
    let size = || value.parse::<Bytes>().map(|size| size.0).with_context(wrong);
    let number = || value.parse::<f64>().with_context(wrong);
    match key {
        "stack" => spec.stack = value.to_owned(),
        "capacity" => spec.capacity_bytes = Some(size()?),
        "fast_capacity" => spec.fast_capacity_bytes = Some(size()?),
        "utilisation" => spec.utilisation = number()?,
        "at_rest" => spec.at_rest = Some(number()?),
        "think_us" => spec.think_us = Some(number()?),
        "queue_depth" => spec.queue_depth = Some(value.parse().with_context(wrong)?),
        "speed" => spec.speed = Some(number()?),
        "placement" => spec.placement = Some(value.to_owned()),
        "victim" => spec.victim = Some(value.to_owned()),
        "seed" => spec.seed = value.parse().with_context(wrong)?,
        _ => return set_workload(&mut spec.workload, key, value),
    }
    Ok(())
}

fn set_workload(workload: &mut WorkloadSpec, key: &str, value: &str) -> anyhow::Result<()> {
    let wrong = || format!("{key}={value}");
    let size = || value.parse::<Bytes>().map(|size| size.0).with_context(wrong);
    let number = || value.parse::<f64>().with_context(wrong);
    match (workload, key) {
        (WorkloadSpec::Trace { loops, .. }, "loops") => {
            *loops = Some(value.parse().with_context(wrong)?);
        }
        (WorkloadSpec::Generator { generator, .. }, "workload") => value.clone_into(generator),
        (WorkloadSpec::Generator { span_bytes, .. }, "span") => *span_bytes = Some(size()?),
        (WorkloadSpec::Generator { drive_writes, writes, requests, .. }, "drive_writes") => {
            (*drive_writes, *writes, *requests) = (Some(number()?), None, None);
        }
        (WorkloadSpec::Generator { drive_writes, writes, requests, .. }, "writes") => {
            let given = value.parse().with_context(wrong)?;
            (*drive_writes, *writes, *requests) = (None, Some(given), None);
        }
        (WorkloadSpec::Generator { io_size_bytes, .. }, "io_size") => {
            *io_size_bytes = Some(size()?);
        }
        (WorkloadSpec::Generator { read_share, .. }, "read_share") => *read_share = number()?,
        (WorkloadSpec::Generator { trim_share, .. }, "trim_share") => *trim_share = number()?,
        (WorkloadSpec::Generator { rate, .. }, "rate") => *rate = Some(number()?),
        (workload, key) if KEYS.contains(&key) => {
            let kind = match workload {
                WorkloadSpec::Trace { .. } => "a trace",
                WorkloadSpec::Generator { .. } => "a generator",
            };
            bail!("`{key}` is no key of {kind}");
        }
        _ => bail!(
            "`{key}` is no key of a run; there are device.KEY, fast.KEY, log.KEY, tag.placement, and {}",
            KEYS.join(", ")
        ),
    }
    Ok(())
}

/// A key of the device and the like: in place of an override of the same key.
fn set_dotted(
    spec: &mut RunSpec,
    key: &str,
    whose: &str,
    own: &str,
    value: &str,
) -> anyhow::Result<()> {
    let mut in_text = spec.stack.split(',').skip(1).filter_map(|part| part.split_once('='));
    let taken =
        in_text.any(|(name, _)| name.trim() == key || whose == "device" && name.trim() == own);
    ensure!(
        !taken,
        "{key} is swept, but the stack {} sets it itself: leave it out there",
        spec.stack
    );
    spec.set.retain(|given| given.split_once('=').is_none_or(|(name, _)| name.trim() != key));
    spec.set.push(format!("{key}={value}"));
    Ok(())
}

/// Where records of runs are kept, by what was run and by which program.
pub struct RunCache {
    folder: PathBuf,
    /// SHA-256 of this program: another may give other figures.
    program: String,
}

impl RunCache {
    /// The cache in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// When the folder cannot be made, or this program cannot be read.
    pub fn open(folder: &Path) -> anyhow::Result<RunCache> {
        let shown = folder.display();
        std::fs::create_dir_all(folder).with_context(|| {
            format!("cannot make the folder {shown}; name another with --cache")
        })?;
        let program = std::env::current_exe().and_then(std::fs::read);
        let program = hash(&program.context("cannot read this program")?);
        Ok(RunCache { folder: folder.to_owned(), program })
    }

    /// The hash under which the record of `spec` is kept.
    pub fn key(&self, spec: &RunSpec) -> String {
        hash(format!("{}{}", self.program, spec.to_json()).as_bytes())
    }

    /// The file of that record.
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    /// The record of `spec`, if it is there whole.
    pub fn find(&self, spec: &RunSpec) -> Option<RunRecord> {
        let text = std::fs::read_to_string(self.path(&self.key(spec))).ok()?;
        let record = RunRecord::from_json(&text).ok()?;
        (record.spec.as_deref() == Some(spec)).then_some(record)
    }

    /// Runs `spec` and keeps its record; `None` if it was interrupted.
    ///
    /// # Errors
    /// When it cannot be run, or its record cannot be written.
    pub fn make(
        &self,
        spec: &RunSpec,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(f64),
    ) -> anyhow::Result<Option<RunRecord>> {
        let Some(record) = run_one(&RunOf::of(spec)?, None, interrupt, progress)? else {
            return Ok(None);
        };
        if record.interrupted.is_some() {
            return Ok(None);
        }
        let record = RunRecord { spec: Some(Box::new(spec.clone())), ..record };
        file::write(&self.path(&self.key(spec)), &record.to_json())?;
        Ok(Some(record))
    }
}
