//! Which slot of the span a request addresses.

use thermocline_types::{Op, Rng};

use super::scatter::Permutation;
use super::zipf::Zipf;

/// Chooses slots in `0..slots`.
pub(super) trait Select {
    /// The slot of the next request, which is an `op`.
    fn next(&mut self, op: Op, rng: &mut Rng) -> u64;
}

/// Every slot equally likely.
#[derive(Clone, Debug)]
pub(super) struct Uniform {
    pub(super) slots: u64,
}

impl Select for Uniform {
    #[inline]
    fn next(&mut self, _op: Op, rng: &mut Rng) -> u64 {
        rng.below(self.slots)
    }
}

/// Zipf ranks, scattered over the span; scattered anew after every `period` writes.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    zipf: Zipf,
    scatter: Permutation,
    slots: u64,
    period: u64,
    left: u64,
    /// A separate generator for permutations: a permutation depends only on the number of moves, not on the draws in
    /// between.
    moves: Rng,
}

impl Ranked {
    /// `slots` ranks with exponent `theta` that move after every `period` writes, counted in slots; `None` never.
    pub(super) fn new(slots: u64, theta: f64, period: Option<u64>, rng: &mut Rng) -> Self {
        let mut moves = Rng::new(rng.next_u64());
        let period = period.unwrap_or(u64::MAX);
        Ranked {
            zipf: Zipf::new(slots, theta),
            scatter: Permutation::new(slots, &mut moves),
            slots,
            period,
            left: period,
            moves,
        }
    }

    #[cold]
    fn relocate(&mut self) {
        self.scatter = Permutation::new(self.slots, &mut self.moves);
        self.left = self.period;
    }
}

impl Select for Ranked {
    #[inline]
    fn next(&mut self, op: Op, rng: &mut Rng) -> u64 {
        if op == Op::Write {
            if self.left == 0 {
                self.relocate();
            }
            self.left -= 1;
        }
        self.scatter.apply(self.zipf.sample(rng))
    }
}

/// Consecutive parts of the span, each with its share of the requests, uniform within.
#[derive(Clone, Debug)]
pub(super) struct Bands(Vec<Band>);

#[derive(Clone, Copy, Debug)]
struct Band {
    /// A request whose random number is below this, and not below the previous band's, is in this band.
    below: u64,
    first: u64,
    slots: u64,
}

impl Bands {
    /// Bands of (per cent of the span, per cent of the requests), both summing to 100. Bounds are rounded to whole
    /// slots; the first band has at least one, and requests to a band that is left with none go anywhere.
    pub(super) fn new(slots: u64, shares: &[(f64, f64)]) -> Self {
        let mut bands = Vec::with_capacity(shares.len());
        let (mut first, mut data, mut requests) = (0, 0.0, 0.0);
        for &(data_percent, request_percent) in shares {
            data += data_percent;
            requests += request_percent;
            let end = ((slots as f64 * data / 100.0).round() as u64).clamp(first.max(1), slots);
            // A product at or beyond 2^64 becomes the largest number: the last band takes everything that is left.
            let below = (requests / 100.0 * 18_446_744_073_709_551_616.0) as u64;
            let band = if end > first {
                Band { below, first, slots: end - first }
            } else {
                Band { below, first: 0, slots }
            };
            bands.push(band);
            first = end;
        }
        if let Some(last) = bands.last_mut() {
            last.below = u64::MAX;
            if last.first + last.slots < slots {
                last.slots = slots - last.first;
            }
        }
        Bands(bands)
    }
}

impl Select for Bands {
    #[inline]
    fn next(&mut self, _op: Op, rng: &mut Rng) -> u64 {
        let draw = rng.next_u64();
        let passed = self.0[..self.0.len() - 1].iter().filter(|band| draw >= band.below).count();
        let band = self.0[passed];
        band.first + rng.below(band.slots)
    }
}

/// From the first slot to the last, again and again; writes, reads and trims each at their own position.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    slots: u64,
    next: [u64; 3],
}

impl Cursor {
    pub(super) fn new(slots: u64) -> Self {
        Cursor { slots, next: [0; 3] }
    }
}

impl Select for Cursor {
    #[inline]
    fn next(&mut self, op: Op, _rng: &mut Rng) -> u64 {
        let position = match op {
            Op::Read => &mut self.next[1],
            Op::Trim => &mut self.next[2],
            Op::Write | Op::WriteZeroes | Op::Flush => &mut self.next[0],
        };
        let slot = *position;
        *position = if slot + 1 == self.slots { 0 } else { slot + 1 };
        slot
    }
}

/// A circular log: appends at the head, trims at the tail in pieces of 1/64 of the span.
#[derive(Clone, Debug)]
pub(super) struct Log {
    slots: u64,
    /// Slots appended and slots trimmed since the start; positions are these modulo `slots`.
    head: u64,
    tail: u64,
    live_max: u64,
    piece: u64,
}

/// Next step of the log: `count` slots from `first`, not wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) first: u64,
    pub(super) count: u64,
}

impl Log {
    /// A log over `slots` that keeps at most `live_percent` of them, and at least one, live.
    pub(super) fn new(slots: u64, live_percent: f64) -> Self {
        let live_max = ((slots as f64 * live_percent / 100.0) as u64).clamp(1, slots);
        Log { slots, head: 0, tail: 0, live_max, piece: (slots / 64).max(1) }
    }

    /// The next step; `op` is a read or a write. Reads go to a random live slot, and nothing is read from an empty log.
    pub(super) fn step(&mut self, op: Op, rng: &mut Rng) -> Step {
        let live = self.head - self.tail;
        if op == Op::Read && live > 0 {
            return Step { op, first: (self.tail + rng.below(live)) % self.slots, count: 1 };
        }
        if live == self.live_max {
            let first = self.tail % self.slots;
            let count = self.piece.min(live).min(self.slots - first);
            self.tail += count;
            return Step { op: Op::Trim, first, count };
        }
        let first = self.head % self.slots;
        self.head += 1;
        Step { op: Op::Write, first, count: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_get_their_shares_and_cover_the_span() {
        for slots in [1, 2, 3, 7, 100, 1_000_003] {
            let mut bands = Bands::new(slots, &[(5.0, 50.0), (15.0, 30.0), (80.0, 20.0)]);
            let mut rng = Rng::new(1);
            let mut hot = 0;
            let (mut least, mut most) = (u64::MAX, 0);
            for _ in 0..100_000 {
                let slot = bands.next(Op::Write, &mut rng);
                assert!(slot < slots);
                (least, most) = (least.min(slot), most.max(slot));
                hot += u32::from(slot * 20 < slots);
            }
            if slots >= 100 {
                // 50 000 expected, standard deviation 158.
                assert!((49_300..50_700).contains(&hot), "{slots}: {hot}");
            }
            if slots <= 100 {
                assert_eq!((least, most), (0, slots - 1), "{slots}");
            }
        }
    }

    #[test]
    fn drift_moves_the_hot_block_and_only_then() {
        let mut rng = Rng::new(1);
        let mut ranked = Ranked::new(1_000, 3.0, Some(500), &mut rng);
        let mut hottest = Vec::new();
        for _ in 0..10 {
            let mut counts = vec![0_u32; 1_000];
            for _ in 0..500 {
                counts[ranked.next(Op::Write, &mut rng) as usize] += 1;
                counts[ranked.next(Op::Read, &mut rng) as usize] += 1;
            }
            let (place, count) =
                counts.iter().enumerate().max_by_key(|&(_, count)| count).expect("not empty");
            // Rank 1 of theta 3 draws 83 %: it stayed in one place during the whole period.
            assert!(*count > 750, "{count}");
            hottest.push(place);
        }
        hottest.dedup();
        assert!(hottest.len() >= 9, "{hottest:?}");
    }

    #[test]
    fn cursor_wraps_and_keeps_positions_apart() {
        let mut rng = Rng::new(0);
        let mut cursor = Cursor::new(3);
        let writes: Vec<u64> = (0..5).map(|_| cursor.next(Op::Write, &mut rng)).collect();
        assert_eq!(writes, [0, 1, 2, 0, 1]);
        assert_eq!(cursor.next(Op::Read, &mut rng), 0);
        assert_eq!(cursor.next(Op::Write, &mut rng), 2);
        assert_eq!(cursor.next(Op::Trim, &mut rng), 0);
    }

    #[test]
    fn log_wraps_never_overwrites_live_data_and_keeps_its_share() {
        for (slots, live_percent) in
            [(1, 50.0), (2, 50.0), (100, 25.0), (1_000, 100.0), (777, 33.0)]
        {
            let mut log = Log::new(slots, live_percent);
            let mut rng = Rng::new(4);
            let mut live = vec![false; slots as usize];
            let (mut expected, mut laps, mut most) = (0, 0, 0);
            for round in 0..slots * 8 {
                let wanted = if round % 5 == 4 { Op::Read } else { Op::Write };
                let step = log.step(wanted, &mut rng);
                let range = step.first as usize..(step.first + step.count) as usize;
                match step.op {
                    Op::Write => {
                        assert_eq!(step.first, expected % slots, "appends in order");
                        assert!(
                            live[range.clone()].iter().all(|&is_live| !is_live),
                            "overwrites live data"
                        );
                        expected += 1;
                        laps = expected / slots;
                        live[range].fill(true);
                    }
                    Op::Trim => {
                        assert!(
                            live[range.clone()].iter().all(|&is_live| is_live),
                            "trims what is not live"
                        );
                        live[range].fill(false);
                    }
                    _ => assert!(
                        live[range].iter().all(|&is_live| is_live),
                        "reads what is not live"
                    ),
                }
                most = most.max(live.iter().filter(|&&is_live| is_live).count() as u64);
            }
            assert!(laps >= 2, "{slots}: wrapped {laps} times");
            assert_eq!(most, ((slots as f64 * live_percent / 100.0) as u64).max(1));
        }
    }
}
