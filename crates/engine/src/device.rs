//! Commands of the engine for its devices, and the completions of the devices. The unit of a command names the device.
//!
//! A driver carries out each command on real or simulated media and reports its completion, in any order. Structures
//! are handed over decoded, and the lab keeps structures decoded. `wire` encodes structures into bytes.

use std::sync::Arc;

use thermocline_format::{
    BLOCK_BYTES, ChunkHeader, Generation, Geometry, Location, MAX_DEVICES, Places, PoolId,
    Superblock,
};
pub use thermocline_types::DeviceError;
use thermocline_types::{DeviceId, UnitId, Version};

use crate::payload::Payload;

/// Identifies a command between its submission and its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// The bytes of a map page.
pub type PageBytes = Box<[u8; BLOCK_BYTES]>;

/// A chunk on its way to media: the header says where, which must be carried out as one write.
#[derive(Clone, Debug)]
pub struct Chunk<P> {
    /// What is written before the blocks.
    pub header: Arc<ChunkHeader>,
    /// The data blocks in the order of their entries. A packed block is included, but is not written.
    pub body: Body<P>,
    /// The bytes of the packed block, if the header has one.
    pub packed: Option<P>,
}

/// Blocks of a chunk.
#[derive(Clone, Debug)]
pub enum Body<P> {
    /// Users' blocks, each handle of one block.
    User(Vec<P>),
    /// Pages of the map.
    Pages(Vec<PageBytes>),
}

/// A command for the device.
#[derive(Clone, Debug)]
pub enum DeviceCmd<P> {
    /// Write a chunk. Chunks of one unit are submitted in the order of their location.
    WriteChunk(Arc<Chunk<P>>),
    /// Read `blocks` blocks of 4096 bytes that follow each other, from `at` on; answered by [`Done::Data`].
    Read {
        /// Where the first block begins.
        at: Location,
        /// Blocks of 4096 bytes.
        blocks: u32,
        /// Where to put them; without it the driver finds room.
        into: Option<P>,
        /// Which version, where the device has several.
        version: Version,
    },
    /// Read a page of the map; answered by [`Done::Page`].
    ReadPage {
        /// Where it begins.
        at: Location,
        /// Which version, where the device has several.
        version: Version,
    },
    /// Read part of a unit and find the chunks in it; answered by [`Done::Chunks`].
    ReadChunks(ReadChunks),
    /// Read the superblock units of all devices and find the records in them, in every version that a device with these
    /// members has; answered by [`Done::Superblocks`].
    ReadSuperblocks(Members),
    /// Write a superblock record at its location.
    WriteSuperblock(Arc<Superblock>),
    /// Report every unit of every device; answered by [`Done::Units`].
    ReportUnits,
    /// Make a unit empty. The old content of a zone is gone; the old content of any other unit may be read again.
    Reset(UnitId),
    /// Overwrite a conventional unit with zeros, so that old content cannot be read again.
    Zero(UnitId),
    /// Write no more to a unit until the next reset, so that the device can free its resources for the unit.
    Finish(UnitId),
    /// Make durable all writes, resets and zeros of a device that were complete when this was submitted.
    Flush(DeviceId),
    /// Heal a device with redundancy: each place of the unit is valid in the version named. After a crash, two damaged
    /// places may each be rebuilt from the other until the first is written. The device must therefore read all places
    /// before the first write.
    Heal(Vec<Heal>),
    /// The member that this version excludes lacks flushed data. The device must stop reading the member and refill it.
    Distrust {
        /// A unit of the device.
        unit: UnitId,
        /// The version that has the data.
        version: Version,
    },
}

/// A place of a device with redundancy, and a version that has it right. Without a member, that member gets its part of
/// the bytes anew. As read, whatever else the device keeps of them is made to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Heal {
    /// Where the first byte is.
    pub at: Location,
    /// Logical blocks.
    pub blocks: u32,
    /// In which version they are right.
    pub version: Version,
}

impl Heal {
    /// Block of a user, or a page, at `at`.
    pub(crate) fn block(at: Location, version: Version, geometry: &Geometry) -> Heal {
        Heal { at, blocks: geometry.logical_block().per_block(), version }
    }
}

/// Redundancy of each device: the number of members of which one may return wrong data; 0 for a device without
/// redundancy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members([u8; MAX_DEVICES]);

impl Members {
    /// No device has redundancy.
    pub const NONE: Members = Members([0; MAX_DEVICES]);

    /// Says of a device how many members it has.
    pub fn set(&mut self, device: DeviceId, members: u8) {
        self.0[device.index()] = members;
    }

    /// Members of a device.
    #[must_use]
    pub const fn of(self, device: DeviceId) -> u8 {
        self.0[device.0 as usize]
    }
}

/// Chunks to read: all chunks that begin in the `window` logical blocks from `at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadChunks {
    /// Where the first chunk begins.
    pub at: Location,
    /// Logical blocks to read, which are in the unit; at least the longest header, 4096 bytes, or what is left of it.
    pub window: u32,
    /// The pool that the chunks must name.
    pub pool: PoolId,
    /// The generation that the chunks must name, if known; else that of the first decides, or in a search none does.
    pub generation: Option<Generation>,
    /// Where there is no sound header, whether to look for the next at each logical block that follows.
    pub search: bool,
    /// Whether to hand over the blocks as well, as far as they are in the window.
    pub data: bool,
    /// Which versions are read: of each place the newest chunk is taken that any of them has.
    pub versions: Versions,
}

/// Versions of a window of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// As the device reads it.
    #[default]
    AsRead,
    /// This one.
    One(Version),
    /// For each of so many members, the version read without the member; without members, as the device reads.
    All(u8),
}

impl Versions {
    /// Each of them.
    pub(crate) fn each(self) -> impl Iterator<Item = Version> {
        let (first, members) = match self {
            Versions::AsRead | Versions::All(0) => (Some(Version::AS_READ), 0),
            Versions::One(version) => (Some(version), 0),
            Versions::All(members) => (None, members),
        };
        first.into_iter().chain((0..usize::from(members)).map(Version::without))
    }
}

/// A chunk that was found.
#[derive(Clone, Debug)]
pub struct FoundChunk<P> {
    /// Its header.
    pub header: Arc<ChunkHeader>,
    /// The blocks behind its header from the first on, as many as the window holds whole; with their number.
    pub data: Option<(P, u32)>,
    /// The packed block of the header, unpacked.
    pub packed: Option<P>,
    /// The version without a member that alone has the header: others lack the header, or could not be read.
    pub only_in: Option<Version>,
    /// Whether every version has the header that could be read.
    pub everywhere: bool,
}

impl<P: Payload> FoundChunk<P> {
    /// Block `number` of the chunk, if it was handed over; `places` are those of the header.
    #[must_use]
    pub fn block(&self, number: u32, places: &Places) -> Option<P> {
        let Some(nth) = places.behind(number) else { return self.packed.clone() };
        let (run, whole) = self.data.as_ref()?;
        (nth < *whole).then(|| run.slice(nth, 1))
    }
}

/// The chunks of part of a unit.
#[derive(Clone, Debug)]
pub struct FoundChunks<P> {
    /// In order of location.
    pub chunks: Vec<FoundChunk<P>>,
    /// The logical block at which reading goes on: behind the last chunk found, or, after a search in vain, behind the
    /// last logical block at which no header can begin.
    pub next: u32,
    /// Whether there is no sound header at `next`, though the window held one's length.
    pub unsound: bool,
    /// Generations and other pools apart: the highest revision and epoch that any sound prefix named, for recovery to
    /// notice a lost superblock.
    pub newest: Option<(thermocline_format::Revision, thermocline_format::Epoch)>,
}

/// A unit as the device reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitReport {
    /// Whether the unit can be read and written.
    pub condition: UnitCondition,
    /// Logical blocks before the write pointer; `None` where units can be written anywhere.
    pub written: Option<u32>,
}

/// Whether a unit can be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitCondition {
    /// Read, written, reset.
    Good,
    /// Read only, for good.
    ReadOnly,
    /// Nothing, for good.
    Offline,
}

/// How a command ended well.
#[derive(Clone, Debug)]
pub enum Done<P> {
    /// Written, reset, finished or flushed.
    Ok,
    /// The blocks of a [`DeviceCmd::Read`].
    Data(P),
    /// The page of a [`DeviceCmd::ReadPage`].
    Page(PageBytes),
    /// The answer to [`DeviceCmd::ReadChunks`].
    Chunks(FoundChunks<P>),
    /// Every sound record of all superblock units, each with the logical block behind it.
    Superblocks(Vec<Superblock>),
    /// One report for each unit of the pool's geometry, in order.
    Units(Vec<UnitReport>),
}
