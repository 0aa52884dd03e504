//! One completion for several requests.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Completion, Owner, TargetError};

/// Collects what a number of requests return, and completes with all of it, ordered by key, or with the first error.
pub struct Join<T>(Mutex<State<T>>);

struct State<T> {
    missing: u64,
    collected: Vec<(u64, T)>,
    failed: Option<TargetError>,
    done: Option<Completion<Vec<(u64, T)>>>,
}

impl<T: Send + 'static> Join<T> {
    /// Completes `done` after `parts` parts.
    ///
    /// # Panics
    /// If there is no part.
    #[must_use]
    pub fn new(parts: u64, done: Completion<Vec<(u64, T)>>) -> Arc<Join<T>> {
        assert!(parts > 0, "nothing to wait for");
        let state = State { missing: parts, collected: Vec::new(), failed: None, done: Some(done) };
        Arc::new(Join(Mutex::new(state)))
    }

    /// The completion of one part.
    #[must_use]
    pub fn part(self: &Arc<Self>, key: u64) -> Completion<T> {
        Completion::of(Arc::<Join<T>>::clone(self), key)
    }
}

impl<T: Send> Owner<T> for Join<T> {
    fn completed(&self, key: u64, result: Result<T, TargetError>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(value) => state.collected.push((key, value)),
            Err(error) => {
                state.failed.get_or_insert(error);
            }
        }
        state.missing -= 1;
        if state.missing > 0 {
            return;
        }
        let mut collected = std::mem::take(&mut state.collected);
        let failed = state.failed;
        let done = state.done.take().expect("complete only once, after the last part");
        drop(state); // The completion may do anything.
        collected.sort_by_key(|&(key, _)| key);
        done.complete(failed.map_or(Ok(collected), Err));
    }
}

impl<T> std::fmt::Debug for Join<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Join")
    }
}
