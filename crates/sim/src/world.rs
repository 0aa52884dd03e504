//! The simulated world: a host, an engine and a disk, checked against the model at every step.
//!
//! Invariants:
//! * Each accepted request completes exactly once, unless the engine is dropped before.
//! * Nothing is drawn but from the seed.

mod judge;
mod member;
mod reserves;
mod rest;
mod wishes;

use std::collections::BTreeMap;
use std::rc::Rc;

use thermocline_engine::{
    Config, Extent, HostError, HostRequest, Notice, Rejected, Reply, RequestId,
};
use thermocline_format::{DeviceState, VolumeId};
use thermocline_types::{Rng, UnitId};

use crate::damage::blocks_on;
use crate::data::{Arena, Content, Data};
use crate::disk::{CrashState, Disk, Image};
use crate::faults::{Injector, Rule};
use crate::machine::{Event, Machine, PATIENCE, Trouble};
use crate::model::{Model, Outcome, PendingFlush, PendingRead, WriteNumber};
use crate::numbers;
use crate::settings::{Numbers, Settings};
use crate::workload::Wish;
use crate::wrong::Earlier;
use reserves::Reserves;

/// Openings in a row without an accepted request, after which the world ends: the device takes no writes.
const IN_VAIN: u32 = 16;

/// Mean number of power cuts per spoiling of the wrong member.
const SPOILED_ONE_IN: u64 = 2;

/// Mean number of openings after a kill per opening cut short by a power cut.
const CUT_SHORT_ONE_IN: u64 = 3;

/// Completions before the power cut, at most.
const CUT_SHORT_TURNS: u64 = 48;

/// Mean number of openings per opening without a full read: the host goes on at once, while the map is loaded.
const HASTY_ONE_IN: u64 = 4;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request was submitted, or a command completed.
    Went,
    /// All requests are done.
    Over,
    /// The pool was closed in order, or takes no writes any more: open it again.
    Down,
}

/// A request on its way.
#[derive(Debug)]
enum Pending {
    Change {
        version: WriteNumber,
        durable: bool,
        sizes: u64,
    },
    Create(WriteNumber),
    Snapshot(WriteNumber),
    Flush(PendingFlush),
    Read {
        read: PendingRead,
        into: Data,
        sizes: u64,
        /// The next change of the disk, when it was asked for.
        since: u64,
    },
    Scrub,
    Close,
    /// An invalid request: the engine must refuse it without effect.
    Nonsense,
}

/// A host, an engine and a disk.
#[derive(Debug)]
pub struct World {
    /// What the seed drew.
    pub settings: Settings,
    /// All blocks.
    pub arena: Rc<Arena>,
    /// Engine and disk.
    pub machine: Machine,
    /// The reference model.
    pub model: Model,
    /// All wrong outcomes until now.
    pub wrong: Vec<String>,
    seed: u64,
    rng: Rng,
    pending: BTreeMap<RequestId, Pending>,
    events: Vec<Event>,
    /// Requests that were accepted.
    issued: u64,
    openings: u64,
    down: bool,
    closed: bool,
    /// Whether the pool does not open any more.
    lost: bool,
    /// Requests that ended in an error.
    errors: u64,
    /// Places that the engine called damaged since the pool was opened.
    damaged: u64,
    /// Whether writes of chunks failed in the world that this one goes on from.
    writes_failed_before: bool,
    image: Image,
    /// Engine settings before the devices changed.
    before: Option<Config>,
    /// Blocks on lost devices, with the time of the loss.
    gone: BTreeMap<(VolumeId, u64), WriteNumber>,
    /// An earlier durable content of the wrong member.
    kept: Earlier,
    reserves: Reserves,
}

impl World {
    /// A world with a new pool. `rules` make commands fail from the first on; the pool is made before that.
    #[must_use]
    pub fn new(seed: u64, settings: Settings, rules: Vec<Rule>) -> World {
        let arena = Arena::new();
        let mut image = Image::new(settings.media);
        settings.groups.label(&arena, &mut image);
        let disk = Disk::new(&arena, image.clone(), settings.latency, seed);
        let disk = disk.with_groups(&settings.groups).with_wrong(settings.wrong, seed);
        let machine = Machine::format(settings.config.clone(), &arena, disk, seed);
        let mut world = World {
            settings,
            arena,
            machine,
            model: Model::default(),
            wrong: Vec::new(),
            seed,
            rng: Rng::new(seed ^ 0x0005_7E95),
            pending: BTreeMap::new(),
            events: Vec::new(),
            issued: 0,
            openings: 0,
            down: false,
            closed: false,
            lost: false,
            errors: 0,
            damaged: 0,
            writes_failed_before: false,
            image,
            before: None,
            gone: BTreeMap::new(),
            kept: Earlier::default(),
            reserves: Reserves::default(),
        };
        if let Err(trouble) = world.make_pool() {
            world.wrong.push(format!("a new pool cannot be opened: {trouble:?}"));
        }
        world.machine.disk.inject(Injector::new(rules, seed));
        world
    }

    /// The world that goes on from `image`, which a power cut left of this one, with `requests` more, and a host that
    /// draws from `seed`. The pool is opened, and what is found is judged.
    #[must_use]
    pub fn after(&self, image: &Image, requests: u64, seed: u64) -> World {
        let Settings { config, latency, .. } = &self.settings;
        let disk = Disk::new(&self.arena, image.clone(), *latency, seed);
        let disk = disk.with_groups(&self.settings.groups).with_wrong(self.settings.wrong, seed);
        let mut world = World {
            settings: Settings { requests: self.issued + requests, ..self.settings.clone() },
            arena: Rc::clone(&self.arena),
            machine: Machine::open(config.clone(), &self.arena, disk, seed),
            model: self.model.clone(),
            wrong: Vec::new(),
            seed,
            rng: Rng::new(seed),
            pending: BTreeMap::new(),
            events: Vec::new(),
            issued: self.issued,
            openings: 1,
            down: false,
            closed: false,
            lost: false,
            errors: 0,
            damaged: 0,
            writes_failed_before: self.writes_failed(),
            image: Image::new(self.settings.media),
            before: None,
            gone: self.gone.clone(),
            kept: self.kept.clone(),
            reserves: Reserves::default(),
        };
        world.machine.pages_lost_before = self.machine.pages_lost();
        world.came_back(false);
        world
    }

    fn make_pool(&mut self) -> Result<(), Trouble> {
        self.machine.wait_until_open()?;
        if self.settings.numbers == Numbers::NearTheirLimits {
            self.machine.close()?;
            let image = {
                let geometry = &self.settings.config.geometry;
                numbers::near_their_limits(
                    &self.arena,
                    geometry,
                    self.machine.disk.cache().stable(),
                )
            };
            self.machine.restart(self.settings.config.clone(), &image, self.seed);
            self.machine.wait_until_open()?;
        }
        Ok(())
    }

    /// Openings of the pool after the first.
    #[must_use]
    pub const fn openings(&self) -> u64 {
        self.openings
    }

    /// A hash of everything that happened.
    #[must_use]
    pub const fn trace(&self) -> u64 {
        self.machine.disk.trace()
    }

    /// Requests that were accepted.
    #[must_use]
    pub const fn issued(&self) -> u64 {
        self.issued
    }

    /// Carries out all immediate work: the next event is a choice.
    pub fn settle(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.machine.pump(&mut events);
        for event in events.drain(..) {
            match event {
                Event::Complete(id, result) => self.completed(id, result),
                Event::Notice(Notice::Failed) => self.went_down(),
                Event::Notice(Notice::Damaged { at, .. }) => self.called_damaged(at),
                Event::Notice(_) => {}
            }
        }
        self.events = events;
    }

    /// Runs one event.
    pub fn step(&mut self) -> Step {
        self.settle();
        self.keep_member();
        let busy = self.machine.disk.in_flight() > 0;
        let more = self.issued < self.settings.requests && !self.down;
        let closing = self.pending.values().any(|pending| matches!(pending, Pending::Close));
        let room = more && !closing && self.pending.len() < self.settings.depth;
        let tried = room && (!busy || self.rng.below(3) > 0);
        if tried && self.submit_one() {
            return Step::Went;
        }
        if self.machine.turn() {
            self.watch();
            return Step::Went;
        }
        if tried && self.pending.is_empty() {
            return self.idle();
        }
        if !self.pending.is_empty() {
            let waiting: Vec<&Pending> = self.pending.values().collect();
            self.wrong.push(format!("nothing is on its way, but these wait: {waiting:?}"));
            self.pending.clear();
            self.down = true;
        }
        match (self.down, more) {
            (true, _) => Step::Down,
            (false, true) => Step::Went,
            (false, false) => Step::Over,
        }
    }

    /// Stops an engine that works without end, as a wrong outcome.
    fn watch(&mut self) {
        if self.machine.turns > PATIENCE {
            self.wrong.push("the engine goes on and on".into());
            self.give_up();
        }
    }

    /// Ends a step without pending work and without an accepted request.
    fn idle(&mut self) -> Step {
        let undecided = self.model.volumes().next().is_none() && self.model.sizes_open();
        if !undecided {
            self.wrong.push("no request is accepted, though none is in work".into());
            self.give_up();
        }
        // Whether a volume was made, or deleted, after an error, shows when the pool is opened again.
        self.down = true;
        Step::Down
    }

    /// Ends the world: its pool cannot be judged any more.
    fn give_up(&mut self) {
        (self.down, self.lost) = (true, true);
        self.issued = self.settings.requests;
    }

    /// Submits a request. Returns whether it was accepted.
    fn submit_one(&mut self) -> bool {
        let volumes: Vec<_> = self.model.volumes().collect();
        if volumes.is_empty() && self.model.sizes_open() {
            return false;
        }
        let wish = self.draw(&volumes);
        if matches!(wish, Wish::Close) && !self.pending.is_empty() {
            return false;
        }
        self.submit_wish(wish)
    }

    /// Whether the world can go on: no outcome was wrong, and the pool opens.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.wrong.is_empty() && !self.lost
    }

    /// Whether requests may be submitted: the pool is open, and is not being closed.
    #[must_use]
    pub fn takes_requests(&self) -> bool {
        let closing = self.pending.values().any(|pending| matches!(pending, Pending::Close));
        !self.down && !closing
    }

    /// Whether no request is on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Opens the pool again, if it was closed in order or takes no writes any more, and all requests are answered.
    pub fn reopen_if_down(&mut self) {
        if self.down && self.is_idle() && self.goes_on() {
            self.reopen();
        }
    }

    /// Submits the request of `wish`. Returns whether the engine accepted it.
    pub fn submit_wish(&mut self, wish: Wish) -> bool {
        let id = self.machine.request_id();
        let (request, pending) = self.request(wish);
        match self.machine.engine.submit(self.machine.now, id, request) {
            Ok(()) => {
                self.issued += 1;
                self.pending.insert(id, pending);
                true
            }
            Err(rejected) => {
                self.rejected(pending, rejected);
                false
            }
        }
    }

    /// Submits an invalid request: too many blocks, beyond every volume, or of a missing volume.
    pub fn submit_nonsense(&mut self, request: HostRequest<Data>) {
        let id = self.machine.request_id();
        match self.machine.engine.submit(self.machine.now, id, request) {
            Ok(()) => _ = self.pending.insert(id, Pending::Nonsense),
            Err(Rejected::Malformed | Rejected::Busy) => {}
            Err(other) => self.wrong.push(format!("nonsense was rejected: {other}")),
        }
    }

    fn rejected(&mut self, pending: Pending, why: Rejected) {
        match pending {
            Pending::Change { version, .. } => self.model.cancel(version),
            Pending::Create(version) | Pending::Snapshot(version) => self.model.cancel(version),
            Pending::Read { read, .. } => self.model.drop_read(read),
            Pending::Flush(_) | Pending::Scrub | Pending::Close | Pending::Nonsense => {}
        }
        if why != Rejected::Busy {
            self.wrong.push(format!("a request was rejected: {why}"));
        }
    }

    fn completed(&mut self, id: RequestId, result: Result<Reply, HostError>) {
        let Some(pending) = self.pending.remove(&id) else {
            self.wrong.push(format!("{id:?} completed, but was not on its way"));
            return;
        };
        if let Err(error) = result {
            self.errors += 1;
            self.judge_error(&pending, error);
        }
        match (pending, result) {
            (Pending::Change { version, durable, .. }, Ok(_)) => {
                self.has_found_room(version);
                let outcome = if durable { Outcome::Durable } else { Outcome::Done };
                self.model.end_change(version, outcome);
            }
            (Pending::Change { version, .. }, Err(_)) => {
                self.model.end_change(version, Outcome::Failed);
            }
            (Pending::Create(version), Ok(Reply::Created(id))) => {
                self.model.end_create(version, Some(id));
                self.reserve(id);
            }
            (Pending::Create(version), Ok(Reply::Done | Reply::Scrubbed { .. })) => {
                self.wrong.push(format!("creation {version} was answered without a volume"));
            }
            (Pending::Create(version), Err(_)) => self.model.end_create(version, None),
            (Pending::Snapshot(version), Ok(Reply::Created(id))) => {
                self.model.end_snapshot(version, Some(id));
            }
            (Pending::Snapshot(version), Ok(_) | Err(HostError::Failed)) => {
                self.model.end_snapshot(version, None);
            }
            (Pending::Snapshot(version), Err(_)) => self.model.cancel(version),
            (Pending::Flush(flush), Ok(_)) => self.model.end_flush(flush),
            (Pending::Read { read, into, .. }, Ok(_)) => {
                let arena = Rc::clone(&self.arena);
                let contents = into.blocks().map(|block| arena.content(block));
                if let Some(verdict) = self.model.end_read(read, contents) {
                    self.object(&verdict);
                }
            }
            (Pending::Read { read, .. }, Err(_)) => self.model.drop_read(read),
            (Pending::Close, Ok(_)) => {
                let flush = self.model.begin_flush(None);
                self.model.end_flush(flush);
                (self.down, self.closed) = (true, true);
                self.judge_closed();
            }
            (Pending::Close, Err(_)) => self.down = true,
            (Pending::Scrub, Ok(Reply::Scrubbed { damaged, .. })) => self.scrubbed(damaged),
            (Pending::Scrub, Ok(other)) => {
                self.wrong.push(format!("a scrub was answered with {other:?}"));
            }
            (Pending::Nonsense, Ok(reply)) => {
                self.wrong.push(format!("nonsense was answered with {reply:?}"));
            }
            (Pending::Flush(_) | Pending::Scrub | Pending::Nonsense, Err(_)) => {}
        }
    }

    /// The engine is dropped and the pool opened again, on a disk that lost power and kept of its cache what `state`
    /// says. The model goes on from what is found.
    pub fn crash(&mut self, state: &CrashState) {
        let mut image = std::mem::replace(&mut self.image, Image::new(self.settings.media));
        self.machine.disk.cut(state, &mut image);
        let clean = self.closed && self.machine.engine.is_closed_clean();
        let changes = self.change_devices(&mut image);
        if self.settings.wrong.is_some() && self.rng.below(SPOILED_ONE_IN) == 0 {
            let mut rng = Rng::new(self.rng.next_u64());
            self.spoil(&mut image, &mut rng);
        }
        let seed = self.begin_anew();
        self.machine.restart(self.settings.config.clone(), &image, seed);
        self.image = image;
        if changes { self.open_or_be_cut_short(clean) } else { self.came_back(clean) }
    }

    /// The process is killed, or has ended, and the pool is opened again while the device goes on; now and then power
    /// fails during that. The model goes on from what is found.
    pub fn reopen(&mut self) {
        if !self.settings.changes.is_empty() && self.rng.below(2) == 0 {
            let state = self.machine.disk.cache().random_state(&mut self.rng);
            return self.crash(&state);
        }
        let clean = self.closed && self.machine.engine.is_closed_clean();
        let seed = self.begin_anew();
        self.machine.kill(self.settings.config.clone(), seed);
        self.open_or_be_cut_short(clean);
    }

    /// Opens the pool; now and then power fails during that, and it is opened again.
    fn open_or_be_cut_short(&mut self, clean: bool) {
        if self.rng.below(CUT_SHORT_ONE_IN) > 0 {
            return self.came_back(clean);
        }
        match self.machine.run_until_open(self.rng.below(CUT_SHORT_TURNS)) {
            Ok(_) | Err(Trouble::Stopped) => {
                let state = self.machine.disk.cache().random_state(&mut self.rng);
                self.crash(&state);
            }
            Err(trouble) => self.did_not_open(&trouble),
        }
    }

    /// The remaining devices would be too small: the devices stay unchanged.
    fn open_as_before(&mut self, before: Config) {
        self.settings.config = before;
        self.settings.changes.clear();
        let seed = self.begin_anew();
        self.machine.kill(self.settings.config.clone(), seed);
        self.came_back(false);
    }

    /// May change the devices of the next opening. A device is added; or, in a closed pool, a device becomes draining,
    /// lost, or, once empty, detached and wiped. Returns whether the devices changed.
    fn change_devices(&mut self, image: &mut Image) -> bool {
        let Some(next) = self.settings.changes.first() else { return false };
        let in_state = |state| {
            let mut devices = next.geometry.device_units();
            devices.find(|(device, _)| next.geometry.device(*device).state == state)
        };
        if let Some((device, units)) = in_state(DeviceState::Detached) {
            if !self.closed || self.machine.engine.units_in_use(device) > 0 {
                return false;
            }
            units.map(UnitId).for_each(|unit| image.wipe(unit));
        } else if in_state(DeviceState::Draining).is_some() {
            if !self.closed {
                return false;
            }
        } else if let Some((_, units)) = in_state(DeviceState::Lost) {
            if !self.closed || self.atlas_is_damaged() {
                return false;
            }
            // Only a device without superblock records and map pages is wiped.
            if let Some(blocks) = blocks_on(&self.arena, image, &units) {
                units.map(UnitId).for_each(|unit| image.wipe(unit));
                let now = self.model.now();
                self.gone.extend(blocks.into_iter().map(|block| (block, now)));
            }
        } else if self.rng.below(3) == 0 {
            return false;
        }
        let bug = self.settings.config.bug;
        let next = Config { bug, ..self.settings.changes.remove(0) };
        self.before = Some(std::mem::replace(&mut self.settings.config, next));
        true
    }

    /// Forgets all pending requests, and returns the seed of the next opening.
    fn begin_anew(&mut self) -> u64 {
        self.openings += 1;
        self.pending.clear();
        self.events.clear();
        (self.down, self.closed, self.damaged) = (false, false, 0);
        self.seed.wrapping_add(self.openings)
    }

    /// Opens the pool and judges its content. A pool closed in order must have nothing to replay.
    fn came_back(&mut self, clean: bool) {
        match self.machine.wait_until_open() {
            Ok(opened) => self.judge_opened(opened, clean),
            Err(trouble) => return self.did_not_open(&trouble),
        }
        let hasty = self.rng.below(HASTY_ONE_IN) == 0;
        self.look_around(hasty);
        self.reserve_again(!hasty);
    }

    /// Reads all blocks to find read errors. No request may be pending.
    pub fn read_all(&mut self) {
        if !self.takes_requests() {
            return;
        }
        match self.machine.survey() {
            Ok((_, unreadable)) => {
                for (extent, error) in unreadable {
                    self.judge_unreadable(extent, error, Model::acknowledged);
                }
            }
            Err(trouble) => self.wrong.push(format!("{trouble:?}")),
        }
    }

    /// Judges the volumes; reads all blocks unless `hasty`.
    fn look_around(&mut self, hasty: bool) {
        if hasty {
            let found = self.machine.unseen();
            return self.judge_found(&found);
        }
        match self.machine.survey() {
            Ok((found, unreadable)) => {
                for (extent, error) in unreadable {
                    self.judge_unreadable(extent, error, Model::flushed);
                }
                self.judge_found(&found);
            }
            Err(trouble) => self.wrong.push(format!("after a crash: {trouble:?}")),
        }
    }

    /// What a block of the volumes shows now, for tests.
    ///
    /// # Errors
    /// [`Trouble::Stuck`].
    pub fn look(&mut self, extent: Extent) -> Result<Option<Vec<Content>>, Trouble> {
        let data = self.machine.read(extent)?;
        Ok(data.map(|data| data.blocks().map(|block| self.arena.content(block)).collect()))
    }

    /// Runs to the end of the requests, and then sees that the pool lives on. One step in `crash_one_in` is a power cut
    /// or, half as often, a kill of the process; 0 means none is.
    pub fn run(&mut self, crash_one_in: u64) {
        self.run_requests(crash_one_in);
        self.live_on();
    }

    /// Runs to the end of the requests, and no further.
    pub fn run_requests(&mut self, crash_one_in: u64) {
        let (mut asked, mut in_vain) = (self.issued, 0);
        while self.wrong.is_empty() && in_vain < IN_VAIN {
            self.settle();
            // Background work after the last request may take longer than the time between two power cuts.
            if crash_one_in > 0 && in_vain < IN_VAIN / 2 && self.rng.below(crash_one_in) == 0 {
                in_vain = if self.issued == asked { in_vain + 1 } else { 0 };
                asked = self.issued;
                if self.rng.below(3) == 0 {
                    self.reopen();
                } else {
                    let state = self.machine.disk.cache().random_state(&mut self.rng);
                    self.crash(&state);
                }
                continue;
            }
            match self.step() {
                Step::Went => {}
                Step::Down => {
                    in_vain = if self.issued == asked { in_vain + 1 } else { 0 };
                    asked = self.issued;
                    self.reopen();
                }
                Step::Over => break,
            }
            if self.down && self.issued == self.settings.requests && self.pending.is_empty() {
                break;
            }
        }
    }
}
