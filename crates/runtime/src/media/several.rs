//! Pools of several devices: all of them are found, told apart by what is on them, and used as one storage.

use std::path::PathBuf;

use thermocline_engine::default_unit;
use thermocline_format::{Geometry, LogicalBlock, MediaClass, PoolDevice};
use thermocline_nand::Drive;
use thermocline_types::{Bytes, UnitId};

use super::{AnyStorage, MediaError, UnitStorage, contents, queue_attribute};
use crate::settings::{DeviceKind, Settings, SettingsError};
use crate::storage::{Access, Joined, Layout, Storage as _, forget};

impl Settings {
    /// The storage for a new pool on several devices.
    pub(super) fn new_joined(&self) -> Result<UnitStorage, MediaError> {
        let ones = self.alike()?;
        let made = ones.iter().map(Settings::new_storage).collect::<Result<Vec<_>, _>>()?;
        let layouts: Vec<Layout> = made.iter().map(|storage| *storage.layout()).collect();
        let geometry = self.geometry_of_all(&ones, &layouts)?;
        let units = layouts.iter().map(|layout| layout.units);
        Ok(UnitStorage { storage: join(made.into_iter().zip(units)), geometry })
    }

    /// The storage of the pool that is on these devices.
    pub(super) fn joined(&self, access: Access) -> Result<UnitStorage, MediaError> {
        let (geometry, ones) = self.find_all()?;
        let mut opened = Vec::with_capacity(ones.len());
        for (one, (_, units)) in ones.iter().zip(geometry.device_units()) {
            let storage = one.storage(&geometry, units.len() as u32, access)?;
            opened.push((storage, units.len() as u32));
        }
        Ok(UnitStorage { storage: join(opened.into_iter()), geometry })
    }

    /// How the pool that is there divides its devices, or else how a new one would.
    pub(super) fn joint_geometry(&self) -> Result<Geometry, MediaError> {
        match self.find_all() {
            Ok((geometry, _)) => return Ok(geometry),
            Err(MediaError::NoPool { .. } | MediaError::Read { .. }) => {}
            Err(error) => return Err(error),
        }
        let ones = self.alike()?;
        let layouts = ones.iter().map(Settings::planned_layout).collect::<Result<Vec<_>, _>>()?;
        Ok(self.geometry_of_all(&ones, &layouts)?)
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
    fn find_all(&self) -> Result<(Geometry, Vec<Settings>), MediaError> {
        let mut first = None;
        let mut ones: Vec<Option<Settings>> = Vec::new();
        for one in self.each_device() {
            let path = one.device().path.clone();
            forget(&path);
            let found = one.found()?;
            let (pool, geometry, other) = first.get_or_insert_with(|| {
                ones.resize(found.geometry.devices().len(), None);
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
            if let Some(other) = ones[number].replace(one) {
                return Err(MediaError::SameDevice { path, other: path_of(&other) });
            }
        }
        let (_, geometry, _) = first.expect("there are several devices");
        let named = ones
            .into_iter()
            .enumerate()
            .map(|(number, one)| one.ok_or_else(|| not_named(geometry.devices(), number)));
        Ok((geometry, named.collect::<Result<_, _>>()?))
    }

    /// Each device, those for capacity first, with the size of units and logical blocks that all are to have.
    fn alike(&self) -> Result<Vec<Settings>, MediaError> {
        let mut ones: Vec<Settings> = self.each_device().collect();
        ones.sort_by_key(|one| one.device().class);
        let units = ones.iter().map(Settings::own_unit).collect::<Result<Vec<_>, _>>()?;
        let unit = match units.iter().flatten().next() {
            Some(unit) => *unit,
            None => self.chosen_unit(&ones)?,
        };
        let blocks = ones.iter().map(Settings::own_block);
        let block = blocks.max_by_key(|block| block.bytes()).expect("there are several devices");
        for one in &mut ones {
            let device = &mut one.devices[0];
            device.unit = Some(device.unit.unwrap_or(unit));
            device.logical_block = device.logical_block.or(Some(block.bytes() as u32));
        }
        Ok(ones)
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
        ones: &[Settings],
        layouts: &[Layout],
    ) -> Result<Geometry, SettingsError> {
        let (block, per_unit) = (layouts[0].logical_block, layouts[0].blocks_per_unit);
        let (mut devices, mut first) = (Vec::new(), 0);
        for (one, layout) in ones.iter().zip(layouts) {
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
            devices.push(PoolDevice { media, units: layout.units, superblock_units });
            first += layout.units;
        }
        let geometry = Geometry::of_devices(block, per_unit, &devices);
        geometry.map_err(|error| self.error("device", error.to_string()))
    }
}

fn join(parts: impl Iterator<Item = (AnyStorage, u32)>) -> AnyStorage {
    Box::new(Joined::new(parts.collect()))
}

fn path_of(one: &Settings) -> PathBuf {
    one.device().path.clone()
}

fn not_named(devices: &[PoolDevice], number: usize) -> MediaError {
    let fast = devices[number].media == MediaClass::Fast;
    MediaError::NotNamed { number, of: devices.len(), fast }
}
