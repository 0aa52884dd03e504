//! Settings of a pool, read from a TOML file.
//!
//! [`Settings::example`] explains every key. Tests compare the example with this module.

mod endurance;
mod files;
pub(crate) mod groups;
mod limits;
mod pool;
mod serve;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thermocline_engine::{Config, ConfigError, HostError};
use thermocline_format::{
    BLOCK_BYTES, Geometry, LogicalBlock, MAX_DEVICES, MediaClass, VolumeMedia, VolumeName,
};
use thermocline_ftl::placement::Policy;
use thermocline_types::{Bytes, at_home};

use crate::media::unit_bytes;
use crate::storage::{GroupKind, IoEngine, Latency};
use crate::{FullnessMarks, VolumeLimits};

use files::file_at;
use pool::{ExpertSettings, Section as _};
pub use pool::{PoolSettings, ServedLayer, UpkeepSettings};
pub use serve::ServeSettings;

/// Why a settings file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {}{reason}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct SettingsError {
    file: String,
    key: String,
    reason: String,
}

/// Contents of a pool's settings file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the pool is: on one device, or on several.
    #[serde(rename = "device", alias = "devices", deserialize_with = "text::one_or_more")]
    pub devices: Vec<DeviceSettings>,
    /// How it works.
    #[serde(default, deserialize_with = "pool::section")]
    pub pool: PoolSettings,
    /// How it works, where the defaults are right for nearly everybody: [`Settings::settle`] puts each where it counts.
    #[serde(default, deserialize_with = "pool::section")]
    expert: ExpertSettings,
    /// Volumes created by `format`.
    #[serde(default, alias = "volume", deserialize_with = "text::one_or_more")]
    pub volumes: Vec<VolumeSettings>,
    /// Settings of the server.
    #[serde(default)]
    pub serve: ServeSettings,
    /// The name of the file, for errors.
    #[serde(skip)]
    file: String,
    /// Keys that have another place or name by now.
    #[serde(skip)]
    notes: Vec<String>,
    /// Of [`Settings::each_device`], which of several devices it is about.
    #[serde(skip)]
    number: Option<usize>,
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// A zoned block device.
    Zoned,
    /// A simulated drive, its data in a file.
    Simulated,
}

/// Where a pool is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSettings {
    /// The file or device; from the folder of the settings file on, if it is relative.
    pub path: PathBuf,
    /// Kind of the device; `None`: detected.
    pub kind: Option<DeviceKind>,
    /// Class of media.
    #[serde(default = "capacity", deserialize_with = "text::class")]
    pub class: MediaClass,
    /// The group of devices with redundancy, or striped, that it is a member of.
    pub group: Option<GroupSettings>,
    /// Former names of `group`.
    mirror: Option<String>,
    raid0: Option<String>,
    raid5: Option<String>,
    /// Whether this side of a pair is read only where the other cannot be.
    #[serde(default)]
    pub write_mostly: bool,
    /// Size to use; `None`: the whole device.
    #[serde(default, deserialize_with = "text::optional")]
    pub size: Option<Bytes>,
    /// Bytes of a logical block.
    pub logical_block: Option<u32>,
    /// Bytes of a unit.
    #[serde(default, deserialize_with = "text::optional")]
    pub unit: Option<Bytes>,
    /// How transfers are handed to the system.
    #[serde(default, deserialize_with = "text::io")]
    pub io: Option<IoEngine>,
    /// Threads of [`IoEngine::Threads`].
    pub threads: Option<u32>,
    /// Whether to go past the system's cache.
    pub direct: Option<bool>,
    /// Whether units that are reset give their space back.
    pub discard: Option<bool>,
    /// Write streams of the device that classes of data go to, at most; 0: none.
    pub write_streams: Option<u32>,
    /// Name or file of the simulated drive.
    pub profile: Option<String>,
    /// Remaining endurance of the device, in bytes.
    #[serde(default, deserialize_with = "text::optional")]
    pub endurance: Option<Bytes>,
    /// Latency of the simulated drive.
    #[serde(default, deserialize_with = "text::latency")]
    pub latency: Option<Latency>,
}

/// A group of devices that are one to the pool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSettings {
    /// Its redundancy.
    #[serde(deserialize_with = "text::group_kind")]
    pub kind: GroupKind,
    /// Its name; members of the same group have the same.
    pub name: String,
}

fn capacity() -> MediaClass {
    MediaClass::Capacity
}

/// A volume to be made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSettings {
    /// Its name.
    pub name: String,
    /// Size; `None`: all space left by sized volumes.
    #[serde(default, deserialize_with = "text::optional")]
    pub size: Option<Bytes>,
    /// Media class for the volume's blocks, in a pool with fast devices.
    #[serde(default, deserialize_with = "text::optional")]
    pub media: Option<VolumeMedia>,
    /// Bytes that the pool keeps writable for the volume, mapped bytes included.
    #[serde(default, deserialize_with = "text::optional")]
    pub reserve: Option<Bytes>,
    /// Share of the pool's throughput under contention; at least 1.
    pub share: Option<u32>,
    /// Reads, writes, trims and zeroings per second, at most.
    pub iops: Option<u64>,
    /// Bytes read and written per second, at most.
    #[serde(default, deserialize_with = "text::optional")]
    pub bandwidth: Option<Bytes>,
}

impl VolumeSettings {
    /// Share and limits of the volume.
    #[must_use]
    pub fn limits(&self) -> VolumeLimits {
        let (share, bandwidth) = (self.share.unwrap_or(1), self.bandwidth.map(|bytes| bytes.0));
        VolumeLimits { share, iops: self.iops, bandwidth }
    }
}

/// Chosen, not measured: where uniform random writes cost about four writes for one (Desnoyers, SYSTOR 2012), and
/// skewed ones far less.
const SPARE: f64 = 0.1;

impl Settings {
    /// A settings file with every key explained.
    #[must_use]
    pub fn example() -> String {
        include_str!("settings/example.toml")
            .replace("@pool\n", &pool::example::<PoolSettings>())
            .replace("@expert\n", &pool::example::<ExpertSettings>())
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn load(path: &Path) -> Result<Settings, SettingsError> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| SettingsError {
            file: file.clone(),
            key: String::new(),
            reason: format!("cannot be read: {error}"),
        })?;
        let mut settings = Settings::from_toml(&file, &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for device in &mut settings.devices {
            device.path = folder.join(at_home(&device.path, std::env::var_os("HOME")));
        }
        settings.serve.begin_at(folder);
        settings.check_files()?;
        Ok(settings)
    }

    /// Reads TOML text; `file` names it in errors.
    ///
    /// # Errors
    /// [`SettingsError`] for text that is not TOML, unknown or missing keys, and values that cannot be.
    pub fn from_toml(file: &str, text: &str) -> Result<Settings, SettingsError> {
        let error = |key: &str, reason: &str| SettingsError {
            file: file.to_owned(),
            key: key.to_owned(),
            reason: reason.trim_end().to_owned(),
        };
        let table: toml::Table =
            toml::from_str(text).map_err(|source| error("", &source.to_string()))?;
        let mut settings: Settings = serde_path_to_error::deserialize(table).map_err(|source| {
            let key = source.path().to_string();
            error(if key == "." { "" } else { &key }, source.inner().message())
        })?;
        file.clone_into(&mut settings.file);
        settings.settle()?;
        settings.check()?;
        Ok(settings)
    }

    /// Keys that have another place or name by now, and are read all the same: a sentence for each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Puts the keys of `[expert]`, and keys with former names, where they count.
    fn settle(&mut self) -> Result<(), SettingsError> {
        for (key, text) in self.pool.stated() {
            if ExpertSettings::keys().iter().any(|expert| expert.name == key) {
                self.notes.push(format!("pool.{key} = {text}: the key belongs in [expert]"));
            }
        }
        for (key, text) in self.expert.pool.stated() {
            if self.pool.stated().iter().any(|(other, _)| *other == key) {
                return Err(self.error(&format!("expert.{key}"), "is stated in [pool] too"));
            }
            let set = self.pool.set(key, &text).expect("a key of pools");
            set.map_err(|reason| self.error(&format!("expert.{key}"), reason))?;
        }
        let transfers = self.expert.transfers.clone();
        for device in &mut self.devices {
            device.io = device.io.or(transfers.io);
            device.threads = device.threads.or(transfers.threads);
            device.direct = device.direct.or(transfers.direct);
            device.discard = device.discard.or(transfers.discard);
            device.write_streams = device.write_streams.or(transfers.write_streams);
        }
        for (key, stated) in [
            ("connections", self.serve.connections.is_some()),
            ("patience", self.serve.patience.is_some()),
        ] {
            if stated {
                self.notes.push(format!("serve.{key}: the key belongs in [expert]"));
            }
        }
        let serve = &mut self.serve;
        serve.connections = serve.connections.or(transfers.connections.map(|most| most as usize));
        serve.patience = serve.patience.or(transfers.patience.map(u64::from));
        self.settle_groups()
    }

    /// An error about `key`.
    pub(crate) fn error(&self, key: &str, reason: impl Into<String>) -> SettingsError {
        let key = match (key.strip_prefix("device"), self.number) {
            (Some(rest), Some(number)) => format!("device[{number}]{rest}"),
            _ => key.to_owned(),
        };
        SettingsError { file: self.file.clone(), key, reason: reason.into() }
    }

    /// The device; of several, the first in the file.
    #[must_use]
    pub fn device(&self) -> &DeviceSettings {
        &self.devices[0]
    }

    /// Copies of these settings with a single device each, in the order of the file. Errors name the device.
    pub fn each_device(&self) -> impl Iterator<Item = Settings> {
        let several = self.devices.len() > 1;
        self.devices.iter().enumerate().map(move |(number, device)| Settings {
            devices: vec![device.clone()],
            number: several.then_some(number),
            ..self.clone()
        })
    }

    fn check_devices(&self) -> Result<(), SettingsError> {
        let devices = self.groups().len();
        if devices == 0 || devices > MAX_DEVICES {
            let reason = format!("{devices}; a pool has 1 to {MAX_DEVICES}");
            return Err(self.error("device", reason));
        }
        self.check_groups()?;
        self.check_endurance()?;
        if self.devices.iter().all(|device| device.class == MediaClass::Fast) {
            let reason = "all are fast; at least one is to be for capacity";
            return Err(self.error("device", reason));
        }
        for (number, one) in self.each_device().enumerate() {
            one.check_device()?;
            if self.devices[..number].iter().any(|other| other.path == one.device().path) {
                return Err(one.error("device.path", "another device has this path"));
            }
        }
        Ok(())
    }

    /// Refuses two paths to one file, which would be in use by the other.
    fn check_files(&self) -> Result<(), SettingsError> {
        let files: Vec<_> = self.devices.iter().map(|one| file_at(&one.path)).collect();
        for (number, one) in self.each_device().enumerate() {
            let same = |other: &usize| files[*other].is_some() && files[*other] == files[number];
            if let Some(other) = (0..number).find(same) {
                let (path, other) = (&one.device().path, &self.devices[other].path);
                let reason = format!("{} and {} are one file", path.display(), other.display());
                return Err(one.error("device.path", reason));
            }
        }
        Ok(())
    }

    fn check_device(&self) -> Result<(), SettingsError> {
        let device = self.device();
        if let Some(bytes) = device.logical_block
            && LogicalBlock::from_bytes(bytes).is_none()
        {
            let reason = format!("{bytes} bytes; there are logical blocks of 512 and 4096");
            return Err(self.error("device.logical_block", reason));
        }
        if let Some((key, reason)) = self.device_out_of_bounds() {
            return Err(self.error(key, reason));
        }
        let simulated = device.kind == Some(DeviceKind::Simulated);
        if simulated != device.profile.is_some() {
            let reason = "a simulated device has a profile, and no other has";
            return Err(self.error("device.profile", reason));
        }
        Ok(())
    }

    /// Without the log, blocks are those of one simulated drive.
    fn check_layer(&self) -> Result<(), SettingsError> {
        let is_one = matches!(&self.devices[..], [one] if one.kind == Some(DeviceKind::Simulated));
        if self.pool.layer() != ServedLayer::Log && !is_one {
            let reason = "raw and tag take one [device] of kind = \"simulated\"";
            return Err(self.error("pool.layer", reason));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), SettingsError> {
        self.check_devices()?;
        self.check_layer()?;
        if let Some((key, reason)) = self.volume_out_of_bounds() {
            return Err(self.error(&key, reason));
        }
        self.check_placement()?;
        self.check_fullness()?;
        if let Some((key, reason)) = self.serve.objection() {
            return Err(self.error(&format!("serve.{key}"), reason));
        }
        for (index, volume) in self.volumes.iter().enumerate() {
            let key = |field| format!("volumes[{index}].{field}");
            if let Err(error) = volume.limits().check() {
                let remedy = if error.may_be_absent() { "; leave it out for no limit" } else { "" };
                return Err(self.error(&key(error.key()), format!("{error}{remedy}")));
            }
            if let Err(error) = VolumeName::for_new(&volume.name) {
                return Err(self.error(&key("name"), error.to_string()));
            }
            if self.volumes[..index].iter().any(|other| other.name == volume.name) {
                let reason = format!("there are two volumes `{}`", volume.name);
                return Err(self.error(&key("name"), reason));
            }
            let fast = self.devices.iter().any(|device| device.class == MediaClass::Fast);
            if !fast && volume.media.is_some_and(|media| media != VolumeMedia::Auto) {
                return Err(self.error(&key("media"), HostError::NoFastDevice.to_string()));
            }
            if let Some(size) = volume.size.filter(|size| size.0 % BLOCK_BYTES as u64 > 0) {
                let reason = format!("is {} bytes, must be a multiple of 4 KiB", size.0);
                return Err(self.error(&key("size"), reason));
            }
        }
        if self.volumes.iter().filter(|volume| volume.size.is_none()).count() > 1 {
            return Err(self.error("volumes", "only one may be without size"));
        }
        Ok(())
    }

    /// When the pool reports that it is nearly full.
    #[must_use]
    pub fn fullness_marks(&self) -> FullnessMarks {
        let default = FullnessMarks::default();
        FullnessMarks {
            warning: self.pool.upkeep.full_warning.unwrap_or(default.warning),
            critical: self.pool.upkeep.full_critical.unwrap_or(default.critical),
        }
    }

    /// Placements of published work stay in the lab: a pool takes the one that adapts, and the two without memory.
    fn check_placement(&self) -> Result<(), SettingsError> {
        match &self.pool.engine.placement {
            None | Some(Policy::Auto(_) | Policy::SeparateRelocation(_) | Policy::Nothing(_)) => {
                Ok(())
            }
            Some(other) => {
                let reason = format!("`{other}` is for the lab; a pool takes auto, sepgc and none");
                Err(self.error("pool.placement", reason))
            }
        }
    }

    fn check_fullness(&self) -> Result<(), SettingsError> {
        let FullnessMarks { warning, critical } = self.fullness_marks();
        if warning > critical {
            let reason = format!("is {warning}, must be at most full_critical, {critical}");
            return Err(self.error("pool.full_warning", reason));
        }
        Ok(())
    }

    fn spare(&self) -> f64 {
        self.pool.upkeep.spare.unwrap_or(SPARE)
    }

    /// The configuration of the engine for a device divided like this.
    ///
    /// # Errors
    /// [`SettingsError`] when the pool could not work so.
    pub fn config(&self, geometry: Geometry) -> Result<Config, SettingsError> {
        let mut config = self.pool.engine.config(geometry);
        config.below = self.below(unit_bytes(&geometry))?;
        for media in MediaClass::ALL {
            if let Some(active) = self.active_zones(media)? {
                let kept = config.keep_to_active_zones(media, active);
                kept.map_err(|error| self.too_few_zones(&error, &config, (media, active)))?;
            }
        }
        config.check().map_err(|error| self.unworkable(&error))?;
        Ok(config)
    }

    /// A placement writes more zones at once than the device lets be active: names one that does not.
    fn too_few_zones(
        &self,
        error: &ConfigError,
        config: &Config,
        (media, active): (MediaClass, u32),
    ) -> SettingsError {
        /// From most to fewest classes.
        const SMALLER: [&str; 2] = ["sepgc", "none"];
        let fits = |name: &&&str| {
            let placement = name.parse().expect("it is listed");
            let mut other = Config { placement, ..config.clone() };
            other.keep_to_active_zones(media, active).is_ok()
        };
        let remedy = match SMALLER.iter().find(fits) {
            Some(name) => format!("placement = \"{name}\" fits"),
            None => "no placement writes so few, and none fits this device".to_owned(),
        };
        self.error("pool.placement", format!("{error}: {remedy}"))
    }

    /// Maps an invalid configuration to an error of the responsible key.
    fn unworkable(&self, error: &ConfigError) -> SettingsError {
        let (key, reason) = match *error {
            ConfigError::Ahead { ahead, most } => {
                ("pool.ahead_units", format!("is {ahead}, must be 0 to {most}, half of the units"))
            }
            ConfigError::Listed { most, .. } => {
                let reserved = self.pool.engine.reserved_units.unwrap_or_default();
                ("pool.reserved_units", format!("is {reserved}, must be 0 to {}", most / 4))
            }
            ConfigError::Stage(_) | ConfigError::Addresses => ("pool.staged", error.to_string()),
            ConfigError::FewUnits { .. } if self.devices.iter().all(|one| one.unit.is_none()) => {
                ("device.size", format!("{error}: a larger device has more"))
            }
            ConfigError::FewUnits { .. } => ("device.unit", error.to_string()),
            _ => ("pool", error.to_string()),
        };
        self.error(key, reason)
    }

    /// Which file says this.
    #[must_use]
    pub fn file(&self) -> &Path {
        Path::new(&self.file)
    }

    /// The volumes to be made in a pool that works like `config`, with their sizes in blocks.
    ///
    /// # Errors
    /// [`SettingsError`] when nothing is left for the volume without size.
    pub fn volume_sizes(&self, config: &Config) -> Result<Vec<(VolumeName, u64)>, SettingsError> {
        let blocks = |size: Bytes| size.0 / BLOCK_BYTES as u64;
        let given: Vec<u64> =
            self.volumes.iter().filter_map(|volume| volume.size).map(blocks).collect();
        let mut sizes = Vec::new();
        for (index, volume) in self.volumes.iter().enumerate() {
            let name = VolumeName::new(&volume.name).expect("names were checked");
            let size = volume.size.map(blocks).unwrap_or_else(|| self.rest(config, &given));
            if size == 0 {
                let reason = "the other volumes, and the spare space, leave nothing for this one";
                return Err(self.error(&format!("volumes[{index}].size"), reason));
            }
            sizes.push((name, size));
        }
        let each = || sizes.iter().map(|(_, blocks)| *blocks);
        // Of fast devices that are too small `format` and `doctor` warn.
        if config.capacity_among(each()) == 0 && config.short_of_fast(each()).is_none() {
            let reason = "maps and spare units leave no room for data: a larger device has some";
            return Err(self.error("device.size", reason));
        }
        Ok(sizes)
    }

    /// What volumes of `given` blocks each leave of the pool. Maps take space themselves: the larger the volumes, the
    /// less fits, so this is found in a few steps.
    fn rest(&self, config: &Config, given: &[u64]) -> u64 {
        let taken: u64 = given.iter().sum();
        let left = |rest| {
            let capacity = config.capacity_among(given.iter().copied().chain([rest]));
            ((capacity as f64 * (1.0 - self.spare())) as u64).saturating_sub(taken)
        };
        let rest = (0..8).fold(0, |rest, _| left(rest));
        left(rest).min(rest)
    }
}

#[cfg(test)]
mod tests;
