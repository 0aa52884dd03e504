//! Simulated flash drives.
pub mod profile;
