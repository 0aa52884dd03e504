//! Pools of which units go out of service.

use thermocline_engine::{Config, Extent, HostError, HostRequest, MAX_IO_BLOCKS};
use thermocline_format::{Geometry, LogicalBlock};
use thermocline_types::{Rng, UnitId};

use crate::memory_device::Machine;

const PER_UNIT: u64 = 512;

/// Blocks that a pool takes after `failing` resets failed, while all that it took before is written again and again.
fn room_after(failing: u32) -> u64 {
    let geometry = Geometry::new(LogicalBlock::B4096, PER_UNIT as u32, 96, [0, 1].map(UnitId));
    let mut config = Config::new(geometry.expect("sound units"));
    config.placement = "sepgc".parse().expect("it is listed");
    let mut machine = Machine::format(&config);
    let volume = machine.create("thin", 1 << 20);
    let write = |machine: &mut Machine, lba, blocks| {
        let extent = Extent { volume, lba, blocks };
        machine.ask(HostRequest::Write { extent, data: (), fua: false, handle: 0 })
    };
    let some = config.capacity_blocks(0) / 2;
    for lba in (0..some).step_by(MAX_IO_BLOCKS as usize) {
        write(&mut machine, lba, MAX_IO_BLOCKS).expect("there is room");
    }
    machine.device.failing_resets = failing;
    let mut rng = Rng::new(3);
    for _ in 0..6 * some {
        write(&mut machine, rng.below(some), 1).expect("there is room");
    }
    assert_eq!(machine.device.failing_resets, 0, "so many were tried");
    let mut end = some + MAX_IO_BLOCKS;
    while write(&mut machine, end, MAX_IO_BLOCKS).is_ok() {
        end += MAX_IO_BLOCKS;
    }
    assert_eq!(write(&mut machine, end, MAX_IO_BLOCKS), Err(HostError::NoSpace));
    for _ in 0..some {
        write(&mut machine, rng.below(some), 1).expect("what is there can be overwritten");
    }
    machine.ask(HostRequest::Flush).expect("the pool has not failed");
    machine.engine.mapped_blocks()
}

#[test]
fn units_out_of_service_are_missing_from_the_room_that_is_told() {
    let (whole, worn) = (room_after(0), room_after(10));
    let missing = whole - worn;
    assert!((9 * PER_UNIT..=11 * PER_UNIT).contains(&missing), "{missing} of {whole} blocks");
}
