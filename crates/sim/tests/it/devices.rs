//! Pools of several devices, of which one is another than it was.

use thermocline_engine::OpenError;
use thermocline_format::Geometry;
use thermocline_sim::disk::{Disk, DiskKind, Image, Latency};
use thermocline_sim::machine::{Machine, Opened, Trouble};
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

/// `image` with what `device` has in `other`.
fn with(geometry: &Geometry, image: &Image, other: &Image, device: DeviceId) -> Image {
    let mut both = image.clone();
    let (_, units) = geometry.device_units().nth(device.index()).expect("it is of the pool");
    units.map(UnitId).for_each(|unit| both.put(unit, 0, other.unit(unit)));
    both
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
        let blank = Image::new(world.settings.media);
        for device in [home, other] {
            let missing = Err(Trouble::Refused(OpenError::DeviceMissing(device)));
            assert_eq!(open(&world, &with(&geometry, &twice, &blank, device)), missing);
        }
        let mut config = world.settings.config.clone();
        config.open_despite_loss = true;
        let disk = Disk::new(&world.arena, with(&geometry, &twice, &old, other), Latency::NONE, 1);
        assert!(Machine::open(config, &world.arena, disk, 1).wait_until_open().is_ok());
        looked_at += 1;
    }
    assert_eq!(looked_at, 5);
}

#[test]
fn a_device_that_is_an_older_copy_or_no_part_of_the_pool_is_refused() {
    older_copies_and_strangers_are_refused();
}
