//! Output of biosnoop from bcc: `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`.
//!
//! The command may contain blanks, so columns are counted from the right: one or two latencies follow the bytes. `T`
//! is R or W, or the full operation code in the libbpf version. A sector of 2^64-1, or no bytes with a write, is a
//! flush. Each disk is a volume.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, sectors};
use super::super::text::{whole_clock, whole_uint};
use super::rwbs;

const SECOND: u64 = 1_000_000_000;

/// One line.
pub(super) fn line(bytes: &[u8]) -> Parsed<'_> {
    let shape = Expected("TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)");
    let mut tokens = bytes.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty());
    let first = tokens.next().ok_or(shape)?;
    if first.starts_with(b"TIME") {
        return Ok(None);
    }
    // From the right: latency, [queue time,] bytes, sector, code, disk, pid.
    let mut right = [&b""[..]; 7];
    for slot in &mut right {
        *slot = tokens.next_back().unwrap_or(b"");
    }
    let queue = usize::from(memchr::memchr(b'.', right[1]).is_some());
    let [length, sector, code, disk, pid] = [1, 2, 3, 4, 5].map(|column| right[column + queue]);
    let at = whole_clock(first, SECOND).ok_or(Expected("a time in seconds in column 1"))?;
    whole_clock(right[0], 1).ok_or(Expected("a latency in milliseconds in the last column"))?;
    whole_uint(pid).ok_or(shape)?;
    let length = whole_uint(length).ok_or(Expected("a number of bytes before the latency"))?;
    let action = rwbs::action(code)?;
    let sector = match sector {
        b"-1" => u64::MAX,
        digits => whole_uint(digits).ok_or(Expected("a sector number before the bytes"))?,
    };
    let Some(op) = action.op else { return Ok(None) };
    if sector == u64::MAX || (length == 0 && op == Op::Write) {
        return Record::new(at, Op::Flush, 0, 0).on(disk).checked();
    }
    let record = Record::new(at, op, sectors(sector)?, length).on(disk);
    Record { preflush: action.preflush, ..record }.checked()
}
