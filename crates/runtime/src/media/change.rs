//! Devices that come to a pool and leave it. Each change is made by the next opening of the pool (ADR 0040).

use std::path::Path;

use thermocline_engine::{DeviceCmd, Done};
use thermocline_format::{DeviceState, Geometry, MAX_DEVICES, MediaClass, PoolDevice};
use thermocline_types::{Bytes, DeviceId, UnitId};

use super::raids::Place;
use super::several::{Made, PoolFound};
use super::{MediaError, UnitStorage, raids, unit_bytes};
use crate::settings::{DeviceKind, Settings};
use crate::storage::Access;
use crate::{Device, Remedy};

/// A change of a device's state in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// Adds the device to the pool. Previous contents are destroyed.
    Attach,
    /// Copies the device's data to the remaining devices, and ends writes to the device.
    Drain,
    /// Ends draining; the device stays.
    Keep,
    /// Declares the device lost, with all data on it. The pool sends no further commands.
    Lose,
    /// Removes a drained or lost device from the pool.
    Detach,
    /// Uses the added space of a grown device.
    Grow,
}

impl Settings {
    /// The storage of the pool, with the change of the device at `path`: it is made when the pool is opened with this
    /// storage and geometry, and not before.
    ///
    /// # Errors
    /// [`MediaError`], also when that change cannot be made.
    pub fn changed_media(
        &self,
        path: &Path,
        change: DeviceChange,
        access: Access,
    ) -> Result<UnitStorage, MediaError> {
        let no = |why: String| MediaError::no_change(path, why);
        let own = self.groups().into_iter().find(|group| has(group, path));
        let own = own.ok_or_else(|| no("the settings name no such [[device]]".to_owned()))?;
        match change {
            DeviceChange::Attach => self.attached(&own, path),
            DeviceChange::Detach => {
                if self.find_all().is_ok_and(|found| !found.is_draining(path)) {
                    return Err(MediaError::no_change_before(path, NOT_DRAINED, Remedy::Drain));
                }
                // It may be broken, and is not needed.
                let leaves = [DeviceState::Draining, DeviceState::Lost];
                self.without(path).gone(path, DeviceState::Detached, Some(&leaves), access)
            }
            DeviceChange::Lose if own[0].device().class == MediaClass::Fast => {
                Err(MediaError::no_change_before(path, FAST_STAYS, Remedy::DrainIfReadable))
            }
            DeviceChange::Lose => self.without(path).gone(path, DeviceState::Lost, None, access),
            DeviceChange::Grow => self.grown(path, access),
            DeviceChange::Drain | DeviceChange::Keep => {
                let mut found = self.find_all()?.with_its_home()?;
                let number = found.number_of(path).expect("all devices are found").index();
                let drains = change == DeviceChange::Drain;
                let state = if drains { DeviceState::Draining } else { DeviceState::Active };
                found.geometry = with_state(&found.geometry, number, state).map_err(no)?;
                found.open(access)
            }
        }
    }

    /// The number in the pool of each device that the settings name, in order; `None` for a device outside the pool.
    ///
    /// # Errors
    /// [`MediaError`], when there is no pool.
    pub fn device_numbers(&self) -> Result<(Geometry, Vec<Option<DeviceId>>), MediaError> {
        let (found, _) = self.find_named()?;
        let numbers = self.devices.iter().map(|device| found.number_of(&device.path)).collect();
        Ok((found.geometry, numbers))
    }

    /// The number in the pool of the device that the settings name as `path`; `None` for a device outside the pool.
    ///
    /// # Errors
    /// [`MediaError`], when there is no pool.
    pub fn device_number(&self, path: &Path) -> Result<Option<DeviceId>, MediaError> {
        let (_, numbers) = self.device_numbers()?;
        let mut all = self.devices.iter().zip(numbers);
        Ok(all.find_map(|(device, number)| number.filter(|_| device.path == path)))
    }

    /// These settings without the device or group at `path`.
    #[must_use]
    pub fn without(&self, path: &Path) -> Settings {
        let others = self.groups().into_iter().filter(|group| !has(group, path)).flatten();
        let mut rest = self.clone();
        rest.devices = others.map(|one| one.device().clone()).collect();
        rest
    }

    /// These settings without unattached devices and without devices that left the pool.
    #[must_use]
    pub fn of_pool(&self) -> Settings {
        let mut rest = self.clone();
        loop {
            let (Err(MediaError::NotAttached { path }) | Err(MediaError::HasLeft { path })) =
                rest.find_all()
            else {
                return rest;
            };
            let fewer = rest.without(&path);
            if fewer.devices.is_empty() || fewer.devices.len() == rest.devices.len() {
                return rest;
            }
            rest = fewer;
        }
    }

    /// Takes the group with a member at `path` from `other`. All further settings stay.
    pub fn take_group(&mut self, other: &Settings, path: &Path) {
        let group = other.groups().into_iter().find(|group| has(group, path)).unwrap_or_default();
        let Some(name) = group.first().and_then(|one| one.device().group()) else { return };
        self.devices.retain(|device| device.group() != Some(name));
        self.devices.extend(group.iter().map(|one| one.device().clone()));
    }

    /// These settings of one device with the units and logical blocks of `geometry`.
    fn divided_like(&self, geometry: &Geometry) -> Settings {
        let mut one = self.clone();
        one.devices[0].unit = Some(unit_bytes(geometry));
        one.devices[0].logical_block = Some(geometry.logical_block().bytes() as u32);
        one
    }

    fn attached(&self, own: &[Settings], path: &Path) -> Result<UnitStorage, MediaError> {
        let no = |why: &str| MediaError::no_change(path, why);
        if self.without(path).devices.is_empty() {
            return Err(no("the settings name no other device, and so no pool to attach it to"));
        }
        let mut found = self.without(path).find_all()?.with_its_home()?;
        let geometry = found.geometry;
        let group: Vec<Settings> = own.iter().map(|one| one.divided_like(&geometry)).collect();
        let made = Made::new(&group)?;
        let layout = made.layout;
        if layout.blocks_per_unit != geometry.blocks_per_unit() {
            return Err(no("its zones have another size than the units of the pool"));
        }
        let number = place_of(&geometry, layout.units).ok_or_else(|| {
            no("the pool has had as many devices as it can; make a new one and copy the volumes")
        })?;
        let mut devices = geometry.devices().to_vec();
        let units = devices.get(number).map_or(layout.units, |gone| gone.units);
        let begin = devices.iter().take(number).map(|device| device.units).sum::<u32>();
        let class = group[0].device().class;
        let device = PoolDevice::new(class, units, [begin, begin + 1].map(UnitId));
        match devices.get_mut(number) {
            Some(gone) => *gone = device,
            None => devices.push(device),
        }
        found.geometry = geometry_of(&geometry, &devices).map_err(|why| no(&why))?;
        // A group says on each member that it holds all, and is opened as any other from then on.
        drop(made.open(&group, Place { pool: found.pool, device: number, units })?);
        found.groups.resize(devices.len(), None);
        found.groups[number] = Some(group);
        emptied(found.open(Access::ReadWrite)?, DeviceId(number as u8), path)
    }

    /// The storage of the pool with as many units on the device at `path` as that holds now; a file is made as long as
    /// the settings say.
    fn grown(&self, path: &Path, access: Access) -> Result<UnitStorage, MediaError> {
        let no = |why: String| MediaError::no_change(path, why);
        let mut found = self.find_all()?.with_its_home()?;
        let geometry = found.geometry;
        let number = found.number_of(path).expect("all devices are found").index();
        let group = found.groups[number].as_mut().expect("it has a number");
        let [one] = group.as_mut_slice() else {
            return Err(MediaError::no_change_before(path, GROUP_GROWS, Remedy::Exchange));
        };
        if !matches!(one.kind(), DeviceKind::File | DeviceKind::Block) {
            return Err(no("only files and conventional block devices grow".to_owned()));
        }
        if number + 1 < geometry.devices().len() {
            return Err(no(NOT_LAST.to_owned()));
        }
        let mut devices = geometry.devices().to_vec();
        let layout = one.divided_like(&geometry).new_layout()?;
        let (had, has) = (devices[number].units, layout.units);
        if has <= had {
            return Err(no(no_larger(one, had, &geometry)));
        }
        devices[number].units = has;
        found.geometry = geometry_of(&geometry, &devices).map_err(no)?;
        drop(one.open_plain(true, layout, access)?);
        found.open(access)
    }

    /// The storage of the pool without the missing device, which gets `state`. If `from` is given, the missing device's
    /// state must be in `from`.
    fn gone(
        &self,
        path: &Path,
        state: DeviceState,
        from: Option<&[DeviceState]>,
        access: Access,
    ) -> Result<UnitStorage, MediaError> {
        let no = |why: String| MediaError::no_change(path, why);
        if self.devices.is_empty() {
            return Err(no("it is the only device".to_owned()));
        }
        let (found, missing) = self.find_named()?;
        let mut found = found.with_its_home()?;
        if let Some((_, error)) = missing.into_iter().next() {
            return Err(*error);
        }
        let lost =
            |(device, _): &(DeviceId, _)| found.geometry.device(*device).state == DeviceState::Lost;
        let lost = found.geometry.device_units().filter(lost).map(|(device, _)| device);
        let lacking: Vec<DeviceId> = found.lacking().chain(lost).collect();
        let [leaves] = lacking[..] else {
            return Err(no("it is no device of the pool, or others are not named".to_owned()));
        };
        let before = found.geometry.device(leaves).state;
        if from.is_some_and(|from| !from.contains(&before)) {
            return Err(MediaError::no_change_before(path, NOT_DRAINED, Remedy::Drain));
        }
        found.geometry = with_state(&found.geometry, leaves.index(), state).map_err(no)?;
        found.open(access)
    }

    /// Makes what is on the device or group at `path`, which has left the pool, no device of any.
    ///
    /// # Errors
    /// [`MediaError`] of the first member where that fails; the others are no devices of any all the same.
    pub fn forget_device(&self, path: &Path) -> Result<(), MediaError> {
        let own = self.groups().into_iter().find(|group| has(group, path)).unwrap_or_default();
        match own.as_slice() {
            [] => Ok(()),
            [one] => one.forget(),
            group => raids::forget(group),
        }
    }

    fn forget(&self) -> Result<(), MediaError> {
        let found = self.records()?;
        let number = found[0].geometry.device_of(found[0].location.unit);
        let units = found[0].geometry.device(number).units;
        let block = found[0].geometry.logical_block();
        let per_unit = found[0].geometry.blocks_per_unit();
        let geometry = Geometry::new(block, per_unit, units, super::SUPERBLOCK_UNITS);
        let geometry = geometry.expect("the pool had it");
        let storage = self.storage(&geometry, units, Access::ReadWrite)?;
        let alone = UnitStorage { storage, geometry, groups: Vec::new() };
        emptied(alone, DeviceId(0), &self.device().path).map(drop)
    }
}

const FAST_STAYS: &str = "it is a fast device, with the maps of all volumes and what was not destaged: the pool cannot go \
                          on without it. Bring it back; if it is lost, so is the pool, and a backup is all there is";

const NOT_DRAINED: &str = "it is not drained";

const GROUP_GROWS: &str = "pairs and striped groups do not grow: attach a larger one";

const NOT_LAST: &str = "other devices come behind it in the pool, and only the last one grows: attach another device, or, \
                        of a drive that is larger now, a partition of what is new";

/// Why a device has no more units than the pool uses, and what to do.
fn no_larger(one: &Settings, units: u32, geometry: &Geometry) -> String {
    let unit = unit_bytes(geometry);
    let used = Bytes(u64::from(units) * unit.0);
    let how = match one.kind() {
        DeviceKind::File => "state a larger `size` for it in the settings first",
        _ => "make it larger first",
    };
    format!("the pool uses {used} of it in units of {unit}, and it has room for no more: {how}")
}

impl PoolFound {
    /// The number of the device that has this path in the settings.
    fn number_of(&self, path: &Path) -> Option<DeviceId> {
        let mut groups = self.groups.iter();
        let number = groups.position(|group| group.as_ref().is_some_and(|group| has(group, path)));
        number.map(|number| DeviceId(number as u8))
    }

    fn is_draining(&self, path: &Path) -> bool {
        let state = self.number_of(path).map(|number| self.geometry.device(number).state);
        state == Some(DeviceState::Draining)
    }
}

fn has(group: &[Settings], path: &Path) -> bool {
    group.iter().any(|one| one.device().path == path)
}

/// Number for a device of `units` units: the number of a detached device of equal size, else the next number, else the
/// number of a smaller detached device.
fn place_of(geometry: &Geometry, units: u32) -> Option<usize> {
    let devices = geometry.devices();
    let gone = |fits: fn(u32, u32) -> bool| {
        devices
            .iter()
            .position(|device| device.state == DeviceState::Detached && fits(device.units, units))
    };
    let behind = (devices.len() < MAX_DEVICES).then_some(devices.len());
    gone(|had, has| had == has).or(behind).or_else(|| gone(|had, has| had < has))
}

fn with_state(geometry: &Geometry, number: usize, state: DeviceState) -> Result<Geometry, String> {
    let mut devices = geometry.devices().to_vec();
    devices[number].state = state;
    geometry_of(geometry, &devices)
}

fn geometry_of(old: &Geometry, devices: &[PoolDevice]) -> Result<Geometry, String> {
    let new = Geometry::of_devices(old.logical_block(), old.blocks_per_unit(), devices);
    new.map_err(|error| error.to_string())
}

/// This storage, with the superblock units of `device` emptied for good: where there are no zones, a reset would leave
/// the records of another pool to be found.
fn emptied(media: UnitStorage, device: DeviceId, path: &Path) -> Result<UnitStorage, MediaError> {
    let UnitStorage { storage, geometry, groups } = media;
    let mut on = Device::new(storage, geometry);
    let no = |error: thermocline_engine::DeviceError| {
        MediaError::no_change(path, format!("what is on it cannot be overwritten: {error}"))
    };
    let reports = match on.carry_out(DeviceCmd::ReportUnits).map_err(no)? {
        Done::Units(reports) => reports,
        _ => unreachable!("a report is answered with units"),
    };
    for unit in geometry.device(device).superblock_units {
        let zone = reports[unit.index()].written.is_some();
        let empty = if zone { DeviceCmd::Reset(unit) } else { DeviceCmd::Zero(unit) };
        on.carry_out(empty).map_err(no)?;
    }
    on.carry_out(DeviceCmd::Flush(device)).map_err(no)?;
    Ok(UnitStorage { storage: on.into_storage(), geometry, groups })
}
