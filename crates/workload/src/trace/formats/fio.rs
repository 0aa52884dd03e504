//! fio's I/O log (fio manual, "Trace file format"), as written by `--write_iolog`.
//!
//! Version 2: `file action [offset length]` with `wait` actions; version 3: `timestamp file action [offset length]`.
//! Version 3 counts microseconds from the start of the run. The header line is required, because the columns depend
//! on it. `sync` and `datasync` become flushes; `sync_file_range`, `add`, `open` and `close` ask nothing of a device.
//! Each file is a volume.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, ticks};
use super::super::text::Cursor;

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
