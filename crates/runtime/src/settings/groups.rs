//! Groups of devices used as a single device: the sides of a mirrored pair, the members of a striped group.

use std::path::{Path, PathBuf};

use thermocline_format::RaidLevel;

use super::{DeviceKind, DeviceSettings, GroupSettings, Settings, SettingsError};
use crate::storage::GroupKind;

/// Bytes per second that are copied to fill a side or member, where nothing is stated: as `speed_limit_max` of md,
/// 200,000 KiB/s (md(4)), rounded.
const FILL_RATE: u64 = 200 << 20;

impl DeviceSettings {
    /// Kind and name of the device's group.
    #[must_use]
    pub fn group(&self) -> Option<(GroupKind, &str)> {
        self.group.as_ref().map(|group| (group.kind, group.name.as_str()))
    }
}

/// The level of a group of this kind.
pub(crate) const fn level_of(kind: GroupKind) -> RaidLevel {
    match kind {
        GroupKind::Mirror => RaidLevel::Mirrored,
        GroupKind::Striped => RaidLevel::Striped,
        GroupKind::Parity => RaidLevel::Parity,
    }
}

impl Settings {
    /// The devices of the pool, in the order of the file: each alone, or the members of a group. Errors name which they
    /// are about.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<Settings>> {
        let mut groups: Vec<Vec<Settings>> = Vec::new();
        for one in self.each_device() {
            let name = one.device().group();
            let same = |group: &&mut Vec<Settings>| group[0].device().group() == name;
            match groups.iter_mut().find(same).filter(|_| name.is_some()) {
                Some(group) => group.push(one),
                None => groups.push(vec![one]),
            }
        }
        groups
    }

    /// The path of the device that `name` names: as the settings do, or any other path of the same file.
    #[must_use]
    pub fn named(&self, name: &Path) -> Option<PathBuf> {
        let file = self.file().parent().unwrap_or(Path::new("")).join(name);
        let same = |path: &PathBuf| {
            let real = |path: &Path| path.canonicalize().ok();
            path == name || *path == file || real(path).is_some_and(|one| real(name) == Some(one))
        };
        self.devices.iter().map(|device| &device.path).find(|path| same(path)).cloned()
    }

    /// Whether the device has zones. What is wrong with a profile is found elsewhere.
    pub(crate) fn has_zones(&self) -> bool {
        match self.kind() {
            DeviceKind::Zoned => true,
            DeviceKind::Simulated => self.profile().is_ok_and(|profile| profile.zns.is_some()),
            DeviceKind::File | DeviceKind::Block => false,
        }
    }

    /// Bytes per second that are copied to fill a side or member.
    pub(crate) fn fill_rate(&self) -> u64 {
        self.pool.upkeep.fill_rate.map_or(FILL_RATE, |rate| rate.0)
    }

    /// Reads the former keys of groups, each its kind: `mirror = "NAME"`.
    pub(super) fn settle_groups(&mut self) -> Result<(), SettingsError> {
        let mut notes = Vec::new();
        for one in self.each_device().collect::<Vec<_>>().iter().zip(&mut self.devices) {
            let (asked, device) = one;
            let former = [
                (GroupKind::Mirror, device.mirror.take()),
                (GroupKind::Striped, device.raid0.take()),
                (GroupKind::Parity, device.raid5.take()),
            ];
            for (kind, name) in former {
                let (Some(name), key) = (name, kind.name()) else { continue };
                if let Some(other) = &device.group {
                    let other = other.kind.name();
                    let reason = format!("a device is a member of one group; it has `{other}` too");
                    return Err(asked.error(&format!("device.{key}"), reason));
                }
                notes.push(format!(
                    "device.{key} = \"{name}\": now group = {{ kind = \"{key}\", name = \"{name}\" }}"
                ));
                device.group = Some(GroupSettings { kind, name });
            }
        }
        self.notes.append(&mut notes);
        Ok(())
    }

    pub(super) fn check_groups(&self) -> Result<(), SettingsError> {
        for group in self.groups() {
            let first = &group[0];
            check_write_mostly(&group)?;
            let Some((kind, name)) = first.device().group() else { continue };
            let key = "device.group";
            if let Some(reason) = wrong_number(kind, name, group.len()) {
                return Err(first.error(key, reason));
            }
            for member in &group {
                check_member(kind, first, member).map_err(|reason| member.error(key, reason))?;
            }
        }
        Ok(())
    }
}

/// One side of a pair may be slower than the other.
fn check_write_mostly(group: &[Settings]) -> Result<(), SettingsError> {
    let mut slow = group.iter().filter(|one| one.device().write_mostly);
    let Some(first) = slow.next() else { return Ok(()) };
    let reason = if first.device().group().is_none_or(|(kind, _)| kind != GroupKind::Mirror) {
        "only a side of a mirrored pair can have it (`group`)"
    } else if slow.next().is_some() {
        "one side of a pair is to be read"
    } else {
        return Ok(());
    };
    Err(first.error("device.write_mostly", reason.to_owned()))
}

/// What is wrong with the number of members of a group.
fn wrong_number(kind: GroupKind, name: &str, members: usize) -> Option<String> {
    let possible = level_of(kind).members();
    let reason = || match kind {
        GroupKind::Mirror => format!("`{name}` stands {members} times; a pair has two sides"),
        GroupKind::Striped | GroupKind::Parity => {
            let (least, most) = (possible.start(), possible.end());
            format!("`{name}` stands {members} times; a group has {least} to {most} members")
        }
    };
    (!possible.contains(&members)).then(reason)
}

fn check_member(kind: GroupKind, first: &Settings, member: &Settings) -> Result<(), String> {
    let (one, other) = (first.device(), member.device());
    let alike = one.class == other.class
        && one.size == other.size
        && one.unit == other.unit
        && one.logical_block == other.logical_block;
    if !alike {
        let whose = if kind == GroupKind::Mirror { "the other side" } else { "all members" };
        return Err(format!("class, size, unit and logical_block are those of {whose}"));
    }
    if member.has_zones() {
        let what = if kind == GroupKind::Mirror { "mirrored" } else { "members of a group" };
        return Err(format!(
            "zones cannot be {what}; take files, conventional devices or simulated drives without zones (`profile = \
             \"p5316\"`), or name it without `group`, as a device of its own: a pool uses several side by side, and what \
             one loses the others do not have"
        ));
    }
    if (first.kind() == DeviceKind::Simulated) != (member.kind() == DeviceKind::Simulated) {
        let member = kind.member();
        return Err(format!(
            "one {member} is a simulated drive, and another is none: what drives do inside is told of all of them; make \
             each `kind = \"simulated\"`, or none"
        ));
    }
    Ok(())
}
