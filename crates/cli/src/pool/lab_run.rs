//! The lab run of a pool: `lab run --pool` executes the run, `status --lab-command` prints its command.

use anyhow::bail;
use thermocline_format::{BLOCK_BYTES, Geometry, LogicalBlock, MediaClass, RaidShape};
use thermocline_lab::log::GroupOption;
use thermocline_runtime::{DeviceKind, GroupKind, Settings, unit_bytes};
use thermocline_types::Bytes;

/// Arguments of `lab run` for the drive, the size and the settings of a pool.
#[derive(Debug)]
pub struct LabRun {
    /// The stack: the log over the simulated drive of the pool. Another device is modelled by its units alone, without
    /// write amplification of the drive.
    pub stack: String,
    /// Capacity of the drive, or of all members of a group.
    pub capacity: Bytes,
    /// Capacity of the fast drive or of all its members, if the pool has a fast device.
    pub fast_capacity: Option<Bytes>,
    /// Overrides of drive and log.
    pub set: Vec<String>,
}

impl LabRun {
    /// The run of the pool in `settings`, or of the pool that `format` would make.
    ///
    /// # Errors
    /// When the settings do not fit the device, or the device cannot be read.
    pub fn of(settings: &Settings) -> anyhow::Result<LabRun> {
        let geometry = settings.geometry()?;
        let config = settings.config(geometry)?;
        let (unit, block) = (unit_bytes(&geometry), geometry.logical_block());
        let volumes: u64 = settings.volume_sizes(&config)?.iter().map(|(_, blocks)| blocks).sum();
        let mut set = Vec::new();
        let mut put = |key: &str, value: String| set.push(format!("{key}={value}"));
        put("log.unit", unit.compact());
        put("log.volume", Bytes(volumes * BLOCK_BYTES as u64).compact());
        if block != LogicalBlock::B4096 {
            put("log.logical_block", block.bytes().to_string());
        }
        if settings.devices.iter().any(|device| device.write_mostly) {
            bail!(
                "the lab knows no pairs of which one side is slower (`write_mostly`): a flush waits for both"
            );
        }
        let drives = settings.groups().into_iter().map(|members| {
            let class = members[0].device().class;
            Ok((class, Drive::of(&members, &geometry, geometry.active_units(class))?))
        });
        let mut drives = drives.collect::<anyhow::Result<Vec<_>>>()?.into_iter();
        let first = drives.next().expect("a pool has a device");
        let (stack, drive, fast) = match (first, drives.next(), drives.next()) {
            ((_, drive), None, _) => (format!("log:{}", drive.name()), drive, None),
            ((MediaClass::Fast, fast), Some((MediaClass::Capacity, drive)), None)
            | ((MediaClass::Capacity, drive), Some((MediaClass::Fast, fast)), None) => {
                (format!("tier:{}+{}", fast.name(), drive.name()), drive, Some(fast))
            }
            _ => bail!("the lab knows pools of one device, and of a fast one before another"),
        };
        let parts =
            [(Some(&drive), "device", "log.group"), (fast.as_ref(), "fast", "log.fast_group")];
        for (drive, part, key) in parts {
            if let Some(group) = drive.and_then(|drive| drive.group) {
                put(key, group.to_string());
            }
            if drive.is_some_and(|drive| drive.profile.is_none()) {
                put(&format!("{part}.unit"), unit.compact());
                put(&format!("{part}.op"), "0".into());
                put(&format!("{part}.mapping_unit"), Bytes(block.bytes() as u64).compact());
            }
        }
        for (key, value) in settings.pool.engine.stated() {
            put(&format!("pool.{key}"), value);
        }
        let fast_capacity = fast.map(|fast| fast.capacity);
        Ok(LabRun { stack, capacity: drive.capacity, fast_capacity, set })
    }

    /// The command, without the workload.
    #[must_use]
    pub fn command(&self) -> String {
        let set = self.set.iter().map(|set| format!(" --set {set}")).collect::<String>();
        let LabRun { stack, capacity, .. } = self;
        let fast = self.fast_capacity.map(|fast| format!(" --fast-capacity {}", fast.compact()));
        let fast = fast.unwrap_or_default();
        format!(
            "thermocline lab run --stack {stack} --capacity {}{fast}{set} --trace TRACE",
            capacity.compact()
        )
    }
}

/// A device in the lab's model.
struct Drive {
    /// Name of the simulated drive in the lab's stacks.
    profile: Option<String>,
    /// Capacity of all members of a group together.
    capacity: Bytes,
    group: Option<GroupOption>,
}

impl Drive {
    /// The device with these members. A pool of `geometry` uses `units` units of the device.
    fn of(members: &[Settings], geometry: &Geometry, units: u32) -> anyhow::Result<Drive> {
        let (settings, number) = (&members[0], members.len() as u64);
        let device = settings.device();
        if members.iter().any(|member| member.device().profile != device.profile) {
            bail!("the lab knows groups of drives of one kind (`profile`)");
        }
        let spec = |(kind, _): (GroupKind, &str)| format!("{}:{number}", kind.name()).parse();
        let group: Option<GroupOption> =
            device.group().map(spec).transpose().map_err(anyhow::Error::msg)?;
        let (block, per_unit) = (geometry.logical_block(), geometry.blocks_per_unit());
        let used = match group {
            None => unit_bytes(geometry).0 * u64::from(units),
            Some(GroupOption { level, members, .. }) => {
                let shape = RaidShape::new(level, members, block, per_unit, units)?;
                shape.strip() * u64::from(shape.member_units())
            }
        };
        let profile = device.profile.as_ref().filter(|_| settings.kind() == DeviceKind::Simulated);
        let name = |profile: &String| {
            let is_path = profile.contains('/') || profile.ends_with(".toml");
            let exists = std::path::Path::new(profile).exists();
            format!("{}{profile}", if !is_path && exists { "./" } else { "" })
        };
        let one = profile.and(device.size).unwrap_or(Bytes(used));
        let capacity = Bytes(one.0 * number);
        Ok(Drive { profile: profile.map(name), capacity, group })
    }

    fn name(&self) -> &str {
        self.profile.as_deref().unwrap_or("ideal")
    }
}

#[cfg(test)]
mod tests;
