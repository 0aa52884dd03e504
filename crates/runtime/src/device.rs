//! Carries out what the engine asks of a device, on a storage.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use thermocline_engine::wire::{
    behind_header, chunk_header, find_chunks, find_superblocks, superblock_blocks, unpacked,
};
use thermocline_engine::{
    Body, Chunk, DeviceCmd, DeviceError, Done, FoundChunk, FoundChunks, OpId, ReadChunks,
    UnitReport,
};
use thermocline_format::{BLOCK_BYTES, Geometry, Location, Superblock};
use thermocline_target::{Buffer as BufferOf, BufferPool};
use thermocline_types::{Class, UnitId};

use crate::Buffer;
use crate::storage::{Command, Completion, Storage, Token, Waker};
use crate::trouble::{Asked, Trouble};

/// What headers and reads keep of their memory for later. Chosen, not measured.
const POOL_BYTES: usize = 32 << 20;

/// How a command of the engine ended.
pub type Answer = (OpId, Result<Done<Buffer>, DeviceError>);

/// A storage that speaks the engine's language.
#[derive(Debug)]
pub struct Device<S> {
    storage: S,
    geometry: Geometry,
    pool: BufferPool,
    /// Each with what the storage was asked for.
    jobs: Slab<(Job, Asked)>,
    /// What failed since somebody asked.
    troubles: Vec<Trouble>,
    /// Complete without the storage.
    ready: Vec<Answer>,
    reaped: Vec<Completion>,
    /// Bytes of the header that is being made.
    header: Vec<u8>,
}

/// What to answer when the storage is done.
#[derive(Debug)]
enum Job {
    Plain(OpId),
    Data(OpId, Buffer),
    Page(OpId, Buffer),
    Chunks(OpId, ReadChunks, Buffer),
    Superblocks(OpId, Box<Search>, Buffer),
}

/// A search for superblock records: one unit after the other.
#[derive(Debug)]
struct Search {
    units: Vec<UnitId>,
    /// Logical blocks of each that can be read.
    readable: Vec<u32>,
    /// Which of them is being read.
    current: usize,
    found: Vec<Superblock>,
    /// How many units could not be read.
    failed: usize,
}

impl<S: Storage> Device<S> {
    /// The pool of `geometry` on `storage`.
    ///
    /// # Panics
    /// If the storage is not divided as the geometry says.
    #[must_use]
    pub fn new(storage: S, geometry: Geometry) -> Device<S> {
        let layout = storage.layout();
        let same = layout.logical_block == geometry.logical_block()
            && layout.blocks_per_unit == geometry.blocks_per_unit()
            && layout.units >= geometry.units();
        assert!(same, "{layout:?} is not divided as {geometry:?}");
        Device {
            storage,
            geometry,
            pool: BufferPool::new(POOL_BYTES),
            jobs: Slab::new(),
            troubles: Vec::new(),
            ready: Vec::new(),
            reaped: Vec::new(),
            header: Vec::new(),
        }
    }

    /// The storage.
    #[must_use]
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// The storage alone.
    ///
    /// # Panics
    /// If commands are under way.
    #[must_use]
    pub fn into_storage(self) -> S {
        assert!(self.is_idle(), "commands are under way");
        self.storage
    }

    /// The storage, to be used beside the commands.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.storage
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.ready.is_empty()
    }

    /// Whether [`Device::poll`] has to be asked before anybody waits elsewhere.
    pub(crate) fn has_no_answers(&self) -> bool {
        self.ready.is_empty()
    }

    /// Carries out one command and waits for its answer; for readers that are no engine.
    ///
    /// # Errors
    /// [`DeviceError`] of the command.
    ///
    /// # Panics
    /// If other commands are under way.
    pub fn carry_out(&mut self, command: DeviceCmd<Buffer>) -> Result<Done<Buffer>, DeviceError> {
        assert!(self.is_idle(), "commands of an engine are under way");
        self.submit(OpId(0), command);
        let mut answers = Vec::new();
        loop {
            self.poll(None, &mut answers);
            if let Some((_, done)) = answers.pop() {
                return done;
            }
        }
    }

    /// What failed since this was last called.
    pub fn take_troubles(&mut self) -> Vec<Trouble> {
        std::mem::take(&mut self.troubles)
    }

    /// What ends the waiting of [`Device::poll`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.storage.waker()
    }

    /// As [`Storage::descriptor`].
    pub fn descriptor(&mut self) -> Option<OwnedFd> {
        self.storage.descriptor()
    }

    /// Starts a command of the engine; its answer comes out of [`Device::poll`] once.
    pub fn submit(&mut self, op: OpId, command: DeviceCmd<Buffer>) {
        let plain = Job::Plain(op);
        match command {
            DeviceCmd::WriteChunk(chunk) => {
                let parts = self.chunk_parts(&chunk);
                let origin = &chunk.header.origin;
                self.write(op, origin.location, parts, origin.class);
            }
            DeviceCmd::WriteSuperblock(record) => {
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                let parts = vec![self.copied(&[&bytes])];
                self.write(op, record.location, parts, Class(0));
            }
            DeviceCmd::Read { at, blocks, into } => {
                let bytes = blocks as usize * BLOCK_BYTES;
                let into = into.unwrap_or_else(|| self.room(bytes)).part(0, bytes);
                self.read(at, into.clone(), Job::Data(op, into));
            }
            DeviceCmd::ReadPage { at } => {
                let into = self.room(BLOCK_BYTES);
                self.read(at, into.clone(), Job::Page(op, into));
            }
            DeviceCmd::ReadChunks(request) => {
                let window = request.window.min(self.geometry.blocks_per_unit() - request.at.block);
                let into = self.room(self.bytes(window));
                self.read(request.at, into.clone(), Job::Chunks(op, request, into));
            }
            DeviceCmd::ReadSuperblocks => self.search_superblocks(op),
            DeviceCmd::ReportUnits => {
                let units = self.report().map(Done::Units);
                self.ready.push((op, units));
            }
            DeviceCmd::Reset(unit) => self.start(plain, Command::Reset(unit)),
            DeviceCmd::Zero(unit) => self.start(plain, Command::Zero(unit)),
            DeviceCmd::Finish(unit) => self.start(plain, Command::Finish(unit)),
            DeviceCmd::Flush(device) => self.start(plain, Command::Flush(device)),
        }
    }

    /// Appends the answers that there are to `answers`; if none, waits as [`Storage::reap`], and may have none then.
    pub fn poll(&mut self, wait: Option<Duration>, answers: &mut Vec<Answer>) {
        let wait = if self.ready.is_empty() { wait } else { Some(Duration::ZERO) };
        let mut reaped = std::mem::take(&mut self.reaped);
        self.storage.reap(wait, &mut reaped);
        for completion in reaped.drain(..) {
            let (job, asked) = self.jobs.remove(completion.token.0 as usize);
            if let Err(fault) = completion.result {
                self.note(Trouble { asked, fault });
            }
            self.finish(job, completion.result.map_err(|fault| fault.error));
        }
        self.reaped = reaped;
        answers.append(&mut self.ready);
    }

    fn finish(&mut self, job: Job, result: Result<(), DeviceError>) {
        let geometry = self.geometry;
        let answer = match job {
            Job::Plain(op) => (op, result.map(|()| Done::Ok)),
            Job::Data(op, into) => (op, result.map(|()| Done::Data(into))),
            Job::Page(op, into) => (op, result.map(|()| Done::Page(page(&into)))),
            Job::Chunks(op, request, into) => {
                (op, result.map(|()| Done::Chunks(chunks(&into, &request, &geometry))))
            }
            Job::Superblocks(op, search, into) => {
                return self.search_on(op, search, result.map(|()| into));
            }
        };
        self.ready.push(answer);
    }

    /// Header, blocks and padding.
    fn chunk_parts(&mut self, chunk: &Chunk<Buffer>) -> Vec<Buffer> {
        let mut header = std::mem::take(&mut self.header);
        header.clear();
        let packed = chunk.packed.as_ref().map(Buffer::read);
        let packed = packed.as_deref().unwrap_or_default();
        chunk_header(chunk, packed, &self.geometry, &mut header);
        let mut parts = Vec::new();
        match &chunk.body {
            Body::User(blocks) => {
                parts.reserve(blocks.len() + 2);
                parts.push(self.copied(&[&header]));
                let behind = behind_header(&chunk.header, blocks);
                parts.extend(behind.map(|block| block.part(0, BLOCK_BYTES)));
            }
            Body::Pages(pages) => {
                let all: Vec<&[u8]> = std::iter::once(&header[..])
                    .chain(pages.iter().map(|page| &page[..]))
                    .collect();
                parts.push(self.copied(&all));
            }
        }
        let written: usize = parts.iter().map(Buffer::len).sum();
        let padding = self.bytes(chunk.header.blocks) - written;
        if padding > 0 {
            let zeros = self.room(padding);
            zeros.write().fill(0);
            parts.push(zeros);
        }
        self.header = header;
        parts
    }

    fn search_superblocks(&mut self, op: OpId) {
        let units: Vec<UnitId> = self.geometry.all_superblock_units().collect();
        let reports = match self.report() {
            Ok(reports) => reports,
            Err(error) => return self.ready.push((op, Err(error))),
        };
        let whole = self.geometry.blocks_per_unit();
        let readable = |unit: &UnitId| reports[unit.index()].written.unwrap_or(whole);
        let readable = units.iter().map(readable).collect();
        let search = Search { units, readable, current: 0, found: Vec::new(), failed: 0 };
        self.search_unit(op, Box::new(search), 0);
    }

    /// Reads the current unit again, if more of it than `had` logical blocks is needed, or the next one.
    fn search_unit(&mut self, op: OpId, mut search: Box<Search>, mut had: u32) {
        while let Some(&unit) = search.units.get(search.current) {
            let of_unit: Vec<Superblock> =
                search.found.iter().filter(|found| found.location.unit == unit).cloned().collect();
            let needed = superblock_blocks(&of_unit, &self.geometry);
            let needed = needed.min(search.readable[search.current]);
            if needed > had {
                let into = self.room(self.bytes(needed));
                let at = Location { unit, block: 0 };
                return self.read(at, into.clone(), Job::Superblocks(op, search, into));
            }
            search.current += 1;
            had = 0;
        }
        // With one unit unreadable, the other ones' records count: whether the newest is missing, recovery notices.
        let all_failed = search.failed == search.units.len();
        let answer =
            if all_failed { Err(DeviceError::Io) } else { Ok(Done::Superblocks(search.found)) };
        self.ready.push((op, answer));
    }

    fn search_on(
        &mut self,
        op: OpId,
        mut search: Box<Search>,
        result: Result<Buffer, DeviceError>,
    ) {
        let unit = search.units[search.current];
        let Ok(into) = result else {
            search.failed += 1;
            search.current += 1;
            return self.search_unit(op, search, 0);
        };
        search.found.retain(|found| found.location.unit != unit);
        search.found.extend(find_superblocks(&into.read(), unit, None, &self.geometry));
        let had = self.geometry.logical_block().to_hold(into.len());
        self.search_unit(op, search, had);
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, DeviceError> {
        let reports = self.storage.report();
        let mut reports = reports.map_err(|fault| {
            self.note(Trouble { asked: Asked::Report, fault });
            fault.error
        })?;
        reports.truncate(self.geometry.units() as usize);
        Ok(reports)
    }

    /// Keeps a failure until it is asked for; the first ones, if nobody asks.
    fn note(&mut self, trouble: Trouble) {
        /// Chosen, not measured.
        const MOST: usize = 64;
        if self.troubles.len() < MOST {
            self.troubles.push(trouble);
        }
    }

    fn write(&mut self, op: OpId, at: Location, parts: Vec<Buffer>, class: Class) {
        let at = self.storage.layout().offset(at);
        self.start(Job::Plain(op), Command::Write { at, parts, class });
    }

    fn read(&mut self, at: Location, into: Buffer, job: Job) {
        let at = self.storage.layout().offset(at);
        self.start(job, Command::Read { at, into });
    }

    fn start(&mut self, job: Job, command: Command) {
        let asked = Asked::of(&command, self.storage.layout());
        let token = Token(self.jobs.insert((job, asked)) as u64);
        self.storage.submit(token, command);
    }

    fn bytes(&self, blocks: u32) -> usize {
        blocks as usize * self.geometry.logical_block().bytes()
    }

    fn room(&self, bytes: usize) -> Buffer {
        Buffer::new(self.pool.take(bytes))
    }

    /// One buffer with all `pieces`.
    fn copied(&self, pieces: &[&[u8]]) -> Buffer {
        let mut room = self.pool.take(pieces.iter().map(|piece| piece.len()).sum());
        let mut from = 0;
        for piece in pieces {
            room[from..from + piece.len()].copy_from_slice(piece);
            from += piece.len();
        }
        Buffer::new(room)
    }
}

fn page(from: &Buffer) -> Box<[u8; BLOCK_BYTES]> {
    let mut page = Box::new([0; BLOCK_BYTES]);
    page.copy_from_slice(&from.read());
    page
}

fn chunks(window: &Buffer, request: &ReadChunks, geometry: &Geometry) -> FoundChunks<Buffer> {
    let bytes = window.read();
    let found = find_chunks(&bytes, request, geometry);
    let chunk = |(header, data): (_, std::ops::Range<usize>)| {
        let blocks = (data.len() / BLOCK_BYTES) as u32;
        let data = request.data.then(|| (window.part(data.start, data.len()), blocks));
        let packed = request.data.then(|| unpacked(&bytes, request, &header, geometry)).flatten();
        let packed = packed.map(|block| Buffer::new(BufferOf::from_bytes(&block[..])));
        FoundChunk { header: Arc::new(header), data, packed }
    };
    let chunks = found.chunks.into_iter().map(chunk).collect();
    FoundChunks { chunks, next: found.next, unsound: found.unsound, newest: found.newest }
}

#[cfg(test)]
mod tests;
