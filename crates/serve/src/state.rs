//! Status of a served pool, schema `thermocline.serve/1`.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use thermocline_engine::{Engine, HostError, Memory, Payload, VolumeInfo, WrittenOn};
use thermocline_format::{Geometry, MediaClass, VERSION, VolumeName};
use thermocline_nand::Counters;
use thermocline_nbd::Stopper;
use thermocline_record::waterfall::{self, Level, Waterfall};
use thermocline_runtime::{
    Counts, LATENCY_BUCKETS_MICROS, Operation, Pool, ScrubRecord, ScrubSchedule, Traffic, View,
    VolumeLimits,
};
use thermocline_target::Exports;

use crate::backend::WeakBackend;
use crate::devices::Devices;
use crate::drive::{self, DriveStatus};
use crate::health::{Concern, Health};
use crate::real::{RealDrives, RealDrivesStatus};
use crate::scrubs::ScrubPage;
use crate::sockets::Reach;
use crate::superblock::SuperblockReport;
use crate::tap::Tap;
use crate::{
    Build, DrainStatus, Error, FullnessReport, GroupsTold, ScrubReport, TotalsReport, UnitsReport,
    WearReport,
};

/// From where the state is read.
#[derive(Clone)]
pub struct State {
    backend: WeakBackend,
    exports: Exports,
    stopper: Stopper,
    health: Arc<Health>,
    reach: Reach,
    devices: Devices,
    tap: Tap,
    real_drives: RealDrives,
    began: Instant,
    build: Build,
}

/// The complete status. All counters but `totals` begin with the service.
#[derive(Default, Serialize)]
pub struct Status {
    pub schema: &'static str,
    pub pool: String,
    /// Version of the on-media format.
    pub format: u16,
    /// The program that serves.
    pub build: Build,
    /// Since the service began, as long as anything is counted.
    pub seconds: f64,
    /// Since the pool was opened last: each change of devices opens it anew.
    pub opened_seconds: f64,
    /// The device failed: nothing is written until the pool is opened again.
    pub failed: bool,
    /// What it failed to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Which device does not end its commands in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    pub uris: Vec<String>,
    /// The trace that requests are recorded in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    pub volumes: Vec<VolumeStatus>,
    pub engine: EngineStatus,
    /// How full the pool is.
    pub fullness: FullnessReport,
    /// Scrubs of a pool that has a schedule for them or was scrubbed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubReport>,
    /// Bytes over all services of the pool; absent of a drive without a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<TotalsReport>,
    /// Where the bytes come from that were written.
    pub waterfall: Waterfall,
    pub memory: MemoryStatus,
    /// Of devices of which the endurance is stated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wear: Vec<WearReport>,
    /// Devices that are several.
    #[serde(flatten)]
    pub groups: GroupsTold,
    /// Devices that are drained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub draining: Vec<DrainStatus>,
    /// Statistics of simulated drives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveStatus>,
    /// Counters of real drives, by their log pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real_drives: Option<RealDrivesStatus>,
    /// Media bytes over host bytes; of one drive ALWA x DLWA. Groups write more than the engine does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waf: Option<f64>,
    /// Requests to volumes through all front ends.
    pub requests: RequestStatus,
    /// Clients of NBD.
    pub clients: ClientStatus,
}

#[derive(Serialize)]
pub struct VolumeStatus {
    pub id: u32,
    pub name: String,
    pub size_bytes: u64,
    /// Mapped bytes. An estimate until each page of the volume's map was read once.
    pub mapped_bytes: u64,
    /// Bytes that the pool keeps writable for the volume, mapped bytes included; 0 without a reserve.
    pub reserve_bytes: u64,
    /// Media class for the volume's blocks.
    pub media: &'static str,
    /// Identifier of the snapshot of which it is a clone, while that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<u32>,
    pub limits: LimitStatus,
    /// Requests that wait for its turn or for a limit.
    pub waiting: usize,
    /// Bytes written by the host, including absorbed bytes and bytes still in memory.
    pub host_bytes_written: u64,
    pub absorbed_bytes: u64,
    /// Written to the device for this volume: by the host and by relocation. Headers, maps and superblocks are the
    /// pool's.
    pub device_bytes_written: u64,
    pub relocated_bytes: u64,
    pub destaged_bytes: u64,
    /// Device bytes over host bytes.
    pub alwa: Option<f64>,
    pub requests: RequestStatus,
}

/// Share and limits of a volume. An absent limit means unlimited.
#[derive(Serialize)]
pub struct LimitStatus {
    pub share: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bytes: Option<u64>,
}

/// Bytes written to the device are the sum of those with a cause.
#[derive(Default, Serialize)]
pub struct EngineStatus {
    /// Bytes written by the host, including absorbed bytes and bytes still in memory.
    pub host_bytes_written: u64,
    pub host_bytes_read: u64,
    pub host_bytes_trimmed: u64,
    /// Overwritten or trimmed in memory, and never written to the device.
    pub absorbed_bytes: u64,
    pub device_bytes_written: u64,
    /// Device bytes over host bytes.
    pub alwa: Option<f64>,
    pub by_cause: Causes,
    /// Host bytes packed into chunk headers, before packing. Headers are not counted.
    pub packed_bytes: u64,
    /// Host bytes that the engine tried to pack.
    pub pack_tried_bytes: u64,
    /// Written by hosts and not durable: a power cut may take them.
    pub at_risk_bytes: u64,
    pub mapped_bytes: u64,
    /// How much data the pool holds if its volumes are written all over.
    pub capacity_bytes: u64,
    pub free_units: u32,
    /// Of the devices that have not left the pool.
    pub units: u32,
    /// By class of media.
    pub media: Vec<MediaStatus>,
    pub flushes: u64,
    pub checkpoints: u64,
    pub units_collected: u64,
    pub damaged_blocks: u64,
}

/// Units of a class of media, those of superblocks aside, and blocks written there, by cause.
#[derive(Serialize)]
pub struct MediaStatus {
    /// capacity or fast.
    pub class: &'static str,
    /// Units of the class.
    pub units: u32,
    /// Units that hold nothing.
    pub free_units: u32,
    /// Bytes written for the host. On capacity devices under fast devices: writes that bypassed the fast devices.
    pub host_bytes: u64,
    /// By destage.
    pub destage_bytes: u64,
    /// By garbage collection.
    pub relocation_bytes: u64,
    /// Headers, pages of maps and superblocks.
    pub metadata_bytes: u64,
    /// Bytes of valid blocks of volumes.
    pub valid_bytes: u64,
    /// Bytes of used units minus valid bytes, to be freed by garbage collection.
    pub debt_bytes: u64,
}

impl MediaStatus {
    /// Each class of the pool, with the bytes that were written there.
    pub fn all<P: Payload>(
        engine: &Engine<P>,
        written_on: impl Fn(MediaClass) -> WrittenOn,
    ) -> Vec<MediaStatus> {
        let geometry = engine.geometry();
        let classes = [(MediaClass::Capacity, "capacity"), (MediaClass::Fast, "fast")];
        let status = classes.map(|(media, class)| {
            let written = written_on(media);
            let superblocks = 2 * geometry.active_devices(media);
            let units = geometry.active_units(media) - superblocks;
            let free_units = engine.free_units_of(media);
            let used = u64::from(units.saturating_sub(free_units));
            let valid_bytes = engine.valid_blocks_on(media) * 4096;
            MediaStatus {
                class,
                units,
                free_units,
                host_bytes: written.host_blocks * 4096,
                destage_bytes: written.destaged_blocks * 4096,
                relocation_bytes: written.relocated_blocks * 4096,
                metadata_bytes: written.metadata_bytes,
                valid_bytes,
                debt_bytes: (used * geometry.unit_bytes()).saturating_sub(valid_bytes),
            }
        });
        status.into_iter().filter(|media| media.units > 0).collect()
    }
}

/// Memory of the process by purpose. The remainder is the program, threads and files.
#[derive(Default, Serialize)]
pub struct MemoryStatus {
    /// Resident memory of the process; absent if the system does not report memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Maps of the volumes.
    pub maps_bytes: u64,
    /// The table of units.
    pub units_bytes: u64,
    /// State of the placement policy.
    pub placement_bytes: u64,
    /// Blocks that wait to be written.
    pub waiting_bytes: u64,
    /// Payloads and replies of NBD connections.
    pub connections_bytes: u64,
}

/// Bytes written to the device, by cause.
#[derive(Default, Serialize)]
pub struct Causes {
    pub host: u64,
    pub destage: u64,
    pub relocation: u64,
    pub map: u64,
    pub headers: u64,
    pub superblocks: u64,
}

#[derive(Default, Serialize)]
pub struct ClientStatus {
    pub open: u64,
    pub accepted: u64,
    pub crowded_out: u64,
    pub thrown_out: u64,
    /// Requests that no volume was asked for, for they could not be.
    pub refused: u64,
}

#[derive(Default, Serialize)]
pub struct RequestStatus {
    pub errors: u64,
    pub operations: Vec<OperationStatus>,
}

#[derive(Serialize)]
pub struct OperationStatus {
    pub name: &'static str,
    pub requests: u64,
    pub bytes: u64,
    pub latency: LatencyStatus,
}

/// Times from when a volume was handed a request until it had the answer.
#[derive(Serialize)]
pub struct LatencyStatus {
    /// Upper ends of the buckets in microseconds; a last bucket counts longer times.
    pub at_most_micros: &'static [u32],
    /// Requests in each bucket.
    pub counts: Vec<u64>,
    /// All times together.
    pub seconds: f64,
}

impl State {
    /// The state of `pool`. The reference is weak, so the pool can close.
    pub fn new(
        backend: WeakBackend,
        exports: &Exports,
        stopper: &Stopper,
        health: &Arc<Health>,
        reach: Reach,
        devices: Devices,
        tap: Tap,
    ) -> State {
        let exports = exports.clone();
        let (stopper, health) = (stopper.clone(), Arc::clone(health));
        let (began, build) = (Instant::now(), Build::default());
        let real_drives = RealDrives::default();
        // The counters at the start: a status tells the growth since then.
        let these = devices.clone();
        let _ = real_drives.status(move || these.block_devices());
        State { backend, exports, stopper, health, reach, devices, tap, real_drives, began, build }
    }

    /// The same state, with the program that serves.
    pub fn served_by(self, build: Build) -> State {
        State { build, ..self }
    }

    /// The devices of the pool, as far as they are several.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// The volumes that clients find.
    pub fn exports(&self) -> &Exports {
        &self.exports
    }

    /// The recorder of requests.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// The pool, unless closed. Callers must not hold the pool for long. `None` of a drive without a pool.
    pub fn pool(&self) -> Option<Arc<Pool>> {
        match &self.backend {
            WeakBackend::Pool(pool) => pool.upgrade(),
            WeakBackend::Drive(_) => None,
        }
    }

    /// Whether nothing carries out requests any more: it was closed, or its thread has ended.
    pub fn has_ended(&self) -> bool {
        match &self.backend {
            WeakBackend::Pool(pool) => pool.upgrade().is_none_or(|pool| pool.is_closed()),
            WeakBackend::Drive(drive) => drive.strong_count() == 0,
        }
    }

    /// Why there is no pool.
    pub fn no_pool(&self) -> Error {
        Error::refused(match self.backend {
            WeakBackend::Pool(_) => "the pool is closed",
            WeakBackend::Drive(_) => {
                "the drive is served without a pool (`layer` in [pool]): its volumes have fixed places"
            }
        })
    }

    /// Why a change was refused with `error`, and what to do where the pool has failed.
    pub fn why_not(&self, error: Error) -> String {
        match (error, self.health.failure()) {
            (Error::Host(HostError::Failed), Some(failure)) => format!(
                "nothing can be changed: {failure}; stop the service, see to that, and say this again: the pool need \
                 not be served for it"
            ),
            (error, _) => self.devices.log().operator().reason(error),
        }
    }

    /// The units now; `None` when the pool is closed.
    pub fn units(&self) -> Option<UnitsReport> {
        match &self.backend {
            WeakBackend::Pool(pool) => pool.upgrade()?.look(|view| UnitsReport::of(view.engine)),
            WeakBackend::Drive(drive) => drive.upgrade().map(|_| UnitsReport::none()),
        }
    }

    /// The newest durable superblock record; `None` when the pool is closed.
    pub fn superblock(&self) -> Option<SuperblockReport> {
        self.pool()?.look(|view| view.engine.superblock().map(SuperblockReport::new))?
    }

    /// Scrubs and damaged places; `None` when the pool is closed.
    pub fn scrub(&self) -> Option<ScrubPage> {
        let (schedule, units) =
            self.pool()?.look(|view| (view.scrubs.copied(), view.engine.geometry().units()))?;
        let none = ScrubSchedule { every: None, record: ScrubRecord::default() };
        Some(ScrubPage {
            schema: "thermocline.scrubbing/1".to_owned(),
            failure: self.health.failure().map(str::to_owned),
            read_only: schedule.is_none(),
            report: ScrubReport::new(&schedule.unwrap_or(none), units),
            damage: self.health.damage(),
        })
    }

    /// Current status; `None` when the pool is closed.
    pub fn status(&self) -> Option<Status> {
        match &self.backend {
            WeakBackend::Pool(pool) => self.of_pool(&*pool.upgrade()?),
            WeakBackend::Drive(drive) => {
                let drive = drive.upgrade()?;
                let service = |names: &[VolumeName]| self.of_service(names, &drive.traffic());
                drive::status(&drive, self.devices.layer(), service)
            }
        }
    }

    /// The part of a status that server and clients make.
    fn of_service(&self, volumes: &[VolumeName], requests: &Traffic) -> Status {
        let traffic = self.stopper.traffic();
        Status {
            schema: "thermocline.serve/1",
            format: VERSION,
            build: self.build,
            seconds: self.began.elapsed().as_secs_f64(),
            opened_seconds: self.devices.opened().elapsed().as_secs_f64(),
            failed: self.health.failure().is_some(),
            late: self.health.concern(Concern::Late),
            failure: self.health.failure().map(str::to_owned),
            uris: self.reach.uris(volumes),
            recording: self.tap.path().map(|path| path.display().to_string()),
            requests: request_status(requests),
            clients: client_status(&traffic),
            memory: memory_status(Memory::default(), traffic.held_bytes),
            ..Status::default()
        }
    }

    fn of_pool(&self, pool: &Pool) -> Option<Status> {
        let seen = pool.look(Seen::new)?;
        let Seen { engine, geometry, .. } = seen;
        let volumes = seen.volumes.iter().map(|info| volume_status(info, pool));
        let drive = seen.drive.as_ref().map(DriveStatus::new);
        let media = drive.as_ref().map(|drive| drive.media_bytes_written);
        let devices = self.devices.clone();
        let real = self.real_drives.status(move || devices.block_devices());
        let dlwa = real.as_ref().and_then(|real| real.dlwa);
        let by_pages = dlwa.zip(engine.alwa).map(|(dlwa, alwa)| dlwa * alwa);
        let service = self.of_service(&pool.volume_names(), &pool.traffic());
        let connections = service.memory.connections_bytes;
        Some(Status {
            pool: seen.id,
            format: seen.format,
            volumes: volumes.collect(),
            waf: media.and_then(|media| ratio(media, engine.host_bytes_written)).or(by_pages),
            waterfall: waterfall(&engine, drive.as_ref()),
            engine,
            fullness: seen.fullness,
            scrub: seen.scrub.filter(ScrubReport::tells_anything),
            totals: Some(seen.totals),
            memory: memory_status(seen.memory, connections),
            wear: seen.wear,
            groups: self.devices.status(&geometry),
            draining: seen.draining,
            drive,
            real_drives: real,
            ..service
        })
    }
}

/// What the status needs from the thread of the pool.
struct Seen {
    id: String,
    format: u16,
    volumes: Vec<VolumeInfo>,
    engine: EngineStatus,
    fullness: FullnessReport,
    memory: Memory,
    drive: Option<Counters>,
    wear: Vec<WearReport>,
    draining: Vec<DrainStatus>,
    geometry: Geometry,
    scrub: Option<ScrubReport>,
    totals: TotalsReport,
}

impl Seen {
    fn new(view: &View<'_>) -> Seen {
        let engine = view.engine;
        let geometry = *engine.geometry();
        let scrub = view.scrubs.map(|schedule| ScrubReport::new(schedule, geometry.units()));
        Seen {
            id: engine.pool_id().to_string(),
            format: engine.format_version(),
            volumes: view.earlier.volumes(engine),
            engine: engine_status(engine, view.earlier),
            fullness: FullnessReport::new(&view.fullness),
            memory: engine.memory(),
            drive: view.drive,
            wear: view.wear.iter().map(WearReport::new).collect(),
            draining: DrainStatus::all(engine),
            geometry,
            scrub,
            totals: TotalsReport::new(view.totals),
        }
    }
}

/// Bytes written to the devices and to the media of simulated drives. Drive counters are not split by class, so media
/// levels appear only with a single class. `redundancy` is the bytes that groups write in addition to the engine's
/// bytes.
fn waterfall(engine: &EngineStatus, drive: Option<&DriveStatus>) -> Waterfall {
    let causes = |media: &MediaStatus| {
        let MediaStatus { host_bytes, destage_bytes, relocation_bytes, metadata_bytes, .. } = media;
        let named = [
            ("host", host_bytes),
            ("destage", destage_bytes),
            ("relocation", relocation_bytes),
            ("metadata", metadata_bytes),
        ];
        named.into_iter().map(|(cause, bytes)| (cause.to_owned(), *bytes)).collect()
    };
    let drive = drive.filter(|_| engine.media.len() == 1);
    let level = |media: &MediaStatus| {
        let mut causes: std::collections::BTreeMap<String, u64> = causes(media);
        if let Some(drive) = drive {
            let more = drive.drive_bytes_written.saturating_sub(engine.device_bytes_written);
            causes.insert("redundancy".to_owned(), more);
        }
        Level::devices(media.class, &causes)
    };
    let mut levels: Vec<Level> = engine.media.iter().rev().map(level).collect();
    if let Some(drive) = drive {
        let causes = drive.media_by_cause.iter().map(|(cause, b)| ((*cause).to_owned(), *b));
        levels.push(Level::media(waterfall::CAPACITY, &causes.collect()));
    }
    Waterfall { host: engine.host_bytes_written, absorbed: engine.absorbed_bytes, levels }
}

/// `written` over `asked` bytes, if any were asked for.
pub fn ratio(written: u64, asked: u64) -> Option<f64> {
    (asked > 0).then(|| written as f64 / asked as f64)
}

fn volume_status(info: &VolumeInfo, pool: &Pool) -> VolumeStatus {
    let requests = pool.traffic_of(info.id).unwrap_or_default();
    let VolumeLimits { share, iops, bandwidth } = pool.limits(info.id).unwrap_or_default();
    let bytes = |blocks: u64| blocks * 4096;
    let traffic = &info.traffic;
    let host = bytes(traffic.host_blocks_staged);
    let copies = traffic.relocated_blocks + traffic.destaged_blocks;
    let device = bytes(traffic.host_blocks_written + copies);
    VolumeStatus {
        id: info.id.0,
        name: info.name.to_string(),
        size_bytes: bytes(info.blocks),
        mapped_bytes: bytes(info.mapped),
        reserve_bytes: bytes(info.reserve),
        media: info.media.name(),
        clone_of: info.clone_of.map(|snapshot| snapshot.0),
        limits: LimitStatus { share, iops, bandwidth_bytes: bandwidth },
        waiting: pool.waiting(info.id),
        host_bytes_written: host,
        absorbed_bytes: bytes(traffic.absorbed_blocks),
        device_bytes_written: device,
        relocated_bytes: bytes(traffic.relocated_blocks),
        destaged_bytes: bytes(traffic.destaged_blocks),
        alwa: ratio(device, host),
        requests: request_status(&requests),
    }
}

fn engine_status(engine: &Engine<thermocline_runtime::Buffer>, earlier: &Counts) -> EngineStatus {
    let stats = earlier.stats(engine);
    let bytes = |blocks: u64| blocks * 4096;
    let host = bytes(stats.host_blocks_staged);
    let device = stats.device_bytes_written();
    EngineStatus {
        host_bytes_written: host,
        host_bytes_read: bytes(stats.host_blocks_read),
        host_bytes_trimmed: bytes(stats.trimmed_blocks),
        absorbed_bytes: bytes(stats.absorbed_blocks),
        device_bytes_written: device,
        alwa: ratio(device, host),
        by_cause: Causes {
            host: bytes(stats.host_blocks_written),
            destage: bytes(stats.destaged_blocks),
            relocation: bytes(stats.relocated_blocks),
            map: bytes(stats.map_pages_written),
            headers: stats.header_bytes,
            superblocks: stats.superblock_bytes,
        },
        packed_bytes: bytes(stats.packed_blocks),
        pack_tried_bytes: bytes(stats.pack_tried_blocks),
        at_risk_bytes: bytes(engine.at_risk_blocks()),
        mapped_bytes: bytes(engine.mapped_blocks()),
        capacity_bytes: bytes(engine.holds_blocks()),
        free_units: engine.free_units(),
        units: engine.geometry().present().map(|(_, units)| units.len() as u32).sum(),
        media: MediaStatus::all(engine, |media| earlier.written_on(engine, media)),
        flushes: stats.flushes,
        checkpoints: stats.checkpoints,
        units_collected: stats.gc_units,
        damaged_blocks: stats.damaged_blocks,
    }
}

fn memory_status(memory: Memory, connections_bytes: u64) -> MemoryStatus {
    MemoryStatus {
        resident_bytes: resident_bytes(),
        maps_bytes: memory.maps,
        units_bytes: memory.units,
        placement_bytes: memory.placement,
        waiting_bytes: memory.waiting,
        connections_bytes,
    }
}

/// Resident memory of this process, as `VmRSS` of `proc_pid_status(5)` tells it, in kibibytes.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

pub fn request_status(traffic: &Traffic) -> RequestStatus {
    let operation = |(index, operation): (usize, &Operation)| {
        let latencies = &traffic.latencies[index];
        OperationStatus {
            name: operation.name(),
            requests: traffic.requests[index],
            bytes: traffic.bytes[index],
            latency: LatencyStatus {
                at_most_micros: &LATENCY_BUCKETS_MICROS,
                counts: latencies.counts.to_vec(),
                seconds: latencies.nanos as f64 / 1e9,
            },
        }
    };
    RequestStatus {
        errors: traffic.errors,
        operations: Operation::ALL.iter().enumerate().map(operation).collect(),
    }
}

fn client_status(traffic: &thermocline_nbd::Traffic) -> ClientStatus {
    ClientStatus {
        open: traffic.open,
        accepted: traffic.accepted,
        crowded_out: traffic.crowded_out,
        thrown_out: traffic.thrown_out,
        refused: traffic.refused,
    }
}
