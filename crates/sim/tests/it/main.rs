//! The engine in the simulated world, through the public interface only.

mod damage;
mod enumeration;
#[cfg(feature = "bugs")]
mod hunt;
mod mixes;
mod worlds;
mod write_cache;
