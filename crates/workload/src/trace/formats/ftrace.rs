//! Text of the kernel's block tracepoints, by `perf script`, `trace-cmd report` or ftrace itself.
//!
//! `... [cpu] seconds: block_rq_issue: maj,min rwbs bytes (cmd) sector + count [process]` (Linux
//! `include/trace/events/block.h`); newer kernels put the I/O priority before the process. `bytes` is 0 for file
//! system requests of old kernels, so the length is taken from the count of sectors. A file without
//! `block_rq_issue` near its start is read by `block_bio_queue` instead, never by both. Events that were lost for want
//! of memory are counted, by ftrace's lines `CPU:0 [LOST 12 EVENTS]` and trace-cmd's `CPU:0 [12 EVENTS DROPPED]`, which
//! leave out the number where it is not known. Other lines are ignored.

use memchr::memmem::Finder;

use super::super::record::{Expected, Parsed};
use super::super::text::{Cursor, whole_clock, whole_uint};
use super::rwbs;

const SECOND: u64 = 1_000_000_000;

/// Issued to the driver.
pub const ISSUE: &[u8] = b"block_rq_issue: ";
/// Submitted to the block layer.
pub const QUEUE: &[u8] = b"block_bio_queue: ";

/// Which event is read.
#[derive(Debug)]
pub(in super::super) struct Ftrace {
    event: Finder<'static>,
    with_command: bool,
    /// Events that were lost, at least.
    pub lost: u64,
}

impl Ftrace {
    pub(super) fn new(head: &[u8]) -> Self {
        let issue = Finder::new(ISSUE);
        if issue.find(head).is_none() && memchr::memmem::find(head, QUEUE).is_some() {
            return Ftrace { event: Finder::new(QUEUE), with_command: false, lost: 0 };
        }
        Ftrace { event: issue, with_command: true, lost: 0 }
    }

    pub(super) fn line<'a>(&mut self, bytes: &'a [u8]) -> Parsed<'a> {
        let Some(start) = self.event.find(bytes) else {
            self.lost = self.lost.saturating_add(lost(bytes).unwrap_or(0));
            return Ok(None);
        };
        let before = bytes[..start].trim_ascii_end();
        // perf prints the event as `block:block_rq_issue`.
        let before = before.strip_suffix(b" block:").or(before.strip_suffix(b"\tblock:"));
        let before = before.unwrap_or(&bytes[..start]).trim_ascii_end();
        let time = before.rsplit(u8::is_ascii_whitespace).next().unwrap_or(b"");
        let time = time.strip_suffix(b":").unwrap_or(time);
        let at = whole_clock(time, SECOND).ok_or(Expected("a time in seconds before the event"))?;
        let mut rest = Cursor::new(&bytes[start + self.event.needle().len()..]);
        let device = rest.token();
        if !rwbs::is_device(device) {
            return Err(Expected("a device `major,minor` after the event"));
        }
        let action = rwbs::action(rest.token())?;
        let mut rest = if self.with_command { after_command(rest)? } else { rest };
        let extent = extent(&mut rest).ok_or(Expected("`sector + count` after the command"))?;
        rwbs::record(at, device, action, Some(extent))
    }
}

/// How many events a line says to be lost, at least, if it does.
fn lost(line: &[u8]) -> Option<u64> {
    let mut words = Cursor::new(line);
    words.token().strip_prefix(b"CPU:")?;
    match [words.token(), words.token(), words.token()] {
        [b"[LOST", b"EVENTS]", b""] | [b"[EVENTS", b"DROPPED]", b""] => Some(1),
        [b"[LOST", count, b"EVENTS]"] => whole_uint(count),
        [count, b"EVENTS", b"DROPPED]"] => whole_uint(count.strip_prefix(b"[")?),
        _ => None,
    }
}

/// Skips `bytes (cmd)`.
fn after_command(mut rest: Cursor<'_>) -> Result<Cursor<'_>, Expected> {
    rest.token_uint().ok_or(Expected("a byte count after the operation code"))?;
    let close = memchr::memchr(b')', rest.rest()).ok_or(Expected("a command in parentheses"))?;
    Ok(Cursor::new(&rest.rest()[close + 1..]))
}

fn extent(rest: &mut Cursor<'_>) -> Option<(u64, u64)> {
    let first = rest.token_uint()?;
    (rest.token() == b"+").then_some(())?;
    Some((first, rest.token_uint()?))
}
