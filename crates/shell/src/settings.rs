//! The settings drawn from a seed: the pool, its volumes with their limits, the clients, and the faults.

use std::time::Duration;

use thermocline_engine::Config;
use thermocline_format::{DeviceState, Geometry, LogicalBlock, MediaClass, PoolDevice};
use thermocline_ftl::placement::Policy;
use thermocline_nbd::Limits;
use thermocline_nbd::protocol::request::Framing;
use thermocline_runtime::VolumeLimits;
use thermocline_types::{Rng, UnitId};

use crate::client::{Manner, Wants};
use crate::storage::Habits;

/// Bytes of a unit.
const UNIT: u32 = 128 << 10;

/// A volume of the world.
#[derive(Clone, Copy, Debug)]
pub struct VolumePlan {
    /// Size in blocks.
    pub blocks: u64,
    /// Number of blocks at the volume's front that clients read and write.
    pub used: u64,
    /// Limits of the volume.
    pub limits: VolumeLimits,
}

/// All settings of a world.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine's configuration, with the first devices.
    pub config: Config,
    /// The volumes.
    pub volumes: Vec<VolumePlan>,
    /// The clients.
    pub clients: Vec<Manner>,
    /// How devices behave.
    pub habits: Habits,
    /// Bounds of the server.
    pub limits: Limits,
    /// Whether the server runs on the pool's thread.
    pub housed: bool,
    /// Number of requests. With a probe, only the probe's requests count.
    pub requests: u64,
    /// For each event, the number of client actions per event; 0: never.
    pub rates: Odds,
    /// Time after which the pool flushes by itself.
    pub flush_after: Option<Duration>,
    /// Whether the last client is a probe: a client alone on the last volume that reads block after block. A probe must
    /// not wait for other clients. No device fails in a world with a probe.
    pub probe: bool,
}

/// Average number of client actions between two events of a kind; 0: no event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Odds {
    /// The power goes.
    pub kill: u64,
    /// The service is stopped in order.
    pub stop: u64,
    /// A device is added or removed, or the pool is reopened unchanged.
    pub change: u64,
    /// Files cannot be opened for a while.
    pub refusal: u64,
    /// A client hangs up or disconnects in order.
    pub leave: u64,
    /// A volume gets other limits.
    pub limit: u64,
}

impl Settings {
    /// The settings of `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Settings {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let mut volumes = draw_volumes(rng);
        // Only a probe uses this volume.
        let limits = VolumeLimits::default();
        volumes.push(VolumePlan { blocks: 40, used: 40, limits });
        let config = draw_config(rng, &volumes);
        let slow = Duration::from_micros([20, 200, 2000][rng.below(3) as usize]);
        let faults = rng.below(3) == 0;
        let one_in = |rng: &mut Rng, many| if faults && rng.below(2) == 0 { many } else { 0 };
        let habits = Habits {
            least: Duration::from_micros(5),
            most: slow,
            flush_fails_one_in: one_in(rng, 40),
            write_fails_one_in: one_in(rng, 400),
            read_fails_one_in: one_in(rng, 300),
        };
        let clients = draw_clients(rng, &volumes);
        let often = |rng: &mut Rng, many| if rng.below(2) == 0 { many } else { 0 };
        let rates = Odds {
            kill: often(rng, 600),
            stop: often(rng, 1500),
            change: often(rng, 400),
            refusal: often(rng, 400),
            leave: often(rng, 300),
            limit: often(rng, 500),
        };
        let mut settings = Settings {
            config,
            volumes,
            clients,
            habits,
            limits: draw_limits(rng),
            housed: rng.below(2) == 0,
            requests: 300 + rng.below(700),
            rates,
            flush_after: (rng.below(3) == 0).then(|| Duration::from_millis(1 + rng.below(3000))),
            probe: false,
        };
        if rng.below(3) == 0 {
            settings.add_probe();
        }
        settings
    }

    fn add_probe(&mut self) {
        self.probe = true;
        self.requests = 20 + self.requests / 20;
        self.habits = self.habits.sound();
        self.rates = Odds { leave: self.rates.leave, ..Odds::default() };
        self.volumes.iter_mut().for_each(|volume| volume.limits.share = 1);
        // Status clients load the pool: block status is the most expensive request.
        for manner in self.clients.iter_mut().filter(|manner| manner.wants == Wants::Status) {
            self.volumes[manner.volume].blocks = 16 << 10;
            (manner.depth, manner.pause) = (200, Duration::from_micros(1));
            (manner.piece, manner.room, manner.short_one_in) = (1 << 20, 4 << 20, 0);
            manner.burst = 200;
        }
        self.clients.push(Manner {
            volume: self.volumes.len() - 1,
            framing: Framing::Structured,
            depth: 1,
            pause: Duration::from_micros(100),
            piece: 1 << 20,
            room: 1 << 20,
            short_one_in: 0,
            burst: 1,
            wants: Wants::Probe,
        });
    }

    /// The same engine on other devices; `None` if the volumes do not fit.
    #[must_use]
    pub fn config_with(&self, now: &Config, devices: &[PoolDevice]) -> Option<Config> {
        let old = now.geometry;
        let new = Geometry::of_devices(old.logical_block(), old.blocks_per_unit(), devices).ok()?;
        let config = Config { geometry: new, ..Config::new(new) };
        let config = Config {
            placement: now.placement.clone(),
            max_requests: now.max_requests,
            max_staged_blocks: now.max_staged_blocks,
            write_cache: now.write_cache,
            ..config
        };
        let used: u64 = self.volumes.iter().map(|volume| volume.used).sum();
        let all = self.volumes.iter().map(|volume| volume.blocks).sum();
        let fits = config.check().is_ok() && config.capacity_blocks(all) > used + used / 8;
        fits.then_some(config)
    }
}

fn draw_volumes(rng: &mut Rng) -> Vec<VolumePlan> {
    let count = 1 + rng.below(4);
    let mut volumes = Vec::new();
    for _ in 0..count {
        let used = [40, 100, 300][rng.below(3) as usize] + rng.below(200);
        let blocks = if rng.below(3) == 0 { 16 << 10 } else { used };
        volumes.push(VolumePlan { blocks, used, limits: draw_volume_limits(rng) });
    }
    volumes
}

/// Draws limits of a volume. Most volumes get no limit.
pub fn draw_volume_limits(rng: &mut Rng) -> VolumeLimits {
    let share = [1, 1, 4, 100][rng.below(4) as usize];
    let iops = (rng.below(4) == 0).then(|| 20 + rng.below(2000));
    let bandwidth = (rng.below(5) == 0).then(|| (1 << 20) + rng.below(16 << 20));
    VolumeLimits { share, iops, bandwidth }
}

/// Capacity devices with these numbers of units.
#[must_use]
pub fn devices_of(units: &[u32]) -> Vec<PoolDevice> {
    let mut begin = 0;
    let device = |&units: &u32| {
        begin += units;
        let superblocks = [begin - units, begin - units + 1].map(UnitId);
        PoolDevice::new(MediaClass::Capacity, units, superblocks)
    };
    units.iter().map(device).collect()
}

fn draw_config(rng: &mut Rng, volumes: &[VolumePlan]) -> Config {
    let block = [LogicalBlock::B512, LogicalBlock::B4096][rng.below(2) as usize];
    let used: u64 = volumes.iter().map(|volume| volume.used).sum();
    let all: u64 = volumes.iter().map(|volume| volume.blocks).sum();
    let mut units = 24 + rng.below(16) as u32;
    let placement = ["none", "sepgc", "auto"][rng.below(3) as usize];
    let placement: Policy = placement.parse().expect("it is listed");
    let (max_requests, max_staged_blocks) =
        ([8, 64, 1024][rng.below(3) as usize], [256, 512, 4096][rng.below(3) as usize]);
    let write_cache = rng.below(4) > 0;
    let devices = rng.below(3);
    loop {
        let devices: Vec<u32> = match devices {
            0 => vec![units / 2, units / 2 + 3],
            _ => vec![units],
        };
        let per_unit = UNIT / block.bytes() as u32;
        let geometry = Geometry::of_devices(block, per_unit, &devices_of(&devices));
        let geometry = geometry.expect("enough units");
        let config = Config::new(geometry);
        let placement = placement.clone();
        let config = Config { placement, max_requests, max_staged_blocks, write_cache, ..config };
        if config.check().is_ok() && config.capacity_blocks(all) > used + used / 4 {
            return config;
        }
        units += 8;
    }
}

/// `devices`, with device `number` in `state`.
#[must_use]
pub fn in_state(devices: &[PoolDevice], number: usize, state: DeviceState) -> Vec<PoolDevice> {
    let mut devices = devices.to_vec();
    devices[number].state = state;
    devices
}

fn draw_limits(rng: &mut Rng) -> Limits {
    let requests = [2, 16, 128][rng.below(3) as usize];
    let bytes = [100_000, 2 << 20, 16 << 20][rng.below(3) as usize];
    let memory = [4 << 20, 128 << 20][rng.below(2) as usize];
    Limits { requests, bytes, memory, payload: 4 << 20, ..Limits::default() }
}

fn draw_clients(rng: &mut Rng, volumes: &[VolumePlan]) -> Vec<Manner> {
    let mut clients = Vec::new();
    for _ in 0..1 + rng.below(6) {
        let volume = rng.below(volumes.len() as u64 - 1) as usize;
        let wants = match rng.below(8) {
            0 | 1 => Wants::Status,
            2 => Wants::Reads,
            3 => Wants::Writes,
            _ => Wants::All,
        };
        let framing = match rng.below(4) {
            0 if wants != Wants::Status => Framing::Simple,
            1 => Framing::Extended,
            _ => Framing::Structured,
        };
        let room = [5000, 200_000, 4 << 20][rng.below(3) as usize];
        clients.push(Manner {
            volume,
            framing,
            depth: [1, 8, 64, 200][rng.below(4) as usize],
            pause: Duration::from_micros([1, 20, 500, 5000][rng.below(4) as usize]),
            piece: [100, 3000, 1 << 20][rng.below(3) as usize],
            room: if wants == Wants::Reads { 1 << 20 } else { room },
            short_one_in: [0, 0, 3][rng.below(3) as usize],
            burst: [1, 1, 8, 200][rng.below(4) as usize],
            wants,
        });
    }
    clients
}
