//! Which pages of a map are in memory: how pages are loaded, pinned and evicted.

use thermocline_format::{MapEntry, PAGE_ENTRIES, VolumeId};

use super::leaf::{self, Leaf, UNCOUNTED, clear, has};
use super::patches::Base;
use super::{Frame, MANY_CHANGES, Mapping, PAGE, UNMAPPED, Value, VolumeMap, split};

/// Whether a page is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is.
    Resident,
    /// No block of the page is mapped, and the page takes no memory.
    Empty,
    /// It is on media only.
    Absent,
}

/// Result of a search for a page to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swept {
    /// The page was evicted.
    Evicted,
    /// No page of this map did, from where the hand was to the end.
    Passed,
    /// The budget is spent.
    Pause,
}

/// State that an eviction forgets, for tests of the tests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forget {
    pub(crate) dirty: bool,
    pub(crate) staged: bool,
}

impl VolumeMap {
    /// Whether a page has a frame and is dirty.
    #[inline]
    pub(super) fn is_soiled(&self, page: u64) -> bool {
        let (root, index) = split(page);
        let Some(leaf) = &self.roots[root].leaf else { return false };
        (leaf.resident[index / 64] & leaf.dirty[index / 64]) >> (index % 64) & 1 == 1
    }

    /// A page is about to change: it has a frame and is dirty from now on.
    #[cold]
    pub(super) fn soil(&mut self, page: u64) {
        self.change(page, |leaf, index| {
            if leaf.frames[index].is_none() {
                leaf.put(index, Frame::emptied());
                leaf::set(&mut leaf.changed, index);
            }
            leaf::set(&mut leaf.dirty, index);
        });
    }

    /// A page in memory has more changes than are worth a patch.
    #[cold]
    pub(super) fn has_many_changes(&mut self, page: u64) {
        self.change(page, |leaf, index| leaf::set(&mut leaf.changed, index));
    }

    /// Changes the state of a page and updates the tally.
    pub(super) fn change<T>(&mut self, page: u64, change: impl FnOnce(&mut Leaf, usize) -> T) -> T {
        let (root, index) = split(page);
        let leaf = self.roots[root].leaf(&mut self.leaves);
        self.tally -= leaf.tally(index);
        let changed = change(leaf, index);
        self.tally += leaf.tally(index);
        self.changed = true;
        changed
    }

    /// Whether page `page` is in memory; if so, it was used.
    #[inline]
    pub(crate) fn touch(&mut self, page: u64) -> Presence {
        let (root, index) = split(page);
        match &mut self.roots[root].leaf {
            Some(leaf) if has(&leaf.resident, index) => {
                leaf::set(&mut leaf.referenced, index);
                Presence::Resident
            }
            Some(leaf) if !has(&leaf.loaded, index) => Presence::Absent,
            _ => Presence::Empty,
        }
    }

    /// The page differs from the copy on media, or the copy must be replaced.
    pub(crate) fn mark_dirty(&mut self, page: u64) {
        self.change(page, |leaf, index| leaf::set(&mut leaf.dirty, index));
    }

    /// The page, which is in memory, could not be written to where it was to be: it is nowhere else.
    pub(crate) fn mark_lost(&mut self, page: u64) {
        self.change(page, |leaf, index| {
            leaf::set(&mut leaf.dirty, index);
            clear(&mut leaf.placed, index);
        });
    }

    /// The page was written as it is, but for entries that lead to the stage, if `staged`: a record will lead to it.
    pub(crate) fn mark_written(&mut self, page: u64, staged: bool) {
        let from = staged.then_some(self.addresses.staged);
        self.change(page, |leaf, index| {
            clear(&mut leaf.dirty, index);
            clear(&mut leaf.changed, index);
            if let Some(frame) = &mut leaf.frames[index] {
                frame.written(from);
            }
            leaf::set(&mut leaf.flying, index);
        });
    }

    /// Every page that was written is as in a flushed record. Looks at pages from `from` on, 64 for each word of the
    /// budget.
    pub(crate) fn land(&mut self, from: &mut u64, budget: &mut u32) {
        while *from < self.pages() && *budget > 0 {
            *budget -= 1;
            let (root, index) = split(*from);
            let Some(leaf) = &mut self.roots[root].leaf else {
                *from = (root as u64 + 1) * PAGE;
                continue;
            };
            let word = index / 64;
            let landed = leaf.patched[word] & leaf.flying[word];
            let emptied = leaf.emptied(word).count_ones();
            leaf.flying[word] = 0;
            self.changed = true;
            self.tally.emptied -= u64::from(emptied - leaf.emptied(word).count_ones());
            self.forget_merged(*from - *from % 64, landed);
            *from += 64 - *from % 64;
        }
    }

    /// Garbage collection needs the page from now on. Returns whether it did not before.
    #[inline]
    pub(crate) fn pin(&mut self, page: u64) -> bool {
        let fresh = !self.is_pinned(page);
        if fresh {
            self.change(page, |leaf, index| leaf::set(&mut leaf.pinned, index));
        }
        fresh
    }

    /// Whether garbage collection needs the page.
    #[inline]
    pub(crate) fn is_pinned(&self, page: u64) -> bool {
        let (root, index) = split(page);
        self.roots[root].leaf.as_ref().is_some_and(|leaf| has(&leaf.pinned, index))
    }

    /// Garbage collection needs the page no more.
    pub(crate) fn unpin(&mut self, page: u64) {
        if page < self.pages() {
            self.change(page, |leaf, index| clear(&mut leaf.pinned, index));
        }
    }

    /// Whether the page is in memory and could be read again, unchanged or with a patch.
    pub(crate) fn is_idle(&self, page: u64) -> bool {
        let (root, index) = split(page);
        let leaf = self.roots.get(root).and_then(|root| root.leaf.as_ref());
        leaf.is_some_and(|leaf| leaf.idle(index / 64) >> (index % 64) & 1 == 1)
    }

    /// Moves the hand on from page `from` until a page gave its memory back: one that was not used since the hand came
    /// by, could be read again, and is not among those that `keep` names. Looks at 64 pages for a word of the budget.
    pub(crate) fn sweep(
        &mut self,
        from: &mut u64,
        budget: &mut u32,
        forget: Forget,
        keep: impl Fn(u64) -> bool,
        flies: impl Fn(VolumeId, u64, Value) -> bool,
    ) -> Swept {
        while *from < self.pages() {
            if *budget == 0 {
                return Swept::Pause;
            }
            *budget -= 1;
            let (root, index) = split(*from);
            let Some(leaf) = &mut self.roots[root].leaf else {
                *from = (root as u64 + 1) * PAGE;
                continue;
            };
            let (word, shift) = (index / 64, index % 64);
            let may = leaf.idle(word) >> shift << shift;
            let unused = may & !leaf.referenced[word];
            let behind = if unused == 0 { 64 } else { unused.trailing_zeros() as u64 };
            // Pages passed by the hand must be used again to stay.
            let passed = may & !(u64::MAX.checked_shl(behind as u32).unwrap_or(0));
            leaf.referenced[word] &= !passed;
            let found = *from - *from % 64 + behind;
            *from = (found + u64::from(behind < 64)).min((root as u64 + 1) * PAGE);
            if behind < 64 && !keep(found) {
                self.evict(found, forget, &flies);
                return Swept::Evicted;
            }
        }
        Swept::Passed
    }

    /// Evicts a page that is on media. Entries that differ from media are kept in a patch, except the state in
    /// `forget`, a mistake for tests of the tests. Entries for which `flies` holds are kept too, until a flushed record
    /// contains the page.
    pub(crate) fn evict(
        &mut self,
        page: u64,
        forget: Forget,
        flies: impl Fn(VolumeId, u64, Value) -> bool,
    ) {
        let (addresses, volume) = (self.addresses, self.id);
        self.change(page, |leaf, index| {
            let frame = leaf.frames[index].take().expect("it is in memory");
            leaf.take(index);
            clear(&mut leaf.loaded, index);
            if has(&leaf.flying, index) {
                for (entry, &says) in (0..).zip(&frame.entries) {
                    let value = addresses.mapping(says).value();
                    let lba = page * PAGE + u64::from(entry);
                    if value.is_some_and(|value| flies(volume, lba, value)) {
                        leaf.patch_mut(index).put_merged(entry, says);
                    }
                }
            }
            for (entry, says) in frame.changes() {
                let waits = matches!(addresses.mapping(says), Mapping::Staged(_));
                if !(if waits { forget.staged } else { forget.dirty }) {
                    leaf.patch_mut(index).put(entry, says, false);
                }
            }
        });
    }

    /// Evicts a page without mapped blocks.
    pub(crate) fn release(&mut self, page: u64) {
        let (root, index) = split(page);
        let leaf = self.roots[root].leaf.as_ref();
        let resident = leaf.is_some_and(|leaf| has(&leaf.resident, index));
        if resident && self.is_empty(page) {
            self.change(page, Leaf::take);
        }
    }

    /// Forgets a page without mapped blocks; a record will drop the page. Returns the page's place on media.
    pub(crate) fn drop_page(&mut self, page: u64) -> MapEntry {
        self.change(page, |leaf, index| {
            leaf.take(index);
            leaf.take_patch(index);
            leaf.mapped[index] = 0;
            leaf::set(&mut leaf.loaded, index);
            if has(&leaf.dirty, index) {
                leaf::set(&mut leaf.flying, index);
            }
            clear(&mut leaf.dirty, index);
        });
        self.move_page(page, MapEntry::UNMAPPED)
    }

    /// Forgets a page that will be beyond the end. Returns the page's place on media, and whether the page differed
    /// from the newest flushed record.
    pub(crate) fn cut_page(&mut self, page: u64) -> (MapEntry, bool) {
        let old = self.drop_page(page);
        let differed = self.change(page, |leaf, index| {
            let differed = has(&leaf.flying, index);
            clear(&mut leaf.flying, index);
            differed
        });
        (old, differed)
    }

    /// Takes over the pages of root `root`, which was read: none of them is loaded.
    pub(crate) fn adopt(&mut self, root: usize, pages: &[MapEntry; PAGE_ENTRIES]) {
        let leaf = self.roots[root].leaf(&mut self.leaves);
        leaf.at = *pages;
        for (index, _) in pages.iter().enumerate().filter(|(_, page)| !page.is_unmapped()) {
            clear(&mut leaf.loaded, index);
            leaf.note_place(index);
            leaf.mapped[index] = UNCOUNTED;
            self.tally.uncounted += 1;
            self.tally.absent += 1;
            self.tally.placed += 1;
            self.changed = true;
        }
    }

    /// Fills page `page` with entries read from media and with its patch. Returns the bases that counted until now.
    pub(crate) fn load(&mut self, page: u64, read: &[MapEntry]) -> Vec<Base> {
        let held = (self.blocks - page * PAGE).min(PAGE) as usize;
        let mut entries = [UNMAPPED; PAGE_ENTRIES];
        for (entry, read) in entries.iter_mut().zip(&read[..held]) {
            *entry = read.pack();
        }
        let bases = self.bases(page, &entries);
        self.change(page, |leaf, index| {
            let mut frame = Frame::of(entries);
            for patched in leaf.take_patch(index).iter() {
                frame.entries[usize::from(patched.index)] = patched.entry;
                if !patched.merged {
                    frame.note_change(usize::from(patched.index));
                }
            }
            if frame.changes >= MANY_CHANGES {
                leaf::set(&mut leaf.changed, index);
            }
            let mapped = frame.entries.iter().filter(|entry| **entry != UNMAPPED).count();
            leaf.put(index, frame);
            leaf.mapped[index] = mapped as u16;
            leaf::set(&mut leaf.loaded, index);
            leaf::set(&mut leaf.referenced, index);
        });
        bases
    }
}
