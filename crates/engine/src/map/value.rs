//! Where a block is on media, as maps have it.

use std::num::NonZero;

use thermocline_format::{Geometry, MapEntry, TAG_BITS, VolumeId};

/// Address and tag of a block, as in the map. Kept inverted: an entry of ones is no block, so that an `Option` takes no
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value(NonZero<u64>);

const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

impl Value {
    /// Of a block that is lost.
    pub(crate) const LOST: Value = Value(NonZero::new(!MapEntry::LOST.pack()).unwrap());

    /// Of a block that reads as zeros whatever a layer below has.
    pub(crate) const HOLE: Value = Value(NonZero::new(!MapEntry::HOLE.pack()).unwrap());

    /// The value of a map entry; `None` for an unmapped entry.
    #[inline]
    pub(crate) fn of_entry(entry: u64) -> Option<Value> {
        NonZero::new(!entry).map(Value)
    }

    /// As an entry.
    #[inline]
    pub(crate) fn entry(self) -> u64 {
        !self.0.get()
    }

    /// Whether a block of a pool of this geometry can be there, or it is nowhere.
    pub(crate) fn is_of(self, geometry: &Geometry) -> bool {
        self.is_nowhere() || MapEntry::unpack(geometry, self.entry()).is_ok()
    }

    /// Whether no block on media is meant: it is lost, or a hole.
    #[inline]
    pub(crate) fn is_nowhere(self) -> bool {
        self == Value::LOST || self == Value::HOLE
    }

    #[inline]
    pub(crate) fn new(address: u64, crc: u32) -> Value {
        let entry = address << TAG_BITS | u64::from(crc) & TAG_MASK;
        Value::of_entry(entry).expect("no pool has the last address")
    }

    #[inline]
    pub(crate) fn address(self) -> u64 {
        self.entry() >> TAG_BITS
    }

    /// The low bits of the checksum.
    #[inline]
    pub(crate) fn tag(self) -> u32 {
        (self.entry() & TAG_MASK) as u32
    }

    /// The same address, with the tag of the bytes alone; and back.
    #[inline]
    pub(crate) fn of_bytes(self, volume: VolumeId, lba: u64) -> Value {
        let mark = thermocline_format::home_mark(volume, thermocline_types::Lba(lba));
        Value::new(self.address(), self.tag() ^ mark)
    }

    #[inline]
    pub(crate) fn matches(self, crc: u32) -> bool {
        u64::from(self.tag() ^ crc) & TAG_MASK == 0
    }
}
