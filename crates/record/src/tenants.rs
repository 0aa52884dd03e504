//! Requests and written bytes of each tenant of a run.
//!
//! The owner of a block is the tenant that wrote the block last. A relocated or destaged block counts for its owner,
//! whichever tenant needed the room. Bytes rewritten around a partial write (`read_modify_write`) count for the writing
//! tenant. Headers, maps, padding and data that no tenant wrote are unowned. Ownership is per block: a block that
//! several tenants wrote in parts belongs to the last writer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::LatencyNs;

/// All tenants of a run, and the unowned bytes. Both sum to the record's bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tenants {
    /// The tenants in the order of the workload.
    pub each: Vec<TenantFigures>,
    /// Unowned bytes: headers, maps, padding, data at rest.
    pub nobody: OwnedBytes,
}

/// Requests and written bytes of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantFigures {
    /// Name of the trace's volume, or of the mix's generator.
    pub name: String,
    /// Requests of it that were served, of any kind.
    pub requests: u64,
    /// Bytes of the tenant's write requests.
    pub host_bytes_written: u64,
    /// Bytes of the tenant's read requests.
    pub host_bytes_read: u64,
    /// Bytes of the tenant's trims.
    pub host_bytes_trimmed: u64,
    /// How fast it was served, where time is modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<TenantRates>,
    /// Latency of its requests by kind (`read`, `write`, `flush`, `trim`), where time is modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<BTreeMap<String, LatencyNs>>,
    /// Bytes written for blocks that the tenant owns.
    pub bytes: OwnedBytes,
    /// Write amplification factor: media bytes / host bytes of the tenant; absent without host writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waf: Option<f64>,
}

/// How fast a tenant was served, over the time of the measured run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantRates {
    /// Mean number of its requests in flight: the sum of their latencies / the time of the run (Little's law).
    pub depth: f64,
    /// Bytes written per second.
    pub write_bytes_per_second: f64,
    /// Bytes read per second.
    pub read_bytes_per_second: f64,
    /// Requests per second.
    pub requests_per_second: f64,
}

/// Bytes written that belong to a tenant, or to none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnedBytes {
    /// By the layer above the device, by tier and then by cause, as [`crate::RunRecord::engine_bytes_written`]; but
    /// `host` is with what a write had filled up of its blocks (there `read_modify_write`). Empty for `raw`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub engine: BTreeMap<String, BTreeMap<String, u64>>,
    /// Programmed on the media, by cause; of two drives, on those of the one for capacity.
    pub media: BTreeMap<String, u64>,
    /// The same of the fast drive, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_media: Option<BTreeMap<String, u64>>,
}

impl OwnedBytes {
    /// All that was programmed on the media; of two drives, on those of the one for capacity.
    #[must_use]
    pub fn media_total(&self) -> u64 {
        self.media.values().sum()
    }
}
