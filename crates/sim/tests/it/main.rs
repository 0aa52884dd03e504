//! The engine in the simulated world, through the public interface only.

mod asking;
mod crash_states;
mod damage;
mod devices;
mod enumeration;
mod full_pool;
mod fuzz;
#[cfg(feature = "bugs")]
mod hunt;
mod lost_header;
mod marks;
mod members;
mod mixes;
mod scrub;
mod torn_twice;
mod unloaded;
mod worlds;

mod write_cache;
