//! Requests on their way to a target, and replies on their way back.

use std::sync::Arc;

use thermocline_target::{
    Buffer, Completion, Extent, Join, Owner, Property, ReplyBody, Request, TargetError, User,
};
use thermocline_types::Bytes;

use crate::outbox::{Given, Outbox};
use crate::protocol::handshake::Agreement;
use crate::protocol::option::Context;
use crate::protocol::reply::{self, CHANGED, Code, HOLE, Status, ZERO};
use crate::protocol::request::{Command, Framing, Header, flag};

/// The agreement with a client that uses an export.
pub(crate) struct Session {
    export: User,
    framing: Framing,
    /// Numbers of the metadata contexts.
    contexts: Vec<u32>,
    /// Bytes of the longest payload.
    payload: u64,
}

impl Session {
    pub(crate) fn new(export: User, agreement: &Agreement, payload: u32) -> Session {
        let Agreement { framing, ref contexts, .. } = *agreement;
        Session { export, framing, contexts: contexts.clone(), payload: payload.into() }
    }

    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// The error of a request that is refused without asking the target. The target's own checks are not repeated.
    pub(crate) fn objection(&self, request: &Header) -> Option<Code> {
        use Command::{
            BlockStatus, Cache, Disconnect, Flush, Other, Read, Trim, Write, WriteZeroes,
        };
        if !request.is_well_flagged(self.framing) {
            return Some(Code::Inval);
        }
        let no_range = request.length == 0;
        match request.command {
            Write | Trim | WriteZeroes if self.export.read_only => Some(Code::Perm),
            Read | Write if request.length > self.payload => Some(Code::Overflow),
            Flush => (request.offset != 0 || !no_range).then_some(Code::Inval),
            BlockStatus if self.contexts.is_empty() => Some(Code::Inval),
            BlockStatus | Cache => self.is_outside(request).then_some(Code::Inval),
            Other(_) => Some(Code::Inval),
            Read | Write | Trim | WriteZeroes => no_range.then_some(Code::Inval),
            Disconnect => None,
        }
    }

    /// Checks the range of commands that are not sent to the target as requests.
    fn is_outside(&self, request: &Header) -> bool {
        let info = self.export.target.info();
        let whole = |bytes: u64| bytes.is_multiple_of(info.logical_block.0);
        let end = request.offset.checked_add(request.length);
        let inside = end.is_some_and(|end| end <= info.size.0);
        !(inside && request.length > 0 && whole(request.offset) && whole(request.length))
    }

    /// Submits a request to the target. The outcome arrives in `outbox` under `number`. `buffer` is the payload of a
    /// write, or memory for the data of a read.
    pub(crate) fn submit(
        &self,
        request: &Header,
        buffer: Option<Buffer>,
        number: u64,
        outbox: &Arc<Outbox>,
    ) {
        fn done<T>(outbox: &Arc<Outbox>, number: u64) -> Completion<T>
        where
            Outbox: Owner<T>,
        {
            Completion::of(Arc::<Outbox>::clone(outbox), number)
        }
        let (offset, length) = (Bytes(request.offset), Bytes(request.length));
        let fua = request.has(flag::FUA);
        let target = &self.export.target;
        if request.command == Command::BlockStatus {
            let join = Join::new(self.contexts.len() as u64, done(outbox, number));
            return self.contexts.iter().for_each(|id| {
                let of = Context::property(*id);
                target.extents(of, offset, length, join.part(u64::from(*id)));
            });
        }
        if request.command == Command::Read {
            let buffer = buffer.expect("a read comes with memory");
            return target.submit(Request::Read { offset, buffer, done: done(outbox, number) });
        }
        let done = done(outbox, number);
        target.submit(match request.command {
            Command::Write => {
                let buffer = buffer.expect("a write comes with its payload");
                Request::Write { offset, buffer, fua, handle: 0, done }
            }
            Command::Flush => Request::Flush { done },
            Command::Trim if !fua => Request::Trim { offset, length, done },
            // A trimmed range reads as zeroes: zeroing with FUA is a durable trim.
            Command::Trim | Command::WriteZeroes => {
                let no_hole = request.has(flag::NO_HOLE);
                Request::WriteZeroes { offset, length, no_hole, fua, done }
            }
            // Cache is a hint: ignore it.
            _ => return done.complete(Ok(())),
        });
    }

    /// Makes the reply: appends its head to `head` and returns what follows.
    pub(crate) fn reply(
        &self,
        request: &Header,
        result: Result<Given, TargetError>,
        head: &mut Vec<u8>,
    ) -> ReplyBody {
        match result {
            Ok(Given::Nothing) => self.plain(request, None, head),
            Ok(Given::Data(buffer)) => {
                reply::before_data(head, request, self.framing);
                ReplyBody::Data(buffer)
            }
            Ok(Given::Extents(all)) => {
                let (mut bytes, mut left) = (Vec::new(), all.len());
                for (id, extents) in all {
                    left -= 1;
                    let context = (id as u32, left == 0);
                    let extents = statuses(context.0, &extents, request.has(flag::REQ_ONE));
                    reply::block_status(&mut bytes, request, self.framing, context, &extents);
                }
                ReplyBody::Bytes(bytes)
            }
            Err(error) => self.plain(request, Some(code(error, request.command)), head),
        }
    }

    /// A reply without data.
    pub(crate) fn plain(
        &self,
        request: &Header,
        error: Option<Code>,
        head: &mut Vec<u8>,
    ) -> ReplyBody {
        reply::plain(head, request, self.framing, error);
        ReplyBody::None
    }
}

/// Merges adjacent extents of the same status.
fn statuses(context: u32, extents: &[Extent], only_first: bool) -> Vec<Status> {
    let (with, without) = match Context::property(context) {
        Property::Mapped => (0, HOLE | ZERO),
        Property::ChangedSince(_) => (CHANGED, 0),
    };
    let mut statuses: Vec<Status> = Vec::with_capacity(extents.len());
    for extent in extents {
        let flags = if extent.has { with } else { without };
        match statuses.last_mut() {
            Some(last) if last.flags == flags => last.length += extent.length.0,
            _ => statuses.push(Status { length: extent.length.0, flags }),
        }
    }
    if only_first {
        statuses.truncate(1);
    }
    statuses
}

fn code(error: TargetError, command: Command) -> Code {
    let grows = matches!(command, Command::Write | Command::WriteZeroes);
    match error {
        TargetError::OutOfBounds if grows => Code::NoSpc,
        TargetError::OutOfBounds | TargetError::Misaligned => Code::Inval,
        TargetError::Unsupported => Code::NotSup,
        TargetError::NoSpace => Code::NoSpc,
        TargetError::ReadOnly => Code::Perm,
        TargetError::Gone => Code::Shutdown,
        _ => Code::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::option::{ALLOCATION, CHANGES};

    #[test]
    fn neighbours_that_are_alike_are_one() {
        let extent = |length, has| Extent { length: Bytes(length), has };
        let extents = [extent(512, true), extent(512, true), extent(4096, false)];
        let expected =
            [Status { length: 1024, flags: 0 }, Status { length: 4096, flags: HOLE | ZERO }];
        assert_eq!(statuses(ALLOCATION.1, &extents, false), expected);
        assert_eq!(statuses(ALLOCATION.1, &extents, true), expected[..1]);
        let flags = statuses(CHANGES.1, &extents, false).into_iter().map(|status| status.flags);
        assert_eq!(flags.collect::<Vec<_>>(), [CHANGED, 0]);
    }

    #[test]
    fn what_is_beyond_the_end_has_two_codes() {
        assert_eq!(code(TargetError::OutOfBounds, Command::Write), Code::NoSpc);
        assert_eq!(code(TargetError::OutOfBounds, Command::Read), Code::Inval);
    }
}
