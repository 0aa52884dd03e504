//! From a stack and a workload's size to a drive in units and an engine's configuration.

use thermocline_engine::{Config, MAX_IO_BLOCKS};
use thermocline_format::{Geometry, LogicalBlock};
use thermocline_nand::profile::{Cut, Zns};
use thermocline_nand::{Drive, Kind, Profile, Zoned};
use thermocline_types::{Bytes, UnitId};

use super::device::Device;
use crate::settings::{Pacing, Settings};
use crate::stack::Stack;
use crate::{Error, run};

/// Fewest and most units that a drive without zones is cut into when nothing is said. Chosen, not measured: below,
/// what is set aside is much of the drive; above, nothing is gained.
const UNITS: std::ops::RangeInclusive<u64> = 64..=8192;

/// Least size of such a unit: that of the longest chunk. Chosen, not measured.
const LEAST: Bytes = Bytes::mib(1);

/// An engine's configuration and the drive it is for.
pub struct Plan {
    /// How the engine is set up.
    pub config: Config,
    /// The drive.
    pub drive: Drive,
    /// Placement handles that the drive takes.
    pub handles: u16,
    /// Blocks of 4 KiB that the workload addresses.
    pub blocks: u64,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Plan {
    /// The plan for a workload that addresses `footprint` bytes.
    ///
    /// # Errors
    /// [`Error`] when the drive cannot be cut so, or cannot hold the workload beside what the log sets aside.
    pub fn new(stack: &Stack, settings: &Settings, footprint: Bytes) -> Result<Plan, Error> {
        let refuse = |reason: String| Error::Stack { stack: stack.text.clone(), reason };
        let cut = run::cut(&stack.profile, stack, settings, footprint)?;
        let logical = LogicalBlock::from_bytes(cut.mapping_unit.0.min(4096) as u32)
            .unwrap_or(LogicalBlock::B4096);
        let drive = drive(&stack.profile, cut, settings.seed)?;
        let unit = unit(&drive, stack.log.unit, logical);
        let units = match &drive {
            Drive::Zoned(zoned) => u64::from(zoned.zones()),
            _ => cut.capacity().0 / unit.0.max(1),
        };
        let superblocks = [UnitId(0), UnitId(1)];
        let per_unit = u32::try_from(unit.0 / logical.bytes() as u64).unwrap_or(u32::MAX);
        let geometry = Geometry::new(logical, per_unit, units.min(1 << 31) as u32, superblocks)
            .map_err(|error| refuse(format!("{error}; give another log.unit or a larger drive")))?;
        let mut config = Config::new(geometry);
        stack.log.apply(&mut config);
        if stack.log.reserved_units.is_none() {
            config.reserved_units = config.reserved_units.max(config.frontiers());
        }
        if let Some(victim) = settings.victim {
            config.gc.victim = victim;
        }
        if let Some(Pacing::QueueDepth(depth)) = settings.pacing {
            config.max_requests = config.max_requests.max(depth);
        }
        config.map_memory_bytes = u64::MAX;
        if let Some(active) = active_zones(&stack.profile) {
            config.max_open_units = active.saturating_sub(BESIDE);
        }
        config.check().map_err(|error| {
            refuse(format!("{error}; give smaller units (log.unit, device.unit) or a larger drive"))
        })?;
        let blocks = footprint.div_ceil(Bytes::BLOCK);
        check_capacity(&config, unit, blocks, stack)?;
        check_zones(&config, &stack.profile).map_err(refuse)?;
        let handles = handles(&stack.profile);
        Ok(Plan { config, drive, handles, blocks, seed: settings.seed })
    }

    /// Makes the pool.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn build(self) -> Result<super::machine::Machine, Error> {
        let device = Device::new(self.drive, self.config.geometry, self.handles);
        super::machine::Machine::format(self.config, device, self.blocks, self.seed)
    }
}

/// Whether the log writes units of the media itself: the drive is nothing but its units.
#[must_use]
pub fn is_bare(profile: &Profile) -> bool {
    profile.kind == Kind::Conventional && profile.geometry.is_none()
}

/// A fresh drive. Where the profile knows of nothing but blocks and units, the log has the units as they are, spare
/// ones included.
fn drive(profile: &Profile, cut: Cut, seed: u64) -> Result<Drive, Error> {
    if !is_bare(profile) {
        return Ok(Drive::new(profile, Some(cut.capacity()), seed)?);
    }
    let size = cut.unit();
    let zns = Zns { zone_size: size, zone_capacity: size, max_open: 0, max_active: 0 };
    let zoned = Profile { kind: Kind::Zns, zns: Some(zns), buffer: None, ..profile.clone() };
    Ok(Drive::Zoned(Box::new(Zoned::new(&zoned, cut, seed))))
}

/// Size of the engine's units: of zones, their capacity.
fn unit(drive: &Drive, given: Option<Bytes>, logical: LogicalBlock) -> Bytes {
    if let Drive::Zoned(zoned) = drive {
        return zoned.cut().unit();
    }
    let capacity = drive.cut().capacity().0;
    let unit = given.map_or_else(
        || {
            let mut unit = drive.cut().unit().0.max(1);
            while unit < LEAST.0 || capacity / unit > *UNITS.end() {
                unit *= 2;
            }
            while capacity / unit < *UNITS.start() && unit > LEAST.0 {
                unit /= 2;
            }
            unit
        },
        Bytes::get,
    );
    let block = (logical.bytes() as u64).max(drive.cut().mapping_unit.0);
    Bytes((unit / block).max(1) * block)
}

fn handles(profile: &Profile) -> u16 {
    let streams = profile.streams.as_ref().map(|streams| u16::from(streams.count));
    streams.or(profile.fdp.as_ref().map(|fdp| u16::from(fdp.handles))).unwrap_or(1)
}

/// Refuses a workload that is larger than what the engine can hold.
fn check_capacity(config: &Config, unit: Bytes, blocks: u64, stack: &Stack) -> Result<(), Error> {
    let held = config.capacity_blocks(blocks);
    if held >= blocks {
        return Ok(());
    }
    let all = u64::from(config.geometry.units()) * unit.0;
    let share = (held * Bytes::BLOCK.0) as f64 / all as f64;
    let spare = if is_bare(&stack.profile) {
        format!("device.garbage={:.2} or more", 1.01 - share + 0.005)
    } else {
        format!("--utilisation {:.2} or less", (share - 0.01).max(0.01))
    };
    Err(Error::Settings(format!(
        "the workload addresses {}, the log on {} can hold {} of its {} units of {unit}: the rest is its reserve, \
         open units, maps and superblocks; give {spare}, or a larger --capacity",
        Bytes(blocks * Bytes::BLOCK.0),
        stack.text,
        Bytes(held * Bytes::BLOCK.0),
        config.geometry.units(),
    )))
}

/// Zones that are open beside those that blocks and metadata are written to: those of the superblock, and one that is
/// being finished.
const BESIDE: u32 = 3;

/// Zones that the drive lets be open at once, if it says so.
fn active_zones(profile: &Profile) -> Option<u32> {
    profile.zns.as_ref().map(|zns| zns.max_active).filter(|&active| active > 0)
}

/// Refuses a placement that takes more open zones than the drive allows.
fn check_zones(config: &Config, profile: &Profile) -> Result<(), String> {
    let needed = config.frontiers() + BESIDE;
    match active_zones(profile) {
        Some(active) if active < needed => Err(format!(
            "the placement {} takes up to {needed} zones open at once, {} allows {active}: choose one with fewer classes",
            config.placement, profile.name
        )),
        _ => Ok(()),
    }
}

/// Bytes of memory for what is kept of `media` bytes: an entry of 24 bytes for each block in a chunk's header, 8 in the
/// map.
#[must_use]
pub fn memory(media: Bytes) -> Bytes {
    Bytes(media.div_ceil(Bytes::BLOCK).saturating_mul(32))
}

const _: () = assert!(MAX_IO_BLOCKS >= 64, "requests of a batch fit into one chunk");
