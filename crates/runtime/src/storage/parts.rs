//! Several storages with a single waiting thread.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use thermocline_nand::Counters;

use super::{Command, Completion, Storage, Token, Waker};

/// Longest wait for one storage while storages without a descriptor may have completions. Chosen, not measured: such
/// storages are for simulated drives and systems without `io_uring`.
pub(super) const TURN: Duration = Duration::from_micros(100);

/// Rounds of looking at commands begun in answer to completions, before other storages have a turn. Chosen, not
/// measured.
pub(super) const ROUNDS: usize = 4;

/// A storage, and the descriptor to wait for, if any.
struct Part {
    storage: Box<dyn Storage>,
    ready: Option<OwnedFd>,
}

/// Storages in fixed places. Places may be empty.
pub(super) struct Parts {
    parts: Vec<Option<Part>>,
    /// Counters of removed storages.
    taken: Option<Counters>,
    woken: Arc<AtomicBool>,
    wakers: Arc<Mutex<Vec<Option<Waker>>>>,
    /// Descriptor for outside waiters, made on demand: readable when the descriptor of a part is readable.
    all: Option<OwnedFd>,
}

impl Parts {
    pub(super) fn new(storages: impl IntoIterator<Item = Option<Box<dyn Storage>>>) -> Parts {
        let (woken, wakers) = (Arc::default(), Arc::default());
        let mut parts = Parts { parts: Vec::new(), taken: None, woken, wakers, all: None };
        for storage in storages {
            parts.parts.push(None);
            parts.wakers().push(None);
            if let Some(storage) = storage {
                parts.put(parts.parts.len() - 1, storage);
            }
        }
        parts
    }

    /// Puts a storage into an empty place.
    ///
    /// # Panics
    /// If the place is not empty.
    pub(super) fn put(&mut self, place: usize, mut storage: Box<dyn Storage>) {
        assert!(self.parts[place].is_none(), "a storage is there");
        let ready = storage.descriptor();
        if let (Some(all), Some(ready)) = (&self.all, &ready) {
            // After a failure, a waiter sees the storage's completions only at the next look.
            let _later = watch(all, ready);
        }
        self.wakers()[place] = Some(storage.waker());
        self.parts[place] = Some(Part { storage, ready });
    }

    /// Takes a storage out.
    pub(super) fn take(&mut self, place: usize) -> Option<Box<dyn Storage>> {
        self.wakers()[place] = None;
        let part = self.parts[place].take()?;
        self.taken = sum(self.taken, part.storage.drive_counters());
        if let (Some(all), Some(ready)) = (&self.all, &part.ready) {
            // After a failure, closing the descriptor removes it.
            let _closed = epoll::delete(all, ready.as_fd());
        }
        Some(part.storage)
    }

    pub(super) fn get(&self, place: usize) -> Option<&dyn Storage> {
        self.parts[place].as_ref().map(|part| &*part.storage)
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Box<dyn Storage>> {
        self.parts[place].as_mut().map(|part| &mut part.storage)
    }

    /// Sum of [`Storage::drive_counters`] over present and removed storages. The sum never falls. `None` if a present
    /// storage has no counters.
    pub(super) fn drive_counters(&self) -> Option<Counters> {
        let mut all = self.taken;
        for part in self.parts.iter().flatten() {
            all = sum(all, Some(part.storage.drive_counters()?));
        }
        all
    }

    /// # Panics
    /// If no storage is in this place.
    pub(super) fn submit(&mut self, place: usize, token: Token, command: Command) {
        let part = self.parts[place].as_mut().expect("a storage is there");
        part.storage.submit(token, command);
    }

    /// As [`Storage::reap`], with the place of each completion.
    pub(super) fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<(usize, Completion)>) {
        // Reaping a part clears the part's wake-up, so the wake-up is noted here first.
        let woken = self.woken.swap(false, Ordering::AcqRel);
        let mut found = Vec::new();
        self.look(Duration::ZERO, &mut found);
        let waits = !woken && wait != Some(Duration::ZERO) && found.is_empty();
        if waits && !self.woken.load(Ordering::Acquire) {
            self.wait(wait, &mut found);
            self.look(Duration::ZERO, &mut found);
        }
        done.append(&mut found);
    }

    /// Reaps each part; waits for each for `turn`, until one has something.
    fn look(&mut self, turn: Duration, found: &mut Vec<(usize, Completion)>) {
        let mut own = Vec::new();
        for (place, part) in self.parts.iter_mut().enumerate() {
            let Some(part) = part else { continue };
            let turn = if found.is_empty() { turn } else { Duration::ZERO };
            part.storage.reap(Some(turn), &mut own);
            found.extend(own.drain(..).map(|completion| (place, completion)));
        }
    }

    /// Waits until some part may have completions, or all was woken, for `wait` at most; and no longer than each part
    /// may be left alone. A group that was just looked at may have handed its members commands that begin next time.
    fn wait(&mut self, wait: Option<Duration>, found: &mut Vec<(usize, Completion)>) {
        let alone = self.parts.iter().flatten().filter_map(|part| part.storage.timeout());
        let wait = wait.into_iter().chain(alone).min();
        if !self.have_descriptors() {
            return self.take_turns(wait, found);
        }
        let ready = self.parts.iter().flatten().filter_map(|part| part.ready.as_ref());
        let mut all: Vec<PollFd<'_>> = ready.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let time = wait.and_then(|wait| Timespec::try_from(wait).ok());
        // Every error (a signal) is a reason to look for completions.
        let _looked_at_next = poll(&mut all, time.as_ref());
    }

    fn take_turns(&mut self, wait: Option<Duration>, found: &mut Vec<(usize, Completion)>) {
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        while found.is_empty() && !self.woken.load(Ordering::Acquire) {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            self.look(left.map_or(TURN, |left| left.min(TURN)), found);
        }
    }

    /// Whether each part has a descriptor to wait for.
    pub(super) fn have_descriptors(&self) -> bool {
        self.parts.iter().flatten().all(|part| part.ready.is_some())
    }

    pub(super) fn waker(&self) -> Waker {
        let (woken, wakers) = (Arc::clone(&self.woken), Arc::clone(&self.wakers));
        Arc::new(move || {
            woken.store(true, Ordering::Release);
            lock(&wakers).iter().flatten().for_each(|wake| wake());
        })
    }

    /// An `epoll` that is readable when the descriptor of a part is, also of one that comes later.
    pub(super) fn descriptor(&mut self) -> Option<OwnedFd> {
        if !self.have_descriptors() {
            return None;
        }
        let all = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        for part in self.parts.iter().flatten() {
            watch(&all, part.ready.as_ref()?).ok()?;
        }
        self.all = Some(all.try_clone().ok()?);
        Some(all)
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<Option<Waker>>> {
        lock(&self.wakers)
    }
}

fn sum(one: Option<Counters>, other: Option<Counters>) -> Option<Counters> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.plus(&other)),
        (one, other) => one.or(other),
    }
}

fn lock(wakers: &Mutex<Vec<Option<Waker>>>) -> MutexGuard<'_, Vec<Option<Waker>>> {
    // Wakers do not panic, and nothing else runs under the lock.
    wakers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(all: &OwnedFd, ready: &OwnedFd) -> rustix::io::Result<()> {
    epoll::add(all, ready.as_fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)
}
