//! What a front end (NBD, FUSE) knows of the block device that it serves: [`BlockTarget`], and nothing of the engine.
//!
//! Invariants:
//! * Every request is completed exactly once, whatever becomes of the target; see [`Completion`].
//! * A request owns its memory while it is in flight, so no target needs to copy it.
//! * A completed flush covers every write that was completed before the flush was submitted, and no other, as the NBD
//!   protocol has it.

mod buffer;
pub mod bugs;
mod clock;
pub mod conformance;
mod error;
mod exports;
mod granular;
mod input;
mod join;
mod mailbox;
mod memory;
mod output;
mod ranges;
mod request;

pub use buffer::{Buffer, BufferPool, Companion, emptied};
pub use clock::Clock;
pub use error::TargetError;
pub use exports::{ClientEvent, Export, Exports, Offer, User};
pub use granular::Granular;
pub use input::{Filled, StreamInput};
pub use join::Join;
pub use mailbox::{Bell, Ended, Mailbox};
pub use memory::Memory;
pub use output::{ReplyBody, Sent, StreamOutput};
pub use request::{Completion, Owner, Request, UnderWay};

use std::sync::Arc;

use thermocline_types::Bytes;

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Size, a multiple of `logical_block`; 0 when the target has gone, such as a volume that was deleted.
    pub size: Bytes,
    /// Offsets and lengths are multiples of this: 512 or 4096 bytes, or 1 of [`BlockTarget::at_any_byte`].
    pub logical_block: Bytes,
    /// What the target does beside reading and writing.
    pub features: Features,
}

/// Operations of a target beside reads and writes. Unsupported operations fail with [`TargetError::Unsupported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Writes survive a power cut after a [`Request::Flush`]. Without it flushing is neither needed nor refused.
    pub flush: bool,
    /// [`Request::Write`] with `fua`.
    pub fua: bool,
    /// [`Request::Trim`].
    pub trim: bool,
    /// [`Request::WriteZeroes`].
    pub zeroes: bool,
}

/// The most extents that [`BlockTarget::extents`] tells at once. Chosen, not measured.
pub const EXTENTS_MAX: usize = 1024;

/// A property that blocks of a target have or lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// They take space. Others read as zeroes.
    Mapped,
    /// They may have changed since the snapshot of this number ([`BlockTarget::snapshots`]). Others read as there.
    ChangedSince(u32),
}

/// A run of bytes that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: Bytes,
    /// Whether they have the [`Property`] asked for.
    pub has: bool,
}

/// An earlier state of a target that exists still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number for [`Property::ChangedSince`]. No other snapshot of the target ever has it.
    pub number: u32,
    /// Its name, without the name of the target.
    pub name: String,
}

/// Placement handles of a drive, and what it counts since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementHandles {
    /// Handles that writes can name, from 0 on.
    pub handles: u16,
    /// Bytes of a reclaim unit.
    pub unit: Bytes,
    /// Whether relocated data of a handle stays apart from that of others.
    pub stay_apart: bool,
    /// Bytes that hosts wrote.
    pub host_written: Bytes,
    /// Bytes that were written to the media.
    pub media_written: Bytes,
    /// Bytes of the media that were erased.
    pub erased: Bytes,
}

/// A block device, for any number of threads.
///
/// Requests in flight at the same time may be carried out in any order. After overlapping writes, each logical block
/// holds the bytes of exactly one write.
pub trait BlockTarget: Send + Sync {
    /// What the target is. Does not change but for the size.
    fn info(&self) -> Info;

    /// Starts `request`; its completion is called once, by any thread, perhaps before this returns.
    ///
    /// A refused request completes with its error in the same way. This does not wait for media, but may wait for room
    /// in a bounded queue; so a completion must not submit a request and wait for the result.
    fn submit(&self, request: Request);

    /// Reports which extents of a range have a property, from the first byte on. The result has between one and
    /// [`EXTENTS_MAX`] extents, no extent is empty, and the extents may end before the range. The rules for a range are
    /// the same as for a [`Request`].
    ///
    /// By default all of it has each.
    fn extents(&self, of: Property, offset: Bytes, length: Bytes, done: Completion<Vec<Extent>>) {
        let _everywhere = (of, offset);
        done.complete(Ok(vec![Extent { length, has: true }]));
    }

    /// The snapshots that the target had before its present state, the newest first. None by default.
    fn snapshots(&self) -> Vec<Snapshot> {
        Vec::new()
    }

    /// The placement handles of the drive below, and what the drive counts. `None` by default: it has no handles, or
    /// they are not for hosts.
    fn placement(&self) -> Option<PlacementHandles> {
        None
    }

    /// The same bytes in logical blocks of one byte, if concurrent changes through both targets are safe. `None` by
    /// default: then wrap the target in [`Granular`], and make all changes through the wrapper.
    fn at_any_byte(&self) -> Option<Arc<dyn BlockTarget>> {
        None
    }
}

impl<T: BlockTarget + ?Sized> BlockTarget for Arc<T> {
    fn info(&self) -> Info {
        (**self).info()
    }

    fn submit(&self, request: Request) {
        (**self).submit(request);
    }

    fn extents(&self, of: Property, offset: Bytes, length: Bytes, done: Completion<Vec<Extent>>) {
        (**self).extents(of, offset, length, done);
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        (**self).snapshots()
    }

    fn placement(&self) -> Option<PlacementHandles> {
        (**self).placement()
    }

    fn at_any_byte(&self) -> Option<Arc<dyn BlockTarget>> {
        (**self).at_any_byte()
    }
}
