//! fio's I/O log (fio manual, "Trace file format"), as written by `--write_iolog`.
//!
//! Version 2: `file action [offset length]` with `wait` actions; version 3: `timestamp file action [offset length]`.
//! Version 3 counts microseconds from the start of the run. The header line is required, because the columns depend
//! on it. `sync` and `datasync` become flushes; `sync_file_range`, `add`, `open` and `close` ask nothing of a device.
//! Each file is a volume.
//!
//! The logs of `--write_lat_log` and its like are read too, if `--log_offset=1` put the offsets in: `milliseconds,
//! value, direction, length, offset[, priority]`, where direction 0 reads, 1 writes and 2 trims.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, ticks};
use super::super::text::{Cursor, whole_uint};

/// First line of version 2.
pub const HEADER_V2: &[u8] = b"fio version 2 iolog";
/// First line of version 3.
pub const HEADER_V3: &[u8] = b"fio version 3 iolog";

/// Version 2 discards waits below this many microseconds.
const WAIT_MIN_US: u64 = 100;

/// What the header said, and the clock of version 2.
#[derive(Debug, Default)]
pub(in super::super) struct Fio {
    version: Option<u8>,
    waited_ns: u64,
}

impl Fio {
    pub(super) fn line<'a>(&mut self, bytes: &'a [u8]) -> Parsed<'a> {
        if bytes.starts_with(b"fio version ") {
            self.version = match bytes.trim_ascii_end() {
                HEADER_V2 => Some(2),
                HEADER_V3 => Some(3),
                _ => return Err(Expected("version 2 or 3 of fio's iolog")),
            };
            return Ok(None);
        }
        let mut cursor = Cursor::new(bytes);
        match self.version {
            Some(2) => self.action(cursor, None),
            Some(_) => {
                let micros = cursor.token_uint();
                let micros = micros.ok_or(Expected("a timestamp in microseconds first"))?;
                let at = ticks(micros, 1_000)?;
                self.action(cursor, Some(at))
            }
            None => Err(Expected("the line `fio version 2 iolog` or `fio version 3 iolog` first")),
        }
    }

    fn action<'a>(&mut self, mut cursor: Cursor<'a>, at: Option<u64>) -> Parsed<'a> {
        let file = cursor.token();
        let op = match cursor.token() {
            b"read" => Some(Op::Read),
            b"write" => Some(Op::Write),
            b"trim" => Some(Op::Trim),
            b"sync" | b"datasync" => Some(Op::Flush),
            b"wait" if at.is_none() => None,
            b"add" | b"open" | b"close" | b"sync_file_range" => return Ok(None),
            _ => {
                return Err(Expected(
                    "a file name and one of add, open, close, read, write, sync, datasync, trim, wait (version 2)",
                ));
            }
        };
        if op == Some(Op::Flush) {
            return Record::new(at.unwrap_or(self.waited_ns), Op::Flush, 0, 0).on(file).checked();
        }
        let offset = cursor.token_uint().ok_or(Expected("an offset in bytes after the action"))?;
        let Some(op) = op else {
            if offset >= WAIT_MIN_US {
                let wait = ticks(offset, 1_000)?;
                let sum = self.waited_ns.checked_add(wait);
                self.waited_ns = sum.ok_or(Expected("waits that sum to less than 2^64 ns"))?;
            }
            return Ok(None);
        };
        let length = cursor.token_uint().ok_or(Expected("a length in bytes after the offset"))?;
        Record::new(at.unwrap_or(self.waited_ns), op, offset, length).on(file).checked()
    }
}

const MILLISECOND: u64 = 1_000_000;

/// One line of a log of latencies, bandwidths or operations a second.
pub(super) fn log_line(bytes: &[u8]) -> Parsed<'_> {
    let mut columns = bytes.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let mut number = |expected| columns.next().and_then(whole_uint).ok_or(expected);
    let at = number(Expected("a time in milliseconds in column 1"))?;
    number(Expected("a latency, bandwidth or number of operations in column 2"))?;
    let op = match number(LOG_DIRECTION)? {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Trim,
        _ => return Err(LOG_DIRECTION),
    };
    let length = number(Expected("a length in bytes in column 4"))?;
    let offset = number(Expected("an offset in bytes in column 5, as `--log_offset=1` puts it"))?;
    Record::new(ticks(at, MILLISECOND)?, op, offset, length).checked()
}

const LOG_DIRECTION: Expected = Expected("0 (read), 1 (write) or 2 (trim) in column 3");

/// Whether `line` is of such a log, and then whether it has an offset.
pub fn log_has_offset(line: &[u8]) -> Option<bool> {
    let columns: Vec<&[u8]> = line.split(|&byte| byte == b',').collect();
    let is_number = |column: &&[u8]| whole_uint(column.trim_ascii()).is_some();
    let is_log = (4..=8).contains(&columns.len())
        && columns[1..].iter().all(|column| column.starts_with(b" "))
        && columns[..4].iter().all(is_number)
        && matches!(columns[2].trim_ascii(), b"0" | b"1" | b"2");
    is_log.then(|| columns.get(4).is_some_and(is_number))
}
