//! Devices that are attached to a pool, drained and detached.

use thermocline_engine::{Config, Engine, Extent, HostError, HostRequest, Notice, OpenError};
use thermocline_format::{DeviceState, Geometry, LogicalBlock, MediaClass, PoolDevice, VolumeId};
use thermocline_ftl::UnitState;
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
    begun_again(machine, config)
}

/// Begins to open a pool that was closed, or is taken to be dead, with `config`.
fn begun_again(machine: Machine, config: &Config) -> Machine {
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

fn opened_again(machine: Machine, config: &Config) -> Machine {
    let mut machine = begun_again(machine, config);
    machine.open();
    machine
}

fn refused(machine: Machine, config: &Config) -> OpenError {
    refusal(reopened(machine, config))
}

fn refused_again(machine: Machine, config: &Config) -> OpenError {
    refusal(begun_again(machine, config))
}

fn refusal(mut machine: Machine) -> OpenError {
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

/// What is written goes on to the devices for capacity beside a drain, whichever device is drained, and closing the
/// pool does not wait for its end.
#[test]
fn hosts_write_while_a_device_below_fast_ones_or_a_fast_one_is_drained() {
    let (active, draining) = (DeviceState::Active, DeviceState::Draining);
    let capacity = MediaClass::Capacity;
    let states = |old, fast| {
        let fast = [(MediaClass::Fast, 64, fast), (MediaClass::Fast, 32, active)];
        config(&[[(capacity, OLD, old), (capacity, 120, active)], fast].concat())
    };
    for (drained, with) in [(0, states(draining, active)), (2, states(active, draining))] {
        let mut machine = Machine::format(&states(active, active));
        let blocks = 256 * u64::from(OLD);
        let volume = machine.create("data", blocks);
        let mut rng = Rng::new(12);
        for lba in (0..blocks).chain((0..blocks).map(|_| rng.below(blocks))) {
            write(&mut machine, volume, lba).expect("there is room");
        }
        let mut machine = opened(machine, &with);
        let device = DeviceId(drained);
        let all = machine.engine.units_in_use(device);
        let left = |machine: &Machine| machine.engine.units_in_use(device);
        let mut written = 0;
        while left(&machine) > all / 2 {
            write(&mut machine, volume, rng.below(blocks)).expect("there is room");
            written += 1;
        }
        assert!(written > 256 * u64::from(all) / 8, "{written} of the host, {all} units to drain");
        write(&mut machine, volume, 0).expect("there is room");
        machine.ask(HostRequest::Close).expect("it can be closed");
        assert!(left(&machine) > all / 8, "{} units of {all} are left", left(&machine));
    }
}

#[test]
fn a_device_is_drained_only_if_the_others_hold_what_there_is() {
    let (machine, ..) = written(0.9);
    let machine = opened(machine, &two(DeviceState::Active, 60));
    let error = refused(machine, &two(DeviceState::Draining, 60));
    assert!(matches!(error, OpenError::NoRoom { .. }), "{error}");
}

#[test]
fn empty_units_of_a_fast_device_are_none_to_drain_a_device_for_capacity_to() {
    let (active, capacity) = (DeviceState::Active, MediaClass::Capacity);
    let with = |last| {
        config(&[(capacity, OLD, active), (MediaClass::Fast, 32, active), (capacity, 120, last)])
    };
    let mut machine = Machine::format(&with(active));
    let blocks = 256 * u64::from(OLD) / 5 * 4;
    let volume = machine.create("data", blocks);
    let mut rng = Rng::new(14);
    (0..blocks).for_each(|lba| write(&mut machine, volume, lba).expect("there is room"));
    let empty = |machine: &Machine, units: std::ops::Range<u32>| {
        let all = units.map(UnitId);
        all.filter(|unit| machine.engine.units().state(*unit) == UnitState::Free).count()
    };
    // It is used as before when half of it was drained, and hosts go on, until the first device is full.
    let mut machine = opened(machine, &with(DeviceState::Draining));
    let left = |machine: &Machine| machine.engine.units_in_use(DeviceId(2));
    while left(&machine) > 10 {
        write(&mut machine, volume, rng.below(blocks)).expect("there is room");
    }
    let mut machine = opened(machine, &with(active));
    let least = machine.engine.least_empty() as usize;
    while empty(&machine, 2..OLD) >= least {
        write(&mut machine, volume, rng.below(blocks)).expect("there is room");
    }
    assert!(empty(&machine, OLD..OLD + 32) >= least, "fast units are empty all the time");
    assert_eq!(refused(machine, &with(DeviceState::Draining)), OpenError::NoFreeUnit);
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

/// A pool of a fast device and two for capacity, the second of them in this state.
fn tiered(state: DeviceState) -> Config {
    let capacity = MediaClass::Capacity;
    let active = DeviceState::Active;
    let devices = [(capacity, OLD, active), (capacity, OLD, state), (MediaClass::Fast, 32, active)];
    let mut config = config(&devices);
    // What a crash leaves is nearly all that the pool holds.
    config.checkpoint_bytes =
        config.geometry.unit_bytes() * u64::from(config.geometry.units()) / 8 * 7;
    config
}

const SECOND: std::ops::Range<u32> = OLD..2 * OLD;

/// Such a pool, written all over and at random.
fn written_on_three() -> (Machine, VolumeId, u64) {
    let config = tiered(DeviceState::Active);
    let blocks = config.capacity_blocks(0) * 7 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("data", blocks);
    let mut rng = Rng::new(13);
    for lba in (0..blocks).chain((0..blocks).map(|_| rng.below(blocks))) {
        write(&mut machine, volume, lba).expect("there is room");
    }
    assert!(chunks_on(&machine.device, SECOND) > 0, "blocks were destaged to it");
    (machine, volume, blocks)
}

fn read(machine: &mut Machine, volume: VolumeId, lba: u64) -> Result<(), HostError> {
    let extent = Extent { volume, lba, blocks: 1 };
    machine.ask(HostRequest::Read { extent, into: () }).map(|_| ())
}

#[test]
fn a_device_is_lost_and_what_was_there_is_told_and_stays_an_error() {
    let (mut machine, volume, blocks) = written_on_three();
    machine.ask(HostRequest::Close).expect("it can be closed");
    machine.device.forget(SECOND);
    let before = machine.engine.mapped_blocks();
    let mut machine = opened_again(machine, &tiered(DeviceState::Lost));
    machine.settle();
    let lost: Vec<Extent> = std::mem::take(&mut machine.lost);
    let count: u64 = lost.iter().map(|extent| extent.blocks).sum();
    assert!(count > 1000 && count == before - machine.engine.mapped_blocks(), "{count}");
    assert_eq!((machine.engine.units_in_use(DeviceId(1)), machine.engine.losing()), (0, None));
    let is_lost = |lba| lost.iter().any(|run| (run.lba..run.lba + run.blocks).contains(&lba));
    for lba in (0..blocks).step_by(7) {
        let expected = if is_lost(lba) { Err(HostError::Lost) } else { Ok(()) };
        assert_eq!(read(&mut machine, volume, lba), expected, "block {lba}");
    }
    // It is written again, or trimmed, and is a block like any other.
    let [one, other] = [lost[0].lba, lost[1].lba];
    write(&mut machine, volume, one).expect("there is room");
    let trim = Extent { volume, lba: other, blocks: 1 };
    machine.ask(HostRequest::Trim { extent: trim, fua: false }).expect("it can be trimmed");
    assert_eq!(machine.engine.mapped_blocks(), before - count + 1);
    let mut machine = opened(machine, &tiered(DeviceState::Lost));
    machine.settle();
    assert_eq!(machine.lost, [], "it was told once");
    let mut machine = opened(machine, &tiered(DeviceState::Detached));
    assert_eq!(machine.engine.mapped_blocks(), before - count + 1);
    assert_eq!(read(&mut machine, volume, one), Ok(()));
    assert_eq!(read(&mut machine, volume, other), Ok(()));
    let rest = (0..blocks).filter(|lba| is_lost(*lba) && ![one, other].contains(lba));
    for lba in rest.step_by(5) {
        assert_eq!(read(&mut machine, volume, lba), Err(HostError::Lost), "block {lba}");
    }
    // Another device takes its numbers, and none of its blocks is taken for one that was lost.
    let mut machine = opened(machine, &tiered(DeviceState::Active));
    for lba in (0..blocks).step_by(3) {
        write(&mut machine, volume, lba).expect("there is room");
    }
    machine.settle();
    assert!(chunks_on(&machine.device, SECOND) > 0);
    assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None);
}

#[test]
fn a_device_with_records_or_maps_is_not_given_up() {
    let (mut machine, ..) = written_on_three();
    machine.ask(HostRequest::Close).expect("it can be closed");
    let capacity = (MediaClass::Capacity, OLD, DeviceState::Active);
    let without_home = config(&[capacity, capacity, (MediaClass::Fast, 32, DeviceState::Lost)]);
    assert_eq!(refused_again(machine, &without_home), OpenError::MapOn(DeviceId(2)));
    // Without a fast device pages of maps are anywhere: here all were moved to the second device.
    let (machine, ..) = written(0.5);
    let machine = opened(machine, &two(DeviceState::Active, 120));
    let mut machine = opened(machine, &two(DeviceState::Draining, 120));
    machine.settle();
    let machine = opened(machine, &two(DeviceState::Active, 120));
    let lost = config(&[capacity, (MediaClass::Capacity, 120, DeviceState::Lost)]);
    assert_eq!(refused(machine, &lost), OpenError::MapOn(DeviceId(1)));
}

#[test]
fn what_a_crash_left_on_a_device_that_is_lost_is_not_passed_over_in_silence() {
    let (mut machine, ..) = written_on_three();
    machine.device.forget(SECOND);
    assert_eq!(refused_again(machine, &tiered(DeviceState::Lost)), OpenError::TailOn(DeviceId(1)));
    let (machine, volume, _) = written_on_three();
    let mut despite = tiered(DeviceState::Lost);
    despite.open_despite_loss = true;
    let mut machine = opened_again(machine, &despite);
    machine.settle();
    assert!(!machine.lost.is_empty());
    // From then on the record says so, and a second crash needs no leave.
    let mut machine = opened_again(machine, &tiered(DeviceState::Lost));
    machine.settle();
    assert_eq!(machine.engine.units_in_use(DeviceId(1)), 0);
    // And what is left takes writes.
    let mut rng = Rng::new(17);
    for _ in 0..5000 {
        write(&mut machine, volume, rng.below(1000)).expect("there is room");
    }
}
