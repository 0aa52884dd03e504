//! Transfers by io_uring.
//!
//! The thread that owns the storage uses a single ring. File and ring are registered, to save a look-up per transfer.
//! Memory is not registered, because memory comes from growing pools.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use slab::Slab;

use super::io::Action;
use super::threads::Threads;
use super::{Completion, Token, Waker};
use crate::buffer::{ReadLease, WriteLease};

/// Transfers started by a single system call; more can be in flight. Chosen, not measured.
const ENTRIES: u32 = 256;

/// Token of the poll of the wake-up event; no slot has this number.
const WAKE: u64 = u64::MAX;

/// The registered file.
const FILE: Fixed = Fixed(0);

/// The C structure `iovec`: where bytes are, and how many.
#[repr(C)]
struct IoVec {
    bytes: *mut u8,
    len: usize,
}

/// A transfer under way. The kernel reads `vectors`, and what they point at, until it is complete.
struct Slot {
    token: Token,
    at: u64,
    vectors: Vec<IoVec>,
    /// The first of `vectors` that is not finished.
    next: usize,
    kind: Kind,
}

/// Kind of transfer. Leases keep the memory alive and exclusive.
enum Kind {
    Write { _leases: Vec<ReadLease>, stream: u8 },
    Read { _lease: WriteLease },
    Sync,
}

pub(super) struct Ring {
    /// Before `slots`: dropped while these still are.
    ring: IoUring,
    slots: Slab<Slot>,
    /// Empty vectors of ended transfers.
    spare: Vec<Vec<IoVec>>,
    event: Arc<OwnedFd>,
    /// Whether the kernel watches `event`.
    watched: bool,
    /// Whether the event fired since the last [`Ring::reap`]. The next reap must not wait.
    woken: bool,
    ready: Vec<Completion>,
    file: Arc<File>,
    /// For calls, started with the first.
    helper: Option<Threads>,
    calls: usize,
}

// SAFETY: the pointers in the slots are to memory that the leases beside them own, and those are Send.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring for transfers of `file`.
    pub(super) fn new(file: Arc<File>) -> io::Result<Ring> {
        let ring = IoUring::builder().setup_coop_taskrun().build(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed =
            [opcode::Readv::CODE, opcode::Writev::CODE, opcode::Fsync::CODE, opcode::PollAdd::CODE];
        let supported = needed.into_iter().all(|code| probe.is_supported(code));
        if !supported || !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Ring {
            ring,
            slots: Slab::new(),
            spare: Vec::new(),
            event,
            watched: false,
            woken: false,
            ready: Vec::new(),
            file,
            helper: None,
            calls: 0,
        })
    }

    pub(super) fn submit(&mut self, token: Token, action: Action) {
        let mut vectors = self.spare.pop().unwrap_or_default();
        let (at, kind) = match action {
            Action::Call(call) => return self.call(token, Action::Call(call)),
            Action::Sync => (0, Kind::Sync),
            Action::Read { at, into } => {
                let lease = into.into_writing();
                let (bytes, len) = lease.raw();
                vectors.push(IoVec { bytes, len });
                (at.0, Kind::Read { _lease: lease })
            }
            Action::Write { at, parts, stream } => {
                let leases: Vec<_> = parts.into_iter().map(|part| part.into_reading()).collect();
                gather(&leases, &mut vectors);
                (at.0, Kind::Write { _leases: leases, stream })
            }
        };
        let slot = self.slots.insert(Slot { token, at, vectors, next: 0, kind });
        self.start(slot);
    }

    /// Has another thread do what could keep the kernel busy for long.
    fn call(&mut self, token: Token, action: Action) {
        if self.helper.is_none() {
            match Threads::waking(&self.file, 1, &self.waker()) {
                Ok(threads) => self.helper = Some(threads),
                Err(_) => {
                    let result = Err(Errno::AGAIN.into());
                    return self.ready.push(Completion::new(token, result));
                }
            }
        }
        self.calls += 1;
        self.helper.as_mut().expect("just made").submit(token, action);
    }

    /// Queues the transfer in `slot`, or what is left of it.
    fn start(&mut self, slot: usize) {
        let transfer = &self.slots[slot];
        let vectors = &transfer.vectors[transfer.next..];
        let (first, count) = (vectors.as_ptr(), vectors.len() as u32);
        let entry = match transfer.kind {
            Kind::Write { stream, .. } => opcode::Writev::new(FILE, first.cast(), count)
                .offset(transfer.at)
                .write_stream(stream)
                .build(),
            Kind::Read { .. } => {
                opcode::Readv::new(FILE, first.cast(), count).offset(transfer.at).build()
            }
            Kind::Sync => opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC).build(),
        };
        self.push(&entry.user_data(slot as u64));
    }

    fn push(&mut self, entry: &Entry) {
        loop {
            // SAFETY: the entry points at the memory of vectors and leases of a slot, which stays until the completion.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            // The queue is full: submit its entries to the kernel. The kernel refuses if too many completions are
            // pending: collect the completions first.
            if self.ring.submit().is_err() {
                self.collect();
            }
        }
    }

    pub(super) fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        self.collect();
        self.watch();
        if !self.ready.is_empty() || self.woken || wait == Some(Duration::ZERO) {
            if !self.slots.is_empty() || !self.ring.submission().is_empty() {
                // An error here shows again, or is of a transfer and comes with its completion.
                let _again = self.ring.submit();
            }
        } else {
            self.wait(wait);
        }
        self.collect();
        self.woken = false;
        done.append(&mut self.ready);
    }

    /// Has the kernel tell when `event` is readable.
    fn watch(&mut self) {
        if !self.watched {
            let event = io_uring::types::Fd(self.event.as_raw_fd());
            let flags = rustix::event::PollFlags::IN.bits().into();
            self.push(&opcode::PollAdd::new(event, flags).build().user_data(WAKE));
            self.watched = true;
        }
    }

    /// As of [`super::Storage::descriptors`]: the ring itself.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring has its descriptor open for as long as it lives, and the borrow ends before.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    fn wait(&self, wait: Option<Duration>) {
        // Every error (a signal, the end of the time, too many completions) is a reason to look for completions.
        let _looked_at_next = match wait {
            None => self.ring.submit_and_wait(1),
            Some(wait) => {
                let time = Timespec::from(wait);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
    }

    /// Takes what the kernel and the helper have finished.
    fn collect(&mut self) {
        loop {
            let Some(entry) = self.ring.completion().next() else { break };
            if entry.user_data() == WAKE {
                self.watched = false;
                self.woken = true;
                let _count = rustix::io::read(&*self.event, &mut [0; 8]);
            } else {
                self.finish(entry.user_data() as usize, entry.result());
            }
        }
        if self.calls > 0 {
            let before = self.ready.len();
            if let Some(helper) = &mut self.helper {
                helper.reap(Some(Duration::ZERO), &mut self.ready);
            }
            self.calls -= self.ready.len() - before;
        }
    }

    /// Ends the transfer in `slot`, or goes on with it if it was cut short.
    fn finish(&mut self, slot: usize, result: i32) {
        let result = match result {
            0.. => Ok(result as usize),
            _ => Err(Errno::from_raw_os_error(-result)),
        };
        let result = match result {
            Err(Errno::INTR | Errno::AGAIN) => return self.start(slot),
            Err(error) => Err(error.into()),
            Ok(bytes) => {
                let transfer = &mut self.slots[slot];
                let progressed = bytes > 0;
                transfer.advance(bytes);
                if transfer.next == transfer.vectors.len() {
                    Ok(())
                } else if progressed {
                    return self.start(slot);
                } else {
                    Err(Errno::IO.into())
                }
            }
        };
        let Slot { token, mut vectors, .. } = self.slots.remove(slot);
        vectors.clear();
        self.spare.push(vectors);
        self.ready.push(Completion::new(token, result));
    }

    pub(super) fn waker(&self) -> Waker {
        let event = Arc::clone(&self.event);
        Arc::new(move || {
            // It fails only when 2^64 - 2 wakes are pending; then the waiter wakes anyway.
            let _pending = rustix::io::write(&*event, &1_u64.to_le_bytes());
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write to the memory of the slots.
        while !self.slots.is_empty() {
            self.wait(None);
            self.collect();
        }
    }
}

impl Slot {
    /// Notes that `bytes` more are transferred.
    fn advance(&mut self, mut bytes: usize) {
        self.at += bytes as u64;
        while let Some(vector) = self.vectors.get_mut(self.next) {
            if bytes < vector.len {
                vector.bytes = vector.bytes.wrapping_add(bytes);
                vector.len -= bytes;
                return;
            }
            bytes -= vector.len;
            self.next += 1;
        }
    }
}

/// One vector for each run of bytes that follow each other in memory.
fn gather(leases: &[ReadLease], vectors: &mut Vec<IoVec>) {
    let mut before: Option<&ReadLease> = None;
    for lease in leases {
        let (bytes, len) = lease.raw();
        match vectors.last_mut() {
            Some(last) if before.is_some_and(|before| before.is_before(lease)) => last.len += len,
            _ => vectors.push(IoVec { bytes: bytes.cast_mut(), len }),
        }
        before = Some(lease);
    }
}
