use std::collections::BTreeMap;

use thermocline_engine::Extent;
use thermocline_format::{Geometry, LogicalBlock, VolumeId, VolumeName};
use thermocline_types::{Rng, UnitId};

use super::*;
use crate::storage::{Layout, Memory};

const BLOCK: usize = 4096;

fn config(block: LogicalBlock) -> Config {
    let geometry =
        Geometry::new(block, (256 << 10) / block.bytes() as u32, 64, [UnitId(0), UnitId(1)]);
    Config::new(geometry.expect("a small pool"))
}

fn memory(config: &Config) -> Memory {
    let geometry = &config.geometry;
    Memory::new(Layout::contiguous(
        geometry.logical_block(),
        geometry.blocks_per_unit(),
        geometry.units(),
    ))
}

fn block_of(lba: u64, version: u64) -> Buffer {
    let mut bytes = vec![version as u8; BLOCK];
    bytes[..8].copy_from_slice(&lba.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    Buffer::new(thermocline_target::Buffer::from_bytes(&bytes))
}

fn volume_of<S: Storage>(driver: &mut Driver<S>, blocks: u64) -> VolumeId {
    let name = VolumeName::new("v").expect("a name");
    match driver.carry_out(HostRequest::CreateVolume { name, blocks }) {
        Ok(Reply::Created(volume)) => volume,
        other => panic!("{other:?}"),
    }
}

/// Random writes at `depth`, more than the pool holds, so that garbage is collected; then everything is read.
fn write_and_read(block: LogicalBlock, depth: usize) {
    let config = config(block);
    let storage = memory(&config).with_shuffled_completions(3);
    let mut driver = Driver::format(config, PoolId([7; 16]), storage).expect("room for a pool");
    let volume = volume_of(&mut driver, 1500);
    let mut rng = Rng::new(1);
    let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut version, mut in_flight) = (0, BTreeMap::new());
    let mut ended = Vec::new();
    while version < 20_000 || !in_flight.is_empty() {
        while version < 20_000 && in_flight.len() < depth {
            // Most go to few blocks, so that young units have little that is valid.
            let lba = if rng.below(4) == 0 { rng.below(1500) } else { rng.below(300) };
            if in_flight.values().any(|&other| other == lba) {
                break;
            }
            version += 1;
            let extent = Extent { volume, lba, blocks: 1 };
            let data = block_of(lba, version);
            // Memory holds all of the volume, so what is written again there goes to media only if it is awaited.
            let write = HostRequest::Write { extent, data, fua: version % 2 == 0, handle: 0 };
            driver.submit(RequestId(version), write).expect("room for them");
            in_flight.insert(RequestId(version), lba);
            newest.insert(lba, version);
            if version % 500 == 0 {
                assert_eq!(driver.carry_out(HostRequest::Flush), Ok(Reply::Done));
            }
        }
        driver.poll(None, &mut ended);
        for one in ended.drain(..) {
            assert_eq!(one.result, Ok(Reply::Done));
            in_flight.remove(&one.request).expect("it was submitted");
        }
    }
    assert!(driver.engine().stats().gc_units > 0, "the pool was written several times over");
    let damage = driver.notices().iter().find(|notice| matches!(notice, Notice::Damaged { .. }));
    assert_eq!(damage, None, "nothing is read from media before it is there");
    for (&lba, &version) in &newest {
        let into = Buffer::new(thermocline_target::Buffer::zeroed(BLOCK));
        let extent = Extent { volume, lba, blocks: 1 };
        let read = HostRequest::Read { extent, into: into.clone() };
        assert_eq!(driver.carry_out(read), Ok(Reply::Done));
        assert!(into.read()[..] == block_of(lba, version).read()[..], "block {lba}");
    }
    assert_eq!(driver.carry_out(HostRequest::Close), Ok(Reply::Done));
    assert_eq!(driver.carry_out(HostRequest::Flush), Err(HostError::Failed), "it is closed");
}

#[test]
fn what_was_written_is_read() {
    for depth in [1, 32, 256] {
        write_and_read(LogicalBlock::B4096, depth);
        write_and_read(LogicalBlock::B512, depth);
    }
}

#[test]
fn where_there_is_no_pool_none_opens() {
    let config = config(LogicalBlock::B4096);
    let storage = memory(&config);
    let error = Driver::open(config, storage).map(|_| ()).expect_err("nothing is there");
    assert_eq!(error, DriverError::Open(OpenError::NoPool));
}

#[test]
fn the_map_of_a_new_pool_is_loaded() {
    let config = config(LogicalBlock::B512);
    let storage = memory(&config);
    let mut driver = Driver::format(config, PoolId([1; 16]), storage).expect("room for a pool");
    assert!(driver.load_map());
    driver.clear_notices();
    assert!(driver.notices().is_empty());
}
