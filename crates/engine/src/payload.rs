//! Handles of user data. The engine moves handles; only a driver knows the bytes behind a handle.

use std::fmt::Debug;

use thermocline_format::{Expected, Geometry, Packer};

/// Handle of a run of blocks of 4096 bytes.
///
/// Clones are handles of the same bytes. Real drivers put buffers behind handles. The unit type stands for data that is
/// never read, so terabytes can be simulated.
pub trait Payload: Clone + Debug {
    /// The handle of `blocks` blocks of the run, from its block `first` on.
    #[must_use]
    fn slice(&self, first: u32, blocks: u32) -> Self;

    /// CRC-32C of the 4096 bytes of block `index`.
    fn crc(&self, index: u32) -> u32;

    /// Fills the run with zeros.
    fn fill_zero(&self);

    /// Copies the first block of `from` over the first block of the run.
    fn copy_block(&self, from: &Self);

    /// Packs the first block of the run. Returns a handle of the packed bytes and the number of bytes; `None` when the
    /// packed block does not fit in `room` bytes.
    fn pack(&self, packer: &mut Packer, room: usize) -> Option<(Self, u16)>;

    /// The block that lies packed in block `index`, if that is the sound header of an expected chunk.
    fn unpack(&self, index: u32, expected: &Expected, geometry: &Geometry) -> Option<Self>;
}

impl Payload for () {
    #[inline]
    fn slice(&self, _first: u32, _blocks: u32) {}

    #[inline]
    fn crc(&self, _index: u32) -> u32 {
        0
    }

    #[inline]
    fn fill_zero(&self) {}

    #[inline]
    fn copy_block(&self, (): &()) {}

    #[inline]
    fn pack(&self, _packer: &mut Packer, _room: usize) -> Option<((), u16)> {
        None
    }

    #[inline]
    fn unpack(&self, _index: u32, _expected: &Expected, _geometry: &Geometry) -> Option<()> {
        None
    }
}
