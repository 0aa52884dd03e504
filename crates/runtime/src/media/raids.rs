//! Groups and mirrored pairs. Members are found by their labels, in any order of the settings. New pools get new
//! members.

use std::fmt;
use std::path::{Path, PathBuf};

use thermocline_array::{decide, find_rows, is_alone, layout_on, newest_label};
use thermocline_engine::MAX_UNITS;
use thermocline_engine::wire::probe;
use thermocline_format::{
    ErrorKind, Geometry, LogicalBlock, PoolId, RAID_PLACE_BYTES, RaidLabel, RaidLevel, RaidShape,
    SuperblockPrefix,
};
use thermocline_types::Bytes;

use super::{AnyStorage, MediaError, contents};
use crate::Remedy;
use crate::settings::Settings;
use crate::settings::groups::level_of;
use crate::storage::{
    Access, Fault, FoundMember, FoundRaid, Group, GroupKind, LAST_EVENT, Layout, MemberStart,
    OpenErrorKind, Raid, RaidError, RaidStart, raid,
};

/// The number of a group's device, and its pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub pool: PoolId,
    pub device: usize,
    pub units: u32,
}

/// The shape of a group with these settings, in units of the size given there.
pub(super) fn shape_of(group: &[Settings]) -> Result<RaidShape, MediaError> {
    let first = &group[0];
    let level = level_of(kind_of(group));
    let block = first.logical_block().unwrap_or(LogicalBlock::B4096);
    let unit = first.device().unit.expect("the pool has units of one size");
    let bytes = block.bytes() as u64;
    let blocks = u32::try_from(unit.0 / bytes).unwrap_or(0);
    if blocks == 0 || !unit.0.is_multiple_of(bytes) {
        let reason = format!("{unit} is not a number of logical blocks of {bytes} bytes");
        return Err(first.error("device.unit", reason).into());
    }
    let shape = RaidShape::new(level, group.len(), block, blocks, 1);
    let shape = shape.map_err(|error| first.error("device.unit", error.to_string()))?;
    let sizes = group.iter().map(Settings::size).collect::<Result<Vec<Bytes>, _>>()?;
    let smallest = sizes.into_iter().map(|size| size.0).min().unwrap_or_default();
    let units = shape.units_on(smallest);
    if u64::from(units) > MAX_UNITS {
        let reason = format!("{units} units; a pool can have {MAX_UNITS}, so choose larger units");
        return Err(first.error("device.unit", reason).into());
    }
    Ok(RaidShape { units, ..shape })
}

/// The layout of a group of this shape, as the pool uses it.
pub(super) fn layout_of(shape: &RaidShape) -> Layout {
    Layout::contiguous(shape.logical_block, shape.unit_blocks, shape.units)
}

/// A new group on the devices of `group`, which grow to the needed size.
pub(super) fn new_raid(
    group: &[Settings],
    shape: RaidShape,
    place: Place,
) -> Result<(AnyStorage, Group), MediaError> {
    let shape = RaidShape { units: place.units, ..shape };
    let first = &group[0];
    let drawn = super::new_pool_id();
    let drawn =
        drawn.map_err(|source| MediaError::Read { path: first.device().path.clone(), source })?;
    let (identity, _) = drawn.0.split_first_chunk().expect("it has sixteen bytes");
    let identity = u64::from_le_bytes(*identity);
    let mut label = RaidLabel::of_new(place.pool, identity, place.device as u8, shape);
    let mut storages = Vec::new();
    for (member, one) in group.iter().enumerate() {
        let mut storage = one.open_divided(true, layout_on(&shape), Access::ReadWrite)?;
        label.member = member as u8;
        let written = raid::write_label(&mut *storage, &label);
        written.map_err(|fault| not_labelled(&one.device().path, fault))?;
        storages.push(Some(FoundMember { storage, place: 0 }));
    }
    let members = (0..group.len()).map(|member| (Some(member), MemberStart::Current)).collect();
    let start = RaidStart { label, members };
    let paths = group.iter().map(|one| one.device().path.clone()).collect();
    Ok(opened(group, paths, None, storages, start, Access::ReadWrite))
}

fn not_labelled(path: &Path, fault: Fault) -> MediaError {
    MediaError::Label { path: path.to_owned(), fault }
}

fn opened(
    group: &[Settings],
    paths: Vec<PathBuf>,
    why: Option<String>,
    storages: Vec<Option<FoundMember>>,
    start: RaidStart,
    access: Access,
) -> (AnyStorage, Group) {
    let (name, rate) = (name_of(group), Some(group[0].fill_rate()));
    let slow = group.iter().map(Settings::device).find(|device| device.write_mostly);
    let avoid = slow.and_then(|slow| paths.iter().position(|path| *path == slow.path));
    let found = FoundRaid { name, paths, why, storages, start, rate, access, avoid };
    let (raid, handle) = Raid::open(found);
    (Box::new(raid), handle)
}

fn kind_of(group: &[Settings]) -> GroupKind {
    group[0].device().group().expect("they are members of a group").0
}

fn name_of(group: &[Settings]) -> String {
    group[0].device().group().map_or(String::new(), |(_, name)| name.to_owned())
}

/// A device of a group as found.
struct MemberFound {
    path: PathBuf,
    storage: Option<AnyStorage>,
    label: Option<(RaidLabel, usize)>,
    why: String,
}

/// The labels of the devices of `group`, in their order, read without opening the devices.
fn labels_of(group: &[Settings]) -> Vec<Option<RaidLabel>> {
    group.iter().map(|one| label_at(&one.device().path)).collect()
}

/// The label of a member of a group at the start of `path`.
pub(super) fn label_at(path: &Path) -> Option<RaidLabel> {
    let places = [0, 1].map(|place| {
        let at = RaidShape::label_place(place);
        contents::read(path, at, RAID_PLACE_BYTES as u64).unwrap_or_default()
    });
    newest_label([&places[0], &places[1]], None).map(|(label, _)| label)
}

/// Decides how a group starts.
fn decided(
    group: &[Settings],
    labels: &[Option<RaidLabel>],
    access: Access,
) -> Result<RaidStart, MediaError> {
    let labels: Vec<_> = labels.iter().map(Option::as_ref).collect();
    decide(&labels, access).map_err(|error| refused(group, &labels, error))
}

fn refused(group: &[Settings], labels: &[Option<&RaidLabel>], error: RaidError) -> MediaError {
    let paths: Vec<PathBuf> = group.iter().map(|one| one.device().path.clone()).collect();
    if error == RaidError::NoLabel {
        return MediaError::NoPool { path: paths[0].clone() };
    }
    let kind = kind_of(group);
    let unlabelled = paths.iter().zip(labels).filter(|(_, label)| label.is_none());
    let unlabelled = unlabelled.map(|(path, _)| path.clone()).collect();
    let name = name_of(group);
    let why = None;
    MediaError::Raid(Box::new(RaidRefusal { kind, name, paths, unlabelled, why, error }))
}

/// Adds the reason why a labelled member cannot be opened to the error of its group.
fn because(group: &[Settings], error: MediaError, why: Option<String>) -> MediaError {
    let (missing, stale) = ((0..group.len()).collect(), Vec::new());
    let error = match error {
        MediaError::NoPool { .. } => {
            refused(group, &vec![None; group.len()], RaidError::TooFew { missing, stale })
        }
        error => error,
    };
    match error {
        MediaError::Raid(refusal) => MediaError::Raid(Box::new(RaidRefusal { why, ..*refusal })),
        error => error,
    }
}

/// Why a group cannot be used as found.
#[derive(Debug)]
pub struct RaidRefusal {
    kind: GroupKind,
    name: String,
    /// Paths of the members, from the settings.
    paths: Vec<PathBuf>,
    /// The paths without a member.
    unlabelled: Vec<PathBuf>,
    /// Why the first of these paths has no member, if known.
    why: Option<String>,
    error: RaidError,
}

impl fmt::Display for RaidRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: ", self.kind.name(), self.name)?;
        let path = |index: &usize| self.paths[*index].display();
        match &self.error {
            RaidError::Alone(index) => self.alone(*index, f),
            RaidError::TooFew { stale, .. } if self.is_pair() && stale.len() == 1 => {
                self.lacks(stale[0], f)
            }
            RaidError::Split(one, other) if self.is_pair() => write!(
                f,
                "{} and {} were each written while the other was away",
                path(one),
                path(other)
            ),
            RaidError::TooFew { missing, stale } => self.too_few(missing, stale, f),
            RaidError::SameMember(one, other) => {
                let (one, other) = (path(one), path(other));
                let member = self.kind.member();
                write!(f, "{one} and {other} are copies of one {member}; name only the newer one")
            }
            RaidError::Split(one, other) => {
                write!(f, "{} and {} were each used without the other", path(one), path(other))
            }
            RaidError::OtherGroup(one, other) => {
                let (one, other, error) = (path(one), path(other), &self.error);
                write!(f, "{one} and {other}: {error}; name the members of one group")
            }
            RaidError::Number { says: index, .. }
            | RaidError::NoNumber(index)
            | RaidError::OtherDivision(index) => {
                write!(f, "{}: {}", path(index), self.error)
            }
            RaidError::NoLabel => self.error.fmt(f),
        }
    }
}

impl RaidRefusal {
    /// The step that resolves the error, if any.
    pub(super) fn remedy(&self) -> Option<Remedy> {
        let keep = |side: usize, despite_loss| Remedy::Keep {
            path: self.paths[side].clone(),
            lost: self.paths[1 - side].clone(),
            despite_loss,
        };
        match &self.error {
            RaidError::Alone(index) => Some(keep(*index, false)),
            RaidError::TooFew { stale, .. } if self.is_pair() && stale.len() == 1 => {
                Some(keep(stale[0], true))
            }
            RaidError::Split(..) if self.is_pair() => Some(Remedy::ChooseLost),
            RaidError::Split(..) => Some(Remedy::ChooseKept),
            _ => None,
        }
    }

    fn is_pair(&self) -> bool {
        self.kind == GroupKind::Mirror
    }

    /// The path of the other side of a pair, and why the side cannot be read, if known.
    fn other(&self, side: usize) -> (std::path::Display<'_>, String) {
        let why = self.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        (self.paths[1 - side].display(), why)
    }

    /// A side of a pair is alone, and may be older.
    fn alone(&self, side: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, (two, why)) = (self.paths[side].display(), self.other(side));
        write!(
            f,
            "{one} is present, but {two} is missing{why}. If the pool was served from {two} alone since, {one} is \
             older. Bring {two} back"
        )
    }

    /// A side of a pair lacks data, and the other side is missing.
    fn lacks(&self, side: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, (two, why)) = (self.paths[side].display(), self.other(side));
        write!(f, "{one} lacks data that {two} has{why}. Bring {two} back")
    }

    fn too_few(
        &self,
        missing: &[usize],
        stale: &[usize],
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let list = |all: &[&PathBuf], word: &str| {
            all.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(word)
        };
        if !missing.is_empty() {
            let away = list(&self.unlabelled.iter().collect::<Vec<_>>(), " and ");
            let (lack, of) = (missing.len(), self.paths.len());
            let why = self.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            write!(
                f,
                "{away}: no member can be read there{why}, and {lack} of {of} members are missing; "
            )?;
        }
        if !stale.is_empty() {
            let stale: Vec<&PathBuf> = stale.iter().map(|&index| &self.paths[index]).collect();
            write!(f, "{}: the newest data is missing; ", list(&stale, " and "))?;
        }
        write!(
            f,
            "the other members cannot restore the data. Bring back the members with the newest data"
        )
    }
}

/// The error for a device whose label or record has another version.
fn of_another_version(one: &Settings) -> Option<MediaError> {
    let path = &one.device().path;
    let found = [0, 1].into_iter().find_map(|place| {
        let at = RaidShape::label_place(place);
        let bytes = contents::read(path, at, RAID_PLACE_BYTES as u64).ok()?;
        let error = RaidLabel::decode(&bytes, None).err()?;
        let versions =
            matches!(error.kind, ErrorKind::OlderVersion { .. } | ErrorKind::NewerVersion { .. });
        versions.then(|| MediaError::Superblock { path: path.clone(), error })
    });
    let record = || match contents::find_records(path, &one.likely_units()) {
        Err(error @ MediaError::Superblock { .. }) => Some(error),
        _ => None,
    };
    found.or_else(record)
}

/// The pool records at the start of the group's superblock units, read without opening the members.
pub(super) fn records(group: &[Settings]) -> Result<Vec<SuperblockPrefix>, MediaError> {
    // The opening decides whether a side of a pair may be used alone.
    let start =
        decided(group, &labels_of(group), Access::ReadOnly).map_err(|error| match error {
            MediaError::NoPool { .. } => group.iter().find_map(of_another_version).unwrap_or(error),
            error => error,
        })?;
    let shape = start.label.shape;
    let holds = |member: usize, unit: u32| match start.members[member].1 {
        MemberStart::Current => true,
        MemberStart::Lacks { filled } => unit < filled,
        MemberStart::Missing => false,
    };
    let mut read = |member: usize, at: u64, bytes: usize| {
        let path = &group[start.members[member].0?].device().path;
        let found = contents::read(path, at, bytes as u64).ok()?;
        (found.len() == bytes).then_some(found)
    };
    let rows = find_rows(&start.label, &mut read, &holds);
    let mut record = |unit: u32, from: usize, holds: &dyn Fn(usize, u32) -> bool| {
        let bytes = contents::SUPERBLOCK as usize;
        let bytes = rows.look(&start.label, unit, from as u64, bytes, &mut read, holds)?;
        let record = probe(&bytes, u64::from(unit) * shape.unit_bytes() + from as u64);
        record.filter(|record| record.pool == start.label.pool)
    };
    let mut found = Vec::<SuperblockPrefix>::new();
    // Look with all members, and then without each member, which may be wrong.
    let left_out = std::iter::once(None).chain((0..group.len()).map(Some));
    for (left_out, unit) in left_out.flat_map(|one| [(one, 0), (one, 1)]) {
        let holds = |member: usize, unit: u32| Some(member) != left_out && holds(member, unit);
        let first = record(unit, 0, &holds);
        // On another device, the confirmed record follows the first record of an opening. A confirmed record that
        // continues in another piece is missed here. The engine finds the record when it opens the pool.
        let confirmed = first.and_then(|first| record(unit, first.record_bytes, &holds));
        for one in first.into_iter().chain(confirmed) {
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    let path = || group[0].device().path.clone();
    let first = found.first().ok_or_else(|| MediaError::NoPool { path: path() })?;
    group[0].agrees(&first.geometry)?;
    Ok(found)
}

/// Opens the group on the devices of `group`.
pub(super) fn open_raid(
    group: &[Settings],
    geometry: &Geometry,
    place: Place,
    access: Access,
) -> Result<(AnyStorage, Group), MediaError> {
    let label = decided(group, &labels_of(group), Access::ReadOnly)?.label;
    let mut found = Vec::new();
    for one in group {
        found.push(one.find_member(&label, place, access)?);
    }
    let labels: Vec<_> =
        found.iter().map(|one| one.label.as_ref().map(|(label, _)| label.clone())).collect();
    let missing = found.iter().find(|one| one.label.is_none());
    let why = missing.map(|one| one.why.clone());
    let decided = |access| {
        decided(group, &labels, access).map_err(|error| because(group, error, why.clone()))
    };
    let start = decided(access)?;
    let refusal = decided(Access::ReadWrite).err();
    let shape = start.label.shape;
    let alike = shape.units >= place.units
        && shape.unit_blocks == geometry.blocks_per_unit()
        && shape.logical_block == geometry.logical_block();
    if !alike {
        let whose = labels.iter().position(|label| label.as_ref() == Some(&start.label));
        let error = RaidError::OtherDivision(whose.unwrap_or_default());
        let labels: Vec<_> = labels.iter().map(Option::as_ref).collect();
        return Err(refused(group, &labels, error));
    }
    let mut unlabelled: Vec<PathBuf> =
        found.iter().filter(|one| one.label.is_none()).map(|one| one.path.clone()).collect();
    let mut storages = Vec::new();
    let mut paths = Vec::new();
    for (named, _) in &start.members {
        let one = named.map(|index| &mut found[index]);
        let path = one.as_ref().map(|one| one.path.clone()).or_else(|| unlabelled.pop());
        paths.push(path.expect("each member is named, or another path is"));
        storages.push(one.and_then(|one| {
            let (_, place) = one.label.as_ref()?;
            Some(FoundMember { storage: one.storage.take()?, place: *place })
        }));
    }
    let (storage, handle) = opened(group, paths, why, storages, start, access);
    refusal.into_iter().for_each(|refusal| handle.refuse(refusal.to_string(), refusal.remedy()));
    Ok((storage, handle))
}

impl Settings {
    /// Opens this device as a member of the group with this label, if the device holds one.
    fn find_member(
        &self,
        label: &RaidLabel,
        place: Place,
        access: Access,
    ) -> Result<MemberFound, MediaError> {
        let path = self.device().path.clone();
        let mut found = MemberFound { path, storage: None, label: None, why: String::new() };
        if label_at(&found.path).is_none() && found.path.exists() {
            "it has no label of this group".clone_into(&mut found.why);
            return Ok(found);
        }
        let mut storage = match self.open_divided(false, layout_on(&label.shape), access) {
            Ok(storage) => storage,
            Err(MediaError::Storage(error)) if !matches!(error.kind(), OpenErrorKind::InUse(_)) => {
                found.why = error.to_string();
                return Ok(found);
            }
            Err(error) => return Err(error),
        };
        match raid::find(&mut *storage, Some(place.pool)) {
            Ok(label) => {
                found.label = label.filter(|(label, _)| usize::from(label.device) == place.device);
            }
            Err(fault) => found.why = format!("its label cannot be read: {fault}"),
        }
        match found.label {
            Some(_) => found.storage = Some(storage),
            None if found.why.is_empty() => {
                "it has no label of this group".clone_into(&mut found.why);
            }
            None => {}
        }
        Ok(found)
    }

    /// An error if this device is a member of a group.
    pub(super) fn is_no_member(&self) -> Result<(), MediaError> {
        let path = &self.device().path;
        match label_at(path) {
            Some(label) => {
                let level = label.shape.level;
                Err(MediaError::OneOfGroup { path: path.clone(), level })
            }
            None => Ok(()),
        }
    }

    /// Labels the device at `path` as a new member, which the next opening of the pool fills. The settings name the
    /// device as a member of a group. All data on the device is lost.
    ///
    /// # Errors
    /// [`MediaError`], also when the other members lack data.
    pub fn replace_side(&self, path: &Path) -> Result<(), MediaError> {
        label_new(&self.group_of(path)?, path, None).map(drop)
    }

    /// Declares the member at `path` current, whatever the labels of the other members report.
    ///
    /// # Errors
    /// [`MediaError`], also when the member lacks data, unless `despite_loss`.
    pub fn keep_side(&self, path: &Path, despite_loss: bool) -> Result<(), MediaError> {
        keep(&self.group_of(path)?, path, despite_loss)
    }

    /// Fills the device at `path` as a member of a group in use. The settings name the device as a member of the group.
    /// All data on the device is lost.
    ///
    /// # Errors
    /// [`MediaError`], also when no member is out.
    pub fn join_side(&self, path: &Path, groups: &[(usize, Group)]) -> Result<(), MediaError> {
        let group = self.group_of(path)?;
        let named = group[0].device().group();
        let same = |handle: &&Group| {
            let status = handle.status();
            named == Some((status.kind, &status.name))
        };
        let handle = groups.iter().map(|(_, handle)| handle).find(same);
        let handle = handle.ok_or_else(|| MediaError::NoSide { path: path.to_owned() })?;
        let member = handle.vacancy().map_err(|why| MediaError::NoVacancy { why })?;
        let storage = label_new(&group, path, Some(member))?;
        handle.join(storage, path).map_err(|why| MediaError::NoVacancy { why })
    }

    /// The group with a member at `path`.
    fn group_of(&self, path: &Path) -> Result<Vec<Settings>, MediaError> {
        let named = |group: &Vec<Settings>| {
            is_group(group) && group.iter().any(|one| one.device().path == path)
        };
        let found = self.groups().into_iter().find(named);
        found.ok_or_else(|| MediaError::NoSide { path: path.to_owned() })
    }
}

/// Clears the labels of a group that has left its pool.
pub(super) fn forget(group: &[Settings]) -> Result<(), MediaError> {
    let forgotten = group.iter().map(|one| {
        let path = &one.device().path;
        let label = label_at(path).ok_or_else(|| MediaError::NoPool { path: path.clone() })?;
        let mut storage = one.open_divided(false, layout_on(&label.shape), Access::ReadWrite)?;
        raid::erase(&mut *storage).map_err(|fault| not_labelled(path, fault))
    });
    forgotten.collect::<Vec<_>>().into_iter().collect()
}

/// Labels the device at `path` as a member to be filled: `member`, or otherwise the missing member.
fn label_new(
    group: &[Settings],
    path: &Path,
    member: Option<usize>,
) -> Result<AnyStorage, MediaError> {
    let mut labels = labels_of(group);
    let own = group.iter().position(|one| one.device().path == path);
    let own = own.ok_or_else(|| MediaError::NoSide { path: path.to_owned() })?;
    labels[own] = None;
    let start = decided(group, &labels, Access::ReadOnly)?;
    let missing = start.members.iter().position(|(named, _)| named.is_none());
    let member = member.or(missing).expect("the device at the path does not count");
    let current = start.label.current & !(1 << member);
    let (event, floor, filling, filled) = (0, 0, None, 0);
    let member = member as u8;
    let label =
        RaidLabel { member, event, floor, current, filling, filled, open: false, ..start.label };
    let layout = layout_on(&label.shape);
    let mut storage = group[own].open_divided(true, layout, Access::ReadWrite)?;
    let written = raid::write_label(&mut *storage, &label);
    written.map_err(|fault| not_labelled(path, fault))?;
    Ok(storage)
}

/// Makes the label of the member at `path` take precedence over all other labels. With `despite_loss` the member counts
/// as current although it lacks data. In a pair, this side alone is current from then on.
fn keep(group: &[Settings], path: &Path, despite_loss: bool) -> Result<(), MediaError> {
    let labels = labels_of(group);
    let own = group.iter().position(|one| one.device().path == path);
    let own = own.ok_or_else(|| MediaError::NoSide { path: path.to_owned() })?;
    let label = labels[own].clone().ok_or_else(|| refused(group, &[], RaidError::NoLabel))?;
    let newest = labels.iter().flatten().map(|label| label.event).max().unwrap_or_default();
    if newest > LAST_EVENT {
        return Err(refused(group, &[], RaidError::NoNumber(own)));
    }
    let pair = label.shape.level == RaidLevel::Mirrored;
    if pair {
        may_be_kept(group, &labels, own)?;
    }
    let member = usize::from(label.member);
    let lacks = !label.is_current(member) || label.event < newest && !pair;
    if lacks && !despite_loss {
        let (missing, stale) = (Vec::new(), vec![own]);
        return Err(refused(group, &[], RaidError::TooFew { missing, stale }));
    }
    let current = if pair { 0 } else { label.current } | 1 << member;
    let filling = label.filling.filter(|&one| usize::from(one) != member && !pair);
    let (event, floor, open, announced) = (newest + 1, 0, true, false);
    let label = RaidLabel { event, floor, current, filling, open, announced, ..label };
    let layout = layout_on(&label.shape);
    let mut storage = group[own].open_divided(false, layout, Access::ReadWrite)?;
    let kept = raid::relabel(&mut *storage, &label);
    kept.map_err(|fault| not_labelled(path, fault))
}

/// An error if the other side's label calls only that side current. Otherwise each side would claim to be the only one.
/// Also an error if this side is new and was never filled.
fn may_be_kept(
    group: &[Settings],
    labels: &[Option<RaidLabel>],
    own: usize,
) -> Result<(), MediaError> {
    let [path, two] = [own, 1 - own].map(|side: usize| group[side].device().path.clone());
    let (one, other) = (path.display(), two.display());
    let is_alone = |side: usize| labels[side].as_ref().is_some_and(is_alone);
    let why = if is_alone(own) && is_alone(1 - own) {
        return Err(refused(group, &[], RaidError::Split(own, 1 - own)));
    } else if is_alone(1 - own) {
        format!(
            "the label of {other} says that {other} alone has everything. {other} was written while {one} was away, is \
             the source that fills {one}, or was declared authoritative"
        )
    } else if labels[own].as_ref().is_some_and(|label| label.event == 0) {
        format!("the side is new, and nothing was copied to it yet: {other} has all data")
    } else {
        return Ok(());
    };
    let remedy = is_alone(1 - own).then_some(Remedy::Overwrite { path: two });
    Err(MediaError::NoChange { path, why, remedy })
}

/// Approximate bytes for data of a group of these devices.
pub(super) fn size_of(group: &[Settings]) -> Result<Bytes, MediaError> {
    let sizes = group.iter().map(Settings::size).collect::<Result<Vec<Bytes>, MediaError>>()?;
    let smallest = sizes.into_iter().map(|size| size.0).min().unwrap_or_default();
    Ok(Bytes(smallest.saturating_mul(group[0].shares(group.len()))))
}

/// Whether these devices are a group, and not a single device.
pub(super) fn is_group(group: &[Settings]) -> bool {
    group[0].device().group().is_some()
}
