//! The protocol as pure functions: no socket, no clock.
//!
//! Numbers cite *TCP* (NVMe/TCP Transport Specification 1.0), *Base* (NVMe Base Specification 2.0) and *NVM* (NVM
//! Command Set Specification 1.0).

pub mod command;
pub mod data;
pub mod pdu;
pub mod placement;

/// Bytes of in-capsule data, at most. Admin queues must take 8192 (TCP 3.5.1.1).
pub const IN_CAPSULE: usize = 8192;

/// Log of the largest transfer in pages of 4096 bytes: `MDTS` (Base 5.17.2.1).
pub const TRANSFER_PAGES_LOG: u8 = 8;

/// Bytes of the largest transfer.
pub const TRANSFER: u32 = 4096 << TRANSFER_PAGES_LOG;

/// Entries of the largest queue. Chosen, not measured.
pub const QUEUE: u16 = 128;

/// I/O queues of a controller, at most. Chosen, not measured.
pub const IO_QUEUES: u16 = 16;

/// Name of every discovery subsystem (Base 4.5).
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
