//! The known part of a page that is not in memory: the entries that changed after the page was written.
//!
//! The block that the page on media leads to in place of such an entry, its *base*, is not known. It goes on counting
//! as valid until the page is read, or garbage collection meets it.
//!
//! Invariants:
//! * Keys rise.
//! * Each key is of one of `groups`.

use thermocline_format::PAGE_ENTRIES;

/// Set in a key while the base counts as valid.
const COUNTED: u16 = 1 << 15;

/// Set in a key once the page on media has the same entry.
const MERGED: u16 = 1 << 14;

/// The entry number within a key.
const ENTRY: u16 = MERGED - 1;

/// Entries of a page for each bit of `groups`.
const GROUP: u16 = PAGE_ENTRIES as u16 / 64;

/// Entries that room is made for at once.
const GROWTH: usize = 16;

/// Memory of a patch in bytes, besides its entries. Includes the patch's share of its root.
const HEAD_BYTES: u64 = 128;

/// Entries of a page that changed since the page was written. An entry takes 10 bytes, and a patch at most 160 more.
#[derive(Debug, Default)]
pub(super) struct Patch {
    keys: Vec<u16>,
    entries: Vec<u64>,
    /// Entries whose base counts.
    counted: u16,
    /// A bit for each group of entries of the page of which any may be known: most that are looked for are not.
    groups: u64,
}

/// The bit of the group of entry `index`.
fn group(index: u16) -> u64 {
    1 << (index / GROUP)
}

/// An entry of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patched {
    /// Which entry of the page it is.
    pub(super) index: u16,
    /// The patched entry.
    pub(super) entry: u64,
    /// Whether its base counts as valid.
    pub(super) counted: bool,
    /// Whether the page on media has the same entry.
    pub(super) merged: bool,
}

impl Patch {
    /// Bytes of memory that a page's first entries take at most.
    pub(super) fn bytes_for(entries: u64) -> u64 {
        HEAD_BYTES + (entries + GROWTH as u64) * (size_of::<u16>() + size_of::<u64>()) as u64
    }

    fn find(&self, index: u16) -> Result<usize, usize> {
        self.keys.binary_search_by_key(&index, |key| key & ENTRY)
    }

    fn at(&self, place: usize) -> Patched {
        let key = self.keys[place];
        let (counted, merged) = (key & COUNTED != 0, key & MERGED != 0);
        Patched { index: key & ENTRY, entry: self.entries[place], counted, merged }
    }

    /// Entry `index` of the page, if it is known.
    pub(super) fn get(&self, index: u16) -> Option<Patched> {
        if self.groups & group(index) == 0 {
            return None;
        }
        self.find(index).ok().map(|place| self.at(place))
    }

    /// Sets the patched entry `index` to `entry`. If the entry is new in the patch, its base is `counted`.
    pub(super) fn put(&mut self, index: u16, entry: u64, counted: bool) {
        match self.find(index) {
            Ok(place) => {
                self.keys[place] &= !MERGED;
                self.entries[place] = entry;
            }
            Err(place) => {
                if self.keys.len() == self.keys.capacity() {
                    self.keys.reserve_exact(GROWTH);
                    self.entries.reserve_exact(GROWTH);
                }
                self.counted += u16::from(counted);
                self.groups |= group(index);
                self.keys.insert(place, index | if counted { COUNTED } else { 0 });
                self.entries.insert(place, entry);
            }
        }
    }

    /// Sets the patched entry `index` to `entry`, which the page on media has as well.
    pub(super) fn put_merged(&mut self, index: u16, entry: u64) {
        self.put(index, entry, false);
        let place = self.find(index).expect("it was just put there");
        self.keys[place] |= MERGED;
    }

    /// The base of entry `index` counts no more.
    pub(super) fn settle(&mut self, index: u16) {
        if let Ok(place) = self.find(index) {
            self.counted -= u16::from(self.keys[place] & COUNTED != 0);
            self.keys[place] &= !COUNTED;
        }
    }

    /// No base counts any more.
    pub(super) fn settle_all(&mut self) {
        self.keys.iter_mut().for_each(|key| *key &= !COUNTED);
        self.counted = 0;
    }

    /// Removes the patched entry `index`: the page on media has the same entry.
    pub(super) fn remove(&mut self, index: u16) {
        if let Ok(place) = self.find(index) {
            self.counted -= u16::from(self.keys.remove(place) & COUNTED != 0);
            self.entries.remove(place);
        }
    }

    /// The page on media has all patched entries, and no base counts. `keep` gets the index and the value of each
    /// entry. The result decides whether to keep the entry, and whether to mark the entry as merged.
    pub(super) fn merged(&mut self, keep: impl Fn(u16, u64) -> (bool, bool)) {
        let mut kept = 0;
        for place in 0..self.keys.len() {
            let (key, entry) = (self.keys[place], self.entries[place]);
            let (keeps, merged) = keep(key & ENTRY, entry);
            if keeps {
                self.keys[kept] = key & ENTRY | if merged { MERGED } else { 0 };
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        self.counted = 0;
        self.truncate(kept);
    }

    /// Forgets merged entries, which the page on media has as well.
    pub(super) fn forget_merged(&mut self) {
        let mut kept = 0;
        for place in 0..self.keys.len() {
            if self.keys[place] & MERGED == 0 {
                self.keys[kept] = self.keys[place];
                self.entries[kept] = self.entries[place];
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    fn truncate(&mut self, kept: usize) {
        self.keys.truncate(kept);
        self.groups = self.keys.iter().fold(0, |groups, key| groups | group(key & ENTRY));
        self.entries.truncate(kept);
        let least = kept.next_multiple_of(GROWTH);
        self.keys.shrink_to(least);
        self.entries.shrink_to(least);
    }

    /// All entries, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Patched> + '_ {
        (0..self.keys.len()).map(|place| self.at(place))
    }

    /// Entries whose base counts.
    pub(super) fn counted(&self) -> u64 {
        self.counted.into()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> u64 {
        let entries = self.keys.capacity() * size_of::<u16>();
        HEAD_BYTES + (entries + self.entries.capacity() * size_of::<u64>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(patch: &Patch) -> Vec<u16> {
        patch.iter().map(|patched| patched.index).collect()
    }

    #[test]
    fn an_entry_is_found_with_what_is_known_of_its_base() {
        let mut patch = Patch::default();
        for index in [7, 511, 0, 300] {
            patch.put(index, u64::from(index) * 3, true);
        }
        patch.put(8, 1, false);
        assert_eq!(indices(&patch), [0, 7, 8, 300, 511]);
        let known = Patched { index: 7, entry: 21, counted: true, merged: false };
        assert_eq!((patch.get(7), patch.get(9)), (Some(known), None));
        patch.settle(7);
        patch.put(7, 22, true);
        let known = Patched { index: 7, entry: 22, counted: false, merged: false };
        assert_eq!(patch.get(7), Some(known), "its base does not count again");
    }

    #[test]
    fn what_the_page_says_as_well_is_kept_until_it_is_forgotten_or_changes() {
        let mut patch = Patch::default();
        (0..40).for_each(|index| patch.put(index, index.into(), true));
        patch.merged(|_, says| (says % 2 == 0, says % 4 == 0));
        assert_eq!(indices(&patch), (0..40).step_by(2).collect::<Vec<_>>());
        assert!(patch.iter().all(|patched| !patched.counted));
        patch.put(4, 99, true);
        patch.forget_merged();
        let left: Vec<u16> =
            (0..40).step_by(2).filter(|index| index % 4 == 2 || *index == 4).collect();
        assert_eq!(indices(&patch), left);
        assert_eq!(patch.get(4).map(|patched| patched.counted), Some(false));
    }

    #[test]
    fn memory_follows_the_entries() {
        let mut patch = Patch::default();
        for index in 0..512 {
            patch.put(index, 0, true);
            assert!(patch.memory_bytes() <= Patch::bytes_for(patch.keys.len() as u64));
        }
        patch.merged(|_, _| (false, false));
        assert!(patch.is_empty() && patch.memory_bytes() == HEAD_BYTES);
    }
}
