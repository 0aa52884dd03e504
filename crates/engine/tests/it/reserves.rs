//! Room that is kept for single volumes, and blocks that each volume has mapped.

use std::collections::BTreeSet;

use thermocline_engine::{Config, Engine, Extent, HostError, HostRequest};
use thermocline_format::{Geometry, LogicalBlock, VolumeId};
use thermocline_types::{Rng, UnitId};

use crate::memory_device::Machine;

/// More than the pool has.
const SIZE: u64 = 1 << 16;

fn config() -> Config {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    Config::new(geometry.expect("sound units"))
}

fn write(machine: &mut Machine, volume: VolumeId, lba: u64) -> Result<(), HostError> {
    let extent = Extent { volume, lba, blocks: 1 };
    machine.ask(HostRequest::Write { extent, data: (), fua: false, handle: 0 }).map(|_| ())
}

/// Writes one new block after the other until the pool has no room. Returns how many.
fn fill(machine: &mut Machine, volume: VolumeId, step: u64) -> u64 {
    for count in 0.. {
        match write(machine, volume, count * step) {
            Ok(()) => {}
            Err(HostError::NoSpace) => return count,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("no pool is endless")
}

#[test]
fn a_volume_that_fills_the_pool_leaves_what_is_reserved_for_another() {
    // Both the densest and the sparsest way to use what is reserved: a page of the map for each block.
    for step in [1, 512] {
        let mut machine = Machine::format(&config());
        let (kept, greedy) = (machine.create("kept", 1 << 20), machine.create("greedy", SIZE));
        machine.engine.reserve_for(kept, 1000).expect("there is room");
        let taken = fill(&mut machine, greedy, 1);
        assert!(taken > 5000, "{taken} blocks");
        assert!(machine.engine.stats().refused_writes > 0);
        for lba in 0..1000 {
            assert_eq!(write(&mut machine, kept, lba * step), Ok(()), "block {lba} of 1000");
        }
        assert_eq!(write(&mut machine, greedy, 0), Ok(()), "a block that is mapped takes no room");
    }
}

#[test]
fn what_a_volume_has_mapped_counts_towards_its_reservation_and_trims_give_it_back() {
    let mut machine = Machine::format(&config());
    let (kept, greedy) = (machine.create("kept", SIZE), machine.create("greedy", SIZE));
    (0..600).for_each(|lba| write(&mut machine, kept, lba).expect("there is room"));
    machine.engine.reserve_for(kept, 1000).expect("there is room");
    assert_eq!(machine.engine.occupancy().held, 400);
    let extent = Extent { volume: kept, lba: 0, blocks: 500 };
    machine.ask(HostRequest::Trim { extent, fua: true }).expect("it is trimmed");
    assert_eq!(machine.engine.occupancy().held, 900);
    fill(&mut machine, greedy, 1);
    (0..900).for_each(|lba| write(&mut machine, kept, 1000 + lba).expect("it is reserved"));
    assert_eq!(machine.engine.occupancy().held, 0);
    machine.ask(HostRequest::DeleteVolume { volume: kept }).expect("it is deleted");
    machine.settle();
    assert!(fill(&mut machine, greedy, 1) > 5000);
}

#[test]
fn more_than_there_is_cannot_be_reserved_and_the_most_is_named() {
    let mut machine = Machine::format(&config());
    let (kept, other) = (machine.create("kept", SIZE), machine.create("other", SIZE));
    (0..300).for_each(|lba| write(&mut machine, other, lba).expect("there is room"));
    let refused = machine.engine.reserve_for(kept, SIZE).expect_err("the pool is smaller");
    let HostError::NothingToReserve { most } = refused else { panic!("{refused}") };
    assert_eq!(machine.engine.occupancy().held, 0, "nothing changed");
    assert!(machine.engine.reserve_for(kept, most + 1).is_err() && most > 5000, "{most} blocks");
    machine.engine.reserve_for(kept, most).expect("that was offered");
    assert_eq!(write(&mut machine, other, 0), Ok(()));
    machine.engine.reserve_for(kept, 100).expect("less can be kept");
    machine.engine.reserve_for(kept, 0).expect("nothing need be");
    assert_eq!(machine.engine.occupancy().held, 0);
    let gone = VolumeId(99);
    assert_eq!(machine.engine.reserve_for(gone, 1), Err(HostError::NoVolume(gone)));
}

#[test]
fn each_volume_reports_the_blocks_that_it_has_mapped_also_after_a_crash_and_with_little_memory() {
    for scarce in [false, true] {
        let mut config = config();
        let size = 96 * 512;
        if scarce {
            config.map_memory_bytes = config.least_map_memory([size, size]);
        }
        let mut machine = Machine::format(&config);
        let volumes = [machine.create("a", size), machine.create("b", size)];
        let (mut mapped, mut rng) = ([BTreeSet::new(), BTreeSet::new()], Rng::new(3));
        for _ in 0..3000 {
            let (of, lba) = (usize::from(rng.below(4) == 0), rng.below(size));
            write(&mut machine, volumes[of], lba).expect("there is room");
            mapped[of].insert(lba);
            if rng.below(5) == 0 {
                let lba = rng.below(size);
                let extent = Extent { volume: volumes[of], lba, blocks: 1 };
                machine.ask(HostRequest::Trim { extent, fua: false }).expect("it is trimmed");
                mapped[of].remove(&lba);
            }
        }
        machine.ask(HostRequest::Flush).expect("it is flushed");
        let engine = Engine::open(config.clone(), 2).expect("it can work");
        let mut machine = Machine::new(engine, machine.device);
        machine.open();
        machine.settle();
        let sum: u64 = machine.engine.volumes().iter().map(|info| info.mapped).sum();
        assert!(sum.abs_diff(machine.engine.mapped_blocks()) <= 1, "{sum} blocks in all");
        // Until each page was read once, volumes are taken for equally full where memory is scarce.
        for (volume, lba) in volumes.iter().flat_map(|of| (0..96).map(|page| (*of, page * 512))) {
            let extent = Extent { volume, lba, blocks: 1 };
            machine.ask(HostRequest::Read { extent, into: () }).expect("it is read");
        }
        for (info, mapped) in machine.engine.volumes().iter().zip(&mapped) {
            assert_eq!(info.mapped, mapped.len() as u64, "blocks of {}", info.name);
        }
    }
}
