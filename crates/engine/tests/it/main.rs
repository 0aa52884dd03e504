//! The engine through its public interface.

mod counters;
mod flushes;
mod many_units;
mod memory_device;
mod opening_ten_terabytes;
