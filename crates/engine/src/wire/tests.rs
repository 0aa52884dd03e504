use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use thermocline_format::{
    ChunkCause, Entry, Generation, LogicalBlock, MAX_HEADER_BYTES, MapEntry, Sequence, VolumeId,
    crc32c,
};
use thermocline_types::{Class, Lba};

use super::*;
use crate::device::Versions;

const POOL: PoolId = PoolId([0xA5; 16]);
const GENERATION: Generation = Generation(7 << 32 | 2);
const UNIT: UnitId = UnitId(3);

fn geometry(logical_block: LogicalBlock) -> Geometry {
    let per_unit = (4 << 20) / logical_block.bytes() as u32;
    Geometry::new(logical_block, per_unit, 6, [UnitId(0), UnitId(1)]).expect("a geometry")
}

fn origin(block: u32, sequence: u64) -> ChunkOrigin {
    ChunkOrigin {
        pool: POOL,
        location: Location { unit: UNIT, block },
        generation: GENERATION,
        epoch: Epoch(7),
        sequence: Sequence(sequence),
        durable: Sequence(0),
        revision: Revision(20),
        cause: ChunkCause::Host,
        class: Class(1),
    }
}

/// What a block of the image holds: different in each, and no chunk's first bytes.
fn content(lba: u64) -> Vec<u8> {
    (0..BLOCK_BYTES as u64).map(|index| (lba * 31 + index * 7) as u8).collect()
}

/// How a chunk of an image is made.
#[derive(Clone, Copy, Debug)]
struct Plan {
    blocks: u64,
    trims: usize,
    padding: u32,
    /// Which bit of its header is flipped, if any.
    damage: Option<prop::sample::Index>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let damage = prop::option::weighted(0.3, any::<prop::sample::Index>());
    (0..30_u64, 0..112_usize, 0..3_u32, damage).prop_map(|(blocks, trims, padding, damage)| Plan {
        blocks,
        trims,
        padding,
        damage,
    })
}

fn logical_block() -> impl Strategy<Value = LogicalBlock> {
    prop_oneof![Just(LogicalBlock::B512), Just(LogicalBlock::B4096)]
}

/// A unit that holds the planned chunks from block 0 on, and the headers of those that are not damaged.
fn image(plans: &[Plan], geometry: &Geometry) -> (Vec<u8>, Vec<ChunkHeader>) {
    let logical_block = geometry.logical_block().bytes();
    let mut unit = vec![0; geometry.blocks_per_unit() as usize * logical_block];
    let (mut block, mut sound) = (0, Vec::new());
    for (plan, sequence) in plans.iter().zip(1..) {
        let data = (0..plan.blocks).map(|nth| sequence * 100 + nth).map(|lba| Entry::Data {
            volume: VolumeId(1),
            lba: Lba(lba),
            crc: crc32c(&content(lba)),
        });
        let trim = Entry::Trim { volume: VolumeId(1), lba: Lba(0), blocks: 1 };
        let entries = data.chain(std::iter::repeat_n(trim, plan.trims)).collect();
        let header = ChunkHeader::new(origin(block, sequence), entries, geometry);
        let header = ChunkHeader { blocks: header.blocks + plan.padding, ..header };
        let chunk = Chunk {
            header: Arc::new(header),
            body: Body::User(vec![(); plan.blocks as usize]),
            packed: None,
        };
        let mut bytes = Vec::new();
        chunk_header(&chunk, &[], geometry, &mut bytes);
        let header_bits = bytes.len() * 8;
        (0..plan.blocks).for_each(|nth| bytes.extend(content(sequence * 100 + nth)));
        match plan.damage.map(|index| index.index(header_bits)) {
            Some(bit) => bytes[bit / 8] ^= 1 << (bit % 8),
            None => sound.push(ChunkHeader::clone(&chunk.header)),
        }
        let start = block as usize * logical_block;
        unit[start..start + bytes.len()].copy_from_slice(&bytes);
        block += chunk.header.blocks;
    }
    (unit, sound)
}

fn request(block: u32, search: bool) -> ReadChunks {
    let at = Location { unit: UNIT, block };
    let generation = Some(GENERATION);
    ReadChunks {
        at,
        window: 0,
        pool: POOL,
        generation,
        search,
        data: true,
        versions: Versions::AsRead,
    }
}

fn headers(found: Found) -> Vec<ChunkHeader> {
    found.chunks.into_iter().map(|found| found.header).collect()
}

proptest! {
    #[test]
    fn a_search_finds_exactly_the_undamaged_chunks(
        plans in vec(plan(), 0..12), block in logical_block(), known: bool,
    ) {
        let geometry = geometry(block);
        let (unit, sound) = image(&plans, &geometry);
        let generation = known.then_some(GENERATION);
        let found = find_chunks(&unit, &ReadChunks { generation, ..request(0, true) }, &geometry);
        prop_assert!(!found.unsound);
        prop_assert_eq!(found.next, geometry.blocks_per_unit());
        for InWindow { header, data, .. } in &found.chunks {
            let blocks = header.entries.iter().filter(|entry| entry.has_block());
            prop_assert_eq!(data.len(), blocks.clone().count() * BLOCK_BYTES);
            for (entry, bytes) in blocks.zip(unit[data.clone()].chunks(BLOCK_BYTES)) {
                let Entry::Data { crc, .. } = entry else { panic!("a block of {entry:?}") };
                prop_assert_eq!(*crc, crc32c(bytes));
            }
        }
        prop_assert_eq!(headers(found), sound);
    }

    #[test]
    fn a_walk_ends_at_the_first_damage(plans in vec(plan(), 1..12), block in logical_block()) {
        let geometry = geometry(block);
        let (unit, sound) = image(&plans, &geometry);
        let whole = plans.iter().take_while(|plan| plan.damage.is_none()).count();
        let found = find_chunks(&unit, &request(0, false), &geometry);
        prop_assert!(found.unsound);
        let end = sound[..whole].last().map_or(0, |last| last.origin.location.block + last.blocks);
        prop_assert_eq!(found.next, end);
        prop_assert_eq!(headers(found), &sound[..whole]);
    }

    #[test]
    fn windows_of_any_size_give_the_same_chunks(
        plans in vec(plan(), 0..12), block in logical_block(), window in MAX_HEADER_BYTES..200_000,
    ) {
        let geometry = geometry(block);
        let (unit, sound) = image(&plans, &geometry);
        let (mut all, mut next) = (Vec::new(), 0);
        while next < geometry.blocks_per_unit() {
            let start = next as usize * block.bytes();
            let window = window / block.bytes() * block.bytes();
            let bytes = &unit[start..unit.len().min(start + window)];
            let found = find_chunks(bytes, &request(next, true), &geometry);
            prop_assert!(found.next > next);
            for InWindow { header, data, .. } in &found.chunks {
                let first = (header.origin.location.block - next) as usize * block.bytes();
                prop_assert_eq!(data.start, first + header.header_bytes(&geometry));
                prop_assert!(data.end <= bytes.len());
                let missing = header.entries.iter().filter(|entry| entry.has_block()).count()
                    - data.len() / BLOCK_BYTES;
                prop_assert!(missing == 0 || bytes.len() - data.end < BLOCK_BYTES);
            }
            next = found.next;
            all.extend(headers(found));
        }
        prop_assert_eq!(all, sound);
    }

    #[test]
    fn arbitrary_bytes_give_nothing(bytes in vec(any::<u8>(), 0..20_000), block in 0..2000_u32) {
        for logical_block in [LogicalBlock::B512, LogicalBlock::B4096] {
            let geometry = geometry(logical_block);
            let found = find_chunks(&bytes, &request(block, true), &geometry);
            prop_assert!(found.chunks.is_empty() && found.newest.is_none());
            prop_assert!(find_superblocks(&bytes, UnitId(1), None, &geometry).is_empty());
            prop_assert_eq!(probe(&bytes, u64::from(block)), None);
        }
    }
}

/// Two sound chunks, in a geometry of 512-byte logical blocks.
fn two_chunks() -> (Geometry, Vec<u8>, Vec<ChunkHeader>) {
    let geometry = geometry(LogicalBlock::B512);
    let plan = Plan { blocks: 1, trims: 0, padding: 0, damage: None };
    let (unit, sound) = image(&[plan; 2], &geometry);
    (geometry, unit, sound)
}

#[test]
fn another_generation_is_unsound_but_tells_revision_and_epoch() {
    let (geometry, unit, _) = two_chunks();
    let other = ReadChunks { generation: Some(Generation(1)), ..request(0, false) };
    let found = find_chunks(&unit, &other, &geometry);
    let newest = Some((Revision(20), Epoch(7)));
    assert_eq!(found, Found { chunks: vec![], next: 0, unsound: true, newest });
    let found = find_chunks(&unit, &ReadChunks { search: true, ..other }, &geometry);
    let next = geometry.blocks_per_unit();
    assert_eq!(found, Found { chunks: vec![], next, unsound: false, newest });
}

#[test]
fn another_pool_or_place_is_nothing() {
    let (geometry, unit, _) = two_chunks();
    let pool = PoolId([1; 16]);
    let elsewhere = Location { unit: UnitId(4), block: 0 };
    let [found, misplaced] =
        [ReadChunks { pool, ..request(0, true) }, ReadChunks { at: elsewhere, ..request(0, true) }]
            .map(|request| find_chunks(&unit, &request, &geometry));
    assert!(found.chunks.is_empty() && found.newest.is_none());
    assert!(misplaced.chunks.is_empty() && misplaced.newest.is_none());
}

#[test]
fn what_is_read_beyond_the_unit_does_not_count() {
    let (geometry, mut unit, sound) = two_chunks();
    unit.resize(unit.len() + 4096, 0);
    let found = find_chunks(&unit, &request(0, true), &geometry);
    assert_eq!(found.next, geometry.blocks_per_unit());
    assert_eq!(headers(found), sound);
    let beyond = request(geometry.blocks_per_unit() + 1, true);
    assert_eq!(find_chunks(&unit, &beyond, &geometry).chunks, []);
}

#[test]
fn the_first_chunk_decides_on_the_generation_if_none_is_known() {
    let (geometry, mut unit, sound) = two_chunks();
    let second = &sound[1];
    let origin = ChunkOrigin { generation: Generation(1), ..second.origin };
    let mut bytes = Vec::new();
    ChunkHeader { origin, ..second.clone() }.encode(&[], &geometry, &mut bytes);
    let start = second.origin.location.block as usize * 512;
    unit[start..start + bytes.len()].copy_from_slice(&bytes);
    let unknown = ReadChunks { generation: None, ..request(0, false) };
    let found = find_chunks(&unit, &unknown, &geometry);
    assert_eq!((found.next, found.unsound), (second.origin.location.block, true));
    assert_eq!(headers(found), &sound[..1]);
}

#[test]
fn a_header_that_the_window_cuts_off_is_left_for_the_next() {
    let geometry = geometry(LogicalBlock::B512);
    let plan = Plan { blocks: 0, trims: 14, padding: 0, damage: None };
    let (unit, sound) = image(&[plan; 2], &geometry);
    assert_eq!(sound[0].header_bytes(&geometry), 1024);
    for search in [false, true] {
        let found = find_chunks(&unit[..1536], &request(0, search), &geometry);
        assert_eq!((found.next, found.unsound), (2, false));
        assert_eq!(headers(found), &sound[..1]);
    }
}

#[test]
#[should_panic(expected = "one block for each entry that has one")]
fn a_chunk_without_its_blocks_is_not_written() {
    let (geometry, _, sound) = two_chunks();
    let chunk =
        Chunk { header: Arc::new(sound[0].clone()), body: Body::<()>::User(vec![]), packed: None };
    chunk_header(&chunk, &[], &geometry, &mut Vec::new());
}

fn record(pool: PoolId, block: u32, revision: u64) -> Superblock {
    Superblock {
        pool,
        location: Location { unit: UnitId(1), block },
        revision: Revision(revision),
        epoch: Epoch(1),
        tail_epoch: Epoch(1),
        tail_end: None,
        patches: 0,
        vain: 0,
        flushed: 0,
        snapshots: false,
        checkpoint: Sequence(1),
        clean: false,
        confirmed: false,
        geometry: geometry(LogicalBlock::B512),
        next_generation: Generation(1 << 32),
        next_volume: VolumeId(1),
        volumes: Vec::new(),
        open_units: Vec::new(),
        unit_pages: vec![MapEntry::UNMAPPED],
    }
}

/// A superblock unit with a record of one logical block at each of the blocks.
fn superblock_unit(records: &[Superblock]) -> Vec<u8> {
    let mut unit = vec![0; 4 << 20];
    for record in records {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        unit[record.location.block as usize * 512..][..bytes.len()].copy_from_slice(&bytes);
    }
    unit
}

#[test]
fn superblocks_are_found_past_damage_and_none_twice() {
    let geometry = geometry(LogicalBlock::B512);
    let records = [record(POOL, 0, 4), record(POOL, 1, 5), record(POOL, 9, 3)];
    let mut unit = superblock_unit(&records);
    assert_eq!(find_superblocks(&unit, UnitId(1), Some(POOL), &geometry), records);
    unit[512 + 200] ^= 1;
    let left = [records[0].clone(), records[2].clone()];
    assert_eq!(find_superblocks(&unit, UnitId(1), Some(POOL), &geometry), left);
    assert_eq!(find_superblocks(&unit, UnitId(0), Some(POOL), &geometry), [], "of another unit");
}

#[test]
fn superblocks_of_other_pools_are_found_if_any_are_asked_for() {
    let geometry = geometry(LogicalBlock::B512);
    let records = [record(POOL, 0, 4), record(PoolId([1; 16]), 1, 5)];
    let unit = superblock_unit(&records);
    assert_eq!(find_superblocks(&unit, UnitId(1), None, &geometry), records);
    assert_eq!(find_superblocks(&unit, UnitId(1), Some(POOL), &geometry), records[..1]);
}

#[test]
fn superblocks_are_looked_for_up_to_the_length_of_the_longest() {
    let geometry = geometry(LogicalBlock::B512);
    let longest = (MAX_SUPERBLOCK_BYTES / 512) as u32;
    assert_eq!(superblock_blocks(&[], &geometry), longest);
    for (block, holds) in [(longest, true), (longest + 1, false)] {
        let records = [record(POOL, 0, 4), record(POOL, block, 5)];
        let unit = superblock_unit(&records);
        let found = find_superblocks(&unit, UnitId(1), None, &geometry);
        assert_eq!(found.len() == 2, holds);
        let end = found.last().expect("the first is found").location.block + 1;
        assert_eq!(superblock_blocks(&found, &geometry), (end + longest).min(8192));
    }
}

#[test]
fn a_pool_is_found_by_a_prefix_that_stands_where_it_says() {
    let records = [record(POOL, 2, 4)];
    let unit = superblock_unit(&records);
    // Unit 1 begins 4 MiB into the device.
    let start = 4 << 20;
    let found = probe(&unit, start).expect("it stands there");
    assert_eq!((found.pool, found.location), (POOL, records[0].location));
    assert_eq!(found.geometry, records[0].geometry);
    assert_eq!(probe(&unit[500..], start + 500), Some(found), "from any byte on");
    assert_eq!(probe(&unit, start + 512), None, "copied elsewhere");
    assert_eq!(probe(&unit[..1024 + 255], start), None, "cut off");
    assert_eq!(probe(&unit[..1024 + 256], start), Some(found));
}

#[test]
fn a_search_finds_a_chunk_that_begins_within_one_of_an_earlier_life() {
    let geometry = geometry(LogicalBlock::B512);
    let long = Plan { blocks: 2, trims: 0, padding: 0, damage: None };
    let (mut unit, earlier) = image(&[long], &geometry);
    let origin = ChunkOrigin {
        generation: Generation(earlier[0].origin.generation.0 + 1),
        location: Location { block: 5, ..earlier[0].origin.location },
        ..earlier[0].origin
    };
    let later = ChunkHeader { origin, ..earlier[0].clone() };
    let mut bytes = Vec::new();
    later.encode(&[], &geometry, &mut bytes);
    unit[5 * 512..5 * 512 + bytes.len()].copy_from_slice(&bytes);
    let request = ReadChunks { generation: None, ..request(0, true) };
    let found = find_chunks(&unit, &request, &geometry);
    assert_eq!(headers(found), [earlier[0].clone(), later]);
}
