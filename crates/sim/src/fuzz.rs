//! Fuzzing of the engine: bytes become requests and faults, or changes of a pool's image.
//!
//! Both run on any bytes: `proptest` and `cargo fuzz` drive the same code. Wrong outcomes are returned; a panic is a
//! finding too.

mod image;

pub use image::{Forge, images};

use thermocline_engine::{DeviceError, Extent, HostRequest, MAX_IO_BLOCKS, UnitCondition};
use thermocline_format::{VolumeId, VolumeMedia};
use thermocline_types::Rng;

use crate::data::Data;
use crate::faults::{Fault, Rule};
use crate::settings::{Scale, Settings};
use crate::workload::Wish;
use crate::world::World;

/// Operations of one run, at most.
const MOST: usize = 400;

/// Takes bytes one by one; zeros behind their end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u64 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first.into()
    }

    /// A number below `bound`, from two bytes.
    fn below(&mut self, bound: u64) -> u64 {
        (self.next() << 8 | self.next()) % bound.max(1)
    }
}

/// Runs a small pool: the first bytes pick the settings, the rest pick host operations, power cuts and kills, and
/// failing commands if `failing`. Then checks the pool with [`World::live_on`]. Returns all wrong outcomes.
#[must_use]
pub fn operations(bytes: &[u8], failing: bool) -> Vec<String> {
    let mut bytes = Bytes(bytes);
    let seed = bytes.below(1 << 16);
    let mut world = World::new(seed, Settings::draw(seed, Scale::Small), Vec::new());
    for _ in 0..MOST {
        if bytes.0.is_empty() || !world.goes_on() {
            break;
        }
        operate(&mut world, &mut bytes, failing);
        world.settle();
        world.reopen_if_down();
    }
    world.live_on();
    world.wrong
}

fn operate(world: &mut World, bytes: &mut Bytes<'_>, failing: bool) {
    match bytes.next() % 16 {
        9 => {
            if world.takes_requests() {
                let request = nonsense(world, bytes);
                world.submit_nonsense(request);
            }
        }
        0..=8 => {
            if let Some(wish) = wish(world, bytes).filter(|_| world.takes_requests()) {
                world.submit_wish(wish);
            }
        }
        10..=12 => {
            for _ in 0..=bytes.next() % 32 {
                world.settle();
                world.machine.turn();
            }
        }
        13 => {
            let mut rng = Rng::new(bytes.below(1 << 16));
            let state = world.machine.disk.cache().random_state(&mut rng);
            world.crash(&state);
        }
        14 => world.reopen(),
        _ if !failing => {}
        _ => {
            let injector = world.machine.disk.injector_mut();
            let number = injector.commands() + bytes.next() % 16;
            let io = DeviceError::Io;
            let faults = [
                Fault::Fail(io),
                Fault::FailTorn(io),
                Fault::FailForgotten(io),
                Fault::Degrade(UnitCondition::ReadOnly),
            ];
            injector.add(Rule::once(number, faults[bytes.next() as usize % faults.len()]));
        }
    }
}

/// A request that no pool can carry out.
fn nonsense(world: &World, bytes: &mut Bytes<'_>) -> HostRequest<Data> {
    let volumes: Vec<_> = world.model.volumes().map(|(volume, _)| volume).collect();
    let any = volumes.get(bytes.next() as usize % volumes.len().max(1)).copied();
    let nobody = VolumeId(u32::MAX - bytes.next() as u32);
    let (kind, fua) = (bytes.next() % 6, bytes.next().is_multiple_of(2));
    // No volume has so many blocks; the second ends beyond what 64 bits count.
    let beyond = [1 << 36, u64::MAX][bytes.next() as usize % 2];
    let (volume, lba, blocks) = match bytes.next() % 4 {
        0 => (nobody, 0, 1),
        1 => (any.unwrap_or(nobody), beyond, 1),
        2 => (any.unwrap_or(nobody), 0, 0),
        _ => (any.unwrap_or(nobody), 0, MAX_IO_BLOCKS + 1),
    };
    let extent = Extent { volume, lba, blocks };
    let payload = || Data::zeros(&world.arena, blocks as u32);
    match kind {
        0 => HostRequest::Write { extent, data: payload(), fua, handle: 0 },
        1 => HostRequest::Read { extent, into: payload() },
        2 if blocks <= 1 && lba > 0 => HostRequest::Trim { extent, fua },
        3 => HostRequest::DeleteVolume { volume: nobody },
        4 => HostRequest::ResizeVolume { volume: nobody, blocks: 1 },
        5 => HostRequest::SetMedia { volume: nobody, media: VolumeMedia::Fast },
        _ => HostRequest::Trim { extent: Extent { volume: nobody, ..extent }, fua },
    }
}

fn wish(world: &World, bytes: &mut Bytes<'_>) -> Option<Wish> {
    let volumes: Vec<_> = world.model.volumes().collect();
    let kind = bytes.next() % 16;
    if kind == 12 || volumes.is_empty() {
        return (volumes.len() < 4 && !world.model.sizes_open())
            .then(|| Wish::Create(1 + bytes.below(600)));
    }
    let (volume, blocks) = volumes[bytes.next() as usize % volumes.len()];
    match kind {
        8 => return Some(Wish::Flush),
        9 => return Some(Wish::Scrub),
        10 if world.is_idle() => return Some(Wish::Close),
        11 => return Some(Wish::Resize(volume, 1 + bytes.below(blocks + 100))),
        13 if volumes.len() > 1 => return Some(Wish::Delete(volume)),
        14 if world.settings.config.geometry.is_tiered() => {
            let media = VolumeMedia::ALL[bytes.next() as usize % VolumeMedia::ALL.len()];
            return Some(Wish::Media(volume, media));
        }
        _ if blocks == 0 => return None,
        _ => {}
    }
    let lba = bytes.below(blocks);
    let most = (blocks - lba).min(MAX_IO_BLOCKS);
    let extent = Extent { volume, lba, blocks: 1 + bytes.next() % most };
    let fua = kind % 2 == 1;
    Some(match kind {
        0..=4 => Wish::Write { extent, fua, handle: kind as u16 % 3 },
        5 | 6 => Wish::Trim { extent, fua },
        _ => Wish::Read(extent),
    })
}
