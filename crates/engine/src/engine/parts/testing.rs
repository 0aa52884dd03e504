//! Parts of an open pool, for tests of jobs.

use thermocline_format::{
    Epoch, Generation, Geometry, Location, LogicalBlock, MapEntry, MediaClass, OpenUnit,
    PoolDevice, PoolId, Revision, Sequence, Superblock, VolumeId, VolumeName,
};
use thermocline_types::UnitId;

use crate::config::{Config, DestageConfig};
use crate::engine::{Parts, Phase};
use crate::request::{Action, Extent, RequestId};

/// Those of a pool of 64 units of a MiB of which none is free, with one volume of 1024 blocks.
pub(crate) fn parts() -> Parts<()> {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    parts_of(Config::new(geometry.expect("sound units")))
}

/// The same beside a fast device of 32 units, from unit 64 on.
pub(crate) fn tiered(destage: DestageConfig) -> Parts<()> {
    let device =
        |media, units, first| PoolDevice::new(media, units, [first, first + 1].map(UnitId));
    let devices = [device(MediaClass::Capacity, 64, 0), device(MediaClass::Fast, 32, 64)];
    let geometry = Geometry::of_devices(LogicalBlock::B4096, 256, &devices);
    parts_of(Config { destage, ..Config::new(geometry.expect("sound units")) })
}

/// The same with other settings.
pub(crate) fn parts_of(config: Config) -> Parts<()> {
    let geometry = config.geometry;
    let mut parts = Parts::new(config, 1, PoolId([7; 16]));
    parts.phase = Phase::Open;
    parts.superblocks.set_settled(true);
    parts.superblocks.adopt(Superblock {
        pool: parts.pool,
        location: Location { unit: UnitId(0), block: 0 },
        revision: Revision(1),
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
        geometry,
        next_generation: Generation(1 << 32),
        next_volume: VolumeId(2),
        volumes: Vec::new(),
        open_units: Vec::new(),
        unit_pages: vec![MapEntry::UNMAPPED; geometry.unit_pages()],
    });
    let name = VolumeName::new("v").expect("a name");
    parts.volumes.add(VolumeId(1), name, 1024, parts.addresses);
    parts
}

/// Units from `first` on are free, and listed in a record.
pub(crate) fn free(parts: &mut Parts<()>, first: u32, count: u32) {
    for unit in (first..first + count).map(UnitId) {
        let next = Location { unit, block: 0 };
        let generation = Generation((1 << 32) + u64::from(unit.0));
        parts.space.reserve(OpenUnit { next, generation });
    }
}

/// Blocks of the volume.
pub(crate) fn blocks(lba: u64, blocks: u64) -> Extent {
    Extent { volume: VolumeId(1), lba, blocks }
}

/// A request that writes.
pub(crate) fn request(parts: &mut Parts<()>, id: u64) -> u32 {
    parts.requests.accept(RequestId(id), true, false)
}

/// The requests that are complete, and whether each succeeded.
pub(crate) fn completed(parts: &mut Parts<()>) -> Vec<(u64, bool)> {
    let complete = |action| match action {
        Action::Complete { request, result } => Some((request.0, result.is_ok())),
        _ => None,
    };
    parts.actions.drain(..).filter_map(complete).collect()
}
