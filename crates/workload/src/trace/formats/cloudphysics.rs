//! CloudPhysics vscsi traces (Waldspurger et al., FAST '15), binary and as csv.
//!
//! Both formats state the operation as a SCSI operation code; lengths are bytes, addresses 512-byte blocks. The clock
//! of the binary records counts microseconds; the clock of the csv, made from the records by libCacheSim, counts whole
//! seconds. SYNCHRONIZE CACHE becomes a flush. UNMAP and WRITE SAME carry their ranges in data that were not recorded,
//! so they are ignored like every other command that moves no blocks.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, sectors, ticks};
use super::super::text::Cursor;

/// First line of the csv.
pub const HEADER: &[u8] = b"version,time,op,size,lbn";

/// The binary record layouts, little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Layout {
    /// 32 bytes: `u32 serial, u32 length, u32 segments, u16 op, u16 version, u64 lbn, u64 time`.
    V1,
    /// 40 bytes: `u16 op, u16 version, u32 serial, u32 length, u32 segments, u64 lbn, u64 time, u64 response`.
    V2,
}

/// How many records of the head must agree on a layout.
const AGREE: usize = 64;

impl Layout {
    /// The layout whose version field is right in every one of the first records.
    pub fn of(head: &[u8]) -> Option<Layout> {
        [Layout::V1, Layout::V2].into_iter().find(|layout| {
            let mut records = head.chunks_exact(layout.record_bytes()).take(AGREE).peekable();
            records.peek().is_some() && records.all(|record| layout.is_version_of(record))
        })
    }

    /// Size of a record in bytes.
    pub const fn record_bytes(self) -> usize {
        match self {
            Layout::V1 => 32,
            Layout::V2 => 40,
        }
    }

    fn is_version_of(self, record: &[u8]) -> bool {
        let (at, version) = match self {
            Layout::V1 => (14, 1),
            Layout::V2 => (2, 2),
        };
        u16_at(record, at) >> 8 == version
    }
}

/// One binary record.
pub(super) fn vscsi(layout: Layout, record: &[u8]) -> Parsed<'_> {
    if record.len() != layout.record_bytes() {
        return Err(Expected("a whole record before the end of the file"));
    }
    if !layout.is_version_of(record) {
        return Err(Expected("a record with version 1 (32 bytes) or 2 (40 bytes)"));
    }
    let (code, length, lbn, time) = match layout {
        Layout::V1 => (u16_at(record, 12), u32_at(record, 4), 16, 24),
        Layout::V2 => (u16_at(record, 0), u32_at(record, 8), 16, 24),
    };
    let at = ticks(u64_at(record, time), MICROSECOND);
    command(at, u64::from(code), u64::from(length), u64_at(record, lbn))
}

/// One line of csv, the operation code in hexadecimal.
pub(super) fn csv(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    if cursor.uint_comma().is_none_or(|version| version > u64::from(u16::MAX)) {
        if bytes.starts_with(HEADER) {
            return Ok(None);
        }
        return Err(Expected("a version number in column 1"));
    }
    let seconds = cursor.uint_comma().ok_or(Expected("a time in seconds in column 2"))?;
    let code = cursor.hex().filter(|code| *code <= 0xff);
    let code = code.ok_or(Expected("a SCSI operation code in hexadecimal in column 3"))?;
    cursor.byte(b',').ok_or(Expected("a comma after the operation code"))?;
    let length = cursor.uint_comma().ok_or(Expected("a size in bytes in column 4"))?;
    let lbn = cursor.uint_last().ok_or(Expected("a 512-byte block number in column 5"))?;
    if !cursor.is_done() {
        return Err(Expected("five columns"));
    }
    command(ticks(seconds, SECOND), code, length, lbn)
}

const MICROSECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// Operation codes from SCSI Block Commands (SBC-4), 6, 10, 12 and 16 bytes long, with WRITE AND VERIFY.
fn command<'a>(at: Result<u64, Expected>, code: u64, length: u64, lbn: u64) -> Parsed<'a> {
    let op = match code {
        0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Op::Write,
        0x35 | 0x91 => Op::Flush,
        _ => return Ok(None),
    };
    let at = at?;
    if op == Op::Flush {
        return Record::new(at, op, 0, 0).checked();
    }
    Record::new(at, op, sectors(lbn)?, length).checked()
}

fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| record[at + byte]))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| record[at + byte]))
}
