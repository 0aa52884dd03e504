//! Devices that are two sides of a mirrored pair.

use std::path::{Path, PathBuf};

use super::{DeviceKind, Settings, SettingsError};

/// Bytes per second that are copied to fill a side, where nothing is stated: as `speed_limit_max` of md, 200,000 KiB/s
/// (md(4)), rounded.
const FILL_RATE: u64 = 200 << 20;

impl Settings {
    /// The devices of the pool, in the order of the file: each alone, or the sides of a pair. Errors name which they
    /// are about.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<Settings>> {
        let mut groups: Vec<Vec<Settings>> = Vec::new();
        for one in self.each_device() {
            let name = one.device().mirror.clone();
            let same = |group: &&mut Vec<Settings>| group[0].device().mirror == name;
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

    /// Bytes per second that are copied to fill a side of a pair.
    pub(crate) fn fill_rate(&self) -> u64 {
        self.pool.fill_rate.map_or(FILL_RATE, |rate| rate.0)
    }

    pub(super) fn check_pairs(&self) -> Result<(), SettingsError> {
        for group in self.groups() {
            let first = &group[0];
            let Some(name) = &first.device().mirror else { continue };
            if group.len() != 2 {
                let reason = format!("`{name}` stands {} times; a pair has two sides", group.len());
                return Err(first.error("device.mirror", reason));
            }
            let (one, other) = (first.device(), group[1].device());
            let alike = one.class == other.class
                && one.size == other.size
                && one.unit == other.unit
                && one.logical_block == other.logical_block;
            if !alike {
                let reason = "class, size, unit and logical_block are those of the other side";
                return Err(group[1].error("device.mirror", reason));
            }
            for side in &group {
                if matches!(side.kind(), DeviceKind::Zoned | DeviceKind::Simulated) {
                    let reason = "zones and simulated drives cannot be mirrored: labels are written over each other";
                    return Err(side.error("device.mirror", reason));
                }
            }
        }
        Ok(())
    }
}
