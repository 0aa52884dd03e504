//! The log layer: the engine over a simulated drive in virtual time.
//!
//! `plan` cuts a drive into units and sets the engine up, `device` carries out the engine's commands,
//! `machine` lets both work together, and `target` has them serve requests. `group` is a device of several drives.
//!
//! User data is not kept, only the structures that the engine writes, so that what it wrote can be read again and a
//! pool closed and opened.

pub mod device;
mod group;
mod host;
mod ledger;
pub mod machine;
mod members;
mod options;
mod part;
mod payload;
pub mod plan;
mod stored_chunks;
mod target;

pub use options::{GroupOption, LogOptions};

#[cfg(test)]
mod flush_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod thin_tests;
