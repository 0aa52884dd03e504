//! Devices that are attached to a pool, drained and detached.

use thermocline_engine::{Config, Engine, Extent, HostError, HostRequest, Notice, OpenError};
use thermocline_format::{DeviceState, Geometry, LogicalBlock, MediaClass, PoolDevice, VolumeId};
use thermocline_types::{DeviceId, Rng, UnitId};

use crate::memory_device::{Machine, MemoryDevice};

const OLD: u32 = 96;

/// Devices of these classes, units and states, one behind the other.
fn config(devices: &[(MediaClass, u32, DeviceState)]) -> Config {
    let mut begin = 0;
    let device = |&(media, units, state): &(MediaClass, u32, DeviceState)| {
        let superblocks = [begin, begin + 1].map(UnitId);
        begin += units;
        PoolDevice { state, ..PoolDevice::new(media, units, superblocks) }
    };
    let devices: Vec<PoolDevice> = devices.iter().map(device).collect();
    let geometry = Geometry::of_devices(LogicalBlock::B4096, 256, &devices);
    let mut config = Config::new(geometry.expect("sound devices"));
    config.placement = "sepgc".parse().expect("it is listed");
    config
}

fn one(units: u32) -> Config {
    config(&[(MediaClass::Capacity, units, DeviceState::Active)])
}

fn two(state: DeviceState, units: u32) -> Config {
    let capacity = MediaClass::Capacity;
    config(&[(capacity, OLD, state), (capacity, units, DeviceState::Active)])
}

fn write(machine: &mut Machine, volume: VolumeId, lba: u64) -> Result<(), HostError> {
    let extent = Extent { volume, lba, blocks: 1 };
    let request = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
    machine.ask(request).map(|_| ())
}

/// A pool of one device of which `share` of a volume as large as it holds is written, all over and at random.
fn written(share: f64) -> (Machine, VolumeId, u64) {
    let config = one(OLD);
    let blocks = (config.capacity_blocks(0) as f64 * share) as u64;
    let mut machine = Machine::format(&config);
    let volume = machine.create("data", blocks);
    let mut rng = Rng::new(7);
    for lba in (0..blocks).chain((0..blocks).map(|_| rng.below(blocks))) {
        write(&mut machine, volume, lba).expect("there is room");
    }
    (machine, volume, blocks)
}

/// Closes the pool and begins to open it with `config`.
fn reopened(mut machine: Machine, config: &Config) -> Machine {
    machine.ask(HostRequest::Close).expect("it can be closed");
    let mut device = machine.device;
    device.use_as(config.geometry);
    Machine::new(Engine::open(config.clone(), 1).expect("it can work"), device)
}

/// As [`reopened`], until it takes requests.
fn opened(machine: Machine, config: &Config) -> Machine {
    let mut machine = reopened(machine, config);
    machine.open();
    machine
}

fn refused(machine: Machine, config: &Config) -> OpenError {
    let mut machine = reopened(machine, config);
    while machine.opened.is_none() {
        assert!(machine.step(), "opening comes to nothing");
    }
    match machine.opened {
        Some(Notice::OpenFailed(error)) => error,
        other => panic!("it was not refused: {other:?}"),
    }
}

fn chunks_on(device: &MemoryDevice, units: std::ops::Range<u32>) -> usize {
    units.map(|unit| device.chunks_in(UnitId(unit))).sum()
}

#[test]
fn a_pool_moves_from_one_device_to_another_while_it_is_written() {
    let (machine, volume, blocks) = written(0.9);
    let before = machine.engine.mapped_blocks();
    let machine = opened(machine, &two(DeviceState::Active, 120));
    let mut machine = opened(machine, &two(DeviceState::Draining, 120));
    assert_eq!(machine.engine.geometry().home(), DeviceId(1));
    let mut rng = Rng::new(9);
    let on_old = chunks_on(&machine.device, 2..OLD);
    for _ in 0..blocks {
        write(&mut machine, volume, rng.below(blocks)).expect("there is room");
    }
    machine.settle();
    assert_eq!(machine.engine.units_in_use(DeviceId(0)), 0, "of {on_old} chunks");
    assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None);
    let mut machine = opened(machine, &two(DeviceState::Detached, 120));
    machine.device.forget(0..OLD);
    for _ in 0..2 * blocks {
        write(&mut machine, volume, rng.below(blocks)).expect("there is room");
    }
    assert_eq!(machine.engine.mapped_blocks(), before);
    assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None);
    let machine = opened(machine, &two(DeviceState::Detached, 120));
    assert_eq!(machine.engine.mapped_blocks(), before);
    assert_eq!(chunks_on(&machine.device, 0..OLD), 0, "nothing is written to it any more");
}

#[test]
fn a_fast_device_comes_to_a_pool_and_leaves_it() {
    let (machine, volume, blocks) = written(0.8);
    let with_fast = |state| {
        config(&[(MediaClass::Capacity, OLD, DeviceState::Active), (MediaClass::Fast, 32, state)])
    };
    let mut machine = opened(machine, &with_fast(DeviceState::Active));
    let mut rng = Rng::new(11);
    for _ in 0..2 * blocks {
        write(&mut machine, volume, rng.below(blocks)).expect("there is room");
    }
    assert!(machine.engine.stats().destaged_blocks > 0, "hosts' blocks arrive on it");
    let mut machine = opened(machine, &with_fast(DeviceState::Draining));
    for _ in 0..blocks {
        write(&mut machine, volume, rng.below(blocks)).expect("there is room");
    }
    machine.settle();
    assert_eq!(machine.engine.units_in_use(DeviceId(1)), 0);
    let mut machine = opened(machine, &with_fast(DeviceState::Detached));
    machine.device.forget(OLD..OLD + 32);
    for _ in 0..blocks {
        write(&mut machine, volume, rng.below(blocks)).expect("there is room");
    }
    assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None);
}

#[test]
fn a_device_is_drained_only_if_the_others_hold_what_there_is() {
    let (machine, ..) = written(0.9);
    let machine = opened(machine, &two(DeviceState::Active, 60));
    let error = refused(machine, &two(DeviceState::Draining, 60));
    assert!(matches!(error, OpenError::NoRoom { .. }), "{error}");
}

#[test]
fn a_device_is_detached_only_when_it_is_drained() {
    let (machine, ..) = written(0.5);
    let machine = opened(machine, &two(DeviceState::Active, 120));
    let error = refused(machine, &two(DeviceState::Detached, 120));
    assert_eq!(error, OpenError::OtherGeometry, "it was never drained");
    let (machine, ..) = written(0.5);
    let machine = opened(machine, &two(DeviceState::Active, 120));
    let mut machine = reopened(machine, &two(DeviceState::Draining, 120));
    machine.open();
    // Killed: nothing was copied yet.
    let mut device = machine.device;
    let config = two(DeviceState::Detached, 120);
    device.use_as(config.geometry);
    let mut machine = Machine::new(Engine::open(config, 1).expect("it can work"), device);
    while machine.opened.is_none() {
        assert!(machine.step(), "opening comes to nothing");
    }
    let refused = Notice::OpenFailed(OpenError::DeviceInUse(DeviceId(0)));
    assert_eq!(machine.opened, Some(refused));
}

#[test]
fn draining_can_be_called_off() {
    let (machine, volume, blocks) = written(0.9);
    let machine = opened(machine, &two(DeviceState::Active, 120));
    let machine = opened(machine, &two(DeviceState::Draining, 120));
    let mut machine = opened(machine, &two(DeviceState::Active, 120));
    let free = machine.engine.free_units();
    assert!(free > 100, "units of both are free: {free}");
    for lba in 0..blocks {
        write(&mut machine, volume, lba).expect("there is room");
    }
    assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None);
}
