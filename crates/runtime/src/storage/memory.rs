//! Media in memory.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::{UnitCondition, UnitReport};
use thermocline_types::{Bytes, Rng};

use super::inbox::Inbox;
use super::{Command, Completion, Fault, Layout, Storage, Token, Waker};
use crate::Buffer;

/// Bytes of a large page on most machines; on others the kernel refuses, and pages stay as they are.
const LARGE_PAGE: usize = 2 << 20;

/// Units in memory, for benches and tests. Carries out commands as they are submitted. Nothing survives it.
#[derive(Debug)]
pub struct Memory {
    layout: Layout,
    /// Bytes of units written at least once; unwritten units read as zeroes. A reset keeps the memory: to take and
    /// clear memory anew for each life of a unit would cost about as much as writing it.
    units: Vec<Option<Box<[u8]>>>,
    ready: Vec<Ready>,
    inbox: Arc<Inbox>,
    shuffle: Option<Rng>,
}

/// A command whose completion was not handed out.
#[derive(Debug)]
struct Ready {
    token: Token,
    /// A write that is still to be done.
    write: Option<(Bytes, Vec<Buffer>)>,
}

impl Memory {
    /// Empty media.
    ///
    /// # Panics
    /// If the process may not open two more descriptors.
    #[must_use]
    pub fn new(layout: Layout) -> Memory {
        let units = (0..layout.units).map(|_| None).collect();
        let inbox = Inbox::new().expect("the process may open descriptors");
        Memory { layout, units, ready: Vec::new(), inbox, shuffle: None }
    }

    /// Takes the memory of all units now, so that no write waits for the kernel to clear it.
    #[must_use]
    pub fn with_all_units(mut self) -> Memory {
        let size = self.layout.unit_bytes().0 as usize;
        for unit in &mut self.units {
            let mut bytes = zeroes(size);
            bytes.fill(0);
            *unit = Some(bytes);
        }
        self
    }

    /// Hands out completions in a random order derived from `seed`, and not all at once. A write takes effect at its
    /// completion: an earlier read returns the old contents.
    #[must_use]
    pub fn with_shuffled_completions(mut self, seed: u64) -> Memory {
        self.shuffle = Some(Rng::new(seed));
        self
    }

    fn write(&mut self, at: Bytes, parts: &[Buffer]) {
        let unit = self.layout.unit_of(at);
        let mut from = (at - self.layout.start(unit)).0 as usize;
        let size = self.layout.unit_bytes().0 as usize;
        let bytes = self.units[unit.index()].get_or_insert_with(|| zeroes(size));
        // Leases end after the last copy: the end of one waits until all that was stored before it has left the core.
        let parts: Vec<_> = parts.iter().map(Buffer::read).collect();
        for part in &parts {
            bytes[from..from + part.len()].copy_from_slice(part);
            from += part.len();
        }
    }

    fn read(&self, at: Bytes, into: &Buffer) {
        let unit = self.layout.unit_of(at);
        let from = (at - self.layout.start(unit)).0 as usize;
        match &self.units[unit.index()] {
            Some(bytes) => into.write().copy_from_slice(&bytes[from..from + into.len()]),
            None => into.write().fill(0),
        }
    }
}

/// `size` bytes, in large pages where the kernel has them: blocks at random places then cost no walk of page tables.
fn zeroes(size: usize) -> Box<[u8]> {
    let mut bytes: Box<[u8]> = vec![0; size].into();
    #[cfg(target_os = "linux")]
    if size >= LARGE_PAGE {
        let from = bytes.as_ptr().align_offset(LARGE_PAGE);
        let len = (size - from.min(size)) / LARGE_PAGE * LARGE_PAGE;
        let advice = rustix::mm::Advice::LinuxHugepage;
        // SAFETY: these are bytes of the box, and the advice changes none. Where it is not taken, pages stay small.
        let _ = unsafe { rustix::mm::madvise(bytes[from..].as_mut_ptr().cast(), len, advice) };
    }
    bytes
}

impl Storage for Memory {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, command: Command) {
        match command {
            Command::Write { at, parts, .. } if self.shuffle.is_some() => {
                return self.ready.push(Ready { token, write: Some((at, parts)) });
            }
            Command::Write { at, parts, .. } => self.write(at, &parts),
            Command::Read { at, into, .. } => self.read(at, &into),
            Command::Zero(unit) => self.units[unit.index()] = None,
            Command::Reset(_)
            | Command::Flush(_)
            | Command::Finish(_)
            | Command::Heal(_)
            | Command::Distrust { .. } => {}
        }
        self.ready.push(Ready { token, write: None });
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        if self.ready.is_empty() {
            return self.inbox.reap(wait, done);
        }
        let Memory { ready, shuffle, .. } = self;
        let handed_out: Vec<Ready> = match shuffle {
            Some(rng) => (0..=rng.below(ready.len() as u64))
                .map(|_| ready.swap_remove(rng.below(ready.len() as u64) as usize))
                .collect(),
            None => std::mem::take(ready),
        };
        for Ready { token, write } in handed_out {
            if let Some((at, parts)) = write {
                self.write(at, &parts);
            }
            done.push(Completion::new(token, Ok(())));
        }
    }

    fn waker(&self) -> Waker {
        self.inbox.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        into.push(self.inbox.descriptor());
    }

    fn timeout(&self) -> Option<Duration> {
        (!self.ready.is_empty()).then_some(Duration::ZERO)
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let good = UnitReport { condition: UnitCondition::Good, written: None };
        Ok(vec![good; self.layout.units as usize])
    }
}
