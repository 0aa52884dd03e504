//! Text output of blkparse (blkparse(1)): `maj,min cpu seq seconds pid action rwbs sector + count [process]`.
//!
//! Of the actions, `Q` (queued), `D` (issued), `R` (given back), `C` (completed) and `A` (passed on to another
//! device) are read, and put together by [`BlockLayer`]. Each device is a volume. Lines of other actions are ignored,
//! and so are the statistics at the end, of programs (`blkparse -s`) and of CPUs. Events behind statistics are read,
//! as texts of several devices may be joined. `Skips: 2 forward (1,234 - 80.4%)` in them says how many events are
//! missing.

use memchr::memmem;

use super::super::record::Expected;
use super::super::text::{Cursor, whole_clock, whole_uint};
use super::block_layer::{BlockLayer, Event, Stage};
use super::losses::lost;
use super::rwbs;

const SECOND: u64 = 1_000_000_000;

/// What the statistics say of a program, a CPU or a device.
const STATISTICS: [&[u8]; 13] = [
    b"Reads Queued:",
    b"Read Dispatches:",
    b"Reads Requeued:",
    b"Reads Completed:",
    b"Read Merges:",
    b"Read depth:",
    b"PC Reads Queued:",
    b"IO unplugs:",
    b"Allocation wait:",
    b"Dispatch wait:",
    b"Completion wait:",
    b"Throughput (R/W):",
    b"Events (",
];

/// The requests of a text, and whether its statistics have begun.
#[derive(Debug)]
pub(in super::super) struct Blkparse {
    pub layer: BlockLayer,
    in_statistics: bool,
    /// Events that are missing, at least.
    pub lost: u64,
}

impl Blkparse {
    pub(super) fn new(volume: Option<&str>) -> Self {
        Blkparse { layer: BlockLayer::new(volume), in_statistics: false, lost: 0 }
    }

    pub(super) fn line(&mut self, bytes: &[u8]) -> Result<(), Expected> {
        let Some(columns) = columns(bytes) else {
            return self.other_line(bytes);
        };
        self.in_statistics = false;
        let Columns { device, time, action, mut rest } = columns;
        let stage = match action {
            b"Q" => Stage::Queue,
            b"D" => Stage::Issue,
            b"R" => Stage::Requeue,
            b"C" => Stage::Complete,
            b"A" => {
                if let Some(upper) = passed_on(rest.rest()) {
                    self.layer.remap(device, upper);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let at = whole_clock(time, SECOND).ok_or(Expected("a time in seconds in column 4"))?;
        let action = rwbs::action(rest.token())?;
        let extent = extent(&mut rest)?;
        self.layer.event(&Event { at, device, stage, action, extent })
    }

    fn other_line(&mut self, bytes: &[u8]) -> Result<(), Expected> {
        let text = bytes.trim_ascii();
        if let Some(skips) = text.strip_prefix(b"Skips:") {
            self.in_statistics = true;
            self.lost = self.lost.saturating_add(skipped(skips).unwrap_or(0));
            return Ok(());
        }
        if let Some(lost) = lost(text) {
            self.lost = self.lost.saturating_add(lost);
            return Ok(());
        }
        self.in_statistics |= is_statistics(text);
        let is_advice = [&b"Input file "[..], b"Consider using a larger buffer"];
        if self.in_statistics || is_advice.iter().any(|advice| text.starts_with(advice)) {
            return Ok(());
        }
        Err(Expected(
            "`maj,min cpu sequence seconds pid action rwbs ...` as blkparse prints by default",
        ))
    }
}

/// Whether `line` is of an event.
pub fn is_event(line: &[u8]) -> bool {
    columns(line).is_some()
}

/// Whether a line begins or continues statistics: the name of what they are about, as `fio (4321)`, `CPU1 (8,0):` and
/// `Total (8,0):`, or a figure.
fn is_statistics(text: &[u8]) -> bool {
    let name = text.strip_suffix(b":").unwrap_or(text).strip_suffix(b")");
    let open = name.and_then(|name| memmem::rfind(name, b" (").map(|at| &name[at + 2..]));
    let is_number = |part: &[u8]| whole_uint(part.trim_ascii()).is_some();
    let is_named = open.is_some_and(|inside| inside.split(|&byte| byte == b',').all(is_number));
    is_named || STATISTICS.iter().any(|figure| text.starts_with(figure))
}

/// How many events `N forward (M - P%)` says are missing.
fn skipped(text: &[u8]) -> Option<u64> {
    let inside = &text[memchr::memchr(b'(', text)? + 1..];
    let digits: Vec<u8> =
        Cursor::new(inside).token().iter().copied().filter(u8::is_ascii_digit).collect();
    whole_uint(&digits)
}

/// The device that asked, in `rwbs sector + count <- (maj,min) sector`.
fn passed_on(text: &[u8]) -> Option<&[u8]> {
    let from = &text[memmem::find(text, b"<- (")? + 4..];
    let device = &from[..memchr::memchr(b')', from)?];
    rwbs::is_device(device).then_some(device)
}

fn extent(rest: &mut Cursor<'_>) -> Result<Option<(u64, u64)>, Expected> {
    let first = rest.token();
    if first.is_empty() || first.starts_with(b"[") {
        return Ok(None);
    }
    let first = whole_uint(first).ok_or(Expected("a sector number in column 8"))?;
    let extent = match rest.token() {
        b"+" => rest.token_uint().map(|count| Some((first, count))),
        // Completions of flushes print `sector [error]`. Commands passed through to the device, such as health
        // commands, print `bytes (command)`.
        token if token.starts_with(b"[") || token.starts_with(b"(") => Some(None),
        _ => None,
    };
    extent.ok_or(Expected("`sector + count` after the operation code"))
}

struct Columns<'a> {
    device: &'a [u8],
    time: &'a [u8],
    action: &'a [u8],
    rest: Cursor<'a>,
}

/// The columns every event has, `None` for any other line.
fn columns(line: &[u8]) -> Option<Columns<'_>> {
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
    is_action.then_some(Columns { device, time, action, rest })
}
