//! Blocks that cannot be read, and that an operator gives up so that their units come free.

use thermocline_engine::{Config, Engine, Extent, HostError, HostRequest, ReadPlan};
use thermocline_format::{Geometry, LogicalBlock, VolumeId};
use thermocline_types::{Rng, UnitId};

use crate::memory_device::Machine;

const BLOCKS: u64 = 11_000;

fn write(machine: &mut Machine, volume: VolumeId, lba: u64) -> Result<(), HostError> {
    let extent = Extent { volume, lba, blocks: 1 };
    machine.ask(HostRequest::Write { extent, data: (), fua: false, handle: 0 }).map(|_| ())
}

fn read(machine: &mut Machine, volume: VolumeId, lba: u64) -> Result<(), HostError> {
    let extent = Extent { volume, lba, blocks: 1 };
    machine.ask(HostRequest::Read { extent, into: () }).map(|_| ())
}

/// Overwrites every second block at random, as often as asked for.
fn overwrite(machine: &mut Machine, volume: VolumeId, count: u64) -> Result<(), HostError> {
    let mut rng = Rng::new(count);
    (0..count).try_for_each(|_| write(machine, volume, rng.below(BLOCKS / 2) * 2))
}

#[test]
fn units_with_unreadable_blocks_come_free_when_these_are_given_up() {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let mut config = Config::new(geometry.expect("sound units"));
    config.placement = "sepgc".parse().expect("it is listed");
    // Collection reads blocks and headers apart, as of blocks that fail their checks.
    config.gc.read_plan = ReadPlan::Basic;
    let open = |device| {
        let engine = Engine::open(config.clone(), 2).expect("it can work");
        let mut machine = Machine::new(engine, device);
        machine.open();
        machine.settle();
        machine
    };
    let mut machine = Machine::format(&config);
    let volume = machine.create("v", BLOCKS);
    (0..BLOCKS).for_each(|lba| write(&mut machine, volume, lba).expect("there is room"));
    machine.ask(HostRequest::Flush).expect("it is flushed");
    // Each unit has blocks that are never written again, so that only collection would free it.
    machine.device.spoil();
    let stopped = overwrite(&mut machine, volume, 100_000);
    assert_eq!(stopped, Err(HostError::Failed), "no unit can be collected");
    let mut machine = open(machine.device);
    let (mut damaged, mut given_up) = (Vec::new(), 0);
    for lba in 0..BLOCKS {
        match read(&mut machine, volume, lba) {
            Ok(()) => {}
            Err(HostError::Unreadable(_)) => damaged.push(lba),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(damaged.len() > 2000, "{} blocks cannot be read", damaged.len());
    for &lba in &damaged {
        let extent = Extent { volume, lba, blocks: 1 };
        given_up += machine.engine.give_up(extent).expect("the pool is open");
        assert_eq!(machine.engine.give_up(extent), Ok(0), "it is given up already");
    }
    assert_eq!(given_up, damaged.len() as u64);
    machine.settle();
    let lost: u64 = machine.lost.iter().map(|extent| extent.blocks).sum();
    assert_eq!(lost, given_up, "all of it is told");
    machine.ask(HostRequest::Close).expect("it closes");
    let mut machine = open(machine.device);
    for &lba in &damaged {
        assert_eq!(read(&mut machine, volume, lba), Err(HostError::Lost), "never an older version");
    }
    overwrite(&mut machine, volume, 50_000).expect("there are units again");
    write(&mut machine, volume, damaged[0]).expect("there is room");
    assert_eq!(read(&mut machine, volume, damaged[0]), Ok(()));
    let outside = Extent { volume, lba: BLOCKS, blocks: 1 };
    assert_eq!(machine.engine.give_up(outside), Err(HostError::OutOfRange));
}
