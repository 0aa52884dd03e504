//! Changes of blocks that are under way.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a change treats the blocks of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whole blocks are replaced. Other changes may replace the same blocks meanwhile.
    Replace,
    /// Blocks are read, changed and written. No other change of the same blocks runs meanwhile.
    Modify,
}

/// The changes under way and the changes that wait, in the order of their arrival.
///
/// A change waits for each earlier change of the same blocks if one of the two modifies; so no change starves.
///
/// While no change modifies, changes are only counted and take no lock. The first change that modifies waits for all
/// counted changes. Later changes are listed with their blocks.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// The number of changes that are only counted, and the bit [`LISTED`].
    counted: AtomicU64,
    state: Mutex<State>,
}

/// New changes are listed, because a change modifies or waits for its turn. The bit changes under the lock only.
const LISTED: u64 = 1 << 63;

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// How many entries modify.
    modifying: usize,
    entries: BTreeMap<u64, Entry>,
}

struct Entry {
    blocks: Range<u64>,
    access: Access,
    start: Option<Start>,
}

type Start = Box<dyn FnOnce(Change) + Send>;

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.access, self.blocks)
    }
}

/// A change under way. The drop of this value ends the change and starts the changes that waited for this one alone.
#[derive(Debug)]
pub(crate) struct Change {
    ranges: Arc<Ranges>,
    /// The number of a listed change.
    listed: Option<u64>,
}

impl Drop for Change {
    fn drop(&mut self) {
        let before = match self.listed {
            Some(id) => return self.ranges.leave(Some(id)),
            None => self.ranges.counted.fetch_sub(1, Ordering::AcqRel),
        };
        if before == LISTED + 1 {
            self.ranges.leave(None);
        }
    }
}

impl Ranges {
    /// Calls `start` as soon as the change may begin: now, or at the end of another change.
    pub(crate) fn enter(
        self: &Arc<Self>,
        blocks: Range<u64>,
        access: Access,
        start: impl FnOnce(Change) + Send + 'static,
    ) {
        let change = |listed| Change { ranges: Arc::clone(self), listed };
        let one_more = |counted: u64| (counted & LISTED == 0).then(|| counted + 1);
        let count = || self.counted.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        if access == Access::Replace && count().is_ok() {
            return start(change(None));
        }
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        if access == Access::Modify {
            state.modifying += 1;
            self.counted.fetch_or(LISTED, Ordering::AcqRel);
        }
        let mut entry = Entry { blocks, access, start: None };
        if state.must_wait(self.are_counted(), id, &entry) {
            entry.start = Some(Box::new(start));
            state.entries.insert(id, entry);
            return;
        }
        state.entries.insert(id, entry);
        drop(state); // The change may end before `start` returns.
        start(change(Some(id)));
    }

    /// Ends a listed change, or notes the end of the last counted one. Starts the changes that may begin now.
    fn leave(self: &Arc<Self>, id: Option<u64>) {
        let mut state = self.state();
        if let Some(id) = id {
            let entry = state.entries.remove(&id).expect("a change ends once, after it began");
            if entry.access == Access::Modify {
                state.modifying -= 1;
                if state.modifying == 0 {
                    self.counted.fetch_and(!LISTED, Ordering::AcqRel);
                }
            }
        }
        let counted = self.are_counted();
        let first = id.unwrap_or(0);
        let waiting = state.entries.range(first..).filter(|(_, entry)| entry.start.is_some());
        let free = waiting.filter(|&(&id, entry)| !state.must_wait(counted, id, entry));
        let free: Vec<u64> = free.map(|(&id, _)| id).collect();
        let take = |id| Some((id, state.entries.get_mut(&id)?.start.take()?));
        let starts: Vec<(u64, Start)> = free.into_iter().filter_map(take).collect();
        drop(state);
        for (id, start) in starts {
            start(Change { ranges: Arc::clone(self), listed: Some(id) });
        }
    }

    /// Whether counted changes are under way.
    fn are_counted(&self) -> bool {
        self.counted.load(Ordering::Acquire) & !LISTED > 0
    }

    /// Changes that have entered and not ended.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        let counted = self.counted.load(Ordering::Acquire);
        assert!(
            counted & LISTED == 0 || self.state().modifying > 0,
            "changes are listed for no one"
        );
        self.state().entries.len() + (counted & !LISTED) as usize
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a change waits for counted changes, or for a change listed earlier.
    fn must_wait(&self, are_counted: bool, id: u64, new: &Entry) -> bool {
        let conflicts = |old: &Entry| {
            (old.access == Access::Modify || new.access == Access::Modify)
                && old.blocks.start < new.blocks.end
                && new.blocks.start < old.blocks.end
        };
        are_counted && new.access == Access::Modify
            || self.modifying > 0 && self.entries.range(..id).any(|(_, old)| conflicts(old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes by number, and which of them were started.
    #[derive(Default)]
    struct Log {
        ranges: Arc<Ranges>,
        entered: u64,
        under_way: Arc<Mutex<BTreeMap<u64, Change>>>,
        heard: Vec<u64>,
    }

    impl Log {
        fn enter(&mut self, blocks: Range<u64>, access: Access) {
            let (number, under_way) = (self.entered, Arc::clone(&self.under_way));
            self.entered += 1;
            let start = move |change| {
                under_way.lock().unwrap().insert(number, change);
            };
            self.ranges.enter(blocks, access, start);
        }

        fn end(&mut self, number: u64) {
            let change = self.under_way.lock().unwrap().remove(&number);
            drop(change.expect("it was started"));
        }

        /// Changes that were started since the last call.
        fn started(&mut self) -> Vec<u64> {
            let all: Vec<u64> = self.under_way.lock().unwrap().keys().copied().collect();
            let new = all.into_iter().filter(|number| !self.heard.contains(number));
            let new: Vec<u64> = new.collect();
            self.heard.extend(&new);
            new
        }
    }

    #[test]
    fn replacing_waits_for_nobody_that_replaces() {
        let mut log = Log::default();
        log.enter(0..4, Access::Replace);
        log.enter(2..6, Access::Replace);
        assert_eq!(log.started(), [0, 1]);
    }

    #[test]
    fn modifying_is_alone_in_its_blocks_and_in_turn() {
        let mut log = Log::default();
        log.enter(0..4, Access::Replace);
        log.enter(3..4, Access::Modify);
        log.enter(3..4, Access::Modify);
        log.enter(3..9, Access::Replace);
        log.enter(8..9, Access::Modify); // Waits for the change before, which waits itself.
        log.enter(4..5, Access::Replace);
        assert_eq!(log.started(), [0, 5]);
        log.end(0);
        assert_eq!(log.started(), [1]);
        log.end(1);
        assert_eq!(log.started(), [2]);
        log.end(5);
        assert_eq!(log.started(), []);
        log.end(2);
        assert_eq!(log.started(), [3]);
        log.end(3);
        assert_eq!(log.started(), [4]);
        log.end(4);
        assert_eq!(log.ranges.in_flight(), 0);
    }

    #[test]
    fn modifying_waits_for_all_that_replace_and_are_not_listed() {
        let mut log = Log::default();
        log.enter(0..1, Access::Replace);
        log.enter(8..9, Access::Replace);
        log.enter(4..5, Access::Modify);
        log.enter(4..5, Access::Replace);
        assert_eq!(log.started(), [0, 1]);
        log.end(1);
        assert_eq!(log.started(), []);
        log.end(0);
        assert_eq!(log.started(), [2]);
        log.end(2);
        assert_eq!(log.started(), [3]);
        log.enter(4..6, Access::Replace);
        log.end(3);
        log.enter(4..6, Access::Modify);
        assert_eq!(log.started(), [4]);
        log.end(4);
        assert_eq!(log.started(), [5]);
        log.end(5);
        assert_eq!(log.ranges.in_flight(), 0);
    }

    #[test]
    fn changes_of_several_threads_keep_to_the_rules() {
        const MODIFIED: u64 = 1 << 32;
        let ranges = Arc::new(Ranges::default());
        let [running, ended] = [0; 2].map(|zero| Arc::new(AtomicU64::new(zero)));
        let work = &|thread: u64| {
            for number in 0..300 {
                let modifies = (number + thread).is_multiple_of(5);
                let access = if modifies { Access::Modify } else { Access::Replace };
                let (running, ended) = (Arc::clone(&running), Arc::clone(&ended));
                ranges.enter(0..1, access, move |change| {
                    let by = if modifies { MODIFIED } else { 1 };
                    let others = running.fetch_add(by, Ordering::AcqRel);
                    assert!(if modifies { others == 0 } else { others < MODIFIED });
                    std::thread::yield_now();
                    running.fetch_sub(by, Ordering::AcqRel);
                    drop(change);
                    ended.fetch_add(1, Ordering::AcqRel);
                });
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| _ = scope.spawn(move || work(thread))));
        assert_eq!(ended.load(Ordering::Acquire), 1200);
        assert_eq!(ranges.in_flight(), 0);
    }
}
