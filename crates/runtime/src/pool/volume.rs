//! A volume of a pool as a block target.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use thermocline_engine::{Extent, HostError, HostRequest, MAX_IO_BLOCKS, Reply};
use thermocline_format::VolumeId;
use thermocline_target::bugs::{self, ShellBug};
use thermocline_target::{
    self as target, BlockTarget, Completion, Features, Info, Request, TargetError,
};
use thermocline_types::Bytes;

use super::question::Question;
use super::{Answer, Job, Known, Operation, Shared};
use crate::Buffer;

/// A handle of a volume; clones are handles of the same. Its logical block has 4096 bytes;
/// [`thermocline_target::Granular`] makes sectors of it.
///
/// Requests longer than the engine takes are cut into pieces. When one fails, others may have been carried out.
#[derive(Clone)]
pub struct Volume {
    shared: Arc<Shared>,
    known: Arc<Known>,
}

impl Volume {
    pub(super) fn new(shared: Arc<Shared>, known: Arc<Known>) -> Volume {
        Volume { shared, known }
    }

    /// Its identifier in the pool.
    #[must_use]
    pub fn id(&self) -> VolumeId {
        self.known.id
    }

    fn extent(&self, offset: Bytes, length: Bytes) -> Extent {
        let (volume, block) = (self.known.id, Bytes::BLOCK.0);
        Extent { volume, lba: offset.0 / block, blocks: length.0 / block }
    }

    fn push(
        &self,
        what: HostRequest<Buffer>,
        done: impl FnOnce(Result<(), TargetError>) + Send + 'static,
    ) {
        let answer: Answer = Box::new(move |result: Result<Reply, HostError>| {
            done(result.map(|_| ()).map_err(target_error));
        });
        let of = Some(Arc::clone(&self.known));
        self.shared.push(Job::Request { what, answer, of }, Some(&self.known));
    }

    /// Does something for each piece of `extent` that the engine takes, and completes `done` when all are done.
    fn in_pieces(
        &self,
        extent: Extent,
        buffer: &Buffer,
        done: Counted,
        request: impl Fn(Extent, Buffer) -> HostRequest<Buffer>,
    ) {
        if extent.blocks <= MAX_IO_BLOCKS {
            return self.push(request(extent, buffer.clone()), |result| done.complete(result));
        }
        let join = Arc::new(Join(Mutex::new(Pieces { done: Some(done), result: Ok(()) })));
        let mut first = 0;
        while first < extent.blocks {
            let blocks = MAX_IO_BLOCKS.min(extent.blocks - first);
            let piece = Extent { lba: extent.lba + first, blocks, ..extent };
            let (from, len) = (first * Bytes::BLOCK.0, blocks * Bytes::BLOCK.0);
            let part = buffer.part(from as usize, len as usize);
            let join = Arc::clone(&join);
            let done = Completion::new(move |result| join.piece_done(result));
            self.push(request(piece, part), |result| done.complete(result));
            first += blocks;
        }
    }
}

impl BlockTarget for Volume {
    fn info(&self) -> Info {
        Info {
            name: self.known.name.to_string(),
            size: Bytes(self.known.blocks.load(Ordering::Acquire) * Bytes::BLOCK.0),
            logical_block: Bytes::BLOCK,
            features: Features { flush: true, fua: true, trim: true, zeroes: true },
        }
    }

    fn submit(&self, request: Request) {
        let tally = Tally::begin(&self.known, &request);
        if let Err(error) = request.check(&self.info()) {
            tally.end(false);
            return request.fail(error);
        }
        let counted = |done| Counted { tally, done };
        match request {
            Request::Read { offset, buffer, done } => {
                let extent = self.extent(offset, Bytes(buffer.len() as u64));
                let buffer = Buffer::new(buffer);
                let whole = buffer.clone();
                let done = Completion::new(move |result: Result<(), TargetError>| {
                    done.complete(result.map(|()| whole.into_owner()));
                });
                let read = |extent, into| HostRequest::Read { extent, into };
                self.in_pieces(extent, &buffer, counted(done), read);
            }
            Request::Write { offset, buffer, fua, done } => {
                let extent = self.extent(offset, Bytes(buffer.len() as u64));
                let write = |extent, data| HostRequest::Write { extent, data, fua, handle: 0 };
                self.in_pieces(extent, &Buffer::new(buffer), counted(done), write);
            }
            Request::Flush { done } => {
                let done = counted(done);
                if bugs::has(ShellBug::FlushPasses) {
                    return done.complete(Ok(()));
                }
                let flush = HostRequest::FlushVolume { volume: self.known.id };
                self.push(flush, |result| done.complete(result));
            }
            Request::Trim { offset, length, done } => {
                let (extent, done) = (self.extent(offset, length), counted(done));
                let trim = HostRequest::Trim { extent, fua: false };
                self.push(trim, |result| done.complete(result));
            }
            Request::WriteZeroes { offset, length, fua, done, .. } => {
                let (extent, done) = (self.extent(offset, length), counted(done));
                self.push(HostRequest::Trim { extent, fua }, |result| done.complete(result));
            }
        }
    }

    fn extents(&self, offset: Bytes, length: Bytes, done: Completion<Vec<target::Extent>>) {
        let (size, end) = (self.info().size, offset.0.checked_add(length.0));
        let refusal = match end {
            _ if size == Bytes::ZERO => Some(TargetError::Gone),
            Some(end) if end <= size.0 => None,
            _ => Some(TargetError::OutOfBounds),
        };
        if let Some(error) = refusal {
            Tally::of(&self.known, Operation::Extents, length).end(false);
            return done.complete(Err(error));
        }
        let question = Question::new(&self.known, self.extent(offset, length), done);
        self.shared.push(Job::Question(question), Some(&self.known));
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Volume({} {:?})", self.known.id.0, self.known.name.as_str())
    }
}

/// A request under way, to be counted when it is answered.
pub(super) struct Tally {
    known: Arc<Known>,
    operation: Operation,
    bytes: Bytes,
    began: Instant,
}

impl Tally {
    fn begin(known: &Arc<Known>, request: &Request) -> Tally {
        let bytes = request.range().map_or(Bytes::ZERO, |(_, length)| length);
        Tally::of(known, Operation::of(request), bytes)
    }

    pub(super) fn of(known: &Arc<Known>, operation: Operation, bytes: Bytes) -> Tally {
        Tally { known: Arc::clone(known), operation, bytes, began: known.clock.now() }
    }

    pub(super) fn end(self, succeeded: bool) {
        let Tally { known, operation, bytes, began } = self;
        let bytes = succeeded.then_some(bytes.0);
        let took = known.clock.now().saturating_duration_since(began);
        known.traffic().count(operation, bytes, took);
    }
}

/// A completion that counts first, so that whoever hears of it finds it counted.
struct Counted {
    tally: Tally,
    done: Completion<()>,
}

impl Counted {
    fn complete(self, result: Result<(), TargetError>) {
        self.tally.end(result.is_ok());
        self.done.complete(result);
    }
}

/// Waits for all pieces of a request; the last handle of it completes the request.
struct Join(Mutex<Pieces>);

struct Pieces {
    done: Option<Counted>,
    result: Result<(), TargetError>,
}

impl Join {
    fn piece_done(&self, result: Result<(), TargetError>) {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.result = pieces.result.and(result);
        if bugs::has(ShellBug::FirstPieceAnswers)
            && let Some(done) = pieces.done.take()
        {
            done.complete(pieces.result);
        }
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        let pieces = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = pieces.done.take() {
            done.complete(pieces.result);
        }
    }
}

pub(super) fn target_error(error: HostError) -> TargetError {
    match error {
        HostError::OutOfRange => TargetError::OutOfBounds,
        HostError::NoSpace | HostError::NoMemory { .. } => TargetError::NoSpace,
        HostError::NoVolume(_) => TargetError::Gone,
        _ => TargetError::Io,
    }
}
