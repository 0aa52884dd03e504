//! Writes kept in memory, over a storage that is only read.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustc_hash::FxHashMap;
use thermocline_engine::{Members, UnitReport};
use thermocline_nand::Counters;
use thermocline_types::{Bytes, UnitId};

use super::{Command, Completion, Fault, Layout, Storage, Token, Waker};
use crate::Buffer;

/// A view of `base` with all later writes in memory; `base` is never written. A pool can be opened, recovered and even
/// used on an overlay as a trial. Dropping the overlay discards the writes.
#[derive(Debug)]
pub struct Overlay<S> {
    base: S,
    /// Logical blocks that were written, by their first byte.
    written: BTreeMap<u64, Box<[u8]>>,
    /// Reports of the base's units, updated by later commands.
    reports: Result<Vec<UnitReport>, Fault>,
    /// Units reset since: contents on the base are void.
    reset: Vec<bool>,
    /// Reads that the base works on.
    reads: FxHashMap<Token, (Bytes, Buffer)>,
    ready: Vec<Completion>,
}

impl<S: Storage> Overlay<S> {
    /// A writable view of `base`.
    #[must_use]
    pub fn new(mut base: S) -> Overlay<S> {
        let reports = base.report();
        let reset = vec![false; base.layout().units as usize];
        let (written, reads, ready) = (BTreeMap::new(), FxHashMap::default(), Vec::new());
        Overlay { base, written, reports, reset, reads, ready }
    }

    /// Written bytes not reset since, held in memory.
    #[must_use]
    pub fn written(&self) -> Bytes {
        Bytes((self.written.len() * self.block()) as u64)
    }

    fn block(&self) -> usize {
        self.base.layout().logical_block.bytes()
    }

    fn write(&mut self, at: Bytes, parts: &[Buffer]) {
        let (unit, block) = (self.base.layout().unit_of(at), self.block());
        let mut next = at.0;
        for part in parts {
            for piece in part.read().chunks(block) {
                self.written.insert(next, piece.into());
                next += piece.len() as u64;
            }
        }
        let written = (next - self.base.layout().start(unit).0) / block as u64;
        self.set_written(unit, written as u32);
    }

    fn reset(&mut self, unit: UnitId) {
        let start = self.base.layout().start(unit).0;
        let end = start + self.base.layout().unit_bytes().0;
        let blocks: Vec<u64> = self.written.range(start..end).map(|(&at, _)| at).collect();
        for at in blocks {
            self.written.remove(&at);
        }
        self.reset[unit.index()] = true;
        self.set_written(unit, 0);
    }

    fn set_written(&mut self, unit: UnitId, written: u32) {
        if let Ok(reports) = &mut self.reports {
            let report = &mut reports[unit.index()];
            report.written = report.written.map(|_| written);
        }
    }

    /// Copies written blocks over the bytes read from the base at `at`.
    fn cover(&self, at: Bytes, into: &Buffer) {
        let end = at.0 + into.len() as u64;
        let mut bytes = into.write();
        for (&start, block) in self.written.range(at.0..end) {
            let from = (start - at.0) as usize;
            bytes[from..from + block.len()].copy_from_slice(block);
        }
    }
}

impl<S: Storage> Storage for Overlay<S> {
    fn layout(&self) -> &Layout {
        self.base.layout()
    }

    fn submit(&mut self, token: Token, command: Command) {
        match command {
            Command::Read { at, into, version }
                if !self.reset[self.layout().unit_of(at).index()] =>
            {
                self.reads.insert(token, (at, into.clone()));
                return self.base.submit(token, Command::Read { at, into, version });
            }
            Command::Read { at, into, .. } => {
                into.write().fill(0);
                self.cover(at, &into);
            }
            Command::Write { at, parts, .. } => self.write(at, &parts),
            Command::Reset(unit) | Command::Zero(unit) => self.reset(unit),
            Command::Finish(unit) => self.set_written(unit, self.layout().blocks_per_unit),
            // Nothing below is written.
            Command::Flush(_) | Command::Heal(_) | Command::Distrust { .. } => {}
        }
        self.ready.push(Completion::new(token, Ok(())));
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        let wait = if self.ready.is_empty() { wait } else { Some(Duration::ZERO) };
        let before = done.len();
        self.base.reap(wait, done);
        for completion in &done[before..] {
            let read = self.reads.remove(&completion.token);
            if let (Some((at, into)), Ok(())) = (read, completion.result) {
                self.cover(at, &into);
            }
        }
        done.append(&mut self.ready);
    }

    fn waker(&self) -> Waker {
        self.base.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.base.descriptors(into);
    }

    fn timeout(&self) -> Option<Duration> {
        if self.ready.is_empty() { self.base.timeout() } else { Some(Duration::ZERO) }
    }

    fn lost(&mut self) -> Option<String> {
        self.base.lost()
    }

    fn overdue(&self) -> Option<String> {
        self.base.overdue()
    }

    fn drive_counters(&self) -> Option<Counters> {
        self.base.drive_counters()
    }

    fn drive_media(&self) -> Bytes {
        self.base.drive_media()
    }

    fn members(&self) -> Members {
        self.base.members()
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        self.reports.clone()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::LogicalBlock;
    use thermocline_types::Class;

    use super::super::Memory;
    use super::super::tests::suite;
    use super::*;

    fn layout() -> Layout {
        Layout::contiguous(LogicalBlock::B512, 256, 4)
    }

    fn one<S: Storage>(storage: &mut S, command: Command) {
        storage.submit(Token(1), command);
        let mut done = Vec::new();
        while done.is_empty() {
            storage.reap(None, &mut done);
        }
        assert_eq!(done, [Completion::new(Token(1), Ok(()))]);
    }

    fn filled(len: usize, with: u8) -> Buffer {
        Buffer::new(thermocline_target::Buffer::from_bytes(&vec![with; len]))
    }

    fn read<S: Storage>(storage: &mut S, at: u64, len: usize) -> Vec<u8> {
        let into = filled(len, 0xEE);
        one(storage, Command::read(Bytes(at), into.clone()));
        into.read().to_vec()
    }

    #[test]
    fn does_what_any_storage_does() {
        suite(&mut Overlay::new(Memory::new(layout())));
    }

    #[test]
    fn covers_the_base_and_leaves_it_alone() {
        let mut base = Memory::new(layout());
        one(
            &mut base,
            Command::Write { at: Bytes(0), parts: vec![filled(2048, 1)], class: Class(0) },
        );
        let mut over = Overlay::new(base);
        let parts = vec![filled(512, 2), filled(512, 3)];
        one(&mut over, Command::Write { at: Bytes(512), parts, class: Class(0) });
        let expected = [[1; 512], [2; 512], [3; 512], [1; 512]].concat();
        assert_eq!((read(&mut over, 0, 2048), over.written()), (expected, Bytes(1024)));
        one(&mut over, Command::Reset(UnitId(0)));
        assert_eq!((read(&mut over, 0, 2048), over.written()), (vec![0; 2048], Bytes(0)));
        assert_eq!(read(&mut over.base, 0, 2048), [1; 2048]);
    }
}
