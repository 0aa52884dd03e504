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
    Contents, DeviceChange, DeviceKind, Group, GroupKind, GroupNotice, GroupStatus, HeldFiles,
    MemberState, MemberStatus, Paths, Pool, ReopenError, ServedLayer, Settings,
};
use thermocline_types::{DeviceId, UnitId};

use crate::health::Health;
use crate::log::Log;
use crate::{Error, News, StopHandle};

/// The devices of a pool; clones are of the same.
#[derive(Clone)]
pub(crate) struct Devices {
    in_use: Arc<Mutex<InUse>>,
    /// The groups, under a lock that nobody holds for long.
    groups: Arc<Mutex<Vec<Group>>>,
    end: End,
    log: Log,
}

/// What the pool was opened with last, and groups got since.
struct InUse {
    settings: Settings,
    paths: Paths,
    groups: Vec<(usize, Group)>,
    opened: Instant,
    /// Number, units and path of each device; for a group, the paths of all members.
    places: Vec<(DeviceId, Range<u32>, String)>,
}

impl InUse {
    fn new(settings: Settings, paths: Paths, groups: Vec<(usize, Group)>) -> InUse {
        let places = places(&settings);
        InUse { settings, paths, groups, opened: Instant::now(), places }
    }
}

/// All devices of the pool. Without them damage is reported without paths.
fn places(settings: &Settings) -> Vec<(DeviceId, Range<u32>, String)> {
    let Ok((geometry, numbers)) = settings.device_numbers() else { return Vec::new() };
    let paths = |device: DeviceId| {
        let all = settings.devices.iter().zip(&numbers);
        let of_it = all.filter(|(_, number)| **number == Some(device));
        of_it.map(|(one, _)| one.path.display().to_string()).collect::<Vec<_>>().join(" and ")
    };
    geometry.device_units().map(|(device, units)| (device, units, paths(device))).collect()
}

/// Ends the service when there is no pool to serve any more.
#[derive(Clone)]
pub(crate) struct End {
    /// Takes the reason.
    pub health: Arc<Health>,
    /// Stops the service.
    pub stop: StopHandle,
}

/// Status of a group of devices.
#[derive(Serialize, Deserialize)]
pub struct GroupStanding {
    /// Name of the group.
    pub name: String,
    /// All members hold everything.
    pub whole: bool,
    /// Bytes missing on the member that is being filled or is out.
    pub lacking_bytes: u64,
    /// Bytes copied or computed to fill the member since the pool was opened.
    pub filled_bytes: u64,
    /// Bytes written to all members since the pool was opened, by cause.
    #[serde(default)]
    pub written_bytes: BTreeMap<String, u64>,
    /// Unreadable places of a member, rewritten from the remaining members.
    pub repaired: u64,
    /// The risk and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// Status of a mirrored pair.
#[derive(Serialize, Deserialize)]
pub struct MirrorStatus {
    /// The pair as a whole.
    #[serde(flatten)]
    pub standing: GroupStanding,
    /// Its two sides.
    pub sides: Vec<MemberTold>,
}

/// Status of a striped group.
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
    /// The change of the device. If absent, the device is a group member that must be filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeName>,
    /// Path of the device as in the settings.
    pub path: PathBuf,
    /// Repeats the path if the device holds data that the change destroys. For a group: the path of each member with
    /// data.
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

impl ChangeName {
    /// The event in the log.
    const fn event(self) -> &'static str {
        match self {
            ChangeName::Attach => "attach",
            ChangeName::Drain => "drain_began",
            ChangeName::Keep => "keep",
            ChangeName::Detach => "detach",
            ChangeName::Grow => "grow",
        }
    }
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
    /// Current states of the groups. `words` gives the texts of risks.
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

    /// All groups, each with kind, state and members.
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
    /// Devices of the pool opened with these settings. Changes are logged.
    pub fn new(settings: Settings, groups: Vec<(usize, Group)>, end: End, log: Log) -> Devices {
        let in_use = InUse::new(settings.clone(), Paths::default(), Vec::new());
        let (in_use, groups_) = (Arc::new(Mutex::new(in_use)), Arc::default());
        let devices = Devices { in_use, groups: groups_, end, log };
        devices.adopt(settings, groups);
        devices
    }

    /// The pool was opened with these.
    fn adopt(&self, settings: Settings, groups: Vec<(usize, Group)>) {
        for (_, group) in &groups {
            let log = self.log.clone();
            group.listen(Box::new(move |GroupNotice { change, text, remedy }| {
                log.say(&News::Group(change, text, remedy));
            }));
            if let Some(risk) = News::risk(&group.status()) {
                self.log.say(&risk);
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
        *self.groups.lock().unwrap_or_else(PoisonError::into_inner) =
            groups.iter().map(|(_, group)| group.clone()).collect();
        *in_use = InUse::new(settings, paths, groups);
    }

    fn in_use(&self) -> MutexGuard<'_, InUse> {
        // No panic under the lock can leave a half-made change.
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

    /// The log of the service.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Status of all groups.
    pub fn status(&self, geometry: &Geometry) -> GroupsTold {
        GroupsTold::new(self.in_use().groups.iter(), geometry, |news| {
            self.log.operator().words(news)
        })
    }

    /// What serves the blocks of the device.
    pub fn layer(&self) -> ServedLayer {
        self.in_use().settings.pool.layer()
    }

    /// Paths of the block devices: drives, or parts of them. Looks at each path, so a device that hangs may block this.
    pub fn block_devices(&self) -> Vec<PathBuf> {
        let settings = self.in_use().settings.clone();
        let is_block = |one: &Settings| matches!(one.kind(), DeviceKind::Block | DeviceKind::Zoned);
        settings.each_device().filter(is_block).map(|one| one.device().path.clone()).collect()
    }

    /// The risk of each group that has one, in words.
    pub fn risks(&self) -> Vec<String> {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let risks = groups.iter().filter_map(|group| News::risk(&group.status()));
        risks.map(|risk| self.log.operator().words(&risk)).collect()
    }

    /// When the pool was opened last: counters of its engine begin then.
    pub fn opened(&self) -> Instant {
        self.in_use().opened
    }

    /// The device that a unit is on, by its path.
    pub fn device_of(&self, unit: UnitId) -> String {
        let in_use = self.in_use();
        let found = in_use.places.iter().find(|(_, units, _)| units.contains(&unit.0));
        found.map_or_else(|| "the pool".to_owned(), |(.., path)| path.clone())
    }

    /// The path of a device.
    pub fn path_of(&self, device: DeviceId) -> String {
        let in_use = self.in_use();
        let found = in_use.places.iter().find(|(one, ..)| *one == device);
        found.map_or_else(|| format!("device {}", device.0), |(.., path)| path.clone())
    }

    /// Makes a change that the settings, as they are by now, and `asked` describe.
    ///
    /// # Errors
    /// When it cannot be made. Then the pool is served as before.
    pub fn make(&self, asked: &DeviceRequest, pool: &Pool) -> Result<(), Error> {
        let file = self.in_use().settings.file().to_owned();
        let settings = Settings::load(&file)?;
        let began = Instant::now();
        let change = match asked.change {
            None => {
                self.join(&settings, asked)?;
                "replace"
            }
            Some(change) => {
                if change == ChangeName::Attach {
                    refuse_to_destroy(&settings, asked)?;
                }
                self.change(settings, &asked.path, change.into(), pool)?;
                change.event()
            }
        };
        let device = asked.path.display().to_string();
        self.log.say(&News::DeviceChanged { change, device, took: began.elapsed() });
        Ok(())
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
            let log = &devices.log;
            let report = |error| {
                log.warn(format_args!("{}", log.operator().reason(Error::Opening(error))));
            };
            let opened = opened.map_err(report).ok()?;
            opened.notes.iter().for_each(|note| _ = log.say(&News::Opening(note.clone())));
            devices.adopt(settings, opened.groups);
            Some(opened.driver)
        };
        pool.reopen(hold, open, back).map_err(|error| match error {
            ReopenError::Refused(error) => error,
            ReopenError::Lost(error) => {
                let text = format!(
                    "{}; nor can the pool be opened as it was: the service ends; see why, and start it again",
                    self.log.operator().reason(error)
                );
                self.log.say(&News::PoolLost(text.clone()));
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
