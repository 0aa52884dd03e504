//! Free space, as runs of bytes.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes side by side on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first.
    pub start: u64,
    /// How many.
    pub length: u64,
}

impl Extent {
    /// One past the last.
    #[must_use]
    pub fn end(self) -> u64 {
        self.start + self.length
    }
}

/// What is free of a volume.
///
/// Invariants:
/// * Runs neither overlap nor touch, so that there are as few as possible.
/// * The sum of their lengths is [`FreeSpace::free`].
/// * `runs` and `sizes` hold the same runs.
#[derive(Clone, Debug)]
pub struct FreeSpace {
    /// Length of each run by where it begins.
    runs: BTreeMap<u64, u64>,
    /// Each run, by its length and then by where it begins.
    sizes: BTreeSet<(u64, u64)>,
    free: u64,
}

impl FreeSpace {
    /// All of `whole`.
    #[must_use]
    pub fn new(whole: Extent) -> FreeSpace {
        let mut space =
            FreeSpace { runs: BTreeMap::new(), sizes: BTreeSet::new(), free: whole.length };
        if whole.length > 0 {
            space.insert(whole);
        }
        space
    }

    fn insert(&mut self, run: Extent) {
        self.runs.insert(run.start, run.length);
        self.sizes.insert((run.length, run.start));
    }

    fn remove(&mut self, run: Extent) {
        self.runs.remove(&run.start);
        self.sizes.remove(&(run.length, run.start));
    }

    /// Free bytes.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.free
    }

    /// The runs, in the order of their places.
    pub fn runs(&self) -> impl Iterator<Item = Extent> + '_ {
        self.runs.iter().map(|(&start, &length)| Extent { start, length })
    }

    /// Takes the first free bytes at or after `from`, or from the beginning if there are none: as many as lie side by
    /// side there, at most `most`. `None` when nothing is free.
    pub fn take(&mut self, from: u64, most: u64) -> Option<Extent> {
        let run = self.at_or_after(from).or_else(|| self.at_or_after(0))?;
        let start = if (run.start..run.end()).contains(&from) { from } else { run.start };
        let taken = Extent { start, length: most.min(run.end() - start) };
        self.cut(run, taken);
        Some(taken)
    }

    /// Takes `length` bytes from the beginning of the smallest run that holds them, the first of several. `None` when
    /// no run does.
    pub fn take_best(&mut self, length: u64) -> Option<Extent> {
        let &(size, start) = self.sizes.range((length, 0)..).next()?;
        let taken = Extent { start, length };
        self.cut(Extent { start, length: size }, taken);
        Some(taken)
    }

    /// Takes `taken` out of `run`.
    fn cut(&mut self, run: Extent, taken: Extent) {
        self.remove(run);
        if taken.start > run.start {
            self.insert(Extent { start: run.start, length: taken.start - run.start });
        }
        if run.end() > taken.end() {
            self.insert(Extent { start: taken.end(), length: run.end() - taken.end() });
        }
        self.free -= taken.length;
    }

    /// The run that holds `from`, or the first after it.
    fn at_or_after(&self, from: u64) -> Option<Extent> {
        let extent = |(&start, &length): (&u64, &u64)| Extent { start, length };
        let before = self.runs.range(..=from).next_back().map(extent);
        before.filter(|run| run.end() > from).or_else(|| self.runs.range(from..).next().map(extent))
    }

    /// Returns a taken extent.
    ///
    /// # Panics
    /// If a part of `extent` is already free.
    pub fn give(&mut self, extent: Extent) {
        if extent.length == 0 {
            return;
        }
        self.free += extent.length;
        let mut run = extent;
        if let Some((&start, &length)) = self.runs.range(..=extent.start).next_back() {
            assert!(start + length <= extent.start, "{extent:?} is free from {start} on");
            if start + length == extent.start {
                self.remove(Extent { start, length });
                run = Extent { start, length: length + run.length };
            }
        }
        if let Some((&start, &length)) = self.runs.range(extent.start..).next() {
            assert!(extent.end() <= start, "{extent:?} is free from {start} on");
            if start == extent.end() {
                self.remove(Extent { start, length });
                run.length += length;
            }
        }
        self.insert(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A byte for each place: whether it is free.
    struct Naive(Vec<bool>);

    impl Naive {
        /// The place where a search from `from` ends, and how many free places follow it.
        fn first(&self, from: usize) -> Option<(usize, usize)> {
            let places = (from.min(self.0.len())..self.0.len()).chain(0..self.0.len());
            let start = places.into_iter().find(|&place| self.0[place])?;
            Some((start, self.0[start..].iter().take_while(|free| **free).count()))
        }

        /// Where the smallest run of `length` places and more begins.
        fn best(&self, length: usize) -> Option<usize> {
            let mut runs = Vec::new();
            let mut start = 0;
            for run in self.0.chunk_by(|one, next| one == next) {
                if run[0] && run.len() >= length {
                    runs.push((run.len(), start));
                }
                start += run.len();
            }
            runs.into_iter().min().map(|(_, start)| start)
        }
    }

    proptest! {
        #[test]
        fn is_what_a_list_of_places_says(
            size in 1_usize..300,
            steps in prop::collection::vec((0..3, 0_usize..320, 1_usize..40), 1..200),
        ) {
            let mut ours = FreeSpace::new(Extent { start: 0, length: size as u64 });
            let mut naive = Naive(vec![true; size]);
            let mut taken: Vec<Extent> = Vec::new();
            for (step, place, most) in steps {
                if step == 0 {
                    let best = ours.take_best(most as u64);
                    let length = most as u64;
                    let expected =
                        naive.best(most).map(|start| Extent { start: start as u64, length });
                    prop_assert_eq!(best, expected);
                    if let Some(best) = best {
                        naive.0[best.start as usize..best.end() as usize].fill(false);
                        taken.push(best);
                    }
                } else if step == 1 || taken.is_empty() {
                    let expected = naive.first(place);
                    let found = ours.take(place as u64, most as u64);
                    prop_assert_eq!(found.is_some(), expected.is_some());
                    if let (Some(found), Some((start, run))) = (found, expected) {
                        let length = run.min(most);
                        prop_assert_eq!(found, Extent { start: start as u64, length: length as u64 });
                        naive.0[start..start + length].fill(false);
                        taken.push(found);
                    }
                } else {
                    let back = taken.swap_remove(place % taken.len());
                    naive.0[back.start as usize..back.end() as usize].fill(true);
                    ours.give(back);
                }
                let free = naive.0.iter().filter(|free| **free).count() as u64;
                prop_assert_eq!(ours.free(), free);
                prop_assert_eq!(ours.runs().map(|run| run.length).sum::<u64>(), free);
                let runs: Vec<Extent> = ours.runs().collect();
                prop_assert!(runs.windows(2).all(|pair| pair[0].end() < pair[1].start));
                let sizes: BTreeSet<_> = runs.iter().map(|run| (run.length, run.start)).collect();
                prop_assert_eq!(&ours.sizes, &sizes);
            }
        }
    }

    #[test]
    #[should_panic(expected = "is free from")]
    fn nothing_is_given_back_twice() {
        let mut space = FreeSpace::new(Extent { start: 0, length: 10 });
        let some = space.take(0, 5).expect("free");
        space.give(some);
        space.give(some);
    }
}
