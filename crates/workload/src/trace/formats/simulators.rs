//! The input formats of other simulators: DiskSim, MQSim, FEMU's replayer and ftlsim.
//!
//! The first two share five columns, but neither unit nor polarity: DiskSim counts milliseconds and sets bit 0 for a
//! read, MQSim counts nanoseconds and writes 1 for a read.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, sectors};
use super::super::text::{Cursor, whole_clock, whole_uint};

const MILLISECOND: u64 = 1_000_000;

/// Pages of ftlsim are 4 KiB.
const PAGE: u64 = 4096;

/// DiskSim (manual 4.0, "ASCII" traces): `arrival_ms device lba sectors flags`, flags hexadecimal, bit 0 reads.
pub(super) fn disksim(bytes: &[u8]) -> Parsed<'_> {
    let columns = Columns::of(bytes)?;
    let at = whole_clock(columns.arrival, MILLISECOND);
    let at = at.ok_or(Expected("an arrival time in milliseconds in column 1"))?;
    let flags = Cursor::new(columns.kind).uint_or_hex_digits();
    let flags = flags.ok_or(Expected("flags in hexadecimal in column 5"))?;
    columns.record(at, if flags & 1 == 1 { Op::Read } else { Op::Write })
}

/// MQSim (its README): `arrival_ns device lba sectors type`, type 0 writes and 1 reads.
pub(super) fn mqsim(bytes: &[u8]) -> Parsed<'_> {
    let columns = Columns::of(bytes)?;
    let at = whole_uint(columns.arrival);
    let at = at.ok_or(Expected("an arrival time in whole nanoseconds in column 1"))?;
    let op = match columns.kind {
        b"0" => Op::Write,
        b"1" => Op::Read,
        _ => return Err(Expected("0 (write) or 1 (read) in column 5")),
    };
    columns.record(at, op)
}

/// The five columns DiskSim and MQSim share; 512-byte sectors.
struct Columns<'a> {
    arrival: &'a [u8],
    device: &'a [u8],
    lba: u64,
    count: u64,
    kind: &'a [u8],
}

impl<'a> Columns<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, Expected> {
        let mut cursor = Cursor::new(bytes);
        let arrival = cursor.token();
        let device = cursor.token();
        whole_uint(device).ok_or(Expected("a device number in column 2"))?;
        let lba = cursor.token_uint().ok_or(Expected("a sector number in column 3"))?;
        let count = cursor.token_uint().ok_or(Expected("a number of sectors in column 4"))?;
        let kind = cursor.token();
        if !cursor.is_done() {
            return Err(Expected("five columns"));
        }
        Ok(Columns { arrival, device, lba, count, kind })
    }

    fn record(self, at: u64, op: Op) -> Parsed<'a> {
        Record::new(at, op, sectors(self.lba)?, sectors(self.count)?).on(self.device).checked()
    }
}

impl Cursor<'_> {
    /// A hexadecimal number, with or without `0x`, that fills what is left.
    fn uint_or_hex_digits(&mut self) -> Option<u64> {
        let digits = self.rest().strip_prefix(b"0x").unwrap_or(self.rest());
        let mut cursor = Cursor::new(digits);
        let value = cursor.hex()?;
        cursor.rest().is_empty().then_some(value)
    }
}

/// FEMU's replayer (its README): `milliseconds,disk,offset,size,type`, bytes, type 0 writes and 1 reads.
pub(super) fn femu(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let at = cursor.clock(MILLISECOND).ok_or(Expected("a time in milliseconds in column 1"))?;
    cursor.byte(b',').ok_or(Expected("a comma after the time"))?;
    let disk = cursor.field();
    whole_uint(disk).ok_or(Expected("a disk number in column 2"))?;
    let offset = cursor.uint_comma().ok_or(Expected("an offset in bytes in column 3"))?;
    let length = cursor.uint_comma().ok_or(Expected("a size in bytes in column 4"))?;
    let op = match cursor.rest().trim_ascii() {
        b"0" => Op::Write,
        b"1" => Op::Read,
        _ => return Err(Expected("0 (write) or 1 (read) in column 5")),
    };
    Record::new(at, op, offset, length).on(disk).checked()
}

/// ftlsim (its README): `address count` in pages, decimal or after `0x`; every line writes, and there is no clock.
pub(super) fn ftlsim(bytes: &[u8]) -> Parsed<'_> {
    let mut cursor = Cursor::new(bytes);
    let mut number = || {
        let mut token = Cursor::new(cursor.token());
        let value = token.uint_or_hex()?;
        token.rest().is_empty().then_some(value)
    };
    let page = number().ok_or(Expected("a page address in column 1"))?;
    let count = number().ok_or(Expected("a number of pages in column 2"))?;
    if !cursor.is_done() {
        return Err(Expected("two columns"));
    }
    let bytes_of = |pages: u64| pages.checked_mul(PAGE).ok_or(Expected("a page below 2^52"));
    Record::new(0, Op::Write, bytes_of(page)?, bytes_of(count)?).checked()
}
