//! Block targets as block devices of Linux, by ublk: every [`Export`](thermocline_target::Export) is one `/dev/ublkbN`.
//! The kernel passes requests through io_uring; commands and structures of the driver are in this crate.
//!
//! Invariants:
//! * A request of the kernel is answered once, after the target completed it; no thread here waits for media.
//! * A device in use outlives a service that ends in order, and its unanswered requests do too: the next server with
//!   the same record gets both.
//! * A device that outlives its server has lost no answered change. Else its users get errors.
//! * The number of a device is stored before the device starts.

mod abi;
mod devices;
mod queues;
mod record;
mod uring;
mod volume;

pub use devices::{Options, Ublk, UblkError, UblkNews, probe};
