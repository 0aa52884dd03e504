//! Mirrored pairs: their sides are found by their labels, wherever they are named, and made for new pools.

use std::path::{Path, PathBuf};

use thermocline_engine::{DeviceCmd, Done, Members};
use thermocline_format::{Geometry, MirrorLabel, PoolId, SIDES, Superblock};
use thermocline_types::{Bytes, UnitId};

use super::several::PoolFound;
use super::{AnyStorage, MediaError, UnitStorage, contents, raids, unit_bytes};
use crate::Device;
use crate::settings::{DeviceKind, Settings};
use crate::storage::{
    Access, Fault, FoundPair, Group, Layout, Mate, Mirror, OpenErrorKind, PairError, PairStart,
    decide, is_alone, label_units, read_label, write_label,
};

/// Which device of which pool a pair is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub pool: PoolId,
    pub device: usize,
    pub units: u32,
}

impl Place {
    fn label(&self, current: [bool; SIDES]) -> MirrorLabel {
        let lacking = vec![current != [true; SIDES]; self.units as usize];
        let (device, event) = (self.device as u8, 0);
        MirrorLabel { pool: self.pool, device, side: 0, event, current, open: false, lacking }
    }
}

/// A side as it is found.
struct SideFound {
    path: PathBuf,
    storage: Option<AnyStorage>,
    label: Option<(MirrorLabel, usize)>,
    why: String,
}

/// Units of a pair on devices of `units` units: the others are for labels.
pub(super) fn units_of_pair(units: u32, unit: Bytes) -> u32 {
    units.saturating_sub(label_units(units, unit))
}

fn name_of(group: &[Settings]) -> String {
    group[0].device().mirror.clone().unwrap_or_default()
}

fn write_mostly(group: &[Settings]) -> [bool; SIDES] {
    [0, 1].map(|side: usize| group[side].device().write_mostly)
}

/// A new pair on `sides`, which are open and have room for it.
pub(super) fn new_pair(
    group: &[Settings],
    sides: Vec<AnyStorage>,
    place: Place,
) -> Result<(AnyStorage, Group), MediaError> {
    let mut storages = [None, None];
    let all = MirrorLabel { event: 1, ..place.label([true; SIDES]) };
    for (index, mut storage) in sides.into_iter().enumerate() {
        let label = MirrorLabel { side: index as u8, ..all.clone() };
        let path = || group[index].device().path.clone();
        write_label(&mut *storage, &label).map_err(|fault| not_labelled(path(), fault))?;
        storages[index] = Some(storage);
    }
    let paths = [0, 1].map(|side: usize| group[side].device().path.clone());
    let start = PairStart { source: 0, mate: Mate::Current };
    let (name, write_mostly) = (name_of(group), write_mostly(group));
    let (rate, access) = (Some(group[0].fill_rate()), Access::ReadWrite);
    let (why, label, places) = (None, all, [0; SIDES]);
    let found =
        FoundPair { name, paths, storages, why, start, label, places, write_mostly, rate, access };
    opened(group, found)
}

fn not_labelled(path: PathBuf, fault: Fault) -> MediaError {
    MediaError::Label { path, fault }
}

fn opened(group: &[Settings], found: FoundPair) -> Result<(AnyStorage, Group), MediaError> {
    let path = group[found.start.source].device().path.clone();
    let (mirror, pair) = Mirror::open(found).map_err(|fault| not_labelled(path, fault))?;
    Ok((Box::new(mirror), pair))
}

/// The pair that is on the devices of `group`.
pub(super) fn open_pair(
    group: &[Settings],
    geometry: &Geometry,
    place: Place,
    access: Access,
) -> Result<(AnyStorage, Group), MediaError> {
    let mut sides = Vec::new();
    for one in group {
        sides.push(one.find_side(geometry, place, access)?);
    }
    let labels = [0, 1].map(|side: usize| sides[side].label.as_ref().map(|(label, _)| label));
    let start = decide(labels, access == Access::ReadOnly);
    let start = start.map_err(|error| refused(name_of(group), &sides, error))?;
    let refusal = decide(labels, false).err();
    let refusal = refusal.map(|error| refused(name_of(group), &sides, error).to_string());
    let places = [0, 1].map(|side: usize| sides[side].label.as_ref().map_or(0, |one| one.1));
    let (label, _) = sides[start.source].label.clone().expect("the source has one");
    let why = Some(sides[1 - start.source].why.clone());
    let paths = [0, 1].map(|side: usize| sides[side].path.clone());
    let mut storages = sides.into_iter().map(|side| side.storage);
    let storages = [storages.next().flatten(), storages.next().flatten()];
    let (name, write_mostly) = (name_of(group), write_mostly(group));
    let rate = Some(group[0].fill_rate());
    let found =
        FoundPair { name, paths, storages, why, start, label, places, write_mostly, rate, access };
    let (storage, pair) = opened(group, found)?;
    refusal.into_iter().for_each(|refusal| pair.refuse(refusal));
    Ok((storage, pair))
}

fn refused(name: String, sides: &[SideFound], error: PairError) -> MediaError {
    let there = sides.iter().position(|side| side.label.is_some()).unwrap_or(0);
    refused_for(there, name, sides, error)
}

/// Side `there` cannot be used.
fn refused_for(there: usize, name: String, sides: &[SideFound], error: PairError) -> MediaError {
    let (path, other) = (sides[there].path.clone(), sides[1 - there].path.clone());
    let why = sides[1 - there].why.clone();
    MediaError::Pair { name, path, other, why, error }
}

impl Settings {
    /// The side that this device is.
    fn find_side(
        &self,
        geometry: &Geometry,
        place: Place,
        access: Access,
    ) -> Result<SideFound, MediaError> {
        let path = self.device().path.clone();
        let mut side = SideFound { path, storage: None, label: None, why: String::new() };
        let units = place.units + label_units(place.units, unit_bytes(geometry));
        let mut storage = match self.storage(geometry, units, access) {
            Ok(storage) => storage,
            Err(MediaError::Storage(error)) if !matches!(error.kind(), OpenErrorKind::InUse(_)) => {
                side.why = error.to_string();
                return Ok(side);
            }
            Err(error) => return Err(error),
        };
        let label = match read_label(&mut *storage, place.units, Some(place.pool)) {
            Ok(label) => label,
            Err(fault) => {
                side.why = format!("its label cannot be read: {fault}");
                return Ok(side);
            }
        };
        side.label = label.filter(|(label, _)| usize::from(label.device) == place.device);
        match side.label {
            Some(_) => side.storage = Some(storage),
            None => "it has no label of this pair".clone_into(&mut side.why),
        }
        Ok(side)
    }

    /// An error if this device is a side of a pair: without the other one, that would be older than it.
    pub(super) fn is_no_side(
        &self,
        units: u32,
        unit: Bytes,
        pool: PoolId,
    ) -> Result<(), MediaError> {
        if self.kind() == DeviceKind::Zoned {
            return Ok(());
        }
        let path = &self.device().path;
        let bytes = MirrorLabel::bytes(units) as u64;
        let label = |place: u64| {
            let bytes = contents::read(path, u64::from(units) * unit.0 + place * bytes, bytes);
            MirrorLabel::decode(&bytes.ok()?, Some(pool)).ok()
        };
        match label(0).or_else(|| label(1)) {
            Some(_) => Err(MediaError::OneOfPair { path: path.clone() }),
            None => Ok(()),
        }
    }
}

/// Tells pairs that were not closed in order what they may differ in: the units in which anything could be written, as
/// the newest record lists them, and those of superblocks (FORMAT.md, 5.8).
pub(super) fn narrow(media: UnitStorage, pool: PoolId) -> UnitStorage {
    let UnitStorage { storage, geometry, groups } = media;
    let mut device = Device::new(storage, geometry);
    let records = match device.carry_out(DeviceCmd::ReadSuperblocks(Members::NONE)) {
        Ok(Done::Superblocks(records)) => records,
        _ => Vec::new(),
    };
    let home = geometry.superblock_units();
    let records = records.into_iter().filter(|record| record.pool == pool);
    let newest = records
        .filter(|record| home.contains(&record.location.unit))
        .max_by_key(|record| (record.epoch, record.revision));
    for (device, group) in &groups {
        group.only(units_in_doubt(newest.as_ref(), &geometry, *device));
    }
    UnitStorage { storage: device.into_storage(), geometry, groups }
}

fn units_in_doubt(newest: Option<&Superblock>, geometry: &Geometry, device: usize) -> Vec<UnitId> {
    let range = geometry.device_units().nth(device).map(|(_, units)| units).unwrap_or_default();
    let Some(newest) = newest else { return (0..range.len() as u32).map(UnitId).collect() };
    let listed = newest.open_units.iter().map(|unit| unit.next.unit);
    let all = listed.chain(geometry.all_superblock_units());
    all.filter(|unit| range.contains(&unit.0)).map(|unit| UnitId(unit.0 - range.start)).collect()
}

/// What a path is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The side that is believed from now on; with `despite_loss`, also if it lacks something.
    Kept { despite_loss: bool },
    /// One that is to be filled.
    New,
}

impl Settings {
    /// Makes the device at `path`, which the settings name as a side of a pair or a member of a striped group, one that
    /// is filled when the pool is opened next. What is on it will be gone.
    ///
    /// # Errors
    /// [`MediaError`], also when the others do not hold everything.
    pub fn replace_side(&self, path: &Path) -> Result<(), MediaError> {
        self.give_role(path, Role::New)
    }

    /// Makes the side or member at `path` the one that is believed, whatever the others have.
    ///
    /// # Errors
    /// [`MediaError`], also when it lacks something, unless `despite_loss`.
    pub fn keep_side(&self, path: &Path, despite_loss: bool) -> Result<(), MediaError> {
        self.give_role(path, Role::Kept { despite_loss })
    }

    fn give_role(&self, path: &Path, role: Role) -> Result<(), MediaError> {
        let group = self.group_of(path)?;
        if raids::is_striped(&group) {
            return match role {
                Role::New => raids::replace(&group, path),
                Role::Kept { despite_loss } => raids::keep(&group, path, despite_loss),
            };
        }
        let own = usize::from(group[1].device().path == path);
        let PoolFound { geometry, pool, groups, .. } = self.find_all()?;
        let mirror = &group[0].device().mirror;
        let same = |other: &Option<Vec<Settings>>| {
            other.as_ref().is_some_and(|other| other[0].device().mirror == *mirror)
        };
        let device = groups.iter().position(same).expect("all groups are found");
        let units = geometry.device_units().nth(device).map_or(0, |(_, units)| units.len() as u32);
        let place = Place { pool, device, units };
        let mut sides = Vec::new();
        for one in &group {
            sides.push(one.find_side(&geometry, place, Access::ReadWrite)?);
        }
        match role {
            Role::New => {
                let label = sides[1 - own].label.as_ref().map(|(label, _)| label);
                let start = decide([label, None], true);
                start.map_err(|error| refused(name_of(&group), &sides, error))?;
                let side = label.map_or(0, |label| label.side);
                // It may have another length, or none.
                sides[own].storage = None;
                let storage = group[own].side_to_fill(&geometry, units)?;
                label_new(storage, place, 1 - side, path).map(|_| ())
            }
            Role::Kept { despite_loss } => {
                let kept = keep(&mut sides, own, despite_loss);
                kept.map_err(|error| refused_for(own, name_of(&group), &sides, error))?
                    .map_err(|fault| not_labelled(path.to_owned(), fault))
            }
        }
    }

    /// The group that has a member at `path`.
    fn group_of(&self, path: &Path) -> Result<Vec<Settings>, MediaError> {
        let named = |group: &Vec<Settings>| {
            group.len() >= SIDES && group.iter().any(|one| one.device().path == path)
        };
        let found = self.groups().into_iter().find(named);
        found.ok_or_else(|| MediaError::NoSide { path: path.to_owned() })
    }

    fn side_to_fill(&self, geometry: &Geometry, units: u32) -> Result<AnyStorage, MediaError> {
        let unit = unit_bytes(geometry);
        let units = units + label_units(units, unit);
        let block = geometry.logical_block();
        let layout = Layout::contiguous(block, geometry.blocks_per_unit(), units);
        self.open_divided(true, layout, Access::ReadWrite)
    }

    /// Has a pair or striped group that is in use filled on the device at `path`, which the settings name as a side or
    /// member of it. What is on it will be gone.
    ///
    /// # Errors
    /// [`MediaError`], also when all are there.
    pub fn join_side(
        &self,
        path: &Path,
        pool: PoolId,
        geometry: &Geometry,
        groups: &[(usize, Group)],
    ) -> Result<(), MediaError> {
        let group = self.group_of(path)?;
        let own = usize::from(group[1].device().path == path);
        let named = group[0].device().group();
        let same = |(_, handle): &&(usize, Group)| {
            let status = handle.status();
            named == Some((status.kind, &status.name))
        };
        let Some((device, pair)) = groups.iter().find(same) else {
            return Err(MediaError::NoSide { path: path.to_owned() });
        };
        if raids::is_striped(&group) {
            return raids::join(&group, path, pair);
        }
        let side = pair.vacancy().map_err(|why| MediaError::NoVacancy { why })?;
        let units = geometry.device_units().nth(*device).map_or(0, |(_, units)| units.len() as u32);
        let storage = group[own].side_to_fill(geometry, units)?;
        let place = Place { pool, device: *device, units };
        let storage = label_new(storage, place, side as u8, path)?;
        pair.join(storage, path).map_err(|why| MediaError::NoVacancy { why })
    }
}

/// Labels one of two sides as the only current one, above whatever both say.
fn keep(
    sides: &mut [SideFound],
    own: usize,
    despite_loss: bool,
) -> Result<Result<(), Fault>, PairError> {
    let newest = sides.iter().flat_map(|side| &side.label).map(|(label, _)| label.event).max();
    let other = sides[1 - own].label.as_ref().map(|(label, _)| label);
    let (label, _) = sides[own].label.clone().ok_or(PairError::NoLabel)?;
    // Each would say of itself that it alone has everything.
    if other.is_some_and(is_alone) {
        return Err(if is_alone(&label) { PairError::Split } else { PairError::OtherAlone });
    }
    if label.event == 0 {
        return Err(PairError::New);
    }
    if !despite_loss {
        decide([Some(&label), None], true)?;
    }
    let side = &mut sides[own];
    let mut current = [false; SIDES];
    current[usize::from(label.side)] = true;
    let lacking = vec![true; label.lacking.len()];
    let event = newest.unwrap_or_default() + 1;
    let label = MirrorLabel { event, current, lacking, ..label };
    let storage = side.storage.as_mut().expect("it has a label");
    Ok(write_label(&mut **storage, &label))
}

/// Labels a side that is to be filled.
fn label_new(
    mut storage: AnyStorage,
    place: Place,
    side: u8,
    path: &Path,
) -> Result<AnyStorage, MediaError> {
    let mut current = [true; SIDES];
    current[usize::from(side)] = false;
    let label = MirrorLabel { side, ..place.label(current) };
    write_label(&mut *storage, &label).map_err(|fault| not_labelled(path.to_owned(), fault))?;
    Ok(storage)
}
