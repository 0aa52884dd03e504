//! Several storages with a single waiting thread.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermocline_nand::Counters;
use thermocline_types::Bytes;

use super::inbox::wait_for;
use super::{Command, Completion, Storage, Token, Waker};

/// Rounds of looking at commands begun in answer to completions, before other storages have a turn. Chosen, not
/// measured.
pub(super) const ROUNDS: usize = 4;

/// Storages in fixed places. Places may be empty.
pub(super) struct Parts {
    parts: Vec<Option<Box<dyn Storage>>>,
    /// Counters of removed storages.
    taken: Option<Counters>,
    woken: Arc<AtomicBool>,
    wakers: Arc<Mutex<Vec<Option<Waker>>>>,
}

impl Parts {
    pub(super) fn new(storages: impl IntoIterator<Item = Option<Box<dyn Storage>>>) -> Parts {
        let (woken, wakers) = (Arc::default(), Arc::default());
        let mut parts = Parts { parts: Vec::new(), taken: None, woken, wakers };
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
    pub(super) fn put(&mut self, place: usize, storage: Box<dyn Storage>) {
        assert!(self.parts[place].is_none(), "a storage is there");
        self.wakers()[place] = Some(storage.waker());
        self.parts[place] = Some(storage);
    }

    /// Takes a storage out.
    pub(super) fn take(&mut self, place: usize) -> Option<Box<dyn Storage>> {
        self.wakers()[place] = None;
        let storage = self.parts[place].take()?;
        self.taken = sum(self.taken, storage.drive_counters());
        Some(storage)
    }

    pub(super) fn get(&self, place: usize) -> Option<&dyn Storage> {
        self.parts[place].as_deref()
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Box<dyn Storage>> {
        self.parts[place].as_mut()
    }

    /// Sum of [`Storage::drive_counters`] over present and removed storages. The sum never falls. `None` if a present
    /// storage has no counters.
    pub(super) fn drive_counters(&self) -> Option<Counters> {
        let mut all = self.taken;
        for part in self.parts.iter().flatten() {
            all = sum(all, Some(part.drive_counters()?));
        }
        all
    }

    /// Sum of [`Storage::drive_media`] over present storages.
    pub(super) fn drive_media(&self) -> Bytes {
        Bytes(self.parts.iter().flatten().map(|part| part.drive_media().0).sum())
    }

    /// # Panics
    /// If no storage is in this place.
    pub(super) fn submit(&mut self, place: usize, token: Token, command: Command) {
        let part = self.parts[place].as_mut().expect("a storage is there");
        part.submit(token, command);
    }

    /// As [`Storage::reap`], with the place of each completion.
    pub(super) fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<(usize, Completion)>) {
        // Reaping a part clears the part's wake-up, so the wake-up is noted here first.
        let woken = self.woken.swap(false, Ordering::AcqRel);
        let before = done.len();
        self.look(done);
        let waits = !woken && wait != Some(Duration::ZERO) && done.len() == before;
        if waits && !self.woken.load(Ordering::Acquire) {
            // A group that was just looked at may have handed its members commands that begin next time.
            let wait = wait.into_iter().chain(self.timeout()).min();
            let mut descriptors = Vec::new();
            self.descriptors(&mut descriptors);
            wait_for(&descriptors, wait);
            self.look(done);
        }
    }

    /// Takes the completions of each part.
    fn look(&mut self, found: &mut Vec<(usize, Completion)>) {
        let mut own = Vec::new();
        for (place, part) in self.parts.iter_mut().enumerate() {
            let Some(part) = part else { continue };
            part.reap(Some(Duration::ZERO), &mut own);
            found.extend(own.drain(..).map(|completion| (place, completion)));
        }
    }

    /// As [`Storage::timeout`].
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.parts.iter().flatten().filter_map(|part| part.timeout()).min()
    }

    /// As [`Storage::descriptors`].
    pub(super) fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.parts.iter().flatten().for_each(|part| part.descriptors(into));
    }

    pub(super) fn waker(&self) -> Waker {
        let (woken, wakers) = (Arc::clone(&self.woken), Arc::clone(&self.wakers));
        Arc::new(move || {
            woken.store(true, Ordering::Release);
            lock(&wakers).iter().flatten().for_each(|wake| wake());
        })
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
