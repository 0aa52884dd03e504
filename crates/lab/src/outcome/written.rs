//! What was written to each tier, by cause.

use std::collections::BTreeMap;

use thermocline_array::{ByteCause, WrittenBytes};
use thermocline_types::Cause;

use super::Outcome;
use crate::byte_counts::ByteCounts;

/// Name of the only tier of a log without a fast drive.
pub const TIER: &str = "capacity";

/// Bytes that the log wrote, by tier and cause: what a drive received beside blocks is metadata. Causes that a tier
/// never has are left out.
pub fn engine_bytes(run: &ByteCounts) -> BTreeMap<String, BTreeMap<String, u64>> {
    let Some(log) = run.log else { return BTreeMap::new() };
    let of = |received: u64, causes: Vec<(&'static str, u64)>, group: Option<WrittenBytes>| {
        let added: Vec<(&str, u64)> = group.map(|group| added(&group)).unwrap_or_default();
        let known: u64 = causes.iter().chain(&added).map(|(_, bytes)| bytes).sum();
        let metadata = [("metadata", received - known)];
        let all = causes.into_iter().chain(added).chain(metadata);
        all.map(|(name, bytes)| (name.to_owned(), bytes)).collect()
    };
    let [group, of_fast] = run.groups;
    let Some(fast) = run.fast else {
        let mut causes = log.causes().to_vec();
        causes.retain(|(name, _)| !["destage", "metadata"].contains(name));
        return [(TIER.to_owned(), of(log.written() + run.added()[0], causes, group))].into();
    };
    let [below, above] = log.by_tier();
    let capacity = of(run.drive.host_written, below, group);
    [(TIER.to_owned(), capacity), ("fast".to_owned(), of(fast.host_written, above, of_fast))].into()
}

/// Where the drive writes more for parts of mapping units than for the host: why its small writes are not merged.
pub fn parts_note(outcome: &Outcome, run: &ByteCounts) -> Option<String> {
    let profile = &outcome.stack.profile;
    let merges = profile.buffer.as_ref().is_some_and(|buffer| buffer.merge);
    let mut parts = run.drive.by_cause().filter(|(cause, _)| *cause == Cause::ReadModifyWrite);
    let much = parts.any(|(_, bytes)| bytes > run.drive.host_written);
    let source = profile.source.get("buffer.merge").filter(|_| much && !merges)?;
    Some(format!(
        "each write of less than {} rewrites the whole mapping unit of {}, in order or not (buffer.merge = false; {source})",
        profile.mapping_unit, profile.name
    ))
}

/// What members of a group were given beside the bytes of the log, by cause. Causes without bytes are left out.
fn added(group: &WrittenBytes) -> Vec<(&'static str, u64)> {
    let each = group.each().filter(|(cause, bytes)| *cause != ByteCause::Data && *bytes > 0);
    each.map(|(cause, bytes)| (cause.name(), bytes)).collect()
}
