//! The Storage Performance Council's format, as in the UMass trace repository: `ASU,LBA,Size,Opcode,Timestamp[,...]`.
//!
//! LBA counts 512-byte blocks within the application storage unit (ASU), which is the volume; size is bytes, the
//! clock seconds ("SPC Trace File Format Specification", revision 1.0.1).

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, sectors};
use super::super::text::Cursor;

/// One line.
pub(super) fn line(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let asu = cursor.field().trim_ascii();
    if asu.is_empty() || !asu.iter().all(u8::is_ascii_digit) {
        return Err(Expected("a storage unit number in column 1"));
    }
    let lba = cursor.uint_comma().ok_or(Expected("a 512-byte block number in column 2"))?;
    let length = cursor.uint_comma().ok_or(Expected("a size in bytes in column 3"))?;
    let op = match cursor.letter() {
        Some(b'w' | b'W') => Op::Write,
        Some(b'r' | b'R') => Op::Read,
        _ => return Err(Expected("r or w in column 4")),
    };
    let at = cursor.clock(1_000_000_000).ok_or(Expected("a time in seconds in column 5"))?;
    if !(cursor.is_done() || cursor.byte(b',').is_some()) {
        return Err(Expected("nothing behind the time in column 5"));
    }
    Record::new(at, op, sectors(lba)?, length).on(asu).checked()
}
