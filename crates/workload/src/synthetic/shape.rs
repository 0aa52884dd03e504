//! From a slot of the span to bytes: how long requests are and where they start.

use thermocline_types::{Bytes, Rng};

/// Write sizes of JESD219's enterprise workload, in per cent of requests (JEDEC JESD219, September 2010).
///
/// Micron remarked in December 2024 that the workload is dated: systems no longer write less than 4 KiB, and larger
/// writes are common. See [`MODERN_SIZES`].
pub const JESD219_SIZES: [(Bytes, u32); 12] = [
    (Bytes(512), 4),
    (Bytes(1024), 1),
    (Bytes(1536), 1),
    (Bytes(2048), 1),
    (Bytes(2560), 1),
    (Bytes(3072), 1),
    (Bytes(3584), 1),
    (Bytes::kib(4), 67),
    (Bytes::kib(8), 10),
    (Bytes::kib(16), 7),
    (Bytes::kib(32), 3),
    (Bytes::kib(64), 3),
];

/// Write sizes of the `modern` workload, in per cent of requests: chosen, not measured, so that nothing is below 4 KiB
/// and a third of the requests are 64 KiB or larger.
pub const MODERN_SIZES: [(Bytes, u32); 7] = [
    (Bytes::kib(4), 30),
    (Bytes::kib(8), 12),
    (Bytes::kib(16), 15),
    (Bytes::kib(32), 10),
    (Bytes::kib(64), 13),
    (Bytes::kib(128), 12),
    (Bytes::kib(256), 8),
];

/// Turns a slot into an offset and a length in bytes, both inside `0..span`.
pub(super) trait Shape {
    /// Offset and length of a request to `slot`.
    fn extent(&self, slot: u64, rng: &mut Rng) -> (u64, u64);
}

/// Requests of a fixed size at multiples of the size; the last slot may be shorter.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) io_size: u64,
    pub(super) span: u64,
}

impl Shape for Fixed {
    #[inline]
    fn extent(&self, slot: u64, _rng: &mut Rng) -> (u64, u64) {
        let offset = slot * self.io_size;
        (offset, self.io_size.min(self.span - offset))
    }
}

/// Requests of mixed sizes in slots of 4 KiB. Sizes of 4 KiB and more start on the slot, smaller ones on any of its
/// sectors; what would reach beyond the span is moved back so that it ends there, or cut if the span is smaller.
#[derive(Clone, Debug)]
pub(super) struct Mixed {
    span: u64,
    /// One length per per cent.
    lengths: [u32; 100],
}

impl Mixed {
    /// The mix `sizes`, whose per cents must sum to 100.
    pub(super) fn new(sizes: &[(Bytes, u32)], span: Bytes) -> Self {
        let mut lengths = [0; 100];
        let each = sizes
            .iter()
            .flat_map(|&(size, percent)| std::iter::repeat_n(size.get() as u32, percent as usize));
        assert_eq!(each.clone().count(), lengths.len(), "a mix is 100 per cent");
        for (place, length) in lengths.iter_mut().zip(each) {
            *place = length;
        }
        Mixed { span: span.get(), lengths }
    }
}

impl Shape for Mixed {
    #[inline]
    fn extent(&self, slot: u64, rng: &mut Rng) -> (u64, u64) {
        let length = u64::from(self.lengths[rng.below(100) as usize]).min(self.span);
        let mut offset = slot * Bytes::BLOCK.get();
        let mut granule = Bytes::BLOCK.get();
        if length < Bytes::BLOCK.get() {
            granule = Bytes::SECTOR.get();
            offset += rng.below(8) * granule;
        }
        (offset.min((self.span - length) / granule * granule), length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_whole() {
        assert_eq!(JESD219_SIZES.iter().map(|&(_, percent)| percent).sum::<u32>(), 100);
        assert_eq!(MODERN_SIZES.iter().map(|&(_, percent)| percent).sum::<u32>(), 100);
        assert!(MODERN_SIZES.iter().all(|&(size, _)| size >= Bytes::BLOCK));
    }

    #[test]
    fn mixed_requests_stay_inside_any_span() {
        let mut rng = Rng::new(5);
        for span in [512, 4096, 4608, 20_480, 65_536, 100_352] {
            let shape = Mixed::new(&JESD219_SIZES, Bytes(span));
            for round in 0..20_000 {
                let (offset, length) = shape.extent(round % span.div_ceil(4096), &mut rng);
                assert!(length > 0 && offset + length <= span, "{offset}+{length} in {span}");
                let granule = if length >= 4096 { 4096 } else { 512 };
                assert!(offset.is_multiple_of(granule), "{offset}+{length}");
            }
        }
    }
}
