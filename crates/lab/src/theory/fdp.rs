//! A cache with two write streams on one drive: random small objects and a sequential log of large ones.

use thermocline_types::Bytes;

use super::uniform::fifo_waf;
use super::{DomainError, Overprovisioning};

/// DLWA of a cache whose small objects have their own reclaim units, so that the large-object log costs nothing:
/// `DLWA = 1/(1 − δ)`, `δ = −(S/Sp) W0(−(Sp/S) e^(−Sp/S))`.
///
/// S (`small_objects`) is the logical size of the small-object region, overwritten uniformly at random; Sp (`physical`)
/// the space its reclaim units may occupy: S plus the drive's overprovisioning. The formula is [`fifo_waf`] with α =
/// Sp/S. Theorem 1 of Allison et al., "Towards Efficient Flash Caches with Emerging NVMe Flexible Data Placement SSDs",
/// EuroSys 2025.
///
/// # Errors
/// Unless `0 < small_objects < physical`.
pub fn segregated_dlwa(small_objects: Bytes, physical: Bytes) -> Result<f64, DomainError> {
    Overprovisioning::from_alpha(physical.as_f64() / small_objects.as_f64()).map(fifo_waf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lambert_w::lambert_w0;

    #[test]
    fn equals_the_theorem_as_printed() {
        for (s, sp) in [(40_u64, 48_u64), (40, 180), (100, 107), (64, 128)] {
            let (small, physical) = (Bytes::gib(s), Bytes::gib(sp));
            let ratio = sp as f64 / s as f64;
            let delta = -(1.0 / ratio) * lambert_w0(-ratio * (-ratio).exp());
            let ours = segregated_dlwa(small, physical).expect("in range");
            assert!((ours - 1.0 / (1.0 - delta)).abs() < 1e-9 * ours, "{s} in {sp}: {ours}");
        }
    }

    /// The paper's deployment: small objects on 4 % of a fully used drive of 7 % overprovisioning measured 1.03; alone
    /// in their units they have more than twice their size to spread over.
    #[test]
    fn small_region_with_all_the_spare_space_costs_almost_nothing() {
        let user = Bytes::gib(930).as_f64();
        let small = 0.04 * user;
        let dlwa = segregated_dlwa(Bytes(small as u64), Bytes((small + 0.07 * user) as u64))
            .expect("in range");
        assert!((1.0..1.1).contains(&dlwa), "{dlwa}");
    }

    #[test]
    fn refuses_less_space_than_data() {
        assert!(segregated_dlwa(Bytes::gib(2), Bytes::gib(1)).is_err());
        assert!(segregated_dlwa(Bytes::ZERO, Bytes::gib(1)).is_err());
    }
}
