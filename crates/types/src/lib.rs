//! Addresses, sizes, time, requests and causes shared by every Thermocline crate.
//!
//! Invariants:
//! * Nothing here does I/O, reads a clock or asks the system for randomness.
//! * Every address, size and instant is a newtype; arithmetic between different kinds does not compile.
#![cfg_attr(
    not(test),
    deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)
)]

mod bytes;
mod cause;
mod choice;
mod fault;
mod id;
mod request;
mod rng;
mod setting;
mod time;
mod version;

pub use bytes::{Bytes, ParseBytesError};
pub use cause::Cause;
pub use choice::{at_home, choices, nearest};
pub use fault::DeviceError;
pub use id::{Class, DeviceId, Lba, Pba, StreamId, TenantId, UnitId};
pub use request::{Op, Request};
pub use rng::Rng;
pub use setting::{Seconds, Setting, SettingKey, beyond};
pub use time::{ParseTimeError, Time};
pub use version::Version;
