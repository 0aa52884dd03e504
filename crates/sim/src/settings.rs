//! The settings that a seed draws: device, engine and workload, different for every seed.
//!
//! Extremes are drawn on purpose, as in swarm testing (Groce et al., ISSTA 2012): an operation that every seed does
//! rarely is never done often enough.

use std::collections::BTreeMap;
use std::fmt;

use thermocline_engine::{Config, DestageConfig, MAX_IO_BLOCKS, ReadPlan};
use thermocline_format::{
    DeviceState, Geometry, LogicalBlock, MAX_DEVICES, MediaClass, PAGE_ENTRIES, PoolDevice,
    RaidLevel, RaidShape,
};
use thermocline_ftl::placement::Policy;
use thermocline_ftl::victim::Victim;
use thermocline_types::{DeviceId, Rng, Time, UnitId};

use crate::disk::{DiskKind, DiskShape, GroupSpec, Groups, Latency};
use crate::workload::Mix;
use crate::wrong::{Also, How, Wrong};

/// How much a seed is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A device of 1 to 6 MiB and some hundred requests: for crash states.
    Small,
    /// A device of 4 to 64 MiB and some thousand requests.
    Large,
}

/// Device, engine and workload of a seed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The device.
    pub media: DiskShape,
    /// Latency of the device's commands.
    pub latency: Latency,
    /// The engine.
    pub config: Config,
    /// Engine settings of later openings, in order: devices come and go. The media has the units of all devices.
    pub changes: Vec<Config>,
    /// Mix of host requests.
    pub mix: Mix,
    /// Requests on their way at once.
    pub depth: usize,
    /// Requests altogether.
    pub requests: u64,
    /// First numbers of the pool.
    pub numbers: Numbers,
    /// Devices of the pool that are groups, whose members the media has.
    pub groups: Groups,
    /// The wrong member of a group, if any.
    pub wrong: Option<Wrong>,
    /// Mean number of judged crash states per state that goes on: the host writes, units are collected, checkpoints are
    /// taken, and power fails again.
    pub go_on_one_in: u64,
    /// Whether volumes get reservations.
    pub reserves: bool,
}

/// First numbers of a pool: epoch, revision, sequence, generation and volume identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// The numbers of a new pool.
    First,
    /// Numbers near the highest that a reader accepts.
    NearTheirLimits,
}

/// Default of [`Settings::go_on_one_in`]: going on takes much longer than judging a state.
const GO_ON_ONE_IN: u64 = 32;

/// Mean number of seeds per seed whose devices come and go.
const CHANGING_ONE_IN: u64 = 6;

/// Mean number of seeds per seed whose maps exceed the map memory.
const SPREAD_ONE_IN: u64 = 4;

impl Settings {
    /// Draws the settings of `seed`.
    ///
    /// # Panics
    /// Never: all draws are within the limits of geometry and configuration.
    #[must_use]
    pub fn draw(seed: u64, scale: Scale) -> Settings {
        let mut settings = Settings::draw_plain(seed, scale);
        let mut rng = Rng::new(seed ^ 0x5042_EAD0);
        if scale == Scale::Small && rng.below(SPREAD_ONE_IN) == 0 {
            settings.spread(&mut rng);
        }
        if settings.media.geometry.is_tiered() {
            settings.place_volumes(&mut Rng::new(seed ^ 0x7137_ED00));
        }
        let mut rng = Rng::new(seed ^ 0xDE71_CE50);
        if scale == Scale::Small && rng.below(CHANGING_ONE_IN) == 0 {
            settings.change_devices(&mut rng);
        }
        settings
    }

    /// Attaches a device. In three of four cases a second device is drained or lost, then detached. In one of three
    /// cases the new device grows.
    pub(crate) fn change_devices(&mut self, rng: &mut Rng) {
        let mut devices = self.config.geometry.devices().to_vec();
        let begin = self.config.geometry.units();
        let fast = rng.below(3) == 0;
        let more = 2 + rng.below(8) as u32;
        let (media, units) = match fast {
            true => (MediaClass::Fast, 13 + more),
            false => {
                let all = self.config.geometry.active_units(MediaClass::Capacity);
                (MediaClass::Capacity, all + more)
            }
        };
        devices.push(PoolDevice::new(media, units, [begin + 1, begin].map(UnitId)));
        let mut stages = vec![devices.clone()];
        if rng.below(4) > 0 {
            let lost = can_be_lost(&devices).filter(|_| rng.below(2) == 0);
            let drained = rng.below(devices.len() as u64 - 1) as usize;
            let (leaves, leaving) = match lost {
                Some(device) if rng.below(8) > 0 => (device, DeviceState::Lost),
                Some(_) => (drained, DeviceState::Lost),
                None => (drained, DeviceState::Draining),
            };
            for state in [leaving, DeviceState::Detached] {
                devices[leaves].state = state;
                stages.push(devices.clone());
            }
        }
        let grown = if rng.below(3) == 0 { grow_last(&mut stages, rng) } else { 0 };
        let configs: Option<Vec<Config>> =
            stages.iter().map(|devices| self.config_with(devices)).collect();
        let Some(configs) = configs else { return };
        let mut all = stages.swap_remove(0);
        all.last_mut().expect("a pool has devices").units += grown;
        let Some(all) = self.config_with(&all) else { return };
        self.media.geometry = all.geometry;
        let total = self.mix.total_blocks;
        let holds = configs.iter().map(|config| config.capacity_blocks(total));
        self.mix.total_blocks = holds.fold(total, u64::min);
        self.changes = configs;
    }

    /// The engine's settings with `devices`; `None` if the combination is not valid.
    fn config_with(&self, devices: &[PoolDevice]) -> Option<Config> {
        let now = &self.config.geometry;
        let geometry = Geometry::of_devices(now.logical_block(), now.blocks_per_unit(), devices);
        let mut config = Config { geometry: geometry.ok()?, ..self.config.clone() };
        let fresh = Config::new(config.geometry);
        config.max_listed_units =
            config.max_listed_units.clamp(fresh.max_listed_units.min(256), fresh.max_listed_units);
        config.max_open_units = fresh.max_open_units;
        if self.media.is_zoned() {
            keep_to_few_zones(&mut config);
        }
        config.check().is_ok().then_some(config)
    }

    /// Draws volumes that change media, and streams that bypass fast devices.
    pub(crate) fn place_volumes(&mut self, rng: &mut Rng) {
        self.mix.media_one_in = [0, 10, 40][rng.below(3) as usize];
        self.config.bypass_bytes = [u64::MAX, 0, 64 << 10][rng.below(3) as usize];
        if rng.below(2) == 0 {
            let all = u64::from(self.config.geometry.active_units(MediaClass::Fast));
            let high_units = rng.below(all + 1) as u32;
            self.config.destage = DestageConfig {
                high_units,
                low_units: rng.below(u64::from(high_units) + 1) as u32,
                max_age: [None, Some(Time::micros(1 + rng.below(20_000)))][rng.below(2) as usize],
                ..DestageConfig::default()
            };
        }
    }

    /// Volumes with several times as many pages of maps as there is memory for.
    pub(crate) fn spread(&mut self, rng: &mut Rng) {
        let drawn = self.media.geometry;
        // Room for blocks beside the map pages, of which a checkpoint keeps two copies on media.
        let geometry = Geometry::new(
            drawn.logical_block(),
            drawn.blocks_per_unit(),
            drawn.units() + 24,
            drawn.superblock_units(),
        )
        .expect("some units more");
        (self.media.geometry, self.config.geometry) = (geometry, geometry);
        self.config.max_listed_units = Config::new(geometry).max_listed_units;
        self.config.checkpoint_bytes = 1 << (18 + rng.below(6));
        self.mix.most_volumes = 1 + rng.below(3) as usize;
        self.mix.most_blocks = [1, 4, 32][rng.below(3) as usize];
        self.mix.total_blocks = (20 + rng.below(24)) * PAGE_ENTRIES as u64;
        self.mix.hot_blocks = u64::MAX;
        self.config.gc.pages = 1 + rng.below(8) as u32;
        let volumes = std::iter::repeat_n(1, self.mix.most_volumes + 1);
        let least = self.config.least_map_memory(volumes);
        self.config.map_memory_bytes = least + rng.below(4) * 4096;
    }

    /// Devices that are groups, with `mirrors` one at least a mirror, as a rule with a member that is wrong.
    pub(crate) fn group_devices(&mut self, rng: &mut Rng, mirrors: bool) {
        self.media.kind = [DiskKind::Keeping, DiskKind::Discarding][rng.below(2) as usize];
        let geometry = self.config.geometry;
        let one = rng.below(geometry.devices().len() as u64) as u8;
        let mut room = MAX_DEVICES - geometry.devices().len();
        let shapes: Vec<Option<RaidShape>> = geometry
            .device_units()
            .map(|(device, units)| {
                let first = device.0 == one;
                let grouped = first || rng.below(3) == 0;
                let mirror = grouped && mirrors && (first || rng.below(2) == 0);
                let mut draw = || draw_group(rng, &geometry, units.len() as u32, room, mirror);
                let shape = grouped.then(&mut draw).flatten();
                room -= shape.map_or(0, |shape| usize::from(shape.members) - 1);
                shape
            })
            .collect();
        let (medium, groups) = Groups::medium(&geometry, |device, _| shapes[device.index()]);
        for spec in &groups.0 {
            self.config.members.set(spec.device, spec.shape.members);
        }
        self.media.geometry = medium;
        self.numbers = Numbers::First;
        let members: Vec<DeviceId> = groups.0.iter().flat_map(GroupSpec::members).collect();
        if !members.is_empty() && rng.below(5) > 0 {
            let member = members[rng.below(members.len() as u64) as usize];
            let how = [How::Flips, How::RolledBack, How::Lies][rng.below(3) as usize];
            // Draw from a clone: worlds without a second fault keep their random numbers.
            let all = [Also::Misreads, Also::ReadErrors, Also::Hangs, Also::Superblocks];
            let also = all.get(rng.clone().below(2 * all.len() as u64) as usize).copied();
            self.wrong = Some(Wrong { member, how, also });
        }
        self.groups = groups;
    }

    /// As [`Settings::draw`], with volumes that are small enough for a few pages.
    ///
    /// # Panics
    /// As [`Settings::draw`].
    #[must_use]
    pub fn draw_plain(seed: u64, scale: Scale) -> Settings {
        let mut rng = Rng::new(seed ^ 0x5E77_1A65);
        let placement = draw_placement(&mut rng);
        let (media, mut config) = draw_pool(&mut rng, scale, &placement);
        let latency = draw_latency(&mut rng);
        let capacity =
            config.capacity_blocks(u64::from(media.geometry.units()) * config.blocks_per_unit());
        let mix = Mix::draw(&mut rng, capacity);
        config.map_memory_bytes = draw_memory(seed, &config, mix.most_volumes);
        config.tail_entries = [config.tail_entries, 0, 20][seed as usize % 3];
        let depth = [1, 2, 4, 16][rng.below(4) as usize];
        let requests = match scale {
            Scale::Small => 40 + rng.below(300),
            Scale::Large => 1000 + rng.below(5000),
        };
        let numbers = [Numbers::First, Numbers::NearTheirLimits][usize::from(rng.below(4) == 0)];
        let changes = Vec::new();
        let go_on_one_in = GO_ON_ONE_IN;
        let (groups, wrong) = (Groups::default(), None);
        Settings {
            media,
            latency,
            config,
            changes,
            mix,
            depth,
            requests,
            numbers,
            groups,
            wrong,
            go_on_one_in,
            reserves: false,
        }
    }
}

/// The drawn settings in one line, for failure reports.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { media, config, depth, requests, .. } = self;
        let geometry = media.geometry;
        let block = geometry.logical_block().bytes();
        let unit_kib = (u64::from(geometry.blocks_per_unit()) * block as u64) >> 10;
        write!(f, "{:?} media of {} units of {unit_kib} KiB", media.kind, geometry.units())?;
        let tiered = if geometry.is_tiered() { ", the last of them fast" } else { "" };
        write!(f, " on {} devices{tiered}", geometry.devices().len())?;
        let changes = ["", ", one of them attached later", ", one attached and one drained"];
        f.write_str(changes[self.changes.len().min(2)])?;
        write!(f, " in blocks of {block}, placement {}", config.placement)?;
        write!(f, ", victim {:?}, {:?} reads", config.gc.victim, config.gc.read_plan)?;
        write!(f, ", {requests} requests, {depth} at once")?;
        let memory = if config.write_cache { "in memory" } else { "on media" };
        write!(f, ", at most {} units listed", config.max_listed_units)?;
        write!(f, ", {} bytes for maps", config.map_memory_bytes)?;
        write!(f, ", writes complete {memory}, numbers {:?}", self.numbers)?;
        for spec in &self.groups.0 {
            let (device, shape) = (spec.device.0, spec.shape);
            write!(f, ", device {device} of {} members, {:?}", shape.members, shape.level)?;
        }
        if let Some(wrong) = self.wrong {
            write!(f, ", member {} {:?}", wrong.member.0, wrong.how)?;
            if let Some(also) = wrong.also {
                write!(f, " and {also:?}")?;
            }
        }
        Ok(())
    }
}

/// Counts of draws over many seeds: placement, media and numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn(BTreeMap<String, u64>);

impl Drawn {
    /// Counts the settings of one seed.
    pub fn add(&mut self, settings: &Settings) {
        let Settings { config, media, numbers, .. } = settings;
        let mut words = vec![
            config.placement.to_string(),
            format!("{:?}", media.kind),
            format!("{numbers:?}"),
            format!("Devices{}", media.geometry.devices().len()),
            if media.geometry.is_tiered() { "Tiered" } else { "Untiered" }.to_owned(),
        ];
        words.extend(self::changing(settings));
        for word in words {
            *self.0.entry(word).or_default() += 1;
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Drawn) {
        for (word, count) in &other.0 {
            *self.0.entry(word.clone()).or_default() += count;
        }
    }

    /// Seeds that drew `word`.
    #[must_use]
    pub fn count(&self, word: &str) -> u64 {
        self.0.get(word).copied().unwrap_or(0)
    }
}

/// From one of `stages` on, or once more after them, the last device has so many more units.
fn grow_last(stages: &mut Vec<Vec<PoolDevice>>, rng: &mut Rng) -> u32 {
    let last = |stage: &Vec<PoolDevice>| *stage.last().expect("a pool has devices");
    let active = stages.iter().filter(|stage| last(stage).state == DeviceState::Active).count();
    let (from, more) = (1 + rng.below(active as u64) as usize, 1 + rng.below(8) as u32);
    stages.insert(from, stages[from - 1].clone());
    for stage in &mut stages[from..] {
        stage.last_mut().expect("a pool has devices").units += more;
    }
    more
}

/// Whether devices come, whether any grows, and whether any goes.
fn changing(settings: &Settings) -> impl Iterator<Item = String> {
    let pools: Vec<&Geometry> = settings.changes.iter().map(|config| &config.geometry).collect();
    let goes =
        |pool: &&Geometry| pool.devices().iter().any(|device| device.state != DeviceState::Active);
    let grows = pools.windows(2).any(|pair| pair[1].units() > pair[0].units());
    let leaves = pools.iter().any(goes);
    let words = [("Attached", !pools.is_empty()), ("Grown", grows), ("Drained", leaves)];
    words.into_iter().filter(|(_, drawn)| *drawn).map(|(word, _)| word.to_owned())
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> =
            self.0.iter().map(|(word, count)| format!("{word} {count}")).collect();
        f.write_str(&counts.join(", "))
    }
}

/// Few classes, which leave most of a small device to data.
const FEW_CLASSES: [&str; 3] = ["none", "sepgc", "auto"];

/// All but `handles`, which pools do not take.
fn drawn_placements() -> Vec<Policy> {
    let policies = Policy::list().into_iter().map(|(policy, _)| policy);
    policies.filter(|policy| !matches!(policy, Policy::Handles(_))).collect()
}

/// By name: half of the seeds have one with few classes, the others any of those that the engine takes.
fn draw_placement(rng: &mut Rng) -> Policy {
    let any = drawn_placements();
    if rng.below(2) == 0 {
        let name = FEW_CLASSES[rng.below(3) as usize];
        return name.parse().expect("it is listed");
    }
    any[rng.below(any.len() as u64) as usize].clone()
}

/// A device and an engine that can work together: as many units as the classes of the placement need.
fn draw_pool(rng: &mut Rng, scale: Scale, placement: &Policy) -> (DiskShape, Config) {
    let mut media = draw_media(rng, scale);
    loop {
        let mut config = draw_config(rng, media.geometry, placement);
        if media.is_zoned() {
            keep_to_few_zones(&mut config);
        }
        if config.check().is_ok() && config.capacity_blocks(0) >= 2 * config.blocks_per_unit() {
            return (media, config);
        }
        media.geometry = grown(&media.geometry);
    }
}

/// A group with redundancy for a device of so many units, of at most `room` members more than one.
fn draw_group(
    rng: &mut Rng,
    geometry: &Geometry,
    units: u32,
    room: usize,
    mirror: bool,
) -> Option<RaidShape> {
    let parity = [(RaidLevel::Parity, 3 + rng.below(4) as usize), (RaidLevel::Parity, 3)];
    let levels = mirror.then_some((RaidLevel::Mirrored, 2)).into_iter().chain(parity);
    let (block, per_unit) = (geometry.logical_block(), geometry.blocks_per_unit());
    let fits = levels.filter(|(_, members)| *members <= room + 1);
    let mut shapes =
        fits.map(|(level, members)| RaidShape::new(level, members, block, per_unit, units));
    shapes.find_map(Result::ok)
}

/// As few active zones as let the engine work.
fn keep_to_few_zones(config: &mut Config) {
    for media in MediaClass::ALL {
        let _enough = config.keep_to_active_zones(media, config.frontiers_on(media) + 3);
    }
}

fn draw_media(rng: &mut Rng, scale: Scale) -> DiskShape {
    let kind = [DiskKind::Keeping, DiskKind::Discarding, DiskKind::Zoned][rng.below(3) as usize];
    let logical = [LogicalBlock::B512, LogicalBlock::B4096][rng.below(2) as usize];
    let (kib, units) = match scale {
        Scale::Small => ([64, 64, 96, 128][rng.below(4) as usize], 18 + rng.below(14)),
        Scale::Large => ([64, 256, 1000][rng.below(3) as usize], 24 + rng.below(40)),
    };
    let per_unit = (kib << 10) / logical.bytes() as u32;
    let units = units as u32;
    // Those that hold superblocks are no loss to the others.
    let devices = match rng.below(8) {
        0 => vec![(MediaClass::Capacity, units / 2), (MediaClass::Capacity, units / 2 + 3)],
        1 => vec![
            (MediaClass::Capacity, 5),
            (MediaClass::Capacity, units / 2),
            (MediaClass::Capacity, units / 2),
        ],
        2 | 3 => vec![(MediaClass::Capacity, units), (MediaClass::Fast, 13 + rng.below(8) as u32)],
        _ => vec![(MediaClass::Capacity, units)],
    };
    let superblocks = if rng.below(2) == 0 { [0, 1] } else { [3, 1] };
    let devices = devices.into_iter().map(|(media, units)| (media, units, superblocks));
    let geometry = geometry(logical, per_unit, devices);
    DiskShape { geometry, kind }
}

/// Devices with their units, and which of each hold superblocks.
pub(crate) fn geometry(
    logical: LogicalBlock,
    per_unit: u32,
    devices: impl Iterator<Item = (MediaClass, u32, [u32; 2])>,
) -> Geometry {
    let mut begin = 0;
    let device = |(media, units, superblocks): (MediaClass, u32, [u32; 2])| {
        begin += units;
        let superblock_units = superblocks.map(|unit| UnitId(begin - units + unit));
        PoolDevice::new(media, units, superblock_units)
    };
    let devices: Vec<PoolDevice> = devices.map(device).collect();
    Geometry::of_devices(logical, per_unit, &devices)
        .expect("units of 64 KiB and more, and enough of them")
}

/// The same with a few units more on each device.
fn grown(from: &Geometry) -> Geometry {
    let devices = from.devices().iter().zip(from.device_units()).map(|(device, (_, units))| {
        let superblocks = device.superblock_units.map(|unit| unit.0 - units.start);
        (device.media, device.units + 4, superblocks)
    });
    geometry(from.logical_block(), from.blocks_per_unit(), devices)
}

fn draw_config(rng: &mut Rng, geometry: Geometry, placement: &Policy) -> Config {
    let mut config = Config::new(geometry);
    let unit_bytes =
        u64::from(geometry.blocks_per_unit()) * geometry.logical_block().bytes() as u64;
    config.placement = placement.clone();
    config.gc.victim = match rng.below(4) {
        0 => Victim::Greedy,
        1 => Victim::Fifo,
        2 => Victim::Choices { d: 1 },
        _ => config.gc.victim,
    };
    config.gc.read_plan = match rng.below(3) {
        0 => ReadPlan::Basic,
        1 => ReadPlan::Segment,
        _ => config.gc.read_plan,
    };
    config.gc.ahead_units = rng.below(4) as u32;
    config.max_staged_blocks = (MAX_IO_BLOCKS << rng.below(3)) as u32;
    config.write_cache = rng.below(3) > 0;
    config.write_depth = 1 + rng.below(4) as u32;
    config.checkpoint_bytes = unit_bytes * (1 + rng.below(6));
    config.reserved_units = config.frontiers() + rng.below(4) as u32;
    // A table that is full now and then, as that of a superblock between checkpoints of large pools.
    if rng.below(3) == 0 {
        config.max_listed_units = 4 * config.reserved_units.max(config.frontiers() + 1);
    }
    config
}

/// Memory for maps: as much as a pool ever needs, or little more than it needs at least.
pub(crate) fn draw_memory(seed: u64, config: &Config, most_volumes: usize) -> u64 {
    let mut rng = Rng::new(seed ^ 0x4D45_4D0A);
    if rng.below(4) == 0 {
        return config.map_memory_bytes;
    }
    // Two more volumes: old volumes may be in deletion while new volumes are created. A volume of one block needs as
    // much map memory as a volume of a gibibyte.
    let volumes = std::iter::repeat_n(1, most_volumes + 2);
    config.least_map_memory(volumes) + rng.below(8) * 4096
}

fn draw_latency(rng: &mut Rng) -> Latency {
    let mut span = |most: u64| Time::micros(1 + rng.below(most));
    let (write, read, flush) = (span(200), span(200), span(2000));
    Latency { write, read, flush, spike_one_in: [0, 20, 100][rng.below(3) as usize] }
}

/// A device for capacity that is not the home and that others can do without: below a fast one the first, which is
/// filled first, else the last.
fn can_be_lost(devices: &[PoolDevice]) -> Option<usize> {
    let capacity = |device: &PoolDevice| device.media == MediaClass::Capacity;
    let all: Vec<usize> = (0..devices.len()).filter(|&one| capacity(&devices[one])).collect();
    let tiered = all.len() < devices.len();
    match all[..] {
        [first, _, ..] if tiered => Some(first),
        [_, .., last] => Some(last),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placement_is_drawn_and_none_by_its_place_in_the_list() {
        for scale in [Scale::Small, Scale::Large] {
            let mut drawn = Drawn::default();
            (1..=400).for_each(|seed| drawn.add(&Settings::draw(seed, scale)));
            for policy in drawn_placements() {
                assert!(drawn.count(&policy.to_string()) >= 5, "{policy}: {drawn}");
            }
            let devices = ["Devices1", "Devices2", "Tiered"];
            for word in
                [&["Keeping", "Discarding", "Zoned", "First", "NearTheirLimits"][..], &devices]
                    .concat()
            {
                assert!(drawn.count(word) >= 50, "{word}: {drawn}");
            }
        }
    }

    #[test]
    fn what_is_drawn_can_work() {
        for seed in 0..200 {
            let Settings { config, media, changes, .. } = Settings::draw(seed, Scale::Small);
            for config in changes.iter().chain([&config]) {
                assert_eq!(config.check(), Ok(()), "seed {seed}");
            }
            // What is attached to capacity is larger than all of it, by nine units at most.
            let most = if changes.is_empty() { 120 } else { 249 };
            assert!(media.geometry.units() <= most, "seed {seed}: {}", media.geometry.units());
        }
    }
}
