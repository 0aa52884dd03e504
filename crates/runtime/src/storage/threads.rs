//! Transfers by a pool of threads: works wherever there are positioned reads and writes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::io::{Errno, preadv, pwritev};

use super::inbox::Inbox;
use super::io::Action;
use super::{Completion, Fault, Token, Waker};
use crate::Buffer;

/// A pool of threads that carry out actions on a file, in any order.
pub(super) struct Threads {
    queue: Arc<Queue>,
    inbox: Arc<Inbox>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    actions: VecDeque<(Token, Action)>,
    closed: bool,
}

impl Threads {
    pub(super) fn new(file: &Arc<File>, count: usize) -> io::Result<Threads> {
        let nobody: Waker = Arc::new(|| {});
        Threads::waking(file, count, &nobody)
    }

    /// As `new`; and `wake` is called after each completion.
    pub(super) fn waking(file: &Arc<File>, count: usize, wake: &Waker) -> io::Result<Threads> {
        let mut threads =
            Threads { queue: Arc::default(), inbox: Inbox::new()?, workers: Vec::new() };
        for _ in 0..count.max(1) {
            let (queue, inbox) = (Arc::clone(&threads.queue), Arc::clone(&threads.inbox));
            let (file, wake) = (Arc::clone(file), Arc::clone(wake));
            let work = move || {
                while let Some((token, action)) = queue.pop() {
                    let result = carry_out(&file, action).map_err(Fault::from);
                    inbox.push(Completion::new(token, result));
                    wake();
                }
            };
            threads.workers.push(Builder::new().name("thermocline-io".to_owned()).spawn(work)?);
        }
        Ok(threads)
    }

    pub(super) fn submit(&mut self, token: Token, action: Action) {
        self.queue.state().actions.push_back((token, action));
        self.queue.more.notify_one();
    }

    pub(super) fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        self.inbox.reap(wait, done);
    }

    pub(super) fn waker(&self) -> Waker {
        self.inbox.waker()
    }

    /// Readable after a completion or a wake.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inbox.descriptor()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.queue.state().closed = true;
        self.queue.more.notify_all();
        for worker in self.workers.drain(..) {
            // A panicked worker has printed its message. Ignore the panic here.
            drop(worker.join());
        }
    }
}

impl Queue {
    /// The next action; `None` at the end.
    fn pop(&self) -> Option<(Token, Action)> {
        let mut state = self.state();
        loop {
            if let Some(next) = state.actions.pop_front() {
                return Some(next);
            }
            if state.closed {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out an action, and waits until that is done.
pub(super) fn carry_out(file: &File, action: Action) -> Result<(), Errno> {
    match action {
        Action::Write { at, parts, .. } => write_all(file, at.0, &parts),
        Action::Read { at, into } => read_all(file, at.0, &into),
        Action::Sync => rustix::fs::fdatasync(file),
        Action::Call(call) => call(),
    }
}

fn write_all(file: &File, mut at: u64, parts: &[Buffer]) -> Result<(), Errno> {
    let leases: Vec<_> = parts.iter().map(Buffer::read).collect();
    let mut slices: Vec<IoSlice<'_>> = leases.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match pwritev(file, left, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                at += written as u64;
                IoSlice::advance_slices(&mut left, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_all(file: &File, mut at: u64, into: &Buffer) -> Result<(), Errno> {
    let mut lease = into.write();
    let mut left = &mut lease[..];
    while !left.is_empty() {
        match preadv(file, &mut [IoSliceMut::new(left)], at) {
            Ok(0) => return Err(Errno::IO),
            Ok(read) => {
                at += read as u64;
                left = &mut left[read..];
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
