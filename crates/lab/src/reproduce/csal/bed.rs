//! What the document's loads run on: drives cut down with their ratios kept.

use thermocline_nand::{Cut, Kind};
use thermocline_types::Bytes;

use super::Options;
use crate::jobs::{JobQueue, JobSpec, Length, Share, run_jobs};
use crate::{Error, Layer, Settings, Stack};

/// What of the drive's capacity the volume leaves unused, as a share of the volume: the document's 10 % for the drive
/// alone.
pub const UNUSED: f64 = 0.10;
/// The same of CSAL as its authors set it up (`--overprovisioning 18` in their published artifact, which is a share of
/// the capacity).
pub const UNUSED_BY_CSAL: f64 = 0.18 / 0.82;

/// Requests of each job in flight. The document gives 128 for tenants on zones, and no depth for the table.
pub const DEPTH: u32 = 128;

/// The volume, and all sizes derived from the volume.
pub struct Bed {
    /// Bytes that the jobs address.
    pub volume: Bytes,
    unused: f64,
    /// Whether jobs share all of the volume.
    shared: bool,
    /// Requests of each job in flight, if not as many as it says itself.
    depth: Option<u32>,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Bed {
    /// A bed of the size asked for. At 4 GiB the log's units are two thirds of the drive's, at 1 GiB a third, so that
    /// a unit of the drive holds three that die apart: with 10 % unused the tier then has half the speed.
    pub fn new(options: &Options) -> Bed {
        Bed::of(Bytes::gib(if options.quick { 2 } else { 4 }), options.seed)
    }

    /// A bed with a volume of so many bytes.
    pub fn of(volume: Bytes, seed: u64) -> Bed {
        Bed { volume, unused: UNUSED, shared: false, depth: None, seed }
    }

    /// The same with so many requests of each job in flight.
    pub fn depth(&self, depth: u32) -> Bed {
        Bed { depth: Some(depth), ..*self }
    }

    /// The same with so much of the drive unused.
    pub fn with_unused(&self, unused: f64) -> Bed {
        Bed { unused, ..*self }
    }

    /// The same, and one volume for all jobs.
    pub fn shared(&self, unused: f64) -> Bed {
        Bed { shared: true, ..self.with_unused(unused) }
    }

    /// Capacity of the drive.
    fn capacity(&self) -> Bytes {
        Bytes((self.volume.as_f64() * (1.0 + self.unused)) as u64 >> 20 << 20)
    }

    /// Runs `jobs` on `side`: `disk`, `disk, a quarter of a turn`, `drive`, `tier`, `tier, units of the drive's size`,
    /// or a stack.
    ///
    /// # Errors
    /// [`Error`] when the stack gives up.
    pub fn run(
        &self,
        side: &str,
        jobs: &[JobSpec],
        progress: &mut dyn FnMut(f64),
    ) -> Result<Share, Error> {
        let stack = self.stack(side)?;
        let depth = |job: &JobSpec| self.depth.unwrap_or(job.depth);
        let jobs: Vec<JobSpec> =
            jobs.iter().map(|job| JobSpec { depth: depth(job), ..*job }).collect();
        let settings =
            Settings { capacity: Some(self.capacity()), seed: self.seed, ..Settings::default() };
        let length = self.length(&stack, &jobs);
        run_jobs(&stack, &settings, self.volume, &jobs, length, progress)
    }

    /// What serves requests on `side`, with a volume of so many bytes.
    ///
    /// # Errors
    /// [`Error`] when the stack cannot be made so.
    pub fn queue(&self, side: &str, volume: Bytes) -> Result<JobQueue, Error> {
        let capacity = Bytes((volume.as_f64() * (1.0 + self.unused)) as u64 >> 20 << 20);
        let settings =
            Settings { capacity: Some(capacity), seed: self.seed, ..Settings::default() };
        JobQueue::of(&self.stack(side)?, &settings, volume)
    }

    fn stack(&self, side: &str) -> Result<Stack, Error> {
        let off = "pool.write_cache=off".to_owned();
        match side {
            "disk" => Stack::parse("raw:hdd", &[]),
            "disk, a quarter of a turn" => Stack::parse("raw:hdd,disk.rpm=14400", &[]),
            "drive" => Stack::parse("raw:p5316", &[]),
            "tier" => Stack::parse("tier:p5800x+p5316", &[off]),
            "tier, units of the drive's size" => {
                let drive = Stack::parse("raw:p5316", &[])?.profile;
                let unit = Cut::new(&drive, Some(self.capacity()))?.unit();
                Stack::parse("tier:p5800x+p5316", &[off, format!("log.unit={}", unit.0)])
            }
            other => Stack::parse(other, &[]),
        }
    }

    /// Twice the volume before, and half of it while it is measured, in units that the drive writes: 4 KiB written to
    /// the drive alone are 64 KiB.
    fn length(&self, stack: &Stack, jobs: &[JobSpec]) -> Length {
        let raw = matches!(stack.layer, Layer::Raw);
        let unit = stack.profile.mapping_unit.as_f64();
        let writes = jobs.iter().filter(|job| job.read_share < 1.0);
        let least = writes.map(|job| job.io_size.as_f64()).fold(f64::INFINITY, f64::min);
        let share = match stack.profile.kind {
            Kind::Disk => least / 16e6,
            _ if raw => (least / unit).min(1.0),
            _ => 1.0,
        };
        let bytes = |times: f64| Bytes((self.volume.as_f64() * share * times) as u64);
        Length { shared: self.shared, queue: None, before: bytes(2.0), measured: bytes(0.5) }
    }
}
