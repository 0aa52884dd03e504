//! Requests of the transmission phase.

use super::ProtocolError;
use super::wire::{Put as _, Reader};

/// How requests and replies are framed, as agreed in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Framing {
    /// Compact requests, simple replies.
    Simple,
    /// Compact requests; reads and block status are answered in chunks.
    Structured,
    /// Lengths of 64 bits in both directions.
    Extended,
}

/// First word of a compact request.
const COMPACT: u32 = 0x2560_9513;
/// First word of an extended request.
const EXTENDED: u32 = 0x21E4_1C71;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write the payload.
    Write,
    /// End the connection, without a reply.
    Disconnect,
    /// Make durable.
    Flush,
    /// Declare unused.
    Trim,
    /// Load ahead of reading.
    Cache,
    /// Make zero.
    WriteZeroes,
    /// Report allocation.
    BlockStatus,
    /// Anything else.
    Other(u16),
}

impl Command {
    fn from_number(number: u16) -> Command {
        match number {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            5 => Command::Cache,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Other(other),
        }
    }

    fn number(self) -> u16 {
        match self {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::Cache => 5,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
            Command::Other(other) => other,
        }
    }

    /// The flags allowed for the command.
    fn flags(self, framing: Framing) -> u16 {
        match self {
            Command::Read if framing >= Framing::Structured => flag::DF,
            Command::Write if framing == Framing::Extended => flag::FUA | flag::PAYLOAD_LENGTH,
            Command::Write | Command::Trim => flag::FUA,
            Command::WriteZeroes => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
            Command::BlockStatus => flag::REQ_ONE,
            _ => 0,
        }
    }
}

/// Flags of requests.
pub mod flag {
    /// Durable when complete.
    pub const FUA: u16 = 1;
    /// Zeroes are to take space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The reply to a read comes in one chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail unless zeroing is faster than writing zeroes.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload behind the request; extended requests only.
    pub const PAYLOAD_LENGTH: u16 = 1 << 5;
}

/// A request without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What.
    pub command: Command,
    /// How, see [`flag`].
    pub flags: u16,
    /// The client's name for the request.
    pub cookie: u64,
    /// The first byte of the export.
    pub offset: u64,
    /// Bytes of the export, or of the payload.
    pub length: u64,
}

impl Header {
    /// Bytes of a request without its payload.
    #[must_use]
    pub fn size(framing: Framing) -> usize {
        if framing == Framing::Extended { 32 } else { 28 }
    }

    /// The request at the front of `bytes`; `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`ProtocolError::Magic`].
    pub fn parse(bytes: &[u8], framing: Framing) -> Result<Option<Header>, ProtocolError> {
        let mut reader = Reader::new(bytes);
        let Some(magic) = reader.u32() else { return Ok(None) };
        let expected = if framing == Framing::Extended { EXTENDED } else { COMPACT };
        if magic != expected {
            return Err(ProtocolError::Magic(magic.into()));
        }
        let mut fields = || {
            let (flags, command) = (reader.u16()?, Command::from_number(reader.u16()?));
            let (cookie, offset) = (reader.u64()?, reader.u64()?);
            let extended = framing == Framing::Extended;
            let length = if extended { reader.u64()? } else { reader.u32()?.into() };
            Some(Header { command, flags, cookie, offset, length })
        };
        Ok(fields())
    }

    /// Appends the request to `out`, for a client.
    ///
    /// # Panics
    /// If the length does not fit the framing.
    pub fn encode(&self, framing: Framing, out: &mut Vec<u8>) {
        let extended = framing == Framing::Extended;
        out.put_u32(if extended { EXTENDED } else { COMPACT });
        out.put_u16(self.flags);
        out.put_u16(self.command.number());
        out.put_u64(self.cookie);
        out.put_u64(self.offset);
        if extended {
            out.put_u64(self.length);
        } else {
            out.put_u32(u32::try_from(self.length).expect("a compact request has up to 32 bits"));
        }
    }

    /// Bytes of payload that follow.
    #[must_use]
    pub fn payload(&self, framing: Framing) -> u64 {
        let stated = framing == Framing::Extended && self.flags & flag::PAYLOAD_LENGTH != 0;
        if stated || self.command == Command::Write { self.length } else { 0 }
    }

    /// Whether the request has only allowed flags. An extended write has to have [`flag::PAYLOAD_LENGTH`], which QEMU
    /// 10.0 leaves out; its payload is of the stated length either way.
    #[must_use]
    pub fn is_well_flagged(&self, framing: Framing) -> bool {
        self.flags & !self.command.flags(framing) == 0
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Framing; 3] = [Framing::Simple, Framing::Structured, Framing::Extended];

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
            for framing in ALL {
                let _ = Header::parse(&bytes, framing);
            }
        }

        #[test]
        fn a_request_is_read_back(
            number in 0_u16..20, flags: u16, cookie: u64, offset: u64, length: u64, cut in 4_usize..28,
        ) {
            for framing in ALL {
                let extended = framing == Framing::Extended;
                let length = if extended { length } else { length & 0xFFFF_FFFF };
                let command = Command::from_number(number);
                let header = Header { command, flags, cookie, offset, length };
                let mut bytes = Vec::new();
                header.encode(framing, &mut bytes);
                prop_assert_eq!(bytes.len(), Header::size(framing));
                prop_assert_eq!(Header::parse(&bytes, framing), Ok(Some(header)));
                prop_assert_eq!(Header::parse(&bytes[..cut], framing), Ok(None));
                bytes[1] ^= 1;
                prop_assert!(Header::parse(&bytes, framing).is_err());
            }
        }
    }

    #[test]
    fn only_writes_have_a_payload_unless_it_is_stated() {
        let header = |command, flags| Header { command, flags, cookie: 1, offset: 0, length: 512 };
        let read = header(Command::Read, flag::PAYLOAD_LENGTH);
        assert_eq!(read.payload(Framing::Structured), 0);
        assert_eq!(read.payload(Framing::Extended), 512);
        assert!(!read.is_well_flagged(Framing::Extended));
        let write = header(Command::Write, flag::FUA);
        assert_eq!(write.payload(Framing::Extended), 512, "it cannot be told apart otherwise");
        assert!(write.is_well_flagged(Framing::Extended) && write.is_well_flagged(Framing::Simple));
        assert!(!header(Command::Read, flag::DF).is_well_flagged(Framing::Simple));
        assert!(!header(Command::Flush, flag::FUA).is_well_flagged(Framing::Simple));
    }
}
