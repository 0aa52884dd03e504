//! Replies of the transmission phase.

use super::ProtocolError;
use super::request::{Framing, Header};
use super::wire::{Put as _, Reader};

/// First word of a simple reply.
const SIMPLE: u32 = 0x6744_6698;
/// First word of a chunk of a structured reply.
const STRUCTURED: u32 = 0x668E_33EF;
/// First word of a chunk of an extended reply.
const EXTENDED: u32 = 0x6E8A_278C;

/// Flag of the last chunk of a reply.
const DONE: u16 = 1;

/// Kinds of chunks.
pub mod kind {
    /// No data.
    pub const NONE: u16 = 0;
    /// Data of a read, behind its offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents in 32 bits.
    pub const BLOCK_STATUS: u16 = 5;
    /// Extents in 64 bits.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// An error.
    pub const ERROR: u16 = 1 << 15 | 1;
    /// Set in every kind of error.
    pub const ANY_ERROR: u16 = 1 << 15;
}

/// Error codes of the protocol: numbers as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Not permitted, such as a write to a read-only export.
    Perm = 1,
    /// Media failed.
    Io = 5,
    /// No memory.
    NoMem = 12,
    /// The request makes no sense.
    Inval = 22,
    /// No space, or beyond the end.
    NoSpc = 28,
    /// The request is longer than is taken.
    Overflow = 75,
    /// Not supported.
    NotSup = 95,
    /// The server is about to stop.
    Shutdown = 108,
}

/// A run of bytes, and its flags in a metadata context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Bytes.
    pub length: u64,
    /// Of `base:allocation`: [`HOLE`] and [`ZERO`]. Of `qemu:dirty-bitmap`: [`CHANGED`].
    pub flags: u32,
}

/// Takes no space.
pub const HOLE: u32 = 1;
/// Reads as zeroes.
pub const ZERO: u32 = 2;
/// May have changed since the snapshot.
pub const CHANGED: u32 = 1;

/// Appends a reply without data.
pub fn plain(out: &mut Vec<u8>, request: &Header, framing: Framing, error: Option<Code>) {
    let chunked = match framing {
        Framing::Simple => false,
        Framing::Structured => {
            use super::request::Command::{BlockStatus, Read};
            matches!(request.command, Read | BlockStatus)
        }
        Framing::Extended => true,
    };
    match error {
        _ if !chunked => {
            out.put_u32(SIMPLE);
            out.put_u32(error.map_or(0, |code| code as u32));
            out.put_u64(request.cookie);
        }
        None => chunk(out, request, framing, (DONE, kind::NONE), 0),
        Some(code) => {
            chunk(out, request, framing, (DONE, kind::ERROR), 6);
            out.put_u32(code as u32);
            out.put_u16(0);
        }
    }
}

/// Appends the head of a successful read's reply, before the data.
pub fn before_data(out: &mut Vec<u8>, request: &Header, framing: Framing) {
    if framing == Framing::Simple {
        return plain(out, request, framing, None);
    }
    chunk(out, request, framing, (DONE, kind::OFFSET_DATA), 8 + request.length);
    out.put_u64(request.offset);
}

/// Appends a chunk for a metadata context: its extents from the request's offset on. No extent may be empty. `last`:
/// whether the reply has no further context.
///
/// # Panics
/// If the framing is simple, which has no such reply, or an extent too long for the framing.
pub fn block_status(
    out: &mut Vec<u8>,
    request: &Header,
    framing: Framing,
    (context, last): (u32, bool),
    extents: &[Status],
) {
    let count = extents.len();
    let flags = if last { DONE } else { 0 };
    match framing {
        Framing::Simple => panic!("block status needs structured replies"),
        Framing::Structured => {
            let length = 4 + 8 * count as u64;
            chunk(out, request, framing, (flags, kind::BLOCK_STATUS), length);
            out.put_u32(context);
            for extent in extents {
                out.put_u32(u32::try_from(extent.length).expect("requests have up to 32 bits"));
                out.put_u32(extent.flags);
            }
        }
        Framing::Extended => {
            let length = 8 + 16 * count as u64;
            chunk(out, request, framing, (flags, kind::BLOCK_STATUS_EXT), length);
            out.put_u32(context);
            out.put_u32(count as u32);
            for extent in extents {
                out.put_u64(extent.length);
                out.put_u64(extent.flags.into());
            }
        }
    }
}

/// Appends the header of a chunk.
fn chunk(
    out: &mut Vec<u8>,
    request: &Header,
    framing: Framing,
    (flags, kind): (u16, u16),
    length: u64,
) {
    let extended = framing == Framing::Extended;
    out.put_u32(if extended { EXTENDED } else { STRUCTURED });
    out.put_u16(flags);
    out.put_u16(kind);
    out.put_u64(request.cookie);
    if extended {
        out.put_u64(request.offset);
        out.put_u64(length);
    } else {
        out.put_u32(length as u32);
    }
}

/// The front of a reply, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// A simple reply. The data of a read that succeeded follows, as much as was asked for.
    Simple {
        /// The request.
        cookie: u64,
        /// 0 for success.
        error: u32,
    },
    /// A chunk.
    Chunk {
        /// The request.
        cookie: u64,
        /// See [`kind`].
        kind: u16,
        /// Whether the chunk is the last of its reply.
        last: bool,
        /// Bytes behind the front.
        length: u64,
    },
}

impl Front {
    /// Parses the front of a reply at the start of `bytes`. Returns the front and its length; `None` when `bytes` ends
    /// too early.
    ///
    /// # Errors
    /// [`ProtocolError::Magic`].
    pub fn parse(bytes: &[u8]) -> Result<Option<(Front, usize)>, ProtocolError> {
        let mut reader = Reader::new(bytes);
        let Some(magic) = reader.u32() else { return Ok(None) };
        if ![SIMPLE, STRUCTURED, EXTENDED].contains(&magic) {
            return Err(ProtocolError::Magic(magic.into()));
        }
        let mut fields = || {
            if magic == SIMPLE {
                let error = reader.u32()?;
                return Some(Front::Simple { cookie: reader.u64()?, error });
            }
            let (flags, kind, cookie) = (reader.u16()?, reader.u16()?, reader.u64()?);
            let length = if magic == EXTENDED {
                reader.u64()?;
                reader.u64()?
            } else {
                reader.u32()?.into()
            };
            Some(Front::Chunk { cookie, kind, last: flags & DONE != 0, length })
        };
        let front = fields();
        Ok(front.map(|front| (front, bytes.len() - reader.rest().len())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::request::Command;
    use super::*;

    const READ: Header =
        Header { command: Command::Read, flags: 0, cookie: 7, offset: 4096, length: 512 };

    fn front(framing: Framing, error: Option<Code>, request: &Header) -> (Front, usize, usize) {
        let mut out = Vec::new();
        plain(&mut out, request, framing, error);
        let (front, size) = Front::parse(&out).expect("a reply").expect("all of it");
        (front, size, out.len())
    }

    #[test]
    fn errors_come_in_the_framing_agreed_on() {
        let simple = Front::Simple { cookie: 7, error: 5 };
        assert_eq!(front(Framing::Simple, Some(Code::Io), &READ), (simple, 16, 16));
        let flush = Header { command: Command::Flush, length: 0, ..READ };
        assert_eq!(front(Framing::Structured, Some(Code::Io), &flush), (simple, 16, 16));
        let chunk = Front::Chunk { cookie: 7, kind: kind::ERROR, last: true, length: 6 };
        assert_eq!(front(Framing::Structured, Some(Code::Io), &READ), (chunk, 20, 26));
        assert_eq!(front(Framing::Extended, Some(Code::Io), &flush), (chunk, 32, 38));
        let none = Front::Chunk { cookie: 7, kind: kind::NONE, last: true, length: 0 };
        assert_eq!(front(Framing::Extended, None, &flush), (none, 32, 32));
    }

    #[test]
    fn data_and_extents_say_how_long_they_are() {
        let mut out = Vec::new();
        before_data(&mut out, &READ, Framing::Structured);
        let data = Front::Chunk { cookie: 7, kind: kind::OFFSET_DATA, last: true, length: 520 };
        assert_eq!((Front::parse(&out), out.len()), (Ok(Some((data, 20))), 28));
        let extents =
            [Status { length: 512, flags: 0 }, Status { length: 512, flags: HOLE | ZERO }];
        for (framing, body) in [(Framing::Structured, 20), (Framing::Extended, 40)] {
            let mut out = Vec::new();
            block_status(&mut out, &READ, framing, (1, true), &extents);
            let Ok(Some((Front::Chunk { length, .. }, size))) = Front::parse(&out) else {
                panic!("a chunk");
            };
            assert_eq!((length, out.len() - size), (body, body as usize));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
            let _ = Front::parse(&bytes);
        }
    }
}
