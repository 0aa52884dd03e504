//! Requests of a host, and the engine's replies.

use thermocline_format::{
    Location, MAX_NAME_BYTES, MAX_ROOTS, MAX_VOLUME_BLOCKS, MAX_VOLUMES, VolumeId, VolumeMedia,
    VolumeName,
};
use thermocline_types::DeviceId;

use crate::device::{DeviceCmd, OpId};

/// Identifies a host's request until its completion; chosen by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A run of blocks of 4096 bytes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The volume.
    pub volume: VolumeId,
    /// The first block.
    pub lba: u64,
    /// Blocks, at least one.
    pub blocks: u64,
}

/// A request of a host.
#[derive(Clone, Debug)]
pub enum HostRequest<P> {
    /// Read blocks; those never written, or trimmed, are zeros.
    Read {
        /// Which; at most [`crate::MAX_IO_BLOCKS`].
        extent: Extent,
        /// Where to put them.
        into: P,
    },
    /// Write blocks.
    Write {
        /// Which; at most [`crate::MAX_IO_BLOCKS`].
        extent: Extent,
        /// Their content; must not change any more, not even after completion.
        data: P,
        /// Whether the blocks must be durable at completion.
        fua: bool,
        /// The host's hint about the lifetime of the blocks; 0 is no hint.
        handle: u16,
    },
    /// Forget blocks: they read as zeros afterwards.
    Trim {
        /// Which, of any number.
        extent: Extent,
        /// Whether the trim must be durable at completion.
        fua: bool,
    },
    /// Make every write durable that completed before the flush was submitted.
    Flush,
    /// As `Flush`, for the writes of one volume: writes of other volumes may stay in memory.
    FlushVolume {
        /// Which.
        volume: VolumeId,
    },
    /// Create a volume; durable at completion.
    CreateVolume {
        /// The name. No two volumes may have the same name.
        name: VolumeName,
        /// Its size in blocks.
        blocks: u64,
    },
    /// Delete a volume and all its blocks, or a snapshot; durable at completion.
    DeleteVolume {
        /// Which.
        volume: VolumeId,
    },
    /// Change the size of a volume; durable at completion. Blocks beyond a smaller size are gone.
    ResizeVolume {
        /// Which.
        volume: VolumeId,
        /// Its new size in blocks.
        blocks: u64,
    },
    /// Give a volume another name; durable at completion.
    RenameVolume {
        /// Which.
        volume: VolumeId,
        /// The new name. No two volumes may have the same name.
        name: VolumeName,
    },
    /// Make a snapshot of a volume: a read-only volume that shows the blocks as they are now. Durable at completion,
    /// with all that was complete before.
    SnapshotVolume {
        /// Of which.
        volume: VolumeId,
        /// The name. No two snapshots of a volume may have the same name.
        name: VolumeName,
    },
    /// Make a clone of a snapshot: a volume that shows the blocks of the snapshot until they are written or trimmed.
    /// Durable at completion.
    CloneVolume {
        /// Of which snapshot.
        snapshot: VolumeId,
        /// The name. No two volumes may have the same name.
        name: VolumeName,
    },
    /// Set the media for future blocks of a volume; durable at completion. Existing blocks move when they are written
    /// or destaged next.
    SetMedia {
        /// Which.
        volume: VolumeId,
        /// Where.
        media: VolumeMedia,
    },
    /// Read all valid data and compare the data with its checksums. Findings come as [`Notice::Damaged`].
    Scrub,
    /// Stop in order: completes when a checkpoint holds everything. No request is accepted afterwards.
    Close,
}

/// The reply to a request that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Done,
    /// The volume or snapshot that was created.
    Created(VolumeId),
    /// Result of a scrub.
    Scrubbed {
        /// Blocks that were compared, including blocks of maps.
        blocks: u64,
        /// Places at which something is wrong: blocks and headers.
        damaged: u64,
        /// Places of devices with redundancy that are wrong on one member and right on the others.
        mended: u64,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is no such volume.
    #[error("there is no volume {}", .0.0)]
    NoVolume(VolumeId),
    /// The blocks are not all in the volume.
    #[error("the blocks end beyond the volume")]
    OutOfRange,
    /// The pool has no fast device: all blocks are on the same media.
    #[error("the pool has no fast device, so all blocks are on the same media")]
    NoFastDevice,
    /// A volume of that name exists, or a snapshot.
    #[error("a volume of that name exists")]
    NameTaken,
    /// The names of a volume and its snapshot are too long together.
    #[error(
        "the name of a volume, an `@` and the name of its snapshot have {MAX_NAME_BYTES} bytes at most"
    )]
    LongName,
    /// The volume is a snapshot: nothing can change it.
    #[error("a snapshot cannot be written to, nor change")]
    ReadOnly,
    /// A clone is of a snapshot.
    #[error("a clone can be made of a snapshot only: make one of the volume before")]
    NoSnapshot,
    /// A volume with snapshots cannot be deleted.
    #[error("the volume has snapshots, which must be deleted before")]
    HasSnapshots,
    /// A volume has as many snapshots as it can have, deleted ones that still have its blocks included.
    #[error(
        "the volume has as many snapshots as it can have, those included that were deleted and cannot go: {MAX_LAYERS}"
    )]
    TooManySnapshots,
    /// The pool is full: the write would map more blocks than it can hold.
    #[error("the pool is full")]
    NoSpace,
    /// The pool has less room than the reservation needs.
    #[error("the pool can reserve {} MiB for this volume at most", .most / 256)]
    NothingToReserve {
        /// Blocks, the mapped ones of the volume included.
        most: u64,
    },
    /// The maps of all volumes need more memory than the budget, however few of their pages are in memory.
    #[error(
        "the maps of all volumes need {needed} bytes of memory at least, the budget is {budget}"
    )]
    NoMemory {
        /// Bytes.
        needed: u64,
        /// Bytes.
        budget: u64,
    },
    /// More volumes than a pool can have.
    #[error("the pool has as many volumes as it can have: {MAX_VOLUMES}")]
    TooManyVolumes,
    /// A volume larger than any can be.
    #[error("a volume has {} TiB at most", MAX_VOLUME_BLOCKS >> 28)]
    VolumeTooLarge,
    /// The superblock has no room for the roots of so large volumes.
    #[error(
        "the superblock names a root of the map for each started GiB of each volume: it would be {needed} of them, and \
         this pool has room for {most}{}",
        more_room(*.most)
    )]
    TooManyRoots {
        /// Roots that all volumes would have.
        needed: u64,
        /// Roots that fit in a superblock record of this pool beside so many volumes.
        most: u64,
    },
    /// The device failed to read a block, or returned another block.
    #[error("the block at {0} cannot be read")]
    Unreadable(Location),
    /// A block is lost, with a device or with the chunk that mapped the block. Reading the block is an error until it
    /// is written again or trimmed.
    #[error("a block is lost with a device or a chunk that the pool was told to do without")]
    Lost,
    /// The device failed to write or to flush; nothing can be written until the pool is opened again.
    #[error("the device failed; the pool takes no writes until it is opened again")]
    Failed,
}

/// Most layers below a volume: one for each snapshot, and one for each deleted snapshot that still has blocks.
/// Chosen, not measured.
pub(crate) const MAX_LAYERS: u32 = 64;

/// Second half of the message that the pool has room for `most` roots of maps: how to get more room.
fn more_room(most: u64) -> String {
    match MAX_ROOTS as u64 {
        limit if most < limit => {
            format!("; a pool with larger units has more room, for {limit} at most")
        }
        _ => ", which is as many as any can have".to_owned(),
    }
}

/// Why a request was not accepted. The request will never complete, and no part of it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// As many requests or blocks are in work as the configuration allows: try again after a completion.
    #[error("as many requests are in work as the configuration allows")]
    Busy,
    /// The pool is not open yet, or not any more.
    #[error("the pool is not open")]
    NotOpen,
    /// No request can have this form: no block, or more than [`crate::MAX_IO_BLOCKS`] to read or write.
    #[error("a request reads or writes 1 to 255 blocks")]
    Malformed,
}

/// Work of a driver, in the order of the actions.
#[derive(Clone, Debug)]
pub enum Action<P> {
    /// Carry out a command and report its completion.
    Device {
        /// To name it in the report.
        op: OpId,
        /// The command.
        cmd: DeviceCmd<P>,
    },
    /// Tell the host how a request ended.
    Complete {
        /// The request.
        request: RequestId,
        /// How it ended.
        result: Result<Reply, HostError>,
    },
    /// An event that may interest the operator.
    Notice(Notice),
}

/// State transitions, for logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The pool is open: requests are accepted.
    Open {
        /// Chunks that were replayed.
        chunks: u64,
        /// Entries that they had.
        entries: u64,
    },
    /// The pool could not be opened; no block was changed.
    OpenFailed(OpenError),
    /// The maps of all volumes are in memory as a whole. Never sent if the maps are larger than the budget, or damaged.
    MapLoaded,
    /// A checkpoint is durable.
    Checkpoint {
        /// Pages of maps and roots that were written.
        pages: u64,
    },
    /// A block is damaged: reading it is an error until it is written again or trimmed.
    Damaged {
        /// Where it is.
        at: Location,
        /// The blocks of a volume that cannot be read for it: one block, or all blocks of a page of a map. `None` for
        /// headers and pages of the unit table.
        holds: Option<Extent>,
    },
    /// A member of a device held wrong bytes, which were written again from the others.
    Healed {
        /// Where the first was.
        at: Location,
        /// The version that was right.
        version: thermocline_types::Version,
    },
    /// A scrub in the background has ended.
    Scrubbed {
        /// Blocks that were compared, including blocks of maps.
        blocks: u64,
        /// Places at which something is wrong: blocks and headers.
        damaged: u64,
        /// Places of devices with redundancy that were wrong on one member and right on the others.
        mended: u64,
    },
    /// Blocks are lost, with a device or with the chunk that mapped the blocks. From now on, reading the blocks is an
    /// error.
    Lost {
        /// Which.
        extent: Extent,
    },
    /// A unit went out of service.
    Retired(thermocline_types::UnitId),
    /// The device failed to write or to flush; the pool takes no writes any more.
    Failed,
}

/// Why a pool could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No sound superblock record was found.
    #[error("there is no pool here, or both its superblocks are beyond reading")]
    NoPool,
    /// The superblock units name more than one pool.
    #[error("the superblocks are of two pools: formatting was interrupted, format again")]
    TwoPools,
    /// The pool was made for devices of another geometry.
    #[error("the pool was made for devices of another geometry")]
    OtherGeometry,
    /// The devices that remain are too small.
    #[error("{} MiB of data are there, and the devices that remain hold {} MiB", .needed / 256, .holds / 256)]
    NoRoom {
        /// Blocks that the volumes hold.
        needed: u64,
        /// Blocks that the active devices hold.
        holds: u64,
    },
    /// No unit is free on the remaining devices, so no block can be moved.
    #[error(
        "the devices that remain have no free unit to move blocks to: attach another device first"
    )]
    NoFreeUnit,
    /// A device to be detached still holds blocks or records.
    #[error("device {} is not drained: it holds something still", .0.0)]
    DeviceInUse(DeviceId),
    /// A device of the pool is missing: the device in its place has no record of the pool.
    #[error("device {} of the pool is missing, or is not the one that is in its place", .0.0)]
    DeviceMissing(DeviceId),
    /// A device was missing when the pool was last opened, or is an older copy of a device of the pool.
    #[error("device {} is an older copy: it was not there when the pool was last opened", .0.0)]
    DeviceOlder(DeviceId),
    /// A device to be given up holds data that the pool needs: the valid records, or pages of maps.
    #[error("device {} cannot be given up: it has the records of the pool, or pages of maps", .0.0)]
    MapOn(DeviceId),
    /// The pool was not closed in order. The writes of a device to be given up since the last checkpoint would be gone
    /// with the device.
    #[error(
        "the pool was not closed in order, and device {} has what was written to it last: without it, blocks that were \
         written since the last checkpoint may read as they were before",
        .0.0
    )]
    TailOn(DeviceId),
    /// A part of the map cannot be read.
    #[error("the map page at {0} cannot be read")]
    MapDamaged(Location),
    /// Chunks that had been flushed are missing.
    #[error("{missing} chunks that were flushed are missing; the first has sequence {first}")]
    ChunksLost {
        /// How many.
        missing: u64,
        /// The sequence of the first.
        first: u64,
    },
    /// A chunk names a newer superblock than the newest found.
    #[error(
        "the newest superblock is lost: a chunk names revision {named}, the newest found is {found}"
    )]
    SuperblockLost {
        /// The revision that a chunk names.
        named: u64,
        /// The newest found.
        found: u64,
    },
    /// The device failed.
    #[error("the device failed while the pool was being opened")]
    Device,
    /// The maps of the volumes need more memory than the budget, however few of their pages are in memory.
    #[error("the maps need {needed} bytes of memory at least, the budget is {budget}")]
    NoMemory {
        /// Bytes.
        needed: u64,
        /// Bytes.
        budget: u64,
    },
}
