//! A header that is torn, overwritten, and made whole again by a second tear.
//!
//! A trim is logged and not flushed. A power cut leaves the first sector of the trim's chunk, with garbage behind.
//! Recovery does not find the chunk, and the host reads the trimmed data. Recovery then writes its next chunk over the
//! same place. A second power cut leaves all of the new chunk but the first sector. A header with few entries is zeros
//! behind its first sector: now the chunk of the trim is whole again. The revived chunk must not count.

use std::rc::Rc;

use thermocline_engine::{Bug, Config, Extent, HostRequest, Reply};
use thermocline_format::{Geometry, LogicalBlock, VolumeId, VolumeName};
use thermocline_types::{Lba, Rng, Time, UnitId};

use crate::data::{Arena, Content, Data, SECTORS_PER_BLOCK, Stamp};
use crate::disk::{
    CrashState, Disk, DiskKind, DiskShape, Effect, Fate, Image, Latency, Rest, Tear,
};
use crate::machine::Machine;

const BLOCKS: u64 = 32;

/// The first sector is kept; the rest of the first block is not.
const FIRST_SECTOR: Tear = Tear { from: 1, to: SECTORS_PER_BLOCK as u32, rest: Rest::Garbage(7) };
/// The first sector is not written; all later sectors are.
const ALL_BUT_IT: Tear = Tear { from: 0, to: 1, rest: Rest::Old };

struct Pool {
    arena: Rc<Arena>,
    machine: Machine,
    config: Config,
    volume: VolumeId,
}

/// Runs the test with a pool that `seed` draws.
///
/// # Errors
/// What went wrong.
///
/// # Panics
/// When the engine fails a request although no fault is injected.
pub fn torn_twice(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 0x70_42_71);
    let mut pool = Pool::new(seed, bug);
    for lba in 0..BLOCKS {
        pool.ask(pool.write(lba));
    }
    let trimmed = rng.below(BLOCKS);
    let extent = Extent { volume: pool.volume, lba: trimmed, blocks: 1 };
    pool.ask(HostRequest::Trim { extent, fua: false });
    let (unit, start) = pool.newest_write().expect("the trim was logged");
    pool.cut(|_, last| if last { Fate::Torn(FIRST_SECTOR) } else { Fate::Kept }, seed);
    pool.is_written(trimmed).map_err(|what| format!("after the first power cut {what}"))?;

    // Until the recovery has written over it.
    let over = |pool: &Pool| pool.writes().any(|place| place == (unit, start));
    while !over(&pool) {
        pool.machine.pump(&mut Vec::new());
        if !over(&pool) && !pool.machine.turn() {
            return Err("recovery ends without a chunk".into());
        }
    }
    let fate = |place, _| match place == Some((unit, start)) {
        true => Fate::Torn(ALL_BUT_IT),
        false => Fate::Lost,
    };
    pool.cut(fate, seed + 1);
    pool.is_written(trimmed).map_err(|what| format!("after the second power cut {what}"))
}

impl Pool {
    fn new(seed: u64, bug: Option<Bug>) -> Pool {
        let geometry = Geometry::new(LogicalBlock::B4096, 64, 24, [0, 1].map(UnitId));
        let geometry = geometry.expect("units of 256 KiB, and enough of them");
        let mut config = Config::new(geometry);
        config.placement = "none".parse().expect("it is listed");
        config.bug = bug;
        let arena = Arena::new();
        let media = DiskShape { geometry, kind: DiskKind::Keeping };
        let (write, read) = (Time::micros(1000), Time::micros(1));
        let latency = Latency { write, read, flush: Time::micros(10_000), spike_one_in: 0 };
        let disk = Disk::new(&arena, Image::new(media), latency, seed);
        let mut machine = Machine::format(config.clone(), &arena, disk, seed);
        machine.wait_until_open().expect("a pool is made");
        let mut pool = Pool { arena, machine, config, volume: VolumeId(0) };
        let name = VolumeName::new("main").expect("a name");
        match pool.ask(HostRequest::CreateVolume { name, blocks: BLOCKS }) {
            Reply::Created(volume) => pool.volume = volume,
            other => panic!("making a volume was answered with {other:?}"),
        }
        pool
    }

    fn write(&self, lba: u64) -> HostRequest<Data> {
        let stamp = Stamp { volume: self.volume, lba: Lba(lba), version: 1 };
        let data = Data::new(&self.arena, std::iter::once(self.arena.user(stamp)));
        let extent = Extent { volume: self.volume, lba, blocks: 1 };
        HostRequest::Write { extent, data, fua: true, handle: 0 }
    }

    fn ask(&mut self, request: HostRequest<Data>) -> Reply {
        let (answer, _) = self.machine.ask(request).expect("it ends");
        answer.expect("nothing fails here")
    }

    /// Units and first sectors of unflushed writes.
    fn writes(&self) -> impl Iterator<Item = (UnitId, u32)> {
        let pending = self.machine.disk.cache().pending().iter();
        pending.filter_map(|change| match change.effect {
            Effect::Write { start, .. } => Some((change.unit, start)),
            _ => None,
        })
    }

    fn newest_write(&self) -> Option<(UnitId, u32)> {
        self.writes().last()
    }

    /// Cuts the power; `fate` decides on each change, told where it is written and whether it is the last. Opens the
    /// pool again.
    fn cut(&mut self, fate: impl Fn(Option<(UnitId, u32)>, bool) -> Fate, seed: u64) {
        let cache = self.machine.disk.cache();
        let last = cache.pending().len().saturating_sub(1);
        let fates = cache.pending().iter().enumerate().map(|(index, change)| {
            let place = match change.effect {
                Effect::Write { start, .. } => Some((change.unit, start)),
                _ => None,
            };
            fate(place, index == last)
        });
        let mut image = Image::new(*cache.media());
        cache.crash(&CrashState(fates.collect()), &mut image);
        self.machine.restart(self.config.clone(), &image, seed);
        self.machine.wait_until_open().expect("the pool opens");
    }

    /// Whether the block reads as it was written.
    fn is_written(&mut self, lba: u64) -> Result<(), String> {
        let extent = Extent { volume: self.volume, lba, blocks: 1 };
        let read = self.machine.read(extent).map_err(|trouble| format!("{trouble:?}"))?;
        let content = read.and_then(|data| data.blocks().next()).map(|id| self.arena.content(id));
        match content {
            Some(Content::User(_)) => Ok(()),
            other => Err(format!("block {lba} reads as {other:?}")),
        }
    }
}
