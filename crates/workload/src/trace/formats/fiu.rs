//! Traces of Florida International University (Koller and Rangaswami, FAST '10; SNIA IOTTA 391 and 414): `ns pid
//! process lba sectors R|W major minor [md5]`.
//!
//! Addresses and lengths are in sectors of 512 bytes. The process may contain blanks. The device names the volume, as
//! in `8,17`.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, sectors};
use super::super::text::{Cursor, whole_uint};

/// One line.
pub(super) fn line(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let at = cursor.token_uint().ok_or(Expected("a time in nanoseconds in column 1"))?;
    cursor.token_uint().ok_or(Expected("a process number in column 2"))?;
    let mut before: [&[u8]; 2] = [b"", b""];
    let (op, [first, count]) = loop {
        match cursor.token() {
            b"" => return Err(Expected("R or W behind the address and the number of sectors")),
            code @ (b"R" | b"W") if before.iter().all(|word| whole_uint(word).is_some()) => {
                break (if code == b"R" { Op::Read } else { Op::Write }, before);
            }
            word => before = [before[1], word],
        }
    };
    let device = cursor.rest().trim_ascii_start();
    cursor.token_uint().ok_or(Expected("a major device number behind R or W"))?;
    cursor.token_uint().ok_or(Expected("a minor device number behind the major"))?;
    let device = &device[..device.len() - cursor.rest().len()];
    cursor.token();
    if !cursor.is_done() {
        return Err(Expected("nothing behind the md5"));
    }
    let number = |word: &[u8]| whole_uint(word).ok_or(Expected("a number of sectors"));
    let (first, count) = (sectors(number(first)?)?, sectors(number(count)?)?);
    Record::new(at, op, first, count).on(device).checked()
}
