//! The state as Prometheus reads it (text format 0.0.4). Names are stable.

use std::fmt::{Display, Write as _};

use thermocline_runtime::ScrubFindings;

use crate::drive::DriveStatus;
use crate::state::{LatencyStatus, MediaStatus, MemoryStatus, Status, VolumeStatus};
use crate::{
    Build, DrainStatus, FullnessReport, GroupStanding, GroupsTold, ScrubReport, TotalsReport,
    WearReport,
};

/// All metrics.
pub fn text(status: &Status) -> String {
    let mut page = Page(String::new());
    let engine = &status.engine;
    page.build(status);
    page.health(status);
    for (name, help, value) in [
        ("host_written_bytes_total", "Written by hosts", engine.host_bytes_written),
        ("host_read_bytes_total", "Read by hosts", engine.host_bytes_read),
        ("host_trimmed_bytes_total", "Trimmed by hosts while mapped", engine.host_bytes_trimmed),
        ("absorbed_bytes_total", "Overwritten or trimmed in memory", engine.absorbed_bytes),
        ("packed_bytes_total", "Packed into headers, unpacked", engine.packed_bytes),
        ("flushes_total", "Flushes sent to the device", engine.flushes),
        ("checkpoints_total", "Checkpoints", engine.checkpoints),
        ("units_collected_total", "Units that garbage collection emptied", engine.units_collected),
        ("damaged_blocks_total", "Blocks found to be damaged", engine.damaged_blocks),
    ] {
        page.count(name, "counter", help, value);
    }
    let causes = &engine.by_cause;
    page.head("device_written_bytes_total", "counter", "Written to the device, by cause");
    for (cause, value) in [
        ("host", causes.host),
        ("destage", causes.destage),
        ("relocation", causes.relocation),
        ("map", causes.map),
        ("headers", causes.headers),
        ("superblocks", causes.superblocks),
    ] {
        page.sample("device_written_bytes_total", &[("cause", cause)], value);
    }
    for (name, help, value) in [
        ("mapped_bytes", "Bytes of volumes that are mapped", engine.mapped_bytes),
        ("capacity_bytes", "Bytes of volumes that the pool holds", engine.capacity_bytes),
        ("free_units", "Units that hold nothing", engine.free_units.into()),
        ("units", "Units", engine.units.into()),
        ("connections", "Connections of clients", status.clients.open),
        ("at_risk_bytes", "Written by hosts and not durable", engine.at_risk_bytes),
    ] {
        page.count(name, "gauge", help, value);
    }
    of_classes(&mut page, &engine.media);
    of_fullness(&mut page, &status.fullness);
    if let Some(scrub) = &status.scrub {
        of_scrubs(&mut page, scrub);
    }
    of_memory(&mut page, &status.memory);
    if let Some(drive) = &status.drive {
        of_drive(&mut page, drive);
    }
    ratios(&mut page, status);
    if let Some(totals) = &status.totals {
        of_totals(&mut page, totals);
    }
    of_groups(&mut page, &status.groups);
    of_draining(&mut page, &status.draining);
    of_wear(&mut page, &status.wear);
    of_volumes(&mut page, &status.volumes);
    requests(&mut page, status);
    page.0 += status.real_drives.as_ref().map_or("", |real| &real.metrics);
    page.0
}

/// Name and help of a gauge, and its value.
type Gauge<T> = (&'static str, &'static str, fn(&T) -> u64);

/// Write amplification since the service began.
fn ratios(page: &mut Page, status: &Status) {
    let engine = &status.engine;
    for (name, help, value) in [
        ("alwa_ratio", "Bytes written to the device over host bytes", engine.alwa),
        (
            "dlwa_ratio",
            "Media bytes over bytes written to the drive",
            (status.drive.as_ref().and_then(|drive| drive.dlwa))
                .or(status.real_drives.as_ref().and_then(|real| real.dlwa)),
        ),
        ("waf_ratio", "Media bytes over host bytes; of one drive, ALWA x DLWA", status.waf),
    ] {
        if let Some(value) = value {
            page.one(name, "gauge", help, value);
        }
    }
}

/// Bytes over all services of the pool.
fn of_totals(page: &mut Page, told: &TotalsReport) {
    let totals = &told.bytes;
    for (name, help, label, bytes) in [
        ("lifetime_host_bytes_total", "Bytes of hosts over all services", "kind", &totals.host),
        (
            "lifetime_device_written_bytes_total",
            "Device writes over all services",
            "cause",
            &totals.device,
        ),
        (
            "lifetime_media_written_bytes_total",
            "Media writes over all services",
            "cause",
            &totals.media,
        ),
        (
            "lifetime_drive_bytes_total",
            "Bytes of simulated drives over all services",
            "kind",
            &totals.drives,
        ),
    ] {
        if !bytes.is_empty() {
            page.head(name, "counter", help);
        }
        bytes.iter().for_each(|(key, value)| page.sample(name, &[(label, key)], *value));
    }
    if let Some(cycles) = told.mean_cycles {
        let help = "Erases of each unit of simulated drives over all services, on average";
        page.one("lifetime_mean_erases", "gauge", help, cycles);
    }
}

/// Each class of devices.
fn of_classes(page: &mut Page, media: &[MediaStatus]) {
    page.head("class_written_bytes_total", "counter", "Written to a class of devices, by cause");
    for one in media {
        for (cause, value) in [
            ("host", one.host_bytes),
            ("destage", one.destage_bytes),
            ("relocation", one.relocation_bytes),
            ("metadata", one.metadata_bytes),
        ] {
            let labels = [("class", one.class), ("cause", cause)];
            page.sample("class_written_bytes_total", &labels, value);
        }
    }
    let gauges: [Gauge<MediaStatus>; 4] = [
        ("class_units", "Units of a class, superblocks aside", |one| one.units.into()),
        ("class_free_units", "Units of a class that hold nothing", |one| one.free_units.into()),
        ("class_valid_bytes", "Data on a class of devices", |one| one.valid_bytes),
        ("class_debt_bytes", "Bytes that garbage collection has yet to free", |one| one.debt_bytes),
    ];
    for (name, help, value) in gauges {
        page.head(name, "gauge", help);
        media.iter().for_each(|one| page.sample(name, &[("class", one.class)], value(one)));
    }
}

/// How full the pool is.
fn of_fullness(page: &mut Page, fullness: &FullnessReport) {
    for (name, help, value) in [
        ("fullness_ratio", "Mapped and reserved bytes over the capacity", fullness.share),
        ("fullness_warning_ratio", "Ratio at which the pool warns", fullness.warning_share),
        ("fullness_critical_ratio", "Ratio at which it is critical", fullness.critical_share),
    ] {
        page.one(name, "gauge", help, value);
    }
    let help = "Held for volumes beside what they have mapped";
    page.count("reserved_bytes", "gauge", help, fullness.reserved_bytes);
    let help = "What any volume may still map";
    page.count("free_bytes", "gauge", help, fullness.free_bytes);
    let help = "When the pool became full, in seconds since 1970; 0: it is not";
    let since = fullness.since_unix_seconds.filter(|_| fullness.is_full()).unwrap_or(0);
    page.count("full_since_seconds", "gauge", help, since);
    let help = "Writes that were refused because the pool is full";
    page.count("refused_writes_total", "counter", help, fullness.refused_writes);
}

/// The last scrub, and the one in progress.
fn of_scrubs(page: &mut Page, scrub: &ScrubReport) {
    let last = scrub.record.last;
    let ended = last.map_or(0, |last| last.ended_unix_seconds);
    let help = "When the last scrub ended, in seconds since 1970; 0: none has";
    page.count("scrub_ended_seconds", "gauge", help, ended);
    let found = last.map_or_else(ScrubFindings::default, |last| last.found);
    for (name, help, value) in [
        ("scrub_blocks", "Blocks that the last scrub compared", found.blocks),
        ("scrub_damaged", "Places that the last scrub found damaged", found.damaged),
        ("scrub_mended", "Places that it repaired from other members", found.mended),
    ] {
        page.count(name, "gauge", help, value);
    }
    let help = "Share of the units that the scrub in progress has looked at; 1: there is none";
    page.one("scrub_progress_ratio", "gauge", help, scrub.progress.unwrap_or(1.0));
}

/// Parts of the process's memory; they do not add up to all of it.
fn of_memory(page: &mut Page, memory: &MemoryStatus) {
    if let Some(resident) = memory.resident_bytes {
        page.count("resident_memory_bytes", "gauge", "Resident memory of the process", resident);
    }
    page.head("memory_bytes", "gauge", "Memory held, by what for");
    for (part, value) in [
        ("maps", memory.maps_bytes),
        ("units", memory.units_bytes),
        ("placement", memory.placement_bytes),
        ("waiting", memory.waiting_bytes),
        ("connections", memory.connections_bytes),
    ] {
        page.sample("memory_bytes", &[("part", part)], value);
    }
}

/// How devices wear of which the endurance is stated.
fn of_wear(page: &mut Page, wear: &[WearReport]) {
    for (name, help, value) in [
        (
            "wear_ahead_days",
            "Days by which devices were written ahead of what they may; red from 1 on",
            (|one| one.ahead_days) as fn(&WearReport) -> f64,
        ),
        ("wear_endurance_bytes", "What may be written to devices", |one| {
            one.endurance_bytes as f64
        }),
    ] {
        if !wear.is_empty() {
            page.head(name, "gauge", help);
        }
        wear.iter().for_each(|one| page.sample(name, &[("class", &one.class)], value(one)));
    }
}

/// States of pairs and striped groups.
fn of_groups(page: &mut Page, groups: &GroupsTold) {
    type Value = fn(&GroupStanding) -> u64;
    let all: [(&str, &str, &str, Value); 4] = [
        ("whole", "gauge", "1 if all members of a group hold everything", |one| one.whole.into()),
        ("lacking_bytes", "gauge", "What a member lacks that is filled or out", |one| {
            one.lacking_bytes
        }),
        ("filled_bytes_total", "counter", "Copied or computed to fill a member", |one| {
            one.filled_bytes
        }),
        ("repaired_total", "counter", "Places written again from other members", |one| {
            one.repaired
        }),
    ];
    for family in ["mirror", "raid"] {
        let of_family = |kind: &str| (kind == "mirror") == (family == "mirror");
        let some = || groups.all().filter(|(kind, ..)| of_family(kind));
        for (name, kind, help, value) in all.iter().filter(|_| some().next().is_some()) {
            let name = format!("{family}_{name}");
            page.head(&name, kind, help);
            for (_, group, _) in some() {
                page.sample(&name, &[(family, &group.name)], value(group));
            }
        }
        let name = format!("{family}_written_bytes_total");
        if some().next().is_some() {
            page.head(&name, "counter", "Written to the members of a group, by cause");
        }
        for (_, group, _) in some() {
            for (cause, bytes) in &group.written_bytes {
                page.sample(&name, &[(family, &group.name), ("cause", cause)], *bytes);
            }
        }
    }
}

/// Units left on devices being drained.
fn of_draining(page: &mut Page, draining: &[DrainStatus]) {
    let name = "draining_units_left";
    if !draining.is_empty() {
        page.head(name, "gauge", "Units of a device that is drained which are not empty");
    }
    for one in draining {
        page.sample(name, &[("device", &one.device.to_string())], u64::from(one.units_left));
    }
}

/// Metrics of each volume. Shared memory and metadata, such as the map, count for no volume.
fn of_volumes(page: &mut Page, volumes: &[VolumeStatus]) {
    let sizes: [Gauge<VolumeStatus>; 3] = [
        ("volume_size_bytes", "Size of a volume", |volume| volume.size_bytes),
        ("volume_mapped_bytes", "Bytes of a volume that are in use", |volume| volume.mapped_bytes),
        ("volume_reserve_bytes", "What the pool keeps writable for a volume", |volume| {
            volume.reserve_bytes
        }),
    ];
    for (name, help, value) in sizes {
        page.head(name, "gauge", help);
        volumes.iter().for_each(|one| page.sample(name, &[("volume", &one.name)], value(one)));
    }
    let help = "Requests of a volume that wait for its turn or for a limit";
    page.head("volume_waiting_requests", "gauge", help);
    for volume in volumes {
        let waiting = volume.waiting as u64;
        page.sample("volume_waiting_requests", &[("volume", &volume.name)], waiting);
    }
    page.head("volume_host_written_bytes_total", "counter", "Written by hosts to a volume");
    for volume in volumes {
        let value = volume.host_bytes_written;
        page.sample("volume_host_written_bytes_total", &[("volume", &volume.name)], value);
    }
    page.head("volume_requests_total", "counter", "Requests that a volume has answered");
    for volume in volumes {
        for one in &volume.requests.operations {
            let labels = [("volume", volume.name.as_str()), ("operation", one.name)];
            page.sample("volume_requests_total", &labels, one.requests);
        }
    }
    let help = "Written to the device for a volume, by cause";
    page.head("volume_device_written_bytes_total", "counter", help);
    for volume in volumes {
        let (relocated, destaged) = (volume.relocated_bytes, volume.destaged_bytes);
        let by_host = volume.device_bytes_written - relocated - destaged;
        for (cause, value) in [("host", by_host), ("destage", destaged), ("relocation", relocated)]
        {
            let labels = [("volume", volume.name.as_str()), ("cause", cause)];
            page.sample("volume_device_written_bytes_total", &labels, value);
        }
    }
}

/// Internal work of a simulated drive.
fn of_drive(page: &mut Page, drive: &DriveStatus) {
    let help = "Written to simulated drives";
    page.count("drive_written_bytes_total", "counter", help, drive.drive_bytes_written);
    let help = "Programmed to the media of simulated drives, by cause";
    page.head("media_written_bytes_total", "counter", help);
    for (cause, &value) in &drive.media_by_cause {
        page.sample("media_written_bytes_total", &[("cause", cause)], value);
    }
    let help = "Bytes of the units that simulated drives erased";
    page.count("media_erased_bytes_total", "counter", help, drive.media_bytes_erased);
}

fn requests(page: &mut Page, status: &Status) {
    let clients = &status.clients;
    for (name, help, value) in [
        ("connections_total", "Connections that were accepted", clients.accepted),
        (
            "connections_refused_total",
            "Connections closed since there were too many",
            clients.crowded_out,
        ),
        (
            "connections_broken_total",
            "Connections closed for what the client did",
            clients.thrown_out,
        ),
        (
            "connections_refused_requests_total",
            "Requests that no volume was asked for, for they could not be",
            clients.refused,
        ),
        ("request_errors_total", "Requests that failed", status.requests.errors),
    ] {
        page.count(name, "counter", help, value);
    }
    let operations = &status.requests.operations;
    page.head("requests_total", "counter", "Requests that volumes have answered");
    for one in operations {
        page.sample("requests_total", &[("operation", one.name)], one.requests);
    }
    page.head("request_bytes_total", "counter", "Bytes that those addressed that succeeded");
    for one in operations {
        page.sample("request_bytes_total", &[("operation", one.name)], one.bytes);
    }
    page.head("request_seconds", "histogram", "Times that volumes took to answer");
    for one in operations {
        page.histogram("request_seconds", one.name, &one.latency);
    }
}

struct Page(String);

impl Page {
    /// The program and the version of the pool's format.
    fn build(&mut self, status: &Status) {
        self.head("build_info", "gauge", "1; the labels name the program and the pool's format");
        let (Build { version, commit }, format) = (status.build, status.format.to_string());
        let labels = [("version", version), ("commit", commit), ("format", &format)];
        self.sample("build_info", &labels, 1);
    }

    /// How long the pool is open, and whether its devices work.
    fn health(&mut self, status: &Status) {
        self.one("up_seconds", "gauge", "Time since the service began", status.seconds);
        let help = "Time since the pool was opened last, by a start or a change of devices";
        self.one("opened_seconds", "gauge", help, status.opened_seconds);
        self.count(
            "failed",
            "gauge",
            "1 when the device failed and nothing is written",
            status.failed.into(),
        );
        let help = "1 while a device does not end its commands in time";
        self.count("device_late", "gauge", help, status.late.is_some().into());
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP thermocline_{name} {help}"));
        self.line(format_args!("# TYPE thermocline_{name} {kind}"));
    }

    fn count(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.line(format_args!("thermocline_{name} {value}"));
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.line(format_args!("thermocline_{name} {value}"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let label = |(name, value): &(&str, &str)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            format!("{name}=\"{value}\"")
        };
        let labels: Vec<String> = labels.iter().map(label).collect();
        self.line(format_args!("thermocline_{name}{{{}}} {value}", labels.join(",")));
    }

    fn histogram(&mut self, name: &str, operation: &str, latency: &LatencyStatus) {
        let ends = latency.at_most_micros.iter().map(|&end| (f64::from(end) / 1e6).to_string());
        let ends = ends.chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (end, counted) in ends.zip(&latency.counts) {
            count += counted;
            let labels = [("operation", operation), ("le", end.as_str())];
            self.sample(&format!("{name}_bucket"), &labels, count);
        }
        let labels = [("operation", operation)];
        self.sample(&format!("{name}_sum"), &labels, latency.seconds);
        self.sample(&format!("{name}_count"), &labels, count);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("memory takes text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted() {
        let mut page = Page(String::new());
        page.head("requests_total", "counter", "Requests");
        page.sample("requests_total", &[("volume", "a\"b\\c")], 3_u64);
        let expected = "# HELP thermocline_requests_total Requests\n\
                        # TYPE thermocline_requests_total counter\n\
                        thermocline_requests_total{volume=\"a\\\"b\\\\c\"} 3\n";
        assert_eq!(page.0, expected);
    }

    #[test]
    fn buckets_hold_those_before_them() {
        let mut page = Page(String::new());
        let latency =
            LatencyStatus { at_most_micros: &[50, 1000], counts: vec![3, 0, 2], seconds: 2.5 };
        page.histogram("request_seconds", "read", &latency);
        let expected = "thermocline_request_seconds_bucket{operation=\"read\",le=\"0.00005\"} 3\n\
                        thermocline_request_seconds_bucket{operation=\"read\",le=\"0.001\"} 3\n\
                        thermocline_request_seconds_bucket{operation=\"read\",le=\"+Inf\"} 5\n\
                        thermocline_request_seconds_sum{operation=\"read\"} 2.5\n\
                        thermocline_request_seconds_count{operation=\"read\"} 5\n";
        assert_eq!(page.0, expected);
    }
}
