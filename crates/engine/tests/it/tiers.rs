//! Pools with a fast device: hosts' blocks arrive there, and leave it for the device with capacity.

use thermocline_engine::{Config, ConfigError, DeviceCmd, Extent, HostRequest};
use thermocline_format::{Geometry, LogicalBlock, MediaClass, PoolDevice, VolumeId};
use thermocline_types::{DeviceId, Rng, UnitId};

use crate::memory_device::Machine;

const CAPACITY: u32 = 96;

fn geometry(fast: u32) -> Geometry {
    let device = |media, first: u32, units| PoolDevice {
        media,
        units,
        superblock_units: [UnitId(first), UnitId(first + 1)],
    };
    let devices =
        [device(MediaClass::Capacity, 0, CAPACITY), device(MediaClass::Fast, CAPACITY, fast)];
    Geometry::of_devices(LogicalBlock::B4096, 256, &devices).expect("sound devices")
}

fn config(fast: u32) -> Config {
    let mut config = Config::new(geometry(fast));
    config.placement = "sepgc".parse().expect("it is listed");
    config
}

fn write(machine: &mut Machine, volume: VolumeId, lba: u64) {
    let extent = Extent { volume, lba, blocks: 1 };
    let request = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
    machine.ask(request).expect("there is room");
}

/// A pool that is filled, and written over twice at random.
fn written_over() -> (Machine, VolumeId, u64) {
    let config = config(24);
    let blocks = config.capacity_blocks(0) * 8 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("tiered", blocks);
    (0..blocks).for_each(|lba| write(&mut machine, volume, lba));
    let mut rng = Rng::new(3);
    (0..2 * blocks).for_each(|_| write(&mut machine, volume, rng.below(blocks)));
    (machine, volume, blocks)
}

/// Whether a command is about the device with capacity.
fn is_of_capacity(cmd: &DeviceCmd<()>) -> bool {
    match cmd {
        DeviceCmd::WriteChunk(chunk) => chunk.header.origin.location.unit.0 < CAPACITY,
        DeviceCmd::Flush(device) => *device == DeviceId(0),
        _ => false,
    }
}

#[test]
fn what_stays_leaves_the_fast_device_and_what_is_overwritten_there_does_not() {
    let (machine, _, blocks) = written_over();
    let stats = machine.engine.stats();
    let left = stats.destaged_blocks;
    assert!(left >= blocks, "more is written than the fast device holds: {left} of {blocks}");
    assert!(left < 3 * blocks, "some was overwritten before it left: {left} of {blocks}");
    assert!(stats.relocated_blocks > 0, "the device with capacity is collected");
    assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None);
}

#[test]
fn a_flush_waits_for_no_device_that_nothing_of_the_host_went_to() {
    let (mut machine, volume, _) = written_over();
    machine.settle();
    machine.held = Box::new(is_of_capacity);
    for lba in 0..32 {
        write(&mut machine, volume, lba);
        machine.ask(HostRequest::Flush).expect("the fast device is flushed");
        assert_eq!(machine.engine.at_risk_blocks(), 0);
    }
    machine.held = Box::new(|_| false);
    machine.settle();
    machine.ask(HostRequest::Close).expect("it can be closed");
}

#[test]
fn too_few_fast_units_are_refused() {
    assert_eq!(config(24).check(), Ok(()));
    let needed = (4..24).find(|&units| config(units).check().is_ok()).expect("fewer will do");
    let refused = config(needed - 1).check();
    assert_eq!(refused, Err(ConfigError::FewFastUnits { units: needed - 1, needed }));
}

#[test]
fn a_fast_device_adds_nothing_to_what_a_pool_holds() {
    assert_eq!(config(24).capacity_blocks(0), config(48).capacity_blocks(0));
    let maps = config(24).capacity_blocks(1 << 30);
    assert!(maps <= config(24).capacity_blocks(0), "maps lie on the fast device");
}
