//! Which superblock record counts.

use thermocline_engine::{Config, Engine, Extent, HostRequest, Notice};
use thermocline_format::{Epoch, Geometry, LogicalBlock};
use thermocline_types::UnitId;

use crate::memory_device::Machine;

/// Power fails while a record is written, so that one unit has it; the next opening cannot read that unit, and writes
/// a record of the same revision.
#[test]
fn a_record_of_the_same_revision_from_an_earlier_opening_does_not_count() {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let config = Config::new(geometry.expect("sound units"));
    let mut machine = Machine::format(&config);
    let volume = machine.create("one", 1024);
    let extent = Extent { volume, lba: 1, blocks: 1 };
    let write = HostRequest::Write { extent, data: (), fua: true, handle: 0 };
    machine.ask(write).expect("there is room");

    let newest = machine.device.record();
    let mut unread = newest.clone();
    unread.epoch = Epoch(newest.epoch.0 - 1);
    machine.device.show(unread);
    let engine = Engine::open(config, 3).expect("it can work");
    let mut machine = Machine::new(engine, machine.device);
    while machine.opened.is_none() && machine.step() {}
    assert!(matches!(machine.opened, Some(Notice::Open { .. })), "{:?}", machine.opened);
    assert_eq!(machine.engine.mapped_blocks(), 1);
}
