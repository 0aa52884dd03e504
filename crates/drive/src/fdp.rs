//! Flexible data placement (TP4146): configuration, handles and events of a drive.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::page::number;

/// The configuration in use, its handles and its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FdpState {
    /// Bytes of a reclaim unit.
    pub unit_bytes: u64,
    /// Number of reclaim groups.
    pub groups: u32,
    /// Each reclaim unit handle, by its number.
    pub handles: Vec<FdpHandle>,
    /// Number of events of each kind in the log of the drive, which keeps the latest.
    pub events: BTreeMap<&'static str, u32>,
}

/// A reclaim unit handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FdpHandle {
    /// Whether data of this handle stays apart when the drive relocates it; `None`: of an unknown kind.
    pub stays_apart: Option<bool>,
    /// The user: `unused`, `host` (a namespace names it), `controller` or `unknown`.
    pub used_by: &'static str,
}

/// Bytes of the header of pages 20h and 23h, and of an event.
const CONFIGURATIONS: usize = 16;
const EVENT: usize = 64;
/// Bytes of a configuration before its handles.
const CONFIGURATION: usize = 64;

impl FdpState {
    /// Of pages 20h, 21h and 23h. `None` if one is missing or is cut short.
    pub(crate) fn of(configs: &[u8], usage: &[u8], events: [&[u8]; 2]) -> Option<FdpState> {
        let count = number::<2>(usage.get(..8)?, 0) as usize;
        // Page 20h has no mark of the configuration in use: it has as many handles as page 21h.
        let config = configurations(configs).into_iter().find(|one| handles(one).len() == count)?;
        let handles = handles(config).into_iter().zip(usage[8..].chunks_exact(8));
        Some(FdpState {
            unit_bytes: number::<8>(config, 16),
            groups: number::<4>(config, 4) as u32,
            handles: handles.map(|(kind, usage)| handle(kind[0], usage[0])).collect(),
            events: events.into_iter().flat_map(kinds).fold(BTreeMap::new(), |mut all, kind| {
                *all.entry(kind).or_default() += 1;
                all
            }),
        })
    }
}

/// Each whole and valid configuration.
fn configurations(page: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let Some(mut rest) = page.get(CONFIGURATIONS..) else { return found };
    for _ in 0..=number::<2>(page, 0) {
        if rest.len() < CONFIGURATION {
            break;
        }
        let len = number::<2>(rest, 0) as usize;
        if len < CONFIGURATION || len > rest.len() {
            break;
        }
        let (one, next) = rest.split_at(len);
        if one[2] & 0x80 != 0 {
            found.push(one);
        }
        rest = next;
    }
    found
}

/// The descriptors of the handles of a configuration.
fn handles(config: &[u8]) -> Vec<&[u8]> {
    config[CONFIGURATION..].chunks_exact(4).take(number::<2>(config, 8) as usize).collect()
}

fn handle(kind: u8, usage: u8) -> FdpHandle {
    let stays_apart = match kind {
        1 => Some(false),
        2 => Some(true),
        _ => None,
    };
    let used_by = ["unused", "host", "controller"].get(usize::from(usage)).unwrap_or(&"unknown");
    FdpHandle { stays_apart, used_by }
}

/// Kind of each event of page 23h.
fn kinds(page: &[u8]) -> Vec<&'static str> {
    let Some(events) = page.get(EVENT..) else { return Vec::new() };
    let kind = |event: &[u8]| match event[0] {
        0x00 => "unit_not_full",
        0x01 => "unit_time_limit",
        0x02 => "handle_reset",
        0x03 => "invalid_placement",
        0x80 => "media_reallocated",
        0x81 => "handle_changed",
        _ => "unknown",
    };
    events.chunks_exact(EVENT).take(number::<4>(page, 0) as usize).map(kind).collect()
}
