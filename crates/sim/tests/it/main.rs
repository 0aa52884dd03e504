//! The engine in the simulated world, through the public interface only.

mod enumeration;
mod worlds;
