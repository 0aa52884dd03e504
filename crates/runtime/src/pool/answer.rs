//! Receivers of the results of the engine.

use std::sync::Arc;
use std::time::Instant;

use thermocline_engine::{HostError, Reply};
use thermocline_target::{self as target, Completion, Request, TargetError};
use thermocline_types::Bytes;

use super::{Operation, VolumeState};
use crate::Buffer;

/// The receiver of the result of a request. A front end gets [`TargetError::Gone`] if its answer is dropped.
pub(super) enum Answer {
    /// A front end.
    Host(Asked),
    /// A front end, after all pieces of its request.
    Piece(Arc<VolumeState>, Completion<()>),
    /// Any function.
    Call(Box<dyn FnOnce(Result<Reply, HostError>) + Send>),
}

impl Answer {
    pub(super) fn call(call: impl FnOnce(Result<Reply, HostError>) + Send + 'static) -> Answer {
        Answer::Call(Box::new(call))
    }

    /// The volume of the request; `None` for a request to the pool.
    pub(super) fn state(&self) -> Option<&Arc<VolumeState>> {
        match self {
            Answer::Host(asked) => Some(&asked.tally.state),
            Answer::Piece(state, _) => Some(state),
            Answer::Call(_) => None,
        }
    }

    pub(super) fn tell(self, result: Result<Reply, HostError>) {
        let to_host = |result: Result<Reply, HostError>| result.map(drop).map_err(target_error);
        match self {
            Answer::Host(asked) => asked.end(to_host(result)),
            Answer::Piece(_, done) => done.complete(to_host(result)),
            Answer::Call(call) => call(result),
        }
    }
}

/// The facts of a request under way that the counters of the volume need at its end.
pub(super) struct Tally {
    state: Arc<VolumeState>,
    operation: Operation,
    bytes: Bytes,
    began: Instant,
}

impl Tally {
    pub(super) fn begin(state: &Arc<VolumeState>, request: &Request) -> Tally {
        let bytes = request.range().map_or(Bytes::ZERO, |(_, length)| length);
        Tally::of(state, Operation::of(request), bytes)
    }

    pub(super) fn of(state: &Arc<VolumeState>, operation: Operation, bytes: Bytes) -> Tally {
        Tally { state: Arc::clone(state), operation, bytes, began: state.clock.now() }
    }

    pub(super) fn end(self, succeeded: bool) {
        let Tally { state, operation, bytes, began } = self;
        let bytes = succeeded.then_some(bytes.0);
        let took = state.clock.now().saturating_duration_since(began);
        state.traffic.count(operation, bytes, took);
    }
}

/// A request of a front end.
pub(super) struct Asked {
    pub(super) tally: Tally,
    pub(super) done: Done,
}

/// The completion of a front end.
pub(super) enum Done {
    Nothing(Completion<()>),
    /// The read fills this memory.
    Data(Completion<target::Buffer>, Buffer),
}

impl Asked {
    /// Counts first: a client that has the reply finds the request in the counters.
    pub(super) fn end(self, result: Result<(), TargetError>) {
        self.tally.end(result.is_ok());
        match self.done {
            Done::Nothing(done) => done.complete(result),
            Done::Data(done, memory) => done.complete(result.map(|()| memory.into_owner())),
        }
    }
}

pub(super) fn target_error(error: HostError) -> TargetError {
    match error {
        HostError::OutOfRange => TargetError::OutOfBounds,
        HostError::NoSpace | HostError::NoMemory { .. } => TargetError::NoSpace,
        HostError::NoVolume(_) => TargetError::Gone,
        HostError::ReadOnly => TargetError::ReadOnly,
        _ => TargetError::Io,
    }
}
