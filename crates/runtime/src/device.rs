//! Carries out what the engine asks of a device, on a storage.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use slab::Slab;
use thermocline_array::HealRange;
use thermocline_engine::wire::{ByteRun, InBytes, IoCmd, IoJob, IoStep, Translator};
use thermocline_engine::{DeviceCmd, DeviceError, Done, Heal, OpId};
use thermocline_format::Geometry;
use thermocline_target::BufferPool;
use thermocline_types::Version;

use crate::Buffer;
use crate::storage::{Command, Completion, Storage, Token, Waker};
use crate::trouble::{Asked, Trouble};

/// What headers and reads keep of their memory for later. Chosen, not measured.
const POOL_BYTES: usize = 32 << 20;

/// How a command of the engine ended.
pub type Answer = (OpId, Result<Done<Buffer>, DeviceError>);

/// A storage that speaks the engine's language.
#[derive(Debug)]
pub struct Device<S> {
    storage: S,
    translator: Translator<InBytes<Buffer>>,
    /// Running jobs, each with the storage's command.
    jobs: Slab<(OpId, IoJob<InBytes<Buffer>>, Asked)>,
    /// Failures since the last `take_troubles`.
    troubles: Vec<Trouble>,
    /// Complete without the storage.
    ready: Vec<Answer>,
    reaped: Vec<Completion>,
    /// Commands that a version answered because a member reported an error, since somebody asked.
    degraded: Vec<(OpId, Version)>,
}

impl<S: Storage> Device<S> {
    /// The pool of `geometry` on `storage`.
    ///
    /// # Panics
    /// If the storage is not divided as the geometry says.
    #[must_use]
    pub fn new(storage: S, geometry: Geometry) -> Device<S> {
        let layout = storage.layout();
        let same = layout.logical_block == geometry.logical_block()
            && layout.blocks_per_unit == geometry.blocks_per_unit()
            && layout.units >= geometry.units();
        assert!(same, "{layout:?} is not divided as {geometry:?}");
        Device {
            storage,
            translator: Translator::new(InBytes::new(geometry, BufferPool::new(POOL_BYTES))),
            jobs: Slab::new(),
            troubles: Vec::new(),
            ready: Vec::new(),
            reaped: Vec::new(),
            degraded: Vec::new(),
        }
    }

    /// The storage.
    #[must_use]
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// The storage alone.
    ///
    /// # Panics
    /// If commands are under way.
    #[must_use]
    pub fn into_storage(self) -> S {
        assert!(self.is_idle(), "commands are under way");
        self.storage
    }

    /// The storage, to be used beside the commands.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.storage
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.ready.is_empty()
    }

    /// Whether [`Device::poll`] has to be asked before anybody waits elsewhere.
    pub(crate) fn has_no_answers(&self) -> bool {
        self.ready.is_empty()
    }

    /// Carries out one command and waits for its answer; for readers that are no engine.
    ///
    /// # Errors
    /// [`DeviceError`] of the command.
    ///
    /// # Panics
    /// If other commands are under way.
    pub fn carry_out(&mut self, command: DeviceCmd<Buffer>) -> Result<Done<Buffer>, DeviceError> {
        assert!(self.is_idle(), "commands of an engine are under way");
        self.submit(OpId(0), command);
        let mut answers = Vec::new();
        loop {
            self.poll(None, &mut answers);
            if let Some((_, done)) = answers.pop() {
                return done;
            }
        }
    }

    /// Failures since the previous call.
    pub fn take_troubles(&mut self) -> Vec<Trouble> {
        std::mem::take(&mut self.troubles)
    }

    /// Reads of an engine that were answered by this version, because a member reported an error, since this was last
    /// called. An engine hears of them before it hears of their answers.
    pub(crate) fn take_degraded(&mut self) -> Vec<(OpId, Version)> {
        std::mem::take(&mut self.degraded)
    }

    /// Ends a wait in [`Device::poll`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.storage.waker()
    }

    /// As [`Storage::descriptors`].
    pub fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.storage.descriptors(into);
    }

    /// Starts a command of the engine; its answer comes out of [`Device::poll`] once.
    pub fn submit(&mut self, op: OpId, command: DeviceCmd<Buffer>) {
        let (command, job) = self.translator.start(command);
        self.start(op, command, job);
    }

    /// Appends ready answers to `answers`. Without ready answers, waits as [`Storage::reap`], and may return without
    /// answers.
    pub fn poll(&mut self, wait: Option<Duration>, answers: &mut Vec<Answer>) {
        let wait = if self.ready.is_empty() { wait } else { Some(Duration::ZERO) };
        let mut reaped = std::mem::take(&mut self.reaped);
        self.storage.reap(wait, &mut reaped);
        for completion in reaped.drain(..) {
            let (op, job, asked) = self.jobs.remove(completion.token.0 as usize);
            self.degraded.extend(completion.degraded.map(|version| (op, version)));
            if let Err(fault) = completion.result {
                self.note(Trouble { asked, fault });
            }
            let result = completion.result.map_err(|fault| fault.error);
            let step = self.translator.go_on(job, result);
            self.go_on(op, step);
        }
        self.reaped = reaped;
        answers.append(&mut self.ready);
    }

    fn go_on(&mut self, op: OpId, step: IoStep<InBytes<Buffer>>) {
        match step {
            IoStep::Io(command, job) => self.start(op, command, job),
            IoStep::Answer(answer) => self.ready.push((op, answer)),
        }
    }

    fn start(&mut self, op: OpId, command: IoCmd<InBytes<Buffer>>, job: IoJob<InBytes<Buffer>>) {
        let layout = self.storage.layout();
        let command = match command {
            IoCmd::Write { at, parts, class } => {
                Command::Write { at: layout.offset(at), parts, class }
            }
            IoCmd::Read { at, into, version } => {
                Command::Read { at: layout.offset(at), into, version }
            }
            IoCmd::Report => return self.report(op, job),
            IoCmd::Heal(places) => {
                let range = |Heal { at, blocks, version }: Heal| {
                    let bytes = u64::from(blocks) * layout.logical_block.bytes() as u64;
                    HealRange { at: layout.offset(at), bytes, version }
                };
                Command::Heal(places.into_iter().map(range).collect())
            }
            IoCmd::Distrust { unit, version } => {
                Command::Distrust { at: layout.start(unit), version }
            }
            IoCmd::Reset(unit) => Command::Reset(unit),
            IoCmd::Zero(unit) => Command::Zero(unit),
            IoCmd::Finish(unit) => Command::Finish(unit),
            IoCmd::Flush(device) => Command::Flush(device),
        };
        let asked = Asked::of(&command, layout);
        let token = Token(self.jobs.insert((op, job, asked)) as u64);
        self.storage.submit(token, command);
    }

    fn report(&mut self, op: OpId, job: IoJob<InBytes<Buffer>>) {
        let reports = self.storage.report().map_err(|fault| {
            self.note(Trouble { asked: Asked::Report, fault });
            fault.error
        });
        let step = self.translator.reported(job, reports);
        self.go_on(op, step);
    }

    /// Keeps failures until `take_troubles`; beyond `MOST`, only the first failures are kept.
    fn note(&mut self, trouble: Trouble) {
        /// Chosen, not measured.
        const MOST: usize = 64;
        if self.troubles.len() < MOST && !trouble.is_expected() {
            self.troubles.push(trouble);
        }
    }
}

impl ByteRun for Buffer {
    type Memory = BufferPool;

    fn room(memory: &BufferPool, bytes: usize) -> Buffer {
        Buffer::new(memory.take(bytes))
    }

    fn copied(memory: &BufferPool, pieces: &[&[u8]]) -> Buffer {
        let mut room = memory.take(pieces.iter().map(|piece| piece.len()).sum());
        let mut from = 0;
        for piece in pieces {
            room[from..from + piece.len()].copy_from_slice(piece);
            from += piece.len();
        }
        Buffer::new(room)
    }

    fn bytes(&self) -> usize {
        self.len()
    }

    fn part(&self, from: usize, bytes: usize) -> Buffer {
        Buffer::part(self, from, bytes)
    }

    fn look<R>(&self, with: impl FnOnce(&[u8]) -> R) -> R {
        with(&self.read())
    }
}

#[cfg(test)]
mod tests;
