//! Cloud block storage: Alibaba and Tencent. Both name a volume on each line and log no trims.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, sectors, ticks};
use super::super::text::Cursor;

/// Alibaba 2020 (Li et al., IISWC '20): `device_id,opcode,offset,length,timestamp`, bytes and microseconds.
pub(super) fn alibaba(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let device = cursor.field();
    if device.is_empty() || !device.iter().all(u8::is_ascii_digit) {
        if device == b"device_id" {
            return Ok(None);
        }
        return Err(Expected("a device number in column 1"));
    }
    let op = match cursor.letter() {
        Some(b'W') => Op::Write,
        Some(b'R') => Op::Read,
        _ => return Err(Expected("R or W in column 2")),
    };
    let offset = cursor.uint_comma().ok_or(Expected("an offset in bytes in column 3"))?;
    let length = cursor.uint_comma().ok_or(Expected("a length in bytes in column 4"))?;
    let micros = cursor.uint_last().ok_or(Expected("a timestamp in microseconds in column 5"))?;
    if !cursor.is_done() {
        return Err(Expected("five columns"));
    }
    Record::new(ticks(micros, 1_000)?, op, offset, length).on(device).checked()
}

/// Tencent cloud block storage (Zhang et al., OSCA, ATC '20): `Timestamp,Offset,Size,IOType,VolumeID`, whole seconds,
/// 512-byte sectors, 0 reads and 1 writes.
pub(super) fn tencent(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let Some(seconds) = cursor.uint_comma() else {
        if bytes.starts_with(b"Timestamp") {
            return Ok(None);
        }
        return Err(Expected("a timestamp in whole seconds in column 1"));
    };
    let offset = cursor.uint_comma().ok_or(Expected("an offset in sectors in column 2"))?;
    let length = cursor.uint_comma().ok_or(Expected("a size in sectors in column 3"))?;
    let op = match cursor.letter() {
        Some(b'1') => Op::Write,
        Some(b'0') => Op::Read,
        _ => return Err(Expected("0 (read) or 1 (write) in column 4")),
    };
    let volume = cursor.rest().trim_ascii();
    if volume.is_empty() || !volume.iter().all(u8::is_ascii_digit) {
        return Err(Expected("a volume number in column 5"));
    }
    let at = ticks(seconds, 1_000_000_000)?;
    Record::new(at, op, sectors(offset)?, sectors(length)?).on(volume).checked()
}
