//! The engine through its public interface.

mod allocation;
mod collecting;
mod counters;
mod cut_short;
mod devices_change;
mod failed_trims;
mod flushes;
mod full_volumes;
mod given_up;
mod holes;
mod many_units;
mod memory_device;
mod opening_ten_terabytes;
mod records;
mod reserves;
mod retired;
mod small_memory;
mod tiers;
mod vast;
