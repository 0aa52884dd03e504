//! Leases of buffers, in all orders of threads that the memory model of the language allows. The source is that of the
//! product; its atomics are others.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

mod sync {
    pub use loom::sync::atomic::{AtomicU32, Ordering};
}

#[path = "../src/buffer/lease.rs"]
mod lease;

use lease::Leases;

/// Two blocks of memory under leases. Loom finds two threads that use a cell at once, or of which one need not see what
/// the other did.
struct Memory {
    leases: Leases,
    blocks: [UnsafeCell<u32>; 2],
}

// SAFETY: the cells are reached under leases alone; the tests show that these suffice.
unsafe impl Sync for Memory {}

impl Memory {
    fn new() -> Arc<Memory> {
        let blocks = [UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(Memory { leases: Leases::new(2), blocks })
    }

    /// Adds one to blocks, if they can be had.
    fn write(&self, blocks: std::ops::Range<usize>) -> bool {
        let had = self.leases.write(blocks.clone());
        if had {
            for block in &self.blocks[blocks.clone()] {
                // SAFETY: the lease excludes everybody else.
                block.with_mut(|value| unsafe { *value += 1 });
            }
            self.leases.end_writing(blocks);
        }
        had
    }

    /// The sum of what blocks hold, if they can be had.
    fn read(&self, blocks: std::ops::Range<usize>) -> Option<u32> {
        self.leases.read(blocks.clone()).then(|| {
            let cells = self.blocks[blocks.clone()].iter();
            // SAFETY: the lease excludes writers.
            let sum = cells.map(|block| block.with(|value| unsafe { *value })).sum();
            self.leases.end_reading(blocks);
            sum
        })
    }
}

#[test]
fn two_writers_never_write_at_once_and_the_second_sees_the_first() {
    loom::model(|| {
        let memory = Memory::new();
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.write(0..1));
        let own = memory.write(0..1);
        let both = u32::from(own) + u32::from(thread.join().expect("no panic"));
        assert!(both > 0, "one of them has it");
        assert_eq!(memory.read(0..1), Some(both));
    });
}

#[test]
fn readers_never_read_what_is_being_written() {
    loom::model(|| {
        let memory = Memory::new();
        let (other, third) = (Arc::clone(&memory), Arc::clone(&memory));
        let writer = thread::spawn(move || other.write(1..2));
        let reader = thread::spawn(move || third.read(0..1));
        // It touches the block of each.
        let seen = memory.read(0..2);
        let wrote = writer.join().expect("no panic");
        assert_eq!(reader.join().expect("no panic"), Some(0), "nobody writes that block");
        assert!(seen.is_none_or(|seen| seen <= u32::from(wrote)));
        assert!(wrote || seen.is_some(), "one of them has it");
    });
}

#[test]
fn readers_read_at_once() {
    loom::model(|| {
        let memory = Memory::new();
        let other = Arc::clone(&memory);
        let reader = thread::spawn(move || other.read(0..2));
        assert_eq!((memory.read(0..2), reader.join().expect("no panic")), (Some(0), Some(0)));
        assert!(memory.write(0..2), "all have left");
    });
}
