//! Text output of blkparse (blkparse(1)): `maj,min cpu seq seconds pid action rwbs sector + count [process]`.
//!
//! A request passes several actions; exactly one is read: `D` (issued to the driver) if it occurs near the start of
//! the file, else `Q` (queued), else `C` (completed). Each device is a volume. Lines of other actions and lines
//! without an extent (plug, unplug, messages) are ignored, as is the summary from `CPU0 (...)` or `Total (...)` on.

use memchr::memmem;

use super::super::record::{Expected, Parsed};
use super::super::text::{Cursor, whole_clock, whole_uint};
use super::rwbs;

const SECOND: u64 = 1_000_000_000;

/// Which action is read, and whether the summary has begun.
#[derive(Debug)]
pub(in super::super) struct Blkparse {
    action: u8,
    in_summary: bool,
}

impl Blkparse {
    pub(super) fn new(head: &[u8]) -> Self {
        let lines = || head.split(|&byte| byte == b'\n');
        let occurs =
            |action: u8| lines().any(|line| event(line).is_some_and(|e| e.action == [action]));
        let action = [b'D', b'Q', b'C'].into_iter().find(|&action| occurs(action));
        Blkparse { action: action.unwrap_or(b'D'), in_summary: false }
    }

    pub(super) fn line<'a>(&mut self, bytes: &'a [u8]) -> Parsed<'a> {
        if self.in_summary {
            return Ok(None);
        }
        let Some(event) = event(bytes) else {
            return self.other_line(bytes);
        };
        if event.action != [self.action] {
            return Ok(None);
        }
        let at =
            whole_clock(event.time, SECOND).ok_or(Expected("a time in seconds in column 4"))?;
        let mut rest = event.rest;
        let action = rwbs::action(rest.token())?;
        let first = rest.token();
        if first.is_empty() || first.starts_with(b"[") {
            return rwbs::record(at, event.device, action, None);
        }
        let first = whole_uint(first).ok_or(Expected("a sector number in column 8"))?;
        let extent = match rest.token() {
            b"+" => rest.token_uint().map(|count| Some((first, count))),
            // Completions of flushes print `sector [error]`; commands passed through to the device, such as those that
            // ask for its health, `bytes (command)`.
            token if token.starts_with(b"[") || token.starts_with(b"(") => Some(None),
            _ => None,
        };
        let extent = extent.ok_or(Expected("`sector + count` after the operation code"))?;
        rwbs::record(at, event.device, action, extent)
    }

    fn other_line<'a>(&mut self, bytes: &'a [u8]) -> Parsed<'a> {
        let text = bytes.trim_ascii_start();
        if (text.starts_with(b"CPU") || text.starts_with(b"Total"))
            && memmem::find(text, b"(").is_some()
        {
            self.in_summary = true;
            return Ok(None);
        }
        if text.starts_with(b"Input file ") {
            return Ok(None);
        }
        Err(Expected(
            "`maj,min cpu sequence seconds pid action rwbs ...` as blkparse prints by default",
        ))
    }
}

struct Event<'a> {
    device: &'a [u8],
    time: &'a [u8],
    action: &'a [u8],
    rest: Cursor<'a>,
}

/// The columns every event has, `None` for any other line.
fn event(line: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor::new(line);
    let device = rest.token();
    if !rwbs::is_device(device) {
        return None;
    }
    rest.token_uint()?;
    rest.token_uint()?;
    let time = rest.token();
    rest.token_uint()?;
    let action = rest.token();
    let is_action = matches!(action.first(), Some(first) if first.is_ascii_alphabetic());
    is_action.then_some(Event { device, time, action, rest })
}
