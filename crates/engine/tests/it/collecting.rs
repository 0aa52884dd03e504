//! How garbage collection asks the device for what it copies.

use std::cell::Cell;
use std::rc::Rc;

use thermocline_engine::{Config, DeviceCmd, Extent, HostRequest, ReadPlan};
use thermocline_format::{Geometry, LogicalBlock};
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
