//! Several storages as one: the units of each follow those of the one before.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use thermocline_engine::UnitReport;
use thermocline_types::{Bytes, DeviceId, UnitId};

use super::{Command, Completion, Fault, Layout, Storage, Token, Waker};

/// How long one storage is waited for while others, that nobody can be told of by the system, may have completions.
/// Chosen, not measured: such storages are for simulated drives and systems without `io_uring`.
const TURN: Duration = Duration::from_micros(100);

/// A storage, and its units in the whole.
struct Part {
    storage: Box<dyn Storage>,
    first: u32,
    units: u32,
    /// What it is waited with, where there is one.
    ready: Option<OwnedFd>,
}

/// Several storages as one, whose units are counted through all of them. Logical blocks and units are of one size.
///
/// Offsets are those of units side by side, whatever gaps there are on the storages themselves. Each of them is a
/// device to be flushed on its own.
pub struct Joined {
    parts: Vec<Part>,
    layout: Layout,
    woken: Arc<AtomicBool>,
}

impl Joined {
    /// The first `units` units of each storage.
    ///
    /// # Panics
    /// If there is none, if one has fewer units, or if they are not divided alike.
    #[must_use]
    pub fn new(storages: Vec<(Box<dyn Storage>, u32)>) -> Joined {
        let one = *storages.first().expect("a pool has a device").0.layout();
        let mut first = 0;
        let mut parts = Vec::with_capacity(storages.len());
        for (mut storage, units) in storages {
            let layout = storage.layout();
            let alike = layout.logical_block == one.logical_block
                && layout.blocks_per_unit == one.blocks_per_unit;
            assert!(alike && layout.units >= units, "{layout:?} is not divided like {one:?}");
            let ready = storage.descriptor();
            parts.push(Part { storage, first, units, ready });
            first += units;
        }
        let layout = Layout::contiguous(one.logical_block, one.blocks_per_unit, first);
        Joined { parts, layout, woken: Arc::default() }
    }

    fn part_of(&self, unit: UnitId) -> usize {
        let behind = self.parts.partition_point(|part| part.first <= unit.0);
        behind.checked_sub(1).expect("the first part begins with unit 0")
    }

    /// The part in which a byte is, and its offset there.
    fn place(&self, at: Bytes) -> (usize, Bytes) {
        let unit = self.layout.unit_of(at);
        let part = self.part_of(unit);
        let own = UnitId(unit.0 - self.parts[part].first);
        let inside = at.0 - self.layout.start(unit).0;
        (part, self.parts[part].storage.layout().start(own) + Bytes(inside))
    }

    fn unit(&self, unit: UnitId) -> (usize, UnitId) {
        let part = self.part_of(unit);
        (part, UnitId(unit.0 - self.parts[part].first))
    }

    /// The part that carries a command out, and the command as it is there.
    fn route(&self, command: Command) -> (usize, Command) {
        match command {
            Command::Write { at, parts, class } => {
                let (part, at) = self.place(at);
                (part, Command::Write { at, parts, class })
            }
            Command::Read { at, into } => {
                let (part, at) = self.place(at);
                (part, Command::Read { at, into })
            }
            Command::Flush(device) => (device.index(), Command::Flush(DeviceId(0))),
            Command::Reset(unit) => {
                let (part, unit) = self.unit(unit);
                (part, Command::Reset(unit))
            }
            Command::Zero(unit) => {
                let (part, unit) = self.unit(unit);
                (part, Command::Zero(unit))
            }
            Command::Finish(unit) => {
                let (part, unit) = self.unit(unit);
                (part, Command::Finish(unit))
            }
        }
    }

    /// Waits until some part may have completions, or all was woken, for `wait` at most.
    fn wait(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        if self.parts.iter().any(|part| part.ready.is_none()) {
            return self.take_turns(wait, done);
        }
        let ready = self.parts.iter().filter_map(|part| part.ready.as_ref());
        let mut all: Vec<PollFd<'_>> = ready.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let time = wait.and_then(|wait| Timespec::try_from(wait).ok());
        // Every error (a signal) is a reason to look for completions.
        let _looked_at_next = poll(&mut all, time.as_ref());
    }

    fn take_turns(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        while done.is_empty() && !self.woken.load(Ordering::Acquire) {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            for part in &mut self.parts {
                let turn = if done.is_empty() { TURN } else { Duration::ZERO };
                part.storage.reap(Some(left.map_or(turn, |left| left.min(turn))), done);
            }
        }
    }
}

impl Storage for Joined {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, command: Command) {
        let (part, command) = self.route(command);
        self.parts[part].storage.submit(token, command);
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        // Looking at a part ends its own being woken, so what was woken since is remembered here.
        let woken = self.woken.swap(false, Ordering::AcqRel);
        let mut found = Vec::new();
        for part in &mut self.parts {
            part.storage.reap(Some(Duration::ZERO), &mut found);
        }
        let waits = !woken && wait != Some(Duration::ZERO) && found.is_empty();
        if waits && !self.woken.load(Ordering::Acquire) {
            self.wait(wait, &mut found);
            for part in &mut self.parts {
                part.storage.reap(Some(Duration::ZERO), &mut found);
            }
        }
        done.append(&mut found);
    }

    fn waker(&self) -> Waker {
        let wakers: Vec<Waker> = self.parts.iter().map(|part| part.storage.waker()).collect();
        let woken = Arc::clone(&self.woken);
        Arc::new(move || {
            woken.store(true, Ordering::Release);
            wakers.iter().for_each(|wake| wake());
        })
    }

    /// An `epoll` that is readable when the descriptor of a part is.
    fn descriptor(&mut self) -> Option<OwnedFd> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        for part in &self.parts {
            let ready = part.ready.as_ref()?.as_fd();
            epoll::add(&all, ready, epoll::EventData::new_u64(0), epoll::EventFlags::IN).ok()?;
        }
        Some(all)
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let mut all = Vec::with_capacity(self.layout.units as usize);
        for part in &mut self.parts {
            let reports = part.storage.report()?;
            all.extend(reports.into_iter().take(part.units as usize));
        }
        Ok(all)
    }
}
