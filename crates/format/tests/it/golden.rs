//! Images of versions 7 and 8, written by another program, decode to what they mean and encode to the same bytes.

use thermocline_format::{
    ChunkCause, ChunkHeader, ChunkOrigin, Entry, Epoch, Expected, Generation, Geometry, Location,
    LogicalBlock, MapEntry, MapPage, MediaClass, OpenUnit, PackedBlock, PageId, PoolDevice, PoolId,
    RaidLabel, RaidLevel, RaidLog, RaidShape, Revision, RowEntry, Sequence, StackLayer, Superblock,
    SuperblockPrefix, UnitEntry, UnitPage, Volume, VolumeId, VolumeMedia, VolumeName, crc32c,
    home_mark, packed_block,
};
use thermocline_types::{Class, Lba, UnitId};

pub const CHUNK: &[u8] = include_bytes!("../../testdata/chunk-v7.bin");
/// A chunk with a block in its header.
pub const PACKED: &[u8] = include_bytes!("../../testdata/chunk-packed-v7.bin");
pub const SUPERBLOCK: &[u8] = include_bytes!("../../testdata/superblock-v7.bin");
pub const CHUNK_8: &[u8] = include_bytes!("../../testdata/chunk-v8.bin");
pub const SUPERBLOCK_8: &[u8] = include_bytes!("../../testdata/superblock-v8.bin");
pub const MAP_PAGE: &[u8] = include_bytes!("../../testdata/map-page.bin");
pub const UNIT_PAGE: &[u8] = include_bytes!("../../testdata/unit-page.bin");
pub const RAID_LABEL: &[u8] = include_bytes!("../../testdata/raid-label-v7.bin");
pub const RAID_LOG: &[u8] = include_bytes!("../../testdata/raid-log-v7.bin");

pub const POOL: PoolId = PoolId([
    0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xAB, 0xAC, 0xAD, 0xAE, 0xAF,
]);
pub const CHUNK_AT: Location = Location::new(7, 24);
pub const SUPERBLOCK_AT: Location = Location::new(1, 6);
pub const PAGE: PageId = PageId { volume: VolumeId(2), index: 3 };

pub fn geometry() -> Geometry {
    let device = |media, units, pair: [u32; 2]| PoolDevice::new(media, units, pair.map(UnitId));
    let devices = [device(MediaClass::Capacity, 20, [0, 1]), device(MediaClass::Fast, 4, [23, 20])];
    Geometry::of_devices(LogicalBlock::B512, 2000, &devices)
        .expect("within the limits of a geometry")
}

pub fn expected() -> Expected {
    Expected { pool: POOL, location: CHUNK_AT, generation: Some(Generation(9 << 32 | 3)) }
}

pub fn page_parent() -> MapEntry {
    MapEntry::new(&geometry(), Location::new(4, 100), crc32c(MAP_PAGE))
}

fn name() -> VolumeName {
    VolumeName::new("db-1 täglich").expect("a name")
}

/// The blocks that the chunk holds.
fn blocks() -> [Vec<u8>; 4] {
    let counted = (0..4096_u32).map(|index| (index * 7) as u8).collect();
    [vec![0x11; 4096], counted, vec![0x33; 4096], vec![0x44; 4096]]
}

/// Where the user's block of the chunk belongs.
const HOME: Lba = Lba(0x12_3456);

fn chunk() -> ChunkHeader {
    let [first, second, third, fourth] = blocks().map(|block| crc32c(&block));
    let [one, two] = [VolumeId(1), VolumeId(2)];
    let page = |index| PageId { volume: one, index }.lba();
    let mut entries = vec![
        Entry::Data { volume: one, lba: HOME, crc: first ^ home_mark(one, HOME) },
        Entry::Data { volume: VolumeId::MAP, lba: page(77), crc: second },
        Entry::Trim { volume: one, lba: Lba(512), blocks: 64 },
        Entry::VolumeCreate { volume: two, blocks: (1 << 18) + 1 },
    ];
    entries.extend(Entry::name_parts(two, &name()));
    entries.push(Entry::VolumeResize { volume: one, blocks: 1 << 30 });
    entries.push(Entry::VolumeDelete { volume: VolumeId(3) });
    entries.push(Entry::Abandoned { sequence: Sequence(4097) });
    let (unit, generation) = (UnitId(5), Generation(8 << 32 | 9));
    entries.push(Entry::Released { unit, generation, chunks: 3, sum: u64::MAX - 7 });
    entries.push(Entry::VolumeMedia { volume: two, media: VolumeMedia::Capacity });
    let entry = MapEntry::new(&geometry(), Location::new(4, 100), 0x0765_4321);
    entries.push(Entry::Placed { volume: one, lba: Lba(513), entry, settled: true, number: 6 });
    entries.push(Entry::Data { volume: VolumeId::ROOT, lba: page(5), crc: third });
    let page = PageId::of_units(3).lba();
    entries.push(Entry::Data { volume: VolumeId::UNITS, lba: page, crc: fourth });
    let origin = ChunkOrigin {
        pool: POOL,
        location: CHUNK_AT,
        generation: Generation(9 << 32 | 3),
        epoch: Epoch(9),
        sequence: Sequence(4100),
        durable: Sequence(4096),
        revision: Revision(12),
        cause: ChunkCause::Host,
        class: Class(4),
    };
    let chunk = ChunkHeader::new(origin, entries, &geometry());
    ChunkHeader { blocks: chunk.blocks + 3, ..chunk }
}

fn superblock() -> Superblock {
    let entry = |unit, block, crc| MapEntry::new(&geometry(), Location::new(unit, block), crc);
    let first = entry(5, 300, crc32c(&blocks()[1]));
    let second = vec![entry(19, 1992, 0xFEDC_BA98), MapEntry::UNMAPPED];
    let volume = |id, name, blocks, roots| {
        let id = VolumeId(id);
        Volume { id, name, blocks, deleted: false, media: VolumeMedia::Auto, layer: None, roots }
    };
    let old = VolumeName::new("old").expect("a name");
    let open = |unit, block, generation| OpenUnit {
        next: Location::new(unit, block),
        generation: Generation(generation),
    };
    Superblock {
        pool: POOL,
        location: SUPERBLOCK_AT,
        revision: Revision(12),
        epoch: Epoch(9),
        tail_epoch: Epoch(8),
        tail_end: None,
        patches: 0,
        vain: 0,
        flushed: 0,
        snapshots: false,
        checkpoint: Sequence(4090),
        clean: false,
        confirmed: false,
        geometry: geometry(),
        next_generation: Generation(9 << 32 | 4),
        next_volume: VolumeId(4),
        volumes: vec![
            volume(1, VolumeName::default(), 1 << 18, vec![first]),
            volume(2, name(), (1 << 18) + 1, second),
            Volume { deleted: true, ..volume(3, old, 5, vec![MapEntry::UNMAPPED]) },
        ],
        open_units: vec![open(7, 24, 9 << 32 | 3), open(8, 0, 8 << 32 | 1)],
        unit_pages: vec![entry(6, 8, crc32c(UNIT_PAGE))],
    }
}

#[test]
fn chunk_of_version_5() {
    let decoded = ChunkHeader::decode(CHUNK, &expected(), &geometry()).unwrap();
    assert_eq!(decoded, chunk());
    let mut bytes = Vec::new();
    decoded.encode(&[], &geometry(), &mut bytes);
    assert_eq!(bytes, CHUNK[..decoded.header_bytes(&geometry())]);
    assert_eq!(CHUNK.len(), decoded.blocks as usize * 512);
}

#[test]
fn blocks_of_a_chunk_are_where_its_entries_place_them() {
    let chunk = chunk();
    let placed: Vec<(Entry, Location)> =
        chunk.placed(&geometry()).filter_map(|(entry, at)| Some((*entry, at?))).collect();
    assert_eq!(placed.len(), 4);
    for ((entry, at), block) in placed.into_iter().zip(blocks()) {
        let Entry::Data { volume, lba, crc } = entry else { panic!() };
        let start = (at.block - CHUNK_AT.block) as usize * 512;
        let bytes = &CHUNK[start..start + 4096];
        assert_eq!(bytes, block);
        assert_eq!(crc32c(bytes) ^ home_mark(volume, lba), crc);
    }
}

#[test]
fn a_block_lies_packed_in_the_header_of_its_chunk() {
    let geometry = Geometry::new(LogicalBlock::B4096, 2000, 20, [UnitId(0), UnitId(1)]).unwrap();
    let decoded = ChunkHeader::decode(PACKED, &expected(), &geometry).unwrap();
    assert_eq!(decoded.packed, Some(PackedBlock { entry: 1, bytes: 26 }));
    assert_eq!((decoded.blocks, decoded.entries.len()), (4, 3), "one block of padding");
    let packed = &PACKED[96 + 3 * 15..][..26];
    let mut bytes = Vec::new();
    decoded.encode(packed, &geometry, &mut bytes);
    assert_eq!(bytes, PACKED[..4096]);
    let unpacked = packed_block(PACKED, &expected(), &geometry).unwrap();
    assert_eq!(unpacked[..], [0x22; 4096]);
    let mut blocks = [0, 0, 0];
    for (nth, (entry, at)) in decoded.placed(&geometry).enumerate() {
        let Entry::Data { volume, lba, crc } = *entry else { panic!() };
        let nth_block = (at.unwrap().block - CHUNK_AT.block) as usize;
        let raw = &PACKED[nth_block * 4096..][..4096];
        let block = if nth == 1 { &unpacked[..] } else { raw };
        assert_eq!(crc32c(block) ^ home_mark(volume, lba), crc);
        blocks[nth] = nth_block;
    }
    assert_eq!(blocks, [1, 0, 2]);
}

#[test]
fn superblock_of_version_5() {
    let decoded = Superblock::decode(SUPERBLOCK, SUPERBLOCK_AT, Some(POOL)).unwrap();
    assert_eq!(decoded, superblock());
    let mut bytes = Vec::new();
    decoded.encode(&mut bytes);
    assert_eq!(bytes, SUPERBLOCK);
    let prefix = SuperblockPrefix::probe(SUPERBLOCK).unwrap();
    assert_eq!(prefix.geometry, geometry());
    assert_eq!((prefix.location, prefix.record_bytes), (SUPERBLOCK_AT, SUPERBLOCK.len()));
}

#[test]
fn superblock_of_a_pool_with_a_snapshot() {
    let mut expected = Superblock { snapshots: true, ..superblock() };
    let user = |id| StackLayer {
        user: VolumeId(id),
        below: None,
        least: 1 << 18,
        frozen: true,
        nameless: false,
        clone: false,
    };
    expected.volumes[0].layer = Some(user(2));
    let below = Some(VolumeId(1));
    let least = (1 << 18) - 1;
    expected.volumes[1].layer = Some(StackLayer { below, least, frozen: false, ..user(1) });
    let decoded = Superblock::decode(SUPERBLOCK_8, SUPERBLOCK_AT, Some(POOL)).unwrap();
    assert_eq!(decoded, expected);
    let mut bytes = Vec::new();
    decoded.encode(&mut bytes);
    assert_eq!(bytes, SUPERBLOCK_8);
}

#[test]
fn chunk_with_entries_of_snapshots() {
    let decoded = ChunkHeader::decode(CHUNK_8, &expected(), &geometry()).unwrap();
    let [one, two] = [VolumeId(1), VolumeId(2)];
    let entries = [
        Entry::VolumeSnapshot { volume: one, layer: two, blocks: (1 << 18) + 1 },
        Entry::LayerHole { volume: two, lba: Lba(512), blocks: 64 },
        Entry::LayerDelete { volume: one },
    ];
    assert_eq!(decoded, ChunkHeader::new(chunk().origin, entries.to_vec(), &geometry()));
    let mut bytes = Vec::new();
    decoded.encode(&[], &geometry(), &mut bytes);
    assert_eq!(bytes, CHUNK_8);
}

#[test]
fn map_page_of_any_version() {
    let decoded = MapPage::decode(MAP_PAGE, PAGE, page_parent(), &geometry()).unwrap();
    for (index, entry) in (0_u32..).zip(decoded.0.iter()) {
        let place = Location::new(2 + index % 18, index * 3 % 1990);
        let unmapped = index % 3 == 0;
        assert_eq!(entry.location(&geometry()), (!unmapped).then_some(place));
        assert_eq!(entry.matches(crc32c(&[index as u8])), !unmapped);
    }
    assert_eq!(decoded.encode(), MAP_PAGE);
}

#[test]
fn unit_page_of_any_version() {
    let parent = superblock().unit_pages[0];
    let decoded = UnitPage::decode(UNIT_PAGE, 0, parent, &geometry()).unwrap();
    for (unit, entry) in (0_u32..).zip(decoded.0.iter()) {
        let held = UnitEntry {
            generation: Generation(9 << 32 | u64::from(unit)),
            valid: unit * 3,
            class: Class((unit % 5) as u8),
        };
        let free = !(2..20).contains(&unit) || unit % 4 == 0;
        assert_eq!(*entry, if free { UnitEntry::FREE } else { held });
    }
    assert_eq!(decoded.encode(), UNIT_PAGE);
}

#[test]
fn label_and_log_of_a_group_of_version_7() {
    let label = RaidLabel::decode(RAID_LABEL, Some(POOL)).unwrap();
    let shape = RaidShape {
        level: RaidLevel::Parity,
        members: 4,
        logical_block: LogicalBlock::B512,
        unit_blocks: 2048,
        units: 60,
        piece: 16_384,
        slots: 32,
    };
    let (group, open, announced) = (0x1122_3344_5566_7788, true, false);
    let (event, floor, current, filling, filled) = (1000, 999, 0b1101, Some(1), 17);
    let (device, member, pool) = (1, 2, POOL);
    let expected = RaidLabel {
        pool,
        group,
        device,
        member,
        shape,
        event,
        floor,
        current,
        filling,
        filled,
        open,
        announced,
    };
    assert_eq!(label, expected);
    assert_eq!(label.encode(), RAID_LABEL);
    let log = RaidLog::decode(RAID_LOG, POOL, &shape).unwrap();
    let first = RowEntry { slot: 5, unit: 0, row: 1, filled: 512, crcs: vec![1, 2, 3] };
    let crcs = vec![0xDEAD_BEEF, 0, 7];
    let second = RowEntry { slot: 9, unit: 7, row: 2, filled: 40_960, crcs };
    let rows = vec![first, second];
    assert_eq!(log, RaidLog { pool, group, member, round: 77, rows });
    assert_eq!(log.encode(&shape), RAID_LOG);
}
