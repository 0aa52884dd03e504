//! What a seed draws before anything happens: device, engine and workload, each a little different every time.
//!
//! Extremes are drawn on purpose, as in swarm testing (Groce et al., ISSTA 2012): what every seed does a little of, no
//! seed does enough of.

use thermocline_engine::{Config, MAX_IO_BLOCKS, ReadPlan};
use thermocline_format::{Geometry, LogicalBlock};
use thermocline_ftl::placement::Policy;
use thermocline_ftl::victim::Victim;
use thermocline_types::{Rng, Time, UnitId};

use crate::disk::{Latency, Media, MediaKind};
use crate::workload::Mix;

/// How much a seed is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A device of 1 to 4 MiB and some hundred requests: for crash states.
    Small,
    /// A device of 4 to 64 MiB and some thousand requests.
    Large,
}

/// Device, engine and workload of a seed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The device.
    pub media: Media,
    /// How long its commands take.
    pub latency: Latency,
    /// The engine.
    pub config: Config,
    /// What the host asks for.
    pub mix: Mix,
    /// Requests on their way at once.
    pub depth: usize,
    /// Requests altogether.
    pub requests: u64,
}

impl Settings {
    /// The settings that `seed` stands for.
    ///
    /// # Panics
    /// Never: what is drawn is within the limits of geometry and configuration.
    #[must_use]
    pub fn draw(seed: u64, scale: Scale) -> Settings {
        let mut rng = Rng::new(seed ^ 0x5E77_1A65);
        let media = draw_media(&mut rng, scale);
        let config = draw_config(&mut rng, media.geometry);
        let latency = draw_latency(&mut rng);
        let capacity =
            config.capacity_blocks(u64::from(media.geometry.units()) * config.blocks_per_unit());
        let mix = Mix::draw(&mut rng, capacity);
        let depth = [1, 2, 4, 16][rng.below(4) as usize];
        let requests = match scale {
            Scale::Small => 40 + rng.below(300),
            Scale::Large => 1000 + rng.below(5000),
        };
        Settings { media, latency, config, mix, depth, requests }
    }
}

fn draw_media(rng: &mut Rng, scale: Scale) -> Media {
    let kind = [MediaKind::Keeping, MediaKind::Discarding, MediaKind::Zoned][rng.below(3) as usize];
    let logical = [LogicalBlock::B512, LogicalBlock::B4096][rng.below(2) as usize];
    let (kib, units) = match scale {
        Scale::Small => ([64, 64, 96, 128][rng.below(4) as usize], 18 + rng.below(14)),
        Scale::Large => ([64, 256, 1000][rng.below(3) as usize], 24 + rng.below(40)),
    };
    let per_unit = (kib << 10) / logical.bytes() as u32;
    let superblocks = if rng.below(2) == 0 { [0, 1] } else { [3, 1] };
    let geometry = Geometry::new(logical, per_unit, units as u32, superblocks.map(UnitId))
        .expect("units of 64 KiB and more, and enough of them");
    Media { geometry, kind }
}

fn draw_config(rng: &mut Rng, geometry: Geometry) -> Config {
    let mut config = Config::new(geometry);
    let unit_bytes =
        u64::from(geometry.blocks_per_unit()) * geometry.logical_block().bytes() as u64;
    let policies = Policy::list();
    // Most seeds have few classes, since each takes a unit of a small device.
    config.placement =
        policies[rng.below(8).saturating_sub(5).min(policies.len() as u64 - 1) as usize].0.clone();
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
    if config.check().is_err() || config.capacity_blocks(0) < 2 * config.blocks_per_unit() {
        config.placement = policies[0].0.clone();
        config.reserved_units = config.frontiers();
    }
    config
}

fn draw_latency(rng: &mut Rng) -> Latency {
    let mut span = |most: u64| Time::micros(1 + rng.below(most));
    let (write, read, flush) = (span(200), span(200), span(2000));
    Latency { write, read, flush, spike_one_in: [0, 20, 100][rng.below(3) as usize] }
}
