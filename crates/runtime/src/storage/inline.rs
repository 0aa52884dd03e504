//! Transfers on the caller's own thread, for files in memory.
//!
//! There a transfer is a copy. To hand it to another thread, be it one of the kernel's, costs several times as much.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::inbox::Inbox;
use super::io::Action;
use super::threads::carry_out;
use super::{Completion, Fault, Token, Waker};

pub(super) struct Inline {
    file: Arc<File>,
    ready: Vec<Completion>,
    inbox: Arc<Inbox>,
}

/// Whether the file is in memory: a regular file on tmpfs or ramfs (`linux/magic.h`). Device nodes are on tmpfs too.
pub(super) fn is_in_memory(file: &File) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58F6;
    let on_memory = |found: rustix::fs::StatFs| [TMPFS, RAMFS].contains(&(found.f_type as u64));
    file.metadata().is_ok_and(|found| found.is_file())
        && rustix::fs::fstatfs(file).is_ok_and(on_memory)
}

impl Inline {
    /// Transfers of `file`, each done when it is submitted.
    pub(super) fn new(file: Arc<File>) -> io::Result<Inline> {
        Ok(Inline { file, ready: Vec::new(), inbox: Inbox::new()? })
    }

    pub(super) fn submit(&mut self, token: Token, action: Action) {
        let result = carry_out(&self.file, action).map_err(Fault::from);
        self.ready.push(Completion::new(token, result));
    }

    pub(super) fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        let wait = if self.ready.is_empty() { wait } else { Some(Duration::ZERO) };
        self.inbox.reap(wait, done);
        done.append(&mut self.ready);
    }

    pub(super) fn waker(&self) -> Waker {
        self.inbox.waker()
    }

    /// Readable after a wake. Completions are ready at once.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inbox.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of devices are on a file system in memory (devtmpfs); the devices are not.
    #[test]
    fn a_device_is_not_in_memory() {
        let node = File::open("/dev/null").unwrap();
        let found = rustix::fs::fstatfs(&node).unwrap();
        assert!(!is_in_memory(&node), "on a file system of type {:x}", found.f_type);
    }
}
