//! An engine on a disk: carries commands to one and completions to the other.

use std::rc::Rc;

use thermocline_engine::{
    Action, Bug, Config, DeviceCmd, Engine, Extent, HostError, HostRequest, MAX_IO_BLOCKS, Notice,
    OpenError, Reply, RequestId, VolumeInfo,
};
use thermocline_format::{Geometry, Location, MediaClass, PoolId, VolumeId};
use thermocline_types::{Time, UnitId};

use crate::data::{Arena, Content, Data};
use crate::disk::{Disk, Image};
use crate::faults::CommandKind;
use crate::model::FoundVolume;

/// Completions after which pending work counts as endless.
pub(crate) const PATIENCE: u64 = 1 << 20;

/// So many turns a single request may take. What goes on for longer never ends: it is told before records written over
/// and over fill the memory.
const TURNS_OF_REQUEST: u64 = 1 << 14;

/// Actions of the engine before a completion, at most.
const ACTIONS_AT_ONCE: u64 = 1 << 14;

/// The identity of every simulated pool.
pub const POOL: PoolId = PoolId(*b"simulated pool 1");

/// An event from the engine to its host.
#[derive(Debug)]
pub enum Event {
    /// A request ended.
    Complete(RequestId, Result<Reply, HostError>),
    /// A state changed.
    Notice(Notice),
}

/// The result of a request, and the damage found meanwhile.
pub type Answer = (Result<Reply, HostError>, Vec<Location>);

/// The result of reading all blocks: the volumes, and every failed read, of many blocks or of one.
pub type Survey = (Vec<FoundVolume>, Vec<(Extent, HostError)>);

/// Why a pool cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The opening was refused.
    Refused(OpenError),
    /// The machine has no next event, but work is pending.
    Stuck(&'static str),
    /// The machine was stopped early.
    Stopped,
    /// A unit's valid count, and the different number of blocks that the maps lead to.
    Miscounted(UnitId, u32, u32),
    /// A block of a volume or snapshot that differs from an older snapshot, and is not said to have changed.
    ChangeMissed(VolumeId, VolumeId, u64),
}

/// How a pool was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Chunks that were replayed.
    pub chunks: u64,
}

/// An engine on a disk.
#[derive(Debug)]
pub struct Machine {
    /// The engine.
    pub engine: Engine<Data>,
    /// The disk.
    pub disk: Disk,
    /// The time.
    pub now: Time,
    /// Completions so far.
    pub turns: u64,
    /// [`Machine::pages_lost`] of the engines before this one.
    pub pages_lost_before: u64,
    arena: Rc<Arena>,
    next_request: u64,
    /// The first change of media since the engine began.
    first_change: u64,
    /// Zones of each class of media that may be active when another one is opened.
    most_active: [u32; MediaClass::ALL.len()],
}

/// What a configuration says to more than the engine.
#[derive(Clone, Copy, Debug)]
struct Used {
    geometry: Geometry,
    most_active: [u32; MediaClass::ALL.len()],
    bug: Option<Bug>,
}

impl Used {
    fn by(config: &Config) -> Used {
        let Config { geometry, max_open_units, bug, .. } = *config;
        Used { geometry, most_active: max_open_units, bug }
    }

    fn tell(&self, disk: &mut Disk) {
        disk.use_as(self.geometry);
        disk.make(self.bug);
    }
}

impl Machine {
    /// An engine that makes a pool on `disk`.
    ///
    /// # Panics
    /// When the configuration cannot work.
    #[must_use]
    pub fn format(config: Config, arena: &Rc<Arena>, disk: Disk, seed: u64) -> Machine {
        let used = Used::by(&config);
        let engine = Engine::format(config, POOL, seed).expect("a configuration that works");
        Machine::new(engine, arena, disk, used)
    }

    /// An engine that opens the pool on `disk`.
    ///
    /// # Panics
    /// When the configuration cannot work.
    #[must_use]
    pub fn open(config: Config, arena: &Rc<Arena>, disk: Disk, seed: u64) -> Machine {
        let used = Used::by(&config);
        let engine = Engine::open(config, seed).expect("a configuration that works");
        Machine::new(engine, arena, disk, used)
    }

    fn new(engine: Engine<Data>, arena: &Rc<Arena>, mut disk: Disk, used: Used) -> Machine {
        used.tell(&mut disk);
        let most_active = used.most_active;
        let (now, turns) = (Time::ZERO, 0);
        let (arena, pages_lost_before, next_request) = (Rc::clone(arena), 0, 0);
        let first_change = disk.cache().next_change();
        Machine {
            engine,
            disk,
            now,
            turns,
            pages_lost_before,
            arena,
            next_request,
            first_change,
            most_active,
        }
    }

    /// Drops the engine, and opens the pool on `image`.
    ///
    /// # Panics
    /// When the configuration cannot work.
    pub fn restart(&mut self, config: Config, image: &Image, seed: u64) {
        self.open_anew(config, seed);
        self.disk.restart(image);
        self.disk.reseed(seed);
        self.first_change = self.disk.cache().next_change();
    }

    /// The engine is killed, and another opens the pool. The disk goes on: see [`Disk::outlive_host`].
    ///
    /// # Panics
    /// When the configuration cannot work.
    pub fn kill(&mut self, config: Config, seed: u64) {
        self.open_anew(config, seed);
        self.disk.outlive_host();
        self.disk.reseed(seed);
        self.first_change = self.disk.cache().next_change();
    }

    fn open_anew(&mut self, config: Config, seed: u64) {
        self.pages_lost_before = self.pages_lost();
        let used = Used::by(&config);
        used.tell(&mut self.disk);
        self.most_active = used.most_active;
        self.engine = Engine::open(config, seed).expect("a configuration that works");
        self.turns = 0;
    }

    /// Whether anything was written, reset or finished since the engine began.
    #[must_use]
    pub fn has_changed_media(&self) -> bool {
        self.disk.cache().next_change() > self.first_change
    }

    /// A unique request identifier.
    pub fn request_id(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// Carries out the engine's actions, and appends its events to `events`.
    ///
    /// # Panics
    /// When the engine emits actions without end.
    pub fn pump(&mut self, events: &mut Vec<Event>) {
        let mut actions = 0;
        while let Some(action) = self.engine.poll_action() {
            actions += 1;
            assert!(actions < ACTIONS_AT_ONCE, "the engine wants more and more at once");
            self.check_memory();
            match action {
                Action::Device { op, cmd } => {
                    self.count_zones(&cmd);
                    self.disk.submit(self.now, op, cmd);
                }
                Action::Complete { request, result } => {
                    events.push(Event::Complete(request, result));
                }
                Action::Notice(notice) => events.push(Event::Notice(notice)),
            }
        }
    }

    /// Asserts the device's limit of active zones, superblock zones excluded. Skipped after a failed finish, since the
    /// zone stays active.
    fn count_zones(&self, cmd: &DeviceCmd<Data>) {
        let DeviceCmd::WriteChunk(chunk) = cmd else { return };
        let at = chunk.header.origin.location;
        let media = self.engine.geometry().media_of(at.unit);
        let most = self.most_active[media as usize];
        let log = self.disk.injector().log();
        let finished = log.iter().all(|injected| injected.kind != CommandKind::Finish);
        if most < u32::MAX && at.block == 0 && finished {
            let active = self.disk.active_zones(media);
            assert!(active <= most, "{active} {media:?} zones are active, and another is opened");
        }
    }

    /// Maps take no more memory than they may. Where records may be lost, an opening begins with an older one, and
    /// replays more than there was memory for at once.
    fn check_memory(&self) {
        let (maps, bound) = (self.engine.map_memory(), self.engine.map_memory_bound());
        let atlas = self.disk.atlas();
        let sound = !atlas.is_damaged() && !atlas.explains_anything_older();
        assert!(maps <= bound || !sound, "{maps} bytes for maps, which may have {bound}");
    }

    /// Runs the next event: a command completes, or a timer of the engine expires. Returns `false` without an event.
    pub fn turn(&mut self) -> bool {
        let wake = self.engine.poll_timeout();
        match (self.disk.next_completion(), wake) {
            (None, None) => return false,
            (Some(at), wake) if wake.is_none_or(|wake| at <= wake) => {
                self.now = self.now.max(at);
                if let Some(done) = self.disk.complete() {
                    if let Some(version) = done.degraded {
                        self.engine.degraded(done.op, version);
                    }
                    self.engine.handle_completion(self.now, done.op, done.result);
                }
            }
            (_, Some(wake)) => {
                self.now = self.now.max(wake);
                self.engine.handle_timeout(self.now);
            }
            (Some(_), None) => unreachable!("a completion without a wake-up comes first"),
        }
        self.turns += 1;
        true
    }

    /// Goes on until the pool is open, or for `turns` completions.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn run_until_open(&mut self, turns: u64) -> Result<Opened, Trouble> {
        let mut events = Vec::new();
        for _ in 0..=turns {
            self.pump(&mut events);
            for event in events.drain(..) {
                match event {
                    Event::Notice(Notice::Open { chunks, .. }) => {
                        self.disk.serve();
                        return Ok(Opened { chunks });
                    }
                    Event::Notice(Notice::OpenFailed(error)) => {
                        return Err(Trouble::Refused(error));
                    }
                    _ => {}
                }
            }
            if !self.turn() {
                return Err(Trouble::Stuck("opening the pool comes to nothing"));
            }
        }
        Err(Trouble::Stopped)
    }

    /// As [`Machine::run_until_open`], for as long as anyone would wait.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn wait_until_open(&mut self) -> Result<Opened, Trouble> {
        match self.run_until_open(PATIENCE) {
            Err(Trouble::Stopped) => Err(Trouble::Stuck("opening the pool never ends")),
            other => other,
        }
    }

    /// Carries out a request while no other request is pending. Returns the answer, and the damaged places found
    /// meanwhile.
    ///
    /// # Errors
    /// [`Trouble::Stuck`].
    pub fn ask(&mut self, request: HostRequest<Data>) -> Result<Answer, Trouble> {
        let id = self.request_id();
        if self.engine.submit(self.now, id, request).is_err() {
            return Err(Trouble::Stuck("a request is not accepted, though it is the only one"));
        }
        let (mut events, mut damaged) = (Vec::new(), Vec::new());
        for _ in 0..TURNS_OF_REQUEST {
            self.pump(&mut events);
            let mut answer = None;
            for event in events.drain(..) {
                match event {
                    Event::Complete(done, result) if done == id => answer = Some(result),
                    Event::Notice(Notice::Damaged { at, .. }) => damaged.push(at),
                    _ => {}
                }
            }
            if let Some(answer) = answer {
                return Ok((answer, damaged));
            }
            if !self.turn() {
                break;
            }
        }
        Err(Trouble::Stuck("a request never completes"))
    }

    /// Closes the pool in order, while no request is pending.
    ///
    /// # Errors
    /// [`Trouble::Stuck`].
    pub fn close(&mut self) -> Result<(), Trouble> {
        let (answer, _) = self.ask(HostRequest::Close)?;
        answer.map(|_| ()).map_err(|_| Trouble::Stuck("the pool cannot be closed"))
    }

    /// The volumes as [`Machine::survey`] finds them, with every block as one that cannot be read.
    #[must_use]
    pub fn unseen(&self) -> Vec<FoundVolume> {
        let unseen = |info: VolumeInfo| FoundVolume {
            volume: info.id,
            name: info.name,
            media: info.media,
            snapshot_of: info.snapshot_of,
            blocks: vec![None; info.blocks as usize],
        };
        self.engine.volumes().into_iter().map(unseen).collect()
    }

    /// Reads every block of every volume, and sees whether units are counted right.
    ///
    /// # Errors
    /// [`Trouble::Stuck`] and [`Trouble::Miscounted`].
    pub fn survey(&mut self) -> Result<Survey, Trouble> {
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for info in self.engine.volumes() {
            let mut blocks = Vec::with_capacity(info.blocks as usize);
            while (blocks.len() as u64) < info.blocks {
                let lba = blocks.len() as u64;
                let length = (info.blocks - lba).min(MAX_IO_BLOCKS);
                let extent = Extent { volume: info.id, lba, blocks: length };
                self.survey_run(extent, &mut blocks, &mut errors)?;
            }
            let VolumeInfo { id: volume, name, media, snapshot_of, .. } = info;
            found.push(FoundVolume { volume, name, media, snapshot_of, blocks });
        }
        let read = |at| {
            let per_block = self.disk.cache().media().geometry.logical_block().per_block();
            let sectors = self.disk.peek(at, per_block);
            Some(self.arena.read(self.arena.gather(&sectors)))
        };
        match self.engine.miscounted(read) {
            // Blocks of map pages that were unreadable when their volume was deleted stay counted (ADR 0028).
            Some((_, counted, led_to)) if counted > led_to && self.pages_lost() > 0 => {}
            Some((unit, counted, led_to)) => {
                return Err(Trouble::Miscounted(unit, counted, led_to));
            }
            None => {}
        }
        self.compare_changes(&found)?;
        Ok((found, errors))
    }

    /// Sees whether blocks that are said to be as in a snapshot below are.
    fn compare_changes(&self, found: &[FoundVolume]) -> Result<(), Trouble> {
        for older in found.iter().filter(|one| one.snapshot_of.is_some()) {
            for newer in found {
                let (mut lba, end) = (0, newer.blocks.len() as u64);
                while lba < end {
                    let extent = Extent { volume: newer.volume, lba, blocks: end - lba };
                    let changed = self.engine.changed(extent, older.volume, usize::MAX);
                    // Refused where `older` is not below `newer`.
                    let Ok(runs) = changed else { break };
                    for run in runs {
                        let at = |one: &FoundVolume, lba| one.blocks.get(lba as usize).copied();
                        let differs = |lba: &u64| at(older, *lba) != at(newer, *lba);
                        let missed = (lba..lba + run.blocks).find(differs);
                        if let Some(missed) = missed.filter(|_| !run.mapped) {
                            return Err(Trouble::ChangeMissed(newer.volume, older.volume, missed));
                        }
                        lba += run.blocks;
                    }
                }
            }
        }
        Ok(())
    }

    /// Pages of maps that could not be read when their volume was deleted, since the pool was made.
    #[must_use]
    pub fn pages_lost(&self) -> u64 {
        self.pages_lost_before + self.engine.stats().lost_pages
    }

    fn survey_run(
        &mut self,
        extent: Extent,
        blocks: &mut Vec<Option<Content>>,
        errors: &mut Vec<(Extent, HostError)>,
    ) -> Result<(), Trouble> {
        match self.try_read(extent)? {
            Ok(data) => {
                blocks.extend(data.blocks().map(|block| Some(self.arena.content(block))));
            }
            Err(error) if extent.blocks == 1 => {
                blocks.push(None);
                errors.push((extent, error));
            }
            // A block is damaged: read block by block.
            Err(error) => {
                errors.push((extent, error));
                for lba in extent.lba..extent.lba + extent.blocks {
                    self.survey_run(Extent { lba, blocks: 1, ..extent }, blocks, errors)?;
                }
            }
        }
        Ok(())
    }

    /// Reads blocks while no other request is pending. `None` means that the engine reports an error.
    ///
    /// # Errors
    /// [`Trouble::Stuck`].
    pub fn read(&mut self, extent: Extent) -> Result<Option<Data>, Trouble> {
        Ok(self.try_read(extent)?.ok())
    }

    fn try_read(&mut self, extent: Extent) -> Result<Result<Data, HostError>, Trouble> {
        let into = Data::zeros(&self.arena, extent.blocks as u32);
        let (answer, _) = self.ask(HostRequest::Read { extent, into: into.clone() })?;
        Ok(answer.map(|_| into))
    }
}
