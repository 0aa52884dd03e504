//! Pools with a fast device: hosts' blocks arrive there, and leave it for the device with capacity.

use std::cell::Cell;
use std::rc::Rc;

use thermocline_engine::{
    Config, ConfigError, DestageConfig, DeviceCmd, Extent, HostError, HostRequest,
};
use thermocline_format::{
    Entry, Geometry, LogicalBlock, MediaClass, PoolDevice, VolumeId, VolumeMedia,
};
use thermocline_types::{DeviceId, Rng, Time, UnitId};

use crate::memory_device::Machine;

const CAPACITY: u32 = 96;

fn geometry(fast: u32) -> Geometry {
    let device = |media, first: u32, units| {
        PoolDevice::new(media, units, [UnitId(first), UnitId(first + 1)])
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
    write_run(machine, volume, lba, 1);
}

fn write_run(machine: &mut Machine, volume: VolumeId, lba: u64, blocks: u64) {
    let extent = Extent { volume, lba, blocks };
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
fn what_is_destaged_lies_by_address() {
    let (mut machine, volume, blocks) = written_over();
    let (chunks, pairs) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let seen = (Rc::clone(&chunks), Rc::clone(&pairs));
    machine.held = Box::new(move |cmd| {
        if let DeviceCmd::WriteChunk(chunk) = cmd
            && is_of_capacity(cmd)
        {
            let entries = chunk.header.entries.iter();
            let addresses: Vec<u64> = entries
                .filter_map(|entry| match entry {
                    Entry::Data { lba, .. } => Some(lba.0),
                    _ => None,
                })
                .collect();
            assert!(addresses.is_sorted(), "{addresses:?}");
            seen.0.set(seen.0.get() + 1);
            seen.1.set(seen.1.get() + addresses.len());
        }
        false
    });
    let mut rng = Rng::new(5);
    (0..blocks / 4).for_each(|_| write(&mut machine, volume, rng.below(blocks)));
    assert!(chunks.get() > 10 && pairs.get() > 50 * chunks.get(), "{chunks:?} {pairs:?}");
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

#[test]
fn maps_that_do_not_fit_on_the_fast_device_are_told_before_the_pool_is_full() {
    let config = config(24);
    let holds = |blocks: &u64| config.capacity_of(std::iter::once(*blocks)) > 0;
    let most = (0..64).map(|power| 1_u64 << power).take_while(holds).last().expect("one is held");
    assert_eq!(config.short_of_fast([most]), None);
    let (has, needed) = config.short_of_fast([2 * most]).expect("more are not");
    assert!(has < needed && needed <= 2 * has, "{has} {needed}");
    // So many are enough, and one less is not.
    assert_eq!(self::config(needed).short_of_fast([2 * most]), None);
    assert!(self::config(needed - 1).short_of_fast([2 * most]).is_some());
}

fn set_media(machine: &mut Machine, volume: VolumeId, media: VolumeMedia) {
    machine.ask(HostRequest::SetMedia { volume, media }).expect("there is a fast device");
}

#[test]
fn what_is_awaited_on_fast_media_does_not_wait_behind_what_goes_below() {
    let mut machine = Machine::format(&config(24));
    let (below, above) = (machine.create("below", 100), machine.create("above", 100));
    set_media(&mut machine, below, VolumeMedia::Capacity);
    machine.settle();
    let fast = Rc::new(Cell::new(false));
    let seen = Rc::clone(&fast);
    machine.held = Box::new(move |cmd| {
        let chunk = matches!(cmd, DeviceCmd::WriteChunk(_));
        seen.set(seen.get() || chunk && !is_of_capacity(cmd));
        is_of_capacity(cmd)
    });
    let awaited = |machine: &mut Machine, volume, lba| {
        let extent = Extent { volume, lba, blocks: 1 };
        let id = machine.submit(HostRequest::Write { extent, data: (), fua: true, handle: 0 });
        machine.settle();
        id
    };
    let mut writes: Vec<u64> = (0..10).map(|lba| awaited(&mut machine, below, lba)).collect();
    assert_eq!(machine.on_their_way(), 4, "the other six share a chunk when one of these is done");
    assert!(!fast.get());
    writes.push(awaited(&mut machine, above, 0));
    assert!(fast.get(), "it is sealed though six wait");
    machine.held = Box::new(|_| false);
    machine.settle();
    for id in writes {
        assert_eq!(machine.answer(id), Some(Ok(thermocline_engine::Reply::Done)));
    }
    assert_eq!(machine.engine.at_risk_blocks(), 0);
}

/// Blocks that were destaged of a volume, and those that were written for its host.
fn traffic(machine: &Machine, volume: VolumeId) -> (u64, u64) {
    let volumes = machine.engine.volumes();
    let info = volumes.iter().find(|info| info.id == volume).expect("it is there");
    (info.traffic.destaged_blocks, info.traffic.host_blocks_written)
}

/// A small volume beside a large one that is written at random, three times what fast devices hold.
fn beside_a_large_one(media: VolumeMedia) -> (u64, u64) {
    let config = config(24);
    let blocks = config.capacity_blocks(0) * 7 / 10;
    let mut machine = Machine::format(&config);
    let (small, large) = (machine.create("small", 1000), machine.create("large", blocks));
    set_media(&mut machine, small, media);
    (0..1000).for_each(|lba| write(&mut machine, small, lba));
    let mut rng = Rng::new(3);
    for _ in 0..3 * 24 * 256 {
        write(&mut machine, large, rng.below(blocks));
    }
    machine.ask(HostRequest::Flush).expect("it is flushed");
    assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None);
    traffic(&machine, small)
}

#[test]
fn a_fast_volume_stays_where_others_are_destaged() {
    assert_eq!(beside_a_large_one(VolumeMedia::Auto), (1000, 1000));
    assert_eq!(beside_a_large_one(VolumeMedia::Fast), (0, 1000));
    assert_eq!(beside_a_large_one(VolumeMedia::Capacity), (0, 1000));
}

#[test]
fn a_fast_volume_too_large_for_the_fast_device_overflows_and_stops_nobody() {
    let config = config(24);
    let blocks = config.capacity_blocks(0) * 8 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", blocks);
    set_media(&mut machine, volume, VolumeMedia::Fast);
    (0..blocks).for_each(|lba| write(&mut machine, volume, lba));
    let mut rng = Rng::new(4);
    (0..2 * blocks).for_each(|_| write(&mut machine, volume, rng.below(blocks)));
    let stats = machine.engine.stats();
    let written = stats.host_blocks_written + stats.relocated_blocks + stats.destaged_blocks;
    let ratio = written as f64 / stats.host_blocks_written as f64;
    assert!(stats.destaged_blocks > blocks && ratio < 6.0, "{ratio}: {stats:?}");
}

#[test]
fn what_is_on_capacity_is_flushed_there_and_survives_a_crash() {
    let config = config(24);
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", 4000);
    set_media(&mut machine, volume, VolumeMedia::Capacity);
    let before = machine.device.units_in_use();
    (0..4000).for_each(|lba| write(&mut machine, volume, lba));
    machine.settle();
    // A flush has to wait for the device that the blocks are on.
    machine.held = Box::new(|cmd| matches!(cmd, DeviceCmd::Flush(DeviceId(0))));
    let flush = machine.submit(HostRequest::Flush);
    assert_eq!(machine.answer(flush), None);
    machine.held = Box::new(|_| false);
    machine.settle();
    assert!(machine.answer(flush).is_some_and(|answer| answer.is_ok()));
    assert!(machine.device.units_in_use() >= before + 4000 / 256);
    let engine = thermocline_engine::Engine::open(config, 2).expect("it can work");
    let mut machine = Machine::new(engine, machine.device);
    machine.open();
    machine.settle();
    assert_eq!(machine.engine.volumes()[0].media, VolumeMedia::Capacity);
    assert_eq!(machine.engine.mapped_blocks(), 4000);
}

#[test]
fn a_stream_bypasses_the_fast_device_from_the_stated_length_on() {
    let mut config = config(24);
    config.bypass_bytes = 1 << 20;
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", 40_000);
    let run = |machine: &mut Machine, lba| {
        let extent = Extent { volume, lba, blocks: 64 };
        let request = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
        machine.ask(request).expect("there is room");
    };
    let fast_free = |machine: &Machine| machine.engine.free_units_of(MediaClass::Fast);
    let before = fast_free(&machine);
    (0..160).for_each(|index| run(&mut machine, index * 64));
    machine.ask(HostRequest::Flush).expect("it is flushed");
    assert!(before - fast_free(&machine) <= 2, "40 MiB of one stream");
    let mut rng = Rng::new(5);
    (0..48).for_each(|_| run(&mut machine, rng.below(600) * 64));
    machine.ask(HostRequest::Flush).expect("it is flushed");
    assert!(before - fast_free(&machine) > 8, "12 MiB here and there");
}

#[test]
fn a_pool_without_a_fast_device_has_no_media_to_choose() {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let mut machine = Machine::format(&Config::new(geometry.expect("sound units")));
    let volume = machine.create("one", 1000);
    let refused = machine.ask(HostRequest::SetMedia { volume, media: VolumeMedia::Fast });
    assert_eq!(refused, Err(HostError::NoFastDevice));
    set_media(&mut machine, volume, VolumeMedia::Auto);
}

/// Fast units with a valid block, those of metadata among them.
fn fast_units_in_use(machine: &Machine) -> u32 {
    let fast = machine.engine.geometry().units_of(MediaClass::Fast).map(UnitId);
    fast.filter(|unit| machine.engine.units().valid_count(*unit) > 0).count() as u32
}

#[test]
fn beyond_the_high_watermark_blocks_leave_until_the_low_one() {
    let mut config = config(48);
    config.destage = DestageConfig { high_units: 24, low_units: 12, ..Default::default() };
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", 20_000);
    let fill = |machine: &mut Machine, lbas: std::ops::Range<u64>| {
        lbas.step_by(128).for_each(|lba| write_run(machine, volume, lba, 128));
        machine.ask(HostRequest::Flush).expect("it is flushed");
        machine.settle();
    };
    fill(&mut machine, 0..10 * 256);
    assert_eq!(traffic(&machine, volume).0, 0, "the watermark was not passed");
    fill(&mut machine, 10 * 256..30 * 256);
    let (destaged, written) = traffic(&machine, volume);
    assert!(destaged >= 10 * 256 && written == 30 * 256, "{destaged} of {written}");
    let used = fast_units_in_use(&machine);
    assert!((8..=12).contains(&used), "{used} fast units are in use");
}

#[test]
fn what_was_on_fast_devices_for_too_long_leaves_and_fast_volumes_stay() {
    let mut config = config(48);
    config.destage.max_age = Some(Time::seconds(60));
    let mut machine = Machine::format(&config);
    let (volume, fast) = (machine.create("plain", 2000), machine.create("fast", 2000));
    set_media(&mut machine, fast, VolumeMedia::Fast);
    for lba in (0..700).step_by(10) {
        write_run(&mut machine, volume, lba, 10);
        write_run(&mut machine, fast, lba, 10);
    }
    machine.ask(HostRequest::Flush).expect("it is flushed");
    let age = |machine: &mut Machine, seconds| {
        machine.engine.handle_timeout(Time::seconds(seconds));
        machine.settle();
        (traffic(machine, volume).0, traffic(machine, fast).0)
    };
    assert_eq!(age(&mut machine, 59), (0, 0));
    assert_eq!(age(&mut machine, 60), (700, 0));
    // It is not read again and again.
    let reads = machine.engine.stats().gc_reads;
    assert_eq!(age(&mut machine, 6000), (700, 0));
    assert_eq!(machine.engine.stats().gc_reads, reads);
    set_media(&mut machine, fast, VolumeMedia::Auto);
    machine.settle();
    assert_eq!(age(&mut machine, 6059), (700, 0));
    assert_eq!(age(&mut machine, 6060), (700, 700));
    assert_eq!(machine.engine.valid_blocks_on(MediaClass::Fast), 0);
    assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None);
}

#[test]
fn no_more_fast_units_are_in_use_than_may_be_at_risk() {
    let mut config = config(48);
    config.destage.most_units = 20;
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", 20_000);
    let mut rng = Rng::new(5);
    for _ in 0..12_000 {
        write(&mut machine, volume, rng.below(20_000));
        assert!(fast_units_in_use(&machine) <= 20);
    }
    assert!(traffic(&machine, volume).0 > 4000);
    for (most_units, error) in [(4, true), (15, false), (u32::MAX, false)] {
        config.destage.most_units = most_units;
        let refused = matches!(config.check(), Err(ConfigError::FewAtRisk { units: 4, .. }));
        assert_eq!(refused, error);
    }
    config.destage = DestageConfig { high_units: 5, low_units: 6, ..Default::default() };
    assert_eq!(config.check(), Err(ConfigError::Watermarks { low: 6, high: 5 }));
}
