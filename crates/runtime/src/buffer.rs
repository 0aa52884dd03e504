//! Memory that requests, the engine and the kernel look at: shared handles, one copy of the bytes.
//!
//! Invariants:
//! * Whoever reads or writes bytes holds a lease on the blocks of 4096 bytes of memory that they touch: any number of
//!   readers, or one writer. A lease that cannot be had is a bug of the program and panics; nothing waits.
//! * Operations that the kernel carries out own their leases. So no handle, however used, makes a data race.

mod lease;

/// The simulation of threads puts others in their place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU32, Ordering};
}

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use thermocline_engine::Payload;
use thermocline_format::{BLOCK_BYTES, Expected, Geometry, Packer, crc32c, packed_block};
use thermocline_target as target;

use lease::Leases;

/// Handle of a run of bytes, at most 4 GiB. Clones and slices are handles of the same bytes.
#[derive(Clone)]
pub struct Buffer {
    memory: Arc<Memory>,
    start: u32,
    len: u32,
}

struct Memory {
    /// Where the bytes of `owner` are. They do not move, and nobody uses `owner` before it is taken out.
    bytes: NonNull<u8>,
    len: usize,
    /// A lease for each block of 4096 bytes of memory. The table may be longer than the memory.
    leases: Leases,
    /// `None` between two uses, while the owner keeps this memory as a companion.
    owner: UnsafeCell<Option<target::Buffer>>,
}

// SAFETY: `bytes` points into `owner`, which is Send itself.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference the bytes are only reached under leases, which are atomic and exclude a writer
// beside anybody else; `owner` is only reached by value.
unsafe impl Sync for Memory {}

impl Buffer {
    /// Handle of all bytes of `owner`.
    #[must_use]
    pub fn new(mut owner: target::Buffer) -> Buffer {
        let len = u32::try_from(owner.len()).expect("no request has 4 GiB");
        let blocks = owner.len().div_ceil(BLOCK_BYTES);
        let bytes = NonNull::from(&mut owner[..]).cast();
        let earlier = owner.companion().take().and_then(|earlier| earlier.downcast().ok());
        let earlier = earlier.filter(|earlier: &Arc<Memory>| earlier.leases.0.len() >= blocks);
        let mut memory = earlier.unwrap_or_else(|| {
            let leases = Leases::new(blocks);
            Arc::new(Memory { bytes, len: 0, leases, owner: UnsafeCell::new(None) })
        });
        match Arc::get_mut(&mut memory) {
            Some(memory) => {
                (memory.bytes, memory.len) = (bytes, len as usize);
                *memory.owner.get_mut() = Some(owner);
            }
            // The thread that returned the memory still drops its last handle.
            None => return Buffer::new(owner),
        }
        Buffer { memory, start: 0, len }
    }

    /// The memory, if this is the last handle; else a copy of this handle's bytes.
    #[must_use]
    pub fn into_owner(mut self) -> target::Buffer {
        let (start, len) = (self.start as usize, self.len());
        match self.take_owner() {
            Some(owner) if len == owner.len() => owner,
            Some(owner) => target::Buffer::from_bytes(&owner[start..][..len]),
            None => target::Buffer::from_bytes(&self.read()),
        }
    }

    /// Takes the memory if this is its last handle. The handle must not be used afterwards.
    fn take_owner(&mut self) -> Option<target::Buffer> {
        if Arc::strong_count(&self.memory) > 1 {
            return None;
        }
        let mut owner = Arc::get_mut(&mut self.memory)?.owner.get_mut().take()?;
        *owner.companion() = Some(Arc::<Memory>::clone(&self.memory));
        Some(owner)
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Handle of `len` bytes from byte `start` on.
    ///
    /// # Panics
    /// If the range exceeds the buffer.
    #[must_use]
    pub fn part(&self, start: usize, len: usize) -> Buffer {
        assert!(start + len <= self.len(), "{len} bytes at {start} of {}", self.len);
        let memory = Arc::clone(&self.memory);
        Buffer { memory, start: self.start + start as u32, len: len as u32 }
    }

    /// Whether a cut at byte `at` divides a block of memory. Both halves of such a block cannot be written at once.
    pub(crate) fn cuts_block(&self, at: usize) -> bool {
        !(self.start as usize + at).is_multiple_of(BLOCK_BYTES)
    }

    /// Leases the bytes for reading.
    ///
    /// # Panics
    /// If the bytes are leased for writing.
    #[must_use]
    pub fn read(&self) -> Reading<'_> {
        self.lease_to_read();
        Reading(self)
    }

    /// Leases the bytes for writing.
    ///
    /// # Panics
    /// If the bytes are leased for reading or writing.
    #[must_use]
    pub fn write(&self) -> Writing<'_> {
        self.lease_to_write();
        Writing(self)
    }

    /// Leases the bytes to a reader outside Rust until the lease is dropped.
    ///
    /// # Panics
    /// If the bytes are leased for writing.
    #[must_use]
    pub(crate) fn into_reading(self) -> ReadLease {
        self.lease_to_read();
        ReadLease(self)
    }

    /// Leases the bytes to a writer outside Rust until the lease is dropped.
    ///
    /// # Panics
    /// If the bytes are leased for reading or writing.
    #[must_use]
    pub(crate) fn into_writing(self) -> WriteLease {
        self.lease_to_write();
        WriteLease(self)
    }

    /// Whether the bytes of `next` follow these in memory.
    pub(crate) fn is_before(&self, next: &Buffer) -> bool {
        Arc::ptr_eq(&self.memory, &next.memory) && self.start + self.len == next.start
    }

    fn address(&self) -> NonNull<u8> {
        // SAFETY: `start` is within the memory; `new` and `part` see to it.
        unsafe { self.memory.bytes.add(self.start as usize) }
    }

    /// Blocks of memory touched by the handle's bytes.
    fn blocks(&self) -> Range<usize> {
        let (start, end) = (self.start as usize, self.start as usize + self.len());
        start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
    }

    fn lease_to_read(&self) {
        assert!(self.memory.leases.read(self.blocks()), "{self:?} is being written");
    }

    fn lease_to_write(&self) {
        assert!(self.memory.leases.write(self.blocks()), "{self:?} is being read or written");
    }

    fn end_reading(&self) {
        self.memory.leases.end_reading(self.blocks());
    }

    fn end_writing(&self) {
        self.memory.leases.end_writing(self.blocks());
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        drop(self.take_owner());
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes from {} on)", self.len, self.start)
    }
}

/// Bytes that are being read.
#[derive(Debug)]
pub struct Reading<'a>(&'a Buffer);

impl Deref for Reading<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialised and within the memory, which the handle keeps alive, and under the lease
        // nobody writes them.
        unsafe { slice::from_raw_parts(self.0.address().as_ptr(), self.0.len()) }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.end_reading();
    }
}

/// Bytes that are being written.
#[derive(Debug)]
pub struct Writing<'a>(&'a Buffer);

impl Deref for Writing<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `Reading`; the write lease is exclusive.
        unsafe { slice::from_raw_parts(self.0.address().as_ptr(), self.0.len()) }
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably, so there is no other slice of these bytes.
        unsafe { slice::from_raw_parts_mut(self.0.address().as_ptr(), self.0.len()) }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.end_writing();
    }
}

/// Owns the right to read bytes until it is dropped.
#[derive(Debug)]
pub(crate) struct ReadLease(Buffer);

impl ReadLease {
    /// Where the bytes are, and how many.
    pub(crate) fn raw(&self) -> (*const u8, usize) {
        (self.0.address().as_ptr(), self.0.len())
    }

    /// Whether the bytes of `next` follow these in memory.
    pub(crate) fn is_before(&self, next: &ReadLease) -> bool {
        self.0.is_before(&next.0)
    }
}

impl Deref for ReadLease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (bytes, len) = self.raw();
        // SAFETY: as for `Reading`.
        unsafe { slice::from_raw_parts(bytes, len) }
    }
}

impl Drop for ReadLease {
    fn drop(&mut self) {
        self.0.end_reading();
    }
}

/// Owns the right to write bytes until it is dropped.
#[derive(Debug)]
pub(crate) struct WriteLease(Buffer);

impl WriteLease {
    /// Where the bytes are, and how many.
    pub(crate) fn raw(&self) -> (*mut u8, usize) {
        (self.0.address().as_ptr(), self.0.len())
    }
}

impl Deref for WriteLease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (bytes, len) = self.raw();
        // SAFETY: as for `Writing`.
        unsafe { slice::from_raw_parts(bytes, len) }
    }
}

impl DerefMut for WriteLease {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (bytes, len) = self.raw();
        // SAFETY: as for `Writing`.
        unsafe { slice::from_raw_parts_mut(bytes, len) }
    }
}

impl Drop for WriteLease {
    fn drop(&mut self) {
        self.0.end_writing();
    }
}

impl Payload for Buffer {
    fn slice(&self, first: u32, blocks: u32) -> Self {
        self.part(first as usize * BLOCK_BYTES, blocks as usize * BLOCK_BYTES)
    }

    fn crc(&self, index: u32) -> u32 {
        crc32c(&self.part(index as usize * BLOCK_BYTES, BLOCK_BYTES).read())
    }

    fn fill_zero(&self) {
        self.write().fill(0);
    }

    fn copy_block(&self, from: &Self) {
        let (to, from) = (self.part(0, BLOCK_BYTES), from.part(0, BLOCK_BYTES));
        to.write().copy_from_slice(&from.read());
    }

    fn pack(&self, packer: &mut Packer, room: usize) -> Option<(Self, u16)> {
        let packed = packer.pack(&self.part(0, BLOCK_BYTES).read(), room)?;
        Some((Buffer::new(target::Buffer::from_bytes(packed)), packed.len() as u16))
    }

    fn unpack(&self, index: u32, expected: &Expected, geometry: &Geometry) -> Option<Self> {
        let header = self.part(index as usize * BLOCK_BYTES, BLOCK_BYTES);
        let block = packed_block(&header.read(), expected, geometry)?;
        Some(Buffer::new(target::Buffer::from_bytes(&block[..])))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn buffer(blocks: u8) -> Buffer {
        let bytes: Vec<u8> = (0..blocks).flat_map(|block| [block; BLOCK_BYTES]).collect();
        Buffer::new(target::Buffer::from_bytes(&bytes))
    }

    fn panics(action: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(action)).is_err()
    }

    #[test]
    fn slices_are_handles_of_the_same_bytes() {
        let all = buffer(4);
        let two = all.slice(1, 2);
        assert_eq!((two.len(), two.read()[0], two.read()[8191]), (8192, 1, 2));
        two.slice(1, 1).fill_zero();
        all.slice(3, 1).copy_block(&two);
        let first_bytes: Vec<u8> = (0..4).map(|block| all.read()[block * BLOCK_BYTES]).collect();
        assert_eq!(first_bytes, [0, 1, 0, 1]);
        assert_eq!(all.crc(1), crc32c(&[1; BLOCK_BYTES]));
        assert!(all.slice(0, 1).is_before(&two) && !two.is_before(&all.slice(0, 1)));
    }

    #[test]
    fn a_writer_is_alone() {
        let all = buffer(3);
        let writing = all.slice(1, 1).into_writing();
        assert!(panics(|| drop(all.read())));
        assert!(panics(|| drop(all.slice(1, 1).write())));
        assert!(panics(|| drop(all.part(8191, 1).read())), "a part of the block");
        assert_eq!(all.slice(2, 1).read()[0], 2, "its neighbour is free");
        drop(writing);
        assert_eq!(all.slice(1, 1).read()[0], 1);
    }

    #[test]
    fn readers_share_and_keep_writers_out() {
        let all = buffer(1);
        let (one, two) = (all.clone().into_reading(), all.read());
        assert_eq!((one[0], two[0]), (0, 0));
        assert!(panics(|| all.fill_zero()));
        drop((one, two));
        all.fill_zero();
    }

    #[test]
    fn the_last_handle_gives_the_memory_back() {
        let all = buffer(2);
        let address = all.read().as_ptr();
        let clone = all.clone();
        assert_ne!(clone.into_owner().as_ptr(), address, "a copy");
        let part = all.slice(1, 1);
        drop(all.slice(0, 1));
        let owner = all.into_owner();
        assert_eq!(owner.len(), 2 * BLOCK_BYTES, "a copy, since there is another");
        assert_eq!(part.into_owner()[..], [1; BLOCK_BYTES]);
        let all = buffer(2);
        let address = all.read().as_ptr();
        assert_eq!(all.into_owner().as_ptr(), address);
    }

    #[test]
    fn threads_see_what_was_written_before() {
        let all = buffer(1);
        let writing = all.clone().into_writing();
        let handle = std::thread::spawn(move || {
            let mut writing = writing;
            writing.fill(9);
        });
        handle.join().unwrap();
        assert_eq!(all.read()[4095], 9);
    }
}
