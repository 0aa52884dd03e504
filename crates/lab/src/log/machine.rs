//! Engine and device at work together in virtual time.
//!
//! Invariants:
//! * The engine sees completions in order of time, and completions of one instant in order of submission.
//! * All requests of one instant are submitted before the engine works on any of the requests, as with a real queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use slab::Slab;
use thermocline_engine::{
    Action, Config, DeviceCmd, Engine, HostError, HostRequest, Notice, OpId, Rejected, Reply,
    RequestId, Stats,
};
use thermocline_format::{PoolId, VolumeId, VolumeMedia, VolumeName};
use thermocline_nand::Drive;
use thermocline_types::{Bytes, Op, Request, Time};

use super::device::{Device, Ended};
use super::host::{Ask, BlockRange, Pending, Whole, parts};
use super::payload::PackDraw;
use crate::Error;
use crate::byte_counts::{ByteCounts, LogBytes};
use crate::tag::Tags;
use crate::target::Finished;
use crate::tenants::owner;

/// A collection of garbage: one victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// When the victim was chosen.
    pub began: Time,
    /// When the last of its valid blocks was written elsewhere.
    pub ended: Time,
}

/// Identifies requests that are no part of the workload.
const CONTROL: RequestId = RequestId(u64::MAX);

/// An engine over a device, with one volume.
#[derive(Debug)]
pub struct Machine {
    engine: Engine<PackDraw>,
    device: Device,
    pub(super) volume: VolumeId,
    /// Of the volume.
    pub(super) blocks: u64,
    now: Time,
    /// Whether something was submitted since the engine was last asked what to do.
    fresh: bool,
    /// Completion times of commands; the second number orders commands of one instant.
    due: BinaryHeap<Reverse<(Time, u64, usize)>>,
    ends: Slab<(OpId, Ended)>,
    sent: u64,
    /// Reads queued behind `reading`, if collections read one block at a time.
    one_by_one: Option<VecDeque<(OpId, DeviceCmd<PackDraw>)>>,
    /// The read in flight, if collections read one block at a time.
    reading: Option<OpId>,
    pending: Slab<Pending>,
    waiting: VecDeque<(usize, Ask)>,
    pub(super) finished: VecDeque<Finished>,
    /// Which handle a write carries.
    pub(crate) tags: Tags,
    /// Whether the host waits while garbage is collected.
    pub(super) exclusive: bool,
    /// When all that the host wrote had left memory for the drives, at the last [`Machine::settle`].
    pub(super) left_memory: Time,
    /// Writes asked of the engine, and the share of their blocks that packs.
    writes: u64,
    packs: f64,
    control: Option<Result<Reply, HostError>>,
    opened: Option<Notice>,
    failed: Option<HostError>,
    collections: Vec<Collection>,
    host: ByteCounts,
    bytes: LogBytes,
}

impl Machine {
    /// A new pool on a fresh device, with a volume of `blocks` blocks.
    ///
    /// # Errors
    /// [`Error::Engine`] when the pool cannot be made.
    pub fn format(
        config: Config,
        device: Device,
        blocks: u64,
        seed: u64,
    ) -> Result<Machine, Error> {
        let engine = Engine::format(config, PoolId([1; 16]), seed).map_err(refused)?;
        let mut machine = Machine::new(engine, device, Time::ZERO);
        machine.wait_until_open()?;
        let name = VolumeName::new("lab").expect("a name without control characters");
        match machine.control(HostRequest::CreateVolume { name, blocks })? {
            Reply::Created(volume) => (machine.volume, machine.blocks) = (volume, blocks),
            other => {
                return Err(Error::Engine(format!("making a volume was answered with {other:?}")));
            }
        }
        Ok(machine)
    }

    fn new(engine: Engine<PackDraw>, device: Device, now: Time) -> Machine {
        Machine {
            engine,
            device,
            volume: VolumeId(0),
            blocks: 0,
            now,
            fresh: true,
            due: BinaryHeap::new(),
            ends: Slab::new(),
            sent: 0,
            one_by_one: None,
            reading: None,
            pending: Slab::new(),
            waiting: VecDeque::new(),
            finished: VecDeque::new(),
            tags: Tags::Tenant,
            exclusive: false,
            left_memory: Time::ZERO,
            writes: 0,
            packs: 0.0,
            control: None,
            opened: None,
            failed: None,
            collections: Vec::new(),
            host: ByteCounts::default(),
            bytes: LogBytes::default(),
        }
    }

    /// Ends this engine, in order or as a crash would, and opens the pool with another; returns the chunks replayed.
    ///
    /// # Errors
    /// [`Error::Engine`] when the pool cannot be closed or opened.
    pub fn reopen(
        self,
        config: Config,
        in_order: bool,
        seed: u64,
    ) -> Result<(Machine, u64), Error> {
        let mut old = self;
        if in_order {
            old.settle()?;
            old.control(HostRequest::Close)?;
        }
        let engine = Engine::open(config, seed).map_err(refused)?;
        let mut machine = Machine::new(engine, old.device, old.now);
        (machine.volume, machine.blocks) = (old.volume, old.blocks);
        (machine.writes, machine.packs) = (old.writes, old.packs);
        let replayed = machine.wait_until_open()?;
        Ok((machine, replayed))
    }

    fn wait_until_open(&mut self) -> Result<u64, Error> {
        loop {
            match self.opened {
                Some(Notice::Open { chunks, .. }) => {
                    self.device.forget_victims();
                    return Ok(chunks);
                }
                Some(Notice::OpenFailed(error)) => return Err(Error::Engine(error.to_string())),
                _ => self.step()?,
            }
        }
    }

    /// Has a request that is no part of the workload done.
    fn control(&mut self, request: HostRequest<PackDraw>) -> Result<Reply, Error> {
        self.engine.submit(self.now, CONTROL, request).map_err(refused)?;
        self.fresh = true;
        loop {
            if let Some(result) = self.control.take() {
                return result.map_err(refused);
            }
            self.step()?;
        }
    }

    /// From now on, this share of the blocks that the workload writes packs into the slack of a header.
    pub fn set_packs(&mut self, packs: f64) {
        self.packs = packs;
    }

    /// From now on, the volume's blocks are to be there.
    ///
    /// # Errors
    /// [`Error::Engine`] where there is no fast drive.
    pub fn set_media(&mut self, media: VolumeMedia) -> Result<(), Error> {
        let volume = self.volume;
        self.control(HostRequest::SetMedia { volume, media }).map(|_| ())
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Requests of the workload in work.
    pub fn in_work(&self) -> usize {
        self.pending.len()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The device, to look at its units.
    pub fn device_mut(&mut self) -> &mut Device {
        &mut self.device
    }

    /// The engine.
    pub fn engine(&self) -> &Engine<PackDraw> {
        &self.engine
    }

    /// The collections so far.
    pub fn collections(&self) -> &[Collection] {
        &self.collections
    }

    /// Why the engine takes no writes any more, if that is so.
    pub fn failed(&self) -> Option<HostError> {
        self.failed
    }

    /// Bytes so far.
    pub fn byte_counts(&self) -> ByteCounts {
        let stats: &Stats = self.engine.stats();
        let block = Bytes::BLOCK.0;
        let metadata =
            stats.header_bytes + stats.map_pages_written * block + stats.superblock_bytes;
        let log = LogBytes {
            blocks: stats.host_blocks_written * block,
            bypassed: stats.bypassed_blocks * block,
            absorbed: stats.absorbed_blocks * block,
            relocated: stats.relocated_blocks * block,
            carried: stats.carried_blocks * block,
            destaged: stats.destaged_blocks * block,
            metadata,
            relocation_read: stats.gc_bytes_read,
            unused: stats.unused_bytes,
            ..self.bytes
        };
        let (drive, fast) = (self.device.drive().counters(), self.device.fast());
        let (fast, groups) = (fast.map(Drive::counters), self.device.groups());
        ByteCounts { log: Some(log), drive, fast, groups, ..self.host }
    }

    /// Submits a request that arrives now, as its pieces, with a placement handle.
    pub fn submit(&mut self, pieces: &[Request], handle: u16) {
        let pending = Pending {
            arrival: self.now,
            op: pieces[0].op,
            tenant: pieces[0].tenant,
            left: 1,
            then: Vec::new(),
        };
        let key = self.pending.insert(pending);
        for piece in pieces {
            match piece.op {
                Op::Read => {
                    self.host.host_read += piece.length.0;
                    parts(Whole::around(piece).run).for_each(|run| self.ask(key, Ask::Read(run)));
                }
                Op::Write => self.write(key, piece, handle),
                Op::Trim | Op::WriteZeroes => {
                    self.host.host_trimmed += piece.length.0;
                    let run = Whole::inside(piece);
                    if run.blocks > 0 {
                        self.ask(key, Ask::Trim(run));
                    }
                }
                Op::Flush => self.ask(key, Ask::Flush),
            }
        }
        self.progress(key);
        self.fresh = true;
    }

    fn write(&mut self, key: usize, piece: &Request, handle: u16) {
        let whole = Whole::around(piece);
        let asked = whole.run.blocks * Bytes::BLOCK.0;
        self.host.host_written += piece.length.0;
        self.bytes.asked += asked;
        self.bytes.filled += asked - piece.length.0;
        if whole.partial == [None, None] && self.pending[key].then.is_empty() {
            parts(whole.run).for_each(|run| self.ask(key, Ask::Write(run, handle)));
            return;
        }
        self.pending[key].then.push((whole.run, handle));
        for lba in whole.partial.into_iter().flatten() {
            self.bytes.filled_read += Bytes::BLOCK.0;
            self.ask(key, Ask::Read(BlockRange { lba, blocks: 1 }));
        }
    }

    /// Submits a request to the engine, or queues the request if the engine is busy.
    fn ask(&mut self, key: usize, ask: Ask) {
        self.pending[key].left += 1;
        if self.waiting.is_empty() && self.try_ask(key, ask) {
            return;
        }
        self.waiting.push_back((key, ask));
    }

    /// Submits `ask` to the engine; `false` if the engine is busy. Any other refusal fails the run.
    fn try_ask(&mut self, key: usize, ask: Ask) -> bool {
        let mut data = PackDraw::new(self.writes, self.packs);
        if self.device.ledger().is_some() {
            data = data.of(owner(self.pending[key].tenant));
        }
        let request = ask.request(self.volume, data);
        match self.engine.submit(self.now, RequestId(key as u64), request) {
            Ok(()) => {
                self.writes += u64::from(matches!(ask, Ask::Write(..)));
                true
            }
            Err(Rejected::Busy) => false,
            Err(_) => {
                self.failed = self.failed.or(Some(HostError::Failed));
                self.progress(key);
                true
            }
        }
    }

    /// Counts one finished engine request of `key`.
    fn progress(&mut self, key: usize) {
        let pending = &mut self.pending[key];
        pending.left -= 1;
        if pending.left > 0 {
            return;
        }
        if !pending.then.is_empty() {
            pending.left = 1;
            for (run, handle) in std::mem::take(&mut pending.then) {
                parts(run).for_each(|run| self.ask(key, Ask::Write(run, handle)));
            }
            return self.progress(key);
        }
        let Pending { arrival, op, tenant, .. } = self.pending.remove(key);
        self.finished.push_back(Finished { op, tenant, arrival, at: self.now });
    }

    /// Carries out what the engine wants done now.
    fn pump(&mut self) {
        self.fresh = false;
        loop {
            while let Some(action) = self.engine.poll_action() {
                match action {
                    Action::Device { op, cmd } => self.send(op, cmd),
                    Action::Complete { request, result } => self.complete(request, result),
                    Action::Notice(notice) => self.notice(notice),
                }
            }
            self.note_collections();
            let mut asked = false;
            while let Some(&(key, ask)) = self.waiting.front()
                && self.try_ask(key, ask)
            {
                self.waiting.pop_front();
                asked = true;
            }
            if !asked && !self.fresh {
                return;
            }
            self.fresh = false;
        }
    }

    /// From now on, the host waits while a victim is collected.
    pub fn hold_up_host(&mut self) {
        self.exclusive = true;
    }

    /// From now on, a collection reads the blocks of a victim one command after the other instead of all at once.
    pub fn read_one_by_one(&mut self) {
        self.one_by_one.get_or_insert_default();
    }

    /// Sends a command to the device.
    fn send(&mut self, op: OpId, cmd: DeviceCmd<PackDraw>) {
        if let (Some(queue), DeviceCmd::Read { into: None, .. }) = (&mut self.one_by_one, &cmd) {
            if self.reading.is_some() {
                queue.push_back((op, cmd));
                return;
            }
            self.reading = Some(op);
        }
        let (at, ended) = self.device.carry_out(self.now, cmd);
        let index = self.ends.insert((op, ended));
        self.due.push(Reverse((at.max(self.now), self.sent, index)));
        self.sent += 1;
    }

    fn complete(&mut self, request: RequestId, result: Result<Reply, HostError>) {
        if request == CONTROL {
            self.control = Some(result);
            return;
        }
        if let Err(error) = result {
            self.failed = self.failed.or(Some(error));
        }
        self.progress(request.0 as usize);
        self.fresh = true;
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Open { .. } | Notice::OpenFailed(_) => self.opened = Some(notice),
            Notice::Failed => self.failed = Some(HostError::Failed),
            _ => {}
        }
    }

    fn note_collections(&mut self) {
        while self.engine.stats().gc_units > self.collections.len() as u64 {
            let began = self.device.victims()[self.collections.len()];
            let ended = self.device.relocated().max(self.now);
            self.collections.push(Collection { began, ended });
        }
    }

    /// Goes on to the next instant at which something ends.
    ///
    /// # Errors
    /// [`Error::Engine`] when nothing ever will.
    pub fn step(&mut self) -> Result<(), Error> {
        if self.fresh {
            self.pump();
            return Ok(());
        }
        let next = self.due.peek().map(|&Reverse((at, ..))| at);
        if let Some(wake) =
            self.engine.poll_timeout().filter(|wake| next.is_none_or(|at| *wake < at))
        {
            self.now = self.now.max(wake);
            self.engine.handle_timeout(self.now);
            self.pump();
            return Ok(());
        }
        let Some(at) = next else {
            return Err(Error::Engine(format!(
                "{} requests are in work, but the log does nothing, with {} free units; {:?}",
                self.pending.len(),
                self.engine.free_units(),
                self.engine.stats()
            )));
        };
        self.now = self.now.max(at);
        while let Some(&Reverse((due, _, index))) = self.due.peek() {
            if due > at {
                break;
            }
            self.due.pop();
            let (op, ended) = self.ends.remove(index);
            if self.reading == Some(op) {
                self.reading = None;
                if let Some((op, cmd)) = self.one_by_one.as_mut().and_then(VecDeque::pop_front) {
                    self.send(op, cmd);
                }
            }
            self.engine.handle_completion(self.now, op, ended);
        }
        self.pump();
        Ok(())
    }

    /// Goes on as [`Machine::step`] if something happens until `until`; else `until` is the present. Returns whether
    /// something did.
    ///
    /// # Errors
    /// As [`Machine::step`].
    pub fn step_until(&mut self, until: Time) -> Result<bool, Error> {
        let happens = self.fresh && self.now < until
            || self.due.peek().is_some_and(|&Reverse((due, ..))| due <= until)
            || self.engine.poll_timeout().is_some_and(|wake| wake <= until);
        if happens {
            self.step()?;
        } else {
            self.now = self.now.max(until);
        }
        Ok(happens)
    }

    fn is_settled(&self) -> bool {
        self.rests() && self.in_work() == 0 && self.engine.poll_timeout().is_none()
    }

    /// Whether nothing happens before the next timeout of the engine.
    fn rests(&self) -> bool {
        !self.fresh && self.due.is_empty()
    }

    /// Waits until nothing is in work any more, neither of the host nor of the engine. Notes when all that the host
    /// wrote was on the media of the drives but for what is in their buffers, had the engine not waited for more to
    /// come.
    ///
    /// # Errors
    /// As [`Machine::step`].
    pub fn settle(&mut self) -> Result<(), Error> {
        let (mut on_media, mut waited) = (self.device.drained(), Time::ZERO);
        while !self.is_settled() {
            // What the drives still program meanwhile is no waiting.
            let rested = self.rests().then(|| self.now.max(self.device.drained()));
            let chunks = self.device.host_chunks();
            self.step()?;
            if let Some(since) = rested {
                waited += self.now.since(since);
            }
            if self.device.host_chunks() > chunks {
                on_media = on_media.max(Time(self.device.drained().0.saturating_sub(waited.0)));
            }
        }
        self.left_memory = on_media;
        Ok(())
    }
}

fn refused(why: impl std::fmt::Display) -> Error {
    Error::Engine(why.to_string())
}
