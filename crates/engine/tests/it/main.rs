//! The engine through its public interface.

mod flushes;
mod many_units;
mod memory_device;
mod opening_ten_terabytes;
