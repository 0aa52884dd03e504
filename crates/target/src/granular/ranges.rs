//! Who changes which blocks at the moment.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a change treats the blocks of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Whole blocks are replaced: others may do so at the same time.
    Replace,
    /// Blocks are read, changed and written: nobody else may change them meanwhile.
    Modify,
}

/// The changes under way and those that wait, in the order in which they came.
///
/// A change waits for every earlier one, waiting or not, that overlaps it if one of the two modifies; so none starves.
#[derive(Debug, Default)]
pub(super) struct Ranges(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// How many entries modify. As long as none does, nobody has to look at the others.
    modifying: usize,
    entries: BTreeMap<u64, Entry>,
}

struct Entry {
    blocks: Range<u64>,
    access: Access,
    start: Option<Start>,
}

type Start = Box<dyn FnOnce(u64) + Send>;

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.access, self.blocks)
    }
}

impl Ranges {
    /// Calls `start` with the number of the change as soon as it may begin: now, or when another one leaves.
    pub(super) fn enter(
        &self,
        blocks: Range<u64>,
        access: Access,
        start: impl FnOnce(u64) + Send + 'static,
    ) {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        state.modifying += usize::from(access == Access::Modify);
        let mut entry = Entry { blocks, access, start: None };
        if state.must_wait(id, &entry) {
            entry.start = Some(Box::new(start));
            state.entries.insert(id, entry);
            return;
        }
        state.entries.insert(id, entry);
        drop(state); // What is started may complete at once and leave.
        start(id);
    }

    /// Ends a change, and starts those that waited for it only.
    pub(super) fn leave(&self, id: u64) {
        let mut state = self.state();
        let entry = state.entries.remove(&id).expect("a change leaves once, after it entered");
        if state.modifying == 0 {
            return; // Then nobody waits.
        }
        state.modifying -= usize::from(entry.access == Access::Modify);
        let waiting = state.entries.range(id..).filter(|(_, entry)| entry.start.is_some());
        let free = waiting.filter(|&(&id, entry)| !state.must_wait(id, entry));
        let free: Vec<u64> = free.map(|(&id, _)| id).collect();
        let take = |id| Some((id, state.entries.get_mut(&id)?.start.take()?));
        let starts: Vec<(u64, Start)> = free.into_iter().filter_map(take).collect();
        drop(state);
        for (id, start) in starts {
            start(id);
        }
    }

    /// Changes that have entered and not left.
    #[cfg(test)]
    pub(super) fn in_flight(&self) -> usize {
        self.state().entries.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn must_wait(&self, id: u64, new: &Entry) -> bool {
        let conflicts = |old: &Entry| {
            (old.access == Access::Modify || new.access == Access::Modify)
                && old.blocks.start < new.blocks.end
                && new.blocks.start < old.blocks.end
        };
        self.modifying > 0 && self.entries.range(..id).any(|(_, old)| conflicts(old))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Enters changes and says which have been started.
    #[derive(Default)]
    struct Log(Ranges, Arc<Mutex<Vec<u64>>>);

    impl Log {
        fn enter(&self, blocks: Range<u64>, access: Access) {
            let started = Arc::clone(&self.1);
            self.0.enter(blocks, access, move |id| started.lock().unwrap().push(id));
        }

        fn started(&self) -> Vec<u64> {
            std::mem::take(&mut self.1.lock().unwrap())
        }
    }

    #[test]
    fn replacing_waits_for_nobody_that_replaces() {
        let log = Log::default();
        log.enter(0..4, Access::Replace);
        log.enter(2..6, Access::Replace);
        assert_eq!(log.started(), [0, 1]);
    }

    #[test]
    fn modifying_is_alone_in_its_blocks_and_in_turn() {
        let log = Log::default();
        log.enter(0..4, Access::Replace);
        log.enter(3..4, Access::Modify);
        log.enter(3..4, Access::Modify);
        log.enter(3..9, Access::Replace);
        log.enter(8..9, Access::Modify); // Waits behind the one before, though that has not begun.
        log.enter(4..5, Access::Replace);
        assert_eq!(log.started(), [0, 5]);
        log.0.leave(0);
        assert_eq!(log.started(), [1]);
        log.0.leave(1);
        assert_eq!(log.started(), [2]);
        log.0.leave(5);
        assert_eq!(log.started(), []);
        log.0.leave(2);
        assert_eq!(log.started(), [3]);
        log.0.leave(3);
        assert_eq!(log.started(), [4]);
        log.0.leave(4);
        assert_eq!(log.0.in_flight(), 0);
        assert_eq!(log.0.state().modifying, 0);
    }
}
