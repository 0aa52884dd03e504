//! The state machine: what it holds, what comes in, what goes out.

mod checkpoint;
mod destage;
mod flush;
mod gc;
mod io;
mod losing;
mod memory;
mod occupancy;
mod opening;
mod pages;
mod patches;
mod records;
mod release;
mod runs;
mod scrub;
mod seal;
mod tier;
mod trim;
mod unit_pages;
mod versions;
mod volumes;

use std::collections::VecDeque;

use slab::Slab;
use thermocline_format::{
    Epoch, Geometry, Location, MediaClass, Packer, PoolId, Sequence, VolumeId,
};
use thermocline_ftl::UnitState;
use thermocline_ftl::placement::Classifier as _;
use thermocline_types::{Class, DeviceId, Lba, Rng, Time, UnitId, Version};

use crate::bugs::bug;
use crate::config::{Config, ConfigError, MAX_IO_BLOCKS};
use crate::destage::Destage;
use crate::device::{DeviceCmd, DeviceError, Done, OpId, ReadChunks};
use crate::durability::{Durability, Then};
use crate::flights::Flights;
use crate::healing::Healing;
use crate::map::{Addresses, Value};
use crate::marks::mark;
use crate::pages::Pages;
use crate::payload::Payload;
use crate::request::{Action, Extent, HostError, HostRequest, Notice, Rejected, RequestId};
use crate::requests::{Progress, Requests};
use crate::space::Space;
use crate::stats::{Memory, Stats};
use crate::superblocks::Superblocks;
use crate::tier::Stays;
use crate::unit_table::UnitTable;
use crate::volumes::{PageCursor, Volumes};
use crate::write_cache::{Owner, WriteCache};

use checkpoint::{Checkpoint, Due};
use gc::Gc;
pub use occupancy::Occupancy;
use opening::{Opening, Untold};
pub use runs::Run;
use scrub::Scrub;
pub use scrub::ScrubProgress;
use trim::Unmapping;
use versions::{Judged, Tried};

/// What the device was asked for.
#[derive(Debug)]
pub(crate) enum Op<P> {
    WriteChunk { sequence: Sequence, class: Class },
    HostRead { request: u32, volume: VolumeId, lba: u64, unit: UnitId, expected: Vec<Value> },
    LoadPage { volume: u16, page: u64, at: Location },
    MovePage { page: checkpoint::Place, unit: UnitId },
    MergePage { page: checkpoint::Place },
    GcChunks { request: ReadChunks },
    GcRead { segment: u32, first: usize },
    Reset { unit: UnitId },
    Finish { unit: UnitId },
    Flush { device: DeviceId },
    Superblock,
    ScrubChunks,
    ScrubRead { block: scrub::Counted, missing: bool },
    ScrubVersion { blocks: Vec<scrub::Counted>, version: Version },
    Heal { at: Location, version: Version },
    Again(Box<Tried<P>>),
    Opening { index: usize },
}

/// Entries and units that the engine looks through before it lets others go first. Chosen so that it takes well under a
/// millisecond.
const LOOKED_AT: u64 = 16 << 10;

/// Where the pool is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Being formatted or recovered.
    Opening,
    /// Requests are accepted.
    Open,
    /// A last checkpoint is being written.
    Closing,
    /// Nothing is accepted any more.
    Closed,
    /// The device failed: reads only.
    Failed,
}

/// A log-structured pool of volumes over the units of its devices.
///
/// Call [`Engine::submit`] and [`Engine::handle_completion`] as things happen, and carry out everything that
/// [`Engine::poll_action`] gives, until it gives nothing, after every such call.
#[derive(Debug)]
pub struct Engine<P: Payload> {
    config: Config,
    addresses: Addresses,
    /// Blocks of users that fit into a unit written in chunks as large as possible.
    dense: u64,
    phase: Phase,
    pool: PoolId,
    epoch: Epoch,
    actions: VecDeque<Action<P>>,
    ops: Slab<Op<P>>,
    healing: Healing,
    requests: Requests,
    volumes: Volumes,
    pages: Pages<P>,
    space: Space,
    unit_table: UnitTable,
    cache: WriteCache<P>,
    flights: Flights<P>,
    /// Scratch of sealing: the slots of a chunk, and queues of the host.
    picked: Vec<u32>,
    packer: Packer,
    order: Vec<usize>,
    durability: Durability,
    gc: Gc<P>,
    stays: Stays,
    /// Whether what hosts write is kept from fast devices.
    spares_fast: bool,
    destage: Destage,
    unmapping: VecDeque<Unmapping>,
    /// Where the search for what is lost goes on.
    losing: Option<PageCursor>,
    scrubs: VecDeque<Scrub>,
    checkpoint: Option<Checkpoint>,
    superblocks: Superblocks,
    opening: Option<Box<Opening<P>>>,
    /// Why the next checkpoint is due.
    due: Due,
    /// The request that waits for the pool to be closed.
    closing: Option<u32>,
    /// An opening that is over and that nobody was told of.
    untold: Option<Untold>,
    /// Blocks written by the host, the clock of placement and victim policies.
    host_writes: u64,
    rng: Rng,
    now: Time,
    /// When a host asked for something last.
    asked_at: Time,
    /// Whether there is nothing to do until something comes in.
    settled: bool,
    /// Whether there is more to look through than it may before others go.
    paused: bool,
    /// What it had looked through when others could last go.
    rested_at: u64,
    stats: Stats,
}

impl<P: Payload> Engine<P> {
    /// Opens the pool that is on the device. [`crate::Notice::Open`] tells when requests are accepted.
    ///
    /// # Errors
    /// [`ConfigError`]; what is wrong on the device comes as [`crate::Notice::OpenFailed`].
    pub fn open(config: Config, seed: u64) -> Result<Engine<P>, ConfigError> {
        Engine::new(config, seed, None)
    }

    /// Makes a new pool of this identity on the device, whatever is there, and opens it.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn format(config: Config, pool: PoolId, seed: u64) -> Result<Engine<P>, ConfigError> {
        Engine::new(config, seed, Some(pool))
    }

    fn new(
        mut config: Config,
        seed: u64,
        format: Option<PoolId>,
    ) -> Result<Engine<P>, ConfigError> {
        config.check()?;
        let geometry = config.geometry;
        let block = geometry.logical_block();
        let full = block.blocks_in_chunk(block.max_chunk());
        let dense = config.blocks_per_unit() as u32;
        let units = thermocline_ftl::Units::new(geometry.units(), geometry.blocks_per_unit())
            .with_most_valid(dense)
            .keeping_by_age();
        let capacity = config.capacity_blocks(0);
        let placed = geometry.active_units(MediaClass::Capacity);
        let fast = u64::from(geometry.active_units(MediaClass::Fast));
        config.placement.begin(capacity, placed, dense, config.below);
        let mut engine = Engine {
            dense: dense.into(),
            addresses: Addresses::new(&geometry),
            phase: Phase::Opening,
            pool: format.unwrap_or(PoolId([0; 16])),
            epoch: Epoch(1),
            actions: VecDeque::new(),
            ops: Slab::new(),
            healing: Healing::default(),
            requests: Requests::default(),
            volumes: Volumes::default(),
            pages: Pages::default(),
            space: Space::new(units, &config),
            unit_table: UnitTable::new(&geometry),
            cache: WriteCache::new(usize::from(config.user_classes()), full),
            flights: Flights::new(Sequence(1)),
            picked: Vec::new(),
            packer: Packer::default(),
            order: Vec::new(),
            durability: Durability::new(geometry.devices().len()),
            gc: Gc::default(),
            stays: Stays::new(fast * u64::from(dense)),
            spares_fast: false,
            destage: Destage::new(config.destage),
            unmapping: VecDeque::new(),
            losing: None,
            scrubs: VecDeque::new(),
            checkpoint: None,
            superblocks: Superblocks::default(),
            opening: None,
            due: Due::default(),
            closing: None,
            untold: None,
            host_writes: 0,
            rng: Rng::new(seed),
            now: Time::ZERO,
            asked_at: Time::ZERO,
            settled: false,
            paused: false,
            rested_at: 0,
            stats: Stats::default(),
            config,
        };
        engine.begin_opening(format);
        Ok(engine)
    }

    /// Takes a request. What it asks for is done by the time it completes; requests in work at once may be done in any
    /// order.
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
        if self.requests.len() >= self.config.max_requests as usize {
            return Err(Rejected::Busy);
        }
        let writing = !matches!(request, HostRequest::Read { .. } | HostRequest::Scrub);
        match self.phase {
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
                let staged = u64::from(self.cache.host_blocks()) + extent.blocks;
                if writing && staged > u64::from(self.config.max_staged_blocks) {
                    return Err(Rejected::Busy);
                }
            }
            HostRequest::Trim { extent, .. } if extent.blocks == 0 => {
                return Err(Rejected::Malformed);
            }
            _ => {}
        }
        self.asked_at = self.now;
        let settled = std::mem::take(&mut self.settled);
        // What only waits in memory gives nobody anything to do.
        self.settled = self.start(id, request) && settled && !self.hosts_may_be_ripe();
        Ok(())
    }

    /// Begins a request. Returns whether it did no more than stage blocks.
    fn start(&mut self, id: RequestId, request: HostRequest<P>) -> bool {
        match request {
            HostRequest::Read { extent, into } => {
                let request = self.accept(id, false, false);
                self.read(request, extent, into);
            }
            HostRequest::Write { extent, data, fua, handle } => {
                let at_once = self.config.write_cache && !fua;
                if at_once && self.write_at_once(id, extent, &data, handle) {
                    return true;
                }
                let request = self.accept(id, true, fua);
                return self.write(request, extent, data, handle);
            }
            HostRequest::Trim { extent, fua } => {
                let request = self.accept(id, true, fua);
                self.trim(request, extent);
            }
            HostRequest::FlushVolume { volume } => {
                let request = self.accept(id, true, false);
                self.flush_volume(request, volume);
            }
            HostRequest::Flush => {
                let request = self.accept(id, true, false);
                self.flush(request);
            }
            HostRequest::CreateVolume { name, blocks } => {
                let request = self.accept(id, true, true);
                self.create_volume(request, &name, blocks);
            }
            HostRequest::DeleteVolume { volume } => {
                let request = self.accept(id, true, true);
                self.delete_volume(request, volume);
            }
            HostRequest::ResizeVolume { volume, blocks } => {
                let request = self.accept(id, true, true);
                self.resize_volume(request, volume, blocks);
            }
            HostRequest::SetMedia { volume, media } => {
                let request = self.accept(id, true, true);
                self.set_media(request, volume, media);
            }
            HostRequest::Scrub => {
                let request = self.accept(id, false, false);
                self.begin_scrub(scrub::Asked::Host(request), UnitId(0));
            }
            HostRequest::Close => {
                let request = self.accept(id, true, false);
                self.begin_closing(request);
            }
        }
        false
    }

    /// Takes a request with one part, so that it does not complete while its parts are being found.
    fn accept(&mut self, id: RequestId, writes: bool, durable: bool) -> u32 {
        self.requests.accept(id, writes, durable && !bug!(self.config, FuaIgnored))
    }

    fn refuse(&mut self, request: RequestId, error: HostError) -> Result<(), Rejected> {
        self.actions.push_back(Action::Complete { request, result: Err(error) });
        Ok(())
    }

    /// Whether a write of the host is complete as soon as it is in memory.
    pub(crate) fn completes_in_memory(&self, request: u32) -> bool {
        self.config.write_cache && !self.requests.is_durable(request)
    }

    /// `parts` of what `request` waits for are done, or failed.
    pub(crate) fn request_progress(&mut self, request: u32, parts: u32, error: Option<HostError>) {
        match self.requests.progress(request, parts, error, self.phase_failed()) {
            Progress::Waits => {}
            Progress::MakeDurable => {
                let target = self.flights.sealed().min(self.flights.newest_done());
                self.await_flush(target, Then::Host { request });
            }
            Progress::Over { id, result, resized } => {
                if let Some(index) = resized.and_then(|volume| self.volumes.index(volume)) {
                    let map = self.volumes.map_mut(index);
                    map.limit = map.blocks;
                }
                self.actions.push_back(Action::Complete { request: id, result });
            }
        }
    }

    /// The device carried out `op`, or failed to.
    ///
    /// # Panics
    /// If `op` is not on its way, or is answered with what was not asked for.
    pub fn handle_completion(&mut self, now: Time, op: OpId, done: Result<Done<P>, DeviceError>) {
        self.handle_timeout(now);
        self.settled = false;
        let asked = self.ops.remove(op.0 as usize);
        let Some(Judged { asked, done, lost }) = self.judged(op.0 as usize, asked, done) else {
            return;
        };
        let status = done.as_ref().map(|_| ()).map_err(|error| *error);
        match (asked, done) {
            (Op::WriteChunk { sequence, class }, _) => self.chunk_written(sequence, class, status),
            (Op::HostRead { request, volume, lba, unit, expected }, _) => {
                let blocks = expected.len() as u64;
                let extent = Extent { volume, lba, blocks };
                self.read_done(request, extent, unit, &expected, &lost, status);
            }
            (Op::LoadPage { volume, page, at }, Ok(Done::Page(bytes))) => {
                self.page_read(volume, page, at, Some(&bytes));
            }
            (Op::LoadPage { volume, page, at }, Err(_)) => {
                self.page_read(volume, page, at, None);
            }
            (Op::MovePage { page, unit }, Ok(Done::Page(bytes))) => {
                self.page_to_move(page, unit, Some(bytes));
            }
            (Op::MovePage { page, unit }, Err(_)) => self.page_to_move(page, unit, None),
            (Op::MergePage { page }, Ok(Done::Page(bytes))) => {
                self.page_to_merge(page, Some(bytes));
            }
            (Op::MergePage { page }, Err(_)) => self.page_to_merge(page, None),
            (Op::GcChunks { .. }, Ok(Done::Chunks(found))) => self.gc_chunks_found(&found),
            (Op::GcChunks { .. }, Err(error)) => self.gc_unreadable(error),
            (Op::GcRead { segment, first }, Ok(Done::Data(data))) => {
                self.gc_data_read(segment, first, Some(&data));
            }
            (Op::GcRead { segment, first }, Err(_)) => self.gc_data_read(segment, first, None),
            (Op::Reset { unit }, _) => self.unit_reset(unit, status),
            (Op::Finish { unit }, _) => {
                self.space.finished(unit);
            }
            (Op::Flush { device }, _) => self.flushed(device, status),
            (Op::Superblock, _) => self.superblock_written(status),
            (Op::ScrubChunks, Ok(Done::Chunks(found))) => self.scrub_found(Ok(found)),
            (Op::ScrubChunks, Err(error)) => self.scrub_found(Err(error)),
            (Op::ScrubRead { block, missing }, Ok(Done::Data(data))) => {
                self.scrub_read(block, missing, Some(&data));
            }
            (Op::ScrubRead { block, missing }, Err(_)) => self.scrub_read(block, missing, None),
            (Op::ScrubVersion { blocks, version }, done) => {
                self.scrub_version_read(&blocks, version, &done);
            }
            (Op::Heal { at, version }, _) => self.healed(at, version, status),
            (Op::Opening { index }, done) => self.opening_progress(index, done),
            (asked, done) => panic!("{asked:?} was answered with {done:?}"),
        }
    }

    /// The next thing to do; `None` when there is nothing until something comes in, or before the time of
    /// [`Engine::poll_timeout`].
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action<P>> {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Some(action);
            }
            self.paused = !self.settled && self.is_due_to_rest();
            let rests = self.settled || self.paused;
            if rests || !self.work() && !self.give_up_waiting() {
                self.settled = !self.paused;
                self.rested_at = self.stats.looked_at;
                return None;
            }
        }
    }

    /// Whether it has looked through so much that others go first.
    pub(crate) fn is_due_to_rest(&self) -> bool {
        self.stats.looked_at - self.rested_at > LOOKED_AT
    }

    /// When the engine wants to be called though nothing came in: when writes have waited in memory for long enough,
    /// when a scrub in the background has rested, or at once if it has more to look through than it may before others
    /// go.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.paused {
            return Some(self.now);
        }
        let writes = self.cache.due().filter(|_| self.config.write_cache);
        // What is overdue and cannot leave yet waits for more than time.
        let leaves = self.destage.due().filter(|due| *due > self.now);
        let times = writes.into_iter().chain(leaves).chain(self.scrub_wakes(self.now));
        times.min().filter(|_| self.phase == Phase::Open)
    }

    /// Tells the time. Spurious calls change nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        let scrubs = self.scrub_wakes(self.now);
        self.now = self.now.max(now);
        self.settled &= scrubs.is_none_or(|due| due > self.now);
        if self.cache.due().is_some_and(|due| due <= self.now) {
            self.cache.hurry_all();
            self.settled = false;
        }
        self.settled &= self.destage.due().is_none_or(|due| due > self.now);
    }

    /// A bounded piece of what can be done now. Returns whether anything was.
    fn work(&mut self) -> bool {
        match self.phase {
            Phase::Opening => return self.opening_step(),
            Phase::Failed => {
                let worked = self.memory_step() | self.scrub_step();
                return worked || self.has_work_left();
            }
            Phase::Closed => return false,
            Phase::Open | Phase::Closing => {}
        }
        let mut worked = self.memory_step();
        worked |= self.unmap_step();
        worked |= self.lose_step();
        worked |= self.seal_ready();
        worked |= self.close_overdue();
        worked |= self.gc_step();
        worked |= self.release_step();
        worked |= self.checkpoint_step();
        worked |= self.superblock_step();
        worked |= self.load_step();
        worked |= self.scrub_step();
        worked |= self.flush_step();
        worked |= self.relieve_step();
        worked || self.has_work_left()
    }

    /// Whether a step that got no further has left something to be done: a command to be handed on, or a page to be
    /// taken over that need not be read.
    fn has_work_left(&self) -> bool {
        !self.actions.is_empty() || self.pages.has_arrived()
    }

    /// Nothing is on its way and nothing can be done, but blocks wait to be sealed, or requests for a checkpoint:
    /// units have gone out of service, and there will never be room. Fails what waits rather than let it wait for
    /// ever. Returns whether anything did.
    fn give_up_waiting(&mut self) -> bool {
        let working = matches!(self.phase, Phase::Open | Phase::Closing);
        let waits = !self.cache.is_empty() || !self.requests.is_empty();
        if !working || !self.ops.is_empty() || !waits || self.lingers() {
            return false;
        }
        mark!(WaitingGivenUp);
        if self.gc_borrow() || self.force_checkpoint() {
            return true;
        }
        if !self.fail_staged() {
            mark!(NothingToFail);
            self.fail();
        }
        true
    }

    /// Reports that `at` is damaged, and the blocks of a volume that cannot be read for it.
    pub(crate) fn report_damage(&mut self, at: Location, holds: Option<Extent>) {
        self.actions.push_back(Action::Notice(Notice::Damaged { at, holds }));
    }

    pub(crate) fn device(&mut self, op: usize, cmd: DeviceCmd<P>) {
        self.actions.push_back(Action::Device { op: OpId(op as u64), cmd });
    }

    /// Blocks of users that the pool holds at most when `more` pages of maps come into use: maps take space, too, and
    /// units that went out of service are missing.
    pub(crate) fn capacity_blocks(&self, more: u64) -> u64 {
        let pages = self.volumes.pages_in_use() + more;
        let roots = pages.min(self.volumes.total_roots() as u64);
        self.config.capacity_beside(pages, roots, self.space.retired())
    }

    pub(crate) fn phase_failed(&self) -> bool {
        self.phase == Phase::Failed
    }

    /// Fails every request that waits for more than the answer of the device.
    pub(crate) fn set_failed(&mut self) {
        self.phase = Phase::Failed;
        for then in self.durability.abandon() {
            match then {
                Then::Host { request } => {
                    self.request_progress(request, 1, Some(HostError::Failed));
                }
                Then::Scrub => self.scrub_goes_on(),
                _ => {}
            }
        }
        let (owners, flushes) = self.cache.give_up();
        for owner in owners {
            match owner {
                Owner::Request(request) => {
                    self.request_progress(request, 1, Some(HostError::Failed));
                }
                Owner::Failed(_) => self.settle_owners(&[(owner, 1)]),
            }
        }
        for request in flushes {
            self.request_progress(request, 1, Some(HostError::Failed));
        }
        if let Some(request) = self.closing.take() {
            mark!(ClosingFailed);
            self.request_progress(request, 1, Some(HostError::Failed));
        }
        for unmapping in std::mem::take(&mut self.unmapping) {
            self.unmapping_failed(&unmapping);
        }
        self.pages_failed();
        self.unpin_all();
        self.tell_open();
    }

    /// Memory held, by what it is for. Payloads are counted as if each was 4096 bytes.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            maps: self.volumes.memory_bytes(),
            units: self.space.memory_bytes() + self.unit_table.memory_bytes(),
            placement: self.config.placement.memory_bytes() as u64,
            waiting: self.cache.memory_bytes(),
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The units of the pool: what each is doing and how many of its blocks are valid.
    #[must_use]
    pub fn units(&self) -> &thermocline_ftl::Units {
        self.space.units()
    }

    /// Brings the map's entry of a block towards the cache, ahead of a request for it. Changes nothing.
    #[inline]
    pub fn prefetch(&self, volume: thermocline_format::VolumeId, lba: u64) {
        if let Some(index) = self.volumes.index(volume)
            && lba < self.volumes.map(index).blocks
        {
            let map = self.volumes.map(index);
            map.prefetch(lba);
            self.config.placement.prefetch(Lba(map.base + lba));
        }
    }

    /// Units that can be written now or after the next superblock record.
    #[must_use]
    pub fn free_units(&self) -> u32 {
        self.space.free_units(MediaClass::Capacity) + self.space.free_units(MediaClass::Fast)
    }

    /// The devices as the pool uses them.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.config.geometry
    }

    /// Units of a device that hold something, or may be written: of one that is drained, none is left in the end, and
    /// once the pool was closed after that the device can be detached. Looks at each unit.
    #[must_use]
    pub fn units_in_use(&self, device: DeviceId) -> u32 {
        let geometry = &self.config.geometry;
        let units = geometry.device_units().find(|(one, _)| *one == device).map(|(_, units)| units);
        let used = |unit: &UnitId| self.space.units().state(*unit) != UnitState::Retired;
        let data = |unit: &UnitId| !geometry.is_superblock_unit(*unit);
        units.into_iter().flatten().map(UnitId).filter(data).filter(used).count() as u32
    }

    /// As [`Engine::free_units`], on a class of media.
    #[must_use]
    pub fn free_units_of(&self, media: MediaClass) -> u32 {
        self.space.free_units(media)
    }
}
