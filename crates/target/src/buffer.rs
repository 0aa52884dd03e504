//! Memory of requests: aligned for direct I/O, and used again.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout};

/// Bytes in a block of aligned memory.
const ALIGNMENT: usize = 4096;

#[derive(Clone, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C, align(4096))]
struct Block([u8; ALIGNMENT]);

/// Bytes at an address that is a multiple of 4096, which is what direct I/O asks for. It has one owner.
pub struct Buffer {
    blocks: Vec<Block>,
    len: usize,
    home: Option<Arc<Shelves>>,
    /// See [`Buffer::companion`].
    companion: Option<Companion>,
}

/// A value that stays with memory while a pool keeps the memory.
pub type Companion = Arc<dyn Any + Send + Sync>;

impl Buffer {
    /// `len` bytes, all zero.
    #[must_use]
    pub fn zeroed(len: usize) -> Buffer {
        Buffer { blocks: zeroed_blocks(len.div_ceil(ALIGNMENT)), len, home: None, companion: None }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// A value that a user of this memory keeps for the next use of the same memory.
    pub fn companion(&mut self) -> &mut Option<Companion> {
        &mut self.companion
    }
}

fn zeroed_blocks(count: usize) -> Vec<Block> {
    Block::new_vec_zeroed(count).expect("memory for a request; there is nothing to do without")
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.blocks.as_bytes()[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.blocks.as_mut_bytes()[..self.len]
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.put((std::mem::take(&mut self.blocks), self.companion.take()));
        }
    }
}

/// Where buffers return to when they are dropped, and come from again without being cleared.
///
/// Clones are handles of the same pool. It keeps at most a stated number of bytes; what is beyond goes back to the
/// allocator.
#[derive(Clone)]
pub struct BufferPool(Arc<Shelves>);

/// Powers of two blocks, from 1 to 2^14 (64 MiB); larger buffers are not kept.
const SHELVES: usize = 15;

struct Shelves {
    blocks_max: usize,
    kept: Mutex<Kept>,
}

struct Kept {
    blocks: usize,
    shelves: [Vec<Memory>; SHELVES],
}

type Memory = (Vec<Block>, Option<Companion>);

impl BufferPool {
    /// A pool that keeps at most `bytes_max` bytes for later.
    #[must_use]
    pub fn new(bytes_max: usize) -> BufferPool {
        let kept = Kept { blocks: 0, shelves: Default::default() };
        BufferPool(Arc::new(Shelves { blocks_max: bytes_max / ALIGNMENT, kept: Mutex::new(kept) }))
    }

    /// A buffer of `len` bytes with whatever an earlier user of this pool left in it.
    #[must_use]
    pub fn take(&self, len: usize) -> Buffer {
        let blocks = len.div_ceil(ALIGNMENT).next_power_of_two();
        let memory = self.0.take(blocks);
        let (blocks, companion) = memory.unwrap_or_else(|| (zeroed_blocks(blocks), None));
        Buffer { blocks, len, home: Some(Arc::clone(&self.0)), companion }
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BufferPool(at most {} blocks of {ALIGNMENT} bytes)", self.0.blocks_max)
    }
}

impl Shelves {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        // Nothing that happens under the lock can leave the shelves half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, blocks: usize) -> Option<Memory> {
        let shelf = blocks.trailing_zeros() as usize;
        let mut kept = self.kept();
        let memory = kept.shelves.get_mut(shelf)?.pop()?;
        kept.blocks -= blocks;
        Some(memory)
    }

    fn put(&self, memory: Memory) {
        let blocks = memory.0.len();
        let mut kept = self.kept();
        if kept.blocks + blocks > self.blocks_max {
            return;
        }
        if let Some(shelf) = kept.shelves.get_mut(blocks.trailing_zeros() as usize) {
            shelf.push(memory);
            kept.blocks += blocks;
        }
    }
}

/// An empty vector with the memory of `from`, for elements of another lifetime. The standard library keeps the memory
/// where both types have one layout.
#[must_use]
pub fn emptied<A, B>(mut from: Vec<A>) -> Vec<B> {
    from.clear();
    from.into_iter().map(|_| unreachable!("it is empty")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_as_long_as_asked() {
        let pool = BufferPool::new(1 << 20);
        for len in [1, 512, 4095, 4096, 4097, 12_288, 100_000] {
            for buffer in [Buffer::zeroed(len), pool.take(len)] {
                assert_eq!(buffer.len(), len);
                assert_eq!(buffer.as_ptr().addr() % 4096, 0, "{len}");
            }
        }
    }

    #[test]
    fn what_is_dropped_comes_back() {
        let pool = BufferPool::new(1 << 20);
        let mut first = pool.take(5000);
        first[0] = 7;
        let address = first.as_ptr().addr();
        drop(first);
        assert_ne!(pool.take(4096).as_ptr().addr(), address, "another size");
        let again = pool.take(8192);
        assert_eq!((again.as_ptr().addr(), again[0]), (address, 7));
    }

    #[test]
    fn a_pool_keeps_no_more_than_it_may() {
        let pool = BufferPool::new(8192);
        drop([pool.take(4096), pool.take(4096), pool.take(4096)]);
        assert_eq!(pool.0.kept().blocks, 2);
        drop(pool.take(128 << 20));
        assert_eq!(pool.0.kept().blocks, 2);
    }
}
