//! Microsoft Research Cambridge (Narayanan, Donnelly, Rowstron, "Write Off-Loading", FAST '08; SNIA IOTTA 388):
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! The clock counts Windows file time, 100 ns since 1601; offset and size are bytes. Host and disk name the volume,
//! as in `hm_0`.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, ticks};
use super::super::text::Cursor;

/// One line.
pub(super) fn line(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let Some(stamp) = cursor.uint_comma() else {
        if bytes.len() >= 9 && bytes[..9].eq_ignore_ascii_case(b"timestamp") {
            return Ok(None);
        }
        return Err(Expected("a timestamp in units of 100 ns in column 1"));
    };
    let names = cursor.rest();
    let (host, disk) = (cursor.field(), cursor.field());
    let volume = &names[..(host.len() + 1 + disk.len()).min(names.len())];
    let op = match cursor.field() {
        b"Write" | b"write" => Op::Write,
        b"Read" | b"read" => Op::Read,
        _ => return Err(Expected("Read or Write in column 4")),
    };
    let offset = cursor.uint_comma().ok_or(Expected("an offset in bytes in column 5"))?;
    let length = cursor.uint_last().ok_or(Expected("a size in bytes in column 6"))?;
    Record::new(ticks(stamp, 100)?, op, offset, length).on(volume).checked()
}
