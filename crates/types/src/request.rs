//! What a host asks of a block device.

use crate::{Bytes, StreamId, TenantId, Time};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Read `length` bytes at `offset`.
    Read,
    /// Write `length` bytes at `offset`.
    Write,
    /// Make `length` bytes at `offset` read as zeroes; drives do it by deallocating, as for [`Op::Trim`].
    WriteZeroes,
    /// Declare `length` bytes at `offset` unused.
    Trim,
    /// Make every write completed so far durable. `offset` and `length` are zero.
    Flush,
}

/// One request of a workload, as issued to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the host issued it, counted from the first request of the workload.
    pub at: Time,
    /// First byte addressed.
    pub offset: Bytes,
    /// Number of bytes addressed.
    pub length: Bytes,
    /// Whose request it is.
    pub tenant: TenantId,
    /// Which file of the tenant it belongs to.
    pub stream: StreamId,
    /// What is asked.
    pub op: Op,
    /// Earlier requests of the tenant that were incomplete when the host issued it, 65,535 at most: of a flush
    /// all, of another request the flushes. `None` if the source does not tell.
    pub outstanding: Option<u16>,
}

impl Request {
    /// One past the last byte addressed.
    #[must_use]
    pub fn end(&self) -> Bytes {
        self.offset + self.length
    }
}
