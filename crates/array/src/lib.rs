//! Redundancy: several members as one device, as a state machine that does no I/O.
//!
//! The owner of an [`Array`] hands it the commands of its user and the completions of its members. The owner carries
//! out the array's commands on members, and delivers the array's answers. [`Memory`] provides the bytes.
//!
//! Invariants:
//! * No code here does I/O, reads a clock, starts a thread or asks the system for randomness.
//! * Every command is answered exactly once, in any order.
//! * A flush covers the writes and resets that were answered before the flush was submitted.
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod array;
pub mod bugs;
mod command;
mod memory;
mod status;
mod written;

pub use array::{
    Access, Array, ArrayStart, FoundArray, LAST_EVENT, MemberStart, ReadMember, Rows, StartError,
    decide, find_rows, is_alone, layout_on, newest_label,
};
pub use command::{Command, Completion, Fault, HealRange, Layout, Token};
pub use memory::Memory;
pub use status::{ArrayNotice, ArrayStatus, Healed, MemberState};
pub use written::{ByteCause, WrittenBytes};
