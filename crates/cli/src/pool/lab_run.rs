//! The run of the lab that measures a pool: `lab run --pool` makes it, `status --lab-command` prints it.

use anyhow::bail;
use thermocline_engine::Tuning;
use thermocline_format::{BLOCK_BYTES, Geometry, LogicalBlock, MediaClass, RaidShape};
use thermocline_lab::log::{GroupSpec, read_plan_name};
use thermocline_runtime::{DeviceKind, GroupKind, Settings, unit_bytes};
use thermocline_types::Bytes;

/// What `lab run` needs to be told for the drive, the size and the settings of a pool.
#[derive(Debug)]
pub struct LabRun {
    /// The stack: the log over the simulated drive of the pool. Of another device nothing is known but its units, so
    /// that the drive adds no write amplification.
    pub stack: String,
    /// Capacity of the drive, or of all members of a group.
    pub capacity: Bytes,
    /// Capacity of the fast drive before it, if there is one, or of all its members.
    pub fast_capacity: Option<Bytes>,
    /// Overrides of drive and log.
    pub set: Vec<String>,
}

impl LabRun {
    /// That of the pool of `settings`, or of the one that `format` would make.
    ///
    /// # Errors
    /// When the settings are wrong for the device, or it cannot be read.
    pub fn of(settings: &Settings) -> anyhow::Result<LabRun> {
        let geometry = settings.geometry()?;
        let config = settings.config(geometry)?;
        let (unit, block) = (unit_bytes(&geometry), geometry.logical_block());
        let volumes: u64 = settings.volume_sizes(&config)?.iter().map(|(_, blocks)| blocks).sum();
        let mut set = Vec::new();
        let mut put = |key: &str, value: String| set.push(format!("{key}={value}"));
        put("log.unit", size(unit));
        put("log.volume", size(Bytes(volumes * BLOCK_BYTES as u64)));
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
                put(&format!("{part}.unit"), size(unit));
                put(&format!("{part}.op"), "0".into());
                put(&format!("{part}.mapping_unit"), size(Bytes(block.bytes() as u64)));
            }
        }
        tuning(&settings.pool.tuning(), &mut put);
        let fast_capacity = fast.map(|fast| fast.capacity);
        Ok(LabRun { stack, capacity: drive.capacity, fast_capacity, set })
    }

    /// The command, but for the workload.
    #[must_use]
    pub fn command(&self) -> String {
        let set = self.set.iter().map(|set| format!(" --set {set}")).collect::<String>();
        let LabRun { stack, capacity, .. } = self;
        let fast = self.fast_capacity.map(|fast| format!(" --fast-capacity {}", size(fast)));
        let fast = fast.unwrap_or_default();
        format!(
            "thermocline lab run --stack {stack} --capacity {}{fast}{set} --trace TRACE",
            size(*capacity)
        )
    }
}

/// A device as the lab knows it.
struct Drive {
    /// The simulated drive, as the lab's stacks name it.
    profile: Option<String>,
    /// Of all members of a group.
    capacity: Bytes,
    group: Option<GroupSpec>,
}

impl Drive {
    /// The device with these members, of which a pool of `geometry` uses so many units.
    fn of(members: &[Settings], geometry: &Geometry, units: u32) -> anyhow::Result<Drive> {
        let (settings, number) = (&members[0], members.len() as u64);
        let device = settings.device();
        if members.iter().any(|member| member.device().profile != device.profile) {
            bail!("the lab knows groups of drives of one kind (`profile`)");
        }
        let spec = |(kind, _): (GroupKind, &str)| format!("{}:{number}", kind.name()).parse();
        let group: Option<GroupSpec> =
            device.group().map(spec).transpose().map_err(anyhow::Error::msg)?;
        let (block, per_unit) = (geometry.logical_block(), geometry.blocks_per_unit());
        let used = match group {
            None => unit_bytes(geometry).0 * u64::from(units),
            Some(GroupSpec { level, members, .. }) => {
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

/// What is stated, by the keys of the lab.
fn tuning(stated: &Tuning, put: &mut impl FnMut(&str, String)) {
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let values = [
        ("log.placement", stated.placement.as_ref().map(ToString::to_string)),
        ("log.victim", stated.victim.map(|victim| victim.to_string())),
        ("log.gc.read_plan", stated.read_plan.map(read_plan_name)),
        ("log.gc.read_size", stated.read_size.map(size)),
        ("log.gc.segment", stated.segment.map(size)),
        ("log.gc.ahead_units", stated.ahead_units.map(|units| units.to_string())),
        ("log.write_cache", stated.write_cache.map(on)),
        ("log.staged", stated.staged.map(size)),
        ("log.write_depth", stated.write_depth.map(|depth| depth.to_string())),
        ("log.max_requests", stated.max_requests.map(|most| most.to_string())),
        ("log.checkpoint", stated.checkpoint.map(size)),
        ("log.reserved_units", stated.reserved_units.map(|units| units.to_string())),
        ("log.memory", stated.memory.map(size)),
        ("log.bypass", stated.bypass.map(size)),
        ("log.high_watermark", stated.high_watermark.map(|share| share.to_string())),
        ("log.low_watermark", stated.low_watermark.map(|share| share.to_string())),
        ("log.max_age", stated.max_age.map(|age| age.as_secs_f64().to_string())),
        ("log.at_risk", stated.at_risk.map(size)),
    ];
    for (key, value) in values {
        value.into_iter().for_each(|value| put(key, value));
    }
}

/// A size that is read back as the same: in the largest unit of which it is a whole number.
fn size(bytes: Bytes) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.iter().find(|(bits, _)| bytes.0 > 0 && bytes.0.trailing_zeros() >= *bits);
    whole.map_or(bytes.0.to_string(), |(bits, unit)| format!("{}{unit}", bytes.0 >> bits))
}

#[cfg(test)]
mod tests;
