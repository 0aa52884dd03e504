//! How many different records are among those written: what merging keeps.

use thermocline_types::Bytes;

use crate::synthetic::zipf::rank_sum;

/// Ranks of a bin of their own; later ones share bins this many times as wide as their first rank. The mean probability
/// in a bin stands for all of it: the error of a sum is below 0.01 % (second order in the ratio).
const HEAD: u64 = 512;
const RATIO: f64 = 1.02;

/// The records that can be written, and how likely each is.
///
/// A table is known by how much was written of its part of the keys (*draws*) and which share of the keys was loaded
/// there. After `n` draws of `N` records of probability `p`, one of them is not among the drawn with probability
/// `(1 - p)^n`, which is `e^(-np)` but for terms of `n p^2`; merging adds draws, so that what is left is exact in the
/// mean. Records are spread over the key space regardless of how likely they are, as by a hash.
#[derive(Debug)]
pub(super) struct KeySpace {
    bytes: f64,
    record: f64,
    law: Law,
}

#[derive(Debug)]
enum Law {
    /// Every record is new.
    Endless,
    Uniform,
    /// How many records share which probability.
    Zipf(Vec<(f64, f64)>),
}

impl KeySpace {
    /// Records of `record` bytes, all of them `bytes`, with probabilities by Zipf's law of exponent `theta`.
    pub fn new(bytes: Bytes, record: Bytes, theta: f64) -> KeySpace {
        let law = if theta > 0.0 {
            Law::Zipf(zipf(bytes.div_ceil(record).max(1), theta))
        } else {
            Law::Uniform
        };
        KeySpace { bytes: bytes.as_f64(), record: record.as_f64(), law }
    }

    /// Records that are never written again.
    pub fn endless() -> KeySpace {
        KeySpace { bytes: f64::INFINITY, record: 1.0, law: Law::Endless }
    }

    /// Bytes of different records in all of the key space after `draws` bytes were written and the share `loaded`
    /// loaded.
    pub fn distinct(&self, draws: f64, loaded: f64) -> f64 {
        let drawn = match &self.law {
            Law::Endless => return draws,
            Law::Uniform => -(-draws / self.bytes).exp_m1(),
            Law::Zipf(bins) => {
                let n = draws / self.record;
                let drawn: f64 = bins.iter().map(|(count, p)| -count * (-n * p).exp_m1()).sum();
                drawn * self.record / self.bytes
            }
        };
        self.bytes * (drawn + loaded * (1.0 - drawn))
    }
}

fn zipf(records: u64, theta: f64) -> Vec<(f64, f64)> {
    let total = rank_sum(theta, 1, records + 1);
    let (mut bins, mut first) = (Vec::new(), 1);
    while first <= records {
        let next = if first <= HEAD { first + 1 } else { (first as f64 * RATIO) as u64 };
        let end = next.max(first + 1).min(records + 1);
        let count = (end - first) as f64;
        bins.push((count, rank_sum(theta, first, end) / total / count));
        first = end;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::zipf::Zipf;
    use thermocline_types::Rng;

    const RECORD: u64 = 100;

    /// Counted, record by record.
    fn counted(records: u64, theta: f64, draws: u64, loaded: u64) -> f64 {
        let (zipf, mut rng) = (Zipf::new(records, theta), Rng::new(3));
        let mut seen = vec![false; records as usize];
        // Whether a record was loaded has nothing to do with its rank.
        (0..records).filter(|rank| rank % 10 < loaded).for_each(|rank| seen[rank as usize] = true);
        (0..draws).for_each(|_| seen[zipf.sample(&mut rng) as usize] = true);
        (seen.iter().filter(|seen| **seen).count() as u64 * RECORD) as f64
    }

    #[test]
    fn is_what_counting_finds() {
        let records = 200_000;
        for theta in [0.0, 0.7, 0.99, 1.3] {
            let keys = KeySpace::new(Bytes(records * RECORD), Bytes(RECORD), theta);
            for (draws, loaded) in [(20_000, 0), (200_000, 0), (1_000_000, 0), (200_000, 4)] {
                let found = counted(records, theta, draws, loaded);
                let ours = keys.distinct((draws * RECORD) as f64, loaded as f64 / 10.0);
                // Five standard deviations of a count that is at most binomial.
                let tolerance = 5.0 * (found / RECORD as f64).sqrt() * RECORD as f64;
                assert!((ours - found).abs() < tolerance, "{theta} {draws}: {ours} for {found}");
            }
        }
    }
}
