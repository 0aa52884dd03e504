//! What was written to each tier, by cause.

use std::collections::BTreeMap;

use thermocline_array::{ByteCause, WrittenBytes};

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

/// What members of a group were given beside the bytes of the log, by cause. Causes without bytes are left out.
fn added(group: &WrittenBytes) -> Vec<(&'static str, u64)> {
    let each = group.each().filter(|(cause, bytes)| *cause != ByteCause::Data && *bytes > 0);
    each.map(|(cause, bytes)| (cause.name(), bytes)).collect()
}
