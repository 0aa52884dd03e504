//! The NBD protocol as pure functions: bytes in, values out, and back. No socket, no clock.
//!
//! Numbers and layouts are those of `doc/proto.md` of the NBD project, the branch `extension-ext-header` included.
//!
//! Invariants:
//! * Every parser takes any bytes and never panics.
//! * A length stated by a peer is checked against a limit before it is used.

pub mod handshake;
pub mod option;
pub mod reply;
pub mod request;
pub mod wire;

/// A violation of the protocol. The connection must be closed: the next message cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A magic number is wrong.
    #[error("the magic number {0:#x} begins nothing that is expected here")]
    Magic(u64),
    /// Flags in the handshake that were not offered.
    #[error("the client sets handshake flags {0:#x} that were not offered")]
    ClientFlags(u32),
    /// An option, a payload or a message is longer than the limit.
    #[error("{0} bytes are more than is taken")]
    TooLong(u64),
    /// The client asked for an option which cannot be refused by a reply, and which it may not have.
    #[error(
        "the client asks for an export that it cannot have, in the old way that leaves no answer"
    )]
    Refused,
    /// More options than any client needs.
    #[error("the client negotiates options without end")]
    TooManyOptions,
    /// The client ends the connection in order.
    #[error("the client ends the conversation")]
    Aborted,
    /// The peer sent an invalid message.
    #[error("{0}")]
    Malformed(&'static str),
}
