//! A device that does everything at once and forgets nothing: chunks, pages and records as structures, without bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use thermocline_engine::{
    Action, Body, Chunk, Config, DeviceCmd, DeviceError, Done, Engine, Extent, FoundChunk,
    FoundChunks, HostError, HostRequest, Notice, OpId, PageBytes, ReadChunks, Reply, RequestId,
    UnitCondition, UnitReport,
};
use thermocline_format::{
    ChunkCause, ChunkHeader, Entry, Geometry, Location, PageId, PoolId, Superblock, VolumeId,
    VolumeName,
};
use thermocline_types::{Time, UnitId};

type Chunks = Vec<Arc<Chunk<()>>>;

/// Which commands stay on their way.
pub type Held = Box<dyn Fn(&DeviceCmd<()>) -> bool>;

/// What the device was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub chunks: u64,
    /// Bytes of chunks and superblock records.
    pub bytes: u64,
    pub host_blocks: u64,
    pub relocated_blocks: u64,
    pub pages: u64,
    pub superblocks: u64,
    pub flushes: u64,
    pub resets: u64,
}

impl std::ops::Sub for Asked {
    type Output = Asked;

    /// What came after `before`.
    fn sub(self, before: Asked) -> Asked {
        Asked {
            chunks: self.chunks - before.chunks,
            bytes: self.bytes - before.bytes,
            host_blocks: self.host_blocks - before.host_blocks,
            relocated_blocks: self.relocated_blocks - before.relocated_blocks,
            pages: self.pages - before.pages,
            superblocks: self.superblocks - before.superblocks,
            flushes: self.flushes - before.flushes,
            resets: self.resets - before.resets,
        }
    }
}

/// What a device holds to begin with, made up when it is read.
pub trait Base {
    /// The newest record.
    fn record(&self) -> Superblock;
    /// The page at `at`.
    fn page(&self, at: Location) -> Option<PageBytes>;
    /// The chunks of a unit that begin at these logical blocks.
    fn chunks(&self, unit: UnitId, within: std::ops::Range<u32>) -> Vec<ChunkHeader>;
}

/// The device.
pub struct MemoryDevice {
    geometry: Geometry,
    base: Option<Box<dyn Base>>,
    /// Units that hold nothing of the base any more.
    reset: BTreeSet<u32>,
    /// Chunks by unit, in order of location.
    units: BTreeMap<u32, Chunks>,
    records: Vec<Arc<Superblock>>,
    /// Reads of blocks of users in these units fail.
    pub unreadable: BTreeSet<u32>,
    /// Reads of headers of this unit fail.
    pub headerless: Option<u32>,
    /// So many resets, and writes of control entries, fail from now on.
    pub failing_resets: u32,
    pub failing_control: u32,
    /// Units that were finished before they were full.
    pub finished: u64,
    pub asked: Asked,
}

impl MemoryDevice {
    /// An empty device.
    pub fn new(geometry: Geometry) -> MemoryDevice {
        let (units, records) = (BTreeMap::new(), Vec::new());
        let asked = Asked::default();
        MemoryDevice {
            geometry,
            base: None,
            reset: BTreeSet::new(),
            units,
            records,
            unreadable: BTreeSet::new(),
            headerless: None,
            failing_resets: 0,
            failing_control: 0,
            finished: 0,
            asked,
        }
    }

    /// A device that holds this to begin with.
    pub fn over(geometry: Geometry, base: Box<dyn Base>) -> MemoryDevice {
        let mut device = MemoryDevice::new(geometry);
        device.records.push(Arc::new(base.record()));
        device.base = Some(base);
        device
    }

    /// The pool divides it in this way from now on.
    pub fn use_as(&mut self, geometry: Geometry) {
        self.geometry = geometry;
    }

    /// Blocks of users in all units that hold chunks now cannot be read until the units are reset.
    pub fn spoil(&mut self) {
        self.unreadable = self.units.keys().copied().collect();
    }

    /// Chunks that a unit holds.
    pub fn chunks_in(&self, unit: UnitId) -> usize {
        self.units.get(&unit.0).map_or(0, Vec::len)
    }

    /// The newest record.
    pub fn record(&self) -> Superblock {
        self.records.last().expect("there is a pool").as_ref().clone()
    }

    /// Shows a record, as one that a reset did not clear, behind all others.
    pub fn show(&mut self, record: Superblock) {
        self.records.push(Arc::new(record));
    }

    /// Loses all that is in these units.
    pub fn forget(&mut self, units: std::ops::Range<u32>) {
        self.records.retain(|record| !units.contains(&record.location.unit.0));
        self.units.retain(|unit, _| !units.contains(unit));
    }

    /// Units that hold chunks.
    pub fn units_in_use(&self) -> usize {
        self.units.values().filter(|chunks| !chunks.is_empty()).count()
    }

    /// Loses the `number`-th last chunk of a host. Returns its logical blocks.
    pub fn lose(&mut self, number: usize) -> u32 {
        let is_host = |chunk: &&Arc<Chunk<()>>| chunk.header.origin.cause == ChunkCause::Host;
        let all = self.units.values().flatten().filter(is_host);
        let mut sequences: Vec<_> = all.map(|chunk| chunk.header.origin.sequence).collect();
        sequences.sort_unstable();
        let lost = sequences[sequences.len() - number];
        let is_lost = |chunk: &Arc<Chunk<()>>| chunk.header.origin.sequence == lost;
        let mut units = self.units.values_mut();
        let chunks = units.find(|chunks| chunks.iter().any(is_lost)).expect("it is somewhere");
        let index = chunks.iter().position(is_lost).expect("it is there");
        chunks.remove(index).header.blocks
    }

    fn note(&mut self, cmd: &DeviceCmd<()>) {
        let (asked, block) = (&mut self.asked, self.geometry.logical_block().bytes() as u64);
        match cmd {
            DeviceCmd::WriteChunk(chunk) => {
                let blocks = chunk.header.entries.iter().filter(|entry| entry.has_block()).count();
                asked.chunks += 1;
                asked.bytes += u64::from(chunk.header.blocks) * block;
                *match chunk.header.origin.cause {
                    ChunkCause::Host => &mut asked.host_blocks,
                    ChunkCause::Checkpoint => &mut asked.pages,
                    _ => &mut asked.relocated_blocks,
                } += blocks as u64;
            }
            DeviceCmd::WriteSuperblock(record) => {
                asked.superblocks += 1;
                asked.bytes += record.record_bytes() as u64;
            }
            DeviceCmd::Flush(_) => asked.flushes += 1,
            DeviceCmd::Reset(_) => asked.resets += 1,
            _ => {}
        }
    }

    fn carry_out(&mut self, cmd: DeviceCmd<()>) -> Result<Done<()>, DeviceError> {
        self.note(&cmd);
        match cmd {
            DeviceCmd::WriteChunk(chunk) if self.failing_control > 0 && is_control(&chunk) => {
                self.failing_control -= 1;
                return Err(DeviceError::Io);
            }
            DeviceCmd::WriteChunk(chunk) => {
                let unit = chunk.header.origin.location.unit;
                // What a crash left there is overwritten.
                let (from, end) = (block_of(&chunk), block_of(&chunk) + chunk.header.blocks);
                let chunks = self.units.entry(unit.0).or_default();
                let behind =
                    chunks.partition_point(|old| block_of(old) + old.header.blocks <= from);
                let over = chunks[behind..].partition_point(|old| block_of(old) < end);
                chunks.splice(behind..behind + over, [chunk]);
            }
            DeviceCmd::WriteSuperblock(record) => self.records.push(record),
            DeviceCmd::Reset(_) if self.failing_resets > 0 => {
                self.failing_resets -= 1;
                return Err(DeviceError::Io);
            }
            DeviceCmd::Reset(unit) | DeviceCmd::Zero(unit) => {
                self.units.remove(&unit.0);
                self.unreadable.remove(&unit.0);
                self.reset.insert(unit.0);
                self.records.retain(|record| record.location.unit != unit);
            }
            DeviceCmd::Finish(_) => self.finished += 1,
            DeviceCmd::Flush(_) | DeviceCmd::Heal(_) | DeviceCmd::Distrust { .. } => {}
            DeviceCmd::Read { at, .. } if self.unreadable.contains(&at.unit.0) => {
                return Err(DeviceError::Io);
            }
            DeviceCmd::Read { .. } => return Ok(Done::Data(())),
            DeviceCmd::ReadPage { at, .. } => {
                return self.page(at).map(Done::Page).ok_or(DeviceError::Io);
            }
            DeviceCmd::ReadChunks(request) if self.headerless == Some(request.at.unit.0) => {
                return Err(DeviceError::Io);
            }
            DeviceCmd::ReadChunks(request) => return Ok(Done::Chunks(self.find(&request))),
            DeviceCmd::ReadSuperblocks(_) => {
                let records = self.records.iter().map(|record| Superblock::clone(record));
                return Ok(Done::Superblocks(records.collect()));
            }
            DeviceCmd::ReportUnits => {
                let report = UnitReport { condition: UnitCondition::Good, written: None };
                return Ok(Done::Units(vec![report; self.geometry.units() as usize]));
            }
        }
        Ok(Done::Ok)
    }

    /// Where the newest version of page `index` of a volume's map stands.
    pub fn place_of_page(&self, volume: VolumeId, index: u32) -> Option<Location> {
        let lba = PageId { volume, index }.lba();
        let chunks = self.units.values().flatten();
        let places = chunks.flat_map(|chunk| {
            let sequence = chunk.header.origin.sequence;
            let placed = chunk.header.placed(&self.geometry);
            placed.filter_map(move |(entry, at)| match *entry {
                Entry::Data { volume: VolumeId::MAP, lba: of, .. } if of == lba => {
                    Some((sequence, at?))
                }
                _ => None,
            })
        });
        places.max_by_key(|(sequence, _)| *sequence).map(|(_, at)| at)
    }

    /// The page of a map that stands at `at`.
    pub fn page(&self, at: Location) -> Option<PageBytes> {
        self.written_page(at).or_else(|| self.base_of(at.unit)?.page(at))
    }

    /// What holds a unit to begin with, unless it was reset.
    fn base_of(&self, unit: UnitId) -> Option<&dyn Base> {
        self.base.as_deref().filter(|_| !self.reset.contains(&unit.0))
    }

    fn written_page(&self, at: Location) -> Option<PageBytes> {
        let chunks = self.units.get(&at.unit.0)?;
        let behind = chunks.partition_point(|chunk| block_of(chunk) <= at.block);
        let chunk = chunks.get(behind.checked_sub(1)?)?;
        let Body::Pages(pages) = &chunk.body else { return None };
        let mut places = chunk.header.placed(&self.geometry).filter_map(|(_, at)| at);
        pages.get(places.position(|place| place == at)?).cloned()
    }

    /// Chunks that begin in the window. All of a unit are of one life.
    fn find(&self, request: &ReadChunks) -> FoundChunks<()> {
        let end = request.at.block + request.window;
        let all = self.units.get(&request.at.unit.0);
        let all = all.into_iter().flatten().filter(|chunk| {
            let of_life = |generation| chunk.header.origin.generation == generation;
            request.generation.is_none_or(of_life)
        });
        let within = all.filter(|chunk| (request.at.block..end).contains(&block_of(chunk)));
        let mut headers: Vec<ChunkHeader> =
            within.map(|chunk| ChunkHeader::clone(&chunk.header)).collect();
        if let Some(base) = self.base_of(request.at.unit) {
            headers.splice(0..0, base.chunks(request.at.unit, request.at.block..end));
        }
        let origins = || headers.iter().map(|header| header.origin);
        let newest = origins().map(|origin| origin.revision).max();
        let newest = newest.zip(origins().map(|origin| origin.epoch).max());
        let chunks: Vec<FoundChunk<()>> = headers
            .into_iter()
            .map(|header| FoundChunk {
                header: Arc::new(header),
                data: request.data.then_some(((), u32::MAX)),
                packed: None,
                only_in: None,
                everywhere: true,
            })
            .collect();
        let next = chunks
            .last()
            .map_or(end, |chunk| chunk.header.origin.location.block + chunk.header.blocks);
        let unsound = chunks.is_empty() && !request.search;
        FoundChunks { chunks, next, unsound, newest }
    }
}

/// Whether a chunk holds control entries alone.
pub fn is_control(chunk: &Chunk<()>) -> bool {
    chunk.header.entries.iter().all(|entry| !entry.has_block())
}

fn block_of(chunk: &Chunk<()>) -> u32 {
    chunk.header.origin.location.block
}

/// An engine on such a device, and the most work that one call of it did.
pub struct Machine {
    pub engine: Engine<()>,
    pub device: MemoryDevice,
    /// Most entries and units that one call looked through.
    pub most_looked_at: u64,
    /// Most memory that maps took.
    pub most_map_memory: u64,
    /// Most pages that were on their way at once.
    pub most_page_reads: usize,
    /// Commands that stay on their way.
    pub held: Held,
    queue: VecDeque<(OpId, DeviceCmd<()>)>,
    looked_at: u64,
    answers: BTreeMap<u64, Result<Reply, HostError>>,
    /// What was told to be lost.
    pub lost: Vec<Extent>,
    pub opened: Option<Notice>,
    next: u64,
}

impl Machine {
    /// How many blocks are mapped, as far as the engine knows without reading pages of maps.
    pub fn mapped_blocks(&self) -> std::ops::RangeInclusive<u64> {
        let (most, doubled) = (self.engine.mapped_blocks(), self.engine.doubled_blocks());
        most - doubled..=most
    }

    pub fn new(engine: Engine<()>, device: MemoryDevice) -> Machine {
        Machine {
            engine,
            device,
            most_looked_at: 0,
            most_map_memory: 0,
            most_page_reads: 0,
            held: Box::new(|_| false),
            queue: VecDeque::new(),
            looked_at: 0,
            answers: BTreeMap::new(),
            lost: Vec::new(),
            opened: None,
            next: 0,
        }
    }

    /// A new pool on an empty device, open.
    pub fn format(config: &Config) -> Machine {
        let engine = Engine::format(config.clone(), PoolId([1; 16]), 1).expect("it can work");
        let mut machine = Machine::new(engine, MemoryDevice::new(config.geometry));
        machine.open();
        machine
    }

    fn note_work(&mut self) {
        let looked_at = self.engine.stats().looked_at;
        self.most_map_memory = self.most_map_memory.max(self.engine.map_memory());
        self.most_looked_at = self.most_looked_at.max(looked_at - self.looked_at);
        self.looked_at = looked_at;
    }

    /// Carries out one action of the engine, or completes one command. Returns whether there was anything.
    pub fn step(&mut self) -> bool {
        let action = self.engine.poll_action();
        self.note_work();
        match action {
            Some(Action::Device { op, cmd }) => {
                self.queue.push_back((op, cmd));
                let is_page = |cmd: &DeviceCmd<()>| matches!(cmd, DeviceCmd::ReadPage { .. });
                let pages = self.queue.iter().filter(|(_, cmd)| is_page(cmd)).count();
                self.most_page_reads = self.most_page_reads.max(pages);
            }
            Some(Action::Complete { request, result }) => {
                self.answers.insert(request.0, result);
            }
            Some(Action::Notice(notice @ (Notice::Open { .. } | Notice::OpenFailed(_)))) => {
                self.opened = Some(notice);
            }
            Some(Action::Notice(Notice::Lost { extent })) => self.lost.push(extent),
            Some(Action::Notice(_)) => {}
            None => {
                if self.engine.poll_timeout() == Some(Time::ZERO) {
                    return true;
                }
                let next = self.queue.iter().position(|(_, cmd)| !(self.held)(cmd));
                let Some((op, cmd)) = next.and_then(|next| self.queue.remove(next)) else {
                    return false;
                };
                let done = self.device.carry_out(cmd);
                self.engine.handle_completion(Time::ZERO, op, done);
                self.note_work();
            }
        }
        true
    }

    /// Goes on until nothing is left to do.
    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// Goes on until the pool takes requests.
    pub fn open(&mut self) {
        while self.opened.is_none() {
            assert!(self.step(), "opening comes to nothing");
        }
        assert!(matches!(self.opened, Some(Notice::Open { .. })), "{:?}", self.opened);
    }

    /// Chunks and entries that the opening replayed.
    pub fn replayed(&self) -> (u64, u64) {
        match self.opened {
            Some(Notice::Open { chunks, entries }) => (chunks, entries),
            _ => (0, 0),
        }
    }

    /// Submits a request as soon as there is room for it.
    #[expect(clippy::needless_pass_by_value, reason = "callers make it for this, and keep none")]
    pub fn submit(&mut self, request: HostRequest<()>) -> u64 {
        self.next += 1;
        let id = RequestId(self.next);
        while let Err(rejected) = self.engine.submit(Time::ZERO, id, request.clone()) {
            assert!(self.step(), "{rejected:?}, and nothing more happens");
        }
        self.note_work();
        self.next
    }

    /// Commands that are on their way.
    pub fn on_their_way(&self) -> usize {
        self.queue.len()
    }

    /// How a request ended, if it did.
    pub fn answer(&mut self, id: u64) -> Option<Result<Reply, HostError>> {
        self.answers.remove(&id)
    }

    /// Has a request carried out.
    pub fn ask(&mut self, request: HostRequest<()>) -> Result<Reply, HostError> {
        let id = self.submit(request);
        loop {
            if let Some(answer) = self.answer(id) {
                return answer;
            }
            assert!(self.step(), "the request never completes");
        }
    }

    /// Makes a volume.
    pub fn create(&mut self, name: &str, blocks: u64) -> VolumeId {
        let name = VolumeName::new(name).expect("a name");
        match self.ask(HostRequest::CreateVolume { name, blocks }) {
            Ok(Reply::Created(volume)) => volume,
            other => panic!("making a volume was answered with {other:?}"),
        }
    }
}
