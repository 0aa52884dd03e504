//! What a pool holds in volumes of any number and size, and how many and how large these can be.

use thermocline_engine::{Config, Extent, HostError, HostRequest, Run};
use thermocline_format::{Geometry, LogicalBlock, MAX_ROOTS, VolumeId, VolumeName};
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

#[test]
fn a_volume_that_is_too_large_is_refused_with_the_limit() {
    let mut machine = Machine::format(&config());
    let mut create = |name: &str, blocks| {
        let name = VolumeName::new(name).expect("a name");
        machine.ask(HostRequest::CreateVolume { name, blocks }).map(|_| ())
    };
    assert_eq!(create("v", 1024 * TIB), Err(HostError::VolumeTooLarge));
    let refused = create("v", 256 * TIB).expect_err("the superblock is small");
    let HostError::TooManyRoots { needed, most } = refused else { panic!("{refused}") };
    assert!(needed == 1 << 18 && (1..needed).contains(&most), "{refused}");
    assert_eq!(
        create("v", (most << 18) + 1).err(),
        Some(HostError::TooManyRoots { needed: most + 1, most })
    );
    let text = refused.to_string();
    assert!(text.contains("larger units") && text.contains(&most.to_string()), "{text}");
    let most = MAX_ROOTS as u64;
    let text = HostError::TooManyRoots { needed: most + 1, most }.to_string();
    assert!(text.ends_with("room for 266240, which is as many as any can have"), "{text}");
    assert_eq!(HostError::VolumeTooLarge.to_string(), "a volume has 256 TiB at most");
}

#[test]
fn runs_of_pages_that_are_not_mapped_are_told_from_any_block_on() {
    let mut machine = Machine::format(&config());
    let volume = machine.create("thin", 10_000);
    write(&mut machine, volume, 5000).expect("there is room");
    let runs = |lba, blocks| machine.engine.runs(Extent { volume, lba, blocks }, 16);
    let [no, yes] = [false, true].map(|mapped| move |blocks| Run { blocks, mapped });
    assert_eq!(runs(700, 4300), Ok(vec![no(4300)]));
    assert_eq!(runs(700, 5000), Ok(vec![no(4300), yes(1), no(699)]));
    assert_eq!(runs(9999, 1), Ok(vec![no(1)]));
}
