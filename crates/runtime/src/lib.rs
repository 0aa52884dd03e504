//! The log engine on real media: storages of bytes, and the driver that carries out on them what the engine asks.
//!
//! Invariants:
//! * User data is not copied between the request and the device's own transfer; see [`Buffer`].
//! * A write of a [`storage::Command`] is handed to the system as one vectored write.
//! * Nobody waits without a bound for anything but the device.

mod buffer;
mod device;
pub mod storage;

pub use buffer::{Buffer, Reading, Writing};
pub use device::Device;
