//! What the simulated drives under a pool tell of themselves.

use std::collections::BTreeMap;

use serde::Serialize;
use thermocline_nand::Counters;

/// Bytes through all drives since the service began.
#[derive(Serialize)]
pub struct DriveStatus {
    /// Written to them, also what groups add: parity, its log, labels, and what fills a member.
    pub drive_bytes_written: u64,
    /// Programmed to their media: the sum of those with a cause.
    pub media_bytes_written: u64,
    pub media_by_cause: BTreeMap<&'static str, u64>,
    /// Bytes of the units that they erased.
    pub media_bytes_erased: u64,
    /// Media bytes over bytes written to the drives.
    pub dlwa: Option<f64>,
}

impl DriveStatus {
    /// What `counters` say.
    pub fn new(counters: &Counters) -> DriveStatus {
        DriveStatus {
            drive_bytes_written: counters.host_written,
            media_bytes_written: counters.media_total,
            media_by_cause: counters.by_cause().map(|(cause, n)| (cause.name(), n)).collect(),
            media_bytes_erased: counters.erased,
            dlwa: crate::state::ratio(counters.media_total, counters.host_written),
        }
    }
}
