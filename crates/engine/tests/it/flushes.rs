//! What a flush of a host waits for, and what not.

use thermocline_engine::{Config, DeviceCmd, Extent, HostRequest};
use thermocline_format::{ChunkCause, Geometry, LogicalBlock, VolumeId};
use thermocline_types::{Rng, UnitId};

use crate::memory_device::Machine;

fn is_of(cmd: &DeviceCmd<()>, cause: ChunkCause) -> bool {
    matches!(cmd, DeviceCmd::WriteChunk(chunk) if chunk.header.origin.cause == cause)
}

/// A pool that is nearly full and collects, with chunks of copies that stay on their way.
fn collecting(write_cache: bool) -> (Machine, VolumeId) {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let mut config = Config::new(geometry.expect("sound units"));
    config.placement = "sepgc".parse().expect("it is listed");
    config.write_cache = write_cache;
    let blocks = config.capacity_blocks(0) * 9 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("collected", blocks);
    let mut rng = Rng::new(5);
    let write = |machine: &mut Machine, lba| {
        let extent = Extent { volume, lba, blocks: 1 };
        machine.ask(HostRequest::Write { extent, data: (), fua: false, handle: 0 })
    };
    for lba in 0..blocks {
        write(&mut machine, lba).expect("there is room");
    }
    while machine.engine.stats().relocated_blocks == 0 {
        write(&mut machine, rng.below(blocks)).expect("there is room");
    }
    machine.settle();
    machine.held = Box::new(|cmd| is_of(cmd, ChunkCause::Relocation));
    let before = machine.engine.stats().relocated_blocks;
    while machine.engine.stats().relocated_blocks == before {
        let extent = Extent { volume, lba: rng.below(blocks), blocks: 1 };
        machine.submit(HostRequest::Write { extent, data: (), fua: false, handle: 0 });
        while machine.engine.stats().relocated_blocks == before && machine.step() {}
    }
    (machine, volume)
}

#[test]
fn a_flush_does_not_wait_for_copies() {
    for write_cache in [false, true] {
        let (mut machine, _) = collecting(write_cache);
        machine.ask(HostRequest::Flush).expect("it is flushed");
        assert!(machine.on_their_way() > 0, "copies are still on their way");
        assert_eq!(machine.engine.at_risk_blocks(), 0, "all that the host wrote is flushed");
        machine.held = Box::new(|_| false);
        machine.settle();
        machine.ask(HostRequest::Close).expect("it can be closed");
    }
}

#[test]
fn a_write_through_all_caches_does_not_wait_for_copies() {
    let (mut machine, volume) = collecting(true);
    let extent = Extent { volume, lba: 0, blocks: 1 };
    machine.ask(HostRequest::Write { extent, data: (), fua: true, handle: 0 }).expect("it is done");
    assert!(machine.on_their_way() > 0, "copies are still on their way");
}

#[test]
fn a_flush_waits_for_every_chunk_of_a_host() {
    let (mut machine, volume) = collecting(true);
    machine.held = Box::new(|cmd| is_of(cmd, ChunkCause::Host));
    let extent = Extent { volume, lba: 0, blocks: 1 };
    machine
        .ask(HostRequest::Write { extent, data: (), fua: false, handle: 0 })
        .expect("it is done");
    let flush = machine.submit(HostRequest::Flush);
    machine.settle();
    assert_eq!(machine.answer(flush), None, "the block is on its way");
    machine.held = Box::new(|_| false);
    machine.settle();
    assert_eq!(machine.answer(flush), Some(Ok(thermocline_engine::Reply::Done)));
}

/// A pool with two volumes, the first of which has `count` blocks waiting in memory, and how many the second writes.
fn waiting(count: u64, own: u64) -> (Machine, VolumeId) {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let mut machine = Machine::format(&Config::new(geometry.expect("sound units")));
    let (others, volume) = (machine.create("others", 4000), machine.create("flushed", 4000));
    for (volume, blocks) in [(others, count), (volume, own)] {
        for lba in 0..blocks {
            let extent = Extent { volume, lba, blocks: 1 };
            let write = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
            machine.ask(write).expect("there is room");
        }
    }
    (machine, volume)
}

#[test]
fn a_flush_of_a_volume_leaves_in_memory_what_others_wrote() {
    for own in [0, 1, 7, 255] {
        let (mut machine, volume) = waiting(200, own);
        let before = machine.engine.at_risk_blocks();
        machine.ask(HostRequest::FlushVolume { volume }).expect("it is flushed");
        assert_eq!(machine.engine.at_risk_blocks(), before - own, "of {own} blocks none waits");
        // All that is left can be flushed for everybody, and once more for the one.
        machine.ask(HostRequest::Flush).expect("it is flushed");
        assert_eq!(machine.engine.at_risk_blocks(), 0);
        machine.ask(HostRequest::FlushVolume { volume }).expect("it is flushed");
    }
}

#[test]
fn what_is_flushed_goes_before_what_others_wrote_before() {
    let (mut machine, volume) = waiting(200, 3);
    machine.held = Box::new(|cmd| is_of(cmd, ChunkCause::Host));
    let flush = machine.submit(HostRequest::FlushVolume { volume });
    machine.settle();
    assert_eq!(machine.answer(flush), None, "its blocks are on their way");
    assert_eq!(machine.on_their_way(), 1, "and those of no other");
    // A flush of all waits for all, those that went first among them.
    let all = machine.submit(HostRequest::Flush);
    machine.settle();
    assert_eq!(machine.answer(all), None);
    machine.held = Box::new(|_| false);
    machine.settle();
    for flush in [flush, all] {
        assert_eq!(machine.answer(flush), Some(Ok(thermocline_engine::Reply::Done)));
    }
    assert_eq!(machine.engine.at_risk_blocks(), 0);
}

#[test]
fn a_write_through_all_caches_leaves_in_memory_what_was_written_before() {
    let (mut machine, volume) = waiting(200, 50);
    let before = machine.engine.at_risk_blocks();
    for lba in [1000, 7] {
        // The second one is of a block that waits: it goes, too.
        let extent = Extent { volume, lba, blocks: 1 };
        let write = HostRequest::Write { extent, data: (), fua: true, handle: 0 };
        machine.ask(write).expect("it is done");
    }
    assert_eq!(machine.engine.at_risk_blocks(), before - 1);
}

#[test]
fn what_is_awaited_does_not_wait_for_copies_that_others_owe() {
    let (mut machine, volume) = collecting(true);
    let other = machine.create("other", 1);
    machine.settle();
    // Nothing can be copied any more.
    machine.held = Box::new(|cmd| matches!(cmd, DeviceCmd::Read { .. } | DeviceCmd::ReadChunks(_)));
    let mut rng = Rng::new(6);
    let mut write = |machine: &mut Machine, volume, blocks, fua| {
        let extent = Extent { volume, lba: rng.below(blocks), blocks: 1 };
        let id = machine.submit(HostRequest::Write { extent, data: (), fua, handle: 0 });
        machine.settle();
        machine.answer(id)
    };
    while machine.engine.staged_blocks() < machine.engine.max_staged_blocks() - 1000 {
        assert!(write(&mut machine, volume, 10_000, false).is_some(), "memory has room");
    }
    for _ in 0..2 {
        assert!(write(&mut machine, other, 1, true).is_some(), "one more goes, whatever is owed");
    }
    let passed = (0..10_000).take_while(|_| write(&mut machine, other, 1, true).is_some()).count();
    assert!((1..500).contains(&passed), "{passed} writes went before what they owe");
    machine.held = Box::new(|_| false);
    machine.settle();
    machine.ask(HostRequest::Close).expect("it can be closed");
}
