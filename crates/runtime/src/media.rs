//! The storage that settings speak of, and how a pool divides it.
//!
//! A pool on a file or a conventional device records its own division into units. A zoned device dictates the zones.

mod change;
mod contents;
mod error;
mod paths;
mod raids;
mod several;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use thermocline_engine::{MAX_UNITS, default_unit};
use thermocline_format::{
    Geometry, GeometryError, LogicalBlock, MediaClass, PoolId, SuperblockPrefix,
};
use thermocline_ftl::placement::Below;
use thermocline_nand::{Drive, Profile, profile};
use thermocline_types::{Bytes, UnitId};

pub use change::DeviceChange;
pub use contents::Contents;
pub use error::MediaError;
pub use paths::{HeldFiles, Paths};
pub use raids::RaidRefusal;

use crate::settings::{DeviceKind, ServedLayer, Settings, SettingsError};
use crate::storage::{
    Access, Deadline, File, Group, GroupKind, Late, Latency, Layout, Options, Simulated, Storage,
    zones_are_empty,
};

/// Any storage.
pub type AnyStorage = Box<dyn Storage>;

/// Units that hold superblocks.
const SUPERBLOCK_UNITS: [UnitId; 2] = [UnitId(0), UnitId(1)];

/// An unknown drive: the spare share of a server drive, and erase units as long as the pool's units. Assumed.
const UNKNOWN: Below = Below::Mixed { spare: 0.1, units: 1.0 };

/// A storage, and how a pool divides it.
pub struct UnitStorage {
    /// The storage.
    pub storage: AnyStorage,
    /// The division.
    pub geometry: Geometry,
    /// The devices that are several, each with its number in the pool.
    pub groups: Vec<(usize, Group)>,
}

impl Settings {
    /// The storage for the new pool `pool`; files that do not exist are made.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn new_media(&self, pool: PoolId) -> Result<UnitStorage, MediaError> {
        self.has_log()?;
        self.fits_zones()?;
        if self.devices.len() > 1 {
            return self.new_joined(pool);
        }
        let storage = self.new_storage()?;
        let geometry = self.geometry_of(storage.layout())?;
        Ok(UnitStorage { storage, geometry, groups: Vec::new() })
    }

    /// The device for a new pool; a file that does not exist is made.
    fn new_storage(&self) -> Result<AnyStorage, MediaError> {
        match self.kind() {
            DeviceKind::File | DeviceKind::Block => {
                self.open_plain(true, self.new_layout()?, Access::ReadWrite)
            }
            DeviceKind::Zoned => self.open_zoned(Access::ReadWrite),
            DeviceKind::Simulated => {
                let block = self.logical_block().unwrap_or(LogicalBlock::B4096);
                self.open_simulated(true, block, self.device().unit, 0, Access::ReadWrite)
            }
        }
    }

    /// Opens the storage of the existing pool.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn media(&self, access: Access) -> Result<UnitStorage, MediaError> {
        self.has_log()?;
        self.joined(access)
    }

    /// The records with which units of the device begin, one at least.
    fn records(&self) -> Result<Vec<SuperblockPrefix>, MediaError> {
        self.is_no_member()?;
        let path = &self.device().path;
        let found = contents::find_records(path, &self.likely_units())?;
        let first = found.first().ok_or_else(|| MediaError::NoPool { path: path.clone() })?;
        self.agrees(&first.geometry)?;
        Ok(found)
    }

    /// The device, of which a pool of `geometry` has `units` units.
    fn storage(
        &self,
        geometry: &Geometry,
        units: u32,
        access: Access,
    ) -> Result<AnyStorage, MediaError> {
        if self.kind() == DeviceKind::Zoned {
            return self.open_zoned(access);
        }
        let (block, per_unit) = (geometry.logical_block(), geometry.blocks_per_unit());
        self.open_divided(false, Layout::contiguous(block, per_unit, units), access)
    }

    /// Geometry of the existing pool, or of a new pool if the devices hold no pool. Writes and creates nothing.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn geometry(&self) -> Result<Geometry, MediaError> {
        self.has_log()?;
        match self.find_all() {
            Ok(found) => Ok(found.geometry),
            Err(MediaError::NoPool { .. } | MediaError::Read { .. }) => {
                self.fits_zones()?;
                match &self.devices[..] {
                    [_] => Ok(self.geometry_of(&self.planned_layout()?)?),
                    _ => self.planned_geometry(),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses settings of a drive without a pool.
    fn has_log(&self) -> Result<(), SettingsError> {
        let layer = self.pool.layer();
        if layer == ServedLayer::Log {
            return Ok(());
        }
        let reason =
            format!("with `{}` the drive is served as it is, and there is no pool", layer.name());
        Err(self.error("pool.layer", reason))
    }

    /// Whether the units that are stated are those that the zones make, of each device that has zones.
    fn fits_zones(&self) -> Result<(), MediaError> {
        for one in self.each_device() {
            let Some(stated) = one.device().unit else { continue };
            if !one.has_zones() {
                continue;
            }
            let unit = one.planned_layout()?.unit_bytes();
            if unit != stated {
                let reason = format!(
                    "{stated} is stated, and the zones of this drive make units of {unit} ({} bytes): state that, \
                     or leave `unit` out",
                    unit.0
                );
                return Err(one.error("device.unit", reason).into());
            }
        }
        Ok(())
    }

    /// How a new pool would divide the device.
    fn planned_layout(&self) -> Result<Layout, MediaError> {
        match self.kind() {
            DeviceKind::File | DeviceKind::Block => self.new_layout(),
            DeviceKind::Zoned => Ok(*self.open_zoned(Access::ReadOnly)?.layout()),
            DeviceKind::Simulated => {
                let block = self.logical_block().unwrap_or(LogicalBlock::B4096);
                let drive = self.drive()?;
                let unit = self
                    .device()
                    .unit
                    .unwrap_or_else(|| default_unit(drive.cut().capacity(), None));
                let layout = Simulated::layout_of(&drive, block, unit);
                Ok(layout.map_err(|why| self.error("device.unit", why))?)
            }
        }
    }

    /// What is below the units of the first device for capacity, of which `unit` is the size. A member of a striped
    /// group gets its part of each.
    pub(crate) fn below(&self, unit: Bytes) -> Result<Below, SettingsError> {
        let capacity = |group: &Vec<Settings>| group[0].device().class == MediaClass::Capacity;
        let Some(group) = self.groups().into_iter().find(capacity) else {
            return Ok(Below::Apart);
        };
        let one = &group[0];
        let unit = Bytes(unit.0 / one.shares(group.len()));
        Ok(match one.kind() {
            DeviceKind::Simulated => one.drive()?.below(unit),
            DeviceKind::Zoned => Below::Apart,
            DeviceKind::File | DeviceKind::Block => UNKNOWN,
        })
    }

    /// The size of the file or device, if it is there: of a device, its whole sectors.
    #[must_use]
    pub fn size_found(&self) -> Option<Bytes> {
        contents::size(&self.device().path).ok()
    }

    /// Present contents of the device.
    ///
    /// # Errors
    /// [`MediaError`] when it cannot be read.
    pub fn contents(&self) -> Result<Contents, MediaError> {
        // Zones that were never written read as any bytes.
        if self.kind() == DeviceKind::Zoned && zones_are_empty(&self.device().path) {
            return Ok(Contents::Nothing);
        }
        contents::look(&self.device().path, &self.likely_units())
    }

    /// What the device is, as stated or as it looks.
    #[must_use]
    pub fn kind(&self) -> DeviceKind {
        self.device().kind.unwrap_or_else(|| {
            let path = &self.device().path;
            let block = fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
            match queue_attribute(path, "zoned").as_deref() {
                Some("host-managed") => DeviceKind::Zoned,
                _ if block => DeviceKind::Block,
                _ => DeviceKind::File,
            }
        })
    }

    /// Sizes of units at whose distance superblocks may be, beside the powers of two.
    fn likely_units(&self) -> Vec<Bytes> {
        let zone = match self.kind() {
            DeviceKind::Zoned => queue_attribute(&self.device().path, "chunk_sectors")
                .and_then(|sectors| sectors.parse().ok())
                .map(|sectors: u64| Bytes(sectors * 512)),
            DeviceKind::Simulated => self.drive().ok().and_then(|drive| match drive {
                Drive::Zoned(drive) => Some(drive.zone_size()),
                _ => None,
            }),
            DeviceKind::File | DeviceKind::Block => None,
        };
        self.device().unit.into_iter().chain(zone).collect()
    }

    /// How a new pool divides a file or a conventional device.
    fn new_layout(&self) -> Result<Layout, MediaError> {
        let path = &self.device().path;
        let size = self.device().size.or_else(|| contents::size(path).ok()).ok_or_else(|| {
            self.error("device.size", "the file does not exist yet: say how large it is to be")
        })?;
        let of_device = queue_attribute(path, "logical_block_size")
            .and_then(|bytes| LogicalBlock::from_bytes(bytes.parse().ok()?));
        let block = self.logical_block().or(of_device).unwrap_or(LogicalBlock::B4096);
        let unit = self.device().unit.unwrap_or_else(|| default_unit(size, None));
        let bytes = block.bytes() as u64;
        let fits =
            unit.0 > 0 && unit.0.is_multiple_of(bytes) && unit.0 / bytes <= u64::from(u32::MAX);
        if !fits {
            let reason = format!("{unit} is not a number of logical blocks of {bytes} bytes");
            return Err(self.error("device.unit", reason).into());
        }
        let units = size.0 / unit.0;
        if units > MAX_UNITS {
            let reason = format!(
                "with units of {unit} the pool of {size} would have {units}; it can have {MAX_UNITS}, so take units of {} or \
                 more",
                Bytes(size.0.div_ceil(MAX_UNITS).next_power_of_two())
            );
            return Err(self.error("device.unit", reason).into());
        }
        Ok(Layout::contiguous(block, (unit.0 / bytes) as u32, units as u32))
    }

    fn geometry_of(&self, layout: &Layout) -> Result<Geometry, SettingsError> {
        let (block, per_unit) = (layout.logical_block, layout.blocks_per_unit);
        Geometry::new(block, per_unit, layout.units, SUPERBLOCK_UNITS).map_err(|error| {
            let key = match error {
                GeometryError::SmallUnit(_) => "device.unit",
                _ => "device.size",
            };
            self.error(key, error.to_string())
        })
    }

    /// Checks the settings' division into units against the pool's.
    fn agrees(&self, geometry: &Geometry) -> Result<(), SettingsError> {
        let (unit, block) = (unit_bytes(geometry), geometry.logical_block());
        if self.device().unit.is_some_and(|stated| stated != unit) {
            let reason = format!("the pool was made with units of {unit}, which cannot be changed");
            return Err(self.error("device.unit", reason));
        }
        if self.logical_block().is_some_and(|stated| stated != block) {
            let reason =
                format!("the pool was made with {}, which cannot be changed", block.bytes());
            return Err(self.error("device.logical_block", reason));
        }
        Ok(())
    }

    fn logical_block(&self) -> Option<LogicalBlock> {
        self.device().logical_block.and_then(LogicalBlock::from_bytes)
    }

    fn options(&self, access: Access) -> Options {
        let device = self.device();
        let threads = device.threads.map_or(Options::default().threads, |threads| threads as usize);
        Options {
            engine: device.io.unwrap_or_default(),
            threads,
            direct: device.direct,
            discard: device.discard,
            streams: write_streams(&device.path).min(device.write_streams.unwrap_or(u32::MAX))
                as u8,
            access,
        }
    }

    /// With `create`, a file that does not exist or is too short is made as long as needed: that is for new pools.
    fn open_plain(
        &self,
        create: bool,
        layout: Layout,
        access: Access,
    ) -> Result<AnyStorage, MediaError> {
        let (path, options) = (&self.device().path, self.options(access));
        Ok(self.with_deadline(Box::new(File::open(path, create, layout, &options)?)))
    }

    /// A device that is reported, or given up where another one has what it has, when a command takes too long.
    fn with_deadline(&self, storage: AnyStorage) -> AnyStorage {
        let Some(limit) = self.pool.io_timeout() else { return storage };
        let late = match self.device().group() {
            Some((GroupKind::Mirror | GroupKind::Parity, _)) => Late::GivenUp,
            Some((GroupKind::Striped, _)) | None => Late::Reported,
        };
        Box::new(Deadline::new(storage, &self.device().path, limit, late))
    }

    #[cfg(target_os = "linux")]
    fn open_zoned(&self, access: Access) -> Result<AnyStorage, MediaError> {
        let (path, options) = (&self.device().path, self.options(access));
        Ok(self.with_deadline(Box::new(crate::storage::Zoned::open(path, &options)?)))
    }

    #[cfg(not(target_os = "linux"))]
    fn open_zoned(&self, _: Access) -> Result<AnyStorage, MediaError> {
        Err(self.error("device.kind", "zoned devices are supported under Linux only").into())
    }

    /// With `create` as [`Settings::open_plain`]. A simulated drive has units of the length that `layout` says, and at
    /// least as many.
    fn open_divided(
        &self,
        create: bool,
        layout: Layout,
        access: Access,
    ) -> Result<AnyStorage, MediaError> {
        if self.kind() != DeviceKind::Simulated {
            return self.open_plain(create, layout, access);
        }
        let (block, unit) = (layout.logical_block, Some(layout.unit_bytes()));
        self.open_simulated(create, block, unit, layout.units, access)
    }

    /// The simulated drive, in `units` units at least.
    fn open_simulated(
        &self,
        create: bool,
        block: LogicalBlock,
        unit: Option<Bytes>,
        units: u32,
        access: Access,
    ) -> Result<AnyStorage, MediaError> {
        let drive = self.drive()?;
        let capacity = drive.cut().capacity();
        let unit = unit.unwrap_or_else(|| default_unit(capacity, None));
        let short = Simulated::layout_of(&drive, block, unit).ok();
        if let Some(short) = short.filter(|has| has.units < units) {
            let needed = Bytes(short.unit_distance.0 * u64::from(units));
            let reason = format!(
                "this drive has {capacity}, and the pool takes {needed} of it: state profile and size as they were for \
                 `format`, or a larger drive"
            );
            return Err(self.error("device.profile", reason).into());
        }
        Ok(Box::new(self.with_data(create, drive, block, unit, access)?))
    }

    fn with_data(
        &self,
        create: bool,
        drive: Drive,
        block: LogicalBlock,
        unit: Bytes,
        access: Access,
    ) -> Result<Simulated, MediaError> {
        let latency = self.device().latency.unwrap_or(Latency::None);
        let (path, options) = (&self.device().path, self.options(access));
        Ok(Simulated::open(path, create, drive, block, unit, latency, &options)?)
    }

    /// The simulated `drive` with its data, without a pool; a file that does not exist is made.
    pub(crate) fn simulated(&self, drive: Drive, access: Access) -> Result<Simulated, MediaError> {
        let unit = self.device().unit.unwrap_or_else(|| default_unit(drive.cut().capacity(), None));
        self.with_data(true, drive, LogicalBlock::B4096, unit, access)
    }

    /// As [`Settings::contents`]; a file that does not exist holds nothing.
    pub(crate) fn contents_if_there(&self) -> Result<Contents, MediaError> {
        if self.device().path.exists() { self.contents() } else { Ok(Contents::Nothing) }
    }

    /// The simulated drive, fresh.
    pub(crate) fn drive(&self) -> Result<Drive, SettingsError> {
        let drive = Drive::new(&self.profile()?, self.device().size, 1);
        drive.map_err(|error| self.error("device.profile", error.to_string()))
    }

    /// Limit of active zones; a zone is active from its first written byte until full or finished. `None` means
    /// unlimited. For several devices of a class, the smallest limit counts.
    pub(crate) fn active_zones(&self, media: MediaClass) -> Result<Option<u32>, SettingsError> {
        let mut fewest = None;
        for one in self.each_device().filter(|one| one.device().class == media) {
            let active = match one.kind() {
                DeviceKind::File | DeviceKind::Block => None,
                DeviceKind::Zoned => queue_attribute(&one.device().path, "max_active_zones")
                    .and_then(|active| active.parse().ok()),
                DeviceKind::Simulated => one.profile()?.zns.map(|zns| zns.max_active),
            };
            let active = active.filter(|&active: &u32| active > 0);
            fewest = fewest.into_iter().chain(active).min();
        }
        Ok(fewest)
    }

    pub(crate) fn profile(&self) -> Result<Profile, SettingsError> {
        let wrong = |reason: String| self.error("device.profile", reason);
        let name = self.device().profile.as_deref().unwrap_or_default();
        let text = match profile::builtin(name) {
            Some(text) => text.to_owned(),
            None => fs::read_to_string(name).map_err(|error| {
                wrong(format!(
                    "`{name}` is no built-in drive, nor a file that can be read: {error}"
                ))
            })?,
        };
        Profile::from_toml(name, &text).map_err(|error| wrong(error.to_string()))
    }
}

/// An identity for a new pool.
///
/// # Errors
/// When the system has no randomness to give.
pub fn new_pool_id() -> std::io::Result<PoolId> {
    use std::io::Read as _;
    let mut id = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut id)?;
    Ok(PoolId(id))
}

/// Bytes of a unit that can be written.
#[must_use]
pub fn unit_bytes(geometry: &Geometry) -> Bytes {
    Bytes(u64::from(geometry.blocks_per_unit()) * geometry.logical_block().bytes() as u64)
}

/// Write streams of the block device at `path` that writes can name, at most 255 (Linux 6.16): placement handles of an
/// FDP drive.
#[must_use]
pub fn write_streams(path: &Path) -> u32 {
    let streams = queue_attribute(path, "max_write_streams").and_then(|text| text.parse().ok());
    streams.map_or(0, |streams: u32| streams.min(u8::MAX.into()))
}

/// The kernel's attribute of the queue of the block device at `path`; `None`: `path` is a partition or no block device.
#[must_use]
pub fn queue_attribute(path: &Path, name: &str) -> Option<String> {
    let device = fs::metadata(path).ok().filter(|found| found.file_type().is_block_device())?;
    let (major, minor) = (rustix::fs::major(device.rdev()), rustix::fs::minor(device.rdev()));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{name}")).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests;
