//! The state machine: state, inputs, outputs.

mod checkpoint;
mod chunks;
mod destage;
mod flush;
mod frontiers;
mod gc;
mod healing;
mod io;
mod layers;
mod losing;
mod memory;
mod occupancy;
mod opening;
mod pages;
mod parts;
mod queries;
mod records;
mod release;
mod reserves;
mod routes;
mod runs;
mod scrub;
mod seal;
mod settle;
mod tier;
mod trim;
mod unit_pages;
mod values;
mod versions;
mod volumes;

use std::fmt::Debug;

use thermocline_format::{MediaClass, PoolId};
use thermocline_types::{Time, UnitId};

use crate::bugs::bug;
use crate::config::{Config, ConfigError, MAX_IO_BLOCKS};
use crate::device::{DeviceError, Done, OpId};
use crate::engine::checkpoint::Checkpointer;
use crate::engine::gc::Collector;
use crate::engine::layers::Layers;
use crate::engine::losing::Losing;
use crate::engine::opening::{Recovered, Recovery};
use crate::engine::scrub::Scrubber;
use crate::engine::seal::Sealer;
use crate::engine::trim::Trimmer;
use crate::payload::Payload;
use crate::request::{Action, HostError, HostRequest, Rejected, RequestId};
use crate::tier::Stays;

pub use occupancy::Occupancy;
pub(crate) use parts::Op;
pub(crate) use parts::Parts;
pub(crate) use parts::Phase;
pub use runs::Run;
pub use scrub::ScrubProgress;

/// A log-structured pool of volumes over the units of its devices.
///
/// Call [`Engine::submit`] and [`Engine::handle_completion`] as requests and completions arrive. After every such call,
/// carry out all actions of [`Engine::poll_action`] until it returns `None`.
#[derive(Debug)]
pub struct Engine<P: Payload> {
    parts: Parts<P>,
    collector: Collector<P>,
    sealer: Sealer,
    trimmer: Trimmer,
    layers: Layers,
    losing: Losing,
    scrubber: Scrubber,
    checkpointer: Checkpointer,
    /// The opening, until its record is written.
    recovery: Option<Box<Recovery<P>>>,
    /// A completed opening that is not yet reported.
    untold: Option<Recovered>,
    /// Whether the engine is idle until the next input.
    settled: bool,
    /// Whether the engine has yielded in the middle of a scan.
    paused: bool,
}

impl<P: Payload> Engine<P> {
    /// Opens the pool that is on the device. The engine accepts requests after [`crate::Notice::Open`].
    ///
    /// # Errors
    /// [`ConfigError`]; errors on the device come as [`crate::Notice::OpenFailed`].
    pub fn open(config: Config, seed: u64) -> Result<Engine<P>, ConfigError> {
        Engine::new(config, seed, None)
    }

    /// Formats a new pool with identity `pool` and opens the pool. Any data on the device is lost.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn format(config: Config, pool: PoolId, seed: u64) -> Result<Engine<P>, ConfigError> {
        Engine::new(config, seed, Some(pool))
    }

    fn new(config: Config, seed: u64, format: Option<PoolId>) -> Result<Engine<P>, ConfigError> {
        config.check()?;
        let fast = u64::from(config.geometry.active_units(MediaClass::Fast));
        let parts = Parts::new(config, seed, format.unwrap_or(PoolId([0; 16])));
        let mut engine = Engine {
            collector: Collector::new(Stays::new(fast * parts.dense)),
            sealer: Sealer::default(),
            trimmer: Trimmer::default(),
            layers: Layers::default(),
            losing: Losing::default(),
            scrubber: Scrubber::default(),
            checkpointer: Checkpointer::default(),
            recovery: None,
            untold: None,
            settled: false,
            paused: false,
            parts,
        };
        engine.recovery = Some(Recovery::begin(&mut engine.parts, format));
        Ok(engine)
    }

    /// Takes a request. The request takes effect by the time of its completion; requests in work at once may be done in
    /// any order.
    ///
    /// # Errors
    /// [`Rejected`]: the request will not complete. Every other request completes exactly once.
    pub fn submit(
        &mut self,
        now: Time,
        id: RequestId,
        request: HostRequest<P>,
    ) -> Result<(), Rejected> {
        self.handle_timeout(now);
        if self.parts.requests.len() >= self.parts.config.max_requests as usize {
            return Err(Rejected::Busy);
        }
        let writing = !matches!(request, HostRequest::Read { .. } | HostRequest::Scrub);
        match self.parts.phase {
            Phase::Open | Phase::Failed if self.untold.is_some() => return Err(Rejected::NotOpen),
            Phase::Open => {}
            Phase::Failed if !writing => {}
            Phase::Failed => return self.refuse(id, HostError::Failed),
            Phase::Opening | Phase::Closing | Phase::Closed => return Err(Rejected::NotOpen),
        }
        match &request {
            HostRequest::Write { extent, .. } | HostRequest::Read { extent, .. } => {
                if !(1..=MAX_IO_BLOCKS).contains(&extent.blocks) {
                    return Err(Rejected::Malformed);
                }
                let staged = u64::from(self.parts.cache.host_blocks()) + extent.blocks;
                if writing && staged > u64::from(self.parts.config.max_staged_blocks) {
                    return Err(Rejected::Busy);
                }
            }
            HostRequest::Trim { extent, .. } if extent.blocks == 0 => {
                return Err(Rejected::Malformed);
            }
            _ => {}
        }
        self.parts.asked_at = self.parts.now;
        let settled = std::mem::take(&mut self.settled);
        // A request that only stages blocks leaves the engine idle.
        self.settled =
            self.start(id, request) && settled && !self.sealer.may_seal_host_data(&self.parts);
        Ok(())
    }

    /// Begins a request. Returns whether it did no more than stage blocks.
    fn start(&mut self, id: RequestId, request: HostRequest<P>) -> bool {
        match request {
            HostRequest::Read { extent, into } => {
                let request = self.accept(id, false, false);
                self.parts.read(request, extent, into);
            }
            HostRequest::Write { extent, data, fua, handle } => {
                let at_once = self.parts.config.write_cache && !fua;
                if at_once && self.parts.write_at_once(id, extent, &data, handle) {
                    return true;
                }
                let request = self.accept(id, true, fua);
                return self.parts.write(request, extent, data, handle);
            }
            HostRequest::Trim { extent, fua } => {
                let request = self.accept(id, true, fua);
                self.trimmer.trim(&mut self.parts, request, extent);
            }
            HostRequest::FlushVolume { volume } => {
                let request = self.accept(id, true, false);
                self.parts.flush_volume(request, volume);
            }
            HostRequest::Flush => {
                let request = self.accept(id, true, false);
                self.parts.flush(request);
            }
            HostRequest::CreateVolume { name, blocks } => {
                let request = self.accept(id, true, true);
                self.parts.create_volume(request, &name, blocks);
            }
            HostRequest::DeleteVolume { volume } => {
                let request = self.accept(id, true, true);
                self.trimmer.delete_volume(&mut self.parts, request, volume);
            }
            HostRequest::ResizeVolume { volume, blocks } => {
                let request = self.accept(id, true, true);
                self.trimmer.resize_volume(&mut self.parts, request, volume, blocks);
            }
            HostRequest::RenameVolume { volume, name } => {
                let request = self.accept(id, true, true);
                self.parts.rename_volume(request, volume, name);
            }
            HostRequest::SnapshotVolume { volume, name } => {
                let request = self.accept(id, true, true);
                self.layers.ask(request, volume, name);
            }
            HostRequest::CloneVolume { snapshot, name } => {
                let request = self.accept(id, true, true);
                self.parts.clone_volume(request, snapshot, &name);
            }
            HostRequest::SetMedia { volume, media } => {
                let request = self.accept(id, true, true);
                if self.parts.set_media(request, volume, media) {
                    self.collector.media_changed(&mut self.parts);
                }
            }
            HostRequest::Scrub => {
                let request = self.accept(id, false, false);
                self.scrubber.begin(&mut self.parts, scrub::Asked::Host(request), UnitId(0));
            }
            HostRequest::Close => {
                let request = self.accept(id, true, false);
                self.parts.phase = Phase::Closing;
                self.parts.closing = Some(request);
            }
        }
        false
    }

    /// Takes a request with one part, so that the request cannot complete while its parts are being determined.
    fn accept(&mut self, id: RequestId, writes: bool, durable: bool) -> u32 {
        self.parts.requests.accept(id, writes, durable && !bug!(self.parts.config, FuaIgnored))
    }

    fn refuse(&mut self, request: RequestId, error: HostError) -> Result<(), Rejected> {
        self.parts.actions.push_back(Action::Complete { request, result: Err(error) });
        Ok(())
    }

    /// The next thing to do; `None` until the next input or the time of [`Engine::poll_timeout`].
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action<P>> {
        loop {
            if let Some(action) = self.parts.actions.pop_front() {
                return Some(action);
            }
            self.paused = !self.settled && self.parts.is_due_to_rest();
            let rests = self.settled || self.paused;
            if rests || !self.work() && !self.give_up_waiting() {
                self.settled = !self.paused;
                self.parts.rested_at = self.parts.stats.looked_at;
                return None;
            }
        }
    }

    /// When the engine must be called without other input: when writes have waited in memory long enough, when a scrub
    /// in the background has rested, or at once if the engine paused in long work to let other work proceed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.paused {
            return Some(self.parts.now);
        }
        let writes = self.parts.cache.due().filter(|_| self.parts.config.write_cache);
        // An overdue block that cannot leave yet waits for an event, not for time.
        let leaves = self.parts.destage.due().filter(|due| *due > self.parts.now);
        let times = writes
            .into_iter()
            .chain(leaves)
            .chain(self.scrubber.wakes(self.parts.now, self.parts.asked_at));
        times.min().filter(|_| self.parts.phase == Phase::Open)
    }

    /// Advances the time. Spurious calls change nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        let scrubs = self.scrubber.wakes(self.parts.now, self.parts.asked_at);
        self.parts.now = self.parts.now.max(now);
        self.settled &= scrubs.is_none_or(|due| due > self.parts.now);
        if self.parts.cache.due().is_some_and(|due| due <= self.parts.now) {
            self.parts.cache.seal_all_soon();
            self.settled = false;
        }
        self.settled &= self.parts.destage.due().is_none_or(|due| due > self.parts.now);
    }

    /// Does a bounded piece of work. Returns whether any work was done.
    fn work(&mut self) -> bool {
        match self.parts.phase {
            Phase::Opening => return self.recover(),
            Phase::Failed => {
                let worked = self.memory_step() | self.scrubber.step(&mut self.parts);
                return worked || self.has_work_left();
            }
            Phase::Closed => return false,
            Phase::Open | Phase::Closing => {}
        }
        let mut worked = self.memory_step();
        worked |= self.trimmer.unmap_step(&mut self.parts);
        worked |= self.layers.step(&mut self.parts, &mut self.trimmer);
        worked |= self.losing.lose_step(&mut self.parts);
        worked |= self.sealer.seal_ready(&mut self.parts);
        worked |= self.parts.close_overdue();
        worked |= self.collect();
        worked |= self.parts.release_step();
        worked |= self.checkpointer.step(&mut self.parts, self.trimmer.is_idle());
        worked |= self.checkpointer.superblock_step(&mut self.parts);
        worked |= self.parts.load_step();
        worked |= self.scrubber.step(&mut self.parts);
        worked |= self.parts.flush_step();
        worked |= self.parts.relieve_step();
        worked || self.has_work_left()
    }

    /// Whether a step that got no further has left something to be done: a command to be handed on, or a page to be
    /// taken over that need not be read.
    fn has_work_left(&self) -> bool {
        !self.parts.actions.is_empty() || self.parts.pages.has_arrived()
    }

    /// The device carried out `op`, or failed to.
    ///
    /// # Panics
    /// If `op` is not in flight, or if `done` does not match the command.
    pub fn handle_completion(&mut self, now: Time, op: OpId, done: Result<Done<P>, DeviceError>) {
        self.handle_timeout(now);
        self.settled = false;
        self.answered(op, done);
    }
}
