//! What one line or binary record says, before clocks and volumes are put in order.

use thermocline_types::Op;

/// Why a line is not a record: what should have stood there. Completes the sentence "expected ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected(pub &'static str);

/// The result of parsing a line: a record, nothing of interest, or a complaint.
pub(super) type Parsed<'a> = Result<Option<Record<'a>>, Expected>;

/// A request as stated in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The line's own clock in nanoseconds, from whatever origin the format has.
    pub at: u64,
    /// What is asked.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The volume as the line names it; empty in formats of a single volume.
    pub volume: &'a [u8],
    /// The file it belongs to, as `DIRECTORY` or `DIRECTORY/FILE`; empty where the line does not say.
    pub stream: &'a [u8],
    /// Whether a flush precedes the request.
    pub preflush: bool,
    /// As [`thermocline_types::Request::outstanding`].
    pub outstanding: Option<u16>,
}

/// The largest end address accepted, 2^63: beyond any device, so a sign of a misread column.
const END_MAX: u64 = 1 << 63;

/// The largest read or write accepted, 4 GiB: no block protocol in use transfers more at once, so beyond it a column
/// was misread.
const TRANSFER_MAX: u64 = 1 << 32;

/// The smallest step in which a request starts or ends.
const SECTOR: u64 = thermocline_types::Bytes::SECTOR.0;

impl<'a> Record<'a> {
    /// A record of a format without volumes.
    pub fn new(at: u64, op: Op, offset: u64, length: u64) -> Self {
        let (volume, stream) = (&b""[..], &b""[..]);
        Record { at, op, offset, length, volume, stream, preflush: false, outstanding: None }
    }

    /// The same record on a named volume.
    pub fn on(self, volume: &'a [u8]) -> Self {
        Record { volume, ..self }
    }

    /// The same record of a named file.
    pub fn of_file(self, stream: &'a [u8]) -> Self {
        Record { stream, ..self }
    }

    /// Whether it asks for nothing: it moves no byte, and is no flush.
    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.op != Op::Flush
    }

    /// Checks what every format has in common, and widens requests of bytes to whole sectors, as the block layer below
    /// a trace of bytes would.
    pub fn checked(mut self) -> Parsed<'a> {
        if self.op == Op::Flush {
            (self.offset, self.length) = (0, 0);
            return Ok(Some(self));
        }
        if self.length == 0 {
            if self.preflush {
                return Record { op: Op::Flush, preflush: false, ..self }.checked();
            }
            return Ok(Some(self));
        }
        if self.offset.checked_add(self.length).is_none_or(|end| end > END_MAX) {
            return Err(Expected("an address range that ends below 2^63 bytes"));
        }
        if self.length > TRANSFER_MAX && matches!(self.op, Op::Read | Op::Write) {
            return Err(Expected("a read or write of at most 4 GiB"));
        }
        let end = (self.offset + self.length).next_multiple_of(SECTOR);
        self.offset -= self.offset % SECTOR;
        self.length = end - self.offset;
        Ok(Some(self))
    }
}

/// A count of 512-byte sectors in bytes.
pub(super) fn sectors(count: u64) -> Result<u64, Expected> {
    count.checked_mul(512).ok_or(Expected("a sector number below 2^55"))
}

/// `value` ticks of `unit_ns` nanoseconds.
pub(super) fn ticks(value: u64, unit_ns: u64) -> Result<u64, Expected> {
    value.checked_mul(unit_ns).ok_or(Expected("a timestamp that fits 64 bits of nanoseconds"))
}
