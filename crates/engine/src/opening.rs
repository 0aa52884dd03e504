//! Making a pool, and opening one: from what is on the device to an engine that takes requests.
//!
//! `docs/FORMAT.md`, section 6, has the steps and why they are sound. Nothing is written before the last of them.
//! Pages of the map that no chunk of the tail touches are loaded later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thermocline_format::{
    ChunkHeader, Entry, Epoch, Generation, Location, LogicalBlock, MapPage, OpenUnit, PageId,
    PoolId, Revision, Sequence, Superblock, VolumeId, VolumeName,
};
use thermocline_ftl::UnitState;
use thermocline_types::{Class, UnitId};

use crate::device::{
    DeviceCmd, DeviceError, Done, FoundChunks, ReadChunks, UnitCondition, UnitReport,
};
use crate::engine::{Engine, Op, Phase};
use crate::map::{Mapping, PAGE, Value, VolumeMap};
use crate::pages::Loaded;
use crate::payload::Payload;
use crate::request::{Action, Notice, OpenError};

/// Chunks found in a life of a unit, and how far the walk through it is.
#[derive(Debug)]
struct Life {
    listed: OpenUnit,
    /// The class of its chunks; `None` while no chunk of this life was found.
    class: Option<Class>,
    /// Behind the last chunk found.
    end: u32,
    /// From where it is being read.
    from: u32,
    /// Chunks that are to be replayed.
    chunks: Vec<Arc<ChunkHeader>>,
}

/// A block above the durable sequence, which counts only if it is whole.
#[derive(Clone, Copy, Debug)]
struct Doubtful {
    chunk: usize,
    entry: usize,
    crc: u32,
}

/// Chunks that are not there: how many, and the wrapping sum of their sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Deficit {
    chunks: u64,
    sum: u64,
}

impl Deficit {
    fn add(&mut self, sequence: Sequence) {
        self.chunks += 1;
        self.sum = self.sum.wrapping_add(sequence.0);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Report,
    /// Formatting: emptying units.
    Emptying,
    /// Formatting: making that durable.
    FlushEmpty,
    /// Formatting: the first record.
    FirstRecord,
    /// Making durable what an earlier process wrote, or the first record: what recovery is about to believe.
    Flush,
    Superblocks,
    Roots,
    /// Reading the first chunk of each listed unit, and all from where it is listed.
    Tail,
    /// Reading blocks that may be torn.
    Doubts,
    /// Loading the pages that the tail touches.
    Pages,
    /// Writing the record of this opening.
    Record,
}

/// What is known while a pool is being opened.
#[derive(Debug)]
pub(crate) struct Opening<P> {
    stage: Stage,
    format: Option<PoolId>,
    reports: Vec<UnitReport>,
    record: Option<Superblock>,
    /// Root pages on their way: volume and number.
    roots: Vec<(u16, usize)>,
    lives: Vec<Life>,
    /// The tail in the order of sequences.
    tail: Vec<Arc<ChunkHeader>>,
    /// What a sound prefix named: the highest revision and epoch.
    named: (Revision, Epoch),
    doubtful: Vec<Doubtful>,
    /// Blocks that turned out to be torn: chunk and entry.
    torn: BTreeSet<(usize, usize)>,
    durable: Sequence,
    pending: usize,
    payload: std::marker::PhantomData<P>,
}

impl<P: Payload> Engine<P> {
    pub(crate) fn begin_opening(&mut self, format: Option<PoolId>) {
        self.opening = Some(Box::new(Opening {
            stage: Stage::Report,
            format,
            reports: Vec::new(),
            record: None,
            roots: Vec::new(),
            lives: Vec::new(),
            tail: Vec::new(),
            named: (Revision(0), Epoch(0)),
            doubtful: Vec::new(),
            torn: BTreeSet::new(),
            durable: Sequence(0),
            pending: 0,
            payload: std::marker::PhantomData,
        }));
        self.ask(0, DeviceCmd::ReportUnits);
    }

    /// Asks the device for part `index` of what this stage needs.
    fn ask(&mut self, index: usize, cmd: DeviceCmd<P>) {
        self.opening.as_mut().expect("the pool is being opened").pending += 1;
        let op = self.ops.insert(Op::Opening { index });
        self.device(op, cmd);
    }

    pub(crate) fn open_failed(&mut self, error: OpenError) {
        if self.phase != Phase::Opening {
            return;
        }
        self.phase = Phase::Closed;
        self.actions.push_back(Action::Notice(Notice::OpenFailed(error)));
    }

    /// Part `index` of what this stage asked for is there.
    pub(crate) fn opening_progress(&mut self, index: usize, done: Result<Done<P>, DeviceError>) {
        if self.phase != Phase::Opening {
            return;
        }
        let mut opening = self.opening.take().expect("the pool is being opened");
        opening.pending -= 1;
        let outcome = match (opening.stage, done) {
            (Stage::Doubts, done) => {
                Self::doubt_read(&mut opening, index, done.as_ref().ok());
                Ok(())
            }
            (Stage::Tail, Ok(Done::Chunks(found))) => {
                self.opening = Some(opening);
                self.tail_found(index, &found);
                opening = self.opening.take().expect("it was just put there");
                Ok(())
            }
            (Stage::Roots, done) => self.root_read(&opening, index, done),
            (Stage::Report, Ok(Done::Units(reports))) => {
                opening.reports = reports;
                Ok(())
            }
            (Stage::Superblocks, Ok(Done::Superblocks(records))) => {
                self.choose_superblock(&mut opening, records)
            }
            (_, Ok(Done::Ok)) => Ok(()),
            (_, Ok(answer)) => panic!("opening a pool was answered with {answer:?}"),
            (_, Err(_)) => Err(OpenError::Device),
        };
        self.opening = Some(opening);
        if let Err(error) = outcome {
            self.open_failed(error);
        }
    }

    /// Goes to the next stage when this one has all it asked for. Returns whether anything was done.
    pub(crate) fn opening_step(&mut self) -> bool {
        let Some(mut opening) = self.opening.take() else {
            // The opening record is on its way.
            return self.flush_step();
        };
        if opening.pending > 0 {
            self.opening = Some(opening);
            return false;
        }
        let stage = opening.stage;
        opening.stage = match stage {
            Stage::Report if opening.format.is_some() => Stage::Emptying,
            Stage::Report | Stage::FirstRecord => Stage::Flush,
            Stage::Flush => Stage::Superblocks,
            Stage::Emptying => Stage::FlushEmpty,
            Stage::FlushEmpty => Stage::FirstRecord,
            Stage::Superblocks => Stage::Roots,
            Stage::Roots => Stage::Tail,
            Stage::Tail => Stage::Doubts,
            Stage::Doubts => Stage::Pages,
            Stage::Pages | Stage::Record => Stage::Record,
        };
        let entered = opening.stage;
        self.opening = Some(opening);
        let result = match entered {
            Stage::Emptying => self.empty_device(),
            Stage::FlushEmpty | Stage::Flush => {
                self.ask(0, DeviceCmd::Flush);
                Ok(())
            }
            Stage::FirstRecord => self.write_first_record(),
            Stage::Superblocks => {
                self.ask(0, DeviceCmd::ReadSuperblocks);
                Ok(())
            }
            Stage::Roots => self.read_roots(),
            Stage::Tail => self.read_tail(),
            Stage::Doubts => self.check_tail(),
            Stage::Pages => return self.load_touched(),
            Stage::Record => self.finish_opening(),
            Stage::Report => Ok(()),
        };
        if let Err(error) = result {
            self.open_failed(error);
        }
        true
    }

    fn empty_device(&mut self) -> Result<(), OpenError> {
        let opening = self.opening.as_ref().expect("the pool is being made");
        let holds = |report: &UnitReport| {
            report.condition == UnitCondition::Good && report.written.is_some_and(|at| at > 0)
        };
        let geometry = self.config.geometry;
        let units: Vec<UnitId> = (0..geometry.units())
            .map(UnitId)
            .filter(|unit| {
                geometry.is_superblock_unit(*unit) || holds(&opening.reports[unit.index()])
            })
            .collect();
        for unit in units {
            self.ask(0, DeviceCmd::Reset(unit));
        }
        Ok(())
    }

    fn write_first_record(&mut self) -> Result<(), OpenError> {
        let geometry = self.config.geometry;
        let opening = self.opening.as_mut().expect("the pool is being made");
        for report in &mut opening.reports {
            report.written = report.written.map(|_| 0);
        }
        let first = Generation(1 << 32);
        let good = |unit: &UnitId| {
            !geometry.is_superblock_unit(*unit)
                && opening.reports[unit.index()].condition == UnitCondition::Good
        };
        let units = (0..geometry.units()).map(UnitId).filter(good);
        let open_units: Vec<OpenUnit> = units
            .take(self.config.listed_ahead())
            .zip(first.0..)
            .map(|(unit, generation)| OpenUnit {
                next: Location { unit, block: 0 },
                generation: Generation(generation),
            })
            .collect();
        let [unit, _] = geometry.superblock_units();
        let record = Superblock {
            pool: self.pool,
            location: Location { unit, block: 0 },
            revision: Revision(1),
            epoch: Epoch(1),
            tail_epoch: Epoch(1),
            checkpoint: Sequence(1),
            clean: true,
            geometry,
            next_generation: Generation(first.0 + open_units.len() as u64),
            next_volume: VolumeId(1),
            volumes: Vec::new(),
            open_units,
        };
        self.stats.superblocks += 1;
        self.stats.superblock_bytes += record.record_bytes() as u64;
        self.ask(0, DeviceCmd::WriteSuperblock(Arc::new(record)));
        Ok(())
    }

    fn choose_superblock(
        &mut self,
        opening: &mut Opening<P>,
        records: Vec<Superblock>,
    ) -> Result<(), OpenError> {
        let Some(first) = records.first() else { return Err(OpenError::NoPool) };
        let pool = opening.format.unwrap_or(first.pool);
        if records.iter().any(|record| record.pool != pool) {
            return Err(OpenError::TwoPools);
        }
        let newest = records.into_iter().max_by_key(|record| record.revision).expect("not empty");
        if newest.geometry != self.config.geometry {
            return Err(OpenError::OtherGeometry);
        }
        self.pool = pool;
        self.epoch = Epoch(newest.epoch.0 + 1);
        self.volumes.next = newest.next_volume;
        let total: u64 = newest
            .volumes
            .iter()
            .map(|volume| VolumeMap::memory_for(self.packing, volume.blocks))
            .sum();
        if total > self.config.map_memory_bytes {
            let budget = self.config.map_memory_bytes;
            return Err(OpenError::NoMemory { needed: total, budget });
        }
        for volume in &newest.volumes {
            let name = volume.name.clone();
            let index = self.volumes.add(volume.id, name, volume.blocks, self.packing);
            for (root, at) in self.volumes.map_mut(index).roots.iter_mut().zip(&volume.roots) {
                root.at = *at;
            }
        }
        opening.record = Some(newest);
        Ok(())
    }

    fn read_roots(&mut self) -> Result<(), OpenError> {
        let geometry = self.config.geometry;
        let mut wanted = Vec::new();
        for index in self.volumes.indices() {
            for (number, root) in self.volumes.map(index).roots.iter().enumerate() {
                if let Some(at) = root.at.location(&geometry) {
                    wanted.push((index, number, at));
                }
            }
        }
        for (index, (volume, number, at)) in wanted.into_iter().enumerate() {
            let opening = self.opening.as_mut().expect("the pool is being opened");
            opening.roots.push((volume, number));
            self.space.add_valid(at.unit);
            self.ask(index, DeviceCmd::ReadPage { at });
        }
        Ok(())
    }

    fn root_read(
        &mut self,
        opening: &Opening<P>,
        index: usize,
        done: Result<Done<P>, DeviceError>,
    ) -> Result<(), OpenError> {
        let (volume, number) = opening.roots[index];
        let geometry = self.config.geometry;
        let map = self.volumes.map(volume);
        let (parent, id) = (map.roots[number].at, PageId { volume: map.id, index: number as u32 });
        let at = parent.location(&geometry).expect("it was read from somewhere");
        let Ok(Done::Page(bytes)) = done else { return Err(OpenError::MapDamaged(at)) };
        let page = MapPage::decode(bytes.as_slice(), id, parent, &geometry);
        let Ok(MapPage(pages)) = page else { return Err(OpenError::MapDamaged(at)) };
        for at in pages.iter().filter_map(|page| page.location(&geometry)) {
            self.space.add_valid(at.unit);
        }
        self.volumes.map_mut(volume).roots[number].adopt(pages);
        Ok(())
    }

    /// Asks for the first chunk of each listed unit.
    fn read_tail(&mut self) -> Result<(), OpenError> {
        let opening = self.opening.as_mut().expect("the pool is being opened");
        let record = opening.record.as_ref().expect("a superblock was chosen");
        opening.lives = record
            .open_units
            .iter()
            .map(|&listed| Life {
                listed,
                class: None,
                end: listed.next.block,
                from: 0,
                chunks: Vec::new(),
            })
            .collect();
        let clean = record.clean;
        for index in 0..opening.lives.len() {
            let opening = self.opening.as_ref().expect("the pool is being opened");
            let from = opening.lives[index].listed.next.block;
            if from > 0 {
                self.read_life(index, 0, false);
            }
            if !clean {
                self.read_life(index, from, true);
            }
        }
        Ok(())
    }

    fn read_life(&mut self, index: usize, from: u32, search: bool) {
        let geometry = self.config.geometry;
        let opening = self.opening.as_mut().expect("the pool is being opened");
        opening.lives[index].from = from;
        let listed = opening.lives[index].listed;
        let written = opening.reports[listed.next.unit.index()].written;
        let end = written.unwrap_or(geometry.blocks_per_unit());
        if from >= end {
            return;
        }
        let header = thermocline_format::MAX_HEADER_BYTES / geometry.logical_block().bytes();
        let wide = geometry.logical_block().max_chunk() / 4;
        let window = if search { wide.max(header as u32) } else { header as u32 };
        self.ask(
            index,
            DeviceCmd::ReadChunks(ReadChunks {
                at: Location { unit: listed.next.unit, block: from },
                window: window.min(end - from),
                pool: self.pool,
                generation: Some(listed.generation),
                search,
                data: false,
            }),
        );
    }

    fn tail_found(&mut self, index: usize, found: &FoundChunks<P>) {
        let max_chunk = self.config.geometry.logical_block().max_chunk();
        let opening = self.opening.as_mut().expect("the pool is being opened");
        if let Some((revision, epoch)) = found.newest {
            opening.named.0 = opening.named.0.max(revision);
            opening.named.1 = opening.named.1.max(epoch);
        }
        let record = opening.record.as_ref().expect("a superblock was chosen");
        let life = &mut opening.lives[index];
        let taken = |header: &ChunkHeader| {
            header.origin.epoch == record.tail_epoch && header.origin.sequence >= record.checkpoint
        };
        for chunk in &found.chunks {
            let header = &chunk.header;
            life.class = Some(header.origin.class);
            if header.origin.location.block < life.listed.next.block {
                continue;
            }
            life.end = life.end.max(header.origin.location.block + header.blocks);
            if taken(header) {
                life.chunks.push(Arc::clone(header));
            }
        }
        // The first chunk of a unit that was partly written is read for its class only. Behind the last chunk found, one
        // may be missing and the next be there.
        let only_class = found.next <= life.listed.next.block || found.next <= life.from;
        if !only_class && found.next < life.end.saturating_add(max_chunk) && !record.clean {
            self.read_life(index, found.next, true);
        }
    }

    /// Looks for missing chunks, and reads the blocks that may be torn.
    fn check_tail(&mut self) -> Result<(), OpenError> {
        let opening = self.opening.as_mut().expect("the pool is being opened");
        let record = opening.record.as_ref().expect("a superblock was chosen");
        let mut chunks: BTreeMap<Sequence, Arc<ChunkHeader>> = BTreeMap::new();
        for life in &opening.lives {
            for header in &life.chunks {
                chunks.insert(header.origin.sequence, Arc::clone(header));
            }
        }
        let abandoned: BTreeSet<Sequence> = chunks
            .values()
            .flat_map(|header| &header.entries)
            .filter_map(|entry| match entry {
                Entry::Abandoned { sequence } => Some(*sequence),
                _ => None,
            })
            .collect();
        let (released, durable) = deficits(&chunks, &opening.lives);
        opening.durable = durable;
        let mut missing = Deficit::default();
        let mut first = None;
        for sequence in (record.checkpoint.0..=durable.0).map(Sequence) {
            if !chunks.contains_key(&sequence) && !abandoned.contains(&sequence) {
                missing.add(sequence);
                first = first.or(Some(sequence.0));
            }
        }
        let lost = missing != released;
        let superblock_lost = opening.named.0 > record.revision || opening.named.1 > record.epoch;
        if !self.config.open_despite_loss {
            if superblock_lost {
                let (named, found) = (opening.named.0.0, record.revision.0);
                return Err(OpenError::SuperblockLost { named, found });
            }
            if lost {
                let missing = missing.chunks.saturating_sub(released.chunks).max(1);
                return Err(OpenError::ChunksLost { missing, first: first.unwrap_or(0) });
            }
        }
        opening.tail = chunks
            .into_iter()
            .filter(|(sequence, _)| !abandoned.contains(sequence))
            .map(|(_, header)| header)
            .collect();
        self.read_doubtful();
        Ok(())
    }

    /// Reads every block above the durable sequence: one that was torn does not count.
    fn read_doubtful(&mut self) {
        let geometry = self.config.geometry;
        let opening = self.opening.as_mut().expect("the pool is being opened");
        let mut wanted = Vec::new();
        for (chunk, header) in opening.tail.iter().enumerate() {
            if header.origin.sequence <= opening.durable {
                continue;
            }
            for (entry, (what, at)) in header.placed(&geometry).enumerate() {
                if let (Entry::Data { volume, crc, .. }, Some(at)) = (what, at)
                    && volume.is_user()
                {
                    wanted.push((Doubtful { chunk, entry, crc: *crc }, at));
                }
            }
        }
        opening.doubtful = wanted.iter().map(|(doubtful, _)| *doubtful).collect();
        for (index, (_, at)) in wanted.into_iter().enumerate() {
            self.ask(index, DeviceCmd::Read { at, blocks: 1, into: None });
        }
    }

    fn doubt_read(opening: &mut Opening<P>, index: usize, done: Option<&Done<P>>) {
        let doubtful = opening.doubtful[index];
        let whole = matches!(done, Some(Done::Data(data)) if data.crc(0) == doubtful.crc);
        if !whole {
            opening.torn.insert((doubtful.chunk, doubtful.entry));
        }
    }

    /// Loads the pages that the tail touches; on to the next stage when all are there.
    fn load_touched(&mut self) -> bool {
        let opening = self.opening.as_ref().expect("the pool is being opened");
        let tail = opening.tail.clone();
        let mut touched: BTreeSet<(u16, u64)> = BTreeSet::new();
        for entry in tail.iter().flat_map(|header| &header.entries) {
            let (volume, from, end) = match *entry {
                Entry::Data { volume, lba, .. } => (volume, lba.0, lba.0 + 1),
                Entry::Trim { volume, lba, blocks } => (volume, lba.0, lba.0 + blocks),
                Entry::VolumeResize { volume, blocks } => (volume, blocks, blocks + 1),
                _ => continue,
            };
            let Some(index) = self.volumes.index(volume) else { continue };
            // Blocks beyond the end may be in the last page all the same: the volume may grow in the tail.
            let end = end.div_ceil(PAGE).min(self.volumes.map(index).pages());
            touched.extend((from / PAGE..end).map(|page| (index, page)));
        }
        let mut waits = false;
        for (volume, page) in touched {
            match self.loaded(volume, page * PAGE, page * PAGE + 1) {
                Loaded::Yes => {}
                Loaded::Wait(_) => waits = true,
                Loaded::No(page) => {
                    let at = self.volumes.map(volume).page_at(page);
                    let at = at.location(&self.config.geometry).expect("damaged where it is");
                    self.open_failed(OpenError::MapDamaged(at));
                    return true;
                }
            }
        }
        if let Some(opening) = &mut self.opening {
            // Come back to this stage until nothing is missing.
            opening.stage = if waits { Stage::Doubts } else { Stage::Pages };
        }
        !waits || !self.actions.is_empty()
    }

    fn finish_opening(&mut self) -> Result<(), OpenError> {
        let opening = *self.opening.take().expect("the pool is being opened");
        let record = opening.record.clone().expect("a superblock was chosen");
        let newest = opening.tail.last().map_or(0, |header| header.origin.sequence.0);
        let next = newest.max(opening.durable.0).max(record.checkpoint.0 - 1) + 1;
        self.log = crate::log::Log::new(Sequence(next));
        self.durability.durable = Sequence(next - 1);
        self.newest_done = Sequence(next - 1);
        self.epoch = Epoch(record.epoch.0.max(opening.named.1.0) + 1);
        let of_epoch = u64::from(self.epoch.0) << 32;
        self.space.next_generation = Generation(record.next_generation.0.max(of_epoch));
        self.adopt_units(&opening, &record);
        let mut entries = 0;
        for (number, header) in opening.tail.iter().enumerate() {
            entries += header.entries.len() as u64;
            self.replay(number, header, &opening.torn);
        }
        self.count_replayed();
        self.replayed = (opening.tail.len() as u64, entries);
        let settled = opening.tail.is_empty();
        let mut record = record;
        record.revision = record.revision.max(opening.named.0);
        self.reports = opening.reports;
        self.adopt_record(record.clone());
        self.write_opening_record(record, settled);
        Ok(())
    }

    /// Takes over the listed units as they were found.
    fn adopt_units(&mut self, opening: &Opening<P>, record: &Superblock) {
        let geometry = self.config.geometry;
        self.space.listed =
            record.open_units.iter().map(|listed| (listed.next.unit.0, *listed)).collect();
        for life in &opening.lives {
            let unit = life.listed.next.unit;
            let report = opening.reports[unit.index()];
            let written = report.written.unwrap_or(life.end);
            let untouched = life.class.is_none() && life.listed.next.block == 0;
            if report.condition != UnitCondition::Good {
                let class = life.class.unwrap_or(Class(0));
                self.space.units.adopt(unit, UnitState::Closed, class, life.end, 0);
                self.condemn(unit);
            } else if untouched && report.written.is_none_or(|written| written == 0) {
                self.space
                    .reserved
                    .push_back(OpenUnit { next: Location { unit, block: 0 }, ..life.listed });
            } else {
                // What was written may be no chunk, or be reset already: then the unit will turn out to be dead.
                self.adopt_life(life, written, geometry.logical_block());
            }
        }
    }

    fn adopt_life(&mut self, life: &Life, written: u32, block: LogicalBlock) {
        let unit = life.listed.next.unit;
        let room = self.config.geometry.blocks_per_unit().saturating_sub(written);
        let known = life.class.filter(|class| class.index() < self.space.frontiers.len());
        let class = known.unwrap_or(Class(0));
        let goes_on = known.is_some()
            && self.space.frontiers[class.index()].open.is_none()
            && room >= block.chunk_header(1) + block.per_block()
            && written >= life.end;
        let tail = self.space.tail(unit);
        tail.generation = life.listed.generation;
        if goes_on {
            self.space.units.adopt(unit, UnitState::Open, class, 0, 0);
            let at = Location { unit, block: written };
            self.space.frontiers[class.index()].open = Some(at);
        } else {
            self.space.units.adopt(unit, UnitState::Closed, class, written, 0);
        }
    }

    /// Does once more what a chunk says.
    fn replay(&mut self, number: usize, header: &ChunkHeader, torn: &BTreeSet<(usize, usize)>) {
        let geometry = self.config.geometry;
        let mut names: BTreeMap<VolumeId, [u8; 64]> = BTreeMap::new();
        for (index, (entry, at)) in header.placed(&geometry).enumerate() {
            match *entry {
                Entry::Data { volume, lba, crc } => {
                    let Some(volume) = self.volumes.index(volume) else { continue };
                    let beyond = lba.0 >= self.volumes.map(volume).blocks;
                    if beyond || torn.contains(&(number, index)) {
                        continue;
                    }
                    let at = at.expect("Data has a block");
                    let value = Value::new(geometry.address(at), crc);
                    self.volumes.map_mut(volume).set(lba.0, Mapping::At(value));
                }
                Entry::Trim { volume, lba, blocks } => {
                    let Some(volume) = self.volumes.index(volume) else { continue };
                    let end = (lba.0 + blocks).min(self.volumes.map(volume).blocks);
                    self.replay_unmap(volume, lba.0, end);
                }
                Entry::VolumeCreate { volume, blocks } => {
                    if self.volumes.index(volume).is_none() && volume >= self.volumes.next {
                        let name = VolumeName::new("").expect("an empty name is a name");
                        self.volumes.add(volume, name, blocks, self.packing);
                    }
                }
                Entry::VolumeDelete { volume } => {
                    let Some(volume) = self.volumes.index(volume) else { continue };
                    let end = self.volumes.map(volume).blocks;
                    self.replay_shrink(volume, 0, end);
                    self.volumes.hide(volume);
                    self.volumes.forget(volume);
                }
                Entry::VolumeResize { volume, blocks } => {
                    let Some(volume) = self.volumes.index(volume) else { continue };
                    let end = self.volumes.map(volume).blocks;
                    self.replay_shrink(volume, blocks.min(end), end);
                    self.volumes.map_mut(volume).resize(blocks);
                    self.volumes.map_mut(volume).limit = blocks;
                }
                Entry::VolumeName { volume, part, text } => {
                    let name = names.entry(volume).or_insert([0; 64]);
                    name[usize::from(part) * 16..][..16].copy_from_slice(&text);
                }
                Entry::Abandoned { .. } | Entry::Released { .. } => {}
            }
        }
        for (volume, bytes) in names {
            if let (Some(index), Some(name)) =
                (self.volumes.index(volume), VolumeName::from_bytes(&bytes))
            {
                self.volumes.map_mut(index).name = name;
            }
        }
    }

    /// Counts the blocks of every page that was loaded or changed so far.
    fn count_replayed(&mut self) {
        for index in self.volumes.indices() {
            let mut next = 0;
            while let Some(page) = self.volumes.map(index).next_dirty(next) {
                self.count_page(index, page);
                next = page + 1;
            }
        }
    }

    fn replay_unmap(&mut self, volume: u16, from: u64, until: u64) {
        for lba in from..until {
            if self.volumes.map(volume).get(lba) != Mapping::Unmapped {
                self.volumes.map_mut(volume).set(lba, Mapping::Unmapped);
            }
        }
    }

    /// Unmaps blocks of which whole pages go, loaded or not.
    fn replay_shrink(&mut self, volume: u16, from: u64, until: u64) {
        for page in from / PAGE..until.div_ceil(PAGE) {
            if self.volumes.map(volume).is_loaded(page) {
                let (first, last) = ((page * PAGE).max(from), ((page + 1) * PAGE).min(until));
                self.replay_unmap(volume, first, last);
            }
        }
        self.drop_pages(volume, from.div_ceil(PAGE), until.div_ceil(PAGE));
    }

    /// The record of this opening is durable.
    pub(crate) fn opened(&mut self) {
        self.phase = Phase::Open;
        if !self.superblocks.settled {
            self.want_checkpoint();
        }
        let (chunks, entries) = self.replayed;
        self.actions.push_back(Action::Notice(Notice::Open { chunks, entries }));
    }

    /// Every page is loaded, so every valid count is right: what is not listed is closed or free.
    pub(crate) fn map_complete(&mut self) {
        let reports = std::mem::take(&mut self.reports);
        let geometry = self.config.geometry;
        // What seemed dead while pages were missing may not be.
        self.space.dead.clear();
        for unit in (0..geometry.units()).map(UnitId) {
            let report = reports[unit.index()];
            let valid = self.space.units.valid_count(unit);
            if self.space.units.state(unit) == UnitState::Closed && valid == 0 {
                self.space.dead.push(unit);
            }
            let known =
                self.space.listed.contains_key(&unit.0) || geometry.is_superblock_unit(unit);
            if known || self.space.units.state(unit) != UnitState::Free {
                continue;
            }
            let written = report.written.unwrap_or(geometry.blocks_per_unit());
            if report.condition != UnitCondition::Good {
                self.space.units.adopt(unit, UnitState::Closed, Class(0), written, 0);
                self.condemn(unit);
                if valid == 0 {
                    self.space.dead.push(unit);
                }
            } else if valid == 0 && report.written.is_none_or(|written| written == 0) {
                self.space.free.push_back(unit);
            } else {
                let class = self.class_of(unit);
                self.space.units.adopt(unit, UnitState::Closed, class, written, 0);
                if valid == 0 {
                    self.space.dead.push(unit);
                }
            }
        }
    }

    /// Metadata units are told from others by the pages in them.
    fn class_of(&self, unit: UnitId) -> Class {
        let geometry = self.config.geometry;
        let stands = |entry: thermocline_format::MapEntry| {
            entry.location(&geometry).is_some_and(|at| at.unit == unit)
        };
        let metadata = self.volumes.indices().any(|index| {
            let map = self.volumes.map(index);
            map.roots.iter().any(|root| stands(root.at))
                || (0..map.pages()).any(|page| stands(map.page_at(page)))
        });
        if metadata { self.config.metadata_class() } else { Class(0) }
    }
}

/// What is missing of lives that were released, and the sequence up to which everything was durable.
///
/// A life of which less was found than its Released entry counts was reset, and that was done only after a flush that
/// covers the entry.
fn deficits(chunks: &BTreeMap<Sequence, Arc<ChunkHeader>>, lives: &[Life]) -> (Deficit, Sequence) {
    let durable = chunks.values().map(|header| header.origin.durable).max();
    let mut durable = durable.unwrap_or_default();
    let mut latest: BTreeMap<(u32, Generation), (Sequence, Deficit)> = BTreeMap::new();
    for header in chunks.values() {
        for entry in &header.entries {
            if let Entry::Released { unit, generation, chunks, sum } = *entry {
                let counted = Deficit { chunks: chunks.into(), sum };
                latest.insert((unit.0, generation), (header.origin.sequence, counted));
            }
        }
    }
    let mut total = Deficit::default();
    for ((unit, generation), (sequence, counted)) in latest {
        let same =
            |life: &&Life| life.listed.next.unit.0 == unit && life.listed.generation == generation;
        let mut found = Deficit::default();
        for header in lives.iter().filter(same).flat_map(|life| &life.chunks) {
            found.add(header.origin.sequence);
        }
        if counted.chunks > found.chunks {
            total.chunks += counted.chunks - found.chunks;
            total.sum = total.sum.wrapping_add(counted.sum.wrapping_sub(found.sum));
            durable = durable.max(sequence);
        }
    }
    (total, durable)
}
