//! Tenants as records have them.

use std::collections::BTreeMap;

use thermocline_nand::ByCause;
use thermocline_record::{LatencyNs, OwnedBytes, TenantFigures, TenantRates, Tenants};
use thermocline_types::{Cause, Time};

use super::{Outcome, TIER, engine_bytes};
use crate::Error;
use crate::byte_counts::ByteCounts;
use crate::meter::{KINDS, ratio, summary};
use crate::tenants::{LOG_CAUSES, LogOwned, MOST, OwnedCounts, TenantAsked, TenantMeter};

/// Measurements of all tenants.
pub struct Followed<'a> {
    /// Requests of each tenant.
    pub meter: &'a TenantMeter,
    /// Bytes by owner in the measured run.
    pub owned: OwnedCounts,
}

/// The section of tenants; `run` holds the totals of the run. `None` for a run that ended in wear-out: bytes of the
/// interrupted request have no owner and no drive.
pub fn tenants(outcome: &Outcome, run: &ByteCounts) -> Result<Option<Tenants>, Error> {
    let Some(Followed { meter, owned }) = &outcome.tenants else { return Ok(None) };
    if outcome.worn_out {
        return Ok(None);
    }
    meter.check(run).map_err(Error::Accounting)?;
    owned.check(run, true).map_err(Error::Accounting)?;
    let timed = outcome.drive.is_timed() && outcome.simulated > Time::ZERO;
    let seconds = timed.then(|| outcome.simulated.as_secs_f64());
    let names = outcome.workload.tenants();
    let each = meter.each().iter().zip(names).enumerate();
    let each = each.map(|(number, (asked, name))| tenant(name, asked, owned, number, seconds));
    let mut nobody = bytes(owned, meter.each().len());
    // What the log wrote beside blocks.
    for (tier, causes) in engine_bytes(run) {
        let of_blocks = |cause: &str| LOG_CAUSES.contains(&cause) || cause == "read_modify_write";
        let beside = causes.into_iter().filter(|(cause, _)| !of_blocks(cause));
        nobody.engine.entry(tier).or_default().extend(beside);
    }
    Ok(Some(Tenants { each: each.collect(), nobody }))
}

/// Explains a missing section in a run with tenants.
pub fn note(outcome: &Outcome) -> Option<String> {
    let count = outcome.workload.tenants().len();
    (count > MOST).then(|| {
        format!("each of {MOST} tenants is followed at most, and there are {count}: of none there are figures")
    })
}

fn tenant(
    name: &str,
    asked: &TenantAsked,
    owned: &OwnedCounts,
    number: usize,
    seconds: Option<f64>,
) -> TenantFigures {
    let per_second = |count: u64, seconds: f64| count as f64 / seconds;
    TenantFigures {
        name: name.to_owned(),
        requests: asked.requests,
        host_bytes_written: asked.written,
        host_bytes_read: asked.read,
        host_bytes_trimmed: asked.trimmed,
        rates: seconds.map(|seconds| TenantRates {
            depth: asked.latencies_ns as f64 / 1e9 / seconds,
            write_bytes_per_second: per_second(asked.written, seconds),
            read_bytes_per_second: per_second(asked.read, seconds),
            requests_per_second: per_second(asked.requests, seconds),
        }),
        latency_ns: seconds.map(|_| latencies(asked)),
        bytes: bytes(owned, number),
        waf: ratio(owned.media(number), asked.written),
    }
}

fn latencies(asked: &TenantAsked) -> BTreeMap<String, LatencyNs> {
    let kinds = KINDS.iter().zip(&asked.latencies);
    let occurred = kinds.filter_map(|(name, latency)| Some((name, latency.as_ref()?)));
    occurred.map(|(name, latency)| ((*name).to_owned(), summary(latency))).collect()
}

/// Bytes written for owner `number`.
fn bytes(owned: &OwnedCounts, number: usize) -> OwnedBytes {
    let tiers = owned.log.get(number).map(|log| engine(log, !owned.fast.is_empty()));
    OwnedBytes {
        engine: tiers.unwrap_or_default(),
        media: by_cause(&owned.drive[number]),
        fast_media: owned.fast.get(number).map(by_cause),
    }
}

/// Causes that occur.
fn by_cause(bytes: &ByCause) -> BTreeMap<String, u64> {
    let causes = Cause::ALL.into_iter().map(|cause| (cause, bytes[cause.index()]));
    let some = causes.filter(|&(cause, bytes)| bytes > 0 || cause == Cause::Host);
    some.map(|(cause, bytes)| (cause.name().to_owned(), bytes)).collect()
}

fn engine(log: &LogOwned, tiered: bool) -> BTreeMap<String, BTreeMap<String, u64>> {
    let causes = |bytes: &[u64; LOG_CAUSES.len()]| {
        let causes = LOG_CAUSES.into_iter().zip(*bytes);
        let some = causes.filter(|&(cause, bytes)| bytes > 0 || cause != "destage");
        some.map(|(cause, bytes)| (cause.to_owned(), bytes)).collect()
    };
    let mut tiers = BTreeMap::from([(TIER.to_owned(), causes(&log[0]))]);
    if tiered {
        tiers.insert("fast".to_owned(), causes(&log[1]));
    }
    tiers
}

#[cfg(test)]
mod tests;
