//! Pools of several devices, of which one is another than it was.

use thermocline_engine::{Config, OpenError};
use thermocline_format::{DeviceState, Geometry, MediaClass, PoolDevice};
use thermocline_sim::disk::{Disk, DiskKind, DiskShape, Image, Latency};
use thermocline_sim::machine::{Machine, Opened, Trouble};
use thermocline_sim::older_home::{older_home, with_device as with};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::world::World;
use thermocline_types::{DeviceId, UnitId};

/// A world on two devices without zones that was opened, written and closed or left so many times.
fn world_of_two(seed: u64) -> Option<World> {
    let settings = Settings::draw(seed, Scale::Small);
    let suits =
        settings.media.geometry.devices().len() == 2 && settings.media.kind != DiskKind::Zoned;
    suits.then(|| World::new(seed, settings, Vec::new()))
}

fn image(world: &World) -> Image {
    world.machine.disk.cache().current().clone()
}

/// Opens the pool once more and leaves it.
fn opened_again(world: &World, image: &Image) -> Image {
    let mut machine = machine(world, image);
    machine.wait_until_open().expect("a sound pool");
    machine.close().expect("a sound device");
    machine.disk.cache().current().clone()
}

fn machine(world: &World, image: &Image) -> Machine {
    let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, 1);
    Machine::open(world.settings.config.clone(), &world.arena, disk, 1)
}

fn open(world: &World, image: &Image) -> Result<Opened, Trouble> {
    machine(world, image).wait_until_open()
}

pub fn older_copies_and_strangers_are_refused() {
    let mut looked_at = 0;
    for world in (0..200).filter_map(world_of_two).take(5) {
        let geometry = world.settings.media.geometry;
        let old = image(&world);
        let once = opened_again(&world, &old);
        let twice = opened_again(&world, &once);
        assert!(open(&world, &twice).is_ok());
        let home = geometry.home();
        let other = DeviceId(1 - home.0);
        let older = Err(Trouble::Refused(OpenError::DeviceOlder(other)));
        assert_eq!(open(&world, &with(&geometry, &twice, &old, other)), older);
        assert_eq!(open(&world, &with(&geometry, &twice, &once, other)), older);
        let older = Err(Trouble::Refused(OpenError::DeviceOlder(home)));
        assert_eq!(open(&world, &with(&geometry, &twice, &old, home)), older);
        assert_eq!(open(&world, &with(&geometry, &twice, &once, home)), older);
        let blank = Image::new(world.settings.media);
        for device in [home, other] {
            let missing = Err(Trouble::Refused(OpenError::DeviceMissing(device)));
            assert_eq!(open(&world, &with(&geometry, &twice, &blank, device)), missing);
        }
        let mut config = world.settings.config.clone();
        config.open_despite_loss = true;
        for device in [home, other] {
            let mixed = with(&geometry, &twice, &once, device);
            let disk = Disk::new(&world.arena, mixed, Latency::NONE, 1);
            let mut machine = Machine::open(config.clone(), &world.arena, disk, 1);
            assert!(machine.wait_until_open().is_ok());
            let taken = machine.disk.cache().current();
            assert!(open(&world, taken).is_ok(), "it is the pool from now on");
        }
        looked_at += 1;
    }
    assert_eq!(looked_at, 5);
}

/// The configuration of a pool on one device with another device of `units` behind that one,
/// while the first is in this state; `None` if that cannot work.
fn with_another(world: &World, units: u32, state: DeviceState) -> Option<Config> {
    let now = world.settings.config.geometry;
    let begin = now.units();
    let mut devices = now.devices().to_vec();
    devices[0].state = state;
    devices.push(PoolDevice::new(MediaClass::Capacity, units, [begin, begin + 1].map(UnitId)));
    let geometry = Geometry::of_devices(now.logical_block(), now.blocks_per_unit(), &devices);
    let config = Config { geometry: geometry.ok()?, ..world.settings.config.clone() };
    config.check().is_ok().then_some(config)
}

/// What comes of opening the pool with each of these in turn, killed as soon as it is open.
fn open_in_turn(world: &World, configs: &[Config]) -> Result<Opened, Trouble> {
    let media = DiskShape { geometry: configs[0].geometry, ..world.settings.media };
    let mut image = Image::new(media);
    let old = self::image(world);
    let units = world.settings.media.geometry.units();
    (0..units).map(UnitId).for_each(|unit| image.put(unit, 0, old.unit(unit)));
    let mut opened = Err(Trouble::Stuck("nothing was opened"));
    for config in configs {
        let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, 1);
        let mut machine = Machine::open(config.clone(), &world.arena, disk, 1);
        opened = machine.wait_until_open();
        image = machine.disk.cache().current().clone();
    }
    opened
}

pub fn devices_that_cannot_leave_stay() {
    use DeviceState::{Active, Detached, Draining};
    let settings = (0..200).map(|seed| (seed, Settings::draw_plain(seed, Scale::Small)));
    let suits = |settings: &Settings| {
        settings.media.geometry.devices().len() == 1 && settings.media.kind == DiskKind::Keeping
    };
    let mut refused = [0; 2];
    for (seed, settings) in settings.filter(|(_, settings)| suits(settings)).take(12) {
        let mut world = World::new(seed, settings, Vec::new());
        world.run(0);
        let few = (3..200).find_map(|units| {
            let after = with_another(&world, units, Draining)?;
            Some([with_another(&world, units, Active)?, after])
        });
        let small = open_in_turn(&world, &few.expect("200 units are enough"));
        refused[0] += u32::from(matches!(small, Err(Trouble::Refused(OpenError::NoRoom { .. }))));
        let all = [Active, Draining, Detached].map(|state| with_another(&world, 200, state));
        let early = open_in_turn(&world, &all.map(|config| config.expect("many units")));
        let in_use = Err(Trouble::Refused(OpenError::DeviceInUse(DeviceId(0))));
        refused[1] += u32::from(early == in_use);
    }
    assert!(refused.iter().all(|count| *count > 0), "{refused:?}");
}

/// The pool without `device`, for which there is a configuration that works.
fn without(world: &World, device: DeviceId) -> Option<Config> {
    let now = world.settings.config.geometry;
    let mut devices = now.devices().to_vec();
    devices[device.index()].state = DeviceState::Lost;
    let geometry = Geometry::of_devices(now.logical_block(), now.blocks_per_unit(), &devices);
    let config = Config { geometry: geometry.ok()?, ..world.settings.config.clone() };
    config.check().is_ok().then_some(config)
}

pub fn devices_that_are_needed_are_not_given_up() {
    let mut refused = [0; 2];
    for seed in 0..400 {
        let settings = Settings::draw_plain(seed, Scale::Small);
        let geometry = settings.config.geometry;
        if geometry.devices().len() < 2 || refused.iter().all(|count| *count > 1) {
            continue;
        }
        let mut world = World::new(seed, settings, Vec::new());
        world.run(0);
        let mut killed = machine(&world, &image(&world));
        killed.wait_until_open().expect("a sound pool");
        let killed = killed.disk.cache().current().clone();
        for device in (0..geometry.devices().len() as u8).map(DeviceId) {
            let Some(config) = without(&world, device) else { continue };
            let disk = Disk::new(&world.arena, killed.clone(), Latency::NONE, 1);
            let opened = Machine::open(config, &world.arena, disk, 1).wait_until_open();
            let home = opened == Err(Trouble::Refused(OpenError::MapOn(geometry.home())));
            assert_eq!(home, device == geometry.home(), "{opened:?}");
            refused[0] += u32::from(home);
            let tail = opened == Err(Trouble::Refused(OpenError::TailOn(device)));
            refused[1] += u32::from(tail);
        }
    }
    assert!(refused.iter().all(|count| *count > 1), "{refused:?}");
}

#[test]
fn a_home_one_opening_old_is_refused() {
    for seed in 0..60 {
        assert_eq!(older_home(seed, Settings::draw(seed, Scale::Small)), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_device_with_records_or_the_tail_is_not_given_up() {
    devices_that_are_needed_are_not_given_up();
}

#[test]
fn a_device_leaves_only_when_the_others_have_room_and_it_is_empty() {
    devices_that_cannot_leave_stay();
}

#[test]
fn a_device_that_is_an_older_copy_or_no_part_of_the_pool_is_refused() {
    older_copies_and_strangers_are_refused();
}
