//! I/O commands as requests of a target.

use std::sync::Arc;

use thermocline_target::{BlockTarget, Buffer, Completion, Join, Mailbox, Owner, Request};
use thermocline_types::Bytes;

use crate::controller::Namespace;
use crate::protocol::TRANSFER;
use crate::protocol::command::{Command, Outcome, Place, io};
use crate::protocol::data::{BLOCK_LOG, Usage};

/// Bytes of a range of Dataset Management (NVM 3.2.3).
const RANGE: usize = 16;
/// The most ranges of a command.
const RANGES: usize = 256;

/// Force Unit Access, in dword 12 (NVM 3.2.4).
const FUA: u32 = 1 << 30;
/// Deallocate, in dword 12 of Write Zeroes (NVM 3.2.8).
const DEALLOCATE: u32 = 1 << 25;
/// Deallocate, in dword 11 of Dataset Management.
const ATTRIBUTE_DEALLOCATE: u32 = 1 << 2;

/// Bytes of logical blocks. Beyond any target, if they do not fit.
fn bytes(blocks: u64) -> Bytes {
    Bytes(blocks.min(u64::MAX >> BLOCK_LOG) << BLOCK_LOG)
}

/// Bytes that a read, a write or a zeroing is about.
fn length(command: &Command) -> Bytes {
    bytes(u64::from(command.dword(12) & 0xFFFF) + 1)
}

/// The error of a command that is refused without asking the target. The target's own checks are not repeated.
pub(crate) fn objection(command: &Command, namespace: Option<&Namespace>) -> Option<Outcome> {
    let Some(namespace) = namespace else { return Some(Outcome::NAMESPACE) };
    let (place, described) = (command.place(), command.length());
    match command.opcode() {
        io::WRITE | io::WRITE_ZEROES | io::DATASET if namespace.user.read_only => {
            Some(Outcome::PROTECTED)
        }
        io::READ | io::MANAGEMENT if place != Place::Units => Some(Outcome::DESCRIPTOR),
        io::WRITE | io::DATASET if place == Place::Unknown => Some(Outcome::DESCRIPTOR),
        io::READ | io::WRITE if length(command).0 > TRANSFER.into() => Some(Outcome::FIELD),
        io::READ | io::WRITE if length(command).0 != described.into() => Some(Outcome::LENGTH),
        // Linux describes memory for all ranges that a command may have.
        io::DATASET
            if !(ranges(command) * RANGE..=RANGES * RANGE).contains(&(described as usize)) =>
        {
            Some(Outcome::LENGTH)
        }
        io::READ | io::WRITE | io::DATASET | io::FLUSH | io::WRITE_ZEROES | io::MANAGEMENT => None,
        _ => Some(Outcome::OPCODE),
    }
}

/// Ranges of Dataset Management.
fn ranges(command: &Command) -> usize {
    (command.dword(10) & 0xFF) as usize + 1
}

fn done<T>(mailbox: &Arc<Mailbox>, number: u64) -> Completion<T>
where
    Mailbox: Owner<T>,
{
    Completion::of(Arc::<Mailbox>::clone(mailbox), number)
}

/// Submits a command without [`objection`] to the target of `namespace`. The result arrives in `mailbox` under
/// `number`. `buffer` is the command's data, or memory for the data of a read.
pub(crate) fn submit(
    command: &Command,
    namespace: &Namespace,
    buffer: Option<Buffer>,
    number: u64,
    mailbox: &Arc<Mailbox>,
    usage: &mut Usage,
) {
    let target = &namespace.user.target;
    let (offset, length) = (bytes(command.quad(10)), length(command));
    let fua = command.dword(12) & FUA != 0;
    if command.opcode() == io::READ {
        (usage.reads, usage.bytes_read) = (usage.reads + 1, usage.bytes_read + length.0);
        let buffer = buffer.expect("a read comes with memory");
        let read = Request::Read { offset, buffer, done: done(mailbox, number) };
        return if fua { after_flush(target, read) } else { target.submit(read) };
    }
    let done = done(mailbox, number);
    target.submit(match command.opcode() {
        io::WRITE => {
            (usage.writes, usage.bytes_written) =
                (usage.writes + 1, usage.bytes_written + length.0);
            let buffer = buffer.expect("a write comes with its data");
            let handle = namespace.handle(command);
            Request::Write { offset, buffer, fua, handle, done }
        }
        io::WRITE_ZEROES => {
            let no_hole = command.dword(12) & DEALLOCATE == 0;
            Request::WriteZeroes { offset, length, no_hole, fua, done }
        }
        io::DATASET => {
            return deallocate(command, target, &buffer.unwrap_or(Buffer::zeroed(0)), done);
        }
        _ => Request::Flush { done },
    });
}

/// Reads what is durable: what is read is flushed before.
fn after_flush(target: &Arc<dyn BlockTarget>, read: Request) {
    let then = Arc::clone(target);
    let flushed = Completion::new(move |result| match result {
        Ok(()) => then.submit(read),
        Err(error) => read.fail(error),
    });
    target.submit(Request::Flush { done: flushed });
}

/// Trims the ranges in `data`. Other attributes of Dataset Management are hints, and so is this one where the target
/// does not trim.
fn deallocate(command: &Command, target: &Arc<dyn BlockTarget>, data: &[u8], done: Completion<()>) {
    let range = |range: &[u8]| {
        let blocks = u32::from_le_bytes(range[4..8].try_into().expect("four bytes"));
        let first = u64::from_le_bytes(range[8..].try_into().expect("eight bytes"));
        (bytes(first), bytes(blocks.into()))
    };
    let ranges = data.chunks_exact(RANGE).take(ranges(command)).map(range);
    let ranges: Vec<_> = ranges.filter(|(_, length)| length.0 > 0).collect();
    let is_hint = command.dword(11) & ATTRIBUTE_DEALLOCATE == 0 || !target.info().features.trim;
    if is_hint || ranges.is_empty() {
        return done.complete(Ok(()));
    }
    let all = Completion::new(|result: Result<Vec<(u64, ())>, _>| done.complete(result.map(drop)));
    let join = Join::new(ranges.len() as u64, all);
    for (offset, length) in ranges {
        target.submit(Request::Trim { offset, length, done: join.part(0) });
    }
}
