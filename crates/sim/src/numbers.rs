//! Pools that are old: the numbers of their epochs, records, chunks and lives of units are near the highest.
//!
//! What is computed with such numbers wraps, is cut off or compared wrongly where a new pool shows nothing.

use thermocline_engine::wire::find_superblocks;
use thermocline_format::{
    Epoch, Generation, Geometry, Location, MAX_EPOCH, MAX_NUMBER, Revision, Sequence, Superblock,
    VolumeId,
};
use thermocline_types::UnitId;

use crate::data::Arena;
use crate::disk::{Change, Effect, Fate, Image};

/// Numbers that are left for the pool before a reader would refuse it: more than a simulation uses.
const LEFT: u32 = 1 << 16;

/// What `image`, on which a pool of this geometry was closed, would hold if the pool had been opened, written and
/// checkpointed nearly as often as it can be.
///
/// # Panics
/// When there is no pool.
#[must_use]
pub fn near_their_limits(arena: &Arena, geometry: &Geometry, image: &Image) -> Image {
    let home = geometry.superblock_units();
    let records = home.into_iter().flat_map(|unit| records(arena, geometry, image, unit));
    let newest = records
        .max_by_key(|record| (record.epoch, record.revision))
        .expect("a pool was closed here");
    let epoch = MAX_EPOCH - LEFT;
    let number = MAX_NUMBER - u64::from(LEFT);
    let mut aged = image.clone();
    for unit in geometry.all_superblock_units() {
        let record = Superblock {
            location: Location { unit, block: 0 },
            revision: Revision(number),
            epoch: Epoch(epoch),
            tail_epoch: Epoch(epoch),
            checkpoint: Sequence(number),
            next_generation: Generation(u64::from(epoch) << 32),
            next_volume: VolumeId(VolumeId::RESERVED.0 - LEFT),
            ..newest.clone()
        };
        let (mut bytes, mut sectors) = (Vec::new(), Vec::new());
        record.encode(&mut bytes);
        arena.sectors(&bytes, &mut sectors);
        for effect in [Effect::Reset, Effect::Write { start: 0, sectors: sectors.into() }] {
            let change = Change { number: 0, unit, effect, complete: None, astray: false };
            aged.apply(&change, Fate::Kept);
        }
    }
    aged
}

fn records(arena: &Arena, geometry: &Geometry, image: &Image, unit: UnitId) -> Vec<Superblock> {
    let mut bytes = Vec::new();
    arena.copy_out(image.unit(unit), &mut bytes);
    find_superblocks(&bytes, unit, None, geometry)
}
