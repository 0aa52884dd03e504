//! Which crash states of a cache to look at.

use rustc_hash::FxHashSet;
use thermocline_types::Rng;

use crate::disk::{Cache, CrashState, Fate, Rest, Tear};

/// Number of unflushed changes up to which all subsets are judged.
pub const EXHAUSTIVE: usize = 10;

/// Random states beside the structured ones, where there are too many subsets. As in the plan of the fault model.
const RANDOM: usize = 64;

/// Sectors of 4 KiB, and of an indirection unit of 16 KiB.
const GRAINS: [u32; 2] = [8, 32];

/// The states of `cache` to look at, each once: all subsets of few changes; of many, all and none, all prefixes and
/// suffixes, each alone and each missing, and random ones. And each change torn, with all others kept and with those
/// before it kept.
#[must_use]
pub fn crash_states(cache: &Cache, rng: &mut Rng) -> Vec<CrashState> {
    let mut states = States { cache, seen: FxHashSet::default(), list: Vec::new() };
    let count = cache.pending().len();
    if count <= EXHAUSTIVE {
        for mask in (0..1_u32 << count).rev() {
            states.keep(|index| mask >> index & 1 == 1);
        }
    } else {
        states.structured(count);
        for _ in 0..RANDOM {
            states.add(cache.random_state(rng));
        }
    }
    for index in 0..count {
        for tear in tears(cache, index, rng) {
            states.torn(index, tear, |_| true);
            states.torn(index, tear, |other| other < index);
        }
    }
    states.list
}

/// The state of `cache` that keeps all changes, the state that loses all, and `count` random states, without
/// duplicates.
#[must_use]
pub fn some_states(cache: &Cache, rng: &mut Rng, count: u64) -> Vec<CrashState> {
    let mut states = States { cache, seen: FxHashSet::default(), list: Vec::new() };
    states.keep(|_| true);
    states.keep(|_| false);
    for _ in 0..count {
        states.add(cache.random_state(rng));
    }
    states.list
}

/// Tears of a change: at 512 bytes, at 4 KiB, at 16 KiB, and at random, with old bytes, zeros and garbage behind.
fn tears(cache: &Cache, index: usize, rng: &mut Rng) -> Vec<Tear> {
    let change = &cache.pending()[index];
    let (start, end) = change.range(cache.media());
    let length = end - start;
    let mut tears = vec![
        Tear { from: 1, to: u32::MAX, rest: Rest::Old },
        Tear { from: length - 1, to: u32::MAX, rest: Rest::Zeros },
        Tear { from: length / 2, to: u32::MAX, rest: Rest::Garbage(0) },
        Tear { from: 0, to: 1, rest: Rest::Old },
    ];
    for grain in GRAINS.into_iter().filter(|&grain| grain < length) {
        tears.push(Tear { from: grain, to: u32::MAX, rest: Rest::Old });
        tears.push(Tear { from: grain, to: 2 * grain, rest: Rest::Garbage(1) });
    }
    tears.extend((0..4).map(|_| cache.random_tear(change, rng)));
    tears
}

struct States<'a> {
    cache: &'a Cache,
    seen: FxHashSet<CrashState>,
    list: Vec<CrashState>,
}

impl States<'_> {
    fn add(&mut self, mut state: CrashState) {
        self.cache.normalise(&mut state);
        if self.seen.insert(state.clone()) {
            self.list.push(state);
        }
    }

    fn fates(&self, kept: impl Fn(usize) -> bool) -> CrashState {
        let fate = |index| if kept(index) { Fate::Kept } else { Fate::Lost };
        CrashState((0..self.cache.pending().len()).map(fate).collect())
    }

    fn keep(&mut self, kept: impl Fn(usize) -> bool) {
        self.add(self.fates(kept));
    }

    fn torn(&mut self, torn: usize, tear: Tear, kept: impl Fn(usize) -> bool) {
        let mut state = self.fates(kept);
        state.0[torn] = Fate::Torn(tear);
        self.add(state);
    }

    fn structured(&mut self, count: usize) {
        self.keep(|_| true);
        for cut in 0..count {
            self.keep(|index| index < cut);
            self.keep(|index| index > cut);
            self.keep(|index| index == cut);
            self.keep(|index| index != cut);
        }
    }
}
