//! The run record `thermocline.run/1` and the run specification `thermocline.spec/1`, both versioned JSON. A record
//! holds the figures of one lab run; a specification holds its inputs.
//!
//! Invariants:
//! * Every number is a JSON number in the unit its name ends in; bytes and counts are exact integers.
//! * Ratios can be recomputed from the byte counters beside them: `alwa = device / host`, `dlwa = media / device`, `waf
//!   = media / host = alwa · dlwa`. Preconditioning is excluded.
//! * The causes in `media_bytes_written` sum to its `total`; the causes of each tier sum to the tier's total.
//! * The bytes of all tenants and the unowned bytes sum to the run's bytes, by tier and by cause.
//! * A reader refuses a record whose `schema` it does not know.

pub mod plot;
mod spec;
mod tenants;
pub mod waterfall;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use spec::{RunSpec, SPEC_SCHEMA, WorkloadSpec};
pub use tenants::{OwnedBytes, TenantFigures, TenantRates, Tenants};

/// The schema name this version writes and reads.
pub const SCHEMA: &str = "thermocline.run/1";

/// Figures of a lab run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Version of Thermocline that ran.
    pub version: String,
    /// The stack as given, such as `raw:p5316`.
    pub stack: String,
    /// The command that made this record; absent for a run without a command. The same command in the same folder gives
    /// the same figures.
    #[serde(default)]
    pub command: Option<String>,
    /// The specification of the run. The same version gives the same figures from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Box<RunSpec>>,
    /// The device as simulated; of two, the one for capacity, of which all that follows is said.
    pub device: DeviceInfo,
    /// The fast device and its written bytes; absent without a fast device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<FastDevice>,
    /// Bytes through each of several drives: side by side under one host, or members of a group. Empty with one drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveBytes>,
    /// What each tenant asked for and got, of a workload with at least two; absent where it was not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Tenants>,
    /// Bytes of each placement handle that was written with, where several are followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<HandleFigures>,
    /// The workload as replayed.
    pub workload: WorkloadInfo,
    /// Every setting that shaped the run, by key.
    pub config: BTreeMap<String, serde_json::Value>,
    /// Seed of all randomness of the run.
    pub seed: u64,
    /// Bytes written before measurement began, to precondition the drive. In no ratio.
    pub prefill_bytes_written: u64,
    /// Bytes the host asked to be written.
    pub host_bytes_written: u64,
    /// Bytes the host asked to be read.
    pub host_bytes_read: u64,
    /// Bytes the host discarded (trim and write-zeroes).
    pub host_bytes_trimmed: u64,
    /// Requests served, of any kind.
    pub requests: u64,
    /// Share of the workload that was done when the run was interrupted, 0..1; `null` for a run that came to its end.
    /// Ratios of an interrupted run are transient.
    #[serde(default)]
    pub interrupted: Option<f64>,
    /// Bytes written by the layer above the device, by tier and then by cause. Empty for `raw`. With a group the causes
    /// of its members are among them: `parity`, `parity_log`, `parity_log_heads`, `row_padding`, `labels`.
    pub engine_bytes_written: BTreeMap<String, BTreeMap<String, u64>>,
    /// Bytes the device was asked to write.
    pub device_bytes_written: u64,
    /// Bytes programmed into the media, by cause.
    pub media_bytes_written: MediaBytes,
    /// Bytes that a patrol of the drive read to find what has to be rewritten, of drives that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_bytes_patrolled: Option<u64>,
    /// Erase blocks' bytes erased.
    pub media_bytes_erased: u64,
    /// Application-level write amplification, device / host.
    pub alwa: Option<f64>,
    /// Device-level write amplification, media / device.
    pub dlwa: Option<f64>,
    /// Write amplification factor, media / host.
    pub waf: Option<f64>,
    /// [`Self::alwa`] over the steady window; `None` if the run did not become steady.
    pub alwa_steady: Option<f64>,
    /// [`Self::dlwa`] over the steady window; `None` if the run did not become steady.
    pub dlwa_steady: Option<f64>,
    /// [`Self::waf`] over the steady window; `None` if the run did not become steady.
    pub waf_steady: Option<f64>,
    /// [`Self::waf`] over the last half of the host bytes.
    #[serde(default)]
    pub waf_last_half: Option<f64>,
    /// [`Self::waf`] over the last quarter of the host bytes.
    #[serde(default)]
    pub waf_last_quarter: Option<f64>,
    /// The ratios to expect of a longer run.
    #[serde(default)]
    pub lasting: Lasting,
    /// Whether, and by which rule, the run became steady.
    pub steady_state: SteadyState,
    /// FDP statistics as in the device's log page, where the device has them.
    pub fdp: Option<FdpStats>,
    /// Latency by kind of request (`read`, `write`, `flush`, `trim`), where time is modelled; under a log with host
    /// flushes also the drive times that flushes wait for: chunks with what the host wrote (`log.chunk`), and flushes
    /// (`log.flush`).
    pub latency_ns: Option<BTreeMap<String, LatencyNs>>,
    /// How warm the drive got and how long that held it back, where heat is modelled; of several drives side by side,
    /// of that one which was held back longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heating: Option<Heating>,
    /// Reads of the drive's pages and the attempts that they took, where wrong bits are modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_attempts: Option<PageReads>,
    /// Bandwidth and request rate, where time is modelled.
    pub bandwidth: Option<Bandwidth>,
    /// How long the drive lasts under this load, where its endurance is known.
    pub life: Option<Life>,
    /// Years left of a drive in use under this load, where its counters were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life_of_drive: Option<DriveLife>,
    /// How the run went over its length; points are equally spaced in bytes written by the host.
    pub series: Vec<SeriesPoint>,
    /// Traffic of each device over time: first the capacity device, then the fast device. Empty where time is not
    /// modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_series: Vec<DeviceSeries>,
    /// State of the device's units at the end.
    pub units: Units,
    /// Wear of the device's units at the end.
    pub wear: Wear,
    /// Things a reader must know about this run, one sentence each.
    pub notes: Vec<String>,
    /// Host blocks of 4 KiB written per second of processor time. Differs between runs.
    pub host_blocks_per_cpu_second: f64,
    /// Largest resident memory of the process so far. Differs between runs.
    pub peak_rss_bytes: u64,
}

/// The device as simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Profile name, such as `p5316`.
    pub profile: String,
    /// What the profile describes, such as `Solidigm D5-P5316 15.36 TB`.
    pub title: String,
    /// `conventional`, `multi-stream`, `fdp`, `zns`, `direct` or `block-mapped`.
    pub kind: String,
    /// Capacity of the product itself; of several drives side by side, of all of them, as all sizes here.
    pub product_capacity_bytes: u64,
    /// Capacity exported in this run.
    pub capacity_bytes: u64,
    /// Share of that capacity that the workload's data takes, above 0 to 1: how full the drive was in this run.
    #[serde(default)]
    pub utilisation: Option<f64>,
    /// Bytes of media behind this capacity in the run.
    pub media_bytes: u64,
    /// Overprovisioning, (media − capacity) / capacity.
    pub overprovisioning: f64,
    /// Mapping unit (indirection unit).
    pub mapping_unit_bytes: u64,
    /// Unit of erasure (superblock, reclaim unit or zone).
    pub unit_bytes: u64,
    /// How many units there are.
    pub units: u64,
    /// Whether time was modelled.
    pub timed: bool,
}

/// A fast device before the one for capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FastDevice {
    /// The device as simulated.
    pub device: DeviceInfo,
    /// Bytes written to the device.
    pub device_bytes_written: u64,
    /// Bytes programmed on its media.
    pub media_bytes_written: MediaBytes,
    /// Lifetime under this load; absent if the endurance is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<Life>,
}

/// Bytes through one of several drives side by side in the measured run. The drives' bytes sum to the record's bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveBytes {
    /// Bytes written to the device.
    pub device_bytes_written: u64,
    /// Bytes read from the drive.
    pub device_bytes_read: u64,
    /// Bytes programmed on its media.
    pub media_bytes_written: MediaBytes,
}

/// The workload as replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadInfo {
    /// File name of a trace, or the specification of a generator.
    pub name: String,
    /// `trace` or `generator`.
    pub kind: String,
    /// Trace format, such as `thermocline-csv`.
    pub format: Option<String>,
    /// Bytes the workload addresses after remapping.
    pub span_bytes: u64,
    /// Distinct bytes written, in 4 KiB blocks, where known.
    pub working_set_bytes: Option<u64>,
    /// Time from first to last request as recorded, in seconds, for traces.
    pub duration_seconds: Option<f64>,
    /// How addresses were mapped: `dense`, `fold` or `none`.
    pub remap: Option<String>,
    /// How the drive was filled first: `first-touch`, `sequential` or `none`.
    pub prefill: String,
    /// Lines left out because they could not be read (`--skip-bad`).
    pub skipped_lines: u64,
    /// Requests that were left out because they were of no bytes.
    #[serde(default)]
    pub empty_requests: u64,
    /// Requests with an earlier time stamp than a previous request. The replay uses the previous request's time.
    #[serde(default)]
    pub reordered_requests: u64,
    /// Events that a trace says were lost when it was recorded, at least.
    #[serde(default)]
    pub lost_events: u64,
}

/// Bytes programmed into the media.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MediaBytes {
    /// All of them.
    pub total: u64,
    /// By cause; sums to `total`. Keys: `host`, `read_modify_write`, `padding`, `relocation`, `wear_levelling`, and
    /// `folding` of drives with an SLC cache, `refresh` of those that rewrite what gets old.
    pub by_cause: BTreeMap<String, u64>,
    /// Those of all that were programmed in SLC mode, of drives with such a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_slc_mode: Option<u64>,
    /// Host bytes that never reached the media because they were overwritten or trimmed in the write buffer first.
    pub absorbed_in_buffer: u64,
    /// Host bytes still in the write buffer at the end.
    pub left_in_buffer: u64,
}

/// Bytes written with one placement handle of a drive, and copies of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HandleFigures {
    /// The handle.
    pub handle: u16,
    /// Bytes programmed for writes of the host with it.
    pub host_bytes_programmed: u64,
    /// Bytes of its blocks that the drive copied.
    pub bytes_relocated: u64,
    /// The part of them that its own invalidations caused, in proportion to the invalid blocks of each unit.
    pub bytes_relocated_by_own: u64,
    /// The part of them that invalidations through other handles caused.
    pub bytes_relocated_by_others: u64,
    /// Bytes of blocks of other handles whose copies its invalidations caused.
    pub bytes_relocated_of_others: u64,
    /// (`host_bytes_programmed` + `bytes_relocated`) / `host_bytes_programmed`; `None` without writes.
    pub waf: Option<f64>,
}

/// Ratios of the part of a run that stands for a longer one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lasting {
    /// Write amplification factor, media / host.
    pub waf: Option<f64>,
    /// Application-level write amplification, device / host.
    pub alwa: Option<f64>,
    /// Device-level write amplification, media / device.
    pub dlwa: Option<f64>,
    /// The part: [`STEADY`], or what stands for it in a run that did not become steady: `later half`, `later half of
    /// the passes`, `whole run`.
    pub over: String,
}

/// [`Lasting::over`] of a run that became steady.
pub const STEADY: &str = "steady state";

/// Whether a run became steady, by the SNIA PTS rule applied to write amplification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// True when the rule was met.
    pub reached: bool,
    /// The rule in words.
    pub rule: String,
    /// Host bytes written at the start and end of the measurement window, when reached.
    pub window: Option<[u64; 2]>,
    /// Host bytes written over the exported capacity.
    pub drive_fills: f64,
}

/// NVMe FDP statistics (log page 22h), accumulated over the measured run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FdpStats {
    /// Host bytes with metadata written.
    pub hbmw: u64,
    /// Media bytes with metadata written.
    pub mbmw: u64,
    /// Media bytes erased.
    pub mbe: u64,
    /// Events by name, such as `media_reallocated`, `ru_not_written_to_capacity`.
    pub events: BTreeMap<String, u64>,
}

/// A latency distribution in nanoseconds. Completion in memory takes no modelled time: a figure that would be such a
/// completion's is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyNs {
    /// Requests measured.
    pub count: u64,
    /// How many of them completed in memory.
    #[serde(default)]
    pub in_memory: u64,
    /// Arithmetic mean of the requests that did not complete in memory.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
    /// 99.99th percentile.
    pub p99_99: Option<u64>,
    /// Largest.
    pub max: Option<u64>,
    /// Requests by latency, without those in memory: the end of a bin in nanoseconds, and its requests. Ends are a
    /// factor apart; empty bins before the first and after the last request are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<[u64; 2]>,
}

/// Rates over the measured run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Simulated time the measured run took, in seconds.
    pub seconds: f64,
    /// Time until all that the host wrote was on the media as well, in seconds; what passed while it waited in memory
    /// for more to come left out. `null` where the host wrote nothing or the drive wore out. Rates are over this time,
    /// or else over `seconds`.
    #[serde(default)]
    pub seconds_to_media: Option<f64>,
    /// Host writes, bytes per second.
    pub host_write_bytes_per_second: f64,
    /// Host reads, bytes per second.
    pub host_read_bytes_per_second: f64,
    /// Media programs, bytes per second.
    pub media_write_bytes_per_second: f64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Requests in flight: the queue depth held, or `null` when the trace's own clock paced the run.
    pub queue_depth: Option<u32>,
    /// How busy each resource of the drive was (`dies`, `buses`, `controller`, `program_power`, `link` or `link_in` and
    /// `link_out`); of two drives, that for capacity; of several side by side, all of them, with `host_cpu`,
    /// `host_link_in` and `host_link_out` where the host limits them.
    #[serde(default)]
    pub busy: BTreeMap<String, ResourceBusy>,
    /// Limit of the run: the busiest resource with a member busy at least 90 % of the time. Otherwise `host` (too few
    /// requests in flight) or `clock` (the workload's own pace).
    #[serde(default)]
    pub limit: Option<String>,
    /// What the drive could read and write together at this mix and mean size if garbage collection cost nothing
    /// (`lab theory bandwidth`), bytes per second.
    #[serde(default)]
    pub theoretical_bytes_per_second: Option<f64>,
}

/// Temperature of a drive, and what it did to speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heating {
    /// Temperature at the end, °C.
    pub end_celsius: f64,
    /// The most since the drive was made, with what came before measurement, °C.
    pub most_celsius: f64,
    /// Simulated seconds of the measured run in which heat held the drive back.
    pub throttled_seconds: f64,
    /// The same as a share of the run, 0..=1.
    pub throttled_share: f64,
}

/// Reads of pages of the media over the measured run, for the host and for the drive itself, and what it took until
/// they were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageReads {
    /// All of them.
    pub reads: u64,
    /// Reads with more than one attempt.
    pub retried: u64,
    /// Attempts beyond the first.
    pub further_attempts: u64,
    /// Reads that needed soft information.
    pub with_soft_information: u64,
    /// Reads that parity over dies brought back.
    pub rebuilt: u64,
    /// Reads that nothing brought back.
    pub lost: u64,
    /// Codewords that reads of the host are expected to lose for each bit that they read (UBER, JESD218), as a mean
    /// over all drives that do the same, to three digits; where the host read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uber: Option<f64>,
    /// The data at the end of the run, where each unit has an age of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataAges>,
}

/// How old data is, and what reading all of it once is expected to lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataAges {
    /// Mean age of all valid data, days.
    pub mean_days: f64,
    /// The oldest, days.
    pub oldest_days: f64,
    /// Codewords that reading all of it once is expected to lose, for each bit of it, to three digits.
    pub uber: f64,
}

/// How busy the resources of one kind were, as shares of the time, 0..=1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceBusy {
    /// Mean over all of that kind.
    pub mean: f64,
    /// The busiest of them.
    pub busiest: f64,
}

impl Bandwidth {
    /// What was read and written together, as a share of [`Self::theoretical_bytes_per_second`].
    #[must_use]
    pub fn share_of_theoretical(&self) -> Option<f64> {
        let reached = self.host_read_bytes_per_second + self.host_write_bytes_per_second;
        self.theoretical_bytes_per_second.map(|theoretical| reached / theoretical)
    }
}

/// How long the product lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Years with 10 %, 50 % and 90 % probability not to be exceeded.
    pub years_p10: f64,
    /// Median.
    pub years_p50: f64,
    /// See [`Self::years_p10`].
    pub years_p90: f64,
    /// Host writes assumed, drive capacities per day.
    pub drive_writes_per_day: f64,
    /// How full the product is in these years, as a share of its capacity: as full as the simulated drive.
    #[serde(default)]
    pub product_utilisation: Option<f64>,
    /// Write amplification of these years.
    #[serde(default)]
    pub waf: Option<f64>,
    /// The years of an empty product and of one as full as the simulated drive, in this order; these are the second.
    #[serde(default)]
    pub range: Vec<LifeAt>,
    /// Host bytes the product can take at this write amplification (median), for its full capacity. Infinite, and
    /// `null` in JSON, if nothing reaches its media.
    #[serde(deserialize_with = "infinite_if_null")]
    pub tbw_bytes: f64,
    /// Rated host bytes of the product, where its maker states them.
    pub rated_tbw_bytes: Option<f64>,
    /// Warranty in years, where stated.
    pub warranty_years: Option<f64>,
    /// The finding in words, including "nothing needed".
    pub verdict: String,
    /// Assumptions behind the figures, one sentence each.
    pub assumptions: Vec<String>,
}

/// JSON has no infinite numbers.
fn infinite_if_null<'de, D: serde::Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or(f64::INFINITY))
}

/// Years left of a drive in use, from its own counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveLife {
    /// Serial number, where told.
    pub serial: Option<String>,
    /// Used share of the endurance, as the drive tells it.
    pub used_share: f64,
    /// Bytes to the media so far.
    pub media_bytes_written: u64,
    /// Write amplification so far, where told.
    pub waf_so_far: Option<f64>,
    /// Write amplification of the run, which the years assume.
    pub waf: f64,
    /// Bytes of hosts a day in these years.
    pub daily_bytes: f64,
    /// Years left with 10 % probability not to be exceeded.
    pub years_p10: f64,
    /// Median.
    pub years_p50: f64,
    /// Years left with 90 % probability not to be exceeded.
    pub years_p90: f64,
}

/// How long the product lasts when it is so full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LifeAt {
    /// Share of the product's capacity that data as the workload's takes; 0 is the limit where nothing is relocated.
    pub product_utilisation: f64,
    /// Write amplification, media / host.
    pub waf: f64,
    /// As [`Life::years_p10`].
    pub years_p10: f64,
    /// Median.
    pub years_p50: f64,
    /// As [`Life::years_p10`].
    pub years_p90: f64,
}

/// One point of the time series; counters are since the previous point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Host bytes written since the start of the measured run.
    pub host_bytes: u64,
    /// Simulated seconds since the start, where time is modelled; else the workload's own clock.
    pub seconds: f64,
    /// Host bytes written since the previous point.
    pub host_bytes_written: u64,
    /// Media bytes programmed since the previous point.
    pub media_bytes_written: u64,
    /// Write amplification since the previous point.
    pub waf: Option<f64>,
    /// Write latency percentiles since the previous point in nanoseconds, where time is modelled: p50, p99, p99.9. As
    /// in [`LatencyNs`], a percentile of a completion in memory is absent.
    pub write_latency_ns: Option<[Option<u64>; 3]>,
    /// Read latency percentiles since the previous point in nanoseconds, where time is modelled and reads occurred.
    pub read_latency_ns: Option<[Option<u64>; 3]>,
    /// Free units at this point.
    pub free_units: u64,
}

/// Traffic of one device over the measured run, in steps of equal simulated time. A command counts where it ended;
/// divided by [`DeviceSeries::step_seconds`] the bytes of a step are a rate. Commands of the layer above count, its
/// garbage collection included. Internal work of the drive does not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSeries {
    /// `capacity`, the device that the record is about (of several side by side, all together), or `fast`.
    pub tier: String,
    /// Profile name, such as `p5316`.
    pub profile: String,
    /// Length of a step in seconds.
    pub step_seconds: f64,
    /// Bytes read in each step, from the start of the measured run to the last command.
    pub bytes_read: Vec<u64>,
    /// Bytes written in each step, as many as there are of those read.
    pub bytes_written: Vec<u64>,
    /// Bytes of blocks on it that were valid at the end, as the layer knows that maps them: the log, or else the drive;
    /// absent where it maps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_bytes: Option<u64>,
    /// Bytes on it at the end in units that a log has not reset since it wrote them, valid or not, its own structures
    /// among them; absent without a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupied_bytes: Option<u64>,
}

/// State of the device's units at the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Units {
    /// Device units per cell; above 1 when the units are too many to list.
    pub units_per_cell: u64,
    /// Written share of each cell, 0..=1.
    pub fill: Vec<f32>,
    /// Valid share of each cell's capacity, 0..=1.
    pub valid: Vec<f32>,
    /// State of each cell: `f` free, `o` open, `c` closed (written to capacity), `r` retired, `m` mixed.
    pub state: String,
    /// Closed units by valid share in 20 equal bins from empty to full.
    pub valid_histogram: Vec<u64>,
}

/// Wear of the device's units at the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Erase count of each cell (mean over the cell), in the order of [`Units::fill`].
    pub erase_counts: Vec<f32>,
    /// Smallest erase count of any unit in service.
    pub min: u64,
    /// Mean erase count.
    pub mean: f64,
    /// Largest erase count.
    pub max: u64,
    /// Erase counts of units in service by share of them, where there are units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<ErasePercentiles>,
    /// Host bytes, filling included, when the first unit reached its endurance. Present only for one drive with such a
    /// unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_worn_out_host_bytes: Option<u64>,
    /// Units that failed early; absent if early failures are not modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_early: Option<u64>,
    /// Units that went out of service because a program of them failed, replaced or not, where that is modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_programs: Option<u64>,
    /// Units taken out of service.
    pub retired: u64,
    /// Spare units left.
    pub spare_left: u64,
    /// True when the drive ran out of spares and turned read-only.
    pub end_of_life: bool,
}

/// Erase counts that so many percent of the units do not exceed, and their standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErasePercentiles {
    /// A tenth of them.
    pub p10: u64,
    /// Half of them.
    pub p50: u64,
    /// Nine tenths of them.
    pub p90: u64,
    /// All but a hundredth.
    pub p99: u64,
    /// Standard deviation, erases.
    pub deviation: f64,
}

/// Why a text is not a run record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is not JSON of the expected shape.
    #[error("not a run record")]
    Shape(#[from] serde_json::Error),
    /// The record was written under another schema.
    #[error("the record's schema is `{found}`, this version reads `{SCHEMA}`")]
    Schema {
        /// The schema found.
        found: String,
    },
    /// A specification was asked for, and the text is of another schema or a record without one.
    #[error("the schema of the specification is `{found}`, this version reads `{SPEC_SCHEMA}`")]
    SpecSchema {
        /// The schema found.
        found: String,
    },
}

impl RunRecord {
    /// The record as indented JSON, ending in a line feed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a record holds only JSON values");
        text.push('\n');
        text
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// [`ReadError`] when the text is not JSON of this shape or has another schema.
    pub fn from_json(text: &str) -> Result<RunRecord, ReadError> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(text)?;
        if head.schema != SCHEMA {
            return Err(ReadError::Schema { found: head.schema });
        }
        let mut record: RunRecord = serde_json::from_str(text)?;
        if record.lasting.over.is_empty() {
            record.lasting = Lasting {
                waf: record.waf_steady.or(record.waf),
                alwa: record.alwa_steady.or(record.alwa),
                dlwa: record.dlwa_steady.or(record.dlwa),
                over: if record.steady_state.reached { STEADY } else { "whole run" }.to_owned(),
            };
        }
        Ok(record)
    }
}
