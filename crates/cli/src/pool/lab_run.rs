//! The run of the lab that measures a pool: `lab run --pool` makes it, `status --lab-command` prints it.

use anyhow::bail;
use thermocline_engine::Tuning;
use thermocline_format::{BLOCK_BYTES, LogicalBlock, MediaClass};
use thermocline_lab::log::read_plan_name;
use thermocline_runtime::{DeviceKind, Settings, unit_bytes};
use thermocline_types::Bytes;

/// What `lab run` needs to be told for the drive, the size and the settings of a pool.
#[derive(Debug)]
pub struct LabRun {
    /// The stack: the log over the simulated drive of the pool. Of another device nothing is known but its units, so
    /// that the drive adds no write amplification.
    pub stack: String,
    /// Capacity of the drive.
    pub capacity: Bytes,
    /// Capacity of the fast drive before it, if there is one.
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
        // The sides of a mirrored pair do the same, and the members of a striped group together as much as one drive.
        let mut drives = settings.groups().into_iter().map(|mut sides| {
            let (alone, one) = (sides.len() == 1, sides.remove(0));
            let class = one.device().class;
            let whole = Bytes(unit.0 * u64::from(geometry.active_units(class)));
            (class, Drive::of(&one, whole, alone))
        });
        let first = drives.next().expect("a pool has a device");
        let (stack, drive, fast) = match (first, drives.next(), drives.next()) {
            ((_, drive), None, _) => (format!("log:{}", drive.name()), drive, None),
            ((MediaClass::Fast, fast), Some((MediaClass::Capacity, drive)), None)
            | ((MediaClass::Capacity, drive), Some((MediaClass::Fast, fast)), None) => {
                (format!("tier:{}+{}", fast.name(), drive.name()), drive, Some(fast))
            }
            _ => bail!("the lab knows pools of one device, and of a fast one before another"),
        };
        for (drive, part) in [(Some(&drive), "device"), (fast.as_ref(), "fast")] {
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
    capacity: Bytes,
}

impl Drive {
    /// The device of `settings`, of which a pool uses `whole`; of a group, a member, and what the pool uses of all.
    fn of(settings: &Settings, whole: Bytes, alone: bool) -> Drive {
        let device = settings.device();
        let profile = device.profile.as_ref().filter(|_| settings.kind() == DeviceKind::Simulated);
        let name = |profile: &String| {
            let is_path = profile.contains('/') || profile.ends_with(".toml");
            let exists = std::path::Path::new(profile).exists();
            format!("{}{profile}", if !is_path && exists { "./" } else { "" })
        };
        let capacity = profile.and(device.size).filter(|_| alone).unwrap_or(whole);
        Drive { profile: profile.map(name), capacity }
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
