//! The ways to have the system carry out transfers.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use thermocline_types::Bytes;

#[cfg(target_os = "linux")]
use super::inline::{self, Inline};
#[cfg(target_os = "linux")]
use super::ring::Ring;
use super::threads::Threads;
use super::{Completion, Token, Waker};
use crate::Buffer;

/// How transfers are handed to the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoEngine {
    /// The caller's thread for files in memory. Else io_uring if the kernel has what is needed and allows it, else
    /// threads.
    #[default]
    Auto,
    /// The caller's thread, which waits for each transfer; where there is no Linux, threads.
    Inline,
    /// io_uring, or an error.
    Uring,
    /// A pool of threads, each in one positioned read or write at a time.
    Threads,
}

impl IoEngine {
    /// All of them.
    pub const ALL: [IoEngine; 4] =
        [IoEngine::Auto, IoEngine::Uring, IoEngine::Threads, IoEngine::Inline];

    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            IoEngine::Auto => "auto",
            IoEngine::Inline => "inline",
            IoEngine::Uring => "uring",
            IoEngine::Threads => "threads",
        }
    }
}

/// A job that is no transfer.
pub(super) type Call = Box<dyn FnOnce() -> Result<(), Errno> + Send>;

/// An action on the file.
pub(super) enum Action {
    /// Write the parts behind each other, to a write stream of the device; 0 is none. Only io_uring has streams.
    Write { at: Bytes, parts: Vec<Buffer>, stream: u8 },
    /// Fill the buffer.
    Read { at: Bytes, into: Buffer },
    /// Make written data durable.
    Sync,
    /// Call a function, which may take long.
    Call(Call),
}

/// A file, and the transfers under way.
pub(super) enum Io {
    #[cfg(target_os = "linux")]
    Inline(Inline),
    #[cfg(target_os = "linux")]
    Uring(Box<Ring>),
    Threads(Threads),
}

impl Io {
    /// Prepares transfers of `file`; `threads` for those of [`IoEngine::Threads`].
    pub(super) fn new(file: &Arc<fs::File>, engine: IoEngine, threads: usize) -> io::Result<Io> {
        #[cfg(target_os = "linux")]
        if engine == IoEngine::Inline || engine == IoEngine::Auto && inline::is_in_memory(file) {
            return Ok(Io::Inline(Inline::new(Arc::clone(file))?));
        }
        #[cfg(target_os = "linux")]
        if engine != IoEngine::Threads {
            match Ring::new(Arc::clone(file)) {
                Ok(ring) => return Ok(Io::Uring(Box::new(ring))),
                Err(error) if engine == IoEngine::Uring => return Err(error),
                Err(_) => {}
            }
        }
        #[cfg(not(target_os = "linux"))]
        if engine == IoEngine::Uring {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Io::Threads(Threads::new(file, threads)?))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Io::Inline(_) => "inline",
            #[cfg(target_os = "linux")]
            Io::Uring(_) => "io_uring",
            Io::Threads(_) => "threads",
        }
    }

    pub(super) fn submit(&mut self, token: Token, action: Action) {
        match self {
            #[cfg(target_os = "linux")]
            Io::Inline(inline) => inline.submit(token, action),
            #[cfg(target_os = "linux")]
            Io::Uring(ring) => ring.submit(token, action),
            Io::Threads(threads) => threads.submit(token, action),
        }
    }

    pub(super) fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        match self {
            #[cfg(target_os = "linux")]
            Io::Inline(inline) => inline.reap(wait, done),
            #[cfg(target_os = "linux")]
            Io::Uring(ring) => ring.reap(wait, done),
            Io::Threads(threads) => threads.reap(wait, done),
        }
    }

    pub(super) fn waker(&self) -> Waker {
        match self {
            #[cfg(target_os = "linux")]
            Io::Inline(inline) => inline.waker(),
            #[cfg(target_os = "linux")]
            Io::Uring(ring) => ring.waker(),
            Io::Threads(threads) => threads.waker(),
        }
    }

    /// As of [`super::Storage::descriptors`].
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            #[cfg(target_os = "linux")]
            Io::Inline(inline) => inline.descriptor(),
            #[cfg(target_os = "linux")]
            Io::Uring(ring) => ring.descriptor(),
            Io::Threads(threads) => threads.descriptor(),
        }
    }
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
