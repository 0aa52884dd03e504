//! From a stack and a workload's size to a drive in units and an engine's configuration.

use thermocline_engine::{Config, ConfigError, MAX_IO_BLOCKS, Tuning, default_unit};
use thermocline_format::{
    Geometry, GeometryError, LogicalBlock, MediaClass, PoolDevice, RaidShape, VolumeMedia,
};
use thermocline_ftl::placement::Policy;
use thermocline_nand::profile::{Cut, ProfileError, Zns};
use thermocline_nand::{Drive, Kind, Profile, Zoned};
use thermocline_types::{Bytes, UnitId};

use super::device::Device;
use super::members::Division;
use super::part::Part;
use crate::settings::Settings;
use crate::stack::Stack;
use crate::{Error, Room, fitting, run};

/// An engine's configuration and the drive it is for.
pub struct Plan {
    /// How the engine is set up.
    pub config: Config,
    /// The drive, or that for capacity.
    pub drive: Drive,
    /// The fast drive of a tiered stack.
    pub fast: Option<Drive>,
    /// How the drive is divided if it is a group, and the fast one: they are the members side by side then.
    pub groups: [Option<RaidShape>; 2],
    /// Size of the units of a drive without zones.
    pub unit: Bytes,
    /// Blocks of 4 KiB of the volume, which is thin.
    pub blocks: u64,
    /// The share of blocks that pack.
    pub packs: f64,
    /// Where the volume's blocks are to be.
    pub media: VolumeMedia,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Plan {
    /// The plan for a workload that takes `room`: the pool is sized by the bytes written, the volume by the addresses.
    ///
    /// # Errors
    /// [`Error`] when the drive cannot be divided like this, or is too small for the workload and the log's own space.
    pub fn new(stack: &Stack, settings: &Settings, room: Room) -> Result<Plan, Error> {
        fitting::made(settings, run::least_step(&stack.profile), |settings| {
            Plan::exactly(stack, settings, room)
        })
    }

    /// The plan on drives as large as `settings` say.
    fn exactly(stack: &Stack, settings: &Settings, room: Room) -> Result<Plan, Error> {
        let refuse = |reason: String| Error::Stack { stack: stack.text.clone(), reason };
        let logical = stack.log.logical_block.unwrap_or(LogicalBlock::B4096);
        let division = |spec| Division { spec, logical, unit: stack.log.unit };
        let [group, fast_group] =
            [stack.log.group, stack.log.fast_group].map(|one| one.map(division));
        let (cut, member) = cut_of(stack, settings, room.footprint, group.as_ref())?;
        let room = Room { span: room.span.max(stack.log.volume.unwrap_or_default()), ..room };
        let log = memory(cut.media(), room, &stack.log.engine);
        run::check_memory(&cut, stack, settings, Some(log))?;
        let drive = match &group {
            None => drive(&stack.profile, cut, settings.seed)?,
            Some(division) => division.drives(&stack.profile, member, settings.seed)?,
        };
        let fast = |fast| fast_drive(fast, stack, settings, &drive, fast_group.as_ref());
        let fast = stack.fast.as_ref().map(fast).transpose()?;
        let fast_capacity = fast.as_ref().map(|fast| data_of(fast, fast_group.as_ref()));
        let unit = match &group {
            None => unit(&drive, stack.log.unit, fast_capacity, logical),
            Some(division) => division.unit(data_of(&drive, group.as_ref()), fast_capacity),
        };
        let groups = [
            shape_of(Some(&drive), group.as_ref(), unit).map_err(refuse)?,
            shape_of(fast.as_ref(), fast_group.as_ref(), unit).map_err(refuse)?,
        ];
        check_drives(stack, &drive, fast.as_ref(), unit, logical).map_err(refuse)?;
        let units = units_of(&drive, unit, groups[0].as_ref());
        let per_unit = u32::try_from(unit.0 / logical.bytes() as u64).unwrap_or(u32::MAX);
        let fast_units = fast.as_ref().map(|fast| units_of(fast, unit, groups[1].as_ref()));
        let geometry = geometry(logical, per_unit, units, fast_units)
            .map_err(|error| refuse(format!("{error}; give another log.unit or a larger drive")))?;
        let mut config = stack.log.engine.config(geometry);
        if let Some(victim) = settings.victim {
            config.gc.victim = victim;
        }
        let shares = group.map_or(1, |division| division.spec.shares() as u64);
        let one = drive.side_by_side().first().unwrap_or(&drive);
        config.below = one.below(Bytes(unit.0 / shares));
        if let Some(active) = active_zones(&stack.profile) {
            let kept = config.keep_to_active_zones(MediaClass::Capacity, active);
            kept.map_err(|error| refuse(error.to_string()))?;
        }
        config.check().map_err(|error| match error {
            ConfigError::FewUnits { .. } => too_small(stack, &error, false),
            ConfigError::FewFastUnits { .. } => too_small(stack, &error, true),
            other => refuse(format!("{other}; give another log.unit or a larger drive")),
        })?;
        check_capacity(&config, unit, room, stack, settings)?;
        let blocks = room.span.div_ceil(Bytes::BLOCK);
        let (packs, media) = (stack.log.packs(), stack.log.media.unwrap_or_default());
        let seed = settings.seed;
        Ok(Plan { config, drive, fast, groups, unit, blocks, packs, media, seed })
    }

    /// Makes the pool.
    ///
    /// # Errors
    /// [`Error::Engine`].
    pub fn build(self) -> Result<super::machine::Machine, Error> {
        let drives = [Some(self.drive), self.fast].into_iter().zip(self.groups);
        let part = |(drive, shape)| Some(Part::new(drive?, self.unit, shape));
        let drives = drives.filter_map(part).collect();
        let device = Device::new(drives, self.config.geometry);
        let mut machine =
            super::machine::Machine::format(self.config, device, self.blocks, self.seed)?;
        machine.set_packs(self.packs);
        if self.media != VolumeMedia::Auto {
            machine.set_media(self.media)?;
        }
        Ok(machine)
    }
}

/// How the drives for capacity are cut together, and the size of each member if they are a group.
fn cut_of(
    stack: &Stack,
    settings: &Settings,
    footprint: Bytes,
    group: Option<&Division>,
) -> Result<(Cut, Bytes), Error> {
    let profile = &stack.profile;
    let cut = run::cut(profile, stack, settings, footprint)?;
    let Some(division) = group else { return Ok((cut, cut.capacity())) };
    if settings.capacity.is_some() {
        return Ok((cut, division.member_of(profile, &cut)));
    }
    let member = division
        .member_for(profile, &cut)
        .map_err(|error| Error::Stack { stack: stack.text.clone(), reason: error.to_string() })?;
    let all = Bytes(member.0 * division.spec.members as u64);
    Ok((Cut::new(profile, Some(all))?, member))
}

/// How a group is divided in units of `unit` bytes, if these drives are a group.
fn shape_of(
    drives: Option<&Drive>,
    group: Option<&Division>,
    unit: Bytes,
) -> Result<Option<RaidShape>, String> {
    let Some((drives, division)) = drives.zip(group) else { return Ok(None) };
    let member = drives.side_by_side().first().unwrap_or(drives).cut().capacity();
    division.shape(unit, member).map(Some).map_err(|error| error.to_string())
}

/// Checks that drives can be devices of one pool, and that a setting of the fast drive has one.
fn check_drives(
    stack: &Stack,
    drive: &Drive,
    fast: Option<&Drive>,
    unit: Bytes,
    logical: LogicalBlock,
) -> Result<(), String> {
    let own = drive.cut().mapping_unit;
    if matches!(drive, Drive::Zoned(_)) && !(logical.bytes() as u64).is_multiple_of(own.0) {
        return Err(format!("its drive's logical blocks are {own}: log.logical_block=4096"));
    }
    let media = stack.log.media.filter(|media| *media != VolumeMedia::Auto);
    match (fast, media, stack.log.fast_group) {
        (Some(Drive::Zoned(zoned)), ..) if zoned.cut().unit() != unit => {
            let own = zoned.cut().unit();
            Err(format!(
                "the fast drive has units of {own}, the other one of {unit}: both must be alike, give fast.unit"
            ))
        }
        (None, Some(media), _) => Err(format!("log.media={media} needs a fast drive: use tier")),
        (None, _, Some(group)) => {
            Err(format!("log.fast_group={group} needs a fast drive: use tier"))
        }
        _ => Ok(()),
    }
}

/// The pool's units: capacity units, then fast units if the stack is tiered. The first two of each drive hold
/// superblocks.
fn geometry(
    logical: LogicalBlock,
    per_unit: u32,
    units: u64,
    fast: Option<u64>,
) -> Result<Geometry, GeometryError> {
    let mut first = 0;
    let media = [(MediaClass::Capacity, Some(units)), (MediaClass::Fast, fast)];
    let devices = media.into_iter().filter_map(|(media, units)| Some((media, units?)));
    let devices = devices.map(|(media, units)| {
        let units = units.min(1 << 30) as u32;
        let superblock_units = [UnitId(first), UnitId(first + 1)];
        first += units;
        PoolDevice::new(media, units, superblock_units)
    });
    Geometry::of_devices(logical, per_unit, &devices.collect::<Vec<PoolDevice>>())
}

/// A fresh fast drive for `stack`, whose drive for capacity is `drive`: as large beside it as the products are, or as
/// asked for.
fn fast_drive(
    profile: &Profile,
    stack: &Stack,
    settings: &Settings,
    drive: &Drive,
    group: Option<&Division>,
) -> Result<Drive, Error> {
    let refuse = |reason: &str| Error::Stack { stack: stack.text.clone(), reason: reason.into() };
    if profile.zns.is_some() {
        return Err(refuse("the fast drive must be one without zones, such as p5800x"));
    }
    let share = profile.capacity.as_f64() / stack.profile.capacity.as_f64();
    let fitting = Bytes((drive.cut().capacity().as_f64() * share) as u64);
    let block = profile.mapping_unit.max(Bytes::BLOCK).0;
    let size = settings.fast_capacity.unwrap_or(fitting).0 / block * block;
    let wrong = |error: ProfileError| match error.key() {
        "capacity" | "op" => too_small(stack, &error, true),
        _ => Error::Profile(error),
    };
    if let Some(division) = group {
        let cut = Cut::new(profile, Some(Bytes(size))).map_err(wrong)?;
        let member = division.member_of(profile, &cut);
        return division.drives(profile, member, settings.seed).map_err(wrong);
    }
    if is_bare(profile) {
        let cut = Cut::new(profile, Some(Bytes(size))).map_err(wrong)?;
        return self::drive(profile, cut, settings.seed);
    }
    Drive::new(profile, Some(Bytes(size)), settings.seed).map_err(wrong)
}

/// Bytes for data of a drive, or of a group of it.
fn data_of(drive: &Drive, group: Option<&Division>) -> Bytes {
    let spec = group.map(|division| division.spec);
    let members = spec.map_or(1, |spec| spec.members);
    Bytes(drive.cut().capacity().0 / members as u64 * spec.map_or(1, |spec| spec.shares()) as u64)
}

/// How many units of `unit` bytes the log has on a drive: as many as there are zones.
fn units_of(drive: &Drive, unit: Bytes, group: Option<&RaidShape>) -> u64 {
    match drive {
        _ if group.is_some() => group.map_or(0, |shape| u64::from(shape.units)),
        Drive::Zoned(zoned) => u64::from(zoned.zones()),
        _ => drive.cut().capacity().0 / unit.0.max(1),
    }
}

/// Of `error`, that the drive of `stack` is too small, or the fast one.
fn too_small(stack: &Stack, error: &dyn std::error::Error, fast: bool) -> Error {
    let reason = format!("stack `{}`: {error}", stack.text);
    Error::TooSmall { reason, fast, or: "smaller units (log.unit, device.unit)" }
}

/// Whether the log writes units of the media itself: the drive consists only of the log's units.
#[must_use]
pub fn is_bare(profile: &Profile) -> bool {
    profile.kind == Kind::Conventional && profile.geometry.is_none()
}

/// A fresh drive. Where the profile knows of nothing but blocks and units, the log has the units as they are, spare
/// ones included.
fn drive(profile: &Profile, cut: Cut, seed: u64) -> Result<Drive, Error> {
    if !is_bare(profile) {
        return Ok(Drive::new(profile, Some(cut.capacity()), seed)?);
    }
    let size = cut.unit();
    let zns = Zns { zone_size: size, zone_capacity: size, max_open: 0, max_active: 0 };
    let zoned = Profile { kind: Kind::Zns, zns: Some(zns), buffer: None, ..profile.clone() };
    Ok(Drive::Zoned(Box::new(Zoned::new(&zoned, cut, seed))))
}

/// Size of the engine's units: of zones, their capacity.
fn unit(drive: &Drive, given: Option<Bytes>, fast: Option<Bytes>, logical: LogicalBlock) -> Bytes {
    if let Drive::Zoned(zoned) = drive {
        return zoned.cut().unit();
    }
    let cut = drive.cut();
    let unit = given.unwrap_or_else(|| default_unit(cut.capacity(), fast)).0;
    let block = (logical.bytes() as u64).max(cut.mapping_unit.0);
    Bytes((unit / block).max(1) * block)
}

/// Refuses a workload that has more data at once than the engine can hold.
fn check_capacity(
    config: &Config,
    unit: Bytes,
    room: Room,
    stack: &Stack,
    settings: &Settings,
) -> Result<(), Error> {
    let least = Bytes(config.least_map_memory([room.span.div_ceil(Bytes::BLOCK)]));
    if least.0 > config.map_memory_bytes {
        return Err(Error::Settings(format!(
            "the map of a volume of {} takes {least} of memory at least, pool.memory is {}: set it higher, or fit the \
             addresses of the trace by `remap` dense",
            room.span,
            Bytes(config.map_memory_bytes)
        )));
    }
    let held = config.capacity_blocks(room.span.div_ceil(Bytes::BLOCK));
    if held >= room.live.div_ceil(Bytes::BLOCK) {
        return Ok(());
    }
    let all = u64::from(config.geometry.units()) * unit.0;
    let share = (held * Bytes::BLOCK.0) as f64 / all as f64;
    let spare = if settings.of_pool {
        String::new()
    } else if is_bare(&stack.profile) {
        format!("device.garbage={:.2} or more, ", 1.01 - share + 0.005)
    } else {
        format!("`utilisation` {:.2} or less, ", (share - 0.01).max(0.01))
    };
    let (before, empty) = if room.live == room.footprint {
        (", those of the prefill included", ", or `prefill` none if it begins on an empty drive")
    } else {
        ("", "")
    };
    let reason = format!(
        "the workload has {} of data at once{}, the log on {} can hold {} in its {} units of {unit}: the rest is its \
         reserve, open units, maps and superblocks; give {spare}{}{empty}",
        room.live,
        before,
        stack.text,
        Bytes(held * Bytes::BLOCK.0),
        config.geometry.units(),
        settings.larger(),
    );
    Err(Error::DoesNotFit(reason))
}

/// The drive's limit of open zones, if any.
fn active_zones(profile: &Profile) -> Option<u32> {
    profile.zns.as_ref().map(|zns| zns.max_active).filter(|&active| active > 0)
}

/// Memory for maps where nothing is said (`pool.memory`).
const MAP_MEMORY: Bytes = Bytes::gib(4);
/// Bytes of memory for each block of a chunk on media: the entry, and the token in place of data. Measured.
const STORED_BYTES: u64 = 48;
/// Blocks mapped by a page of the map.
const PAGE_BLOCKS: u64 = 512;
/// Bytes of a page of the map.
const PAGE_BYTES: u64 = 4096;
/// Bytes kept by a placement policy for the blocks of a page. Measured.
const PLACED_BYTES: u64 = 6144;

/// Bytes of memory for `media` bytes in a run that takes `room`. Only written blocks count, and only map pages with a
/// written block. Maps take at most the budget of `tuning`. Its placement may keep nothing for a block.
fn memory(media: Bytes, room: Room, tuning: &Tuning) -> Bytes {
    let budget = tuning.memory.unwrap_or(MAP_MEMORY);
    let placed = match tuning.placement {
        Some(
            Policy::Nothing(_)
            | Policy::SeparateRelocation(_)
            | Policy::LsmZgc(_)
            | Policy::Mida(_)
            | Policy::Handles(_),
        ) => 0,
        _ => PLACED_BYTES,
    };
    let blocks = |bytes: Bytes| bytes.div_ceil(Bytes::BLOCK);
    let stored = blocks(media.min(room.written));
    let touched = blocks(room.footprint.min(room.written));
    let pages = blocks(room.span).div_ceil(PAGE_BLOCKS).min(touched);
    let maps = pages.saturating_mul(PAGE_BYTES).min(budget.0);
    let rest = stored.saturating_mul(STORED_BYTES) + pages.saturating_mul(placed);
    Bytes(maps.saturating_add(rest))
}

const _: () = assert!(MAX_IO_BLOCKS >= 64, "requests of a batch fit into one chunk");

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_ftl::placement::SeparateRelocation;

    #[test]
    fn memory_is_for_what_is_written_and_for_maps_within_their_budget() {
        let span = Bytes::gib(1500);
        let room = Room { written: Bytes::mib(154), ..Room::all_of(span) };
        let with = |memory, placement| Tuning { memory, placement, ..Tuning::default() };
        let little = memory(Bytes::gib(1900), room, &with(None, None));
        assert!((Bytes::mib(350)..Bytes::mib(450)).contains(&little), "{little}");
        let tight = memory(Bytes::gib(1900), room, &with(Some(Bytes::mib(64)), None));
        assert_eq!(
            little.0 - tight.0,
            (154 << 20) - (64 << 20),
            "the map of a page for each block"
        );
        let plain = with(None, Some(Policy::SeparateRelocation(SeparateRelocation)));
        let plain = memory(Bytes::gib(1900), room, &plain);
        assert_eq!(little.0 - plain.0, 154 * 256 * PLACED_BYTES, "no history of blocks");
        let filled = memory(Bytes::gib(40), Room::all_of(Bytes::gib(32)), &with(None, None));
        let per_block = filled.as_f64() / Bytes::gib(32).div_ceil(Bytes::BLOCK) as f64;
        assert!((60.0..85.0).contains(&per_block), "{per_block}");
        let nothing = Room { written: Bytes::ZERO, ..room };
        assert_eq!(memory(Bytes::gib(1900), nothing, &with(None, None)), Bytes::ZERO);
    }
}
