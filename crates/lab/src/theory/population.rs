//! Write rates of data: parts with one write rate each.

use thermocline_workload::synthetic::zipf::rank_sum;

use super::DomainError;

/// A part of the data all of which is equally likely to be written next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Share of the logical space, `s_k`, above 0; all parts sum to 1.
    pub data: f64,
    /// Share of the writes, `r_k`, above 0; all parts sum to 1.
    pub writes: f64,
}

/// A memoryless workload: each write falls into part k with probability `r_k`, uniformly within the part.
#[derive(Clone, Debug, PartialEq)]
pub struct Population(Vec<Part>);

/// Ranks kept as parts of their own by [`Population::zipf`].
const HEAD: u64 = 1024;
/// Ratio of the last to the first rank in a later part of [`Population::zipf`].
const RATIO: f64 = 1.01;

impl Population {
    /// Parts with the given shares, which are scaled to sum to 1.
    ///
    /// # Errors
    /// If there are no parts, or a share is not finite and above 0.
    pub fn new(parts: Vec<Part>) -> Result<Self, DomainError> {
        DomainError::unless(!parts.is_empty(), "number of parts", 0.0, "at least 1")?;
        for part in &parts {
            for (what, share) in
                [("share of the data", part.data), ("share of the writes", part.writes)]
            {
                DomainError::unless(
                    share.is_finite() && share > 0.0,
                    what,
                    share,
                    "finite and above 0",
                )?;
            }
        }
        Ok(Self::scaled(parts))
    }

    /// `data` of the space receives `writes` of the writes, the rest of the space the rest.
    ///
    /// # Errors
    /// Unless both shares lie strictly between 0 and 1.
    pub fn hot_cold(data: f64, writes: f64) -> Result<Self, DomainError> {
        Population::new(vec![
            Part { data, writes },
            Part { data: 1.0 - data, writes: 1.0 - writes },
        ])
    }

    /// Zipf's law: of `units` units the one of rank k is written with probability `k^−θ / Σ j^−θ`.
    ///
    /// Ranks up to 1024 are parts of their own; later ones share a part with ranks up to 1 % larger, exact in their
    /// total. The write amplification computed from it differs from one part per rank by less than 1e-5 (relative; see
    /// tests).
    ///
    /// # Errors
    /// Unless `theta` is finite and at least 0, and `units` at least 1.
    pub fn zipf(theta: f64, units: u64) -> Result<Self, DomainError> {
        let mut bounds: Vec<u64> = (1..=HEAD.min(units)).collect();
        let mut next = HEAD + 1;
        while next <= units {
            bounds.push(next);
            next = ((next as f64 * RATIO) as u64).max(next + 1);
        }
        Self::zipf_cut(theta, units, bounds)
    }

    /// Zipf's law known only by `parts` classes of equal width in log(rank): class j holds ranks from `units^(j/parts)`
    /// up. Classes too narrow to hold a rank are left out.
    ///
    /// # Errors
    /// Unless `theta` is finite and at least 0, and `units` and `parts` at least 1.
    pub fn zipf_log_rank(theta: f64, units: u64, parts: u32) -> Result<Self, DomainError> {
        DomainError::unless(parts > 0, "number of parts", 0.0, "at least 1")?;
        let bound = |j: u32| (units as f64).powf(f64::from(j) / f64::from(parts)).round() as u64;
        Self::zipf_cut(theta, units, (0..parts).map(bound).collect())
    }

    /// Zipf's law with one part from each bound (first rank of the part, ascending) to the next.
    fn zipf_cut(theta: f64, units: u64, mut bounds: Vec<u64>) -> Result<Self, DomainError> {
        DomainError::unless(
            theta.is_finite() && theta >= 0.0,
            "zipf exponent",
            theta,
            "finite and at least 0",
        )?;
        DomainError::unless(units > 0, "number of units", 0.0, "at least 1")?;
        bounds.push(units + 1);
        bounds.dedup();
        let parts = bounds.windows(2).map(|pair| Part {
            data: (pair[1] - pair[0]) as f64 / units as f64,
            writes: rank_sum(theta, pair[0], pair[1]),
        });
        Ok(Self::scaled(parts.collect()))
    }

    fn scaled(mut parts: Vec<Part>) -> Self {
        let data: f64 = parts.iter().map(|part| part.data).sum();
        let writes: f64 = parts.iter().map(|part| part.writes).sum();
        for part in &mut parts {
            part.data /= data;
            part.writes /= writes;
        }
        Population(parts)
    }

    /// The parts in the order given; for Zipf the most written first.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }
}
