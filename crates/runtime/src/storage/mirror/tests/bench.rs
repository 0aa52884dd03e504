//! Two drives with volatile caches on a bench whose power may be cut at any command, and that may die.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use thermocline_engine::{UnitCondition, UnitReport};
use thermocline_format::LogicalBlock;
use thermocline_types::Rng;

use super::super::*;
use crate::storage::Layout;

pub const BLOCK: usize = 4096;
pub const UNIT_BLOCKS: u32 = 16;
/// Units of the pair; one more has the labels.
pub const UNITS: u32 = 3;

type Bytes4K = Arc<[u8]>;

/// Blocks by number; those that are not there are zeros.
pub type Blocks = BTreeMap<u64, Bytes4K>;

/// Something that was done to a drive and may be lost: blocks that were written, `None` where they were reset.
#[derive(Clone)]
pub struct Change {
    first: u64,
    blocks: Vec<Option<Bytes4K>>,
    number: u64,
}

impl Change {
    pub fn unit(&self) -> u32 {
        (self.first / u64::from(UNIT_BLOCKS)) as u32
    }

    /// Does it, or the first half of it: of one block, its first 64 bytes.
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
    /// After so many commands of its own.
    pub after: u64,
    pub error: DeviceError,
}

/// A drive: what is durable, and what is not yet.
#[derive(Clone, Default)]
pub struct DriveState {
    pub durable: Blocks,
    pub cached: Vec<Change>,
    commands: u64,
}

impl DriveState {
    fn look(&self) -> Blocks {
        let mut all = self.durable.clone();
        self.cached.iter().for_each(|change| change.apply(&mut all, false));
        all
    }

    /// What is left after a power cut: `fates` says of each change whether it is lost, there, or torn.
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
    pub drives: [DriveState; 2],
    /// Commands until the power is cut.
    pub left: u64,
    pub death: Option<Death>,
    /// Blocks of a drive that it cannot read until they are written again.
    pub bad: BTreeSet<(usize, u64)>,
    pub done: u64,
    number: u64,
    rng: Rng,
}

/// The bench. Clones are of the same.
#[derive(Clone)]
pub struct Bench(Arc<Mutex<BenchState>>);

impl Bench {
    pub fn new(images: [Blocks; 2], seed: u64) -> Bench {
        let drives = images.map(|durable| DriveState { durable, ..DriveState::default() });
        let rng = Rng::new(seed);
        let (left, death, done, number) = (u64::MAX, None, 0, 0);
        let bad = BTreeSet::new();
        Bench(Arc::new(Mutex::new(BenchState { drives, left, death, bad, done, number, rng })))
    }

    pub fn state(&self) -> MutexGuard<'_, BenchState> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn drive(&self, side: usize) -> Box<dyn Storage> {
        let layout = Layout::contiguous(LogicalBlock::B4096, UNIT_BLOCKS, UNITS + 1);
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
            Command::Read { at, into } => {
                let all = drive.look();
                let mut into = into.write();
                let end = block(*at) + (into.len() / BLOCK) as u64;
                if (block(*at)..end).any(|number| bad.contains(&(self.side, number))) {
                    return Err(DeviceError::Io.into());
                }
                for (number, bytes) in (block(*at)..).zip(into.chunks_mut(BLOCK)) {
                    match all.get(&number) {
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
            Command::Reset(unit) | Command::Zero(unit) => {
                let blocks = vec![None; UNIT_BLOCKS as usize];
                drive.cached.push(Change {
                    first: u64::from(unit.0 * UNIT_BLOCKS),
                    blocks,
                    number,
                });
            }
            Command::Flush(_) => {
                // Only what was done when it was asked for, and what is below that.
                let kept: Vec<Change> =
                    drive.cached.iter().filter(|change| change.number > asked).cloned().collect();
                for change in drive.cached.drain(..).filter(|change| change.number <= asked) {
                    change.apply(&mut drive.durable, false);
                }
                drive.cached = kept;
            }
            Command::Finish(_) => {}
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
        // Some of them, in any order.
        let some = 1 + state.rng.below(self.queue.len() as u64);
        for _ in 0..some {
            let next = state.rng.below(self.queue.len() as u64) as usize;
            let (token, command, asked) = self.queue.swap_remove(next);
            let result = self.carry_out(&mut state, &command, asked);
            done.push(Completion { token, result });
        }
    }

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let good = UnitReport { condition: UnitCondition::Good, written: None };
        Ok(vec![good; self.layout.units as usize])
    }
}
