//! Garbage collection: choose a victim, read what is valid in it, stage that again.
//!
//! A victim is worked through in segments. Its chunks are found by reading their headers; a block is valid if the map
//! points at it. When all valid blocks of a segment are in memory they are placed, knowing how full the segment was.
//! The unit is dead when the last of its blocks has been sealed elsewhere, with blocks of the next victim where these
//! fill their chunks (`ending`). Pages of the map that are not in memory are loaded for it (`lookup`).
//!
//! Collection earns credit as the host writes: as many copies as it takes to free what the host uses, and more the
//! fewer units are free, so that its work is spread evenly and never comes as a burst.

mod check;
mod choice;
mod ending;
mod lookup;
mod place;
mod victim;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;

use rustc_hash::FxHashSet;
use thermocline_format::{Entry, Location, MediaClass, Places, VolumeId};
use thermocline_ftl::placement::Classifier as _;
use thermocline_types::{Class, Lba, UnitId, Version};

use crate::collection::Victim;
use crate::config::ReadPlan;
use crate::device::{DeviceCmd, DeviceError, FoundChunk, FoundChunks, ReadChunks, Versions};
use crate::engine::{Engine, Op};
use crate::map::{PAGE, Value};
use crate::marks::mark;
use crate::payload::Payload;
use crate::volumes::PageCursor;

/// Blocks in memory and not placed above which no further segment is read: what the host can wait for at once, twice.
/// Chosen, not measured.
const READY: usize = 256;
/// Blocks placed in one step. Chosen, not measured.
const STEP: usize = 64;
/// Pages of maps searched in one step. Chosen so that a step takes well under a millisecond.
const SEARCHED: u32 = 16;

/// Reads of a victim that are tried again when they fail. Chosen, not measured.
const RETRIES: u32 = 16;

/// So many times as many victims as there are units, while nothing is written or trimmed, show that moving blocks about
/// frees nothing any more. Once around would do if each unit came in turn. Chosen, not measured.
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

/// Valid blocks of a segment, those that are not in memory on their way there.
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
    /// How many segments there were before the one that is looked through.
    segments: u32,
    /// Blocks in memory, each with the utilisation of its segment.
    ready: VecDeque<(Valid<P>, f32)>,
    found: u32,
    /// How many more reads that fail are tried again.
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
pub(crate) struct Gc<P> {
    job: Option<Job<P>>,
    /// Units with blocks that cannot be copied.
    stuck: FxHashSet<u32>,
    /// Fast units with blocks that stay there while no fast unit is free for them.
    kept: FxHashSet<u32>,
    /// Fast units that were emptied early, but for blocks of fast volumes.
    left_to_fast: FxHashSet<u32>,
    /// Whether there is no other victim than those that keep blocks, so that their blocks leave the fast devices.
    overflows: bool,
    /// The checkpoint after which it is certain that nothing can be collected.
    starved_at: Option<u64>,
    round: Round,
    /// Whether a unit was emptied for good while fast ones were short: hosts get one of these before the next.
    owes_fast: bool,
}

impl<P> Default for Gc<P> {
    fn default() -> Self {
        Gc {
            job: None,
            stuck: FxHashSet::default(),
            kept: FxHashSet::default(),
            left_to_fast: FxHashSet::default(),
            overflows: false,
            starved_at: None,
            round: Round::default(),
            owes_fast: false,
        }
    }
}

impl<P> Gc<P> {
    /// Whether there is a unit for blocks of fast volumes, or was for those of the same victim.
    pub(crate) fn has_unit_to_stay(&mut self, now: bool) -> bool {
        self.job.as_mut().is_some_and(|job| {
            job.stays |= now;
            job.stays
        })
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

impl<P: Payload> Engine<P> {
    /// Takes garbage collection a bounded step further. Returns whether anything was done.
    pub(crate) fn gc_step(&mut self) -> bool {
        let worked = self.collect();
        self.tell_victim();
        worked
    }

    /// Others are to know what is left of the victim.
    fn tell_victim(&mut self) {
        let victim = self.gc.job.as_ref().map(|job| {
            let (over, placed) = (job.step == Step::Done, job.has_placed_all());
            let staged_all = (over || job.drains && job.valid.is_empty()) && placed;
            let is_over = over && placed && job.pins.is_empty();
            Victim { unit: job.victim, staged_all, is_over, pins: job.pins.len() }
        });
        self.parts.collection.set_victim(victim);
    }

    fn collect(&mut self) -> bool {
        let needed = self.parts.host_has_no_unit();
        self.parts.collection.borrow_only_if(needed);
        let ended = self.end_victims();
        let Some(job) = &self.gc.job else { return self.gc_next() || ended };
        let (step, ready, pending) = (job.step, job.ready.len(), job.pending());
        let read = job.reading.front().is_some_and(|reading| reading.left == 0);
        let placed = ready > 0 && self.place();
        let read = read && self.segment_read();
        let moved = match step {
            Step::Walk(from) if self.gc.is_behind() => self.look_up(from),
            Step::Walk(_) if pending > READY => false,
            Step::Walk(from) => self.walk(from),
            Step::Searching(cursor) => self.search(cursor),
            Step::Walking => false,
            Step::Done => pending == 0 && self.finish_job(),
        };
        placed || read || moved || ended
    }

    /// A unit is empty: whatever of it could not be copied is gone.
    pub(crate) fn gc_unstick(&mut self, unit: UnitId) {
        self.gc.stuck.remove(&unit.0);
        self.gc.kept.remove(&unit.0);
        self.gc.left_to_fast.remove(&unit.0);
    }

    /// A volume is on other media from now on: what stayed may leave.
    pub(crate) fn gc_media_changed(&mut self) {
        for unit in self.gc.left_to_fast.drain() {
            self.parts.destage.begin_age(UnitId(unit), self.parts.now);
        }
    }

    fn begin_job(&mut self, victim: UnitId) {
        self.gc.starved_at = None;
        self.gc.round.victims += 1;
        let valid = self.parts.space.units().valid_count(victim);
        let end = self.parts.space.units().written(victim);
        // What is destaged takes no room where it was.
        let fast = self.parts.space.media_of(victim) == MediaClass::Fast;
        let dense = if fast { u64::MAX } else { self.parts.dense };
        if fast == self.parts.config.geometry.is_tiered() {
            self.parts.collection.pace_mut().set_ratio(
                valid,
                self.parts.config.geometry.blocks_per_unit(),
                dense,
            );
            self.parts.collection.pace_mut().set_unit(self.parts.dense);
            self.parts.collection.pace_mut().begin(valid, end);
        }
        if !fast {
            self.parts.config.placement.collected(
                self.parts.space.units(),
                victim,
                self.parts.host_writes,
            );
        }
        let tiered = self.parts.config.geometry.is_tiered();
        self.gc.owes_fast = if self.parts.space.is_condemned(victim) {
            tiered && self.parts.is_short(MediaClass::Fast)
        } else {
            self.gc.owes_fast && !fast
        };
        self.parts.space.begin_relocation(victim);
        self.gc.job = Some(Job {
            victim,
            step: Step::Walk(0),
            next: 0,
            segment_end: self.segment_blocks().min(end),
            end,
            chunks: 0,
            valid: Vec::new(),
            reading: VecDeque::new(),
            segments: 0,
            ready: VecDeque::new(),
            found: 0,
            retries: RETRIES,
            stays: false,
            early: fast
                && !self.parts.is_short(MediaClass::Fast)
                && !self.parts.space.is_condemned(victim),
            at_first: valid,
            known: FxHashSet::default(),
            unknown: Vec::new(),
            broken: false,
            pins: Vec::new(),
            drains: false,
            search: None,
        });
    }

    fn segment_blocks(&self) -> u32 {
        let block = self.parts.config.geometry.logical_block().bytes() as u64;
        (self.parts.config.gc.segment_bytes / block)
            .clamp(1, u64::from(self.parts.config.geometry.blocks_per_unit())) as u32
    }

    /// Reads on in the victim until its segment is known.
    fn walk(&mut self, from: u32) -> bool {
        let job = self.gc.job.as_mut().expect("a job is at this step");
        if from >= job.segment_end {
            job.next = from;
            return self.read_valid();
        }
        job.step = Step::Walking;
        let (victim, left) = (job.victim, job.end - from);
        let block = self.parts.config.geometry.logical_block().bytes() as u32;
        let header = thermocline_format::MAX_HEADER_BYTES as u32 / block;
        let (window, data) = match self.parts.config.gc.read_plan {
            ReadPlan::Basic => (header, false),
            ReadPlan::Segment => (self.parts.config.gc.read_bytes / block, true),
            ReadPlan::Cost { command_bytes } => {
                (command_bytes.min(self.parts.config.gc.read_bytes) / block, true)
            }
        };
        let window = window.max(header).min(left);
        self.parts.stats.gc_reads += 1;
        self.parts.stats.gc_bytes_read += u64::from(window) * u64::from(block);
        let at = Location { unit: victim, block: from };
        let pool = self.parts.pool;
        let generation = self.parts.space.known_generation(victim);
        let cmd = ReadChunks {
            at,
            window,
            pool,
            generation,
            search: false,
            data,
            versions: Versions::AsRead,
        };
        let op = self.parts.ops.insert(Op::GcChunks { request: cmd });
        self.parts.device(op, DeviceCmd::ReadChunks(cmd));
        true
    }

    pub(crate) fn gc_chunks_found(&mut self, found: &FoundChunks<P>) {
        let mut job = self.gc.job.take().expect("a job asked for the chunks");
        let pays = self.parts.space.media_of(job.victim) == self.parts.config.host_media();
        for chunk in &found.chunks {
            job.chunks += 1;
            let before = job.valid.len() + job.unknown.len();
            self.find_valid(&mut job, chunk);
            if pays {
                let valid = job.valid.len() + job.unknown.len() - before;
                self.parts.collection.pace_mut().look_through(chunk.header.blocks, valid as u32);
            }
        }
        let stopped = found.unsound || found.chunks.is_empty();
        job.step = Step::Walk(if stopped { job.end } else { found.next });
        if stopped {
            mark!(HeaderMissing);
            job.segment_end = job.end;
            job.broken = true;
        }
        self.gc.job = Some(job);
        self.tell_victim();
    }

    /// Adds the blocks of a chunk of the victim that the map points at.
    fn find_valid(&mut self, job: &mut Job<P>, chunk: &FoundChunk<P>) {
        let header = &*chunk.header;
        // Chunks are of few volumes, mostly one: each is looked up once for the entries that follow each other.
        let same = |one: &Entry, next: &Entry| volume_of(one) == volume_of(next);
        let places = header.places(&self.parts.config.geometry);
        let mut number = 0;
        for run in header.entries.chunk_by(same) {
            let blocks = run.iter().filter(|entry| entry.has_block()).count() as u32;
            if let Some(id) = run.first().and_then(volume_of)
                && let Some(volume) = self.parts.volumes.index(id)
            {
                self.find_valid_run(job, chunk, run, (volume, id), places, number);
            }
            number += blocks;
        }
    }

    /// Adds what is valid of a run of blocks of one volume, the first of which is block `number` of the chunk.
    fn find_valid_run(
        &mut self,
        job: &mut Job<P>,
        chunk: &FoundChunk<P>,
        run: &[Entry],
        (volume, id): (u16, VolumeId),
        places: Places,
        number: u32,
    ) {
        let map = self.parts.volumes.map(volume);
        let (blocks, base) = (map.blocks, map.base);
        let redundant = self.parts.members_of(job.victim) > 0;
        if !self.parts.space.knows_valid(job.victim) {
            let lbas = run.iter().filter_map(|entry| match *entry {
                Entry::Data { lba, .. } if lba.0 < blocks => Some(lba.0),
                _ => None,
            });
            lbas.for_each(|lba| map.prefetch(lba));
        }
        for (number, entry) in (number..).zip(run) {
            let Entry::Data { lba, crc, .. } = *entry else { continue };
            let at = places.of(number);
            let value = Value::new(self.parts.config.geometry.address(at), crc);
            if lba.0 >= blocks {
                continue;
            }
            let valid = self.parts.is_valid(volume, lba.0, value);
            if valid == Some(false) {
                continue;
            }
            // Where the map alone knows, the page stays until what is copied was sealed.
            let pinned = self.parts.space.knows_valid(job.victim)
                || valid.is_some() && self.may_pin(job, (volume, id, lba.0 / PAGE));
            let known = valid.is_some() && pinned;
            mark!(PackedSurvivor if places.behind(number).is_none());
            let mut valid = Valid {
                volume,
                id,
                from: self.parts.space.units().class(job.victim),
                crc,
                lba: lba.0,
                value,
                at,
                payload: None,
                chunk: job.chunks,
            };
            // One that is wrong is read once more, where there are other versions of it.
            let payload = chunk.block(number, &places);
            let again = |payload: &P| redundant && !self.is_survivor(&valid, payload, 0);
            valid.payload = payload.filter(|payload| !again(payload));
            if known {
                job.found += 1;
                self.parts.config.placement.prefetch_survivor(Lba(base + lba.0));
                job.valid.push(valid);
            } else {
                job.unknown.push(valid);
            }
        }
    }

    pub(crate) fn gc_unreadable(&mut self, _error: DeviceError) {
        let Some(job) = &mut self.gc.job else { return };
        job.step = Step::Walk(job.end);
        job.segment_end = job.end;
        job.broken = true;
        mark!(VictimUnreadable);
    }

    /// Reads the valid blocks of the segment that are not in memory yet, while the next one is looked through.
    fn read_valid(&mut self) -> bool {
        let per_block = self.parts.config.geometry.logical_block().per_block();
        let segment = self.segment_blocks();
        let mut job = self.gc.job.take().expect("a job is at this step");
        let mut valid = std::mem::take(&mut job.valid);
        valid.sort_unstable_by_key(|valid| valid.at.block);
        let utilisation = (valid.len() as f32 / (segment / per_block).max(1) as f32).min(1.0);
        let reads = self.plan_reads(&valid);
        for range in &reads {
            self.read_range(&valid[range.clone()], job.segments, range.start);
        }
        let (number, left) = (job.segments, reads.len() as u32);
        job.reading.push_back(Reading { segment: number, valid, reads, left, utilisation });
        job.segments += 1;
        job.segment_end = (job.next + segment).min(job.end);
        let over = job.next >= job.end && !job.is_behind();
        job.step = if over { Step::Done } else { Step::Walk(job.next) };
        self.gc.job = Some(job);
        true
    }

    /// Reads a run of valid blocks of a segment; `first` is the index of the first.
    fn read_range(&mut self, run: &[Valid<P>], segment: u32, first: usize) {
        let per_block = self.parts.config.geometry.logical_block().per_block();
        let (at, last) = (run[0].at, run[run.len() - 1].at);
        let blocks = (last.block - at.block) / per_block + 1;
        self.parts.stats.gc_reads += 1;
        self.parts.stats.gc_bytes_read += u64::from(blocks) * 4096;
        let op = self.parts.ops.insert(Op::GcRead { segment, first });
        self.parts
            .device(op, DeviceCmd::Read { at, blocks, into: None, version: Version::AS_READ });
    }

    /// Runs of valid blocks, as indices, each to be read by one command.
    fn plan_reads(&self, valid: &[Valid<P>]) -> Vec<Range<usize>> {
        let block = self.parts.config.geometry.logical_block();
        let gap = match self.parts.config.gc.read_plan {
            ReadPlan::Basic => 0,
            ReadPlan::Segment => u32::MAX,
            ReadPlan::Cost { command_bytes } => command_bytes,
        };
        let most = self.parts.config.gc.read_bytes.max(4096);
        let mut reads: Vec<Range<usize>> = Vec::new();
        for (index, next) in valid.iter().enumerate().filter(|(_, valid)| valid.payload.is_none()) {
            if let Some(last) = reads.last_mut() {
                let (head, tail) = (&valid[last.start], &valid[last.end - 1]);
                let between =
                    (next.at.block - tail.at.block - block.per_block()) * block.bytes() as u32;
                let whole =
                    (next.at.block - head.at.block + block.per_block()) * block.bytes() as u32;
                let basic = self.parts.config.gc.read_plan == ReadPlan::Basic;
                if next.chunk == tail.chunk && between <= gap && whole <= most && !basic {
                    last.end = index + 1;
                    continue;
                }
            }
            reads.push(index..index + 1);
        }
        reads
    }

    pub(crate) fn gc_data_read(&mut self, segment: u32, first: usize, data: Option<&P>) {
        let per_block = self.parts.config.geometry.logical_block().per_block();
        let Some(mut job) = self.gc.job.take() else { return };
        let reading = job.reading.iter_mut().find(|reading| reading.segment == segment);
        let reading = reading.expect("a segment is there until all of it was read");
        let range = reading.reads.iter().find(|range| range.start == first).cloned();
        let range = range.expect("every read was planned");
        let start = reading.valid[first].at.block;
        if data.is_none() && job.retries > 0 {
            mark!(VictimReadAgain);
            // The unit cannot be freed without these blocks, and the others would be copied for nothing.
            job.retries -= 1;
            self.read_range(&reading.valid[range], segment, first);
            self.gc.job = Some(job);
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
        self.gc.job = Some(job);
    }

    /// The blocks of the first segment that was being read are in memory: they can be placed.
    fn segment_read(&mut self) -> bool {
        let job = self.gc.job.as_mut().expect("a job reads");
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
