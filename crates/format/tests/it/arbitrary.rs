//! Strategies for everything that can stand on media.

use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use thermocline_format::{
    ChunkCause, ChunkHeader, ChunkOrigin, DeviceState, Entry, Epoch, Generation, Geometry,
    Location, LogicalBlock, MAX_EPOCH, MAX_LINES, MAX_NUMBER, MAX_UNIT_PAGES, MapEntry, MapPage,
    MediaClass, OpenUnit, PackedBlock, PageId, PoolDevice, PoolId, Revision, Sequence, StackLayer,
    Superblock, Volume, VolumeId, VolumeMedia, VolumeName,
};
use thermocline_types::{Class, Lba, UnitId};

const BLOCKS: u64 = 1 << 36;

/// One to four devices.
pub fn geometry() -> impl Strategy<Value = Geometry> {
    let media = select(&[MediaClass::Capacity, MediaClass::Fast][..]);
    use DeviceState::{Active, Detached, Draining, Lost};
    let states = vec![Active, Draining, Detached, Lost];
    let device = (media, select(states), 3_u32..2000, any::<[u32; 2]>());
    let block = select(&[LogicalBlock::B512, LogicalBlock::B4096][..]);
    (block, 4096_u32..1 << 20, vec(device, 1..5)).prop_map(|(logical_block, per_unit, devices)| {
        let mut devices = devices;
        (devices[0].0, devices[0].1) = (MediaClass::Capacity, DeviceState::Active);
        let mut begin = 0;
        let device = |(media, state, units, [first, step]): (_, _, u32, [u32; 2])| {
            let first = first % units;
            let pair = [first, (first + 1 + step % (units - 1)) % units];
            begin += units;
            let superblock_units = pair.map(|unit| UnitId(begin - units + unit));
            PoolDevice { state, ..PoolDevice::new(media, units, superblock_units) }
        };
        let devices: Vec<PoolDevice> = devices.into_iter().map(device).collect();
        Geometry::of_devices(logical_block, per_unit, &devices)
            .expect("within the limits of a geometry")
    })
}

/// A place where a block can be.
fn place(geometry: Geometry) -> impl Strategy<Value = Location> {
    let last = geometry.blocks_per_unit() - geometry.logical_block().per_block();
    (0..data_units(&geometry), 0..=last)
        .prop_map(move |(nth, block)| Location { unit: data_unit(&geometry, nth), block })
}

/// Units that hold no superblocks.
fn data_units(geometry: &Geometry) -> u32 {
    geometry.units() - 2 * geometry.devices().len() as u32
}

/// The `nth` unit that holds no superblocks.
fn data_unit(geometry: &Geometry, nth: u32) -> UnitId {
    let mut own =
        (0..geometry.units()).map(UnitId).filter(|unit| !geometry.is_superblock_unit(*unit));
    own.nth(nth as usize).expect("all units but two of each device hold no superblocks")
}

fn user_volume() -> impl Strategy<Value = VolumeId> {
    (0..VolumeId::RESERVED.0).prop_map(VolumeId)
}

/// A block of a user's or a reserved volume.
fn address() -> impl Strategy<Value = (VolumeId, Lba)> {
    let page = |(volume, index)| PageId { volume, index }.lba();
    prop_oneof![
        (user_volume(), (0..BLOCKS).prop_map(Lba)),
        (user_volume(), 0..1_u32 << 27).prop_map(move |at| (VolumeId::MAP, page(at))),
        (user_volume(), 0..1_u32 << 18).prop_map(move |at| (VolumeId::ROOT, page(at))),
        (0..MAX_UNIT_PAGES as u32)
            .prop_map(|index| (VolumeId::UNITS, PageId::of_units(index).lba())),
    ]
}

fn entry(geometry: Geometry) -> impl Strategy<Value = Entry> {
    let sized = || (user_volume(), 0..=BLOCKS);
    prop_oneof![
        4 => (address(), any::<u32>())
            .prop_map(|((volume, lba), crc)| Entry::Data { volume, lba, crc }),
        1 => (user_volume(), 0..BLOCKS, 1..=BLOCKS).prop_map(|(volume, lba, blocks)| {
            Entry::Trim { volume, lba: Lba(lba), blocks: blocks.min(BLOCKS - lba) }
        }),
        1 => sized().prop_map(|(volume, blocks)| Entry::VolumeCreate { volume, blocks }),
        1 => sized().prop_map(|(volume, blocks)| Entry::VolumeResize { volume, blocks }),
        1 => user_volume().prop_map(|volume| Entry::VolumeDelete { volume }),
        1 => user_volume().prop_map(|volume| Entry::LayerDelete { volume }),
        1 => (user_volume(), 1_u64..BLOCKS).prop_map(|(volume, blocks)| {
            Entry::LayerHole { volume, lba: Lba(BLOCKS - blocks), blocks }
        }),
        1 => (1..VolumeId::RESERVED.0, 0..=BLOCKS).prop_map(|(layer, blocks)| {
            let volume = VolumeId(layer / 2);
            Entry::VolumeSnapshot { volume, layer: VolumeId(layer), blocks }
        }),
        1 => (1..VolumeId::RESERVED.0, 0..=BLOCKS).prop_map(|(layer, blocks)| {
            let volume = VolumeId(layer / 2);
            Entry::VolumeClone { volume, layer: VolumeId(layer), blocks }
        }),
        1 => (user_volume(), select(&VolumeMedia::ALL[..]))
            .prop_map(|(volume, media)| Entry::VolumeMedia { volume, media }),
        1 => (user_volume(), 0_u8..4, any::<[u8; 16]>())
            .prop_map(|(volume, part, text)| Entry::VolumeName { volume, part, text }),
        1 => (user_volume(), 0..BLOCKS, place(geometry), any::<[u32; 2]>(), any::<[bool; 2]>()).prop_map(
            move |(volume, lba, at, [crc, number], [lost, settled])| {
                let placed = MapEntry::new(&geometry, at, crc);
                let entry = if lost { MapEntry::LOST } else { placed };
                Entry::Placed { volume, lba: Lba(lba), entry, settled, number }
            }
        ),
        1 => any::<u64>().prop_map(|number| Entry::Abandoned { sequence: Sequence(number) }),
        1 => (place(geometry), any::<[u64; 2]>(), 1..=u32::MAX).prop_map(|(at, numbers, chunks)| {
            let [generation, sum] = numbers;
            Entry::Released { unit: at.unit, generation: Generation(generation), chunks, sum }
        }),
    ]
}

fn origin(location: Location) -> impl Strategy<Value = ChunkOrigin> {
    let names = (any::<[u8; 16]>(), 0..u64::MAX, 0..u32::MAX, 0..u64::MAX);
    let numbers = (1..u64::MAX, any::<u64>(), select(&ChunkCause::ALL[..]), any::<u8>());
    (names, numbers).prop_map(move |((pool, generation, epoch, revision), numbers)| {
        let (sequence, durable, cause, class) = numbers;
        ChunkOrigin {
            pool: PoolId(pool),
            location,
            generation: Generation(generation),
            epoch: Epoch(epoch),
            sequence: Sequence(sequence),
            durable: Sequence(durable % sequence),
            revision: Revision(revision),
            cause,
            class: Class(class),
        }
    })
}

/// A packed block, where one can be: mostly one of a user's blocks of the first entries.
fn packed_in(
    entries: &[Entry],
    (pick, bytes): (u16, u16),
    geometry: &Geometry,
) -> Option<PackedBlock> {
    let room = PackedBlock::room(entries.iter().map(Entry::lines).sum(), geometry);
    let entry = usize::from(pick) % entries.len().max(1);
    match entries.get(entry) {
        Some(Entry::Data { volume, .. }) if volume.is_user() && room > 0 => {
            let bytes = 1 + usize::from(bytes) % room;
            Some(PackedBlock { entry: entry as u16, bytes: bytes as u16 })
        }
        _ => None,
    }
}

/// The bytes of a packed block, any of the right length.
pub fn packed_bytes(chunk: &ChunkHeader) -> Vec<u8> {
    chunk.packed.map_or(Vec::new(), |packed| vec![0xA5; packed.bytes.into()])
}

/// A chunk of at most `lines` lines.
pub fn chunk_of(lines: usize) -> impl Strategy<Value = (Geometry, ChunkHeader)> {
    let parts = move |geometry: Geometry| {
        let last = geometry.blocks_per_unit() - geometry.logical_block().max_chunk();
        let nth = 0..data_units(&geometry);
        let at = (nth, 0..=last);
        let at =
            at.prop_map(move |(nth, block)| Location { unit: data_unit(&geometry, nth), block });
        let origin = at.prop_flat_map(origin);
        let numbers = (any::<u32>(), any::<(u16, u16)>());
        (Just(geometry), origin, vec(entry(geometry), 0..=lines), numbers)
    };
    geometry().prop_flat_map(parts).prop_map(move |(geometry, origin, mut entries, numbers)| {
        let ((padding, packed), mut left) = (numbers, lines);
        let fit = entries.iter().take_while(|entry| {
            let fits = entry.lines() <= left;
            left = left.saturating_sub(entry.lines());
            fits
        });
        entries.truncate(fit.count());
        let packed = packed_in(&entries, packed, &geometry);
        let chunk = ChunkHeader::with_packed(origin, entries, packed, &geometry);
        let room = geometry.logical_block().max_chunk() - chunk.blocks;
        let blocks = chunk.blocks + padding % (room + 1);
        (geometry, ChunkHeader { blocks, ..chunk })
    })
}

pub fn chunk() -> impl Strategy<Value = (Geometry, ChunkHeader)> {
    chunk_of(MAX_LINES)
}

fn map_entry(geometry: Geometry) -> impl Strategy<Value = MapEntry> {
    prop_oneof![
        1 => Just(MapEntry::UNMAPPED),
        3 => (place(geometry), any::<u32>())
            .prop_map(move |(at, crc)| MapEntry::new(&geometry, at, crc)),
    ]
}

pub fn map_page() -> impl Strategy<Value = (Geometry, MapPage)> {
    let page = |geometry| (Just(geometry), vec(map_entry(geometry), 512));
    geometry().prop_flat_map(page).prop_map(|(geometry, entries)| {
        let mut page = MapPage::unmapped();
        page.0.copy_from_slice(&entries);
        (geometry, page)
    })
}

fn name() -> impl Strategy<Value = VolumeName> {
    "[a-zä€ ]{0,21}".prop_map(|text| VolumeName::new(&text).expect("at most 63 bytes"))
}

fn volume(geometry: Geometry, id: u32) -> impl Strategy<Value = Volume> {
    let parts =
        move |blocks| (name(), Just(blocks), vec(map_entry(geometry), Volume::roots_for(blocks)));
    let volume =
        move |((name, blocks, roots), deleted, media, layer): ((_, u64, _), _, _, Option<_>)| {
            Volume {
                id: VolumeId(id),
                name,
                blocks,
                deleted,
                media,
                layer: layer.map(|(below, frozen, nameless): (u32, bool, bool)| StackLayer {
                    user: VolumeId(id),
                    below: (below % id != 0).then_some(VolumeId(below % id)),
                    least: blocks / 2,
                    frozen,
                    nameless: frozen && nameless,
                    clone: nameless,
                }),
                roots,
            }
        };
    let media = select(&VolumeMedia::ALL[..]);
    (
        (0_u64..20 << 18).prop_flat_map(parts),
        any::<bool>(),
        media,
        option::of(any::<(u32, bool, bool)>()),
    )
        .prop_map(volume)
}

fn volumes(geometry: Geometry) -> impl Strategy<Value = Vec<Volume>> {
    btree_set(1..VolumeId::RESERVED.0, 0..6).prop_flat_map(move |ids: BTreeSet<u32>| {
        ids.into_iter().map(|id| volume(geometry, id).boxed()).collect::<Vec<_>>()
    })
}

fn open_units(geometry: Geometry) -> impl Strategy<Value = Vec<OpenUnit>> {
    let units = btree_set(0..data_units(&geometry), 0..5.min(data_units(&geometry) as usize));
    (units, 0..=geometry.blocks_per_unit(), 1..MAX_NUMBER, 0_u64..300).prop_map(
        move |(units, block, generation, younger)| {
            let open = |(at, nth): (usize, u32)| OpenUnit {
                next: Location { unit: data_unit(&geometry, nth), block: block >> at },
                generation: Generation(generation.saturating_sub(at as u64 * younger).max(1)),
            };
            units.into_iter().enumerate().map(open).collect()
        },
    )
}

pub fn superblock() -> impl Strategy<Value = Superblock> {
    let parts = |geometry: Geometry| {
        let epochs = (1..=MAX_EPOCH, 1..=MAX_EPOCH);
        let counts = (1..=MAX_NUMBER, 1..=MAX_NUMBER, option::of(1..=MAX_NUMBER));
        let numbers = (any::<[u8; 16]>(), epochs, counts, any::<[bool; 3]>(), any::<[u32; 3]>());
        let pages = vec(map_entry(geometry), geometry.unit_pages());
        let units = (open_units(geometry), pages);
        (Just(geometry), volumes(geometry), units, numbers, 0_u32..3000)
    };
    geometry().prop_flat_map(parts).prop_map(|(geometry, volumes, units, numbers, block)| {
        let (open_units, unit_pages) = units;
        let (pool, epochs, counts, [clean, which, confirmed], [patches, vain, flushed]) = numbers;
        let (revision, checkpoint, end) = counts;
        let device = geometry.devices()[checkpoint as usize % geometry.devices().len()];
        let unit = device.superblock_units[usize::from(which)];
        let least = volumes.last().map_or(1, |volume| volume.id.0 + 1);
        Superblock {
            pool: PoolId(pool),
            location: Location { unit, block },
            revision: Revision(revision),
            epoch: Epoch(epochs.0.max(epochs.1)),
            tail_epoch: Epoch(epochs.0.min(epochs.1)),
            tail_end: end.map(|end| Sequence(end.max(checkpoint))),
            checkpoint: Sequence(checkpoint),
            clean,
            confirmed: confirmed && geometry.device_of(unit) != geometry.home(),
            patches,
            vain,
            flushed,
            snapshots: clean || volumes.iter().any(|volume| volume.layer.is_some()),
            geometry,
            next_generation: Generation(
                open_units.first().map_or(checkpoint, |open| open.generation.0 + 1),
            ),
            next_volume: VolumeId(least),
            volumes,
            open_units,
            unit_pages,
        }
    })
}
