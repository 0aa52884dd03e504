//! What is told about which blocks of a volume are mapped.

use thermocline_engine::{Config, Extent, HostError, HostRequest, Run};
use thermocline_format::{Geometry, LogicalBlock};
use thermocline_types::UnitId;

use crate::memory_device::Machine;

/// Blocks that are looked at for one question.
const LOOKED_AT: u64 = 64 * 512;

#[test]
fn runs_of_mapped_blocks_are_told_as_far_as_one_question_goes() {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let config = Config::new(geometry.expect("sound units"));
    let mut machine = Machine::format(&config);
    let volume = machine.create("thin", 1 << 20);
    for lba in [0, 8, 9] {
        let extent = Extent { volume, lba, blocks: 1 };
        let write = HostRequest::Write { extent, data: (), fua: false, handle: 0 };
        machine.ask(write).expect("there is room");
    }
    let runs = |lba, blocks, count| {
        let runs = machine.engine.runs(Extent { volume, lba, blocks }, count)?;
        Ok(runs.iter().map(|&Run { blocks, mapped, .. }| (blocks, mapped)).collect::<Vec<_>>())
    };
    let all = [(1, true), (7, false), (2, true), (LOOKED_AT - 10, false)];
    assert_eq!(runs(0, 1 << 20, 16).as_deref(), Ok(&all[..]), "a bounded part of the volume");
    assert_eq!(runs(0, 1 << 20, 2).as_deref(), Ok(&all[..2]), "as many as are asked for");
    assert_eq!(runs(8, 1, 16).as_deref(), Ok(&[(1, true)][..]));
    assert_eq!(runs(1 << 20, 1, 16), Err(HostError::OutOfRange));
}
