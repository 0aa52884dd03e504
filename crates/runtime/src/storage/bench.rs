//! Drives with volatile caches on a bench whose power may be cut at any command, and that may die.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thermocline_engine::{DeviceError, UnitCondition, UnitReport};
use thermocline_types::{Bytes, Rng};

use super::{Command, Completion, Fault, Layout, Storage, Token, Waker};

/// Bytes of a block of a drive.
pub const BLOCK: usize = 4096;

type Bytes4K = Arc<[u8]>;

/// Blocks by number. Absent blocks read as zeros.
pub type Blocks = BTreeMap<u64, Bytes4K>;

/// A change of a drive that a power cut may lose: written blocks, or `None` for reset blocks.
#[derive(Clone)]
pub struct Change {
    first: u64,
    blocks: Vec<Option<Bytes4K>>,
    number: u64,
}

impl Change {
    /// The change's contents of a block, if the block is in the change.
    fn of(&self, block: u64) -> Option<&Option<Bytes4K>> {
        self.blocks.get(usize::try_from(block.checked_sub(self.first)?).ok()?)
    }

    /// Applies the change. A torn change applies only the first half, or the first 64 bytes of a single block.
    fn apply(&self, to: &mut Blocks, torn: bool) {
        let half = if torn && self.blocks.len() > 1 { self.blocks.len() / 2 } else { usize::MAX };
        for (block, bytes) in (self.first..).zip(&self.blocks).take(half) {
            let Some(bytes) = bytes else {
                to.remove(&block);
                continue;
            };
            let old = to.get(&block).cloned();
            let mut new = bytes.to_vec();
            if torn && self.blocks.len() == 1 {
                new[64..].fill(0);
                if let Some(old) = old {
                    new[64..].copy_from_slice(&old[64..]);
                }
            }
            to.insert(block, new.into());
        }
    }
}

/// How a drive dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    pub side: usize,
    /// Commands of this drive before the death.
    pub after: u64,
    pub error: DeviceError,
}

/// A drive: durable blocks, and changes in the volatile cache.
#[derive(Clone, Default)]
pub struct DriveState {
    pub durable: Blocks,
    pub cached: Vec<Change>,
    commands: u64,
}

impl DriveState {
    /// A block as it is read; `None`: zeros.
    fn look(&self, block: u64) -> Option<&Bytes4K> {
        let newest = self.cached.iter().rev().find_map(|change| change.of(block));
        newest.map_or_else(|| self.durable.get(&block), Option::as_ref)
    }

    /// Contents after a power cut. `fates` decides for each change: lost, applied or torn.
    pub fn after_cut(&self, fates: &[u8]) -> Blocks {
        let mut left = self.durable.clone();
        for (change, fate) in self.cached.iter().zip(fates) {
            match fate {
                0 => {}
                1 => change.apply(&mut left, false),
                _ => change.apply(&mut left, true),
            }
        }
        left
    }
}

pub struct BenchState {
    pub drives: Vec<DriveState>,
    /// Commands until the power is cut.
    pub left: u64,
    pub death: Option<Death>,
    /// Blocks of a drive that it cannot read until they are written again.
    pub bad: BTreeSet<(usize, u64)>,
    pub done: u64,
    /// Whether a reset keeps the old contents.
    pub keeps: bool,
    /// Whether drives delay completions, so that many commands are in flight.
    pub lazy: bool,
    number: u64,
    rng: Rng,
    layout: Layout,
}

/// The bench. Clones are of the same.
#[derive(Clone)]
pub struct Bench(Arc<Mutex<BenchState>>);

impl Bench {
    /// Drives with the contents `images` and the layout `layout`.
    pub fn new(images: impl IntoIterator<Item = Blocks>, layout: Layout, seed: u64) -> Bench {
        let new = |durable| DriveState { durable, ..DriveState::default() };
        let drives = images.into_iter().map(new).collect();
        let (left, death, bad) = (u64::MAX, None, BTreeSet::new());
        let (keeps, lazy) = (false, false);
        let (done, number, rng) = (0, 0, Rng::new(seed));
        let state = BenchState { drives, left, death, bad, done, keeps, lazy, number, rng, layout };
        Bench(Arc::new(Mutex::new(state)))
    }

    pub fn state(&self) -> MutexGuard<'_, BenchState> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn drive(&self, side: usize) -> Box<dyn Storage> {
        let layout = self.state().layout;
        Box::new(TestDrive { bench: self.clone(), side, layout, queue: Vec::new() })
    }
}

/// A side on the bench.
struct TestDrive {
    bench: Bench,
    side: usize,
    layout: Layout,
    /// With the number of the newest change when it was submitted.
    queue: Vec<(Token, Command, u64)>,
}

impl TestDrive {
    fn carry_out(
        &self,
        state: &mut BenchState,
        command: &Command,
        asked: u64,
    ) -> Result<(), Fault> {
        if state.left == 0 {
            return Err(DeviceError::Gone.into());
        }
        let dead = state.death.filter(|death| {
            death.side == self.side && state.drives[self.side].commands >= death.after
        });
        if let Some(Death { error, .. }) = dead {
            return Err(error.into());
        }
        (state.left, state.done) = (state.left - 1, state.done + 1);
        state.number += 1;
        let number = state.number;
        let block = |at: Bytes| at.0 / BLOCK as u64;
        let bad = &mut state.bad;
        let drive = &mut state.drives[self.side];
        drive.commands += 1;
        match command {
            Command::Read { at, into, .. } => {
                let mut into = into.write();
                let end = block(*at) + (into.len() / BLOCK) as u64;
                if (block(*at)..end).any(|number| bad.contains(&(self.side, number))) {
                    return Err(DeviceError::Io.into());
                }
                for (number, bytes) in (block(*at)..).zip(into.chunks_mut(BLOCK)) {
                    match drive.look(number) {
                        Some(found) => bytes.copy_from_slice(found),
                        None => bytes.fill(0),
                    }
                }
            }
            Command::Write { at, parts, .. } => {
                let bytes: Vec<u8> = parts.iter().flat_map(|part| part.read().to_vec()).collect();
                let blocks: Vec<_> = bytes.chunks(BLOCK).map(|bytes| Some(bytes.into())).collect();
                let end = block(*at) + blocks.len() as u64;
                (block(*at)..end).for_each(|number| _ = bad.remove(&(self.side, number)));
                drive.cached.push(Change { first: block(*at), blocks, number });
            }
            Command::Reset(_) if state.keeps => {}
            Command::Reset(unit) | Command::Zero(unit) => {
                let each = self.layout.blocks_per_unit;
                let (first, blocks) = (u64::from(unit.0 * each), vec![None; each as usize]);
                drive.cached.push(Change { first, blocks, number });
            }
            Command::Flush(_) => {
                // A flush covers only changes that preceded its submission.
                let kept: Vec<Change> =
                    drive.cached.iter().filter(|change| change.number > asked).cloned().collect();
                for change in drive.cached.drain(..).filter(|change| change.number <= asked) {
                    change.apply(&mut drive.durable, false);
                }
                drive.cached = kept;
            }
            Command::Finish(_) => {}
            Command::Heal(_) | Command::Distrust { .. } => {}
        }
        Ok(())
    }
}

impl Storage for TestDrive {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, command: Command) {
        let newest = self.bench.state().number;
        self.queue.push((token, command, newest));
    }

    fn reap(&mut self, _: Option<Duration>, done: &mut Vec<Completion>) {
        let bench = self.bench.clone();
        let mut state = bench.state();
        if self.queue.is_empty() {
            return;
        }
        // Completes some commands in random order; a lazy drive may complete zero.
        let least = u64::from(!state.lazy);
        let some = least + state.rng.below(self.queue.len() as u64 + 1 - least);
        for _ in 0..some {
            let next = state.rng.below(self.queue.len() as u64) as usize;
            let (token, command, asked) = self.queue.swap_remove(next);
            let result = self.carry_out(&mut state, &command, asked);
            done.push(Completion::new(token, result));
        }
    }

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    fn descriptors<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}

    /// The drive has no descriptor, so waits for the drive are short.
    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_micros(100))
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let good = UnitReport { condition: UnitCondition::Good, written: None };
        Ok(vec![good; self.layout.units as usize])
    }
}
