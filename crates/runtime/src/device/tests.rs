use std::sync::Arc;
use std::time::Instant;

use tempfile::TempDir;
use thermocline_engine::wire::Encoding as _;
use thermocline_engine::{Body, Chunk, Members, Payload as _, ReadChunks, UnitCondition, Versions};
use thermocline_format::{
    BLOCK_BYTES, ChunkCause, ChunkHeader, ChunkOrigin, Entry, Epoch, Generation, Location,
    LogicalBlock, MapEntry, PageId, PoolId, Revision, Sequence, Superblock, VolumeId,
};
use thermocline_target as target;
use thermocline_types::{Class, DeviceId, Lba, UnitId, Version};

use super::*;
use crate::storage::{File, IoEngine, Layout, Memory, Options};

const POOL: PoolId = PoolId([7; 16]);

fn layout(block: LogicalBlock) -> Layout {
    Layout::contiguous(block, (1 << 20) / block.bytes() as u32, 5)
}

fn geometry(block: LogicalBlock) -> Geometry {
    let layout = layout(block);
    let superblocks = [UnitId(0), UnitId(1)];
    Geometry::new(block, layout.blocks_per_unit, layout.units, superblocks).unwrap()
}

/// Has the device carry out one command.
fn run<S: Storage>(device: &mut Device<S>, command: DeviceCmd<Buffer>) -> Done<Buffer> {
    run_all(device, vec![command]).remove(0)
}

/// Has the device carry out commands side by side; the answers in the order of the commands.
fn run_all<S: Storage>(
    device: &mut Device<S>,
    commands: Vec<DeviceCmd<Buffer>>,
) -> Vec<Done<Buffer>> {
    let count = commands.len();
    for (index, command) in commands.into_iter().enumerate() {
        device.submit(OpId(index as u64), command);
    }
    let mut answers = Vec::new();
    let began = Instant::now();
    while answers.len() < count {
        device.poll(Some(Duration::from_secs(1)), &mut answers);
        assert!(began.elapsed() < Duration::from_secs(60), "a command hangs");
    }
    answers.sort_by_key(|&(op, _)| op);
    answers.into_iter().map(|(_, result)| result.unwrap()).collect()
}

fn blocks(first: u8, count: usize) -> Buffer {
    let bytes: Vec<u8> = (0..count).flat_map(|index| [first + index as u8; BLOCK_BYTES]).collect();
    Buffer::new(target::Buffer::from_bytes(&bytes))
}

fn origin(at: Location, sequence: u64, cause: ChunkCause) -> ChunkOrigin {
    ChunkOrigin {
        pool: POOL,
        location: at,
        generation: Generation(1 << 32),
        epoch: Epoch(1),
        sequence: Sequence(sequence),
        durable: Sequence(0),
        revision: Revision(1),
        cause,
        class: Class(0),
    }
}

/// A chunk of blocks that are filled with `first` and the numbers after it, and `padding` logical blocks.
fn user_chunk(
    at: Location,
    sequence: u64,
    first: u8,
    count: usize,
    padding: u32,
    geometry: &Geometry,
) -> Arc<Chunk<Buffer>> {
    let data = blocks(first, count);
    let body: Vec<Buffer> = (0..count as u32).map(|index| data.slice(index, 1)).collect();
    let entry = |(index, block): (usize, &Buffer)| Entry::Data {
        volume: VolumeId(1),
        lba: Lba(index as u64),
        crc: block.crc(0),
    };
    let entries = body.iter().enumerate().map(entry).collect();
    let mut header = ChunkHeader::new(origin(at, sequence, ChunkCause::Host), entries, geometry);
    header.blocks += padding;
    Arc::new(Chunk { header: Arc::new(header), body: Body::User(body), packed: None })
}

fn page_chunk(at: Location, sequence: u64, geometry: &Geometry) -> Arc<Chunk<Buffer>> {
    let page = Box::new([0xAB; BLOCK_BYTES]);
    let crc = thermocline_format::crc32c(&page[..]);
    let lba = PageId { volume: VolumeId(1), index: 0 }.lba();
    let entries = vec![Entry::Data { volume: VolumeId::MAP, lba, crc }];
    let origin = origin(at, sequence, ChunkCause::Checkpoint);
    let header = ChunkHeader::new(origin, entries, geometry);
    Arc::new(Chunk { header: Arc::new(header), body: Body::Pages(vec![page]), packed: None })
}

fn superblock(at: Location, revision: u64, geometry: Geometry) -> Superblock {
    Superblock {
        pool: POOL,
        location: at,
        revision: Revision(revision),
        epoch: Epoch(1),
        tail_epoch: Epoch(1),
        tail_end: None,
        patches: 0,
        vain: 0,
        flushed: 0,
        snapshots: false,
        checkpoint: Sequence(1),
        clean: true,
        confirmed: false,
        geometry,
        next_generation: Generation(1 << 32),
        next_volume: VolumeId(1),
        volumes: Vec::new(),
        open_units: Vec::new(),
        unit_pages: vec![MapEntry::UNMAPPED; geometry.unit_pages()],
    }
}

/// Writes chunks behind each other and finds them again, headers and blocks.
fn chunks_come_back<S: Storage>(device: &mut Device<S>) {
    let geometry = *device.translator.encoding().geometry();
    let at = |block| Location::new(2, block);
    let first = user_chunk(at(0), 1, 10, 3, 0, &geometry);
    let second = user_chunk(at(first.header.blocks), 2, 20, 20, 2, &geometry);
    let pages = page_chunk(at(first.header.blocks + second.header.blocks), 3, &geometry);
    let written = [&first, &second, &pages];
    let writes = written.iter().map(|chunk| DeviceCmd::WriteChunk(Arc::clone(chunk)));
    run_all(device, writes.chain([DeviceCmd::Flush(DeviceId(0))]).collect());

    let window = geometry.blocks_per_unit();
    let request = ReadChunks {
        at: at(0),
        window,
        pool: POOL,
        generation: None,
        search: false,
        data: true,
        versions: Versions::AsRead,
    };
    let Done::Chunks(found) = run(device, DeviceCmd::ReadChunks(request)) else { panic!() };
    assert_eq!(found.chunks.len(), 3);
    for (found, written) in found.chunks.iter().zip(written) {
        assert_eq!(found.header, written.header);
        let (data, count) = found.data.as_ref().unwrap();
        for index in 0..*count {
            let expected = match &written.body {
                Body::User(blocks) => blocks[index as usize].read().to_vec(),
                Body::Pages(pages) => pages[index as usize].to_vec(),
            };
            assert!(data.slice(index, 1).read()[..] == expected, "block {index} differs");
        }
        assert_eq!(*count as usize, found.header.entries.len());
    }
    blocks_come_back(device, &second, &pages);
}

/// Reads blocks of `user` into room of ours, into room of the device, and a page.
fn blocks_come_back<S: Storage>(
    device: &mut Device<S>,
    user: &Chunk<Buffer>,
    pages: &Chunk<Buffer>,
) {
    let geometry = *device.translator.encoding().geometry();
    let place = |chunk: &Chunk<Buffer>, index: usize| {
        chunk.header.placed(&geometry).nth(index).unwrap().1.unwrap()
    };
    let into = Buffer::new(target::Buffer::zeroed(4 * BLOCK_BYTES));
    let read = |index, blocks, into| {
        let version = Version::AS_READ;
        DeviceCmd::Read { at: place(user, index), blocks, into, version }
    };
    let commands = vec![
        read(7, 2, Some(into.slice(1, 2))),
        read(0, 1, Some(into.slice(3, 1))),
        read(19, 1, None),
        DeviceCmd::ReadPage { at: place(pages, 0), version: Version::AS_READ },
    ];
    let answers = run_all(device, commands);
    let firsts: Vec<u8> = into.read().chunks(BLOCK_BYTES).map(|block| block[9]).collect();
    assert_eq!(firsts, [0, 27, 28, 20]);
    let Done::Data(alone) = &answers[2] else { panic!() };
    assert_eq!((alone.len(), alone.read()[4095]), (BLOCK_BYTES, 39));
    let Done::Page(page) = &answers[3] else { panic!() };
    assert_eq!(page[..], [0xAB; BLOCK_BYTES]);
}

fn superblocks_come_back<S: Storage>(device: &mut Device<S>) {
    let geometry = *device.translator.encoding().geometry();
    let Done::Superblocks(none) = run(device, DeviceCmd::ReadSuperblocks(Members::NONE)) else {
        panic!()
    };
    assert_eq!(none, []);
    let length = superblock(Location::new(0, 0), 1, geometry).record_bytes();
    let length = geometry.logical_block().to_hold(length);
    let places = [Location::new(0, 0), Location::new(0, length), Location::new(1, 0)];
    let records: Vec<Superblock> =
        (1..).zip(places).map(|(revision, at)| superblock(at, revision, geometry)).collect();
    let writes = records.iter().map(|record| DeviceCmd::WriteSuperblock(Arc::new(record.clone())));
    run_all(device, writes.collect());
    let Done::Superblocks(found) = run(device, DeviceCmd::ReadSuperblocks(Members::NONE)) else {
        panic!()
    };
    assert_eq!(found, records);
}

fn suite<S: Storage>(storage: S, block: LogicalBlock) {
    let mut device = Device::new(storage, geometry(block));
    let Done::Units(units) = run(&mut device, DeviceCmd::ReportUnits) else { panic!() };
    assert!(units.len() == 5 && units.iter().all(|unit| unit.condition == UnitCondition::Good));
    superblocks_come_back(&mut device);
    chunks_come_back(&mut device);
    run_all(&mut device, vec![DeviceCmd::Finish(UnitId(2)), DeviceCmd::Flush(DeviceId(0))]);
    run(&mut device, DeviceCmd::Reset(UnitId(2)));
    chunks_come_back(&mut device);
    assert!(device.jobs.is_empty());
}

#[test]
fn on_memory() {
    for block in [LogicalBlock::B512, LogicalBlock::B4096] {
        suite(Memory::new(layout(block)), block);
        suite(Memory::new(layout(block)).with_shuffled_completions(5), block);
    }
}

#[test]
fn on_files() {
    for (block, engine) in [
        (LogicalBlock::B512, IoEngine::Uring),
        (LogicalBlock::B512, IoEngine::Threads),
        (LogicalBlock::B4096, IoEngine::Uring),
        (LogicalBlock::B4096, IoEngine::Threads),
    ] {
        let directory = TempDir::new().unwrap();
        let options = Options { engine, ..Options::default() };
        match File::open(&directory.path().join("pool"), true, layout(block), &options) {
            Ok(file) => suite(file, block),
            Err(error) if engine == IoEngine::Uring => println!("SKIPPED: io_uring: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}
