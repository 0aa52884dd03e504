//! An older copy of the home device, beside newer copies of the other devices.
//!
//! A world runs to its end. The pool is opened once more, and power is cut. Then the home device is replaced by its
//! copy from before the last opening. The pool must not open: the other devices record the newer opening.

use thermocline_engine::OpenError;
use thermocline_format::Geometry;
use thermocline_types::{DeviceId, Rng, UnitId};

use crate::disk::{Disk, DiskKind, Image, Latency};
use crate::machine::{Machine, Trouble};
use crate::settings::Settings;
use crate::world::World;

/// Runs the test in a world of `seed`, if the world has several devices that can be written over.
///
/// # Errors
/// What went wrong.
pub fn older_home(seed: u64, settings: Settings) -> Result<(), String> {
    let media = settings.media;
    let mut world = World::new(seed, settings, Vec::new());
    world.run(0);
    let geometry = world.settings.config.geometry;
    if geometry.present().count() < 2 || media.kind == DiskKind::Zoned {
        return Ok(());
    }
    if let Some(wrong) = world.wrong.pop() {
        return Err(wrong);
    }
    let old = world.machine.disk.cache().current().clone();
    let open = |image: &Image| {
        let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, seed);
        let mut machine = Machine::open(world.settings.config.clone(), &world.arena, disk, seed);
        (machine.wait_until_open(), machine)
    };
    let (opened, machine) = open(&old);
    opened.map_err(|trouble| format!("the pool does not open: {trouble:?}"))?;
    let cache = machine.disk.cache();
    let state = cache.random_state(&mut Rng::new(seed));
    let mut cut = Image::new(*cache.media());
    cache.crash(&state, &mut cut);
    let home = geometry.home();
    let (opened, _) = open(&with_device(&media.geometry, &cut, &old, home));
    match opened {
        Err(Trouble::Refused(OpenError::DeviceOlder(device))) if device == home => Ok(()),
        other => Err(format!("with an older copy of the home: {other:?}")),
    }
}

/// `image` with the content of `device` taken from `other`.
///
/// # Panics
/// If the pool has no such device.
#[must_use]
pub fn with_device(geometry: &Geometry, image: &Image, other: &Image, device: DeviceId) -> Image {
    let mut both = image.clone();
    let (_, units) = geometry.device_units().nth(device.index()).expect("it is of the pool");
    units.map(UnitId).for_each(|unit| both.put(unit, 0, other.unit(unit)));
    both
}
