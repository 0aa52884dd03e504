//! Block targets as files under a mount point, by FUSE: every [`Volume`] is one file, which programs
//! open, and loop devices take, as they would any other.
//!
//! Invariants:
//! * A request of the kernel is answered once, from the completion of the target; no thread waits for media.
//! * Nothing that is written is cached, here or in the kernel: a write is answered after the target completed it, and
//!   `fsync` after the target completed a flush that was submitted later than that.
//! * A change of bytes that are no whole logical blocks loses none of another change of these blocks that went through
//!   the same mount.

mod directory;
mod disk;
mod files;
mod mount;

use std::sync::Arc;

use thermocline_target::BlockTarget;

pub use directory::Directory;
pub use mount::{MountError, Mounted, Unmounted, mount};

/// What becomes a file.
#[derive(Clone)]
pub struct Volume {
    /// Name of the file.
    pub name: String,
    /// Its bytes. Where other front ends serve the same ones, the target must be the same too.
    pub target: Arc<dyn BlockTarget>,
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Volume({:?})", self.name)
    }
}
