//! The bytes of transfers.

use std::fmt::Debug;

/// Makes buffers and accesses their bytes. Clones and parts of a buffer are handles of the same bytes.
pub trait Memory: Debug {
    /// A handle of bytes.
    type Buffer: Clone + Debug;

    /// Whether buffers have bytes. Without bytes a buffer has a length only: [`Memory::read`] and [`Memory::write`]
    /// show no byte, and the array computes no parity and no checksum. All members must be current then.
    const HAS_BYTES: bool = true;

    /// A new buffer of `bytes` bytes with arbitrary content.
    fn room(&self, bytes: usize) -> Self::Buffer;

    /// Number of bytes of a buffer.
    fn len(buffer: &Self::Buffer) -> usize;

    /// A handle of `bytes` bytes of a buffer from byte `from` on.
    fn part(buffer: &Self::Buffer, from: usize, bytes: usize) -> Self::Buffer;

    /// Shows `with` the bytes of a buffer.
    fn read<R>(buffer: &Self::Buffer, with: impl FnOnce(&[u8]) -> R) -> R;

    /// Lends `with` the bytes of a buffer, to be changed.
    fn write<R>(buffer: &Self::Buffer, with: impl FnOnce(&mut [u8]) -> R) -> R;

    /// Whether two members may fill the bytes before and behind byte `at` at the same time. By default they may.
    fn is_apart(buffer: &Self::Buffer, at: usize) -> bool {
        let _ = (buffer, at);
        true
    }

    /// A new buffer with these bytes.
    fn holding(&self, bytes: &[u8]) -> Self::Buffer {
        let buffer = self.room(bytes.len());
        Self::write(&buffer, |to| to.copy_from_slice(bytes));
        buffer
    }
}
