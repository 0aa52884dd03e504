//! One completion for several requests.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Completion, TargetError};

/// Collects what a number of requests return, and completes with all of it, ordered by key, or with the first error.
pub(super) struct Join<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    missing: usize,
    collected: Vec<(u64, T)>,
    failed: Option<TargetError>,
    done: Option<Completion<Vec<(u64, T)>>>,
}

impl<T: Send + 'static> Join<T> {
    /// Completes `done` after `parts` parts, of which there must be one at least.
    pub(super) fn new(parts: usize, done: Completion<Vec<(u64, T)>>) -> Self {
        assert!(parts > 0, "nothing to wait for");
        let state = State { missing: parts, collected: Vec::new(), failed: None, done: Some(done) };
        Join(Arc::new(Mutex::new(state)))
    }

    /// The completion of one part.
    pub(super) fn part(&self, key: u64) -> Completion<T> {
        let state = Arc::clone(&self.0);
        Completion::new(move |result| finish_part(&state, key, result))
    }
}

fn finish_part<T>(state: &Mutex<State<T>>, key: u64, result: Result<T, TargetError>) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
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
