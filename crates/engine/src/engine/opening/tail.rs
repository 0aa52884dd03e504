//! The tail: finding the chunks that are to be replayed, and noticing when some are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use thermocline_format::{
    ChunkCause, ChunkHeader, DeviceState, Entry, Generation, Location, OpenUnit, Sequence,
    Superblock, home_mark,
};
use thermocline_types::{Class, UnitId, Version};

use super::heal::Single;
use super::known::TailChunk;
use super::{Doubtful, Life};
use crate::bugs::bug;
use crate::device::{DeviceCmd, Done, FoundChunks, ReadChunks, Versions};
use crate::engine::Parts;
use crate::engine::opening::Recovery;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::OpenError;

/// How often a block that may be torn is read before its place counts as unreadable. A torn block taken for whole hides
/// the previous version for good, so a transient error must not decide. Chosen, not measured.
const READ_TRIES: u8 = 4;

/// Chunks that are not there: how many, and the wrapping sum of their sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Deficit {
    chunks: u64,
    sum: u64,
}

impl Deficit {
    pub(super) fn add(&mut self, sequence: Sequence) {
        self.chunks += 1;
        self.sum = self.sum.wrapping_add(sequence.0);
    }
}

impl Life {
    /// A life of which nothing was found.
    pub(super) fn new(listed: OpenUnit) -> Life {
        let (end, replayed) = (listed.next.block, listed.next.block);
        let (class, from, chunks, durable) = (None, 0, Vec::new(), Sequence(0));
        let (replays, only_pages) = (false, true);
        Life { listed, class, end, replayed, from, chunks, replays, only_pages, durable }
    }

    /// A chunk was found; if it is `taken` and within the reach of the walk, it is to be replayed.
    ///
    /// An attempt to open the pool that was cut short may have written into the hole that ended its own walk. Chunks
    /// out of reach of the earlier attempt stay excluded, or a block would change without a write. It may be of another
    /// class, since that attempt found the unit empty.
    fn meet(
        &mut self,
        header: &ChunkHeader,
        class: Class,
        taken: bool,
        max_chunk: u32,
        keep: impl FnOnce() -> TailChunk,
    ) {
        let block = header.origin.location.block;
        let reached = block <= self.replayed.saturating_add(max_chunk);
        mark!(HoleSkipped if block > self.end);
        mark!(OutOfReach if taken && !reached);
        self.end = self.end.max(block + header.blocks);
        if taken && reached {
            self.replayed = self.replayed.max(block + header.blocks);
            self.chunks.push(keep());
            self.replays = true;
            self.only_pages &= header.origin.cause == ChunkCause::Checkpoint;
            self.durable = self.durable.max(header.origin.durable);
            self.class = Some(class);
        }
        self.class.get_or_insert(class);
    }
}

impl<P: Payload> Recovery<P> {
    /// Asks for the first chunk of each listed unit.
    pub(super) fn read_tail(&mut self, p: &mut Parts<P>) -> Result<(), OpenError> {
        let lost = self.lost_lives(p, self.record.as_ref().expect("a superblock was chosen"))?;
        let record = self.record.as_ref().expect("a superblock was chosen");
        let listed = record.open_units.iter().map(|listed| listed.next.unit);
        let held = (0..p.config.geometry.units()).map(UnitId);
        let held = held.filter(|unit| p.space.units().valid_count(*unit) > 0);
        let geometry = &p.config.geometry;
        let gone = |unit: &UnitId| geometry.state_of(*unit) == DeviceState::Detached;
        if let Some(unit) = listed.chain(held).find(gone) {
            mark!(NotDrained);
            return Err(OpenError::DeviceInUse(geometry.device_of(unit)));
        }
        self.lives = record.open_units.iter().map(|&listed| Life::new(listed)).collect();
        let clean = record.clean;
        for (index, lost) in lost.into_iter().enumerate() {
            let from = self.lives[index].listed.next.block;
            if lost {
                mark!(LifeLost);
                continue;
            }
            if from > 0 {
                self.read_life(p, index, 0, false);
            }
            if !clean {
                self.read_life(p, index, from, true);
            }
        }
        Ok(())
    }

    /// Of each listed unit, whether it is on a device that is lost; an error if chunks to be replayed may be, too.
    fn lost_lives(&self, p: &Parts<P>, record: &Superblock) -> Result<Vec<bool>, OpenError> {
        let geometry = &p.config.geometry;
        let listed = || record.open_units.iter().map(|listed| listed.next.unit);
        let lost = |unit: UnitId| geometry.state_of(unit) == DeviceState::Lost;
        // A device that the record marks lost gets no writes.
        let news =
            |unit: &UnitId| lost(*unit) && record.geometry.state_of(*unit) != DeviceState::Lost;
        let first = listed().find(news);
        if let Some(unit) = first.filter(|_| !record.clean && !p.config.open_despite_loss) {
            mark!(TailLost);
            return Err(OpenError::TailOn(geometry.device_of(unit)));
        }
        Ok(listed().map(lost).collect())
    }

    fn read_life(&mut self, p: &mut Parts<P>, index: usize, from: u32, search: bool) {
        let geometry = p.config.geometry;
        self.lives[index].from = from;
        let listed = self.lives[index].listed;
        let written = self.reports[listed.next.unit.index()].written;
        let end = written.unwrap_or(geometry.blocks_per_unit());
        if from >= end {
            return;
        }
        let header = thermocline_format::MAX_HEADER_BYTES / geometry.logical_block().bytes();
        let wide = geometry.logical_block().max_chunk() / 4;
        let window = if search { wide.max(header as u32) } else { header as u32 };
        self.ask(
            p,
            index,
            DeviceCmd::ReadChunks(ReadChunks {
                at: Location { unit: listed.next.unit, block: from },
                window: window.min(end - from),
                pool: p.pool,
                generation: Some(listed.generation),
                search,
                data: false,
                versions: Versions::All(p.members_of(listed.next.unit)),
            }),
        );
    }

    pub(super) fn tail_found(&mut self, p: &mut Parts<P>, index: usize, found: &FoundChunks<P>) {
        let max_chunk = p.config.geometry.logical_block().max_chunk();
        if let Some((revision, epoch)) = found.newest {
            self.named.0 = self.named.0.max(revision);
            self.named.1 = self.named.1.max(epoch);
        }
        let record = self.record.as_ref().expect("a superblock was chosen");
        let (life, headers) = (&mut self.lives[index], &mut self.headers);
        let config = &p.config;
        let taken = |header: &ChunkHeader| {
            let epoch = header.origin.epoch == record.tail_epoch;
            let sequence = header.origin.sequence;
            let within = record.tail_end.is_none_or(|end| sequence < end);
            mark!(OtherEpoch if !epoch);
            mark!(BehindTailEnd if epoch && !within);
            (epoch && within || bug!(config, EpochIgnored)) && sequence >= record.checkpoint
        };
        for chunk in &found.chunks {
            let header = &chunk.header;
            let class = config.class_named(header.origin.class).unwrap_or(Class(0));
            if header.origin.location.block < life.listed.next.block {
                life.class = Some(class);
                continue;
            }
            let keep = || headers.keep(header, index);
            let taken = taken(header);
            life.meet(header, class, taken, max_chunk, keep);
            self.single.extend(Single::of(chunk, &config.geometry).filter(|_| taken));
        }
        // The first chunk of a unit that was partly written is read for its class only. Behind the last chunk found,
        // one may be missing and the next be there.
        let only_class = found.next <= life.listed.next.block || found.next <= life.from;
        let hole = bug!(p.config, HoleEndsTail) && found.next > life.end;
        if !only_class && !hole && found.next <= life.end.saturating_add(max_chunk) && !record.clean
        {
            self.read_life(p, index, found.next, true);
        }
    }

    /// Looks for missing chunks, and reads once more the headers of those of which blocks may be torn.
    pub(super) fn check_tail(&mut self, p: &mut Parts<P>) -> Result<(), OpenError> {
        let record = self.record.as_ref().expect("a superblock was chosen");
        let mut tail = in_order(&mut self.lives);
        let abandoned: BTreeSet<Sequence> = tail
            .iter()
            .flat_map(|(_, chunk)| chunk.entries())
            .filter_map(|entry| match entry {
                Entry::Abandoned { sequence } => Some(*sequence),
                _ => None,
            })
            .collect();
        let mut known: Vec<Sequence> = tail.iter().map(|(_, chunk)| chunk.sequence()).collect();
        let there = |sequence: &Sequence| known.binary_search(sequence).is_ok();
        mark!(AbandonedFound if abandoned.iter().any(there));
        mark!(AbandonedGone if !abandoned.iter().all(there));
        known.extend(&abandoned);
        known.sort_unstable();
        known.dedup();
        // Abandoned ones, which may be there all the same, are neither replayed nor counted in Released.
        let durable = self.lives.iter().map(|life| life.durable).max().unwrap_or_default();
        let durable = durable.max(record.durable());
        let latest = latest_released(&tail);
        tail.retain(|(_, chunk)| !abandoned.contains(&chunk.sequence()));
        let (released, durable) = deficits(&tail, &self.lives, &latest, durable);
        self.durable = durable;
        self.whole = whole_up_to(durable, &known);
        self.released = latest.into_iter().map(|(life, (at, _))| (life, at)).collect();
        let in_vain = |life: &u32| self.is_in_vain(&self.lives[*life as usize], &p.space);
        let vain = tail.iter().filter(|(life, _)| in_vain(life)).count();
        self.vain = u32::try_from(vain).unwrap_or(u32::MAX);
        let (missing, first) = missing(record.checkpoint, durable, &known);
        let lost = !explained(missing, released, record.vain);
        let superblock_lost = self.named.0 > record.revision || self.named.1 > record.epoch;
        if !p.config.open_despite_loss {
            if superblock_lost {
                mark!(SuperblockLost);
                let (named, found) = (self.named.0.0, record.revision.0);
                return Err(OpenError::SuperblockLost { named, found });
            }
            if lost {
                mark!(ChunksLost);
                let missing = missing.chunks.saturating_sub(released.chunks).max(1);
                return Err(OpenError::ChunksLost { missing, first: first.0 });
            }
        }
        self.overlooked = lost || superblock_lost;
        mark!(LossOverlooked if self.overlooked);
        self.tail = tail.into_iter().map(|(_, chunk)| chunk).collect();
        self.read_headers_in_doubt(p);
        Ok(())
    }

    /// Reads every block above the durable sequence: a torn block does not count.
    pub(super) fn read_doubtful(&mut self, p: &mut Parts<P>) {
        let geometry = p.config.geometry;
        let mut wanted = Vec::new();
        for (chunk, kept) in self.tail.iter().enumerate() {
            let TailChunk::Kept(header) = kept else { continue };
            if header.origin.sequence <= self.durable || bug!(p.config, TornBlocksReplayed) {
                continue;
            }
            for (entry, (what, at)) in header.placed(&geometry).enumerate() {
                if let (Entry::Data { volume, lba, crc }, Some(at)) = (what, at)
                    && volume.is_user()
                {
                    let crc = crc ^ home_mark(*volume, *lba);
                    wanted.push(Doubtful { chunk, entry, crc, at, tries: READ_TRIES });
                }
            }
        }
        self.doubtful = wanted;
        self.note_unequal(&p.config);
        for index in 0..self.doubtful.len() {
            self.ask_doubtful(p, index);
        }
    }

    fn ask_doubtful(&mut self, p: &mut Parts<P>, index: usize) {
        self.doubtful[index].tries -= 1;
        let at = self.doubtful[index].at;
        let version = Version::AS_READ;
        self.ask(p, index, DeviceCmd::Read { at, blocks: 1, into: None, version });
    }

    pub(super) fn doubt_read(&mut self, p: &mut Parts<P>, index: usize, done: Option<&Done<P>>) {
        let doubtful = self.doubtful[index];
        let whole = |data: &P| p.arrived(data, 0, doubtful.at, |crc| crc == doubtful.crc);
        let torn = matches!(done, Some(Done::Data(data)) if !whole(data));
        match done {
            Some(_) if torn => {
                mark!(BlockTorn);
                self.torn.insert((doubtful.chunk, doubtful.entry));
                let before = Sequence(self.tail[doubtful.chunk].sequence().0 - 1);
                if !bug!(p.config, ReleasedBehindTorn) {
                    self.whole = self.whole.min(before);
                }
            }
            Some(_) => {}
            None if doubtful.tries > 0 => {
                mark!(DoubtReadAgain);
                self.ask_doubtful(p, index);
            }
            // What cannot be read may be whole, and promised: then the older version must not come back.
            None => mark!(DoubtUnreadable),
        }
    }
}

/// Which of the numbers from `from` to `until` are not `known`, which are in order and each there once, and the first
/// of them, or 0. Unused numbers may form large gaps, so the search skips whole gaps.
fn missing(from: Sequence, until: Sequence, known: &[Sequence]) -> (Deficit, Sequence) {
    if until < from {
        return (Deficit::default(), Sequence(0));
    }
    let within =
        known.partition_point(|one| *one < from)..known.partition_point(|one| *one <= until);
    let (mut total, mut first) = (Deficit::default(), Sequence(0));
    let mut next = from.0;
    for Sequence(end) in known[within].iter().copied().chain([Sequence(until.0 + 1)]) {
        let gap = end - next;
        if gap > 0 {
            // The sum of an arithmetic series.
            let sum = (u128::from(next) + u128::from(end - 1)) * u128::from(gap) / 2;
            total.chunks += gap;
            total.sum = total.sum.wrapping_add(sum as u64);
            first = if first.0 == 0 { Sequence(next) } else { first };
        }
        next = end + 1;
    }
    (total, first)
}

/// Whether what is `missing` is what was `released`, and no more than `vain` chunks of pages beside it.
fn explained(missing: Deficit, released: Deficit, vain: u32) -> bool {
    let more = missing.chunks.checked_sub(released.chunks);
    missing == released || vain > 0 && more.is_some_and(|more| more <= vain.into())
}

/// Up to where nothing is missing behind `durable` of numbers that are in order and each there once: all of that is
/// durable since the flush that the opening began with.
fn whole_up_to(durable: Sequence, known: &[Sequence]) -> Sequence {
    let behind = &known[known.partition_point(|one| *one <= durable)..];
    let mut next = durable.0 + 1;
    let whole = behind.iter().take_while(|one| one.0 == std::mem::replace(&mut next, one.0 + 1));
    whole.last().copied().unwrap_or(durable)
}

/// The chunks of all lives in the order of their numbers, each with the number of its life. One may have been met
/// twice, looking for the class of the unit and walking through it.
fn in_order(lives: &mut [Life]) -> Vec<(u32, TailChunk)> {
    let mut all = Vec::with_capacity(lives.iter().map(|life| life.chunks.len()).sum());
    for (life, number) in lives.iter_mut().zip(0..) {
        all.extend(std::mem::take(&mut life.chunks).into_iter().map(|chunk| (number, chunk)));
    }
    all.sort_by_key(|(_, chunk)| chunk.sequence());
    all.dedup_by_key(|(_, chunk)| chunk.sequence());
    all
}

/// What the newest Released entry of each life counts, by unit and generation, and the number of its chunk.
type Latest = BTreeMap<(u32, Generation), (Sequence, Deficit)>;

fn latest_released(tail: &[(u32, TailChunk)]) -> Latest {
    let mut latest = Latest::new();
    for (_, chunk) in tail {
        for entry in chunk.entries() {
            if let Entry::Released { unit, generation, chunks, sum } = *entry {
                let counted = Deficit { chunks: chunks.into(), sum };
                latest.insert((unit.0, generation), (chunk.sequence(), counted));
            }
        }
    }
    latest
}

/// What is missing of lives that were released, and the sequence up to which everything was durable.
///
/// A life of which less was found than its Released entry counts was reset, and that was done only after a flush that
/// covers the entry.
fn deficits(
    tail: &[(u32, TailChunk)],
    lives: &[Life],
    latest: &Latest,
    mut durable: Sequence,
) -> (Deficit, Sequence) {
    let of = |life: &Life| (life.listed.next.unit.0, life.listed.generation);
    let mut found: BTreeMap<(u32, Generation), Deficit> = BTreeMap::new();
    for (life, chunk) in tail {
        let life = of(&lives[*life as usize]);
        if latest.contains_key(&life) {
            found.entry(life).or_default().add(chunk.sequence());
        }
    }
    let mut total = Deficit::default();
    for (life, &(sequence, counted)) in latest {
        let found = found.get(life).copied().unwrap_or_default();
        mark!(LifeStillThere if counted.chunks <= found.chunks);
        if counted.chunks > found.chunks {
            mark!(LifeReleasedWhole if found.chunks == 0);
            mark!(LifeReleasedInPart if found.chunks > 0);
            total.chunks += counted.chunks - found.chunks;
            total.sum = total.sum.wrapping_add(counted.sum.wrapping_sub(found.sum));
            durable = durable.max(sequence);
        }
    }
    (total, durable)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thermocline_format::{ChunkOrigin, Epoch, OpenUnit, PoolId, Revision};
    use thermocline_types::UnitId;

    use super::*;

    /// A chunk of four blocks at `block`.
    fn chunk(block: u32) -> Arc<ChunkHeader> {
        let origin = ChunkOrigin {
            pool: PoolId([7; 16]),
            location: Location { unit: UnitId(5), block },
            generation: Generation(1),
            epoch: Epoch(1),
            sequence: Sequence(u64::from(block)),
            durable: Sequence(0),
            revision: Revision(1),
            cause: ChunkCause::Host,
            class: Class(0),
        };
        Arc::new(ChunkHeader { origin, blocks: 4, entries: Vec::new(), packed: None })
    }

    fn meet(life: &mut Life, block: u32, class: Class, taken: bool, max_chunk: u32) {
        let header = chunk(block);
        life.meet(&header, class, taken, max_chunk, || TailChunk::Kept(Arc::clone(&header)));
    }

    #[test]
    fn what_is_written_into_a_hole_brings_nothing_behind_it_within_reach() {
        const REACH: u32 = 256;
        let life = || {
            let next = Location { unit: UnitId(5), block: 10 };
            let listed = OpenUnit { next, generation: Generation(1) };
            Life {
                listed,
                class: None,
                end: 10,
                replayed: 10,
                from: 0,
                chunks: Vec::new(),
                replays: false,
                only_pages: true,
                durable: Sequence(0),
            }
        };
        let (mut first, mut second) = (life(), life());
        for walk in [&mut first, &mut second] {
            meet(walk, 10, Class(0), true, REACH);
            // Behind a hole as long as the longest chunk, and then behind a longer one.
            meet(walk, 14 + REACH, Class(0), true, REACH);
        }
        assert_eq!((first.chunks.len(), first.replayed), (2, 18 + REACH));
        // The opening that stopped here wrote chunks of another class, and the next one gets across.
        for block in (18 + REACH..600).step_by(4) {
            meet(&mut second, block, Class(1), false, REACH);
        }
        meet(&mut second, 600, Class(2), true, REACH);
        assert_eq!((second.chunks.len(), second.class), (2, Some(Class(0))));
        assert_eq!(second.end, 604, "what is written next goes behind all of it");
    }

    #[test]
    fn a_life_without_a_chunk_to_replay_is_of_the_class_of_what_is_found() {
        let next = Location { unit: UnitId(5), block: 0 };
        let listed = OpenUnit { next, generation: Generation(1) };
        let mut life = Life {
            listed,
            class: None,
            end: 0,
            replayed: 0,
            from: 0,
            chunks: Vec::new(),
            replays: false,
            only_pages: true,
            durable: Sequence(0),
        };
        meet(&mut life, 0, Class(3), false, 256);
        assert_eq!(life.class, Some(Class(3)));
        meet(&mut life, 4, Class(1), true, 256);
        assert_eq!(life.class, Some(Class(1)), "what counts was written by the last opening");
    }

    /// As it says: every number in turn.
    fn one_by_one(from: u64, until: u64, known: &BTreeSet<Sequence>) -> (Deficit, Sequence) {
        let (mut total, mut first) = (Deficit::default(), Sequence(0));
        for sequence in (from..=until).map(Sequence).filter(|one| !known.contains(one)) {
            total.add(sequence);
            first = if first.0 == 0 { sequence } else { first };
        }
        (total, first)
    }

    #[test]
    fn behind_a_hole_nothing_is_known_to_be_durable() {
        let known = [3, 7, 8, 9, 12, 40].map(Sequence);
        for (durable, whole) in
            [(7, 9), (6, 9), (5, 5), (9, 9), (11, 12), (2, 3), (40, 40), (90, 90)]
        {
            assert_eq!(whole_up_to(Sequence(durable), &known), Sequence(whole), "{durable}");
        }
    }

    #[test]
    fn what_is_missing_is_counted_without_going_through_all_numbers() {
        let numbers = [3, 7, 8, 9, 12, 40].map(Sequence);
        let known: BTreeSet<Sequence> = numbers.into();
        for (from, until) in [(1, 20), (3, 12), (7, 9), (8, 8), (10, 11), (12, 40), (5, 4)] {
            let counted = missing(Sequence(from), Sequence(until), &numbers);
            assert_eq!(counted, one_by_one(from, until, &known), "{from} to {until}");
        }
        let last = u64::MAX - 2;
        let (far, first) = missing(Sequence(1), Sequence(last), &[]);
        let sum = (u128::from(last) * u128::from(last + 1) / 2) as u64;
        assert_eq!((far, first), (Deficit { chunks: last, sum }, Sequence(1)));
    }
}
