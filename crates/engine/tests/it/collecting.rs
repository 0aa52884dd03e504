//! How garbage collection asks the device for what it copies, and how it writes that.

use std::cell::Cell;
use std::rc::Rc;

use thermocline_engine::{Config, DeviceCmd, Extent, HostRequest, ReadPlan};
use thermocline_format::{ChunkCause, Geometry, LogicalBlock};
use thermocline_types::{Rng, UnitId};

use crate::memory_device::Machine;

#[test]
fn the_next_segment_is_looked_through_while_the_one_before_is_read() {
    let geometry = Geometry::new(LogicalBlock::B4096, 1024, 64, [0, 1].map(UnitId));
    let mut config = Config::new(geometry.expect("sound units"));
    config.gc.read_plan = ReadPlan::Basic;
    let blocks = config.capacity_blocks(0) / 2;
    let mut machine = Machine::format(&config);
    let volume = machine.create("collected", blocks);
    let mut rng = Rng::new(5);
    let (reading, looking) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (reads, looks) = (Rc::clone(&reading), Rc::clone(&looking));
    // Reads of what is copied stay on their way.
    machine.held = Box::new(move |cmd| {
        let is_read = matches!(cmd, DeviceCmd::Read { .. });
        looks.set(looks.get() || reads.get() && matches!(cmd, DeviceCmd::ReadChunks(_)));
        reads.set(reads.get() || is_read);
        is_read
    });
    for lba in (0..blocks).chain(std::iter::repeat_with(|| rng.below(blocks)).take(128 * 1024)) {
        let extent = Extent { volume, lba, blocks: 1 };
        let id = machine.submit(HostRequest::Write { extent, data: (), fua: false, handle: 0 });
        while machine.answer(id).is_none() && machine.step() {}
        if reading.get() {
            machine.settle();
            assert!(
                looking.get(),
                "{} reads, and no look at what comes next",
                machine.on_their_way()
            );
            return;
        }
    }
    panic!("nothing was collected");
}

/// Blocks in a chunk of copies, in the mean, of a pool of units of `unit` logical blocks that is as full as it may be;
/// and the chunks.
fn copies_in_a_chunk(unit: u32) -> (f64, u64) {
    let geometry = Geometry::new(LogicalBlock::B4096, unit, 128, [0, 1].map(UnitId));
    let mut config = Config::new(geometry.expect("sound units"));
    config.placement = "sepgc".parse().expect("it is listed");
    config.gc.ahead_units = 8;
    let blocks = config.capacity_blocks(0) * 9 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("collected", blocks);
    let mut rng = Rng::new(5);
    let chunks = Rc::new(Cell::new(0));
    let count = Rc::clone(&chunks);
    machine.held = Box::new(move |cmd| {
        let DeviceCmd::WriteChunk(chunk) = cmd else { return false };
        count.set(count.get() + u64::from(chunk.header.origin.cause == ChunkCause::Relocation));
        false
    });
    for lba in (0..blocks).chain(std::iter::repeat_with(|| rng.below(blocks)).take(100_000)) {
        let extent = Extent { volume, lba, blocks: 1 };
        let write = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
        machine.ask(write).expect("there is room");
    }
    let copies = machine.engine.stats().relocated_blocks;
    machine.ask(HostRequest::Close).expect("nothing waits for what does not come");
    (copies as f64 / chunks.get() as f64, chunks.get())
}

#[test]
fn copies_of_several_victims_share_chunks_where_units_hold_few() {
    // A unit of 512 logical blocks holds two chunks, and a victim some 340 blocks: one and a third. They had 145 when
    // each victim had chunks of its own.
    let (mean, chunks) = copies_in_a_chunk(512);
    assert!(mean > 190.0 && chunks > 100, "{chunks} chunks of {mean} blocks");
}
