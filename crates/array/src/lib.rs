//! Redundancy: several members as one device, as a state machine that does no I/O.
//!
//! Whoever drives an [`Array`] hands it the commands of its user and the completions of its members, carries out the
//! commands that it has for members, and hands out its answers. Bytes are behind [`Memory`].
//!
//! Invariants:
//! * Nothing here does I/O, reads a clock, starts a thread or asks the system for randomness.
//! * Every command is answered exactly once, in any order.
//! * A flush covers the writes and resets whose answer was handed out before the flush was submitted.

mod array;
pub mod bugs;
mod command;
mod memory;
mod status;

pub use array::{
    Access, Array, ArrayStart, FoundArray, LAST_EVENT, MemberStart, ReadMember, Rows, StartError,
    decide, find_rows, is_alone, layout_on, newest_label,
};
pub use command::{Command, Completion, Fault, Layout, Token};
pub use memory::Memory;
pub use status::{ArrayNotice, ArrayStatus, Healed, MemberState};
