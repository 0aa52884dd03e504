//! The largest structures.

use thermocline_format::{
    Epoch, ErrorKind, Generation, Geometry, Location, LogicalBlock, MAX_EPOCH, MAX_NUMBER,
    MAX_OPEN_UNITS, MAX_ROOTS, MAX_SUPERBLOCK_BYTES, MAX_UNIT_PAGES, MAX_UNITS, MAX_VOLUMES,
    MapEntry, OpenUnit, PoolId, Revision, Sequence, StackLayer, Superblock, Volume, VolumeId,
    VolumeMedia, VolumeName,
};
use thermocline_types::UnitId;

/// All counts at their limits: one volume has what the others leave of the roots.
fn largest() -> Superblock {
    let units = [UnitId(0), UnitId(1)];
    let geometry =
        Geometry::new(LogicalBlock::B4096, 1 << 11, MAX_UNITS, units).expect("a geometry");
    let root = MapEntry::new(&geometry, Location::new(2, 3), 4);
    let volume = |id: u32, roots: usize| Volume {
        id: VolumeId(id),
        name: VolumeName::new(&"n".repeat(64)).expect("a name"),
        blocks: (roots as u64) << 18,
        deleted: true,
        media: VolumeMedia::Capacity,
        layer: Some(StackLayer {
            user: VolumeId(id),
            below: None,
            least: 1,
            frozen: true,
            nameless: true,
            clone: true,
        }),
        roots: vec![root; roots],
    };
    let mut volumes: Vec<Volume> = (1..MAX_VOLUMES as u32).map(|id| volume(id, 1)).collect();
    volumes.push(volume(MAX_VOLUMES as u32, MAX_ROOTS - MAX_VOLUMES));
    volumes[0] = volume(1, 2);
    let open =
        |nth| OpenUnit { next: Location::new(2 + nth * 200, 1 << 11), generation: Generation(1) };
    Superblock {
        pool: PoolId([9; 16]),
        location: Location::new(1, 0),
        revision: Revision(MAX_NUMBER),
        epoch: Epoch(MAX_EPOCH),
        tail_epoch: Epoch(MAX_EPOCH),
        tail_end: Some(Sequence(MAX_NUMBER)),
        patches: u32::MAX,
        vain: u32::MAX,
        flushed: u32::MAX,
        snapshots: true,
        checkpoint: Sequence(MAX_NUMBER),
        clean: true,
        confirmed: false,
        geometry,
        next_generation: Generation(MAX_NUMBER),
        next_volume: VolumeId::RESERVED,
        volumes,
        open_units: (0..MAX_OPEN_UNITS as u32).map(open).collect(),
        unit_pages: vec![root; MAX_UNIT_PAGES],
    }
}

#[test]
fn the_largest_superblock_comes_back() {
    let superblock = largest();
    // Two bytes for each unit, two for its block, nine for its generation.
    let listed = 13 * MAX_OPEN_UNITS;
    let rest = 256 + MAX_VOLUMES * 96 + (MAX_ROOTS + MAX_UNIT_PAGES) * 8;
    assert_eq!(superblock.record_bytes(), (listed + rest).next_multiple_of(4096));
    assert!(superblock.record_bytes() <= MAX_SUPERBLOCK_BYTES);
    let mut bytes = Vec::new();
    superblock.encode(&mut bytes);
    assert_eq!(Superblock::decode(&bytes, superblock.location, None), Ok(superblock));
}

#[test]
fn one_more_of_anything_is_refused_before_it_is_written() {
    let refused = |change: fn(&mut Superblock)| {
        let mut superblock = largest();
        change(&mut superblock);
        match superblock.check() {
            Err(ErrorKind::Impossible { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        refused(|superblock| superblock.volumes.push(superblock.volumes[0].clone())),
        "volumes"
    );
    assert_eq!(
        refused(|superblock| superblock.open_units.push(superblock.open_units[0])),
        "open units"
    );
    let longer = |superblock: &mut Superblock| superblock.volumes[0].roots.push(MapEntry::UNMAPPED);
    assert_eq!(refused(longer), "roots");
}

#[test]
#[should_panic(expected = "a superblock that cannot be is not written: unit is 2")]
fn a_superblock_outside_its_units_is_not_written() {
    let elsewhere = Superblock { location: Location::new(2, 0), ..largest() };
    elsewhere.encode(&mut Vec::new());
}
