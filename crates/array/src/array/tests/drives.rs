//! Drives with volatile caches on a bench. The bench can cut power at any command, and drives can die.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use thermocline_format::{RaidLevel, RaidShape};
use thermocline_types::{Bytes, DeviceError, Rng};

use crate::{Command, Completion, Fault, Layout, Memory, Token, layout_on};

/// A handle of a range of bytes.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    bytes: Arc<Mutex<Vec<u8>>>,
    from: usize,
    length: usize,
}

impl Buffer {
    pub fn of(bytes: &[u8]) -> Buffer {
        Buffer { bytes: Arc::new(Mutex::new(bytes.to_vec())), from: 0, length: bytes.len() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        Heap::read(self, <[u8]>::to_vec)
    }

    fn all(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Makes buffers.
#[derive(Debug)]
pub(super) struct Heap;

impl Memory for Heap {
    type Buffer = Buffer;

    fn room(&self, bytes: usize) -> Buffer {
        Buffer::of(&vec![0xa5; bytes])
    }

    fn len(buffer: &Buffer) -> usize {
        buffer.length
    }

    fn part(buffer: &Buffer, from: usize, bytes: usize) -> Buffer {
        assert!(from + bytes <= buffer.length, "{bytes} bytes at {from} of {}", buffer.length);
        Buffer { bytes: Arc::clone(&buffer.bytes), from: buffer.from + from, length: bytes }
    }

    fn read<R>(buffer: &Buffer, with: impl FnOnce(&[u8]) -> R) -> R {
        with(&buffer.all()[buffer.from..][..buffer.length])
    }

    fn write<R>(buffer: &Buffer, with: impl FnOnce(&mut [u8]) -> R) -> R {
        with(&mut buffer.all()[buffer.from..][..buffer.length])
    }

    fn is_apart(buffer: &Buffer, at: usize) -> bool {
        (buffer.from + at).is_multiple_of(BLOCK)
    }
}

/// Bytes of a block of a drive.
pub const BLOCK: usize = 4096;

type Bytes4K = Arc<[u8]>;

/// Blocks by number; absent blocks are zeros.
pub(super) type Blocks = BTreeMap<u64, Bytes4K>;

/// A change of a drive that may be lost: written blocks, or `None` for reset blocks.
#[derive(Clone)]
pub(super) struct Change {
    first: u64,
    blocks: Vec<Option<Bytes4K>>,
    number: u64,
}

impl Change {
    /// The new content of a block, if the change covers the block.
    fn of(&self, block: u64) -> Option<&Option<Bytes4K>> {
        self.blocks.get(usize::try_from(block.checked_sub(self.first)?).ok()?)
    }

    /// Applies the change. A torn change is cut to its first half, or to the first 64 bytes of one block.
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
pub(super) struct Death {
    pub side: usize,
    /// Commands of the drive before its death.
    pub after: u64,
    pub error: DeviceError,
}

/// Durable blocks and cached changes of a drive.
#[derive(Clone, Default)]
pub(super) struct DriveState {
    pub durable: Blocks,
    pub cached: Vec<Change>,
    commands: u64,
}

impl DriveState {
    /// The content of a block; `None`: zeros.
    fn look(&self, block: u64) -> Option<&Bytes4K> {
        let newest = self.cached.iter().rev().find_map(|change| change.of(block));
        newest.map_or_else(|| self.durable.get(&block), Option::as_ref)
    }

    /// Commands that the drive carried out.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// The blocks after a power cut. `fates` gives for each change: 0 lost, 1 kept, otherwise torn.
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

pub(super) struct BenchState {
    pub drives: Vec<DriveState>,
    /// Commands until the power is cut.
    pub left: u64,
    pub death: Option<Death>,
    /// Blocks of a drive that fail to read until they are rewritten.
    pub bad: BTreeSet<(usize, u64)>,
    /// Blocks of a drive of which the next read gives wrong bytes.
    pub misread: BTreeMap<(usize, u64), u8>,
    pub done: u64,
    /// Whether a reset keeps the old bytes.
    pub keeps: bool,
    /// Whether drives are slow, so that many commands overlap.
    pub lazy: bool,
    number: u64,
    rng: Rng,
    shape: RaidShape,
}

/// The bench. Clones share one bench.
#[derive(Clone)]
pub(super) struct Bench(Arc<Mutex<BenchState>>);

impl Bench {
    /// Drives with these contents, of a group of this shape.
    pub fn new(images: impl IntoIterator<Item = Blocks>, shape: RaidShape, seed: u64) -> Bench {
        let new = |durable| DriveState { durable, ..DriveState::default() };
        let drives = images.into_iter().map(new).collect();
        let (left, death) = (u64::MAX, None);
        let (bad, misread) = (BTreeSet::new(), BTreeMap::new());
        let (keeps, lazy) = (false, false);
        let (done, number, rng) = (0, 0, Rng::new(seed));
        let state =
            BenchState { drives, left, death, bad, misread, done, keeps, lazy, number, rng, shape };
        Bench(Arc::new(Mutex::new(state)))
    }

    pub fn state(&self) -> MutexGuard<'_, BenchState> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn level(&self) -> RaidLevel {
        self.state().shape.level
    }

    pub fn drive(&self, side: usize) -> TestDrive {
        let layout = layout_on(&self.state().shape);
        TestDrive { bench: self.clone(), side, layout, queue: Vec::new() }
    }
}

/// A member on the bench.
#[derive(Clone)]
pub(super) struct TestDrive {
    bench: Bench,
    side: usize,
    layout: Layout,
    /// Each command has the number of the newest change at its submission.
    queue: Vec<(Token, Command<Buffer>, u64)>,
}

impl TestDrive {
    fn carry_out(
        &self,
        state: &mut BenchState,
        command: &Command<Buffer>,
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
        let (bad, misread) = (&mut state.bad, &mut state.misread);
        let drive = &mut state.drives[self.side];
        drive.commands += 1;
        match command {
            Command::Read { at, into, .. } => {
                let end = block(*at) + (Heap::len(into) / BLOCK) as u64;
                if (block(*at)..end).any(|number| bad.contains(&(self.side, number))) {
                    return Err(DeviceError::Io.into());
                }
                Heap::write(into, |into| {
                    for (number, bytes) in (block(*at)..).zip(into.chunks_mut(BLOCK)) {
                        match drive.look(number) {
                            Some(found) => bytes.copy_from_slice(found),
                            None => bytes.fill(0),
                        }
                        if let Some(next) = misread.get_mut(&(self.side, number)) {
                            bytes[7] ^= *next & 1;
                            *next >>= 1;
                        }
                    }
                });
            }
            Command::Write { at, parts, .. } => {
                let bytes: Vec<u8> = parts.iter().flat_map(Buffer::bytes).collect();
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
                // A flush covers changes made before its submission.
                let kept: Vec<Change> =
                    drive.cached.iter().filter(|change| change.number > asked).cloned().collect();
                for change in drive.cached.drain(..).filter(|change| change.number <= asked) {
                    change.apply(&mut drive.durable, false);
                }
                drive.cached = kept;
            }
            Command::Finish(_) => {}
            Command::Heal(_) | Command::Distrust { .. } => unreachable!("no member gets it"),
        }
        Ok(())
    }
}

impl TestDrive {
    pub fn submit(&mut self, token: Token, command: Command<Buffer>) {
        let newest = self.bench.state().number;
        self.queue.push((token, command, newest));
    }

    pub fn reap(&mut self, done: &mut Vec<Completion>) {
        let bench = self.bench.clone();
        let mut state = bench.state();
        if self.queue.is_empty() {
            return;
        }
        // Carries out some commands in any order; a lazy drive sometimes carries out none.
        let least = u64::from(!state.lazy);
        let some = least + state.rng.below(self.queue.len() as u64 + 1 - least);
        for _ in 0..some {
            let next = state.rng.below(self.queue.len() as u64) as usize;
            let (token, command, asked) = self.queue.swap_remove(next);
            let result = self.carry_out(&mut state, &command, asked);
            done.push(Completion::new(token, result));
        }
    }

    /// Carries out a command at once; no other command is under way.
    pub fn at_once(&mut self, command: Command<Buffer>) -> Result<(), Fault> {
        self.submit(Token(0), command);
        let mut done = Vec::new();
        while done.is_empty() {
            self.reap(&mut done);
        }
        done.remove(0).result
    }
}
