//! Lets changes of whole blocks pass together, and each change of parts of blocks alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a change passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Together with others of this kind.
    Shared,
    /// With no other under way.
    Alone,
}

/// The gate. Changes pass in the order in which they came, so none starves.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<State>>);

type Start = Box<dyn FnOnce(Pass) + Send>;

#[derive(Default)]
struct State {
    running: usize,
    alone: bool,
    waiting: VecDeque<(Access, Start)>,
}

/// A change is under way as long as it has this.
pub(crate) struct Pass(Gate);

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        let mut starts = Vec::new();
        while let Some((access, _)) = state.waiting.front()
            && state.lets(*access)
        {
            let (access, start) = state.waiting.pop_front().expect("it was there above");
            state.admit(access);
            starts.push(start);
        }
        drop(state);
        for start in starts {
            start(Pass(self.0.clone()));
        }
    }
}

impl Gate {
    /// Calls `start` when the change may begin: now, or when others have ended.
    pub(crate) fn enter(&self, access: Access, start: impl FnOnce(Pass) + Send + 'static) {
        let mut state = self.state();
        if !state.waiting.is_empty() || !state.lets(access) {
            state.waiting.push_back((access, Box::new(start)));
            return;
        }
        state.admit(access);
        drop(state); // What is started may end at once.
        start(Pass(self.clone()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lets(&self, access: Access) -> bool {
        self.running == 0 || access == Access::Shared && !self.alone
    }

    fn admit(&mut self, access: Access) {
        self.running += 1;
        self.alone = access == Access::Alone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enters changes and keeps the passes of those that began, with their numbers.
    #[derive(Default)]
    struct Log(Gate, Arc<Mutex<Vec<(u32, Pass)>>>);

    impl Log {
        fn enter(&self, number: u32, access: Access) {
            let begun = Arc::clone(&self.1);
            self.0.enter(access, move |pass| begun.lock().unwrap().push((number, pass)));
        }

        fn running(&self) -> Vec<u32> {
            self.1.lock().unwrap().iter().map(|(number, _)| *number).collect()
        }

        fn end(&self, number: u32) {
            let mut begun = self.1.lock().unwrap();
            let at = begun.iter().position(|(other, _)| *other == number).unwrap();
            let ended = begun.swap_remove(at);
            drop(begun);
            drop(ended);
        }
    }

    #[test]
    fn one_that_is_alone_waits_for_all_and_all_later_ones_for_it() {
        let log = Log::default();
        log.enter(0, Access::Shared);
        log.enter(1, Access::Shared);
        log.enter(2, Access::Alone);
        log.enter(3, Access::Shared);
        log.enter(4, Access::Shared);
        log.enter(5, Access::Alone);
        assert_eq!(log.running(), [0, 1]);
        log.end(0);
        assert_eq!(log.running(), [1]);
        log.end(1);
        assert_eq!(log.running(), [2]);
        log.end(2);
        assert_eq!(log.running(), [3, 4]);
        log.end(4);
        log.end(3);
        assert_eq!(log.running(), [5]);
        log.end(5);
        log.enter(6, Access::Shared);
        assert_eq!(log.running(), [6]);
    }
}
