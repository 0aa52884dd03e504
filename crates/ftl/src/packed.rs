//! Integers packed to whole bytes.

/// A fixed-length vector of unsigned integers, each stored in as few whole bytes as the largest value needs.
///
/// Every access is one unaligned 8-byte load, so the cost does not depend on the width. The value with all bits set
/// is reserved for "none". Three bytes address 16 M blocks, four 16 TiB of 4 KiB blocks, five 4 PiB.
#[derive(Clone, Debug)]
pub struct Packed {
    bytes: Vec<u8>,
    width: usize,
    mask: u64,
}

impl Packed {
    /// `len` entries, all none, wide enough for the values `0..limit`.
    #[must_use]
    pub fn new(len: u64, limit: u64) -> Self {
        let bits = 64 - limit.leading_zeros();
        let width = (bits.div_ceil(8) as usize).clamp(1, 7);
        // Seven bytes beyond the last entry keep its 8-byte load inside the vector.
        let bytes = vec![0xFF; len as usize * width + 7];
        Packed { bytes, width, mask: (1_u64 << (8 * width)) - 1 }
    }

    /// The entry at `index`, or none.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        let value = self.word(index) & self.mask;
        (value != self.mask).then_some(value)
    }

    /// Stores `value`, which must be below the limit given at construction.
    #[inline]
    pub fn set(&mut self, index: usize, value: u64) {
        debug_assert!(value < self.mask, "{value} does not fit {} bytes", self.width);
        self.store(index, value);
    }

    /// Stores `value` and returns the previous value.
    #[inline]
    pub fn replace(&mut self, index: usize, value: u64) -> Option<u64> {
        let old = self.get(index);
        self.set(index, value);
        old
    }

    /// Empties the entry at `index` and returns the previous value.
    #[inline]
    pub fn take(&mut self, index: usize) -> Option<u64> {
        let old = self.get(index);
        self.store(index, self.mask);
        old
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        let start = index * self.width;
        let bytes: [u8; 8] = self.bytes[start..start + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    }

    #[inline]
    fn store(&mut self, index: usize, value: u64) {
        let start = index * self.width;
        let merged = (self.word(index) & !self.mask) | value;
        self.bytes[start..start + 8].copy_from_slice(&merged.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_the_fewest_whole_bytes_that_leave_room_for_none() {
        for (limit, width) in
            [(1, 1), (255, 1), (256, 2), (1 << 24, 4), ((1 << 24) - 1, 3), (1 << 32, 5)]
        {
            assert_eq!(Packed::new(10, limit).memory_bytes(), 10 * width + 7, "limit {limit}");
        }
    }

    proptest! {
        #[test]
        fn behaves_like_a_vector_of_options(
            limit in 1_u64..1 << 40,
            writes in prop::collection::vec((0_usize..50, any::<u64>(), any::<bool>()), 0..200),
        ) {
            let mut packed = Packed::new(50, limit);
            let mut model = [None; 50];
            for (index, value, clear) in writes {
                if clear {
                    prop_assert_eq!(packed.take(index), model[index].take());
                } else {
                    prop_assert_eq!(packed.replace(index, value % limit), model[index].replace(value % limit));
                }
            }
            for (index, &expected) in model.iter().enumerate() {
                prop_assert_eq!(packed.get(index), expected);
            }
        }
    }
}
