//! Transfers on the caller's own thread, for files in memory.
//!
//! There a transfer is a copy. To hand it to another thread, be it one of the kernel's, costs several times as much.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::io::Action;
use super::threads::carry_out;
use super::{Completion, Fault, Token, Waker};

pub(super) struct Inline {
    file: Arc<File>,
    ready: Vec<Completion>,
    wake: Arc<WakeEvent>,
}

/// The wake-up event.
struct WakeEvent {
    event: OwnedFd,
    /// Whether `event` is readable and nobody has read it.
    signalled: AtomicBool,
}

/// Whether the file is in memory: on tmpfs or ramfs (`linux/magic.h`).
pub(super) fn is_in_memory(file: &File) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58F6;
    rustix::fs::fstatfs(file).is_ok_and(|found| [TMPFS, RAMFS].contains(&(found.f_type as u64)))
}

impl Inline {
    /// Transfers of `file`, each done when it is submitted.
    pub(super) fn new(file: Arc<File>) -> io::Result<Inline> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let wake = Arc::new(WakeEvent { event, signalled: AtomicBool::new(false) });
        Ok(Inline { file, ready: Vec::new(), wake })
    }

    pub(super) fn submit(&mut self, token: Token, action: Action) {
        let result = carry_out(&self.file, action).map_err(Fault::from);
        self.ready.push(Completion::new(token, result));
    }

    pub(super) fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        if self.ready.is_empty() && wait != Some(Duration::ZERO) {
            let timeout = wait.map(|wait| Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            });
            let mut fds = [PollFd::from_borrowed_fd(self.wake.event.as_fd(), PollFlags::IN)];
            // An error is a signal: this may return sooner.
            let _ready = poll(&mut fds, timeout.as_ref());
        }
        if self.wake.signalled.swap(false, Ordering::AcqRel) {
            let _count = rustix::io::read(&self.wake.event, &mut [0; 8]);
        }
        done.append(&mut self.ready);
    }

    pub(super) fn waker(&self) -> Waker {
        let wake = Arc::clone(&self.wake);
        Arc::new(move || {
            // It fails only when 2^64 - 2 wakes are pending; then the waiter wakes anyway.
            let _pending = rustix::io::write(&wake.event, &1_u64.to_le_bytes());
            wake.signalled.store(true, Ordering::Release);
        })
    }

    /// As [`super::Storage::descriptor`]: it tells of the waker, since completions never make anybody wait.
    pub(super) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.wake.event.try_clone().ok()
    }
}
