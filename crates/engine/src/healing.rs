//! Reads of devices with redundancy, and places that are written again because another version has them right.
//!
//! Invariants:
//! * A version counts as right only by the engine's own check.
//! * While a pool is being opened nothing is healed: what is to be is kept for the end of the opening.

use rustc_hash::FxHashMap;
use thermocline_format::{Geometry, Location};
use thermocline_types::{UnitId, Version};

use crate::device::{DeviceCmd, DeviceError, Done, ReadChunks, Versions};
use crate::engine::Op;
use crate::payload::Payload;

/// A read of a device with redundancy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    /// Blocks of users.
    Blocks { at: Location },
    /// A page of a map or of the unit table.
    Page { at: Location },
    /// Chunks of a unit.
    Chunks(ReadChunks),
}

impl Read {
    /// The read that a command asks for, if it reads a place of a unit.
    fn of<P>(cmd: &DeviceCmd<P>) -> Option<Read> {
        Some(match cmd {
            DeviceCmd::Read { at, .. } => Read::Blocks { at: *at },
            DeviceCmd::ReadPage { at, .. } => Read::Page { at: *at },
            DeviceCmd::ReadChunks(request) if request.versions == Versions::AsRead => {
                Read::Chunks(*request)
            }
            _ => return None,
        })
    }

    /// The unit.
    pub(crate) fn unit(&self) -> UnitId {
        match self {
            Read::Blocks { at } | Read::Page { at } => at.unit,
            Read::Chunks(request) => request.at.unit,
        }
    }

    /// Where block `index` of it is.
    pub(crate) fn place(&self, index: u32, geometry: &Geometry) -> Location {
        match self {
            Read::Blocks { at } => {
                Location { block: at.block + index * geometry.logical_block().per_block(), ..*at }
            }
            Read::Page { at } => *at,
            Read::Chunks(request) => request.at,
        }
    }
}

/// A read of which some blocks fail their check, while other versions of them are asked for.
#[derive(Debug)]
pub(crate) struct Tried<P> {
    /// What was asked for, and the answer as far as it is known.
    pub(crate) asked: Op<P>,
    pub(crate) done: Result<Done<P>, DeviceError>,
    pub(crate) read: Read,
    /// Blocks of it that are not right yet, the next one last.
    pub(crate) wrong: Vec<u32>,
    /// The member that is left out next.
    pub(crate) next: u8,
}

impl<P: Payload> Tried<P> {
    /// The command that reads the next wrong block without a member, or, of chunks, every version; `None` if there is
    /// none, or no further version of it.
    pub(crate) fn command(&mut self, members: u8, geometry: &Geometry) -> Option<DeviceCmd<P>> {
        loop {
            let index = *self.wrong.last()?;
            if self.next == members || self.next > 0 && matches!(self.read, Read::Chunks(_)) {
                self.wrong.pop();
                self.next = 0;
                continue;
            }
            let version = Version::without(self.next.into());
            self.next += 1;
            let at = self.read.place(index, geometry);
            return Some(match &self.read {
                Read::Blocks { .. } => {
                    let into = match &self.done {
                        Ok(Done::Data(data)) => Some(data.slice(index, 1)),
                        _ => None,
                    };
                    DeviceCmd::Read { at, blocks: 1, into, version }
                }
                Read::Page { .. } => DeviceCmd::ReadPage { at, version },
                Read::Chunks(request) => DeviceCmd::ReadChunks(ReadChunks {
                    versions: Versions::All(members),
                    ..*request
                }),
            });
        }
    }

    /// The version that was asked for last.
    pub(crate) fn version(&self) -> Version {
        Version::without(usize::from(self.next) - 1)
    }
}

/// A place of which a version is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heal {
    pub(crate) at: Location,
    /// Logical blocks.
    pub(crate) blocks: u32,
    pub(crate) version: Version,
}

impl Heal {
    /// Block of a user, or a page, at `at`.
    pub(crate) fn block(at: Location, version: Version, geometry: &Geometry) -> Heal {
        Heal { at, blocks: geometry.logical_block().per_block(), version }
    }

    pub(crate) fn command<P>(self) -> DeviceCmd<P> {
        let Heal { at, blocks, version } = self;
        DeviceCmd::Heal { at, blocks, version }
    }
}

/// Reads of devices with redundancy that are on their way, and what was found right in an opening.
#[derive(Debug, Default)]
pub(crate) struct Healing {
    /// By the number of their command, each with the version that answered it although another was asked for.
    reads: FxHashMap<usize, (Read, Version)>,
    found: Vec<Heal>,
}

impl Healing {
    /// A command for a device with redundancy is sent.
    pub(crate) fn begin<P>(&mut self, op: usize, cmd: &DeviceCmd<P>) {
        self.reads.extend(Read::of(cmd).map(|read| (op, (read, Version::AS_READ))));
    }

    /// A member reported an error: the answer is that of this version.
    pub(crate) fn degraded(&mut self, op: usize, version: Version) {
        if let Some((_, answered)) = self.reads.get_mut(&op) {
            *answered = version;
        }
    }

    /// The read with this number, which is answered, and the version that answered it.
    pub(crate) fn end(&mut self, op: usize) -> Option<(Read, Version)> {
        if self.reads.is_empty() { None } else { self.reads.remove(&op) }
    }

    /// Keeps a place until the opening ends.
    pub(crate) fn keep(&mut self, heal: Heal) {
        if !self.found.contains(&heal) {
            self.found.push(heal);
        }
    }

    /// The places that were kept.
    pub(crate) fn take(&mut self) -> Vec<Heal> {
        std::mem::take(&mut self.found)
    }
}
