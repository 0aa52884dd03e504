//! A file system as a drive sees it: where files lie, in which pieces they are written, and what is discarded.
//!
//! Files are appended to and deleted whole, which is all that log-structured stores do with them. Data take extents;
//! metadata are small nodes of a tree that is copied on write, in an area of their own.
//!
//! Left out: a journal that is written in place, file sizes and times, allocation groups, checksums, snapshots,
//! deletions that are discarded later or not whole, and reads of metadata.
//!
//! Invariants:
//! * No byte belongs to two files, and all bytes are either free or a file's.
//! * A discard covers an extent of a deleted file, and each extent of it is discarded once, if at all.
//! * Memory is bounded by the number of extents.

mod free;
mod metadata;

pub use free::{Extent, FreeSpace};

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use thermocline_types::{Bytes, Op, Request, Rng, StreamId, TenantId, Time};

use self::metadata::Metadata;

/// Where the search for free space begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocator {
    /// At the beginning of the volume.
    First,
    /// Where the last extent of any file ended.
    #[default]
    Next,
    /// Where the last extent of the same file ended, for a new file anywhere: files keep apart from each other, as
    /// where a file system spreads them over allocation groups.
    Roam,
}

impl Allocator {
    /// Every allocator with the name that it has in texts.
    pub const ALL: [(Allocator, &'static str); 3] =
        [(Allocator::First, "first"), (Allocator::Next, "next"), (Allocator::Roam, "roam")];
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Allocator::ALL.iter().find(|(allocator, _)| allocator == self);
        f.pad(named.map_or("", |(_, name)| name))
    }
}

impl FromStr for Allocator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Allocator::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(allocator, _)| *allocator).ok_or_else(|| {
            let names = Allocator::ALL.map(|(_, name)| name);
            format!("must be one of {}", names.join(", "))
        })
    }
}

/// How a [`FileSystem`] is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileSystemOptions {
    /// Where the search for free space begins.
    pub allocator: Allocator,
    /// Bytes that a file takes at a time; closing the file returns the unused rest.
    pub extent: Bytes,
    /// The granule of files, in bytes.
    pub block: Bytes,
    /// Share of the bytes written that are metadata, 0 to below 1.
    pub metadata_share: f64,
    /// Bytes of the volume set aside for metadata, if any are written.
    pub metadata_area: Bytes,
    /// Bytes of a node of the metadata.
    pub node: Bytes,
    /// Whether what files leave is discarded.
    pub discard: bool,
    /// Bytes of the largest request.
    pub request: Bytes,
}

/// The file system has no room for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A file that is appended to.
#[derive(Debug)]
pub struct DataFile {
    extents: Vec<Extent>,
    /// Bytes at the end of the last extent that are not written.
    room: u64,
    size: u64,
    /// Where the search for the next extent begins, if files keep apart.
    next: u64,
    stream: StreamId,
}

impl DataFile {
    /// Bytes written.
    #[must_use]
    pub fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    /// What its requests carry.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The file's extents on the volume.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

/// A file system on a volume. Its requests wait in order until they are taken.
#[derive(Debug)]
pub struct FileSystem {
    options: FileSystemOptions,
    data: Extent,
    free: FreeSpace,
    cursor: u64,
    rng: Rng,
    metadata: Metadata,
    requests: VecDeque<Request>,
    least_free: u64,
}

impl FileSystem {
    /// An empty one on `volume` bytes; metadata lie at the front. `metadata` is the stream of their requests.
    #[must_use]
    pub fn new(
        volume: Bytes,
        options: FileSystemOptions,
        metadata: StreamId,
        seed: u64,
    ) -> FileSystem {
        let area = if options.metadata_share > 0.0 { options.metadata_area.0 } else { 0 };
        let area = area.min(volume.0);
        let start = area.next_multiple_of(options.block.0);
        let end = (volume.0 / options.block.0 * options.block.0).max(start);
        let data = Extent { start, length: end - start };
        FileSystem {
            data,
            free: FreeSpace::new(data),
            cursor: start,
            rng: Rng::new(seed),
            metadata: Metadata::new(area, &options, metadata),
            requests: VecDeque::new(),
            least_free: data.length,
            options,
        }
    }

    /// Bytes for data that are free.
    #[must_use]
    pub fn free(&self) -> Bytes {
        Bytes(self.free.free())
    }

    /// Bytes that files, and what is set aside for metadata, took of the volume at most.
    #[must_use]
    pub fn peak(&self) -> Bytes {
        Bytes(self.data.end() - self.least_free)
    }

    /// A new file, empty, whose requests carry `stream`.
    #[must_use]
    pub fn create(&mut self, stream: StreamId) -> DataFile {
        let next = match self.options.allocator {
            Allocator::Roam if self.data.length > 0 => {
                let block = self.options.block.0;
                self.data.start + self.rng.below(self.data.length) / block * block
            }
            _ => self.data.start,
        };
        DataFile { extents: Vec::new(), room: 0, size: 0, next, stream }
    }

    /// Writes `length` bytes, rounded up to whole blocks, to the end of `file`.
    ///
    /// # Errors
    /// [`NoRoom`] when the file system is full; what found room is written.
    pub fn append(&mut self, file: &mut DataFile, length: Bytes) -> Result<(), NoRoom> {
        let mut left = length.0.next_multiple_of(self.options.block.0);
        while left > 0 {
            if file.room == 0 {
                self.extend(file)?;
            }
            let last = file.extents.last().expect("the file was extended");
            let start = last.end() - file.room;
            let now = left.min(file.room);
            self.request(Op::Write, Extent { start, length: now }, file.stream);
            file.room -= now;
            file.size += now;
            left -= now;
            self.metadata.written(now, &mut self.rng, &mut self.requests);
        }
        Ok(())
    }

    /// Gives `file` another extent.
    fn extend(&mut self, file: &mut DataFile) -> Result<(), NoRoom> {
        let from = match self.options.allocator {
            Allocator::First => self.data.start,
            Allocator::Next => self.cursor,
            Allocator::Roam => file.next,
        };
        let extent = self.free.take(from, self.options.extent.0).ok_or(NoRoom)?;
        self.cursor = extent.end();
        file.next = extent.end();
        file.room = extent.length;
        self.least_free = self.least_free.min(self.free.free());
        match file.extents.last_mut() {
            Some(last) if last.end() == extent.start => last.length += extent.length,
            _ => file.extents.push(extent),
        }
        Ok(())
    }

    /// Ends writing to `file`: what it took and did not fill is free again.
    pub fn close(&mut self, file: &mut DataFile) {
        let Some(last) = file.extents.last_mut() else { return };
        last.length -= file.room;
        self.free.give(Extent { start: last.end(), length: file.room });
        file.room = 0;
        file.extents.pop_if(|last| last.length == 0);
    }

    /// Deletes `file`.
    pub fn delete(&mut self, mut file: DataFile) {
        self.close(&mut file);
        for extent in file.extents {
            if self.options.discard {
                self.push(Op::Trim, extent, file.stream);
            }
            self.free.give(extent);
        }
    }

    /// Reads `length` bytes of `file` from `offset` on, or to its end.
    pub fn read(&mut self, file: &DataFile, offset: Bytes, length: Bytes) {
        let (mut skip, mut left) = (offset.0, length.0.min(file.size.saturating_sub(offset.0)));
        for extent in &file.extents {
            let now = extent.length.saturating_sub(skip).min(left);
            if now > 0 {
                let part = Extent { start: extent.start + skip, length: now };
                self.request(Op::Read, part, file.stream);
                left -= now;
            }
            skip = skip.saturating_sub(extent.length);
        }
    }

    /// The next request, if any.
    pub fn next_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Asks for all of `extent`, in pieces.
    fn request(&mut self, op: Op, extent: Extent, stream: StreamId) {
        let most = self.options.request.0;
        for start in (extent.start..extent.end()).step_by(most as usize) {
            let length = most.min(extent.end() - start);
            self.push(op, Extent { start, length }, stream);
        }
    }

    fn push(&mut self, op: Op, extent: Extent, stream: StreamId) {
        self.requests.push_back(request(op, extent, stream));
    }
}

/// A request at time zero of the only tenant.
pub(crate) fn request(op: Op, extent: Extent, stream: StreamId) -> Request {
    Request {
        at: Time::ZERO,
        offset: Bytes(extent.start),
        length: Bytes(extent.length),
        tenant: TenantId(0),
        stream,
        op,
        outstanding: None,
    }
}

#[cfg(test)]
mod tests;
