//! The generated workloads of the yardstick: requests of one block, but for the logs.

use thermocline_types::Rng;
use thermocline_workload::synthetic::Permutation;
use thermocline_workload::synthetic::zipf::Zipf;

use super::tape::Tape;
use crate::Error;
use crate::theory::{Overprovisioning, Population, separation, uniform};

/// Which blocks are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Every block equally likely.
    Uniform,
    /// `data` of the blocks receive `writes` of the writes.
    HotCold {
        /// Share of the blocks.
        data: f64,
        /// Share of the writes.
        writes: f64,
    },
    /// The block of rank k with probability proportional to `k^−theta`.
    Zipf {
        /// The exponent.
        theta: f64,
    },
    /// A fifth of the blocks receive 80 % of the writes; another fifth after every `blocks` writes.
    Drift,
    /// Zipf 1.0 whose hottest fifth is shuffled after every `blocks / 2` writes, as in SepBIT's synthetic experiment
    /// (FAST 2022), which does so more often.
    DriftZipf,
    /// Three circular logs of 1, 4 and 10 % of the blocks take about half the writes, in requests of 8 to 64 blocks;
    /// the others are uniform.
    Logs,
}

/// Every generated workload by name.
pub const LAWS: [(&str, Law); 13] = [
    ("uniform", Law::Uniform),
    ("hotcold-10-90", Law::HotCold { data: 0.1, writes: 0.9 }),
    ("hotcold-20-80", Law::HotCold { data: 0.2, writes: 0.8 }),
    ("hotcold-50-90", Law::HotCold { data: 0.5, writes: 0.9 }),
    ("zipf-0.6", Law::Zipf { theta: 0.6 }),
    ("zipf-0.8", Law::Zipf { theta: 0.8 }),
    ("zipf-0.9", Law::Zipf { theta: 0.9 }),
    ("zipf-0.99", Law::Zipf { theta: 0.99 }),
    ("zipf-1.0", Law::Zipf { theta: 1.0 }),
    ("zipf-1.2", Law::Zipf { theta: 1.2 }),
    ("drift", Law::Drift),
    ("drift-zipf", Law::DriftZipf),
    ("logs", Law::Logs),
];

/// Share of the blocks that is hot under [`Law::Drift`] and shuffled under [`Law::DriftZipf`], and of the writes that
/// the former sends there.
const DRIFTING: f64 = 0.2;
const DRIFTING_WRITES: f64 = 0.8;
/// Of the blocks, what the three logs take.
const LOGS: [f64; 3] = [0.01, 0.04, 0.10];
/// A log takes 30 blocks a turn on average; as many single writes stand against it.
const SINGLES: u64 = 30;

impl Law {
    /// `writes` writes to `blocks` blocks that were filled from first to last before. Hot blocks lie anywhere.
    #[must_use]
    pub fn tape(self, name: &str, blocks: u32, writes: u64, seed: u64) -> Tape {
        let mut rng = Rng::new(seed);
        let mut tape = Tape::filled(name, blocks, writes);
        let scatter = Permutation::new(u64::from(blocks), &mut rng);
        let all = u64::from(blocks);
        tape.rates = self.rates(blocks, &scatter);
        match self {
            Law::Uniform => (0..writes).for_each(|_| tape.push(rng.below(all) as u32)),
            Law::HotCold { data, writes: share } => {
                let hot = (data * f64::from(blocks)) as u64;
                for _ in 0..writes {
                    let index = hot_or_cold(hot, all, share, &mut rng);
                    tape.push(scatter.apply(index) as u32);
                }
            }
            Law::Zipf { theta } => {
                let zipf = Zipf::new(all, theta);
                (0..writes).for_each(|_| tape.push(scatter.apply(zipf.sample(&mut rng)) as u32));
            }
            Law::Drift => {
                let (hot, mut from) = ((DRIFTING * f64::from(blocks)) as u64, 0);
                for write in 0..writes {
                    if write % all == 0 {
                        from = rng.below(all);
                    }
                    let index = hot_or_cold(hot, all, DRIFTING_WRITES, &mut rng);
                    tape.push(scatter.apply((index + from) % all) as u32);
                }
            }
            Law::DriftZipf => drift_zipf(&mut tape, blocks, writes, &scatter, &mut rng),
            Law::Logs => logs(&mut tape, blocks, writes, &mut rng),
        }
        tape
    }

    /// The rate of every block, if it has one for good.
    fn rates(self, blocks: u32, scatter: &Permutation) -> Option<Vec<f32>> {
        let hottest_first: Box<dyn Fn(u32) -> f64> = match self {
            Law::Uniform => Box::new(|_| 1.0),
            Law::HotCold { data, writes } => Box::new(move |index| {
                let is_hot = f64::from(index) < (data * f64::from(blocks)).floor();
                if is_hot { writes / data } else { (1.0 - writes) / (1.0 - data) }
            }),
            Law::Zipf { theta } => Box::new(move |rank| f64::from(rank + 1).powf(-theta)),
            Law::Drift | Law::DriftZipf | Law::Logs => return None,
        };
        let mut rates = vec![0.0; blocks as usize];
        for index in 0..blocks {
            rates[scatter.apply(u64::from(index)) as usize] = hottest_first(index) as f32;
        }
        Some(rates)
    }

    /// The least write amplification of a policy that knows every rate and not the future, if there is a closed form.
    ///
    /// # Errors
    /// None for the laws of [`LAWS`].
    pub fn limit(
        self,
        blocks: u32,
        op: Overprovisioning,
        blocks_per_unit: std::num::NonZeroU32,
    ) -> Result<Option<f64>, Error> {
        let wrong = |error: crate::theory::DomainError| Error::Settings(error.to_string());
        let population = match self {
            Law::Uniform => return Ok(Some(uniform::greedy_waf(op, blocks_per_unit))),
            Law::HotCold { data, writes } => Population::hot_cold(data, writes),
            Law::Zipf { theta } => Population::zipf(theta, u64::from(blocks)),
            Law::Drift | Law::DriftZipf | Law::Logs => return Ok(None),
        };
        Ok(Some(separation::optimum(&population.map_err(wrong)?, op).waf))
    }
}

fn hot_or_cold(hot: u64, all: u64, share: f64, rng: &mut Rng) -> u64 {
    if rng.unit_f64() < share { rng.below(hot) } else { hot + rng.below(all - hot) }
}

fn drift_zipf(tape: &mut Tape, blocks: u32, writes: u64, scatter: &Permutation, rng: &mut Rng) {
    let all = u64::from(blocks);
    let mut hottest: Vec<u32> =
        (0..(DRIFTING * f64::from(blocks)) as u64).map(|rank| scatter.apply(rank) as u32).collect();
    let zipf = Zipf::new(all, 1.0);
    for write in 0..writes {
        if write % (all / 2).max(1) == 0 {
            for last in (1..hottest.len()).rev() {
                hottest.swap(last, rng.below(last as u64 + 1) as usize);
            }
        }
        let rank = zipf.sample(rng);
        tape.push(
            hottest.get(rank as usize).copied().unwrap_or_else(|| scatter.apply(rank) as u32),
        );
    }
}

fn logs(tape: &mut Tape, blocks: u32, writes: u64, rng: &mut Rng) {
    let mut first = 0;
    let mut logs = LOGS.map(|share| {
        let log = (first, (share * f64::from(blocks)).max(1.0) as u32, 0);
        first += log.1;
        log
    });
    let end = tape.len() + writes as usize;
    while tape.len() < end {
        if let Some((start, length, head)) = logs.get_mut(rng.below(6) as usize) {
            let request = 8 << rng.below(4);
            for offset in 0..request {
                tape.push_part(*start + *head, offset, request);
                *head = (*head + 1) % *length;
            }
        } else {
            for _ in 0..SINGLES {
                tape.push(first + rng.below(u64::from(blocks - first)) as u32);
            }
        }
    }
}
