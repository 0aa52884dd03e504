//! Translates commands of the engine into writes and reads of places, one after the other, and results into
//! completions.
//!
//! A [`Translator`] does no I/O: the driver carries out each [`IoCmd`] and returns its [`IoJob`] with the result. The
//! crash simulation therefore crashes the same code as the service runs. The [`Encoding`] defines the parts of a write
//! and the room of a read.
//!
//! Invariants:
//! * A command of the engine becomes one command after the other, never two at once, and ends in one answer.
//! * No write or read leaves its unit.

use std::fmt::Debug;
use std::sync::Arc;

use thermocline_format::{BLOCK_BYTES, Geometry, Location, Superblock};
use thermocline_types::{Class, DeviceId, UnitId, Version};

use super::superblock_blocks;
use crate::bugs::{Bug, bug};
use crate::device::{
    Chunk, DeviceCmd, DeviceError, Done, FoundChunks, Heal, Members, PageBytes, ReadChunks,
    UnitReport, Versions,
};
use crate::payload::Payload;

/// The form of structures on media: bytes ([`super::InBytes`]), or a stand-in for bytes.
pub trait Encoding: Debug {
    /// Handles of users' blocks.
    type Payload: Payload;
    /// The content of a write.
    type Parts: Debug;
    /// Where a read goes.
    type Room: Clone + Debug;

    /// How media are divided.
    fn geometry(&self) -> &Geometry;

    /// All of a chunk: [`thermocline_format::ChunkHeader::blocks`] logical blocks.
    fn chunk(&mut self, chunk: Arc<Chunk<Self::Payload>>) -> Self::Parts;

    /// All of a superblock record.
    fn record(&mut self, record: Arc<Superblock>) -> Self::Parts;

    /// Room for `bytes` bytes: the first bytes of `into`, if `into` is given.
    fn room(&mut self, bytes: usize, into: Option<Self::Payload>) -> Self::Room;

    /// The blocks that were read.
    fn data(&self, room: Self::Room) -> Self::Payload;

    /// The page that was read at `at`.
    ///
    /// # Errors
    /// [`DeviceError`] where media keep pages as they are, and there is none.
    fn page(&self, at: Location, room: &Self::Room) -> Result<PageBytes, DeviceError>;

    /// The chunks in the versions of the window that were read, at least one.
    fn chunks(
        &self,
        request: &ReadChunks,
        windows: &[(Version, Self::Room)],
    ) -> FoundChunks<Self::Payload>;

    /// The superblock records, of any pool, in the part of `unit` that was read from block 0 on.
    fn records(&self, unit: UnitId, room: &Self::Room) -> Vec<Superblock>;

    /// Logical blocks that `room` is for.
    fn blocks(&self, room: &Self::Room) -> u32;

    /// Makes a deliberate bug from now on, if the bug belongs to the encoding.
    fn make(&mut self, _bug: Option<Bug>) {}
}

/// A command for media.
#[derive(Debug)]
pub enum IoCmd<E: Encoding> {
    /// Write the parts in order, as one write.
    Write {
        /// Where the first part begins.
        at: Location,
        /// What.
        parts: E::Parts,
        /// Data of a class is expected to live about as long: for devices that take placement handles.
        class: Class,
    },
    /// Fill the room.
    Read {
        /// Where the first byte is.
        at: Location,
        /// Where to.
        into: E::Room,
        /// Which version, where the device has several.
        version: Version,
    },
    /// As [`DeviceCmd::Heal`].
    Heal(Vec<Heal>),
    /// As [`DeviceCmd::Distrust`].
    Distrust {
        /// A unit of the device.
        unit: UnitId,
        /// The version that has the data.
        version: Version,
    },
    /// Report every unit of every device; answered by [`Translator::reported`].
    Report,
    /// As [`DeviceCmd::Reset`].
    Reset(UnitId),
    /// As [`DeviceCmd::Zero`].
    Zero(UnitId),
    /// As [`DeviceCmd::Finish`].
    Finish(UnitId),
    /// As [`DeviceCmd::Flush`].
    Flush(DeviceId),
}

impl<E: Encoding> IoCmd<E> {
    /// The unit that the command changes. A zone takes one changing command at a time: see [`super::ZoneOrder`].
    #[must_use]
    pub const fn changes(&self) -> Option<UnitId> {
        match self {
            IoCmd::Write { at, .. } => Some(at.unit),
            IoCmd::Reset(unit) | IoCmd::Zero(unit) | IoCmd::Finish(unit) => Some(*unit),
            IoCmd::Read { .. }
            | IoCmd::Report
            | IoCmd::Flush(_)
            | IoCmd::Heal(_)
            | IoCmd::Distrust { .. } => None,
        }
    }
}

/// Context of a command of media, for its result.
#[derive(Debug)]
pub struct IoJob<E: Encoding>(Kind<E>);

impl<E: Encoding> IoJob<E> {
    /// Whether [`Translator::reported`] takes the result.
    #[must_use]
    pub const fn is_report(&self) -> bool {
        matches!(self.0, Kind::Units | Kind::Readable(_))
    }
}

#[derive(Debug)]
enum Kind<E: Encoding> {
    Plain,
    Data(E::Room),
    Page(Location, E::Room),
    Chunks(Box<Windows<E>>, E::Room),
    Units,
    /// The report before a search.
    Readable(Members),
    Search(Box<Search>, E::Room),
}

/// Versions of a window of chunks, read in sequence.
#[derive(Debug)]
struct Windows<E: Encoding> {
    request: ReadChunks,
    /// The version being read, and the versions left to read, the next last.
    current: Version,
    left: Vec<Version>,
    /// Those that could be read.
    read: Vec<(Version, E::Room)>,
}

/// The step that follows a result.
#[derive(Debug)]
pub enum IoStep<E: Encoding> {
    /// Media are asked for more.
    Io(IoCmd<E>, IoJob<E>),
    /// The command of the engine has ended.
    Answer(Result<Done<E::Payload>, DeviceError>),
}

/// A search for superblock records: one unit after the other.
#[derive(Debug)]
struct Search {
    /// Each in each of its versions.
    units: Vec<(UnitId, Version)>,
    /// Logical blocks of each that can be read.
    readable: Vec<u32>,
    /// Which of them is being read.
    current: usize,
    /// Records found so far in the unit being read, and in the units before.
    of_current: Vec<Superblock>,
    found: Vec<Superblock>,
    /// How many of them could not be read.
    failed: usize,
}

impl Search {
    /// The current unit was read in the current version: a record found in several versions counts once.
    fn take_current(&mut self) {
        for record in std::mem::take(&mut self.of_current) {
            if !self.found.contains(&record) {
                self.found.push(record);
            }
        }
    }
}

/// Turns commands of the engine into commands of media.
#[derive(Debug)]
pub struct Translator<E> {
    encoding: E,
    bug: Option<Bug>,
}

impl<E: Encoding> Translator<E> {
    /// A translator for media with this encoding.
    #[must_use]
    pub const fn new(encoding: E) -> Translator<E> {
        Translator { encoding, bug: None }
    }

    /// Makes a deliberate bug from now on.
    pub fn make(&mut self, bug: Option<Bug>) {
        self.bug = bug;
        self.encoding.make(bug);
    }

    /// The encoding.
    pub const fn encoding(&self) -> &E {
        &self.encoding
    }

    /// As [`Translator::encoding`], to change it.
    pub const fn encoding_mut(&mut self) -> &mut E {
        &mut self.encoding
    }

    /// The first command of media for a command of the engine.
    #[inline]
    pub fn start(&mut self, cmd: DeviceCmd<E::Payload>) -> (IoCmd<E>, IoJob<E>) {
        match cmd {
            DeviceCmd::WriteChunk(chunk) => {
                let origin = chunk.header.origin;
                let (at, parts, class) =
                    (origin.location, self.encoding.chunk(chunk), origin.class);
                (IoCmd::Write { at, parts, class }, IoJob(Kind::Plain))
            }
            DeviceCmd::WriteSuperblock(record) => {
                let (at, class) = (record.location, Class(0));
                let parts = self.encoding.record(record);
                (IoCmd::Write { at, parts, class }, IoJob(Kind::Plain))
            }
            DeviceCmd::Read { at, blocks, into, version } => {
                let room = self.encoding.room(blocks as usize * BLOCK_BYTES, into);
                (IoCmd::Read { at, into: room.clone(), version }, IoJob(Kind::Data(room)))
            }
            DeviceCmd::ReadPage { at, version } => {
                let room = self.encoding.room(BLOCK_BYTES, None);
                (IoCmd::Read { at, into: room.clone(), version }, IoJob(Kind::Page(at, room)))
            }
            DeviceCmd::ReadChunks(request) => {
                let mut left: Vec<Version> = request.versions.each().collect();
                left.reverse();
                let current = left.pop().expect("there is a version at least");
                self.read_window(Box::new(Windows { request, current, left, read: Vec::new() }))
            }
            DeviceCmd::ReadSuperblocks(members) => (IoCmd::Report, IoJob(Kind::Readable(members))),
            DeviceCmd::ReportUnits => (IoCmd::Report, IoJob(Kind::Units)),
            DeviceCmd::Reset(unit) => (IoCmd::Reset(unit), IoJob(Kind::Plain)),
            DeviceCmd::Zero(unit) => (IoCmd::Zero(unit), IoJob(Kind::Plain)),
            DeviceCmd::Finish(unit) => (IoCmd::Finish(unit), IoJob(Kind::Plain)),
            DeviceCmd::Flush(device) => (IoCmd::Flush(device), IoJob(Kind::Plain)),
            DeviceCmd::Heal(places) => (IoCmd::Heal(places), IoJob(Kind::Plain)),
            DeviceCmd::Distrust { unit, version } => {
                (IoCmd::Distrust { unit, version }, IoJob(Kind::Plain))
            }
        }
    }

    fn read_window(&mut self, windows: Box<Windows<E>>) -> (IoCmd<E>, IoJob<E>) {
        let room = self.encoding.room(self.bytes(windows.request.window), None);
        let (at, version) = (windows.request.at, windows.current);
        let read = IoCmd::Read { at, into: room.clone(), version };
        (read, IoJob(Kind::Chunks(windows, room)))
    }

    /// A window was read, or cannot be: the next one is, and behind the last the chunks are found in all that were
    /// read.
    fn window_read(
        &mut self,
        mut windows: Box<Windows<E>>,
        result: Result<E::Room, DeviceError>,
    ) -> IoStep<E> {
        let failed = result.as_ref().err().copied();
        windows.read.extend(result.ok().map(|room| (windows.current, room)));
        if let Some(next) = windows.left.pop() {
            windows.current = next;
            let (cmd, job) = self.read_window(windows);
            return IoStep::Io(cmd, job);
        }
        IoStep::Answer(match failed.filter(|_| windows.read.is_empty()) {
            Some(error) => Err(error),
            None => Ok(Done::Chunks(self.encoding.chunks(&windows.request, &windows.read))),
        })
    }

    /// The step that follows a completed command of media other than a report.
    ///
    /// # Panics
    /// When it was one.
    #[inline]
    pub fn go_on(&mut self, job: IoJob<E>, result: Result<(), DeviceError>) -> IoStep<E> {
        let encoding = &self.encoding;
        IoStep::Answer(match job.0 {
            Kind::Plain => result.map(|()| Done::Ok),
            Kind::Data(room) => result.map(|()| Done::Data(encoding.data(room))),
            Kind::Page(at, room) => result.and_then(|()| encoding.page(at, &room)).map(Done::Page),
            Kind::Chunks(windows, room) => {
                return self.window_read(windows, result.map(|()| room));
            }
            Kind::Search(search, room) => return self.searched(search, result.map(|()| room)),
            Kind::Units | Kind::Readable(_) => panic!("a report has reports"),
        })
    }

    /// The step that follows a completed report, which may name more units than the pool has.
    ///
    /// # Panics
    /// When it was no report.
    pub fn reported(
        &mut self,
        job: IoJob<E>,
        result: Result<Vec<UnitReport>, DeviceError>,
    ) -> IoStep<E> {
        let geometry = *self.encoding.geometry();
        let mut reports = match result {
            Ok(reports) => reports,
            Err(error) => return IoStep::Answer(Err(error)),
        };
        reports.truncate(geometry.units() as usize);
        let members = match job.0 {
            Kind::Units => return IoStep::Answer(Ok(Done::Units(reports))),
            Kind::Readable(members) => members,
            other => panic!("{other:?} is no report"),
        };
        let versions = |unit| {
            let all = Versions::All(members.of(geometry.device_of(unit)));
            all.each().map(move |version| (unit, version))
        };
        let mut units: Vec<(UnitId, Version)> =
            geometry.all_superblock_units().flat_map(versions).collect();
        if bug!(self, SearchEndsEarly) {
            units.pop();
        }
        let whole = geometry.blocks_per_unit();
        let readable =
            |(unit, _): &(UnitId, Version)| reports[unit.index()].written.unwrap_or(whole);
        let readable = units.iter().map(readable).collect();
        let (of_current, found) = (Vec::new(), Vec::new());
        let search = Search { units, readable, current: 0, of_current, found, failed: 0 };
        self.search(Box::new(search), 0)
    }

    /// Reads the current unit again, if more of it than `had` logical blocks is needed, or the next one.
    fn search(&mut self, mut search: Box<Search>, mut had: u32) -> IoStep<E> {
        let geometry = *self.encoding.geometry();
        while let Some(&(unit, version)) = search.units.get(search.current) {
            let needed = superblock_blocks(&search.of_current, &geometry);
            let needed = needed.min(search.readable[search.current]);
            if needed > had {
                let room = self.encoding.room(self.bytes(needed), None);
                let at = Location { unit, block: 0 };
                let read = IoCmd::Read { at, into: room.clone(), version };
                return IoStep::Io(read, IoJob(Kind::Search(search, room)));
            }
            search.take_current();
            search.current += 1;
            had = 0;
        }
        // If a unit is unreadable, the records of the other units count. Recovery notices if the newest record is
        // missing.
        let all_failed = search.failed == search.units.len();
        IoStep::Answer(if all_failed {
            Err(DeviceError::Io)
        } else {
            Ok(Done::Superblocks(search.found))
        })
    }

    fn searched(
        &mut self,
        mut search: Box<Search>,
        result: Result<E::Room, DeviceError>,
    ) -> IoStep<E> {
        let (unit, _) = search.units[search.current];
        let Ok(room) = result else {
            search.take_current();
            search.failed += 1;
            search.current += 1;
            return self.search(search, 0);
        };
        if bug!(self, EarlierUnitsForgotten) {
            search.found.clear();
        }
        search.of_current = self.encoding.records(unit, &room);
        let had = self.encoding.blocks(&room);
        self.search(search, had)
    }

    fn bytes(&self, blocks: u32) -> usize {
        blocks as usize * self.encoding.geometry().logical_block().bytes()
    }
}

#[cfg(test)]
mod tests;
