//! Block targets as files under a mount point, by FUSE: every [`Export`](thermocline_target::Export) is one file, which
//! programs open, and loop devices take, as they would any other.
//!
//! Invariants:
//! * A request of the kernel is answered once, from the completion of the target; no thread waits for media.
//! * Nothing that is written is cached, here or in the kernel: a write is answered after the target completed it, and
//!   `fsync` after the target completed a flush that was submitted later than that.
//! * A change of bytes that are no whole logical blocks loses none of another change of these blocks that went through
//!   the same mount.

mod disk;
mod files;
mod mount;

pub use mount::{MountError, Mounted, Unmounted, mount};
