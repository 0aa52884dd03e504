//! A thread that sleeps while it has no work, and the threads that wake it.
//!
//! Invariants:
//! * A thread that adds work and then notifies, or wakes, rings for the sleeper or keeps the sleeper awake.

use super::sync::{AtomicBool, Ordering, fence};

/// Whether the sleeper sleeps, and whether a thread woke the sleeper.
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// The thread sleeps or is about to sleep, and no ring has come.
    asleep: AtomicBool,
    /// A thread has woken the sleeper, without adding work, since the sleeper last looked.
    woken: AtomicBool,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper { asleep: AtomicBool::new(false), woken: AtomicBool::new(false) }
    }

    /// Work was added. Calls `ring` if the sleeper sleeps.
    pub(crate) fn notify(&self, ring: impl FnOnce()) {
        // Sequentially consistent, here and in `prepare`: either this thread sees the sleep, or the sleeper sees the
        // added work.
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            ring();
        }
    }

    /// Ends the sleep, or keeps it from beginning.
    pub(crate) fn wake(&self, ring: impl FnOnce()) {
        self.woken.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.notify(ring);
    }

    /// From now on a thread that notifies must ring. Returns whether `has_news`, or a thread has woken the sleeper: the
    /// sleeper must not sleep then.
    pub(crate) fn prepare(&self, has_news: impl FnOnce() -> bool) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let woken = self.woken.swap(false, Ordering::SeqCst);
        woken || has_news()
    }

    /// Ends [`Sleeper::prepare`].
    pub(crate) fn end(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
