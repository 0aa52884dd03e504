//! Output of biosnoop from bcc, and of its kin: `TIME(s) COMM PID DISK T SECTOR BYTES [P] [QUE(ms)] LAT(ms)`, and
//! perf-tools' iosnoop with times, `STARTs ENDs COMM PID TYPE DEV BLOCK BYTES LATms`.
//!
//! The command may contain blanks, so the columns behind it are counted from the right, by the header. Without one they
//! are those of biosnoop, and what is no whole number behind the bytes does not matter. `T` is R or W, or the full
//! operation code. Each disk is a volume; a disk without a name leaves its column empty.
//!
//! A line without a sector (-1) moves no blocks. Without bytes it is a flush, if its code is of a flush or a write.
//! Other lines without a sector are commands such as those for a drive's health. libbpf's biosnoop prints lengths as
//! signed numbers of 32 bits.

use thermocline_types::Op;

use super::super::record::{Expected, Parsed, Record, sectors};
use super::super::text::{whole_clock, whole_uint};
use super::losses::lost;
use super::rwbs;

const SECOND: u64 = 1_000_000_000;

const SHAPE: Expected = Expected("TIME(s) COMM PID DISK T SECTOR BYTES [P] [QUE(ms)] LAT(ms)");

/// More columns than any version has.
const COLUMNS_MAX: usize = 16;

/// Where the columns behind the command are, counted from the last, which is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    /// Nanoseconds of the clock in the first column.
    tick: u64,
    pid: usize,
    disk: usize,
    code: usize,
    sector: usize,
    bytes: usize,
}

impl Columns {
    /// As a header has them, if it has all.
    fn of(header: &[u8]) -> Option<Columns> {
        let at = |names: &[&[u8]]| tokens(header).rev().position(|token| names.contains(&token));
        let is_ms = tokens(header).next().is_some_and(|first| first == b"TIME(ms)");
        Some(Columns {
            tick: if is_ms { SECOND / 1000 } else { SECOND },
            pid: at(&[b"PID", b"TID"])?,
            disk: at(&[b"DISK", b"DEV", b"DEVICE"])?,
            code: at(&[b"T", b"TYPE"])?,
            sector: at(&[b"SECTOR", b"BLOCK"])?,
            bytes: at(&[b"BYTES"])?,
        })
    }

    /// Those of biosnoop, in a line without header.
    fn without_header(right: &[&[u8]]) -> Option<Columns> {
        let bytes = right.iter().position(|token| length(token).is_some())?;
        let [sector, code, disk, pid] = [1, 2, 3, 4].map(|column| bytes + column);
        (bytes > 0).then_some(Columns { tick: SECOND, pid, disk, code, sector, bytes })
    }
}

/// Whether a header has the needed columns; `None` if the line is not a header.
pub fn header(line: &[u8]) -> Option<bool> {
    let first = tokens(line).next()?;
    let is_header = first.starts_with(b"TIME(") || first == b"STARTs";
    is_header.then(|| Columns::of(line).is_some())
}

/// The columns, and what was lost.
#[derive(Debug, Default)]
pub(in super::super) struct Biosnoop {
    columns: Option<Columns>,
    /// Events that were lost, at least.
    pub lost: u64,
}

impl Biosnoop {
    pub(super) fn line<'a>(&mut self, bytes: &'a [u8]) -> Parsed<'a> {
        let first = tokens(bytes).next().ok_or(SHAPE)?;
        if header(bytes).is_some() {
            self.columns = Columns::of(bytes);
            return Ok(None);
        }
        let tick = self.columns.map_or(SECOND, |columns| columns.tick);
        let Some(at) = whole_clock(first, tick) else {
            let Some(lost) = lost(bytes) else {
                let is_banner = first == b"Tracing";
                return if is_banner {
                    Ok(None)
                } else {
                    Err(Expected("a time in seconds in column 1"))
                };
            };
            self.lost = self.lost.saturating_add(lost);
            return Ok(None);
        };
        let mut right = [&b""[..]; COLUMNS_MAX];
        let mut count = 0;
        for (slot, token) in right.iter_mut().zip(tokens(bytes).rev()) {
            *slot = token;
            count += 1;
        }
        let columns = self.columns.or_else(|| Columns::without_header(&right[..count]));
        let Columns { mut pid, disk, code, sector, bytes, .. } = columns.ok_or(SHAPE)?;
        if [pid, disk, code, sector, bytes].into_iter().any(|column| column >= count) {
            return Err(SHAPE);
        }
        let mut name = right[disk];
        // No disk has a name of digits alone: it is the process in front of an empty column.
        if whole_uint(name).is_some() && pid == disk + 1 {
            (pid, name) = (disk, b"");
        }
        if pid + 1 >= count {
            return Err(SHAPE);
        }
        whole_uint(right[pid]).ok_or(SHAPE)?;
        let length = length(right[bytes]).ok_or(Expected("a number of bytes behind the sector"))?;
        let action = rwbs::action(right[code])?;
        let sector = match right[sector] {
            b"-1" => rwbs::NO_SECTOR,
            digits => whole_uint(digits).ok_or(Expected("a sector number before the bytes"))?,
        };
        let Some(op) = action.op else { return Ok(None) };
        let is_nowhere = sector == rwbs::NO_SECTOR || (sector == 0 && op == Op::Write);
        if op == Op::Flush || (length == 0 && is_nowhere && (op == Op::Write || action.preflush)) {
            return Record::new(at, Op::Flush, 0, 0).on(name).checked();
        }
        if sector == rwbs::NO_SECTOR {
            return Ok(None);
        }
        let record = Record::new(at, op, sectors(sector)?, length).on(name);
        Record { preflush: action.preflush, ..record }.checked()
    }
}

fn tokens(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty())
}

/// A length that fills all of `token`; a negative one is what a signed number of 32 bits shows of it.
fn length(token: &[u8]) -> Option<u64> {
    match token.strip_prefix(b"-") {
        Some(digits) => whole_uint(digits).and_then(|below| (1_u64 << 32).checked_sub(below)),
        None => whole_uint(token),
    }
}
