//! Statistics of the simulated drives under a pool.

use std::collections::BTreeMap;

use serde::Serialize;
use thermocline_nand::Counters;

/// Bytes through all drives since the service began.
#[derive(Serialize)]
pub struct DriveStatus {
    /// Bytes written to the drives, including the groups' parity, parity log, labels and member filling.
    pub drive_bytes_written: u64,
    /// Bytes programmed to media: the sum over all causes.
    pub media_bytes_written: u64,
    pub media_by_cause: BTreeMap<&'static str, u64>,
    /// Bytes of erased units.
    pub media_bytes_erased: u64,
    /// Media bytes over bytes written to the drives.
    pub dlwa: Option<f64>,
}

impl DriveStatus {
    /// Status from `counters`.
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
