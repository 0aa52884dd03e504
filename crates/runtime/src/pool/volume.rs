//! A volume of a pool as a block target.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_engine::{Extent, HostRequest, MAX_IO_BLOCKS};
use thermocline_format::{VolumeId, VolumeName};
use thermocline_target::bugs::{self, ShellBug};
use thermocline_target::{
    self as target, BlockTarget, Completion, Features, Info, Join, Property, Request, Snapshot,
    TargetError,
};
use thermocline_types::Bytes;

use super::answer::{Answer, Asked, Done, Tally};
use super::question::Question;
use super::{Job, Operation, Shared, VolumeState};
use crate::Buffer;

/// A handle of a volume; clones are handles of the same. Its logical block has 4096 bytes;
/// [`thermocline_target::Granular`] makes sectors of it.
///
/// Requests longer than the engine takes are cut into pieces. When one fails, others may have been carried out.
#[derive(Clone)]
pub struct Volume {
    shared: Arc<Shared>,
    state: Arc<VolumeState>,
}

impl Volume {
    pub(super) fn new(shared: Arc<Shared>, state: Arc<VolumeState>) -> Volume {
        Volume { shared, state }
    }

    /// Its identifier in the pool.
    #[must_use]
    pub fn id(&self) -> VolumeId {
        self.state.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> VolumeName {
        self.state.name()
    }

    /// Whether it is a snapshot, which takes no writes.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.state.snapshot_of.is_some()
    }

    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        let (volume, block) = (self.state.id, Bytes::BLOCK.0);
        Extent { volume, lba: offset.0 / block, blocks: length.0 / block }
    }

    fn push(&self, what: HostRequest<Buffer>, answer: Answer) {
        self.shared.push(Job::Request { what, answer }, Some(&self.state));
    }

    /// Does something for each piece of `extent` that the engine takes, and ends `asked` when all have ended.
    fn in_pieces(
        &self,
        extent: Extent,
        buffer: &Buffer,
        asked: Asked,
        request: impl Fn(Extent, Buffer) -> HostRequest<Buffer>,
    ) {
        if extent.blocks <= MAX_IO_BLOCKS {
            return self.push(request(extent, buffer.clone()), Answer::Host(asked));
        }
        let first_answers = bugs::has(ShellBug::FirstPieceAnswers);
        let pieces = if first_answers { 1 } else { extent.blocks.div_ceil(MAX_IO_BLOCKS) };
        let all = move |result: Result<Vec<(u64, ())>, _>| asked.end(result.map(drop));
        let join = Join::new(pieces, Completion::new(all));
        let mut first = 0;
        while first < extent.blocks {
            let blocks = MAX_IO_BLOCKS.min(extent.blocks - first);
            let piece = Extent { lba: extent.lba + first, blocks, ..extent };
            let (from, len) = (first * Bytes::BLOCK.0, blocks * Bytes::BLOCK.0);
            let part = buffer.part(from as usize, len as usize);
            let heard = first == 0 || !first_answers;
            let done = if heard { join.part(first) } else { Completion::new(drop) };
            self.push(request(piece, part), Answer::Piece(Arc::clone(&self.state), done));
            first += blocks;
        }
    }
}

impl BlockTarget for Volume {
    fn info(&self) -> Info {
        Info {
            size: Bytes(self.state.blocks.load(Ordering::Acquire) * Bytes::BLOCK.0),
            logical_block: Bytes::BLOCK,
            features: Features { flush: true, fua: true, trim: true, zeroes: true },
        }
    }

    fn submit(&self, request: Request) {
        let tally = Tally::begin(&self.state, &request);
        if let Err(error) = request.check(&self.info()) {
            tally.end(false);
            return request.fail(error);
        }
        let asked = |done| Asked { tally, done };
        match request {
            Request::Read { offset, buffer, done } => {
                let extent = self.extent(offset, Bytes(buffer.len() as u64));
                let buffer = Buffer::new(buffer);
                let asked = asked(Done::Data(done, buffer.clone()));
                let read = |extent, into| HostRequest::Read { extent, into };
                self.in_pieces(extent, &buffer, asked, read);
            }
            Request::Write { offset, buffer, fua, done, .. } => {
                let extent = self.extent(offset, Bytes(buffer.len() as u64));
                let write = |extent, data| HostRequest::Write { extent, data, fua, handle: 0 };
                self.in_pieces(extent, &Buffer::new(buffer), asked(Done::Nothing(done)), write);
            }
            Request::Flush { done } => {
                let asked = asked(Done::Nothing(done));
                if bugs::has(ShellBug::FlushPasses) {
                    return asked.end(Ok(()));
                }
                let flush = HostRequest::FlushVolume { volume: self.state.id };
                self.push(flush, Answer::Host(asked));
            }
            Request::Trim { offset, length, done } => {
                let trim = HostRequest::Trim { extent: self.extent(offset, length), fua: false };
                self.push(trim, Answer::Host(asked(Done::Nothing(done))));
            }
            Request::WriteZeroes { offset, length, fua, done, .. } => {
                let zero = HostRequest::Trim { extent: self.extent(offset, length), fua };
                self.push(zero, Answer::Host(asked(Done::Nothing(done))));
            }
        }
    }

    fn extents(
        &self,
        of: Property,
        offset: Bytes,
        length: Bytes,
        done: Completion<Vec<target::Extent>>,
    ) {
        let (size, end) = (self.info().size, offset.0.checked_add(length.0));
        let refusal = match end {
            _ if size == Bytes::ZERO => Some(TargetError::Gone),
            Some(end) if end <= size.0 => None,
            _ => Some(TargetError::OutOfBounds),
        };
        if let Some(error) = refusal {
            Tally::of(&self.state, Operation::Extents, length).end(false);
            return done.complete(Err(error));
        }
        let question = Question::new(&self.state, of, self.extent(offset, length), done);
        self.shared.push(Job::Question(question), Some(&self.state));
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        let volumes = self.shared.volumes();
        // Identifiers rise with time.
        let (of, own) = match self.state.snapshot_of {
            Some(of) => (of, self.state.id.0),
            None => (self.state.id, u32::MAX),
        };
        let of_volume = volumes.get(&of.0).map(|state| format!("{}@", state.name().as_str()));
        let of_volume = of_volume.unwrap_or_default();
        let below = volumes.range(..own).rev().filter(|(_, state)| state.snapshot_of == Some(of));
        let snapshot = |(number, state): (&u32, &Arc<VolumeState>)| {
            let name = state.name();
            let own = name.as_str().strip_prefix(&of_volume).unwrap_or(name.as_str());
            Snapshot { number: *number, name: own.to_owned() }
        };
        below.map(snapshot).collect()
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Volume({} {:?})", self.state.id.0, self.state.name().as_str())
    }
}
