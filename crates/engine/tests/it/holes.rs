//! Recovery over chunks that are missing.

use thermocline_engine::{Config, Engine, Extent, HostRequest, Notice};
use thermocline_format::{Geometry, LogicalBlock};
use thermocline_types::UnitId;

use crate::memory_device::Machine;

/// Chunks that are replayed after the `lost`-th last of a host went missing, and how long that one was.
fn replayed_without(lost: Option<usize>) -> (u64, u32) {
    let geometry = Geometry::new(LogicalBlock::B4096, 4096, 64, [0, 1].map(UnitId));
    let mut config = Config::new(geometry.expect("sound units"));
    config.placement = "none".parse().expect("it is listed");
    config.open_despite_loss = true;
    let mut machine = Machine::format(&config);
    let volume = machine.create("holed", 1 << 14);
    for lba in (0..2048).step_by(64) {
        let extent = Extent { volume, lba, blocks: 64 };
        let write = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
        machine.ask(write).expect("there is room");
    }
    machine.ask(HostRequest::Flush).expect("it is flushed");
    let mut device = machine.device;
    let blocks = lost.map_or(0, |lost| device.lose(lost));
    let engine = Engine::open(config, 2).expect("it can work");
    let mut machine = Machine::new(engine, device);
    machine.open();
    let Some(Notice::Open { chunks, .. }) = machine.opened else { panic!("it is open") };
    (chunks, blocks)
}

#[test]
fn a_chunk_that_is_missing_hides_none_behind_it_however_long_it_was() {
    let (all, _) = replayed_without(None);
    assert!(all > 8, "{all} chunks");
    let longest = LogicalBlock::B4096.max_chunk();
    for lost in 2..6 {
        let (found, blocks) = replayed_without(Some(lost));
        assert!(blocks > longest - 8, "{blocks} of {longest}: as long as chunks of hosts are");
        assert_eq!(found, all - 1, "chunk {lost} from the end is missing");
    }
}
