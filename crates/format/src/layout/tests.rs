//! `docs/develop/FORMAT.md` and `docs/use/GROUPS.md` say what the code does.

use std::collections::BTreeMap;
use std::mem::offset_of;

use super::*;
use crate::entry::kind;
use crate::{
    BLOCK_BYTES, BLOCKS_PER_ROOT, ChunkCause, MAX_EPOCH, MAX_NAME_BYTES, MAX_NUMBER,
    MAX_OPEN_UNITS, MAX_ROOTS, MAX_SUPERBLOCK_BYTES, MAX_UNITS, MAX_VOLUME_BLOCKS, MAX_VOLUMES,
    MIN_UNIT_BYTES, PAGE_ENTRIES, PAGE_UNITS,
};

const DOCUMENTS: [&str; 2] = [
    include_str!("../../../../docs/develop/FORMAT.md"),
    include_str!("../../../../docs/use/GROUPS.md"),
];

/// The cells of the rows of the table that follows the comment `marker`, without head and rule.
fn table(marker: &str) -> Vec<Vec<&'static str>> {
    let comment = format!("<!-- {marker} -->\n");
    let mut behind = DOCUMENTS.iter().flat_map(|document| document.split(&comment).skip(1));
    let rest = behind.next().unwrap_or_else(|| panic!("no {comment}"));
    assert!(behind.next().is_none(), "twice {comment}");
    let rows = rest.lines().take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Name, offset and size of a field.
type Field = (&'static str, usize, usize);

/// The fields of a structure: offsets from the compiler, sizes by the start of the next field.
macro_rules! fields {
    ($raw:ty: $($field:ident),* $(,)?) => {{
        let starts = [$((stringify!($field), offset_of!($raw, $field))),*];
        let ends = starts.iter().skip(1).map(|start| start.1).chain([size_of::<$raw>()]);
        let sized = starts.iter().zip(ends).map(|((name, start), end)| (*name, *start, end - start));
        sized.collect::<Vec<Field>>()
    }};
}

/// The fields that the document lists, which must follow each other without gaps up to the stated size.
fn documented(name: &str, bytes: usize) -> Vec<Field> {
    let mut end = 0;
    let mut fields = Vec::new();
    for row in table(&format!("layout {name} {bytes}")) {
        let (offset, size) = (row[0].parse().unwrap(), row[1].parse::<usize>().unwrap());
        assert_eq!(offset, end, "{name}.{}", row[2]);
        end = offset + size;
        fields.push((row[2], offset, size));
    }
    assert_eq!(end, bytes, "{name}");
    fields
}

#[test]
fn layouts_are_as_documented() {
    let chunk = fields!(ChunkPrefixRaw: magic, version, cause, class, epoch, pool, unit, block, generation,
        sequence, durable, revision, lines, header_bytes, blocks, packed_entry, packed_bytes, rest_crc,
        prefix_crc);
    assert_eq!(documented("ChunkPrefix", size_of::<ChunkPrefixRaw>()), chunk);
    let entry = fields!(BlockEntryRaw: kind, reserved, volume, lba, crc);
    assert_eq!(documented("BlockEntry", size_of::<BlockEntryRaw>()), entry);
    let entry = fields!(ControlEntryRaw: kind, part, reserved, volume, lba, argument, count);
    assert_eq!(documented("ControlEntry", size_of::<ControlEntryRaw>()), entry);
    let superblock = fields!(SuperblockPrefixRaw: magic, version, flags, epoch, pool, unit, block, revision,
        checkpoint, next_generation, tail_epoch, record_bytes, logical_block, blocks_per_unit,
        next_volume, volumes, open_units, roots, tail_end, device_count, patches, vain, flushed,
        devices, rest_crc, prefix_crc);
    assert_eq!(documented("SuperblockPrefix", size_of::<SuperblockPrefixRaw>()), superblock);
    let device = fields!(DeviceRaw: units, superblock_units, media, state, reserved);
    assert_eq!(documented("Device", size_of::<DeviceRaw>()), device);
    let volume = fields!(VolumeRaw: volume, name_bytes, flags, reserved, blocks, name);
    assert_eq!(documented("Volume", size_of::<VolumeRaw>()), volume);
    let layer = fields!(LayerRaw: user, below, least);
    assert_eq!(documented("Layer", size_of::<LayerRaw>()), layer);
    let label = fields!(RaidLabelRaw: magic, version, level, flags, members, member, device, filling, pool, group,
        event, floor, units, unit_blocks, logical_block, piece, slots, filled, current, unused, prefix_crc);
    assert_eq!(documented("RaidLabel", size_of::<RaidLabelRaw>()), label);
    let log = fields!(RaidLogRaw: magic, version, member, reserved, rows, pool, group, round, unused, rest_crc,
        prefix_crc);
    assert_eq!(documented("RaidLog", size_of::<RaidLogRaw>()), log);
    let row = fields!(RowEntryRaw: slot, unit, row, filled);
    assert_eq!(documented("RowEntry", size_of::<RowEntryRaw>()), row);
    let unit = fields!(UnitRaw: generation, valid, class, reserved);
    assert_eq!(documented("Unit", size_of::<UnitRaw>()), unit);
}

#[test]
fn limits_are_as_documented() {
    let code: BTreeMap<&str, u64> = BTreeMap::from([
        ("`VERSION`", VERSION.into()),
        ("`BLOCK_BYTES`", BLOCK_BYTES as u64),
        ("`MAX_DEVICES`", MAX_DEVICES as u64),
        ("`MIN_UNIT_BYTES`", MIN_UNIT_BYTES),
        ("`MAX_CHUNK_BYTES`", MAX_CHUNK_BYTES as u64),
        ("`MAX_HEADER_BYTES`", MAX_HEADER_BYTES as u64),
        ("`MAX_LINES`", MAX_LINES as u64),
        ("`MAX_EPOCH`", MAX_EPOCH.into()),
        ("`MAX_NUMBER`", MAX_NUMBER),
        ("`MAX_VOLUMES`", MAX_VOLUMES as u64),
        ("`MAX_OPEN_UNITS`", MAX_OPEN_UNITS as u64),
        ("`MAX_ROOTS`", MAX_ROOTS as u64),
        ("`MAX_SUPERBLOCK_BYTES`", MAX_SUPERBLOCK_BYTES as u64),
        ("`MAX_NAME_BYTES`", MAX_NAME_BYTES as u64),
        ("`MAX_VOLUME_BLOCKS`", MAX_VOLUME_BLOCKS),
        ("`BLOCKS_PER_ROOT`", BLOCKS_PER_ROOT),
        ("`PAGE_ENTRIES`", PAGE_ENTRIES as u64),
        ("`MAX_UNITS`", MAX_UNITS.into()),
        ("`PAGE_UNITS`", PAGE_UNITS as u64),
    ]);
    let cells =
        table("constants").concat().into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>();
    let document = cells.chunks(2).map(|pair| (pair[0], pair[1].parse().unwrap())).collect();
    assert_eq!(code, document);
}

#[test]
fn kinds_and_causes_are_as_documented() {
    let code = |row: &Vec<&'static str>| (row[0].parse().unwrap(), row[1]);
    let kinds: Vec<(u8, &str)> =
        table("kinds with a block").iter().chain(&table("kinds without")).map(code).collect();
    let expected = [
        (kind::DATA, "Data"),
        (kind::MAP_PAGE, "MapPage"),
        (kind::ROOT_PAGE, "RootPage"),
        (kind::UNIT_PAGE, "UnitPage"),
        (kind::TRIM, "Trim"),
        (kind::VOLUME_CREATE, "VolumeCreate"),
        (kind::VOLUME_DELETE, "VolumeDelete"),
        (kind::VOLUME_RESIZE, "VolumeResize"),
        (kind::VOLUME_NAME, "VolumeName"),
        (kind::ABANDONED, "Abandoned"),
        (kind::RELEASED, "Released"),
        (kind::VOLUME_MEDIA, "VolumeMedia"),
        (kind::PLACED, "Placed"),
        (kind::VOLUME_SNAPSHOT, "VolumeSnapshot"),
        (kind::LAYER_HOLE, "LayerHole"),
        (kind::LAYER_DELETE, "LayerDelete"),
        (kind::VOLUME_CLONE, "VolumeClone"),
    ];
    assert_eq!(kinds, expected);
    let causes: Vec<(u8, String)> =
        table("causes").iter().map(code).map(|(code, name)| (code, name.to_owned())).collect();
    assert_eq!(causes, ChunkCause::ALL.map(|cause| (cause as u8, format!("{cause:?}"))));
}

#[test]
fn the_most_lines_are_the_most_that_fit() {
    for block in [crate::LogicalBlock::B512, crate::LogicalBlock::B4096] {
        let bytes = |lines: usize| {
            let header = (CHUNK_PREFIX_BYTES + lines * LINE_BYTES).next_multiple_of(block.bytes());
            header + lines * BLOCK_BYTES
        };
        assert!(bytes(MAX_LINES) <= MAX_CHUNK_BYTES && bytes(MAX_LINES + 1) > MAX_CHUNK_BYTES);
    }
}

#[test]
fn a_number_of_40_bits_comes_back() {
    for number in [0, 1, 0x12_3456_789A, (1 << 40) - 1] {
        assert_eq!(U40::new(number).get(), number);
    }
    assert_eq!(U40::new(0x12_3456_789A).as_bytes(), [0x9A, 0x78, 0x56, 0x34, 0x12]);
}

#[test]
#[should_panic(expected = "1099511627776 has more than 40 bits")]
fn a_number_of_more_bits_is_refused() {
    let _ = U40::new(1 << 40);
}

#[test]
fn magics_are_as_documented() {
    let all = [CHUNK_MAGIC, SUPERBLOCK_MAGIC, RAID_LABEL_MAGIC, RAID_LOG_MAGIC];
    for magic in all {
        let text = std::str::from_utf8(&magic).unwrap();
        let row = format!("| 0 | 8 | magic | the characters `{text}` |");
        assert!(DOCUMENTS.iter().any(|document| document.contains(&row)), "{text}");
    }
}
