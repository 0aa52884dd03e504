//! Keys of a specification that a sweep can change.

use std::fmt;
use std::str::FromStr;

use thermocline_record::{RunSpec, WorkloadSpec};
use thermocline_types::Bytes;

use crate::Error;

/// Keys outside the namespaces of devices, the log and tag.
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
/// When the key is unknown or not a key of the workload, or the value is not valid for the key.
pub fn set(spec: &mut RunSpec, key: &str, value: &str) -> Result<(), Error> {
    if let Some((whose, own)) = key.split_once('.') {
        return set_dotted(spec, key, whose, own, value);
    }
    let size = || parsed::<Bytes>(key, value).map(|size| size.0);
    let number = || parsed::<f64>(key, value);
    match key {
        "stack" => spec.stack = value.to_owned(),
        "capacity" => spec.capacity_bytes = Some(size()?),
        "fast_capacity" => spec.fast_capacity_bytes = Some(size()?),
        "utilisation" => spec.utilisation = number()?,
        "at_rest" => spec.at_rest = Some(number()?),
        "think_us" => spec.think_us = Some(number()?),
        "queue_depth" => spec.queue_depth = Some(parsed(key, value)?),
        "speed" => spec.speed = Some(number()?),
        "placement" => spec.placement = Some(value.to_owned()),
        "victim" => spec.victim = Some(value.to_owned()),
        "seed" => spec.seed = parsed(key, value)?,
        _ => return set_workload(&mut spec.workload, key, value),
    }
    Ok(())
}

fn set_workload(workload: &mut WorkloadSpec, key: &str, value: &str) -> Result<(), Error> {
    let size = || parsed::<Bytes>(key, value).map(|size| size.0);
    let number = || parsed::<f64>(key, value);
    match (workload, key) {
        (WorkloadSpec::Trace { loops, .. }, "loops") => {
            *loops = Some(parsed(key, value)?);
        }
        (WorkloadSpec::Generator { generator, .. }, "workload") => value.clone_into(generator),
        (WorkloadSpec::Generator { span_bytes, .. }, "span") => *span_bytes = Some(size()?),
        (WorkloadSpec::Generator { drive_writes, writes, requests, .. }, "drive_writes") => {
            (*drive_writes, *writes, *requests) = (Some(number()?), None, None);
        }
        (WorkloadSpec::Generator { drive_writes, writes, requests, .. }, "writes") => {
            let given = parsed(key, value)?;
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
            return Err(Error::Settings(format!("`{key}` is no key of {kind}")));
        }
        _ => {
            return Err(Error::Settings(format!(
                "`{key}` is no key of a run; a run has device.KEY, fast.KEY, log.KEY and tag.placement; of others {}",
                thermocline_types::choices(key, KEYS)
            )));
        }
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
) -> Result<(), Error> {
    let mut in_text = spec.stack.split(',').skip(1).filter_map(|part| part.split_once('='));
    let taken =
        in_text.any(|(name, _)| name.trim() == key || whose == "device" && name.trim() == own);
    if taken {
        return Err(Error::Settings(format!(
            "{key} is swept, but the stack {} sets it itself: leave it out there",
            spec.stack
        )));
    }
    spec.set.retain(|given| given.split_once('=').is_none_or(|(name, _)| name.trim() != key));
    spec.set.push(format!("{key}={value}"));
    Ok(())
}

/// The value of a key.
fn parsed<T: FromStr<Err: fmt::Display>>(key: &str, value: &str) -> Result<T, Error> {
    value.parse().map_err(|error| Error::Settings(format!("{key}={value}: {error}")))
}
