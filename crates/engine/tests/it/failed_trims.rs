//! What is said again of a trim whose write failed.

use thermocline_engine::{Config, DeviceCmd, Engine, Extent, HostRequest, Reply};
use thermocline_format::{Geometry, LogicalBlock};
use thermocline_types::UnitId;

use crate::memory_device::{Machine, is_control};

#[test]
fn a_block_that_was_written_after_its_trim_failed_is_not_trimmed_again() {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let config = Config::new(geometry.expect("sound units"));
    let mut machine = Machine::format(&config);
    let volume = machine.create("trimmed", 1024);
    let write = |lba| {
        let extent = Extent { volume, lba, blocks: 1 };
        HostRequest::Write { extent, data: (), fua: false, handle: 0 }
    };
    for lba in [1, 600] {
        machine.ask(write(lba)).expect("there is room");
    }
    machine.ask(HostRequest::Close).expect("it can be closed");

    // Opened again, with the second page of the map on its way for as long as this takes.
    let absent = machine.device.place_of_page(volume, 1).expect("it was written");
    let is_absent =
        move |cmd: &DeviceCmd<()>| matches!(cmd, DeviceCmd::ReadPage { at, .. } if *at == absent);
    let engine = Engine::open(config.clone(), 2).expect("it can work");
    let mut machine = Machine::new(engine, machine.device);
    machine.held = Box::new(is_absent);
    machine.open();
    // The trim is on its way while the block is written again; then its write fails.
    machine.held = Box::new(move |cmd| {
        is_absent(cmd) || matches!(cmd, DeviceCmd::WriteChunk(chunk) if is_control(chunk))
    });
    let extent = Extent { volume, lba: 1, blocks: 1 };
    let trim = machine.submit(HostRequest::Trim { extent, fua: false });
    machine.settle();
    let written = machine.submit(write(1));
    let flush = machine.submit(HostRequest::Flush);
    machine.settle();
    machine.device.failing_control = 1;
    machine.held = Box::new(is_absent);
    machine.settle();
    assert_eq!(machine.device.failing_control, 0, "the write of the trim failed");
    assert!(machine.on_their_way() > 0, "the page is still absent");
    machine.held = Box::new(|_| false);
    machine.settle();
    let answers = [trim, written, flush].map(|request| machine.answer(request));
    assert_eq!(answers, [Some(Ok(Reply::Done)); 3]);

    let engine = Engine::open(config, 3).expect("it can work");
    let mut machine = Machine::new(engine, machine.device);
    machine.open();
    machine.settle();
    assert_eq!(machine.engine.mapped_blocks(), 2, "what was written and flushed is there");
}

#[test]
fn a_block_that_is_written_once_more_in_memory_is_not_trimmed_again_on_media() {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let config = Config::new(geometry.expect("sound units"));
    let mut machine = Machine::format(&config);
    let volume = machine.create("trimmed", 1024);
    let extent = Extent { volume, lba: 1, blocks: 1 };
    let write = || HostRequest::Write { extent, data: (), fua: false, handle: 0 };
    machine.ask(write()).expect("there is room");
    machine.ask(HostRequest::Flush).expect("it can be flushed");

    // The trim is on its way while the block is written, and once more, which waits in memory; then its write fails.
    machine.held = Box::new(|cmd| matches!(cmd, DeviceCmd::WriteChunk(chunk) if is_control(chunk)));
    let trim = machine.submit(HostRequest::Trim { extent, fua: false });
    machine.settle();
    let written = machine.submit(write());
    let flush = machine.submit(HostRequest::Flush);
    machine.settle();
    let waits = machine.submit(write());
    machine.settle();
    machine.device.failing_control = 1;
    machine.held = Box::new(|_| false);
    machine.settle();
    assert_eq!(machine.device.failing_control, 0, "the write of the trim failed");
    let answers = [trim, written, flush, waits].map(|request| machine.answer(request));
    assert_eq!(answers, [Some(Ok(Reply::Done)); 4]);

    let engine = Engine::open(config, 3).expect("it can work");
    let mut machine = Machine::new(engine, machine.device);
    machine.open();
    machine.settle();
    assert_eq!(machine.engine.mapped_blocks(), 1, "what was written and flushed is there");
}
