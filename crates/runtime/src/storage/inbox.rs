//! Completions on their way from other threads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Completion, Waker};

/// Takes completions from any thread; one thread waits for them.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    complete: Vec<Completion>,
    woken: bool,
}

impl Inbox {
    pub(super) fn push(&self, completion: Completion) {
        self.state().complete.push(completion);
        self.changed.notify_one();
    }

    /// As [`super::Storage::reap`].
    pub(super) fn reap(&self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
        let mut state = self.state();
        while state.complete.is_empty() && !state.woken {
            let Some(deadline) = deadline else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.woken = false;
        done.append(&mut state.complete);
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        let inbox = Arc::clone(self);
        Arc::new(move || {
            inbox.state().woken = true;
            inbox.changed.notify_one();
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
