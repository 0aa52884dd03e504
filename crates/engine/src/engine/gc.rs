//! Garbage collection: choose a victim, read its valid blocks, stage the blocks again.
//!
//! A victim is worked through in segments. Its chunks are found by reading their headers; a block is valid if the map
//! points at it. When all valid blocks of a segment are in memory they are placed, knowing how full the segment was.
//! The unit is dead when the last of its blocks has been sealed elsewhere, with blocks of the next victim where these
//! fill their chunks (`ending`). Pages of the map that are not in memory are loaded for it (`lookup`).
//!
//! Collection earns credit as the host writes: as many copies as it takes to free what the host uses, and more the
//! fewer units are free, so that its work is spread evenly and never comes as a burst.

mod check;
pub(crate) mod choice;
mod ending;
mod lookup;
mod pins;
mod place;
mod reads;
mod staying;
mod victim;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;

use rustc_hash::FxHashSet;
use thermocline_format::{Entry, Location, Places, VolumeId};
use thermocline_ftl::placement::Classifier as _;
use thermocline_types::{Class, Lba, UnitId};

use crate::config::ReadPlan;
use crate::device::{DeviceCmd, DeviceError, FoundChunk, FoundChunks, ReadChunks, Versions};
use crate::engine::gc::choice::Choice;
use crate::engine::{Op, Parts};
use crate::map::{PAGE, Value};
use crate::marks::mark;
use crate::payload::Payload;
use crate::tier::Stays;
use crate::volumes::PageCursor;

/// Blocks in memory and not placed above which no further segment is read: what the host can wait for at once, twice.
/// Chosen, not measured.
const READY: usize = 256;
/// Blocks placed in one step. Chosen, not measured.
const STEP: usize = 64;
/// Pages of maps searched in one step. Chosen so that a step takes well under a millisecond.
const SEARCHED: u32 = 16;

/// Limit of victims without host writes or trims, as a multiple of the number of units. Beyond the limit, relocation
/// frees no more units. One round would suffice if every unit came in turn. Chosen, not measured.
const ROUNDS: u32 = 8;

/// A valid block of the victim.
#[derive(Debug)]
struct Valid<P> {
    volume: u16,
    id: VolumeId,
    from: Class,
    crc: u32,
    lba: u64,
    value: Value,
    at: Location,
    payload: Option<P>,
    /// Its chunk, counted in the segment: reads do not go beyond one.
    chunk: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Looking for chunks from this logical block on.
    Walk(u32),
    /// Waiting for chunks.
    Walking,
    /// A header is damaged: looking through all maps for valid blocks that no header told of, from here on.
    Searching(PageCursor),
    /// All segments were looked through.
    Done,
}

/// Valid blocks of a segment; blocks not in memory are being read.
#[derive(Debug)]
struct Reading<P> {
    /// Its number among the segments of the victim.
    segment: u32,
    valid: Vec<Valid<P>>,
    /// What was asked for, as indices.
    reads: Vec<Range<usize>>,
    /// Reads that were not answered yet.
    left: u32,
    utilisation: f32,
}

#[derive(Debug)]
struct Job<P> {
    victim: UnitId,
    step: Step,
    /// Where the walk goes on after this segment.
    next: u32,
    /// Where the segment ends.
    segment_end: u32,
    end: u32,
    chunks: u32,
    /// Valid blocks of the segment that is looked through.
    valid: Vec<Valid<P>>,
    /// Segments that are being read, the first at the front.
    reading: VecDeque<Reading<P>>,
    /// Number of segments before the current segment.
    segments: u32,
    /// Blocks in memory, each with the utilisation of its segment.
    ready: VecDeque<(Valid<P>, f32)>,
    found: u32,
    /// Number of failed reads that may still be retried.
    retries: u32,
    /// Whether there was a unit for blocks of fast volumes, which all go there.
    stays: bool,
    /// Whether fast units do not run short, so that blocks of fast volumes stay where they are.
    early: bool,
    /// Valid blocks when it was chosen.
    at_first: u32,
    /// In a search, valid blocks that are known.
    known: FxHashSet<u64>,
    /// Blocks that headers told of, of pages that were not in memory: whether they are valid is still to be seen.
    unknown: Vec<Valid<P>>,
    /// Whether a header is damaged, or cannot be read.
    broken: bool,
    /// Pages that must stay in memory until the copies of their blocks were sealed.
    pins: Vec<(u16, VolumeId, u64)>,
    /// Whether as many pages are needed as may be: what is known is copied before more is looked up.
    drains: bool,
    /// Where the search goes on after that.
    search: Option<PageCursor>,
}

/// Collection while the host gets no further.
#[derive(Debug, Default)]
struct Round {
    /// Blocks that the host had written and trimmed when it began.
    done: u64,
    /// Victims chosen since.
    victims: u32,
    /// Whether units with blocks that could not be copied were given another chance.
    retried: bool,
}

/// Garbage collection.
#[derive(Debug)]
pub(crate) struct Collector<P> {
    job: Option<Job<P>>,
    /// Units with blocks that cannot be copied.
    stuck: FxHashSet<u32>,
    /// Fast units with blocks that stay there while no fast unit is free for them.
    kept: FxHashSet<u32>,
    /// Fast units that were emptied early, but for blocks of fast volumes.
    left_to_fast: FxHashSet<u32>,
    /// Whether every possible victim keeps blocks on fast devices. The blocks then leave the fast devices.
    overflows: bool,
    /// Number of the checkpoint after which a lack of victims is final.
    starved_at: Option<u64>,
    round: Round,
    /// Whether a unit was emptied for good while fast ones were short: the host gets a fast unit before collection
    /// empties another.
    owes_fast: bool,
    stays: Stays,
}

impl<P> Collector<P> {
    /// A collector; `stays` is the allowance of blocks that may stay on fast devices.
    pub(crate) fn new(stays: Stays) -> Collector<P> {
        Collector {
            job: None,
            stuck: FxHashSet::default(),
            kept: FxHashSet::default(),
            left_to_fast: FxHashSet::default(),
            overflows: false,
            starved_at: None,
            round: Round::default(),
            owes_fast: false,
            stays,
        }
    }
}

impl<P> Job<P> {
    /// Valid blocks that are in memory, or on their way there, and not placed.
    fn pending(&self) -> usize {
        self.ready.len() + self.reading.iter().map(|reading| reading.valid.len()).sum::<usize>()
    }

    /// Whether all that is known to be valid was placed, but for the segment that is looked through.
    fn has_placed_all(&self) -> bool {
        self.ready.is_empty() && self.reading.is_empty()
    }
}

/// What a step of garbage collection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Whether anything was done.
    pub(crate) worked: bool,
    /// The next step in the absence of a victim.
    pub(crate) lacks: Option<Choice>,
}

impl Collected {
    fn nothing() -> Collected {
        Collected { worked: false, lacks: None }
    }

    fn something() -> Collected {
        Collected { worked: true, lacks: None }
    }

    /// Combines the result with another step that may have `worked`.
    fn or(self, worked: bool) -> Collected {
        Collected { worked: self.worked || worked, ..self }
    }
}

impl<P: Payload> Collector<P> {
    /// Takes garbage collection a bounded step further. Returns whether anything was done.
    pub(crate) fn step(&mut self, p: &mut Parts<P>) -> Collected {
        let collected = self.collect(p);
        self.tell_victim(p);
        collected
    }

    fn collect(&mut self, p: &mut Parts<P>) -> Collected {
        let needed = p.host_has_no_unit();
        p.collection.borrow_only_if(needed);
        let ended = self.end_victims(p);
        let Some(job) = &self.job else { return self.begin_next(p).or(ended) };
        let (step, ready, pending) = (job.step, job.ready.len(), job.pending());
        let read = job.reading.front().is_some_and(|reading| reading.left == 0);
        let placed = ready > 0 && self.place(p);
        let read = read && self.segment_read();
        let mut lacks = None;
        let moved = match step {
            Step::Walk(from) if self.is_behind() => self.look_up(p, from),
            Step::Walk(_) if pending > READY => false,
            Step::Walk(from) => self.walk(p, from),
            Step::Searching(cursor) => self.search(p, cursor),
            Step::Walking => false,
            Step::Done => pending == 0 && self.finish_job(p, &mut lacks),
        };
        Collected { worked: placed || read || moved || ended, lacks }
    }

    /// A unit is empty: its uncopied blocks are gone.
    pub(crate) fn unstick(&mut self, unit: UnitId) {
        self.stuck.remove(&unit.0);
        self.kept.remove(&unit.0);
        self.left_to_fast.remove(&unit.0);
    }

    /// A volume is on other media from now on: what stayed may leave.
    pub(crate) fn media_changed(&mut self, p: &mut Parts<P>) {
        for unit in self.left_to_fast.drain() {
            p.destage.begin_age(UnitId(unit), p.now);
        }
    }

    /// Reads on in the victim until its segment is known.
    fn walk(&mut self, p: &mut Parts<P>, from: u32) -> bool {
        let job = self.job.as_mut().expect("a job is at this step");
        if from >= job.segment_end {
            job.next = from;
            return self.read_valid(p);
        }
        job.step = Step::Walking;
        let (victim, left) = (job.victim, job.end - from);
        let block = p.config.geometry.logical_block().bytes() as u32;
        let header = thermocline_format::MAX_HEADER_BYTES as u32 / block;
        let (window, data) = match p.config.gc.read_plan {
            ReadPlan::Basic => (header, false),
            ReadPlan::Segment => (p.config.gc.read_bytes / block, true),
            ReadPlan::Cost { command_bytes } => {
                (command_bytes.min(p.config.gc.read_bytes) / block, true)
            }
        };
        let window = window.max(header).min(left);
        p.stats.gc_reads += 1;
        p.stats.gc_bytes_read += u64::from(window) * u64::from(block);
        let at = Location { unit: victim, block: from };
        let pool = p.pool;
        let generation = p.space.known_generation(victim);
        let cmd = ReadChunks {
            at,
            window,
            pool,
            generation,
            search: false,
            data,
            versions: Versions::AsRead,
        };
        let op = p.ops.insert(Op::GcChunks { request: cmd });
        p.device(op, DeviceCmd::ReadChunks(cmd));
        true
    }

    pub(crate) fn chunks_found(&mut self, p: &mut Parts<P>, found: &FoundChunks<P>) {
        let mut job = self.job.take().expect("a job asked for the chunks");
        let pays = p.space.media_of(job.victim) == p.config.host_media();
        for chunk in &found.chunks {
            job.chunks += 1;
            let before = job.valid.len() + job.unknown.len();
            self.find_valid(p, &mut job, chunk);
            if pays {
                let valid = job.valid.len() + job.unknown.len() - before;
                p.collection.pace_mut().look_through(chunk.header.blocks, valid as u32);
            }
        }
        let stopped = found.unsound || found.chunks.is_empty();
        job.step = Step::Walk(if stopped { job.end } else { found.next });
        if stopped {
            mark!(HeaderMissing);
            job.segment_end = job.end;
            job.broken = true;
        }
        self.job = Some(job);
        self.tell_victim(p);
    }

    /// Adds the blocks of a chunk of the victim that the map points at.
    fn find_valid(&mut self, p: &mut Parts<P>, job: &mut Job<P>, chunk: &FoundChunk<P>) {
        let header = &*chunk.header;
        // Chunks are of few volumes, mostly one: each is looked up once for the entries that follow each other.
        let same = |one: &Entry, next: &Entry| volume_of(one) == volume_of(next);
        let places = header.places(&p.config.geometry);
        let mut number = 0;
        for run in header.entries.chunk_by(same) {
            let blocks = run.iter().filter(|entry| entry.has_block()).count() as u32;
            if let Some(id) = run.first().and_then(volume_of)
                && let Some(volume) = p.volumes.layer(id)
            {
                self.find_valid_run(p, job, (chunk, run), (volume, id), (places, number));
            }
            number += blocks;
        }
    }

    /// Adds what is valid of a run of blocks of one volume, the first of which is block `number` of the chunk.
    fn find_valid_run(
        &mut self,
        p: &mut Parts<P>,
        job: &mut Job<P>,
        (chunk, run): (&FoundChunk<P>, &[Entry]),
        (volume, id): (u16, VolumeId),
        (places, number): (Places, u32),
    ) {
        let map = p.volumes.map(volume);
        let (blocks, base) = (map.blocks, map.base);
        let redundant = p.members_of(job.victim) > 0;
        if !p.space.knows_valid(job.victim) {
            let lbas = run.iter().filter_map(|entry| match *entry {
                Entry::Data { lba, .. } if lba.0 < blocks => Some(lba.0),
                _ => None,
            });
            lbas.for_each(|lba| map.prefetch(lba));
        }
        for (number, entry) in (number..).zip(run) {
            let Entry::Data { lba, crc, .. } = *entry else { continue };
            let at = places.of(number);
            let value = Value::new(p.config.geometry.address(at), crc);
            if lba.0 >= blocks {
                continue;
            }
            let valid = p.is_valid(volume, lba.0, value);
            if valid == Some(false) {
                continue;
            }
            // Where the map alone knows, the page stays until what is copied was sealed.
            let pinned = p.space.knows_valid(job.victim)
                || valid.is_some() && self.may_pin(p, job, (volume, id, lba.0 / PAGE));
            let known = valid.is_some() && pinned;
            mark!(PackedSurvivor if places.behind(number).is_none());
            let mut valid = Valid {
                volume,
                id,
                from: p.space.units().class(job.victim),
                crc,
                lba: lba.0,
                value,
                at,
                payload: None,
                chunk: job.chunks,
            };
            // On redundant devices, a block with a wrong checksum is read again from other versions.
            let payload = chunk.block(number, &places);
            let again = |payload: &P| redundant && !self.is_survivor(p, &valid, payload, 0);
            valid.payload = payload.filter(|payload| !again(payload));
            if known {
                job.found += 1;
                p.config.placement.prefetch_survivor(Lba(base + lba.0));
                job.valid.push(valid);
            } else {
                job.unknown.push(valid);
            }
        }
    }

    pub(crate) fn unreadable(&mut self, _error: DeviceError) {
        let Some(job) = &mut self.job else { return };
        job.step = Step::Walk(job.end);
        job.segment_end = job.end;
        job.broken = true;
        mark!(VictimUnreadable);
    }

    pub(crate) fn data_read(
        &mut self,
        p: &mut Parts<P>,
        segment: u32,
        first: usize,
        data: Option<&P>,
    ) {
        let per_block = p.config.geometry.logical_block().per_block();
        let Some(mut job) = self.job.take() else { return };
        let reading = job.reading.iter_mut().find(|reading| reading.segment == segment);
        let reading = reading.expect("a segment is there until all of it was read");
        let range = reading.reads.iter().find(|range| range.start == first).cloned();
        let range = range.expect("every read was planned");
        let start = reading.valid[first].at.block;
        if data.is_none() && job.retries > 0 {
            mark!(VictimReadAgain);
            // The unit cannot be freed without these blocks, and the others would be copied for nothing.
            job.retries -= 1;
            self.read_range(p, &reading.valid[range], segment, first);
            self.job = Some(job);
            return;
        }
        if let Some(data) = data {
            for valid in &mut reading.valid[range] {
                if valid.payload.is_none() {
                    valid.payload = Some(data.slice((valid.at.block - start) / per_block, 1));
                }
            }
        }
        reading.left -= 1;
        self.job = Some(job);
    }

    /// The blocks of the first segment that was being read are in memory: they can be placed.
    fn segment_read(&mut self) -> bool {
        let job = self.job.as_mut().expect("a job reads");
        let Some(Reading { valid, utilisation, .. }) = job.reading.pop_front() else {
            return false;
        };
        job.ready.extend(valid.into_iter().map(|valid| (valid, utilisation)));
        true
    }
}

/// The volume whose block an entry is about; `None` for entries without one.
fn volume_of(entry: &Entry) -> Option<VolumeId> {
    match entry {
        Entry::Data { volume, .. } => Some(*volume),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use thermocline_ftl::UnitState;
    use thermocline_types::Time;

    use super::*;
    use crate::config::DestageConfig;
    use crate::engine::parts::testing::{blocks, free, parts, tiered};
    use crate::request::RequestId;

    fn collector() -> Collector<()> {
        Collector::new(Stays::new(0))
    }

    #[test]
    fn nothing_is_collected_while_units_are_enough_or_a_recovery_is_not_safe() {
        let mut p = parts();
        free(&mut p, 2, 60);
        assert_eq!(collector().step(&mut p), Collected::nothing());
        let mut p = parts();
        p.superblocks.set_settled(false);
        assert_eq!(collector().step(&mut p), Collected::nothing());
        assert!(p.collection.is_idle());
    }

    #[test]
    fn without_a_victim_a_checkpoint_is_tried_before_the_pool_counts_as_full() {
        let mut p = parts();
        let mut collector = collector();
        assert!(p.write_at_once(RequestId(1), blocks(0, 1), &(), 0));
        let lacks = |choice| Collected { worked: false, lacks: Some(choice) };
        assert_eq!(collector.step(&mut p), lacks(Choice::Checkpoint));
        collector.starve(&mut p);
        assert!(p.due.is_wanted());
        assert_eq!(collector.step(&mut p), Collected::nothing(), "the checkpoint may help");
        p.due.begin();
        assert_eq!(collector.step(&mut p), Collected::nothing());
        p.due.end();
        p.stats.checkpoints += 1;
        assert_eq!(collector.step(&mut p), lacks(Choice::Starved));
    }

    #[test]
    fn what_could_not_be_copied_is_tried_once_more() {
        let mut p = parts();
        let mut collector = collector();
        collector.stuck.insert(9);
        assert_eq!(collector.step(&mut p), Collected::something());
        assert!(collector.stuck.is_empty() && collector.round.retried);
        assert!(collector.step(&mut p).lacks.is_some());
    }

    #[test]
    fn an_overdue_unit_is_taken_unless_its_blocks_cannot_leave() {
        let destage = DestageConfig { max_age: Some(Time(10)), ..Default::default() };
        let (mut p, mut collector) = (tiered(destage), collector());
        p.now = Time(10);
        for unit in [70, 71, 72].map(UnitId) {
            let arrivals = p.config.arrivals().expect("there is a fast device");
            p.space.adopt(unit, UnitState::Closed, arrivals, 256);
            p.space.add_valid(unit);
            p.destage.begin_age(unit, Time(0));
        }
        collector.stuck.insert(70);
        collector.left_to_fast.insert(71);
        assert_eq!(collector.overdue_unit(&mut p), Some(UnitId(72)));
        assert_eq!(p.destage.overdue(p.now), Some(UnitId(72)), "ages of the others end");
    }
}
