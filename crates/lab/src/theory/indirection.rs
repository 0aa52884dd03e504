//! What writes smaller than, or not aligned to, the drive's mapping unit cost.

use thermocline_types::Bytes;

use super::DomainError;

/// A drive's indirection unit: the granule of its mapping table, which is always written as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectionUnit(u64);

/// A write request's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte written.
    pub offset: Bytes,
    /// Bytes written, above 0.
    pub length: Bytes,
}

impl IndirectionUnit {
    /// A unit of `size` bytes.
    ///
    /// # Errors
    /// If `size` is 0.
    pub fn new(size: Bytes) -> Result<Self, DomainError> {
        DomainError::unless(size > Bytes::ZERO, "indirection unit", size.as_f64(), "above 0")?;
        Ok(IndirectionUnit(size.get()))
    }

    /// Bytes the drive writes for one host write: every unit touched, whole. `u (⌈(o + L)/u⌉ − ⌊o/u⌋)`.
    #[must_use]
    pub fn bytes_written(self, write: Extent) -> Bytes {
        let first = write.offset.get() / self.0;
        let end = (write.offset + write.length).get().div_ceil(self.0);
        Bytes((end - first) * self.0)
    }

    /// WAF of one write by read-modify-write alone: [`Self::bytes_written`] ÷ length; without garbage collection, and
    /// when no later write merges with it in a buffer.
    ///
    /// # Panics
    /// If the write has no length.
    #[must_use]
    pub fn waf(self, write: Extent) -> f64 {
        assert!(write.length > Bytes::ZERO, "an empty write has no write amplification");
        self.bytes_written(write).as_f64() / write.length.as_f64()
    }

    /// Mean bytes written for a write of `length` that starts anywhere on a multiple of `alignment`, all equally
    /// likely. Exact: the average over the distinct places of a start within a unit.
    ///
    /// # Panics
    /// If `alignment` is 0.
    #[must_use]
    pub fn mean_bytes_written(self, length: Bytes, alignment: Bytes) -> f64 {
        assert!(alignment > Bytes::ZERO, "starts are multiples of something");
        let step = gcd(alignment.get(), self.0);
        let places = self.0 / step;
        let bytes = (0..places).map(|place| {
            self.bytes_written(Extent { offset: Bytes(place * step), length }).as_f64()
        });
        bytes.sum::<f64>() / places as f64
    }

    /// WAF by read-modify-write alone of writes of one `length` that start on random multiples of `alignment`.
    ///
    /// # Panics
    /// If `length` or `alignment` is 0.
    #[must_use]
    pub fn random_waf(self, length: Bytes, alignment: Bytes) -> f64 {
        assert!(length > Bytes::ZERO, "an empty write has no write amplification");
        self.mean_bytes_written(length, alignment) / length.as_f64()
    }

    /// WAF by read-modify-write alone of a mix of sizes (bytes, weight) with random starts: mean bytes written ÷ mean
    /// bytes asked for. `alignment` gives the multiple on which writes of a size start.
    ///
    /// # Panics
    /// If the mix asks for no bytes.
    #[must_use]
    pub fn mix_waf(self, sizes: &[(Bytes, u32)], alignment: impl Fn(Bytes) -> Bytes) -> f64 {
        let asked: f64 =
            sizes.iter().map(|&(size, weight)| f64::from(weight) * size.as_f64()).sum();
        assert!(asked > 0.0, "an empty mix has no write amplification");
        let written = sizes.iter().map(|&(size, weight)| {
            f64::from(weight) * self.mean_bytes_written(size, alignment(size))
        });
        written.sum::<f64>() / asked
    }
}

/// Greatest common divisor (Euclid).
fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thermocline_types::Rng;
    use thermocline_workload::synthetic::JESD219_SIZES;

    fn unit(kib: u64) -> IndirectionUnit {
        IndirectionUnit::new(Bytes::kib(kib)).expect("not zero")
    }

    #[test]
    fn single_writes() {
        let write = |offset, length| Extent { offset: Bytes(offset), length: Bytes(length) };
        assert_eq!(unit(16).bytes_written(write(0, 16_384)), Bytes::kib(16));
        assert_eq!(unit(16).bytes_written(write(4_096, 16_384)), Bytes::kib(32));
        assert_eq!(unit(16).bytes_written(write(16_383, 2)), Bytes::kib(32));
        assert!((unit(64).waf(write(65_536, 4_096)) - 16.0).abs() < 1e-12);
        assert!((unit(4).waf(write(512, 512)) - 8.0).abs() < 1e-12);
        assert!(IndirectionUnit::new(Bytes::ZERO).is_err());
    }

    #[test]
    fn random_four_kib_writes_cost_the_unit() {
        for kib in [4, 8, 16, 32, 64] {
            let waf = unit(kib).random_waf(Bytes::BLOCK, Bytes::BLOCK);
            assert!((waf - kib as f64 / 4.0).abs() < 1e-12, "{kib}: {waf}");
        }
        // On 512-byte starts, 7 of 8 places straddle two 4 KiB units.
        assert!((unit(4).random_waf(Bytes::BLOCK, Bytes::SECTOR) - 1.875).abs() < 1e-12);
    }

    /// Every size of JESD219 on 4 KiB-aligned starts, so that writes below 4 KiB never straddle: 1.03, 1.56, 2.60,
    /// 4.69, 8.87.
    #[test]
    fn jesd219_matches_the_published_list() {
        for (kib, published) in [(4, 1.03), (8, 1.56), (16, 2.60), (32, 4.69), (64, 8.87)] {
            let ours = unit(kib).mix_waf(&JESD219_SIZES, |_| Bytes::BLOCK);
            assert!((ours / published - 1.0).abs() < 0.005, "{kib} KiB: {ours}");
            // The generator starts writes below 4 KiB on any sector, which costs little more.
            let generated = unit(kib).mix_waf(&JESD219_SIZES, |size| {
                if size < Bytes::BLOCK { Bytes::SECTOR } else { Bytes::BLOCK }
            });
            assert!(
                generated >= ours && generated / published - 1.0 < 0.02,
                "{kib} KiB: {generated}"
            );
        }
    }

    proptest! {
        /// The exact mean lies where random starts put it.
        #[test]
        fn mean_is_what_random_starts_average(
            sectors in 1_u64..200,
            unit_sectors in 1_u64..150,
            step in 1_u64..20,
            seed: u64,
        ) {
            let unit = IndirectionUnit::new(Bytes(unit_sectors * 512)).expect("not zero");
            let (length, alignment) = (Bytes(sectors * 512), Bytes(step * 512));
            let mut rng = Rng::new(seed);
            let draws = 4_000;
            let sum: f64 = (0..draws)
                .map(|_| Bytes(rng.below(1 << 30) * alignment.get()))
                .map(|offset| unit.bytes_written(Extent { offset, length }).as_f64())
                .sum();
            let mean = unit.mean_bytes_written(length, alignment);
            // One write touches one of two neighbouring unit counts: standard deviation at most half a unit.
            let sigma = 0.5 * (unit_sectors * 512) as f64 / f64::from(draws).sqrt();
            prop_assert!((sum / f64::from(draws) - mean).abs() < 6.0 * sigma, "{} against {mean}", sum / f64::from(draws));
        }
    }
}
