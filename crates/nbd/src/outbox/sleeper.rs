//! One thread that sleeps until there is something for it, and others that wake it.
//!
//! Invariants:
//! * Whoever adds something and then notifies, or wakes, keeps the sleeper from sleeping, or rings for it.

use super::sync::{AtomicBool, Ordering};

/// Whether the sleeper sleeps, and whether somebody woke it.
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// Whether it sleeps, or is about to, and nobody has rung for it.
    asleep: AtomicBool,
    /// Whether somebody woke it for another reason than something that was added since it last looked.
    woken: AtomicBool,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper { asleep: AtomicBool::new(false), woken: AtomicBool::new(false) }
    }

    /// Something was added. Calls `ring` if the sleeper sleeps.
    pub(crate) fn notify(&self, ring: impl FnOnce()) {
        // Sequentially consistent, here and in `prepare`: either this sees that somebody sleeps, or that one sees what
        // was added before.
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            ring();
        }
    }

    /// Ends the sleep, or keeps it from beginning.
    pub(crate) fn wake(&self, ring: impl FnOnce()) {
        self.woken.store(true, Ordering::SeqCst);
        self.notify(ring);
    }

    /// From now on whoever notifies must ring. Returns whether `has_news` or somebody has woken it; then it must not
    /// sleep.
    pub(crate) fn prepare(&self, has_news: impl FnOnce() -> bool) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let woken = self.woken.swap(false, Ordering::SeqCst);
        woken || has_news()
    }

    /// Ends [`Sleeper::prepare`].
    pub(crate) fn end(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
