//! Devices of a pool that is served: how pairs and striped groups stand, members that are given to them, and devices
//! that come and go.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use thermocline_engine::{Engine, HostError, Payload};
use thermocline_format::{DeviceState, Geometry};
use thermocline_runtime::opening::{to_change, to_write};
use thermocline_runtime::{
    Contents, DeviceChange, Group, GroupKind, GroupStatus, HeldFiles, MemberState, MemberStatus,
    Paths, Pool, ReopenError, Settings,
};
use thermocline_types::{DeviceId, UnitId};

use crate::state::Health;
use crate::{Error, News, Operator, StopHandle};

/// The devices of a pool; clones are of the same.
#[derive(Clone)]
pub(crate) struct Devices {
    in_use: Arc<Mutex<InUse>>,
    end: End,
    operator: Arc<dyn Operator>,
}

/// What the pool was opened with last, and groups got since.
struct InUse {
    settings: Settings,
    paths: Paths,
    groups: Vec<(usize, Group)>,
    opened: Instant,
    /// Units of each device, and its path; of a group, those of all members.
    places: Vec<(Range<u32>, String)>,
}

impl InUse {
    fn new(settings: Settings, paths: Paths, groups: Vec<(usize, Group)>) -> InUse {
        let places = places(&settings);
        InUse { settings, paths, groups, opened: Instant::now(), places }
    }
}

/// The units of each device of the pool, and its path. Without it damage is reported without paths.
fn places(settings: &Settings) -> Vec<(Range<u32>, String)> {
    let Ok((geometry, numbers)) = settings.device_numbers() else { return Vec::new() };
    let paths = |device: DeviceId| {
        let all = settings.devices.iter().zip(&numbers);
        let of_it = all.filter(|(_, number)| **number == Some(device));
        of_it.map(|(one, _)| one.path.display().to_string()).collect::<Vec<_>>().join(" and ")
    };
    geometry.device_units().map(|(device, units)| (units, paths(device))).collect()
}

/// Ends the service when there is no pool to serve any more.
#[derive(Clone)]
pub(crate) struct End {
    /// Takes the reason.
    pub health: Arc<Health>,
    /// Stops the service.
    pub stop: StopHandle,
}

/// What is told of a device that is several.
#[derive(Serialize, Deserialize)]
pub struct GroupStanding {
    /// Name of the group.
    pub name: String,
    /// All members hold everything.
    pub whole: bool,
    /// What the member that is being filled, or is out, lacks.
    pub lacking_bytes: u64,
    /// Copied or computed to fill it, since the pool was opened.
    pub filled_bytes: u64,
    /// Bytes written to all members since the pool was opened, by cause.
    #[serde(default)]
    pub written_bytes: BTreeMap<String, u64>,
    /// Places of a member that could not be read and were written again from the others.
    pub repaired: u64,
    /// What is at risk, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// A pair, as it is told.
#[derive(Serialize, Deserialize)]
pub struct MirrorStatus {
    /// The pair as a whole.
    #[serde(flatten)]
    pub standing: GroupStanding,
    /// Its two sides.
    pub sides: Vec<MemberTold>,
}

/// A striped group, as it is told.
#[derive(Serialize, Deserialize)]
pub struct RaidStatus {
    /// raid0 or raid5.
    pub kind: String,
    /// The group as a whole.
    #[serde(flatten)]
    pub standing: GroupStanding,
    /// Its members.
    pub members: Vec<MemberTold>,
}

/// All devices that are several.
#[derive(Default, Serialize, Deserialize)]
pub struct GroupsTold {
    /// Mirrored pairs.
    #[serde(default)]
    pub mirrors: Vec<MirrorStatus>,
    /// Striped groups.
    #[serde(default)]
    pub raids: Vec<RaidStatus>,
}

/// A device that is drained, as it is told.
#[derive(Serialize, Deserialize)]
pub struct DrainStatus {
    /// Its number in the pool.
    pub device: u8,
    /// Units that hold something still; 0: it can be detached.
    pub units_left: u32,
}

impl fmt::Display for DrainStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DrainStatus { device, units_left } = self;
        match units_left {
            0 => write!(f, "device {device}: drained, it can be detached"),
            left => write!(f, "device {device}: is drained, {left} units are left"),
        }
    }
}

/// The devices that are drained.
pub fn draining(geometry: &Geometry) -> impl Iterator<Item = DeviceId> {
    let drains = |device: &DeviceId| geometry.device(*device).state == DeviceState::Draining;
    geometry.present().map(|(device, _)| device).filter(drains)
}

impl DrainStatus {
    /// All of a pool.
    #[must_use]
    pub fn all<P: Payload>(engine: &Engine<P>) -> Vec<DrainStatus> {
        let all = draining(engine.geometry());
        all.map(|device| DrainStatus { device: device.0, units_left: engine.units_in_use(device) })
            .collect()
    }
}

/// A side of a pair, or a member of a striped group, as it is told.
#[derive(Serialize, Deserialize)]
pub struct MemberTold {
    /// Path of the device.
    pub path: String,
    /// current, filling or out.
    pub state: String,
    /// Bytes written to it since the pool was opened.
    #[serde(default)]
    pub written_bytes: u64,
    /// Reason of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Body of `POST /devices`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRequest {
    /// What is to become of the device; without it, it is a member of a group that is to be filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeName>,
    /// Where it is, as the settings name it.
    pub path: PathBuf,
    /// The path once more, if something is there that will be gone; of a group, that of each member where something is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yes_destroy: Vec<String>,
}

/// A [`DeviceChange`], as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeName {
    /// [`DeviceChange::Attach`].
    Attach,
    /// [`DeviceChange::Drain`].
    Drain,
    /// [`DeviceChange::Keep`].
    Keep,
    /// [`DeviceChange::Detach`].
    Detach,
    /// [`DeviceChange::Grow`].
    Grow,
}

impl From<ChangeName> for DeviceChange {
    fn from(name: ChangeName) -> DeviceChange {
        match name {
            ChangeName::Attach => DeviceChange::Attach,
            ChangeName::Drain => DeviceChange::Drain,
            ChangeName::Keep => DeviceChange::Keep,
            ChangeName::Detach => DeviceChange::Detach,
            ChangeName::Grow => DeviceChange::Grow,
        }
    }
}

impl GroupsTold {
    /// As they stand, with risks in these words.
    pub fn new<'a>(
        groups: impl Iterator<Item = &'a (usize, Group)>,
        geometry: &Geometry,
        words: impl Fn(&News) -> String,
    ) -> GroupsTold {
        let mut told = GroupsTold::default();
        for (number, group) in groups.map(|(number, group)| (number, group.status())) {
            let size = u64::from(geometry.devices()[*number].units) * geometry.unit_bytes();
            let (standing, members) =
                (GroupStanding::new(&group, size, &words), MemberTold::all(&group));
            match group.kind {
                GroupKind::Mirror => told.mirrors.push(MirrorStatus { standing, sides: members }),
                kind => {
                    let kind = kind.name().to_owned();
                    told.raids.push(RaidStatus { kind, standing, members });
                }
            }
        }
        told
    }

    /// Each with its kind, how it stands, and its members.
    pub fn all(&self) -> impl Iterator<Item = (&str, &GroupStanding, &[MemberTold])> {
        let mirrors = self.mirrors.iter().map(|one| ("mirror", &one.standing, &one.sides[..]));
        let raids = self.raids.iter().map(|one| (&*one.kind, &one.standing, &one.members[..]));
        mirrors.chain(raids)
    }
}

impl GroupStanding {
    /// Of a group of `size` bytes. A member that is out lacks all of it.
    fn new(group: &GroupStatus, size: u64, words: impl Fn(&News) -> String) -> GroupStanding {
        let is_out = |member: &MemberStatus| member.standing == MemberState::Out;
        let is_out = group.members.iter().any(is_out);
        GroupStanding {
            name: group.name.clone(),
            whole: group.is_whole(),
            lacking_bytes: if is_out { size } else { group.lacking.0 },
            filled_bytes: group.filled.0,
            written_bytes: group
                .written()
                .each()
                .map(|(cause, bytes)| (cause.name().to_owned(), bytes))
                .collect(),
            repaired: group.repaired,
            risk: News::risk(group).as_ref().map(words),
        }
    }
}

impl MemberTold {
    fn all(group: &GroupStatus) -> Vec<MemberTold> {
        let told = |member: &MemberStatus| MemberTold {
            path: member.path.display().to_string(),
            state: member.standing.name().to_owned(),
            written_bytes: member.written.total(),
            why: member.why.clone(),
        };
        group.members.iter().map(told).collect()
    }
}

impl Devices {
    /// Those of the pool that was opened with these settings. The operator is told of what happens to them.
    pub fn new(
        settings: Settings,
        groups: Vec<(usize, Group)>,
        end: End,
        operator: Arc<dyn Operator>,
    ) -> Devices {
        let in_use = InUse::new(settings.clone(), Paths::default(), Vec::new());
        let devices = Devices { in_use: Arc::new(Mutex::new(in_use)), end, operator };
        devices.adopt(settings, groups);
        devices
    }

    /// The pool was opened with these.
    fn adopt(&self, settings: Settings, groups: Vec<(usize, Group)>) {
        for (_, group) in &groups {
            let operator = Arc::clone(&self.operator);
            group.listen(Box::new(move |text, remedy| {
                operator.say(&News::Group(text.to_owned(), remedy.cloned()));
            }));
            if let Some(risk) = News::risk(&group.status()) {
                self.operator.say(&risk);
            }
        }
        let mut in_use = self.in_use();
        for (_, before) in &in_use.groups {
            let before = before.status();
            let same = |group: &&Group| group.status().name == before.name;
            if let Some(group) = groups.iter().map(|(_, group)| group).find(same) {
                group.count_on_from(before);
            }
        }
        let paths = settings.paths();
        *in_use = InUse::new(settings, paths, groups);
    }

    fn in_use(&self) -> MutexGuard<'_, InUse> {
        // Nothing that happens under the lock can leave it half changed.
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens all that opening the pool again takes, beside what the pool has open. A member that is out is not needed,
    /// nor is a device that leaves.
    ///
    /// # Errors
    /// When something cannot be opened, or is another one than before.
    fn hold(&self, path: &Path, change: DeviceChange) -> Result<HeldFiles, Error> {
        let in_use = self.in_use();
        let members = in_use.groups.iter().flat_map(|(_, group)| group.status().members);
        let out = members.filter(|member| member.standing == MemberState::Out);
        let out: Vec<PathBuf> = out.map(|member| member.path).collect();
        let leaves = |one: &Path| change == DeviceChange::Detach && one == path;
        Ok(in_use.paths.open_all(|one| leaves(one) || out.iter().any(|path| path == one))?)
    }

    /// Whoever is told of them.
    pub fn operator(&self) -> &dyn Operator {
        &*self.operator
    }

    /// How all groups stand.
    pub fn status(&self, geometry: &Geometry) -> GroupsTold {
        GroupsTold::new(self.in_use().groups.iter(), geometry, |news| self.operator.words(news))
    }

    /// When the pool was opened last: counters of its engine begin then.
    pub fn opened(&self) -> Instant {
        self.in_use().opened
    }

    /// The device that a unit is on, by its path.
    pub fn device_of(&self, unit: UnitId) -> String {
        let in_use = self.in_use();
        let found = in_use.places.iter().find(|(units, _)| units.contains(&unit.0));
        found.map_or_else(|| "the pool".to_owned(), |(_, path)| path.clone())
    }

    /// Makes a change that the settings, as they are by now, and `asked` describe.
    ///
    /// # Errors
    /// When it cannot be made. Then the pool is served as before.
    pub fn make(&self, asked: &DeviceRequest, pool: &Pool) -> Result<(), Error> {
        let file = self.in_use().settings.file().to_owned();
        let settings = Settings::load(&file)?;
        let Some(change) = asked.change else { return self.join(&settings, asked) };
        if change == ChangeName::Attach {
            refuse_to_destroy(&settings, asked)?;
        }
        self.change(settings, &asked.path, change.into(), pool)
    }

    /// Gives a group a member.
    fn join(&self, settings: &Settings, side: &DeviceRequest) -> Result<(), Error> {
        ensure_member(settings, &side.path)?;
        refuse_to_destroy(settings, side)?;
        let mut in_use = self.in_use();
        settings.join_side(&side.path, &in_use.groups)?;
        in_use.settings.take_group(settings, &side.path);
        in_use.paths = in_use.settings.paths();
        Ok(())
    }

    /// Opens the pool again, which makes the change.
    fn change(
        &self,
        settings: Settings,
        path: &Path,
        change: DeviceChange,
        pool: &Pool,
    ) -> Result<(), Error> {
        let (devices, held_path) = (self.clone(), path.to_owned());
        let hold = move || devices.hold(&held_path, change);
        let (devices, path) = (self.clone(), path.to_owned());
        let open = move |held| {
            drop(held);
            let opened = to_change(&settings, &path, change, false)?;
            let leaves = change == DeviceChange::Detach;
            let used = if leaves { settings.without(&path) } else { settings };
            devices.adopt(used, opened.groups);
            Ok(opened.driver)
        };
        let devices = self.clone();
        let back = move || {
            let settings = devices.in_use().settings.of_pool();
            let opened = to_write(&settings, false);
            let operator = &devices.operator;
            let tell = |error| operator.tell(&operator.reason(Error::Opening(error)));
            let opened = opened.map_err(tell).ok()?;
            opened.notes.iter().for_each(|note| _ = operator.say(&News::Opening(note.clone())));
            devices.adopt(settings, opened.groups);
            Some(opened.driver)
        };
        pool.reopen(hold, open, back).map_err(|error| match error {
            ReopenError::Refused(error) => error,
            ReopenError::Lost(error) => {
                let text = format!(
                    "{}; nor can the pool be opened as it was: the service ends; see why, and start it again",
                    self.operator.reason(error)
                );
                self.operator.tell(&text);
                self.end.health.fail(text.clone());
                self.end.stop.stop();
                Error::Refused(text)
            }
            ReopenError::NotClosed(error @ HostError::Failed) => Error::Host(error),
            other => Error::refused(other),
        })
    }
}

/// Refuses a device that is no member of a group as one that is to be filled.
///
/// # Errors
/// [`Error::NoMember`].
pub fn ensure_member(settings: &Settings, path: &Path) -> Result<(), Error> {
    let alone = settings.devices.iter().find(|device| device.path == path);
    let alone = alone.is_some_and(|device| device.group().is_none());
    if alone {
        let (path, file) = (path.to_owned(), settings.file().to_owned());
        return Err(Error::NoMember { path, file });
    }
    Ok(())
}

/// Refuses if anything is on a device that was not named, or on a member of a group that is attached.
///
/// # Errors
/// [`Error::Occupied`].
pub fn refuse_to_destroy(settings: &Settings, new: &DeviceRequest) -> Result<(), Error> {
    let is_it = |one: &Settings| one.device().path == new.path;
    let group = settings.groups().into_iter().find(|group| group.iter().any(is_it));
    let all = new.change == Some(ChangeName::Attach);
    // What cannot be read is found out when it is attached.
    let is_attached = matches!(settings.device_number(&new.path), Ok(Some(_)));
    if all && is_attached {
        let shown = new.path.display();
        return Err(Error::Refused(format!("{shown} is a device of the pool already")));
    }
    for side in group.iter().flatten().filter(|side| all || is_it(side)) {
        refuse_one(settings, side, &new.yes_destroy)?;
    }
    Ok(())
}

fn refuse_one(settings: &Settings, side: &Settings, named: &[String]) -> Result<(), Error> {
    let what = match side.contents()? {
        Contents::Nothing => return Ok(()),
        Contents::Pool(pool) => format!("the pool {pool}, or a copy of it"),
        Contents::Known(what) => what.to_owned(),
        Contents::Unknown => "data".to_owned(),
    };
    let path = &side.device().path;
    let shown = path.display().to_string();
    let same =
        |name: &String| *name == shown || settings.named(Path::new(name)).as_ref() == Some(path);
    if named.iter().any(same) {
        return Ok(());
    }
    Err(Error::Occupied { path: path.clone(), what })
}
