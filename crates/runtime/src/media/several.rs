//! Pools of several devices: all devices are found, identified by superblocks, and joined to a single storage.

use std::path::PathBuf;

use thermocline_engine::default_unit;
use thermocline_format::{
    DeviceState, Geometry, LogicalBlock, MediaClass, PoolDevice, PoolId, RaidShape,
    SuperblockPrefix,
};
use thermocline_types::{Bytes, DeviceId, UnitId};

use super::raids::Place;
use super::{AnyStorage, MediaError, UnitStorage, contents, queue_attribute, raids};
use crate::settings::{DeviceKind, Settings, SettingsError};
use crate::storage::{Access, Group, Joined, Layout, Storage as _, forget};

impl Settings {
    /// The storage for a new pool on several devices.
    pub(super) fn new_joined(&self, pool: PoolId) -> Result<UnitStorage, MediaError> {
        let groups = self.alike()?;
        let made = groups.iter().map(|group| Made::new(group)).collect::<Result<Vec<_>, _>>()?;
        let layouts: Vec<Layout> = made.iter().map(|made| made.layout).collect();
        let geometry = self.geometry_of_all(&groups, &layouts)?;
        let (mut storages, mut handles) = (Vec::new(), Vec::new());
        for (device, (group, made)) in groups.iter().zip(made).enumerate() {
            let units = made.layout.units;
            let (storage, handle) = made.open(group, Place { pool, device, units })?;
            handles.extend(handle.map(|handle| (device, handle)));
            storages.push((Some(storage), units));
        }
        Ok(UnitStorage { storage: join(storages), geometry, groups: handles })
    }

    /// The storage of the pool that is on these devices.
    pub(super) fn joined(&self, access: Access) -> Result<UnitStorage, MediaError> {
        self.find_all()?.open(access)
    }

    /// How a new pool would divide these devices.
    pub(super) fn planned_geometry(&self) -> Result<Geometry, MediaError> {
        let groups = self.alike()?;
        let mut layouts = Vec::new();
        for group in &groups {
            layouts.push(match raids::is_group(group) {
                true => raids::layout_of(&raids::shape_of(group)?),
                false => group[0].planned_layout()?,
            });
        }
        Ok(self.geometry_of_all(&groups, &layouts)?)
    }

    /// Finds the pool on these devices, with devices in the pool's numbering. Superblocks identify devices, so the
    /// order in the settings does not matter.
    pub(super) fn find_all(&self) -> Result<PoolFound, MediaError> {
        let (found, missing) = self.find_named()?;
        let mut missing = missing.into_iter();
        if let Some(lacking) = found.lacking().next() {
            let lost = not_named(found.geometry.devices(), lacking.index());
            return Err(missing.next().map_or(lost, why_lacking));
        }
        match missing.next() {
            Some((group, error)) if error.is_blank() => {
                Err(MediaError::NotAttached { path: path_of(&group[0]) })
            }
            Some((_, error)) => Err(*error),
            None => Ok(found),
        }
    }

    /// As [`Settings::find_all`], but devices of the pool may be lacking; and those on which nothing of a pool can be
    /// found, and why not.
    pub(super) fn find_named(&self) -> Result<(PoolFound, Vec<Unfound>), MediaError> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for group in self.groups() {
            match found_in(group) {
                Ok(one) => found.push(one),
                Err((group, error)) => match *error {
                    MediaError::NoPool { .. } | MediaError::Read { .. } => {
                        missing.push((group, error));
                    }
                    other => return Err(other),
                },
            }
        }
        let Some(first) = found.first() else {
            return Err(*missing.remove(0).1);
        };
        let (pool, path) = (first.pool(), first.path.clone());
        if let Some(other) = found.iter().find(|other| other.pool() != pool) {
            let (pool, first) = (other.pool(), pool);
            return Err(MediaError::OtherPool {
                path: other.path.clone(),
                pool,
                other: path,
                first,
            });
        }
        let Some(counts) = record_that_counts(&found) else {
            let newest = found
                .iter()
                .map(OneFound::newest)
                .max_by_key(|record| (record.epoch, record.revision));
            let geometry = newest.expect("there is a record").geometry;
            let lost = not_named(geometry.devices(), geometry.home().index());
            return Err(missing.into_iter().next().map_or(lost, why_missing));
        };
        let geometry = counts.geometry;
        let home = found.iter().find(|one| one.records.contains(&counts));
        let path = home.map_or_else(PathBuf::new, |home| home.path.clone());
        let newer = found.iter().flat_map(|one| &one.records);
        let older_home = newer.map(SuperblockPrefix::home_had).any(|had| had > counts.epoch);
        let older_home = older_home.then_some(path);
        let mut groups = vec![None; geometry.devices().len()];
        for one in found {
            one.put(&geometry, &mut groups).map_err(|error| match &older_home {
                // The home's list of devices is out of date.
                Some(path) => MediaError::OlderHome { path: path.clone() },
                None => error,
            })?;
        }
        Ok((PoolFound { geometry, pool, groups, older_home }, missing))
    }

    /// Each device or group, those for capacity first, with the size of units and logical blocks that all are to have.
    fn alike(&self) -> Result<Vec<Vec<Settings>>, MediaError> {
        let mut groups = self.groups();
        groups.sort_by_key(|group| group[0].device().class);
        let ones = groups.iter().map(|group| &group[0]);
        let units = ones.map(Settings::own_unit).collect::<Result<Vec<_>, _>>()?;
        let unit = match units.iter().flatten().next() {
            Some(unit) => *unit,
            None => chosen_unit(&groups)?,
        };
        let blocks = groups.iter().flatten().map(Settings::own_block);
        let block = blocks.max_by_key(|block| block.bytes()).expect("there are several devices");
        for one in groups.iter_mut().flatten() {
            let device = &mut one.devices[0];
            device.unit = Some(device.unit.unwrap_or(unit));
            device.logical_block = device.logical_block.or(Some(block.bytes() as u32));
        }
        Ok(groups)
    }

    /// The size of units that the settings state or the zones of the device have.
    fn own_unit(&self) -> Result<Option<Bytes>, MediaError> {
        match self.device().unit {
            None if self.has_zones() => Ok(Some(self.planned_layout()?.unit_bytes())),
            stated => Ok(stated),
        }
    }

    fn own_block(&self) -> LogicalBlock {
        let device = queue_attribute(&self.device().path, "logical_block_size");
        let device = device.and_then(|bytes| LogicalBlock::from_bytes(bytes.parse().ok()?));
        self.logical_block().or(device).unwrap_or(LogicalBlock::B4096)
    }

    pub(super) fn size(&self) -> Result<Bytes, MediaError> {
        if self.kind() == DeviceKind::Simulated {
            return Ok(self.drive()?.cut().capacity());
        }
        let device = self.device();
        let size = device.size.or_else(|| contents::size(&device.path).ok());
        let reason = "the file does not exist yet: say how large it is to be";
        Ok(size.ok_or_else(|| self.error("device.size", reason))?)
    }

    fn geometry_of_all(
        &self,
        groups: &[Vec<Settings>],
        layouts: &[Layout],
    ) -> Result<Geometry, SettingsError> {
        let (block, per_unit) = (layouts[0].logical_block, layouts[0].blocks_per_unit);
        let (mut devices, mut first) = (Vec::new(), 0);
        for (one, layout) in groups.iter().map(|group| &group[0]).zip(layouts) {
            if layout.logical_block != block || layout.blocks_per_unit != per_unit {
                let reason = format!(
                    "units of {} in logical blocks of {} bytes, and another device has units of {} in blocks of {}: all \
                     devices of a pool are divided alike",
                    layout.unit_bytes(),
                    layout.logical_block.bytes(),
                    layouts[0].unit_bytes(),
                    block.bytes(),
                );
                return Err(one.error("device.unit", reason));
            }
            let superblock_units = [UnitId(first), UnitId(first + 1)];
            let media = one.device().class;
            devices.push(PoolDevice::new(media, layout.units, superblock_units));
            first += layout.units;
        }
        let geometry = Geometry::of_devices(block, per_unit, &devices);
        geometry.map_err(|error| self.error("device", error.to_string()))
    }
}

/// As of one device of the size of those for capacity, but so that the smallest has some.
fn chosen_unit(groups: &[Vec<Settings>]) -> Result<Bytes, MediaError> {
    let sizes = groups.iter().map(|group| raids::size_of(group)).collect::<Result<Vec<_>, _>>()?;
    let smallest = sizes.iter().map(|size| size.0).min().unwrap_or_default();
    let capacity = |group: &Vec<Settings>| group[0].device().class == MediaClass::Capacity;
    let sized = groups.iter().zip(&sizes).filter(|(group, _)| capacity(group));
    Ok(default_unit(Bytes(sized.map(|(_, size)| size.0).sum()), Some(Bytes(smallest))))
}

/// A device or group of a new pool, before it is known where in the pool it is.
pub(super) struct Made {
    pub(super) layout: Layout,
    /// The device, which is open; or how a group will be divided.
    storage: Result<AnyStorage, RaidShape>,
}

impl Made {
    pub(super) fn new(group: &[Settings]) -> Result<Made, MediaError> {
        if raids::is_group(group) {
            let shape = raids::shape_of(group)?;
            return Ok(Made { layout: raids::layout_of(&shape), storage: Err(shape) });
        }
        let storage = group[0].new_storage()?;
        Ok(Made { layout: *storage.layout(), storage: Ok(storage) })
    }

    /// Its storage, and a handle if it is a group.
    pub(super) fn open(
        self,
        group: &[Settings],
        place: Place,
    ) -> Result<(AnyStorage, Option<Group>), MediaError> {
        match self.storage {
            Ok(storage) => Ok((storage, None)),
            Err(shape) => {
                let (storage, handle) = raids::new_raid(group, shape, place)?;
                Ok((storage, Some(handle)))
            }
        }
    }
}

pub(super) fn join(parts: Vec<(Option<AnyStorage>, u32)>) -> AnyStorage {
    Box::new(Joined::new(parts))
}

/// A device or group with records of a pool on it: at least one.
struct OneFound {
    group: Vec<Settings>,
    /// Where they were found.
    path: PathBuf,
    records: Vec<SuperblockPrefix>,
}

impl OneFound {
    fn pool(&self) -> PoolId {
        self.records[0].pool
    }

    fn newest(&self) -> &SuperblockPrefix {
        let newest = self.records.iter().max_by_key(|record| (record.epoch, record.revision));
        newest.expect("a record was found")
    }

    /// Puts it among the devices of the pool, by number.
    fn put(
        self,
        geometry: &Geometry,
        groups: &mut [Option<Vec<Settings>>],
    ) -> Result<(), MediaError> {
        let newest = self.newest();
        let (number, path) = (newest.geometry.device_of(newest.location.unit), self.path.clone());
        let Some(device) = geometry.devices().get(number.index()) else {
            return Err(MediaError::NotAttached { path });
        };
        if matches!(device.state, DeviceState::Detached | DeviceState::Lost) {
            return Err(MediaError::HasLeft { path });
        }
        let one = &self.group[0];
        if one.device().class != device.media {
            let reason = "is not what the pool was made with, which cannot be changed";
            return Err(one.error("device.class", reason).into());
        }
        match groups[number.index()].replace(self.group) {
            Some(other) => Err(MediaError::SameDevice { path, other: path_of(&other[0]) }),
            None => Ok(()),
        }
    }
}

/// The newest record that is on the home of its own geometry: it says which devices the pool has.
fn record_that_counts(found: &[OneFound]) -> Option<SuperblockPrefix> {
    let records = found.iter().flat_map(|one| &one.records);
    let at_home = |record: &&SuperblockPrefix| {
        record.geometry.device_of(record.location.unit) == record.geometry.home()
    };
    records.filter(at_home).max_by_key(|record| (record.epoch, record.revision)).copied()
}

/// A device or group on which nothing of a pool can be found, and why not.
type Unfound = (Vec<Settings>, Box<MediaError>);

/// Why a device that the pool has cannot be found.
fn why_missing((group, why): Unfound) -> MediaError {
    match group[0].device().class {
        MediaClass::Fast => MediaError::NoFast { why },
        MediaClass::Capacity => *why,
    }
}

/// Why a device that the pool has cannot be found, where its records were.
fn why_lacking((group, why): Unfound) -> MediaError {
    match group[0].device().class {
        MediaClass::Fast => MediaError::NoFast { why },
        MediaClass::Capacity => MediaError::NoCapacity { path: path_of(&group[0]), why },
    }
}

/// The records of a pool on a device or group.
fn found_in(group: Vec<Settings>) -> Result<OneFound, Unfound> {
    group.iter().for_each(|one| forget(&path_of(one)));
    let records = if raids::is_group(&group) { raids::records(&group) } else { group[0].records() };
    match records {
        Ok(records) => Ok(OneFound { path: path_of(&group[0]), group, records }),
        Err(error) => Err((group, Box::new(error))),
    }
}

/// A pool that was found, and where its devices are.
pub(super) struct PoolFound {
    pub(super) geometry: Geometry,
    pub(super) pool: PoolId,
    /// Each device or group, by its number in the pool; `None` for a device that has left the pool.
    pub(super) groups: Vec<Option<Vec<Settings>>>,
    /// Where the home is, if another device says that it had a newer record.
    pub(super) older_home: Option<PathBuf>,
}

impl PoolFound {
    /// Devices of the pool that were not found.
    pub(super) fn lacking(&self) -> impl Iterator<Item = DeviceId> {
        let numbers = self.geometry.present().map(|(device, _)| device);
        numbers.filter(|device| self.groups[device.index()].is_none())
    }

    /// An error if its home is an older copy: devices are not changed then.
    pub(super) fn with_its_home(self) -> Result<PoolFound, MediaError> {
        match self.older_home {
            Some(path) => Err(MediaError::OlderHome { path }),
            None => Ok(self),
        }
    }

    /// Its storage.
    pub(super) fn open(&self, access: Access) -> Result<UnitStorage, MediaError> {
        let PoolFound { geometry, pool, ref groups, .. } = *self;
        let (mut storages, mut handles) = (Vec::new(), Vec::new());
        for (group, (device, range)) in groups.iter().zip(geometry.device_units()) {
            let (device, units) = (device.index(), range.len() as u32);
            let storage = match group.as_deref() {
                None => None,
                Some([one]) => Some(one.storage(&geometry, units, access)?),
                Some(group) => {
                    let place = Place { pool, device, units };
                    let (storage, handle) = raids::open_raid(group, &geometry, place, access)?;
                    handles.push((device, handle));
                    Some(storage)
                }
            };
            storages.push((storage, units));
        }
        let storage = match storages.as_mut_slice() {
            [(Some(_), _)] => storages.remove(0).0.expect("it is there"),
            _ => join(storages),
        };
        Ok(UnitStorage { storage, geometry, groups: handles })
    }
}

fn path_of(one: &Settings) -> PathBuf {
    one.device().path.clone()
}

fn not_named(devices: &[PoolDevice], number: usize) -> MediaError {
    let fast = devices[number].media == MediaClass::Fast;
    MediaError::NotNamed { number, of: devices.len(), fast }
}
