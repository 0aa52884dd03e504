//! SYSTOR '17 virtual desktops (Lee et al.; SNIA IOTTA 4928): `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Clock in seconds with decimals, offset and size in bytes; the LUN is the volume. Lines with a blank IOType do not
//! say what they did and are ignored, as the data set's notes advise.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record};
use super::super::text::Cursor;

/// First line.
pub const HEADER: &[u8] = b"Timestamp,Response,IOType,LUN,Offset,Size";

const SIZE: Expected = Expected("a size in bytes in column 6");

/// One line.
pub(super) fn line(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let Some(at) = cursor.clock(1_000_000_000) else {
        if bytes.starts_with(HEADER) {
            return Ok(None);
        }
        return Err(Expected("a time in seconds in column 1"));
    };
    cursor.byte(b',').ok_or(Expected("a comma after the time"))?;
    let response = cursor.field();
    if !response.iter().all(|byte| byte.is_ascii_digit() || b".eE-+".contains(byte)) {
        return Err(Expected("a response time in seconds in column 2"));
    }
    let op = match cursor.field() {
        b"W" => Op::Write,
        b"R" => Op::Read,
        b"" if cursor.rest().iter().filter(|byte| **byte == b',').count() == 2 => return Ok(None),
        b"" => return Err(Expected("six columns")),
        _ => return Err(Expected("R, W or nothing in column 3")),
    };
    let lun = cursor.field();
    let offset = cursor.uint_then(Expected("an offset in bytes in column 5"), SIZE)?;
    let length = cursor.uint_last().ok_or(SIZE)?;
    if !cursor.is_done() {
        return Err(Expected("six columns"));
    }
    Record::new(at, op, offset, length).on(lun).checked()
}
