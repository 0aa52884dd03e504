//! Free space, as runs of bytes.

use std::collections::BTreeMap;

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
#[derive(Clone, Debug)]
pub struct FreeSpace {
    /// Length of each run by where it begins.
    runs: BTreeMap<u64, u64>,
    free: u64,
}

impl FreeSpace {
    /// All of `whole`.
    #[must_use]
    pub fn new(whole: Extent) -> FreeSpace {
        let runs = (whole.length > 0).then_some((whole.start, whole.length));
        FreeSpace { runs: runs.into_iter().collect(), free: whole.length }
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
        self.runs.remove(&run.start);
        if start > run.start {
            self.runs.insert(run.start, start - run.start);
        }
        if run.end() > taken.end() {
            self.runs.insert(taken.end(), run.end() - taken.end());
        }
        self.free -= taken.length;
        Some(taken)
    }

    /// The run that holds `from`, or the first after it.
    fn at_or_after(&self, from: u64) -> Option<Extent> {
        let extent = |(&start, &length): (&u64, &u64)| Extent { start, length };
        let before = self.runs.range(..=from).next_back().map(extent);
        before.filter(|run| run.end() > from).or_else(|| self.runs.range(from..).next().map(extent))
    }

    /// Gives back what was taken.
    ///
    /// # Panics
    /// If some of it is free already.
    pub fn give(&mut self, extent: Extent) {
        if extent.length == 0 {
            return;
        }
        self.free += extent.length;
        let mut run = extent;
        if let Some((&start, &length)) = self.runs.range(..=extent.start).next_back() {
            assert!(start + length <= extent.start, "{extent:?} is free from {start} on");
            if start + length == extent.start {
                run = Extent { start, length: length + run.length };
            }
        }
        if let Some((&start, &length)) = self.runs.range(extent.start..).next() {
            assert!(extent.end() <= start, "{extent:?} is free from {start} on");
            if start == extent.end() {
                self.runs.remove(&start);
                run.length += length;
            }
        }
        self.runs.insert(run.start, run.length);
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
    }

    proptest! {
        #[test]
        fn is_what_a_list_of_places_says(
            size in 1_usize..300,
            steps in prop::collection::vec((any::<bool>(), 0_usize..320, 1_usize..40), 1..200),
        ) {
            let mut ours = FreeSpace::new(Extent { start: 0, length: size as u64 });
            let mut naive = Naive(vec![true; size]);
            let mut taken: Vec<Extent> = Vec::new();
            for (takes, place, most) in steps {
                if takes || taken.is_empty() {
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
