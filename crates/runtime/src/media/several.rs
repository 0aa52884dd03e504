//! Pools of several devices: all of them are found, told apart by what is on them, and used as one storage.

use std::path::PathBuf;

use thermocline_engine::default_unit;
use thermocline_format::{
    Geometry, LogicalBlock, MediaClass, PoolDevice, PoolId, SuperblockPrefix,
};
use thermocline_nand::Drive;
use thermocline_types::{Bytes, UnitId};

use super::pairs::{self, Place};
use super::{AnyStorage, MediaError, UnitStorage, contents, queue_attribute, unit_bytes};
use crate::settings::{DeviceKind, Settings, SettingsError};
use crate::storage::{Access, Joined, Layout, Storage as _, forget};

impl Settings {
    /// The storage for a new pool on several devices.
    pub(super) fn new_joined(&self, pool: PoolId) -> Result<UnitStorage, MediaError> {
        let groups = self.alike()?;
        let (mut made, mut layouts) = (Vec::new(), Vec::new());
        for group in &groups {
            let sides = group.iter().map(Settings::new_storage).collect::<Result<Vec<_>, _>>()?;
            let each = sides.iter().map(|storage| *storage.layout()).collect::<Vec<_>>();
            layouts.push(layout_of(group, &each));
            made.push(sides);
        }
        let geometry = self.geometry_of_all(&groups, &layouts)?;
        let (mut storages, mut pairs) = (Vec::new(), Vec::new());
        for (device, (group, mut sides)) in groups.iter().zip(made).enumerate() {
            let units = layouts[device].units;
            let storage = if group.len() > 1 {
                let place = Place { pool, device, units };
                let (storage, pair) = pairs::new_pair(group, sides, place)?;
                pairs.push((device, pair));
                storage
            } else {
                sides.remove(0)
            };
            storages.push((storage, units));
        }
        Ok(UnitStorage { storage: join(storages), geometry, pairs })
    }

    /// The storage of the pool that is on these devices.
    pub(super) fn joined(&self, access: Access) -> Result<UnitStorage, MediaError> {
        let (geometry, pool, groups) = self.find_all()?;
        let (mut storages, mut pairs) = (Vec::new(), Vec::new());
        for (device, (group, (_, range))) in groups.iter().zip(geometry.device_units()).enumerate()
        {
            let units = range.len() as u32;
            let storage = if group.len() > 1 {
                let place = Place { pool, device, units };
                let (storage, pair) = pairs::open_pair(group, &geometry, place, access)?;
                pairs.push((device, pair));
                storage
            } else {
                group[0].is_no_side(units, unit_bytes(&geometry), pool)?;
                group[0].storage(&geometry, units, access)?
            };
            storages.push((storage, units));
        }
        let media = UnitStorage { storage: join(storages), geometry, pairs };
        Ok(if media.pairs.is_empty() { media } else { pairs::narrow(media, pool) })
    }

    /// How the pool that is there divides its devices, or else how a new one would.
    pub(super) fn joint_geometry(&self) -> Result<Geometry, MediaError> {
        match self.find_all() {
            Ok((geometry, ..)) => return Ok(geometry),
            Err(MediaError::NoPool { .. } | MediaError::Read { .. }) => {}
            Err(error) => return Err(error),
        }
        let groups = self.alike()?;
        let mut layouts = Vec::new();
        for group in &groups {
            let each = group.iter().map(Settings::planned_layout).collect::<Result<Vec<_>, _>>()?;
            layouts.push(layout_of(group, &each));
        }
        Ok(self.geometry_of_all(&groups, &layouts)?)
    }

    /// An error unless the pool of `geometry` has one device.
    pub(super) fn is_all_of(&self, geometry: &Geometry) -> Result<(), MediaError> {
        match geometry.devices() {
            [_] => Ok(()),
            several => {
                let number = usize::from(self.found_as(geometry)? == 0);
                Err(not_named(several, number))
            }
        }
    }

    /// Which device of the pool this is.
    fn found_as(&self, geometry: &Geometry) -> Result<usize, MediaError> {
        Ok(geometry.device_of(self.found()?.location.unit).index())
    }

    /// The pool on these devices, and each of them, as the pool numbers them: by what is on them, in whatever order
    /// they are named.
    pub(super) fn find_all(&self) -> Result<(Geometry, PoolId, Vec<Vec<Settings>>), MediaError> {
        let mut first = None;
        let mut groups: Vec<Option<Vec<Settings>>> = Vec::new();
        let mut missing = None;
        for group in self.groups() {
            let (one, found) = match found_in(&group) {
                Ok(found) => found,
                Err(error @ (MediaError::NoPool { .. } | MediaError::Read { .. })) => {
                    missing = missing.or(Some((group[0].device().class, error)));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let path = one.device().path.clone();
            let (pool, geometry, other) = first.get_or_insert_with(|| {
                groups.resize(found.geometry.devices().len(), None);
                (found.pool, found.geometry, path.clone())
            });
            if found.pool != *pool || found.geometry != *geometry {
                let (other, first) = (other.clone(), *pool);
                return Err(MediaError::OtherPool { path, pool: found.pool, other, first });
            }
            let number = geometry.device_of(found.location.unit).index();
            if one.device().class != geometry.devices()[number].media {
                let reason = "is not what the pool was made with, which cannot be changed";
                return Err(one.error("device.class", reason).into());
            }
            if let Some(other) = groups[number].replace(group) {
                return Err(MediaError::SameDevice { path, other: path_of(&other[0]) });
            }
        }
        match missing {
            Some((MediaClass::Fast, why)) if first.is_some() => {
                return Err(MediaError::NoFast { why: Box::new(why) });
            }
            Some((_, error)) => return Err(error),
            None => {}
        }
        let (pool, geometry, _) = first.expect("there are several devices");
        let named = groups
            .into_iter()
            .enumerate()
            .map(|(number, group)| group.ok_or_else(|| not_named(geometry.devices(), number)));
        Ok((geometry, pool, named.collect::<Result<_, _>>()?))
    }

    /// Each device or pair, those for capacity first, with the size of units and logical blocks that all are to have.
    fn alike(&self) -> Result<Vec<Vec<Settings>>, MediaError> {
        let mut groups = self.groups();
        groups.sort_by_key(|group| group[0].device().class);
        let ones: Vec<Settings> = groups.iter().map(|group| group[0].clone()).collect();
        let units = ones.iter().map(Settings::own_unit).collect::<Result<Vec<_>, _>>()?;
        let unit = match units.iter().flatten().next() {
            Some(unit) => *unit,
            None => self.chosen_unit(&ones)?,
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
        let zones = match self.kind() {
            DeviceKind::Zoned => true,
            DeviceKind::Simulated => matches!(self.drive()?, Drive::Zoned(_)),
            DeviceKind::File | DeviceKind::Block => false,
        };
        match self.device().unit {
            None if zones => Ok(Some(self.planned_layout()?.unit_bytes())),
            stated => Ok(stated),
        }
    }

    fn own_block(&self) -> LogicalBlock {
        let device = queue_attribute(&self.device().path, "logical_block_size");
        let device = device.and_then(|bytes| LogicalBlock::from_bytes(bytes.parse().ok()?));
        self.logical_block().or(device).unwrap_or(LogicalBlock::B4096)
    }

    /// As of one device of the size of those for capacity, but so that the smallest has some.
    fn chosen_unit(&self, ones: &[Settings]) -> Result<Bytes, MediaError> {
        let sizes = ones.iter().map(Settings::size).collect::<Result<Vec<_>, _>>()?;
        let smallest = sizes.iter().map(|size| size.0).min().unwrap_or_default();
        let capacity = |(one, _): &(&Settings, &Bytes)| one.device().class == MediaClass::Capacity;
        let all = ones.iter().zip(&sizes).filter(capacity).map(|(_, size)| size.0).sum();
        Ok(default_unit(Bytes(all), Some(Bytes(smallest))))
    }

    fn size(&self) -> Result<Bytes, MediaError> {
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

fn join(parts: Vec<(AnyStorage, u32)>) -> AnyStorage {
    Box::new(Joined::new(parts))
}

/// How the device is divided that devices divided like `each` make: of a pair, as many units as both have, but for its
/// labels.
fn layout_of(group: &[Settings], each: &[Layout]) -> Layout {
    let units = each.iter().map(|layout| layout.units).min().unwrap_or_default();
    let units = match group {
        [_] => units,
        _ => pairs::units_of_pair(units, each[0].unit_bytes()),
    };
    Layout { units, ..each[0] }
}

/// A record of the pool on a device or pair, and where it is. Which side of a pair is to be believed is seen later: all
/// records of a device name the same pool and division.
fn found_in(group: &[Settings]) -> Result<(Settings, SuperblockPrefix), MediaError> {
    let mut first = None;
    for one in group {
        forget(&one.device().path);
        match one.found() {
            Ok(found) => return Ok((one.clone(), found)),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.expect("a group has a device"))
}

fn path_of(one: &Settings) -> PathBuf {
    one.device().path.clone()
}

fn not_named(devices: &[PoolDevice], number: usize) -> MediaError {
    let fast = devices[number].media == MediaClass::Fast;
    MediaError::NotNamed { number, of: devices.len(), fast }
}
