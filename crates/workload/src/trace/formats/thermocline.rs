//! Our own csv: `timestamp_us,op,offset_bytes,length_bytes[,tenant[,stream[,outstanding]]]`.
//!
//! The clock may have decimals. `op` is one of `R` read, `W` write, `D` trim, `F` flush (offset and length 0) and `Z`
//! write zeroes. `tenant` is any name without a comma. `stream` is the file that the request belongs to,
//! `DIRECTORY/FILE` or the directory alone, names without a comma; empty where it is not known. `outstanding`
//! is the number of earlier requests of the tenant that were incomplete when the request was issued: of a flush all,
//! of another request the flushes.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record};
use super::super::text::Cursor;

/// The header written, and looked for by the detection.
pub const HEADER: &[u8] = b"timestamp_us,op,offset_bytes,length_bytes";

const OUTSTANDING: Expected = Expected("a number of requests in column 7");
const LENGTH: Expected = Expected("a length in bytes in column 4");

/// One line.
#[inline]
pub(super) fn line(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let Some(at) = cursor.clock(1_000) else {
        if bytes.starts_with(HEADER) {
            return Ok(None);
        }
        return Err(Expected("a timestamp in microseconds in column 1"));
    };
    cursor.byte(b',').ok_or(Expected("a comma after the timestamp"))?;
    let op = match cursor.letter() {
        Some(b'W') => Op::Write,
        Some(b'R') => Op::Read,
        Some(b'D') => Op::Trim,
        Some(b'F') => Op::Flush,
        Some(b'Z') => Op::WriteZeroes,
        _ => return Err(Expected("an operation R, W, D, F or Z in column 2")),
    };
    let offset = cursor.uint_then(Expected("an offset in bytes in column 3"), LENGTH)?;
    let length = cursor.uint_last().ok_or(LENGTH)?;
    let record = Record::new(at, op, offset, length);
    if cursor.byte(b',').is_some() {
        let tenant = cursor.field().trim_ascii();
        let stream = cursor.field().trim_ascii();
        let outstanding = match cursor.is_done() {
            true => None,
            false => Some(cursor.uint_last().ok_or(OUTSTANDING)?),
        };
        if !cursor.is_done() {
            return Err(Expected("at most seven columns"));
        }
        let outstanding = outstanding.map(|count| count.min(u16::MAX.into()) as u16);
        return Record { outstanding, ..record.on(tenant).of_file(stream) }.checked();
    }
    if !cursor.is_done() {
        return Err(Expected("four to seven columns"));
    }
    record.checked()
}
