//! Worlds of the shell, and its deliberate bugs.

#[cfg(feature = "bugs")]
mod hunt;
mod worlds;
