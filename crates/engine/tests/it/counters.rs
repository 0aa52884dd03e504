//! The engine's counters against what the device was asked for.

use thermocline_engine::{Config, Extent, HostRequest, Stats};
use thermocline_format::{Geometry, LogicalBlock};
use thermocline_types::{Rng, UnitId};

use crate::memory_device::{Asked, Machine};

#[test]
fn what_is_counted_is_what_the_device_was_asked_for() {
    for block in [LogicalBlock::B512, LogicalBlock::B4096] {
        let per_unit = 256 * block.per_block();
        let geometry = Geometry::new(block, per_unit, 64, [0, 1].map(UnitId));
        let mut config = Config::new(geometry.expect("sound units"));
        config.placement = "sepgc".parse().expect("it is listed");
        let blocks = config.capacity_blocks(0) * 8 / 10;
        let mut machine = Machine::format(&config);
        let opening = (machine.device.asked, counted(machine.engine.stats()));
        let volume = machine.create("counted", blocks);
        let mut rng = Rng::new(7);
        for round in 0..6 * blocks {
            let lba = if round < blocks { round } else { rng.below(blocks) };
            let (extent, fua) = (Extent { volume, lba, blocks: 1 }, round % 50 == 0);
            machine
                .ask(HostRequest::Write { extent, data: (), fua, handle: 0 })
                .expect("there is room");
            let staged = machine.engine.stats().host_blocks_staged;
            assert_eq!(staged, round + 1, "counted when it is answered");
        }
        machine.ask(HostRequest::Flush).expect("it is flushed");
        machine.settle();
        let stats = machine.engine.stats();
        assert!(stats.relocated_blocks > blocks && stats.checkpoints > 0, "{stats:?}");
        let gone = stats.host_blocks_written + stats.absorbed_blocks;
        assert_eq!(stats.host_blocks_staged, gone, "nothing waits any more");
        let traffic = machine.engine.volumes()[0].traffic;
        assert_eq!(traffic.host_blocks_staged, stats.host_blocks_staged);
        let now = (machine.device.asked, counted(stats));
        assert_eq!(now.0 - opening.0, now.1 - opening.1, "{block:?}");
        assert_eq!(machine.engine.at_risk_blocks(), 0);
    }
}

fn counted(stats: &Stats) -> Asked {
    Asked {
        chunks: stats.chunks,
        bytes: stats.device_bytes_written(),
        host_blocks: stats.host_blocks_written,
        relocated_blocks: stats.relocated_blocks,
        pages: stats.map_pages_written,
        superblocks: stats.superblocks,
        flushes: stats.flushes,
        resets: stats.resets,
    }
}
