//! How much a row of groups would relocate: the model by which MiDAS chooses sizes.
//!
//! Blocks flow through the groups. With `S(t)` the share of update intervals longer than `t` host writes, a group of
//! `s` blocks that `f` blocks enter per host write keeps them for `s / f`, and what of them was not overwritten by
//! then enters the next: entering the first at time 0, a block leaves group `i` at age `T_i`, and `f = S(T_(i−1))`.
//! The valid blocks of all groups before the last number `∫S`, so that the last holds the others; its victims are as
//! valid as those of a FIFO log of uniform writes, `X = exp(−α(1 − X))` (theirs: of hot and cold writes, with an
//! unpublished division).

/// Intervals are counted in parts of a unit.
const PARTS: u64 = 4;
/// Intervals longer than so many parts are not told apart: 2^18 units.
const MOST_PARTS: usize = 1 << 20;
/// The smallest change of a size, as a share of the device.
const STEPS: u32 = 128;
/// Changes tried at once, in steps.
const JUMPS: [u32; 5] = [1, 2, 4, 8, 16];

/// Update intervals of the blocks watched, in quarters of a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Intervals {
    counts: Vec<u32>,
    /// Host blocks in a part.
    part: u64,
}

impl Intervals {
    /// Sets the size of a unit.
    pub(super) fn measure_in(&mut self, blocks_per_unit: u32) {
        self.part = (u64::from(blocks_per_unit) / PARTS).max(1);
    }

    pub(super) fn add(&mut self, interval: u64) {
        let part = (interval / self.part.max(1)).min(MOST_PARTS as u64 - 1) as usize;
        if part >= self.counts.len() {
            self.counts.resize(part + 1, 0);
        }
        self.counts[part] += 1;
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u32>()
    }
}

/// What the groups share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    pub units: u32,
    pub blocks_per_unit: u32,
    /// Valid blocks.
    pub live: u64,
}

/// Sizes in units of all groups but the last, each with the valid share of its victims, and the write amplification.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    pub sizes: Vec<(u32, f64)>,
    pub waf: f64,
}

/// `S` and its integral, at the beginning of each part.
struct Survival {
    share: Vec<f64>,
    /// In host blocks.
    integral: Vec<f64>,
    part: f64,
}

impl Survival {
    fn new(intervals: &Intervals) -> Option<Survival> {
        let all: u64 = intervals.counts.iter().map(|&count| u64::from(count)).sum();
        let part = intervals.part as f64;
        let (mut share, mut integral) = (vec![1.0], vec![0.0]);
        let mut left = all;
        for &count in &intervals.counts {
            let before = left as f64 / all as f64;
            left -= u64::from(count);
            let after = left as f64 / all as f64;
            let area: f64 = integral[integral.len() - 1] + part * f64::midpoint(before, after);
            share.push(after);
            integral.push(area);
        }
        (all > 0).then_some(Survival { share, integral, part })
    }

    /// `S(t)` and `∫S` up to there.
    fn at(&self, t: f64) -> (f64, f64) {
        let (index, last) = ((t / self.part) as usize, self.share.len() - 1);
        if index >= last {
            return (self.share[last], self.integral[last]);
        }
        let within = t / self.part - index as f64;
        let share = self.share[index] + within * (self.share[index + 1] - self.share[index]);
        let area = within * self.part * f64::midpoint(self.share[index], share);
        (share, self.integral[index] + area)
    }
}

/// Grows groups, and adds some up to `most` with the last not counted, as long as that lowers the write amplification.
pub(super) fn choose(intervals: &Intervals, device: Device, most: usize) -> Chosen {
    let Some(survival) = Survival::new(intervals) else {
        return Chosen { sizes: Vec::new(), waf: f64::INFINITY };
    };
    let step = (device.units / STEPS).max(1);
    let mut best = predict(&survival, device, &[]);
    loop {
        let sizes: Vec<u32> = best.sizes.iter().map(|&(size, _)| size).collect();
        let groups = (sizes.len() + 1).min(most);
        let grown = (0..groups).flat_map(|index| {
            let sizes = &sizes;
            JUMPS.iter().map(move |jump| {
                let mut sizes = sizes.clone();
                sizes.resize(sizes.len().max(index + 1), 0);
                sizes[index] += jump * step;
                sizes
            })
        });
        let better = grown
            .map(|sizes| predict(&survival, device, &sizes))
            .min_by(|a, b| a.waf.total_cmp(&b.waf))
            .filter(|better| better.waf < best.waf);
        match better {
            Some(better) => best = better,
            None => return best,
        }
    }
}

fn predict(survival: &Survival, device: Device, sizes: &[u32]) -> Chosen {
    let blocks = f64::from(device.blocks_per_unit);
    let (mut age, mut flow, mut held, mut waf) = (0.0, 1.0_f64, 0.0, 1.0);
    let mut groups = Vec::with_capacity(sizes.len());
    for &size in sizes {
        age += f64::from(size) * blocks / flow.max(1e-9);
        let (left, integral) = survival.at(age);
        groups.push((size, left / flow.max(1e-9)));
        (flow, held) = (left, integral);
        waf += flow;
    }
    let used: u32 = sizes.iter().sum();
    let space = f64::from(device.units.saturating_sub(used)) * blocks;
    let valid = (device.live as f64 - held).max(1.0);
    let share = fifo_share(space / valid);
    Chosen { sizes: groups, waf: waf + flow * share / (1.0 - share) }
}

/// The valid share of the victims of a FIFO log with `alpha` blocks of space per valid block; 1 without any to spare.
fn fifo_share(alpha: f64) -> f64 {
    if alpha <= 1.0 {
        return 1.0;
    }
    let mut valid = 0.0_f64;
    for _ in 0..100 {
        valid = (-alpha * (1.0 - valid)).exp();
    }
    valid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: &[(u64, u32)]) -> Intervals {
        let mut intervals = Intervals::default();
        intervals.measure_in(64);
        for &(interval, count) in counts {
            (0..count).for_each(|_| intervals.add(interval));
        }
        intervals
    }

    #[test]
    fn without_groups_the_prediction_is_the_fifo_closed_form() {
        let device = Device { units: 13_000, blocks_per_unit: 64, live: 640_000 };
        let survival = Survival::new(&counted(&[(1000, 1)])).unwrap();
        // Overprovisioning 0.3: 2.364 (Xiang and Kurkoski).
        let predicted = predict(&survival, device, &[]);
        assert!((predicted.waf - 2.364).abs() < 0.001, "{predicted:?}");
    }

    #[test]
    fn flows_through_groups_follow_the_intervals() {
        // Half of the intervals end within the first 10 units, the others after 900.
        let intervals = counted(&[(320, 50), (64 * 900, 50)]);
        let survival = Survival::new(&intervals).unwrap();
        let device = Device { units: 1300, blocks_per_unit: 64, live: 64_000 };
        let predicted = predict(&survival, device, &[20, 10]);
        let shares: Vec<f64> = predicted.sizes.iter().map(|&(_, share)| share).collect();
        assert_eq!(
            shares,
            [0.5, 1.0],
            "all that is left after the first group outlives the second"
        );
        let held = 320.0 + 8.0 + (20.0 + 10.0 / 0.5 - 5.125) * 32.0;
        let last = fifo_share(1270.0 * 64.0 / (64_000.0 - held));
        let by_hand = 1.0 + 0.5 + 0.5 + 0.5 * last / (1.0 - last);
        assert!((predicted.waf / by_hand - 1.0).abs() < 0.002, "{} {by_hand}", predicted.waf);
    }

    #[test]
    fn a_group_just_long_enough_for_short_lives_is_chosen() {
        let device = Device { units: 1150, blocks_per_unit: 64, live: 64_000 };
        let chosen = choose(&counted(&[(64 * 20, 90), (64 * 5000, 10)]), device, 6);
        let alone = choose(&counted(&[]), device, 6);
        assert!(alone.sizes.is_empty() && alone.waf.is_infinite());
        let first = chosen.sizes[0].0;
        assert!((20..60).contains(&first), "{chosen:?}");
        assert!((chosen.sizes[0].1 - 0.1).abs() < 0.01 && chosen.waf < 1.6, "{chosen:?}");
    }
}
