use std::sync::Arc;

use thermocline_engine::{Body, Chunk, ReadChunks, Versions};
use thermocline_format::{
    BLOCK_BYTES, ChunkCause, ChunkHeader, ChunkOrigin, Entry, Epoch, Generation, Geometry,
    Location, LogicalBlock, PoolId, Revision, Sequence, VolumeId,
};
use thermocline_types::{Class, DeviceId, Lba, Version};

use super::*;
use crate::data::{BlockId, Content, SECTOR_BYTES, Stamp};
use crate::faults::Rule;

const KINDS: [DiskKind; 3] = [DiskKind::Keeping, DiskKind::Discarding, DiskKind::Zoned];

fn media(kind: DiskKind, logical_block: LogicalBlock) -> DiskShape {
    let per_unit = (64 << 10) / logical_block.bytes() as u32;
    let superblocks = [UnitId(0), UnitId(1)];
    let geometry =
        Geometry::new(logical_block, per_unit, 5, superblocks).expect("a sound geometry");
    DiskShape { geometry, kind }
}

/// The same medium, kept as bytes and computed anew from the log of all changes.
struct Slow {
    media: DiskShape,
    /// Every change with whether it was flushed.
    log: Vec<(Change, bool)>,
}

impl Slow {
    /// The bytes of the medium when of the changes that were not flushed `state` is left.
    fn bytes(&self, arena: &Arena, state: &CrashState) -> Vec<u8> {
        let unit_bytes = self.media.sectors_per_unit() as usize * SECTOR_BYTES;
        let mut bytes = vec![0_u8; unit_bytes * self.media.geometry.units() as usize];
        let mut fates = state.0.iter();
        for (change, flushed) in &self.log {
            let fate = if *flushed { &Fate::Kept } else { fates.next().expect("a fate") };
            let unit = &mut bytes[change.unit.index() * unit_bytes..][..unit_bytes];
            self.apply(arena, unit, change, *fate);
        }
        assert!(fates.next().is_none(), "as many fates as changes that were not flushed");
        bytes
    }

    /// Byte by byte: is it in the change, and does its fate let it through?
    fn apply(&self, arena: &Arena, unit: &mut [u8], change: &Change, fate: Fate) {
        let (start, new) = match &change.effect {
            Effect::Finish => return,
            Effect::Reset if !self.media.reset_clears() => return,
            Effect::Reset => (0, vec![0; unit.len()]),
            Effect::Write { start, sectors } => {
                let mut new = Vec::new();
                arena.copy_out(&sectors[..], &mut new);
                (*start as usize * SECTOR_BYTES, new)
            }
        };
        let grain = self.media.sectors_per_logical();
        for (index, byte) in new.iter().enumerate() {
            let sector = (index / SECTOR_BYTES) as u32;
            let old = unit[start + index];
            unit[start + index] = match fate {
                Fate::Lost => old,
                Fate::Kept => *byte,
                Fate::Torn(mut tear) => {
                    if matches!(change.effect, Effect::Reset) {
                        tear.rest = Rest::Old;
                    }
                    let whole = new.len() / SECTOR_BYTES;
                    let cuts = self.media.is_zoned() && tear.to as usize >= whole;
                    let from = match tear.rest {
                        Rest::Old if cuts => tear.from / grain * grain,
                        _ => tear.from,
                    };
                    match tear.rest {
                        _ if !(from..tear.to).contains(&sector) => *byte,
                        Rest::Old => old,
                        Rest::Zeros => 0,
                        Rest::Garbage(pick) => {
                            let place = index - from as usize * SECTOR_BYTES;
                            let block = BlockId::garbage(u64::from(pick) + place as u64 / 4096);
                            arena.read(block)[place % 4096]
                        }
                    }
                }
            };
        }
    }
}

fn bytes_of(arena: &Arena, image: &Image) -> Vec<u8> {
    let mut bytes = Vec::new();
    for unit in 0..image.media().geometry.units() {
        arena.copy_out(image.unit(UnitId(unit)), &mut bytes);
    }
    bytes
}

/// A random change that the medium allows.
fn random_change(arena: &Arena, cache: &Cache, rng: &mut Rng) -> Option<(UnitId, Effect)> {
    let media = cache.media();
    let unit = UnitId(rng.below(5) as u32);
    let busy = cache.pending().iter().any(|c| c.unit == unit && c.complete.is_none());
    if busy {
        return None;
    }
    if rng.below(6) == 0 {
        return Some((unit, Effect::Reset));
    }
    let grain = media.sectors_per_logical();
    let blocks = media.geometry.blocks_per_unit();
    let first = match media.kind {
        DiskKind::Zoned => cache.current().pointer(unit) / grain,
        _ => rng.below(u64::from(blocks)) as u32,
    };
    if first == blocks {
        return Some((unit, Effect::Reset));
    }
    let length = 1 + rng.below(u64::from((blocks - first).min(9))) as u32;
    let block = arena.bytes(&rng.next_u64().to_le_bytes().repeat(512));
    let sectors = (0..length * grain).map(|at| block.sector(at as usize % 8)).collect();
    Some((unit, Effect::Write { start: first * grain, sectors }))
}

#[test]
fn a_crash_state_is_what_the_log_of_all_changes_makes_of_it() {
    for (seed, kind) in (0..12).zip(KINDS.into_iter().cycle()) {
        let arena = Arena::new();
        let mut rng = Rng::new(seed);
        let logical = if seed % 2 == 0 { LogicalBlock::B512 } else { LogicalBlock::B4096 };
        let media = media(kind, logical);
        let mut cache = Cache::new(Image::new(media));
        let mut slow = Slow { media, log: Vec::new() };
        let mut image = Image::new(media);
        for tick in 1..120 {
            if let Some((unit, effect)) = random_change(&arena, &cache, &mut rng) {
                let number = cache.submit(unit, effect, Fate::Kept);
                slow.log.push((cache.pending().last().expect("just made").clone(), false));
                if rng.below(3) > 0 {
                    cache.complete(number, tick);
                }
            }
            if rng.below(9) == 0 {
                cache.flush(DeviceId(0), tick);
                let pending: Vec<u64> = cache.pending().iter().map(|c| c.number).collect();
                slow.log
                    .iter_mut()
                    .for_each(|(c, flushed)| *flushed = !pending.contains(&c.number));
                cache.pending().iter().map(|c| c.number).collect::<Vec<_>>().iter().for_each(
                    |&n| {
                        cache.complete(n, tick);
                    },
                );
            }
            let state = cache.random_state(&mut rng);
            cache.crash(&state, &mut image);
            assert!(
                bytes_of(&arena, &image) == slow.bytes(&arena, &state),
                "{kind:?} {seed} {tick}"
            );
        }
    }
}

#[test]
fn a_zone_keeps_no_more_than_its_write_pointer_says() {
    let arena = Arena::new();
    let mut rng = Rng::new(3);
    let media = media(DiskKind::Zoned, LogicalBlock::B512);
    let mut cache = Cache::new(Image::new(media));
    let mut image = Image::new(media);
    for tick in 1..3000 {
        if let Some((unit, effect)) = random_change(&arena, &cache, &mut rng) {
            let number = cache.submit(unit, effect, Fate::Kept);
            cache.complete(number, tick);
        }
        if rng.below(20) == 0 {
            cache.flush(DeviceId(0), tick + 1);
        }
        cache.crash(&cache.random_state(&mut rng), &mut image);
        for unit in (0..5).map(UnitId) {
            let behind = &image.unit(unit)[image.pointer(unit) as usize..];
            assert!(behind.iter().all(|&sector| sector == Sector::ZEROS), "{unit:?} at {tick}");
        }
    }
}

const POOL: PoolId = PoolId([7; 16]);

#[expect(clippy::arc_with_non_send_sync, reason = "the engine hands chunks over in an Arc")]
fn chunk(arena: &Rc<Arena>, media: &DiskShape, at: Location, versions: &[u64]) -> Arc<Chunk<Data>> {
    let stamp = |version| Stamp { volume: VolumeId(1), lba: Lba(version), version };
    let blocks: Vec<BlockId> = versions.iter().map(|&v| arena.user(stamp(v))).collect();
    let entry = |(&version, &block): (&u64, &BlockId)| Entry::Data {
        volume: VolumeId(1),
        lba: Lba(version),
        crc: arena.crc(block),
    };
    let origin = ChunkOrigin {
        pool: POOL,
        location: at,
        generation: Generation(1 << 32),
        epoch: Epoch(1),
        sequence: Sequence(versions[0]),
        durable: Sequence(0),
        revision: Revision(1),
        cause: ChunkCause::Host,
        class: Class(0),
    };
    let entries = versions.iter().zip(&blocks).map(entry).collect();
    let body = blocks.iter().map(|&block| Data::new(arena, std::iter::once(block))).collect();
    let header = ChunkHeader::new(origin, entries, &media.geometry);
    Arc::new(Chunk { header: Arc::new(header), body: Body::User(body), packed: None })
}

fn find(disk: &mut Disk, unit: u32) -> Vec<u64> {
    let read = ReadChunks {
        at: Location::new(unit, 0),
        window: disk.cache.media().geometry.blocks_per_unit(),
        pool: POOL,
        generation: None,
        search: false,
        data: true,
        versions: Versions::AsRead,
    };
    match run(disk, DeviceCmd::ReadChunks(read)) {
        Ok(Done::Chunks(found)) => {
            found.chunks.iter().map(|chunk| chunk.header.origin.sequence.0).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn run(disk: &mut Disk, cmd: DeviceCmd<Data>) -> Result<Done<Data>, DeviceError> {
    disk.submit(Time::ZERO, OpId(0), cmd);
    loop {
        assert!(disk.in_flight() > 0, "a command was submitted");
        if let Some(done) = disk.complete() {
            return done.result;
        }
    }
}

#[test]
fn chunks_come_back_as_they_were_written() {
    for logical in [LogicalBlock::B512, LogicalBlock::B4096] {
        for kind in KINDS {
            let arena = Arena::new();
            let media = media(kind, logical);
            let mut disk = Disk::new(&arena, Image::new(media), Latency::NONE, 1);
            let first = chunk(&arena, &media, Location::new(3, 0), &[1, 2, 3]);
            let behind = first.header.blocks;
            let second = chunk(&arena, &media, Location::new(3, behind), &[4]);
            run(&mut disk, DeviceCmd::WriteChunk(Arc::clone(&first))).expect("written");
            run(&mut disk, DeviceCmd::WriteChunk(second)).expect("written");
            assert_eq!(find(&mut disk, 3), [1, 4]);

            let places: Vec<Location> =
                first.header.placed(&media.geometry).filter_map(|(_, at)| at).collect();
            let read =
                DeviceCmd::Read { at: places[1], blocks: 2, into: None, version: Version::AS_READ };
            let Ok(Done::Data(data)) = run(&mut disk, read) else { panic!("it can be read") };
            let shown: Vec<Content> = data.blocks().map(|block| arena.content(block)).collect();
            let user =
                |version| Content::User(Stamp { volume: VolumeId(1), lba: Lba(version), version });
            assert_eq!(shown, [user(2), user(3)]);
        }
    }
}

#[test]
fn a_flush_makes_durable_what_was_complete_when_it_was_submitted() {
    let arena = Arena::new();
    let media = media(DiskKind::Keeping, LogicalBlock::B512);
    let mut disk = Disk::new(&arena, Image::new(media), Latency::NONE, 1);
    run(&mut disk, DeviceCmd::WriteChunk(chunk(&arena, &media, Location::new(2, 0), &[1])))
        .expect("written");
    let late = chunk(&arena, &media, Location::new(3, 0), &[2]);
    disk.submit(Time::ZERO, OpId(1), DeviceCmd::WriteChunk(late));
    disk.submit(Time::ZERO, OpId(2), DeviceCmd::Flush(DeviceId(0)));
    assert!(disk.complete().is_some_and(|done| done.op == OpId(1)));
    assert!(disk.next_flush().is_some());
    assert!(disk.complete().is_some_and(|done| done.op == OpId(2)));
    let pending: Vec<UnitId> = disk.cache().pending().iter().map(|change| change.unit).collect();
    assert_eq!(pending, [UnitId(3)]);

    let mut image = Image::new(media);
    disk.cache().crash(&CrashState(vec![Fate::Lost]), &mut image);
    disk.restart(&image);
    assert_eq!((find(&mut disk, 2), find(&mut disk, 3)), (vec![1], vec![]));
}

#[test]
fn a_torn_header_is_no_header_and_a_lying_flush_keeps_nothing() {
    let arena = Arena::new();
    let media = media(DiskKind::Keeping, LogicalBlock::B512);
    let mut disk = Disk::new(&arena, Image::new(media), Latency::NONE, 1);
    disk.inject(Injector::new(vec![Rule::once(1, Fault::Lie)], 1));
    let written = chunk(&arena, &media, Location::new(2, 0), &[1, 2]);
    run(&mut disk, DeviceCmd::WriteChunk(written)).expect("written");
    run(&mut disk, DeviceCmd::Flush(DeviceId(0))).expect("so it says");
    let mut image = Image::new(media);
    for (from, found) in [(0, vec![]), (1, vec![1])] {
        let tear = Tear { from, to: u32::MAX, rest: Rest::Zeros };
        disk.cache().crash(&CrashState(vec![Fate::Torn(tear)]), &mut image);
        let mut after = Disk::new(&arena, image.clone(), Latency::NONE, 1);
        assert_eq!(find(&mut after, 2), found, "torn at sector {from}");
    }
    assert!(!disk.atlas().broken_promise(), "nothing was lost yet");
    disk.lose(&CrashState(vec![Fate::Lost]));
    assert!(disk.atlas().broken_promise());
}

#[test]
fn faults_of_writes_do_what_they_say() {
    let arena = Arena::new();
    let media = media(DiskKind::Discarding, LogicalBlock::B4096);
    let io = DeviceError::Io;
    let cases = [
        (Fault::Fail(io), Err(io), 0),
        (Fault::Lose, Ok(()), 0),
        (Fault::Misdirect, Ok(()), 0),
        (Fault::Flip(1), Ok(()), 1),
        (Fault::Degrade(UnitCondition::ReadOnly), Err(DeviceError::ReadOnly), 0),
    ];
    for (fault, result, at_most) in cases {
        let mut disk = Disk::new(&arena, Image::new(media), Latency::NONE, 1);
        disk.inject(Injector::new(vec![Rule::once(0, fault)], 5));
        let written = chunk(&arena, &media, Location::new(2, 0), &[9]);
        let done = run(&mut disk, DeviceCmd::WriteChunk(Arc::clone(&written)));
        assert_eq!(done.map(|_| ()), result, "{fault:?}");
        assert!(find(&mut disk, 2).len() <= at_most, "{fault:?}");
        assert_eq!(disk.injector().log().len(), 1, "{fault:?}");
        assert_eq!(disk.injector().log()[0].instead.is_some(), fault == Fault::Misdirect);
    }
}

const fn stamp(version: u64) -> Stamp {
    Stamp { volume: VolumeId(1), lba: Lba(0), version }
}

#[test]
fn a_write_may_go_astray_onto_one_in_flight_and_another_may_follow() {
    let arena = Arena::new();
    let media = media(DiskKind::Keeping, LogicalBlock::B4096);
    let mut cache = Cache::new(Image::new(media));
    let effect = |version| Effect::Write {
        start: 0,
        sectors: (0..8).map(|part| arena.user(stamp(version)).sector(part)).collect(),
    };
    cache.submit(UnitId(2), effect(1), Fate::Kept);
    // Nobody can keep clear of it, so it may overlap what is in flight, and be overlapped.
    cache.submit_astray(UnitId(2), effect(2));
    assert_eq!(arena.content(cache.current().unit(UnitId(2))[0].block()), Content::User(stamp(2)));
    let first = cache.pending()[0].number;
    cache.complete(first, 1);
    cache.submit(UnitId(2), effect(3), Fate::Kept);
    assert_eq!(arena.content(cache.current().unit(UnitId(2))[0].block()), Content::User(stamp(3)));
}

#[test]
#[should_panic(expected = "the write pointer is at 0")]
fn a_zone_is_not_written_off_its_pointer() {
    let arena = Arena::new();
    let media = media(DiskKind::Zoned, LogicalBlock::B4096);
    let mut disk = Disk::new(&arena, Image::new(media), Latency::NONE, 1);
    let stray = chunk(&arena, &media, Location::new(2, 1), &[1]);
    disk.submit(Time::ZERO, OpId(0), DeviceCmd::WriteChunk(stray));
}

#[test]
fn equal_seeds_give_equal_times_and_commands_overtake_each_other() {
    let run = |seed| {
        let arena = Arena::new();
        let media = media(DiskKind::Keeping, LogicalBlock::B512);
        let latency = Latency {
            write: Time::micros(20),
            read: Time::micros(80),
            flush: Time::micros(500),
            spike_one_in: 10,
        };
        let mut disk = Disk::new(&arena, Image::new(media), latency, seed);
        for op in 0..40 {
            let at = Location::new(2 + op % 3, op / 3 * 9);
            let cmd = match op % 5 {
                4 => DeviceCmd::Flush(DeviceId(0)),
                _ => DeviceCmd::WriteChunk(chunk(&arena, &media, at, &[u64::from(op) + 1])),
            };
            disk.submit(Time(u64::from(op)), OpId(op.into()), cmd);
        }
        let order: Vec<u64> =
            std::iter::from_fn(|| disk.complete()).map(|done| done.op.0).collect();
        (order, disk.trace())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).1, run(6).1);
    assert!(!run(5).0.is_sorted());
}

fn sector_of(arena: &Arena, byte: u8) -> Sector {
    arena.bytes(&[byte; BLOCK_BYTES]).sector(0)
}

/// One sector at `start` of unit 2, complete before tick 10.
fn write_one(cache: &mut Cache, start: u32, sector: Sector) {
    let effect = Effect::Write { start, sectors: [sector].into() };
    let number = cache.submit(UnitId(2), effect, Fate::Kept);
    cache.complete(number, 5);
}

#[test]
fn what_a_failed_flush_forgets_is_shown_until_the_host_starts_anew() {
    let arena = Arena::new();
    let old = sector_of(&arena, 1);
    let mut image = Image::new(media(DiskKind::Discarding, LogicalBlock::B512));
    image.put(UnitId(2), 0, &[old; 64]);
    let mut cache = Cache::new(image);
    let mut rng = Rng::new(3);
    let new = sector_of(&arena, 2);
    (0..64).for_each(|start| write_one(&mut cache, start, new));
    cache.forget(DeviceId(0), 10, &mut rng);
    cache.flush(DeviceId(0), 20);
    let shown = cache.current().unit(UnitId(2));
    assert!(shown[..64].iter().all(|&sector| sector == new), "reads show all that was written");
    assert!(cache.pending().is_empty(), "the next flush covers what is left");
    cache.outlive_host(30, &mut rng);
    let kept = cache.current().unit(UnitId(2))[..64].iter().filter(|&&sector| sector == new);
    let kept = kept.count();
    assert!((1..40).contains(&kept), "{kept} of 64 are left");
}

#[test]
fn what_was_not_flushed_when_the_host_was_killed_is_still_volatile() {
    for kind in KINDS {
        let arena = Arena::new();
        let mut cache = Cache::new(Image::new(media(kind, LogicalBlock::B512)));
        let mut rng = Rng::new(9);
        let new = sector_of(&arena, 7);
        (0..8).for_each(|start| write_one(&mut cache, start, new));
        for start in 8..64 {
            let effect = Effect::Write { start, sectors: [new].into() };
            cache.submit(UnitId(2), effect, Fate::Kept);
        }
        cache.outlive_host(30, &mut rng);
        let shown = cache.current().unit(UnitId(2)).to_vec();
        assert!(shown[..8].iter().all(|&sector| sector == new), "what was complete is there");
        let rest = shown[8..64].iter().filter(|&&sector| sector == new).count();
        assert!(rest < 56, "{kind:?}: not all that was on its way is: {rest}");
        let mut out = Image::new(*cache.media());
        let mut none = CrashState(vec![Fate::Lost; cache.pending().len()]);
        cache.normalise(&mut none);
        cache.crash(&none, &mut out);
        assert!(out.unit(UnitId(2)).iter().all(|&sector| sector == Sector::ZEROS), "{kind:?}");
        cache.flush(DeviceId(0), 40);
        assert!(cache.pending().is_empty() && cache.stable().unit(UnitId(2)) == shown, "{kind:?}");
    }
}
