//! Simulated devices: carry out the engine's commands on real bytes, in virtual time. What the engine's commands are in
//! bytes, and which of them wait for each other, is decided by the code that serves real devices.
//!
//! Invariants:
//! * Each command completes exactly once, at a time that follows from the seed; commands overtake each other.
//! * A write is volatile from its submission until a flush that was submitted after its completion has completed, also
//!   when the host is killed meanwhile.
//! * A zone is written at its write pointer only, and by one command at a time: the simulation panics if anything else
//!   is tried, unless a write to that zone has failed before.

mod atlas;
mod cache;
mod carry;
mod groups;
mod image;
mod unreliable;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;

use thermocline_array::Token;
use thermocline_engine::wire::{
    Encoding as _, InBytes, IoCmd, IoJob, IoStep, Translator, ZoneOrder,
};
use thermocline_engine::{Bug, Chunk, DeviceCmd, DeviceError, Done, OpId, UnitCondition};
use thermocline_format::{BLOCK_BYTES, Geometry, Location, MediaClass};
use thermocline_types::{DeviceId, Rng, Time, UnitId, Version};

use crate::data::{Arena, Data, Sector};
use crate::faults::{CommandKind, Fault, Injector};
use crate::wrong::Wrong;
use groups::{Answer, Layer, ToMember};
use unreliable::{Conduct, DEADLINE, Instead, Unreliable, hung};

pub use atlas::{Atlas, Place, Struck};
pub use cache::{Cache, CrashState};
pub use groups::{GroupSpec, Groups};
pub use image::{Change, DiskKind, DiskShape, Effect, Fate, Image, Rest, Tear};

/// So many times as long as others a command takes that [fails late](Fault::FailLate).
const LATE: u32 = 8;

/// How long commands take: a constant and something random up to as much again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// A write or reset.
    pub write: Time,
    /// A read.
    pub read: Time,
    /// A flush.
    pub flush: Time,
    /// Mean number of commands per command that takes fifty times as long; 0 for no such delays.
    pub spike_one_in: u64,
}

impl Latency {
    /// Commands complete at once, in the order of their submission.
    pub const NONE: Latency =
        Latency { write: Time::ZERO, read: Time::ZERO, flush: Time::ZERO, spike_one_in: 0 };
}

/// How a command ended.
#[derive(Debug)]
pub struct Completion {
    /// Which command.
    pub op: OpId,
    /// How.
    pub result: Result<Done<Data>, DeviceError>,
    /// The version that answered a read, because a member reported an error.
    pub degraded: Option<Version>,
}

/// What these devices hold.
type Bytes = InBytes<Data>;

/// A command for media.
#[derive(Debug)]
struct Request {
    op: OpId,
    cmd: IoCmd<Bytes>,
    job: IoJob<Bytes>,
    /// The chunk that the command writes, if any: for the atlas.
    chunk: Option<Arc<Chunk<Data>>>,
}

/// A command on its way.
#[derive(Debug)]
struct Due {
    at: Time,
    tick: u64,
    owner: Owner,
    work: Work,
}

/// Whose command it is.
#[derive(Debug)]
enum Owner {
    Engine(OpId, IoJob<Bytes>),
    /// That of a group, to a member.
    Group {
        group: usize,
        member: usize,
        token: Token,
    },
}

/// Work left for the completion of a command.
#[derive(Debug)]
enum Work {
    Fail(DeviceError),
    /// As a change, but an error is reported.
    FailChange(u64, DeviceError),
    Nothing,
    Change(u64),
    Flush {
        device: DeviceId,
        submitted: u64,
    },
    /// As `Flush`, but some covered changes are lost.
    Forget(DeviceId, u64, DeviceError),
    Read(Location, Data),
    /// As `Read`, but with wrong bytes.
    Misread(Location, Data, Instead),
    Report,
    /// A group has completed the command.
    Done(Result<(), DeviceError>, Option<Version>),
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.tick == other.tick
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.tick).cmp(&(other.at, other.tick))
    }
}

/// The device.
#[derive(Debug)]
pub struct Disk {
    arena: Rc<Arena>,
    translator: Translator<Bytes>,
    /// What the pool sees of the medium, where some of its devices are groups.
    layer: Layer,
    /// The device of the medium whose answers are wrong now and then.
    unreliable: Option<Unreliable>,
    /// Whether the pool is open since the host started.
    in_service: bool,
    /// The device of the medium that returns no command, by [`Fault::Hang`].
    hangs: Option<DeviceId>,
    /// Changes that [`Fault::TearWithin`] struck.
    within: BTreeSet<u64>,
    /// Waiting commands to zones, by the tick of their submission.
    order: ZoneOrder<u64, Request>,
    cache: Cache,
    conditions: Vec<UnitCondition>,
    /// Zones with a failed write: the engine cannot know the write pointer.
    broken: Vec<bool>,
    latency: Latency,
    rng: Rng,
    injector: Injector,
    due: BinaryHeap<Reverse<Due>>,
    /// Counts submissions and completions.
    tick: u64,
    trace: u64,
    atlas: Atlas,
    host_believes_its_cache: bool,
}

impl Disk {
    /// A device that holds `image`.
    #[must_use]
    pub fn new(arena: &Rc<Arena>, image: Image, latency: Latency, seed: u64) -> Disk {
        let geometry = image.media().geometry;
        let units = geometry.units() as usize;
        Disk {
            arena: Rc::clone(arena),
            translator: Translator::new(InBytes::new(geometry, Rc::clone(arena))),
            layer: Layer::new(arena, &Groups::default()),
            unreliable: None,
            in_service: false,
            hangs: None,
            within: BTreeSet::new(),
            order: ZoneOrder::default(),
            cache: Cache::new(image),
            conditions: vec![UnitCondition::Good; units],
            broken: vec![false; units],
            latency,
            rng: Rng::new(seed),
            injector: Injector::new(Vec::new(), seed),
            due: BinaryHeap::new(),
            tick: 0,
            trace: 0,
            atlas: Atlas::default(),
            host_believes_its_cache: false,
        }
    }

    /// The medium below a pool in which some devices are groups. It is opened by [`Disk::use_as`] and
    /// [`Disk::restart`].
    #[must_use]
    pub fn with_groups(mut self, groups: &Groups) -> Disk {
        self.layer = Layer::new(&self.arena, groups);
        self
    }

    /// A device of the medium that answers as this member does, from now on.
    #[must_use]
    pub fn with_wrong(mut self, wrong: Option<Wrong>, seed: u64) -> Disk {
        let media = *self.cache.media();
        self.unreliable = wrong.map(|wrong| {
            let mut all = media.geometry.device_units();
            let (_, units) =
                all.find(|(device, _)| *device == wrong.member).expect("the medium has it");
            Unreliable::new(wrong, units, media.geometry.blocks_per_unit(), seed)
        });
        self
    }

    /// Sets the seed of the unreliable device's answers.
    pub fn reseed(&mut self, seed: u64) {
        if let Some(device) = &mut self.unreliable {
            device.reseed(seed);
        }
    }

    /// The pool is open: a device that hangs may do so from now on.
    pub fn serve(&mut self) {
        self.in_service = true;
    }

    /// Whether members of a group are refused.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.layer.refuses()
    }

    /// What a read of a place of the pool would find if all members of its device were right.
    #[must_use]
    pub fn peek(&self, at: Location, blocks: u32) -> Vec<Sector> {
        if self.layer.is_none() {
            return self.cache.read(at, blocks).into_owned();
        }
        let bytes = self.cache.media().geometry.logical_block().bytes() as u64;
        let block = |nth| Location { block: at.block + nth, ..at };
        let each = (0..blocks).map(|nth| self.layer.on_medium(block(nth), bytes));
        each.flat_map(|at| self.cache.read(at, 1).into_owned()).collect()
    }

    /// Whether faults explain a block of the pool at `at` by what `explains` says of its places on the medium. Where a
    /// group can do without one member, they must have hit two.
    pub fn is_explained(&self, at: Location, explains: impl Fn(&Atlas, &Place) -> bool) -> bool {
        let pieces = self.layer.pieces(at, BLOCK_BYTES as u64);
        pieces.into_iter().any(|(places, bytes, needed)| {
            let blocks = (bytes as usize)
                .div_ceil(self.cache.media().geometry.logical_block().bytes())
                as u32;
            let hit = |at: &&Location| explains(&self.atlas, &self.place(**at, blocks));
            places.iter().filter(hit).count() >= needed
        })
    }

    /// The unit of the pool of which a unit of the medium has a part, if any.
    #[must_use]
    pub fn in_pool(&self, unit: UnitId) -> Option<UnitId> {
        self.layer.in_pool(unit)
    }

    /// Whether all members of all groups are current.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.layer.is_whole()
    }

    /// Sets the pool's geometry of the device, which may have more units than the pool uses.
    pub fn use_as(&mut self, geometry: Geometry) {
        self.translator = Translator::new(InBytes::new(geometry, Rc::clone(&self.arena)));
        self.layer.close();
    }

    /// Finds the groups of the pool, once per start of the host.
    fn find_groups(&mut self) {
        if !self.layer.is_open() {
            let geometry = *self.translator.encoding().geometry();
            self.layer.open(self.cache.current(), &geometry);
        }
    }

    /// Has the driver of this device make a deliberate bug, if it is one of the driver's.
    pub fn make(&mut self, bug: Option<Bug>) {
        self.translator.make(bug);
        self.order.make(bug);
    }

    /// The device has lost power and comes back with `image`: nothing is on its way, and commands are counted on.
    pub fn restart(&mut self, image: &Image) {
        self.cache.restart(image);
        self.atlas.host_starts();
        self.forget_host();
        self.layer.close();
    }

    /// The host was killed and starts anew, and reads its media past every cache of its own. The device went on: its
    /// cache is as volatile as before.
    pub fn outlive_host(&mut self) {
        self.tick += 1;
        self.atlas.host_starts();
        self.forget_host();
        let shown = self.cache.current().clone();
        self.cache.outlive_host(self.tick, &mut self.rng);
        if self.host_believes_its_cache {
            self.cache.show(shown);
        }
        self.layer.close();
    }

    /// Forgets the host's pending commands.
    fn forget_host(&mut self) {
        if let Some(device) = &mut self.unreliable {
            device.host_starts();
        }
        (self.in_service, self.hangs) = (false, None);
        self.due.clear();
        self.order.clear();
        self.broken.fill(false);
    }

    /// From now on the host trusts its own cache, even after a restart. A deliberate mistake: a test checks that the
    /// simulation notices it.
    pub fn let_host_believe_its_cache(&mut self) {
        self.host_believes_its_cache = true;
    }

    /// Makes commands fail from now on.
    pub fn inject(&mut self, injector: Injector) {
        self.injector = injector;
    }

    /// What was made to fail.
    #[must_use]
    pub const fn injector(&self) -> &Injector {
        &self.injector
    }

    /// As [`Disk::injector`], to change it.
    pub fn injector_mut(&mut self) -> &mut Injector {
        &mut self.injector
    }

    /// The cache, for crash states.
    #[must_use]
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// What faults have hit.
    #[must_use]
    pub const fn atlas(&self) -> &Atlas {
        &self.atlas
    }

    /// As [`Disk::atlas`], to tell it more.
    pub fn atlas_mut(&mut self) -> &mut Atlas {
        &mut self.atlas
    }

    /// Notes what the power cut `state` takes, before the device comes back without it.
    pub fn lose(&mut self, state: &CrashState) {
        for (change, fate) in self.cache.pending().iter().zip(&state.0) {
            if *fate != Fate::Kept {
                self.atlas.lose(change.number);
            }
        }
    }

    /// Replaces sectors of a user's block on media, flushed or not, as damage does.
    pub fn damage(&mut self, unit: UnitId, start: u32, sectors: &[Sector]) {
        let place = Place { unit, sectors: start..start + sectors.len() as u32 };
        self.atlas.hit(&place, Struck::Other, self.cache.next_change());
        self.cache.damage(unit, start, sectors);
    }

    /// A hash of all commands so far, their order and their times.
    #[must_use]
    pub const fn trace(&self) -> u64 {
        self.trace
    }

    /// When the next command completes.
    #[must_use]
    pub fn next_completion(&self) -> Option<Time> {
        self.due.peek().map(|Reverse(due)| due.at)
    }

    /// Commands on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.due.len()
    }

    /// Number of active zones of a class of media, superblock zones excluded; 0 on media without zones. An active zone
    /// is neither empty nor full nor finished.
    #[must_use]
    pub fn active_zones(&self, class: MediaClass) -> u32 {
        let media = self.cache.media();
        let active = |unit: &UnitId| {
            let pointer = self.cache.current().pointer(*unit);
            (1..media.sectors_per_unit()).contains(&pointer)
                && self.conditions[unit.index()] == UnitCondition::Good
                && !media.geometry.is_superblock_unit(*unit)
        };
        let units = media.geometry.units_of(class).map(UnitId);
        if media.is_zoned() { units.filter(active).count() as u32 } else { 0 }
    }

    /// The unique number of the next flush, if a flush completes next.
    #[must_use]
    pub fn next_flush(&self) -> Option<u64> {
        let Reverse(due) = self.due.peek()?;
        matches!(due.work, Work::Flush { .. }).then_some(due.tick)
    }

    /// Takes a command.
    ///
    /// # Panics
    /// When the command breaks a rule of the device: out of bounds, not at the write pointer of its zone, or
    /// overlapping one in flight.
    pub fn submit(&mut self, now: Time, op: OpId, cmd: DeviceCmd<Data>) {
        let chunk = match &cmd {
            DeviceCmd::WriteChunk(chunk) => Some(Arc::clone(chunk)),
            _ => None,
        };
        let (cmd, job) = self.translator.start(cmd);
        self.enter(now, Request { op, cmd, job, chunk });
    }

    /// Hands a command to media, in its turn.
    fn enter(&mut self, now: Time, request: Request) {
        self.tick += 1;
        let (tick, zoned) = (self.tick, self.cache.media().is_zoned());
        let request = match request.cmd.changes().filter(|_| zoned) {
            Some(zone) => self.order.enter(zone, tick, request),
            None => Some(request),
        };
        if let Some(request) = request {
            self.start(now, tick, request);
        }
    }

    /// Media begin with a command, or the group does that it is for.
    fn start(&mut self, now: Time, tick: u64, request: Request) {
        let Request { op, cmd, job, chunk } = request;
        if self.layer.is_none() || matches!(cmd, IoCmd::Report) {
            return self.start_on_media(now, tick, Owner::Engine(op, job), cmd, chunk.as_deref());
        }
        self.find_groups();
        match self.layer.group_of(&cmd) {
            None => {
                let cmd = self.on_medium(cmd);
                self.start_on_media(now, tick, Owner::Engine(op, job), cmd, chunk.as_deref());
            }
            Some(group) => {
                if let Some((op, job, result)) = self.layer.submit(group, op, cmd, job) {
                    self.answered(now, (op, job, result), None);
                }
                self.pump(now);
            }
        }
    }

    /// A command to a plain device of the pool as one to the medium.
    fn on_medium(&self, cmd: IoCmd<Bytes>) -> IoCmd<Bytes> {
        let unit = |unit| self.layer.plain(unit).expect("it is on no group");
        let place = |at: Location| Location { unit: unit(at.unit), ..at };
        match cmd {
            IoCmd::Write { at, parts, class } => IoCmd::Write { at: place(at), parts, class },
            IoCmd::Read { at, into, version } => IoCmd::Read { at: place(at), into, version },
            IoCmd::Reset(one) => IoCmd::Reset(unit(one)),
            IoCmd::Zero(one) => IoCmd::Zero(unit(one)),
            IoCmd::Finish(one) => IoCmd::Finish(unit(one)),
            IoCmd::Flush(device) => {
                let geometry = self.translator.encoding().geometry();
                let device = self.layer.plain_device(device, geometry);
                IoCmd::Flush(device.expect("it is no group"))
            }
            other => other,
        }
    }

    /// Starts what groups ask of their members, and ends what they have answered.
    fn pump(&mut self, now: Time) {
        while let Some(ToMember { group, member, token, cmd }) = self.layer.poll_command(now) {
            self.tick += 1;
            let owner = Owner::Group { group, member, token };
            self.start_on_media(now, self.tick, owner, cmd, None);
        }
        while let Some((answer, degraded)) = self.layer.poll_answer() {
            self.answered(now, answer, degraded);
        }
    }

    fn answered(&mut self, at: Time, (op, job, result): Answer, degraded: Option<Version>) {
        self.tick += 1;
        let (tick, work) = (self.tick, Work::Done(result, degraded));
        self.due.push(Reverse(Due { at, tick, owner: Owner::Engine(op, job), work }));
    }

    fn start_on_media(
        &mut self,
        now: Time,
        tick: u64,
        owner: Owner,
        cmd: IoCmd<Bytes>,
        chunk: Option<&Chunk<Data>>,
    ) {
        let kind = CommandKind::of(&cmd, &self.cache.media().geometry);
        let mut fault = self.injector.decide(kind);
        let mut at = now + self.duration(kind);
        match fault {
            Some(Fault::Delay(by)) => at += by,
            Some(Fault::FailLate(error)) => {
                (0..LATE).for_each(|_| at += self.duration(kind));
                fault = Some(Fault::Fail(error));
            }
            _ => {}
        }
        self.note(kind as u64, at.as_nanos());
        let answer = self.answer(&cmd, kind, fault);
        let fault = fault.filter(|fault| !matches!(fault, Fault::Misread | Fault::Hang));
        let work = match (answer, cmd) {
            (Conduct::Fail(error), _) => Work::Fail(error),
            (Conduct::Misread(instead), IoCmd::Read { at, into, .. }) => {
                Work::Misread(at, into, instead)
            }
            (Conduct::Hang, cmd) => {
                at += DEADLINE;
                hung(&self.begin(cmd, chunk, kind, fault))
            }
            (Conduct::Misread(_) | Conduct::Right, cmd) => {
                let work = self.begin(cmd, chunk, kind, fault);
                let failed =
                    matches!(work, Work::Fail(_) | Work::FailChange(..) | Work::Forget(..));
                if failed && kind != CommandKind::Read {
                    self.atlas.failed(kind);
                }
                work
            }
        };
        self.due.push(Reverse(Due { at, tick, owner, work }));
    }

    /// Completes the command to media that is next. Tells if a command of the engine is complete by that.
    pub fn complete(&mut self) -> Option<Completion> {
        let Reverse(Due { at, tick, owner, work }) = self.due.pop()?;
        self.tick += 1;
        let (op, job) = match owner {
            Owner::Engine(op, job) => (op, job),
            Owner::Group { group, member, token } => {
                self.note(token.0, self.tick);
                let result = self.end(work);
                self.layer.completed(group, member, token, result);
                self.pump(at);
                return None;
            }
        };
        self.note(op.0, self.tick);
        let degraded = match &work {
            Work::Done(_, degraded) => *degraded,
            _ => None,
        };
        let step = match work {
            Work::Report => self.translator.reported(job, Ok(self.report())),
            Work::Fail(error) if job.is_report() => self.translator.reported(job, Err(error)),
            work => {
                let result = self.end(work);
                self.translator.go_on(job, result)
            }
        };
        if let Some((_, tick, next)) = self.order.leave(tick) {
            self.start(at, tick, next);
        }
        match step {
            IoStep::Answer(result) => Some(Completion { op, result, degraded }),
            IoStep::Io(cmd, job) => {
                self.enter(at, Request { op, cmd, job, chunk: None });
                None
            }
        }
    }

    /// Does what a command does when it is complete.
    fn end(&mut self, work: Work) -> Result<(), DeviceError> {
        match work {
            Work::Fail(error) => Err(error),
            Work::FailChange(number, error) => {
                self.cache.complete(number, self.tick);
                Err(error)
            }
            Work::Nothing | Work::Report => Ok(()),
            Work::Change(number) => {
                self.cache.complete(number, self.tick);
                Ok(())
            }
            Work::Flush { device, submitted } => {
                let media = *self.cache.media();
                let durable = self.cache.flush(device, submitted).into_iter();
                // A finish changes no data.
                for change in durable.filter(|change| !matches!(change.effect, Effect::Finish)) {
                    let (start, end) = change.range(&media);
                    let place = Place { unit: change.unit, sectors: start..end };
                    self.atlas.durable(change.number, &place, self.cache.next_change());
                }
                Ok(())
            }
            Work::Forget(device, submitted, error) => {
                self.cache.forget(device, submitted, self.injector.rng());
                Err(error)
            }
            Work::Read(at, into) => self.read(at, &into),
            Work::Misread(at, into, instead) => self.misread(at, &into, instead),
            Work::Done(result, _) => result,
        }
    }

    fn duration(&mut self, kind: CommandKind) -> Time {
        let base = match kind {
            CommandKind::Read => self.latency.read,
            CommandKind::Flush => self.latency.flush,
            CommandKind::Report => Time::ZERO,
            _ => self.latency.write,
        };
        if base == Time::ZERO {
            return base;
        }
        let spikes = self.latency.spike_one_in;
        let factor = if spikes > 0 && self.rng.below(spikes) == 0 { 50 } else { 1 };
        Time(factor * (base.as_nanos() + self.rng.below(base.as_nanos())))
    }

    fn note(&mut self, what: u64, when: u64) {
        let mixed = self.trace.rotate_left(5) ^ what.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ when;
        // Multiplier of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
        self.trace = mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
}

#[cfg(test)]
mod tests;
