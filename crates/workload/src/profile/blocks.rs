//! When and how often each 4 KiB block is written.

use std::collections::BTreeMap;

use thermocline_types::{Bytes, Request};

use super::{BLOCK, HotShare, IntervalClass, RewriteIntervals, Skew, ratio};
use crate::chunked::Chunked;
use crate::granule::GranuleMap;
use crate::remap::MapError;

/// The blocks ever written.
#[derive(Default)]
pub(super) struct Blocks {
    index: GranuleMap,
    history: Chunked<History>,
    /// Blocks written so far.
    position: u64,
    /// Rewrites by the power of two of their interval in blocks.
    intervals: Vec<u64>,
}

/// When a block was written last (40 bits, in blocks written before: 4 PiB until it wraps) and how often (24 bits,
/// stopping at 16.7 million), packed because there is one per block.
#[derive(Clone, Copy, Default)]
struct History(u64);

const COUNT_BITS: u32 = 24;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const POSITION_MASK: u64 = (1 << (64 - COUNT_BITS)) - 1;

impl History {
    fn count(self) -> u64 {
        self.0 & COUNT_MAX
    }

    /// How long ago the block was written, and the history with this write added.
    fn written(self, position: u64) -> (u64, History) {
        let interval = position.wrapping_sub(self.0 >> COUNT_BITS) & POSITION_MASK;
        let count = (self.count() + 1).min(COUNT_MAX);
        (interval, History((position & POSITION_MASK) << COUNT_BITS | count))
    }
}

/// The shares of blocks reported as hottest.
const HOTTEST: [f64; 5] = [0.01, 0.05, 0.10, 0.20, 0.50];

/// A fit over fewer ranks is meaningless.
const RANKS_MIN: usize = 8;

impl Blocks {
    /// Notes a write and returns how many blocks it wrote for the first time.
    pub fn write(&mut self, request: &Request) -> Result<u64, MapError> {
        let before = self.index.len();
        for block in request.offset.get() / BLOCK..request.end().div_ceil(Bytes::BLOCK) {
            let slot = self.index.insert(request.tenant, block);
            let (slot, is_new) =
                slot.map_err(|_| MapError::TooManyGranules { granule: Bytes::BLOCK })?;
            if is_new {
                self.history.push(History::default());
            }
            let (interval, history) = self.history[slot as usize].written(self.position);
            self.history[slot as usize] = history;
            if !is_new {
                let class = interval.max(1).ilog2() as usize;
                if self.intervals.len() <= class {
                    self.intervals.resize(class + 1, 0);
                }
                self.intervals[class] += 1;
            }
            self.position += 1;
        }
        Ok(u64::from(self.index.len() - before))
    }

    /// How many different blocks were written.
    pub fn distinct(&self) -> u64 {
        u64::from(self.index.len())
    }

    pub fn rewrites(&self) -> RewriteIntervals {
        let classes = self.intervals.iter().enumerate();
        RewriteIntervals {
            first_writes: self.distinct(),
            rewrites: self.position - self.distinct(),
            classes: classes
                .map(|(class, &blocks)| IntervalClass { bytes_min: BLOCK << class, blocks })
                .collect(),
        }
    }

    pub fn skew(&self) -> Skew {
        // How many blocks were written how often, the most often first.
        let mut counts = BTreeMap::<u64, u64>::new();
        for history in self.history.iter() {
            *counts.entry(history.count()).or_default() += 1;
        }
        let counts: Vec<(u64, u64)> = counts.into_iter().rev().collect();
        let hottest = HOTTEST.map(|share_of_blocks| HotShare {
            share_of_blocks,
            share_of_writes: hot_share(&counts, share_of_blocks),
        });
        let points = points_by_rank(&counts);
        let fit = (points.len() >= RANKS_MIN).then(|| fit_line(&points));
        Skew {
            hottest: hottest.to_vec(),
            zipf_theta: fit.map(|(slope, _)| 0.0 - slope),
            zipf_r2: fit.and_then(|(_, r2)| r2),
        }
    }
}

/// Share of the writes that the hottest `share` of the blocks took.
fn hot_share(counts: &[(u64, u64)], share: f64) -> f64 {
    let blocks: u64 = counts.iter().map(|(_, blocks)| blocks).sum();
    let writes: u64 = counts.iter().map(|(count, blocks)| count * blocks).sum();
    let mut left = (blocks as f64 * share).ceil() as u64;
    let mut hot = 0;
    for (count, blocks) in counts {
        let taken = left.min(*blocks);
        hot += count * taken;
        left -= taken;
    }
    ratio(hot, writes)
}

/// Logarithms of rank and count at ranks a quarter octave apart.
fn points_by_rank(counts: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let total: u64 = counts.iter().map(|(_, blocks)| blocks).sum();
    let mut ranks: Vec<u64> =
        (0..256).map(|step| 2_f64.powf(f64::from(step) / 4.0).round() as u64).collect();
    ranks.dedup();
    let mut points = Vec::new();
    let mut classes = counts.iter();
    let (mut count, mut through) = (0, 0);
    for rank in ranks.into_iter().take_while(|&rank| rank <= total) {
        while through < rank {
            let Some(class) = classes.next() else { return points };
            count = class.0;
            through += class.1;
        }
        points.push(((rank as f64).ln(), (count as f64).ln()));
    }
    points
}

/// Slope of the least-squares line, and R² where the values differ at all.
fn fit_line(points: &[(f64, f64)]) -> (f64, Option<f64>) {
    let n = points.len() as f64;
    let mean = |values: fn(&(f64, f64)) -> f64| points.iter().map(values).sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| f(x - mean_x, y - mean_y)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    let r2 = (yy > f64::EPSILON).then(|| xy * xy / (xx * yy));
    (xy / xx, r2)
}
