//! What a policy remembers of every block.

use prefetch_index::prefetch_index;
use thermocline_types::Lba;

/// Values in a page: large enough that page overhead is negligible, small enough for sparse addresses.
const PAGE: usize = 1 << 12;

/// One value per block, `T::default()` for blocks nothing was noted of. Memory grows with the addresses that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PerBlock<T> {
    /// A page nothing was noted in is empty.
    pages: Vec<Box<[T]>>,
    held: usize,
}

impl<T: Copy + Default> PerBlock<T> {
    /// The value of `lba`.
    #[inline]
    pub(super) fn get(&self, lba: Lba) -> T {
        let page = self.pages.get(lba.index() / PAGE);
        page.and_then(|page| page.get(lba.index() % PAGE)).copied().unwrap_or_default()
    }

    /// Brings the value of `lba` towards the cache.
    #[inline]
    pub(super) fn prefetch(&self, lba: Lba) {
        if let Some(page) = self.pages.get(lba.index() / PAGE) {
            prefetch_index(page, lba.index() % PAGE);
        }
    }

    /// The value of `lba`, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, lba: Lba) -> &mut T {
        let page = lba.index() / PAGE;
        if self.pages.get(page).is_none_or(|page| page.is_empty()) {
            self.add_page(page);
        }
        &mut self.pages[page][lba.index() % PAGE]
    }

    #[cold]
    fn add_page(&mut self, page: usize) {
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, Box::default);
        }
        self.pages[page] = vec![T::default(); PAGE].into_boxed_slice();
        self.held += PAGE;
    }

    /// Values that memory is held for.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The first value at or after `cursor` that memory is held for, and where it is.
    #[inline]
    pub(super) fn at_or_after(&self, cursor: usize) -> Option<(usize, T)> {
        if let Some(&value) = self.pages.get(cursor / PAGE)?.get(cursor % PAGE) {
            return Some((cursor, value));
        }
        let next =
            (cursor / PAGE + 1..self.pages.len()).find(|&page| !self.pages[page].is_empty())?;
        Some((next * PAGE, self.pages[next][0]))
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        let values: usize = self.pages.iter().map(|page| page.len()).sum();
        values * size_of::<T>() + self.pages.capacity() * size_of::<Box<[T]>>()
    }
}

/// When each block was last written by the host. 4 bytes per block: ages are modulo 2^32 host blocks (16 TiB).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LastWrite(PerBlock<u32>);

impl LastWrite {
    /// Host blocks written since the last write of `lba`; `None` before the first write.
    #[inline]
    pub(super) fn age(&self, lba: Lba, now: u64) -> Option<u64> {
        age(self.0.get(lba), now)
    }

    /// Notes that `lba` is written now. Returns what [`LastWrite::age`] was.
    #[inline]
    pub(super) fn renew(&mut self, lba: Lba, now: u64) -> Option<u64> {
        let before = std::mem::replace(self.0.get_mut(lba), stamp(now));
        age(before, now)
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// Time in 32 bits; 0 is kept for "never".
fn stamp(now: u64) -> u32 {
    (now as u32).wrapping_add(1).max(1)
}

fn age(before: u32, now: u64) -> Option<u64> {
    (before != 0).then(|| u64::from(stamp(now).wrapping_sub(before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_default_until_noted_wherever_they_lie() {
        let mut table = PerBlock::<u16>::default();
        assert_eq!(table.get(Lba(1 << 40)), 0);
        *table.get_mut(Lba(5 * PAGE as u64 + 3)) = 7;
        assert_eq!(table.get(Lba(5 * PAGE as u64 + 3)), 7);
        assert_eq!(table.get(Lba(5 * PAGE as u64 + 4)), 0);
        assert_eq!(table.get(Lba(3)), 0);
        let page_table = table.pages.capacity() * size_of::<Box<[u16]>>();
        assert_eq!(table.memory_bytes(), 2 * PAGE + page_table, "one page for one block");
    }

    #[test]
    fn ages_count_host_blocks_also_across_the_wrap() {
        let mut last = LastWrite::default();
        assert_eq!(last.renew(Lba(1), 0), None);
        assert_eq!(last.age(Lba(1), 9), Some(9));
        assert_eq!(last.renew(Lba(1), 10), Some(10));
        let late = (1 << 32) - 3;
        last.renew(Lba(2), late);
        assert_eq!(last.age(Lba(2), late + 10), Some(10));
    }
}
