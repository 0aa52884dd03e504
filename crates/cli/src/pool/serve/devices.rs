//! Devices of a pool that is served: how pairs and striped groups stand, members that are given to them, and devices
//! that come and go.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{anyhow, ensure};
use serde::{Deserialize, Serialize};
use thermocline_engine::{Engine, Payload};
use thermocline_format::Geometry;
use thermocline_runtime::{
    Contents, DeviceChange, Group, GroupKind, GroupStatus, HeldFiles, MemberState, MemberStatus,
    Paths, Pool, ReopenError, Settings,
};
use thermocline_types::{DeviceId, UnitId};

use super::super::device::draining;
use super::super::open::{to_change, to_write};
use super::super::say;
use super::state::Failure;

/// The devices of a pool; clones are of the same.
#[derive(Clone)]
pub struct Devices {
    in_use: Arc<Mutex<InUse>>,
    end: End,
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
pub struct End {
    /// Why.
    pub failure: Failure,
    /// Stops as a signal does.
    pub stop: Sender<i32>,
}

impl End {
    /// The program is to end, and to say why.
    fn because(&self, text: &str) {
        say(format_args!("{text}"));
        // An earlier failure is the reason of this one. Without a receiver the program ends already.
        let _ = (self.failure.set(text.to_owned()), self.stop.send(signal_hook::consts::SIGTERM));
    }
}

/// What is told of a device that is several.
#[derive(Serialize, Deserialize)]
pub struct GroupStanding {
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
    #[serde(flatten)]
    pub standing: GroupStanding,
    pub sides: Vec<MemberTold>,
}

/// A striped group, as it is told.
#[derive(Serialize, Deserialize)]
pub struct RaidStatus {
    /// raid0 or raid5.
    pub kind: String,
    #[serde(flatten)]
    pub standing: GroupStanding,
    pub members: Vec<MemberTold>,
}

/// All devices that are several.
#[derive(Default, Serialize, Deserialize)]
pub struct GroupsTold {
    #[serde(default)]
    pub mirrors: Vec<MirrorStatus>,
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

impl DrainStatus {
    /// All of a pool.
    pub fn all<P: Payload>(engine: &Engine<P>) -> Vec<DrainStatus> {
        let all = draining(engine.geometry());
        all.map(|device| DrainStatus { device: device.0, units_left: engine.units_in_use(device) })
            .collect()
    }
}

/// A side of a pair, or a member of a striped group, as it is told.
#[derive(Serialize, Deserialize)]
pub struct MemberTold {
    pub path: String,
    /// current, filling or out.
    pub state: String,
    /// Bytes written to it since the pool was opened.
    #[serde(default)]
    pub written_bytes: u64,
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
    Attach,
    Drain,
    Keep,
    Detach,
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
    /// As they stand.
    pub fn new<'a>(
        groups: impl Iterator<Item = &'a (usize, Group)>,
        geometry: &Geometry,
    ) -> GroupsTold {
        let mut told = GroupsTold::default();
        for (number, group) in groups.map(|(number, group)| (number, group.status())) {
            let size = u64::from(geometry.devices()[*number].units) * geometry.unit_bytes();
            let (standing, members) = (GroupStanding::new(&group, size), MemberTold::all(&group));
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
    fn new(group: &GroupStatus, size: u64) -> GroupStanding {
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
            risk: group.risk(),
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
    /// Those of the pool that was opened with these settings. What happens to them is said on standard error from now
    /// on.
    pub fn new(settings: Settings, groups: Vec<(usize, Group)>, end: End) -> Devices {
        let in_use = InUse::new(settings.clone(), Paths::default(), Vec::new());
        let devices = Devices { in_use: Arc::new(Mutex::new(in_use)), end };
        devices.adopt(settings, groups);
        devices
    }

    /// The pool was opened with these.
    fn adopt(&self, settings: Settings, groups: Vec<(usize, Group)>) {
        for (_, group) in &groups {
            group.listen(Box::new(|text| say(format_args!("{text}"))));
            if let Some(risk) = group.status().risk() {
                say(format_args!("{risk}"));
            }
        }
        *self.in_use() = {
            let paths = settings.paths();
            InUse::new(settings, paths, groups)
        };
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
    fn hold(&self, path: &Path, change: DeviceChange) -> anyhow::Result<HeldFiles> {
        let in_use = self.in_use();
        let members = in_use.groups.iter().flat_map(|(_, group)| group.status().members);
        let out = members.filter(|member| member.standing == MemberState::Out);
        let out: Vec<PathBuf> = out.map(|member| member.path).collect();
        let leaves = |one: &Path| change == DeviceChange::Detach && one == path;
        Ok(in_use.paths.open_all(|one| leaves(one) || out.iter().any(|path| path == one))?)
    }

    /// How all groups stand.
    pub fn status(&self, geometry: &Geometry) -> GroupsTold {
        GroupsTold::new(self.in_use().groups.iter(), geometry)
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
    pub fn make(&self, asked: &DeviceRequest, pool: &Pool) -> anyhow::Result<()> {
        let file = self.in_use().settings.file().to_owned();
        let settings = Settings::load(&file)?;
        let Some(change) = asked.change else { return self.join(&settings, asked) };
        if change == ChangeName::Attach {
            refuse_to_destroy(&settings, asked)?;
        }
        self.change(settings, &asked.path, change.into(), pool)
    }

    /// Gives a group a member.
    fn join(&self, settings: &Settings, side: &DeviceRequest) -> anyhow::Result<()> {
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
    ) -> anyhow::Result<()> {
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
            let opened = opened.inspect_err(|error| say(format_args!("{error:#}"))).ok()?;
            devices.adopt(settings, opened.groups);
            Some(opened.driver)
        };
        pool.reopen(hold, open, back).map_err(|error| match error {
            ReopenError::Refused(error) => error,
            ReopenError::Lost(error) => {
                let text = format!(
                    "{error:#}; nor can the pool be opened as it was: the service ends; see why, and start it again"
                );
                self.end.because(&text);
                anyhow!(text)
            }
            ReopenError::NotClosed(error) => {
                anyhow::Error::from(error).context("the pool cannot be closed for this")
            }
            ReopenError::Closed => anyhow!("the pool is closed"),
        })
    }
}

/// Refuses a device that is no member of a group as one that is to be filled.
///
/// # Errors
/// With what exchanges such a device.
pub fn ensure_member(settings: &Settings, path: &Path) -> anyhow::Result<()> {
    let alone = settings.devices.iter().find(|device| device.path == path);
    let alone = alone.is_some_and(|device| device.group().is_none());
    let (shown, file) = (path.display(), settings.file().display());
    ensure!(
        !alone,
        "{shown} is no member of a pair or striped group, so no other device can fill it: `thermocline device replace {file} \
         NEW --instead-of {shown}` has NEW take its place"
    );
    Ok(())
}

/// Refuses if anything is on a device that was not named, or on a member of a group that is attached.
///
/// # Errors
/// With what is there, and what to say.
pub fn refuse_to_destroy(settings: &Settings, new: &DeviceRequest) -> anyhow::Result<()> {
    let is_it = |one: &Settings| one.device().path == new.path;
    let group = settings.groups().into_iter().find(|group| group.iter().any(is_it));
    let all = new.change == Some(ChangeName::Attach);
    let shown = new.path.display();
    // What cannot be read is found out when it is attached.
    let is_attached = matches!(settings.device_number(&new.path), Ok(Some(_)));
    ensure!(!all || !is_attached, "{shown} is a device of the pool already");
    for side in group.iter().flatten().filter(|side| all || is_it(side)) {
        refuse_one(settings, side, &new.yes_destroy)?;
    }
    Ok(())
}

fn refuse_one(settings: &Settings, side: &Settings, named: &[String]) -> anyhow::Result<()> {
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
    ensure!(
        named.iter().any(same),
        "{shown} holds {what}, which will be gone: to destroy it, say --yes-destroy {shown}"
    );
    Ok(())
}
