//! What a pool holds in volumes of any number and size.

use thermocline_engine::{Config, Extent, HostError, HostRequest};
use thermocline_format::{Geometry, LogicalBlock, VolumeId};
use thermocline_types::UnitId;

use crate::memory_device::Machine;

/// Blocks of a TiB.
const TIB: u64 = 1 << 28;

fn config() -> Config {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    Config::new(geometry.expect("sound units"))
}

fn write(machine: &mut Machine, volume: VolumeId, lba: u64) -> Result<(), HostError> {
    let extent = Extent { volume, lba, blocks: 1 };
    machine.ask(HostRequest::Write { extent, data: (), fua: false, handle: 0 }).map(|_| ())
}

#[test]
fn what_a_pool_holds_in_many_small_volumes_is_what_can_be_written() {
    let config = config();
    let sizes = [256; 600];
    let told = config.capacity_among(sizes);
    assert!(told < config.capacity_blocks(sizes.iter().sum()) * 9 / 10, "maps take room: {told}");
    let mut machine = Machine::format(&config);
    let volumes: Vec<VolumeId> =
        sizes.iter().zip(0..).map(|(&size, n)| machine.create(&format!("v{n}"), size)).collect();
    let places = (0..256).flat_map(|lba| volumes.iter().map(move |&volume| (volume, lba)));
    let mut held = 0;
    for (volume, lba) in places {
        match write(&mut machine, volume, lba) {
            Ok(()) => held += 1,
            Err(error) => {
                assert_eq!(error, HostError::NoSpace);
                break;
            }
        }
    }
    assert_eq!(held, told);
}

#[test]
fn volumes_larger_than_the_pool_take_as_much_of_it_as_what_is_in_them() {
    let config = config();
    let (none, large) = (config.capacity_among([]), config.capacity_among([TIB]));
    assert!(large > none * 9 / 10, "a sparse volume leaves room: {large} of {none}");
    assert_eq!(large, config.capacity_among([1 << 36]));
    let many = config.capacity_among(std::iter::repeat_n(256, 600).chain([TIB]));
    assert!(many > 0 && many < large, "{many} of {large}");
}
