//! Leases of blocks of memory: any number of readers, or one writer. Nothing waits.

use std::ops::Range;

use super::sync::{AtomicU32, Ordering};

/// A lease of one writer; lower numbers count readers.
const WRITER: u32 = u32::MAX;

/// One count for each block.
pub(crate) struct Leases(pub(super) Box<[AtomicU32]>);

impl Leases {
    /// Free leases for a number of blocks.
    pub(crate) fn new(blocks: usize) -> Leases {
        Leases((0..blocks).map(|_| AtomicU32::new(0)).collect())
    }

    /// Takes leases to read. Returns `false` if a block has a writer; the blocks before that block are taken.
    #[must_use]
    pub(crate) fn read(&self, blocks: Range<usize>) -> bool {
        self.0[blocks].iter().all(|lease| {
            // A reader more, unless there is a writer. Acquire: what a writer wrote before it left can be seen.
            let more = |count: u32| (count < WRITER - 1).then(|| count + 1);
            lease.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok()
        })
    }

    /// Takes leases to write. Returns `false` if a block has a lease; the blocks before that block are taken.
    #[must_use]
    pub(crate) fn write(&self, blocks: Range<usize>) -> bool {
        self.0[blocks].iter().all(|lease| {
            lease.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// Gives leases to read back.
    pub(crate) fn end_reading(&self, blocks: Range<usize>) {
        // Release: all that was read was read before a writer comes.
        for lease in &self.0[blocks] {
            lease.fetch_sub(1, Ordering::Release);
        }
    }

    /// Gives leases to write back.
    pub(crate) fn end_writing(&self, blocks: Range<usize>) {
        self.0[blocks].iter().for_each(|lease| lease.store(0, Ordering::Release));
    }
}
