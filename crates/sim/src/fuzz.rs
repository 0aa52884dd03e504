//! Fuzzing of the engine: bytes become requests and faults, or changes of a pool's image.
//!
//! Both run on any bytes, so that `proptest` and `cargo fuzz` drive the same code. What is wrong is told, and a panic
//! is wrong too.

mod image;

pub use image::{Forge, images};

use thermocline_engine::{DeviceError, Extent, MAX_IO_BLOCKS, UnitCondition};
use thermocline_types::Rng;

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

/// Runs a small pool whose settings the first bytes pick, with operations of the host, power cuts, kills and failing
/// commands, if `failing`, as the others say; then sees that it lives on. Returns what was wrong.
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
        0..=9 => {
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
        11 => return Some(Wish::Resize(volume, blocks + bytes.below(100))),
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
