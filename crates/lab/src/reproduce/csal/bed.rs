//! What the document's loads run on: drives cut down with their ratios kept.

use thermocline_nand::Cut;
use thermocline_types::{Bytes, Time};
use thermocline_workload::synthetic::Pattern;

use super::Options;
use crate::jobs::{JobQueue, JobSpan, JobSpec, Length, Share, run_jobs};
use crate::{Error, Settings, Stack};

/// What of the drive's capacity the volume leaves unused, as a share of the volume: the document's 10 % for the drive
/// alone.
pub const UNUSED: f64 = 0.10;
/// The same of CSAL as its authors set it up (`--overprovisioning 18` in their published artifact, which is a share of
/// the capacity).
pub const UNUSED_BY_CSAL: f64 = 0.18 / 0.82;

/// Requests of each job in flight, by the published artifact. The document gives the same for tenants on zones.
pub const DEPTH: u32 = 128;
/// Requests that a stack has at once: all jobs share a queue of SPDK's vhost, in order.
const QUEUE: u32 = 256;
/// Most that a reader gets, in 10^6 bytes a second: the document's readers have 250 behind CSAL whatever the load is.
const READER_MB_PER_S: f64 = 250.0;
/// Bands of SPDK in a unit of the drive: bands of 1 GiB, on units of 128 dies with 4 blocks of 12 MiB each.
const BANDS: u64 = 6;

/// How SPDK's log writes a drive: one class of what hosts write and one of what is relocated, and requests of 1 MiB on
/// whole mapping units. Units of a small drive have few mapping units, so that ours would rewrite many in part.
const SPDK: [&str; 2] = ["pool.placement=sepgc", "device.mapping_unit=4KiB"];

/// Passes of random writes over the volume before a load, by the artifact.
const PASSES: u64 = 4;
/// Seconds of a load before it is measured, and while it is, by the artifact.
const SECONDS: [f64; 2] = [120.0, 180.0];
/// Capacity of the document's drive in bytes. The load on a smaller drive takes so much less time.
const CAPACITY: f64 = 15.36e12;

/// What a load runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A disk for each job.
    Disk,
    /// The same, where requests wait for a quarter of a turn.
    QuickDisk,
    /// The QLC drive alone.
    Drive,
    /// Behind a fast drive, by a log with SPDK's bands.
    Tier,
    /// The same with units of the log that are as large as those of the drive.
    Matched,
}

impl Side {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Side::Disk => "disk",
            Side::QuickDisk => "disk, a quarter of a turn",
            Side::Drive => "drive",
            Side::Tier => "tier",
            Side::Matched => "tier, units of the drive's size",
        }
    }

    /// What of the drive is unused, as a share of the volume.
    pub fn unused(self) -> f64 {
        match self {
            Side::Disk | Side::QuickDisk | Side::Drive => UNUSED,
            Side::Tier | Side::Matched => UNUSED_BY_CSAL,
        }
    }
}

/// The volume, and all sizes derived from the volume.
pub struct Bed {
    /// Bytes that the jobs address.
    pub volume: Bytes,
    /// Whether jobs share a queue, and readers have a cap.
    vhost: bool,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Bed {
    /// A bed of the size asked for.
    pub fn new(options: &Options) -> Bed {
        Bed::of(Bytes::gib(if options.quick { 2 } else { 4 }), options.seed)
    }

    /// A bed with a volume of so many bytes.
    pub fn of(volume: Bytes, seed: u64) -> Bed {
        Bed { volume, vhost: true, seed }
    }

    /// The same, and requests of each job go to the stack at once.
    pub fn without_vhost(&self) -> Bed {
        Bed { vhost: false, ..*self }
    }

    /// Runs `jobs` on `side`.
    ///
    /// # Errors
    /// [`Error`] when the stack gives up.
    pub fn run(
        &self,
        side: Side,
        jobs: &[JobSpec],
        progress: &mut dyn FnMut(f64),
    ) -> Result<Share, Error> {
        let capped = |job: &JobSpec| JobSpec {
            cap_mb_per_s: (self.vhost && job.read_share > 0.0).then_some(READER_MB_PER_S),
            ..*job
        };
        let jobs: Vec<JobSpec> = jobs.iter().map(capped).collect();
        let capacity = capacity(self.volume, side.unused());
        let length = Length { queue: self.vhost.then_some(QUEUE), ..self.length(side, &jobs) };
        self.run_for(&stack(side, capacity)?, capacity, &jobs, length, progress)
    }

    /// Runs `jobs` on a stack with a drive of `capacity` for `length`.
    ///
    /// # Errors
    /// [`Error`] when the stack gives up.
    pub fn run_for(
        &self,
        stack: &Stack,
        capacity: Bytes,
        jobs: &[JobSpec],
        length: Length,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Share, Error> {
        run_jobs(stack, &self.settings(capacity), self.volume, jobs, length, progress)
    }

    /// What serves requests on `side`, with a volume of so many bytes.
    ///
    /// # Errors
    /// [`Error`] when the stack cannot be made so.
    pub fn queue(&self, side: Side, volume: Bytes) -> Result<JobQueue, Error> {
        let capacity = capacity(volume, side.unused());
        JobQueue::of(&stack(side, capacity)?, &self.settings(capacity), volume)
    }

    fn settings(&self, capacity: Bytes) -> Settings {
        Settings { capacity: Some(capacity), seed: self.seed, ..Settings::default() }
    }

    /// The document's seconds on a drive of this size after random writes; loads in order begin on a volume filled in
    /// order. A disk has no state: a 4,096th of the volume for requests of 4 KiB.
    fn length(&self, side: Side, jobs: &[JobSpec]) -> Length {
        if matches!(side, Side::Disk | Side::QuickDisk) {
            let least = jobs.iter().map(|job| job.io_size.0).min().unwrap_or_default();
            let bytes = |times: f64| {
                JobSpan::Written(Bytes((self.volume.as_f64() * least as f64 / 16e6 * times) as u64))
            };
            return Length { before: bytes(2.0), ..Length::of(bytes(0.5)) };
        }
        let share = capacity(self.volume, side.unused()).as_f64() / CAPACITY;
        let [before, measured] =
            SECONDS.map(|seconds| JobSpan::Lasts(Time::micros_f64(seconds * 1e6 * share)));
        let in_order = |job: &JobSpec| job.pattern == Pattern::Sequential;
        let passes = if jobs.iter().any(in_order) { 0 } else { PASSES };
        Length { aged: Bytes(passes * self.volume.0), before, ..Length::of(measured) }
    }
}

/// Capacity of a drive that leaves the share `unused` of a volume.
pub fn capacity(volume: Bytes, unused: f64) -> Bytes {
    Bytes((volume.as_f64() * (1.0 + unused)) as u64 >> 20 << 20)
}

/// The stack of `side` with a drive of `capacity`. Units of log and drive keep their ratio at every size.
fn stack(side: Side, capacity: Bytes) -> Result<Stack, Error> {
    let tier = |bands: u64, more: &[&str]| {
        let drive = Stack::parse("raw:p5316", &[])?.profile;
        let blocks = Cut::new(&drive, Some(capacity))?.shape.blocks_per_unit();
        let unit = u64::from(blocks).next_multiple_of(BANDS) * drive.mapping_unit.0;
        let units = [format!("device.unit={unit}"), format!("log.unit={}", unit / bands)];
        let more = ["pool.write_cache=off"].iter().chain(more).map(|&text| text.to_owned());
        Stack::parse("tier:p5800x+p5316", &units.into_iter().chain(more).collect::<Vec<_>>())
    };
    match side {
        Side::Disk => Stack::parse("raw:hdd", &[]),
        Side::QuickDisk => Stack::parse("raw:hdd,disk.rpm=14400", &[]),
        Side::Drive => Stack::parse("raw:p5316", &[]),
        Side::Tier => tier(BANDS, &SPDK),
        Side::Matched => tier(1, &[]),
    }
}
